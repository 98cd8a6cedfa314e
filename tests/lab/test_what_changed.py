"""What changed on pages: how much, below which headings, and what changed on many at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.registry.commit.changes import unpack_stored_change
from tests.crawls.commands import path_of
from tests.lab.lab import Lab, Page, page
from tests.lab.lab_crawl import LabCrawl

CHANGES = """
SELECT r.url, c.words, c.added, c.removed, c.line_count, c.lines, c.detail, c.is_shared, c.body
  FROM change c JOIN record r ON r.no = c.record WHERE c.run = {run} ORDER BY r.url
"""


def changes(lab: Lab, run: int) -> dict[str, tuple]:
    """The changes of a run by path: the change, whether it is shared, the former body."""
    return {
        url.rsplit("/", 1)[1]: (
            unpack_stored_change(columns),
            bool(shared),
            body,
        )
        for url, *columns, shared, body in lab.rows(CHANGES.format(run=run))
    }


def lines_of(text: str, year: int) -> str:
    return f"<h1>Lamps</h1><p>{text}</p><h2>Notice</h2><p>Copyright {year} by Lamp Works</p>"


def site_of(lab: Lab, year: int, *texts: str) -> None:
    lab.pages["/"] = page("Home", *(f"/{at}" for at in range(len(texts))))
    for at, text in enumerate(texts):
        lab.pages[f"/{at}"] = f"<title>Lamp {at}</title>" + lines_of(text, year)


def test_a_modified_page_stores_what_changed(lab: Lab):
    site_of(lab, 2025, "the red lamp glows")
    lab.run()
    (body,) = lab.rows("SELECT hex(body_hash) FROM record WHERE url LIKE '%/0'")[0]
    site_of(lab, 2025, "the blue lamp glows brightly")
    lab.run()

    (change, shared, former), *others = changes(lab, 2).values()

    assert others == []
    assert (change.text.added, change.text.removed) == (2, 1)
    assert [(h.heading, h.added, h.removed) for h in change.text.headings] == [("Lamps", 2, 1)]
    assert [(line.is_added, line.text) for line in change.text.lines] == [
        (False, "the red lamp glows"),
        (True, "the blue lamp glows brightly"),
    ]
    assert (change.former_title, shared) == (None, False)
    assert bytes(former).hex().upper() == body


def test_a_year_that_changed_on_every_page_is_stored_once(lab: Lab):
    site_of(lab, 2025, "one", "two", "three", "four")
    lab.run()
    site_of(lab, 2026, "one", "two", "three and a half", "four")
    lab.run()

    found = changes(lab, 2)
    shared = lab.rows("SELECT pages, is_added, text FROM shared_change ORDER BY is_added")

    assert {path: is_shared for path, (_, is_shared, _) in found.items()} == {
        "0": True,
        "1": True,
        "2": False,
        "3": True,
    }
    assert [(pages, bool(is_added), text) for pages, is_added, text in shared] == [
        (4, False, "Copyright 2025 by Lamp Works"),
        (4, True, "Copyright 2026 by Lamp Works"),
    ]


def test_a_new_title_is_a_change_without_words(lab: Lab):
    lab.pages["/"] = "<title>Old</title><h1>Lamps</h1><p>glow</p>"
    lab.run()
    lab.pages["/"] = "<title>New</title><h1>Lamps</h1><p>glow</p>"
    lab.run()

    ((change, shared, _),) = changes(lab, 2).values()

    assert (change.former_title, change.text.lines, shared) == ("Old", (), False)


def test_unchanged_pages_store_nothing(lab: Lab):
    site_of(lab, 2025, "one", "two")
    lab.run()
    lab.run()
    lab.run(force=1)

    assert lab.rows("SELECT count(*) FROM change") == [(0,)]


def listed(lab: Lab, *words: str) -> list[dict[str, Any]]:
    """What `changes` prints."""
    lines = lab.crawl.run("changes", "--format", "jsonl", *words).out.splitlines()
    return [json.loads(line) for line in lines]


def kinds(changes: list[dict[str, Any]]) -> list[tuple[int, str, str | None]]:
    """Run, kind and path of each change."""
    return [(c["run"], c["kind"], c["url"] and path_of(c["url"])) for c in changes]


def test_changes_tells_what_happened_to_each_page(lab: Lab):
    lab.pages["/"] = page("Home", "/edited", "/lost", "/gone", "/same")
    lab.pages["/edited"] = "<title>E</title><h1>Lamps</h1><h2>Red</h2><p>it glows red</p>"
    for name in ("/lost", "/gone", "/same"):
        lab.pages[name] = page(name, text=f"about {name}")
    lab.run(lost_threshold=3)
    assert sorted(kinds(listed(lab))) == [(1, "new", path) for path in sorted(lab.pages)]
    lab.pages["/edited"] = "<title>E</title><h1>Lamps</h1><h2>Red</h2><p>it glows dark red</p>"
    lab.pages["/lost"] = Page("", status=404)
    lab.pages["/"] = page("Home", "/edited", "/lost", "/gone", "/same", "/added")
    lab.pages["/added"] = page("Added", text="fresh paint")
    lab.after(days=1)
    lab.run(lost_threshold=3)

    assert kinds(listed(lab)) == [
        (2, "new", "/added"),
        (2, "modified", "/"),
        (2, "modified", "/edited"),
        (2, "lost", "/lost"),
    ]
    edited = next(c for c in listed(lab) if c["url"].endswith("/edited"))
    assert (edited["wordsAdded"], edited["wordsRemoved"]) == (1, 0)
    assert edited["headings"] == [{"heading": "Lamps > Red", "wordsAdded": 1, "wordsRemoved": 0}]
    assert edited["share"] == pytest.approx(1 / 11, abs=1e-4)

    lab.pages["/lost"] = page("/lost", text="about /lost")
    lab.pages["/gone"] = Page("", status=410)
    lab.after(days=1)
    lab.run(lost_threshold=1)

    assert kinds(listed(lab)) == [(3, "came back", "/lost"), (3, "removed", "/gone")]
    assert kinds(listed(lab, "--since", "1")) == [
        *kinds(listed(lab)),
        (2, "new", "/added"),
        (2, "modified", "/"),
        (2, "modified", "/edited"),
        (2, "lost", "/lost"),
    ]


def test_a_year_is_named_once_and_counts_for_no_page(lab: Lab):
    site_of(lab, 2025, "one", "two", "three", "four")
    lab.run()
    site_of(lab, 2026, "one", "two", "three and a half", "four")
    lab.run()

    shared, modified = listed(lab)

    assert (shared["kind"], shared["pages"], shared["url"]) == ("shared", 4, None)
    assert [(line["sign"], line["text"], line["pages"]) for line in shared["lines"]] == [
        ("-", "Copyright 2025 by Lamp Works", 4),
        ("+", "Copyright 2026 by Lamp Works", 4),
    ]
    assert kinds([modified]) == [(2, "modified", "/2")]
    assert (modified["wordsAdded"], modified["wordsRemoved"]) == (3, 0)
    assert [heading["heading"] for heading in modified["headings"]] == ["Lamps"]


def test_each_format_says_the_same(lab: Lab):
    lab.pages["/"] = page("Home", text="one two")
    lab.run()
    assert kinds(listed(lab)) == [(1, "new", "/")]
    assert "](<" in lab.crawl.run("changes", "--format", "markdown").out
    assert "<title>new: Home</title>" in lab.crawl.run("changes", "--format", "atom").out
    table = lab.crawl.run("changes")
    assert table.out.split()[:4] == ["source", "run", "change", "how"]
    lab.after(days=1)
    lab.run()

    assert lab.crawl.run("changes").out == "nothing changed\n"
    time = listed(lab, "--since", "1")
    assert time == []
    assert kinds(listed(lab, "--since", "2000-01-01")) == [(1, "new", "/")]
    refused = lab.crawl.run("changes", "--since", "yesterday", expect=2)
    assert "'yesterday' is not a run or a time" in refused.err


def test_a_table_ends_at_its_limit_and_says_so(lab: Lab):
    site_of(lab, 2025, "one", "two")
    lab.run()

    some = lab.crawl.run("changes", "--limit", "2")

    assert some.out.count(" new ") == 2
    assert "More pages changed; list all of them:" in some.out + some.err
    assert "More" not in lab.crawl.run("changes", "--limit", "3").out


def test_a_page_that_other_rules_extract_again_has_not_changed(lab: Lab):
    table = f'[sources.docs]\nseeds = ["{lab.site.url("/")}"]\n'
    lab.source = "docs"
    lab.pages["/"] = "<title>Lamp</title><h1>Lamps</h1><p class='ad'>buy</p><p>it glows</p>"
    lab.crawl.declare(table)
    lab.run()
    lab.crawl.declare(f"{table}drop_selectors = ['.ad']\n")
    lab.run()

    assert lab.rows("SELECT reextracted FROM run ORDER BY no") == [(0,), (1,)]
    assert lab.rows("SELECT count(*) FROM change") == [(0,)]


def test_a_change_of_a_file_that_was_renamed_later_is_listed_once_by_its_former_name(
    crawl: LabCrawl, tmp_path: Path
):
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("a", "b", "c", "d"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nabout {name} alone")
    crawl(spider="files", root=folder)
    (folder / "a.md").write_text("# a\n\nabout a alone, and more")
    crawl(spider="files", root=folder)
    (folder / "a.md").rename(folder / "new.md")
    crawl(spider="files", root=folder)

    out = crawl.run("changes", "--since", "1", "--format", "jsonl").out
    found = [json.loads(line) for line in out.splitlines()]

    assert [(one["run"], one["kind"], one["url"].rsplit("/", 1)[1]) for one in found] == [
        (3, "moved", "new.md"),
        (2, "modified", "a.md"),
    ]


def test_a_renamed_file_has_moved_and_is_not_new(crawl: LabCrawl, tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("a", "b", "c", "d"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nabout {name} alone")
    crawl(spider="files", root=folder)
    (folder / "a.md").rename(folder / "new.md")
    crawl(spider="files", root=folder)

    out = crawl.run("changes", "--format", "jsonl").out
    (moved,) = [json.loads(line) for line in out.splitlines()]

    assert (moved["kind"], moved["url"].rsplit("/", 1)[1]) == ("moved", "new.md")
    assert moved["formerUrl"].rsplit("/", 1)[1] == "a.md"


def test_a_page_that_redirects_to_another_one_has_moved(lab: Lab):
    lab.pages["/"] = page("Home", "/old")
    lab.pages["/old"] = page("Old", text="its only text")
    lab.run()
    lab.pages["/old"] = Page("", status=301, headers={"Location": "/fresh"})
    lab.pages["/fresh"] = page("Fresh", text="its only text, and more of it")
    lab.after(days=1)
    lab.run()

    moved = [c for c in listed(lab) if c["kind"] == "moved"]

    assert [(path_of(c["url"]), path_of(c["formerUrl"])) for c in moved] == [("/fresh", "/old")]

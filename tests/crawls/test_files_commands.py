"""The commands over sources of files: each takes them as it takes web sites."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl, Result, path_of
from tests.site_server import Site, html

pytestmark = pytest.mark.long(but=3)

#: Files are trusted by their times only when these are two seconds old.
OLD = 1_600_000_000


def write(file: Path, text: str, at: int = OLD) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    os.utime(file, (at, at))
    return file


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder of three files that was crawled once, without a declaration."""
    folder = tmp_path / "docs"
    write(folder / "a.md", "# Apples\n\nApples grow on trees.\n")
    write(folder / "b.md", "# Bread\n\nBread is baked.\n")
    write(folder / "sub" / "c.md", "# Cheese\n\nCheese ripens.\n")
    return folder


def refresh(crawl: Crawl, root: Path, **arguments: object) -> Result:
    return crawl(spider="files", root=root, **arguments)  # type: ignore[arg-type]  # by name


def smartcrawl(crawl: Crawl, *words: str, expect: int | None = 0) -> Result:
    """The command of people, over the same registry."""
    return crawl.run("smartcrawl", *words, expect=expect)


def name_of(crawl: Crawl) -> str:
    (name,) = {run["source"] for run in crawl.runs()}
    return str(name)


def answer(crawl: Crawl, *args: object) -> Any:
    """What a command prints as JSON."""
    return json.loads(crawl.run(*map(str, args), "--format", "json").out)


def test_a_crawl_by_the_name_of_an_undeclared_folder_says_how_to_refresh_it(
    docs: Path, crawl: Crawl
):
    refresh(crawl, docs.rename(docs.with_name("handbook")))  # the working directory has a docs
    name = name_of(crawl)
    assert name == "handbook"

    err = smartcrawl(crawl, "crawl", name, expect=1).err

    assert f"source '{name}' is known, but not declared in sources.toml" in err
    again = shlex.split(err.split("To refresh it: smartcrawl ")[1])
    assert "3  unchanged" in smartcrawl(crawl, *again).out
    assert "there is no source 'nope'" in smartcrawl(crawl, "crawl", "nope", expect=1).err


@pytest.mark.covers("R1-29", "U-16")
def test_an_ad_hoc_root_is_remembered_for_the_next_runs(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    name = name_of(crawl)
    write(docs / "a.md", "# Apples\n\nApples are red.\n", OLD + 9)
    (docs / "b.md").unlink()

    due = crawl.run("due")

    run = crawl.runs()[0]
    assert (run["source"], run["complete"], run["modified"], run["removed"]) == (name, True, 1, 1)
    assert "Traceback" not in due.err
    assert [path_of(hit["url"]) for hit in crawl.search("red")] == [str(docs / "a.md")]
    assert crawl.rows("SELECT root FROM source") == [(f"file://{docs}",)]


@pytest.mark.covers("R1-29")
def test_the_root_of_a_declared_source_is_that_of_the_file(docs: Path, crawl: Crawl):
    crawl.declare(f'[sources.docs]\nkind = "files"\nroot = "{docs}"\n')

    crawl(spider="files")

    assert crawl.rows("SELECT name, kind, root FROM source") == [("docs", "files", None)]


@pytest.fixture
def both(docs: Path, site: Site, crawl: Crawl) -> Path:
    """A declared web site beside two declared folders."""
    site.pages["/"] = html("Home", text="a page of the web")
    write(docs.parent / "more" / "d.md", "# Dates\n\nDates are sweet.\n")
    crawl.declare(
        f'[sources.web]\nseeds = ["{site.url("/")}"]\n'
        f'[sources.docs]\nkind = "files"\nroot = "{docs}"\n'
        f'[sources.more]\nkind = "files"\nroot = "more"\n'
    )
    return docs


def crawled(crawl: Crawl) -> list[str]:
    """The sources that were crawled, in order."""
    return [run["source"] for run in reversed(crawl.runs())]


def test_a_spider_alone_crawls_the_declared_sources_of_its_kind(both: Path, crawl: Crawl):
    crawl(spider="files")
    assert crawled(crawl) == ["docs", "more"]

    crawl()
    assert crawled(crawl) == ["docs", "more", "web"]


def test_both_spiders_crawl_all_declared_sources(both: Path, crawl: Crawl):
    crawl.run("crawl", "site", "files")

    assert crawled(crawl) == ["web", "docs", "more"]


def test_smartcrawl_alone_crawls_all_declared_sources(both: Path, crawl: Crawl):
    smartcrawl(crawl, "crawl")

    assert crawled(crawl) == ["web", "docs", "more"]


@pytest.mark.parametrize("words", [["--source", "docs"], ["docs"]], ids=" ".join)
def test_smartcrawl_takes_the_spider_of_a_declared_source(
    both: Path, crawl: Crawl, words: list[str]
):
    smartcrawl(crawl, "crawl", *words)

    assert crawled(crawl) == ["docs"]


def test_smartcrawl_crawls_a_path_and_a_url_of_a_folder_as_one_source(docs: Path, crawl: Crawl):
    smartcrawl(crawl, "crawl", str(docs))
    smartcrawl(crawl, "crawl", f"file://{docs}")

    first, second = crawl.runs()
    assert first["source"] == second["source"]
    assert (first["unchanged"], second["new"]) == (3, 3)


def test_several_spiders_take_no_start(docs: Path, crawl: Crawl):
    result = crawl.run("crawl", "site", "files", "-a", f"root={docs}", expect=1)

    assert "together crawl all declared sources; to crawl one source, name one spider" in result.err


def test_due_crawls_each_declared_source_with_its_spider(both: Path, crawl: Crawl):
    crawl.run("due")
    assert crawled(crawl) == ["web", "docs", "more"]

    crawl.run("due", "--source", "more")
    assert crawled(crawl)[3:] == ["more"]
    assert crawl.runs()[0]["unchanged"] == 1


def test_the_table_of_runs_calls_no_read_of_a_file_a_request(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    (run,) = crawl.runs()

    header, row = crawl.run("runs").out.splitlines()[:2]

    assert "requests" not in header
    end = header.index("fetched") + len("fetched")
    assert row[:end].split()[-1] == str(run["requests"]) == str(len(crawl.records()))


def test_why_takes_a_file_as_people_write_it(
    docs: Path, crawl: Crawl, monkeypatch: pytest.MonkeyPatch
):
    refresh(crawl, docs)
    relative = os.path.relpath(docs / "sub" / "c.md")
    ways = [relative, f"./{relative}", str(docs / "sub" / "c.md"), f"file://{docs}/sub//c.md"]

    found = [answer(crawl, "why", way) for way in ways]

    assert found == [found[0]] * 4
    (one,) = found[0]["records"]
    assert one["record"]["url"] == f"file://{docs}/sub/c.md"
    assert (one["scope"], one["robots"], one["pinnedAt"]) == (IN_SCOPE, None, None)
    assert one["nextVisit"]["text"] == "in the next run that lists it as changed"
    assert [way["rule"] for way in one["removal"]] == ["absent", "gone"]
    assert "link" not in crawl.run("why", relative).out.replace("links in", "").replace(
        "links out", ""
    )


IN_SCOPE = {"allowed": True, "why": None, "depth": None, "maxDepth": None}


def test_why_says_of_an_empty_file_that_it_is_empty(docs: Path, crawl: Crawl):
    """Its bytes show no type, and its ending stands for none."""
    (docs / "__init__.py").write_bytes(b"")
    (docs / "blank").write_bytes(b" \n\t\n")
    crawl(spider="files", root=docs)

    for name in ("__init__.py", "blank"):
        assert "not indexed: it is empty" in crawl.run("why", str(docs / name)).out


def test_why_shows_the_links_of_files_which_nothing_follows(docs: Path, crawl: Crawl):
    write(docs / "index.html", "<a href='sub/c.md'>Cheese</a> <a href='../secret.md'>x</a> home")
    write(docs.parent / "secret.md", "secret words")
    refresh(crawl, docs)

    (home,) = answer(crawl, "why", docs / "index.html")["records"]
    (cheese,) = answer(crawl, "why", docs / "sub" / "c.md")["records"]

    assert [(path_of(link["url"]).rpartition("/")[2], link["status"], link["inScope"])
            for link in home["linksOut"]["shown"]] == [
        ("c.md", "Indexed", True), ("secret.md", None, False),
    ]  # fmt: skip
    assert [path_of(url).rpartition("/")[2] for url in cheese["linksIn"]["shown"]] == ["index.html"]
    assert crawl.search("secret words") == []


def test_why_knows_a_file_that_is_gone_from_disk(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    (docs / "b.md").unlink()
    refresh(crawl, docs)

    (one,) = answer(crawl, "why", docs / "b.md")["records"]

    assert one["decision"]["text"] == "removed: absent"
    assert one["history"][-1]["rule"] == "absent"
    assert one["nextVisit"]["text"] == "none, unless the listing contains it again"


def test_why_of_a_file_that_an_incomplete_listing_lacks(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    for file in (docs / "a.md", docs / "b.md", docs / "sub" / "c.md"):
        file.unlink()
    result = refresh(crawl, docs, expect=3)

    (one,) = answer(crawl, "why", docs / "b.md")["records"]

    assert one["standing"] == "held"
    assert "not in the listing" in one["decision"]["text"]
    assert "no page links" not in result.out
    assert (
        "3 pages orphaned: the listing was incomplete, so nothing counts against them" in result.out
    )


def test_why_of_an_unknown_file_says_which_listing_would_have_it(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    name = name_of(crawl)
    write(docs / "new.md", "# New\n")

    data = answer(crawl, "why", docs / "new.md")
    text = crawl.run("why", str(docs / "new.md")).out
    hidden = answer(crawl, "why", docs / ".git" / "config")

    assert (data["records"], data["inScopeOf"], data["listedBy"]) == ([], [name], [name])
    assert "a run reads it once the listing contains it" in " ".join(text.split())
    assert hidden["inScopeOf"] == []
    assert [one["source"] for one in hidden["refusedBy"]] == [name]
    assert "begins with a dot" in hidden["refusedBy"][0]["why"]


def test_forget_takes_a_path(docs: Path, crawl: Crawl):
    refresh(crawl, docs)

    crawl.run("forget", os.path.relpath(docs / "a.md"))

    assert [r["url"] for r in crawl.records(status="indexed")] == [
        f"file://{docs}/b.md",
        f"file://{docs}/sub/c.md",
    ]
    story = crawl.run("why", str(docs / "a.md")).out
    assert "removed, forgotten: the operator forgot it; " in story
    refresh(crawl, docs)
    assert crawl.runs()[0]["new"] == 1


@pytest.mark.covers("R0-51")
@pytest.mark.parametrize(
    "words", [["--url", "sub/c.md"], ["--pattern", "sub/c"]], ids=["url", "pattern"]
)
def test_reindex_orders_a_file_without_pinning_it(docs: Path, crawl: Crawl, words: list[str]):
    refresh(crawl, docs)
    if words[0] == "--url":
        words = ["--url", str(docs / words[1])]

    crawl.run("reindex", *words)

    plan = answer(crawl, "plan")[0]
    assert (plan["asks"], plan["unconditional"]) == (1, {"reindexing was ordered": 1})
    assert crawl.rows("SELECT count(*) FROM pin") == [(0,)]
    crawl.run("due")
    run = crawl.runs()[0]
    assert (run["complete"], run["requests"], run["unchanged"]) == (True, 1, 3)
    assert answer(crawl, "plan")[0]["asks"] == 0


def test_reindex_of_an_unknown_file_names_the_run_that_lists_it(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    name = name_of(crawl)

    result = crawl.run("reindex", "--url", str(docs / "new.md"), expect=1)

    assert f"is not known; if the file exists, the next run of {name} reads it" in result.err
    assert f"due --source {name}" in result.err


def test_reindex_of_a_file_of_no_source_names_the_crawl_of_its_folder(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    other = write(docs.parent / "other" / "x.md", "# Other\n")

    result = crawl.run("reindex", "--url", str(other), expect=1)

    assert f"crawl files -a root={other.parent}" in result.err


def test_messages_about_files_have_their_paths(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    write(docs.parent / "n o.md", "# No\n")
    crawl.run("forget", str(docs / "a.md"))
    for command, word, said in (
        ("reindex --url", "n o.md", "/n o.md is not known; if the file exists, the next run of"),
        ("reindex --url", ".n o.md", "/.n o.md is not known, and its sources leave it out:"),
        ("reindex --url", "../n o.md", "/n o.md is not known, and in the scope of no source"),
        ("forget", "n o.md", "/n o.md is not known (looked for file_"),
        ("forget", "a.md", "/a.md ("),
        ("due --notice", "n o.md", "/n o.md is not known: "),
    ):
        result = crawl.run(*command.split(), str(docs / word), expect=None)
        assert said in result.err
        assert f"file://{docs}" not in result.err.partition("scrapy")[0]


def test_a_notice_takes_a_path(docs: Path, crawl: Crawl):
    refresh(crawl, docs)

    result = crawl.run("due", "--notice", str(docs / "a.md"))

    assert f"due now  {docs}/a.md" in result.out


@pytest.mark.covers("R0-43", "R0-44")
def test_the_plan_of_a_folder_is_what_its_next_run_does(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    write(docs / "a.md", "# Apples\n\nApples are red.\n", OLD + 9)
    (docs / "b.md").unlink()
    write(docs / "new.md", "# New\n")

    plan = answer(crawl, "plan")[0]
    text = crawl.run("plan").out

    assert (plan["isListed"], plan["known"], plan["note"]) == (True, 3, None)
    assert (plan["asks"], plan["newAddresses"]) == (1, 1)
    assert plan["asked"] == [
        {
            "url": f"file://{docs}/a.md",
            "conditional": False,
            "why": "its validator or size changed",
        },
        {"url": f"file://{docs}/new.md", "conditional": False, "why": "new"},
    ]
    assert plan["skips"] == {"unchanged": 1, "not in the listing": 1}
    assert plan["removes"] == {"absent": 1}
    assert plan["removed"][0]["url"] == f"file://{docs}/b.md"
    assert "reads     2: 1 its validator or size changed, 1 new" in text
    assert "b.md: absent, after 1 more complete run does not list it" in text
    assert "a new file with the same bytes counts as renamed" in text
    refresh(crawl, docs)
    run = crawl.runs()[0]
    assert (run["requests"], run["new"], run["modified"], run["removed"]) == (2, 1, 1, 1)


def test_the_plan_of_a_folder_that_is_away_removes_nothing(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    docs.rename(docs.parent / "moved")

    away = answer(crawl, "plan")[0]
    docs.mkdir()
    empty = answer(crawl, "plan")[0]

    assert (away["asks"], away["newAddresses"], away["removes"]) == (0, 0, {})
    assert away["note"].startswith(f"cannot be listed: {docs} (")
    assert away["note"].endswith("nothing is removed for missing from the listing")
    assert (empty["asks"], empty["removes"]) == (0, {})
    assert f"{docs} (it has no file, and 3 files are stored)" in empty["note"]


def test_the_plan_knows_what_todays_globs_leave_out(docs: Path, crawl: Crawl):
    crawl.declare(f'[sources.docs]\nkind = "files"\nroot = "{docs}"\n')
    crawl(spider="files")
    crawl.declare(f'[sources.docs]\nkind = "files"\nroot = "{docs}"\nexclude = ["sub/"]\n')

    (plan,) = answer(crawl, "plan")

    assert plan["skips"] == {"unchanged": 2, "out of scope": 1}
    assert plan["removes"] == {}


def test_the_plan_of_an_undeclared_source_lists_nothing(docs: Path, crawl: Crawl):
    crawl.declare(f'[sources.docs]\nkind = "files"\nroot = "{docs}"\n')
    crawl(spider="files")
    crawl.declare("")

    (plan,) = answer(crawl, "plan")
    (one,) = answer(crawl, "why", docs / "a.md")["records"]

    assert (plan["asks"], plan["isListed"]) == (0, False)
    assert "no longer in sources.toml" in plan["note"]
    assert [way["rule"] for way in one["removal"]] == ["absent", "gone"]


@pytest.mark.covers("R1-08")
def test_the_progress_has_an_event_for_each_unchanged_file(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    write(docs / "a.md", "# Apples\n\nApples are red.\n", OLD + 9)
    (docs / "b.md").unlink()

    result = crawl.run("crawl", "files", "-a", f"root={docs}", "--progress", "json")

    events = [json.loads(line) for line in result.out.splitlines()]
    numbers = {path_of(r["url"]): r for r in crawl.records()}
    assert {(path_of(e["url"]), e["outcome"], e["status"], e["deleted"]) for e in events} == {
        (str(docs / "a.md"), "modified", 200, False),
        (str(docs / "sub" / "c.md"), "unchanged", 304, False),
        (str(docs / "b.md"), "deleted", 200, True),
    }
    assert len(events) == len(numbers) == 3
    (touched,) = [e for e in events if e["outcome"] == "unchanged"]
    assert set(touched) == set(events[0])


def test_a_folder_is_no_host(docs: Path, site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", text="a page of the web")
    crawl(site.url("/"))
    before = answer(crawl, "hosts")
    refresh(crawl, docs)

    assert answer(crawl, "hosts") == before
    assert len(before) == 1
    assert answer(crawl, "hosts", "--source", crawl.runs()[0]["source"]) == []


def test_the_status_of_a_folder_speaks_of_its_listing(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    for file in docs.rglob("*.md"):
        file.unlink()
    refresh(crawl, docs, expect=3)

    text = " ".join(crawl.run("status").out.split())

    assert "listing: " in text
    assert "no page links" not in text
    found = answer(crawl, "status")["sources"][0]
    assert (found["pages"], found["held"]) == (3, 3)

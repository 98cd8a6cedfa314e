"""The difference of two versions of a page, out of their snapshots."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.lab import Lab, Page, page
from tests.lab.lab_crawl import LabCrawl


def lamp(text: str) -> str:
    return f"<title>Lamp</title><h1>Lamps</h1><p>first</p><h2>Red</h2><p>{text}</p>"


def diff(lab: Lab, *words: object) -> dict[str, Any]:
    """What `diff --format json` prints about the home page."""
    url = lab.site.url("/")
    return json.loads(lab.crawl.run("diff", url, *map(str, words), "--format", "json").out)


def lines(found: dict[str, Any]) -> list[str]:
    """Its changed lines; changed words in brackets."""
    return [
        line["sign"]
        + "".join(f"[{p['text']}]" if p["changed"] else p["text"] for p in line["parts"])
        for hunk in found["hunks"]
        for line in hunk["lines"]
        if line["sign"] != " "
    ]


@pytest.fixture
def changed(lab: Lab) -> Lab:
    """A page that changed in runs 2 and 3, and not in run 4."""
    for text in ("it glows red", "it glows dark red", "it glows dark blue"):
        lab.pages["/"] = lamp(text)
        lab.run()
        lab.after(days=1)
    lab.run()
    return lab


def test_the_last_change_is_shown_by_words(changed: Lab):
    found = diff(changed)

    assert (found["before"]["run"], found["after"]["run"]) == (2, 3)
    assert (found["wordsAdded"], found["wordsRemoved"]) == (1, 1)
    assert [hunk["heading"] for hunk in found["hunks"]] == ["Lamps > Red"]
    assert lines(found) == ["-it glows dark [red]", "+it glows dark [blue]"]


def test_any_two_versions_are_compared(changed: Lab):
    assert lines(diff(changed, 1)) == ["-it glows [red]", "+it glows [dark blue]"]
    assert lines(diff(changed, 1, 2)) == ["-it glows red", "+it glows [dark ]red"]
    assert diff(changed, 3, 4)["hunks"] == []


def test_text_html_and_an_unchanged_page(changed: Lab):
    url = changed.site.url("/")

    unified = changed.crawl.run("diff", url).out.splitlines()
    assert unified[0].startswith(f"--- {url}\trun 2, ")
    assert unified[2:] == [
        "@@ -1,4 +1,4 @@ Lamps > Red",
        " Lamps",
        " first",
        " Red",
        "-it glows dark red",
        "+it glows dark blue",
    ]
    html = changed.crawl.run("diff", url, "--format", "html").out
    assert '<pre class="ins">+ it glows dark <b>blue</b></pre>' in html
    same = changed.crawl.run("diff", url, "4")
    assert (same.out, "has not changed since run 3" in same.err) == ("", True)


def test_a_terminal_has_colours_and_the_changed_words_reversed(
    changed: Lab, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)

    shown = changed.crawl.run("diff", changed.site.url("/")).out

    assert "\x1b[31m-it glows dark \x1b[0m\x1b[7;31mred\x1b[0m" in shown
    assert "\x1b[32m+it glows dark \x1b[0m\x1b[7;32mblue\x1b[0m" in shown


def test_text_of_a_page_stays_text_in_html(lab: Lab):
    lab.pages["/"] = lamp("plain")
    lab.run()
    lab.pages["/"] = lamp("&lt;script>alert(1)&lt;/script>")
    lab.run()

    html = lab.crawl.run("diff", lab.site.url("/"), "--format", "html").out

    assert "&lt;script&gt;" in html
    assert "<script>alert" not in html


def test_without_snapshots_it_says_which_setting_keeps_them(lab: Lab):
    lab.settings["SNAPSHOT_STORE"] = "off"
    lab.pages["/"] = lamp("red")
    lab.run()
    lab.pages["/"] = lamp("blue")
    lab.run()
    words = ("diff", lab.site.url("/"))

    off = lab.crawl.run(*words, "-s", "SNAPSHOT_STORE=off", expect=1)
    gone = lab.crawl.run(*words, expect=1)

    assert "SNAPSHOT_STORE is off" in off.err
    assert "before run 2 is not kept any more" in gone.err
    assert "SNAPSHOT_RETENTION_DAYS (30)" in gone.err


def test_a_lost_snapshot_of_today_does_not_matter(changed: Lab):
    last = "(SELECT max(no) FROM snapshot)"
    changed.rows(f"UPDATE snapshot SET body_hash = zeroblob(32) WHERE no = {last}")

    assert lines(diff(changed)) == ["-it glows dark [red]", "+it glows dark [blue]"]


def test_wrong_words_are_refused_with_the_remedy(changed: Lab):
    url = changed.site.url("/")

    def refused(*words: str, expect: int) -> str:
        return changed.crawl.run("diff", *words, expect=expect).err

    assert "expected one URL and at most two runs" in refused(expect=2)
    assert "expected one URL and at most two runs" in refused(url, "1", "2", "3", expect=2)
    assert "'x' is not the number of a run" in refused(url, "x", expect=2)
    assert "run 3 comes after run 2" in refused(url, "3", "2", expect=2)
    assert "there is no run 9; the last one is 4" in refused(url, "9", expect=1)
    assert "is not known; to see why:" in refused(changed.site.url("/no"), expect=1)


def test_a_page_is_compared_since_the_run_that_found_it(lab: Lab):
    lab.pages["/"] = page("Home")
    lab.run()
    lab.pages["/"] = page("Home", "/new")
    lab.pages["/new"] = lamp("red")
    lab.run()
    lab.pages["/new"] = Page(lamp("blue"))
    lab.run()

    refused = lab.crawl.run("diff", lab.site.url("/new"), "1", expect=1)

    assert "was not known in run 1: run 2 found it" in refused.err


def test_a_file_of_a_folder_says_that_its_former_text_is_not_kept(crawl: LabCrawl, tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    for text in ("about a lamp", "about a lamp and its fuse"):
        (folder / "a.md").write_text(text)
        crawl(spider="files", root=folder)
    refused = crawl.run("diff", str(folder / "a.md"), expect=1)
    assert "former texts of files in a folder are not kept: smartcrawl changes" in refused.err

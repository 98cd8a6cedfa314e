"""Whole crawls of site pages: download, process, change, both again, and once more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import (
    SOURCE,
    LibraryCrawl,
    check_repair,
    keys_of_source,
    libraries,
    removes,
    writes,
)
from tests.servers.sharepoint import PageLibrary, SharepointServer, Text, WebPart
from tests.servers.sharepoint.entries import stamp
from tests.servers.sharepoint.pages import canvas

pytestmark = pytest.mark.long(but=1)

KIND = "sitepage_sources"
ROOT = "/sites/demo/SitePages"
covers = pytest.mark.covers
__all__ = ["libraries"]  # a fixture


def _text(words: str) -> list[list[Any]]:
    return [[Text(f'<h2 onclick="x()">Words</h2><p style="a">{words}</p>')]]


@pytest.fixture
def pages(libraries: LibraryCrawl) -> PageLibrary:
    site = libraries.server.tenant.site("/sites/demo")
    library = site.pages()
    part = WebPart("Hero", properties={"secret": "gobbledygook"}, html='<a href="/x">Go on</a>')
    library.page("Home.aspx", "Welcome & hello", [[Text("<p>warm <b>words</b></p>"), part]])
    library.page("News/Q1.aspx", "First quarter", _text("windy"))
    library.page("News/Q2.aspx", "Second quarter", _text("rainy"))
    library.add("News/photo.png", b"\x89PNG")
    library.add("Notes.md", "# Notes")
    library.add("Old.html", "<p>old</p>")
    libraries.declare(site, KIND, sharepoint_url_part="/SitePages")
    return library


def check(libraries: LibraryCrawl, pages: PageLibrary, originals: set[str] = frozenset()) -> None:
    """Compare disk and maps with the pages; `originals`: those that are not processed yet."""
    found = libraries.facts(KIND)
    expected: dict[str, int] = {}
    shown = libraries.rows("sharepoint_map.csv", KIND)
    stored = libraries.rows("files_map.csv", KIND)
    files = pages.files()
    assert set(shown) == {f"{ROOT}/{path}" for path in files}
    kept = {path: entry for path, entry in files.items() if path.lower().endswith(".aspx")}
    assert set(stored) == {f"{ROOT}/{path}" for path in kept}
    for path, entry in kept.items():
        name = f"{path[:-5]}.html"
        url = f"{libraries.server.origin('rest')}{quote(entry.url)}"
        expected[f"01_originals/{name}"] = entry.modified
        body = found[f"01_originals/{name}"][0].decode()
        assert canvas(entry.layout) in body
        assert f'<link rel="canonical" href="{url}"/>' in body
        if path not in originals:
            expected[f"02_embedded/{name}"] = entry.modified
            _check_processed(entry, found[f"02_embedded/{name}"][0].decode())
        row = shown[entry.url]
        same = {
            "sharepoint_listitem_id": str(entry.id),
            "sharepoint_unique_file_id": entry.unique_id,
            "filename": entry.name,
            "file_type": "aspx",
            "server_relative_url": entry.url,
            "file_size": row["file_size"],
            "last_modified_utc": stamp(entry.modified).replace("Z", ".000000Z"),
            "last_modified_timestamp": str(entry.modified),
        }
        raw = f"{libraries.server.origin('rest')}{entry.url}"
        assert row == same | {"url": url, "raw_url": raw}
        top = "01_originals" if path in originals else "02_embedded"
        at = f"DOMAIN01\\03_sitepages\\{SOURCE}\\{top}\\{name}".replace("/", "\\")
        row = stored[entry.url]
        assert row == same | {
            "file_relative_path": at,
            "downloaded_utc": row["downloaded_utc"],
            "downloaded_timestamp": row["downloaded_timestamp"],
            "sharepoint_error": "",
            "processing_error": "",
        }
    assert {path: time // 1_000_000_000 for path, (_, time) in found.items()} == expected


def _check_processed(entry: Any, body: str) -> None:
    assert f"<h1>{entry.values['Title'].replace('&', '&amp;')}</h1>" in body
    for section in entry.layout:
        for column in section:
            for part in column if isinstance(column, list) else [column]:
                if isinstance(part, Text):
                    assert part.html.rpartition(">")[0].rpartition(">")[2] in body
    for word in ("onclick", "style", "script", "data-sp", "gobbledygook", "canonical"):
        assert word not in body


@dataclass(frozen=True)
class Case:
    """One change of the pages, and what a crawl makes of it."""

    name: str
    change: Callable[[PageLibrary], Any]
    new: set[str]  #: pages that are processed again
    added: int = 0
    changed: int = 0
    removed: int = 0
    found: dict[str, list[str]] = field(default_factory=dict)  #: hits by words


CASES = (
    Case("added", lambda it: it.page("New/a/Plan.aspx", "Plan", _text("sunny")),
         {"New/a/Plan.aspx"}, added=1, found={"sunny": ["New/a/Plan.aspx"]}),
    Case("changed", lambda it: it.page("News/Q1.aspx", "First quarter", _text("stormy")),
         {"News/Q1.aspx"}, changed=1, found={"windy": [], "stormy": ["News/Q1.aspx"]}),
    Case("title changed", lambda it: it.page("News/Q1.aspx", "Spring", _text("windy")),
         {"News/Q1.aspx"}, changed=1, found={"spring": ["News/Q1.aspx"]}),
    Case("removed", lambda it: it.delete("News/Q1.aspx"), set(), removed=1, found={"windy": []}),
    Case("renamed", lambda it: it.rename("News/Q1.aspx", "Q 1.aspx"), {"News/Q 1.aspx"}, changed=1,
         found={"windy": ["News/Q%201.aspx"]}),
    Case("moved", lambda it: it.move("News/Q1.aspx", ""), {"Q1.aspx"}, changed=1,
         found={"windy": ["Q1.aspx"]}),
    Case("folder renamed", lambda it: it.rename("News", "Old"), {"Old/Q1.aspx", "Old/Q2.aspx"},
         changed=2, found={"windy": ["Old/Q1.aspx"]}),
    Case("swapped", lambda it: it.swap("News/Q1.aspx", "News/Q2.aspx"),
         {"News/Q1.aspx", "News/Q2.aspx"}, changed=2, found={"windy": ["News/Q2.aspx"]}),
    Case("in a circle", lambda it: (it.swap("News/Q1.aspx", "News/Q2.aspx"),
                                    it.swap("News/Q1.aspx", "Home.aspx")),
         {"News/Q1.aspx", "News/Q2.aspx", "Home.aspx"}, changed=3,
         found={"windy": ["News/Q2.aspx"], "warm": ["News/Q1.aspx"], "rainy": ["Home.aspx"]}),
    Case("replaced", lambda it: (it.delete("News/Q1.aspx"),
                                 it.page("News/Q1.aspx", "Spring", _text("sunny"))),
         {"News/Q1.aspx"}, added=1, removed=1, found={"windy": [], "sunny": ["News/Q1.aspx"]}),
)  # fmt: skip


@covers("R3-58", "R3-71", "R3-73")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_change_is_carried_out_once(
    case: Case, libraries: LibraryCrawl, pages: PageLibrary
) -> None:
    assert libraries.download()["added"] == 3
    assert libraries.process()["processed"] == 3
    before = libraries.facts(KIND)
    case.change(pages)
    second = libraries.download()
    counts = (second["added"], second["changed"], second["removed"], libraries.downloads())
    assert counts == (case.added, case.changed, case.removed, 0), second["log"]
    count = 3 + case.added - case.removed
    assert second["unchanged"] == count - case.added - case.changed
    assert f"Integrity check passed: {count} files verified" in second["log"]
    check(libraries, pages, case.new)
    assert libraries.process()["processed"] == len(case.new)
    check(libraries, pages)
    for words, paths in case.found.items():
        assert libraries.crawl.hits(words) == [f"{ROOT}/{path}" for path in paths]
    after = libraries.facts(KIND)
    new = {path.replace(".aspx", ".html") for path in case.new}
    kept = {path for path in after if path.partition("/")[2] not in new}
    assert {path: before[path] for path in kept} == {path: after[path] for path in kept}
    third = libraries.download()
    assert (third["added"], third["changed"], third["removed"]) == (0, 0, 0)
    assert libraries.process()["processed"] == 0
    assert libraries.facts(KIND) == after


@covers("R3-58", "R3-74")
def test_pages_alone_are_downloaded_and_then_processed(
    libraries: LibraryCrawl, pages: PageLibrary
) -> None:
    first = libraries.download()
    assert set(first) == keys_of_source()
    assert (first["listed"], first["skipped"], first["added"]) == (3, 3, 3), first["log"]
    check(libraries, pages, {"Home.aspx", "News/Q1.aspx", "News/Q2.aspx"})
    processed = libraries.process()
    assert (processed["processed"], processed["failed"], processed["complete"]) == (3, 0, True)
    check(libraries, pages)
    assert libraries.crawl.hits("warm") == [f"{ROOT}/Home.aspx"]
    for words in ("gobbledygook", "notes", "old"):
        assert libraries.crawl.hits(words) == []
    home = libraries.facts(KIND)["02_embedded/Home.html"][0].decode()
    assert "<p>warm <strong>words</strong></p>" in home
    assert f'<a href="{libraries.server.origin("rest")}/x">Go on</a>' in home


#: Name, damage, pages that are processed again, and what the check has counted.
DAMAGES = (
    ("original missing", removes("01_originals/News/Q1.html"), {"News/Q1.aspx"},
     {"missingOnDisk": 1}),
    ("original edited", writes("01_originals/News/Q1.html", "x"), {"News/Q1.aspx"},
     {"missingOnDisk": 1}),
    ("processed missing", removes("02_embedded/News/Q1.html"), {"News/Q1.aspx"},
     {"missingOnDisk": 1}),
    ("processed edited", writes("02_embedded/News/Q1.html", "<p>x"), {"News/Q1.aspx"},
     {"missingOnDisk": 1}),
    ("orphans", lambda folder: [writes(f"{top}/News/Q9.html", "x")(folder) for top in
                                ("01_originals", "02_embedded")], set(), {"orphans": 2}),
)  # fmt: skip


@covers("R3-104", "R3-105", "R3-107", "R3-133", "M-53")
@pytest.mark.parametrize(
    ("damage", "new", "counts"), [one[1:] for one in DAMAGES], ids=[one[0] for one in DAMAGES]
)
def test_damage_on_disk_is_repaired_from_the_listing(
    damage: Callable[[Path], Any],
    new: set[str],
    counts: dict[str, int],
    libraries: LibraryCrawl,
    pages: PageLibrary,
) -> None:
    check_repair(
        libraries,
        KIND,
        damage,
        counts,
        again=len(new),
        check=lambda is_before: check(libraries, pages, new if is_before else set()),
    )


@covers("R3-79", "M-53")
def test_process_makes_lost_files_again_or_has_their_originals_downloaded(
    libraries: LibraryCrawl, pages: PageLibrary
) -> None:
    libraries.download()
    libraries.process()
    facts, folder = libraries.facts(KIND), libraries.folder(KIND)
    removes("02_embedded/News/Q1.html")(folder)
    writes("02_embedded/Home.html", "x")(folder)
    libraries.server.log.clear()
    assert libraries.process()["processed"] == 2
    assert libraries.server.asked() == []
    assert libraries.facts(KIND) == facts
    for top in ("01_originals", "02_embedded"):
        removes(f"{top}/News/Q1.html")(folder)
    found = libraries.process(expect=3)
    assert (found["processed"], found["skipped"]) == (0, 1)
    row = libraries.rows("files_map.csv", KIND)[f"{ROOT}/News/Q1.aspx"]
    assert row["file_relative_path"] == ""
    assert libraries.download()["integrity"]["missingOnDisk"] == 1
    assert libraries.process()["processed"] == 1
    assert libraries.facts(KIND) == facts


@covers("R3-58")
def test_pages_whose_list_hides_the_text_are_read_one_by_one(
    crawl: Crawl, sharepoint: SharepointServer
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint, api="graph")
    site = sharepoint.tenant.site("/sites/demo")
    site.pages().page("Home.aspx", "Welcome", _text("windy"))
    libraries.declare(site, KIND, sharepoint_url_part="/SitePages")
    sharepoint.fail(
        "edit",
        "/items",
        times=None,
        edit=lambda found: [one["fields"].pop("CanvasContent1") for one in found["value"]],
    )
    assert libraries.download()["added"] == 1
    assert len(sharepoint.asked("graph", "canvasLayout")) == 1
    assert libraries.process()["processed"] == 1
    body = libraries.facts(KIND)["02_embedded/Home.html"][0].decode()
    assert "<h1>Welcome</h1>\n<h2>Words</h2>\n<p>windy</p>\n</body>" in body
    assert libraries.crawl.hits("windy") == [f"{ROOT}/Home.aspx"]
    assert libraries.download()["unchanged"] == 1


@pytest.mark.parametrize("change", ["library renamed", "broken item"])
def test_pages_that_cannot_be_listed_lose_nothing(
    change: str, libraries: LibraryCrawl, pages: PageLibrary
) -> None:
    libraries.download()
    libraries.process()
    facts, rows = libraries.facts(KIND), libraries.rows("files_map.csv", KIND)
    pages.delete("News/Q1.aspx")
    if change == "library renamed":
        pages.url_name = "Pages"
    else:
        libraries.server.fail("broken", r"/items", item=0, times=None)
    second = libraries.download(expect=3)
    assert (second["complete"], second["removed"], second["withheld"]) == (False, 0, 0)
    assert second["reasons"] or second["reason"], second["log"]
    assert libraries.facts(KIND) == facts
    assert libraries.rows("files_map.csv", KIND) == rows
    assert libraries.crawl.hits("windy") == [f"{ROOT}/News/Q1.aspx"]

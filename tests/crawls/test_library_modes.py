"""The tables of modes and scopes in docs/libraries.md, row by row, through whole crawls (R3-59)."""

import re
from pathlib import Path

import pytest

from smartcrawl.sources.sharepoint.domains import SCOPES
from tests.crawls.commands import Crawl
from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.crawls.library_stage import LibraryStage, rest_stage
from tests.servers.sharepoint import SharepointServer

__all__ = ["rest_stage"]
PAGE = (Path(__file__).parents[2] / "docs" / "libraries.md").read_text(encoding="utf-8")


def table(first: str) -> list[list[str]]:
    """Return the rows of a table of the page by the name of its first column."""
    (found,) = re.findall(rf"^\| {first} \|.*\n\| ---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [
        [cell.strip(" `") for cell in line.strip("|").split("|")] for line in found.split("\n")[:-1]
    ]


def changed(library):
    """Let one file be new, one changed, one removed."""
    library.add("new.md", b"New words.")
    library.update("Reports/Q1.txt", b"Other words.")
    library.delete("Reports/Q2.txt")


def files_in(cell: str) -> int:
    """Return the number of files in a cell."""
    found = re.search(r"(\d) files?", cell)
    return int(found[1]) if found else 0


@pytest.mark.covers("R3-17", "R3-59", "R3-61")
@pytest.mark.parametrize("row", table("mode"), ids=lambda row: f"{row[0]}-{row[1]}")
def test_each_mode(rest_stage: LibraryStage, crawl: Crawl, row: list[str]):
    mode, dry, requested, written, removed = row
    libraries, _ = rest_stage.begin(crawl, changed)
    before, maps = libraries.facts(), _maps(libraries)
    words = ["--mode", mode, *(["--dry-run"] if dry == "yes" else [])]
    found = libraries.download(*words)
    assert requested.startswith("listing")
    assert found["requests"] > 0
    assert libraries.downloads() == files_in(requested)
    after = libraries.facts()
    assert len(before.keys() - after.keys()) == files_in(removed)
    assert (written == "nothing") == (_maps(libraries) == maps)
    assert ("both maps" in written) == (_maps(libraries) != maps)
    if written == "nothing":
        assert after == before
    else:
        assert found["downloaded"] == files_in(written)
    assert (found["added"], found["removed"]) == (1, 1)


def _maps(libraries: LibraryCrawl) -> list[int]:
    names = ("sharepoint_map.csv", "files_map.csv")
    return [(libraries.folder() / name).stat().st_ino for name in names]


@pytest.mark.covers("R3-18")
def test_each_scope(crawl: Crawl, sharepoint: SharepointServer):
    libraries = LibraryCrawl(crawl, sharepoint)
    site = sharepoint.tenant.site("/sites/demo")
    site.library("Documents", "Shared Documents").add("a.md", b"Words.")
    libraries.declare(site, "file_sources", "one", sharepoint_url_part="/Shared Documents")
    libraries.declare(site, "list_sources", "two", list_name="None")
    libraries.declare(site, "sitepage_sources", "three", sharepoint_url_part="/SitePages")
    rows = table("scope")
    assert [row[0] for row in rows] == list(SCOPES)
    for scope, sources, *_ in rows:
        kinds = re.findall(r"\w+_sources", sources)
        assert kinds == [str(kind) for kind in SCOPES[scope]]
        found = libraries.library("process", DOMAIN, "--scope", scope, expect=None)["sources"]
        assert [each["sourceType"] for each in found] == kinds


@pytest.mark.covers("R3-60", "R3-149")
@pytest.mark.parametrize("row", table("retry batches"), ids=lambda row: row[0])
def test_each_number_of_batches(rest_stage: LibraryStage, crawl: Crawl, row: list[str]):
    batches, requests = row
    libraries, library = rest_stage.begin(crawl)
    library.add("new.md", b"New.").locked = True
    found = libraries.download("--retry-batches", batches, expect=3)
    assert (found["failed"], libraries.downloads()) == (1, int(requests))

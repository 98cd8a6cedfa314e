"""The tables of modes and scopes in docs/libraries.md, row by row, through whole crawls (R3-59)."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.sources.sharepoint.domains import SCOPES
from tests.crawls.commands import Crawl
from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.crawls.library_stage import LibraryStage, rest_stage
from tests.crawls.test_library_embed import Place, begin, server
from tests.index.vectorstore.store_server import MakingStores
from tests.servers.sharepoint import SharepointServer
from tests.servers.sharepoint.pages import Text

__all__ = ["begin", "rest_stage", "server"]  # fixtures
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


@pytest.mark.covers("R3-59", "R3-61", "R3-80")
@pytest.mark.parametrize("row", table("mode of embed"), ids=lambda row: f"{row[0]}-{row[1]}")
def test_each_mode_of_embed(begin: Callable[[], Place], row: list[str]):
    mode, dry, requested, given, removed = row
    place = begin()
    place.embed()
    changed(place.library)
    place.libraries.download()
    before = set(place.server.uploads)
    found = place.embed("--mode", mode, *(["--dry-run"] if dry == "yes" else []))
    assert (requested, place.server.acts[:1]) == ("list", ["list"])
    after = set(place.server.uploads)
    assert len(after - before) == place.server.acts.count("upload") == files_in(given)
    assert place.server.acts.count("detach") == files_in(removed)
    assert before <= after
    if dry == "yes":
        assert set(place.server.acts) == {"list", "uploads"}
        assert found["uploaded"] > 0


ROOMS = {"file_sources": "one", "list_sources": "two", "sitepage_sources": "three"}


def _tops(libraries: LibraryCrawl) -> dict[str, set[str]]:
    """Return the folders with files of each kind of source that has some."""
    found = {
        kind: {
            path.relative_to(folder).parts[0]
            for path in folder.rglob("*")
            if path.is_file() and path.parent != folder
        }
        for kind, source in ROOMS.items()
        for folder in [libraries.folder(kind, source)]
    }
    return {kind: tops for kind, tops in found.items() if tops}


@pytest.mark.long
@pytest.mark.covers("R3-18", "R3-59")
@pytest.mark.parametrize("row", table("scope"), ids=lambda row: row[0])
def test_each_scope(
    crawl: Crawl, sharepoint: SharepointServer, server: MakingStores, row: list[str]
):
    scope, sources, downloaded, processed, given = row
    kinds = re.findall(r"\w+_sources", sources)
    assert kinds == [str(kind) for kind in SCOPES[scope]]
    libraries = LibraryCrawl(crawl, sharepoint)
    crawl.environment |= server.settings
    site = sharepoint.tenant.site("/sites/demo")
    site.library("Documents", "Shared Documents").add("a.md", b"Words.")
    site.list("Tasks", "Tasks").add(Title="Mow")
    site.pages().page("Home.aspx", "Home", [[Text("<p>Words.</p>")]])
    libraries.declare(site, "file_sources", "one", sharepoint_url_part="/Shared Documents")
    libraries.declare(site, "list_sources", "two", list_name="Tasks")
    libraries.declare(site, "sitepage_sources", "three", sharepoint_url_part="/SitePages")

    def step(action: str) -> list[dict[str, Any]]:
        found = libraries.library(action, DOMAIN, "--scope", scope)["sources"]
        assert [each["sourceType"] for each in found] == kinds
        return list(found)

    step("download")
    tops = _tops(libraries)
    of_kind = {"file_sources": "02_embedded"}
    assert tops == {kind: {of_kind.get(kind, "01_originals")} for kind in kinds}
    if scope != "all":
        assert set(re.findall(r"\d\d_\w+", downloaded)) == tops[kinds[0]]
    assert libraries.downloads() == ("file_sources" in kinds)
    step("process")
    new = {kind: after - tops[kind] for kind, after in _tops(libraries).items()}
    assert new == {kind: set() if kind == "file_sources" else {"02_embedded"} for kind in kinds}
    if scope != "all":
        assert (processed == "nothing") == (new[kinds[0]] == set())
    assert sum(each["uploaded"] for each in step("embed")) == len(kinds) == len(server.uploads)
    assert given in ("files", "an item each", "pages", "as below")


def test_the_table_of_scopes_has_them_all():
    assert [row[0] for row in table("scope")] == list(SCOPES)


@pytest.mark.covers("R3-60", "R3-149")
@pytest.mark.parametrize("row", table("retry batches"), ids=lambda row: row[0])
def test_each_number_of_batches(rest_stage: LibraryStage, crawl: Crawl, row: list[str]):
    batches, requests = row
    libraries, library = rest_stage.begin(crawl)
    library.add("new.md", b"New.").locked = True
    found = libraries.download("--retry-batches", batches, expect=3)
    assert (found["failed"], libraries.downloads()) == (1, int(requests))

"""Libraries whose listing becomes empty: nothing goes unless a count or an operator confirms it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import LibraryCrawl
from tests.crawls.library_dry import compare
from tests.servers.sharepoint import Library, SharepointServer

pytestmark = [pytest.mark.covers("R3-71", "M-07"), pytest.mark.long(but=1)]

#: A filter that every file passes, by API.
FILTERS = {
    "rest": "Modified gt datetime'2000-01-01T00:00:00Z'",
    "graph": "fields/Modified gt '2000-01-01T00:00:00Z'",
}


def stocked(libraries: LibraryCrawl, files: int, query: str = "") -> Library:
    """A library with some files, crawled once."""
    site = libraries.server.tenant.site("/sites/demo")
    library = site.library("Documents", "Shared Documents")
    for number in range(files):
        library.add(f"{number}.txt", f"whale {number}")
    url_part = "/Shared Documents"
    libraries.declare(site, "file_sources", sharepoint_url_part=url_part, filter=query)
    assert libraries.download()["complete"]
    return library


def empty(library: Library) -> None:
    for path in list(library.files()):
        library.delete(path)


def hide(library: Library, *, hidden: bool = True) -> None:
    """Take from the app the right to read any file, or give it back."""
    for entry in library.entries.values():
        entry.trimmed = hidden and entry.is_file


def check_held(libraries: LibraryCrawl, files: int, *words: str) -> dict[str, Any]:
    """A dry run and a run find no item, say so, and remove nothing."""
    disk, rows = libraries.disk(), libraries.rows("files_map.csv")
    assert len(disk) == files
    assert not compare(libraries, "download", *words)["sources"][0]["removed"]

    found = libraries.download(*words, expect=3)

    assert (found["complete"], found["removed"], found["withheld"]) == (False, 0, 0)
    [reason] = (reason for reason in found["reasons"] if "no item" in reason)
    documents = "1 document is" if files == 1 else f"{files} documents are"
    assert f"(it lists no item, no count confirms that, and {documents} stored)" in reason
    assert (libraries.disk(), libraries.rows("files_map.csv")) == (disk, rows)
    assert len(libraries.hits("whale")) == files
    return found


@pytest.mark.parametrize("files", [1, 2, 5, 10])
def test_graph_confirms_no_emptiness_and_an_operator_may(
    crawl: Crawl, sharepoint: SharepointServer, files: int
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint, "graph")
    empty(stocked(libraries, files))
    check_held(libraries, files)  # in runs 2 and 3
    remedy = "the right to read it; or, if it is empty on purpose, remove its pages: scrapy orphans"
    assert f"{remedy} --approve 3" in " ".join(crawl.run("status").out.split())

    refused = crawl.run("orphans", "--approve", "3", expect=3)

    assert f"--max {files}" in refused.err
    crawl.run("orphans", "--approve", "3", "--max", str(files))
    assert libraries.hits("whale") == []
    last = libraries.download()
    assert (last["complete"], last["removed"], last["reasons"]) == (True, files, [])
    assert libraries.disk() == {}
    assert libraries.rows("files_map.csv") == {}


@pytest.mark.parametrize("files", [1, 2, 5, 10])
def test_a_count_of_rest_confirms_an_empty_library(
    crawl: Crawl, sharepoint: SharepointServer, files: int
) -> None:
    """The guard withholds the loss of all of two or more documents, as anywhere."""
    libraries = LibraryCrawl(crawl, sharepoint)
    empty(stocked(libraries, files))
    found = libraries.download(expect=None)
    removed, withheld = (1, 0) if files == 1 else (0, files)
    assert (found["removed"], found["withheld"]) == (removed, withheld)
    assert (found["complete"], found["reasons"]) == (True, [])


@pytest.mark.parametrize("api", ["rest", "graph"])
@pytest.mark.parametrize("files", [1, 5])
def test_a_filtered_listing_has_no_count(
    crawl: Crawl, sharepoint: SharepointServer, api: str, files: int
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint, api)
    empty(stocked(libraries, files, FILTERS[api]))
    check_held(libraries, files)


@pytest.mark.parametrize("files", [1, 5])
def test_rights_that_come_back_bring_every_document_back(
    crawl: Crawl, sharepoint: SharepointServer, files: int
) -> None:
    """No token of the empty listing is stored: the changes since would lack the documents."""
    libraries = LibraryCrawl(crawl, sharepoint, "graph")
    library = stocked(libraries, files)
    hide(library)
    check_held(libraries, files, "--mode", "full")
    hide(library, hidden=False)
    found = libraries.download()
    counts = (found["complete"], found["listed"], found["unchanged"], found["downloaded"])
    assert counts == (True, files, files, 0)


@pytest.mark.parametrize("files", [1, 5])
def test_a_first_count_confirms_nothing_that_the_listing_lacks(
    crawl: Crawl, sharepoint: SharepointServer, files: int
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint, "graph")
    library = stocked(libraries, files)
    libraries.use("rest")
    hide(library)
    check_held(libraries, files)
    check_held(libraries, files)  # and the count is not accepted meanwhile
    hide(library, hidden=False)
    assert libraries.download()["complete"]


def test_a_first_count_of_nothing_confirms_an_empty_library(
    crawl: Crawl, sharepoint: SharepointServer
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint, "graph")
    library = stocked(libraries, 1)
    libraries.use("rest")
    empty(library)
    found = libraries.download()
    assert (found["complete"], found["removed"]) == (True, 1)


def test_no_ratio_lets_an_unconfirmed_library_go(
    crawl: Crawl, sharepoint: SharepointServer
) -> None:
    crawl.environment["SWEEP_MAX_RATIO"] = "1"
    libraries = LibraryCrawl(crawl, sharepoint, "graph")
    empty(stocked(libraries, 5))
    check_held(libraries, 5)


def test_a_library_that_lists_other_items_is_not_empty(
    crawl: Crawl, sharepoint: SharepointServer
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint, "graph")
    library = stocked(libraries, 1)
    library.add("photo.png", b"\x89PNG")
    library.delete("0.txt")
    compare(libraries)
    assert libraries.disk() == {}


@pytest.mark.parametrize("api", ["rest", "graph"])
def test_why_says_that_an_item_goes_with_its_listing(
    crawl: Crawl, sharepoint: SharepointServer, api: str
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint, api)
    library = stocked(libraries, 1)
    url = f"{sharepoint.site_url(library.site)}/Shared%20Documents/0.txt"

    shown = crawl.run("why", url).out

    assert "after 1 complete run does not list it (absent)" in shown
    assert "404" not in shown


def test_why_says_that_a_pinned_item_ages_by_its_answers(
    crawl: Crawl, sharepoint: SharepointServer
) -> None:
    """It is requested although no listing has it."""
    libraries = LibraryCrawl(crawl, sharepoint)
    library = stocked(libraries, 1)
    empty(library)
    assert libraries.download()["removed"] == 1
    crawl.run("undo", "2", "--pin")
    url = f"{sharepoint.site_url(library.site)}/Shared%20Documents/0.txt"

    assert "3 runs in a row get 404 or 410 (gone)" in crawl.run("why", url).out


def test_a_library_that_never_had_a_document_is_complete(
    crawl: Crawl, sharepoint: SharepointServer
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint, "graph")
    stocked(libraries, 0)
    assert libraries.download()["reasons"] == []

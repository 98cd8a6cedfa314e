"""Failed items of a library come again in the same run, after all others (R3-60, R3-149)."""

from __future__ import annotations

import re
import signal

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import LibraryCrawl, libraries
from tests.servers.sharepoint import Entry, Library, SharepointServer
from tests.servers.sharepoint.graph_items import item_id

pytestmark = pytest.mark.long(but=2)

__all__ = ["libraries"]  # a fixture

_LISTING = r"/items\?|root/delta"  #: of REST, and of Graph


@pytest.fixture
def library(libraries: LibraryCrawl) -> Library:
    """Five files, none of which was crawled yet."""
    return filled(libraries)


def filled(libraries: LibraryCrawl) -> Library:
    """Declare a library of five files."""
    libraries.crawl.environment |= {"RETRY_TIMES": "0", "CONCURRENT_REQUESTS_PER_DOMAIN": "2"}
    site = libraries.server.tenant.site("/sites/demo")
    library = site.library("Documents", "Shared Documents")
    for number in range(5):
        library.add(f"{number}.txt", f"whale {number}".encode())
    libraries.declare(site, "file_sources", sharepoint_url_part="/Shared Documents")
    return library


def of(entry: Entry) -> str:
    """Return the pattern of the requests for the bytes of an item."""
    return rf"GetFileById\('{entry.unique_id}'|/items/{item_id(entry)}/content"


def asked(libraries: LibraryCrawl) -> list[str]:
    """Return the requests for bytes, in their order."""
    return [one.target for one in libraries.server.asked(pattern=r"GetFileById|/content")]


@pytest.mark.covers("R3-60", "R3-149")
@pytest.mark.parametrize("kind", ["503", "423"])
@pytest.mark.parametrize("batches", [1, 2, 3, 4, 5])
def test_a_failed_item_comes_again_after_all_others(
    libraries: LibraryCrawl, library: Library, kind: str, batches: int
) -> None:
    """The last of its batches brings it: without a second run, and without a second listing."""
    entry = library.find("0.txt")
    fault = libraries.server.fail(kind, of(entry), times=batches - 1)

    found = libraries.download("--retry-batches", str(batches))

    assert fault.hit == batches - 1
    assert (found["complete"], found["failed"], found["added"]) == (True, 0, 5), found["log"]
    assert (found["downloaded"], found["unchanged"]) == (5, 0)
    assert found["requests"] == len(libraries.server.asked())
    assert len(libraries.server.asked(pattern=_LISTING)) == 1
    assert len(libraries.crawl.runs()) == 1
    again = [bool(re.search(of(entry), target)) for target in asked(libraries)]
    assert again[5:] == [True] * (batches - 1)
    assert again[:5].count(True) == 1
    assert len(libraries.disk()) == 5
    libraries.check_maps()


@pytest.mark.covers("R3-60")
@pytest.mark.parametrize("kind", ["cut", "half", "closed"])
def test_bytes_that_are_not_whole_come_again(
    crawl: Crawl, sharepoint: SharepointServer, kind: str
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint)
    library = filled(libraries)
    libraries.server.fail(kind, of(library.find("0.txt")), times=3)

    found = libraries.download("--retry-batches", "5")

    assert (found["complete"], found["failed"], found["downloaded"]) == (True, 0, 5), found["log"]
    assert len(libraries.server.asked(pattern=_LISTING)) == 1
    assert len(asked(libraries)) == 8


@pytest.mark.covers("R3-60")
@pytest.mark.parametrize("batches", [1, 2, 5])
def test_an_item_that_fails_in_each_batch_is_recorded_once(
    libraries: LibraryCrawl, library: Library, batches: int
) -> None:
    entry = library.find("0.txt")
    libraries.server.fail("423", of(entry), times=None)

    found = libraries.download("--retry-batches", str(batches), expect=3)

    assert len(asked(libraries)) == 4 + batches
    counts = [found[key] for key in ("listed", "added", "failed", "unchanged", "downloaded")]
    assert counts == [5, 4, 1, 0, 4]
    assert not found["complete"], "the item is owed"
    assert len(libraries.crawl.runs()) == 1
    row = libraries.rows("files_map.csv")["/sites/demo/Shared Documents/0.txt"]
    assert (row["file_relative_path"], "423" in row["sharepoint_error"]) == ("", True)
    libraries.server.faults.clear()
    second = libraries.download()
    assert (second["added"], second["failed"], second["unchanged"]) == (1, 0, 4)
    assert len(asked(libraries)) == 1


@pytest.mark.covers("R3-60")
def test_an_item_in_each_batch_keeps_its_order(libraries: LibraryCrawl, library: Library) -> None:
    """The second batch ends before the third begins, and has only what failed in the first."""
    once, twice = library.find("1.txt"), library.find("3.txt")
    libraries.server.fail("503", of(once), times=1)
    libraries.server.fail("503", of(twice), times=2)

    found = libraries.download("--retry-batches", "5")

    later = asked(libraries)[5:]
    assert [bool(re.search(of(twice), target)) for target in later][-1]
    assert sum(bool(re.search(of(once), target)) for target in later) == 1
    assert len(later) == 3
    assert (found["failed"], found["added"]) == (0, 5)


@pytest.mark.covers("R3-60")
@pytest.mark.parametrize("kind", ["404", "403", "410"])
def test_what_is_definite_is_asked_once(
    libraries: LibraryCrawl, library: Library, kind: str
) -> None:
    """Such as a file that is gone, a name that is too long, and a type that is not embedded."""
    gone = library.find("0.txt")
    libraries.server.fail(kind, of(gone), times=None)
    library.add(f"{'n' * 250}.longer.txt", b"Long.")
    library.add("a\\b.txt", b"Elsewhere.")
    library.add("picture.png", b"PNG")

    found = libraries.download("--retry-batches", "5", expect=3)

    assert len(asked(libraries)) == 5
    assert found["requests"] == len(libraries.server.asked())
    assert len(libraries.server.asked(pattern=_LISTING)) == 1
    assert (found["failed"], found["skipped"]) == (2, 1), found["log"]


@pytest.mark.covers("R3-60")
def test_a_whole_mode_asks_only_failures_again(libraries: LibraryCrawl, library: Library) -> None:
    libraries.download()
    libraries.server.fail("503", of(library.find("2.txt")), times=1)

    found = libraries.download("--mode", "full")

    assert (len(asked(libraries)), found["downloaded"]) == (6, 5)
    assert (found["added"], found["changed"], found["unchanged"]) == (0, 0, 5)
    assert len(libraries.server.asked(pattern=_LISTING)) == 1


@pytest.mark.covers("R3-60")
def test_a_crawl_of_one_source_has_two_batches(
    crawl: Crawl, libraries: LibraryCrawl, library: Library
) -> None:
    pattern = of(library.find("4.txt"))
    source = "source=DOMAIN01.source01"
    libraries.server.fail("423", pattern, times=None)
    for words, count in (([], 2), (["-a", "retry_batches=4"], 4), (["-a", "max_pages=9"], 1)):
        libraries.server.log.clear()
        crawl.run("crawl", "sharepoint", "-a", source, *words, expect=None)
        assert len(libraries.server.asked(pattern=pattern)) == count, words
    for wrong in ("0", "6", "two"):
        words = ["-a", source, "-a", f"retry_batches={wrong}"]
        refused = crawl.run("crawl", "sharepoint", *words, expect=None)
        assert f"retry_batches is '{wrong}': expected 1 to 5" in refused.err


@pytest.mark.alone
@pytest.mark.covers("R3-60", "R3-119")
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_run_that_is_killed_in_a_batch_loses_nothing(
    libraries: LibraryCrawl, library: Library, share: float
) -> None:
    words = ("library", "download", "DOMAIN01", "--mode", "full", "--format", "json")
    whole = libraries.crawl.run("runner", "kill", "0", *words, expect=None)
    places = re.search(r"places: (\d+)", whole.out + whole.err)
    assert places is not None, whole
    for entry in library.files().values():
        library.update(entry.path, b"a shark")
    libraries.server.fail("503", of(library.find("1.txt")), times=1)
    place = str(1 + int(share * int(places[1])))

    killed = libraries.crawl.run("runner", "kill", place, *words, expect=None)

    assert killed.status == -signal.SIGKILL, killed
    libraries.crawl.bury()
    after = libraries.download()
    assert (after["complete"], after["failed"]) == (True, 0), after["log"]
    assert set(libraries.disk().values()) == {b"a shark"}
    libraries.check_maps()

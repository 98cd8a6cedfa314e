"""Dry runs of the step embed: the counts of the run that follows, and nothing else (R3-61)."""

import copy
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.crawls.libraries import DOMAIN
from tests.crawls.library_dry import unchanged
from tests.crawls.library_stage import BEFORE, library_stages, rest_stage
from tests.crawls.test_library_embed import Place, begin, server
from tests.crawls.test_library_embed_kinds import place

pytestmark = pytest.mark.long(but=1)

__all__ = ["begin", "library_stages", "place", "rest_stage", "server"]  # fixtures

_COUNTS = (
    "uploaded", "attached", "detached", "left", "completed", "embedFailed", "skipped", "adopted",
    "inProgress", "listed", "unchanged", "complete",
)  # fmt: skip
_READS = {"store", "list", "look", "uploads", "find"}


def dry(place: Place, *words: str) -> dict[str, Any]:
    """Make a dry run, which changes neither disk nor registry nor store; return its counts."""
    crawl = place.libraries.crawl
    stores = copy.deepcopy((place.server.stores, place.server.uploads))
    with unchanged(crawl):
        found = place.embed("--dry-run", *words, expect=None)
    assert set(place.server.acts) <= _READS
    assert (place.server.stores, place.server.uploads) == stores
    return {name: found[name] for name in _COUNTS}


def compare(place: Place, *words: str, **counts: int) -> None:
    """A dry run, and then a run of the same counts."""
    counted = dry(place, *words)
    assert {name: counted[name] for name in counts} == counts
    found = place.embed(*words, expect=None)
    assert {name: found[name] for name in _COUNTS} == counted, found["log"]


def _several(place: Place) -> None:
    place.library.update("Reports/Q1.txt", "Warmer.")
    place.library.rename("readme.md", "read.md")
    place.library.delete("Reports/Q2.txt")
    place.library.add("new.txt", "New.")
    place.libraries.download()


def _lost_files(place: Place) -> None:
    gone, deleted, *_ = place.server.stores["vs_1"]
    del place.server.stores["vs_1"][gone]
    del place.server.stores["vs_1"][deleted]
    del place.server.uploads[deleted]


def _other_bytes(place: Place) -> None:
    place.library.update("Reports/Q1.txt", "Warmer.")
    place.libraries.download()
    file = place.libraries.folder() / "02_embedded/Reports/Q1.txt"
    modified = file.stat().st_mtime_ns
    file.write_bytes(b"x" * file.stat().st_size)
    os.utime(file, ns=(modified, modified))


def _missing_file(place: Place) -> None:
    place.library.update("Reports/Q1.txt", "Warmer.")
    place.libraries.download()
    (place.libraries.folder() / "02_embedded/Reports/Q1.txt").unlink()


def _failure(place: Place) -> None:
    place.server.fails = lambda text: "no text" if "Bad" in text else ""
    place.library.update("Reports/Q1.txt", "Bad.")
    place.libraries.download()
    place.embed(expect=3)
    place.server.fails = lambda text: ""


SITUATIONS: dict[str, tuple[Callable[[Place], object], dict[str, int]]] = {
    "nothing": (lambda place: None, {"unchanged": 3, "uploaded": 0}),
    "several changes": (_several, {"uploaded": 3, "detached": 3, "unchanged": 0}),
    "files that others removed": (_lost_files, {"uploaded": 2}),
    "other bytes on disk": (_other_bytes, {"skipped": 1, "uploaded": 0}),
    "a file that is missing": (_missing_file, {"skipped": 1, "uploaded": 0}),
    "a failure of before": (_failure, {"uploaded": 0, "unchanged": 2}),
}


@pytest.mark.covers("R3-61")
@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("mode", ["incremental", "full"])
def test_a_dry_run_counts_what_the_run_does(place: Place, name: str, mode: str):
    arrange, counts = SITUATIONS[name]
    place.embed()
    place.add_others()
    arrange(place)

    compare(place, "--mode", mode, **(counts if mode == "incremental" else {}))


def test_a_dry_run_without_a_registry_adopts_as_the_run_does(begin: Callable[[], Place]):
    place = begin()
    place.embed()
    place.add_others()
    for file in place.libraries.crawl.data_dir.glob("registry.db*"):
        file.unlink()
    place.libraries.download()

    compare(place, adopted=3, uploaded=0)


@pytest.mark.covers("R3-30", "R3-61")
def test_a_dry_run_makes_no_store(place: Place):
    counted = dry(place)

    assert place.server.acts == []
    assert (counted["uploaded"], counted["completed"], counted["detached"]) == (3, 3, 0)
    assert place.server.stores == {}
    place.embed()
    place.check(BEFORE)


def test_a_dry_run_of_a_store_that_is_gone_says_so(place: Place):
    place.embed()
    place.server.stores.clear()

    counted = dry(place)

    assert counted["complete"] is False


def test_a_dry_run_before_the_first_download_is_refused(begin: Callable[[], Place]):
    libraries = begin().libraries
    libraries.crawl.environment["DATA_DIR"] = str(libraries.crawl.folder / "other")
    libraries.crawl.environment["PERSISTENT_STORAGE_PATH"] = str(libraries.storage)

    found = libraries.library("embed", DOMAIN, "--dry-run", expect=3)

    assert "was never downloaded" in found["sources"][0]["reason"]

"""Dry runs of libraries that are stopped or killed, and those after a killed run (R3-61)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl, Running
from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.crawls.library_dry import compare, snapshot, unchanged
from tests.crawls.library_stage import LibraryStage, rest_stage, staged
from tests.crawls.test_library_kill import FILES, change
from tests.servers.sharepoint import SharepointServer

__all__ = ["rest_stage"]  # a fixture
pytestmark = [pytest.mark.long, pytest.mark.alone]
covers = pytest.mark.covers
_SECONDS = 60  #: until a map is there
_WORDS = ("library", "download", DOMAIN, "--dry-run", "--format", "json")


def dry_maps(libraries: LibraryCrawl) -> list[Path]:
    """The maps of dry runs that are on disk."""
    return sorted(libraries.folder().glob("*_map_*.csv*"))


@contextmanager
def listing(libraries: LibraryCrawl) -> Iterator[Running]:
    """Begin a dry run whose listing does not end, and whose map is there."""
    libraries.server.fail("slow", "/items", place="rest", times=None, seconds=120)
    crawl = libraries.crawl
    crawl.environment["DOWNLOAD_TIMEOUT"] = "300"
    with crawl.start_command(*_WORDS) as running:
        end = time.monotonic() + _SECONDS
        while not list(libraries.folder().glob("sharepoint_map_*.csv")):
            assert time.monotonic() < end, "there is no map"
            time.sleep(0.05)
        yield running
    libraries.server.faults.clear()


@covers("R3-61")
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT], [signal.SIGTERM] * 2])
def test_a_dry_run_that_is_stopped_removes_its_maps(
    crawl: Crawl, rest_stage: LibraryStage, signals: list[signal.Signals]
) -> None:
    libraries, _ = rest_stage.begin(crawl)
    with unchanged(crawl):
        with listing(libraries) as running:
            (place,) = dry_maps(libraries)
            assert place.name.startswith("sharepoint_map_")
            for number in signals:
                os.kill(running.pid, number)
                time.sleep(0.5)
            result = running.end()
        assert result.status != 0, result
        assert "Traceback" not in result.err, result
        if len(signals) == 1:
            assert '"reason": "it was stopped; nothing was changed"' in result.out, result
        assert dry_maps(libraries) == []
    compare(libraries)


@covers("R3-61")
@pytest.mark.parametrize("words", [_WORDS, tuple(word for word in _WORDS if word != "--dry-run")])
def test_the_next_run_removes_what_a_killed_dry_run_left(
    crawl: Crawl, rest_stage: LibraryStage, words: tuple[str, ...]
) -> None:
    libraries, _ = rest_stage.begin(crawl)
    mine = libraries.folder() / "files_map_before.csv"
    mine.write_text("a copy of mine")
    with listing(libraries) as running:
        os.kill(running.pid, signal.SIGKILL)
        running.end()
    (libraries.folder() / f"files_map_{'0' * 16}.csv.1a2b3c4d.writing").write_bytes(b"")
    assert len(dry_maps(libraries)) == 3

    crawl.run(*words)

    assert dry_maps(libraries) == [mine]


def test_a_folder_that_cannot_be_used_is_named(crawl: Crawl, rest_stage: LibraryStage) -> None:
    libraries, _ = rest_stage.begin(crawl)
    folder = libraries.folder()
    folder.rename(folder.with_name("aside"))
    folder.write_text("no folder")
    with unchanged(crawl):
        (found,) = libraries.library(*_WORDS[1:4], expect=3)["sources"]
    assert f"{folder} cannot be used" in found["reason"]


@pytest.fixture(scope="module")
def changing(
    tmp_path_factory: pytest.TempPathFactory, ask: Any, sharepoint_server: SharepointServer
) -> LibraryStage:
    return staged(FILES, tmp_path_factory.mktemp("changing"), ask, sharepoint_server)


@pytest.mark.parametrize("place", [*range(20, 116, 12)])
def test_a_dry_run_after_a_killed_run_sees_no_half_of_a_batch(
    place: int, changing: LibraryStage, crawl: Crawl
) -> None:
    libraries, library = changing.begin(crawl, change)
    words = ("runner", "kill", str(place), "library", "download", DOMAIN, "--format", "json")
    assert crawl.run(*words, expect=None).status == -signal.SIGKILL

    compare(libraries)

    assert libraries.disk() == {path: entry.content for path, entry in library.files().items()}


def test_no_row_of_postgresql_changes(
    crawl: Crawl, tmp_path: Path, ask: Any, sharepoint: SharepointServer, postgres_url: str
) -> None:
    remote = Crawl(tmp_path / "remote", ask, postgres_url)
    libraries = LibraryCrawl(remote, sharepoint)
    site = sharepoint.tenant.site("/sites/demo")
    library = site.library("Documents", "Shared Documents")
    for number in range(6):
        library.add(f"{number}.txt", f"whale {number}")
    libraries.declare(site, "file_sources", sharepoint_url_part="/Shared Documents")

    compare(libraries)
    library.rename("0.txt", "zero.txt")
    library.update("1.txt", "changed")
    library.delete("2.txt")
    library.add("new.txt", "new")
    (found,) = compare(libraries)["sources"]

    assert [found[name] for name in ("added", "changed", "removed", "unchanged", "downloaded")] == [
        1, 2, 1, 3, 2,
    ]  # fmt: skip
    assert "source" in snapshot(remote)

"""Dry runs of libraries: they count what the run that follows does, and change nothing (R3-61)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import LibraryCrawl
from tests.crawls.library_dry import compare
from tests.crawls.library_stage import LibraryStage, staged
from tests.servers.sharepoint import Library, SharepointServer

covers = pytest.mark.covers

FILES = {f"many/{number:02}.txt": f"whale {number}".encode() for number in range(16)}
FILES |= {"Reports/Q1.txt": b"warm", "Reports/Q2.txt": b"windy", "photo.png": b"\x89PNG"}
_ABOVE = 3_000_000  #: bytes


@pytest.fixture(scope="module", params=["rest", "graph"])
def stage(
    tmp_path_factory: pytest.TempPathFactory,
    ask: Any,
    sharepoint_server: SharepointServer,
    request: pytest.FixtureRequest,
) -> LibraryStage:
    folder = tmp_path_factory.mktemp("staged")
    return staged(FILES, folder, ask, sharepoint_server, request.param)


@dataclass(frozen=True)
class Situation:
    """What came of a library and its copy after the first download."""

    name: str
    act: Callable[[LibraryCrawl, Library], Any]
    counts: dict[str, int] = field(default_factory=dict)  #: of the dry run, where not 0
    words: tuple[str, ...] = ()
    integrity: dict[str, int] = field(default_factory=dict)  #: where not 0
    by_graph: dict[str, int] | None = None  #: the counts by Graph; None: they are the same


def _at(libraries: LibraryCrawl, path: str) -> Any:
    return libraries.folder() / "02_embedded" / path


def _changes(libraries: LibraryCrawl, library: Library) -> None:
    library.add("new/one.txt", "one")
    library.add("new/two.png", "two")
    library.update("Reports/Q1.txt", "warmer")
    library.delete("Reports/Q2.txt")
    library.rename("many/00.txt", "zero.txt")
    library.move("many/01.txt", "elsewhere")
    library.replace("many/02.txt", "another whale")
    library.swap("many/03.txt", "many/04.txt")
    library.rename("many/05.txt", "05.png")


def _without_rows(libraries: LibraryCrawl, library: Library) -> None:
    place = libraries.folder() / "files_map.csv"
    lines = place.read_bytes().splitlines(keepends=True)
    place.write_bytes(b"".join(line for line in lines if b"Reports" not in line))


def _damaged_disk(libraries: LibraryCrawl, library: Library) -> None:
    _at(libraries, "Reports/Q1.txt").unlink()
    _at(libraries, "Reports/Q2.txt").write_bytes(b"other")
    _at(libraries, "many/00.txt").rename(_at(libraries, "00.txt"))
    _at(libraries, "extra").mkdir()
    _at(libraries, "extra/file.txt").write_bytes(b"extra")
    _at(libraries, "extra/link.txt").symlink_to(libraries.folder() / "files_map.csv")


def _moved_by_both(libraries: LibraryCrawl, library: Library) -> None:
    _at(libraries, "many/00.txt").rename(_at(libraries, "00.txt"))
    library.rename("many/00.txt", "zero.txt")


def _refused(libraries: LibraryCrawl, library: Library) -> None:
    library.add("../up.txt", "up")
    library.add("x/" + "ü" * 126 + ".txt", "long")
    library.add("large.txt", b"x" * _ABOVE)
    libraries.crawl.environment["DOWNLOAD_MAXSIZE"] = str(_ABOVE - 1)


def _cut(libraries: LibraryCrawl, library: Library) -> None:
    library.delete("many/00.txt")
    library.add("more.txt", "more")
    libraries.server.fail("html", "/items|/delta", place="rest", times=None)
    libraries.server.fail("html", "/delta|/items", place="graph", times=None)


def _cut_later(libraries: LibraryCrawl, library: Library) -> None:
    library.delete("many/00.txt")
    library.add("more.txt", "more")
    libraries.crawl.environment["SHAREPOINT_PAGE_SIZE"] = "5"
    libraries.server.fail("html", r"skip.*items|items.*skip|[$]?skiptoken|delta.*token", times=None)


def _emptied(libraries: LibraryCrawl, library: Library) -> None:
    for path in list(library.files()):
        library.delete(path)


def _few_left(libraries: LibraryCrawl, library: Library) -> None:
    for path in list(FILES)[:12]:
        library.delete(path)


def _withheld_before(libraries: LibraryCrawl, library: Library) -> None:
    _few_left(libraries, library)
    libraries.download(expect=3)
    library.restore("many/00.txt")


def _withheld_and_cut(libraries: LibraryCrawl, library: Library) -> None:
    _withheld_before(libraries, library)
    _cut(libraries, library)


def _trimmed(libraries: LibraryCrawl, library: Library) -> None:
    library.find("Reports/Q1.txt").trimmed = True
    library.find("Reports/Q2.txt").trimmed = True


def _failed_before(libraries: LibraryCrawl, library: Library) -> None:
    library.update("Reports/Q1.txt", "warmer")
    library.add("new.txt", "new")
    libraries.server.fail("423", r"\$value|/content", times=None)
    libraries.download("--retry-batches", "1", expect=3)
    libraries.server.faults.clear()


def _failed_and_gone(libraries: LibraryCrawl, library: Library) -> None:
    _failed_before(libraries, library)
    library.delete("new.txt")


def _lost_registry(libraries: LibraryCrawl, library: Library) -> None:
    for file in libraries.crawl.data_dir.glob("registry.db*"):
        file.unlink()
    _at(libraries, "Reports/Q1.txt").unlink()
    library.rename("Reports/Q2.txt", "second.txt")


def _nothing(libraries: LibraryCrawl, library: Library) -> None:
    pass


SITUATIONS = [
    Situation("no change", _nothing, {"unchanged": 18}),
    Situation("no change, full", _nothing, {"unchanged": 18, "downloaded": 18},
              ("--mode", "full")),
    Situation("another scope", _nothing, {}, ("--scope", "lists")),
    Situation("only one source", _nothing, {"unchanged": 18}, ("--source", "source01")),
    Situation("changes", _changes,
              {"added": 2, "changed": 5, "removed": 3, "unchanged": 10, "downloaded": 3}),
    Situation("changes, full", _changes,
              {"added": 2, "changed": 5, "removed": 3, "unchanged": 10, "downloaded": 17},
              ("--mode", "full")),
    Situation("rows are missing", _without_rows, {"unchanged": 18, "downloaded": 2},
              integrity={"missingInMap": 2}),
    Situation("no map", lambda libraries, _: (libraries.folder() / "files_map.csv").unlink(),
              {"unchanged": 18, "downloaded": 18}, integrity={"missingInMap": 18}),
    Situation("damaged disk", _damaged_disk, {"unchanged": 18, "downloaded": 2},
              integrity={"missingOnDisk": 2, "orphans": 2, "moved": 1}),
    Situation("moved on disk and renamed", _moved_by_both, {"changed": 1, "unchanged": 17},
              integrity={"moved": 1}),
    Situation("refused", _refused, {"added": 1, "unchanged": 18, "failed": 2}),
    Situation("no listing", _cut),
    Situation("half a listing", _cut_later),
    Situation("no item any more", _emptied, {"withheld": 18}, by_graph={}),
    Situation("the guard withholds", _few_left, {"unchanged": 6, "withheld": 12}),
    Situation("withheld before", _withheld_before, {"unchanged": 7, "withheld": 11}),
    Situation("withheld before, no listing", _withheld_and_cut, {"withheld": 12}),
    Situation("a trimmed listing", _trimmed),
    Situation("failed before", _failed_before,
              {"added": 1, "changed": 1, "unchanged": 17, "downloaded": 2}),
    Situation("failed before, gone now", _failed_and_gone,
              {"changed": 1, "removed": 1, "unchanged": 17, "downloaded": 1}),
    Situation("no registry any more", _lost_registry,
              {"changed": 1, "unchanged": 17, "downloaded": 2}, integrity={"orphans": 1}),
]  # fmt: skip
_NUMBERS = ("added", "changed", "removed", "unchanged", "downloaded", "failed", "withheld")


@covers("R3-61")
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_a_dry_run_counts_what_the_run_that_follows_does(
    situation: Situation, stage: LibraryStage, crawl: Crawl
) -> None:
    libraries, library = stage.begin(crawl)
    situation.act(libraries, library)

    dry = compare(libraries, "download", *situation.words)

    if not dry["sources"]:
        assert situation.words == ("--scope", "lists")
        return
    (found,) = dry["sources"]
    counts = situation.counts
    if libraries.is_graph and situation.by_graph is not None:
        counts = situation.by_graph
    if "listing" not in situation.name:
        assert {name: found[name] for name in _NUMBERS} == (dict.fromkeys(_NUMBERS, 0) | counts), (
            dry["result"].err
        )
        assert {
            name: found["integrity"][name] for name in found["integrity"] if name != "verified"
        } == dict.fromkeys(("missingInMap", "missingOnDisk", "orphans", "moved"), 0) | (
            situation.integrity
        )

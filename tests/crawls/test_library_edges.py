"""Edge cases of libraries, each through whole crawls (R3-104 to R3-110, R3-117 to R3-128).

A crawl, then damage on disk, in a map or in the library, a crawl that mends it, and a crawl that
finds nothing to do.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import LibraryCrawl
from tests.crawls.library_stage import (
    BEFORE,
    INTEGRITY,
    Q1,
    LibraryStage,
    stage,
)
from tests.servers.sharepoint import Library

__all__ = ["stage"]  # a fixture

COUNTED = ("added", "changed", "removed", "downloaded", "failed", "skipped", "withheld")
_ROOT = "/sites/demo/Shared Documents"
Q1_URL = f"{_ROOT}/Reports/Q1.txt"


@dataclass(frozen=True)
class Edge:
    """One damage or change, and what a crawl makes of it."""

    name: str  #: as R3.14 has it
    act: Callable[[LibraryCrawl, Library], Any]
    disk: dict[str, bytes | None] = field(default_factory=dict)  #: beside BEFORE; None: gone
    #: Of the JSON where they are not 0: added, changed, removed, downloaded, failed, skipped.
    counts: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)  #: of `integrity`, where not 0
    log: str = ""
    hits: dict[str, list[str]] = field(default_factory=dict)  #: paths by words

    @property
    def after(self) -> dict[str, bytes]:
        """All files after the crawl."""
        return {path: body for path, body in (BEFORE | self.disk).items() if body is not None}

    @property
    def line(self) -> str:
        """What R3-139 lets the log say."""
        found = INTEGRITY | self.found
        missing = found["missingInMap"] + found["missingOnDisk"]
        if missing or found["orphans"] or found["moved"]:
            return (
                f"Integrity check corrected: {missing} missing, {found['orphans']} orphans"
                f" deleted, {found['moved']} moved"
            )
        return f"Integrity check passed: {len(self.after)} files verified"


def _at(libraries: LibraryCrawl, path: str) -> Path:
    return libraries.folder() / "02_embedded" / path


def _map(libraries: LibraryCrawl) -> Path:
    return libraries.folder() / "files_map.csv"


def _edited(libraries: LibraryCrawl, old: str, new: str) -> None:
    text = _map(libraries).read_bytes()
    assert old.encode() in text
    _map(libraries).write_bytes(text.replace(old.encode(), new.encode(), 1))


def _put(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)


def _extra(libraries: LibraryCrawl, path: str) -> None:
    place = _at(libraries, path)
    place.parent.mkdir(parents=True)
    place.write_bytes(b"extra")


def _without_row(libraries: LibraryCrawl, name: str) -> None:
    lines = _map(libraries).read_bytes().splitlines(keepends=True)
    _map(libraries).write_bytes(b"".join(line for line in lines if name.encode() not in line))


def _foreign_row(libraries: LibraryCrawl, library: Library) -> None:
    lines = _map(libraries).read_bytes().splitlines(keepends=True)
    row = next(line for line in lines if b"Q1.txt" in line)
    other = row.replace(library.find("Reports/Q1.txt").unique_id.encode(), b"0" * 36)
    _map(libraries).write_bytes(b"".join([*lines, other]))


def _emptied(libraries: LibraryCrawl, library: Library) -> None:
    file = _at(libraries, "Reports/Q1.txt")
    known = file.stat()
    file.write_bytes(b"")
    os.utime(file, ns=(known.st_mtime_ns, known.st_mtime_ns))


def _folder_in_its_place(libraries: LibraryCrawl, library: Library) -> None:
    file = _at(libraries, "Reports/Q1.txt")
    file.unlink()
    file.mkdir()
    (file / "thing.txt").write_bytes(b"thing")


def _rapid(libraries: LibraryCrawl, library: Library) -> None:
    library.update("Reports/Q1.txt", "One.")
    library.rename("Reports/Q1.txt", "first.txt")
    library.update("Reports/first.txt", "Two.")
    library.move("Reports/first.txt", "")
    library.delete("Reports/Q2.txt")
    library.restore("Reports/Q2.txt")
    library.add("short.txt", "Short.")
    library.delete("short.txt")


def _slow(libraries: LibraryCrawl, library: Library) -> None:
    """The first two requests for the items time out, the third is answered (D4)."""
    libraries.crawl.environment |= {"DOWNLOAD_TIMEOUT": "0.3", "RETRY_TIMES": "2"}
    libraries.server.fail("slow", r"/items\?|root/delta", seconds=0.8, times=1)
    library.add("late.txt", "Late.")


def _added(files: dict[str, bytes]) -> Callable[[LibraryCrawl, Library], Any]:
    def add(_: LibraryCrawl, library: Library) -> None:
        for path, body in files.items():
            library.add(path, body)

    return add


#: Characters, directions, normal forms and cases that must stay as they are (E1).
UNICODE = {
    "Größe/naïve – “quoted” 🐳.txt": b"A whale of a name.",
    "עברית/שלום.txt": b"From right to left.",
    "caf\u00e9.txt": b"One code point.",
    "cafe\u0301.txt": b"Two code points.",
    "reports/q1.TXT": b"Another case.",
    "=1+1.txt": b"No formula.",
}
#: Spaces, quotes and characters of URLs in folders and names (E6).
SPECIAL = {
    'a & b/it\'s "here".txt': b"Quotes.",
    "100% #1 + more/what?.txt": b"Signs.",
    "a%20b/two  spaces .txt": b"Not encoded twice.",
    "semi;colon,comma/line.txt": b"Commas.",
}

EDGES = (
    Edge("B1 local file missing", lambda it, _: _at(it, "Reports/Q1.txt").unlink(),
         counts={"downloaded": 1}, found={"missingOnDisk": 1}, hits={"warm": [Q1_URL]}),
    Edge("B2 local file extra", lambda it, _: _at(it, "Reports/extra.txt").write_bytes(b"extra"),
         found={"orphans": 1}, hits={"extra": []}),
    Edge("B2 extra in a folder", lambda it, _: _extra(it, "new/deep/extra.txt"),
         found={"orphans": 1}),
    Edge("B2 symlink", lambda it, _: _at(it, "Reports/link.txt").symlink_to("/etc/hostname"),
         found={"orphans": 1}),
    Edge("B2 FIFO", lambda it, _: os.mkfifo(_at(it, "Reports/pipe.txt")), found={"orphans": 1}),
    Edge("B3 wrong path",
         lambda it, _: _put(_at(it, "Reports/Q1.txt"), _at(it, "else/where/Q1.txt")),
         found={"moved": 1}),
    Edge("B4 emptied", _emptied, counts={"downloaded": 1}, found={"missingOnDisk": 1}),
    Edge("B4 other bytes", lambda it, _: _at(it, "Reports/Q1.txt").write_bytes(Q1[::-1]),
         counts={"downloaded": 1}, found={"missingOnDisk": 1}),
    Edge("B4 another time", lambda it, _: os.utime(_at(it, "Reports/Q1.txt"))),
    Edge("B4 FIFO in its place",
         lambda it, _: (_at(it, "readme.md").unlink(), os.mkfifo(_at(it, "readme.md"))),
         counts={"downloaded": 1}, found={"missingOnDisk": 1}),
    Edge("B5 local folder missing", lambda it, _: shutil.rmtree(_at(it, "Reports")),
         counts={"downloaded": 2}, found={"missingOnDisk": 2}),
    Edge("B5 all folders missing", lambda it, _: shutil.rmtree(_at(it, "")),
         counts={"downloaded": 3}, found={"missingOnDisk": 3}),
    Edge("B6 map missing", lambda it, _: _map(it).unlink(),
         counts={"downloaded": 3}, found={"missingInMap": 3}, log="as with mode=full"),
    Edge("B7 map is no text", lambda it, _: _map(it).write_bytes(b"\xff\xfe\0\0" * 99),
         counts={"downloaded": 3}, found={"missingInMap": 3}, log="as with mode=full"),
    Edge("B7 map is empty", lambda it, _: _map(it).write_bytes(b""),
         counts={"downloaded": 3}, found={"missingInMap": 3}, log="as with mode=full"),
    Edge("B7 map is cut", lambda it, _: _map(it).write_bytes(_map(it).read_bytes()[:-40]),
         counts={"downloaded": 1}, found={"missingInMap": 1}, log="line 4"),
    Edge("map without a row", lambda it, _: _without_row(it, "Q2.txt"),
         counts={"downloaded": 1}, found={"missingInMap": 1}),
    Edge("map with another size", lambda it, _: _edited(it, f",{len(Q1)},", ",7,"),
         counts={"downloaded": 1}, found={"missingInMap": 1}),
    Edge("map with a path elsewhere",
         lambda it, _: _edited(it, "02_embedded\\Reports\\Q1.txt", "02_embedded\\readme.md"),
         counts={"downloaded": 1}, found={"missingInMap": 1}),
    Edge("map with a path outside",
         lambda it, _: _edited(it, "DOMAIN01\\01_files\\source01\\02_embedded\\readme.md",
                               "..\\..\\domains\\DOMAIN01\\domain.json"),
         counts={"downloaded": 1}, found={"missingInMap": 1}, log="no path below the storage"),
    Edge("map with an unknown row", _foreign_row, log="names no stored item: dropped"),
    Edge("D1 rapid changes", _rapid,
         {"Reports/Q1.txt": None, "first.txt": b"Two."},
         counts={"changed": 1, "downloaded": 1}, hits={"two": [f"{_ROOT}/first.txt"]}),
    Edge("D4 timeout", _slow, {"late.txt": b"Late."}, counts={"added": 1, "downloaded": 1}),
    Edge("E1 Unicode", _added(UNICODE), dict(UNICODE), counts={"added": 6, "downloaded": 6},
         hits={"whale": [f"{_ROOT}/Größe/naïve – “quoted” 🐳.txt"]}),
    Edge("E3 zero bytes", _added({"empty.txt": b""}), {"empty.txt": b""},
         counts={"added": 1, "downloaded": 1}),
    Edge("E4 unsupported type", _added({"a.png": b"\x89PNG", "none": b"x"}),
         counts={"skipped": 2}),
    Edge("E5 one name in two folders", _added({"a/Q1.txt": b"Apples.", "Q1.txt": Q1}),
         {"a/Q1.txt": b"Apples.", "Q1.txt": Q1}, counts={"added": 2, "downloaded": 2},
         hits={"apples": [f"{_ROOT}/a/Q1.txt"], "warm": [Q1_URL]}),
    Edge("E6 special characters", _added(SPECIAL), dict(SPECIAL),
         counts={"added": 4, "downloaded": 4},
         hits={"quotes": [f"{_ROOT}/a & b/it's \"here\".txt"]}),
)  # fmt: skip


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge.name)
def test_an_edge_case_is_mended_by_one_crawl(edge: Edge, crawl: Crawl, stage: LibraryStage) -> None:
    libraries, library = stage.begin(crawl)
    before = libraries.facts()
    edge.act(libraries, library)

    found = libraries.download()

    assert libraries.disk() == edge.after, found["log"]
    counts = {name: found[name] for name in COUNTED}
    assert counts == dict.fromkeys(COUNTED, 0) | edge.counts, found["log"]
    expected = INTEGRITY | edge.found | {"verified": len(edge.after)}
    assert found["integrity"] == expected, found["log"]
    assert edge.line in found["log"]
    assert edge.log in found["log"]
    assert libraries.downloads() == edge.counts.get("downloaded", 0)
    libraries.check_maps()
    facts = libraries.facts()
    kept = {f"02_embedded/{path}" for path in BEFORE if path not in edge.disk}
    assert {path: facts[path] for path in kept} == {path: before[path] for path in kept}
    for words, hits in edge.hits.items():
        assert libraries.hits(words) == hits

    again = libraries.download()

    assert libraries.downloads() == 0
    assert [again[name] for name in ("added", "changed", "removed")] == [0, 0, 0]
    assert again["unchanged"] == len(edge.after)
    assert libraries.facts() == facts
    assert f"Integrity check passed: {len(edge.after)} files verified" in again["log"]

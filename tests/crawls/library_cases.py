"""The edge cases of R3.14, for whole crawls: what happens, and what one download makes of it.

A: the library changed. B: the disk or a map is damaged. D: crawls in unusual moments. E: unusual
data. Files whose size and date stay are moved without a download (ADR 83).
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.crawls.library_facts import Facts, check_result
from tests.crawls.library_stage import BEFORE, Q1, Q2
from tests.servers.sharepoint import Library

_ROOT = "/sites/demo/Shared Documents"
Q1_URL = f"{_ROOT}/Reports/Q1.txt"
KILLED = "D3 killed half-way"  #: the case that only a real crawl shows
Act = Callable[[LibraryCrawl, Library], Any]


@dataclass(frozen=True)
class Edge:
    """One damage or change, and what a crawl makes of it."""

    name: str  #: as R3.14 has it
    act: Act
    disk: dict[str, bytes | None] = field(default_factory=dict)  #: beside BEFORE; None: gone
    #: Of the JSON where they are not 0: added, changed, removed, downloaded, failed, skipped.
    counts: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)  #: of `integrity`, where not 0
    log: str = ""
    hits: dict[str, list[str]] = field(default_factory=dict)  #: paths by words
    outcomes: dict[str, str] = field(default_factory=dict)  #: words by path; else: unchanged
    notes: dict[str, str] = field(default_factory=dict)  #: reasons by path of long names
    clones: frozenset[str] = frozenset()  #: paths of files that a search shows once
    before: Act | None = None  #: a change that an earlier download carries out

    @property
    def after(self) -> dict[str, bytes]:
        """All files after the crawl."""
        return {path: body for path, body in (BEFORE | self.disk).items() if body is not None}


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


def _renamed_and_touched(_: LibraryCrawl, library: Library) -> None:
    library.rename("Reports/Q1.txt", "first.txt")
    library.check_in("Reports/first.txt")


def _renamed_and_updated(_: LibraryCrawl, library: Library) -> None:
    library.rename("Reports/Q1.txt", "first.txt")
    library.update("Reports/first.txt", "Warmer.")


def _moved_and_updated(_: LibraryCrawl, library: Library) -> None:
    library.move("Reports/Q1.txt", "")
    library.update("Q1.txt", "Warmer.")


def _renamed_moved_and_updated(_: LibraryCrawl, library: Library) -> None:
    library.relocate("Reports/Q1.txt", "old/first.txt")
    library.update("old/first.txt", "Warmer.")


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
    """The first request of the listing gets no answer in time, the second one does (D4)."""
    libraries.crawl.environment |= {"DOWNLOAD_TIMEOUT": "0.5", "RETRY_TIMES": "2"}
    libraries.server.fail("slow", r"/items\?|root/delta", seconds=1.2, times=1)
    library.add("late.txt", "Late.")


def _held(libraries: LibraryCrawl, library: Library) -> None:
    """Another crawl is at work at the source: this one leaves all as it is (D2)."""
    library.update("Reports/Q1.txt", "Warmer.")
    before = libraries.facts(), libraries.rows("files_map.csv")
    with libraries.crawl.held(f"{DOMAIN}.source01"):
        assert f"{DOMAIN}.source01" in libraries.download(expect=4)["reason"]
    assert (libraries.facts(), libraries.rows("files_map.csv")) == before


_PLACED = "SELECT count(*) FROM library_item WHERE path IS NOT NULL"
#: More files than one transaction of a killed crawl takes.
MANY = {f"many/{number}.txt": f"whale {number}".encode() for number in range(8)}


def _killed(libraries: LibraryCrawl, library: Library) -> None:
    """A crawl dies when some of its files are in place, and some are not (D3)."""
    for path, body in MANY.items():
        library.add(path, body)
    words = ("library", "download", DOMAIN, "--format", "json")
    for place in range(20, 200, 4):
        libraries.crawl.run("runner", "kill", str(place), *words, expect=-signal.SIGKILL)
        libraries.crawl.bury()
        done = libraries.crawl.rows(_PLACED)[0][0] - len(BEFORE)
        if done:
            assert done == len(MANY) - 3
            return
    raise AssertionError("no crawl has put a file in its place")


def _added(files: dict[str, bytes]) -> Act:
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

#: In the order of R3-88 to R3-103.
CHANGES = (
    Edge("A1 added", _added({"new/a.txt": b"A new file."}), {"new/a.txt": b"A new file."},
         counts={"added": 1, "downloaded": 1}, hits={"new": [f"{_ROOT}/new/a.txt"]},
         outcomes={"new/a.txt": "new"}),
    Edge("A2 removed", lambda _, it: it.delete("Reports/Q1.txt"), {"Reports/Q1.txt": None},
         counts={"removed": 1}, hits={"warm": []},
         log="Documents/Reports/Q1.txt is removed: the library has it no more"),
    Edge("A3 updated", lambda _, it: it.update("Reports/Q1.txt", "Warmer."),
         {"Reports/Q1.txt": b"Warmer."}, counts={"changed": 1, "downloaded": 1},
         hits={"quarter": [f"{_ROOT}/Reports/Q2.txt"]}, outcomes={"Reports/Q1.txt": "modified"}),
    Edge("A4 renamed", lambda _, it: it.rename("Reports/Q1.txt", "first.txt"),
         {"Reports/Q1.txt": None, "Reports/first.txt": Q1}, counts={"changed": 1},
         hits={"warm": [f"{_ROOT}/Reports/first.txt"]}, outcomes={"Reports/first.txt": "moved"}),
    Edge("A4 renamed, with another date", _renamed_and_touched,
         {"Reports/Q1.txt": None, "Reports/first.txt": Q1}, counts={"changed": 1, "downloaded": 1},
         hits={"warm": [f"{_ROOT}/Reports/first.txt"]}, outcomes={"Reports/first.txt": "moved"}),
    Edge("A5 moved", lambda _, it: it.move("Reports/Q1.txt", ""),
         {"Reports/Q1.txt": None, "Q1.txt": Q1}, counts={"changed": 1},
         hits={"warm": [f"{_ROOT}/Q1.txt"]}, outcomes={"Q1.txt": "moved"}),
    Edge("A6 renamed and moved", lambda _, it: it.relocate("Reports/Q1.txt", "old/first.txt"),
         {"Reports/Q1.txt": None, "old/first.txt": Q1}, counts={"changed": 1},
         hits={"warm": [f"{_ROOT}/old/first.txt"]}, outcomes={"old/first.txt": "moved"}),
    Edge("A7 renamed and updated", _renamed_and_updated,
         {"Reports/Q1.txt": None, "Reports/first.txt": b"Warmer."},
         counts={"changed": 1, "downloaded": 1}, hits={"warmer": [f"{_ROOT}/Reports/first.txt"]},
         outcomes={"Reports/first.txt": "modified"}),
    Edge("A8 moved and updated", _moved_and_updated,
         {"Reports/Q1.txt": None, "Q1.txt": b"Warmer."}, counts={"changed": 1, "downloaded": 1},
         hits={"warmer": [f"{_ROOT}/Q1.txt"]}, outcomes={"Q1.txt": "modified"}),
    Edge("A9 renamed, moved and updated", _renamed_moved_and_updated,
         {"Reports/Q1.txt": None, "old/first.txt": b"Warmer."},
         counts={"changed": 1, "downloaded": 1}, hits={"warmer": [f"{_ROOT}/old/first.txt"]},
         outcomes={"old/first.txt": "modified"}),
    Edge("A10 restored", lambda _, it: it.restore("Reports/Q1.txt"),
         counts={"added": 1, "downloaded": 1}, hits={"warm": [Q1_URL]},
         outcomes={"Reports/Q1.txt": "new"}, before=lambda _, it: it.delete("Reports/Q1.txt")),
    Edge("A11 rolled back", lambda _, it: it.roll_back("Reports/Q1.txt"),
         counts={"changed": 1, "downloaded": 1}, hits={"warm": [Q1_URL]},
         outcomes={"Reports/Q1.txt": "modified"},
         before=lambda _, it: it.update("Reports/Q1.txt", "Cold.")),
    Edge("A11 an older date",
         lambda _, it: it.update("Reports/Q1.txt", Q1, modified=1_500_000_000),
         counts={"changed": 1, "downloaded": 1}, hits={"warm": [Q1_URL]}),
    Edge("A12 copied", lambda _, it: it.copy("Reports/Q1.txt", "copy.txt"), {"copy.txt": Q1},
         counts={"added": 1, "downloaded": 1}, outcomes={"copy.txt": "clone"},
         clones=frozenset({"copy.txt"})),
    Edge("A13 replaced", lambda _, it: it.replace("Reports/Q1.txt", "Another file."),
         {"Reports/Q1.txt": b"Another file."}, counts={"added": 1, "removed": 1, "downloaded": 1},
         hits={"warm": [], "another": [Q1_URL]}, outcomes={"Reports/Q1.txt": "new"}),
    Edge("A14 checked out", lambda _, it: it.check_out("Reports/Q1.txt")),
    Edge("A14 checked in", lambda _, it: it.check_in("Reports/Q1.txt"),
         counts={"changed": 1, "downloaded": 1},
         before=lambda _, it: it.check_out("Reports/Q1.txt")),
    Edge("A15 folder renamed", lambda _, it: it.rename("Reports", "Papers"),
         {"Reports/Q1.txt": None, "Reports/Q2.txt": None, "Papers/Q1.txt": Q1, "Papers/Q2.txt": Q2},
         counts={"changed": 2}, hits={"warm": [f"{_ROOT}/Papers/Q1.txt"]},
         outcomes={"Papers/Q1.txt": "moved", "Papers/Q2.txt": "moved"}),
    Edge("A16 folder moved", lambda _, it: it.relocate("Reports", "old/Reports"),
         {"Reports/Q1.txt": None, "Reports/Q2.txt": None, "old/Reports/Q1.txt": Q1,
          "old/Reports/Q2.txt": Q2}, counts={"changed": 2},
         hits={"warm": [f"{_ROOT}/old/Reports/Q1.txt"]},
         outcomes={"old/Reports/Q1.txt": "moved", "old/Reports/Q2.txt": "moved"}),
    Edge("swapped names", lambda _, it: it.swap("Reports/Q1.txt", "Reports/Q2.txt"),
         {"Reports/Q1.txt": Q2, "Reports/Q2.txt": Q1}, counts={"changed": 2},
         hits={"warm": [f"{_ROOT}/Reports/Q2.txt"]},
         outcomes={"Reports/Q1.txt": "moved", "Reports/Q2.txt": "moved"}),
)  # fmt: skip
DAMAGES = (
    Edge("B1 local file missing", lambda it, _: _at(it, "Reports/Q1.txt").unlink(),
         counts={"downloaded": 1}, found={"missingOnDisk": 1}, hits={"warm": [Q1_URL]},
         log="02_embedded/Reports/Q1.txt is missing or damaged"),
    Edge("B2 local file extra", lambda it, _: _at(it, "Reports/extra.txt").write_bytes(b"extra"),
         found={"orphans": 1}, hits={"extra": []}, log="02_embedded/Reports/extra.txt is deleted"),
    Edge("B2 extra in a folder", lambda it, _: _extra(it, "new/deep/extra.txt"),
         found={"orphans": 1}),
    Edge("B2 symlink", lambda it, _: _at(it, "Reports/link.txt").symlink_to("/etc/hostname"),
         found={"orphans": 1}),
    Edge("B2 FIFO", lambda it, _: os.mkfifo(_at(it, "Reports/pipe.txt")), found={"orphans": 1}),
    Edge("B3 wrong path",
         lambda it, _: _put(_at(it, "Reports/Q1.txt"), _at(it, "else/where/Q1.txt")),
         found={"moved": 1},
         log="02_embedded/else/where/Q1.txt is moved to 02_embedded/Reports/Q1.txt"),
    Edge("B4 emptied", _emptied, counts={"downloaded": 1}, found={"missingOnDisk": 1}),
    Edge("B4 other bytes", lambda it, _: _at(it, "Reports/Q1.txt").write_bytes(Q1[::-1]),
         counts={"downloaded": 1}, found={"missingOnDisk": 1}),
    Edge("B4 another time", lambda it, _: os.utime(_at(it, "Reports/Q1.txt"))),
    Edge("B4 FIFO in its place",
         lambda it, _: (_at(it, "readme.md").unlink(), os.mkfifo(_at(it, "readme.md"))),
         counts={"downloaded": 1}, found={"missingOnDisk": 1}),
    Edge("B4 folder in its place", _folder_in_its_place,
         counts={"downloaded": 1}, found={"missingOnDisk": 1, "orphans": 1}),
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
         counts={"downloaded": 1}, found={"missingInMap": 1}, log="not a path below the storage"),
    Edge("map with an unknown row", _foreign_row, log="names no stored item: dropped"),
)  # fmt: skip
MOMENTS = (
    Edge("D1 rapid changes", _rapid,
         {"Reports/Q1.txt": None, "first.txt": b"Two."},
         counts={"changed": 1, "downloaded": 1}, hits={"two": [f"{_ROOT}/first.txt"]},
         outcomes={"first.txt": "modified"}),
    Edge("D2 concurrent crawls", _held, {"Reports/Q1.txt": b"Warmer."},
         counts={"changed": 1, "downloaded": 1}, outcomes={"Reports/Q1.txt": "modified"}),
    Edge(KILLED, _killed, dict(MANY), counts={"added": 3, "downloaded": 3},
         outcomes=dict.fromkeys(MANY, "new")),
    Edge("D4 timeout", _slow, {"late.txt": b"Late."}, counts={"added": 1, "downloaded": 1},
         outcomes={"late.txt": "new"}),
)  # fmt: skip
#: A name of 256 bytes, and a path of more than 4,096.
LONG_NAME = "ü" * 126 + ".txt"
LONG_PATH = "/".join(["folder" * 40] * 17) + "/a.txt"
DATA = (
    Edge("E1 Unicode", _added(UNICODE), dict(UNICODE), counts={"added": 6, "downloaded": 6},
         hits={"whale": [f"{_ROOT}/Größe/naïve – “quoted” 🐳.txt"]},
         outcomes=dict.fromkeys(UNICODE, "new")),
    Edge("E2 very long path", _added({LONG_NAME: b"Long.", LONG_PATH: b"Longer."}),
         counts={"added": 2}, log="is skipped: a name of its path has 256 bytes",
         notes={LONG_NAME: "256 bytes", LONG_PATH: "the system takes 4,095"},
         outcomes={LONG_NAME: "new", LONG_PATH: "new"}),
    Edge("E3 zero bytes", _added({"empty.txt": b""}), {"empty.txt": b""},
         counts={"added": 1, "downloaded": 1}, outcomes={"empty.txt": "new"}),
    Edge("E4 unsupported type", _added({"a.png": b"\x89PNG", "none": b"x"}),
         counts={"skipped": 2},
         log="Documents/a.png is skipped: vector stores take no files of type .png"),
    Edge("E5 one name in two folders", _added({"a/Q1.txt": b"Apples.", "Q1.txt": Q1}),
         {"a/Q1.txt": b"Apples.", "Q1.txt": Q1}, counts={"added": 2, "downloaded": 2},
         hits={"apples": [f"{_ROOT}/a/Q1.txt"], "warm": [Q1_URL]},
         outcomes={"a/Q1.txt": "new", "Q1.txt": "clone"}, clones=frozenset({"Q1.txt"})),
    Edge("E6 special characters", _added(SPECIAL), dict(SPECIAL),
         counts={"added": 4, "downloaded": 4},
         hits={"quotes": [f"{_ROOT}/a & b/it's \"here\".txt"]},
         outcomes=dict.fromkeys(SPECIAL, "new")),
)  # fmt: skip
EDGES = (*CHANGES, *DAMAGES, *MOMENTS, *DATA)


def check_edge(edge: Edge, libraries: LibraryCrawl, library: Library) -> None:
    """Let a case happen; one crawl mends it, and another one finds nothing to do."""
    if edge.before is not None:
        edge.before(libraries, library)
        libraries.download()
    edge.act(libraries, library)
    facts = Facts(libraries, library, edge.notes)

    found = libraries.download()

    assert libraries.disk() == edge.after, found["log"]
    assert edge.log in found["log"]
    mode = "full" if "as with mode=full" in edge.log else "incremental"
    check_result(found, edge.counts, edge.found, facts, mode)
    facts.check(edge.outcomes, edge.clones)
    for words, hits in edge.hits.items():
        assert libraries.hits(words) == hits

    stored, rows = libraries.facts(), libraries.rows("files_map.csv")
    facts.remember()
    again = libraries.download()

    left_out = len(facts.entries) - len(facts.stored)
    check_result(again, {"skipped": left_out}, {}, facts)
    assert again["unchanged"] == len(facts.stored)
    facts.check({}, edge.clones)
    assert (libraries.facts(), libraries.rows("files_map.csv")) == (stored, rows)

"""Whether an item of a library changed, and whether the disk is as the maps say (R3.15, R3.16)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from typing import NamedTuple, Protocol


class FourFields(Protocol):
    """The fields that decide whether an item changed (R3-02)."""

    @property
    def filename(self) -> str:
        """Its name."""

    @property
    def server_relative_url(self) -> str:
        """Its place in the library."""

    @property
    def file_size(self) -> int | None:
        """Bytes."""

    @property
    def last_modified(self) -> int:
        """Time of its last change, Unix microseconds."""


def is_changed(sp_file: FourFields, local_file: FourFields) -> bool:
    """Whether an item of the library differs from what is stored of it.

    An older time is a change, too: the fields are compared for inequality (R3-98).

    Source: R3-130.
    """
    return (
        sp_file.filename != local_file.filename
        or sp_file.server_relative_url != local_file.server_relative_url
        or sp_file.file_size != local_file.file_size
        or sp_file.last_modified != local_file.last_modified
    )


class ExpectedFile(NamedTuple):
    """The places of an item that the library has and that can be embedded (M-50)."""

    #: where its file may be: the first is where a file without a valid row path belongs
    paths: tuple[str, ...]
    size: int | None  #: bytes of its file; None: not known, but more than 0


class StoredRow(NamedTuple):
    """One row of files_map.csv."""

    path: str  #: of its file; empty: it has none
    has_error: bool = False  #: it has a ``sharepoint_error``
    original: str = ""  #: path that the file of a processed row was made from (M-53)


class Move(NamedTuple):
    """A file at a wrong path."""

    unique_id: str
    source: str
    target: str


class Corrections(NamedTuple):
    """The differences between the library, the map and the disk, each with its correction."""

    missing_in_map: tuple[str, ...]  #: unique ids: download, and add a row (R3-134)
    missing_on_disk: tuple[str, ...]  #: unique ids: download (R3-135)
    orphans: tuple[str, ...]  #: paths: delete (R3-136)
    moves: tuple[Move, ...]  #: move, download only when that fails (R3-137, M-52)
    verified: int  #: files at their place


def decide_library_corrections(
    expected: Mapping[str, ExpectedFile],
    rows: Mapping[str, StoredRow],
    on_disk: Mapping[str, int],
    damaged: Set[str] = frozenset(),
) -> Corrections:
    """Return the differences between the library, the map and the disk.

    ``expected`` and ``rows`` are by unique id. ``on_disk`` has the sizes, in bytes, of all files in
    the folders that are scanned, and of further files that rows refer to. ``damaged`` are paths on
    disk whose content is not the recorded one.

    - A row with an error is present, even without a file (M-50).
    - A file of 0 bytes is missing, unless it has 0 bytes in the library (M-51).
    - A missing file is first looked for among the files that no row refers to, by name and size;
      only the rest is missing, or an orphan (RD-13).
    - A row whose item the library no longer has keeps its file, until the sweep removes both.
    - A file at the place of an item that is downloaded is no orphan: the download replaces it.

    Source: R3-131 to R3-137.
    """
    missing_in_map: list[str] = []
    missing: list[tuple[str, str]] = []  # unique id, and the path where its file belongs
    kept: set[str] = set()  # paths that are referred to, or are replaced
    verified = 0
    for unique_id, item in expected.items():
        row = rows.get(unique_id)
        if row is None:
            missing_in_map.append(unique_id)
            kept.update(item.paths)
            continue
        if row.has_error:
            kept.update((row.path, row.original))
            if not row.path:
                continue
            target, is_there = row.path, _is_whole(row.path, item.size, on_disk, damaged)
        elif row.path in item.paths:
            kept.update((row.path, row.original))
            target, is_there = row.path, _is_whole(row.path, item.size, on_disk, damaged)
        else:
            target, is_there = item.paths[0], False
            kept.add(target)
        if is_there:
            verified += 1
        else:
            missing.append((unique_id, target))
    for unique_id, row in rows.items():
        if unique_id not in expected:
            kept.update((row.path, row.original))
            verified += row.path in on_disk
    spare = [path for path in sorted(on_disk) if path not in kept]
    moves, missing_on_disk = _matched(missing, expected, spare, on_disk, damaged)
    moved = {move.source for move in moves}
    return Corrections(
        tuple(missing_in_map),
        tuple(missing_on_disk),
        tuple(path for path in spare if path not in moved),
        tuple(moves),
        verified,
    )


def _is_whole(path: str, size: int | None, on_disk: Mapping[str, int], damaged: Set[str]) -> bool:
    """Whether the file of an item can be at this path (M-51)."""
    if path not in on_disk or path in damaged:
        return False
    return on_disk[path] > 0 or size == 0


def _matched(
    missing: list[tuple[str, str]],
    expected: Mapping[str, ExpectedFile],
    spare: list[str],
    on_disk: Mapping[str, int],
    damaged: Set[str],
) -> tuple[list[Move], list[str]]:
    """Return the moves of spare files to missing ones, and the ids of those without one (RD-13)."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for path in reversed(spare):
        if path not in damaged:
            found[_name(path), on_disk[path]].append(path)
    moves: list[Move] = []
    rest: list[str] = []
    filled: set[str] = set()  # a list has one file of all its items
    for unique_id, target in missing:
        size = expected[unique_id].size
        alike = found.get((_name(target), size), []) if size is not None else []
        if target in filled:
            continue
        if alike:
            moves.append(Move(unique_id, alike.pop(), target))
            filled.add(target)
        else:
            rest.append(unique_id)
    return moves, rest


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def integrity_line(missing: int, orphans: int, moved: int, verified: int) -> str:
    """Return the line of the log about an integrity check (R3-139).

    >>> integrity_line(0, 0, 0, 7)
    'Integrity check passed: 7 files verified'
    >>> integrity_line(1, 2, 3, 7)
    'Integrity check corrected: 1 missing, 2 orphans deleted, 3 moved'
    """
    if missing or orphans or moved:
        return (
            f"Integrity check corrected: {missing} missing, {orphans} orphans deleted,"
            f" {moved} moved"
        )
    return f"Integrity check passed: {verified} files verified"

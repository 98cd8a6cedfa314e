"""Whether an item of a library changed, and whether the disk is as the maps say (R3.15, R3.16)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
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


class LackingFile(NamedTuple):
    """A file that an item is to have, and that is missing on disk, or damaged."""

    unique_id: str
    path: str  #: its place
    size: int | None  #: bytes that it is to have; None: not known


class Move(NamedTuple):
    """A file at a wrong path."""

    unique_id: str
    source: str
    target: str


class Corrections(NamedTuple):
    """The corrections of a disk that is not as the library's items say."""

    missing_on_disk: tuple[str, ...]  #: unique ids: download (R3-135)
    orphans: tuple[str, ...]  #: paths: delete (R3-136)
    moves: tuple[Move, ...]  #: move, download only when that fails (R3-137, M-52)


def decide_library_corrections(
    lacking: Iterable[LackingFile], spare: Mapping[str, int]
) -> Corrections:
    """Return the corrections of files that items lack, and of files that no item refers to.

    ``spare``: the sizes of the latter, in bytes, by path. A lacking file is first looked for among
    them, by name and size; only the rest is missing, or an orphan (RD-13).

    Source: R3-135 to R3-137.
    """
    alike: dict[tuple[str, int | None], list[str]] = defaultdict(list)
    for path in sorted(spare, reverse=True):
        alike[_name(path), spare[path]].append(path)
    moves: list[Move] = []
    missing: list[str] = []
    for file in lacking:
        places = alike.get((_name(file.path), file.size))
        if places:
            moves.append(Move(file.unique_id, places.pop(), file.path))
        else:
            missing.append(file.unique_id)
    orphans = spare.keys() - {move.source for move in moves}
    return Corrections(tuple(missing), tuple(sorted(orphans)), tuple(moves))


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

"""Files of a listed source: whether one changed in its store, and which were renamed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum, auto
from hashlib import sha256
from heapq import heappop, heappush
from itertools import takewhile
from operator import eq
from typing import Final, NamedTuple

from smartcrawl.rules.model import Fault

LARGE: Final = 8 * 1024 * 1024  #: bytes; longer files are hashed as a stream before they are read

#: Faults of the bytes themselves, whatever limits and processes read them. A file with one of them
#: is not read again while its properties are the same.
FAULTS_OF_BYTES: Final = frozenset({Fault.CORRUPT, Fault.ENCRYPTED, Fault.BOMB})


class Properties(NamedTuple):
    """Properties of one file in a store; None where the store does not give them."""

    etag: str | None = None
    last_modified: str | None = None  #: as the store has it; compared, never parsed
    length: int | None = None  #: bytes


class Check(StrEnum):
    """Ways to find out whether a file changed."""

    SKIP = auto()  #: nothing: by its properties it did not
    HASH = auto()  #: its bytes are hashed as a stream, and read only when the hash is another
    READ = auto()  #: it is read, and its hashes are compared


def decide_change_check(held: Properties | None, found: Properties) -> Check:
    """Return how to find out whether a file changed since ``held`` was stored; None: it is new.

    An ETag decides alone where both sides have one. Otherwise date and length must both be known
    and equal. Large files whose properties differ or are missing are hashed first.

    >>> decide_change_check(Properties('"a"', "Mon", 9), Properties('"a"', "Tue", 9)).value
    'skip'
    >>> decide_change_check(Properties(None, "Mon", 9), Properties(None, "Mon", 8)).value
    'read'

    Source: R0-43, R0-44, R0-45.
    """
    if held is None:
        return Check.READ
    if held.etag is not None and found.etag is not None:
        same = held.etag == found.etag
    else:
        same = None not in held[1:] and held[1:] == found[1:]
    if same:
        return Check.SKIP
    long = found.length is not None and found.length > LARGE
    return Check.HASH if long else Check.READ


#: Body hash of an empty file. All empty files are equal, so that equality is no evidence.
NO_BYTES: Final = sha256(b"").digest()


class FileRecord(NamedTuple):
    """A file that a complete listing lacks, or one that a run found first."""

    no: int
    path: str  #: address, with ``/`` between folders
    body_hash: bytes | None  #: None: the file was not read

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> tuple[str, ...]:
        """The parts of the path before its name."""
        return tuple(self.path.split("/")[:-1])


_Pairs = Iterator[tuple[int, int]]
_Sides = tuple[list[FileRecord], list[FileRecord]]  #: absent, new
_Heap = list[tuple[int, int]]  #: (number of folders above the file, FileRecord.no)


def renamed_records(absent: Iterable[FileRecord], new: Iterable[FileRecord]) -> dict[int, int]:
    """Return the numbers of the new records that are renamed absent ones, each with the old number.

    A new record and an absent one match if their bytes are equal and not empty. If there are
    several, the same name comes first, then the nearest folder (the longest common way from the
    root, then the fewest steps), then the lowest numbers. Each record is used at most once.

    The time is nearly linear, even if all of the bytes are equal.

    >>> old, moved = FileRecord(1, "docs/a.md", b"hash"), FileRecord(2, "manual/a.md", b"hash")
    >>> renamed_records([old], [moved])
    {2: 1}

    Source: ADR 65; R1-29.
    """
    found: dict[int, int] = {}
    equal: defaultdict[bytes, _Sides] = defaultdict(lambda: ([], []))
    for side, records in enumerate((absent, new)):
        for record in records:
            if record.body_hash is not None and record.body_hash != NO_BYTES:
                equal[record.body_hash][side].append(record)
    for sides in equal.values():
        found.update(_matches(sides))
    return dict(sorted(found.items()))


def _matches(sides: _Sides) -> dict[int, int]:
    """Return the matches among records of equal bytes: first those that keep their name."""
    named: defaultdict[str, _Sides] = defaultdict(lambda: ([], []))
    for side, records in enumerate(sides):
        for record in records:
            named[record.name][side].append(record)
    found: dict[int, int] = {}
    for same in named.values():
        found.update(_nearest(same))
    used = found.keys() | found.values()
    absent, new = ([r for r in records if r.no not in used] for records in sides)
    return found | dict(_nearest((absent, new)))


class _Folder:
    """A folder with the unmatched files in it and below it."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.heaps: tuple[_Heap, _Heap] = [], []

    def matches(self) -> _Pairs:
        """Yield (new, old) while there are files of both sides, the fewest steps first."""
        absent, new = self.heaps
        while absent and new:
            old = heappop(absent)[1]
            yield heappop(new)[1], old

    def join(self, other: _Folder) -> None:
        """Take the files of another folder."""
        (absent, new), (more, newer) = self.heaps, other.heaps
        self.heaps = _joined(absent, more), _joined(new, newer)


def _joined(one: _Heap, other: _Heap) -> _Heap:
    """Return a heap of both. The smaller one is moved, so that no file is moved often."""
    few, many = sorted((one, other), key=len)
    for entry in few:
        heappush(many, entry)
    return many


def _nearest(sides: _Sides) -> _Pairs:
    """Yield matches (new, old), those in the deepest common folder first.

    The paths are read in their order, so that all files below one folder follow each other. A
    folder is finished when the next file is not below it. Its unmatched files join those of the
    next folder above it that has others.
    """
    files = [
        (record.folder, record.no, side) for side, records in enumerate(sides) for record in records
    ]
    root = _Folder(0)
    stack = [root]
    before: tuple[str, ...] = ()
    for folder, no, side in sorted(files):
        shared = sum(takewhile(bool, map(eq, before, folder)))
        yield from _finished(stack, shared)
        if stack[-1].depth < len(folder):
            stack.append(_Folder(len(folder)))
        heappush(stack[-1].heaps[side], (len(folder), no))
        before = folder
    yield from _finished(stack, 0)
    yield from root.matches()


def _finished(stack: list[_Folder], depth: int) -> _Pairs:
    """Match the files of all folders below ``depth``, which then hand over what is unmatched."""
    while stack[-1].depth > depth:
        folder = stack.pop()
        yield from folder.matches()
        if stack[-1].depth < depth:
            stack.append(_Folder(depth))
        stack[-1].join(folder)

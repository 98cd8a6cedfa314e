"""Entries of a listing: a file's URL, its size, and a validator by which a change is seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple, Protocol

from smartcrawl.model.library import LibraryItem
from smartcrawl.rules.files import Check, Properties, decide_change_check

BATCH: Final = 1_000  #: entries at most in one batch


class Entry(NamedTuple):
    """One file of a listing."""

    url: str  #: canonical; a store's own URL without query, user and signature
    size: int  #: bytes
    validator: str | None  #: opaque, compared for equality; None: the file must be read
    modified_at: int | None  #: Unix seconds; None: unknown, or outside of the years 1 to 9999
    key: str | None = None  #: identity that no renaming changes; None: the URL is the identity
    item: LibraryItem | None = None  #: of a document library
    again: bool = False  #: whether to read it although nothing about it changed

    @property
    def identity(self) -> str:
        """The address by which the registry knows the file, whatever its name is now."""
        return self.key or self.url


class Listing(Protocol):
    """One pass over a folder or a store.

    Absence is evidence only if ``problems`` is empty after the last batch.
    """

    problems: list[str]  #: after the last batch: ``PLACE (why)`` for each part that is not listed
    skipped: Counter[str]  #: counts of files, folders and other things by ``Skip``

    def batches(self) -> Iterator[list[Entry]]:
        """Yield the entries, up to 1,000 at a time, while they are listed. Call it once."""


class PassedListing:
    """The entries of a listing that has ended, as a listing."""

    def __init__(self, entries: Sequence[Entry], problems: Iterable[str]) -> None:
        self.problems = list(problems)
        self.skipped: Counter[str] = Counter()
        self._entries = entries

    def batches(self) -> Iterator[list[Entry]]:
        """Yield the entries, up to 1,000 at a time."""
        for start in range(0, len(self._entries), BATCH):
            yield list(self._entries[start : start + BATCH])


class Skip(StrEnum):
    """Reasons why a listing leaves something out; the value is the word for people."""

    HIDDEN = "hidden"
    TYPE = "type without text"
    NOT_INCLUDED = "not included"
    EXCLUDED = "excluded"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    BROKEN_LINK = "broken symlink"
    LEAVING_LINK = "symlink that leaves the root"
    REPEATED_LINK = "symlink to a folder that is listed already"
    FIFO = "FIFO"
    SOCKET = "socket"
    DEVICE = "device"
    GONE = "removed meanwhile"
    NO_NAME = "not a name"  #: such as the marker of an empty folder in a store


def source_entry_check(
    etag: str | None, size: int, entry: Entry, *, is_hash: bool = False
) -> Check:
    """Return how to find out whether a stored file, of this ETag and size, is that of an entry.

    Both must be known and equal for the file to be skipped: a validator of a folder is a date.
    One that is a hash of the content decides alone (``is_hash``).

    Source: R0-43, R0-44, R1-28.
    """
    if is_hash:
        return decide_change_check(Properties(etag), Properties(entry.validator))
    return decide_change_check(
        Properties(None, etag, size), Properties(None, entry.validator, entry.size)
    )


def source_entries_in_batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield entries in lists of at most ``BATCH``."""
    left = iter(entries)
    while batch := list(islice(left, BATCH)):
        yield batch

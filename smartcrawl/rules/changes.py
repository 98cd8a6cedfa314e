"""Whether a file of a store changed, by what the store says of it (R0-43 to R0-45).

The spider of files will ask this; the spider of web sites does not.
"""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Final, NamedTuple

LARGE: Final = 8 * 1024 * 1024  #: bytes; longer files are hashed as a stream before they are read


class Properties(NamedTuple):
    """What a store says of one file; None where it says nothing."""

    etag: str | None = None
    last_modified: str | None = None  #: as the store has it; compared, never read
    length: int | None = None  #: bytes


class Check(StrEnum):
    """What is done to know whether a file changed."""

    SKIP = auto()  #: nothing: the store says that it did not
    HASH = auto()  #: its bytes are hashed as a stream, and read only when the hash is another
    READ = auto()  #: it is read; its hashes tell


def check(held: Properties | None, found: Properties) -> Check:
    """Return how to find out whether a file changed since it was held; None: it was not.

    An ETag decides alone where both sides have one. Without, date and length have to be equal, and
    both known. Large files whose properties differ or are missing are hashed first.

    >>> check(Properties('"a"', "Mon", 9), Properties('"a"', "Tue", 9)).value
    'skip'
    >>> check(Properties(None, "Mon", 9), Properties(None, "Mon", 8)).value
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

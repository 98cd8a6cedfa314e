"""Whether a file of a store changed, by its properties in the store (R0-43 to R0-45)."""

from __future__ import annotations

from enum import StrEnum, auto
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

"""Keys of the API: ``sc_<id>_<secret>``, of which the registry has the hash only.

Scopes include each other: ``search`` is part of ``read``, this of ``operate``, this of ``admin``.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.rules.visibility import EVERYTHING, Reader, Visibility
from smartcrawl.server.stores import Stores

KEPT: Final = 86_400  #: seconds for which a key is kept (R2-17)
MOST_KEY_DAYS: Final = 36_500  #: that a key counts; the end of the calendar is no time of a key


class KeyTime:
    """The time by which keys age. A clock that leaps ahead ages them by six hours at most.

    Where more than a day seems to lie between two requests with a key, the clock may have leapt.
    Keys live longer then, which costs nothing.
    """

    def __init__(self) -> None:
        self._seen: int | None = None  # the clock at the last request
        self._ahead = 0  # seconds by which it is ahead of this time

    def at(self, now: int, newest: int | None) -> int:
        """Return this time at ``now``, both in Unix seconds; ``newest``: that of the newest key.

        >>> time, day = KeyTime(), 86_400
        >>> time.at(0, None), time.at(day, 0), time.at(400 * day, day), time.at(400 * day + 9, day)
        (0, 86400, 108000, 108009)
        >>> time.at(day + 60, 108_009)  # the clock is right again
        86460
        """
        if newest is not None:
            self._seen = max(self._seen or 0, newest + self._ahead)
        if self._seen is not None:
            gap = now - self._seen
            if gap > KEPT:
                self._ahead += gap - KEPT // 4
            elif gap < 0:
                self._ahead = max(0, self._ahead + gap)
        self._seen = now
        return now - self._ahead


_KEY: Final = re.compile(r"sc_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_INSERT = """
INSERT INTO api_key (id, name, scope, hash, created, expires, sources) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_COLUMNS = "id, name, scope, created, expires, revoked, sources"
_FIND = f"SELECT {_COLUMNS}, hash FROM api_key WHERE id = ?"
_LIST = f"SELECT {_COLUMNS} FROM api_key ORDER BY created, id"
_FIND_LISTED = f"SELECT {_COLUMNS} FROM api_key WHERE id = ?"
_REVOKE = "UPDATE api_key SET revoked = ? WHERE id = ? AND revoked IS NULL"
_COUNTS = """
SELECT count(*) FROM api_key WHERE revoked IS NULL AND (expires IS NULL OR expires > ?)
"""


class Scope(IntEnum):
    """The requests that a key permits; a higher scope includes the lower ones."""

    SEARCH = 0  #: for search boxes in pages of other sites, whose visitors can read the key
    READ = 1
    OPERATE = 2
    ADMIN = 3


SCOPES: Final = tuple(scope.name.lower() for scope in Scope)


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret."""

    id: str
    name: str
    scope: Scope
    created: int  #: Unix seconds
    expires: int | None
    revoked: int | None
    sources: tuple[str, ...] = ()  #: names of those that it reads; none: the public ones

    def counts(self, now: float) -> bool:
        """Whether the key is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)


def make_api_key(
    connection: Connection,
    name: str,
    scope: Scope,
    now: int,
    *,
    expires: int | None = None,
    sources: Sequence[str] = (),
) -> tuple[str, Key]:
    """Store a new key, and return it with its text, which cannot be had again."""
    key = Key(secrets.token_hex(6), name, scope, now, expires, None, tuple(sources))
    text = f"sc_{key.id}_{secrets.token_urlsafe(32)}"
    listed = json.dumps(key.sources) if key.sources else None
    row = (key.id, name, scope.name.lower(), _hash(text), now, expires, listed)
    connection.execute(_INSERT, row)
    return text, key


def list_api_keys(connection: Connection) -> list[Key]:
    """Return every key, oldest first, revoked ones too."""
    return [api_key_of_row(row) for row in connection.execute(_LIST)]


def find_listed_key(connection: Connection, key_id: str) -> Key | None:
    """Return the key with an id, whether it counts or not; None: there never was one."""
    row = connection.execute(_FIND_LISTED, (key_id,)).fetchone()
    return None if row is None else api_key_of_row(row)


def reason_against_key_sources(scope: Scope, sources: Sequence[str]) -> str | None:
    """Return why a key of a scope may not have these sources, or None."""
    if scope is Scope.ADMIN and sources:
        return "sources are not for the scope admin, which reads every source"
    if scope is Scope.SEARCH and not sources:
        return (
            "the scope search needs sources: each visitor of a page can read its key, so the key"
            " names what may be found with it"
        )
    return None


def revoke_api_key(connection: Connection, key_id: str, now: int) -> bool:
    """Revoke a key; False where no key with this id counts."""
    connection.execute(_REVOKE, (now, key_id))
    return connection.changes() > 0


def api_key_exists(connection: Connection, now: int) -> bool:
    """Whether any key is neither revoked nor expired."""
    return bool(connection.execute(_COUNTS, (now,)).get)


def login_key_exists(connection: Connection, now: int) -> bool:
    """Whether any key that opens a session of the pages is neither revoked nor expired."""
    return bool(connection.execute(f"{_COUNTS} AND scope <> 'search'", (now,)).get)


def find_api_key(connection: Connection, text: str, now: float) -> Key | None:
    """Return the key with this text; None if it never existed, or counts no more."""
    found = _KEY.fullmatch(text)
    row = connection.execute(_FIND, (found[1],)).fetchone() if found else None
    if row is None or not hmac.compare_digest(bytes(row[7]), _hash(text)):
        return None
    key = api_key_of_row(row)
    return key if key.counts(now) else None


def api_key_of_row(row: Sequence[Any]) -> Key:
    """Return the key of a row: id, name, scope, created, expires, revoked and sources, in order."""
    sources = () if row[6] is None else tuple(json.loads(row[6]))
    id_, name, scope, created, expires, revoked = row[:6]
    return Key(id_, name, Scope[scope.upper()], created, expires, revoked, sources)


def api_key_reader(key: Key | None, visibilities: Mapping[str, Visibility]) -> Reader:
    """Return whose key asks; None: somebody without one, who reads what is public.

    ``visibilities``: those that the tables of sources declare today.
    """
    if key is not None and key.scope is Scope.ADMIN:
        return EVERYTHING
    return Reader(sources=frozenset(() if key is None else key.sources), visibilities=visibilities)


def _hash(text: str) -> bytes:
    return sha256(text.encode()).digest()


class KeyCache:
    """Keys that were found within the last seconds: a revoked one counts no longer than that."""

    KEPT: Final = 5  #: seconds
    _MOST: Final = 1_000

    def __init__(self, stores: Stores, clock: Callable[[], float]) -> None:
        self._stores = stores
        self._clock = clock
        self._found: dict[bytes, tuple[float, Key]] = {}  #: by hash, with the time of the look

    def cached(self, text: str) -> Key | None:
        """Return a key that was looked up a moment ago."""
        now = self._clock()
        at, key = self._found.get(_hash(text), (0.0, None))
        fresh = key is not None and 0 <= now - at < self.KEPT and key.counts(now)
        return key if fresh else None

    def knew(self, text: str) -> bool:
        """Whether a key was found by an earlier look-up; it may count no more."""
        return _hash(text) in self._found

    def look_up(self, text: str) -> Key | None:
        """Return a key as the registry has it now."""
        if not _KEY.fullmatch(text):
            return None
        now = self._clock()
        with self._stores.reading() as connection:
            key = find_api_key(connection, text, now)
        if key is not None:
            if len(self._found) >= self._MOST:
                self._found.clear()
            self._found[_hash(text)] = (now, key)
        return key

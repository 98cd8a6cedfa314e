"""Cursors: places in a list as opaque texts, signed and bound to the filters of the list (R2-39).

The secret is in the registry, so that a cursor of one server counts at any other one. What a
cursor says is no secret; its signature keeps clients from making cursors of their own, which a
later version would have to understand.
"""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from struct import Struct
from typing import Final, NamedTuple

from anyio import to_thread

from smartcrawl.registry.connection import Connection
from smartcrawl.server.errors import api_invalid_input
from smartcrawl.server.stores import Stores

_NAME: Final = "cursor secret"
_KNOWN: Final = "SELECT value FROM choice WHERE name = ?"
#: If several servers start at once, one chooses, and the others read its choice.
_CHOSEN: Final = """
INSERT INTO choice (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = choice.value RETURNING value
"""
_PLACE: Final = Struct(">qq")
_SIGNATURE: Final = 16  #: bytes
CURSOR_PATTERN: Final = "^[A-Za-z0-9_-]{43}$"
_CURSOR: Final = re.compile(CURSOR_PATTERN.strip("^$"), re.ASCII)


class Place(NamedTuple):
    """The last row of a page: the next page begins below it."""

    at: int  #: Unix seconds
    no: int


class Cursors:
    """Writes and reads cursors with the secret of the registry."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._secret: bytes | None = None

    async def prepare(self) -> None:
        """Read the secret, or choose it; later calls do nothing."""
        if self._secret is None:
            self._secret = await to_thread.run_sync(self._stored_secret)

    def write(self, place: Place, filters: Sequence[object]) -> str:
        """Return the cursor of a place in the list that has these filters."""
        packed = _PLACE.pack(*place)
        return urlsafe_b64encode(packed + self._signature(packed, filters)).decode().rstrip("=")

    def read(self, cursor: str, filters: Sequence[object]) -> Place:
        """Return the place of a cursor.

        Raises:
            ApiError: it is none of ours, or of a list with other filters.
        """
        raw = urlsafe_b64decode(f"{cursor}=") if _CURSOR.fullmatch(cursor) else b""
        packed, signature = raw[: _PLACE.size], raw[_PLACE.size :]
        if len(packed) != _PLACE.size or not hmac.compare_digest(
            signature, self._signature(packed, filters)
        ):
            raise api_invalid_input(
                "cursor", "cursor must be the next_cursor of a page with the same filters"
            )
        return Place(*_PLACE.unpack(packed))

    def _signature(self, packed: bytes, filters: Sequence[object]) -> bytes:
        if self._secret is None:
            raise RuntimeError("prepare() was not called")
        text = packed + repr(tuple(filters)).encode()
        return hmac.digest(self._secret, text, sha256)[:_SIGNATURE]

    def _stored_secret(self) -> bytes:
        known = self._stores.read(_stored)
        return bytes.fromhex(known or self._stores.write(_chosen))


def _stored(connection: Connection) -> str | None:
    value: str | None = connection.execute(_KNOWN, (_NAME,)).get
    return value


def _chosen(connection: Connection) -> str:
    value = secrets.token_hex(32)
    return str(connection.execute(_CHOSEN, (_NAME, value)).get)

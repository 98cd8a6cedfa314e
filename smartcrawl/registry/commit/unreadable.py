"""Bodies that cannot be read: recorded until they or the extraction version change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from smartcrawl.model.pages import Unreadable
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.model import Fault

_FIND = """
SELECT fault, allowed, message FROM unreadable
 WHERE body_hash = ? AND extraction = ? AND media = ?
"""
_PUT = """
INSERT INTO unreadable (body_hash, extraction, media, fault, allowed, message, at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (body_hash, extraction, media) DO UPDATE
   SET fault = excluded.fault, allowed = excluded.allowed, message = excluded.message,
       at = excluded.at
"""
_PURGE = "DELETE FROM unreadable WHERE at < ?"


def find_unreadable_row(
    connection: Connection, body_hash: bytes, extraction: int, media: str
) -> Unreadable | None:
    """Return the record of a body that an extraction cannot read, or None."""
    row: Any = connection.execute(_FIND, (body_hash, extraction, media)).fetchone()
    if row is None:
        return None
    return Unreadable(body_hash, extraction, media, Fault(row[0]), row[1], row[2])


def store_unreadable_rows(connection: Connection, bodies: Iterable[Unreadable], now: int) -> None:
    """Record bodies that cannot be read; a body that came again gets ``now`` as its time."""
    rows = {body[:3]: (*body[:3], int(body.fault), body.allowed, body.message, now)
            for body in bodies}  # fmt: skip
    connection.executemany(_PUT, [rows[key] for key in sorted(rows)])  # the order of all locks


def purge_unreadable_rows(connection: Connection, before: int) -> None:
    """Delete the rows of bodies that have not come since ``before`` (Unix seconds)."""
    connection.execute(_PURGE, (before,))

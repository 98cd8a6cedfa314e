"""Addresses that were posted to be pinned, until a run of their source registers them (R2-33).

A run gives out numbers of its own, and may discover any of these addresses at any moment. So they
wait beside the records, and the next run pins them when it begins (ADR 60).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from smartcrawl.registry.connection import Connection, Many, transaction

_COLUMNS = ("source", "id", "url", "host", "at", "priority")
#: The first statement of a transaction that posts addresses: they wait for each other.
_POSTING = "UPDATE sequence SET value = value WHERE name = 'number'"
#: The condition on the source lets the query use the index.
_KNOWN = """
SELECT r.id, (SELECT name FROM source s WHERE s.no = r.source), TRUE FROM record r
 WHERE r.id IN carray(?) AND r.source IN (SELECT no FROM source WHERE name IN carray(?))
"""
_POSTED = """
SELECT id, source, FALSE FROM pending_pin WHERE id IN carray(?) AND source IN carray(?)
"""
_ORDERED = """
SELECT id, source, FALSE FROM ordered_address WHERE id IN carray(?) AND source IN carray(?)
"""
_DUE = """
UPDATE state SET next_visit = :now
 WHERE next_visit > :now AND no IN (
       SELECT r.no FROM record r
        WHERE r.id IN carray(:ids)
          AND r.source IN (SELECT no FROM source WHERE name IN carray(:sources)))
"""
_PIN = """
INSERT INTO pin (no, source, at, priority)
SELECT r.no, r.source, w.at, w.priority
  FROM pending_pin w JOIN record r ON r.source = :no AND r.id = w.id
 WHERE w.source = :name
ON CONFLICT (no) DO NOTHING
"""
_PINNED = """
DELETE FROM pending_pin
 WHERE source = :name AND id IN (SELECT r.id FROM record r WHERE r.source = :no)
"""
_OF_ID = "WHERE id = :id AND (:every OR source IN carray(:sources))"
_POSTED_TO = f"SELECT source, at, priority FROM pending_pin {_OF_ID} ORDER BY source"
_WAITING = f"SELECT source FROM pending_pin {_OF_ID} ORDER BY source"
_FORGET = f"DELETE FROM pending_pin {_OF_ID}"


class PendingPin(NamedTuple):
    """A posted address; the fields are the columns of its row."""

    source: str  #: its name
    id: bytes  #: SHA-256 of the normalized address
    url: str
    host: str
    at: int  #: Unix seconds
    priority: int


class KnownAddress(NamedTuple):
    """A source that has an address already."""

    source: str  #: its name
    is_record: bool  #: it has a record of it; else the address waits for a run


def known_address_rows(
    connection: Connection, ids: Sequence[bytes], sources: Sequence[str]
) -> dict[bytes, KnownAddress]:
    """Return those ids (32 bytes each) that sources have a record of, or that wait for one.

    The caller's transaction keeps others from posting addresses until its end.
    """
    connection.execute(_POSTING)
    known: dict[bytes, KnownAddress] = {}
    for statement in (_ORDERED, _POSTED, _KNOWN):
        rows: Any = connection.execute(statement, (Many(ids), Many(sources))).fetchall()
        known |= {bytes(key): KnownAddress(name, bool(is_record)) for key, name, is_record in rows}
    return known


def make_stored_addresses_due(
    connection: Connection, ids: Sequence[bytes], sources: Sequence[str], now: int
) -> None:
    """Make the records of ids (32 bytes each) due, in the same transaction (RD-16).

    ``now``: Unix seconds. A visit is only brought forward; nothing else of a record changes.
    """
    named = {"ids": Many(ids), "sources": Many(sources), "now": now}
    connection.execute(_DUE, named)


def store_pending_pin_rows(connection: Connection, pins: Iterable[PendingPin]) -> None:
    """Store addresses that ``known_address_rows`` did not return, in its transaction."""
    connection.fill("pending_pin", _COLUMNS, pins)


def pin_registered_rows(connection: Connection, name: str, source: int) -> None:
    """Pin the waiting addresses that have a record now; ``source`` is source.no of ``name``.

    The caller opens the transaction.
    """
    for statement in (_PIN, _PINNED):
        connection.execute(statement, {"name": name, "no": source})


def pending_pins_of(
    connection: Connection, key: bytes, sources: Sequence[str]
) -> list[tuple[str, int, int]]:
    """Return source, time (Unix seconds) and priority of a waiting address.

    ``sources``: () for all.
    """
    values = {"id": key, "every": not sources, "sources": Many(sources)}
    rows: list[Any] = connection.execute(_POSTED_TO, values).fetchall()
    return [(str(source), int(at), int(priority)) for source, at, priority in rows]


def delete_pending_pin_rows(
    connection: Connection, key: bytes, sources: Sequence[str], *, dry: bool
) -> list[str]:
    """Remove a waiting address from some sources (none: from all); return their names.

    ``dry``: return the names only.
    """
    values = {"id": key, "every": not sources, "sources": Many(sources)}
    rows: list[Any] = connection.execute(_WAITING, values).fetchall()
    if rows and not dry:
        with transaction(connection):
            connection.execute(_FORGET, values)
    return [str(name) for (name,) in rows]

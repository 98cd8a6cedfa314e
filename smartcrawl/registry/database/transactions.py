"""Transactions over a connection to either database, and its sequences of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from smartcrawl.registry.connection import Connection

#: Statements that the connection to PostgreSQL translates.
WRITING = "BEGIN IMMEDIATE"
READING = "BEGIN DEFERRED"


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Write all or nothing, durable on return."""
    with _within(connection, WRITING):
        yield


@contextmanager
def read_transaction(connection: Connection) -> Iterator[None]:
    """Read everything as of one moment."""
    with _within(connection, READING):
        yield


@contextmanager
def _within(connection: Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_NEXT = "UPDATE sequence SET value = value + ? WHERE name = ? RETURNING value"
_LAST = "SELECT value FROM sequence WHERE name = ?"


def draw_sequence_numbers(connection: Connection, name: str, count: int = 1) -> int:
    """Draw ``count`` numbers of a sequence and return the last."""
    return int(connection.execute(_NEXT, (count, name)).get)


def last_sequence_number(connection: Connection, name: str) -> int:
    """Return the last drawn number of a sequence."""
    return int(connection.execute(_LAST, (name,)).get)

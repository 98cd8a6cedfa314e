"""Transactions over a connection to either database."""

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

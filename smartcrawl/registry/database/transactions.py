"""Transactions over a connection, whichever database it leads to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from smartcrawl.model.ports import Connection

#: Statements that the connection to PostgreSQL knows by these words, too.
WRITING = "BEGIN IMMEDIATE"
READING = "BEGIN DEFERRED"


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """All or nothing, durable when it returns."""
    with _within(connection, WRITING):
        yield


@contextmanager
def one_moment(connection: Connection) -> Iterator[None]:
    """Everything that is read is as of one moment."""
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

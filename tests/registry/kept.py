"""Connections to a SQLite file that stay open for the next command of the same test.

SQLite reads the schema at each opening, and compiles each statement anew: a quarter of what a story
of several commands in one process computes. ``script/test --all`` opens them anew each time, as
processes do.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any
from unittest.mock import patch

import apsw

from smartcrawl.registry.database import sqlite
from smartcrawl.registry.database.sqlite import (
    BUSY_TIMEOUT,
    SqliteConnection,
    apply_migrations,
    connect_sqlite,
)
from tests.registry.build import empty_registry_in_memory

_Place = tuple[str, tuple[int, int]]  #: path, and device and inode
#: What a command gives to its connection, and the next one has to find anew.
_GIVEN = ("has_vectors", "index_state", "counted")


class KeptConnections:
    """The open connections of a test, by their files; those that are idle are given out."""

    def __init__(self) -> None:
        self._idle: dict[_Place, list[SqliteConnection]] = defaultdict(list)
        self._used: dict[int, tuple[_Place, SqliteConnection, int]] = {}
        self._lock = Lock()

    def connect(
        self, path: Path, *, readonly: bool = False, create: bool = False
    ) -> SqliteConnection:
        """Be ``connect_sqlite``."""
        opened = sqlite._file_at(path)
        if opened is None:
            return connect_sqlite(path, readonly=readonly, create=create)
        place = str(path), opened
        with self._lock:
            found = self._idle[place].pop() if self._idle[place] else None
        connection = found or connect_sqlite(path)
        if found is not None:
            _reset(connection)
        with self._lock:
            self._used[id(connection)] = place, connection, connection.total_changes()
        connection.close = lambda force=False: self._take_back(connection)  # type: ignore[method-assign]
        if readonly:
            connection.only_read()
        return connection

    def _take_back(self, connection: SqliteConnection) -> None:
        """Be ``close``: leave the file as the last connection that closes does."""
        with self._lock:
            place, _, before = self._used.pop(id(connection), (None, None, 0))
            is_last = all(each != place for each, _, _ in self._used.values())
        if place is None:
            return  # it may be closed twice
        if connection.in_transaction:
            SqliteConnection.close(connection)
            return
        if connection.writes and connection.total_changes() != before:
            connection.settle()
        if is_last:
            with suppress(apsw.Error):  # a reader that is not kept has it
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.release_memory()  # a test may write into the file itself
        with self._lock:
            self._idle[place].append(connection)

    def end(self) -> None:
        """Close those that are idle."""
        for connections in self._idle.values():
            for connection in connections:
                SqliteConnection.close(connection)
        self._idle.clear()


def _reset(connection: SqliteConnection) -> None:
    connection.set_busy_timeout(BUSY_TIMEOUT)
    if not connection.writes:
        connection.execute("PRAGMA query_only = 0").fetchall()
        connection.writes = True
    given: dict[str, Any] = vars(connection)
    for name in _GIVEN:
        given.pop(name, None)


def _apply_migrations(connection: SqliteConnection, **until: int | None) -> None:
    """Be ``apply_migrations``: give an empty file its tables by copying them."""
    if until or connection.execute("SELECT count(*) FROM sqlite_schema").get:
        apply_migrations(connection, **until)
        return
    with connection.backup("main", empty_registry_in_memory(), "main") as copying:
        copying.step()


@contextmanager
def kept_connections() -> Iterator[None]:
    """Keep connections meanwhile, and copy the tables of new files."""
    kept = KeptConnections()
    empty_registry_in_memory()  # made by the steps themselves
    with (
        patch.object(sqlite, "connect_sqlite", kept.connect),
        patch.object(sqlite, "apply_migrations", _apply_migrations),
    ):
        try:
            yield
        finally:
            kept.end()

"""Look-ups of stored items while their files are read and downloaded, over one connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from smartcrawl.model.library import LibraryRow
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.library.items import library_rows_of
from smartcrawl.registry.library.shelf import LibraryShelf


class StoredItems:
    """Reads items for the threads of a run, one at a time; the first look-up opens the connection.

    A connection for each item would take a sixth of the CPU of a first download.
    """

    def __init__(self, database: Database, shelf: LibraryShelf) -> None:
        self._database = database
        self._shelf = shelf
        self._lock = Lock()
        self._connection: Connection | None = None

    @contextmanager
    def _opened(self) -> Iterator[Connection]:
        with self._lock:
            if self._connection is None:
                self._connection = self._database.connect(readonly=True)
            yield self._connection

    def row(self, no: int) -> LibraryRow | None:
        """Return the stored item of a record, or None."""
        with self._opened() as connection:
            return library_rows_of(connection, [no]).get(no)

    def rests(self, row: LibraryRow) -> bool:
        """Whether the file of an item was in its place ever since its row was read."""
        with self._opened() as connection:
            now = library_rows_of(connection, [row.no]).get(row.no)
            paths = self._shelf.paths_under_way(connection)
        return now is not None and now.path == row.path and row.path not in paths

    def close(self) -> None:
        """Close the connection; idempotent."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

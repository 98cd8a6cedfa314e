"""The registry as requests use it: connections for reading and for writing, lent and returned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Final, TypeVar

from anyio import fail_after, to_thread

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.connection import Connection, read_transaction
from smartcrawl.registry.database.databases import Database, DatabaseControl, registry_database
from smartcrawl.registry.database.sqlite import SqliteConnection

_T = TypeVar("_T")

READING: Final = 8  #: connections for reading, at most
WRITING: Final = 1  #: for writing; SQLite lets one write at a time
_WAIT: Final = 5.0  #: seconds for which a request waits for a connection
PATIENCE: Final = 2.0  #: seconds for which a request waits for a database that is away
_AT_ONCE: Final = "PRAGMA busy_timeout = 20"  #: milliseconds for which the event loop may wait


class Stores:
    """The registry of this server. Several servers, and crawls, may use it at the same time.

    Every method may be called from any thread, and raises RegistryError when the database fails;
    the API answers that with 503.
    """

    def __init__(self, place: Path | str, *, only_reading: bool = False) -> None:
        """``place``: REGISTRY_URL, as of the options.

        ``only_reading``: open it as commands that read do, without creating it.
        """
        self._database = registry_database(place, patience=PATIENCE)
        self._only_reading = only_reading
        check = self._database.check_place
        self._reading = _Pool(lambda: self._connected(readonly=True), READING, check)
        self._writing = _Pool(lambda: self._connected(readonly=False), WRITING, check)
        self._turn = asyncio.Lock()
        self._preparing = Lock()
        self._prepared = False
        self._in_file = isinstance(place, Path)
        self._at_once: Connection | None = None  #: of the event loop

    @property
    def database(self) -> Database:
        """The database of the registry."""
        return self._database

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Lend a connection for reading; one thread uses it, and reads its rows in the block."""
        with self._database.translated("read"), self._reading.lent() as connection:
            yield connection

    async def read_little(self, work: Callable[[Connection], _T]) -> _T:
        """Do ``work``, which finds a few rows by an index.

        SQLite is read on the event loop, where a thread would cost more than the work itself. If
        the file is locked, or cannot be read, it is read in a thread, which also reports the error.
        """
        if self._in_file:
            if self._at_once is None:
                opened = await to_thread.run_sync(self._connected_at_once)
                if self._at_once is None:
                    self._at_once = opened
                else:  # another request was first
                    opened.close(True)
            try:
                with self._database.translated("read"):
                    self._database.check_place(self._at_once)
                    return work(self._at_once)
            except RegistryError:
                self._at_once.close(True)
                self._at_once = None
        return await to_thread.run_sync(self.read, work)

    def read(self, work: Callable[[Connection], _T]) -> _T:
        """Do ``work`` in this thread with a connection for reading."""
        with self.reading() as connection:
            return work(connection)

    def read_moment(self, work: Callable[[Connection], _T]) -> _T:
        """Do ``work``, of several statements, as ``read`` does, with all rows as of one moment."""
        with self.reading() as connection, read_transaction(connection):
            return work(connection)

    def write(self, work: Callable[[Connection], _T]) -> _T:
        """Do ``work`` in one transaction; a conflict or a restart of the server repeats it."""
        with self._database.translated("write"), self._writing.lent() as connection:
            control = DatabaseControl(self._database, connection)
            done = control.write(lambda: work(connection))
            if isinstance(connection, SqliteConnection):
                connection.settle(tries=1)
            return done

    async def write_in_turn(self, work: Callable[[Connection], _T]) -> _T:
        """Do ``work`` as ``write`` does, in a thread.

        Requests that wait for the connection wait here: in threads they would keep all others
        from reading.
        """
        try:
            with fail_after(_WAIT):
                await self._turn.acquire()
        except TimeoutError:
            raise _in_use() from None
        try:
            return await to_thread.run_sync(self.write, work)
        finally:
            self._turn.release()

    def close(self) -> None:
        """Close the connections that are not lent."""
        self._reading.close()
        self._writing.close()
        if self._at_once is not None:
            self._at_once.close(True)
            self._at_once = None

    def _connected_at_once(self) -> Connection:
        with self._database.translated("open"):
            connection = self._connected(readonly=True)
            connection.execute(_AT_ONCE).fetchall()
        return connection

    def _connected(self, *, readonly: bool) -> Connection:
        """Connect; the first connection creates the registry, or migrates it."""
        if self._only_reading:
            return self._database.reports()
        with self._preparing:
            if not self._prepared:
                self._database.open().close()
                self._prepared = True
        return self._database.connect(readonly=readonly)


class _Pool:
    """Connections that are opened when they are needed, and kept for the next request.

    One whose file was deleted or replaced meanwhile is not lent again.
    """

    def __init__(
        self, connect: Callable[[], Connection], most: int, check: Callable[[Connection], None]
    ) -> None:
        """``check``: raises RegistryError for a connection that is not to be lent again."""
        self._connect = connect
        self._check = check
        self._room = BoundedSemaphore(most)
        self._idle: list[Connection] = []

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """Lend a connection; after an error of the database it is closed, not kept."""
        if not self._room.acquire(timeout=_WAIT):
            raise _in_use()
        try:
            connection = self._taken()
            try:
                yield connection
            except BaseException:
                connection.close(True)
                raise
            self._idle.append(connection)
        finally:
            self._room.release()

    def _taken(self) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            try:
                self._check(connection)
            except RegistryError:
                connection.close(True)
            else:
                return connection

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close(True)


def _in_use() -> RegistryError:
    return RegistryError(
        f"every connection to the registry was in use for {_WAIT:g} s; try again later"
    )

"""The database of a registry: a SQLite file, or PostgreSQL (ADR 28)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.urls import DEFAULT_TRACKERS, Trackers
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.sqlite import (
    SqliteConnection,
    SqliteDatabase,
    apply_migrations,
)

_T = TypeVar("_T")


class DatabaseControl:
    """Runs the work of one thread over one connection.

    Every method raises RegistryError when the database fails.
    """

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database = database
        self.connection = connection

    def write(self, work: Callable[[], _T]) -> _T:
        """Do ``work`` in one transaction."""

        def within() -> _T:
            with transaction(self.connection):
                return work()

        return self.retry(within)

    def retry(self, work: Callable[[], _T]) -> _T:
        """Do ``work``, which opens its own transactions and can be repeated from the first one."""
        with self.database.translated("write"):
            return self.database.retried(work)


class Lease(Protocol):
    """The exclusive right to crawl one source, until it is released or its process dies."""

    def release(self) -> None:
        """Release the lease; a second call does nothing."""


class Database(Protocol):
    """The database of a registry; its text form names it in messages, without credentials."""

    def exists(self) -> bool:
        """Whether the registry exists."""

    def open(self) -> Connection:
        """Connect for writing; create the registry if it is missing, and migrate its schema.

        Raises:
            RegistryError: it cannot be opened, belongs to another program, or was written by a
                newer version.
        """

    def connect(self, *, readonly: bool = False) -> Connection:
        """Connect to a registry that ``open`` has prepared.

        Raises:
            RegistryError: the registry cannot be reached.
        """

    def check_place(self, connection: Connection) -> None:
        """Refuse to go on where what a connection writes is not kept at the registry's place.

        Raises:
            RegistryError: the file that it opened was deleted, moved or replaced, or the server
                lacks a transaction that this process committed.
        """

    @property
    def is_given_up(self) -> bool:
        """Whether the server has been away for as long as all work of this process waits."""

    def guard_commits(self) -> None:
        """Refuse all later writes of this process once the database lost a commit of it.

        That is a database that was replaced by an older copy; writes raise CommitsLostError.
        """

    def accept_loss(self, connection: Connection) -> None:
        """Permit a connection to write again after the database lost commits."""

    def reports(self, trackers: Trackers = DEFAULT_TRACKERS) -> Connection:
        """Connect for reading, with all views for other programs (R2-53)."""

    def look(self) -> Connection:
        """Connect for reading, and write nothing: neither the schema nor files of the database.

        Raises:
            RegistryVersionError: the schema is not that of this version.
            RegistryError: the registry cannot be reached.
        """

    def translated(self, doing: str) -> AbstractContextManager[None]:
        """Turn errors of the database into RegistryError with its name and the act ``doing``."""

    def damage(self, error: Exception) -> RegistryError | None:
        """Return the damage that an error reports, or None if it reports none."""

    def is_of_data(self, error: Exception) -> bool:
        """Whether the database refused a value; other rows may still be written."""

    def explained(self, error: Exception) -> RegistryError | None:
        """Return the damage that caused an unexpected error, or None if the registry is sound.

        The whole registry is read: call it only for an error that ends a command or a run.
        """

    def retried(self, work: Callable[[], _T]) -> _T:
        """Do one transaction; repeat it if a conflict or a server restart rolled it back."""

    def hurry(self) -> None:
        """Wait for a server that is away only for some seconds more; for signal handlers, too."""

    def take(self, source: str, since: str) -> Lease:
        """Take the lease of ``source``; the error of a second process contains ``since``.

        Raises:
            RunHeldError: another process has the lease.
            RegistryError: the lease cannot be written.
        """

    def is_held(self, source: str) -> bool:
        """Whether a process crawls ``source`` now."""


def registry_database(place: Path | str, *, patience: float | None = None) -> Database:
    """Return the database of REGISTRY_URL: a file, or the URL of a PostgreSQL database.

    ``patience``: seconds for which work waits for a server that is away; None: as crawls do.
    """
    if isinstance(place, Path):
        return SqliteDatabase(place)
    postgres: Any = import_module(
        "smartcrawl.registry.database.postgres"
    )  # its import takes a tenth of a command's start-up
    waiting = {} if patience is None else {"patience": patience}
    database: Database = postgres.PostgresDatabase(place, **waiting)
    return database


def empty_registry_in_memory() -> Connection:
    """Return a registry without a source, for comparisons with one that does not exist yet."""
    connection = SqliteConnection(":memory:")
    apply_migrations(connection)
    return connection

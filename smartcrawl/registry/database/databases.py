"""The database that a registry lies in: a SQLite file, or PostgreSQL (design.md 5)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.ports import Connection
from smartcrawl.model.urls import DEFAULT_TRACKERS, Trackers
from smartcrawl.registry.database.sqlite import SqliteDatabase

_T = TypeVar("_T")


class Lease(Protocol):
    """The right to crawl one source, held until it is released or its holder is dead."""

    def release(self) -> None:
        """Give it back; a second call does nothing."""


class Database(Protocol):
    """Where a registry lies; as text it is what messages may name."""

    def exists(self) -> bool:
        """Whether there is a registry already."""

    def open(self) -> Connection:
        """Connect for writing; the registry is made if there is none, and brought up to date.

        Raises:
            RegistryError: it cannot be opened, is another program's, or of a newer version.
        """

    def connect(self, *, readonly: bool = False) -> Connection:
        """Connect to a registry that was opened before.

        Raises:
            RegistryError: it cannot be reached.
        """

    def reports(self, trackers: Trackers = DEFAULT_TRACKERS) -> Connection:
        """Connect for reading, with all views that other programs may want (R2-53)."""

    def translated(self, doing: str) -> AbstractContextManager[None]:
        """Turn the errors of the database into RegistryError, naming it and what was done."""

    def damage(self, error: Exception) -> RegistryError | None:
        """Return what an error says of a damaged registry; None: it says nothing of that."""

    def is_of_data(self, error: Exception) -> bool:
        """Whether the database refused a value, so that other rows may still be written."""

    def explained(self, error: Exception) -> RegistryError | None:
        """Return the damage that an unexpected error came from; None: the registry is sound.

        The whole registry is read: only for an error that ends a command or a run.
        """

    def retried(self, work: Callable[[], _T]) -> _T:
        """Do something that is one transaction, again where another one or a restart undid it."""

    def take(self, source: str, since: str) -> Lease:
        """Take the lease of ``source``; ``since`` is told to whoever comes second.

        Raises:
            RunHeldError: another process holds it.
            RegistryError: it cannot be written.
        """

    def is_held(self, source: str) -> bool:
        """Whether a process crawls ``source`` now."""


def database_of(place: Path | str) -> Database:
    """Return the database of REGISTRY_URL: a file, or the URL of a PostgreSQL database."""
    if isinstance(place, Path):
        return SqliteDatabase(place)
    postgres: Any = import_module(
        "smartcrawl.registry.database.postgres"
    )  # a tenth of a command's start
    database: Database = postgres.PostgresDatabase(place)
    return database

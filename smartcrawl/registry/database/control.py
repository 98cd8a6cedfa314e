"""The control connection of a registry, with the database's retries around its work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.database.transactions import transaction

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

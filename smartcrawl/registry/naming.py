"""A source that an address began, under a name that a file gives it."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Final

from smartcrawl.model.exceptions import SourceError
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.databases import Database

_IS_THERE: Final = "SELECT 1 FROM source WHERE name = ?"
_IS_OTHER_KIND: Final = "SELECT 1 FROM source WHERE name = ? AND kind <> ?"
#: A source that a command named by its root keeps its name.
_OF_ROOT: Final = "SELECT name FROM source WHERE root = ? AND NOT declared ORDER BY no LIMIT 1"
_ROOT: Final = "SELECT root FROM source WHERE name = ? AND NOT declared"
_NAME: Final = "UPDATE source SET name = ?, declared = ? WHERE name = ?"
#: What waits for a source by its name; orders for the next run of another name would be lost.
_WAITING: Final = tuple(
    f"UPDATE {table} SET source = ? WHERE source = ?"
    for table in ("pending_pin", "ordered_address", "due_run", "recompute")
)


def is_source_name_stored(connection: Connection, name: str, kind: str | None = None) -> bool:
    """Whether a stored source has a name; ``kind``: one of another kind."""
    if kind is not None:
        return connection.execute(_IS_OTHER_KIND, (name, kind)).get is not None
    return connection.execute(_IS_THERE, (name,)).get is not None


def ad_hoc_name_of_root(connection: Connection, root: str) -> str | None:
    """Return the name of the source that a command named by its root, a URL; None: none is."""
    name = connection.execute(_OF_ROOT, (root,)).get
    return None if name is None else str(name)


def root_of_ad_hoc_source(connection: Connection, name: str) -> str | None:
    """Return the root of a stored source that no file declared; None: it is none, or no listing."""
    root = connection.execute(_ROOT, (name,)).get
    return None if root is None else str(root)


def check_new_source_name(connection: Connection, name: str) -> None:
    """Check that no stored source has a name.

    Raises:
        SourceError: one has.
    """
    if connection.execute(_IS_THERE, (name,)).get is not None:
        raise SourceError(f"a source called {name} is stored already: choose another name")


def name_source_row(
    database: Database, old: str, new: str, since: str, *, declared: bool = True
) -> None:
    """Give a stored source another name; ``declared``: whether a file declares it from now on.

    Raises:
        RunHeldError: a process crawls it.
        SourceError: another source has that name.
    """
    with database.translated("write"), ExitStack() as taken:
        for name in (old, new):
            taken.callback(database.take(name, since).release)
        with closing(database.open()) as connection, transaction(connection):
            check_new_source_name(connection, new)
            connection.execute(_NAME, (new, declared, old))
            for statement in _WAITING:
                connection.execute(statement, (new, old))

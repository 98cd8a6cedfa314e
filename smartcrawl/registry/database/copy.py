"""A copy of the rows that the next run of one source reads, for a rehearsal of it (ADR 143).

It is a SQLite file whatever the registry is in, because both databases have the same tables. It has
neither bodies nor documents nor an index, and it is gone with its process: its file loses its name
as soon as all connections are open.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any, Final

import apsw

from smartcrawl.model.exceptions import RegistryError, RegistryFullError
from smartcrawl.registry.connection import Connection, read_transaction, transaction
from smartcrawl.registry.database.sqlite import SqliteConnection, SqliteDatabase

_EVERY: Final = "1 = 1"
_OF_SOURCE: Final = "source = :no"
_OF_RECORDS: Final = "no IN (SELECT no FROM record WHERE source = :no)"
#: The copied tables in the order of their references, each with its condition.
TABLES: Final[Mapping[str, str]] = {
    "sequence": _EVERY,
    "fingerprint": _EVERY,
    "source": "no = :no",
    "run": _OF_SOURCE,
    "seed": "run IN (SELECT no FROM run WHERE source = :no)",
    "pin": _OF_SOURCE,
    "pending_pin": "source = :name",
    "ordered_address": "source = :name",
    "recompute": "source = :name",
    "host": _EVERY,
    "trust": _EVERY,
    "not_found": _EVERY,
    "robots": _EVERY,
    "seed_name": _EVERY,
    "record": _OF_SOURCE,
    "state": _OF_RECORDS,
    "links": _OF_RECORDS,
    "content": _OF_SOURCE,
    "site_list": _OF_SOURCE,
    "former_text": _OF_RECORDS,
    "change": "record IN (SELECT no FROM record WHERE source = :no)",
    "spelling": _OF_RECORDS,
    "item": _OF_RECORDS,
    "data_request": _OF_SOURCE,
    "page_data": _OF_RECORDS,
    "render_sample": _OF_SOURCE,
    "candidate": _OF_SOURCE,
    "evidence": _OF_SOURCE,
}
#: Columns that are copied empty, because no rehearsal reads them.
EMPTY: Final[Mapping[tuple[str, str], str]] = {
    ("content", "document"): "zeroblob(0)",
    ("content", "txt"): "NULL",
    ("content", "marked"): "''",
    ("evidence", "links"): "NULL",
    ("change", "lines"): "NULL",
    ("change", "detail"): "NULL",
    ("run", "marks"): "'[]'",
    ("run", "requested"): "NULL",  # an order that ended the last run is none to the next one
}


class _NoLease:
    """The right to a source that no other process has."""

    def release(self) -> None:
        """Do nothing."""


class CopiedDatabase(SqliteDatabase):
    """A registry that this process alone reads and writes, and that is gone with it."""

    def connect(self, *, readonly: bool = False) -> SqliteConnection:
        """Connect to it; what is committed need not outlive this process."""
        return _fleeting(super().connect(readonly=readonly))

    def open(self) -> SqliteConnection:
        """Create it, and connect for writing."""
        return _fleeting(super().open())

    def check_place(self, connection: Connection) -> None:
        """Do nothing: its file has no name any more (``hide``)."""

    def take(self, source: str, since: str) -> Any:
        """Return a lease of nothing."""
        return _NoLease()

    def hide(self) -> None:
        """Remove the names of its files; connections that are open keep them."""
        shutil.rmtree(self.path.parent, ignore_errors=True)


def _fleeting(connection: SqliteConnection) -> SqliteConnection:
    connection.execute("PRAGMA synchronous = OFF").fetchall()
    connection.writes = False
    return connection


@contextmanager
def copied_source(
    registry: Connection, no: int, name: str, copied: Callable[[int], None]
) -> Iterator[CopiedDatabase]:
    """Yield a copy of what the next run of a source reads; ``no``: source.no, 0 if it is new.

    ``copied`` is called with the number of records after each table. The rehearsal calls ``hide``
    once it has opened all its connections to the copy.

    Raises:
        RegistryError: there is no room for it.
    """
    database = CopiedDatabase(Path(mkdtemp(prefix="smartcrawl-")) / "rehearsal.db")
    try:
        as_of_now = nullcontext() if registry.in_transaction else read_transaction(registry)
        with closing(database.open()) as connection, as_of_now, transaction(connection):
            _copy(registry, connection, {"no": no, "name": name}, copied)
        yield database
    except (apsw.FullError, RegistryFullError) as error:
        raise RegistryError(
            f"no room in {gettempdir()} to rehearse the next run of {name}: free some, or set"
            " TMPDIR to a folder with more"
        ) from error
    finally:
        database.hide()


def _copy(
    registry: Connection,
    connection: SqliteConnection,
    values: dict[str, object],
    copied: Callable[[int], None],
) -> None:
    for table, condition in TABLES.items():
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        read = ", ".join(EMPTY.get((table, name), name) for name in names)
        places = ", ".join("?" * len(names))
        rows = registry.execute(f"SELECT {read} FROM {table} WHERE {condition}", values)
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({places})", rows)
        copied(int(connection.execute("SELECT count(*) FROM record").get))

"""The interface of a database connection, and transactions over it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol


class Many:
    """Numbers, ids or texts as one value of a statement: ``… IN carray(?)``; may be empty."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[int] | Sequence[bytes] | Sequence[str]) -> None:
        self.values = values


class Rows(Protocol):
    """The rows of a statement."""

    @property
    def get(self) -> Any:
        """The value of the first row, as a tuple if it has several columns; None without rows."""

    def get_description(self) -> tuple[Any, ...]:
        """Return name and type of each column."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the remaining rows."""


class Connection(Protocol):
    """One connection to the registry, in either database.

    Statements are written in the SQL that SQLite and PostgreSQL share: ``?`` or ``:name`` for
    values, ``IN carray(?)`` for ``Many``, flags as ``WHERE flag`` and bool, ``min`` and ``max``
    also of two numbers, ``hex`` and ``zeroblob`` of bytes.
    """

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgres``."""

    @property
    def is_read_only(self) -> bool:
        """Whether it can write nothing."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    def execute(self, statement: str, values: Any = ()) -> Rows:
        """Run one statement."""

    def executemany(
        self, statement: str, values: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> Any:
        """Run one statement for each of some rows."""

    def fill(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert rows into a table; none of them exists already."""

    def changes(self) -> int:
        """Return the number of rows that the last statement wrote."""

    def close(self, force: bool = False) -> None:
        """Close it, with ``force`` also if statements were not read to their end."""


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


_NEXT = "UPDATE sequence SET value = value + ? WHERE name = ? RETURNING value"
_LAST = "SELECT value FROM sequence WHERE name = ?"


def draw_sequence_numbers(connection: Connection, name: str, count: int = 1) -> int:
    """Draw ``count`` numbers of a sequence and return the last."""
    return int(connection.execute(_NEXT, (count, name)).get)


def last_sequence_number(connection: Connection, name: str) -> int:
    """Return the last drawn number of a sequence."""
    return int(connection.execute(_LAST, (name,)).get)

"""What the road asks of its surroundings; design.md 4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from smartcrawl.items import Chunk


class Many:
    """Numbers, ids or texts as one value of a statement: ``… IN carray(?)``; it may be empty."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[int] | Sequence[bytes] | Sequence[str]) -> None:
        self.values = values


class Rows(Protocol):
    """What a statement found."""

    @property
    def get(self) -> Any:
        """First column of the first row, or None; columns of more than one as a tuple."""

    def get_description(self) -> tuple[Any, ...]:
        """Return name and type of each column."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""


class Connection(Protocol):
    """One connection to the registry, whichever database it lies in.

    Statements are written in the SQL that SQLite and PostgreSQL share: ``?`` or ``:name`` for
    values, ``IN carray(?)`` for ``Many``, flags as ``WHERE flag`` and bool, ``min`` and ``max``
    also of two numbers, ``hex`` and ``zeroblob`` of bytes.
    """

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgres``."""

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
        """Insert rows into a table; none of them is there already."""

    def changes(self) -> int:
        """Return how many rows the last statement wrote."""

    def close(self, force: bool = False) -> None:
        """Close it, with ``force`` also what was not read to its end."""


class Sink(Protocol):
    """Where content is written to be searched, inside the registry's transaction."""

    def put(self, content: int, title: str, chunks: Sequence[Chunk]) -> None:
        """Write the chunks of a content row that has none."""

    def remove(self, content: int) -> None:
        """Remove the chunks of a content row; what is put after this call stays."""

    def flush(self) -> None:
        """Write what was put and removed since the last call; the last step of a batch."""

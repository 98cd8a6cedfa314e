"""What the road asks of its surroundings; design.md 4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from smartcrawl.model.documents import Chunk
from smartcrawl.model.index_pages import IndexedPage

_T = TypeVar("_T")


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
    """What a transaction of the registry says of the content that is searched."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the chunks are stored outside of the registry's database."""

    def prepare(self, texts: Sequence[tuple[str, Sequence[Chunk]]]) -> Sequence[int]:
        """Write titles and chunks before the transaction waits for others.

        Returns the number that the content row of each must get; what gets none is to be removed
        again. Empty where nothing was written, as nobody would wait for it.
        """

    def put(self, content: int, title: str, chunks: Sequence[Chunk]) -> None:
        """Write the chunks of a content row that has none."""

    def remove(self, content: int) -> None:
        """Remove the chunks of a content row; what is put after this call stays."""

    def flush(self) -> None:
        """Write what was put and removed since the last call; the last step of a batch."""

    def moved(self, contents: Iterable[int]) -> None:
        """Note contents of which other pages may be the originals now."""


class PageIndex(Protocol):
    """An index that lies elsewhere and holds one document a page (design.md 7)."""

    def write(self, pages: Sequence[IndexedPage], number: int, now: int) -> list[str | None]:
        """Write pages under a claim number, in their order; return what became of each.

        None: it is written. Empty: a later claim has written it already. Else why it is refused.

        Raises:
            SinkError: nothing is taken any more; what was not written may be written again.
        """

    def version(self, epoch: int, number: int) -> int:
        """Return under which version something is written."""

    def sealed(self, number: int) -> int:
        """Remember that a run was sealed; return the highest version that is remembered."""

    def purge(self, before: int) -> None:
        """Delete the tombstones that were written before a time, in Unix seconds.

        A failure is logged, not raised: the next run deletes them.
        """

    def close(self) -> None:
        """Close the connections."""


class Indexing(Protocol):
    """How registry and index are written together (design.md 6)."""

    def perform(
        self,
        connection: Connection,
        work: Callable[[Sink, int], _T],
        *,
        now: int,
        number: int | None = None,
        refused: Callable[[int, str | None], bool] | None = None,
    ) -> _T:
        """Do some work in one transaction, under a claim number (None: a new one).

        ``work`` may be done more than once, and undone before. ``refused`` is told the number of
        each page that the index does not take, and why (None: a later claim has written it); it
        returns whether ``work`` will ask for something else.

        Raises:
            SinkError: the index takes nothing any more; nothing was done.
        """

    def rehearse(
        self, connection: Connection, work: Callable[[Sink, int], object], number: int
    ) -> None:
        """Do some work in a transaction and undo it; no index elsewhere is written.

        Its errors are raised.
        """

    def mend(self, connection: Connection, source: int, *, number: int | None, now: int) -> int:
        """Write what a process that died left open; return how many pages.

        ``number`` is that of the run that begins: a higher one would win over what it writes.
        None where workers share the run: each of their writes has a number of its own.
        """

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for an index no longer than until ``stopping`` says so, from any thread."""

    def seal(self, connection: Connection) -> None:
        """Let registry and index remember how far both are, once a run is sealed and swept."""

    def purge(self, before: int) -> None:
        """Delete the tombstones that were written before a time, in Unix seconds."""

    def close(self) -> None:
        """Close what is open."""

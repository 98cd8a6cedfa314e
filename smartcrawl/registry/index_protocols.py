"""Interfaces of the search index, as the registry uses it (ADR 43)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from smartcrawl.model.documents import Chunk, IndexedPage
from smartcrawl.registry.connection import Connection

if TYPE_CHECKING:  # a search needs nothing of a run's visits
    from smartcrawl.model.batches import Batch

_T = TypeVar("_T")


class IndexedText(NamedTuple):
    """A title and chunks as an index gets them."""

    title: str
    chunks: Sequence[Chunk]
    language: str  #: ISO 639-1; empty: it is not known


class Sink(Protocol):
    """The search index, as a transaction of the registry writes it."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the chunks are stored outside of the registry's database."""

    def prepare(self, texts: Sequence[IndexedText]) -> Sequence[int]:
        """Write titles and chunks before the transaction waits for other workers.

        Returns the number that each content row must get; a number that is not used must be removed
        again. Empty where nothing was written, because no worker would wait for it.
        """

    def put(self, content: int, title: str, chunks: Sequence[Chunk], language: str) -> None:
        """Write the chunks of a content row that has none; ``language`` is that of its text."""

    def remove(self, content: int) -> None:
        """Remove the chunks of a content row; chunks that are put after this call stay."""

    def flush(self) -> None:
        """Write the changes since the last call; the last step of a batch."""

    def moved(self, contents: Iterable[int]) -> None:
        """Note contents whose originals may now be other pages."""

    def renamed(self, former: Mapping[int, tuple[str, bytes]]) -> None:
        """Note pages with another id: their sources and former ids, by number of record.

        The ids in the registry are the new ones. Entries under the former ids go.
        """


class AnalyzingSink(Sink, Protocol):
    """An index beside the registry, which makes the words of its chunks itself."""

    def analyzed(self, text: IndexedText, former: int | None) -> list[Chunk]:
        """Return the chunks of a text with their words, by ``Indexing.analyzed``."""


class BatchEmbedding(Protocol):
    """Maker of the vectors of a batch's chunks."""

    @property
    def is_off(self) -> bool:
        """Whether an error ended its calls: it makes no vector any more."""

    def embed(self, connection: Connection, batch: Batch) -> None:
        """Ask for the vectors. No transaction is open; this may wait for a server."""

    def store(self, connection: Connection) -> int:
        """Store the vectors, within the transaction that has just written their chunks.

        Returns the number of vectors.
        """


class PageIndex(Protocol):
    """An external index with one document for each page (docs/elasticsearch.md)."""

    def write(self, pages: Sequence[IndexedPage], number: int, now: int) -> list[str | None]:
        """Write pages under a claim number, in their order; return the result of each.

        None: it is written. Empty: a later claim has written it already. Else the reason why the
        index refuses it.

        Raises:
            SinkError: the index accepts nothing any more; write the other pages again later.
        """

    def version(self, epoch: int, number: int) -> int:
        """Return the version number of documents that a claim writes."""

    def newest(self) -> int:
        """Return the highest version of documents that refused a write; 0: none did."""

    def sealed(self, number: int) -> int:
        """Record that a run was sealed; return the highest recorded version."""

    def purge(self, before: int) -> None:
        """Delete the tombstones that were written before a time, in Unix seconds.

        A failure is logged, not raised: the next run deletes them.
        """

    def close(self) -> None:
        """Close the connections."""


class Indexing(Protocol):
    """Keeper of index and registry in step (ADR 29)."""

    def perform(
        self,
        connection: Connection,
        work: Callable[[Sink, int], _T],
        *,
        now: int,
        number: int | None = None,
        refused: Callable[[int, str | None], bool] | None = None,
    ) -> _T:
        """Do ``work`` in one transaction, under a claim number (None: a new one).

        ``work`` may be undone and done again. ``refused`` is called with the number of each page
        that the index does not accept, and the reason (None: a later claim has written it). It
        returns whether ``work`` will write something else for that page.

        Raises:
            SinkError: the index accepts nothing any more; nothing was done.
        """

    def analyzed(
        self, connection: Connection, text: IndexedText, former: int | None
    ) -> list[Chunk]:
        """Return the chunks of a text with what the index will store of them.

        ``Sink.put`` and ``Sink.prepare`` take them in place of the chunks, so that a transaction,
        for which other processes wait, has less to do. No transaction is open.
        """

    def rehearse(
        self, connection: Connection, work: Callable[[Sink, int], object], number: int
    ) -> None:
        """Do ``work`` in a transaction and undo it, without writes to an external index.

        Errors of ``work`` are raised.
        """

    def mend(self, connection: Connection, source: int, *, number: int | None, now: int) -> int:
        """Finish the writes of a process that died; return the number of pages.

        ``number`` is that of the run that begins: a higher one would win over the run's writes.
        None where workers share the run: each of their writes has its own number.
        """

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for an index only until ``stopping`` returns true; callable from any thread."""

    def when_waiting(self, waits: Callable[[], None]) -> None:
        """Call ``waits`` in the writer's thread, each second of a wait for an index that is long.

        The index may be reached by other workers.
        """

    def seal(self, connection: Connection) -> None:
        """Record the progress of registry and index, after a run was sealed and swept."""

    def purge(self, before: int) -> None:
        """Delete the tombstones that were written before a time, in Unix seconds."""

    def close(self) -> None:
        """Close all connections."""

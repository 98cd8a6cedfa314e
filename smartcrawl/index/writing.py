"""Keep the index in step with registry transactions (ADR 29).

The embedded index is in the registry's database: one transaction writes both. A remote index is
written before the registry; until then the registry marks the pages as open. After a crash, writes
may be repeated, but the registry never records a write that the index did not acknowledge.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from smartcrawl.index import known
from smartcrawl.index.elasticsearch.meta import BEHIND
from smartcrawl.index.outgoing import Chunked, OutgoingIndexWrites, Taken
from smartcrawl.index.page_vectors import PageVectors, index_vector_count
from smartcrawl.index.waiting import Waiting
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.index_pages import IndexedPage
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.sequences import draw_sequence_numbers, last_sequence_number
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.index_protocols import PageIndex, Sink
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.remote_chunks import update_remote_chunk_rows

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_TRIES: Final = 20  #: attempts at one transaction while other workers change its pages
_OPEN = "UPDATE state SET intent = :number WHERE no IN carray(:numbers) AND intent < :number"
_DEAD = """
INSERT INTO dead_letter (no, number, at, reason) VALUES (?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET number = excluded.number, at = excluded.at, reason = excluded.reason
"""
#: Pages with unfinished writes of a dead process, except those that the index refused.
_LEFT = """
SELECT s.no FROM state s JOIN record r USING (no)
 WHERE r.source = ? AND s.intent > 0 AND s.no NOT IN (SELECT no FROM dead_letter)
 ORDER BY s.no LIMIT ?
"""
_ENTRIES = """
SELECT no FROM record WHERE entry > 0 AND content IS NOT NULL AND no > ? ORDER BY no LIMIT ?
"""
_BATCH: Final = 500  #: pages in one transaction
_BATCH_WITH_VECTORS: Final = 100
_UNKNOWN: Final = -1  #: chunks with a vector of a document that a later claim wrote

Work = Callable[[Sink, int], _T]  #: work of a transaction, given its claim number
Refused = Callable[[int, str | None], bool]


class EmbeddedIndexing:
    """Writes registry and index in one transaction."""

    def __init__(self, sink: Callable[[Connection], Sink]) -> None:
        self._sink = sink

    def perform(
        self,
        connection: Connection,
        work: Work[_T],
        *,
        now: int,
        number: int | None = None,
        refused: Refused | None = None,
    ) -> _T:
        """Do the work in one transaction; see ``ports.Indexing``."""
        if number is None and connection.dialect == "postgres":  # else sources block each other
            number = _drawn(connection)
        with transaction(connection):
            claim = draw_sequence_numbers(connection, "number") if number is None else number
            return work(self._sink(connection), claim)

    def rehearse(self, connection: Connection, work: Work[object], number: int) -> None:
        """Do some work and roll it back; see ``ports.Indexing``."""
        with suppress(_UndoneError), transaction(connection):
            work(self._sink(connection), number)
            raise _UndoneError

    def mend(self, connection: Connection, source: int, *, number: int | None, now: int) -> int:
        """Do nothing: registry and index never differ."""
        return 0

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Do nothing: no process waits for this index."""

    def when_waiting(self, waits: Callable[[], None]) -> None:
        """Do nothing: no process waits for this index."""

    def seal(self, connection: Connection) -> None:
        """Do nothing: registry and index never differ."""

    def purge(self, before: int) -> None:
        """Do nothing: removed pages leave no tombstones."""

    def close(self) -> None:
        """Do nothing: the index uses the registry's connection."""


class _UndoneError(Exception):
    """Rolls back a rehearsal."""


class _ChangedError(Exception):
    """Rolls back a transaction that needs further index writes, or that another worker overtook."""


def _drawn(connection: Connection) -> int:
    with transaction(connection):
        return draw_sequence_numbers(connection, "number")


class RemoteIndexing:
    """Writes to a remote index, and then commits the transaction that needs these writes.

    1. Rehearse the work to collect its index writes, and roll it back.
    2. Mark the pages as open in the registry, and write them to the index.
    3. Do the work again and commit it. If another worker changed the registry in between, start
       again with step 1.

    No transaction is open while the index is written.

    Work without a claim number may run at the same time as other workers that write the same pages.
    Each of its writes draws its own number, which also marks the page in the registry. A worker
    that finds a higher mark was overtaken, and writes again (ADR 30).
    """

    def __init__(
        self,
        index: PageIndex,
        chunked: Chunked,
        waiting: Waiting | None = None,
        vectors: PageVectors | None = None,
    ) -> None:
        """``vectors``: those of the documents; None: no chunk gets any."""
        self._index = index
        self.chunked = chunked
        self._waiting = waiting
        self.vectors = vectors
        self._at_once = _BATCH if vectors is None else _BATCH_WITH_VECTORS

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for the index only until ``stopping`` returns True."""
        if self._waiting is not None:
            self._waiting.stopping = stopping

    def when_waiting(self, waits: Callable[[], None]) -> None:
        """Call ``waits`` in a long wait for the index."""
        if self._waiting is not None:
            self._waiting.when_long = waits

    def perform(
        self,
        connection: Connection,
        work: Work[_T],
        *,
        now: int,
        number: int | None = None,
        refused: Refused | None = None,
    ) -> _T:
        """Do the work after its index writes; see ``ports.Indexing``."""
        alone = number is not None
        claim = _drawn(connection) if number is None else number
        taken, sent = Taken(), False
        for _ in range(_TRIES):
            wanted: list[IndexedPage] = []
            try:
                with transaction(connection):
                    outgoing = OutgoingIndexWrites(connection, self.chunked, self.vectors)
                    result = work(outgoing, claim)
                    wanted = outgoing.pages(taken.marks)
                    if wanted or not outgoing.note(taken, alone=alone):
                        raise _ChangedError
            except _ChangedError:
                if wanted:
                    if sent and not alone:  # even if every page was overtaken
                        claim = _drawn(connection)
                    sent = True
                    self._write(
                        connection,
                        wanted,
                        cut=outgoing.cut,
                        number=claim,
                        now=now,
                        taken=taken,
                        refused=refused,
                        alone=alone,
                    )
            else:
                if unwanted := (taken.marks.keys() | taken.overtaken) - outgoing.touched:
                    self.rewrite(connection, unwanted, now=now, number=number)
                return result
        raise SinkError(
            "other workers change the registry faster than this process can write to the index:"
            " start fewer workers"
        )

    def rehearse(self, connection: Connection, work: Work[object], number: int) -> None:
        """Do some work and roll it back; see ``ports.Indexing``."""
        with suppress(_UndoneError), transaction(connection):
            outgoing = OutgoingIndexWrites(connection, self.chunked, self.vectors)
            work(outgoing, number)
            outgoing.pages({})
            raise _UndoneError

    def _write(
        self,
        connection: Connection,
        wanted: Sequence[IndexedPage],
        *,
        cut: Mapping[int, tuple[bytes, Sequence[bytes]]],
        number: int,
        now: int,
        taken: Taken,
        refused: Refused | None,
        alone: bool,
    ) -> None:
        """Mark pages as open, write them, and record the result of each in ``taken``."""
        with transaction(connection):
            names = {"number": number, "numbers": numbers_for_sql(page.no for page in wanted)}
            connection.execute(_OPEN, names)
            update_remote_chunk_rows(connection, cut)
        dead: list[tuple[int, int, int, str]] = []
        answers = self._index.write(wanted, number, now)
        if "" in answers:
            self._check_newest(connection)
        for page, why in zip(wanted, answers, strict=True):
            if why is not None and refused is not None and refused(page.no, why or None):
                if why:
                    dead.append((page.no, number, now, why[:1024]))
                continue  # the work will ask for another write
            if why == "" and not alone:  # write it again, under a higher number
                taken.overtaken.add(page.no)
                continue
            taken.marks[page.no], taken.versions[page.no] = page.mark, number
            taken.vectors[page.no] = index_vector_count(page) if why is None else _UNKNOWN
            if why:
                dead.append((page.no, number, now, why[:1024]))
                logger.error("the index does not take %s: %s", page.url or page.no, why)
        if dead:
            with transaction(connection):
                connection.executemany(_DEAD, dead)
        taken.dead.update(no for no, *_ in dead if no in taken.marks)

    def _check_newest(self, connection: Connection) -> None:
        """Check that this registry gave out the number under which a later claim has written.

        Raises:
            SinkError: it has not: it was restored from a backup.
        """
        epoch = int(known.read_index_facts(connection).get(known.EPOCH, "1"))
        last = last_sequence_number(connection, "number")
        if self._index.newest() > self._index.version(epoch, last):
            raise SinkError(f"the index {BEHIND}")

    def rewrite(
        self,
        connection: Connection,
        pages: Collection[int],
        *,
        now: int,
        number: int | None = None,
        refused: Refused | None = None,
    ) -> None:
        """Write pages from the registry, even if the index has them already.

        ``refused`` may remove numbers from ``pages`` meanwhile (see ``perform``).
        """

        def again(sink: Sink, _: int) -> None:
            assert isinstance(sink, OutgoingIndexWrites)
            sink.again(pages)

        self.perform(connection, again, now=now, number=number, refused=refused)

    def mend(self, connection: Connection, source: int, *, number: int | None, now: int) -> int:
        """Finish the writes of a dead process; return the number of pages."""
        count = 0
        names = (source, self._at_once)
        while some := [no for (no,) in connection.execute(_LEFT, names).fetchall()]:
            self.rewrite(connection, some, now=now, number=number)
            count += len(some)
        return count

    def write_all(self, connection: Connection, now: int, report: Callable[[int], None]) -> int:
        """Write all pages with an index entry; report the count per batch, and return the total."""
        after = count = 0
        while rows := connection.execute(_ENTRIES, (after, self._at_once)).fetchall():
            some = [no for (no,) in rows]
            self.rewrite(connection, some, now=now)
            after, count = some[-1], count + len(some)
            report(count)
        return count

    def seal(self, connection: Connection) -> None:
        """Record in both stores the claim number up to which they agree (``ports.Indexing``)."""
        number = last_sequence_number(connection, "number")
        epoch = int(known.read_index_facts(connection)[known.EPOCH])
        with transaction(connection):
            known.note_index_facts(connection, sealing=str(self._index.version(epoch, number)))
        sealed = self._index.sealed(number)
        with transaction(connection):
            known.note_index_facts(connection, sealed=str(sealed))

    def purge(self, before: int) -> None:
        """Delete old tombstones; see ``ports.PageIndex``."""
        self._index.purge(before)

    def close(self) -> None:
        """Close the connections to the index."""
        self._index.close()

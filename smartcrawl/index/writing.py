"""How what a transaction says of the index gets into it (design.md 6).

The embedded index lies in the registry's database: one transaction writes both. Any other is
written before the registry, and what is open meanwhile is marked: a crash may repeat work, but the
registry never claims work that was not done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from smartcrawl.index import known
from smartcrawl.index.outgoing import Chunked, Outgoing, Taken
from smartcrawl.index.waiting import Waiting
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.index_pages import IndexedPage
from smartcrawl.model.ports import Connection, PageIndex, Sink
from smartcrawl.registry.database.sequences import draw, last
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.pack import numbers

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_TRIES: Final = 20  #: of a transaction, while others change what it would write
_OPEN = "UPDATE state SET intent = :number WHERE no IN carray(:numbers) AND intent < :number"
_DEAD = """
INSERT INTO dead_letter (no, number, at, reason) VALUES (?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET number = excluded.number, at = excluded.at, reason = excluded.reason
"""
#: What a process that died left open, and what the index refused.
_LEFT = """
SELECT s.no FROM state s JOIN record r USING (no)
 WHERE r.source = ? AND s.intent > 0 AND s.no NOT IN (SELECT no FROM dead_letter)
 ORDER BY s.no LIMIT ?
"""
_ENTRIES = """
SELECT no FROM record WHERE entry > 0 AND content IS NOT NULL AND no > ? ORDER BY no LIMIT ?
"""
_BATCH: Final = 500  #: pages that are mended with one transaction

Work = Callable[[Sink, int], _T]  #: what is done in a transaction, with its claim number
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
        """Do some work in one transaction; see ``ports.Indexing``."""
        if number is None and connection.dialect == "postgres":  # all sources would wait for it
            number = _drawn(connection)
        with transaction(connection):
            told = draw(connection, "number") if number is None else number
            return work(self._sink(connection), told)

    def rehearse(self, connection: Connection, work: Work[object], number: int) -> None:
        """Do some work and undo it; see ``ports.Indexing``."""
        with suppress(_UndoneError), transaction(connection):
            work(self._sink(connection), number)
            raise _UndoneError

    def mend(self, connection: Connection, source: int, *, number: int | None, now: int) -> int:
        """There is nothing to mend."""
        return 0

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Nothing is waited for."""

    def seal(self, connection: Connection) -> None:
        """There is nothing to compare later."""

    def purge(self, before: int) -> None:
        """There are no tombstones: what is removed is deleted at once."""

    def close(self) -> None:
        """Nothing is open."""


class _UndoneError(Exception):
    """Undoes a transaction that was only a trial."""


class _ChangedError(Exception):
    """What was written to the index is not all that the transaction asks for."""


def _drawn(connection: Connection) -> int:
    with transaction(connection):
        return draw(connection, "number")


class RemoteIndexing:
    """Writes what a transaction asks for to an index elsewhere, and then does the transaction.

    The work is rehearsed to find what it asks of the index, and undone. What it asks for is
    marked in the registry, written, and only when all of it is acknowledged the work is done for
    good; where others changed the registry meanwhile, it is rehearsed again. No transaction is
    open while the index is written.

    Others may write the same pages at the same time where work comes without a claim number. Then
    each of its writes has a number of its own, which is the mark in the registry as well: whoever
    finds another mark was overtaken, and writes again (docs/adr/0030).
    """

    def __init__(self, index: PageIndex, chunked: Chunked, waiting: Waiting | None = None) -> None:
        self._index = index
        self._chunked = chunked
        self._waiting = waiting

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for the index no longer than until ``stopping`` says so."""
        if self._waiting is not None:
            self._waiting.stopping = stopping

    def perform(
        self,
        connection: Connection,
        work: Work[_T],
        *,
        now: int,
        number: int | None = None,
        refused: Refused | None = None,
    ) -> _T:
        """Do some work, its changes of the index first; see ``ports.Indexing``."""
        alone = number is not None
        claim = _drawn(connection) if number is None else number
        taken, sent = Taken(), False
        for _ in range(_TRIES):
            wanted: list[IndexedPage] = []
            try:
                with transaction(connection):
                    outgoing = Outgoing(connection, self._chunked)
                    result = work(outgoing, claim)
                    wanted = outgoing.pages(taken.marks)
                    if wanted or not outgoing.note(taken, alone=alone):
                        raise _ChangedError
            except _ChangedError:
                if wanted:
                    if sent and not alone:  # also what was overtaken as a whole
                        claim = _drawn(connection)
                    sent = True
                    self._write(
                        connection,
                        wanted,
                        number=claim,
                        now=now,
                        taken=taken,
                        refused=refused,
                        alone=alone,
                    )
            else:
                if unwanted := (taken.marks.keys() | taken.overtaken) - outgoing.told:
                    self.rewrite(connection, unwanted, now=now, number=number)
                return result
        raise SinkError(
            "others change the registry faster than this process can write to the index:"
            " start fewer workers"
        )

    def rehearse(self, connection: Connection, work: Work[object], number: int) -> None:
        """Do some work and undo it; see ``ports.Indexing``."""
        with suppress(_UndoneError), transaction(connection):
            outgoing = Outgoing(connection, self._chunked)
            work(outgoing, number)
            outgoing.pages({})
            raise _UndoneError

    def _write(
        self,
        connection: Connection,
        wanted: Sequence[IndexedPage],
        *,
        number: int,
        now: int,
        taken: Taken,
        refused: Refused | None,
        alone: bool,
    ) -> None:
        """Write pages, and note what became of each."""
        with transaction(connection):
            names = {"number": number, "numbers": numbers(page.no for page in wanted)}
            connection.execute(_OPEN, names)
        dead: list[tuple[int, int, int, str]] = []
        for page, why in zip(wanted, self._index.write(wanted, number, now), strict=True):
            if why is not None and refused is not None and refused(page.no, why or None):
                if why:
                    dead.append((page.no, number, now, why[:1024]))
                continue  # the work asks for something else now
            if why == "" and not alone:  # it is written again, with a higher number
                taken.overtaken.add(page.no)
                continue
            taken.marks[page.no], taken.versions[page.no] = page.mark, number
            if why:
                dead.append((page.no, number, now, why[:1024]))
                logger.error("the index does not take %s: %s", page.url or page.no, why)
        if dead:
            with transaction(connection):
                connection.executemany(_DEAD, dead)
        taken.dead.update(no for no, *_ in dead if no in taken.marks)

    def rewrite(
        self,
        connection: Connection,
        pages: Collection[int],
        *,
        now: int,
        number: int | None = None,
        refused: Refused | None = None,
    ) -> None:
        """Write pages as the registry holds them, whatever the index is known to hold of them.

        ``pages`` may shrink while it is written: see ``refused`` of ``perform``.
        """

        def again(sink: Sink, _: int) -> None:
            assert isinstance(sink, Outgoing)
            sink.again(pages)

        self.perform(connection, again, now=now, number=number, refused=refused)

    def mend(self, connection: Connection, source: int, *, number: int | None, now: int) -> int:
        """Write what a process that died left open; return how many pages."""
        count = 0
        while left := [no for (no,) in connection.execute(_LEFT, (source, _BATCH)).fetchall()]:
            self.rewrite(connection, left, now=now, number=number)
            count += len(left)
        return count

    def write_all(self, connection: Connection, now: int, told: Callable[[int], None]) -> int:
        """Write every page that stands for its content; return how many, and tell on the way."""
        after = count = 0
        while some := [no for (no,) in connection.execute(_ENTRIES, (after, _BATCH)).fetchall()]:
            self.rewrite(connection, some, now=now)
            after, count = some[-1], count + len(some)
            told(count)
        return count

    def seal(self, connection: Connection) -> None:
        """Let registry and index remember how far both are (``ports.Indexing``)."""
        number = last(connection, "number")
        epoch = int(known.known_of(connection)[known.EPOCH])
        with transaction(connection):
            known.note(connection, sealing=str(self._index.version(epoch, number)))
        sealed = self._index.sealed(number)
        with transaction(connection):
            known.note(connection, sealed=str(sealed))

    def purge(self, before: int) -> None:
        """Delete old tombstones; see ``ports.PageIndex``."""
        self._index.purge(before)

    def close(self) -> None:
        """Close the connections to the index."""
        self._index.close()

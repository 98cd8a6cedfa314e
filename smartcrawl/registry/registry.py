"""The registry: a control connection, a reader, and one writer thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from smartcrawl.items import Batch, Visit
from smartcrawl.ports import Connection, Indexing, Sink
from smartcrawl.registry import choices, runs
from smartcrawl.registry.candidates import Closing, Ending
from smartcrawl.registry.commit import Commit
from smartcrawl.registry.databases import Database, database_of
from smartcrawl.registry.pages import PageReader
from smartcrawl.registry.removal import Removed
from smartcrawl.registry.runs import OpenRun, RunResult
from smartcrawl.registry.sequences import draw
from smartcrawl.registry.snapshots import Snapshots
from smartcrawl.registry.transactions import transaction
from smartcrawl.registry.visited import Judgement
from smartcrawl.rules.model import Fault, RunState
from smartcrawl.rules.reindex import decide
from smartcrawl.snapshots import SnapshotStore

_T = TypeVar("_T")

_RESERVE = 4096  #: numbers drawn at a time; what is left over is given back
_GIVE_BACK = "UPDATE sequence SET value = ? WHERE name = 'address' AND value = ?"


def open_registry(
    place: Path | str, indexing: Indexing | Callable[[Connection], Indexing]
) -> Registry:
    """Open the registry of REGISTRY_URL, made if it is not there, brought up to this version.

    ``indexing``: how the index is written with it, or what finds that out over its connection.

    Raises:
        RegistryError: it cannot be opened, is another program's, or of a newer version.
    """
    database = database_of(place)
    connection = database.open()
    if callable(indexing):
        with database.translated("open"):
            indexing = indexing(connection)
    return Registry(database, connection, indexing)


class Registry:
    """One registry. Every public method is for the thread that opened it."""

    def __init__(self, database: Database, connection: Connection, indexing: Indexing) -> None:
        self.database = database
        self.indexing = indexing  #: how the index is written with it
        self.snapshots: Snapshots | None = None  #: None: bodies are not kept
        self.connection = connection  #: control: opening, sealing, settling, reports
        self._next = self._end = 0

    def choose(self, *, partition: str, table: str) -> None:
        """Let "IngestItems" have this kind of PartitionKey, and this name, too (R0-80, R0-81).

        Raises:
            RegistryError: something else has that name.
        """
        self._write(lambda: choices.choose(self.connection, partition=partition, table=table))

    def keep_snapshots(self, store: SnapshotStore) -> None:
        """Store the bodies of pages from here on."""
        self.snapshots = self._write(lambda: Snapshots(store, self.connection))

    def open_run(
        self,
        *,
        source: str,
        kind: str,
        now: int,
        resume: bool,
        forced: bool,
        declared: bool = False,
        due: bool = False,
    ) -> OpenRun:
        """Open or resume a run (runs.open_run)."""
        return self._steps(
            lambda: runs.open_run(
                self.connection,
                source=source,
                kind=kind,
                now=now,
                resume=resume,
                forced=forced,
                declared=declared,
                due=due,
            )
        )

    def end_last(self, source: str, closing: Closing, now: int) -> None:
        """Settle and sweep the last run of a source, if a dead process left it sealed."""

        def end() -> None:
            last = runs.last_state(self.connection, source)
            if last is not None and last[2] in (RunState.SEALED, RunState.SETTLED):
                self._finish(Ending(last[0], last[1], now, closing), _unwatched)

        self._steps(end)

    def mend(self, run: OpenRun, now: int) -> int:
        """Write to the index what a process that died left open; return how many pages."""
        told = {"number": run.number, "now": now}
        return self._steps(lambda: self.indexing.mend(self.connection, run.source, **told))

    def declared_sources(self) -> list[str]:
        """Return the sources that sources.toml named when they were crawled last."""
        return runs.declared_sources(self.connection)

    def fingerprint(self, value: bytes, extraction: int | None = None) -> int:
        """Return the small integer that stands for a fingerprint (runs.fingerprint)."""
        return self._steps(lambda: runs.fingerprint(self.connection, value, extraction))

    def reader(self, source: int) -> PageReader:
        """Return a reader of one source, on a connection of its own."""
        return PageReader(self.database.connect(readonly=True), source)

    def new_number(self) -> int:
        """Return the number of an address that was met for the first time."""
        if self._next == self._end:
            self._end = self._write(lambda: draw(self.connection, "address", _RESERVE)) + 1
            self._next = self._end - _RESERVE
        self._next += 1
        return self._next - 1

    def give_back(self) -> None:
        """Give back the numbers that were drawn and not used, if nobody drew after us."""
        numbers = (self._next - 1, self._end - 1)
        self._write(lambda: self.connection.execute(_GIVE_BACK, numbers))
        self._next = self._end = 0

    def add_seeds(self, run: int, numbers: list[int], role: runs.Role = runs.Role.SEED) -> None:
        """Remember what a run was asked for."""
        self._write(lambda: runs.add_seeds(self.connection, run, numbers, role))

    def begin_verify(self, ending: Ending) -> None:
        """Propose what a run that saw everything did not reach (runs.begin_verify)."""
        self._steps(lambda: runs.begin_verify(self.connection, ending))

    def end(
        self,
        ending: Ending,
        reasons: tuple[str, ...],
        removed: Callable[[list[Removed]], None] | None = None,
    ) -> RunResult:
        """Seal, settle and sweep a run that ended by itself, and report it.

        ``removed`` is told what the sweep removes, batch by batch.
        """

        def end() -> RunResult:
            runs.seal(self.connection, ending.run, reasons, ending.now)
            self._finish(ending, removed or _unwatched)
            if self.snapshots is not None:
                before = ending.now - ending.closing.snapshot_retention
                self.snapshots.expire(self.connection, before)
            self.indexing.seal(self.connection)
            return runs.result(self.connection, ending.run)

        return self._steps(end)

    def _finish(self, ending: Ending, removed: Callable[[list[Removed]], None]) -> None:
        runs.settle_sealed(self.connection, ending, self.indexing)
        runs.sweep(self.connection, self.indexing, ending, removed)

    def interrupt(self, run: OpenRun, reasons: tuple[str, ...], now: int) -> RunResult:
        """Close a run that did not end by itself; it can be resumed."""
        self._write(lambda: runs.interrupt(self.connection, run.no, now, list(reasons)))
        return runs.result(self.connection, run.no)

    def _write(self, work: Callable[[], _T]) -> _T:
        """Do something in one transaction."""

        def within() -> _T:
            with transaction(self.connection):
                return work()

        return self._steps(within)

    def _steps(self, work: Callable[[], _T]) -> _T:
        """Do something whose transactions may be done again from the first one on."""
        with self.database.translated("write"):
            return self.database.retried(work)

    def close(self) -> None:
        """Close the control connection, and let go of the snapshots' store and of the index."""
        self.indexing.close()
        if self.snapshots is not None:
            self.snapshots.close()
        self.connection.close()


def _unwatched(_: list[Removed]) -> None:
    """Nobody wants to know what was removed."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one batch."""

    batch: Batch
    stale: int  #: visits that came too late and were dropped


def unprocessable(visit: Visit, why: str) -> None:
    """Let a visit end as one that the index does not take: what is held stays."""
    visit.fail(Fault.PROCESSING, f"the index does not take it: {why}")
    visit.document, visit.links, visit.targets, visit.body = None, None, b"", None
    visit.verdict = decide(visit.page.standing, visit.outcome)


class Writer:
    """Writes the batches of one run, in order, in a thread and over a connection of its own."""

    def __init__(
        self,
        registry: Registry,
        run: OpenRun,
        *,
        judgement: Judgement,
    ) -> None:
        self._database = registry.database
        self._snapshots = registry.snapshots
        self._connection = registry.database.connect()
        self._new_commit = partial(
            Commit,
            self._connection,
            run=run.no,
            source=run.source,
            number=run.number,
            since=run.last_complete,
            forced=run.forced,
            judgement=judgement,
        )
        self._indexing = registry.indexing
        self._number = run.number
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="registry")

    def submit(self, batch: Batch, now: int) -> Future[Written]:
        """Write a batch after those submitted before it.

        The future raises RegistryError when the batch could not be written; nothing of it
        is in the registry then.
        """
        return self._thread.submit(self._write, batch, now)

    def _write(self, batch: Batch, now: int) -> Written:
        with self._database.translated("write"):
            store, new = self._snapshots, {}
            if store is not None:
                new = store.put(self._connection, batch, now)
            stale = self._database.retried(partial(self._commit_batch, batch, new, now))
        for visit in batch.visits:
            visit.body = None
        return Written(batch, stale)

    def _commit_batch(self, batch: Batch, new: dict[bytes, str], now: int) -> int:
        dropped = 0

        def work(sink: Sink, _: int) -> int:
            if self._snapshots is not None:
                self._snapshots.note(self._connection, batch, new, now)
            return self._new_commit(sink).write(batch, now)

        def refused(no: int, why: str | None) -> bool:
            nonlocal dropped
            visit = next((visit for visit in batch.visits if visit.page.no == no), None)
            if visit is None:
                return False
            if why is None:
                batch.visits.remove(visit)
                dropped += 1
            else:
                unprocessable(visit, why)
            return True

        stale = self._indexing.perform(
            self._connection, work, now=now, number=self._number, refused=refused
        )
        return stale + dropped

    def close(self) -> None:
        """Wait for what was submitted and close the connection."""
        self._thread.shutdown(wait=True)
        self._connection.close()

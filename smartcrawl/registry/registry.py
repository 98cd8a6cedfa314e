"""The registry: a control connection, a reader, and one writer thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from smartcrawl.model.batches import Batch
from smartcrawl.model.exceptions import RegistryError, SmartcrawlError
from smartcrawl.model.ports import Connection, Indexing, Sink
from smartcrawl.model.redaction import redacted
from smartcrawl.registry.commit import collapsed
from smartcrawl.registry.commit.batch import Commit, Sharing
from smartcrawl.registry.commit.refused import (
    DATA_ERRORS,
    Failed,
    fail,
    fail_refused,
    first_refused,
    reason_of,
)
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
from smartcrawl.registry.commit.snapshots import Snapshots
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.database import choices
from smartcrawl.registry.database.databases import Database, database_of
from smartcrawl.registry.database.sequences import draw
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.readers import Readers
from smartcrawl.registry.removal.candidates import Closing, Ending
from smartcrawl.registry.removal.sweep import Removed
from smartcrawl.registry.runs import runs
from smartcrawl.registry.runs.runs import OpenRun, RunResult
from smartcrawl.registry.runs.shared_reader import Reached, SharedReader
from smartcrawl.rules.model import RunState

if TYPE_CHECKING:  # it needs PostgreSQL's client, which few runs do
    from smartcrawl.registry.runs.membership import Membership

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

_RESERVE = 4096  #: numbers drawn at a time; what is left over is given back
_RESERVE_SHARED = 512  #: the same, where others draw meanwhile, so that nothing can be given back
_TOMBSTONE_AGE = 86_400  #: seconds; the first run sealed after that deletes it (design.md 6)
_OTHERS = "SELECT name FROM source WHERE no <> ?"
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
        self._reserve = _RESERVE

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

    def join_run(
        self,
        membership: Membership,
        closing: Closing,
        now: int,
        **told: Any,
    ) -> OpenRun | None:
        """Join the run that others are at, or open one (joining.Membership.join)."""
        if not self._steps(lambda: membership.at_work(self.connection)):
            self.end_last(membership.source, closing, now)
        opened = self._steps(lambda: membership.join(self.connection, now=now, **told))
        self._reserve = _RESERVE_SHARED
        return opened

    def leave(self, membership: Membership, now: int, reason: str) -> bool:
        """Leave a run that is shared (joining.Membership.leave); whether this was the last."""
        return self._steps(lambda: membership.leave(self.connection, now, [reason]))

    def end_last(self, source: str, closing: Closing, now: int) -> None:
        """Settle and sweep the last run of a source, if a dead process left it sealed."""

        def end() -> None:
            last = runs.last_state(self.connection, source)
            if last is not None and last[2] in (RunState.SEALED, RunState.SETTLED):
                self._finish(Ending(last[0], last[1], now, closing), _unwatched)

        self._steps(end)

    def mend(self, run: OpenRun, now: int) -> int:
        """Write to the index what a process that died left open; return how many pages."""
        number = None if run.shared else run.number
        return self._steps(
            lambda: self.indexing.mend(self.connection, run.source, number=number, now=now)
        )

    def clear_leftovers(self, run: OpenRun, now: int) -> int:
        """Remove snapshot files that a killed process left behind; return how many.

        Nothing is removed where other workers may be at this run, or another source is crawled.
        """
        leftovers = None if self.snapshots is None else self.snapshots.leftovers()
        if leftovers is None or run.shared:
            return 0
        names: Any = self.connection.execute(_OTHERS, (run.source,)).fetchall()
        if any(self.database.is_held(name) for (name,) in names):
            return 0
        with self.database.translated("write"):
            return leftovers.clear(
                self.connection, run.no, now, resumed=run.resumed, database=str(self.database)
            )

    def fingerprint(self, value: bytes, extraction: int | None = None) -> int:
        """Return the small integer that stands for a fingerprint (runs.fingerprint)."""
        return self._steps(lambda: runs.fingerprint(self.connection, value, extraction))

    def readers(self, source: int) -> Readers:
        """Return the readers of one source, on a connection of their own."""
        return Readers(self.database.connect(readonly=True), source)

    def new_number(self) -> int:
        """Return the number of an address that was met for the first time."""
        if self._next == self._end:
            self._end = self._write(lambda: draw(self.connection, "address", self._reserve)) + 1
            self._next = self._end - self._reserve
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

    def decide_collapsed(self, run: int) -> None:
        """Decide once whether the collapsed pages of a run are edits (collapsed.decide)."""
        self._steps(lambda: collapsed.decide(self.connection, run))

    def drop_collapsed(self, run: int, numbers: Sequence[int]) -> None:
        """Forget collapsed pages that are withheld (collapsed.drop)."""
        self._steps(lambda: collapsed.drop(self.connection, run, numbers))

    def end(
        self,
        ending: Ending,
        reasons: tuple[str, ...],
        removed: Callable[[list[Removed]], None] | None = None,
        *,
        shared: bool = False,
    ) -> RunResult:
        """Seal, settle and sweep a run that ended by itself, and report it.

        ``removed`` is told what the sweep removes, batch by batch. Of a ``shared`` run workers
        that died may have left something open in the index.
        """

        def end() -> RunResult:
            runs.seal(self.connection, ending.run, reasons, ending.now)
            if shared:
                self.indexing.mend(self.connection, ending.source, number=None, now=ending.now)
            self._finish(ending, removed or _unwatched)
            if self.snapshots is not None:
                before = ending.now - ending.closing.snapshot_retention
                self.snapshots.expire(self.connection, before)
            self.indexing.seal(self.connection)
            self.indexing.purge(ending.now - _TOMBSTONE_AGE)
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
    renamed: dict[int, int] = field(default_factory=dict)  #: numbers of addresses others met first
    reached: list[Reached] = field(default_factory=list)  #: what waits, where workers share a run
    failed: list[Failed] = field(default_factory=list)  #: visits that could not be written


class Writer:
    """Writes the batches of one run, in order, in a thread and over a connection of its own."""

    def __init__(
        self,
        registry: Registry,
        run: OpenRun,
        *,
        judgement: Judgement,
        merged: Callable[[str, str], str] | None = None,
    ) -> None:
        """``merged``: of what cut the run, as it is stored and what is news, if it is shared."""
        self._database = registry.database
        self._snapshots = registry.snapshots
        self._connection = registry.database.connect()
        self._sharing = None if merged is None else Sharing(run.number, merged)
        self._shared = SharedReader(self._connection, run.no)
        self._new_commit = partial(
            Commit,
            self._connection,
            run=run.no,
            source=run.source,
            since=run.last_complete,
            forced=run.forced,
            judgement=judgement,
            sharing=self._sharing,
        )
        self._indexing = registry.indexing
        self._number = run.number
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="registry")

    def submit(self, batch: Batch, now: int) -> Future[Written]:
        """Write a batch after those submitted before it.

        A visit whose data the database or the index refuses is written as one that failed
        (R1-36). The future raises RegistryError or SinkError when the batch could not be written;
        nothing of it is in the registry then.
        """
        return self._thread.submit(self._written, batch, now)

    def _written(self, batch: Batch, now: int) -> Written:
        """Write a batch; an error that no code foresees ends the run in order, too."""
        try:
            return self._write(batch, now)
        except SmartcrawlError:
            raise
        except Exception as error:
            logger.exception("a batch cannot be written")
            raise RegistryError(
                f"a batch cannot be written ({reason_of(error)}): nothing of it is stored;"
                " -a resume=1 asks its pages again"
            ) from error

    def _write(self, batch: Batch, now: int) -> Written:
        with self._database.translated("write"):
            store, new = self._snapshots, {}
            if store is not None:
                new = store.put(self._connection, batch, now)
            failed: list[Failed] = []
            stale = self._committed(batch, new, now, failed)
            reached = self._reached(batch) if self._sharing is not None else []
        for visit in batch.visits:
            visit.body = None
        renamed: dict[int, int] = {}
        if self._sharing is not None:
            renamed, self._sharing.news = self._sharing.news, {}
        return Written(batch, stale, renamed, reached, failed)

    def _reached(self, batch: Batch) -> list[Reached]:
        """Return what a batch reached, as all that the registry knows of it says."""
        return self._shared.reached({*batch.reached, *(address.no for address in batch.addresses)})

    def _committed(
        self, batch: Batch, new: dict[bytes, str], now: int, failed: list[Failed]
    ) -> int:
        """Write a batch, its visits that cannot be written as failed ones; see ``_work``."""
        while True:
            try:
                return self._database.retried(partial(self._commit_batch, batch, new, now, failed))
            except Exception as error:
                if not self._is_of_data(error):
                    raise
                failed.append(self._fail_refused(batch, new, now, error, failed))

    def _is_of_data(self, error: Exception) -> bool:
        return isinstance(error, DATA_ERRORS) or self._database.is_of_data(error)

    def _fail_refused(
        self,
        batch: Batch,
        new: dict[bytes, str],
        now: int,
        error: Exception,
        failed: list[Failed],
    ) -> Failed:
        """Let the first visit fail that keeps a batch from being written.

        It is searched in transactions that are undone.

        Raises:
            RegistryError: no visit is the cause, or the failure cannot be written either.
        """

        def attempt(count: int) -> Exception | None:
            some = replace(batch, visits=batch.visits[:count])
            work = self._work(some, new, now)
            rehearse = partial(self._indexing.rehearse, self._connection, work, self._number)
            try:
                self._database.retried(rehearse)
            except Exception as found:
                if self._is_of_data(found):
                    return found
                raise
            return None

        refused = first_refused(batch.visits, attempt)
        if refused is None or any(refused[0] is visit for visit, _ in failed):
            if isinstance(error, DATA_ERRORS):
                raise RegistryError(f"a batch cannot be written ({reason_of(error)})") from error
            raise error
        visit, why = refused
        failure = fail_refused(visit, why)
        logger.error("%s is not stored: %s", redacted(visit.page.url), visit.error)
        return failure

    def _work(self, batch: Batch, new: dict[bytes, str], now: int) -> Callable[[Sink, int], int]:
        """Return what writes a batch within a transaction, and returns the stale visits' count."""

        def work(sink: Sink, number: int) -> int:
            commit = self._new_commit(sink, number=number)
            commit.begin(batch)
            if self._snapshots is not None:
                self._snapshots.note(self._connection, batch, new, now)
            return commit.write(batch, now)

        return work

    def _commit_batch(
        self, batch: Batch, new: dict[bytes, str], now: int, failed: list[Failed]
    ) -> int:
        dropped = 0
        work = self._work(batch, new, now)

        def refused(no: int, why: str | None) -> bool:
            nonlocal dropped
            if why is None and self._sharing is not None:
                return False  # another worker writes the same page, not the same visit
            visit = next((visit for visit in batch.visits if visit.page.no == no), None)
            if visit is None:
                return False
            if why is None:
                batch.visits.remove(visit)
                dropped += 1
            else:
                failed.append(fail(visit, f"the index does not take it: {why}"))
            return True

        number = self._number if self._sharing is None else None
        stale = self._indexing.perform(
            self._connection, work, now=now, number=number, refused=refused
        )
        return stale + dropped

    def close(self) -> None:
        """Wait for what was submitted and close the connection."""
        self._thread.shutdown(wait=True)
        self._connection.close()

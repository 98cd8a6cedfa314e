"""The registry over its control connection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smartcrawl.registry.commit import collapsed
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
from smartcrawl.registry.commit.snapshots import Snapshots
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database import choices
from smartcrawl.registry.database.databases import Database, DatabaseControl, registry_database
from smartcrawl.registry.index_protocols import Indexing
from smartcrawl.registry.names import SeedNameRows
from smartcrawl.registry.numbers import RecordNumbers
from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.removal.candidates import EndingRunRow, RemovalChoices, steady_run_time
from smartcrawl.registry.removal.sweep import RemovedRecordRow
from smartcrawl.registry.runs import runs
from smartcrawl.registry.runs.run_orders import is_run_row_before_seal
from smartcrawl.registry.runs.run_results import RunResult, stored_run_result
from smartcrawl.registry.runs.runs import OpenRun, RunRequest
from smartcrawl.registry.site_parts import StoredPart, decide_part_row, part_row_of
from smartcrawl.rules.model import RunState

if TYPE_CHECKING:  # imports PostgreSQL's client, which few runs need
    from smartcrawl.registry.runs.membership import Membership

_TOMBSTONE_AGE = 86_400  #: seconds; the first run sealed later deletes the tombstone (ADR 130)
_OTHERS = "SELECT name FROM source WHERE no <> ?"


def open_registry(
    place: Path | str, indexing: Indexing | Callable[[Connection], Indexing]
) -> Registry:
    """Open the registry of REGISTRY_URL; create it if it is missing, and migrate its schema.

    ``indexing``: the way the index is written with the registry, or a function that chooses it
    over the registry's connection.

    Raises:
        RegistryError: the registry cannot be opened, belongs to another program, or was written
            by a newer version.
    """
    database = registry_database(place)
    connection = database.open()
    if callable(indexing):
        with database.translated("open"):
            indexing = indexing(connection)
    return Registry(database, connection, indexing)


class Registry:
    """One registry. Only the thread that opened it may call its methods."""

    def __init__(self, database: Database, connection: Connection, indexing: Indexing) -> None:
        self.database = database
        self.indexing = indexing  #: the way the index is written with the registry
        self.snapshots: Snapshots | None = None  #: None: bodies are not stored
        self.notify: runs.Notify | None = None  #: writes notices; None: there is no target
        self.connection = connection  #: for opening, sealing and settling runs, and for reports
        self._control = DatabaseControl(database, connection)
        self.numbers = RecordNumbers(self._control)
        self.seed_names = SeedNameRows(self._control)
        self.collapsed = collapsed.CollapsedPageRows(self._control)

    def choose(self, *, partition: str, table: str) -> None:
        """Set the PartitionKey of "IngestItems", and the view's second name (R0-80, R0-81).

        Raises:
            RegistryError: another relation of the registry has that name.
        """
        self._control.write(
            lambda: choices.store_view_choices(self.connection, partition=partition, table=table)
        )

    def keep_snapshots(self, store: SnapshotStore) -> None:
        """Store the bodies of pages from now on."""
        self.snapshots = self._control.write(lambda: Snapshots(store, self.connection))

    def open_run(self, request: RunRequest, now: int) -> OpenRun:
        """Open or resume a run (runs.open_run_row)."""
        is_held = self.database.is_held
        return self._control.retry(
            lambda: runs.open_run_row(
                self.connection, request, now, is_held=is_held, notify=self.notify
            )
        )

    def join_run(
        self, membership: Membership, request: RunRequest, closing: RemovalChoices, now: int
    ) -> OpenRun | None:
        """Join the run that other workers are at, or open one (membership.Membership.join)."""
        if not self._control.retry(lambda: membership.at_work(self.connection)):
            self.end_last(membership.source, closing, now)
        is_held = self.database.is_held
        opened = self._control.retry(
            lambda: membership.join(
                self.connection, request, now, is_held=is_held, notify=self.notify
            )
        )
        self.numbers.share()
        return opened

    def leave(self, membership: Membership, now: int, reason: str) -> bool:
        """Leave a shared run (Membership.leave); return whether this worker was the last."""
        return self._control.retry(
            lambda: membership.leave(self.connection, now, [reason], self.notify)
        )

    def end_last(self, source: str, closing: RemovalChoices, now: int) -> None:
        """Settle and sweep the last run of a source, if a process died after sealing it."""

        def end() -> None:
            last = runs.last_run_row(self.connection, source)
            if last is not None and last[2] in (RunState.SEALED, RunState.SETTLED):
                self._finish(EndingRunRow(last[0], last[1], now, closing), _unwatched)

        self._control.retry(end)

    def mend(self, run: OpenRun, now: int) -> int:
        """Complete the index writes that a dead process began; return the number of pages."""
        number = None if run.shared else run.number
        return self._control.retry(
            lambda: self.indexing.mend(self.connection, run.source, number=number, now=now)
        )

    def clear_leftovers(self, run: OpenRun, now: int) -> int:
        """Remove orphaned snapshot files of a killed process; return their number.

        Nothing is removed where other workers may share this run, or while another source is
        crawled.
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
        """Return the number of a fingerprint (runs.fingerprint_row_number)."""
        return self._control.retry(
            lambda: runs.fingerprint_row_number(self.connection, value, extraction)
        )

    def readers(self, source: int) -> RegistryReaders:
        """Return the readers of one source, on a connection of their own."""
        return RegistryReaders(self.database.connect(readonly=True), source)

    def decide_part(self, run: OpenRun, part: runs.SourcePart) -> StoredPart:
        """Store how far an open source reaches, unless another worker did; return what is so.

        Workers that join the run later have to agree with it.
        """

        def decide() -> StoredPart:
            found = decide_part_row(self.connection, run.source, part)
            if run.shared:
                from smartcrawl.registry.runs.membership import add_run_row_rules  # noqa: PLC0415  # imports PostgreSQL's client

                add_run_row_rules(self.connection, run.no, {"scope": found.extent})
            return found

        return self._control.write(decide)

    def part(self, source: int) -> StoredPart:
        """Return how far a source reaches."""
        return self._control.retry(lambda: part_row_of(self.connection, source))

    def add_seeds(self, run: int, numbers: list[int], role: runs.Role = runs.Role.SEED) -> None:
        """Record the addresses that a run starts from."""
        self._control.write(lambda: runs.add_seed_rows(self.connection, run, numbers, role))

    def begin_verify(self, ending: EndingRunRow) -> bool:
        """Propose the pages that a run did not reach (runs.propose_unreached_rows)."""
        return self._control.retry(lambda: runs.propose_unreached_rows(self.connection, ending))

    def end(
        self,
        ending: EndingRunRow,
        reasons: tuple[str, ...],
        removed: Callable[[list[RemovedRecordRow]], None] | None = None,
        *,
        shared: bool = False,
    ) -> RunResult | None:
        """Seal, settle and sweep a run that ended normally; return its result.

        None: an order came before the seal, and the run is as it was. ``removed`` is called with
        each batch of pages that the sweep removed. In a ``shared`` run, index writes of dead
        workers are completed first.
        """

        def end() -> RunResult | None:
            self.check_place()
            sealed = runs.seal_run_row(self.connection, ending.run, reasons, ending.now)
            if not sealed and is_run_row_before_seal(self.connection, ending.run):
                return None
            if shared:
                self.indexing.mend(self.connection, ending.source, number=None, now=ending.now)
            self._finish(ending, removed or _unwatched)
            if self.snapshots is not None:
                steady = steady_run_time(self.connection, ending)
                before = steady - ending.closing.snapshot_retention
                self.snapshots.expire(self.connection, before)
            self.indexing.seal(self.connection)
            self.indexing.purge(ending.now - _TOMBSTONE_AGE)
            return stored_run_result(self.connection, ending.run)

        result = self._control.retry(end)
        self.check_place()  # it may have been deleted under a long sweep
        return result

    def _finish(
        self, ending: EndingRunRow, removed: Callable[[list[RemovedRecordRow]], None]
    ) -> None:
        runs.settle_sealed_row(self.connection, ending, self.indexing)
        runs.sweep_candidate_rows(self.connection, self.indexing, ending, removed, self.notify)

    def interrupt(self, run: OpenRun, reasons: tuple[str, ...], now: int) -> RunResult:
        """Close a run that did not end normally; it is resumable, unless it is cancelled.

        Raises:
            RegistryError: its registry is not at its place any more, so that nothing is kept.
        """
        self.check_place()

        def close() -> None:
            is_closed = runs.interrupt_run_row(
                self.connection, run.no, now, list(reasons), is_alive=True
            )
            if is_closed and self.notify is not None:
                self.notify(self.connection, run.no, now)

        self._control.write(close)
        return stored_run_result(self.connection, run.no)

    def abandon(self, run: OpenRun, reasons: tuple[str, ...], now: int) -> RunResult | None:
        """Close a run, for all of its workers, whose last commits the database lost.

        Return its record; None: its beginning is lost, too.
        """
        self.numbers.drop()
        self.database.accept_loss(self.connection)

        def close() -> RunResult | None:
            if not runs.is_run_row_there(self.connection, run):
                return None
            runs.interrupt_run_row(self.connection, run.no, now, list(reasons))
            return stored_run_result(self.connection, run.no)

        return self._control.write(close)

    def check_place(self) -> None:
        """Refuse to go on where the registry was deleted, moved or replaced since it was opened."""
        self.database.check_place(self.connection)

    def close(self) -> None:
        """Close the control connection, the snapshot store and the index."""
        self.indexing.close()
        if self.snapshots is not None:
            self.snapshots.close()
        self.connection.close()


def _unwatched(_: list[RemovedRecordRow]) -> None:
    """Ignore the removed pages."""

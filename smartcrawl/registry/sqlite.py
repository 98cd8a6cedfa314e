"""The registry in one SQLite file: a control connection, a reader, and one writer thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import apsw

from smartcrawl.exceptions import RegistryError
from smartcrawl.items import Batch
from smartcrawl.ports import Sink
from smartcrawl.registry import runs
from smartcrawl.registry.commit import Commit
from smartcrawl.registry.database import connect, migrate, transaction, translated
from smartcrawl.registry.pages import PageReader
from smartcrawl.registry.runs import OpenRun, RunResult

_RESERVE = 4096  #: numbers drawn at a time; what is left over is given back
_GIVE_BACK = "UPDATE sequence SET value = ? WHERE name = 'address' AND value = ?"


def open_registry(path: Path) -> SqliteRegistry:
    """Open the registry at ``path``, made if it is not there, brought up to this version.

    Raises:
        RegistryError: it cannot be opened, is another program's, or of a newer version.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RegistryError(
            f"cannot create {path.parent} ({error.strerror}); name another DATA_DIR that this"
            " user may write to"
        ) from error
    connection = connect(path)
    migrate(connection, path)
    return SqliteRegistry(path, connection)


class SqliteRegistry:
    """One registry file. Every public method is for the thread that opened it."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self.path = path
        self.connection = connection  #: control: opening, sealing, settling, reports
        self._next = self._end = 0

    def open_run(self, *, source: str, kind: str, now: int, resume: bool, forced: bool) -> OpenRun:
        """Open or resume a run (runs.open_run)."""
        with translated(self.path, "write"):
            return runs.open_run(
                self.connection, source=source, kind=kind, now=now, resume=resume, forced=forced
            )

    def fingerprint(self, value: bytes) -> int:
        """Return the small integer that stands for a fingerprint."""
        with translated(self.path, "write"):
            return runs.fingerprint(self.connection, value)

    def reader(self, source: int) -> PageReader:
        """Return a reader of one source, on a connection of its own."""
        return PageReader(connect(self.path, readonly=True), source)

    def new_number(self) -> int:
        """Return the number of an address that was met for the first time."""
        if self._next == self._end:
            with translated(self.path, "write"), transaction(self.connection):
                self._end = runs.draw(self.connection, "address", _RESERVE) + 1
            self._next = self._end - _RESERVE
        self._next += 1
        return self._next - 1

    def give_back(self) -> None:
        """Give back the numbers that were drawn and not used, if nobody drew after us."""
        with translated(self.path, "write"), transaction(self.connection):
            self.connection.execute(_GIVE_BACK, (self._next - 1, self._end - 1))
        self._next = self._end = 0

    def add_seeds(self, run: int, numbers: list[int]) -> None:
        """Remember what a run was asked for."""
        with translated(self.path, "write"), transaction(self.connection):
            runs.add_seeds(self.connection, run, numbers)

    def seal(self, run: OpenRun, reasons: tuple[str, ...], now: int) -> RunResult:
        """Seal and settle a run that ended by itself, and report it."""
        with translated(self.path, "write"):
            if runs.seal(self.connection, run.no, reasons, now):
                runs.settle(self.connection, run.no, run.source)
            return runs.result(self.connection, run.no)

    def interrupt(self, run: OpenRun, reasons: tuple[str, ...], now: int) -> RunResult:
        """Close a run that did not end by itself; it can be resumed."""
        with translated(self.path, "write"), transaction(self.connection):
            runs.interrupt(self.connection, run.no, now, list(reasons))
        return runs.result(self.connection, run.no)

    def close(self) -> None:
        """Close the control connection."""
        self.connection.close()


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one batch."""

    batch: Batch
    stale: int  #: visits that came too late and were dropped


class Writer:
    """Writes the batches of one run, in order, in a thread and over a connection of its own."""

    def __init__(
        self,
        registry: SqliteRegistry,
        run: OpenRun,
        *,
        configuration: int,
        sink: Callable[[apsw.Connection], Sink],
    ) -> None:
        self._path = registry.path
        self._connection = connect(registry.path)
        self._commit = Commit(
            self._connection,
            sink(self._connection),
            run=run.no,
            source=run.source,
            number=run.number,
            since=run.last_complete,
            forced=run.forced,
            configuration=configuration,
        )
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="registry")

    def submit(self, batch: Batch, now: int) -> Future[Written]:
        """Write a batch after those submitted before it.

        The future raises RegistryError when the batch could not be written; nothing of it
        is in the registry then.
        """
        return self._thread.submit(self._write, batch, now)

    def _write(self, batch: Batch, now: int) -> Written:
        with translated(self._path, "write"), transaction(self._connection):
            stale = self._commit.write(batch, now)
        return Written(batch, stale)

    def close(self) -> None:
        """Wait for what was submitted and close the connection."""
        self._thread.shutdown(wait=True)
        self._connection.close()

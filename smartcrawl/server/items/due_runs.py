"""Ordered runs of the due pages of a source: at most one waits for each (ADR 61).

Every method is one transaction, or part of that of its caller. Any number of servers may call it
at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.control import DatabaseControl
from smartcrawl.registry.database.databases import Database
from smartcrawl.server.jobs.processes import CLAIMING, PLACES

#: It locks the row that waits, so that a claim comes after all that its order wrote.
_ORDER: Final = """
INSERT INTO due_run (source, at, starts) VALUES (?, ?, ?)
ON CONFLICT (source) WHERE server IS NULL DO UPDATE SET at = min(due_run.at, excluded.at)
"""
#: A run waits while all pages are being marked, while its job is paused or begins, and for older
#: jobs.
_WAITING: Final = """
SELECT d.no, d.source FROM due_run d
 WHERE d.server IS NULL AND d.at <= ? AND NOT EXISTS (SELECT 1 FROM rebuild)
   AND NOT EXISTS (SELECT 1 FROM due_run b WHERE b.source = d.source AND b.server IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM job j WHERE j.name = d.source AND j.deleted_at IS NULL
                      AND j.status = 'paused')
   AND NOT EXISTS (SELECT 1 FROM job_run k JOIN job j ON j.no = k.job
                    WHERE k.state IN ('waiting', 'running') AND j.deleted_at IS NULL
                      AND (j.name = d.source AND k.server IS NOT NULL
                           OR k.server IS NULL AND k.fired_at < d.at
                              AND j.status IN ('created', 'scheduled', 'running')))
 ORDER BY d.at, d.no
"""
_CLAIM: Final = """
UPDATE due_run SET server = ?, watched_at = ?, starts = starts + 1
 WHERE no = ? AND server IS NULL
"""
_STARTED: Final = "UPDATE due_run SET host = ?, pid = ?, process_start = ? WHERE no = ?"
_TAKE_OVER: Final = "UPDATE due_run SET server = ?, watched_at = ? WHERE no = ? AND server = ?"
_WATCHED: Final = "UPDATE due_run SET watched_at = ? WHERE server = ?"
_BEGUN: Final = """
SELECT no, source, host, pid, process_start, server, watched_at, starts
  FROM due_run WHERE server IS NOT NULL ORDER BY no
"""
_END: Final = "DELETE FROM due_run WHERE no = ?"


def post_due_run(connection: Connection, source: str, now: int, *, starts: int = 0) -> None:
    """Order a run of the due pages of a source, unless one waits. The caller's transaction.

    ``starts``: processes that it had so far.
    """
    connection.execute(_ORDER, (source, now, starts))


@dataclass(frozen=True, slots=True)
class DueRun:
    """An ordered run that a server has begun. Times are Unix seconds."""

    no: int
    source: str
    process: Process | None  #: that crawls; None: not known yet
    server: Process  #: that watches it
    watched_at: int
    starts: int  #: processes so far


class DueRuns:
    """The ordered runs, for one thread of one server."""

    def __init__(self, database: Database, connection: Connection, server: Process) -> None:
        """``server``: this process."""
        self._database = database
        self._connection = connection
        self._control = DatabaseControl(database, connection)
        self._server = str(server)

    def claim(self, most: int, now: int) -> DueRun | None:
        """Claim the first run that may begin, unless ``most`` crawls have begun already.

        Crawls of jobs count, too. A run whose source is being crawled waits.
        """
        with self._database.translated("read"):
            if int(self._connection.execute(PLACES).get) >= most:
                return None
            waiting: list[Any] = self._connection.execute(_WAITING, (now,)).fetchall()
        found = next((no for no, source in waiting if not self._database.is_held(source)), None)
        if found is None:
            return None

        def work() -> bool:
            self._connection.execute(CLAIMING)
            if int(self._connection.execute(PLACES).get) >= most:
                return False
            self._connection.execute(_CLAIM, (self._server, now, found))
            return self._connection.changes() > 0

        claimed = self._control.write(work)
        return next((one for one in self.begun() if claimed and one.no == found), None)

    def begun(self) -> list[DueRun]:
        """Return the runs that servers have begun, in their order."""
        with self._database.translated("read"):
            rows: list[Any] = self._connection.execute(_BEGUN).fetchall()
        return [_due_run(row) for row in rows]

    def started(self, no: int, process: Process) -> None:
        """Record the process that this server started for a run."""
        row = (process.host, process.pid, process.start, no)
        self._control.write(lambda: self._connection.execute(_STARTED, row))

    def take_over(self, run: DueRun, now: int) -> bool:
        """Take a run over from a server that died; return whether no other one was first."""

        def work() -> bool:
            self._connection.execute(_TAKE_OVER, (self._server, now, run.no, str(run.server)))
            return self._connection.changes() > 0

        return self._control.write(work)

    def watched(self, now: int) -> None:
        """Record that this server lives and watches its runs."""
        self._control.write(lambda: self._connection.execute(_WATCHED, (now, self._server)))

    def end(self, run: DueRun) -> None:
        """Forget a run that is over."""
        self._control.write(lambda: self._connection.execute(_END, (run.no,)))

    def again(self, run: DueRun, at: int, *, starts: int) -> None:
        """Let a run wait again, until ``at`` at least; with another that waits it is one."""

        def work() -> None:
            self._connection.execute(_END, (run.no,))
            post_due_run(self._connection, run.source, at, starts=starts)

        self._control.write(work)


def _due_run(row: Sequence[Any]) -> DueRun:
    no, source, host, pid, start, server, watched_at, starts = row
    process = None if pid is None else Process(host, pid, start)
    return DueRun(no, source, process, Process.parsed(server), watched_at, starts)

"""The processes of libraries' jobs: started in order, watched, found again (ADR 87)."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Callable
from typing import Any, Final

from smartcrawl.model.processes import Process, exit_status_signal
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.control import DatabaseControl
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.runs.run_orders import order_run_row
from smartcrawl.rules.model import RunOrder
from smartcrawl.server.jobs.launcher import BEAT, MOST_STARTS, SILENCE
from smartcrawl.server.jobs.library_job import COLUMNS, LibraryJob
from smartcrawl.server.jobs.local import CrawlProgram
from smartcrawl.server.jobs.processes import CLAIMING, PLACES

logger = logging.getLogger(__name__)

_TO_BEGIN: Final = 10  #: seconds in which a process that another server started records itself
_OPEN: Final = "state IN ('waiting', 'running')"
_NEXT: Final = """
SELECT id FROM library_job WHERE state = 'waiting' AND server IS NULL ORDER BY no LIMIT 1
"""
_BEGUN: Final = f"SELECT {COLUMNS} FROM library_job WHERE {_OPEN} AND server IS NOT NULL"
_ALL_BEGUN: Final = f"{_BEGUN} ORDER BY no"
_ONE_BEGUN: Final = f"{_BEGUN} AND id = ?"
_CLAIM: Final = f"""
UPDATE library_job SET server = :server, watched_at = :now, starts = starts + 1, host = NULL,
       pid = NULL, process_start = NULL
 WHERE id = :id AND {_OPEN} AND coalesce(server, '') = coalesce(:before, '')
"""
#: A process that has recorded itself already is the truth.
_STARTED: Final = """
UPDATE library_job SET host = ?, pid = ?, process_start = ? WHERE id = ? AND pid IS NULL
"""
_TAKE_OVER: Final = f"""
UPDATE library_job SET server = ?, watched_at = ? WHERE id = ? AND server = ? AND {_OPEN}
"""
_WATCHED: Final = f"UPDATE library_job SET watched_at = ? WHERE server = ? AND {_OPEN}"
_END: Final = f"""
UPDATE library_job SET state = ?, requested = NULL, exit_status = ?, reasons = ?, ended_at = ?
 WHERE id = ? AND {_OPEN}
"""


class LibraryLauncher:
    """Starts the jobs that wait and watches their processes, for one thread."""

    def __init__(
        self,
        database: Database,
        connection: Connection,
        program: CrawlProgram,
        most: int,
        children: dict[str, subprocess.Popen[bytes]],
    ) -> None:
        """``most``: crawls of all servers at once (MAX_RUNNING_JOBS).

        ``children``: the processes that this server started, by the ids of their jobs.
        """
        self._database = database
        self._connection = connection
        self._control = DatabaseControl(database, connection)
        self._server = Process.this()
        self._program = program
        self._most = most
        self._children = children
        self._beat_at = 0

    def watch(self, now: int) -> None:
        """Record the ends of jobs whose processes could not; take over those of dead servers."""
        begun = self._begun()
        for id_ in self._children.keys() - {job.id for job in begun}:
            if self._children[id_].poll() is not None:  # it has recorded its end
                del self._children[id_]
        if begun and not 0 <= now - self._beat_at < BEAT:
            self._control.write(
                lambda: self._connection.execute(_WATCHED, (now, str(self._server)))
            )
            self._beat_at = now
        for job in begun:
            if job.server == self._server:
                self._look_at(job, now)
            elif self._is_dead(job, now) and self._take_over(job, now):
                logger.info("found the job %s of %s again: its server died", job.id, job.domain)

    def start_waiting(self, now: int) -> None:
        """Start the jobs that wait, in their order, as long as there is a place."""
        while (id_ := self._claimed(now)) is not None:
            job = self._one(id_)
            if job is not None:
                self._start(job, now)

    def _begun(self) -> list[LibraryJob]:
        with self._database.translated("read"):
            rows: list[Any] = self._connection.execute(_ALL_BEGUN).fetchall()
        return [LibraryJob.of(row) for row in rows]

    def _one(self, id_: str) -> LibraryJob | None:
        with self._database.translated("read"):
            row: Any = self._connection.execute(_ONE_BEGUN, (id_,)).fetchone()
        return None if row is None else LibraryJob.of(row)

    def _claimed(self, now: int) -> str | None:
        """Claim the first job that waits, unless ``most`` crawls have begun already."""
        with self._database.translated("read"):
            if int(self._connection.execute(PLACES).get) >= self._most:
                return None
            id_ = self._connection.execute(_NEXT).get
        if id_ is None:
            return None

        def work() -> bool:
            self._connection.execute(CLAIMING)
            if int(self._connection.execute(PLACES).get) >= self._most:
                return False
            return self._claim(id_, None, now)

        return str(id_) if self._control.write(work) else None

    def _claim(self, id_: str, before: str | None, now: int) -> bool:
        values = {"server": str(self._server), "now": now, "id": id_, "before": before}
        self._connection.execute(_CLAIM, values)
        return self._connection.changes() > 0

    def _start(self, job: LibraryJob, now: int) -> None:
        try:
            child = self._program.start_library(job.action, job.domain, job.id, job.choices.words())
        except OSError as error:
            self._end(job, "ended", 1, now, f"cannot start its process ({error.strerror})")
            return
        self._children[job.id] = child
        this = Process.of(child.pid)
        row = (this.host, this.pid, this.start, job.id)
        self._control.write(lambda: self._connection.execute(_STARTED, row))
        logger.info("the job %s of %s is carried out: process %d", job.id, job.domain, child.pid)

    def _is_dead(self, job: LibraryJob, now: int) -> bool:
        """Whether the server that watches a job died."""
        assert job.server is not None, "it has begun"
        if job.server.is_here:
            return not job.server.is_alive()
        return now - job.watched_at > SILENCE

    def _take_over(self, job: LibraryJob, now: int) -> bool:
        def work() -> bool:
            row = (str(self._server), now, job.id, str(job.server))
            self._connection.execute(_TAKE_OVER, row)
            return self._connection.changes() > 0

        return self._control.write(work)

    def _look_at(self, job: LibraryJob, now: int) -> None:
        child = self._children.get(job.id)
        if child is None:
            begins = job.process is None and 0 <= now - job.watched_at < _TO_BEGIN
            if not begins and not self._is_running(job.process):
                self._died(job, now, "its process died")
            return
        status = child.poll()
        if status is None:
            return
        del self._children[job.id]
        after = self._one(job.id)
        if after is None:
            return  # it recorded its end
        if status < 0:
            self._died(after, now, f"its process was ended by {exit_status_signal(status)}")
        else:
            log = f"see {job.id}.log"
            self._end(
                after, "ended", status, now, f"its process failed (exit status {status}): {log}"
            )

    def _is_running(self, process: Process | None) -> bool:
        return process is not None and process.is_here and process.is_alive()

    def _died(self, job: LibraryJob, now: int, why: str) -> None:
        """Carry out the order to a job whose process died; else start it once more."""
        if job.requested == RunOrder.CANCEL:
            self._end(job, "cancelled", None, now, "cancelled")
        elif job.requested == RunOrder.PAUSE:
            self._end(job, "paused", None, now)
        elif job.starts - job.starts_before >= MOST_STARTS:
            self._end(job, "ended", None, now, why)
        elif self._control.write(lambda: self._claim(job.id, str(job.server), now)):
            logger.warning("the job %s of %s begins again: %s", job.id, job.domain, why)
            self._start(self._one(job.id) or job, now)

    def _end(
        self, job: LibraryJob, state: str, status: int | None, now: int, *reasons: str
    ) -> None:
        def work() -> None:
            if job.run is not None and state == "cancelled":
                order_run_row(self._connection, job.run, RunOrder.CANCEL, now)
            ended_at = None if state == "paused" else now
            row = (state, status, json.dumps(reasons), ended_at, job.id)
            self._connection.execute(_END, row)

        self._control.write(work)
        logger.info("the job %s of %s is %s %s", job.id, job.domain, state, " ".join(reasons))


class LibraryWork:
    """The part of libraries' jobs in the scheduler of a server."""

    def __init__(self, database: Database, program: CrawlProgram, most: int) -> None:
        """``most``: crawls at once (MAX_RUNNING_JOBS)."""
        self._database = database
        self._program = program
        self._most = most
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def __call__(self, connection: Connection) -> Callable[[int], None]:
        """Return the work of a tick over a connection; ``now``: Unix seconds."""
        launcher = LibraryLauncher(
            self._database, connection, self._program, self._most, self._children
        )

        def tick(now: int) -> None:
            launcher.watch(now)
            launcher.start_waiting(now)

        return tick

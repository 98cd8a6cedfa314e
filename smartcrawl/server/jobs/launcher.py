"""The launcher: it starts the crawls of jobs, and records their ends (ADR 53, 59)."""

from __future__ import annotations

import logging
from typing import Final

from smartcrawl.model.processes import Process, exit_status_signal
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.rules.jobs import EXIT_COMPLETE, EXIT_INCOMPLETE, EXIT_SOURCE_BUSY
from smartcrawl.server.jobs.clock import JobClock
from smartcrawl.server.jobs.crawls import Crawls, Exited, Sight, StartError, api_job_is_crawling
from smartcrawl.server.jobs.job import RunStage
from smartcrawl.server.jobs.processes import (
    BegunRun,
    JobProcesses,
    WaitingRun,
    is_api_job_order_obeyed,
)
from smartcrawl.sources.jobs.errors import JobError

logger = logging.getLogger(__name__)

MOST_STARTS: Final = 2  #: processes of a run: what died with its server is resumed once
BEAT: Final = 10  #: seconds between two signs of life of this server
#: Seconds without a sign after which a server of another machine counts as dead.
SILENCE: Final = 60
_TO_BEGIN: Final = 10  #: seconds in which a started process records itself
_FAILED: Final = 1


class JobLauncher:
    """Starts the waiting runs of jobs and watches their crawls, for one thread."""

    def __init__(
        self, database: Database, connection: Connection, crawls: Crawls, most: int
    ) -> None:
        """``most``: crawls of all servers of this registry at once (MAX_RUNNING_JOBS)."""
        self._database = database
        self._clock = JobClock(database, connection)
        self._server = Process.this()
        self._processes = JobProcesses(database, connection, self._server)
        self._crawls = crawls
        self._most = most
        self._beat_at = 0

    def watch(self, now: int) -> None:
        """Record the beginnings and ends of the runs, and take over those of dead servers."""
        if not 0 <= now - self._beat_at < BEAT:
            self._processes.watched(now)
            self._beat_at = now
        begun = self._processes.begun()
        self._crawls.look([one for one in begun if one.server == self._server], now)
        for one in begun:
            if one.server == self._server:
                self._look_at(one, now)
            elif self._is_dead(one, now) and self._processes.take_over(one, now):
                logger.info("found the run %s of %s again: its server died", one.id, one.name)

    def start_waiting(self, now: int) -> None:
        """Start the runs that wait, in their order, as long as there is a place."""
        while waiting := self._processes.claimable(self._most):
            if not self._crawls.can_start(now):
                return
            ends = {one.id for one in waiting if one.resumes and self._still_ends(one)}
            id_ = self._processes.claim(self._most, now, ends)
            if id_ is None:
                return  # another server was first
            begun = self._processes.get(id_)
            if begun is not None:
                self._start(begun, now, resume=begun.run is not None)

    def _still_ends(self, waiting: WaitingRun) -> bool:
        """Whether the process that was paused has not ended yet."""
        return self._crawls.still_has(waiting.id) or self._database.is_held(waiting.name)

    def _is_dead(self, begun: BegunRun, now: int) -> bool:
        """Whether the server that watches a run died."""
        if begun.server.is_here:
            begins = begun.process is None and 0 <= now - begun.watched_at < _TO_BEGIN
            return not begins and not begun.server.is_alive()
        return now - begun.watched_at > SILENCE

    def _look_at(self, begun: BegunRun, now: int) -> None:
        self._began(begun, now)
        if is_api_job_order_obeyed(self._database, begun):
            self._clock.obeyed(begun.id, now)
            logger.info("the run %s of %s ended by order", begun.id, begun.name)
            return
        sight = self._crawls.sight(begun, now)
        if isinstance(sight, Exited):
            after = self._processes.get(begun.id)  # what it recorded before its end
            if after is not None:
                self._exited(after, sight, now)
        elif sight is Sight.GONE:
            self._gone(begun, now)
        elif sight is Sight.NOT_STARTED:
            self._processes.withdraw(begun.id)

    def _began(self, begun: BegunRun, now: int) -> None:
        """Record that the run of a waiting job is open, if it is."""
        if begun.stage is not RunStage.WAITING or begun.run is None or not begun.has_opened:
            return
        try:
            self._clock.began(begun.id, begun.run, now)
        except JobError as error:
            logger.warning("the run %s of %s goes on, although %s", begun.id, begun.name, error)

    def _exited(self, begun: BegunRun, exited: Exited, now: int) -> None:
        """Record the exit of a process."""
        status = exited.status
        self._began(begun, now)
        if status == EXIT_SOURCE_BUSY:
            other = begun.process
            came_second = other is not None and other.pid != exited.pid
            if came_second and api_job_is_crawling(self._database, begun.name, other):
                return  # it came second: the first process crawls for this run
            if begun.resumes:
                self._processes.release(begun.id)  # it waits for its source
            elif begun.run is None:
                self._end(begun, status, now, "its source is being crawled")
            else:
                self._end(begun, None, now, "its source is being crawled by another process")
        elif status in (EXIT_COMPLETE, EXIT_INCOMPLETE):
            self._end(begun, status, now, *begun.reasons)
        elif status < 0:
            self._end(begun, None, now, f"its process was ended by {exit_status_signal(status)}")
        else:
            log = self._crawls.place_of_log(begun)
            self._end(begun, status, now, f"its process failed (exit status {status}): see {log}")

    def _gone(self, begun: BegunRun, now: int) -> None:
        """Record the end of a run whose exit status is unknown; resume one that has not ended.

        One that was sealed only has to be swept.
        """
        is_spent = begun.starts - begun.starts_before >= MOST_STARTS or not begun.may_run
        if begun.order is not None and not begun.is_sealed:
            self._end(begun, None, now)
        elif begun.is_swept or (begun.is_sealed and is_spent):
            status = EXIT_COMPLETE if begun.complete else EXIT_INCOMPLETE
            self._end(begun, status, now, *begun.reasons)
        elif is_spent:
            self._end(begun, None, now, self._crawls.reason_of_death(begun))
        elif not self._database.is_held(begun.name) and self._crawls.can_start(now):
            # PostgreSQL notes a death within a minute.
            logger.info("resuming the run %s of %s: its process died", begun.id, begun.name)
            if self._processes.claim_again(begun.id, now):
                again = self._processes.get(begun.id) or begun
                self._start(again, now, resume=again.run is not None)

    def _start(self, begun: BegunRun, now: int, *, resume: bool) -> None:
        try:
            process = self._crawls.start(begun, resume=resume)
        except StartError as error:
            logger.error("the run %s of %s failed: %s", begun.id, begun.name, error)
            self._end(begun, _FAILED, now, str(error))
            return
        if process is not None:
            self._processes.started(begun.id, process)
            logger.info("crawling %s for the run %s: process %d", begun.name, begun.id, process.pid)

    def _end(self, begun: BegunRun, status: int | None, now: int, *reasons: str) -> None:
        self._clock.ended(begun.id, status, now, reasons)
        end = "vanished" if status is None else f"exit status {status}"
        logger.info("the run %s of %s ended: %s", begun.id, begun.name, end)

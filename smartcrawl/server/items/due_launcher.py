"""The processes of ordered runs: started in their order, watched, found again (ADR 61).

A run that died leaves its pages due, so that it is begun anew instead of resumed.
"""

from __future__ import annotations

import logging
import subprocess
from typing import Final

from smartcrawl.model.processes import Process, exit_status_signal
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.rules.jobs import EXIT_COMPLETE, EXIT_INCOMPLETE, EXIT_SOURCE_BUSY
from smartcrawl.server.items.due_runs import DueRun, DueRuns
from smartcrawl.server.jobs.crawls import api_job_is_crawling
from smartcrawl.server.jobs.launcher import BEAT, MOST_STARTS, SILENCE
from smartcrawl.server.jobs.local import CrawlProgram

logger = logging.getLogger(__name__)

BUSY_AGAIN: Final = 5  #: seconds until a run whose source was busy tries again


class DueLauncher:
    """Starts ordered runs and watches their processes, for one thread."""

    def __init__(
        self,
        database: Database,
        connection: Connection,
        program: CrawlProgram,
        most: int,
        children: dict[int, subprocess.Popen[bytes]],
    ) -> None:
        """``most`` and ``children``: as of JobLauncher; children by the number of the run."""
        self._database = database
        self._server = Process.this()
        self._runs = DueRuns(database, connection, self._server)
        self._program = program
        self._most = most
        self._children = children
        self._beat_at = 0

    def watch(self, now: int) -> None:
        """Note the ends of runs, and take over those of dead servers."""
        begun = self._runs.begun()
        if begun and not 0 <= now - self._beat_at < BEAT:
            self._runs.watched(now)
            self._beat_at = now
        for run in begun:
            if run.server == self._server:
                self._look_at(run, now)
            elif self._is_dead(run, now) and self._runs.take_over(run, now):
                logger.info("found the ordered run of %s again: its server died", run.source)

    def start_waiting(self, now: int) -> None:
        """Start the runs that may begin, as long as there is a place."""
        while (run := self._runs.claim(self._most, now)) is not None:
            try:
                child = self._program.start_due(run.source)
            except OSError as error:
                logger.error("cannot start the ordered run of %s: %s", run.source, error)
                self._runs.end(run)
                continue
            self._children[run.no] = child
            self._runs.started(run.no, Process.of(child.pid))
            logger.info("crawling what is due of %s: process %d", run.source, child.pid)

    def _is_dead(self, run: DueRun, now: int) -> bool:
        """Whether the server that watches a run died."""
        if run.server.is_here:
            return not run.server.is_alive()
        return now - run.watched_at > SILENCE

    def _look_at(self, run: DueRun, now: int) -> None:
        child = self._children.get(run.no)
        if child is None:
            if not api_job_is_crawling(self._database, run.source, run.process):
                self._died(run, now, "its process and its server died")
            return
        status = child.poll()
        if status is None:
            return
        del self._children[run.no]
        if status == EXIT_SOURCE_BUSY:
            self._runs.again(run, now + BUSY_AGAIN, starts=0)
        elif status < 0:
            self._died(run, now, f"its process was ended by {exit_status_signal(status)}")
        else:
            self._runs.end(run)
            if status in (EXIT_COMPLETE, EXIT_INCOMPLETE):
                logger.info("the ordered run of %s ended: exit status %d", run.source, status)
            else:
                log = self._program.due_log_of(run.source).name
                logger.error(
                    "the ordered run of %s failed (exit status %d): see %s", run.source, status, log
                )

    def _died(self, run: DueRun, now: int, why: str) -> None:
        if run.starts >= MOST_STARTS:
            logger.error("the ordered run of %s failed: %s", run.source, why)
            self._runs.end(run)
        else:
            logger.warning("the ordered run of %s begins again: %s", run.source, why)
            self._runs.again(run, now, starts=run.starts)

"""The scheduler of one server: it fires due jobs and has them crawled (docs/adr/0053).

Any number of servers may have one for the same registry; a due time is fired once.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import Final

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.server.jobs.clock import JobClock
from smartcrawl.server.jobs.launcher import CrawlProgram, JobLauncher

logger = logging.getLogger(__name__)

TICK: Final = 0.5  #: seconds between two ticks
_AGAIN: Final = 5.0  #: seconds until it tries again after an error


class JobScheduler:
    """Fires the jobs that are due, starts their crawls and records their ends."""

    def __init__(self, clock: JobClock, launcher: JobLauncher) -> None:
        self._clock = clock
        self._launcher = launcher

    def tick(self, now: int) -> None:
        """Do all that is due; ``now``: Unix seconds."""
        for run in self._clock.fire(now):
            logger.info("the job %s is due: run %s is %s", run.name, run.id, run.stage)
        self._launcher.watch(now)
        self._launcher.start_waiting(now)


class SchedulerThread:
    """The scheduler in a thread of its own, beside the event loop of the server."""

    def __init__(
        self,
        database: Database,
        program: CrawlProgram,
        most: int,
        clock: Callable[[], float],
        declared: Callable[[], Collection[str]],
    ) -> None:
        """``declared``: returns the names of the declared sources."""
        self._database = database
        self._program = program
        self._most = most
        self._clock = clock
        self._declared = declared
        self._ending = Event()
        self._away = False
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Tick while the block runs; crawls go on after it."""
        thread = Thread(target=self._run, name="scheduler")
        thread.start()
        try:
            yield
        finally:
            self.end()
            thread.join()

    def end(self) -> None:
        """End after the present tick. Ends of crawls are for the next server from now on."""
        self._ending.set()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with closing(self._database.open()) as connection:
                    self._tick_on(connection)
            except RegistryError as error:
                if not self._away:
                    logger.error("no job is started while the registry is away: %s", error)
                self._away = True
                self._ending.wait(_AGAIN)
            except Exception:
                logger.exception("the scheduler failed unexpectedly, and tries again")
                self._ending.wait(_AGAIN)

    def _tick_on(self, connection: Connection) -> None:
        clock = JobClock(self._database, connection, self._declared)
        launcher = JobLauncher(
            self._database, connection, self._program, self._most, self._children
        )
        scheduler = JobScheduler(clock, launcher)
        while not self._ending.is_set():
            scheduler.tick(int(self._clock()))
            self._away = False
            self._ending.wait(TICK)

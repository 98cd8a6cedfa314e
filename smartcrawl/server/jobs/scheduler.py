"""The scheduler of one server: it fires due jobs and has them crawled (ADR 53).

Any number of servers may have one for the same registry; a due time is fired once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import Final

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.server.jobs.clock import JobClock
from smartcrawl.server.jobs.crawl_runs import BegunRun
from smartcrawl.server.jobs.runner import Runner

logger = logging.getLogger(__name__)

TICK: Final = 0.5  #: seconds between two ticks
_AGAIN: Final = 5.0  #: seconds until it tries again after an error
#: Some work of each tick, over its connection; called with the time in Unix seconds.
TickWork = Callable[[Connection], Callable[[int], None]]


class JobScheduler:
    """Fires the jobs that are due, starts their crawls and records their ends."""

    def __init__(self, clock: JobClock, runner: Runner[BegunRun]) -> None:
        self._clock = clock
        self._runner = runner

    def tick(self, now: int) -> None:
        """Do all that is due; ``now``: Unix seconds."""
        for run in self._clock.fire(now):
            logger.info("the job %s is due: run %s is %s", run.name, run.id, run.stage)
        self._runner.tick(now)


class SchedulerThread:
    """The scheduler in a thread of its own, beside the event loop of the server."""

    def __init__(
        self, database: Database, works: Sequence[TickWork], clock: Callable[[], float]
    ) -> None:
        """``works``: done in this order, each tick."""
        self._database = database
        self._works = works
        self._clock = clock
        self._ending = Event()
        self._away = False

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

    @property
    def ending(self) -> Event:
        """The event that is set when the server ends."""
        return self._ending

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
        works = [work(connection) for work in self._works]
        while not self._ending.is_set():
            now = int(self._clock())
            for work in works:
                work(now)
            self._away = False
            self._ending.wait(TICK)

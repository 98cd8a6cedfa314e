"""The scheduler of one server: it fires due jobs, has them crawled, and takes their ends (ADR 53).

Any number of servers may have one for the same registry; a due time is fired once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.processes import exit_status_signal
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.processes import PROCESS_COLUMNS, ProcessKind, Started
from smartcrawl.rules.model import RunOrder, RunState
from smartcrawl.rules.run_orders import (
    EXIT_COMPLETE,
    EXIT_INCOMPLETE,
    EXIT_SOURCE_BUSY,
    JobAction,
    order_in_force,
)
from smartcrawl.server.jobs.clock import JobClock
from smartcrawl.server.jobs.runner import CrawlProgram, Exited, Kind, Runner, Work, is_at_work
from smartcrawl.server.jobs.store import RunStage
from smartcrawl.sources.jobs import JobError

logger = logging.getLogger(__name__)


_CLOSED: Final = frozenset({RunState.INTERRUPTED, RunState.CANCELLED})
_SEALED: Final = frozenset({RunState.SEALED, RunState.SETTLED, RunState.SWEPT})
_OPEN: Final = "k.state IN ('waiting', 'running')"
_PROCESS: Final = "JOIN process p ON p.kind = 'crawl' AND p.id = k.id"
_MAY_RUN: Final = """
(j.status IN ('created', 'scheduled', 'running')
 OR (j.status = 'paused' AND k.requested = 'resume'))
AND j.deleted_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class BegunRun(Work):
    """A run of a job that a server has begun."""

    stage: RunStage
    run: int | None  #: run.no, once it is open
    may_run: bool  #: the job is neither cancelled, deleted, nor paused and not resumed
    state: RunState | None  #: of the run
    complete: bool
    reasons: tuple[str, ...]  #: why the run is incomplete
    order: RunOrder | None  #: that the run ends
    resumes: bool  #: the job was resumed, and its run is not open yet

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"the run {self.id} of {self.name}"

    @property
    def waits(self) -> bool:
        """Whether its run is not open yet."""
        return self.stage is RunStage.WAITING and self.run is None

    @property
    def has_opened(self) -> bool:
        """Whether its run is or was open; before it goes on, a paused one is not."""
        return self.run is not None and self.state is not RunState.INTERRUPTED

    @property
    def is_sealed(self) -> bool:
        """Whether the run asked every page that it wanted to ask."""
        return self.state in _SEALED

    @property
    def is_swept(self) -> bool:
        """Whether the run is over, and has removed what it found to be gone."""
        return self.state is RunState.SWEPT

    def words(self, program: CrawlProgram) -> list[str]:
        """Return names alone: seeds stay in the registry, secrets in the environment."""
        spider = [] if program.spider_of is None else [program.spider_of(self.name)]
        given = ["-a", f"source={self.name}", "-a", f"_job={self.id}"]
        resume = [] if self.run is None else ["-a", "resume=1"]
        return [*program.words, *spider, *given, *resume]


class CrawlRuns(Kind[BegunRun]):
    """The runs of jobs. One that was paused waits until nothing crawls its source."""

    kind = ProcessKind.CRAWL
    WAITING = f"""
SELECT k.id, CASE WHEN k.requested = 'resume' THEN j.name END
  FROM job_run k JOIN job j ON j.no = k.job LEFT {_PROCESS}
 WHERE k.state = 'waiting' AND p.server IS NULL AND {_MAY_RUN} ORDER BY k.no
"""
    LOCK = f"UPDATE job_run AS k SET requested = requested WHERE id = ? AND {_OPEN}"
    BEGUN = f"""
SELECT k.id, j.name, k.state, k.run, {_MAY_RUN}, r.state, r.complete, r.reasons, k.requested,
       r.requested, {PROCESS_COLUMNS}
  FROM job_run k {_PROCESS} JOIN job j ON j.no = k.job LEFT JOIN run r ON r.no = k.run
 WHERE {_OPEN} AND p.server IS NOT NULL AND k.id = coalesce(:id, k.id) ORDER BY k.no
"""

    def __init__(self, database: Database, connection: Connection) -> None:
        super().__init__(database, connection)
        self._clock = JobClock(database, connection)

    def of(self, row: Sequence[Any]) -> BegunRun:
        """Return the run of a row."""
        return BegunRun(
            id=row[0],
            name=row[1],
            started=Started.of(row[10:]),
            stage=RunStage(row[2]),
            run=row[3],
            may_run=bool(row[4]),
            state=None if row[5] is None else RunState(row[5]),
            complete=bool(row[6]),
            reasons=tuple(json.loads(row[7] or "[]")),
            order=order_in_force(row[8], row[9]),
            resumes=row[8] == JobAction.RESUME,
        )

    def is_obeyed(self, begun: BegunRun) -> bool:
        """Whether a run ended by an order and its source is free; its process may be there yet."""
        closed = begun.stage is RunStage.RUNNING and begun.state in _CLOSED
        return closed and begun.order is not None and not self._database.is_held(begun.name)

    def is_over(self, work: BegunRun, now: int) -> bool:
        """Record that the run is open, or that it ended by an order."""
        self._began(work, now)
        if not self.is_obeyed(work):
            return False
        self._clock.obeyed(work.id, now)
        logger.info("%s ended by order", work.label)
        return True

    def exited(self, work: BegunRun, exited: Exited, log: str, now: int) -> None:
        """Record the exit of a process; what is killed beside a living server has failed."""
        status = exited.status
        self._began(work, now)
        if status == EXIT_SOURCE_BUSY:
            other = work.started.process
            came_second = other is not None and other.pid != exited.pid
            if came_second and is_at_work(self._database, work.name, other):
                return  # it came second: the first process crawls for this run
            if work.resumes:
                self.control.write(lambda: self.rows.release(work.id))  # it waits for its source
            elif work.run is None:
                self.end(work, status, now, "its source is being crawled")
            else:
                self.end(work, None, now, "its source is being crawled by another process")
        elif status in (EXIT_COMPLETE, EXIT_INCOMPLETE):
            self.end(work, status, now, *work.reasons)
        elif status < 0:
            self.end(work, None, now, f"its process was ended by {exit_status_signal(status)}")
        else:
            self.end(work, status, now, f"its process failed (exit status {status}): see {log}")

    def died(self, work: BegunRun, why: str, now: int) -> bool:
        """Record the end of a run whose exit status is unknown; one that has not ended goes on.

        One that was sealed only has to be swept.
        """
        is_spent = work.is_spent or not work.may_run
        if work.order is not None and not work.is_sealed:
            self.end(work, None, now)
        elif work.is_swept or (work.is_sealed and is_spent):
            status = EXIT_COMPLETE if work.complete else EXIT_INCOMPLETE
            self.end(work, status, now, *work.reasons)
        elif is_spent:
            self.end(work, None, now, why)
        else:
            return not self._database.is_held(work.name)  # PostgreSQL notes a death in a minute
        return False

    def end(self, work: BegunRun, status: int | None, now: int, *reasons: str) -> None:
        """Record the end of a run and of its job."""
        self._clock.ended(work.id, status, now, reasons)
        end = "vanished" if status is None else f"exit status {status}"
        logger.info("%s ended: %s %s", work.label, end, "; ".join(reasons))

    def _began(self, work: BegunRun, now: int) -> None:
        """Record that the run of a waiting job is open, if it is."""
        if work.stage is not RunStage.WAITING or work.run is None or not work.has_opened:
            return
        try:
            self._clock.began(work.id, work.run, now)
        except JobError as error:
            logger.warning("%s goes on, although %s", work.label, error)


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
        self,
        database: Database,
        works: Sequence[TickWork],
        clock: Callable[[], float],
        *,
        ending: Event | None = None,
    ) -> None:
        """``works``: done in this order, each tick. ``ending``: ends it; None: its own event."""
        self._database = database
        self._works = works
        self._clock = clock
        self._ending = ending or Event()
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

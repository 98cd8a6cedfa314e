"""Orders to jobs: to pause, to resume, to cancel, to start (R2-27, R2-28, R2-32; ADR 57).

An order is stored with the run of the job, and with the run that its crawl has opened, so that it
reaches each process of it. Any number of servers may give orders at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database, DatabaseControl
from smartcrawl.registry.processes import ProcessKind, ProcessRows
from smartcrawl.registry.runs.run_orders import PREFIX, order_run_row
from smartcrawl.rules.model import BEFORE_SEAL, RunOrder, RunState
from smartcrawl.rules.run_orders import JobAction, JobStatus, permitted_job_actions
from smartcrawl.server.jobs.clock import JobClock, free_job_due_time
from smartcrawl.server.jobs.scheduler import CrawlRuns
from smartcrawl.server.jobs.store import RunStage
from smartcrawl.sources.jobs import CONFLICT, NOT_FOUND, JobError, JobSchedule

_T = TypeVar("_T")

_JOB = "SELECT no, status, definition FROM job WHERE id = ? AND deleted_at IS NULL"
_JOB_OF_RUN = """
SELECT j.no, j.status, j.definition FROM job j JOIN job_run k ON k.job = j.no
 WHERE k.id = ? AND j.deleted_at IS NULL
"""
#: Locks, so that the statements that follow read the latest states.
_LOCK_JOB = "UPDATE job SET version = version WHERE no = ?"
_LOCK_RUN = """
UPDATE job_run SET requested = requested
 WHERE job = ? AND state IN ('waiting', 'running', 'paused')
"""
_CURRENT = """
SELECT k.no, k.id, k.state, p.server, k.requested, k.run, r.state
  FROM job_run k LEFT JOIN process p ON p.kind = 'crawl' AND p.id = k.id
  LEFT JOIN run r ON r.no = k.run
 WHERE k.job = ? AND k.state IN ('waiting', 'running', 'paused') ORDER BY k.no DESC LIMIT 1
"""
_STAGE = "SELECT state, requested FROM job_run WHERE id = ?"
_REQUEST = "UPDATE job_run SET requested = ? WHERE no = ?"
_SET_STAGE = """
UPDATE job_run SET state = ?, requested = NULL, reasons = ?, ended_at = ? WHERE no = ?
"""
_WAIT_AGAIN = """
UPDATE job_run SET state = 'waiting', requested = ?, reasons = '[]', ended_at = NULL WHERE no = ?
"""
_SET_STATUS = "UPDATE job SET status = ? WHERE no = ?"
_CANCEL_JOB = """
UPDATE job SET status = 'cancelled', due_at = NULL, complete = ?, reasons = '["cancelled"]',
       completed_at = ?
 WHERE no = ?
"""
_START = """
UPDATE job SET status = 'created', due_at = ?, complete = NULL, reasons = '[]' WHERE no = ?
"""
_DONE: Final = {
    JobAction.PAUSE: "paused",
    JobAction.RESUME: "resumed",
    JobAction.CANCEL: "cancelled",
    JobAction.START: "started",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a job, or of one of its runs, and the order that is under way."""

    id: str
    status: JobStatus | RunStage
    requested: JobAction | None


@dataclass(frozen=True, slots=True)
class _Current:
    """The run of a job that waits, runs or is paused."""

    no: int  #: job_run.no
    id: str
    stage: RunStage
    has_begun: bool  #: a process was started for it
    requested: JobAction | None
    run: int | None  #: run.no
    is_open: bool  #: the run takes an order


def api_job_standing(connection: Connection, id_: str) -> Standing:
    """Return the present state of a job, or of one of its runs.

    Raises:
        JobError: there is no such job.
    """
    job, status, _ = _job(connection, id_)
    if id_.startswith(PREFIX):
        stage, word = connection.execute(_STAGE, (id_,)).get
        return Standing(id_, RunStage(stage), None if word is None else JobAction(word))
    current = _current(connection, job)
    return Standing(id_, status, None if current is None else current.requested)


class JobOrders:
    """Gives orders to jobs and records their effect, for one thread.

    An id is that of a job, or of its present run.
    """

    def __init__(self, database: Database, connection: Connection) -> None:
        self._database = database
        self._connection = connection
        self._control = DatabaseControl(database, connection)

    def give(self, id_: str, action: JobAction, now: int) -> Standing:
        """Give an order, and return the state right after.

        Raises:
            JobError: there is no such job, or it does not take the order in its state.
        """

        def work() -> Standing:
            job = _job(self._connection, id_)[0]
            self._connection.execute(_LOCK_JOB, (job,))
            self._connection.execute(_LOCK_RUN, (job,))
            _, status, schedule = _job(self._connection, id_)
            current = _current(self._connection, job)
            if id_.startswith(PREFIX) and (current is None or current.id != id_):
                stage, _ = self._connection.execute(_STAGE, (id_,)).get
                raise _conflict(f"the run is {stage}, which is final: give the order to its job")
            requested = None if current is None else current.requested
            refuse_job_action(status, action, requested, may_start=not schedule.recurring)
            steps = {
                JobAction.PAUSE: self._pause,
                JobAction.RESUME: self._resume,
                JobAction.CANCEL: self._cancel,
                JobAction.START: self._start,
            }
            steps[action](job, current, now)
            return api_job_standing(self._connection, id_)

        return self._write(work)

    def is_obeyed(self, id_: str) -> bool:
        """Whether the run obeyed the order, and that is not recorded yet."""
        return self._obeyed(id_) is not None

    def settle(self, id_: str, now: int) -> None:
        """Record that the run obeyed, if it did; its process may not have ended yet."""
        obeyed = self._obeyed(id_)
        if obeyed is not None:
            JobClock(self._database, self._connection).obeyed(obeyed, now)

    def _obeyed(self, id_: str) -> str | None:
        """Return the id of the run that obeyed."""
        current = _current(self._connection, _job(self._connection, id_)[0])
        if current is None:
            return None
        runs = CrawlRuns(self._database, self._connection)
        begun = runs.get(current.id)
        return current.id if begun is not None and runs.is_obeyed(begun) else None

    def _pause(self, job: int, current: _Current | None, now: int) -> None:
        if current is not None and current.has_begun:
            self._order(current, RunOrder.PAUSE, now)
            return
        if current is not None:
            row = (RunStage.PAUSED, '["paused"]', now, current.no)
            self._connection.execute(_SET_STAGE, row)
        self._connection.execute(_SET_STATUS, (JobStatus.PAUSED, job))

    def _resume(self, job: int, current: _Current | None, _: int) -> None:
        """Let a paused run wait for its turn again; without one, its job is due as before."""
        if current is not None and current.requested is JobAction.RESUME:
            return
        goes_on = current is not None and current.run is not None
        if current is not None:
            row = (JobAction.RESUME if goes_on else None, current.no)
            self._connection.execute(_WAIT_AGAIN, row)
            ProcessRows(self._connection, ProcessKind.CRAWL).renew(current.id)
        if not goes_on:
            self._connection.execute(_SET_STATUS, (JobStatus.SCHEDULED, job))

    def _cancel(self, job: int, current: _Current | None, now: int) -> None:
        if current is not None and current.has_begun:
            self._order(current, RunOrder.CANCEL, now)
            return
        opened = current is not None and current.run is not None
        if current is not None:
            if current.run is not None:
                order_run_row(self._connection, current.run, RunOrder.CANCEL, now)
            row = (RunStage.CANCELLED, '["cancelled"]', now, current.no)
            self._connection.execute(_SET_STAGE, row)
        self._connection.execute(_CANCEL_JOB, (False if opened else None, now, job))

    def _start(self, job: int, _: _Current | None, now: int) -> None:
        """Let a job that runs once be due, at a time that none of its runs has."""
        due_at = free_job_due_time(self._connection, job, None, now)
        self._connection.execute(_START, (due_at, job))

    def _order(self, current: _Current, order: RunOrder, now: int) -> None:
        """Order a run whose process was started; one that is not open yet gets it when it is."""
        self._connection.execute(_REQUEST, (order, current.no))
        if current.run is not None and current.is_open:
            order_run_row(self._connection, current.run, order, now)

    def _write(self, work: Callable[[], _T]) -> _T:
        """Do ``work`` in the transaction of the caller, or else in one of its own."""
        return work() if self._connection.in_transaction else self._control.write(work)


def _job(connection: Connection, id_: str) -> tuple[int, JobStatus, JobSchedule]:
    look = _JOB_OF_RUN if id_.startswith(PREFIX) else _JOB
    row: Any = connection.execute(look, (id_,)).fetchone()
    if row is None:
        raise JobError(NOT_FOUND, field="job_id", reason="there is no job of this id")
    return row[0], JobStatus(row[1]), JobSchedule.stored(row[2])


def _current(connection: Connection, job: int) -> _Current | None:
    row: Any = connection.execute(_CURRENT, (job,)).fetchone()
    if row is None:
        return None
    no, id_, stage, server, requested, run, state = row
    return _Current(
        no=no,
        id=id_,
        stage=RunStage(stage),
        has_begun=server is not None and stage != RunStage.PAUSED,
        requested=None if requested is None else JobAction(requested),
        run=run,
        is_open=state is not None and RunState(state) in BEFORE_SEAL,
    )


def refuse_job_action(
    status: JobStatus,
    action: JobAction,
    requested: JobAction | None = None,
    *,
    may_start: bool = False,
) -> None:
    """Refuse an order that the state of a job does not permit.

    ``requested``: the order that is under way. ``may_start``: the job runs once.

    Raises:
        JobError: with the present state, and what is possible.
    """
    if requested is JobAction.CANCEL and action is not JobAction.CANCEL:
        raise _conflict(f"the job is {status}, and is being cancelled, which is final")
    if requested is JobAction.PAUSE and action is JobAction.RESUME:
        raise _conflict(f"the job is {status}, and is being paused: resume it when it is paused")
    resumes = requested is JobAction.RESUME
    permitted = set(permitted_job_actions(status, may_start=may_start))
    if resumes:
        permitted.add(JobAction.PAUSE)
    if action in permitted:
        return
    words = [word for able, word in _DONE.items() if able in permitted]
    ends = f"it can be {' or '.join(words)}" if words else "which is final"
    raise _conflict(f"the job is {status}{': ' if words else ', '}{ends}")


def _conflict(reason: str) -> JobError:
    return JobError(CONFLICT, field="status", reason=reason)

"""Due jobs and their runs: a due time gives one run, whichever server fires it (R2-23)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database, DatabaseControl
from smartcrawl.registry.runs.run_orders import order_run_row
from smartcrawl.registry.runs.runs import interrupt_run_row
from smartcrawl.rules.model import BEFORE_SEAL, RunOrder, RunState
from smartcrawl.rules.run_orders import (
    EXIT_SOURCE_BUSY,
    JobAction,
    JobStatus,
    is_run_in_vain,
    job_after_end,
    job_after_exit,
    job_after_order,
    may_job_become,
    order_in_force,
)
from smartcrawl.server.jobs.store import JobRun, RunStage
from smartcrawl.sources.jobs import CONFLICT, NOT_FOUND, CronSchedule, JobError, JobSchedule

logger = logging.getLogger(__name__)


_TAKEN = "SELECT 1 FROM job_run WHERE job = ? AND due_at = ?"


def free_job_due_time(connection: Connection, job: int, cron: str | None, now: int) -> int:
    """Return the first time from ``now`` on at which a job may be due and none of its runs was.

    ``job``: job.no. ``cron``: its stored expression; None: it runs once, and any time will do.

    Raises:
        ValueError: the expression has no such time, or this version refuses it.
    """
    schedule = None if cron is None else CronSchedule(cron)
    at = now if schedule is None else schedule.next_fire(now)
    while connection.execute(_TAKEN, (job, at)).get is not None:
        at = at + 1 if schedule is None else schedule.next_fire(at)
    return at


MOST: Final = 10  #: runs that a job lists
_RUN = """
SELECT k.id, j.id, j.name, k.due_at, k.state, k.reasons, k.requested, k.run
  FROM job_run k JOIN job j ON j.no = k.job
"""
_RUNS = f"{_RUN} WHERE k.job = ? ORDER BY k.due_at DESC LIMIT ?"
_OF_ID = f"{_RUN} WHERE k.id = ?"
_LOGGED = """
SELECT k.id, k.state, p.host, j.name
  FROM job_run k JOIN job j ON j.no = k.job
  LEFT JOIN process p ON p.kind = 'crawl' AND p.id = k.id
"""
_PLACE = f"{_LOGGED} WHERE k.id = ?"
#: A time that was skipped has no log.
_LAST_PLACE = f"""
{_LOGGED} WHERE k.job = ? AND k.state <> 'skipped' ORDER BY k.no DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """A run of a job, and the machine that has its log."""

    id: str
    stage: RunStage
    host: str | None  #: of its last process; None: not known
    source: str  #: name of its source

    @property
    def is_open(self) -> bool:
        """Whether its crawl may write more."""
        return self.stage in (RunStage.WAITING, RunStage.RUNNING)


def api_job_runs(connection: Connection, job: int) -> list[JobRun]:
    """Return the last due times of a job, newest first; ``job``: job.no."""
    rows: list[Any] = connection.execute(_RUNS, (job, MOST)).fetchall()
    return [api_job_run(row) for row in rows]


def api_job_run_of_id(connection: Connection, id_: str) -> tuple[JobRun, int | None]:
    """Return a run of a job, and run.no once it is open.

    Raises:
        JobError: there is none of this id.
    """
    row: Any = connection.execute(_OF_ID, (id_,)).fetchone()
    if row is None:
        raise JobError(NOT_FOUND, field="job_id", reason="there is no run of this id")
    return api_job_run(row), row[7]


def api_job_run_logged(connection: Connection, id_: str) -> LoggedRun:
    """Return the run of an id, as its log needs it.

    Raises:
        JobError: there is none of this id.
    """
    return _logged_run(connection.execute(_PLACE, (id_,)).fetchone())


def last_api_job_run_logged(connection: Connection, job: int) -> LoggedRun:
    """Return the last run of a job; ``job``: job.no.

    Raises:
        JobError: it has none yet.
    """
    return _logged_run(connection.execute(_LAST_PLACE, (job,)).fetchone(), "it has not run yet")


def _logged_run(row: Any, why: str = "there is no run of this id") -> LoggedRun:
    if row is None:
        raise JobError(NOT_FOUND, field="job_id", reason=why)
    return LoggedRun(row[0], RunStage(row[1]), row[2], row[3])


def api_job_run(row: Any) -> JobRun:
    """Return the run of a row."""
    values = [*row[:4], RunStage(row[4]), tuple(json.loads(row[5])), row[6]]
    return JobRun(*values)


#: A paused job is not due; a running one is, and that time is skipped.
_DUE_STATES = "status IN ('created', 'scheduled', 'running') AND deleted_at IS NULL"
_DUE = f"""
SELECT no, id, name, due_at, definition, declared FROM job WHERE due_at <= ? AND {_DUE_STATES}
 ORDER BY due_at, no
"""
#: What is due later. After the clock was ahead for a while, that may be in a year.
_LATER = f"SELECT no, due_at FROM job WHERE due_at > ? AND {_DUE_STATES}"
_DEFINITION = "SELECT definition, name FROM job WHERE no = ?"
#: It locks the job, at first with the same time. A second server waits, and finds another.
_ADVANCE = f"UPDATE job SET due_at = ? WHERE no = ? AND due_at = ? AND {_DUE_STATES}"
_OPEN = "SELECT 1 FROM job_run WHERE job = ? AND state IN ('waiting', 'running') LIMIT 1"
#: No second run for a due time, also if the clock was put back or the schedule replaced.
_FIRE = """
INSERT INTO job_run (id, job, due_at, fired_at, state, reasons, ended_at)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, due_at) DO NOTHING RETURNING no
"""
_RUN_OF_DUE = """
SELECT k.id, j.id, j.name, k.due_at, k.state, k.reasons, k.requested
  FROM job_run k JOIN job j ON j.no = k.job
"""
_WAITING = f"{_RUN_OF_DUE} WHERE k.state = 'waiting' ORDER BY k.no"
_RUN_OF_ID = f"{_RUN_OF_DUE} WHERE k.id = ?"
_LOCK = "UPDATE job SET version = version WHERE no = (SELECT job FROM job_run WHERE id = ?)"
_STATE = """
SELECT j.no, j.status, j.definition, k.state, k.requested, k.run, r.state, r.requested, r.reasons,
       r.words, (SELECT count(*) FROM seed s WHERE s.run = r.no AND s.pinned = 0)
  FROM job j JOIN job_run k ON k.job = j.no LEFT JOIN run r ON r.no = k.run
 WHERE k.id = ?
"""
_BEGAN = """
UPDATE job_run SET state = 'running', run = ?, requested = nullif(requested, 'resume') WHERE id = ?
"""
#: A run that goes on keeps its beginning.
_JOB_BEGAN = """
UPDATE job SET started_at = CASE WHEN status = 'paused' THEN started_at ELSE ? END,
       status = 'running', completed_at = NULL, complete = NULL, reasons = '[]'
 WHERE no = ?
"""
_ENDED = """
UPDATE job_run SET state = ?, exit_status = ?, reasons = ?, ended_at = ?, requested = NULL
 WHERE id = ?
"""
_JOB_PAUSED = """
UPDATE job SET status = 'paused', started_at = coalesce(?, started_at), complete = NULL, reasons = ?
 WHERE no = ?
"""
_JOB_CANCELLED = """
UPDATE job SET status = 'cancelled', started_at = coalesce(?, started_at), complete = ?,
       reasons = ?, completed_at = ?, due_at = NULL
 WHERE no = ?
"""
_NEVER = "UPDATE job SET due_at = NULL WHERE no = ?"
_BUSY = "UPDATE job SET reasons = ?, due_at = coalesce(due_at, ?) WHERE no = ?"
_JOB_ENDED = """
UPDATE job SET status = ?, complete = ?, reasons = ?, completed_at = ? WHERE no = ?
"""
#: A PUT during the run made a recurring job one that runs once more.
_ONCE_MORE = """
UPDATE job SET status = 'scheduled'
 WHERE no = ? AND due_at IS NOT NULL AND status IN ('completed', 'failed')
"""
_AGAIN: Final = 60  #: seconds until a job that runs once tries a busy source again
_SKEW: Final = 86_400  #: seconds by which the clocks of two servers may differ
_LIVE: Final = frozenset({RunStage.WAITING, RunStage.RUNNING})
_DONE: Final = frozenset({JobStatus.COMPLETED, JobStatus.FAILED})


@dataclass(frozen=True, slots=True)
class _State:
    """A run of a job and its job, as a transaction finds them."""

    job: int  #: job.no
    status: JobStatus
    recurring: bool
    stage: RunStage
    requested: str | None  #: of the run of the job: an order, or a resume
    run: int | None  #: run.no
    state: RunState | None  #: of the run
    order: RunOrder | None
    in_vain: bool  #: the run fetched nothing, or all of its seeds failed

    @property
    def resumes(self) -> bool:
        """Whether its job was resumed, and its run is not open yet."""
        return self.requested == JobAction.RESUME


class JobClock:
    """Fires due jobs and records the beginnings and ends of their runs, for one thread."""

    def __init__(
        self,
        database: Database,
        connection: Connection,
        declared: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """``declared``: returns the names of the declared sources; others of them never fire."""
        self._database = database
        self._connection = connection
        self._control = DatabaseControl(database, connection)
        self._declared = declared
        self._looked_at = 0  # time of the last look at what is due later
        self._right: dict[int, int] = {}  # later due times that were right then, by job.no

    def fire(self, now: int) -> list[JobRun]:
        """Create a run for each job that is due; return those that this call created.

        Of the times that a job missed the first counts, and one run stands for all. If the
        source is being crawled, the run is recorded as skipped; a job that runs once waits for
        the source instead.

        A clock that was ahead may have left a recurring job due more than a day later than its
        schedule says from ``now`` on, or one that runs once later than in a minute. Such a job is
        due at the next time that none of its runs has.
        """
        self._put_right(now)
        with self._database.translated("read"):
            due: list[Any] = self._connection.execute(_DUE, (now,)).fetchall()
        present = self._declared() if any(row[5] for row in due) else ()
        fired = [self._fire(row[:5], now) for row in due if not row[5] or row[2] in present]
        return [run for run in fired if run is not None]

    def _put_right(self, now: int) -> None:
        """Set due times right that a clock which was ahead has left."""
        with self._database.translated("read"):
            later: list[Any] = self._connection.execute(_LATER, (now,)).fetchall()
        if now < self._looked_at:  # what was right for a later time may be wrong for this one
            self._right.clear()
        self._looked_at = now
        for no, due_at in later:
            if self._right.get(no) != due_at:
                self._right[no] = self._right_time(no, due_at, now)

    def _right_time(self, no: int, due_at: int, now: int) -> int:
        """Return the due time of a job, set right if it was wrong."""
        with self._database.translated("read"):
            row: Any = self._connection.execute(_DEFINITION, (no,)).fetchone()
        cron = None if row is None else JobSchedule.stored(row[0]).cron
        try:
            with self._database.translated("read"):
                at = free_job_due_time(self._connection, no, cron, now)
        except ValueError:
            return due_at  # it fails when it is due, with the reason
        if row is None or due_at <= (at + _SKEW if cron else now + _AGAIN):
            return due_at

        def work() -> None:
            self._connection.execute(_ADVANCE, (at, no, due_at))

        self._control.write(work)
        logger.warning(
            "the job %s was due at %s, as the clock was ahead; it is due at %s",
            row[1],
            iso_time(due_at),
            iso_time(at),
        )
        return at

    def waiting(self) -> list[JobRun]:
        """Return the runs that no process has begun, in the order of their times."""
        with self._database.translated("read"):
            rows: list[Any] = self._connection.execute(_WAITING).fetchall()
        return [api_job_run(row) for row in rows]

    def get(self, id_: str) -> JobRun:
        """Return a run of a job.

        Raises:
            JobError: there is none of this id.
        """
        with self._database.translated("read"):
            row: Any = self._connection.execute(_RUN_OF_ID, (id_,)).fetchone()
        if row is None:
            raise JobError(NOT_FOUND, field="job_id", reason="there is no run of this id")
        return api_job_run(row)

    def began(self, id_: str, run: int, now: int) -> None:
        """Record that the run of a waiting job is open; ``run``: run.no.

        Raises:
            JobError: the job may not run any more, such as a cancelled one.
        """

        def work() -> None:
            self._connection.execute(_LOCK, (id_,))
            found = self._state(id_)
            if found.stage is not RunStage.WAITING:
                return
            if not may_job_become(found.status, JobStatus.RUNNING, recurring=found.recurring):
                raise JobError(CONFLICT, field="status", reason=f"the job is {found.status}")
            self._connection.execute(_BEGAN, (run, id_))
            self._connection.execute(_JOB_BEGAN, (now, found.job))

        self._control.write(work)

    def ended(
        self, id_: str, exit_status: int | None, now: int, reasons: Sequence[str] = ()
    ) -> None:
        """Record the end of a run's process; None: it vanished. Only the first end counts.

        A run that ended by order is paused or cancelled, whatever the exit status. A recurring job
        that completed or failed waits for its next time at once; how it ended is in its
        ``complete`` and ``reasons``. If the source was busy, the run counts as skipped, and a job
        that runs once tries again.
        """

        def work() -> None:
            self._connection.execute(_LOCK, (id_,))
            found = self._state(id_)
            if found.stage not in _LIVE:
                return
            ordered = job_after_order(found.order, found.state)
            if ordered is None:
                self._ended(id_, found, exit_status, now, reasons)
            else:
                self._ended_by_order(id_, found, ordered, exit_status, now)

        self._control.write(work)

    def obeyed(self, id_: str, now: int) -> None:
        """Record that an open run ended by order, before its process has ended.

        A run that goes on by now is left alone. Part of the caller's transaction, if it has one.
        """

        def work() -> None:
            self._connection.execute(_LOCK, (id_,))
            found = self._state(id_)
            if found.stage is not RunStage.RUNNING or found.state in BEFORE_SEAL:
                return
            ordered = job_after_order(found.order, found.state)
            if ordered is not None:
                self._ended_by_order(id_, found, ordered, None, now)

        if self._connection.in_transaction:
            work()
        else:
            self._control.write(work)

    def _ended(
        self, id_: str, found: _State, exit_status: int | None, now: int, reasons: Sequence[str]
    ) -> None:
        """Record the end of a run that ended by itself."""
        before = JobStatus.RUNNING if found.resumes else found.status
        end = job_after_exit(before, exit_status, in_vain=found.in_vain)
        kept = json.dumps(list(reasons) if end.keeps_reason else [])
        busy = exit_status == EXIT_SOURCE_BUSY
        if busy and found.status is JobStatus.RUNNING:
            return  # its run is open in another process
        stage = RunStage.SKIPPED if busy else RunStage.ENDED
        self._connection.execute(_ENDED, (stage, exit_status, kept, now, id_))
        if busy and end.keeps_reason:
            due_at = None if found.recurring else now + _AGAIN
            self._connection.execute(_BUSY, (kept, due_at, found.job))
        if end.status in _DONE:
            then = job_after_end(end.status, found.order, recurring=found.recurring)
            self._connection.execute(_JOB_ENDED, (then, end.complete, kept, now, found.job))
            self._connection.execute(_ONCE_MORE, (found.job,))
            if then is JobStatus.CANCELLED:
                self._connection.execute(_NEVER, (found.job,))

    def _ended_by_order(
        self, id_: str, found: _State, then: JobStatus, exit_status: int | None, now: int
    ) -> None:
        """Record that a run was paused or cancelled; close it if its process died."""
        paused = then is JobStatus.PAUSED
        if found.run is not None and found.state is not RunState.CANCELLED:
            order = RunOrder.PAUSE if paused else RunOrder.CANCEL
            if found.state in BEFORE_SEAL:
                order_run_row(self._connection, found.run, order, now)
                interrupt_run_row(self._connection, found.run, now, ["paused"])
            if not paused:
                order_run_row(self._connection, found.run, order, now)
        stage = RunStage.PAUSED if paused else RunStage.CANCELLED
        reasons = json.dumps([stage.value])
        self._connection.execute(_ENDED, (stage, exit_status, reasons, now, id_))
        opened = found.run is not None
        first = opened and found.stage is RunStage.WAITING and found.status is not JobStatus.PAUSED
        began = now if first else None
        if paused:
            self._connection.execute(_JOB_PAUSED, (began, reasons, found.job))
        else:
            complete = False if opened else None
            row = (began, complete, reasons, now, found.job)
            self._connection.execute(_JOB_CANCELLED, row)

    def _fire(self, row: Sequence[Any], now: int) -> JobRun | None:
        """Create the run of a due job; None if another server has created it."""
        no, job, name, due_at, definition = row
        cron = JobSchedule.stored(definition).cron
        try:
            then = None if cron is None else CronSchedule(str(cron)).fire_after(due_at, now)
        except ValueError as error:
            logger.error("the job %s is started no more: %s", name, error)
            self._refuse(no, due_at, now, str(error))
            return None
        crawled = self._database.is_held(name)
        if crawled and then is None:
            return None  # it waits, and writes nothing meanwhile
        id_ = f"jb_{token_hex(8)}"

        def work() -> JobRun | None:
            self._connection.execute(_ADVANCE, (due_at, no, due_at))
            if not self._connection.changes():
                return None
            busy = crawled or self._connection.execute(_OPEN, (no,)).get is not None
            if busy and then is None:
                return None
            self._connection.execute(_ADVANCE, (then, no, due_at))
            stage = RunStage.SKIPPED if busy else RunStage.WAITING
            reasons = ["its source was being crawled"] if busy else []
            values = (id_, no, due_at, now, stage, json.dumps(reasons), now if busy else None)
            if self._connection.execute(_FIRE, values).get is None:
                return None
            return JobRun(id_, job, name, due_at, stage, tuple(reasons))

        return self._control.write(work)

    def _refuse(self, no: int, due_at: int, now: int, reason: str) -> None:
        """Let a job fail whose stored schedule has no next time; to replace it starts it again."""

        def work() -> None:
            self._connection.execute(_ADVANCE, (None, no, due_at))
            if self._connection.changes():
                row = (JobStatus.FAILED, None, json.dumps([reason]), now, no)
                self._connection.execute(_JOB_ENDED, row)

        self._control.write(work)

    def _state(self, id_: str) -> _State:
        row: Any = self._connection.execute(_STATE, (id_,)).fetchone()
        if row is None:
            raise JobError(NOT_FOUND, field="job_id", reason="there is no run of this id")
        return _State(
            job=row[0],
            status=JobStatus(row[1]),
            recurring=JobSchedule.stored(row[2]).recurring,
            stage=RunStage(row[3]),
            requested=row[4],
            run=row[5],
            state=None if row[6] is None else RunState(row[6]),
            order=order_in_force(row[4], row[7]),
            in_vain=is_run_in_vain(json.loads(row[8] or "[]"), json.loads(row[9] or "{}"), row[10]),
        )

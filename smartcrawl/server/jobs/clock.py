"""Due jobs and their runs: a due time gives one run, whichever server fires it (R2-23)."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from secrets import token_hex
from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.control import DatabaseControl
from smartcrawl.registry.database.databases import Database
from smartcrawl.rules.jobs import EXIT_SOURCE_BUSY, JobStatus, job_after_exit, may_job_become
from smartcrawl.server.jobs.history import job_run
from smartcrawl.server.jobs.job import JobRun, RunStage
from smartcrawl.sources.jobs.definition import JobSchedule
from smartcrawl.sources.jobs.errors import CONFLICT, NOT_FOUND, JobError
from smartcrawl.sources.jobs.schedule import CronSchedule

logger = logging.getLogger(__name__)

#: A paused job is not due; a running one is, and that time is skipped.
_DUE_STATES = "status IN ('created', 'scheduled', 'running') AND deleted_at IS NULL"
_DUE = f"""
SELECT no, id, name, due_at, definition FROM job WHERE due_at <= ? AND {_DUE_STATES}
 ORDER BY due_at, no
"""
#: It locks the job, at first with the same time. A second server waits, and finds another.
_ADVANCE = f"UPDATE job SET due_at = ? WHERE no = ? AND due_at = ? AND {_DUE_STATES}"
_OPEN = "SELECT 1 FROM job_run WHERE job = ? AND state IN ('waiting', 'running') LIMIT 1"
#: No second run for a due time, also if the clock was put back or the schedule replaced.
_FIRE = """
INSERT INTO job_run (id, job, due_at, fired_at, state, reasons, ended_at)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, due_at) DO NOTHING RETURNING no
"""
_RUN = """
SELECT k.id, j.id, j.name, k.due_at, k.state, k.reasons FROM job_run k JOIN job j ON j.no = k.job
"""
_WAITING = f"{_RUN} WHERE k.state = 'waiting' ORDER BY k.no"
_RUN_OF_ID = f"{_RUN} WHERE k.id = ?"
_LOCK = "UPDATE job SET version = version WHERE no = (SELECT job FROM job_run WHERE id = ?)"
_STATE = """
SELECT j.no, j.status, j.definition, k.state FROM job j JOIN job_run k ON k.job = j.no
 WHERE k.id = ?
"""
_BEGAN = "UPDATE job_run SET state = 'running', run = ? WHERE id = ?"
_JOB_BEGAN = """
UPDATE job SET status = 'running', started_at = ?, completed_at = NULL, complete = NULL,
       reasons = '[]'
 WHERE no = ?
"""
_ENDED = """
UPDATE job_run SET state = ?, exit_status = ?, reasons = ?, ended_at = ? WHERE id = ?
"""
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
_OVER: Final = frozenset({RunStage.ENDED, RunStage.SKIPPED})
_DONE: Final = frozenset({JobStatus.COMPLETED, JobStatus.FAILED})


class JobClock:
    """Fires due jobs and records the beginnings and ends of their runs, for one thread."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self._database = database
        self._connection = connection
        self._control = DatabaseControl(database, connection)

    def fire(self, now: int) -> list[JobRun]:
        """Create a run for each job that is due; return those that this call created.

        Of the times that a job missed the first counts, and one run stands for all. If the
        source is being crawled, the run is recorded as skipped; a job that runs once waits for
        the source instead.
        """
        with self._database.translated("read"):
            due: list[Any] = self._connection.execute(_DUE, (now,)).fetchall()
        fired = [self._fire(row, now) for row in due]
        return [run for run in fired if run is not None]

    def waiting(self) -> list[JobRun]:
        """Return the runs that no process has begun, in the order of their times."""
        with self._database.translated("read"):
            rows: list[Any] = self._connection.execute(_WAITING).fetchall()
        return [job_run(row) for row in rows]

    def get(self, id_: str) -> JobRun:
        """Return a run of a job.

        Raises:
            JobError: there is none of this id.
        """
        with self._database.translated("read"):
            row: Any = self._connection.execute(_RUN_OF_ID, (id_,)).fetchone()
        if row is None:
            raise JobError(NOT_FOUND, field="job_id", reason="there is no run of this id")
        return job_run(row)

    def began(self, id_: str, run: int, now: int) -> None:
        """Record that the run of a waiting job is open; ``run``: run.no.

        Raises:
            JobError: the job may not run any more, such as a cancelled one.
        """

        def work() -> None:
            self._connection.execute(_LOCK, (id_,))
            job, status, recurring, stage = self._state(id_)
            if stage is not RunStage.WAITING:
                return
            if not may_job_become(status, JobStatus.RUNNING, recurring=recurring):
                raise JobError(CONFLICT, field="status", reason=f"the job is {status}")
            self._connection.execute(_BEGAN, (run, id_))
            self._connection.execute(_JOB_BEGAN, (now, job))

        self._control.write(work)

    def ended(
        self, id_: str, exit_status: int | None, now: int, reasons: Sequence[str] = ()
    ) -> None:
        """Record the end of a run's process; None: it vanished. Only the first end counts.

        A recurring job that completed or failed waits for its next time at once; how it ended is
        in its ``complete`` and ``reasons``. If the source was busy, the run counts as skipped,
        and a job that runs once tries again.
        """

        def work() -> None:
            self._connection.execute(_LOCK, (id_,))
            job, status, recurring, stage = self._state(id_)
            if stage in _OVER:
                return
            end = job_after_exit(status, exit_status)
            kept = json.dumps(list(reasons) if end.keeps_reason else [])
            busy = exit_status == EXIT_SOURCE_BUSY
            if busy and status is JobStatus.RUNNING:
                return  # its run is open in another process
            stage = RunStage.SKIPPED if busy else RunStage.ENDED
            self._connection.execute(_ENDED, (stage, exit_status, kept, now, id_))
            if busy and end.keeps_reason:
                self._connection.execute(_BUSY, (kept, None if recurring else now + _AGAIN, job))
            if end.status in _DONE:
                then = JobStatus.SCHEDULED if recurring else end.status
                self._connection.execute(_JOB_ENDED, (then, end.complete, kept, now, job))
                self._connection.execute(_ONCE_MORE, (job,))

        self._control.write(work)

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

    def _state(self, id_: str) -> tuple[int, JobStatus, bool, RunStage]:
        row: Any = self._connection.execute(_STATE, (id_,)).fetchone()
        if row is None:
            raise JobError(NOT_FOUND, field="job_id", reason="there is no run of this id")
        recurring = json.loads(row[2])["schedule"]["type"] == "recurring"
        return row[0], JobStatus(row[1]), recurring, RunStage(row[3])

"""The times at which jobs were due, by job and by id (M-39)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.server.jobs.job import JobRun, RunStage
from smartcrawl.sources.jobs import NOT_FOUND, JobError

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

"""Jobs in the registry, in either database, and their progress (R2-20 to R2-32, R2-58).

Every method is one transaction, or part of that of its caller. Any number of servers may call it at
once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from secrets import token_hex
from typing import Any, Final

from smartcrawl.model.times import iso_time
from smartcrawl.registry.commit.run_counts import stored_rate_marks
from smartcrawl.registry.commit.run_samples import failed_page_count
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.database.databases import Database, DatabaseControl
from smartcrawl.rules.forecast import Mark, completion_at_rate, rate_of_marks
from smartcrawl.rules.run_orders import JobStatus
from smartcrawl.sources.jobs import CONFLICT, NOT_FOUND, JobDefinition, JobError, JobSchedule
from smartcrawl.sources.kinds import DOCUMENTS


class RunStage(StrEnum):
    """Life of a job's run. The words are stored; never rename."""

    WAITING = "waiting"  #: its time has come, and no process has begun it
    RUNNING = "running"  #: its run is open
    PAUSED = "paused"  #: by order; it goes on when its job is resumed
    CANCELLED = "cancelled"  #: by order, for good
    ENDED = "ended"
    SKIPPED = "skipped"  #: its time came while its source was being crawled


@dataclass(frozen=True, slots=True)
class Job:
    """One job. Times are Unix seconds."""

    no: int  #: 0: a declared source that has no row yet
    id: str
    name: str
    version: int
    definition: JobDefinition | None  #: None: sources.toml declares its source
    schedule: JobSchedule
    status: JobStatus
    complete: bool | None  #: whether its last run saw everything
    reasons: tuple[str, ...]  #: why not, or why it failed
    due_at: int | None  #: time of its next run
    created_at: int | None
    started_at: int | None
    completed_at: int | None

    @property
    def declared(self) -> bool:
        """Whether sources.toml declares its source."""
        return self.definition is None

    @property
    def next_run(self) -> int | None:
        """The next time of its schedule; None if it has none."""
        return self.due_at if self.schedule.recurring else None


@dataclass(frozen=True, slots=True)
class JobRun:
    """A time at which a job was due."""

    id: str
    job: str  #: id of the job
    name: str  #: of the source
    due_at: int
    stage: RunStage
    reasons: tuple[str, ...]
    requested: str | None = None  #: an order that is under way


_NAME_TAKEN: Final = "Crawl job with this name already exists"
_JOB = """
SELECT no, id, name, version, definition, status, complete, reasons, due_at, created_at, started_at,
       completed_at, declared
  FROM job
"""
_OF_ID = f"{_JOB} WHERE id = ? AND deleted_at IS NULL"
_PAGE = f"""
{_JOB} WHERE deleted_at IS NULL AND NOT declared AND (:every OR status = :status)
   AND NOT name IN carray(:hidden)
 ORDER BY no LIMIT :limit OFFSET :offset
"""
_COUNT = """
SELECT count(*) FROM job
 WHERE deleted_at IS NULL AND NOT declared AND (:every OR status = :status)
   AND NOT name IN carray(:hidden)
"""
_DECLARED = f"{_JOB} WHERE deleted_at IS NULL AND declared"
_IS_SOURCE = "SELECT 1 FROM source WHERE name = ?"
#: The first statement of a transaction that may take a name: they wait for each other.
_TAKING_NAMES = "UPDATE sequence SET value = value WHERE name = 'number'"
_CREATE = """
INSERT INTO job (id, name, definition, status, due_at, created_at) VALUES (?, ?, ?, ?, ?, ?)
"""
_JOB_OF_NAME = "SELECT 1 FROM job WHERE name = ? AND deleted_at IS NULL"
_DELETED_OF_NAME = """
SELECT 1 FROM job WHERE name = ? AND deleted_at IS NOT NULL AND NOT declared LIMIT 1
"""
#: It locks the row, so that the status that follows is the latest.
_LOCK = "UPDATE job SET version = version WHERE id = ? AND deleted_at IS NULL"
_REPLACE = """
UPDATE job SET name = ?, definition = ?, status = ?, due_at = ?, version = version + 1 WHERE id = ?
"""
_EVER = "SELECT 1 FROM job WHERE id = ?"
_DELETE = "UPDATE job SET deleted_at = ?, due_at = NULL WHERE id = ?"
#: Posted addresses belong to the name of a job, until its next run pins them.
_RENAME_POSTED = "UPDATE pending_pin SET source = ? WHERE source = ?"
_DELETE_POSTED = "DELETE FROM pending_pin WHERE source = ?"
_SKIP_WAITING = """
UPDATE job_run SET state = ?, ended_at = ?, reasons = ? WHERE job = ? AND state = ?
"""
_NO_DUE: Final = frozenset({JobStatus.CANCELLED})
#: States that a recurring schedule turns into *scheduled* at once.
_BECOMES_SCHEDULED: Final = frozenset({JobStatus.CREATED, JobStatus.COMPLETED, JobStatus.FAILED})
_DONE: Final = frozenset({JobStatus.COMPLETED, JobStatus.FAILED})


def api_job_from_row(row: Any) -> Job:
    """Return the job of a row."""
    definition = None if row[12] else JobDefinition.stored(row[2], row[4])
    return Job(
        no=row[0],
        id=row[1],
        name=row[2],
        version=row[3],
        definition=definition,
        schedule=JobSchedule.stored(row[4]),
        status=JobStatus(row[5]),
        complete=None if row[6] is None else bool(row[6]),
        reasons=tuple(json.loads(row[7])),
        due_at=row[8],
        created_at=row[9],
        started_at=row[10],
        completed_at=row[11],
    )


def api_job_definition(definition: JobDefinition) -> str:
    """Return a definition as JSON, without the name, which has a column of its own."""
    return json.dumps(definition.model_dump(exclude={"name"}))


class JobStore:
    """The stored jobs, for one thread."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self._database = database
        self._connection = connection
        self._control = DatabaseControl(database, connection)

    def create(self, definition: JobDefinition, declared: Collection[str], now: int) -> Job:
        """Store a new job; ``declared``: the sources of sources.toml.

        A job that runs once is due at once.

        Raises:
            JobError: a source has the name already: a job, a declared or an ad-hoc one.
        """
        cron = definition.cron(now)
        status = JobStatus.CREATED if cron is None else JobStatus.SCHEDULED
        due_at = now if cron is None else cron.next_fire(now)
        id_ = f"job_{token_hex(8)}"

        def work() -> None:
            self._connection.execute(_TAKING_NAMES)
            self._refuse_taken(definition.name, declared)
            row = (id_, definition.name, api_job_definition(definition), status, due_at, now)
            self._connection.execute(_CREATE, row)

        self._write(work)
        return self.get(id_)

    def get(self, id_: str) -> Job:
        """Return a job.

        Raises:
            JobError: there is none of this id, or it was deleted.
        """
        with self._database.translated("read"):
            return self._get(id_)

    def declared(self) -> dict[str, Job]:
        """Return the jobs of declared sources that have a row, by name."""
        with self._database.translated("read"):
            rows: list[Any] = self._connection.execute(_DECLARED).fetchall()
        return {job.name: job for job in map(api_job_from_row, rows)}

    def page(
        self,
        *,
        status: JobStatus | None = None,
        limit: int = 100,
        offset: int = 0,
        hidden: Sequence[str] = (),
    ) -> tuple[list[Job], int]:
        """Return some jobs of clients in the order of their creation, and the number of all.

        ``hidden``: names of sources that the caller may not read.
        """
        names: dict[str, Any] = {"every": status is None, "status": str(status)}
        names["hidden"] = Many(list(hidden))
        within = names | {"limit": limit, "offset": offset}
        with self._database.translated("read"):
            rows: list[Any] = self._connection.execute(_PAGE, within).fetchall()
            total = int(self._connection.execute(_COUNT, names).get)
        return [api_job_from_row(row) for row in rows], total

    def replace(
        self,
        id_: str,
        definition: JobDefinition,
        declared: Collection[str],
        now: int,
        *,
        version: int | None = None,
    ) -> Job:
        """Replace the definition of a job; an open run keeps the one that it began with.

        ``version``: the one that the client has seen; None: the last writer wins. A job gets
        another name only while no page is stored under the present one.

        Raises:
            JobError: there is no such job, the version is stale, or the name is not free.
        """
        cron = definition.cron(now)

        def work() -> None:
            self._connection.execute(_TAKING_NAMES)
            job = self._locked(id_)
            if version is not None and version != job.version:
                raise stale_job_version(job.version, version)
            if definition.name != job.name:
                self._refuse_new_name(job, definition.name, declared)
                self._connection.execute(_RENAME_POSTED, (definition.name, job.name))
            status, due_at = job.status, job.due_at
            if cron is not None:
                status = JobStatus.SCHEDULED if status in _BECOMES_SCHEDULED else status
                due_at = None if status in _NO_DUE else cron.next_fire(now)
            elif job.schedule.recurring:  # from now on it runs once more
                due_at = None if status in _NO_DUE | _DONE else now + 1  # no run has this time
            kept = (
                definition if job.definition is None else definition.with_secrets_of(job.definition)
            )
            row = (definition.name, api_job_definition(kept), status, due_at, id_)
            self._connection.execute(_REPLACE, row)

        self._write(work)
        return self.get(id_)

    def delete(self, id_: str, now: int) -> None:
        """Delete a job; its row and its pages stay, and its name is free.

        For a deleted job this does nothing.

        Raises:
            JobError: there was never such a job, or it is running.
        """

        def work() -> None:
            self._connection.execute(_LOCK, (id_,))
            row: Any = self._connection.execute(_OF_ID, (id_,)).fetchone()
            if row is None:
                if self._connection.execute(_EVER, (id_,)).get is None:
                    raise _unknown()
                return
            job = api_job_from_row(row)
            if job.status is JobStatus.RUNNING or self._database.is_held(job.name):
                raise JobError(
                    CONFLICT,
                    field="status",
                    reason=f"Job '{job.name}' is running: cancel it first",
                )
            self._connection.execute(_DELETE, (now, id_))
            self._connection.execute(_DELETE_POSTED, (job.name,))
            reasons = json.dumps(["the job was deleted"])
            waiting = (RunStage.SKIPPED, now, reasons, job.no, RunStage.WAITING)
            self._connection.execute(_SKIP_WAITING, waiting)

        self._write(work)

    def _write(self, work: Callable[[], None]) -> None:
        """Do ``work`` in the transaction of the caller, or else in one of its own."""
        if self._connection.in_transaction:
            work()
        else:
            self._control.write(work)

    def _get(self, id_: str) -> Job:
        row: Any = self._connection.execute(_OF_ID, (id_,)).fetchone()
        if row is None:
            raise _unknown()
        return api_job_from_row(row)

    def _locked(self, id_: str) -> Job:
        self._connection.execute(_LOCK, (id_,))
        return self._get(id_)

    def _refuse_taken(self, name: str, declared: Collection[str]) -> None:
        """Refuse the name of another job, and of a declared or crawled source.

        Raises:
            JobError: the name is not free.
        """
        if name == DOCUMENTS.name:
            reason = f"'{name}' is the name of the source of single pages: choose another one"
            raise JobError(CONFLICT, field="name", reason=reason, message=_NAME_TAKEN)
        live = self._connection.execute(_JOB_OF_NAME, (name,)).get is not None
        if name in declared or live or self._is_crawled(name):
            raise JobError(
                CONFLICT, field="name", reason=f"Job '{name}' already exists", message=_NAME_TAKEN
            )

    def _is_crawled(self, name: str) -> bool:
        """Whether a source has the name that no job left behind when it was deleted."""
        looks = (_IS_SOURCE, _DELETED_OF_NAME)
        source, deleted = (self._connection.execute(look, (name,)).get for look in looks)
        return source is not None and deleted is None

    def _refuse_new_name(self, job: Job, name: str, declared: Collection[str]) -> None:
        """Refuse another name for a job, if pages would stay behind or the name is not free.

        Raises:
            JobError: with the reason.
        """
        if self._connection.execute(_IS_SOURCE, (job.name,)).get is not None:
            raise JobError(
                CONFLICT,
                field="name",
                reason=f"Job '{job.name}' has pages under this name: keep it, or create a new job",
                message="Crawl job cannot be renamed",
            )
        self._refuse_taken(name, declared)


def _unknown() -> JobError:
    """Return the error of an unknown id, which is that of a deleted job."""
    return JobError(NOT_FOUND, field="job_id", reason="there is no job of this id")


def stale_job_version(present: int, seen: int) -> JobError:
    """Return the error of a change of another version than the present one."""
    return JobError(
        CONFLICT,
        field="version",
        reason=f"version is {present}, not {seen}: read the job again",
        message="Crawl job was changed meanwhile",
    )


_LAST: Final = """
SELECT r.visits, r.queued, r.words, r.bytes_downloaded, r.hosts, r.marks FROM run r
 WHERE r.no = (SELECT max(k.run) FROM job_run k WHERE k.job = ?)
"""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Counts of the last run of a job that was opened; zeros before the first."""

    crawled: int = 0
    queued: int = 0
    failed: int = 0
    downloaded: int = 0  #: bytes
    domains: int = 0
    marks: tuple[Mark, ...] = ()  #: of the last minute

    @classmethod
    def of(cls, connection: Connection, job: int) -> JobProgress:
        """Return the progress as committed; ``job``: job.no."""
        run: Any = connection.execute(_LAST, (job,)).fetchone()
        if run is None:
            return cls()
        crawled, queued, stored, downloaded, hosts, marks = run
        failed = failed_page_count(json.loads(stored))
        return cls(crawled, queued, failed, downloaded, hosts, tuple(stored_rate_marks(marks)))

    def data(self, job: Job, now: int) -> dict[str, Any]:
        """Return progress, timing and rate; the rate is that of the last minute."""
        rate = rate_of_marks(self.marks, now)
        running = job.status is JobStatus.RUNNING
        return {
            "progress": {
                "pages_crawled": self.crawled,
                "pages_queued": self.queued,
                "pages_failed": self.failed,
                "bytes_downloaded": self.downloaded,
                "domains_visited": self.domains,
            },
            "timing": {
                "started_at": iso_time(job.started_at),
                "elapsed_seconds": _elapsed(job, now),
                "estimated_completion": iso_time(
                    completion_at_rate(self.queued, rate, now) if running else None
                ),
            },
            "rate": {
                "pages_per_second": round(rate.visits, 2),
                "bytes_per_second": round(rate.size, 2),
            },
        }


def _elapsed(job: Job, now: int) -> int:
    """Return how long the last run took, or has taken so far, in seconds."""
    if job.started_at is None:
        return 0
    return max(0, (now if job.completed_at is None else job.completed_at) - job.started_at)

"""The jobs of document libraries in the registry: ordered, paused, resumed, cancelled.

Every method is one transaction, or part of that of its caller. Any number of servers may call it
at once. Source: R3-12, R2-32; ADR 87.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from secrets import token_hex
from typing import Any, Final, Self

from smartcrawl.model.processes import exit_status_signal
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.jobs import CANCELLED, ENDED, PAUSED, LibraryJobEnd, end_library_job_row
from smartcrawl.registry.processes import PROCESS_COLUMNS, ProcessKind, ProcessRows, Started
from smartcrawl.registry.runs.run_orders import PREFIX, order_run_row
from smartcrawl.rules.model import RunOrder
from smartcrawl.rules.run_orders import EXIT_COMPLETE, EXIT_INCOMPLETE, JobAction, JobStatus
from smartcrawl.rules.visibility import Visibility
from smartcrawl.server.jobs.orders import Standing, refuse_job_action
from smartcrawl.server.jobs.runner import CrawlProgram, Exited, Kind, Work
from smartcrawl.server.jobs.store import RunStage
from smartcrawl.sources.jobs import CONFLICT, NOT_FOUND, JobError

logger = logging.getLogger(__name__)


COLUMNS: Final = f"""
k.id, k.domain, k.action, k.choices, k.state, k.requested, k.run, k.result, k.reasons,
k.exit_status, k.created_at, k.ended_at, {PROCESS_COLUMNS}
"""


@dataclass(frozen=True, slots=True)
class LibraryChoices:
    """The options of a job's command, as the client gave them."""

    mode: str = "incremental"
    scope: str = "all"
    source: str | None = None  #: source_id
    dry_run: bool = False
    retry_batches: int = 2

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Return the stored ones."""
        return cls(**json.loads(text))

    def stored(self) -> str:
        """Return them as JSON."""
        return json.dumps(asdict(self))

    def words(self) -> list[str]:
        """Return them as words of the command."""
        words = ["--mode", self.mode, "--scope", self.scope]
        words += ["--retry-batches", str(self.retry_batches)]
        if self.source is not None:
            words += ["--source", self.source]
        return [*words, "--dry-run"] if self.dry_run else words


@dataclass(frozen=True, slots=True)
class LibraryJob(Work):
    """A job, by the name of its domain. Times are Unix seconds."""

    action: str  #: of ``smartcrawl library``
    choices: LibraryChoices
    stage: RunStage
    requested: str | None  #: an order that is under way
    run: int | None  #: run.no of a run that is paused
    result: dict[str, Any] | None  #: None before its end, and if its process died
    reasons: tuple[str, ...]  #: why it failed
    exit_status: int | None
    created_at: int
    ended_at: int | None

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Return the job of a row with COLUMNS."""
        return cls(
            id=row[0],
            name=row[1],
            started=Started.of(row[12:]),
            action=row[2],
            choices=LibraryChoices.parsed(row[3]),
            stage=RunStage(row[4]),
            requested=row[5],
            run=row[6],
            result=None if row[7] is None else json.loads(row[7]),
            reasons=tuple(json.loads(row[8])),
            exit_status=row[9],
            created_at=row[10],
            ended_at=row[11],
        )

    @property
    def source(self) -> None:
        """None: its process has no lease of its own."""

    def words(self, program: CrawlProgram) -> list[str]:
        """Return the command of its step."""
        step = [*program.library, self.action, self.name, *self.choices.words()]
        return [*step, "-a", f"_job={self.id}"]

    def detail(self) -> dict[str, Any]:
        """Return it under the keys of ``LibraryJobDetail``."""
        return {
            "job_id": self.id,
            "type": "library",
            "domain": self.name,
            "action": self.action,
            "mode": self.choices.mode,
            "scope": self.choices.scope,
            "source": self.choices.source,
            "dry_run": self.choices.dry_run,
            "status": self.stage.value,
            "requested": self.requested,
            "created_at": iso_time(self.created_at),
            "ended_at": iso_time(self.ended_at),
            "exit_status": self.exit_status,
            "reasons": list(self.reasons),
            "result": self.result,
        }

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.stage in (RunStage.ENDED, RunStage.CANCELLED)

    def final(self) -> dict[str, Any]:
        """Return the JSON that a stream ends with: its result, or why it has none."""
        if self.result is not None:
            return self.result
        return {
            "domain": self.name,
            "action": self.action,
            "mode": self.choices.mode,
            "scope": self.choices.scope,
            "dryRun": self.choices.dry_run,
            "complete": False,
            "sources": [],
            "reason": "; ".join(self.reasons) or f"the job is {self.stage}",
        }


#: The status of a job of the API whose orders a job takes in each stage.
_STATUS: Final = {
    RunStage.WAITING: JobStatus.SCHEDULED,
    RunStage.RUNNING: JobStatus.RUNNING,
    RunStage.PAUSED: JobStatus.PAUSED,
    RunStage.CANCELLED: JobStatus.CANCELLED,
    RunStage.ENDED: JobStatus.COMPLETED,
}
_INSERT: Final = """
INSERT INTO library_job (id, domain, action, choices, created_at) VALUES (?, ?, ?, ?, ?)
"""
_JOBS: Final = "library_job k LEFT JOIN process p ON p.kind = 'library' AND p.id = k.id"
_GET: Final = f"SELECT {COLUMNS} FROM {_JOBS} WHERE k.id = ?"
_OPEN: Final = "k.state IN ('waiting', 'running')"
_OTHERS: Final = f"""
SELECT {COLUMNS} FROM {_JOBS}
 WHERE domain = ? AND {_OPEN} AND (action = ? OR 'crawl' IN (action, ?))
 ORDER BY no
"""
#: Status in a list of jobs, by which it is filtered; one expression for both databases.
_LISTED: Final = f"""
CASE state WHEN 'waiting' THEN 'scheduled'
           WHEN 'ended' THEN CASE WHEN exit_status IN ({EXIT_COMPLETE}, {EXIT_INCOMPLETE})
                                  THEN 'completed' ELSE 'failed' END
           ELSE state END
"""
_PAGE: Final = f"""
SELECT {_LISTED}, {COLUMNS} FROM {_JOBS} WHERE :every OR {_LISTED} = :status
 ORDER BY no LIMIT :limit OFFSET :offset
"""
_COUNT: Final = f"SELECT count(*) FROM library_job WHERE :every OR {_LISTED} = :status"
_LOCK: Final = "UPDATE library_job SET requested = requested WHERE id = ?"
_REQUEST: Final = "UPDATE library_job SET requested = ? WHERE id = ?"
_RESUME: Final = "UPDATE library_job SET state = 'waiting', requested = NULL WHERE id = ?"
_CANCEL: Final = """
UPDATE library_job SET state = 'cancelled', requested = NULL, reasons = '["cancelled"]',
       ended_at = ?
 WHERE id = ?
"""


class LibraryJobs:
    """The jobs of document libraries, over a connection whose transaction is the caller's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, domain: str, action: str, choices: LibraryChoices, now: int) -> LibraryJob:
        """Order a job.

        Raises:
            JobError: a job is under way that has the same step at one of the sources.
        """
        for other in self.under_way(domain, action):
            if _meet(other.choices, choices):
                raise JobError(
                    CONFLICT,
                    field="domain_id",
                    reason=f"the job {other.id} ({other.action}) of this domain is {other.stage}:"
                    " wait for its end, or cancel it",
                )
        id_ = f"{PREFIX}{token_hex(8)}"
        self._connection.execute(_INSERT, (id_, domain, action, choices.stored(), now))
        return self.get(id_)

    def under_way(self, domain: str, action: str) -> list[LibraryJob]:
        """Return the jobs of a domain that wait or run and have a step of ``action``."""
        rows: list[Any] = self._connection.execute(_OTHERS, (domain, action, action)).fetchall()
        return [LibraryJob.of(row) for row in rows]

    def find(self, id_: str) -> LibraryJob | None:
        """Return the job of an id; None: the id is not one of a library's job."""
        row: Any = self._connection.execute(_GET, (id_,)).fetchone()
        return None if row is None else LibraryJob.of(row)

    def page(
        self, *, status: JobStatus | None, limit: int, offset: int
    ) -> tuple[list[tuple[JobStatus, LibraryJob]], int]:
        """Return some jobs as they were ordered, with their status; and the number of all."""
        names: dict[str, Any] = {"every": status is None, "status": status or ""}
        total = int(self._connection.execute(_COUNT, names).get)
        names |= {"limit": limit, "offset": offset}
        rows: list[Any] = self._connection.execute(_PAGE, names).fetchall() if limit > 0 else []
        return [(JobStatus(row[0]), LibraryJob.of(row[1:])) for row in rows], total

    def get(self, id_: str) -> LibraryJob:
        """Return the job of an id.

        Raises:
            JobError: there is none.
        """
        found = self.find(id_)
        if found is None:
            raise JobError(NOT_FOUND, field="job_id", reason="there is no job of this id")
        return found

    def give(self, id_: str, action: JobAction, now: int) -> Standing:
        """Give an order, and return the state right after.

        A job that was started reads the order itself, on whichever machine it runs.

        Raises:
            JobError: there is no such job, or it does not take the order in its state.
        """
        self._connection.execute(_LOCK, (id_,))
        job = self.get(id_)
        requested = None if job.requested is None else JobAction(job.requested)
        refuse_job_action(_STATUS[job.stage], action, requested)
        if action is JobAction.RESUME:
            self._connection.execute(_RESUME, (id_,))
            ProcessRows(self._connection, ProcessKind.LIBRARY).renew(id_)
        elif job.started.server is not None and job.stage is not RunStage.PAUSED:
            self._connection.execute(_REQUEST, (action, id_))
        elif action is JobAction.PAUSE:
            end_library_job_row(self._connection, id_, LibraryJobEnd(PAUSED, None), now)
        else:
            if job.run is not None:
                order_run_row(self._connection, job.run, RunOrder.CANCEL, now)
            self._connection.execute(_CANCEL, (now, id_))
        return api_library_job_standing(self.get(id_))


class LibraryWork(Kind[LibraryJob]):
    """The jobs of libraries. Their processes record their ends themselves."""

    kind = ProcessKind.LIBRARY
    WAITING = f"""
SELECT k.id FROM {_JOBS} WHERE k.state = 'waiting' AND p.server IS NULL ORDER BY k.no
"""
    LOCK = f"UPDATE library_job AS k SET requested = requested WHERE id = ? AND {_OPEN}"
    BEGUN = f"""
SELECT {COLUMNS} FROM {_JOBS}
 WHERE {_OPEN} AND p.server IS NOT NULL AND k.id = coalesce(:id, k.id) ORDER BY k.no
"""

    def of(self, row: Sequence[Any]) -> LibraryJob:
        """Return the job of a row."""
        return LibraryJob.of(row)

    def exited(self, work: LibraryJob, exited: Exited, log: str, now: int) -> str | None:
        """Record the exit of a process that did not record its end."""
        if exited.status < 0:
            why = f"its process was ended by {exit_status_signal(exited.status)}"
            return why if self.died(work, why, now) else None
        why = f"its process failed (exit status {exited.status}): see {log}"
        self.end(work, exited.status, now, why)
        return None

    def died(self, work: LibraryJob, why: str, now: int) -> bool:
        """Carry out the order to a job whose process died; else let it begin again once."""
        if work.requested == RunOrder.CANCEL:
            self._close(work, LibraryJobEnd(CANCELLED, None, reasons=["cancelled"]), now)
        elif work.requested == RunOrder.PAUSE:
            self._close(work, LibraryJobEnd(PAUSED, None, run=work.run), now)
        elif work.is_spent:
            self.end(work, None, now, why)
        else:
            return True
        return False

    def end(self, work: LibraryJob, status: int | None, now: int, *reasons: str) -> None:
        """Record that a job failed."""
        self._close(work, LibraryJobEnd(ENDED, status, reasons=reasons), now)

    def _close(self, work: LibraryJob, end: LibraryJobEnd, now: int) -> None:
        def close() -> None:
            if work.run is not None and end.state == CANCELLED:
                order_run_row(self._connection, work.run, RunOrder.CANCEL, now)
            end_library_job_row(self._connection, work.id, end, now)

        self.control.write(close)
        logger.info("%s is %s %s", work.label, end.state, "; ".join(end.reasons))


def api_library_job_head(listed: tuple[JobStatus, LibraryJob]) -> dict[str, Any]:
    """Return a job under the keys of ``JobHead``, for the list of all jobs."""
    status, job = listed
    return {
        "job_id": job.id,
        "type": "library",
        "name": f"{job.name} {job.action}",
        "status": status.value,
        "declared": False,
        "created_at": iso_time(job.created_at),
        "next_run": None,
        "version": 1,
        "complete": None if job.result is None else bool(job.result.get("complete", False)),
        "visibility": Visibility.PUBLIC.value,
    }


def refuse_library_job_change(connection: Connection, id_: str) -> None:
    """Refuse to replace or delete the job of a library, which is the record of one order.

    Raises:
        JobError: with what can be done instead.
    """
    job = LibraryJobs(connection).find(id_) if id_.startswith(PREFIX) else None
    if job is not None:
        raise JobError(
            CONFLICT,
            field="job_id",
            reason=f"the job {id_} is the step {job.action} at the libraries of {job.name}:"
            " order another one with POST /v2/crawler/, or cancel this one",
            message="The job belongs to a library",
        )


def api_library_job_standing(job: LibraryJob) -> Standing:
    """Return the state of a job as an answer to an order has it."""
    requested = None if job.requested is None else JobAction(job.requested)
    return Standing(job.id, job.stage, requested)


def _meet(one: LibraryChoices, other: LibraryChoices) -> bool:
    """Whether two jobs may have a source in common; dry runs hold nothing."""
    if one.dry_run or other.dry_run:
        return False
    if one.source is not None and other.source is not None:
        return one.source == other.source
    return "all" in (one.scope, other.scope) or one.scope == other.scope

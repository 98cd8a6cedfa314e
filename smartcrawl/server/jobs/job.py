"""Jobs and their runs, as stored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from smartcrawl.rules.jobs import JobStatus
from smartcrawl.sources.jobs import JobDefinition, JobSchedule


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

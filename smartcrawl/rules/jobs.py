"""The states of a job, and the meaning of a crawl's exit status for it (R2-31, R2-32)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class JobStatus(StrEnum):
    """State of a job. The words are stored and sent over the API; never rename."""

    CREATED = "created"  #: a single run that has not begun
    SCHEDULED = "scheduled"  #: it waits for its next time
    RUNNING = "running"  #: its run is open
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_S = JobStatus
_NEXT: Final[dict[JobStatus, frozenset[JobStatus]]] = {
    _S.CREATED: frozenset({_S.SCHEDULED, _S.RUNNING, _S.CANCELLED}),
    _S.SCHEDULED: frozenset({_S.RUNNING, _S.PAUSED, _S.CANCELLED}),
    _S.RUNNING: frozenset({_S.PAUSED, _S.COMPLETED, _S.FAILED, _S.CANCELLED}),
    _S.PAUSED: frozenset({_S.RUNNING, _S.SCHEDULED, _S.CANCELLED}),
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}
#: States in which an exit of the job's process decides.
_WAITS_FOR_EXIT: Final = frozenset({_S.CREATED, _S.SCHEDULED, _S.RUNNING})

EXIT_COMPLETE: Final = 0
EXIT_INCOMPLETE: Final = 3
EXIT_SOURCE_BUSY: Final = 4  #: another run of the source is open


def may_job_become(before: JobStatus, after: JobStatus, *, recurring: bool) -> bool:
    """Whether a job may change from one state to another.

    Only a recurring job leaves *completed* and *failed*, for its next time.

    >>> may_job_become(JobStatus.COMPLETED, JobStatus.SCHEDULED, recurring=True)
    True
    >>> may_job_become(JobStatus.COMPLETED, JobStatus.SCHEDULED, recurring=False)
    False

    Source: R2-32.
    """
    if before in (_S.COMPLETED, _S.FAILED) and after is _S.SCHEDULED:
        return recurring
    return after in _NEXT[before]


@dataclass(frozen=True, slots=True)
class JobExit:
    """The effect of the end of a job's process."""

    status: JobStatus  #: of the job from now on
    complete: bool | None = None  #: whether the run saw everything; None: no run ended
    keeps_reason: bool = False  #: the message of the process is stored with the job


def job_after_exit(before: JobStatus, exit_status: int | None) -> JobExit:
    """Return the effect of an exit status; None: the process vanished.

    An order decides over an exit: a paused or cancelled job stays so. A source that is busy
    changes nothing, as the job's run was never open. A process that ended before its run was
    open passes through *running*.

    >>> job_after_exit(JobStatus.RUNNING, 3)
    JobExit(status=<JobStatus.COMPLETED: 'completed'>, complete=False, keeps_reason=True)
    >>> job_after_exit(JobStatus.RUNNING, None).status
    <JobStatus.FAILED: 'failed'>
    """
    if before not in _WAITS_FOR_EXIT:
        return JobExit(before)
    if exit_status == EXIT_SOURCE_BUSY:
        return JobExit(before, keeps_reason=True)
    if exit_status == EXIT_COMPLETE:
        return JobExit(_S.COMPLETED, complete=True)
    if exit_status == EXIT_INCOMPLETE:
        return JobExit(_S.COMPLETED, complete=False, keeps_reason=True)
    return JobExit(_S.FAILED, keeps_reason=True)

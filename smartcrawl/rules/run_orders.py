"""The states of a job, and the effect of an order on a run (R2-31, R2-32, ADR 56)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final

from smartcrawl.rules.model import BEFORE_SEAL, RESUMABLE, RunOrder, RunState, Word
from smartcrawl.rules.seal import NO_PAGES, OUTSIDE, SEED_FAILED


class JobStatus(StrEnum):
    """State of a job. The words are stored and sent over the API; never rename."""

    CREATED = "created"  #: a single run that has not begun
    SCHEDULED = "scheduled"  #: it waits for its next time
    RUNNING = "running"  #: its run is open
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobAction(StrEnum):
    """An order to a job (R2-27). The words are stored; never rename."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    START = "start"  #: once more, for a job that runs once and has ended


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
_ENDED: Final = frozenset({_S.COMPLETED, _S.FAILED})
#: Words of reasons that the place where a run starts gave nothing.
_FAILED_STARTS: Final = frozenset({SEED_FAILED, NO_PAGES, "listing"})
#: Outcomes of visits that brought or confirmed a page.
_BROUGHT: Final = (
    Word.NEW,
    Word.MODIFIED,
    Word.UNCHANGED,
    Word.CLONE,
    Word.SKIPPED,
    Word.EXCLUDED,
    Word.MOVED,
)
#: States in which an exit of the job's process decides.
_WAITS_FOR_EXIT: Final = frozenset({_S.CREATED, _S.SCHEDULED, _S.RUNNING})

_SEALED: Final = frozenset({RunState.SEALED, RunState.SETTLED, RunState.SWEPT})

EXIT_COMPLETE: Final = 0
EXIT_INCOMPLETE: Final = 3
EXIT_SOURCE_BUSY: Final = 4  #: another run of the source is open


def may_job_become(before: JobStatus, after: JobStatus, *, recurring: bool) -> bool:
    """Whether a job may change from one state to another.

    Only a recurring job leaves *completed* and *failed* for its next time, and only one that runs
    once leaves them by an order to start.

    >>> may_job_become(JobStatus.COMPLETED, JobStatus.SCHEDULED, recurring=True)
    True
    >>> may_job_become(JobStatus.COMPLETED, JobStatus.SCHEDULED, recurring=False)
    False

    Source: R2-32.
    """
    if before in _ENDED:
        return after is (_S.SCHEDULED if recurring else _S.CREATED)
    return after in _NEXT[before]


def permitted_job_actions(status: JobStatus, *, may_start: bool) -> tuple[JobAction, ...]:
    """Return the orders that a job takes; ``may_start``: it runs once, by order also again.

    Only a paused job is resumed: one that is *created* or *scheduled* starts by itself.

    >>> permitted_job_actions(JobStatus.PAUSED, may_start=False)
    (<JobAction.RESUME: 'resume'>, <JobAction.CANCEL: 'cancel'>)

    Source: R2-32.
    """
    takes = {
        JobAction.PAUSE: _S.PAUSED in _NEXT[status],
        JobAction.RESUME: status is _S.PAUSED,
        JobAction.CANCEL: _S.CANCELLED in _NEXT[status],
        JobAction.START: may_start and status in _ENDED,
    }
    return tuple(action for action, permitted in takes.items() if permitted)


@dataclass(frozen=True, slots=True)
class JobExit:
    """The effect of the end of a job's process."""

    status: JobStatus  #: of the job from now on
    complete: bool | None = None  #: whether the run saw everything; None: no run ended
    keeps_reason: bool = False  #: the message of the process is stored with the job


def is_run_in_vain(reasons: Sequence[str], words: Mapping[str, int], seeds: int) -> bool:
    """Whether an incomplete run fetched nothing, or all of its seeds failed.

    ``reasons``: why it is incomplete. ``words``: visits by their outcome.

    >>> is_run_in_vain(["seed_failed: http://a.example/ (404)"], {"lost": 1, "new": 8}, seeds=1)
    True
    >>> is_run_in_vain(["unreachable: 9 of 10 visits"], {"failed": 9, "unchanged": 1}, seeds=1)
    False
    """
    failed = sum(
        reason.startswith(f"{SEED_FAILED}: ") and not reason.endswith(OUTSIDE) for reason in reasons
    )
    brought = any(words.get(word.word) for word in _BROUGHT)
    return NO_PAGES in reasons or 0 < seeds <= failed or (bool(words) and not brought)


def is_start_failed(state: RunState, reasons: Iterable[str]) -> bool:
    """Whether a run ended by itself, and got no answer to build on at the place where it starts.

    >>> is_start_failed(RunState.SWEPT, ["robots_unknown: a.example", "seed_failed: http://b.c/"])
    True
    >>> is_start_failed(RunState.SWEPT, ["max_pages"])
    False
    >>> is_start_failed(RunState.INTERRUPTED, ["interrupted"])
    False
    """
    words = {reason.partition(":")[0] for reason in reasons}
    return state is RunState.SWEPT and not words.isdisjoint(_FAILED_STARTS)


def job_after_exit(before: JobStatus, exit_status: int | None, *, in_vain: bool = False) -> JobExit:
    """Return the effect of an exit status; None: the process vanished.

    ``in_vain``: the run fetched nothing, or all of its seeds failed.

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
        status = _S.FAILED if in_vain else _S.COMPLETED
        return JobExit(status, complete=False, keeps_reason=True)
    return JobExit(_S.FAILED, keeps_reason=True)


def order_in_force(requested: str | None, ordered: str | None) -> RunOrder | None:
    """Return the order to end a job's run; ``requested``: of the job's run, ``ordered``: the run's.

    A resume withdraws an earlier pause.

    >>> order_in_force(None, "pause"), order_in_force("resume", "pause")
    (<RunOrder.PAUSE: 'pause'>, None)
    """
    if requested == JobAction.RESUME:
        return None
    found = requested or ordered
    return None if found is None else RunOrder(found)


def job_after_order(order: RunOrder | None, state: RunState | None) -> JobStatus | None:
    """Return the state of a job whose run ended by an order; None: it ended by itself.

    ``state``: of the run; None: it was never open. A run that was sealed goes on to its end.

    >>> job_after_order(RunOrder.PAUSE, RunState.INTERRUPTED)
    <JobStatus.PAUSED: 'paused'>
    >>> job_after_order(RunOrder.PAUSE, RunState.SWEPT)
    """
    if state is RunState.CANCELLED:
        return _S.CANCELLED
    if order is None or state in _SEALED:
        return None
    return _S.PAUSED if order is RunOrder.PAUSE else _S.CANCELLED


def job_after_end(ended: JobStatus, order: RunOrder | None, *, recurring: bool) -> JobStatus:
    """Return the state of a job after a run that ended by itself: *completed* or *failed*.

    A recurring job waits for its next time, unless an order came too late for the run.

    >>> job_after_end(JobStatus.COMPLETED, RunOrder.PAUSE, recurring=True)
    <JobStatus.PAUSED: 'paused'>
    """
    if not recurring:
        return ended
    if order is None:
        return _S.SCHEDULED
    return _S.PAUSED if order is RunOrder.PAUSE else _S.CANCELLED


#: Reason of a run that an order ended; also Scrapy's reason for the end of the spider.
ORDER_REASONS: Final = {RunOrder.PAUSE: "paused", RunOrder.CANCEL: "cancelled"}
#: Reason of a run that ended without a fault before it saw everything.
INTERRUPTED: Final = "interrupted"
COMMITS_LOST: Final = "the database lost the last commits"


class Beginning(StrEnum):
    """Beginnings of a process that finds an order to the last run of its source."""

    NEW = auto()  #: it opens a new run
    RESUME = auto()  #: it withdraws the order, and goes on with the run
    OVER = auto()  #: it was to work on that run only, and ends
    REFUSED = auto()  #: it opens nothing: the operator decides
    WAIT = auto()  #: other workers are leaving the run


def state_after_order(
    order: RunOrder | None, reasons: tuple[str, ...]
) -> tuple[RunState, tuple[str, ...]]:
    """Return state and reasons of a run that ends before its seal.

    ``reasons``: those of the process that ends it; a fault among them is kept.

    >>> state_after_order(None, ("interrupted",))
    (<RunState.INTERRUPTED: 9>, ('interrupted',))
    >>> state_after_order(RunOrder.PAUSE, ("interrupted",))
    (<RunState.INTERRUPTED: 9>, ('paused',))
    >>> state_after_order(RunOrder.CANCEL, ("the disk is full",))
    (<RunState.CANCELLED: 8>, ('cancelled', 'the disk is full'))
    """
    if order is None:
        return RunState.INTERRUPTED, reasons
    state = RunState.CANCELLED if order is RunOrder.CANCEL else RunState.INTERRUPTED
    word = ORDER_REASONS[order]
    return state, (word, *(one for one in reasons if one not in (INTERRUPTED, word)))


def beginning_after_order(
    order: RunOrder | None, state: RunState, *, resume: bool, same_job: bool, at_work: bool
) -> Beginning | None:
    """Return the beginning that is left to a process; None: no order decides.

    ``resume``: whether the operator wants to go on with it. ``same_job``: whether the process was
    started for this run. ``at_work``: whether other workers have not left it yet.

    >>> beginning_after_order(
    ...     RunOrder.PAUSE, RunState.INTERRUPTED, resume=False, same_job=False, at_work=False
    ... )
    <Beginning.REFUSED: 'refused'>
    """
    if order is RunOrder.PAUSE and state in RESUMABLE:
        if resume:
            return Beginning.WAIT if at_work else Beginning.RESUME
        return Beginning.OVER if same_job else Beginning.REFUSED
    if order is RunOrder.CANCEL and (state in BEFORE_SEAL or state is RunState.CANCELLED):
        if same_job:
            return Beginning.OVER
        return Beginning.WAIT if at_work else Beginning.NEW
    return None

"""The effect of an order on a run, and on a process that finds such a run (ADR 56)."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Final

from smartcrawl.rules.model import BEFORE_SEAL, RESUMABLE, RunOrder, RunState

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

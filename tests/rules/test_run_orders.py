"""Orders to runs: their effect on a run, and on the process that finds it."""

from itertools import product

import pytest

from smartcrawl.rules.model import RESUMABLE, RunOrder, RunState
from smartcrawl.rules.run_orders import (
    ORDER_REASONS,
    Beginning,
    beginning_after_order,
    state_after_order,
)

PAUSE, CANCEL = RunOrder.PAUSE, RunOrder.CANCEL
OPEN, VERIFYING = RunState.OPEN, RunState.VERIFYING
INTERRUPTED, CANCELLED = RunState.INTERRUPTED, RunState.CANCELLED
NEW, RESUME, OVER = Beginning.NEW, Beginning.RESUME, Beginning.OVER
REFUSED, WAIT = Beginning.REFUSED, Beginning.WAIT


@pytest.mark.parametrize(
    ("order", "reasons", "state", "ends"),
    [
        (None, ("interrupted",), INTERRUPTED, ("interrupted",)),
        (None, ("the disk is full",), INTERRUPTED, ("the disk is full",)),
        (PAUSE, ("interrupted",), INTERRUPTED, ("paused",)),
        (PAUSE, ("paused",), INTERRUPTED, ("paused",)),
        (PAUSE, ("the disk is full",), INTERRUPTED, ("paused", "the disk is full")),
        (CANCEL, ("interrupted",), CANCELLED, ("cancelled",)),
        (CANCEL, ("cancelled",), CANCELLED, ("cancelled",)),
        (CANCEL, ("the disk is full",), CANCELLED, ("cancelled", "the disk is full")),
    ],
)
def test_an_order_decides_how_a_run_ends(
    order: RunOrder | None, reasons: tuple[str, ...], state: RunState, ends: tuple[str, ...]
):
    assert state_after_order(order, reasons) == (state, ends)


def test_the_reasons_are_those_that_reports_explain():
    assert ORDER_REASONS == {PAUSE: "paused", CANCEL: "cancelled"}
    assert CANCELLED not in RESUMABLE


#: order, states, resume, same job, others at work -> what a process does; None: any
BEGINNINGS = [
    (PAUSE, (OPEN, VERIFYING, INTERRUPTED), True, None, False, RESUME),
    (PAUSE, (OPEN, VERIFYING, INTERRUPTED), True, None, True, WAIT),
    (PAUSE, (OPEN, VERIFYING, INTERRUPTED), False, True, None, OVER),
    (PAUSE, (OPEN, VERIFYING, INTERRUPTED), False, False, None, REFUSED),
    (CANCEL, (OPEN, VERIFYING, CANCELLED), None, True, None, OVER),
    (CANCEL, (OPEN, VERIFYING, CANCELLED), None, False, True, WAIT),
    (CANCEL, (OPEN, VERIFYING, CANCELLED), None, False, False, NEW),
]  # fmt: skip
_BOTH = (False, True)


def expected(
    order: RunOrder | None, state: RunState, *, resume: bool, same_job: bool, at_work: bool
) -> Beginning | None:
    given = (resume, same_job, at_work)
    for known, states, *flags, found in BEGINNINGS:
        if order is known and state in states:
            if all(flag in (None, here) for flag, here in zip(flags, given, strict=True)):
                return found
    return None


@pytest.mark.parametrize("order", [None, PAUSE, CANCEL])
@pytest.mark.parametrize("state", RunState)
def test_a_process_goes_on_with_a_paused_run_only_if_it_is_wanted(
    order: RunOrder | None, state: RunState
):
    for resume, same_job, at_work in product(_BOTH, _BOTH, _BOTH):
        given = {"resume": resume, "same_job": same_job, "at_work": at_work}
        assert beginning_after_order(order, state, **given) == expected(order, state, **given)


def test_without_an_order_none_decides():
    for state, resume, same_job, at_work in product(RunState, _BOTH, _BOTH, _BOTH):
        given = {"resume": resume, "same_job": same_job, "at_work": at_work}
        assert beginning_after_order(None, state, **given) is None

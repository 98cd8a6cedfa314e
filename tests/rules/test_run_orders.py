"""Orders to runs: their effect on a run, and on the process that finds it."""

from itertools import product

import pytest

from smartcrawl.rules.model import RESUMABLE, RunOrder, RunState
from smartcrawl.rules.run_orders import (
    COMMITS_LOST,
    ORDER_REASONS,
    Beginning,
    beginning_after_order,
    is_start_failed,
    state_after_order,
)
from tests.rules import manual

PAUSE, CANCEL = RunOrder.PAUSE, RunOrder.CANCEL
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
    assert COMMITS_LOST == "the database lost the last commits"


MANUAL = manual.table("A run with an order")
#: By the first words of the manual's last column.
WORDS = {"goes": RESUME, "waits": WAIT, "ends,": OVER, "is": REFUSED, "opens": NEW}
_BOTH = (False, True)


def expected(
    order: RunOrder, state: RunState, *, resume: bool, same_job: bool, at_work: bool
) -> Beginning | None:
    given = ["yes" if flag else "no" for flag in (at_work, same_job, resume)]
    for known, states, *flags, found in MANUAL:
        named = known == order and state.word in manual.names(states)
        if named and all(cell in ("any", here) for cell, here in zip(flags, given, strict=True)):
            return WORDS[found.split()[0]]
    return None


@pytest.mark.parametrize("order", RunOrder)
@pytest.mark.parametrize("state", RunState)
def test_a_process_goes_on_with_a_paused_run_only_if_it_is_wanted(order: RunOrder, state: RunState):
    for resume, same_job, at_work in product(_BOTH, _BOTH, _BOTH):
        given = {"resume": resume, "same_job": same_job, "at_work": at_work}
        assert beginning_after_order(order, state, **given) == expected(order, state, **given)


def test_without_an_order_none_decides():
    for state, resume, same_job, at_work in product(RunState, _BOTH, _BOTH, _BOTH):
        given = {"resume": resume, "same_job": same_job, "at_work": at_work}
        assert beginning_after_order(None, state, **given) is None


def test_each_row_of_the_manual_decides_something():
    for known, states, *flags, found in MANUAL:
        assert RunOrder(known)
        assert {RunState[name.upper()] for name in manual.names(states)}
        assert set(flags) <= {"any", "yes", "no"}
        assert found.split()[0] in WORDS


@pytest.mark.parametrize(
    ("state", "reasons", "is_so"),
    [
        (RunState.SWEPT, ("seed_failed: http://a.example/",), True),
        (RunState.SWEPT, ("robots_unknown: a.example", "no_pages"), True),
        (RunState.SWEPT, ("listing: /docs (not readable)",), True),
        (RunState.SWEPT, ("max_pages",), False),
        (RunState.SWEPT, (), False),
        (RunState.OPEN, ("seed_failed: http://a.example/",), False),
        (INTERRUPTED, ("interrupted", "seed_failed: http://a.example/"), False),
    ],
)
def test_a_start_failed_where_a_run_ended_by_itself_and_got_nothing(
    state: RunState, reasons: tuple[str, ...], *, is_so: bool
):
    assert is_start_failed(state, reasons) is is_so

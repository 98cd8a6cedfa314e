"""An order to a run: taken until the seal, carried out once, and withdrawn by a resume only."""

from typing import Any

import pytest

from smartcrawl.index.choice import EMBEDDED
from smartcrawl.model.exceptions import RunPausedError
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.runs import run_orders, runs
from smartcrawl.registry.runs.runs import OpenRun, RunRequest
from smartcrawl.rules.model import RunOrder, RunState
from tests.registry.build import LATER, NOW, Desk

PAUSE, CANCEL = RunOrder.PAUSE, RunOrder.CANCEL


def state(desk: Desk, run: int = 1) -> tuple[Any, ...]:
    names = "state, complete, reasons, requested, requested_at"
    [(number, complete, *rest)] = desk.rows(f"SELECT {names} FROM run WHERE no = ?", (run,))
    return number, bool(complete), *rest


def order(desk: Desk, what: RunOrder, run: int = 1) -> bool:
    with transaction(desk.connection):
        return run_orders.order_run_row(desk.connection, run, what, NOW)


def begin(desk: Desk, *, resume: bool = False, job: str | None = None) -> OpenRun:
    request = RunRequest(desk.source, "site", resume=resume, job=job)
    return runs.open_run_row(desk.connection, request, LATER)


def interrupt(desk: Desk, *reasons: str) -> None:
    with transaction(desk.connection):
        runs.interrupt_run_row(desk.connection, 1, LATER, list(reasons or ("interrupted",)))


@pytest.mark.parametrize("what", RunOrder)
def test_a_run_with_an_order_is_neither_verified_nor_sealed(desk: Desk, what: RunOrder):
    assert order(desk, what)
    assert run_orders.run_order_row(desk.connection, 1) is what

    assert not runs.propose_unreached_rows(desk.connection, desk.ending())
    assert not runs.seal_run_row(desk.connection, 1, (), LATER)

    assert state(desk) == (RunState.OPEN, False, "[]", what, NOW)
    assert run_orders.is_run_row_before_seal(desk.connection, 1)


def test_a_sealed_run_takes_no_order(desk: Desk):
    assert runs.propose_unreached_rows(desk.connection, desk.ending())
    assert runs.seal_run_row(desk.connection, 1, (), LATER)

    assert not order(desk, PAUSE)
    assert not order(desk, CANCEL)

    runs.settle_sealed_row(desk.connection, desk.ending(), EMBEDDED)
    assert state(desk) == (RunState.SETTLED, True, "[]", None, None)


@pytest.mark.parametrize(
    ("what", "reasons", "ends"),
    [
        (PAUSE, ("interrupted",), (RunState.INTERRUPTED, '["paused"]')),
        (PAUSE, ("full",), (RunState.INTERRUPTED, '["paused", "full"]')),
        (CANCEL, ("interrupted",), (RunState.CANCELLED, '["cancelled"]')),
    ],
)
def test_the_process_that_leaves_carries_the_order_out(
    desk: Desk, what: RunOrder, reasons: tuple[str, ...], ends: tuple[object, ...]
):
    order(desk, what)
    interrupt(desk, *reasons)

    number, complete, told, requested, _ = state(desk)
    assert (number, told) == ends
    assert not complete
    assert requested == what


def test_a_cancelled_run_stays_cancelled(desk: Desk):
    order(desk, PAUSE)
    assert order(desk, CANCEL), "it may be cancelled while it is being paused"
    assert not order(desk, PAUSE)
    interrupt(desk)
    before = state(desk)

    run = begin(desk, resume=True)

    assert (run.no, run.resumed, run.interrupted) == (2, False, None)
    interrupt(desk)
    assert state(desk) == before
    assert before[:3] == (RunState.CANCELLED, False, '["cancelled"]')


@pytest.mark.parametrize("dead", [True, False], ids=["dead", "left"])
def test_only_a_resume_goes_on_with_a_paused_run(desk: Desk, dead: bool):
    order(desk, PAUSE)
    if not dead:
        interrupt(desk)
    before = state(desk)

    with pytest.raises(RunPausedError, match=r"run 1 of .* is paused since .*: -a resume=1"):
        begin(desk)
    assert state(desk) == before
    assert desk.rows("SELECT count(*) FROM run") == [(1,)]

    run = begin(desk, resume=True)
    assert (run.no, run.resumed, run.over) == (1, True, False)
    assert state(desk) == (RunState.OPEN, False, "[]", None, None)


@pytest.mark.parametrize(
    ("what", "ends"),
    [
        (PAUSE, (RunState.INTERRUPTED, '["paused"]')),
        (CANCEL, (RunState.CANCELLED, '["cancelled"]')),
    ],
)
def test_a_process_of_the_same_job_finds_its_run_over(
    what: RunOrder, ends: tuple[object, ...], desk: Desk
):
    """The one before it was killed, so that it carries the order out."""
    desk.connection.execute("UPDATE run SET job = 'nightly'")
    order(desk, what)

    run = begin(desk, job="nightly")

    assert (run.no, run.over, run.order) == (1, True, what)
    number, _, told, requested, _ = state(desk)
    assert (number, told) == ends
    assert requested == what
    if what is CANCEL:
        assert begin(desk, job="another").no == 2
    else:
        assert begin(desk, job="nightly", resume=True).order is None


def test_a_dead_run_that_was_cancelled_is_closed_by_the_next(desk: Desk):
    order(desk, CANCEL)

    run = begin(desk, resume=True)

    assert (run.no, run.resumed) == (2, False)
    assert state(desk)[0] == RunState.CANCELLED


def test_a_resume_does_not_reopen_a_run_that_was_cancelled_meanwhile(desk: Desk):
    """It was interrupted when the other process looked."""
    interrupt(desk)
    assert order(desk, CANCEL), "it is carried out at once: no process works on it"
    assert state(desk) == (RunState.CANCELLED, False, '["cancelled"]', CANCEL, NOW)

    desk.connection.execute(runs._REOPEN, (9, False, 1))

    assert state(desk)[0] == RunState.CANCELLED

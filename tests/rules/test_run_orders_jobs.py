"""The states of a job (docs/decisions.md)."""

import itertools

import pytest

from smartcrawl.rules.model import RunOrder, RunState
from smartcrawl.rules.run_orders import (
    JobAction,
    JobExit,
    JobStatus,
    is_run_in_vain,
    job_after_end,
    job_after_exit,
    job_after_order,
    may_job_become,
    order_in_force,
    permitted_job_actions,
)
from tests.rules.manual import header, names, table

TITLE = "The states of a job"
PAIRS = list(itertools.product(JobStatus, JobStatus))
WAITING = (JobStatus.CREATED, JobStatus.SCHEDULED, JobStatus.RUNNING)


def of_the_manual() -> dict[tuple[str, str], str]:
    """Return the word of the manual for each pair of states."""
    names = header(TITLE)[1:]
    return {
        (before, after): word
        for before, *words in table(TITLE)
        for after, word in zip(names, words, strict=True)
    }


@pytest.mark.covers("R2-31", "R2-59")
def test_there_are_seven_states():
    assert list(JobStatus) == [
        "created", "scheduled", "running", "paused", "completed", "failed", "cancelled",
    ]  # fmt: skip


@pytest.mark.covers("R2-32")
def test_the_manual_has_every_pair_of_states():
    assert set(of_the_manual()) == {(str(before), str(after)) for before, after in PAIRS}
    assert len(PAIRS) == 49


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize("recurring", [False, True])
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_job_changes_its_state_as_the_manual_says(before, after, recurring):
    word = of_the_manual()[before, after]

    assert may_job_become(before, after, recurring=recurring) is {
        "yes": True,
        "no": False,
        "again": recurring,
        "start": not recurring,
    }.get(word)


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize("before", JobStatus)
@pytest.mark.parametrize(("word", "state", "complete", "kept"), table(TITLE, 1))
def test_an_exit_status_means_what_the_manual_says(before, word, state, complete, kept):
    status, _, in_vain = word.partition(", ")
    exit_status = None if status == "vanished" else int(status)
    found = job_after_exit(before, exit_status, in_vain=bool(in_vain))

    if before not in WAITING:
        assert found == JobExit(before)
        return
    assert found.status == (before if state == "as before" else state)
    assert found.complete is {"yes": True, "no": False, "": None}[complete]
    assert found.keeps_reason is (kept == "yes")


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize(
    ("reasons", "words", "seeds", "in_vain"),
    [
        (["no_pages"], {}, 1, True),
        (["seed_failed: http://a.example/ (1001)"], {"failed": 1}, 1, True),
        (["seed_failed: http://a.example/ (404)"], {"lost": 1, "new": 8}, 1, True),
        (["seed_failed: http://a.example/ (404)"], {"lost": 1, "new": 8}, 2, False),
        (["seed_failed: http://b.example/ (out of scope)"], {"new": 8}, 1, False),
        (["unreachable: 2 of 2 visits"], {"failed": 2}, 0, True),
        (["unreachable: 1 of 2 visits"], {"failed": 1, "moved": 1}, 1, False),
        (["max_pages"], {"redirected": 1, "excluded": 3}, 1, False),
        (["max_pages"], {"redirected": 1}, 1, True),
        (["not_due: 7"], {}, 1, False),
    ],
)
def test_a_run_was_in_vain_that_brought_nothing_or_lost_its_seeds(reasons, words, seeds, in_vain):
    assert is_run_in_vain(reasons, words, seeds) is in_vain


@pytest.mark.parametrize("exit_status", [0, 1, 2, 3, 4, 137, None])
@pytest.mark.parametrize("in_vain", [False, True])
@pytest.mark.parametrize("before", JobStatus)
def test_an_exit_never_makes_a_forbidden_change(before, in_vain, exit_status):
    after = job_after_exit(before, exit_status, in_vain=in_vain).status
    direct = may_job_become(before, after, recurring=False)
    through_running = may_job_become(before, JobStatus.RUNNING, recurring=False) and may_job_become(
        JobStatus.RUNNING, after, recurring=False
    )

    assert after is before or direct or through_running


@pytest.mark.covers("R2-27", "R2-32")
@pytest.mark.parametrize(("state", "orders"), table(TITLE, 2))
def test_a_job_takes_the_orders_that_the_manual_names(state, orders):
    expected = [] if orders == "none" else names(orders)

    assert list(permitted_job_actions(JobStatus(state), may_start=True)) == expected
    without = [order for order in expected if order != "start"]
    assert list(permitted_job_actions(JobStatus(state), may_start=False)) == without
    assert len(table(TITLE, 2)) == len(JobStatus)


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize("row", table(TITLE, 3), ids=lambda row: row[0])
def test_an_order_decides_over_the_exit_as_the_manual_says(row):
    word, *states = row
    columns = header(TITLE, 3)[1:]
    assert columns == ["no run", *(state.word for state in RunState)]
    order = None if word == "none" else RunOrder(word)

    for state, expected in zip([None, *RunState], states, strict=True):
        found = job_after_order(order, state)
        assert found == (None if expected == "exit" else expected)
    assert len(table(TITLE, 3)) == len(RunOrder) + 1


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize("ended", [JobStatus.COMPLETED, JobStatus.FAILED])
def test_an_order_that_is_too_late_for_a_run_is_for_its_recurring_job(ended):
    orders = [None, RunOrder.PAUSE, RunOrder.CANCEL]

    assert [job_after_end(ended, order, recurring=False) for order in orders] == [ended] * 3
    assert [job_after_end(ended, order, recurring=True) for order in orders] == [
        JobStatus.SCHEDULED,
        JobStatus.PAUSED,
        JobStatus.CANCELLED,
    ]


@pytest.mark.parametrize(
    ("requested", "ordered", "order"),
    [
        (None, None, None),
        (None, "pause", RunOrder.PAUSE),
        ("pause", None, RunOrder.PAUSE),
        ("cancel", "pause", RunOrder.CANCEL),
        ("resume", "pause", None),
    ],
)
def test_the_latest_order_is_in_force(requested, ordered, order):
    assert order_in_force(requested, ordered) is order


def test_the_words_of_orders_are_those_of_runs():
    assert {str(order) for order in RunOrder} < {str(action) for action in JobAction}


@pytest.mark.parametrize("word", ["new", "modified", "unchanged", "clone"])
def test_a_run_that_brought_a_page_was_not_in_vain(word):
    assert not is_run_in_vain(["max_pages"], {word: 1, "failed": 9}, 0)
    assert job_after_exit(JobStatus.RUNNING, 3).status is JobStatus.COMPLETED

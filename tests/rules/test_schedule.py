"""When a page is visited next (docs/decisions.md)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.schedule import Schedule
from tests.rules.manual import table

DAY = 86_400  #: seconds
COUNTS = st.integers(0, 10_000)
SCHEDULES = st.builds(
    Schedule,
    base=st.integers(1, 10**6),
    longest=st.integers(1, 10**8),
    steps=st.lists(st.integers(1, 99), min_size=1, max_size=6).map(lambda s: tuple(sorted(s))),
    patience=st.integers(1, 9),
    error_base=st.integers(1, 10**6),
)


@pytest.mark.covers("R0-48", "R0-49", "G-01")
@pytest.mark.parametrize(("unchanged", "days"), table("When a page is visited next"))
def test_the_interval_is_the_manuals(unchanged, days):
    assert Schedule().interval(int(unchanged)) == int(days) * DAY


@pytest.mark.covers("R0-63", "M-32", "U-20")
@pytest.mark.parametrize(
    ("errors", "retry_after", "seconds"), table("When a page is visited next", 1)
)
def test_the_backoff_is_the_manuals(errors, retry_after, seconds):
    asked = None if retry_after == "none" else int(retry_after)

    assert Schedule().backoff(int(errors), asked) == int(seconds)


@pytest.mark.covers("R0-48")
def test_the_seeds_four_intervals():
    schedule = Schedule(steps=(1, 3, 7, 14))
    steps = [schedule.interval(schedule.patience * n) for n in range(5)]

    assert steps == [86_400, 259_200, 604_800, 1_209_600, 1_209_600]
    assert schedule == Schedule()


def test_without_a_base_errors_cost_no_wait():
    assert Schedule(error_base=0).backoff(9) == 0
    assert Schedule(error_base=0).backoff(9, 5) == 5


def test_no_interval_is_longer_than_the_longest():
    assert Schedule(base=100, longest=150).interval(3) == 150
    assert Schedule(longest=10**9, error_base=1).backoff(21) == 2**20
    assert Schedule(longest=10**9, error_base=1).backoff(99) == 2**20


@pytest.mark.covers("R0-48")
@given(SCHEDULES, COUNTS)
def test_the_interval_never_shrinks_while_nothing_changes(schedule, unchanged):
    now, later = schedule.interval(unchanged), schedule.interval(unchanged + 1)

    assert 0 < now <= later <= schedule.longest


@pytest.mark.covers("R0-63", "M-32")
@given(SCHEDULES, COUNTS, st.none() | st.integers(0, 10**10))
def test_a_page_is_never_asked_earlier_than_the_server_wants(schedule, errors, retry_after):
    wait = schedule.backoff(errors, retry_after)

    assert wait <= schedule.backoff(errors + 1, retry_after)
    assert wait >= (retry_after or 0)
    assert wait in (schedule.backoff(errors), retry_after)

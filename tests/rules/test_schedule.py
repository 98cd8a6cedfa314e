"""When a page is visited next (docs/decisions.md)."""

import os
import time
from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.schedule import Schedule, is_due, modified_by_lastmod
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


# Spread


@pytest.mark.covers("R0-48")
@given(SCHEDULES, st.integers(1, 10**8), st.integers(0, 2**31), st.integers(0, 500))
def test_visits_are_spread_a_little_earlier(schedule, interval, number, jitter):
    schedule = replace(schedule, jitter=jitter)
    wait = schedule.spread(interval, number)

    assert wait <= interval
    assert interval - wait <= interval * jitter / 1000
    assert interval - wait >= interval * jitter // 2000
    late = schedule.spread_error(interval, number)
    assert interval <= late <= interval + interval * jitter / 1000


def test_what_was_visited_together_comes_due_one_after_the_other():
    schedule = Schedule()
    waits = [schedule.spread(DAY, number) for number in range(1_000)]
    errors = [schedule.spread_error(DAY, number) for number in range(1_000)]

    for spread, least, most in (
        (waits, DAY * 0.9, DAY * 0.95),
        (errors, DAY, DAY * 1.1),
    ):
        tenths = Counter(int(10 * (wait - least) / (most - least)) for wait in spread)
        assert all(80 < tenths[tenth] < 120 for tenth in range(10))


def test_the_spread_of_a_page_is_always_the_same():
    """Numbers, so that nobody's next visit moves when this is changed without need."""
    schedule = Schedule()
    assert [schedule.spread(10**9, n) for n in range(3)] == [950_000_000, 919_098_664, 938_197_327]
    assert [schedule.spread_error(10**9, n) for n in range(3)] == [
        1_000_000_000, 1_061_802_673, 1_023_605_346,
    ]  # fmt: skip
    assert schedule.spread(10**9, 65_537) == schedule.spread(10**9, 1)


def test_without_jitter_nothing_is_spread():
    assert Schedule(jitter=0).spread(DAY, 12_345) == DAY
    assert Schedule(jitter=0).spread_error(600, 12_345) == 600


@pytest.mark.covers("R0-71", "M-11")
@pytest.mark.parametrize(("next_visit", "due"), [(None, True), (9, True), (10, True), (11, False)])
def test_a_page_is_due_when_its_next_visit_is_not_in_the_future(next_visit, due):
    assert is_due(next_visit, 9, 10) is due
    assert is_due(next_visit, None, 10) is due


@pytest.mark.covers("M-11")
@pytest.mark.parametrize(
    ("ahead", "due"), [(-DAY, False), (0, False), (DAY, False), (DAY + 1, True)]
)
def test_a_page_that_was_visited_in_the_future_is_due(ahead, due):
    """The clock was wrong, and may have put the next visit off by years."""
    assert is_due(NOW + 400 * DAY, NOW + ahead, NOW) is due


# What sitemaps say

NOW = 1_763_750_000  #: 2025-11-21T18:33:20Z


@pytest.mark.parametrize(
    ("lastmod", "moment"),
    [
        ("2025-11-20T10:00:00Z", 1_763_632_800),
        ("2025-11-20T10:00:00.5+00:00", 1_763_632_800),
        (" 2025-11-20T10:00Z ", 1_763_632_800),
        ("2025-11-20T11:00:00+01:00", 1_763_632_800),
        ("2025-11-20T10:00:00", 1_763_632_800),
        ("2025-11-19", 1_763_596_800),
        ("2025-11-21", NOW),
        ("2025-11-22", NOW),
        ("2025-11-23", None),
        ("2025-11", NOW),
        ("2025-10", 1_761_955_200),
        ("2025-12", None),
        ("2024-12", 1_735_689_600),
        ("2024-02", 1_709_251_200),
        ("2024", 1_735_689_600),
        ("2023", 1_704_067_200),
        ("2025", NOW),
        ("2026", None),
        ("2025-11-22T18:33:20Z", NOW),
        ("2025-11-22T18:33:21Z", None),
        ("2025-13-01", None),
        ("2025-02-30", None),
        ("2025-11-20T25:00Z", None),
        ("9999-12-31", None),
        ("9999", None),
        ("0000-01-01", None),
        ("yesterday", None),
        ("", None),
        ("2025-11-20 10:00:00", None),
        ("20251120", None),
    ],
)
def test_a_lastmod_means_the_last_moment_that_it_can(lastmod, moment):
    assert modified_by_lastmod(lastmod, NOW) == moment


@pytest.mark.parametrize(
    ("lastmod", "now", "moment"),
    [
        ("2026", 1_767_571_200, 1_767_571_200),  # on 5 January 2026
        ("2026-01", 1_767_571_200, 1_767_571_200),
        ("1970", 10**9, 31_536_000),
        ("1970-12", 10**9, 31_536_000),
        ("1970-11", 10**9, 28_857_600),
        ("2026-02", 1_769_817_600, 1_769_817_600),  # a day before it begins
        ("1970-01", 10**9, 2_678_400),
        ("1970-01-01", 10**9, 86_400),
        ("1970-01-31", 10**9, 2_678_400),
    ],
)
def test_whole_days_months_and_years_end_with_their_last_second(lastmod, now, moment):
    assert modified_by_lastmod(lastmod, now) == moment


def test_a_lastmod_without_zone_means_utc_wherever_we_are():
    with patch.dict(os.environ, TZ="America/New_York"):
        time.tzset()
        moment = modified_by_lastmod("1970-01-01T00:00:10", NOW)
    time.tzset()

    assert moment == 10

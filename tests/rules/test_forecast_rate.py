"""The rate of the last minute: exact where marks are kept, and bounded in what it keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.forecast import (
    STEP,
    WINDOW,
    Mark,
    Rate,
    completion_at_rate,
    rate_marks_after,
    rate_of_marks,
)

T = 1_750_000_000  #: Unix seconds, when the run began
BEGIN = Mark(T, 0, 0)


def kept(*commits: tuple[int, int]) -> list[Mark]:
    """The marks after commits, each (seconds since the begin, visits so far); 10 bytes a visit."""
    marks = [BEGIN]
    for seconds, visits in commits:
        marks = rate_marks_after(marks, Mark(T + seconds, visits, visits * 10))
    return marks


def times(marks: list[Mark]) -> list[int]:
    return [mark.at - T for mark in marks]


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([1], [0, 1]),
        ([1, 3], [0, 3]),
        ([1, 5], [0, 5]),
        ([1, 6], [0, 1, 6]),
        ([1, 5, 6], [0, 5, 6]),
        ([5, 10, 15], [0, 5, 10, 15]),
        ([0], [0, 0]),
        ([1, 59], [0, 1, 59]),
        ([1, 60], [0, 1, 60]),
        ([1, 61], [1, 61]),
        ([10, 30, 70], [10, 30, 70]),
        ([10, 30, 69], [0, 10, 30, 69]),
        ([10, 30, 200], [30, 200]),
    ],
)
def test_marks_are_as_close_as_a_step_and_begin_before_the_window(commits, expected):
    assert times(kept(*((at, place) for place, at in enumerate(commits, 1)))) == expected


def test_the_first_mark_begins_a_window():
    assert rate_marks_after([], Mark(T, 7, 70)) == [Mark(T, 7, 70)]


@pytest.mark.parametrize(
    ("back", "expected"), [(1, [0, 100, 100]), (WINDOW, [0, 100, 100]), (WINDOW + 1, [39])]
)
def test_a_clock_that_is_put_back_begins_anew_after_a_window(back, expected):
    marks = rate_marks_after([BEGIN, Mark(T + 100, 5, 50)], Mark(T + 100 - back, 6, 60))

    assert times(marks) == expected
    assert marks[-1][1:] == (6, 60)


def test_workers_whose_clocks_differ_agree_on_the_later_time():
    assert kept((30, 3), (20, 5))[-1] == Mark(T + 30, 5, 50)


@pytest.mark.parametrize(
    ("commits", "now", "visits"),
    [
        ([], 100, 0.0),
        ([(10, 30)], 10, 3.0),
        ([(10, 30)], 30, 1.0),
        ([(0, 30)], 0, 30.0),
        ([(30, 60)], 60, 1.0),
        ([(30, 65)], 65, 1.0),
        ([(30, 66)], 66, 66 / 60),
        ([(30, 60)], 89, 1.0),
        ([(30, 60)], 90, 0.0),
        ([(30, 60), (40, 90)], 90, 30 / 60),
        ([(30, 60), (40, 90)], 95, 30 / 65),
        ([(30, 60), (40, 90)], 96, 30 / 60),
        ([(30, 60), (40, 90), (95, 150)], 100, 60 / 60),
    ],
)
def test_the_rate_is_that_of_the_last_minute(commits, now, visits):
    assert rate_of_marks(kept(*commits), T + now) == pytest.approx((visits, visits * 10))


def test_a_run_without_marks_has_no_rate():
    assert rate_of_marks([], T) == (0, 0)


@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 50)), max_size=200), st.integers(0, 200)
)
def test_any_history_is_bounded_and_near_the_truth(steps, later):
    marks, history, at, visits = [BEGIN], [BEGIN], T, 0
    for seconds, more in steps:
        at, visits = at + seconds, visits + more
        history.append(Mark(at, visits, 0))
        marks = rate_marks_after(marks, history[-1])
        assert marks[-1] == history[-1]
        assert len(marks) <= 2 * WINDOW / STEP + 2
    now = at + later

    def since(begin: int) -> int:
        """The visits that were committed after this time."""
        return visits - max((mark.visits for mark in history if mark.at <= begin), default=0)

    seconds = min(WINDOW, max(1, now - T))
    least = since(now - WINDOW) / (WINDOW + STEP if now - T > WINDOW else seconds)
    most = since(now - WINDOW - STEP) / seconds
    assert least - 1e-9 <= rate_of_marks(marks, now).visits <= most + 1e-9


@pytest.mark.covers("G-30")
@pytest.mark.parametrize(
    ("queued", "rate", "expected"),
    [(0, 2.0, 0), (3, 2.0, 2), (100, 0.5, 200), (5, 0.0, None), (0, 0.0, None)],
)
def test_the_end_follows_from_the_queue_and_the_rate(queued, rate, expected):
    end = completion_at_rate(queued, Rate(rate, 0.0), T)

    assert end == (None if expected is None else T + expected)

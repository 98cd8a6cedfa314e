"""Samples of the progress of a run."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.progress import (
    END_WINDOW,
    MOST_SAMPLES,
    SAMPLE_SECONDS,
    Sample,
    estimated_run_end,
    is_sample_due,
    thinned_samples,
)


def sample(at: int, visits: int, queued: int) -> Sample:
    return Sample(at, visits, queued, visits, 0, 0, 0)


@pytest.mark.parametrize(
    ("last", "step", "now", "is_due"),
    [
        (None, 10, 0, True), (100, 10, 110, True), (100, 10, 109, False), (100, 20, 119, False),
        (100, 20, 120, True), (100, 10, 0, False),
    ],
)  # fmt: skip
def test_a_sample_is_taken_after_its_seconds(last: int | None, step: int, now: int, is_due: bool):
    assert is_sample_due(last, step, now) is is_due


@pytest.mark.parametrize(
    ("times", "gone"),
    [([], []), ([5], []), ([5, 9], []), ([0, 10, 20], [10]), ([0, 10, 20, 30], [10]),
     ([0, 10, 20, 30, 40], [10, 30])],
)  # fmt: skip
def test_every_second_sample_goes_but_the_first_and_the_last(times: list[int], gone: list[int]):
    assert thinned_samples(times) == gone


@given(st.integers(1, 4_000))
def test_a_run_of_any_length_has_its_samples_at_one_distance(taken: int):
    kept, step, now = [0], SAMPLE_SECONDS, 0
    for _ in range(taken):
        now += SAMPLE_SECONDS
        if not is_sample_due(kept[-1], step, now):
            continue
        kept.append(now)
        if len(kept) > MOST_SAMPLES:
            gone = set(thinned_samples(kept))
            kept, step = [one for one in kept if one not in gone], 2 * step
    assert len(kept) <= MOST_SAMPLES
    assert {later - earlier for earlier, later in pairwise(kept)} == {step} or taken == 0
    assert len(kept) > MOST_SAMPLES // 2 or step == SAMPLE_SECONDS


@pytest.mark.parametrize(
    ("samples", "end"),
    [
        ([], None),
        ([(0, 0, 100), (50, 10, 90)], (50 + 450, 50 + 450)),  # none is found any more
        ([(0, 0, 100), (50, 20, 90)], (50 + 225, 50 + 450)),  # half as many are found
        ([(0, 0, 100), (50, 20, 200)], (50 + 500, None)),  # more are found than are done
        ([(0, 0, 100), (50, 20, 100)], (50 + 250, None)),
        ([(0, 0, 100), (50, 0, 100)], None),  # none is done
        ([(0, 0, 100), (50, 1, 100)], (50 + 5_000, None)),
        ([(0, 0, 100), (50, 2, 99)], (50 + 2_475, 50 + 4_950)),
        ([(31, 0, 100), (50, 20, 80)], None),  # too young
        ([(30, 0, 100), (50, 20, 80)], (50 + 80, 50 + 80)),
        ([(0, 0, 2), (50, 2, 0)], (50, 50)),  # nothing waits
        ([(0, 0, 0), (50, 9, 0)], (50, 50)),
    ],
)
def test_the_end_is_estimated_from_what_was_done_and_found(
    samples: list[tuple[int, int, int]], end: tuple[int, int | None] | None
):
    assert estimated_run_end([sample(*one) for one in samples], 50) == end


def test_samples_are_ten_seconds_apart_and_at_most_360():
    assert (SAMPLE_SECONDS, MOST_SAMPLES, END_WINDOW) == (10, 360, 600)


def test_samples_before_the_window_do_not_count():
    now = 10_000
    old = sample(now - END_WINDOW - 1, 0, 10**6)
    recent = [sample(now - END_WINDOW, 100, 700), sample(now, 700, 100)]

    assert estimated_run_end([old, *recent], now) == (now + 100, now + 100)

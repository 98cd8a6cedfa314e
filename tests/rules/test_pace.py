"""How many requests at a time a host gets, by its latency under load."""

import heapq
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from smartcrawl.rules.pace import ALONE, HOLD, SILENT, SLACK, SLOWER, TOGETHER, Pace

MOST = 3  #: requests at a time that are permitted


def answered(pace: Pace, latency: float, count: int, start: float, status: int = 200) -> Pace:
    """The pace after some answers, a second apart, to requests that were sent after ``start``."""
    for number in range(count):
        pace = pace.after(status, latency, start + latency + number + 1)
    return pace


def held_until(end: float, holds: int) -> Pace:
    """A host that gets one request at a time until then."""
    return Pace(since=end, doubted=True, holds=holds, held=end)


def together(latency: float = 1.0) -> Pace:
    """A host that was measured alone and now gets several requests; the last answer was at 5 s."""
    return answered(Pace(), latency, ALONE, 0)


def test_the_numbers():
    assert (ALONE, TOGETHER, SLOWER, SLACK, HOLD, SILENT) == (4, 8, 1.5, 0.05, 60, 2)


def test_a_host_gets_one_request_at_a_time_until_its_own_latency_is_known():
    pace = Pace()
    assert (pace.since, pace.latencies, pace.alone, pace.doubted, pace.holds) == (
        0, (), None, False, 0,
    )  # fmt: skip
    assert (pace.held, pace.silent) == (0, 0)
    for number, latency in enumerate([4, 1, 2, 9], start=1):
        assert pace.is_single
        pace = pace.after(200, latency, 10 * number)
    assert not pace.is_single
    assert pace == Pace(since=40, alone=2), "the lower one of the two in the middle"


@pytest.mark.parametrize("status", [200, 204, 301, 304, 399])
def test_an_answer_without_an_error_counts(status: int):
    assert Pace().after(status, 1, 1) == Pace(latencies=(1,))


@pytest.mark.parametrize("status", [400, 403, 404, 410, 428, 430, 500, 502, 504])
def test_an_error_shows_no_latency(status: int):
    assert Pace().after(status, 1, 5) == Pace()


@pytest.mark.parametrize(("latency", "counts"), [(-1, False), (0, False), (0.001, True)])
def test_an_answer_that_no_server_gave_shows_none(latency: float, counts: bool):
    assert bool(Pace().after(200, latency, 5).latencies) is counts


@pytest.mark.parametrize(("now", "counts"), [(10.9, False), (11, True), (11.1, True)])
def test_only_requests_after_the_last_decision_count(now: float, counts: bool):
    assert bool(Pace(since=10).after(200, 1, now).latencies) is counts


@pytest.mark.parametrize(
    ("alone", "latency", "slower"),
    [
        (1, 1, False),
        (1, SLOWER, False),
        (1, SLOWER + 0.01, True),
        (0.01, 0.01 + SLACK, False),
        (0.01, 0.011 + SLACK, True),
        (2 * SLACK, 3 * SLACK, False),
        (0.2, 0.29, False),
        (0.2, 0.31, True),
    ],
)
def test_the_middle_of_several_answers_is_compared(alone: float, latency: float, slower: bool):
    low, high = [0.001] * (TOGETHER // 2 - 1), [99.0] * (TOGETHER // 2)
    pace = Pace(alone=alone)
    for number, each in enumerate([*high, latency, *low], start=1):
        assert not pace.is_single
        pace = pace.after(200, each, 100.0 * number)
    assert pace.is_single is slower
    assert pace == (Pace(since=100.0 * TOGETHER, doubted=True) if slower else Pace(alone=alone))


def test_a_host_whose_pages_are_slower_keeps_its_requests():
    """What is slow alone is slow by itself: the load did not do it."""
    pace = answered(together(1), 4, TOGETHER, 5)
    assert pace.is_single
    assert pace.doubted
    pace = answered(pace, 4, ALONE, pace.since)
    assert (pace.alone, pace.is_single, pace.doubted) == (4, False, True)
    pace = answered(pace, 4, TOGETHER, pace.since)
    assert (pace.alone, pace.is_single, pace.doubted, pace.holds) == (4, False, False, 0)


def test_a_host_that_is_slower_under_load_twice_gets_one_at_a_time():
    pace = answered(together(1), 3, TOGETHER, 5)
    assert (pace.is_single, pace.doubted, pace.holds) == (True, True, 0)
    pace = answered(pace, 1, ALONE, pace.since)
    now = pace.since + 3 + TOGETHER
    held = answered(pace, 3, TOGETHER, pace.since)
    assert held == held_until(now + HOLD, 1)
    pace = answered(held, 1, ALONE, held.since)
    assert (pace.is_single, pace.doubted, pace.holds) == (False, True, 1)
    assert answered(pace, 3, TOGETHER, pace.since).holds == 2, "no second look is needed then"
    assert answered(pace, 1, TOGETHER, pace.since).doubted is False


def test_the_time_of_a_hold_is_doubled_up_to_an_hour():
    pace, seconds = together(), []
    for _ in range(9):
        now = pace.held + 59
        pace = replace(pace, since=0.0).after(503, 1, now)
        seconds.append(pace.since - now)
    assert seconds == [60, 120, 240, 480, 960, 1920, 3840, 3840, 3840]


@pytest.mark.parametrize(
    ("rest", "holds"),
    [
        (0, 4), (239.9, 4), (240, 3), (359.9, 3), (360, 2), (419.9, 2), (420, 1), (9_999, 1),
    ],
)  # fmt: skip
def test_a_host_that_was_not_held_for_as_long_forgets_a_hold(rest: float, holds: int):
    """The third hold took 240 s, the second 120 s, the first 60 s."""
    pace = held_until(1_000, 3).after(503, 1, 1_000 + rest)
    assert pace.holds == holds
    assert pace.since == 1_000 + rest + HOLD * 2 ** (holds - 1)


def test_the_longest_hold_is_forgotten_after_as_long():
    assert held_until(1_000, 9).after(503, 1, 1_000 + 3_839).holds == 10
    assert held_until(1_000, 9).after(503, 1, 1_000 + 3_840).holds == 9


def test_what_is_measured_alone_is_not_the_end_of_the_hold():
    """``since`` moves with each decision."""
    pace = answered(held_until(80, 1), 1, ALONE, 80)
    assert (pace.since, pace.held) == (85, 80)
    assert pace.after(503, 1, 140).holds == 1


@pytest.mark.parametrize("pace", [Pace(), together()])
def test_two_time_outs_in_a_row_hold_a_host(pace: Pace):
    once = pace.after_time_out(180, 200)
    assert once == replace(pace, silent=1)
    assert once.after_time_out(180, 300) == held_until(360, 1)


@pytest.mark.parametrize(
    ("status", "latency", "silent"), [(200, 1, 0), (404, 1, 0), (200, 0, 1), (200, -1, 1)]
)
def test_an_answer_between_two_time_outs_shows_that_the_page_was_slow(
    status: int, latency: float, silent: int
):
    pace = together().after_time_out(180, 200).after(status, latency, 210)
    assert pace.silent == silent
    assert pace.after_time_out(180, 300).is_single is bool(silent)


def test_an_answer_after_a_time_out_counts_as_any_other():
    assert Pace(silent=1).after(200, 3, 10) == Pace(latencies=(3,))


@pytest.mark.parametrize(("now", "counts"), [(189.9, False), (190, True)])
def test_a_time_out_of_a_request_from_before_the_last_decision_counts_not(now: float, counts: bool):
    assert Pace(since=10).after_time_out(180, now).silent == counts


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("pace", [Pace(), together()])
def test_a_host_that_says_so_gets_one_at_a_time_at_once(status: int, pace: Pace):
    held = pace.after(status, 0, 20)
    assert held == held_until(80, 1)
    assert held.after(status, 1, 79.9) is held, "it is held already"
    assert held.after(200, 1, 79.9) is held
    again = held.after(status, 1, 80)
    assert again == held_until(200, 2)


def test_the_time_with_one_request():
    assert together().single_until(1, 50) == 50
    assert Pace(since=5).single_until(0.5, 10) == 14
    assert Pace(since=10).single_until(0.5, 5) == 14
    assert Pace(since=5, latencies=(1, 1, 1)).single_until(0.5, 10) == 11


# A host under load, simulated


Serve = Callable[[int, random.Random], float]  #: latency by requests in flight, this one included


def crawl(serve: Serve, pages: int = 600, seed: int = 1) -> tuple[float, float]:
    """Ask one page after another; return the pages a second and the mean of those in flight."""
    draw, pace, flying = random.Random(seed), Pace(), list[tuple[float, float]]()
    now = load = 0.0
    asked = 0
    while asked < pages or flying:
        while asked < pages and len(flying) < (1 if pace.is_single else MOST):
            latency = serve(len(flying) + 1, draw)
            heapq.heappush(flying, (now + latency, latency))
            asked += 1
        end, latency = heapq.heappop(flying)
        load += (end - now) * (len(flying) + 1)
        now = end
        pace = pace.after(200, latency, now)
    return pages / now, load / now


def steady(latency: float, spread: float = 0.0) -> Serve:
    return lambda flying, draw: latency * draw.lognormvariate(0, spread)


@pytest.mark.parametrize("latency", [0.005, 0.05, 0.5])
@pytest.mark.parametrize(("spread", "flying"), [(0, 2.9), (0.3, 2.7)])
def test_a_host_that_keeps_its_latency_gets_all_requests(
    latency: float, spread: float, flying: float
):
    assert crawl(steady(latency, spread))[1] > flying


def test_61_pages_of_400_ms_take_nine_seconds():
    assert 61 / crawl(steady(0.4), 61)[0] == pytest.approx(9.2)


@pytest.mark.parametrize("spread", [0, 0.3])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_host_that_slows_down_gets_one(spread: float, power: int, seed: int):
    """One that serves one at a time, and one that loses even by that."""
    rate, flying = crawl(
        lambda flying, draw: 0.3 * flying**power * draw.lognormvariate(0, spread), seed=seed
    )
    assert flying < 1.4
    assert rate > 0.7 / 0.3 / 1.05

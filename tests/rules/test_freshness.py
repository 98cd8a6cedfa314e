"""Visits within a budget: estimated rates, what a visit is worth, prices, choices and replays."""

import random
from collections.abc import Sequence
from itertools import pairwise
from math import exp
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules import freshness
from smartcrawl.rules.freshness import (
    HISTORY,
    NO_HISTORY,
    Census,
    Freshness,
    History,
    Outlook,
    Terms,
    Waiting,
    change_rate,
    chosen_pages,
    pace_of_runs,
    parsed_budget,
    parsed_target,
    rate_class,
    rate_of_class,
    replay_budget,
    requests_left,
    stale_seconds,
    stale_share,
    visit_value,
)

DAY = 86_400
HOUR = 3_600
TERMS = Terms(within=DAY, pace=DAY, longest=14 * DAY)
RATES = st.floats(1 / (1_000 * DAY), 1 / 120)


# The keys


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("95% within 24h", (0.95, DAY)),
        (" 95 % within 1 d ", (0.95, DAY)),
        ("100% within 365d", (1, 365 * DAY)),
        ("0.01% within 1min", (0.0001, 60)),
        ("99.25% within 90min", (0.9925, 5_400)),
    ],
)
def test_a_target_is_a_share_and_a_time(text: str, target: tuple[float, int]):
    assert parsed_target(text) == pytest.approx(target)


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "95%", "within 24h", "0% within 24h", "101% within 24h", "100.01% within 1h",
        "95% within 0h", "95% within 366d", "95% within 24", "95% within 24s", "-5% within 1h",
        "95 within 24h", "95% within 24h or so", "1000% within 1h", "95% within 10000min",
        "95.123% within 24h", "95%within 24h",
    ],
)  # fmt: skip
def test_anything_else_is_no_target(text: str):
    with pytest.raises(ValueError, match=r'min, h or d, up to 365d, as in "95% within 24h"$'):
        parsed_target(text)


def test_a_budget_is_a_number_of_requests_a_day():
    assert parsed_budget("20000 requests/day") == 20_000
    assert parsed_budget(" 1 request/day ") == 1
    assert parsed_budget("1000000000 requests/day") == 10**9


@pytest.mark.parametrize(
    "text",
    ["", "20000", "0 requests/day", "1000000001 requests/day", "20,000 requests/day",
     "5 requests/hour",
        "5 requests/da", "-5 requests/day", "5 requests/days", "12345678901 requests/day"],
)  # fmt: skip
def test_anything_else_is_no_budget(text: str):
    with pytest.raises(
        ValueError, match=r'^expected .* 1 to 1000000000, as in "20000 requests/day"$'
    ):
        parsed_budget(text)


def test_changes_of_half_a_year_count():
    assert HISTORY == 180 * DAY


# Rates


def test_histories_are_added():
    assert History(1, 2, 3).with_history(History(10, 20, 30)) == (11, 22, 33)
    assert NO_HISTORY == (0, 0, 0)


def test_a_page_without_history_changes_like_its_neighbours():
    for rate in (1 / HOUR, 1 / DAY, 1 / (90 * DAY)):
        assert change_rate(NO_HISTORY, rate) == pytest.approx(rate)


def test_the_rates_of_some_histories():
    usual = 1 / DAY
    assert change_rate(History(0, 0, 9.5 * DAY), usual) * DAY == pytest.approx(0.05)
    assert change_rate(History(0, 5, 3), usual) * DAY == pytest.approx(1)
    # ten changes in gaps of a day, and twenty days without: as by the specification of the rule
    assert change_rate(History(10, 10 * DAY, 30 * DAY), usual) * DAY == pytest.approx(
        0.4165, abs=1e-3
    )
    assert change_rate(History(1, 0.5, 30 * DAY), usual) * DAY == pytest.approx(0.0492, abs=1e-3)
    assert change_rate(History(1, 0, 301), 1 / 60) == pytest.approx(0.0045251, rel=1e-4)
    # more seconds in gaps than there were: a clock was set back
    assert change_rate(History(2, 3 * DAY, DAY), usual) * DAY == pytest.approx(1.9419, abs=1e-3)


@pytest.mark.parametrize("mean", [6 * HOUR, DAY, 7 * DAY, 30 * DAY])
def test_the_rate_of_a_page_is_found_from_visits_with_gaps_of_their_own(mean: float):
    """Also of one that changes more often than it is visited."""
    rng, found = random.Random(5), []
    for _ in range(60):
        history, now = NO_HISTORY, 0
        while now < 150 * DAY:
            gap = rng.choice([DAY, 2 * DAY, 3 * DAY]) if mean > DAY else rng.choice([8, 12]) * HOUR
            changed = rng.random() > exp(-gap / mean)
            history = history.with_history(History(changed, gap * changed, gap))
            now += gap
        found.append(change_rate(history, 1 / DAY) * mean)

    assert 0.85 < sum(found) / len(found) < 1.2


def test_a_page_that_was_always_found_changed_has_a_bounded_rate():
    hourly = change_rate(History(500, 500 * DAY, 500 * DAY), 1 / DAY)
    assert 5 / DAY < hourly < 10 / DAY
    assert change_rate(History(1e9, 1e9, 1e9), 1e9) == pytest.approx(1 / 60)
    assert change_rate(History(9, 9_000 * DAY, 9_000 * DAY), 1) == pytest.approx(
        52.944 / (1_000 * DAY), rel=1e-4
    )
    assert change_rate(History(0, 0, 10**12), 1) * 3_650 * DAY == pytest.approx(1)


@given(rate=RATES)
def test_a_class_has_rates_that_differ_by_a_tenth(rate: float):
    assert rate_of_class(rate_class(rate)) == pytest.approx(rate, rel=0.0513)
    assert rate_class(rate * 1.1052) == rate_class(rate) + 1


def test_rates_beyond_the_bounds_are_in_the_outermost_classes():
    assert rate_class(0) == rate_class(1 / (3_650 * DAY)) == -196
    assert rate_class(9) == rate_class(1 / 60) == -41


# Values


def test_the_stale_seconds_of_an_interval():
    assert stale_seconds(1, DAY, DAY) == 0
    assert stale_seconds(1, HOUR, DAY) == 0
    assert stale_seconds(1, DAY - 0.5, DAY) == 0
    assert stale_seconds(1 / DAY, 2 * DAY, DAY) / DAY == pytest.approx(exp(-1))
    assert stale_seconds(1 / HOUR, 3 * DAY, DAY) / DAY == pytest.approx(2 - 1 / 24, rel=1e-6)


@given(rate=RATES, waited=st.integers(0, 50 * DAY), pace=st.integers(60, 9 * DAY))
def test_the_value_of_a_visit_grows_while_a_page_waits(rate: float, waited: int, pace: int):
    def value(at: int) -> float:
        return visit_value(rate, at, within=DAY, pace=pace)

    assert -1e-3 <= value(waited) <= value(waited + HOUR) + 1e-3
    assert value(waited) <= (DAY + 1 / rate + pace) * 1.001


def test_a_visit_is_worth_nothing_before_a_change_can_be_late():
    assert visit_value(1 / HOUR, 10 * HOUR, within=DAY, pace=14 * HOUR) == 0
    assert visit_value(1 / HOUR, 10 * HOUR, within=DAY, pace=15 * HOUR) > 0


def test_pages_that_change_too_fast_are_worth_less():
    values = [visit_value(1 / mean, 4 * DAY, within=HOUR, pace=HOUR)
              for mean in (HOUR, 6 * HOUR, DAY, 3 * DAY)]  # fmt: skip
    assert values == sorted(values)


def test_the_share_from_a_run_to_the_next_is_the_mean_of_its_time():
    seconds = stale_seconds(1 / DAY, 5 * DAY, DAY)
    parts = [stale_share(1 / DAY, n * DAY, within=DAY, pace=DAY) for n in range(5)]
    assert sum(parts) * DAY == pytest.approx(seconds)
    assert parts[0] == 0 < parts[1] < parts[2]


def cost_a_second(rate: float, runs: int, price: float) -> float:
    interval = runs * TERMS.pace
    return (stale_seconds(rate, interval, TERMS.within) + price) / interval


@given(rate=RATES, price=st.floats(1, 30 * DAY))
def test_the_interval_at_a_price_is_the_best_one(rate: float, price: float):
    """No other number of runs has less of stale time and price together."""
    runs = TERMS.runs_between(rate, price)
    costs = {n: cost_a_second(rate, n, price) for n in range(1, 15)}
    assert costs[runs] <= min(costs.values()) * (1 + 1e-9)


def test_the_interval_is_never_longer_than_the_longest():
    assert TERMS.most_runs == 14
    assert TERMS.runs_between(1 / (900 * DAY), 1e12) == 14
    assert TERMS.runs_between(1 / HOUR, 0) == 1
    assert Terms(within=1, pace=5, longest=3).most_runs == 1
    assert Terms(within=1, pace=5, longest=3).runs_between(1, 1e12) == 1


def test_a_planned_visit_is_half_a_run_early():
    assert TERMS.planned_wait(1 / HOUR, 0) == DAY // 2
    assert TERMS.planned_wait(1 / (900 * DAY), 1e12) == 13 * DAY + DAY // 2
    assert Terms(within=1, pace=1, longest=1).planned_wait(1, 1) == 1
    assert Terms(within=1, pace=3, longest=1).planned_wait(1, 1) == 2


def test_a_page_is_overdue_in_the_run_nearest_to_the_longest_interval():
    assert not TERMS.is_overdue(13.5 * DAY - 1)
    assert TERMS.is_overdue(13.5 * DAY)


# What a budget buys

SITE = Census({rate_class(1 / (7 * DAY)): 600, rate_class(1 / HOUR): 400}, TERMS)


def test_a_census_knows_its_bounds():
    assert SITE.pages == 1_000
    assert SITE.least.requests == pytest.approx(1_000 / 14)
    assert SITE.most.requests == pytest.approx(1_000)
    assert SITE.most.stale == 0
    slow = SITE.outlook(DAY / 4)
    daily, weekly = 400, 600 / TERMS.runs_between(rate_of_class(rate_class(1 / (7 * DAY))), DAY / 4)
    assert slow.requests == pytest.approx(daily + weekly)
    assert 0 < slow.stale < SITE.least.stale < 1
    assert Census({}, TERMS).outlook(1) == Outlook(0, 0, 1)
    one = rate_class(1 / DAY)
    alone = stale_seconds(rate_of_class(one), 14 * DAY, DAY) / (14 * DAY)
    assert Census({one: 1}, TERMS).least.stale == pytest.approx(alone)


@pytest.mark.parametrize("requests", [80, 200, 395, 450, 700, 999])
def test_a_budget_is_spent_and_buys_the_less_the_smaller_it_is(requests: int):
    found = SITE.bought_by(requests)
    assert found.requests == pytest.approx(requests)
    assert SITE.bought_by(requests + 5).stale < found.stale
    assert SITE.outlook(found.price * 1.01).requests <= requests + 1e-6


def test_more_than_enough_buys_all_and_too_little_the_least():
    assert SITE.bought_by(5_000) == SITE.most
    assert SITE.bought_by(1_000).stale == SITE.most.stale
    assert SITE.bought_by(5) == SITE.least
    assert Census({rate_class(1 / DAY): 1}, TERMS).bought_by(0.3).requests == pytest.approx(0.3)


@pytest.mark.parametrize("stale", [0.02, 0.1, 0.2, 0.3])
def test_a_target_costs_what_buys_it(stale: float):
    cost = SITE.cost_of(stale)
    assert cost is not None
    assert cost.stale == pytest.approx(stale)
    assert SITE.bought_by(cost.requests).stale == pytest.approx(stale, abs=1e-4)


def test_a_target_that_needs_nothing_costs_the_least():
    assert SITE.cost_of(0.99) == SITE.least
    assert SITE.cost_of(SITE.least.stale) == SITE.least


def test_a_target_beyond_the_pace_of_the_runs_is_not_reached():
    weekly = Census(SITE.counts, Terms(within=DAY, pace=7 * DAY, longest=14 * DAY))
    assert weekly.cost_of(0.05) is None
    found = weekly.cost_of(weekly.most.stale)
    assert found is not None
    assert found.requests == pytest.approx(1_000 / 7)


# The choice


def test_the_most_valuable_pages_come_first():
    day, week = 1 / DAY, 1 / (7 * DAY)
    pages = [Waiting(1, week, 3 * DAY), Waiting(2, day, 3 * DAY), Waiting(3, week, 5 * DAY)]
    values = {no: visit_value(rate, waited, within=DAY, pace=DAY) for no, rate, waited in pages}
    order = sorted(values, key=lambda no: -values[no])
    for count in range(4):
        assert chosen_pages(pages, count, TERMS, 0) == set(order[:count])
    assert chosen_pages(pages, -3, TERMS, 0) == set()


def test_below_the_price_the_longest_wait_decides():
    pages = [Waiting(1, 1 / DAY, 2 * DAY), Waiting(2, 1 / (90 * DAY), 9 * DAY),
             Waiting(3, 1 / DAY, 3 * DAY)]  # fmt: skip
    value = visit_value(1 / DAY, 3 * DAY, within=DAY, pace=DAY)
    assert chosen_pages(pages, 1, TERMS, value) == {3}
    assert chosen_pages(pages, 2, TERMS, value) == {3, 2}
    assert chosen_pages(pages, 1, TERMS, value * 1.001) == {2}


def test_a_page_whose_time_is_over_is_visited_whatever_the_budget_is():
    pages = [Waiting(no, 1 / (90 * DAY), 14 * DAY) for no in (1, 2)] + [Waiting(3, 1, 5 * DAY)]
    assert chosen_pages(pages, 0, TERMS, 0) == {1, 2}
    assert chosen_pages(pages, 2, TERMS, 0) == {1, 2}
    assert chosen_pages(pages, 3, TERMS, 0) == {1, 2, 3}


def test_a_page_that_cannot_be_stale_before_the_next_run_is_left_out():
    hourly = Terms(within=DAY, pace=HOUR, longest=14 * DAY)
    pages = [Waiting(1, 1 / HOUR, 23 * HOUR), Waiting(2, 1 / HOUR, 23 * HOUR + 1)]
    assert chosen_pages(pages, 9, hourly, 0) == {2}


# Requests


@pytest.mark.parametrize(
    ("runs", "now", "left"),
    [
        ([], 0, 1_000),  # nothing was spent
        ([(0, 1_000)], 0, 0),
        ([(0, 1_000)], DAY // 4, 250),
        ([(0, 1_000)], DAY, 1_000),
        ([(0, 500)], 9 * DAY, 1_000),  # saved for a day at most
        ([(0, 1_000), (DAY // 2, 500)], DAY, 500),
        ([(0, 1_000), (DAY // 2, 700)], DAY, 300),
        ([(0, 99_000)], 0, -1_000),  # a debt of a day at most
        ([(0, 99_000)], DAY, 0),
        ([(DAY, 600), (0, 100)], 0, 300),  # a clock that was set back saves nothing
    ],
)
def test_requests_are_saved_up_for_a_day(runs: list[tuple[int, int]], now: int, left: int):
    assert requests_left(runs, 1_000, now) == left


def test_the_pace_is_the_median_of_the_last_gaps():
    assert pace_of_runs([], 14 * DAY) == pace_of_runs([7], 14 * DAY) == DAY
    assert pace_of_runs([0, 100], 14 * DAY) == 100
    assert pace_of_runs([0, HOUR, 2 * HOUR, 9 * DAY], 14 * DAY) == HOUR
    assert pace_of_runs([0, 1], 14 * DAY) == 60
    assert pace_of_runs([0, 60 * DAY], 14 * DAY) == 14 * DAY
    before = [day * DAY for day in range(50)]
    last = before[-1]
    assert pace_of_runs([*before, *(last + n * HOUR for n in range(1, 11))], 14 * DAY) == 45_000
    assert pace_of_runs([*before, *(last + n * HOUR for n in range(1, 12))], 14 * DAY) == HOUR


# Replays


class Drawn:
    """A page that changes at random."""

    def __init__(self, mean: float, seed: int, first_seen: float = 0) -> None:
        self.mean = mean
        self.first_seen = first_seen
        self.visits: list[float] = []
        self._rng = random.Random(seed)

    def changed_between(self, after: float, until: float) -> Sequence[float]:
        self.visits.append(until)
        at = after + self._rng.expovariate(1 / self.mean)
        return [at] if at <= until else []


class Known(Drawn):
    """A page whose changes are known."""

    def __init__(self, *changes: float, first_seen: float = 0) -> None:
        super().__init__(1, 0, first_seen)
        self.changes = changes

    def changed_between(self, after: float, until: float) -> Sequence[float]:
        self.visits.append(until)
        return [at for at in self.changes if after < at <= until]


def replayed(pages: Sequence[Drawn], budget: int, *, days: float = 30, since: float = 0,
             terms: Terms = TERMS) -> freshness.BudgetReplay:  # fmt: skip
    given = Freshness(0.95, terms.within, budget)
    return replay_budget(pages, given, terms, usual=1 / DAY, since=since, now=days * DAY)


def test_a_replay_of_one_page_counts_its_requests_delays_and_stale_time():
    page = Known(1.5 * DAY, 1.75 * DAY, 4.5 * DAY)
    found = replayed([page], 9, days=5.25)

    # it is visited once a day: what a day's wait is worth is more than the price
    assert page.visits == [DAY, 2 * DAY, 3 * DAY, 4 * DAY, 5 * DAY, 5.25 * DAY]
    assert found.requests == 5
    assert [delay / DAY for delay in found.delays] == [0.5, 0.25, 0.5]
    assert (found.waiting, found.stale) == (0, 0)
    assert found.census.pages == 1
    assert found.census.terms == TERMS


def test_a_change_that_waits_longer_than_permitted_is_stale():
    page = Known(0.5 * DAY, 6.25 * DAY, 6.5 * DAY)
    slow = Terms(within=DAY, pace=2 * DAY, longest=14 * DAY)
    found = replayed([page], 9, days=7.75, terms=slow)

    assert page.visits == [2 * DAY, 4 * DAY, 6 * DAY, 7.75 * DAY]
    assert found.stale * 7.75 == pytest.approx(0.5 + 0.5)
    assert (found.requests, found.waiting) == (3, 2)
    assert found.delays == [1.5 * DAY]
    (number,) = found.census.counts
    share = stale_share(rate_of_class(number), 0, within=DAY, pace=2 * DAY)
    assert found.estimate == pytest.approx(share)


def test_only_the_window_counts():
    page = Known(0.5 * DAY, 2.5 * DAY)
    slow = Terms(within=DAY, pace=2 * DAY, longest=14 * DAY)
    found = replayed([page], 9, days=6, since=1.75 * DAY, terms=slow)

    assert found.requests == 3
    assert found.delays == [1.5 * DAY]
    assert found.stale * (6 - 1.75) == pytest.approx(0.25 + 0.5)
    later = replayed([Known(first_seen=3 * DAY)], 9, days=6, since=2 * DAY)
    assert later.requests == 1 + 3
    assert replayed([Known(first_seen=2 * DAY)], 9, days=6, since=2 * DAY).requests == 4


def test_a_page_is_taken_from_its_first_visit_on():
    early, late = Known(), Known(first_seen=2.5 * DAY)
    found = replayed([late, early], 9, days=4)
    assert early.visits[0] == DAY
    assert late.visits[0] == 3 * DAY
    assert found.census.pages == 2
    assert replayed([], 9) == (0, [], 0, 0.0, 0.0, Census({}, TERMS))


def test_a_replay_keeps_to_its_budget():
    pages = [Drawn(DAY * (1 + n % 9), n) for n in range(40)]
    found = replayed(pages, 10, days=30)
    runs: dict[float, int] = {}
    for page in pages:
        for at in page.visits[:-1]:
            runs[at] = runs.get(at, 0) + 1
    assert found.requests == sum(runs.values()) == 10 * 30
    assert set(runs.values()) == {10}
    assert max(b - a for page in pages for a, b in pairwise([0, *page.visits])) <= 14 * DAY


def test_a_budget_that_is_too_small_is_exceeded_for_the_longest_interval_alone():
    pages = [Drawn(90 * DAY, n) for n in range(56)]
    found = replayed(pages, 1, days=56)
    assert max(b - a for page in pages for a, b in pairwise([0, *page.visits])) <= 14 * DAY
    assert 56 * 3 <= found.requests <= 56 * 4 + 56


def test_below_the_price_a_replay_takes_the_longest_wait_first():
    quiet = [Known() for _ in range(20)]
    replayed(quiet, 4, days=13)
    first = [page.visits[0] / DAY for page in quiet]
    assert sorted(first) == sorted([1, 2, 3, 4, 5] * 4)


@pytest.mark.parametrize(("pace", "share"), [(DAY, 1), (6 * HOUR, 1)])
def test_a_budget_keeps_more_pages_fresh_than_one_interval_for_all(pace: int, share: float):
    """The site of bench/freshness, small."""
    means = (HOUR, 6 * HOUR, DAY, 7 * DAY, 90 * DAY)
    pages = [Drawn(means[n % 5], n) for n in range(100)]
    terms = Terms(within=DAY, pace=pace, longest=14 * DAY)
    budget = 72
    found = replayed(pages, budget, days=24, since=12 * DAY, terms=terms)
    interval = 100 / budget * DAY
    alike = sum(stale_seconds(1 / mean, interval, DAY) / interval for mean in means) / 5

    assert found.requests == pytest.approx(budget * 12, rel=0.02)
    assert found.stale * 1.5 < alike
    assert found.stale == pytest.approx(found.estimate, abs=0.01)


def test_a_replay_is_the_same_whenever_it_begins():
    """Prices are found anew by the time since the first visit, not by that of the clock."""

    def visits(begin: int) -> list[list[float]]:
        pages = [Drawn((1 + n % 7) * DAY, n, first_seen=begin) for n in range(14)]
        given = Freshness(0.95, DAY, 4)
        replay_budget(pages, given, TERMS, usual=1 / DAY, since=begin, now=begin + 60 * DAY)
        return [[at - begin for at in page.visits] for page in pages]

    assert visits(1 << 30) == visits(0)


def test_a_replay_counts_nothing_before_its_window_nor_at_its_first_second():
    page = Known(5 * DAY, 6.25 * DAY)
    slow = Terms(within=DAY, pace=2 * DAY, longest=14 * DAY)
    found = replayed([page], 9, days=7.75, since=5 * DAY, terms=slow)
    assert found.delays == []
    assert found.stale * 2.75 == pytest.approx(0.5)


def test_a_page_is_not_visited_before_a_change_can_be_late():
    page = Known()
    replayed([page], 99, days=3, terms=Terms(within=DAY, pace=HOUR, longest=14 * DAY))
    assert page.visits[0] == DAY


def test_the_price_is_found_ever_more_rarely():
    """Daily for eight days, and then after an eighth of the time so far."""
    census, times = freshness.Census.bought_by, []

    def counted(self: Census, requests: float) -> Outlook:
        times.append(requests)
        return census(self, requests)

    with patch.object(freshness.Census, "bought_by", counted):
        replayed([Known(first_seen=DAY)], 9, days=31)
    assert len(times) == 18

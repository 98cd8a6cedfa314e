"""Visits within a budget: which pages to visit, so that few of them are stale.

A page is *stale* while a change of it has waited for longer than the target allows. Changes of a
page come at random, at a rate of its own (a Poisson process). Times are in seconds, rates in
changes a second.

Source: Cho and Garcia-Molina, "Effective page refresh policies" and "Estimating frequency of
change"; Azar and others, "Tractable near-optimal policies for crawling".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, nlargest
from itertools import pairwise
from math import exp, expm1, log, log1p, sqrt
from statistics import median
from typing import Final, NamedTuple, Protocol

from smartcrawl.rules.schedule import DAY

HISTORY: Final = 180 * DAY  #: how far back changes count: pages change their habits
MOST_BUDGET: Final = 1_000_000_000  #: requests a day
MOST_WITHIN: Final = 365 * DAY
_WEIGHT: Final = 0.5  #: changes that the usual rate is worth beside those of a page
_LEAST_RATE: Final = 1 / (3_650 * DAY)
_MOST_RATE: Final = 1 / 60
_STEPS: Final = 10  #: classes of rates in a factor of e: neighbours differ by 10 %
_MOST_EXPONENT: Final = 50.0
_LEAST_PRICE: Final = 0.001
_MOST_PRICE: Final = 1e10
_HALVINGS: Final = 25  #: of the range of prices: to a millionth
_REPRICES: Final = 8  #: an eighth of the time so far is between two prices of a replay
_LEAST_PACE: Final = 60
_GAPS: Final = 20  #: between the last runs, that the pace is the median of

_TARGET: Final = re.compile(r"(\d{1,3}(?:\.\d{1,2})?) ?% within (\d{1,4}) ?(min|h|d)")
_BUDGET: Final = re.compile(r"(\d{1,10}) requests?/day")
_UNITS: Final = {"min": 60, "h": 3_600, "d": DAY}


@dataclass(frozen=True, slots=True)
class Freshness:
    """The target of a source, and the requests that it may take."""

    share: float  #: of its pages that are to be fresh, up to 1
    within: int  #: seconds that a change may wait
    budget: int  #: requests a day


def parsed_target(text: str) -> tuple[float, int]:
    """Return the share of a target and its seconds.

    >>> parsed_target("95% within 24h"), parsed_target("99.5 % within 30 min")
    ((0.95, 86400), (0.995, 1800))

    Raises:
        ValueError: it is no target; the message is what was expected.
    """
    found = _TARGET.fullmatch(text.strip())
    if found is not None:
        percent, seconds = float(found[1]), int(found[2]) * _UNITS[found[3]]
        if 0 < percent <= 100 and 0 < seconds <= MOST_WITHIN:
            return percent / 100, seconds
    raise ValueError(
        'expected a share and a time in min, h or d, up to 365d, as in "95% within 24h"'
    )


def parsed_budget(text: str) -> int:
    """Return the requests a day of a budget.

    >>> parsed_budget("20000 requests/day")
    20000

    Raises:
        ValueError: it is no budget; the message is what was expected.
    """
    found = _BUDGET.fullmatch(text.strip())
    if found is not None and 0 < (requests := int(found[1])) <= MOST_BUDGET:
        return requests
    raise ValueError(f'expected a number from 1 to {MOST_BUDGET}, as in "20000 requests/day"')


# How often a page changes


class History(NamedTuple):
    """The visits to one page, or to many pages together."""

    changes: float  #: visits that found it changed
    gaps: float  #: seconds from the visit before to each of these, added up
    seconds: float  #: between the first visit and the last one

    def with_history(self, other: History) -> History:
        """Return both histories as one."""
        return History(
            self.changes + other.changes, self.gaps + other.gaps, self.seconds + other.seconds
        )


NO_HISTORY: Final = History(0, 0, 0)


def change_rate(history: History, usual: float) -> float:
    """Return the estimated rate at which a page changes; ``usual``: that of pages like it.

    A visit finds one change or several alike. So the rate follows from the time without a change
    and from the mean gap in which one fell, not from their number alone: that would be too low for
    a page that changes more often than it is visited. ``usual`` weighs as much as half a change.

    >>> weekly = 1 / (7 * DAY)
    >>> [round(change_rate(History(n, n * DAY, 30 * DAY), weekly) * DAY, 2) for n in (0, 3, 29)]
    [0.01, 0.11, 2.07]

    Source: Cho and Garcia-Molina, "Estimating frequency of change", section 4, for visits with
    gaps of their own.
    """
    changes, gaps, seconds = history
    quiet = max(seconds - gaps, 0)
    if changes <= 0:
        return _bounded(_WEIGHT / (quiet + _WEIGHT / usual))
    gap = max(gaps / changes, 1)
    like = _WEIGHT * gap / expm1(min(usual * gap, _MOST_EXPONENT))
    return _bounded(log1p((changes + _WEIGHT) * gap / (quiet + like)) / gap)


def _bounded(rate: float) -> float:
    return min(max(rate, _LEAST_RATE), _MOST_RATE)


def rate_class(rate: float) -> int:
    """Return the class of a rate; pages of one class count as equal."""
    return round(log(_bounded(rate)) * _STEPS)


def rate_of_class(number: int) -> float:
    """Return the rate of a class.

    >>> 0.95 < rate_of_class(rate_class(1 / DAY)) * DAY < 1.05
    True
    """
    return exp(number / _STEPS)


# What a visit is worth


def stale_seconds(rate: float, interval: float, within: float) -> float:
    """Return the seconds for which a page is stale, on average, in an interval between two visits.

    >>> round(stale_seconds(1 / DAY, 3 * DAY, DAY) / DAY, 2), stale_seconds(1, DAY, DAY)
    (1.14, 0)
    """
    over = interval - within
    return over + expm1(-rate * over) / rate if over > 0 else 0


def stale_share(rate: float, waited: float, *, within: float, pace: float) -> float:
    """Return how likely a page is stale, on average from one run to the next.

    ``waited``: seconds from its last visit to the run before, 0 if that visited it.

    >>> round(stale_share(1 / DAY, 0, within=DAY, pace=2 * DAY), 3)
    0.184
    """
    later = stale_seconds(rate, waited + pace, within)
    return (later - stale_seconds(rate, waited, within)) / pace


def visit_value(rate: float, waited: float, *, within: float, pace: float) -> float:
    """Return what a visit now is worth: the stale seconds that one request spares.

    ``waited``: since the last visit; ``pace``: until the next run, which is the next chance. The
    share of stale pages is least if pages are visited once this reaches a price that is the same
    for all of them. It grows while a page waits, up to ``within`` and the mean time between two of
    its changes. So a page that changes faster than it can be followed is worth less than others.

    >>> [round(visit_value(1 / DAY, n * DAY, within=DAY, pace=DAY) / DAY, 2) for n in (0, 1, 2, 9)]
    [0.0, 0.37, 1.17, 2.0]
    """
    spared = waited * stale_share(rate, waited, within=within, pace=pace)
    return spared - stale_seconds(rate, waited, within)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms under which pages are visited."""

    within: int  #: seconds that a change may wait
    pace: int  #: seconds between two runs
    longest: int  #: seconds after which each page is visited, whatever it is worth

    @property
    def most_runs(self) -> int:
        """The runs after which each page is visited."""
        return max(1, self.longest // self.pace)

    def is_overdue(self, waited: float) -> bool:
        """Whether this run is the last one within the longest interval, or the nearest to it."""
        return waited + self.pace // 2 >= self.longest

    def runs_between(self, rate: float, price: float) -> int:
        """Return how many runs are between two visits of a page at a price, at least 1."""
        return 1 + bisect_left(
            range(1, self.most_runs),
            price,
            key=lambda runs: visit_value(
                rate, runs * self.pace, within=self.within, pace=self.pace
            ),
        )

    def planned_wait(self, rate: float, price: float) -> int:
        """Return the seconds from a visit to the next one that is planned.

        It ends half a run before that run, whose time is never exact.
        """
        return self.runs_between(rate, price) * self.pace - self.pace // 2


class Outlook(NamedTuple):
    """What visits at one price take, and what they bring, in the long run."""

    requests: float  #: a day
    stale: float  #: share of the pages
    price: float


@dataclass(frozen=True, slots=True)
class Census:
    """How many pages there are of each class of rates."""

    counts: Mapping[int, int]
    terms: Terms

    @property
    def pages(self) -> int:
        """The number of pages."""
        return sum(self.counts.values())

    def outlook(self, price: float) -> Outlook:
        """Return what visits at a price take and bring."""
        terms, requests, stale = self.terms, 0.0, 0.0
        for number, count in self.counts.items():
            rate = rate_of_class(number)
            interval = terms.runs_between(rate, price) * terms.pace
            requests += count * DAY / interval
            stale += count * stale_seconds(rate, interval, terms.within) / interval
        return Outlook(requests, stale / max(self.pages, 1), price)

    @property
    def least(self) -> Outlook:
        """The visits that each page gets after the longest interval, and no others."""
        return self.outlook(_MOST_PRICE)

    @property
    def most(self) -> Outlook:
        """Each visit that spares anything."""
        return self.outlook(_LEAST_PRICE)

    def bought_by(self, requests: float) -> Outlook:
        """Return what so many requests a day buy; never less than ``least``."""
        cheap, dear = self._turn(lambda found: found.requests <= requests)
        spare = cheap.requests - dear.requests
        return _mixed(cheap, dear, (requests - dear.requests) / spare if spare > 0 else 0)

    def cost_of(self, stale: float) -> Outlook | None:
        """Return what a share of stale pages takes at least; None: it cannot be reached.

        Runs that are too rare cannot reach it, however much each of them may request.
        """
        if self.most.stale > stale:
            return None
        cheap, dear = self._turn(lambda found: found.stale > stale)
        spared = dear.stale - cheap.stale
        return _mixed(cheap, dear, (dear.stale - stale) / spared if spared > 0 else 1)

    def _turn(self, is_dear: Callable[[Outlook], bool]) -> tuple[Outlook, Outlook]:
        """Return the outlooks on both sides of the price from which on ``is_dear`` holds.

        Where it always holds, or never, both are the one at that end.
        """
        cheap, dear = self.most, self.least
        if is_dear(cheap):
            return cheap, cheap
        if not is_dear(dear):
            return dear, dear
        for _ in range(_HALVINGS):
            middle = self.outlook(sqrt(cheap.price * dear.price))
            if is_dear(middle):
                dear = middle
            else:
                cheap = middle
        return cheap, dear


def _mixed(cheap: Outlook, dear: Outlook, part: float) -> Outlook:
    """Return the outlook if a part of the pages that turn at a price is visited at the lower one.

    Many pages may turn at one price.
    """
    return Outlook(
        dear.requests + part * (cheap.requests - dear.requests),
        dear.stale + part * (cheap.stale - dear.stale),
        dear.price,
    )


# Which pages a run visits


class Waiting(NamedTuple):
    """A stored page that waits for its next visit."""

    no: int  #: the number of its record
    rate: float  #: changes a second
    waited: int  #: seconds since its last visit


def chosen_pages(pages: Iterable[Waiting], requests: int, terms: Terms, price: float) -> set[int]:
    """Return the numbers of the pages that a run visits.

    These are the pages that waited for the longest interval, however many, and as many of the
    others as are left of ``requests``: first those that are worth the ``price``, the most valuable
    first, then those that waited longest. So the latter do not all come to the longest interval
    at once. A page that no change can have made stale before the next run is left out.
    """
    chosen, worth, others = set[int](), list[tuple[float, int]](), list[tuple[float, int]]()
    for no, rate, waited in pages:
        if terms.is_overdue(waited):
            chosen.add(no)
            continue
        value = visit_value(rate, waited, within=terms.within, pace=terms.pace)
        if value <= 0:
            continue
        if value >= price:
            worth.append((value, no))
        else:
            others.append((waited, no))
    for pages_left in (worth, others):
        chosen.update(no for _, no in nlargest(requests - len(chosen), pages_left))
    return chosen


def requests_left(runs: Iterable[tuple[int, int]], budget: int, now: int) -> int:
    """Return the requests that a run may send now; fewer than none if others sent too many.

    Requests of ``budget`` a day are saved up, for a day at most. ``runs``: times (Unix seconds) at
    which runs began, in their order, and the requests of each. No run leaves a debt of more than a
    day.

    >>> requests_left([], 100, 0), requests_left([(0, 100)], 100, DAY // 2)
    (100, 50)
    """
    saved, at = float(budget), None
    for started_at, requests in runs:
        if at is not None:
            saved = _saved(saved, budget, started_at - at)
        saved, at = max(saved - requests, -budget), started_at
    if at is not None:
        saved = _saved(saved, budget, now - at)
    return int(saved)


def _saved(saved: float, budget: int, seconds: float) -> float:
    return min(saved + budget * max(seconds, 0) / DAY, budget)


def pace_of_runs(times: Sequence[int], longest: int) -> int:
    """Return the usual seconds between two runs, by the times at which the last ones began.

    A day, until there are two.

    >>> pace_of_runs([0, 3_600, 7_200, 90_000], 14 * DAY), pace_of_runs([5], 14 * DAY)
    (3600, 86400)
    """
    gaps = [after - before for before, after in pairwise(times)][-_GAPS:]
    return int(min(max(median(gaps), _LEAST_PACE), longest)) if gaps else DAY


# A replay


class ChangingPage(Protocol):
    """A page whose changes are known, or drawn."""

    @property
    def first_seen(self) -> float:
        """When it was visited first, in Unix seconds."""

    def changed_between(self, after: float, until: float) -> Sequence[float]:
        """Return the times of its changes after ``after``, the last visit, and up to ``until``."""


class BudgetReplay(NamedTuple):
    """Results of visits within a budget, in a window of time."""

    requests: int
    delays: Sequence[float]  #: seconds between each change and the visit that found it
    waiting: int  #: changes that no visit of the window finds
    stale: float  #: share of the time of all pages in which they were stale
    estimate: float  #: of that share at its end, by the visits alone
    census: Census  #: of the rates that were estimated at its end


@dataclass(slots=True)
class _Followed:
    """A page of a replay."""

    page: ChangingPage
    last: float  #: its last visit
    history: History = NO_HISTORY


class _Replay:
    """The state of a replay: pages by class, each class in the order of their last visits."""

    def __init__(
        self, freshness: Freshness, terms: Terms, usual: float, since: float, begun: float
    ) -> None:
        self._terms = terms
        self._budget = freshness.budget
        self._usual = usual
        self._since = since
        self._queues: dict[int, deque[_Followed]] = {}
        self._saved = float(freshness.budget)
        self._begun, self._reprice_at, self._price = begun, begun, 0.0
        self.requests = 0
        self.delays: list[float] = []
        self.stale = self.seconds = 0.0

    def begin(self, page: ChangingPage) -> None:
        """Take a page from its first visit on."""
        self._put(_Followed(page, page.first_seen))
        self.requests += page.first_seen > self._since

    def _put(self, page: _Followed) -> None:
        number = rate_class(change_rate(page.history, self._usual))
        self._queues.setdefault(number, deque()).append(page)

    def census(self) -> Census:
        """Return how many pages there are of each class."""
        counts = {no: len(queue) for no, queue in self._queues.items() if queue}
        return Census(counts, self._terms)

    def run(self, now: float, before: float) -> None:
        """Visit the pages that a run visits; ``before``: the time of the last run."""
        self._saved = _saved(self._saved, self._budget, now - before)
        if now >= self._reprice_at:  # ever more rarely: the estimates settle
            self._price = self.census().bought_by(self._budget).price
            self._reprice_at = now + max(DAY, (now - self._begun) / _REPRICES)
        for queue in list(self._queues.values()):
            while queue and self._terms.is_overdue(now - queue[0].last):
                self._visit(queue, now)
        self._take(now, self._value)
        self._take(now, self._age)

    def _value(self, number: int, waited: float) -> float:
        value = self._worth(number, waited)
        return value if value >= self._price else 0

    def _age(self, number: int, waited: float) -> float:
        return waited if self._worth(number, waited) > 0 else 0

    def _worth(self, number: int, waited: float) -> float:
        terms = self._terms
        return visit_value(rate_of_class(number), waited, within=terms.within, pace=terms.pace)

    def _take(self, now: float, rank: Callable[[int, float], float]) -> None:
        """Visit pages in the order of their ranks while the budget lasts, and none of rank 0."""
        heads: list[tuple[float, int]] = []

        def push(number: int) -> None:
            queue = self._queues[number]
            if queue and (found := rank(number, now - queue[0].last)) > 0:
                heappush(heads, (-found, number))

        for number in self._queues:
            push(number)
        while heads and self._saved >= 1:
            number = heappop(heads)[1]
            self._visit(self._queues[number], now)
            push(number)

    def _visit(self, queue: deque[_Followed], now: float) -> None:
        page = queue.popleft()
        changes = self._close(page, now)
        gap, found = now - page.last, bool(changes)
        page.history = page.history.with_history(History(found, gap * found, gap))
        page.last = now
        self._put(page)
        self._saved = max(self._saved - 1, -self._budget)
        self.requests += now > self._since

    def _close(self, page: _Followed, now: float) -> Sequence[float]:
        """Count the time of a page since its last visit, and return the changes in it."""
        since = max(self._since, page.last)
        self.seconds += max(now - since, 0)
        changes = page.page.changed_between(page.last, now)
        if changes:
            self.stale += max(now - max(changes[0] + self._terms.within, since), 0)
            self.delays += [now - at for at in changes if at > self._since]
        return changes

    def estimate(self, now: float) -> float:
        """Return the estimated share of stale pages, after a run."""
        terms, total = self._terms, 0.0
        for number, queue in self._queues.items():
            rate = rate_of_class(number)
            for page in queue:
                waited = now - page.last
                total += stale_share(rate, waited, within=terms.within, pace=terms.pace)
        return total / max(self.census().pages, 1)

    def end(self, now: float) -> int:
        """Count the time since the last visits; return the number of changes in it."""
        found = len(self.delays)
        for queue in self._queues.values():
            for page in queue:
                self._close(page, now)
        waiting = len(self.delays) - found
        del self.delays[found:]
        return waiting


def replay_budget(
    pages: Iterable[ChangingPage],
    freshness: Freshness,
    terms: Terms,
    *,
    usual: float,
    since: float,
    now: float,
) -> BudgetReplay:
    """Replay the visits of a source within a budget, and count the events after ``since``.

    A run begins every ``terms.pace`` seconds. It has of each page only what its visits found so
    far. It takes time in proportion to the visits.
    """
    waiting = deque(sorted(pages, key=lambda page: page.first_seen))
    at = before = waiting[0].first_seen if waiting else now
    replay = _Replay(freshness, terms, usual, since, at)
    while at <= now:
        while waiting and waiting[0].first_seen <= at:
            replay.begin(waiting.popleft())
        replay.run(at, before)
        before, at = at, at + terms.pace
    estimate = replay.estimate(before)
    left = replay.end(now)
    stale = replay.stale / replay.seconds if replay.seconds else 0.0
    return BudgetReplay(replay.requests, replay.delays, left, stale, estimate, replay.census())

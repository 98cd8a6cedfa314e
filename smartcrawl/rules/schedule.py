"""The time of a page's next visit, and a replay of schedules."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate
from typing import Final

MAX_DOUBLINGS: Final = 20  #: of the error backoff; 600 s doubled so often are 20 years
PHASES: Final = 1 << 16
SCATTER: Final = 40_503  #: odd, near 2**16 / golden ratio: neighbours are far apart
DAY: Final = 86_400  #: seconds


@dataclass(frozen=True, slots=True)
class Schedule:
    """Growth of the interval between two visits. Times are in seconds."""

    base: int = 86_400
    longest: int = 1_209_600
    steps: tuple[int, ...] = (1, 3, 7, 14)  #: times ``base``
    patience: int = 3  #: unchanged visits in a row before the next step (N of R0-48)
    error_base: int = 600  #: doubles with each error in a row
    jitter: int = 100  #: thousandths of an interval by which visits are spread

    def interval(self, unchanged: int) -> int:
        """Return the seconds to the next visit after so many unchanged ones in a row.

        >>> [Schedule().interval(n) // 86_400 for n in (0, 2, 3, 6, 9, 99)]
        [1, 1, 3, 7, 14, 14]

        Source: R0-48, R0-49, G-01.
        """
        step = self.steps[min(unchanged // self.patience, len(self.steps) - 1)]
        return min(step * self.base, self.longest)

    def backoff(self, errors: int, retry_after: int | None = None) -> int:
        """Return the seconds to the next visit after so many errors in a row.

        The wait is never shorter than the Retry-After of the server.

        >>> [Schedule().backoff(n) for n in (1, 2, 3, 99)], Schedule().backoff(1, 5_000)
        ([600, 1200, 2400, 1209600], 5000)

        Source: R0-63, M-32, U-20.
        """
        doubled = self.error_base << min(max(errors, 1) - 1, MAX_DOUBLINGS)
        return max(min(doubled, self.longest), retry_after or 0)

    def spread(self, interval: int, number: int) -> int:
        """Return the seconds to the next visit of a page after a visit without an error.

        Visits come earlier, by ``jitter`` of the interval at most and half of that at least. So
        pages that were found together do not come due together, and a page that a daily run
        visited is due when the next one begins. ``number`` is the number of the page.

        >>> Schedule().spread(86_400, 0), Schedule().spread(86_400, 1)
        (82080, 79411)
        >>> Schedule(jitter=0).spread(86_400, 1)
        86400
        """
        phase = PHASES + number * SCATTER % PHASES
        return interval - interval * self.jitter * phase // (2000 * PHASES)

    def spread_error(self, wait: int, number: int) -> int:
        """Return the seconds to the next visit after an error: later, by ``jitter`` at most.

        >>> Schedule().spread_error(600, 0), Schedule().spread_error(600, 1)
        (600, 637)
        """
        return wait + wait * self.jitter * (number * SCATTER % PHASES) // (1000 * PHASES)


def is_due(next_visit: int | None, last_visit: int | None, now: int) -> bool:
    """Whether a page's next visit is not in the future; a page without any visit is due.

    A page whose last visit is more than a day in the future is due, too: the clock was wrong then,
    and so is the time of the next visit.

    >>> is_due(None, None, 5), is_due(5, 0, 5), is_due(6, 0, 5)
    (True, True, False)
    >>> is_due(200_000, 86_406, 5)
    True

    Source: R0-71, M-11.
    """
    return (
        next_visit is None
        or next_visit <= now
        or (last_visit is not None and last_visit > now + DAY)
    )


_LASTMOD: Final = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?)?)?"
)
_EPOCH: Final = date(1970, 1, 1).toordinal()


def modified_by_lastmod(lastmod: str, now: int) -> int | None:
    """Return the last second (Unix) at which a page was modified, by the lastmod of its sitemap.

    A date without a time means its whole day, a month or year all of its days, up to ``now``.
    None for a date that begins more than a day in the future, and for a text that is no date in
    W3C's format.

    >>> days = ("1970-01-01", "1970-01-01T01:00:10+01:00", "1970")
    >>> [modified_by_lastmod(day, 10**9) for day in days]
    [86400, 10, 31536000]
    >>> modified_by_lastmod("2031-01-01", 99), modified_by_lastmod("soon", 99)
    (None, None)

    Source: sitemaps.org protocol; R0-49.
    """
    match = _LASTMOD.fullmatch(lastmod.strip())
    if match is None:
        return None
    year, month, day, clock = match.groups()
    try:
        if clock is not None:
            moment = datetime.fromisoformat(lastmod.strip())
            begin = end = int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
        else:
            first = date(int(year), int(month or 1), int(day or 1))
            if day is not None:
                after = first + timedelta(days=1)
            elif month is not None:
                after = date(first.year + first.month // 12, first.month % 12 + 1, 1)
            else:
                after = date(first.year + 1, 1, 1)
            begin, end = ((d.toordinal() - _EPOCH) * DAY for d in (first, after))
    except (ValueError, OverflowError):
        return None
    return None if begin > now + DAY else min(end, now)


@dataclass(frozen=True, slots=True)
class Life:
    """The recorded changes of one page. Times are Unix seconds."""

    no: int  #: the number of its record
    first_seen: int
    changes: tuple[int, ...] = ()  #: times at which it was found changed, in order


@dataclass(frozen=True, slots=True)
class Replay:
    """Results of one schedule in a window of time."""

    pages: int
    requests: int
    changes: int
    waiting: int  #: changes that no visit of the window finds
    staleness: float | None  #: mean seconds between a change and the visit that finds it
    late: int | None  #: seconds that 95 % of them do not exceed


def simulated_pace(runs: Sequence[int], *, begin: int, now: int, longest: int) -> int:
    """Return the mean seconds between runs that began after ``begin``, at most ``longest``."""
    count = sum(begin < run <= now for run in runs)
    return max(1, min((now - begin) // count, longest)) if count else longest


def fixed_schedule(seconds: int, *, pace: int) -> Schedule:
    """Return the schedule that requests every page at a fixed interval of about so many seconds.

    The interval is a whole number of runs, at least one.

    >>> (
    ...     fixed_schedule(86_400, pace=86_000).interval(9),
    ...     fixed_schedule(86_400, pace=3_600).interval(9),
    ... )
    (86000, 86400)
    """
    wait = max(1, (seconds + pace // 2) // pace) * pace
    return Schedule(base=wait, longest=wait, steps=(1,), jitter=0)


def unhurried_schedule(schedule: Schedule) -> Schedule:
    """Return the schedule whose interval does not grow for unchanged pages.

    >>> unhurried_schedule(Schedule()).interval(99)
    86400
    """
    return replace(schedule, steps=schedule.steps[:1])


def simulate_schedules(
    lives: Iterable[Life], schedules: Sequence[Schedule], *, pace: int, since: int, now: int
) -> list[Replay]:
    """Replay the lives of pages under each schedule and count the events after ``since``.

    A run begins every ``pace`` seconds and requests the pages that are due, as a due crawl does.
    Each page has its own second within that time, spread by its number. It is visited when it is
    first seen, and from then on by the schedule, also before ``since``, so that the window begins
    with the interval that was reached by then. A change happens at the time at which it was really
    found; the first visit that is not earlier finds it, together with other changes that wait. A
    change that waits at the end counts with the delay until the visit that would find it.

    Lives are read once. Errors, Retry-After and sitemaps are not replayed.

    Source: R0-48, R0-49.
    """
    tallies = [_Tally(schedule, pace, since, now) for schedule in schedules]
    for life in lives:
        if life.first_seen <= now:
            for tally in tallies:
                tally.add(life)
    return [tally.replay() for tally in tallies]


class _Rhythm:
    """The runs that request a page after a visit that found a change, while no change follows."""

    def __init__(self, waits: Sequence[int], patience: int) -> None:
        self._waits = waits  #: runs from one visit to the next, for each step
        self._patience = patience
        self._begins = [0, *accumulate(wait * patience for wait in waits[:-1])]

    def count(self, runs: int) -> int:
        """Return the number of its requests in the first so many runs."""
        step = bisect_right(self._begins, runs) - 1
        return step * self._patience + (runs - self._begins[step]) // self._waits[step]

    def first(self, run: int) -> int:
        """Return the first run that requests it and is not before ``run`` (1 or more)."""
        step = bisect_left(self._begins, run) - 1
        begin, wait = self._begins[step], self._waits[step]
        return begin + _ceil(run - begin, wait) * wait


class _Tally:
    """Counts of one schedule, added up page by page."""

    def __init__(self, schedule: Schedule, pace: int, since: int, now: int) -> None:
        self._schedule = schedule
        self._intervals = [
            schedule.interval(step * schedule.patience) for step in range(len(schedule.steps))
        ]
        self._rhythms: dict[tuple[int, ...], _Rhythm] = {}
        self._pace = pace
        self._since = since
        self._now = now
        self._pages = 0
        self._requests = 0
        self._waiting = 0
        self._delays = array("q")  #: seconds

    def add(self, life: Life) -> None:
        """Replay one page. Runs are counted from the one that would precede its first visit."""
        pace, rhythm = self._pace, self._rhythm(life.no)
        origin = life.first_seen - pace * (life.no * SCATTER % PHASES) // PHASES
        before = (self._since - origin) // pace
        end = (self._now - origin) // pace
        last = 0
        requests = int(life.first_seen > self._since)
        for at in life.changes:
            if not life.first_seen < at <= self._now:
                continue
            run = _ceil(at - origin, pace)
            if run > last:
                found = last + rhythm.first(run - last)
                requests += _between(rhythm, last, before, min(found, end))
                last = found
            if at > self._since:
                self._delays.append(origin + last * pace - at)
                self._waiting += last > end
        self._requests += requests + _between(rhythm, last, before, end)
        self._pages += 1

    def _rhythm(self, number: int) -> _Rhythm:
        spread, pace = self._schedule.spread, self._pace
        waits = tuple([_ceil(spread(interval, number), pace) for interval in self._intervals])
        rhythm = self._rhythms.get(waits)
        if rhythm is None:
            rhythm = self._rhythms[waits] = _Rhythm(waits, self._schedule.patience)
        return rhythm

    def replay(self) -> Replay:
        """Return the counts."""
        delays = sorted(self._delays)
        count = len(delays)
        return Replay(
            pages=self._pages,
            requests=self._requests,
            changes=count,
            waiting=self._waiting,
            staleness=sum(delays) / count if delays else None,
            late=delays[_ceil(95 * count, 100) - 1] if delays else None,
        )


def _between(rhythm: _Rhythm, last: int, before: int, end: int) -> int:
    """Return the number of a page's requests in the runs after ``before`` and until ``end``.

    ``last`` is the run that found it changed; the request of that run is not counted.
    """
    begin = max(before - last, 0)
    return rhythm.count(max(end - last, begin)) - rhythm.count(begin)


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)

"""The history of the pages of a source, and the next visits that a budget plans (ADR 181)."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from smartcrawl.registry.connection import Connection
from smartcrawl.rules.freshness import (
    HISTORY,
    NO_HISTORY,
    Census,
    Freshness,
    History,
    Terms,
    Waiting,
    change_rate,
    chosen_pages,
    pace_of_runs,
    rate_class,
    stale_share,
)
from smartcrawl.rules.model import Standing
from smartcrawl.rules.schedule import DAY, Schedule, is_due

#: Data that rendered pages ask for are requests, too.
_RUNS: Final = """
SELECT started_at, requests + data_requests FROM run
 WHERE source = ? AND due ORDER BY no DESC LIMIT 100
"""
#: Each page with its changes. Content of its first run is no change. Ordered pages are visited.
_PAGES: Final = f"""
SELECT r.no, r.kind,
       r.kind = 0 AND s.standing = {int(Standing.HELD)} AND s.error_count = 0
       AND s.lost_count = 0 AND s.gone_count = 0
       AND NOT coalesce(i.requested OR i.generation > i.processed, FALSE),
       r.url, r.first_seen, s.last_checked, s.next_visit, s.interval, s.attempts - s.failures,
       c.changes, c.known, c.gaps
  FROM record r JOIN state s USING (no) LEFT JOIN item i USING (no)
  LEFT JOIN (SELECT h.record, count(*) AS changes, count(h.visit_gap) AS known,
                    sum(h.visit_gap) AS gaps
               FROM change h JOIN record o ON o.no = h.record
              WHERE o.source = :source AND h.run > o.first_run AND h.at > :begin
              GROUP BY h.record) AS c ON c.record = r.no
 WHERE r.source = :source AND s.last_checked IS NOT NULL AND s.reached_run >= :since
"""
_REACHED: Final = "SELECT max(no) FROM run WHERE source = ? AND complete"
#: A visit that was brought forward meanwhile stays so.
_PLAN: Final = """
UPDATE state SET next_visit = ?, interval = ?
 WHERE no = ? AND next_visit = ? AND interval IS NOT NULL
"""


@dataclass(slots=True)
class SourceHistory:
    """The stored pages of a source that a budget visits, and how often they change.

    The columns have one value for each page. Times are Unix seconds.
    """

    terms: Terms
    numbers: array[int] = field(default_factory=lambda: array("q"))  #: of their records
    last: array[int] = field(default_factory=lambda: array("q"))  #: visits
    next_visits: array[int] = field(default_factory=lambda: array("q"))
    rates: array[float] = field(default_factory=lambda: array("d"))  #: changes a second
    called: int = 0  #: further records that are due, whatever the budget is
    sitemaps: int = 0

    def census(self) -> Census:
        """Return how many pages there are of each class of rates."""
        return Census(Counter(map(rate_class, self.rates)), self.terms)

    def budget_for_pages(self, freshness: Freshness, schedule: Schedule) -> float:
        """Return the requests a day that sitemaps leave of a budget."""
        interval = max(self.terms.pace, schedule.spread(schedule.base, 0))
        return max(freshness.budget - self.sitemaps * DAY / interval, 0)

    def chosen(self, requests: int, price: float, now: int) -> set[int]:
        """Return the numbers of the pages that a run visits with so many requests."""
        pages = (
            Waiting(no, rate, now - last)
            for no, rate, last in zip(self.numbers, self.rates, self.last, strict=True)
        )
        return chosen_pages(pages, requests - self.called, self.terms, price)

    def stale(self, at: int) -> float:
        """Return the estimated share of stale pages, on average from ``at`` to the next run."""
        within, pace = self.terms.within, self.terms.pace
        shares = (
            stale_share(rate, max(at - last, 0), within=within, pace=pace)
            for rate, last in zip(self.rates, self.last, strict=True)
        )
        return sum(shares) / max(len(self.rates), 1)


@dataclass(slots=True)
class _Found:
    """The visits of the pages, one value for each, and of their folders."""

    changes: array[int] = field(default_factory=lambda: array("q"))
    gaps: array[float] = field(default_factory=lambda: array("d"))
    seconds: array[int] = field(default_factory=lambda: array("q"))
    places: array[int] = field(default_factory=lambda: array("q"))  #: of folders in ``folders``
    names: dict[str, int] = field(default_factory=dict)
    folders: list[History] = field(default_factory=list)

    def add(self, url: str, history: History) -> None:
        """Add a page."""
        place = self.names.setdefault(_folder(url), len(self.names))
        if place == len(self.folders):
            self.folders.append(NO_HISTORY)
        self.folders[place] = self.folders[place].with_history(history)
        self.changes.append(int(history.changes))
        self.gaps.append(history.gaps)
        self.seconds.append(int(history.seconds))
        self.places.append(place)

    def rates(self, usual: float) -> Iterator[float]:
        """Yield the rates of the pages; ``usual``: of a page of a source without any history."""
        whole = NO_HISTORY
        for folder in self.folders:
            whole = whole.with_history(folder)
        of_source = change_rate(whole, usual)
        of_folders = [change_rate(folder, of_source) for folder in self.folders]
        for *history, place in zip(self.changes, self.gaps, self.seconds, self.places, strict=True):
            yield change_rate(History(*history), of_folders[place])


def due_run_rows(connection: Connection, source: int) -> list[tuple[int, int]]:
    """Return start (Unix seconds) and requests of the last due runs, oldest first.

    One that is open, or was resumed, is among them, with the requests that it sent so far.
    """
    rows: Any = connection.execute(_RUNS, (source,)).fetchall()
    return [(started_at, requests) for started_at, requests in rows][::-1]


def source_history(
    connection: Connection, source: int, terms: Terms, schedule: Schedule, now: int
) -> SourceHistory:
    """Return the history of the stored pages of a source that its last complete run reached."""
    found, visits = SourceHistory(terms), _Found()
    begin = now - HISTORY
    since = connection.execute(_REACHED, (source,)).get or 0
    row: Any
    for row in connection.execute(_PAGES, {"source": source, "begin": begin, "since": since}):
        no, kind, is_ordinary, url, first_seen, last, next_visit, interval, times, *changes = row
        found.sitemaps += kind > 0
        if not is_ordinary or _is_called_for(last, next_visit, interval, schedule.jitter, now):
            found.called += is_due(next_visit, last, now)
            continue
        visits.add(url, _history(last - max(first_seen, begin), times, *changes))
        found.numbers.append(no)
        found.last.append(last)
        found.next_visits.append(next_visit)
    found.rates.extend(visits.rates(1 / schedule.base))
    return found


def _is_called_for(
    last: int, next_visit: int | None, interval: int | None, jitter: int, now: int
) -> bool:
    """Whether the visit of a page was brought forward: by a notice, a rule or a wrong clock."""
    if next_visit is None or interval is None:
        return is_due(next_visit, last, now)
    early = last + interval - interval * jitter // 1000
    return is_due(next_visit, last, now) and (next_visit < early - 1 or last > now)


def _history(
    seconds: int, visits: int, changes: int | None, known: int | None, gaps: float | None
) -> History:
    """Return the history of a page; changes of old registries have no gaps."""
    if not changes:
        return History(0, 0, max(seconds, 0))
    usual_gap = max(seconds, 0) / max(visits - 1, 1)
    return History(changes, (gaps or 0) + (changes - (known or 0)) * usual_gap, max(seconds, 0))


def _folder(url: str) -> str:
    """Return host and folder of an address.

    >>> _folder("https://a.example/docs/page?x=/")
    'a.example/docs'
    """
    parts = urlsplit(url)
    return parts.netloc + parts.path.rpartition("/")[0]


def freshness_terms(
    runs: Sequence[tuple[int, int]], freshness: Freshness, schedule: Schedule
) -> Terms:
    """Return the terms of a source, by its last due runs."""
    pace = pace_of_runs([at for at, _ in runs], schedule.longest)
    return Terms(freshness.within, pace, schedule.longest)


def plan_next_visit_rows(
    connection: Connection, history: SourceHistory, price: float, *, since: int, now: int
) -> None:
    """Store when pages are planned to be visited next.

    These are the pages that a run visited that began at ``since``, and those whose time has come,
    which the budget left out. The caller opens the transaction.
    """
    waits: dict[int, int] = {}
    rows = []
    columns = (history.numbers, history.rates, history.last, history.next_visits)
    for no, rate, last, next_visit in zip(*columns, strict=True):
        if last < since and next_visit > now:
            continue
        number = rate_class(rate)
        if number not in waits:
            waits[number] = history.terms.planned_wait(rate, price)
        at = max(last + waits[number], now + history.terms.pace // 2)
        rows.append((at, at - last, no, next_visit))
    connection.executemany(_PLAN, rows)

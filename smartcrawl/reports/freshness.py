"""What the budget of a source buys: its estimated freshness, and what its target would take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.freshness import due_run_rows, freshness_terms, source_history
from smartcrawl.reports.text import report_noun, report_time_span
from smartcrawl.rules.freshness import Freshness, Outlook
from smartcrawl.rules.schedule import Schedule
from smartcrawl.sources.declared import DeclaredSources
from smartcrawl.sources.site import source_freshness

FRESHNESS_KEYS: Final = (
    "source", "target", "withinSeconds", "budget", "pages", "fresh", "bought", "targetRequests",
    "leastRequests", "paceSeconds",
)  # fmt: skip
_SOURCE: Final = """
SELECT s.no, max(r.started_at)
  FROM source s LEFT JOIN run r ON r.source = s.no WHERE s.name = ? GROUP BY s.no
"""
_HOUR: Final = 3_600


@dataclass(frozen=True, slots=True)
class FreshnessReport:
    """The freshness of a source with a budget. Shares are of its stored pages."""

    source: str
    freshness: Freshness
    pages: int
    fresh: float  #: share that is fresh now, by estimate
    bought: float  #: share that the budget keeps fresh
    cost: float | None  #: requests a day of the target; None: no budget reaches it
    reachable: float  #: share that runs of today's pace can keep fresh
    least: float  #: requests a day of a visit to each page in the longest interval
    pace: int  #: seconds between two due runs
    longest: int  #: seconds

    @property
    def target(self) -> str:
        """The target in words."""
        return f"{freshness_percent(self.freshness.share)} within {self._within}"

    @property
    def _within(self) -> str:
        hours, rest = divmod(self.freshness.within, _HOUR)
        return f"{hours:,} h" if not rest else f"{self.freshness.within // 60:,} min"

    def text(self) -> str:
        """Return the line of the status."""
        if not self.pages:
            return f"no stored page yet; the target is {self.target}"
        return (
            f"about {freshness_percent(self.fresh)} of {report_noun(self.pages, 'page')} within"
            f" {self._within}; the target is {freshness_percent(self.freshness.share)}."
            f" {self._buys()}"
        )

    def _buys(self) -> str:
        bought = f"{self.freshness.budget:,} a day buy {freshness_percent(self.bought)}"
        if self.cost is None:
            return f"Requests: {bought}"
        return f"Requests: it takes about {_requests(self.cost)} a day; {bought}"

    def concerns(self) -> Iterator[str]:
        """Yield what an operator has to decide."""
        if not self.pages:
            return
        budget, target = self.freshness.budget, self.freshness.share
        if self.least > budget:
            yield (
                f"the budget of {report_noun(budget, 'request')} a day is exceeded: to visit each"
                f" page every {report_time_span(self.longest)} takes"
                f" {_requests(self.least)}: raise the budget, or CRAWL_MAX_INTERVAL_SECONDS"
            )
        if self.cost is None:
            yield (
                f"no budget reaches {self.target} with a due crawl every"
                f" {report_time_span(self.pace)}: at most {freshness_percent(self.reachable)}, and"
                f" {self.freshness.budget:,} requests a day buy {freshness_percent(self.bought)}."
                " Run due more often, or lower the target"
            )
        elif self.bought < target and self.cost > budget:
            yield (
                f"the budget does not reach {self.target}, which takes about"
                f" {_requests(self.cost)} requests a day; {budget:,} buy"
                f" {freshness_percent(self.bought)}. Raise the budget, or lower the target"
            )

    def data(self) -> dict[str, Any]:
        """Return it under FRESHNESS_KEYS."""
        values = (
            self.source,
            self.freshness.share,
            self.freshness.within,
            self.freshness.budget,
            self.pages,
            round(self.fresh, 4),
            round(self.bought, 4),
            None if self.cost is None else round(self.cost),
            round(self.least),
            self.pace,
        )
        return dict(zip(FRESHNESS_KEYS, values, strict=True))


def freshness_percent(share: float) -> str:
    """Return a share as a percentage, never as 100 % if it is less.

    >>> freshness_percent(0.95), freshness_percent(0.9999), freshness_percent(1)
    ('95 %', '99.9 %', '100 %')
    """
    return f"{int(1000 * share + 1e-9) / 10:g} %"


def _requests(number: float) -> str:
    return f"{-int(-number // 1):,}"


def freshness_reports(
    connection: Connection,
    declared: DeclaredSources,
    names: Iterable[str],
    schedule: Schedule,
    now: int,
) -> dict[str, FreshnessReport]:
    """Return the freshness of those sources that have a budget and had a run, by name."""
    reports = {}
    for name in names:
        freshness = source_freshness(declared.get(name))
        if freshness is not None:
            report = source_freshness_report(connection, name, freshness, schedule, now)
            if report is not None:
                reports[name] = report
    return reports


def source_freshness_report(
    connection: Connection, name: str, freshness: Freshness, schedule: Schedule, now: int
) -> FreshnessReport | None:
    """Return the freshness of a source, by one pass over its records; None: it had no run."""
    row: Any = connection.execute(_SOURCE, (name,)).fetchone()
    if row is None or row[1] is None:
        return None
    source, last_run = row
    runs = due_run_rows(connection, source)
    terms = freshness_terms(runs, freshness, schedule)
    history = source_history(connection, source, terms, schedule, now)
    census = history.census()
    bought: Outlook = census.bought_by(history.budget_for_pages(freshness, schedule))
    for_maps = freshness.budget - history.budget_for_pages(freshness, schedule)
    cost = census.cost_of(1 - freshness.share)
    return FreshnessReport(
        source=name,
        freshness=freshness,
        pages=len(history.numbers),
        fresh=1 - history.stale(max(last_run, now - terms.pace)),
        bought=1 - bought.stale,
        cost=None if cost is None else cost.requests + for_maps,
        reachable=1 - census.most.stale,
        least=census.least.requests + for_maps,
        pace=terms.pace,
        longest=schedule.longest,
    )

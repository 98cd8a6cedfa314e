"""Schedules replayed over the history of a source: savings and staleness of each, and a picture."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.reports.chart import Dot, scatter_chart
from smartcrawl.rules.freshness import BudgetReplay, Freshness, Terms, replay_budget
from smartcrawl.rules.schedule import (
    Life,
    Replay,
    Schedule,
    fixed_schedule,
    simulate_schedules,
    simulated_pace,
    unhurried_schedule,
)

_RUNS = """
SELECT started_at, complete, due FROM run WHERE source = ? ORDER BY started_at, no
"""
#: Stored pages. Content of the first run is no change. A registry that is older than the table of
#: changes has the last change of each page only.
_LIVES = """
SELECT r.no, r.first_seen,
       coalesce(c.at, CASE WHEN r.changed_run > r.first_run THEN r.last_changed END)
  FROM record r
  JOIN state s USING (no)
  LEFT JOIN change c ON c.record = r.no AND c.run > r.first_run
 WHERE r.source = ? AND r.kind = 0 AND s.standing > 0
 ORDER BY r.no, c.at
"""


class PastRun(NamedTuple):
    """One run of a source."""

    started_at: int  #: Unix seconds
    complete: int
    due: int  #: whether it visited only pages that were due


def run_history_report(connection: Connection, source: int) -> list[PastRun]:
    """Return the runs of a source, oldest first."""
    rows: Any = connection.execute(_RUNS, (source,)).fetchall()
    return [PastRun(*row) for row in rows]


def page_life_report(connection: Connection, source: int) -> Iterator[Life]:
    """Yield the stored pages of a source without its sitemaps, in order of discovery."""
    rows: Any = connection.execute(_LIVES, (source,))
    for (number, first_seen), found in groupby(rows, itemgetter(0, 1)):
        yield Life(number, first_seen, tuple([at for *_, at in found if at is not None]))


#: Keys of the simulation of each source, and of each of its settings.
KEYS = (
    "source", "note", "since", "until", "wholeRuns", "paceSeconds", "pages", "changes", "settings",
)  # fmt: skip
SETTING_KEYS = (
    "setting", "current", "with", "requests", "saved", "savedShare", "stalenessHours",
    "staleness95Hours", "waiting",
)  # fmt: skip
EVERY_RUN: Final = "every run"
AS_SET: Final = "as set"
BUDGET: Final = "budget"
DAY: Final = 86_400  #: seconds
_HOUR: Final = 3_600
_PATIENCE: Final = (1, 3, 5)  #: unchanged visits in a row


@dataclass(frozen=True, slots=True)
class Setting:
    """One schedule of a simulation."""

    name: str
    schedule: Schedule
    option: str | None = None  #: NAME=VALUE that makes it the current one


@dataclass(frozen=True, slots=True)
class Simulation:
    """Results of several settings in one source. Times are Unix seconds."""

    source: str
    since: int
    until: int
    whole_runs: int  #: complete runs in this time that asked every page
    pace: int  #: seconds between two runs
    settings: tuple[tuple[Setting, Replay], ...] = ()  #: the first is EVERY_RUN
    note: str | None = None
    missing: bool = False  #: there is nothing to replay; the note has the reason
    budget: BudgetReplay | None = None  #: of its budget; None: it has none
    freshness: Freshness | None = None  #: the budget

    @property
    def current(self) -> str:
        """The name of the setting that counts today."""
        return AS_SET if self.budget is None else BUDGET

    @property
    def whole(self) -> Replay:
        """Cost of a request for every page in every run."""
        return self.settings[0][1]

    def share(self, replayed: Replay) -> float:
        """Return the saved share of the requests of EVERY_RUN."""
        return 1 - replayed.requests / self.whole.requests if self.whole.requests else 0.0


def simulation_report(
    connection: Connection,
    source: str,
    number: int,
    schedule: Schedule,
    *,
    since: int,
    now: int,
    freshness: Freshness | None = None,
) -> Simulation:
    """Replay the history of one source; ``freshness``: the budget of its visits, if it has one.

    Its complete runs count as evenly spread, and as one a day where there were fewer. All settings
    are compared with the complete runs that visited every page. Where these were fewer than one a
    day, one run in each base interval is assumed.
    """
    runs, shortest = run_history_report(connection, number), schedule.interval(0)
    begin = max(since, runs[0].started_at) if runs else now
    complete = [run.started_at for run in runs if run.complete]
    whole = [run.started_at for run in runs if run.complete and not run.due]
    between = simulated_pace(complete, begin=begin, now=now, longest=DAY)
    found = Simulation(source, begin, now, sum(begin <= run <= now for run in whole), between)
    missing = _missing(runs, shortest, now)
    if missing:
        return replace(found, note=missing, missing=True)
    seconds = simulated_pace(whole, begin=begin, now=now, longest=max(shortest, DAY))
    tried = [
        Setting(EVERY_RUN, fixed_schedule(seconds, pace=between)),
        *simulation_report_settings(schedule),
    ]
    schedules = [setting.schedule for setting in tried]
    replayed = simulate_schedules(
        page_life_report(connection, number), schedules, pace=between, since=since, now=now
    )
    first = replayed[0]
    if not first.pages:
        return replace(found, note="none of its pages is stored: crawl it again", missing=True)
    rows = [
        (setting, result)
        for setting, result in zip(tried, replayed, strict=True)
        if setting.name in (EVERY_RUN, AS_SET) or result != first
    ]
    note = None if first.changes else "no change is known in this time, so nothing could be late"
    budget = None
    if freshness is not None:
        terms = Terms(freshness.within, between, schedule.longest)
        budget = replay_budget(
            map(_LivedPage, page_life_report(connection, number)),
            freshness,
            terms,
            usual=1 / schedule.base,
            since=since,
            now=now,
        )
        rows.append((Setting(BUDGET, schedule), _of_budget(budget, first)))
    return replace(found, settings=tuple(rows), note=note, budget=budget, freshness=freshness)


class _LivedPage:
    """A page whose changes are known."""

    def __init__(self, life: Life) -> None:
        self._life = life

    @property
    def first_seen(self) -> float:
        """When it was visited first."""
        return self._life.first_seen

    def changed_between(self, after: float, until: float) -> Sequence[float]:
        """Return the times of its changes after a visit, up to the next one."""
        changes = self._life.changes
        return changes[bisect_right(changes, after) : bisect_right(changes, until)]


def _of_budget(budget: BudgetReplay, whole: Replay) -> Replay:
    """Return the results of a budget beside those of all visits."""
    delays = sorted(budget.delays)
    count = len(delays)
    return replace(
        whole,
        requests=budget.requests,
        waiting=budget.waiting,
        staleness=sum(delays) / count if delays else None,
        late=round(delays[-(-95 * count // 100) - 1]) if delays else None,
    )


def _missing(runs: Sequence[PastRun], shortest: int, now: int) -> str | None:
    """Return why a history is too short for a replay, and from when on it is long enough."""
    if not runs:
        return "it was not crawled yet; a replay needs two runs"
    began = runs[0].started_at
    ready = iso_time(max(began + shortest, now))
    if len(runs) == 1:
        return (
            f"it was crawled once, {iso_time(began)}, and changes show from the second run on:"
            " crawl"
            f" it again; there is something to replay from {ready} on"
        )
    if now < began + shortest:
        return (
            f"its first run was {iso_time(began)}, less than the base interval of"
            f" {simulation_report_hours(shortest)}"
            f" ago; there is something to replay from {ready} on"
        )
    return None


def simulation_report_settings(schedule: Schedule) -> Iterator[Setting]:
    """Yield the schedule as it is set, and variations of it."""
    yield Setting(AS_SET, schedule)
    for name, base in (("half", schedule.base // 2), ("twice", schedule.base * 2)):
        if 0 < base <= schedule.longest:
            option = f"CRAWL_BASE_INTERVAL_SECONDS={base}"
            yield Setting(f"{name} the base interval", replace(schedule, base=base), option)
    if len(schedule.steps) == 1:
        return
    for patience in _PATIENCE:
        if patience != schedule.patience:
            option = f"UNCHANGED_CHECKS_BEFORE_BACKOFF={patience}"
            other = replace(schedule, patience=patience)
            yield Setting(f"back off after {patience}", other, option)
    option = f"CRAWL_INTERVAL_STEPS={schedule.steps[0]}"
    yield Setting("never back off", unhurried_schedule(schedule), option)


def simulation_report_picture(found: Simulation) -> str:
    """Return the SVG of a simulation.

    Raises:
        RegistryError: no change is known, so there is nothing to compare the savings with.
    """
    if not found.whole.changes:
        raise RegistryError(
            f"{found.source}: no change is known since {iso_time(found.since)}, so there is no"
            " staleness to draw: leave --svg out, or let --simulate go back further"
        )
    return scatter_chart(
        [
            Dot(
                setting.name,
                round(100 * found.share(result), 2),
                (result.staleness or 0) / _HOUR,
                current=setting.name == found.current,
            )
            for setting, result in found.settings
        ],
        title=f"{found.source}: requests saved against staleness",
        description="; ".join(
            f"{setting.name}: {simulation_report_percent(found.share(result))} saved,"
            f" {simulation_report_hours(result.staleness)}"
            for setting, result in found.settings
        ),
        x_axis="requests saved, %",
        y_axis="mean staleness, hours",
    )


def simulation_report_data(found: Simulation) -> dict[str, Any]:
    """Return a simulation under KEYS."""
    first = found.settings[0][1] if found.settings else None
    values = (
        found.source,
        found.note,
        iso_time(found.since),
        iso_time(found.until),
        found.whole_runs,
        found.pace,
        first.pages if first else 0,
        first.changes if first else 0,
        [_row(found, setting, result) for setting, result in found.settings],
    )
    return dict(zip(KEYS, values, strict=True))


def _row(found: Simulation, setting: Setting, result: Replay) -> dict[str, Any]:
    values = (
        setting.name,
        setting.name == found.current,
        setting.option,
        result.requests,
        found.whole.requests - result.requests,
        round(found.share(result), 4),
        None if result.staleness is None else round(result.staleness / _HOUR, 2),
        None if result.late is None else round(result.late / _HOUR, 2),
        result.waiting,
    )
    return dict(zip(SETTING_KEYS, values, strict=True))


def simulation_report_percent(share: float) -> str:
    """Return a share as a whole percentage."""
    return f"{round(100 * share)} %"


def simulation_report_hours(seconds: float | None) -> str:
    """Return a time in hours.

    >>> [simulation_report_hours(seconds) for seconds in (86_400, 5_400, None)]
    ['24.0 h', '1.5 h', '']
    """
    return "" if seconds is None else f"{seconds / _HOUR:,.1f} h"

"""``scrapy plan --simulate``: what other settings would have saved, and how late they would be."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from smartcrawl.chart import Dot, scatter
from smartcrawl.cli import print_json, print_table
from smartcrawl.model.exceptions import RegistryError, SmartcrawlError
from smartcrawl.model.ports import Connection
from smartcrawl.registry.history import PastRun, lives, past_runs
from smartcrawl.registry.reports import iso
from smartcrawl.rules.schedule import Schedule
from smartcrawl.rules.simulate import Replay, every, pace, simulate, unhurried

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

_DAY: Final = 86_400  #: seconds
_HOUR: Final = 3_600
_MOST_DAYS: Final = 3_650
_PATIENCE: Final = (1, 3, 5)  #: unchanged visits in a row
_COLUMNS = ("setting", "requests", "saved", "staleness", "95 % within", "waiting", "with")


@dataclass(frozen=True, slots=True)
class Setting:
    """One schedule that is tried."""

    name: str
    schedule: Schedule
    option: str | None = None  #: what makes it the current one


@dataclass(frozen=True, slots=True)
class Simulation:
    """What some settings would have come to in one source. Times are Unix seconds."""

    source: str
    since: int
    until: int
    whole_runs: int  #: complete runs in this time that asked every page
    pace: int  #: seconds between two runs
    settings: tuple[tuple[Setting, Replay], ...] = ()  #: the first one is every run
    note: str | None = None
    missing: bool = False  #: whether there is nothing to replay, as the note says

    @property
    def whole(self) -> Replay:
        """What it costs to ask every page in every run."""
        return self.settings[0][1]

    def share(self, replayed: Replay) -> float:
        """Return the share of the requests of every run that is saved."""
        return 1 - replayed.requests / self.whole.requests if self.whole.requests else 0.0


def add_options(parser: ArgumentParser) -> None:
    """Add the options that simulate."""
    parser.add_argument(
        "--simulate",
        type=_days,
        metavar="DAYS",
        help="replay the last DAYS days under other settings, in place of the plan",
    )
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="with --simulate: draw the result into FILE"
    )


def _days(value: str) -> int:
    if not (value.isdecimal() and 1 <= int(value) <= _MOST_DAYS):
        raise ArgumentTypeError(f"{value!r} is no whole number of days from 1 to {_MOST_DAYS}")
    return int(value)


def show(
    connection: Connection,
    sources: Mapping[str, int],
    schedule: Schedule,
    *,
    days: int,
    now: int,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Replay the history of each source (name and number) and print what comes of it.

    Raises:
        SmartcrawlError: no source can be replayed, or the picture cannot be drawn or written.
    """
    if not sources:
        raise RegistryError("there is no source yet: declare one in sources.toml, or crawl a URL")
    if svg is not None and len(sources) > 1:
        raise SmartcrawlError(
            f"a picture shows one source, and there are {len(sources)}: name one with --source"
        )
    found = [
        simulation(connection, name, number, schedule, since=now - days * _DAY, now=now)
        for name, number in sources.items()
    ]
    if all(one.missing for one in found):
        raise RegistryError("\n".join(f"{one.source}: {one.note}" for one in found))
    if svg is not None:
        _write(svg, picture(found[0]))
    if as_json:
        print_json([_told(one) for one in found])
        return
    for one in found:
        _print(one)


def simulation(
    connection: Connection,
    source: str,
    number: int,
    schedule: Schedule,
    *,
    since: int,
    now: int,
) -> Simulation:
    """Replay the history of one source.

    Its complete runs are taken as evenly spread, and as one a day where there were fewer. What
    everything is compared with are those of them that asked every page, and one in the base
    interval where there were fewer than one a day.
    """
    runs, shortest = past_runs(connection, number), schedule.interval(0)
    begin = max(since, runs[0].started_at) if runs else now
    complete = [run.started_at for run in runs if run.complete]
    whole = [run.started_at for run in runs if run.complete and not run.due]
    between = pace(complete, begin=begin, now=now, longest=_DAY)
    found = Simulation(source, begin, now, sum(begin <= run <= now for run in whole), between)
    missing = _missing(runs, shortest, now)
    if missing:
        return replace(found, note=missing, missing=True)
    seconds = pace(whole, begin=begin, now=now, longest=max(shortest, _DAY))
    tried = [Setting(EVERY_RUN, every(seconds, pace=between)), *settings(schedule)]
    schedules = [setting.schedule for setting in tried]
    replayed = simulate(lives(connection, number), schedules, pace=between, since=since, now=now)
    first = replayed[0]
    if not first.pages:
        return replace(found, note="none of its pages is held: crawl it again", missing=True)
    rows = [
        (setting, result)
        for setting, result in zip(tried, replayed, strict=True)
        if setting.name in (EVERY_RUN, AS_SET) or result != first
    ]
    note = None if first.changes else "no change is known in this time, so nothing could be late"
    return replace(found, settings=tuple(rows), note=note)


def _missing(runs: Sequence[PastRun], shortest: int, now: int) -> str | None:
    """Return why a history is too short to be replayed, and when it will not be any more."""
    if not runs:
        return "it was not crawled yet; a replay needs two runs"
    began = runs[0].started_at
    ready = iso(max(began + shortest, now))
    if len(runs) == 1:
        return (
            f"it was crawled once, {iso(began)}, and changes show from the second run on: crawl"
            f" it again; there is something to replay from {ready} on"
        )
    if now < began + shortest:
        return (
            f"its first run was {iso(began)}, less than the base interval of {_hours(shortest)}"
            f" ago; there is something to replay from {ready} on"
        )
    return None


def settings(schedule: Schedule) -> Iterator[Setting]:
    """Yield the schedule as it is set, and some around it."""
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
    yield Setting("never back off", unhurried(schedule), option)


def picture(found: Simulation) -> str:
    """Return the SVG of a simulation.

    Raises:
        RegistryError: no change is known, so there is nothing to compare the savings with.
    """
    if not found.whole.changes:
        raise RegistryError(
            f"{found.source}: no change is known since {iso(found.since)}, so there is no"
            " staleness to draw: leave --svg out, or let --simulate go back further"
        )
    return scatter(
        [
            Dot(
                setting.name,
                round(100 * found.share(result), 2),
                (result.staleness or 0) / _HOUR,
                current=setting.name == AS_SET,
            )
            for setting, result in found.settings
        ],
        title=f"{found.source}: requests saved against staleness",
        description="; ".join(
            f"{setting.name}: {_percent(found.share(result))} saved, {_hours(result.staleness)}"
            for setting, result in found.settings
        ),
        x_axis="requests saved, %",
        y_axis="mean staleness, hours",
    )


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SmartcrawlError(
            f"cannot write {path} ({error.strerror}): give --svg a file in a folder that this user"
            " may write to"
        ) from error


def _told(found: Simulation) -> dict[str, Any]:
    first = found.settings[0][1] if found.settings else None
    values = (
        found.source,
        found.note,
        iso(found.since),
        iso(found.until),
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
        setting.name == AS_SET,
        setting.option,
        result.requests,
        found.whole.requests - result.requests,
        round(found.share(result), 4),
        None if result.staleness is None else round(result.staleness / _HOUR, 2),
        None if result.late is None else round(result.late / _HOUR, 2),
        result.waiting,
    )
    return dict(zip(SETTING_KEYS, values, strict=True))


def _print(found: Simulation) -> None:
    if found.missing:
        print(f"{found.source}: {found.note}")
        return
    pages, changes = found.whole.pages, found.whole.changes
    print(
        f"{found.source}, {iso(found.since)} to {iso(found.until)}: {pages:,} pages,"
        f" {changes:,} changes, {found.whole_runs:,} complete runs; a run in {_hours(found.pace)}"
    )
    if found.note:
        print(found.note)
    print_table(
        _COLUMNS,
        (
            dict(
                zip(
                    _COLUMNS,
                    (
                        setting.name,
                        f"{result.requests:,}",
                        _percent(found.share(result)),
                        _hours(result.staleness),
                        _hours(result.late),
                        f"{result.waiting:,}",
                        setting.option and f"-s {setting.option}",
                    ),
                    strict=True,
                )
            )
            for setting, result in found.settings
        ),
    )


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"


def _hours(seconds: float | None) -> str:
    """Return a time in hours.

    >>> _hours(86_400), _hours(5_400), _hours(None)
    ('24.0 h', '1.5 h', '')
    """
    return "" if seconds is None else f"{seconds / _HOUR:,.1f} h"

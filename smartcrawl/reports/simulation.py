"""Schedules replayed over the history of a source: savings and staleness of each, and a picture.

Self-contained SVG pictures of labelled dots.

Their colours are readable on a light and on a dark background; they have no background themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby, product
from math import ceil, floor, log10
from operator import itemgetter
from typing import Any, Final, NamedTuple

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.schedule import (
    Life,
    Replay,
    Schedule,
    fixed_schedule,
    simulate_schedules,
    simulated_pace,
    unhurried_schedule,
)

WIDTH: Final = 720
HEIGHT: Final = 400
MOST_CHARACTERS: Final = 80  #: characters of the title; a label gets as many as fit into the frame

_CHARACTER: Final = 7.5  #: width of a character at 12 px, rounded up
_LINE: Final = 16
_ROWS: Final = 24  #: lines that a label may move up or down to find room
_RADIUS: Final = 5
_STEPS: Final = 5  #: most steps on an axis
_LEAST: Final = 1e-6  #: smallest difference between two distinct values

#: Characters that XML 1.0 forbids.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_STYLE: Final = """\
    text { fill: #6b7785 }
    .title { font-size: 14px; font-weight: bold }
    .grid { stroke: #6b7785; stroke-opacity: 0.25 }
    .axis, .leader { stroke: #6b7785 }
    .dot { fill: #6b7785 }
    .current .dot { fill: #2f7fd1 }
    .current text { fill: #2f7fd1; font-weight: bold }"""


@dataclass(frozen=True, slots=True)
class Dot:
    """One dot of the picture, with its name."""

    name: str
    x: float
    y: float
    current: bool = False  #: drawn in the colour of the current one


class ChartBox(NamedTuple):
    """A rectangle of the picture, in its units; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: ChartBox) -> bool:
        """Whether another box is within this one."""
        return (
            self.left <= other.left
            and self.top <= other.top
            and other.right <= self.right
            and other.bottom <= self.bottom
        )

    def meets(self, other: ChartBox) -> bool:
        """Whether two boxes overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


FRAME: Final = ChartBox(64, 44, WIDTH - 16, HEIGHT - 56)  #: area between the axes


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis: maps values to places, and has round values for its ticks."""

    ticks: tuple[float, ...]
    begin: float  #: place of the first tick
    end: float  #: place of the last tick

    def place(self, value: float) -> float:
        low, high = self.ticks[0], self.ticks[-1]
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)


def scatter_chart(
    dots: Sequence[Dot], *, title: str, description: str, x_axis: str, y_axis: str
) -> str:
    """Return the SVG of some dots, each with its name beside it. Both axes include 0."""
    across = _Axis(chart_ticks(dot.x for dot in dots), FRAME.left, FRAME.right)
    upwards = _Axis(chart_ticks(dot.y for dot in dots), FRAME.bottom, FRAME.top)
    places = [(across.place(dot.x), upwards.place(dot.y)) for dot in dots]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        " aria-labelledby=\"title text\" font-family=\"'DejaVu Sans', Verdana, 'Segoe UI',"
        ' Helvetica, Arial, sans-serif" font-size="12">',
        f'  <title id="title">{_text(title)}</title>',
        f'  <desc id="text">{_text(description)}</desc>',
        f"  <style>\n{_STYLE}\n  </style>",
        f'  <text class="title" x="{FRAME.left:g}" y="24">{_text(_cut(title))}</text>',
        *_grid(across, upwards, x_axis, y_axis),
        *_dots(dots, places),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def chart_ticks(values: Iterable[float]) -> tuple[float, ...]:
    """Return round values in equal steps, from the least value or 0 to the greatest or above.

    >>> chart_ticks([3, 84]), chart_ticks([]), chart_ticks([0.3, -0.1])
    ((0.0, 20.0, 40.0, 60.0, 80.0, 100.0), (0.0, 1.0), (-0.1, 0.0, 0.1, 0.2, 0.3))
    """
    values = [0.0, *values]
    low, high = min(values), max(values)
    if high - low < _LEAST:
        return (0.0, 1.0)
    power = 10.0 ** floor(log10((high - low) / _STEPS))
    for step in (power * factor for factor in (1, 2, 5, 10, 20)):
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        if last - first <= _STEPS:
            break
    return tuple(round(n * step, 12) for n in range(first, last + 1))


def _grid(across: _Axis, upwards: _Axis, x_axis: str, y_axis: str) -> Iterator[str]:
    left, top, right, bottom = FRAME
    for value in across.ticks:
        x = across.place(value)
        yield f'  <path class="grid" d="M{x:.1f} {top:g}V{bottom:g}"/>'
        yield _label(x, bottom + 18, f"{value:g}", "middle")
    for value in upwards.ticks:
        y = upwards.place(value)
        yield f'  <path class="grid" d="M{left:g} {y:.1f}H{right:g}"/>'
        yield _label(left - 8, y + 4, f"{value:g}", "end")
    yield f'  <path class="axis" fill="none" d="M{left:g} {top:g}V{bottom:g}H{right:g}"/>'
    middle = (top + bottom) / 2
    yield _label((left + right) / 2, HEIGHT - 16, x_axis, "middle")
    turned = f' transform="rotate(-90 18 {middle:g})"'
    yield _label(18, middle, y_axis, "middle", turned)


def _dots(dots: Sequence[Dot], places: Sequence[tuple[float, float]]) -> Iterator[str]:
    names = [_cut(dot.name, int((FRAME.right - FRAME.left) // _CHARACTER)) for dot in dots]
    for dot, name, (x, y), box in zip(
        dots, names, places, chart_label_boxes(names, places), strict=True
    ):
        yield f'  <g class="{"current" if dot.current else "other"}">'
        if not box.top <= y <= box.bottom:
            edge = min(max(x, box.left), box.right)
            near = box.bottom if box.bottom < y else box.top
            yield f'    <path class="leader" d="M{x:.1f} {y:.1f}L{edge:.1f} {near:.1f}"/>'
        yield f'    <circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}"/>'
        if box.right <= x:
            side, anchor = box.right, "end"
        elif box.left >= x:
            side, anchor = box.left, "start"
        else:
            side, anchor = (box.left + box.right) / 2, "middle"
        yield "  " + _label(side, box.bottom - 4, name, anchor)
        yield "  </g>"


def chart_label_boxes(
    names: Sequence[str], places: Sequence[tuple[float, float]]
) -> list[ChartBox]:
    """Return the box of each name: near its dot, within the frame, without an overlap if possible.

    A name without free room is put beside its dot all the same.
    """
    taken = [ChartBox(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in places]
    found = []
    for name, (x, y) in zip(names, places, strict=True):
        tried = [box for box in _around(len(name) * _CHARACTER, x, y) if FRAME.holds(box)]
        free = (box for box in tried if not any(box.meets(other) for other in taken))
        box = next(free, tried[0])
        taken.append(box)
        found.append(box)
    return found


def _around(width: float, x: float, y: float) -> Iterator[ChartBox]:
    """Yield the possible boxes of a name of this width, nearest first."""
    gap = _RADIUS + 4
    most = FRAME.right - width
    rows = sorted(range(-_ROWS, _ROWS + 1), key=abs)
    for row, side in product(rows, (x + gap, x - gap - width, x - width / 2)):
        left = min(max(side, FRAME.left), most) if row else side
        middle = y + row * _LINE
        yield ChartBox(left, middle - _LINE / 2, left + width, middle + _LINE / 2)


def _label(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"  <text {place}{more}>{_text(text)}</text>"


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("\ufffd", text))


def _cut(text: str, most: int = MOST_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


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
) -> Simulation:
    """Replay the history of one source.

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
    return replace(found, settings=tuple(rows), note=note)


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
                current=setting.name == AS_SET,
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


def simulation_report_percent(share: float) -> str:
    """Return a share as a whole percentage."""
    return f"{round(100 * share)} %"


def simulation_report_hours(seconds: float | None) -> str:
    """Return a time in hours.

    >>> [simulation_report_hours(seconds) for seconds in (86_400, 5_400, None)]
    ['24.0 h', '1.5 h', '']
    """
    return "" if seconds is None else f"{seconds / _HOUR:,.1f} h"

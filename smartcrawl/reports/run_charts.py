"""Pictures of runs: requests over time, changes and stored pages from run to run.

Each has its numbers, which a page shows as a table below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from math import ceil
from typing import Any, Final

from smartcrawl.reports.page_chart import (
    ChartLine,
    Drawing,
    line_chart,
    row_ticks,
    time_axis_name,
    time_ticks,
)
from smartcrawl.reports.text import report_noun

_MOST_POINTS: Final = 120  #: of a line; of more samples several become one
_CHANGES: Final = ("new", "modified", "lost", "removed")


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with its finding and its numbers."""

    title: str  #: what it shows, as a sentence
    svg: Drawing
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]  #: a cell for each column: the first is a time or a run


def run_requests_chart(samples: Sequence[Mapping[str, Any]]) -> Chart | None:
    """Return the requests of a run over time; ``samples``: as of ``run_samples_report``.

    None: there are too few samples for a rate. A span in which the clock stood still has no point.
    """
    step = max(1, ceil((len(samples) - 1) / _MOST_POINTS))
    kept = [*samples[:-1:step], *samples[-1:]]
    spans = [(one, two) for one, two in pairwise(kept) if two["seconds"] > one["seconds"]]
    if not spans:
        return None
    names = ("requests", "notModified", "failed")
    rates = [
        [(two[name] - one[name]) / (two["seconds"] - one["seconds"]) for name in names]
        for one, two in spans
    ]
    first, last = spans[0][0], spans[-1][1]
    places = [_moment(two) for _, two in spans]
    title = _requests_title(first, last, [rate[0] for rate in rates])
    lines = [
        ChartLine(label, [round(rate[no], 3) for rate in rates])
        for no, label in enumerate(("requests", "304", "failed pages"))
    ]
    svg = line_chart(
        places,
        lines,
        name="requests",
        title=title,
        description=f"requests, answers 304 and failed pages a second, {len(spans)} points",
        ticks=time_ticks(places[0], places[-1]),
        x_axis=time_axis_name(_moment(first)),
        y_axis="a second",
    )
    rows = [
        (two["at"], *(round(value, 2) for value in rate), two["visited"], two["waiting"])
        for (_, two), rate in zip(spans, rates, strict=True)
    ]
    columns = ("Until", "Requests a second", "304 a second", "Failed a second", "Done", "Waiting")
    return Chart(title, svg, columns, rows)


def _moment(sample: Mapping[str, Any]) -> int:
    return int(datetime.fromisoformat(sample["at"]).timestamp())


def _requests_title(
    first: Mapping[str, Any], last: Mapping[str, Any], rates: Sequence[float]
) -> str:
    seconds = last["seconds"] - first["seconds"]
    requests, same, failed = (
        last[name] - first[name] for name in ("requests", "notModified", "failed")
    )
    if not requests:
        return f"No request in {report_noun(seconds, 'second')}"
    text = f"{_rate(requests / seconds)} requests a second"
    if len(rates) > 1:
        text += f" on average, {_rate(max(rates))} at most"
    if same:
        text += f"; {report_noun(same, 'answer')} 304"
    if failed:
        text += f"; {report_noun(failed, 'page')} failed"
    return text


def _rate(rate: float) -> str:
    """Return a rate with as many digits as say something.

    >>> _rate(1234.56), _rate(2), _rate(0.0123)
    ('1,234.6', '2.0', '0.012')
    """
    return f"{rate:,.1f}" if rate >= 1 else f"{rate:.2g}"


def run_changes_chart(runs: Sequence[Mapping[str, Any]]) -> Chart | None:
    """Return what the runs of a source changed; ``runs``: rows of ``runs``, oldest first.

    None: fewer than two of them ended.
    """
    ended = [run for run in runs if run["finishedAt"] is not None]
    if len(ended) < 2:
        return None
    totals = [sum(run[name] for name in _CHANGES) for run in ended]
    most = max(totals)
    if most:
        run = ended[totals.index(most)]
        what = ", ".join(f"{run[name]:,} {name}" for name in _CHANGES if run[name])
        title = f"Run {run['run']} changed most: {what}"
    else:
        title = f"Nothing changed in {len(ended)} runs"
    lines = [ChartLine(name, [run[name] for run in ended]) for name in _CHANGES]
    return _by_run(ended, lines, "changes", title)


def run_stored_chart(runs: Sequence[Mapping[str, Any]]) -> Chart | None:
    """Return the pages stored after each run of a source; ``runs``: as for the changes.

    None: fewer than two of them are known to have reached their end.
    """
    known = [run for run in runs if run["held"] is not None]
    if len(known) < 2:
        return None
    first, last = known[0], known[-1]
    difference = last["held"] - first["held"]
    change = f"{abs(difference):,} {'more' if difference > 0 else 'fewer'} than"
    title = (
        f"{report_noun(last['held'], 'page')} stored after run {last['run']},"
        f" {change if difference else 'as many as'} after run {first['run']}"
    )
    lines = [ChartLine("pages stored", [run["held"] for run in known])]
    return _by_run(known, lines, "stored", title)


def _by_run(
    runs: Sequence[Mapping[str, Any]], lines: Sequence[ChartLine], name: str, title: str
) -> Chart:
    """Return the picture of some values of each run."""
    numbers = [run["run"] for run in runs]
    svg = line_chart(
        range(len(runs)),
        lines,
        name=name,
        title=title,
        description=f"runs {numbers[0]} to {numbers[-1]}",
        ticks=row_ticks([str(number) for number in numbers]),
        x_axis="run",
        y_axis="pages",
    )
    columns = ("Run", *(line.name.capitalize() for line in lines))
    return Chart(
        title, svg, columns, list(zip(numbers, *(line.values for line in lines), strict=True))
    )

"""Pictures in SVG for a page, whose stylesheet has their colours: lines and bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Final

from smartcrawl.reports.chart import (
    ChartAxis,
    ChartBox,
    chart_label,
    chart_text,
    chart_ticks,
    cut_chart_text,
)

_PAGE_WIDTH: Final = 560
_PAGE_HEIGHT: Final = 320
MOST_LINES: Final = 6  #: more cannot be distinguished
_MOST_MARKERS: Final = 12  #: of a line
_MOST_TICKS: Final = 5  #: steps across, of times
_MOST_NAMES: Final = 10  #: names across, of things in a row
#: Width of a character of 21 units, rounded up: on a phone letters have this size, so that they are
#: shown with at least 12 px. The stylesheet has their sizes.
_LETTER: Final = 13
_TEXT_LINE: Final = 26
_TOP_LINE: Final = 20  #: baseline of the name of the axis upwards
_LEFT: Final = 16  #: beside the numbers of the axis upwards
_BOTTOM: Final = _PAGE_HEIGHT - 62  #: of the frame; below it are two lines
_NAMES_DROP: Final = 24  #: units between a frame and the baseline of the names below it
_ACROSS: Final = 440  #: width of a frame with usual numbers beside it
_SAMPLE: Final = 28  #: width of a line's sample in the legend
#: Lengths of strokes and gaps of each line: lines differ without colours, too.
_DASHES: Final = ("", "8 4", "2 4", "12 4 2 4", "5 3", "14 6")
#: Shapes of markers of 8 px, drawn from their middle.
_SHAPES: Final = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "m-4 -4h8v8h-8z",
    "m0 -5l5 9h-10z",
    "m0 -5l5 5l-5 5l-5 -5z",
    "m-4 -4l8 8m0 -8l-8 8",
    "m-5 0h10m-5 -5v10",
)
#: Seconds from one round time to the next.
_TIME_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400 * days for days in (1, 2, 7, 14, 28, 91, 182, 364, 1_820, 18_200)),
)
_DAY: Final = 86_400
Tick = tuple[float, str]  #: place across, text


class Drawing(str):
    """A picture in SVG, which templates take as markup; its texts are escaped."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a picture: a value for each place; None: unknown, and the line breaks."""

    name: str
    values: Sequence[float | None]


def time_ticks(first: int, last: int) -> tuple[Tick, ...]:
    """Return round times, UTC, from the first to the last one (Unix seconds).

    >>> [text for _, text in time_ticks(1_750_000_000, 1_750_000_150)]
    ['15:07', '15:08', '15:09']
    """
    span = last - first
    for step in _TIME_STEPS:
        form = _time_form(step, span)
        length = len(datetime.fromtimestamp(first, UTC).strftime(form))
        if span / step <= min(_MOST_TICKS, _names_across(length)):
            break
    begin = -(-first // step) * step
    found = range(begin, last + 1, step) or (first,)
    return tuple((at, datetime.fromtimestamp(at, UTC).strftime(form)) for at in found)


def _time_form(step: int, span: int) -> str:
    """Return the format of times that are ``step`` of ``span`` seconds apart."""
    if step >= _DAY:
        return "%Y-%m-%d"
    if span >= _DAY:
        return "%m-%d %H:%M"
    return "%H:%M:%S" if step < 60 else "%H:%M"


def _names_across(length: int) -> int:
    """Return how many names of so many characters have room beside each other."""
    return max(1, _ACROSS // (_LETTER * length + 6))


def time_axis_name(first: int) -> str:
    """Return the name of an axis of times that begins at a time (Unix seconds).

    >>> time_axis_name(1_750_000_000)
    'time, UTC, from 2025-06-15 15:06'
    """
    return f"time, UTC, from {datetime.fromtimestamp(first, UTC):%Y-%m-%d %H:%M}"


def row_ticks(names: Sequence[str]) -> tuple[Tick, ...]:
    """Return the names of things in a row at their places 0, 1, …; of many only some.

    >>> row_ticks(["7", "8"])
    ((0, '7'), (1, '8'))
    """
    most = min(_MOST_NAMES, _names_across(max(map(len, names), default=1)))
    step = max(1, ceil(len(names) / most))
    return tuple((place, names[place]) for place in range(0, len(names), step))


def line_chart(
    places: Sequence[float],
    lines: Sequence[ChartLine],
    *,
    name: str,
    title: str,
    description: str,
    ticks: Sequence[Tick],
    x_axis: str,
    y_axis: str,
) -> Drawing:
    """Return the SVG of some lines, for a page whose stylesheet has their colours.

    ``places``: of the values, in ascending order. ``name``: of the picture in its page, which
    begins its ids. The axis upwards includes 0.

    Raises:
        ValueError: there are more than ``MOST_LINES``, or one has not a value for each place.
    """
    if len(lines) > MOST_LINES or any(len(line.values) != len(places) for line in lines):
        raise ValueError(f"{name}: at most {MOST_LINES} lines, with a value for each place")
    values = [value for line in lines for value in line.values if value is not None]
    upwards = chart_ticks(values)
    labels = [_number(value) for value in upwards]
    rows = _legend_rows(lines)
    frame = ChartBox(
        _LEFT + _LETTER * max(map(len, labels)),
        _TOP_LINE + _TEXT_LINE * (1 + max((row for row, _ in rows), default=-1)) + 18,
        _PAGE_WIDTH - 16,
        _BOTTOM,
    )
    low, high = (places[0], places[-1]) if places else (0.0, 1.0)
    if low == high:
        low, high = low - 1, high + 1
    across = ChartAxis((low, high), frame.left, frame.right)
    up = ChartAxis(upwards, frame.bottom, frame.top)
    return _page_picture(
        [
            *_page_grid(frame, across, up, ticks, labels),
            *_legend(lines, rows),
            *(line for no, one in enumerate(lines) for line in _line(no, one, places, across, up)),
        ],
        frame,
        name=name,
        texts=(title, description),
        axes=(x_axis, y_axis),
    )


def bar_chart(
    bars: Sequence[tuple[str, int]],
    *,
    name: str,
    title: str,
    description: str,
    x_axis: str,
    y_axis: str,
) -> Drawing:
    """Return the SVG of some bars, with names below and values above, as far as there is room.

    ``bars``: names and values. ``name``: as for lines, and so are the other texts.
    """
    upwards = chart_ticks(value for _, value in bars)
    labels = [_number(value) for value in upwards]
    beside = _LEFT + _LETTER * max(map(len, labels))
    frame = ChartBox(beside, _TOP_LINE + _TEXT_LINE + 4, _PAGE_WIDTH - 16, _BOTTOM)
    up = ChartAxis(upwards, frame.bottom, frame.top)
    across = ChartAxis((0.0, float(max(1, len(bars)))), frame.left, frame.right)
    lines = [*_page_grid(frame, across, up, (), labels)]
    slot, last = across.place(1) - across.place(0), len(bars) - 1
    step = ceil(_LETTER * max((len(text) for text, _ in bars), default=1) / slot)
    for place, (text, value) in enumerate(bars):
        left, middle, right = (across.place(place + part) for part in (0.15, 0.5, 0.85))
        if place == last or (place % step == 0 and last - place >= step):
            half = _LETTER * len(text) / 2  # the last one stays in the picture
            at = min(middle, _PAGE_WIDTH - half)
            lines.append(chart_label(at, frame.bottom + _NAMES_DROP, text, "middle"))
        top, number = up.place(value), _number(value)
        size = f'width="{right - left:.1f}" height="{frame.bottom - top:.1f}"'
        bar = f'<rect fill="currentColor" x="{left:.1f}" y="{top:.1f}" {size}/>'
        lines.append(f'  <g class="s1">{bar}</g>')
        if value and _LETTER * len(number) <= slot + _LETTER:
            lines.append(chart_label(middle, top - 4, number, "middle"))
    return _page_picture(lines, frame, name=name, texts=(title, description), axes=(x_axis, y_axis))


def _page_picture(
    lines: Sequence[str],
    frame: ChartBox,
    *,
    name: str,
    texts: tuple[str, str],
    axes: tuple[str, str],
) -> Drawing:
    """Return the picture of some lines of SVG; ``texts``: its title and its description."""
    begin = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {_PAGE_WIDTH}'
        f' {_PAGE_HEIGHT}" role="img" aria-labelledby="{name}-title {name}-text"'
        ' font-size="13" fill="currentColor">',
        f'  <title id="{name}-title">{chart_text(texts[0])}</title>',
        f'  <desc id="{name}-text">{chart_text(texts[1])}</desc>',
    ]
    names = [
        chart_label((frame.left + frame.right) / 2, _PAGE_HEIGHT - 8, axes[0], "middle"),
        chart_label(4, _TOP_LINE, axes[1], "start"),
    ]
    return Drawing("\n".join([*begin, *lines, *names, "</svg>"]))


def _number(value: float) -> str:
    return f"{value:,.12g}"


def _legend_rows(lines: Sequence[ChartLine]) -> list[tuple[int, float]]:
    """Return the row and the left edge of each name in the legend."""
    found, row, left = list[tuple[int, float]](), 0, 4.0
    for line in lines:
        width = _SAMPLE + 8 + _LETTER * len(cut_chart_text(line.name, 40)) + 12
        if left > 4 and left + width > _PAGE_WIDTH:
            row, left = row + 1, 4.0
        found.append((row, left))
        left += width
    return found


def _legend(lines: Sequence[ChartLine], rows: Sequence[tuple[int, float]]) -> Iterator[str]:
    for no, (line, (row, left)) in enumerate(zip(lines, rows, strict=True)):
        y = _TOP_LINE + _TEXT_LINE * (row + 1) - 6
        yield f'  <g class="line s{no + 1}">'
        yield f"    {_stroke(no, f'M{left:g} {y}h{_SAMPLE}')}"
        yield f"    {_marker(no, left + _SAMPLE / 2, y)}"
        yield "  </g>"
        yield chart_label(left + _SAMPLE + 6, y + 6, cut_chart_text(line.name, 40), "start")


def _page_grid(
    frame: ChartBox, across: ChartAxis, up: ChartAxis, ticks: Sequence[Tick], labels: Sequence[str]
) -> Iterator[str]:
    left, top, right, bottom = frame
    for value, text in ticks:
        x = across.place(value)
        yield _faint(f"M{x:.1f} {top:g}V{bottom:g}")
        half = _LETTER * len(text) / 2  # the first and the last one stay in the picture
        yield chart_label(
            min(max(x, half), _PAGE_WIDTH - half), bottom + _NAMES_DROP, text, "middle"
        )
    for value, text in zip(up.ticks, labels, strict=True):
        y = up.place(value)
        yield _faint(f"M{left:g} {y:.1f}H{right:g}")
        yield chart_label(left - 8, y + 6, text, "end")


def _faint(path: str) -> str:
    return f'  <path class="grid" stroke="currentColor" stroke-opacity="0.25" d="{path}"/>'


def _line(
    no: int, line: ChartLine, places: Sequence[float], across: ChartAxis, up: ChartAxis
) -> Iterator[str]:
    points = [
        None if value is None else (across.place(place), up.place(value))
        for place, value in zip(places, line.values, strict=True)
    ]
    known = [point for point in points if point is not None]
    if not known:
        return
    parts, pen = list[str](), "M"
    for point in points:
        if point is None:
            pen = "M"
            continue
        parts.append(f"{pen}{point[0]:.1f} {point[1]:.1f}")
        pen = "L"
    step = max(1, ceil(len(known) / _MOST_MARKERS))
    yield f'  <g class="line s{no + 1}">'
    yield f"    {_stroke(no, ''.join(parts))}"
    for x, y in known[::-step]:  # the last one has its marker
        yield f"    {_marker(no, x, y)}"
    yield "  </g>"


def _stroke(no: int, path: str) -> str:
    dash = f' stroke-dasharray="{_DASHES[no]}"' if _DASHES[no] else ""
    return f'<path fill="none" stroke="currentColor" stroke-width="2"{dash} d="{path}"/>'


def _marker(no: int, x: float, y: float) -> str:
    return f'<path class="dot" stroke="currentColor" d="M{x:.1f} {y:.1f}{_SHAPES[no]}"/>'

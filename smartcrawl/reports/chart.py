"""Pictures in SVG: labelled dots in a file of their own, and lines for a page.

Their colours are readable on a light and on a dark background; they have no background themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import product
from math import ceil, floor, log10
from typing import Final, NamedTuple

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


# Lines for a page

_PAGE_WIDTH: Final = 560
_PAGE_HEIGHT: Final = 260
MOST_LINES: Final = 6  #: more can not be told apart
_MOST_MARKERS: Final = 12  #: of a line
_MOST_TICKS: Final = 5  #: steps across, of times
_MOST_NAMES: Final = 10  #: names across, of things in a row
_LETTER: Final = 8  #: width of a character at 13 px, rounded up
_LEGEND_LINE: Final = 20
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
    """One line of a picture: a value for each place; None: it is not known, and the line breaks."""

    name: str
    values: Sequence[float | None]


def time_ticks(first: int, last: int) -> tuple[Tick, ...]:
    """Return round times, UTC, from the first to the last one (Unix seconds).

    >>> [text for _, text in time_ticks(1_750_000_000, 1_750_000_150)]
    ['15:07:00', '15:07:30', '15:08:00', '15:08:30', '15:09:00']
    """
    span = last - first
    step = next((one for one in _TIME_STEPS if span / one <= _MOST_TICKS), _TIME_STEPS[-1])
    form = "%H:%M:%S" if step < 60 else "%H:%M"
    if step >= _DAY:
        form = "%Y-%m-%d"
    elif span >= _DAY:
        form = "%m-%d %H:%M"
    begin = -(-first // step) * step
    found = range(begin, last + 1, step) or (first,)
    return tuple((at, datetime.fromtimestamp(at, UTC).strftime(form)) for at in found)


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
    step = max(1, ceil(len(names) / _MOST_NAMES))
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
        24 + _LETTER * max(map(len, labels)),
        28 + _LEGEND_LINE * (1 + max((row for row, _ in rows), default=-1)),
        _PAGE_WIDTH - 16,
        _PAGE_HEIGHT - 44,
    )
    low, high = (places[0], places[-1]) if places else (0.0, 1.0)
    if low == high:
        low, high = low - 1, high + 1
    across = _Axis((low, high), frame.left, frame.right)
    up = _Axis(upwards, frame.bottom, frame.top)
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
    frame = ChartBox(24 + _LETTER * max(map(len, labels)), 36, _PAGE_WIDTH - 16, _PAGE_HEIGHT - 44)
    up = _Axis(upwards, frame.bottom, frame.top)
    across = _Axis((0.0, float(max(1, len(bars)))), frame.left, frame.right)
    lines = [*_page_grid(frame, across, up, (), labels)]
    slot, last = across.place(1) - across.place(0), len(bars) - 1
    step = ceil(_LETTER * max((len(text) for text, _ in bars), default=1) / slot)
    for place, (text, value) in enumerate(bars):
        left, middle, right = (across.place(place + part) for part in (0.15, 0.5, 0.85))
        if place == last or (place % step == 0 and last - place >= step):
            lines.append(_label(middle, frame.bottom + 18, text, "middle"))
        top, number = up.place(value), _number(value)
        size = f'width="{right - left:.1f}" height="{frame.bottom - top:.1f}"'
        bar = f'<rect fill="currentColor" x="{left:.1f}" y="{top:.1f}" {size}/>'
        lines.append(f'  <g class="s1">{bar}</g>')
        if value and _LETTER * len(number) <= slot + _LETTER:
            lines.append(_label(middle, top - 4, number, "middle"))
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
        f'  <title id="{name}-title">{_text(texts[0])}</title>',
        f'  <desc id="{name}-text">{_text(texts[1])}</desc>',
    ]
    names = [
        _label((frame.left + frame.right) / 2, _PAGE_HEIGHT - 4, axes[0], "middle"),
        _label(4, 12, axes[1], "start"),
    ]
    return Drawing("\n".join([*begin, *lines, *names, "</svg>"]))


def _number(value: float) -> str:
    return f"{value:,.12g}"


def _legend_rows(lines: Sequence[ChartLine]) -> list[tuple[int, float]]:
    """Return the row and the left edge of each name in the legend."""
    found, row, left = list[tuple[int, float]](), 0, 4.0
    for line in lines:
        width = _SAMPLE + 8 + _LETTER * len(_cut(line.name, 40)) + 12
        if left > 4 and left + width > _PAGE_WIDTH:
            row, left = row + 1, 4.0
        found.append((row, left))
        left += width
    return found


def _legend(lines: Sequence[ChartLine], rows: Sequence[tuple[int, float]]) -> Iterator[str]:
    for no, (line, (row, left)) in enumerate(zip(lines, rows, strict=True)):
        y = 28 + _LEGEND_LINE * row
        yield f'  <g class="line s{no + 1}">'
        yield f"    {_stroke(no, f'M{left:g} {y}h{_SAMPLE}')}"
        yield f"    {_marker(no, left + _SAMPLE / 2, y)}"
        yield "  </g>"
        yield _label(left + _SAMPLE + 6, y + 4, _cut(line.name, 40), "start")


def _page_grid(
    frame: ChartBox, across: _Axis, up: _Axis, ticks: Sequence[Tick], labels: Sequence[str]
) -> Iterator[str]:
    left, top, right, bottom = frame
    for value, text in ticks:
        x = across.place(value)
        yield _faint(f"M{x:.1f} {top:g}V{bottom:g}")
        half = _LETTER * len(text) / 2  # the first and the last one stay in the picture
        yield _label(min(max(x, half), _PAGE_WIDTH - half), bottom + 18, text, "middle")
    for value, text in zip(up.ticks, labels, strict=True):
        y = up.place(value)
        yield _faint(f"M{left:g} {y:.1f}H{right:g}")
        yield _label(left - 8, y + 4, text, "end")


def _faint(path: str) -> str:
    return f'  <path class="grid" stroke="currentColor" stroke-opacity="0.25" d="{path}"/>'


def _line(
    no: int, line: ChartLine, places: Sequence[float], across: _Axis, up: _Axis
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

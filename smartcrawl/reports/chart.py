"""Pictures in SVG: labelled dots in a file of their own, and the parts of each picture.

Their colours are readable on a light and on a dark background; they have no background themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
class ChartAxis:
    """An axis: maps values to places, and has round values for its ticks."""

    ticks: tuple[float, ...]
    begin: float  #: place of the first tick
    end: float  #: place of the last tick

    def place(self, value: float) -> float:
        """Return the place of a value."""
        low, high = self.ticks[0], self.ticks[-1]
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)


def scatter_chart(
    dots: Sequence[Dot], *, title: str, description: str, x_axis: str, y_axis: str
) -> str:
    """Return the SVG of some dots, each with its name beside it. Both axes include 0."""
    across = ChartAxis(chart_ticks(dot.x for dot in dots), FRAME.left, FRAME.right)
    upwards = ChartAxis(chart_ticks(dot.y for dot in dots), FRAME.bottom, FRAME.top)
    places = [(across.place(dot.x), upwards.place(dot.y)) for dot in dots]
    shown = cut_chart_text(title)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        " aria-labelledby=\"title text\" font-family=\"'DejaVu Sans', Verdana, 'Segoe UI',"
        ' Helvetica, Arial, sans-serif" font-size="12">',
        f'  <title id="title">{chart_text(title)}</title>',
        f'  <desc id="text">{chart_text(description)}</desc>',
        f"  <style>\n{_STYLE}\n  </style>",
        f'  <text class="title" x="{FRAME.left:g}" y="24">{chart_text(shown)}</text>',
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


def _grid(across: ChartAxis, upwards: ChartAxis, x_axis: str, y_axis: str) -> Iterator[str]:
    left, top, right, bottom = FRAME
    for value in across.ticks:
        x = across.place(value)
        yield f'  <path class="grid" d="M{x:.1f} {top:g}V{bottom:g}"/>'
        yield chart_label(x, bottom + 18, f"{value:g}", "middle")
    for value in upwards.ticks:
        y = upwards.place(value)
        yield f'  <path class="grid" d="M{left:g} {y:.1f}H{right:g}"/>'
        yield chart_label(left - 8, y + 4, f"{value:g}", "end")
    yield f'  <path class="axis" fill="none" d="M{left:g} {top:g}V{bottom:g}H{right:g}"/>'
    middle = (top + bottom) / 2
    yield chart_label((left + right) / 2, HEIGHT - 16, x_axis, "middle")
    turned = f' transform="rotate(-90 18 {middle:g})"'
    yield chart_label(18, middle, y_axis, "middle", turned)


def _dots(dots: Sequence[Dot], places: Sequence[tuple[float, float]]) -> Iterator[str]:
    names = [
        cut_chart_text(dot.name, int((FRAME.right - FRAME.left) // _CHARACTER)) for dot in dots
    ]
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
        yield "  " + chart_label(side, box.bottom - 4, name, anchor)
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


def chart_label(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    """Return a text of a picture as SVG; ``more``: further attributes."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"  <text {place}{more}>{chart_text(text)}</text>"


def chart_text(text: str) -> str:
    """Return a text escaped, without characters that XML forbids."""
    return escape(_FORBIDDEN.sub("\ufffd", text))


def cut_chart_text(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text of at most ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"

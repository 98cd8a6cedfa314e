"""Texts that drawings of Office files have: alternative texts, and the points of SmartArt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from smartcrawl.extract.formats.common import MAX_DESCRIPTION
from smartcrawl.extract.formats.zipped import (
    Attributes,
    Relation,
    ZipArchive,
    markup_attribute,
    walk_markup,
)
from smartcrawl.extract.sections import markup_line

RELATION_IDS: Final = "relIds"  #: element that names the parts of a diagram
_PARENT_OF: Final = "parOf"
_PICTURE_FILE: Final = re.compile(
    r"[^\n]*\.(?:bmp|emf|gif|jpe?g|png|svg|tiff?|webp|wmf)", re.IGNORECASE
)


def alternative_text(attributes: Attributes) -> str:
    """Return the alternative text in the properties of a drawing, as one line.

    A program writes the name of the file there; that is none.

    >>> alternative_text({"id": "1", "descr": "A lamp,\\n lit"})
    'A lamp, lit'
    >>> alternative_text({"descr": "C:\\\\lamps\\\\one.PNG", "title": ""})
    ''
    """
    given = markup_line(attributes.get("descr", "")) or markup_line(attributes.get("title", ""))
    return "" if _PICTURE_FILE.fullmatch(given) else given[:MAX_DESCRIPTION].rstrip()


def diagram_lines(
    archive: ZipArchive, attributes: Attributes, relations: dict[str, Relation]
) -> list[str]:
    """Return the lines of a diagram (SmartArt), each point before those below it.

    ``attributes``: those of its element ``RELATION_IDS``. A part that is missing has no lines.

    Source: ECMA-376, part 1, section 21.4.
    """
    relation = relations.get(markup_attribute(attributes, "dm"))
    if relation is None or relation.external or relation.target not in archive:
        return []
    model = _Model()
    walk_markup(model, archive.portions(relation.target), part=relation.target)
    return [line for point in model.ordered() for line in model.lines(point)]


class _Model:
    """The points of a diagram by id, and which is below which."""

    def __init__(self) -> None:
        self._points: dict[str, list[str]] = {}
        self._below: dict[str, list[tuple[int, str]]] = {}
        self._point: list[str] | None = None
        self._reads = False

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "pt":
            self._point = self._points.setdefault(attributes.get("modelId", ""), [])
        elif name == "p" and self._point is not None:
            self._point.append("")
        elif name == "t":  # of a point, and of a run in it
            self._reads = bool(self._point)
        elif name == "br" and self._point:
            self._point[-1] += " "
        elif name == "cxn" and attributes.get("type", _PARENT_OF) == _PARENT_OF:
            order = attributes.get("srcOrd", "")
            place = (int(order[:9]) if order.isdecimal() else 0, attributes.get("destId", ""))
            self._below.setdefault(attributes.get("srcId", ""), []).append(place)

    def end(self, name: str) -> None:
        if name == "pt":
            self._point = None
        elif name == "t":
            self._reads = False

    def text(self, text: str) -> None:
        if self._reads and self._point:
            self._point[-1] += text

    def lines(self, point: str) -> list[str]:
        """Return the lines of a point that have text."""
        return [line for line in map(markup_line, self._points[point]) if line]

    def ordered(self) -> Iterable[str]:
        """Return the points from the top down, each once; those in a circle come last."""
        below = {point for places in self._below.values() for _, point in places}
        tops = [point for point in self._points if point not in below]
        found: dict[str, None] = {}
        waiting = [*self._points][::-1] + tops[::-1]
        while waiting:
            point = waiting.pop()
            if point in self._points and point not in found:
                found[point] = None
                waiting += [after for _, after in sorted(self._below.get(point, ()))[::-1]]
        return found

"""Spans of a document at their places in its texts, which are found only where they are needed.

A page is read often, and its spans are looked at seldom: where its text is given out. So a document
keeps them as its reader counts them, and unpacking it finds their places.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, compress, repeat
from operator import add, attrgetter, sub
from typing import Final

from smartcrawl.model.documents import (
    ID_KINDS,
    PICTURE,
    CountedPicture,
    CountedSpans,
    Document,
    Section,
    Span,
)


def with_placed_spans(document: Document) -> Document:
    """Return a document whose counted spans are spans of its sections."""
    if document.counted is None:
        return document
    return replace(
        document, sections=placed_spans(document.sections, document.counted), counted=None
    )


def without_ids(document: Document) -> Document:
    """Return a document with placed spans and without ids, to which no address leads."""

    def kept(spans: tuple[Span, ...]) -> tuple[Span, ...]:
        return tuple(span for span in spans if span.kind not in ID_KINDS)

    placed = with_placed_spans(document)
    sections = (one._replace(spans=kept(one.spans), head=kept(one.head)) for one in placed.sections)
    return replace(placed, sections=tuple(sections))


def with_placed_ids(document: Document) -> Document:
    """Return a document of whose counted spans the ids alone are spans of its sections.

    Pages have ten times as many links and pieces of code.
    """
    counted = document.counted
    if counted is None:
        return document
    wanted = [kind in ID_KINDS for kind in counted.kinds]
    ids = CountedSpans(
        counted.total,
        tuple(compress(counted.kinds, wanted)),
        tuple(compress(counted.starts, wanted)),
        tuple(compress(counted.ends, wanted)),
        tuple(compress(counted.targets, wanted)),
    )
    sections = placed_spans(document.sections, ids) if ids.kinds else document.sections
    return replace(document, sections=sections, counted=None)


def placed_spans(sections: Iterable[Section], counted: CountedSpans) -> tuple[Section, ...]:
    """Return sections with their spans; without any where the texts have another length."""
    placed = list(sections)
    found = _Places(placed, counted).spans() if placed else {}
    for number in {piece // 2 for piece in found}:
        head, text = (tuple(found.get(2 * number + at, ())) for at in (0, 1))
        placed[number] = placed[number]._replace(spans=text, head=head)
    return tuple(placed)


class _Places:
    """The places in headings and texts, its pieces, that belong to counts of characters.

    Pages have thousands of spans, so that all of one kind of number are made together.
    """

    def __init__(self, sections: Sequence[Section], counted: CountedSpans) -> None:
        self._counted = counted
        pieces = list(chain.from_iterable((one.heading, one.text) for one in sections))
        self._sizes = list(map(len, pieces))
        self._starts = list(accumulate((size + 1 for size in self._sizes), initial=0))
        words = "\n".join(pieces).replace("\n", " ").replace("\t", " ").split(" ")
        self._words = list(accumulate(map(len, words)))  # characters up to the end of each

    def spans(self) -> dict[int, list[Span]]:
        """Return the spans of each piece, by its number."""
        total, kinds, low, high, targets, pictures = self._counted
        if total != self._words[-1]:
            return {}
        word = partial(bisect_right, self._words)
        begins = map(add, low, map(word, low))
        stops = map(add, high, map(word, map(sub, high, repeat(1))))
        shown = iter(pictures)
        found: dict[int, list[Span]] = {}
        into: list[Span] = []
        base = after = 0
        for count, kind, begin, stop, target in zip(
            low, kinds, begins, stops, targets, strict=True
        ):
            if kind == PICTURE:
                picture = next(shown)
                piece, at = self._picture(count, picture)
                span = Span(kind, at, at, target, picture.text, picture.link)
                found.setdefault(piece, []).append(span)
                continue
            if begin >= stop and (kind not in ID_KINDS or count == total):
                continue  # it has no text
            if begin >= after:
                piece = bisect_right(self._starts, begin) - 1
                base, after = self._starts[piece], self._starts[piece + 1]
                into = found.setdefault(piece, [])
            end = stop if begin < stop < after else begin if begin >= stop else after - 1
            into.append(Span(kind, begin - base, end - base, target))
        for of_piece in found.values():
            of_piece.sort(key=_start)
        return found

    def _picture(self, count: int, picture: CountedPicture) -> tuple[int, int]:
        """Return the piece of a picture, and its place there.

        It is behind the text before it, unless it begins a line. In no heading is one of before it.
        """
        total = self._words[-1]
        if count and (count == total or not picture.begins_line):
            at = count + bisect_right(self._words, count - 1)
            piece = bisect_right(self._starts, at - 1) - 1
            return piece, at - self._starts[piece]
        at = count + bisect_right(self._words, count) if count < total else 0
        piece = bisect_right(self._starts, at) - 1
        if piece % 2 == 0 and not picture.in_heading:
            return (piece - 1, self._sizes[piece - 1]) if piece else (1, 0)
        return piece, at - self._starts[piece]


_start: Final = attrgetter("start")

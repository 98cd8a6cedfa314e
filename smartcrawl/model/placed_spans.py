"""Spans of a document at their places in its texts, which are found only where they are needed.

A page is read often, and its spans are looked at seldom: where its text is given out. So a document
keeps them as its reader counts them, and unpacking it finds their places.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, chain, compress
from operator import attrgetter
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


def with_placed_points(document: Document) -> Document:
    """Return a document of whose counted spans ids and pictures alone are spans of its sections.

    Pages have ten times as many links and pieces of code.
    """
    counted = document.counted
    if counted is None:
        return document
    wanted = list(map(_POINTS.__contains__, counted.kinds))
    points = CountedSpans(
        counted.total,
        tuple(compress(counted.kinds, wanted)),
        tuple(compress(counted.starts, wanted)),
        tuple(compress(counted.ends, wanted)),
        tuple(compress(counted.targets, wanted)),
        counted.pictures,
    )
    sections = placed_spans(document.sections, points) if points.kinds else document.sections
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

    Characters are counted in all pieces, and words only in those that have a span.
    """

    def __init__(self, sections: Sequence[Section], counted: CountedSpans) -> None:
        self._counted = counted
        self._pieces = list(chain.from_iterable((one.heading, one.text) for one in sections))
        #: Characters that are no white space before each piece, and of all.
        self._before = list(accumulate(map(_filled, self._pieces), initial=0))
        self._words: dict[int, list[int]] = {}  #: by piece: characters up to the end of each word

    def spans(self) -> dict[int, list[Span]]:
        """Return the spans of each piece, by its number."""
        total, kinds, low, high, targets, pictures = self._counted
        if total != self._before[-1]:
            return {}
        shown = iter(pictures)
        found: dict[int, list[Span]] = {}
        into: list[Span] = []
        piece = after = -1
        for count, kind, end, target in zip(low, kinds, high, targets, strict=True):
            if kind == PICTURE:
                picture = next(shown)
                at, place = self._picture(count, picture)
                span = Span(kind, place, place, target, picture.text, picture.link)
                found.setdefault(at, []).append(span)
                continue
            if count >= end and (kind not in ID_KINDS or count == total):
                continue  # it has no text
            if count >= after:
                piece = self._piece_of(count)
                after = self._before[piece + 1]
                into = found.setdefault(piece, [])
            begin = stop = self._place(piece, count)
            if count < end <= after:
                stop = self._place(piece, end - 1) + 1
            elif count < end:
                stop = len(self._pieces[piece])
            into.append(Span(kind, begin, stop, target))
        for of_piece in found.values():
            of_piece.sort(key=_start)
        return found

    def _piece_of(self, count: int) -> int:
        """Return the piece that has the character of a number; all together have more."""
        return bisect_right(self._before, count) - 1

    def _place(self, piece: int, count: int) -> int:
        """Return the place of a character in its piece."""
        count -= self._before[piece]
        words = self._words.get(piece)
        if words is None:
            text = self._pieces[piece]
            if not count and text[0] not in _SPACES:
                return 0
            text = text.replace("\n", " ").replace("\t", " ")
            words = self._words[piece] = list(accumulate(map(len, text.split(" "))))
        return count + bisect_right(words, count)

    def _picture(self, count: int, picture: CountedPicture) -> tuple[int, int]:
        """Return the piece of a picture, and its place there.

        It is behind the text before it, unless it begins a line. In no heading is one of before it.
        """
        total = self._before[-1]
        if count and (count == total or not picture.begins_line):
            piece = self._piece_of(count - 1)
            return piece, self._place(piece, count - 1) + 1
        piece = self._piece_of(count) if total else 0
        if piece % 2 == 0 and not picture.in_heading:
            return (piece - 1, len(self._pieces[piece - 1])) if piece else (1, 0)
        return piece, self._place(piece, count) if total else 0


def _filled(text: str) -> int:
    """Return how many characters of a text are no white space."""
    return len(text) - text.count(" ") - text.count("\n") - text.count("\t")


_SPACES: Final = " \n\t"
_POINTS: Final = ID_KINDS | {PICTURE}
_start: Final = attrgetter("start")

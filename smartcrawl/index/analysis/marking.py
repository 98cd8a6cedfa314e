"""Marks around the words that a text has of a query, and the part of it that is shown."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from smartcrawl.index.analysis.stems import KeyFinder, Place, index_keys, index_places
from smartcrawl.index.analysis.words import is_unspaced

SHOWN: Final = 32  #: words of a snippet
_PAIR: Final = 0.5  #: words that a pair of letters counts, of a script without spaces
_DOTS: Final = "…"
_SENTENCE: Final = re.compile(r"[.!?:…]\s|[。！？।۔]|\n")

Marks = tuple[str, str]  #: around a word


class MarkedPart(NamedTuple):
    """A part of a text with marks."""

    text: str
    #: First characters of the words found in the whole text, and which words asked these are.
    found: tuple[tuple[int, int], ...]


class Marker:
    """Marks the words of one query in texts of one language.

    ``asked``: for each word of the query the keys by which it may be there (``asked_keys``).
    """

    def __init__(self, asked: Sequence[Collection[tuple[str, ...]]], language: str, marks: Marks):
        self._finder = KeyFinder(asked)
        self._language = language
        self._marks = marks

    def has(self, text: str) -> bool:
        """Whether a text has any of the words."""
        return bool(self._finder.places(index_keys(text, self._language)))

    def whole(self, text: str) -> str:
        """Return a text with marks around the words found."""
        places = list(index_places(text, self._language))
        return self._marked(text, places, self._found(places), 0, len(text))

    def part(self, text: str) -> str:
        """Return the part of a text with most of the words, with marks around them.

        Some 32 words in one line; dots stand where text is left out.
        """
        return self.marked_part(text).text

    def marked_part(self, text: str) -> MarkedPart:
        """Return the same part, and where the words are in the whole text."""
        places = list(index_places(text, self._language))
        found = self._found(places)
        first, last = _window(text, places, found)
        begin = places[first].start if first else 0
        end = places[last + 1].start if last + 1 < len(places) else len(text)
        shown = " ".join(self._marked(text, places, found, begin, end).split())
        before = f"{_DOTS} " if first else ""
        behind = f" {_DOTS}" if last + 1 < len(places) else ""
        starts = tuple((places[one[0]].start, one[2]) for one in found)
        return MarkedPart(f"{before}{shown}{behind}", starts)

    def _found(self, places: Sequence[Place]) -> list[tuple[int, int, int]]:
        return self._finder.spans([place.key for place in places])

    def _marked(
        self,
        text: str,
        places: Sequence[Place],
        found: Sequence[tuple[int, int, int]],
        begin: int,
        end: int,
    ) -> str:
        """Return text[begin:end] with marks; words that overlap or touch have one pair of them."""
        joined: list[list[int]] = []
        for first, behind, _ in found:
            start, stop = places[first].start, places[behind - 1].end
            if joined and start <= joined[-1][1]:
                joined[-1][1] = max(stop, joined[-1][1])
            elif begin <= start and stop <= end:
                joined.append([start, stop])
        made, at = "", begin
        for start, stop in joined:
            made += f"{text[at:start]}{self._marks[0]}{text[start:stop]}{self._marks[1]}"
            at = stop
        return made + text[at:end]


def _window(
    text: str, places: Sequence[Place], found: Sequence[tuple[int, int, int]]
) -> tuple[int, int]:
    """Return the first and the last word to show: the part with most different words asked."""
    sizes = [_PAIR if is_unspaced(place.form) else 1.0 for place in places]
    ends = list(accumulate(sizes, initial=0.0))  # words before each place
    if not places or ends[-1] <= SHOWN:
        return 0, len(places) - 1
    first = last = 0
    best: tuple[int, int] = (0, 0)
    for n, (start, _, _) in enumerate(found):
        inside = [one for one in found[n:] if ends[one[1]] - ends[start] <= SHOWN]
        rating = len({word for _, _, word in inside}), len(inside)
        if rating > best:
            best, first, last = rating, start, max((one[1] for one in inside), default=start) - 1
    first = _beginning(text, places, ends, first, last)
    end = last
    while end + 1 < len(places) and ends[end + 2] - ends[first] <= SHOWN:
        end += 1
    while first and ends[end + 1] - ends[first - 1] <= SHOWN:
        first -= 1
    return first, end


def _beginning(
    text: str, places: Sequence[Place], ends: Sequence[float], first: int, last: int
) -> int:
    """Return where to begin before the first word found: its sentence, or half of the room."""
    room = SHOWN - (ends[last + 1] - ends[first])
    begin = first
    while begin and ends[first] - ends[begin - 1] <= room:
        begin -= 1
        if begin == 0 or _SENTENCE.search(text, places[begin - 1].end, places[begin].start):
            return begin
    while begin < first and ends[first] - ends[begin] > room / 2:
        begin += 1
    return begin

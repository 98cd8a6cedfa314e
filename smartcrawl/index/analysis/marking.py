"""Marks around the words that a text has of a query, and the part of it that is shown."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import accumulate, compress, islice
from typing import Any, Final, NamedTuple

from smartcrawl.index.analysis.stems import KeyFinder, Place, index_keys, index_places
from smartcrawl.index.analysis.words import (
    is_unspaced,
    text_with_plain_signs,
    text_with_spaces,
)
from smartcrawl.model.late_patterns import late_pattern

SHOWN: Final = 32  #: words of a snippet
_PAIR: Final = 0.5  #: words that a pair of letters counts, of a script without spaces
_DOTS: Final = "…"
_SENTENCE: Final = late_pattern(r"[.!?:…。！？।۔\n](?:(?<=[。！？।۔\n])|\s)")

_KATAKANA: Final = late_pattern("[\u30a1-\u30ff]{2}")

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
        self._inner = _inner_pairs(self._finder.single)

    def has(self, text: str) -> bool:
        """Whether a text has any of the words."""
        return bool(self.words_of(text))

    def words_of(self, text: str) -> set[int]:
        """Return which of the words a text has."""
        return {word for _, word in self._finder.places(index_keys(text, self._language))}

    def whole(self, text: str) -> str:
        """Return a text with marks around the words found."""
        keys = index_keys(text, self._language)
        if not self._finder.places(keys):
            return text
        plain = text_with_plain_signs(text)
        if plain.isascii():
            spaced = text_with_spaces(plain)
            found = self._finder.spans(keys, spaced.lower().split())
            return _with_marks(text, _PlainPlaces(spaced), found, (0, len(text)), self._marks)
        places = list(index_places(text, self._language))
        return self._marked(text, places, self._found(places), 0, len(text))

    def part(self, text: str) -> str:
        """Return the part of a text with most of the words, with marks around them.

        Some 32 words in one line; dots stand where text is left out.
        """
        return self.marked_part(text).text

    def marked_part(self, text: str, known: Sequence[tuple[int, int]] | None = None) -> MarkedPart:
        """Return the same part, and where the words are in the whole text.

        ``known``: these places as an index has them, of the word of the text and of that of the
        query; None: not known.
        """
        plain = text_with_plain_signs(text)
        if plain.isascii():
            return self._plain_part(text, plain, known)
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

    def _plain_part(
        self, text: str, plain: str, known: Sequence[tuple[int, int]] | None
    ) -> MarkedPart:
        """Return the same of a text whose words are of ASCII, what stands between signs.

        ``plain`` is the text with such signs alone. With ``known`` only the keys of the words that
        are shown are looked up.
        """
        spaced = text_with_spaces(plain)
        places = _PlainPlaces(spaced)
        many = len(places)
        if known is None or self._finder.needs_words:
            found = self._finder.spans(index_keys(plain, self._language), spaced.lower().split())
        else:
            found = [(at, at + 1, term) for at, term in known if at < many]
        first, last = 0, many - 1
        if many > SHOWN:
            start, behind = _fullest(found)
            first = places.beginning(text, start, behind - 1)
            first = max(0, min(first, many - SHOWN))
            last = first + SHOWN - 1
        start = places[first][0] if first else 0
        end = places[last + 1][0] if last + 1 < many else len(text)
        here = [one for one in found if first <= one[0] and one[1] <= last + 1]
        shown = " ".join(_with_marks(text, places, here, (start, end), self._marks).split())
        before = f"{_DOTS} " if first else ""
        dots = f" {_DOTS}" if last + 1 < many else ""
        starts = tuple([(places[one][0], term) for one, _, term in found])
        return MarkedPart(f"{before}{shown}{dots}", starts)

    def _found(self, places: Sequence[Place]) -> list[tuple[int, int, int]]:
        """Return the words found, without pairs of katakana that another word has, too."""
        found = self._finder.spans(
            [place.key for place in places], (place.form for place in places)
        )
        if not self._inner:
            return found
        starts = {start for start, _, _ in found}
        return [
            one
            for one in found
            if places[one[0]].key not in self._inner or not starts.isdisjoint((one[0] - 1, one[1]))
        ]

    def _marked(
        self,
        text: str,
        places: Sequence[Place],
        found: Sequence[tuple[int, int, int]],
        begin: int,
        end: int,
    ) -> str:
        return _with_marks(text, places, found, (begin, end), self._marks)


def _with_marks(
    text: str,
    places: Sequence[tuple[Any, ...]] | _PlainPlaces,
    found: Sequence[tuple[int, int, int]],
    shown: tuple[int, int],
    marks: Marks,
) -> str:
    """Return a part of a text with marks; words that overlap or touch have one pair of them.

    ``places``: of each word the first character and what is behind the last.
    """
    begin, end = shown
    joined: list[list[int]] = []
    for first, behind, _ in found:
        start, stop = places[first][0], places[behind - 1][1]
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(stop, joined[-1][1])
        elif begin <= start and stop <= end:
            joined.append([start, stop])
    made, at = "", begin
    for start, stop in joined:
        made += f"{text[at:start]}{marks[0]}{text[start:stop]}{marks[1]}"
        at = stop
    return made + text[at:end]


class _PlainPlaces:
    """Where the words of a text of ASCII begin and end; most of them are never asked for.

    >>> places = _PlainPlaces(" red  lamp ")
    >>> len(places), places[0], places[1]
    (2, (1, 4), (6, 10))
    """

    def __init__(self, spaced: str) -> None:
        """``spaced``: the text with spaces for its signs."""
        self._sizes = list(map(len, spaced.split(" ")))
        self._ends = list(accumulate(self._sizes))  # without the spaces, one behind each part
        #: Parts that are no space alone.
        self._words: Sequence[int] = range(len(self._sizes))
        if not all(self._sizes):
            self._words = list(compress(self._words, self._sizes))

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, word: int) -> tuple[int, int]:
        part = self._words[word]
        end = self._ends[part] + part
        return end - self._sizes[part], end

    def beginning(self, text: str, first: int, last: int) -> int:
        """Return what ``_beginning`` does where each word counts as one."""
        room = SHOWN - (last + 1 - first)
        if room < 1 or not first:
            return first
        least = max(0, first - room)
        start = self[least - 1][1] if least else 0
        ends = [found.end() for found in _SENTENCE.finditer(text, start, self[first - 1][0])]
        if ends:
            return bisect_left(range(first), ends[-1], least, key=lambda word: self[word][0])
        return max(least, first - int(room / 2)) if least else 0


def _fullest(found: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """Return the first word and what is behind the last of the words found that are shown.

    Of all parts with ``SHOWN`` words it is the first that has most different words, then most.
    """
    best, place = (0, 0), (0, 1)
    inside: dict[int, int] = {}
    end = 0
    for n, (start, _, term) in enumerate(found):
        while end < len(found) and found[end][1] - start <= SHOWN:
            inside[found[end][2]] = inside.get(found[end][2], 0) + 1
            end += 1
        rating = len(inside), end - n
        if rating > best:
            best, place = rating, (start, max((one[1] for one in found[n:end]), default=start + 1))
        if end > n:
            inside[term] -= 1
            if not inside[term]:
                del inside[term]
        else:  # these words alone are more than are shown
            end = n + 1
    return place


def _inner_pairs(keys: Collection[str]) -> frozenset[str]:
    """Return the pairs of katakana that are parts of longer words of a query.

    >>> sorted(_inner_pairs(["シー", "ート", "ガス", "表示"]))
    ['シー', 'ート']
    """
    pairs = [key for key in keys if _KATAKANA.fullmatch(key)]
    return frozenset(
        one
        for one in pairs
        for other in pairs
        if one != other and other in (one[1] + other[1], other[0] + one[0])
    )


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
        inside = []
        for one in islice(found, n, None):
            if ends[one[0]] - ends[start] > SHOWN:
                break
            if ends[one[1]] - ends[start] <= SHOWN:
                inside.append(one)
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

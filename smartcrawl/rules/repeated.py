"""Lines that stand at the same place on many pages of a host: what a list has, and what goes by it.

A list is made of all pages of a host, and says of lines where they repeat. It never knows a page:
which lines of one go follows from the list and that page alone (ADR 151).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

MIN_PAGES: Final = 20  #: of a host, with different texts; fewer make no list
SHARE: Final = 1 / 3  #: of the pages that have a line at one place
KEPT_SHARE: Final = 1 / 4  #: the same of a line that the list had before
EDGE: Final = 12  #: lines at the beginning and at the end of a text whose number is a place
WORDS: Final = 4  #: of lines within a text; fewer are labels, such as "Parameters"
CHANGED: Final = 10  #: one page in so many has changed when a list is made anew


class Line(NamedTuple):
    """A line of a text, or a heading."""

    #: Of its words; empty: it never goes, and parts what is before from what is behind.
    digest: bytes
    words: int = 0


class RepeatedLines(NamedTuple):
    """Where lines of a host repeat; empty: nowhere."""

    #: Lines that follow one another.
    pairs: frozenset[tuple[bytes, bytes]] = frozenset()
    #: Lines by their number in the text, from 0; of the last ones from -1 backwards.
    places: frozenset[tuple[bytes, int]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.pairs or self.places)


NOTHING: Final = RepeatedLines()


def are_repeated_lines_due(*, changed: int, pages: int, ever_made: bool) -> bool:
    """Whether to make the lists of a source anew, given how many pages changed since the last ones.

    Without a change nothing is looked at.
    """
    return changed > 0 and (not ever_made or changed * CHANGED >= pages)


def find_repeated_lines(
    pages: Sequence[Sequence[Line]], known: RepeatedLines = NOTHING
) -> RepeatedLines:
    """Return where lines repeat among the pages of a host; nowhere among fewer than ``MIN_PAGES``.

    ``known``: the list so far. What it has stays for a smaller share, so that a list does not
    change with each run.
    """
    if len(pages) < MIN_PAGES:
        return NOTHING
    new, kept = ceil(len(pages) * SHARE), ceil(len(pages) * KEPT_SHARE)
    lines = Counter(digest for page in pages for digest in {line.digest for line in page})
    frequent = {digest for digest, count in lines.items() if digest and count >= kept}
    pairs = Counter(pair for page in pages for pair in set(_pairs(page, frequent)))
    places = Counter(place for page in pages for place in set(_places(page, frequent)))
    return RepeatedLines(
        frozenset(p for p, n in pairs.items() if n >= (kept if p in known.pairs else new)),
        frozenset(p for p, n in places.items() if n >= (kept if p in known.places else new)),
    )


def _pairs(page: Sequence[Line], frequent: set[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for one, other in pairwise(page):
        if one.digest in frequent and other.digest in frequent:
            yield one.digest, other.digest


def _places(page: Sequence[Line], frequent: set[bytes]) -> Iterator[tuple[bytes, int]]:
    for at in range(min(EDGE, len(page))):
        if page[at].digest in frequent:
            yield page[at].digest, at
        if page[-1 - at].digest in frequent:
            yield page[-1 - at].digest, -1 - at


def repeated_lines_of_page(page: Sequence[Line], known: RepeatedLines) -> list[bool]:
    """Return of each line of a page whether it goes.

    Lines that follow one another as they do elsewhere go together. Those that begin or end the text
    go; within it they need ``WORDS``, and a line alone stands at the place that it has elsewhere.
    A page of which nothing would be left keeps all.
    """
    goes = [False] * len(page)
    if not known:
        return goes
    for start, end in _runs(page, known):
        is_edge = _is_at(page, start, known) == 0 or _is_at(page, end - 1, known) == -1
        is_placed = end - start > 1 or _is_at(page, start, known) is not None
        if is_edge or (is_placed and sum(line.words for line in page[start:end]) >= WORDS):
            goes[start:end] = [True] * (end - start)
    return [False] * len(page) if all(goes) else goes


def _runs(page: Sequence[Line], known: RepeatedLines) -> Iterable[tuple[int, int]]:
    """Yield the beginnings and ends of lines that follow one another as elsewhere."""
    start = 0
    for at in range(1, len(page) + 1):
        if at == len(page) or (page[at - 1].digest, page[at].digest) not in known.pairs:
            if page[start].digest:
                yield start, at
            start = at


def _is_at(page: Sequence[Line], at: int, known: RepeatedLines) -> int | None:
    """Return the place of a line that it has elsewhere, too; None: it has none."""
    for place in (at, at - len(page)):
        if (page[at].digest, place) in known.places:
            return place
    return None

"""How much of a text changed, below which headings, and which lines changed on many pages at once.

Two texts are compared by their lines, in time that is linear in their length (ADR 175). A line that
only moved has not changed.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple

MOST_HEADINGS: Final = 12  #: of a page, those with the most changed words
#: Changed lines of a page that are kept from its beginning, and as many from its end: menus and
#: banners are there.
EDGE: Final = 8
LONGEST: Final = 120  #: characters of a line or heading that are kept
MIN_SHARED: Final = 3  #: pages of a run on which a line changed; fewer have it each for itself
SHARE: Final = 1 / 10  #: the same, of all pages that the run modified

#: Scripts that write no spaces between words: Thai to Khmer, kana, ideographs, Hangul.
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
#: A pattern of a word: characters without white space, or one character of these scripts.
WORD: Final = f"[{_UNSPACED}]|[^\\s{_UNSPACED}]+"
_WORD: Final = re.compile(WORD)


class TextLine(NamedTuple):
    """A line of a text, and the headings above it as one text."""

    heading: str
    text: str


class ChangedLine(NamedTuple):
    """A line that only the new text has, or only the old one."""

    is_added: bool
    text: str  #: at most ``LONGEST`` characters
    words: int  #: that the page gained or lost by it
    heading: int  #: its place in ``TextChange.headings``; -1: that heading is not kept
    digest: bytes  #: 8 bytes, of the whole line and of ``is_added``


class ChangedHeading(NamedTuple):
    """A heading below which lines changed."""

    heading: str  #: a path of headings, at most ``LONGEST`` characters; empty before the first
    added: int  #: words
    removed: int  #: words
    lines: int


class TextChange(NamedTuple):
    """What changed between two texts."""

    words: int = 0  #: of both texts together
    added: int = 0  #: words
    removed: int = 0  #: words
    headings: tuple[ChangedHeading, ...] = ()  #: in the order of the texts
    more_headings: int = 0  #: those that are not kept
    lines: tuple[ChangedLine, ...] = ()
    more_lines: int = 0  #: those that are not kept

    @property
    def share(self) -> float:
        """The changed words as a share of the words of both texts, from 0 to 1."""
        return (self.added + self.removed) / self.words if self.words else 0.0


def text_words(text: str) -> list[str]:
    """Return the words of a text; signs belong to the word that they touch.

    >>> text_words("1.5 is not 1,5 (東京)")
    ['1.5', 'is', 'not', '1,5', '(', '東', '京', ')']
    """
    return _WORD.findall(text)


def compare_texts(old: Sequence[TextLine], new: Sequence[TextLine]) -> TextChange:
    """Return what changed from one text to another.

    Words are counted as a whole: one that left a line and came in another has not changed.
    """
    had, has = _counted(old), _counted(new)
    removed, added = _only_in(old, has), _only_in(new, had)
    same = sum(len(text_words(text)) * count for text, count in (had & has).items())
    former = [(line, text_words(line.text)) for line in removed]
    present = [(line, text_words(line.text)) for line in added]
    lost = Counter(word for _, words in former for word in words)
    won = Counter(word for _, words in present for word in words)
    total = 2 * same + lost.total() + won.total()
    lost, won = lost - won, won - lost
    figures = lost.total(), won.total()
    found = _Found()
    found.add(former, lost, is_added=False)
    found.add(present, won, is_added=True)
    return found.change(total, *figures)


def _counted(lines: Iterable[TextLine]) -> Counter[str]:
    return Counter(line.text for line in lines)


def _only_in(lines: Iterable[TextLine], other: Mapping[str, int]) -> list[TextLine]:
    """Return the lines that another text does not have, or has less often."""
    left = dict(other)
    only = []
    for line in lines:
        if left.get(line.text, 0):
            left[line.text] -= 1
        else:
            only.append(line)
    return only


class _Found:
    """Changed lines and their headings, as they are found."""

    def __init__(self) -> None:
        self._headings: dict[str, list[int]] = {}  #: added, removed, lines
        self._lines: list[tuple[bool, TextLine, int]] = []

    def add(
        self, lines: Iterable[tuple[TextLine, list[str]]], left: Counter[str], *, is_added: bool
    ) -> None:
        """Add lines with their words; each word of ``left`` counts for the first that has it."""
        for line, words in lines:
            count = 0
            for word in words:
                if left.get(word, 0):
                    left[word] -= 1
                    count += 1
            figures = self._headings.setdefault(line.heading[:LONGEST], [0, 0, 0])
            figures[0 if is_added else 1] += count
            figures[2] += 1
            self._lines.append((is_added, line, count))

    def change(self, words: int, removed: int, added: int) -> TextChange:
        """Return all that was found; ``words``: of both texts."""
        most = sorted(self._headings, key=lambda name: -sum(self._headings[name][:2]))
        kept = set(most[:MOST_HEADINGS])
        names = [name for name in self._headings if name in kept]
        places = {name: place for place, name in enumerate(names)}
        first, last = self._edges(is_added=False), self._edges(is_added=True)
        lines = tuple(
            ChangedLine(
                is_added,
                line.text[:LONGEST],
                count,
                places.get(line.heading[:LONGEST], -1),
                line_change_digest(line.text, is_added=is_added),
            )
            for is_added, line, count in (*first, *last)
        )
        return TextChange(
            words,
            added,
            removed,
            tuple(ChangedHeading(name, *self._headings[name]) for name in names),
            len(self._headings) - len(names),
            lines,
            len(self._lines) - len(lines),
        )

    def _edges(self, *, is_added: bool) -> list[tuple[bool, TextLine, int]]:
        lines = [line for line in self._lines if line[0] is is_added]
        return lines[:EDGE] + lines[EDGE:][-EDGE:]


def line_change_digest(text: str, *, is_added: bool) -> bytes:
    """Return 8 bytes for a line that was added or removed, equal on every page."""
    data = ("+" if is_added else "-") + text
    return hashlib.blake2b(data.encode(errors="surrogatepass"), digest_size=8).digest()


def shared_line_digests(pages: Mapping[bytes, int], modified: int) -> frozenset[bytes]:
    """Return the changed lines that are named once for a run.

    ``pages``: on how many pages each line changed; ``modified``: the pages that changed.

    >>> shared_line_digests({b"year": 3, b"own": 2}, 4), shared_line_digests({b"year": 3}, 40)
    (frozenset({b'year'}), frozenset())
    """
    least = max(MIN_SHARED, ceil(modified * SHARE))
    return frozenset(digest for digest, count in pages.items() if count >= least)


def own_text_change(change: TextChange, shared: Collection[bytes]) -> TextChange:
    """Return what changed on a page beside the lines that changed on many pages of its run."""
    if not any(line.digest in shared for line in change.lines):
        return change
    figures = [list(heading[1:]) for heading in change.headings]
    added, removed = change.added, change.removed
    for line in change.lines:
        if line.digest in shared:
            added -= line.words * line.is_added
            removed -= line.words * (not line.is_added)
            if line.heading >= 0:
                figures[line.heading][0 if line.is_added else 1] -= line.words
                figures[line.heading][2] -= 1
    places: dict[int, int] = {-1: -1}
    headings: list[ChangedHeading] = []
    for place, heading in enumerate(change.headings):
        left = figures[place]
        if left[2]:
            places[place] = len(headings)
            headings.append(ChangedHeading(heading.heading, *left))
    lines = tuple(
        line._replace(heading=places[line.heading])
        for line in change.lines
        if line.digest not in shared
    )
    return change._replace(added=added, removed=removed, headings=tuple(headings), lines=lines)

"""The difference of two texts, line by line and word by word, in bounded time (ADR 175).

Lines that each text has once are anchors, as in patience diff; what is between two anchors is
compared exactly where it is short, and as a whole where it is not. ``TextDiff.is_coarse`` says so.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from smartcrawl.rules.changes import WORD, TextLine, text_words

MOST_SIZE: Final = 8 * 1024 * 1024  #: characters of a text; what follows is left out
MOST_LINES: Final = 4_000  #: of a difference; later ones are counted
CONTEXT: Final = 3  #: equal lines before and behind changed ones
_CELLS: Final = 250_000  #: pairs of lines, or of words, that are compared with each other at once
_ALL_CELLS: Final = 4_000_000  #: the same in one difference
_LONGEST: Final = 20_000  #: characters of a line whose words are compared
_SIMILAR: Final = 1 / 4  #: least share of common words by which one line replaces another

_TOKEN: Final = re.compile(rf"\s+|{WORD}")  #: white space, or a word


class DiffPart(NamedTuple):
    """A part of a line."""

    text: str
    is_changed: bool


class DiffLine(NamedTuple):
    """A line of a difference."""

    sign: str  #: ``-`` of the old text, ``+`` of the new one, a space: of both
    parts: tuple[DiffPart, ...]

    @property
    def text(self) -> str:
        """The whole line."""
        return "".join(part.text for part in self.parts)


class DiffHunk(NamedTuple):
    """Changed lines that are near to each other, with the lines around them."""

    heading: str  #: of its first line, with those above it
    old: int  #: number of its first line in the old text, from 1
    new: int  #: the same in the new text
    lines: tuple[DiffLine, ...]

    def counts(self) -> tuple[int, int]:
        """Return how many lines of the old text it has, and of the new one."""
        signs = Counter(line.sign for line in self.lines)
        return signs[" "] + signs["-"], signs[" "] + signs["+"]


class TextDiff(NamedTuple):
    """The difference of two texts."""

    hunks: tuple[DiffHunk, ...] = ()
    more_lines: int = 0  #: changed lines that are left out
    is_coarse: bool = False  #: whether parts were too long to be compared line by line
    is_cut: bool = False  #: whether the end of a text was left out


class _Range(NamedTuple):
    """Lines of both texts that stand for each other."""

    old: int
    old_end: int
    new: int
    new_end: int

    @property
    def cells(self) -> int:
        """Pairs of its lines."""
        return (self.old_end - self.old) * (self.new_end - self.new)


def diff_texts(old: Sequence[TextLine], new: Sequence[TextLine]) -> TextDiff:
    """Return the difference of two texts."""
    before, cut_before = _shortened(old)
    after, cut_after = _shortened(new)
    return _Differ(before, after).diff(is_cut=cut_before or cut_after)


def _shortened(lines: Sequence[TextLine]) -> tuple[Sequence[TextLine], bool]:
    """Return the lines that are compared, and whether that is not all of them."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line.text)
        if size > MOST_SIZE:
            return lines[:number], True
    return lines, False


class _Differ:
    """Compares two texts within a budget."""

    def __init__(self, old: Sequence[TextLine], new: Sequence[TextLine]) -> None:
        self._old, self._new = old, new
        self._before = [line.text for line in old]
        self._after = [line.text for line in new]
        self._left = _ALL_CELLS
        self._is_coarse = False

    def diff(self, *, is_cut: bool) -> TextDiff:
        """Return the difference."""
        changed = [one for one in self._ranges() if one.old < one.old_end or one.new < one.new_end]
        hunks: list[DiffHunk] = []
        shown = more = 0
        for group in _near(changed):
            kept = _first(group, MOST_LINES - shown)
            size, count = _size(group), _size(kept)
            shown, more = shown + count, more + size - count
            if kept:
                hunks.append(self._hunk(kept, is_whole=count == size))
        return TextDiff(tuple(hunks), more, self._is_coarse, is_cut)

    def _ranges(self) -> Iterator[_Range]:
        """Yield the changed ranges in their order; some may be empty."""
        whole = _Range(0, len(self._before), 0, len(self._after))
        for part in self._between_anchors(self._trimmed(whole)):
            yield from self._exact(self._trimmed(part))

    def _trimmed(self, part: _Range) -> _Range:
        """Return a range without the equal lines at its beginning and end."""
        old, old_end, new, new_end = part
        while old < old_end and new < new_end and self._before[old] == self._after[new]:
            old, new = old + 1, new + 1
        while (
            old < old_end
            and new < new_end
            and (self._before[old_end - 1] == self._after[new_end - 1])
        ):
            old_end, new_end = old_end - 1, new_end - 1
        return _Range(old, old_end, new, new_end)

    def _between_anchors(self, part: _Range) -> Iterator[_Range]:
        if part.cells <= _CELLS:
            yield part
            return
        had = Counter(self._before[part.old : part.old_end])
        has = Counter(self._after[part.new : part.new_end])
        places = {
            text: at
            for at, text in enumerate(self._after[part.new : part.new_end], part.new)
            if has[text] == 1
        }
        pairs = [
            (at, places[text])
            for at, text in enumerate(self._before[part.old : part.old_end], part.old)
            if had[text] == 1 and text in places
        ]
        old, new = part.old, part.new
        for at, place in _ascending(pairs):
            yield _Range(old, at, new, place)
            old, new = at + 1, place + 1
        yield _Range(old, part.old_end, new, part.new_end)

    def _exact(self, part: _Range) -> Iterator[_Range]:
        if not part.cells:
            yield part
            return
        if part.cells > min(_CELLS, self._left):
            self._is_coarse = True
            yield part
            return
        self._left -= part.cells
        before = self._before[part.old : part.old_end]
        after = self._after[part.new : part.new_end]
        for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            if tag != "equal":
                yield _Range(part.old + a, part.old + b, part.new + c, part.new + d)

    def _hunk(self, group: Sequence[_Range], *, is_whole: bool) -> DiffHunk:
        """Return a group with the equal lines around it; behind it only if it ``is_whole``."""
        first, last = group[0], group[-1]
        start = min(CONTEXT, first.old, first.new)
        lines = self._same(first.old - start, first.old)
        at = first.old
        for part in group:
            lines += self._same(at, part.old)
            lines += self._replaced(part)
            at = part.old_end
        if is_whole:
            lines += self._same(last.old_end, last.old_end + CONTEXT)
        side, number = (
            (self._new, first.new) if first.new < first.new_end else (self._old, first.old)
        )
        heading = side[number].heading
        return DiffHunk(heading, first.old - start + 1, first.new - start + 1, tuple(lines))

    def _same(self, start: int, end: int) -> list[DiffLine]:
        return [DiffLine(" ", (DiffPart(text, False),)) for text in self._before[start:end]]

    def _replaced(self, part: _Range) -> list[DiffLine]:
        """Return the lines of a range, those of the old text first."""
        removed, added = self._before[part.old : part.old_end], self._after[part.new : part.new_end]
        gone: list[tuple[DiffPart, ...]] = [(DiffPart(text, True),) for text in removed]
        come: list[tuple[DiffPart, ...]] = [(DiffPart(text, True),) for text in added]
        for at, (old, new) in enumerate(zip(removed, added, strict=False)):
            found = self._words(old, new)
            if found is not None:
                gone[at], come[at] = found
        return [
            *(DiffLine("-", parts) for parts in gone),
            *(DiffLine("+", parts) for parts in come),
        ]

    def _words(
        self, old: str, new: str
    ) -> tuple[tuple[DiffPart, ...], tuple[DiffPart, ...]] | None:
        """Return two lines in parts; None: they have little in common, or are too long."""
        if max(len(old), len(new)) > _LONGEST:
            return None
        before, after = _TOKEN.findall(old), _TOKEN.findall(new)
        cells = len(before) * len(after)
        if cells > min(_CELLS, self._left):
            return None
        self._left -= cells
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        same = sum(
            not token.isspace()
            for start, _, size in matcher.get_matching_blocks()
            for token in before[start : start + size]
        )
        if same < _SIMILAR * max(len(text_words(old)), len(text_words(new))):
            return None
        gone: list[DiffPart] = []
        come: list[DiffPart] = []
        for tag, a, b, c, d in matcher.get_opcodes():
            for parts, tokens in ((gone, before[a:b]), (come, after[c:d])):
                if tokens:
                    parts.append(DiffPart("".join(tokens), tag != "equal"))
        return tuple(gone), tuple(come)


def _near(changed: Sequence[_Range]) -> Iterator[list[_Range]]:
    """Yield changed ranges in groups whose contexts meet."""
    group: list[_Range] = []
    for part in changed:
        if group and part.old - group[-1].old_end > 2 * CONTEXT:
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _size(group: Sequence[_Range]) -> int:
    return sum(one.old_end - one.old + one.new_end - one.new for one in group)


def _first(group: Sequence[_Range], room: int) -> list[_Range]:
    """Return the beginning of a group that has at most so many lines."""
    kept: list[_Range] = []
    for part in group:
        if room <= 0:
            break
        old_end = min(part.old_end, part.old + room)
        room -= old_end - part.old
        new_end = min(part.new_end, part.new + room)
        room -= new_end - part.new
        kept.append(_Range(part.old, old_end, part.new, new_end))
    return kept


def _ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of some pairs, by their first number, whose second ones ascend."""
    ends: list[int] = []  #: the least second number that a part of each length ends with
    last: list[int] = []  #: which pair that is
    before: list[int] = []
    for at, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        if length == len(ends):
            ends.append(place)
            last.append(at)
        else:
            ends[length], last[length] = place, at
    found = []
    at = last[-1] if last else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]

"""The article of a page among what stands around it, known by prose, links and class words.

Only for pages that look like articles: what generators of documentation write is read whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, compress, count, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from smartcrawl.extract.class_words import class_words_mean
from smartcrawl.extract.reader import OpenedBox, SeenMarkup
from smartcrawl.extract.sections import BREAK, CELL, ROW, Span
from smartcrawl.model.documents import LINK, LIST

#: Elements that stand around an article, whatever their class is.
AROUND_TAGS: Final = frozenset({"footer", "form"})
#: Boxes that are left out where most of their text is links.
LISTS: Final = frozenset({"div", "ol", "section", "ul"})

_CONTENT: Final = frozenset({"article", "main"})  # whatever their class is

PARAGRAPH: Final = 80  #: characters, of which less than half are in links: prose
ENOUGH: Final = 300  #: characters of prose that make an article
_SHARE: Final = 0.5  #: of the prose that a box with such a word may have
_LONG_SHARE: Final = 0.97
_LEFT: Final = 0.3  #: of the prose that has to be left, or
_LEFT_SIZE: Final = 400  #: characters of it, or the class words of this page mean something else
_BODY: Final = 0.85  #: of the prose that is left: the smallest box that has it is the article
_LINKED: Final = 0.5  #: of the text of a list that only leads on
_LABEL: Final = 60  #: characters of a line above such a list, which goes with it

_GENERATORS: Final = re.compile(
    r"antora|asciidoc|docbook|docusaurus|docutils|doxygen|gi-docgen|gitbook|gtk-doc|haddock|hevea"
    r"|javadoc|latex2html|mkdocs|pandoc|pdoc|publican|rustdoc|sphinx|starlight|texinfo|vitepress",
    re.IGNORECASE,
)
_MARKS: Final = frozenset({BREAK, CELL, ROW})


class _Box(NamedTuple):
    start: int
    end: int
    tag: str
    around: bool  #: by a word of AROUND, its element, or because it is hidden
    long: bool


class _Block(NamedTuple):
    """The tokens between two marks, with the characters of their text."""

    start: int
    end: int
    size: int


def article_surroundings(seen: SeenMarkup, excluded: Sequence[Span]) -> list[Span]:
    """Return what else of a page is no text of its article; nothing if it may be none.

    ``excluded`` is what does not count by its elements. The rules, in this order:

    - Boxes with a word of AROUND in class or id, unless they have much of the prose. If they would
      leave next to none, words mean something else on this page, and none counts.
    - What is outside of the smallest box that has nearly all prose, but the prose above it.
    - Boxes that are mostly links, with the line above them. A list between prose stays.
    - Lines that are mostly links below the last prose.

    Source: ADR 155.
    """
    if not seen.boxes or _is_generated(seen):
        return []
    return _Page(seen, excluded, _boxes(seen.boxes, len(seen.tokens))).surroundings()


def needs_boxes(seen: SeenMarkup) -> bool:
    """Whether a page that was read without its boxes has to be read again with them.

    Pages that say that they are described for feeds or for those who share them have them at once.
    Others need one that stands around an article. Code, definitions and tables are signs of
    documentation then.
    """
    signs = seen.signs
    if signs.shared or not signs.around or signs.definitions or _is_generated(seen):
        return False
    return all(block.kind == LIST for block in seen.blocks)


def _is_generated(seen: SeenMarkup) -> bool:
    """Whether a generator of documentation wrote the page: headings have links to themselves."""
    signs = seen.signs
    return signs.permalinks or bool(signs.generator and _GENERATORS.search(signs.generator))


def _meaning(box: OpenedBox) -> tuple[bool, bool]:
    """Return whether a box stands around an article, and whether it may have more prose."""
    _, tag, classes, name, hidden = box
    around, long = hidden or tag in AROUND_TAGS, False
    if classes or name:
        for words in (classes, name):
            if words:
                of_words, is_long = class_words_mean(words)
                around, long = around or of_words, long or is_long
        if tag in _CONTENT:
            around = False
    return around, long


def _boxes(events: Iterable[OpenedBox | int], most: int) -> list[_Box]:
    """Return the boxes of a page, each after those in it."""
    opened: list[OpenedBox] = []
    found: list[_Box] = []
    for event in events:
        if not isinstance(event, int):
            opened.append(event)
        elif opened:
            box = opened.pop()
            if box[0] < min(event, most):
                found.append(_Box(box[0], min(event, most), box[1], *_meaning(box)))
    return found


class _Page:
    """The tokens of a page, measured: characters of text, of links and of prose."""

    def __init__(self, seen: SeenMarkup, excluded: Sequence[Span], boxes: list[_Box]) -> None:
        self._seen = seen
        self._boxes = boxes
        tokens = seen.tokens
        sizes = list(map(len, tokens))
        for start, end in excluded:
            sizes[start:end] = [0] * (end - start)
        linked = [0] * len(sizes)
        for start, end, kind, *_ in seen.spans:
            if kind == LINK:
                linked[start:-end] = sizes[start:-end]
        self._text = list(accumulate(sizes, initial=0))
        self._linked = list(accumulate(linked, initial=0))
        self._blocks = list(self._between_marks(tokens))
        self._starts = [block.start for block in self._blocks]

    def _between_marks(self, tokens: Sequence[str]) -> Iterable[_Block]:
        text, last = self._text, 0
        for at in compress(count(), map(_MARKS.__contains__, tokens)):
            if size := text[at] - text[last]:
                yield _Block(last, at, size)
            last = at + 1
        if size := text[-1] - text[last]:
            yield _Block(last, len(tokens), size)

    def surroundings(self) -> list[Span]:
        """Return the spans that are no text of the article (``article_surroundings``)."""
        prose = _Prose(
            block
            for block in self._blocks
            if block.size >= PARAGRAPH and 2 * self._links(block.start, block.end) < block.size
        )
        if prose.total < ENOUGH:
            return []
        spans = self._named(prose)
        prose = prose.without(spans)
        if prose.total < ENOUGH:
            return spans
        body = self._body(prose)
        end = len(self._seen.tokens)
        spans += _gaps([body, *self._above(body, prose)], end)
        for box in self._boxes:
            if self._leads_on(box, body, prose):
                spans.append((box.start, box.end))
                spans += self._label(box.start)
        last = prose.last_end(*body)
        for block in self._blocks[bisect_left(self._starts, last) :]:
            if 2 * self._links(block.start, block.end) > block.size:
                spans.append((block.start, block.end))
        return spans

    def _links(self, start: int, end: int) -> int:
        return self._linked[end] - self._linked[start]

    def _named(self, prose: _Prose) -> list[Span]:
        """Return the boxes whose words say that they stand around the article."""
        spans = _merged(
            (box.start, box.end)
            for box in self._boxes
            if box.around
            and prose.between(box.start, box.end)
            <= (_LONG_SHARE if box.long else _SHARE) * prose.total
        )
        left = prose.total - sum(prose.between(*span) for span in spans)
        return spans if left >= min(_LEFT * prose.total, _LEFT_SIZE) else []

    def _body(self, prose: _Prose) -> Span:
        """Return the smallest box that has nearly all prose; the whole page if none has."""
        wanted = _BODY * prose.total
        bodies = (
            (box.end - box.start, box.start, box.end)
            for box in self._boxes
            if prose.between(box.start, box.end) >= wanted
        )
        _, start, end = min(bodies, default=(0, 0, len(self._seen.tokens)))
        return start, end

    def _above(self, body: Span, prose: _Prose) -> Iterable[Span]:
        """Yield prose and headings of the page above the body: its title and its lead."""
        yield from prose.above(body[0])
        for start, end, level in self._seen.headings:
            if level == 1 and end <= body[0]:
                yield start, end

    def _leads_on(self, box: _Box, body: Span, prose: _Prose) -> bool:
        """Whether a box is mostly links, and no list between two paragraphs of prose."""
        start, end, tag, *_ = box
        size = self._text[end] - self._text[start]
        if tag not in LISTS or not 0 < size < prose.total:
            return False
        if self._links(start, end) <= _LINKED * size:
            return False
        is_list = tag in ("ol", "ul")
        return not (is_list and prose.between(body[0], start) and prose.between(end, body[1]))

    def _label(self, start: int) -> list[Span]:
        """Return the short line without a link above a token."""
        at = bisect_left(self._starts, start) - 1
        if at < 0:
            return []
        first, end, size = self._blocks[at]
        return [(first, end)] if size < _LABEL and not self._links(first, end) else []


class _Prose:
    """Paragraphs of prose in their order."""

    def __init__(self, blocks: Iterable[_Block]) -> None:
        self._blocks = list(blocks)
        self._starts = [block.start for block in self._blocks]
        self._sizes = list(accumulate((block.size for block in self._blocks), initial=0))
        self.total = self._sizes[-1]  #: characters

    def between(self, start: int, end: int) -> int:
        """Return the characters of the paragraphs that begin there."""
        first = bisect_left(self._starts, start)
        return self._sizes[max(first, bisect_left(self._starts, end))] - self._sizes[first]

    def without(self, spans: Sequence[Span]) -> _Prose:
        """Return the paragraphs that do not begin in spans, which are in order and apart."""
        return _Prose(block for block in self._blocks if not _is_within(block.start, spans))

    def above(self, start: int) -> list[Span]:
        """Return the paragraphs that end before a token."""
        blocks = self._blocks[: bisect_left(self._starts, start)]
        return [(block.start, block.end) for block in blocks if block.end <= start]

    def last_end(self, start: int, end: int) -> int:
        """Return the end of the last paragraph that begins there."""
        at = bisect_left(self._starts, end) - 1
        return self._blocks[at].end if at >= 0 and self._starts[at] >= start else end


def _is_within(at: int, spans: Sequence[Span]) -> bool:
    """Whether a token is in one of the spans, which are in order and apart."""
    place = bisect_right(spans, at, key=itemgetter(0)) - 1
    return place >= 0 and at < spans[place][1]


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order and apart."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _gaps(spans: Iterable[Span], end: int) -> list[Span]:
    """Return what is not in spans, up to a token."""
    edges = [0, *(edge for span in _merged(spans) for edge in span), end]
    return list(pairwise(edges))[::2]

"""Links, pictures, code and ids in the texts of a page, found beside its tokens.

No layout of a text adds or removes a character that is no white space. So a place among the tokens
is the number of such characters before it, and the texts need no marks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate, repeat
from operator import add, attrgetter, neg, sub
from typing import Final, NamedTuple

from smartcrawl.model.documents import DEFINITION, PICTURE, PLACE, Section, Span
from smartcrawl.model.urls import MAX_URL_LENGTH, unsigned_url

MAX_SPANS: Final = 50_000  #: of one document; later ones are text only
MAX_ID: Final = 300  #: characters of an id; a longer one is none
_BLANKS: Final = "\0\1\2\3\4\5"  # marks of ``extract.sections``: ends of lines and cells, spaces
_LINE_ENDS: Final = frozenset("\0\5")
_NEAR: Final = 50  # tokens before a picture that are looked at
_EDGES: Final = "\6\7\x0e\x0f\x10"  # of which one that the text has not is put between tokens
_FOREIGN: Final = re.compile(r"(?!https?:|file:|s3:|azure:|gs:)[a-z][a-z0-9+.-]*+:", re.IGNORECASE)

#: A span of tokens: the first, the one after the last (negative, so that an outer span is sorted
#: before an inner one), a word of SPAN_KINDS, target, text and link. A plain tuple: pages have
#: thousands.
TokenSpan = tuple[int, int, str, str, str, str]


def span_target(href: str) -> str:
    """Return an address as written, or an empty string if it leads to no page or is too long.

    Access tokens and session ids are left out.

    >>> span_target(" a.html#x "), span_target("mailto:a@b.example"), span_target("javascript:f()")
    ('a.html#x', '', '')
    """
    href = href.strip()
    if len(href) > MAX_URL_LENGTH or (":" in href and _FOREIGN.match(href)):
        return ""
    return unsigned_url(href) if "?" in href or ";" in href else href


class TokenPiece(NamedTuple):
    """The tokens from which a heading or a text was made."""

    start: int
    text: str
    is_heading: bool


def with_spans(
    sections: list[Section],
    places: Sequence[tuple[int, int]],
    tokens: Sequence[str],
    spans: Iterable[TokenSpan],
    excluded: Iterable[tuple[int, int]],
) -> list[Section]:
    """Return sections with their spans.

    ``places``: for each section the first tokens of its heading and of its text. ``tokens``: those
    that were made into the sections, with marks in place of the ``excluded`` ones. A link or code
    without text is none.
    """
    pieces = [
        piece
        for (heading, text), section in zip(places, sections, strict=True)
        for piece in (
            TokenPiece(heading, section.heading, is_heading=True),
            TokenPiece(text, section.text, is_heading=False),
        )
    ]
    ordered = sorted(_outside(spans, excluded, tokens))
    found = _Places(pieces, tokens).spans(ordered) if ordered and pieces else {}
    for number in {piece // 2 for piece in found}:
        head, text = (tuple(found.get(2 * number + at, ())) for at in (0, 1))
        sections[number] = sections[number]._replace(spans=text, head=head)
    return sections


def _outside(
    spans: Iterable[TokenSpan], excluded: Iterable[tuple[int, int]], tokens: Sequence[str]
) -> Iterable[TokenSpan]:
    """Yield the spans that may have text; those in excluded tokens have none."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(excluded):
        starts.append(start)
        ends.append(max(end, ends[-1]) if ends else end)
    for span in spans:
        start, _, kind, *_ = span
        if kind == PICTURE:
            if start < len(tokens) and not tokens[start]:
                yield span
        elif kind not in _IDS or not (at := bisect_right(starts, start)) or ends[at - 1] <= start:
            yield span


class _Places:
    """The places in texts that belong to edges of spans of tokens.

    Pages have thousands of spans, so that all of one kind of number are made together.
    """

    def __init__(self, pieces: Sequence[TokenPiece], tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._pieces = pieces
        self._text = "\n".join([piece.text for piece in pieces])
        self._starts = list(accumulate((len(piece.text) + 1 for piece in pieces), initial=0))
        words = self._text.replace("\n", " ").replace("\t", " ").split(" ")
        self._words = list(accumulate(map(len, words)))  # characters up to the end of each

    def spans(self, spans: Sequence[TokenSpan]) -> dict[int, list[Span]]:
        """Return the spans of each piece, by its number."""
        firsts, ends, kinds, *rest = zip(*spans, strict=True)
        lasts = list(map(neg, ends))
        counts = _counts(self._tokens, {*firsts, *lasts}, self._text)
        total = self._words[-1]
        if counts.get(-1) != total:
            return {}
        word = partial(bisect_right, self._words)
        low = list(map(counts.__getitem__, firsts))
        high = list(map(counts.__getitem__, lasts))
        begins = list(map(add, low, map(word, low)))
        stops = list(map(add, high, map(word, map(sub, high, repeat(1)))))
        found: dict[int, list[Span]] = {}
        into: list[Span] = []
        base = after = 0
        for number, (begin, stop, kind, *more) in enumerate(
            zip(begins, stops, kinds, *rest, strict=True)
        ):
            if kind == PICTURE:
                piece, at = self._picture(firsts[number], low[number])
                found.setdefault(piece, []).append(Span(kind, at, at, *more))
                continue
            if begin >= stop and (kind not in _IDS or low[number] == total):
                continue  # it has no text
            if begin >= after:
                piece = bisect_right(self._starts, begin) - 1
                base, after = self._starts[piece], self._starts[piece + 1]
                into = found.setdefault(piece, [])
            end = stop if begin < stop < after else begin if begin >= stop else after - 1
            into.append(_new_span(Span, (kind, begin - base, end - base, *more)))
        for of_piece in found.values():
            of_piece.sort(key=_start)
        return found

    def _picture(self, token: int, count: int) -> tuple[int, int]:
        """Return the piece of a picture, and its place there.

        It is behind the text before it, unless it begins a line. In no heading is one of before it.
        """
        total = self._words[-1]
        if count and (count == total or not self._begins_line(token)):
            at = count + bisect_right(self._words, count - 1)
            piece = bisect_right(self._starts, at - 1) - 1
            return piece, at - self._starts[piece]
        at = count + bisect_right(self._words, count) if count < total else 0
        piece = bisect_right(self._starts, at) - 1
        if self._pieces[piece].is_heading and token < self._pieces[piece].start:
            return (piece - 1, len(self._pieces[piece - 1].text)) if piece else (1, 0)
        return piece, at - self._starts[piece]

    def _begins_line(self, token: int) -> bool:
        for before in self._tokens[max(token - _NEAR, 0) : token][::-1]:
            if before in _LINE_ENDS:
                return True
            if before.strip(_BLANKS).strip():
                return False
        return True


def _counts(tokens: Sequence[str], edges: set[int], text: str) -> dict[int, int]:
    """Return the numbers of characters before some tokens; of all under -1.

    Nothing is counted where the text has all characters that could be put between tokens.
    """
    edge = next((mark for mark in _EDGES if mark not in text), "")
    if not edge:
        return {}
    ordered = sorted(edges)
    while ordered[-1] >= len(tokens):
        ordered.pop()
    marked = list(tokens)
    for at in ordered:
        marked[at] = edge + marked[at]
    joined = "".join(marked)
    for blank in _BLANKS:
        if blank in joined:
            joined = joined.replace(blank, " ")
    parts = "".join(joined.split()).split(edge)
    *counts, total = accumulate(map(len, parts))
    found = dict(zip(ordered, counts, strict=True))
    if len(found) < len(edges):
        found |= dict.fromkeys(edges.difference(found), total)
    return found | {-1: total}


_IDS: Final = frozenset({PLACE, DEFINITION})
_new_span: Final = tuple.__new__
_start: Final = attrgetter("start")

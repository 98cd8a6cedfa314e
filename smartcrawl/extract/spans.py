"""Links, pictures, code and ids in the texts of a page, counted beside its tokens.

No layout of a text adds or removes a character that is no white space. So a place among the tokens
is the number of such characters before it, and the texts need no marks. ``model.placed_spans``
finds the places in the texts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, compress, count
from operator import itemgetter, lt, neg
from typing import Final

from smartcrawl.model.documents import (
    DEFINITION,
    PICTURE,
    PLACE,
    CountedPicture,
    CountedSpans,
)
from smartcrawl.model.urls import MAX_URL_LENGTH, unsigned_url

MAX_SPANS: Final = 50_000  #: of one document; later ones are text only
MAX_ID: Final = 300  #: characters of an id; a longer one is none
_BLANKS: Final = "\0\1\2\3\4\5"  # marks of ``extract.sections``: ends of lines and cells, spaces
_WHITE: Final = (_BLANKS + " \t\n\v\f\r\x1c\x1d\x1e\x1f").encode()
_LATER: Final = bytes(range(0x80, 0xC0))  # all bytes of a character in UTF-8 but its first
_WIDE: Final = (  # the other white space of str.split
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
    "\u202f\u205f\u3000"
)
_LINE_END: Final = "\0"
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


def counted_spans(
    tokens: Sequence[str],
    headings: Sequence[tuple[int, int, int]],
    excluded: Sequence[tuple[int, int]],
    spans: Sequence[TokenSpan],
) -> CountedSpans | None:
    """Return the spans of the texts that are made of tokens without the ``excluded`` ones.

    A link or code without text is none, nor is a picture or an id among excluded tokens.
    ``headings``: first token, the one after the last and level of each, in their order. None: there
    is no span, or the tokens have each character that could be put between them.
    """
    if not spans:
        return None
    kept = list(tokens)
    for start, end in excluded:
        kept[start:end] = [_LINE_END] * (end - start)
    ordered = sorted(spans)
    starts, ends, kinds, targets, _, _ = zip(*ordered, strict=True)
    lasts = tuple(map(neg, ends))
    counts = _counts(kept, {*starts, *lasts})
    if not counts:
        return None
    low = list(map(counts.__getitem__, starts))
    high = list(map(counts.__getitem__, lasts))
    stays = list(map(lt, low, high))
    pictures: list[CountedPicture] = []
    apart = _Apart(excluded)
    for at in compress(count(), map(_POINTS.__contains__, kinds)):
        start, _, kind, _, text, link = ordered[at]
        if kind != PICTURE:
            stays[at] = start not in apart
            continue
        stays[at] = start < len(kept) and not kept[start]
        if stays[at]:
            in_heading = _is_in_heading(start, headings)
            pictures.append(CountedPicture(text, link, _begins_line(kept, start), in_heading))
    if not any(stays):
        return None
    return CountedSpans(
        counts[-1],
        tuple(compress(kinds, stays)),
        tuple(compress(low, stays)),
        tuple(compress(high, stays)),
        tuple(compress(targets, stays)),
        tuple(pictures),
    )


def _counts(tokens: Sequence[str], edges: set[int]) -> dict[int, int]:
    """Return how many characters that are no white space are before some tokens; of all under -1.

    Nothing is counted where the tokens have all characters that could be put between them.
    """
    ordered = sorted(edges)
    for edge in _EDGES:
        marked = [*tokens, *("" for _ in range(ordered[-1] + 1 - len(tokens)))]
        for at in ordered:
            marked[at] = edge + marked[at]
        parts = _bytes_of_characters("".join(marked)).split(edge.encode())
        if len(parts) == len(ordered) + 1:
            counts = dict(zip(ordered, accumulate(map(len, parts)), strict=False))
            counts[-1] = sum(map(len, parts))
            return counts
    return {}


def _bytes_of_characters(text: str) -> bytes:
    """Return a byte for each character that is no white space; one of ASCII is itself.

    >>> len(_bytes_of_characters("a\xa0é  漢")), _bytes_of_characters("a b")
    (3, b'ab')
    """
    if text.isascii():
        return text.encode().translate(None, _WHITE)
    for white in _WIDE:
        if white in text:
            text = text.replace(white, "")
    return text.encode("utf-8", "surrogatepass").translate(None, _WHITE + _LATER)


class _Apart:
    """Whether tokens are in some spans of them."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self._starts = [start for start, _ in ordered]
        self._ends = list(accumulate((end for _, end in ordered), max))

    def __contains__(self, token: int) -> bool:
        at = bisect_right(self._starts, token)
        return at > 0 and self._ends[at - 1] > token


def _is_in_heading(token: int, headings: Sequence[tuple[int, int, int]]) -> bool:
    at = bisect_right(headings, token, key=itemgetter(0))
    return at > 0 and token < headings[at - 1][1]


def _begins_line(tokens: Sequence[str], token: int) -> bool:
    for before in tokens[max(token - _NEAR, 0) : token][::-1]:
        if before in _LINE_ENDS:
            return True
        if before.strip(_BLANKS).strip():
            return False
    return True


_POINTS: Final = frozenset({PICTURE, PLACE, DEFINITION})

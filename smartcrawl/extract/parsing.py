"""The markup of a page, parsed in portions, and again without structure where it nests too deep."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

from lxml import etree

from smartcrawl.extract.reader import MarkupReader, TooDeepError
from smartcrawl.extract.seen import SeenMarkup
from smartcrawl.extract.selecting_reader import SelectingReader
from smartcrawl.extract.selection import Picks

_PIECE: Final = 1_048_576  #: bytes; a tag of more than that is cut
_PORTION: Final = 32_768  #: bytes; the parser obeys an exception only between portions

# Every start and end tag, except those of raw text, links and images: they are dropped from a page
# whose elements are nested beyond reader.MAX_DEPTH.
_STRUCTURE: Final = re.compile(
    rb"</?(?!(?:a|area|base|frame|html|iframe|img|link|meta|script|style|textarea|title)"
    rb"(?![\w:.-]))[a-z][^<>]*>?",
    re.IGNORECASE,
)


def parse_markup(
    markup: bytes,
    *,
    links: bool = True,
    marked: bool = False,
    only_kept: bool = False,
    drops: Picks | None = None,
) -> SeenMarkup:
    """Parse ``markup`` (UTF-8) once and return its parts.

    Broken markup is repaired by libxml2, without limits on size. Where more than
    ``reader.MAX_DEPTH`` elements are open at once, all structure but lines, links and images is
    dropped and the rest is read again, so that neither text nor links are lost.

    ``links``: whether to read links. ``marked``: whether selected elements have a mark
    (extract.selection). ``only_kept``: whether some are marked to be kept, so that images elsewhere
    do not count. ``drops`` decides by the start tag which elements are dropped without a mark.
    """
    plain = not marked and drops is None
    try:
        return _seen(
            markup, MarkupReader(links) if plain else SelectingReader(links, only_kept, drops)
        )
    except TooDeepError:
        seen = _seen(flattened_markup(markup), MarkupReader(links))
        seen.refresh = None  # it may have been within <noscript>
        return seen


def flattened_markup(markup: bytes) -> bytes:
    """Return markup without structure, piece by piece, because each substitution is an object."""
    flat, start = bytearray(), 0
    while start < len(markup):
        end = start + _PIECE
        if end < len(markup):
            before = markup.rfind(b"<", start + 1, end)
            end = before if before > 0 else end
        flat += _STRUCTURE.sub(b"<br>", markup[start:end])
        start = end
    return bytes(flat)


def feed_markup(markup: bytes, target: Any) -> None:
    """Have a parser that repairs broken markup (UTF-8) call ``target`` for its tags and texts.

    An exception of the target ends the reading.
    """
    parser = etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True, no_network=True)
    with suppress(etree.XMLSyntaxError):  # an empty page: "no element found"
        for start in range(0, len(markup), _PORTION):
            parser.feed(markup[start : start + _PORTION])
        parser.close()


def _seen(markup: bytes, reader: MarkupReader) -> SeenMarkup:
    try:
        feed_markup(markup, reader)
    finally:
        seen = reader.hand_over()
    return seen

"""Texts of pages as clients get them: harmless to a terminal, and in parts that fit."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from zlib import crc32

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.unseen import visible_text

#: Characters of one part of a page. A client reads it whole, so that it must fit into its context.
PART: Final = 20_000
_CURSOR: Final = re.compile(r"([0-9]{1,9})-([0-9a-f]{8})")


class McpRefusalError(SmartcrawlError):
    """A call that cannot be answered; its text says what to do, and goes to the client."""


class TextPart(NamedTuple):
    """A part of a text, and the cursor of the next one; None: it is the last."""

    text: str
    cursor: str | None


def escaped_mcp_text(text: str) -> str:
    r"""Return a text with its lines and tabs; what controls a terminal or is not seen is escaped.

    >>> escaped_mcp_text("a\tb\r\nc\x1b[2J\u202e")
    'a\tb\nc\\x1b[2J\\u202e'

    Source: ATT-20, ATT-64.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(visible_text, line.split("\t"))) for line in lines)


def mcp_text_part(text: str, cursor: str | None, most: int = PART) -> TextPart:
    r"""Return the part of a text at a cursor, or its first; parts, joined, are the text.

    A part has at most ``most`` characters and ends with a line, if one ends in its second half. A
    cursor has the place and a checksum of the text: parts of two versions are never joined.

    >>> first = mcp_text_part("one\ntwo\nthree", None, most=9)
    >>> first, mcp_text_part("one\ntwo\nthree", first.cursor, most=9).text
    (TextPart(text='one\ntwo\n', cursor='8-866d669e'), 'three')

    Raises:
        McpRefusalError: the cursor is none, is of another text, or is behind the end.
    """
    version = f"{crc32(text.encode()):08x}"
    start = 0 if cursor is None else _place(cursor, version)
    if start and start >= len(text):
        raise McpRefusalError("the cursor is behind the end: fetch the page without one")
    end = start + most
    if end >= len(text):
        return TextPart(text[start:], None)
    end = text.rfind("\n", start + most // 2, end) + 1 or end
    return TextPart(text[start:end], f"{end}-{version}")


def _place(cursor: str, version: str) -> int:
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise McpRefusalError("cursor must be the next_cursor of an answer of this page")
    if found[2] != version:
        raise McpRefusalError("the page has changed: fetch it without a cursor")
    return int(found[1])

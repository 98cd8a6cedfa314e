"""Sections of a page, made from its tokens: white space, lines, rows, headings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from smartcrawl.extract.blocks import (
    CELL_END,
    ROW_END,
    MarkedText,
    TokenBlock,
    has_block_marks,
    mark_token_blocks,
    strip_marked_cell,
    token_block_parts,
)
from smartcrawl.model.documents import Block, Section

# Marks between the texts of a page. In a page that contains such a character it is white space.
BREAK: Final = "\0"  #: the end of a line
CELL: Final = "\4"  #: the end of a table cell: joined with the next by a space
ROW: Final = "\5"  #: the end of a table row
_SPACE: Final = "\1"  #: a space that counts
_TAB: Final = "\2"
_NEWLINE: Final = "\3"

_WHITE: Final = "\t\n\v\f\r\x1c\x1d\x1e\x1f"  # white space of str.split, except the space
_WIDE: Final = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
    "\u202f\u205f\u3000"
)

_AROUND_CELLS: Final = "\0 \t\r\n\f"

Span = tuple[int, int]  #: first token and the one after the last


class Heading(NamedTuple):
    """The tokens of a heading, from ``start`` to before ``end``. ``level`` is 1 to 6."""

    start: int
    end: int
    level: int


def markup_line(text: str) -> str:
    """Return ``text`` as one line with single spaces and without marks."""
    for mark in (BREAK, CELL, ROW, _SPACE, _TAB, _NEWLINE):
        if mark in text:
            text = text.replace(mark, " ")
    return " ".join(text.split())


def keep_text_layout(token: str) -> str:
    """Return ``token`` with white space that ``text_sections`` does not collapse (``<pre>``)."""
    return (
        token.replace(" ", _SPACE)
        .replace("\xa0", _SPACE)
        .replace("\t", _TAB)
        .replace("\r\n", _NEWLINE)
        .replace("\n", _NEWLINE)
        .replace("\r", _NEWLINE)
    )


def text_sections(
    tokens: Sequence[str],
    headings: Iterable[Heading],
    excluded: Iterable[Span],
    blocks: Sequence[TokenBlock] = (),
) -> tuple[Section, ...]:
    """Return the sections of a page without the tokens in ``excluded``.

    One line for each block and each table row, blank lines only where layout is kept. A heading
    without text starts no section.
    """
    kept = list(tokens)
    for start, end in excluded:
        kept[start:end] = [BREAK] * (end - start)
    found: list[Section] = []
    level, title, begin = 0, "", 0
    for heading in headings:
        following = markup_line("".join(kept[heading.start : heading.end]))
        if not following:
            continue
        section = _section(kept, level, title, (begin, heading.start), blocks)
        if title or section.text:
            found.append(section)
        level, title, begin = heading.level, following, heading.end
    section = _section(kept, level, title, (begin, len(kept)), blocks)
    if title or section.text:
        found.append(section)
    return tuple(found)


def _section(
    kept: list[str], level: int, title: str, span: Span, blocks: Sequence[TokenBlock]
) -> Section:
    tokens = kept[slice(*span)]
    parts = token_block_parts(blocks, *span) if blocks else []
    if not parts:
        return Section(level, title, _lines(tokens))
    return Section(level, title, *_marked_lines(tokens, parts))


def _lines(tokens: Iterable[str]) -> str:
    text = "".join(tokens)
    if CELL in text:
        text = " ".join(part.strip(_AROUND_CELLS) for part in text.split(CELL))
    if ROW in text:
        text = text.replace(ROW, BREAK)
    lines = list(map(_collapsed, _spaced(text, _white_of(text)).split(BREAK)))
    if _SPACE in text or _TAB in text or _NEWLINE in text:
        lines = list(map(_laid_out, lines))
    return "\n".join(filter(None, lines))


def _marked_lines(tokens: list[str], parts: Sequence[TokenBlock]) -> tuple[str, tuple[Block, ...]]:
    """Return the same text as ``_lines``, and the blocks that are in it."""
    text = "".join(tokens)
    if has_block_marks(text):
        return _lines(tokens), ()
    white = _white_of(text)
    mark_token_blocks(tokens, parts)
    text = "".join(tokens)
    if CELL in text:
        cells = (strip_marked_cell(part, _AROUND_CELLS, ROW) for part in text.split(CELL))
        text = f"{CELL_END} ".join(cells)
    if ROW in text:
        text = text.replace(ROW, ROW_END + BREAK)
    text = _spaced(text, white)
    marked = MarkedText(text.split(BREAK))
    lines = list(map(_collapsed, marked.without_marks()))
    if _SPACE in text or _TAB in text or _NEWLINE in text:
        lines = list(map(_laid_out, lines))
    return "\n".join(filter(None, lines)), marked.blocks(parts, lines)


def _white_of(text: str) -> str:
    return _WHITE if text.isascii() else _WHITE + _WIDE


def _spaced(text: str, white: str) -> str:
    """Return ``text`` with spaces in place of ``white``."""
    for character in white:
        text = text.replace(character, " ")
    return text


def _collapsed(block: str) -> str:
    """Return a block with single spaces.

    Splitting every block into words would cost twice as much; most have single spaces already.
    """
    return " ".join(block.split()) if "  " in block else block.strip(" ")


def _laid_out(text: str) -> str:
    text = text.replace(_SPACE, " ").replace(_TAB, "\t").replace(_NEWLINE, "\n")
    return text.rstrip().lstrip("\n")

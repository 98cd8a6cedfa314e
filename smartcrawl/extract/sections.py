"""Sections of a page, made from its tokens: white space, lines, rows, headings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from smartcrawl.extract.blocks import (
    CELL_END,
    ROW_END,
    MarkedText,
    TokenBlock,
    TokenBlocks,
    mark_token_blocks,
    markup_has_block_marks,
    strip_marked_cell,
)
from smartcrawl.model.documents import Block, Section

# Marks between the texts of a page. In a page that contains such a character it is white space.
BREAK: Final = "\0"  #: the end of a line
CELL: Final = "\4"  #: the end of a table cell: joined with the next by a space
ROW: Final = "\5"  #: the end of a table row
_SPACE: Final = "\1"  #: a space that counts
_TAB: Final = "\2"
_NEWLINE: Final = "\3"
_BETWEEN: Final = "\6"  #: between tokens while they are changed together

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


def keep_text_layout(tokens: Sequence[str]) -> list[str]:
    """Return tokens with white space that ``text_sections`` does not collapse (``<pre>``)."""
    together = _kept_layout(_BETWEEN.join(tokens)).split(_BETWEEN)
    if len(together) == len(tokens):
        return together
    return list(map(_kept_layout, tokens))  # some have the character that is between them


def _kept_layout(text: str) -> str:
    return (
        text.replace(" ", _SPACE)
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
    divided = TokenBlocks(blocks)
    found: list[Section] = []
    level, title, begin = 0, "", 0
    for heading in headings:
        following = markup_line("".join(kept[heading.start : heading.end]))
        if not following:
            continue
        section = _section(kept, level, title, (begin, heading.start), divided)
        if title or section.text:
            found.append(section)
        level, title, begin = heading.level, following, heading.end
    section = _section(kept, level, title, (begin, len(kept)), divided)
    if title or section.text:
        found.append(section)
    return tuple(found)


def _section(kept: list[str], level: int, title: str, span: Span, blocks: TokenBlocks) -> Section:
    tokens = kept[slice(*span)]
    parts = blocks.between(*span)
    if not parts:
        return Section(level, title, _lines(tokens))
    return Section(level, title, *_marked_lines(tokens, parts))


def _lines(tokens: Iterable[str]) -> str:
    text = "".join(tokens)
    if CELL in text:
        text = " ".join(part.strip(_AROUND_CELLS) for part in text.split(CELL))
    if ROW in text:
        text = text.replace(ROW, BREAK)
    lines = _collapsed(_lines_with_spaces(text, _white_of(text)))
    if _has_layout(text):
        lines = _laid_out(lines)
    return "\n".join(filter(None, lines))


def _marked_lines(tokens: list[str], parts: Sequence[TokenBlock]) -> tuple[str, tuple[Block, ...]]:
    """Return the same text as ``_lines``, and the blocks that are in it."""
    text = "".join(tokens)
    if markup_has_block_marks(text):
        return _lines(tokens), ()
    white = _white_of(text)
    mark_token_blocks(tokens, parts)
    text = "".join(tokens)
    if CELL in text:
        cells = (strip_marked_cell(part, _AROUND_CELLS, ROW) for part in text.split(CELL))
        text = f"{CELL_END} ".join(cells)
    if ROW in text:
        text = text.replace(ROW, ROW_END + BREAK)
    marked = MarkedText(_lines_with_spaces(text, white))
    lines = _collapsed(marked.without_marks())
    if _has_layout(text):
        lines = _laid_out(lines)
    return "\n".join(filter(None, lines)), marked.blocks(parts, lines)


def _white_of(text: str) -> str:
    return _WHITE if text.isascii() else _WHITE + _WIDE


def _lines_with_spaces(text: str, white: str) -> list[str]:
    """Return the lines of ``text`` that are not empty, with spaces in place of ``white``."""
    for character in white:
        text = text.replace(character, " ")
    return list(filter(None, text.split(BREAK)))


def _collapsed(lines: Iterable[str]) -> list[str]:
    """Return lines with single spaces.

    Splitting every line into words would cost twice as much; most have single spaces already.
    """
    return [" ".join(line.split()) if "  " in line else line.strip(" ") for line in lines]


def _has_layout(text: str) -> bool:
    return _SPACE in text or _TAB in text or _NEWLINE in text


def _laid_out(lines: Iterable[str]) -> list[str]:
    text = BREAK.join(lines).replace(_SPACE, " ").replace(_TAB, "\t").replace(_NEWLINE, "\n")
    return [line.rstrip().lstrip("\n") for line in text.split(BREAK)]

"""Sections of a text, made from its tokens, and the code, tables and lists in them.

The code, tables and lists of a text, found again after its white space is collapsed.

Marks of blocks, cells and rows stand among the tokens of a page. They never change its text, which
is made of the tokens without marks. They only show where in it a block is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Final, NamedTuple

from smartcrawl.model.documents import LIST, TABLE, Block, Section

EDGE: Final = "\6"  #: before the first and after the last character of a block
CELL_END: Final = "\7"  #: before the space that separates a cell from the next
ROW_END: Final = "\x0e"


class TokenBlock(NamedTuple):
    """A block of tokens, from ``start`` to before ``end``."""

    kind: str  #: a word of BLOCK_KINDS
    start: int
    end: int
    head: int = 0  #: of a table: the token after the rows that name the columns; 0: none do
    row: int = 0  #: of a table with a caption: the first token of its first row


def markup_has_block_marks(text: str) -> bool:
    """Whether a text has characters that are marks here. Such a text gets no blocks."""
    return EDGE in text or CELL_END in text or ROW_END in text


class TokenBlocks:
    """The blocks of a page, divided among its sections in one pass."""

    def __init__(self, blocks: Iterable[TokenBlock]) -> None:
        numbered = enumerate(blocks)
        self._next = sorted(numbered, key=lambda one: one[1].start, reverse=True)
        self._open: list[tuple[int, TokenBlock]] = []  # those that a former section did not end

    def between(self, begin: int, end: int) -> list[TokenBlock]:
        """Return the parts of blocks between two tokens, counted from the first of these.

        They are in the order of the blocks. Each call begins where the last one ended, or later.
        """
        following, blocks = self._next, self._open
        while following and following[-1][1].start < end:
            blocks.append(following.pop())
        if not blocks:
            return []
        self._open = [one for one in blocks if one[1].end > end]
        blocks.sort()
        return [
            TokenBlock(
                kind,
                max(start, begin) - begin,
                min(stop, end) - begin,
                max(head - begin, 0),
                max(row - begin, 0),
            )
            for _, (kind, start, stop, head, row) in blocks
            if stop > begin
        ]


def without_last_marks(tokens: Sequence[str], part: TokenBlock, marks: str) -> TokenBlock:
    """Return a block that ends with its last token that is no mark.

    A block in a cell ends before the line or the cell does: what follows it there is no part of it.
    """
    end = part.end
    while end > part.start and tokens[end - 1] in marks:
        end -= 1
    return part._replace(end=end) if end > part.start else part


def mark_token_blocks(tokens: list[str], parts: Iterable[TokenBlock]) -> None:
    """Put marks into the first and the last token of blocks, and where a part of a table begins."""
    for part in parts:
        for place in _beginnings(part):
            tokens[place] = EDGE + tokens[place]
        tokens[part.end - 1] += EDGE


def _beginnings(part: TokenBlock) -> Iterable[int]:
    """Return the first tokens of a block, of its first row, and of the row after its head."""
    _, start, end, head, row = part
    return (start, *(place for place in (row, head) if start < place < end))


def strip_marked_cell(cell: str, stripped: str, row: str) -> str:
    """Return a cell without some characters at its ends; the edges of blocks among them stay.

    ``row`` ends the row before: an edge that begins the next one is put after it.
    """
    inner = cell.strip(stripped + EDGE)
    if EDGE not in cell or not inner:
        return inner + EDGE * cell.count(EDGE)
    before, _, after = cell.partition(inner)
    text = inner.lstrip(stripped + row)
    ends = inner[: len(inner) - len(text)]
    return ends + EDGE * before.count(EDGE) + text + EDGE * after.count(EDGE)


class MarkedText:
    """Lines of which some have marks, and the blocks that these marks show."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._marked = [
            (number, line)
            for number, line in enumerate(lines)
            if CELL_END in line or EDGE in line or ROW_END in line
        ]

    def without_marks(self) -> list[str]:
        """Return the lines without marks."""
        lines = self._lines.copy()
        for number, line in self._marked:
            lines[number] = line.replace(EDGE, "").replace(CELL_END, "").replace(ROW_END, "")
        return lines

    def blocks(self, parts: Sequence[TokenBlock], lines: Sequence[str]) -> tuple[Block, ...]:
        """Return the blocks whose marks are in the lines, by their start.

        ``lines`` are those of the text, of which the empty ones are left out. Of code and tables
        that share a line the first stays.
        """
        before = list(accumulate(map(len, lines), initial=0))
        filled = list(accumulate(map(bool, lines), initial=0))
        places = _Places()
        for number, line in self._marked:
            places.add(line, before[number] + filled[number], len(lines[number]))
        return places.blocks(parts)


class _Places:
    """The places of marks in a text."""

    def __init__(self) -> None:
        self._edges: list[tuple[int, int]] = []  # start and end of the line of each
        self._rows: list[tuple[int, ...]] = []
        self._cells: list[int] = []  # of the row that is not complete

    def add(self, line: str, start: int, length: int) -> None:
        """Add the marks of a line, of which ``length`` characters are in the text at ``start``."""
        end = start + length if length else max(start - 1, 0)
        if EDGE in line:
            self._edges += [(start, end)] * line.count(EDGE)
            if CELL_END not in line and ROW_END not in line:
                return
            line = line.replace(EDGE, "")
        if CELL_END in line:
            at = 0
            for cell in line.split(CELL_END)[:-1]:
                size = len(" ".join(cell.split()) if "  " in cell else cell.strip(" "))
                at += size + (at > 0 < size)
                self._cells.append(min(start + at, end))
        if ROW_END in line and self._cells:
            self._rows.append(tuple(self._cells))
            self._cells = []

    def blocks(self, parts: Sequence[TokenBlock]) -> tuple[Block, ...]:
        """Return the blocks that have all edges, by their start."""
        turns = sorted(
            (place, is_end, number)
            for number, part in enumerate(parts)
            for places, is_end in ((_beginnings(part), False), ((part.end - 1,), True))
            for place in places
        )
        starts: dict[int, list[int]] = {}
        found: list[Block] = []
        for (_, is_end, number), (start, end) in zip(turns, self._edges, strict=True):
            if not is_end:
                starts.setdefault(number, []).append(start)
            elif starts[number][0] < end:
                part = parts[number]
                if part.kind == TABLE:
                    found.append(self._table(part, starts[number], end))
                else:
                    found.append(Block(part.kind, starts[number][0], end))
        return tuple(_apart(found))

    def _table(self, part: TokenBlock, starts: Sequence[int], end: int) -> Block:
        """Return a table; ``starts`` are the places of its ``_beginnings``."""
        start = first = starts[0]
        if part.start < part.row < part.end:
            first = starts[1]
        rows = self._rows_between(first, end)
        head = 0
        if part.head >= part.end:
            head = len(rows)
        elif part.head > part.start:
            head = bisect_left(rows, starts[-1], key=_end_of)
        return Block(part.kind, start, end, head, rows, first if start < first < end else 0)

    def _rows_between(self, start: int, end: int) -> tuple[tuple[int, ...], ...]:
        """Return the rows there, from the first one that has text to the last one.

        Rows of a table around this one end later, or begin at its end.
        """
        first = bisect_left(self._rows, (start,))
        last = bisect_right(self._rows, (end, end))
        while first < last and self._rows[first][-1] <= start:
            first += 1
        while first < last and self._rows[last - 1][-1] > end:
            last -= 1
        while last - first > 1 and self._rows[last - 2][-1] == end:
            last -= 1
        return tuple(self._rows[first:last])


_end_of: Final = itemgetter(-1)  # of a row


def _apart(blocks: Iterable[Block]) -> Iterable[Block]:
    """Yield blocks without the code and the tables that begin in another of these."""
    last = 0
    for block in sorted(blocks, key=lambda one: (one.start, -one.end)):
        if block.kind != LIST:
            if block.start < last:
                continue
            last = block.end
        yield block


# Marks between the texts of a page. In a page that contains such a character it is white space.
BREAK: Final = "\0"  #: the end of a line
CELL: Final = "\4"  #: the end of a table cell: joined with the next by a space
ROW: Final = "\5"  #: the end of a table row
_SPACE: Final = "\1"  #: a space that counts
_TAB: Final = "\2"
_NEWLINE: Final = "\3"
_ENDS: Final = BREAK + CELL + ROW
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
    if not text.isprintable():  # no mark is
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
    for heading in (*headings, Heading(len(kept), len(kept), 0)):
        following = markup_line("".join(kept[heading.start : heading.end]))
        if not following and heading.start < len(kept):
            continue
        section = _section(kept, level, title, (begin, heading.start), divided)
        if title or section.text:
            found.append(section)
        level, title, begin = heading.level, following, heading.end
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
    parts = [without_last_marks(tokens, part, _ENDS) for part in parts]
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

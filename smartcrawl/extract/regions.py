"""Regions of a page: the spans of its tokens that are boilerplate, main text, or no text at all."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple, assert_never

from smartcrawl.extract.blocks import TokenBlock
from smartcrawl.extract.sections import BREAK, CELL, ROW, Span, keep_text_layout, markup_line
from smartcrawl.extract.seen import SeenMarkup
from smartcrawl.model.documents import CODE, LIST, TABLE

_MAX_TABLES: Final = 4  #: tables in each other; deeper ones are part of theirs


class Region(Enum):
    """Kinds of spans of tokens."""

    BOILERPLATE = auto()
    MAIN = auto()
    ARTICLE = auto()
    LAYOUT = auto()  #: code: white space counts
    TABLE = auto()
    LIST = auto()
    MUTED = auto()  #: no text of the page
    INERT = auto()  #: neither text nor links: an empty template
    KEPT = auto()  #: selected by the operator
    DROPPED = auto()  #: selected by the operator as no text of the page
    TITLE = auto()


class Regions:
    """The tokens of a page and its open regions; a region ends with the element that opened it."""

    __slots__ = (
        *("_closing", "_depth", "_head_cells", "_head_rows", "_muted"),
        *("_open", "_seen", "_tokens"),
    )

    def __init__(self) -> None:
        self._seen = SeenMarkup()
        self._tokens: list[str] = []
        self._depth = 0
        self._open: list[tuple[int, Region, int]] = []  # depth, region, first token
        self._closing = 0  # depth of the innermost open region
        self._muted = False
        self._head_cells: list[int] = []  # tokens after a <th>, of open tables
        self._head_rows: list[Span] = []  # of each <thead> of open tables

    def _open_region(self, region: Region) -> None:
        if self._muted or self._is_open(region):
            return
        self._open.append((self._depth, region, len(self._tokens)))
        self._closing = self._depth

    def _is_open(self, region: Region) -> bool:
        return any(region is other for _, other, _ in self._open)

    def _close_region(self) -> None:
        tokens = self._tokens
        while self._open and self._open[-1][0] == self._depth:
            _, region, start = self._open.pop()
            span = (start, len(tokens))
            match region:
                case Region.BOILERPLATE:
                    self._seen.boilerplate.append(span)
                case Region.MAIN:
                    self._seen.mains.append(span)
                case Region.ARTICLE:
                    self._seen.articles.append(span)
                case Region.KEPT:
                    self._seen.kept.append(span)
                case Region.DROPPED:
                    self._seen.dropped.append(span)
                case Region.LAYOUT:
                    tokens[start:] = keep_text_layout(tokens[start:])
                    self._seen.blocks.append(TokenBlock(CODE, start, len(tokens)))
                case Region.TABLE:
                    self._close_table(start)
                case Region.LIST:
                    self._seen.blocks.append(TokenBlock(LIST, start, len(tokens)))
                case Region.MUTED | Region.INERT | Region.TITLE:
                    if region is Region.TITLE:
                        self._seen.titles.setdefault("title", markup_line("".join(tokens[start:])))
                    del tokens[start:]
                    self._muted = False
                case _:
                    assert_never(region)
        self._closing = self._open[-1][0] if self._open else 0

    def _open_table(self) -> None:
        tables = sum(region is Region.TABLE for _, region, _ in self._open)
        if not self._muted and tables < _MAX_TABLES:
            self._open.append((self._depth, Region.TABLE, len(self._tokens)))
            self._closing = self._depth

    def _close_row(self) -> None:
        self._tokens.append(ROW)

    def _close_cell(self) -> None:
        self._tokens.append(CELL)

    def _close_head_cell(self) -> None:
        self._tokens.append(CELL)
        if not self._muted:
            self._head_cells.append(len(self._tokens))

    def _start_head_rows(self) -> None:
        if not self._muted:
            self._head_rows.append((len(self._tokens), 0))

    def _close_head_rows(self) -> None:
        if self._head_rows and not self._muted:
            self._head_rows[-1] = (self._head_rows[-1][0], len(self._tokens))
        self._tokens.append(BREAK)

    def _close_table(self, start: int) -> None:
        """Note a table with its lists; one with headings, code or tables only lays out a page."""
        headings, blocks, tokens = self._seen.headings, self._seen.blocks, self._tokens
        head = self._taken_head(start)
        first = _index(tokens, CELL, start)
        lists = 0
        while lists < len(blocks) and blocks[-1 - lists].start >= start:
            lists += 1
            if blocks[-lists].kind != LIST:
                return
        if first == len(tokens) or (headings and headings[-1].start >= start):
            return
        del blocks[len(blocks) - lists :]
        row = first
        while row > start and tokens[row - 1] != ROW:
            row -= 1
        has_caption = bool(markup_line("".join(tokens[start:row])))
        after = _after_head(tokens, row, head)
        blocks.append(TokenBlock(TABLE, start, len(tokens), after, row if has_caption else 0))

    def _taken_head(self, start: int) -> _Head:
        """Return the heads since a token, which belong to the table that ends, and forget them."""
        cells: set[int] = set()
        while self._head_cells and self._head_cells[-1] > start:
            cells.add(self._head_cells.pop())
        rows: list[Span] = []
        while self._head_rows and self._head_rows[-1][0] > start:
            rows.append(self._head_rows.pop())
        return _Head(cells, rows)


class _Head(NamedTuple):
    """The heads in a table."""

    cells: set[int]  #: the token after each ``<th>``
    rows: list[Span]  #: the tokens of each ``<thead>``


def _after_head(tokens: list[str], row: int, head: _Head) -> int:
    """Return the token after the rows that name the columns; 0 if none do.

    These are the rows of a ``<thead>`` that the first row is in, or the first row, if each of its
    cells that has text is a ``<th>``. ``row``: the first token of the first row.
    """
    for start, end in head.rows:
        if start <= row < end:
            return end
    if not head.cells:
        return 0
    end, cell = _index(tokens, ROW, row), row
    for at in range(row, end):
        if tokens[at] == CELL:
            if at + 1 not in head.cells and markup_line("".join(tokens[cell:at])):
                return 0
            cell = at + 1
    return end + 1 if head.cells.intersection(range(row, end + 1)) else 0


def _index(tokens: list[str], token: str, start: int) -> int:
    """Return the place of a token from ``start`` on; the number of all tokens if there is none."""
    try:
        return tokens.index(token, start)
    except ValueError:
        return len(tokens)

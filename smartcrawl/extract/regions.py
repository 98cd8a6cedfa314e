"""Regions of a page: the spans of its tokens that are boilerplate, main text, or no text at all."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, assert_never

from smartcrawl.extract.blocks import TokenBlock
from smartcrawl.extract.sections import CELL, ROW, keep_text_layout, markup_line
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

    __slots__ = ("_closing", "_depth", "_head_cells", "_muted", "_open", "_seen", "_tokens")

    def __init__(self) -> None:
        self._seen = SeenMarkup()
        self._tokens: list[str] = []
        self._depth = 0
        self._open: list[tuple[int, Region, int]] = []  # depth, region, first token
        self._closing = 0  # depth of the innermost open region
        self._muted = False
        self._head_cells: list[int] = []  # tokens after a <th>, of the outermost open table

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

    def _close_table(self, start: int) -> None:
        """Note a table with its lists; one with headings, code or tables only lays out a page."""
        headings, blocks, tokens = self._seen.headings, self._seen.blocks, self._tokens
        cells, is_outermost = self._head_cells, not self._is_open(Region.TABLE)
        if is_outermost:
            self._head_cells = []
        first = _index(tokens, CELL, start)
        lists = 0
        while lists < len(blocks) and blocks[-1 - lists].start >= start:
            lists += 1
            if blocks[-lists].kind != LIST:
                return
        if first == len(tokens) or (headings and headings[-1].start >= start):
            return
        end = _index(tokens, ROW, first)
        heads = sum(start < cell <= end for cell in cells)
        del blocks[len(blocks) - lists :]
        is_head = heads == tokens[start:end].count(CELL)
        blocks.append(TokenBlock(TABLE, start, len(tokens), is_head))


def _index(tokens: list[str], token: str, start: int) -> int:
    """Return the place of a token from ``start`` on; the number of all tokens if there is none."""
    try:
        return tokens.index(token, start)
    except ValueError:
        return len(tokens)

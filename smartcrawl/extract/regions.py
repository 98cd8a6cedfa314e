"""Regions of a page: the spans of its tokens that are boilerplate, main text, or no text at all."""

from __future__ import annotations

from enum import Enum, auto
from typing import assert_never

from smartcrawl.extract.sections import keep_text_layout, markup_line
from smartcrawl.extract.seen import SeenMarkup


class Region(Enum):
    """Kinds of spans of tokens."""

    BOILERPLATE = auto()
    MAIN = auto()
    ARTICLE = auto()
    LAYOUT = auto()  #: white space counts
    MUTED = auto()  #: no text of the page
    INERT = auto()  #: neither text nor links: an empty template
    KEPT = auto()  #: selected by the operator
    DROPPED = auto()  #: selected by the operator as no text of the page
    TITLE = auto()


class Regions:
    """The tokens of a page and its open regions; a region ends with the element that opened it."""

    __slots__ = ("_closing", "_depth", "_muted", "_open", "_seen", "_tokens")

    def __init__(self) -> None:
        self._seen = SeenMarkup()
        self._tokens: list[str] = []
        self._depth = 0
        self._open: list[tuple[int, Region, int]] = []  # depth, region, first token
        self._closing = 0  # depth of the innermost open region
        self._muted = False

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
                    tokens[start:] = map(keep_text_layout, tokens[start:])
                case Region.MUTED | Region.INERT | Region.TITLE:
                    if region is Region.TITLE:
                        self._seen.titles.setdefault("title", markup_line("".join(tokens[start:])))
                    del tokens[start:]
                    self._muted = False
                case _:
                    assert_never(region)
        self._closing = self._open[-1][0] if self._open else 0

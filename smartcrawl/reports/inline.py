"""Links, pictures and inline code of a text as Markdown (CommonMark 0.31)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum, auto
from typing import Final, NamedTuple

import can_ada

from smartcrawl.extract.links import absolute_target
from smartcrawl.model.documents import INLINE_CODE, LINK, PICTURE, Span
from smartcrawl.model.markdown import MARK, clean_text, escape_all_markdown, one_text_line

#: Characters of an address that could end it, or a cell of a table.
_IN_ADDRESS: Final = {ord(sign): f"%{ord(sign):02X}" for sign in " ()<>|\\`"}
_ENTITY: Final = re.compile(r"&(?=#?\w+;)")
_BACKTICKS: Final = re.compile("`+")
_BRACKETS: Final = re.compile(r"([\[\]])")


class _Kind(IntEnum):
    """Kinds of markup, in their order at one place."""

    CLOSE = auto()  #: the end of a link
    PICTURE = auto()
    OPEN = auto()  #: the beginning of a link
    CODE = auto()


class _Markup(NamedTuple):
    """Markup at a place of a text; code stands for the text up to ``end``."""

    start: int
    kind: _Kind
    end: int
    markup: str = ""


class InlineText:
    """A text with spans, whose parts are taken and escaped in their order.

    A part has a mark in place of each piece of markup. Cleaned text has no such character. When the
    text around the marks is escaped, ``filled`` puts the markup there.
    """

    def __init__(self, text: str, spans: Iterable[Span], base: can_ada.URL | None) -> None:
        """``base``: of the addresses; None: links and pictures are left out."""
        self._text = text
        self._markup = _markup(text, list(spans), base) if spans else []
        self._next = 0
        self._fills: list[str] = []

    def part(self, start: int, end: int, *, alone: str = " ") -> str:
        """Return a cleaned part of the text with marks; the next one begins at ``end`` or later.

        ``alone``: what separates a picture that begins a line from the text behind it.
        """
        if self._next == len(self._markup):
            return clean_text(self._text[start:end])
        parts: list[str] = []
        at, link = start, ""
        code: int | None = None  # the place of the one before, if no text is between
        for begin, kind, stop, markup in self._until(start, end):
            if kind is _Kind.CLOSE and not link:
                continue  # it was closed with the part before
            parts += self._plain(at, begin, in_link=bool(link))
            if kind is not _Kind.CODE or begin > at:
                code = None
            at = max(at, begin)
            if kind is _Kind.OPEN:
                link = markup
                parts.append(self._mark("["))
            elif kind is _Kind.CLOSE:
                parts.append(self._mark(f"]({link})"))
                link = ""
            elif kind is _Kind.CODE:
                at = max(at, min(stop, end))
                if code is not None:
                    self._fills[-1] = _code(self._text[code:at])  # two fences would be one
                else:
                    parts.append(self._mark(_code(self._text[begin:at])))
                    code = begin
            else:
                is_first = begin == start or self._begins_line(begin)
                before = "" if is_first or self._text[begin - 1].isspace() else " "
                after = alone if is_first else "" if self._is_white(begin, end) else " "
                parts.append(before + self._mark(markup) + after)
        parts += self._plain(at, end, in_link=bool(link))
        if link:
            parts.append(self._mark(f"]({link})"))
        return "".join(parts)

    def _until(self, start: int, end: int) -> Iterator[_Markup]:
        """Yield the markup of a part; that between parts is left out."""
        while self._next < len(self._markup):
            one = self._markup[self._next]
            if one.start > end or (one.start == end and not self._ends_here(one)):
                return
            self._next += 1
            if one.start >= start:
                yield one

    def _ends_here(self, one: _Markup) -> bool:
        """Whether markup belongs to the text before it: a picture does that begins no line."""
        if one.kind is _Kind.PICTURE and one.start < len(self._text):
            return not self._begins_line(one.start)
        return one.kind <= _Kind.PICTURE

    def _begins_line(self, at: int) -> bool:
        return at == 0 or self._text[at - 1] == "\n"

    def _is_white(self, at: int, end: int) -> bool:
        return at >= end or self._text[at].isspace()

    def filled(self, escaped: str) -> str:
        """Return escaped text with the markup in place of its marks."""
        if MARK not in escaped:
            return escaped
        first, *others = escaped.split(MARK)
        fills = self._fills[: len(others)]
        del self._fills[: len(others)]
        return first + "".join(map("".join, zip(fills, others, strict=True)))

    def _mark(self, markup: str) -> str:
        self._fills.append(markup)
        return MARK

    def _plain(self, start: int, end: int, *, in_link: bool) -> Iterator[str]:
        text = clean_text(self._text[start:end])
        if not in_link:
            yield text
            return
        for piece in _BRACKETS.split(text):
            yield self._mark(f"\\{piece}") if piece in ("[", "]") else piece


def _markup(text: str, spans: Sequence[Span], base: can_ada.URL | None) -> list[_Markup]:
    """Return the markup of a text in its order: links and code that do not overlap, pictures."""
    links: list[_Markup] = []
    found: list[_Markup] = []
    for span in spans:
        target = _address(base, span.target) if span.kind in (LINK, PICTURE) else ""
        if span.kind == LINK and target and (not links or links[-1].end <= span.start):
            linked = text[span.start : span.end].strip()
            if clean_text(linked).strip():
                start = text.index(linked, span.start)
                end = start + len(linked.partition("\n")[0].rstrip())
                links.append(_Markup(start, _Kind.OPEN, end, target))
                found += (links[-1], _Markup(end, _Kind.CLOSE, end))
        elif span.kind == PICTURE and target:
            is_inside = bool(links) and links[-1].start < span.start < links[-1].end
            link = "" if is_inside else _address(base, span.link)
            found.append(
                _Markup(span.start, _Kind.PICTURE, span.start, _picture(span, target, link))
            )
    edges = [edge for link in links for edge in (link.start, link.end)]
    found += _codes(text, spans, edges)
    return sorted(found)


def _codes(text: str, spans: Iterable[Span], edges: Sequence[int]) -> Iterator[_Markup]:
    """Yield the code of a text, cut at its lines and where links begin and end."""
    done = at = 0
    for span in spans:
        if span.kind != INLINE_CODE:
            continue
        start = max(span.start, done)
        while start < span.end:
            while at < len(edges) and edges[at] <= start:
                at += 1
            stop = min(span.end, edges[at]) if at < len(edges) else span.end
            line = text.find("\n", start, stop)
            stop = line if line >= 0 else stop
            code = text[start:stop].strip()
            if clean_text(code).strip():
                begin = text.index(code, start)
                yield _Markup(begin, _Kind.CODE, begin + len(code))
            start = stop + (line >= 0)
        done = max(done, span.end)


def _address(base: can_ada.URL | None, target: str) -> str:
    found = absolute_target(base, target) if base is not None else ""
    return _ENTITY.sub(r"\\&", clean_text(found).translate(_IN_ADDRESS))


def _picture(span: Span, target: str, link: str) -> str:
    picture = f"![{escape_all_markdown(one_text_line(span.text))}]({target})"
    return f"[{picture}]({link})" if link else picture


def _code(text: str) -> str:
    """Return text as inline code; white space around it stays outside."""
    code = clean_text(text)
    if not (inner := code.strip()):
        return code
    before, _, after = code.partition(inner)
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(inner)), default=0))
    pad = " " if inner[:1] == "`" or inner[-1:] == "`" else ""
    return f"{before}{fence}{pad}{inner}{pad}{fence}{after}"

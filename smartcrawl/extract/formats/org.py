"""Org: headings, paragraphs, code and tables, without its keywords and drawers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from smartcrawl.extract.formats.outline import Lines, Outline, Piece, marked_pieces, outline_source
from smartcrawl.model.documents import Document

_HEADING: Final = re.compile(r"(\*+) +(?:(?:TODO|DONE|NEXT|WAITING) +)?(?:\[#\w\] +)?(.*)")
_TAGS: Final = re.compile(r"[ \t](?::[\w@#%]+)+:$|\[\d*[/%]\d*\]$")
_KEYWORD: Final = re.compile(r"\s*#\+([\w-]+)(?:\[[^\]]*\])?:\s*(.*)")
_BEGIN: Final = re.compile(r"\s*#\+begin_(\w+)", re.IGNORECASE)
_DRAWER: Final = re.compile(r"\s*:[\w-]+:")
_PLANNING: Final = re.compile(r"\s*(?:SCHEDULED|DEADLINE|CLOSED):")
_ITEM: Final = re.compile(r" *(?:[-+]|\d+[.)]) +(?:\[[ X-]\] +)?")
_INLINE: Final = re.compile(
    r"\[\[([^\[\]]+)\](?:\[([^\[\]]+)\])?\]|(?<!\w)([=~*/_+])(?=\S)((?:(?!\3)[^\n])+)\3(?!\w)"
)
_CODE: Final = frozenset({"src", "example", "verse"})
_LEFT_OUT: Final = frozenset({"comment", "export"})


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a text of Org mode.

    Keywords, drawers, tags, plans and comments are no text.

    Source: orgmode.org, Org Syntax.
    """
    charset, text = outline_source(body, content_type)
    reader = _Org(text)
    reader.read()
    known = reader.keywords
    return reader.outline.document(
        url,
        charset,
        title=known.get("title", ""),
        description=known.get("description", ""),
        language=known.get("language", ""),
    )


class _Org:
    """Reader of the lines of one text."""

    def __init__(self, text: str) -> None:
        self.outline = Outline(_pieces)
        self.keywords: dict[str, str] = {}
        self._lines = Lines(text)

    def read(self) -> None:
        """Read all lines."""
        for line in self._lines:
            if not line:
                self.outline.end_paragraph()
            elif not (self._is_noise(line) or self._is_block(line)):
                self._add(line)

    def _add(self, line: str) -> None:
        if item := _ITEM.match(line):
            self.outline.end_paragraph()
            line = line[item.end() :].replace(" :: ", ": ", 1)
        self.outline.line(line)

    def _is_noise(self, line: str) -> bool:
        if keyword := _KEYWORD.fullmatch(line):
            name = keyword[1].lower()
            self.keywords.setdefault(name, keyword[2])
            if name == "caption":
                self.outline.paragraph(keyword[2])
        elif _DRAWER.fullmatch(line):
            self._lines.until(lambda other: other.strip().lower() == ":end:")
        elif not (_PLANNING.match(line) or line == "#" or line.startswith("# ")):
            return False
        return True

    def _is_block(self, line: str) -> bool:
        start = line.lstrip(" ")
        if heading := _HEADING.fullmatch(line):
            text = heading[2]
            while tags := _TAGS.search(text):
                text = text[: tags.start()].rstrip()
            self.outline.head(text, len(heading[1]))
        elif begin := _BEGIN.match(line):
            self._read_block(begin[1].lower())
        elif start.lower().startswith("#+end_"):
            self.outline.end_paragraph()
        elif start.startswith(": ") or start == ":":
            fixed = self._lines.while_(lambda other: other.lstrip(" ")[:2] in (":", ": "))
            self.outline.code_lines([one.lstrip(" ")[2:] for one in (line, *fixed)])
        elif start[0] == "|":
            more = self._lines.while_(lambda other: other.lstrip(" ")[:1] == "|")
            self._read_table([line, *more])
        else:
            return False
        return True

    def _read_block(self, kind: str) -> None:
        self.outline.end_paragraph()
        if kind in _CODE or kind in _LEFT_OUT:
            end = f"#+end_{kind}"
            content = self._lines.until(lambda other: other.strip().lower() == end)
            if kind in _CODE:
                self.outline.code_lines(content)

    def _read_table(self, lines: list[str]) -> None:
        rows: list[list[str]] = []
        head = 0
        for line in lines:
            if line.lstrip(" ").startswith("|-"):
                head = head or len(rows)
            else:
                rows.append(line.strip().strip("|").split("|"))
        self.outline.table(rows, head if head < len(rows) else 0)


def _pieces(text: str) -> Iterator[Piece]:
    return marked_pieces(_INLINE, text, _piece)


def _piece(found: re.Match[str]) -> Piece:
    target, shown, mark, marked = found.groups("")
    if mark:
        return Piece(marked, is_code=mark in "=~")
    name = target.removeprefix("file:").lstrip("*#")
    return Piece(shown or name, "" if target.startswith(("*", "#", "id:")) else name)

"""AsciiDoc: headings, paragraphs, code and tables, without its attributes and directives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from smartcrawl.extract.formats.outline import Lines, Outline, Piece, marked_pieces, outline_source
from smartcrawl.model.documents import Document

_HEADING: Final = re.compile(r"(={1,6}|#{1,6}) +(\S.*)")
_ATTRIBUTE: Final = re.compile(r":!?([\w-]+)!?:(?: +(.*))?")
_ANCHOR: Final = re.compile(r"\[(?:[\w.-]*#([\w-]+)|\[([\w-]+)(?:,[^\]]*)?\])[^\]]*\]")
_BLOCK_MACRO: Final = re.compile(r"([a-z]+)::([^\[\]]*)\[(.*)\]")
_ITEM: Final = re.compile(r" *(?:\*{1,5}|\.{1,5}|-) +(?:\[[ x*]\] +)?")
_TERM: Final = re.compile(r"(\S[^\n]*?)(?:::|;;)(?: +(.*))?")
_CELL: Final = re.compile(r"(?:^| )(?:\d*(?:\.\d+)?[+*])?[<^>]?[aehlmsv]?\|")
_ALT: Final = re.compile(r"\s*\"?([^,\"]*)")
_INLINE: Final = re.compile(
    r"`([^`]+)`|<<([^<>]+)>>|"
    r"\b(?:(link|xref|image|kbd|btn|menu|footnote):{1,2})?(https?://[^\s\[\]<>]+|(?<=:)[^\s\[\]:]*)\["
    r"([^\[\]]*)\]|(https?://[^\s\[\]<>]+)|\*{1,2}([^*\s][^*]*)\*{1,2}|(?<!\w)_([^_\s][^_]*)_(?!\w)"
    r"|\{([\w-]+)\}"
)
_VERBATIM: Final = frozenset({"----", "....", "```"})
_LEFT_OUT: Final = frozenset({"////", "++++"})
_EDGES: Final = frozenset({"====", "****", "____", "--", "!==="})
_MIN_EDGE: Final = 4  #: characters of most delimiters


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a text in AsciiDoc.

    Attributes, comments, anchors and conditions are no text. Nothing is included.

    Source: docs.asciidoctor.org, AsciiDoc Language Documentation.
    """
    charset, text = outline_source(body, content_type)
    reader = _AsciiDoc(text)
    reader.read()
    known = reader.attributes
    return reader.outline.document(
        url,
        charset,
        title=known.get("title", ""),
        description=known.get("description", ""),
        language=known.get("lang", ""),
    )


class _AsciiDoc:
    """Reader of the lines of one text."""

    def __init__(self, text: str) -> None:
        self.outline = Outline(self._pieces)
        self.attributes: dict[str, str] = {}
        self._name = ""  # the id that the text gives to the heading in the next line
        self._lines = Lines(text)

    def read(self) -> None:
        """Read all lines."""
        for line in self._lines:
            if not line or line == "+":
                self.outline.end_paragraph()
            elif not (self._is_delimited(line) or self._is_noise(line) or self._is_block(line)):
                self._add(line)

    def _is_delimited(self, line: str) -> bool:
        edge = line[:3] if line.startswith("```") else line[:_MIN_EDGE]
        if len(set(line)) > 1 and edge != "```" and line != "|===":
            return False
        if edge in _VERBATIM:
            code = self._lines.until(lambda other: other == (line if edge != "```" else edge))
            self.outline.code_lines(code)
        elif edge in _LEFT_OUT:
            self._lines.until(lambda other: other == line)
        elif edge == "|===":
            self._read_table()
        elif edge not in _EDGES:
            return False
        self.outline.end_paragraph()
        return True

    def _is_noise(self, line: str) -> bool:
        if attribute := _ATTRIBUTE.fullmatch(line):
            self.attributes.setdefault(attribute[1], attribute[2] or "")
        elif line[0] == "[" and line[-1] == "]" and not self.outline.is_open:
            anchor = _ANCHOR.fullmatch(line)
            if anchor and _HEADING.fullmatch(self._lines.ahead()):
                self._name = anchor[1] or anchor[2]
        elif not line.startswith("//"):
            return False
        return True

    def _is_block(self, line: str) -> bool:
        if self.outline.is_open:
            return False
        if heading := _HEADING.fullmatch(line):
            is_first = not len(self.outline)
            name, self._name = self._name, ""
            self.outline.head(heading[2].rstrip("=# "), len(heading[1]), name)
            if is_first and len(heading[1]) == 1:
                self._read_header()
        elif macro := _BLOCK_MACRO.fullmatch(line):
            if macro[1] in ("image", "video", "audio") and (alt := _ALT.match(macro[3])):
                self.outline.paragraph(alt[1])
        elif line[0] == "." and line[1:2] not in ("", ".", " "):
            self.outline.paragraph(line[1:])
        elif line[0] == " " and not _ITEM.match(line):
            self.outline.code_lines([line, *self._lines.while_(bool)])
        else:
            return False
        return True

    def _read_header(self) -> None:
        """Read the attributes below the title, and leave out authors and revision."""
        for line in self._lines.while_(bool):
            self._is_noise(line)

    def _add(self, line: str) -> None:
        if item := _ITEM.match(line):
            self.outline.end_paragraph()
            line = line[item.end() :]
        elif term := _TERM.fullmatch(line):
            self.outline.paragraph(term[1])
            line = term[2] or ""
        if line:
            self.outline.line(line.removesuffix(" +"))

    def _read_table(self) -> None:
        rows: list[list[str]] = []
        for line in self._lines.until(lambda other: other == "|==="):
            before, *cells = _CELL.split(line)
            if cells:
                rows.append(cells)
            elif before and rows:
                rows[-1].append(before)
        self.outline.table(rows)

    def _pieces(self, text: str) -> Iterator[Piece]:
        return marked_pieces(_INLINE, text, self._piece)

    def _piece(self, found: re.Match[str]) -> Piece:
        code, reference, macro, target, shown, bare, strong, stressed, name = found.groups("")
        if code:
            return Piece(code.strip("+"), is_code=True)
        if reference:
            return Piece(reference.rpartition(",")[2].strip())
        if bare:
            return Piece(bare, bare)
        if target or macro:
            alt = _ALT.match(shown)
            text = shown.rstrip("^") if macro != "image" or alt is None else alt[1]
            is_link = macro == "link" or target.startswith("http")
            return Piece(text or target, target if is_link else "")
        return Piece(strong or stressed or self.attributes.get(name, found[0]))

"""reStructuredText: headings, paragraphs, code and tables, without its directives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from smartcrawl.extract.formats.outline import Lines, Outline, Piece, indentation, outline_source
from smartcrawl.model.documents import Document

_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_MAX_COLUMNS: Final = 100  #: of a simple table; further ones are part of the last
_MIN_LINE: Final = 4  #: characters of a line under a title that is longer
_INLINE: Final = re.compile(r"``([^`]+)``|`([^`]+)`(_?)|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*")
_COLUMN: Final = re.compile("=+")
_TARGET: Final = re.compile(r"([^<]*)<([^<>]*)>")
_NAMED: Final = re.compile(r"^ *\.\. _`?([^:`\n]+)`?: +(\S+)$", re.MULTILINE)
_BULLET: Final = re.compile(r" *(?:[*+\-•]|#\.) +")
_NUMBER: Final = re.compile(r" *\(?(?:[0-9]+|[A-Za-z])[.)] +")
_DIRECTIVE: Final = re.compile(r"(?:\|[^|]*\| +)?([\w:+.-]+)::(?: +(.*))?")
_NOTE: Final = re.compile(r"\[([^\]]+)\] +(.*)")
_FIELD: Final = re.compile(r" *:([\w -]+): *(.*)")
#: Directives whose content is code.
_CODE: Final = frozenset({
    "code", "code-block", "doctest", "highlight-block", "ipython", "literal", "math",
    "parsed-literal", "productionlist", "prompt", "sourcecode", "testcode", "testoutput",
})  # fmt: skip
#: Directives of which nothing is text.
_NOISE: Final = frozenset({
    "bibliography", "contents", "currentmodule", "default-domain", "default-role", "doctest-skip",
    "graphviz", "highlight", "include", "index", "literalinclude", "meta", "module",
    "py:currentmodule", "raw", "restructuredtext-test-directive", "role", "sectionauthor",
    "moduleauthor", "sectnum", "tabularcolumns", "tags", "testcleanup", "testsetup", "title",
    "toctree", "unicode",
})  # fmt: skip
#: Directives whose argument is no text, but their content is.
_WITHOUT_ARGUMENT: Final = frozenset({
    "class", "container", "cssclass", "figure", "grid", "highlights", "image", "list-table", "only",
    "rst-class", "tab-set", "thumbnail",
})  # fmt: skip


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a text in reStructuredText.

    The level of a heading is the order in which its kind of line comes first. Comments, options and
    directives such as ``toctree`` are no text. Nothing is included.

    Source: docutils, reStructuredText Markup Specification.
    """
    charset, text = outline_source(body, content_type)
    reader = _Rst(text)
    reader.read()
    return reader.outline.document(url, charset)


class _Rst:
    """Reader of the lines of one text."""

    def __init__(self, text: str) -> None:
        self.outline = Outline(self._pieces)
        self._lines = Lines(text)
        self._targets = {name.lower(): href for name, href in _NAMED.findall(text)}
        self._styles: dict[str, int] = {}
        self._indent = 0  # of the open paragraph

    def read(self) -> None:
        """Read all lines."""
        for line in self._lines:
            if not line:
                self.outline.end_paragraph()
            elif not (self._is_heading(line) or self._is_block(line)):
                self._add(line)

    def _is_heading(self, line: str) -> bool:
        """Read a heading; a line of signs alone is none."""
        title, under = self._lines.ahead(), self._lines.ahead(1)
        if _is_line(line):
            if title and not _is_line(title) and under == line:
                self._head(title.strip(), line[0] * 2)
                self._lines.skip(2)
                return True
            if not self.outline.is_open and len(line) >= _MIN_LINE:
                return True  # a rule between paragraphs
        elif not self.outline.is_open and line[0] != " " and _is_under(title, line):
            self._head(line, title[0])
            self._lines.skip()
            return True
        return False

    def _head(self, title: str, style: str) -> None:
        self.outline.head(title, self._styles.setdefault(style, len(self._styles) + 1))

    def _is_block(self, line: str) -> bool:
        """Read a block that is no paragraph."""
        start = line.lstrip(" ")
        if start == ".." or start.startswith((".. ", "__ ")):
            self.outline.end_paragraph()
            self._read_explicit(start[2:].strip(), indentation(line))
        elif self.outline.is_open:
            return False
        elif start.startswith(">>> "):
            self.outline.code_lines([line, *self._lines.while_(bool)])
        elif start.startswith(("+-", "+=")):
            self._read_grid()
        elif start.startswith("| ") or start == "|":
            self.outline.paragraph(start[1:])
        elif _is_edge(line):
            self._read_simple(line)
        elif (field := _FIELD.match(line)) and not len(self.outline):
            self._lines.indented(indentation(line))  # data about the text
        elif field:
            self._add(f"{field[1]}: {field[2]}" if field[2] else f"{field[1]}:")
        else:
            return False
        return True

    def _add(self, line: str) -> None:
        """Add a line to its paragraph; one that is indented otherwise begins another."""
        bullet = _BULLET.match(line)
        item = bullet or _NUMBER.match(line)
        if self.outline.is_open and (item or indentation(line) != self._indent):
            self.outline.end_paragraph()
        if not self.outline.is_open:
            self._indent = indentation(line)
        if item:
            line = line[bullet.end() :] if bullet else line
            self._indent = item.end()
        if line.endswith("::") and not self._lines.ahead():
            outer = indentation(line) if not item else item.end() - 1
            if line.strip() != "::":
                self.outline.line(line[:-1])
            self.outline.code_lines(self._lines.indented(outer))
        else:
            self.outline.line(line)

    def _read_explicit(self, text: str, indent: int) -> None:
        """Read what follows two dots: a directive, a note, a target, or a comment."""
        directive = _DIRECTIVE.fullmatch(text)
        if note := _NOTE.fullmatch(text):
            self._indent = indentation(self._lines.ahead())
            self.outline.line(f"[{note[1]}] {note[2]}")
        elif directive is None:
            self._lines.indented(indent)
        else:
            self._read_directive(directive[1].lower(), directive[2] or "", indent)

    def _read_directive(self, name: str, argument: str, indent: int) -> None:
        if name in _NOISE or name.startswith(("auto", "include")):
            self._lines.indented(indent)
            return
        options = self._lines.while_(
            lambda line: indentation(line) > indent and line.lstrip(" ").startswith(":")
        )
        if name in _CODE:
            content = self._lines.indented(indent)
            self.outline.code_lines([argument, *content] if name == "math" else content)
            return
        if argument and name not in _WITHOUT_ARGUMENT:
            self.outline.paragraph(argument)
        for option in options:
            if option.lstrip(" ").startswith(":alt:"):
                self.outline.paragraph(option.partition(":alt:")[2])

    def _read_grid(self) -> None:
        """Read a table with lines around its cells."""
        rows: list[list[list[str]]] = []  # the lines of each cell
        head, is_new = 0, True
        for line in self._lines.while_(lambda line: line.lstrip(" ")[:1] in ("|", "+")):
            cells = line.strip().strip("|+")
            if line.lstrip(" ")[0] == "+":
                is_new = True
                head = len(rows) if set(cells) <= {"=", "+"} else head
                continue
            parts = cells.split("|")
            if is_new or len(parts) != len(rows[-1]):
                rows.append([[] for _ in parts])
            for cell, part in zip(rows[-1], parts, strict=True):
                cell.append(part.strip())
            is_new = False
        self.outline.table([[" ".join(cell) for cell in row] for row in rows], head)

    def _read_simple(self, edge: str) -> None:
        """Read a table whose columns are below an edge of equal signs."""
        starts = [found.start() for found in _COLUMN.finditer(edge)][:_MAX_COLUMNS]
        cuts = [*zip(starts, [*starts[1:], None], strict=True)]
        rows = self._simple_rows(cuts)
        head = len(rows) if self._lines.ahead() else 0
        rows += self._simple_rows(cuts) if head else []
        self.outline.table(rows, head)

    def _simple_rows(self, cuts: list[tuple[int, int | None]]) -> list[list[str]]:
        """Return the rows up to the next edge; one without a first cell continues its row."""
        rows: list[list[list[str]]] = []
        for line in filter(None, self._lines.until(_is_edge)):
            cells = [line[start:end].strip() for start, end in cuts]
            if cells[0] or not rows:
                rows.append([[] for _ in cells])
            for cell, part in zip(rows[-1], cells, strict=True):
                cell.append(part)
        return [[" ".join(cell) for cell in row] for row in rows]

    def _pieces(self, text: str) -> Iterator[Piece]:
        at = 0
        for found in _INLINE.finditer(text):
            before = text[at : found.start()]
            code, named, link, *strong = found.groups()
            if named is not None and before.endswith(":"):  # the role of what is named
                start = max(before.rfind(" "), before.rfind("(")) + 1
                before = before[:start] if before[start] == ":" else before
            yield Piece(before)
            if code is not None:
                yield Piece(code, is_code=True)
            elif named is not None:
                yield self._named(named, is_link=bool(link))
            else:
                yield Piece(strong[0] or strong[1])
            at = found.end() + (bool(link) and text[found.end() : found.end() + 1] == "_")
        yield Piece(text[at:])

    def _named(self, text: str, *, is_link: bool) -> Piece:
        """Return what stands between backquotes, without its target."""
        target = _TARGET.fullmatch(text)
        if target is not None:
            shown = target[1].strip() or target[2]
            return Piece(shown, target[2] if is_link else "")
        if is_link:
            return Piece(text, self._targets.get(text.lower(), ""))
        if text.startswith("~"):
            return Piece(text.rpartition(".")[2].lstrip("~"))
        return Piece(text.lstrip("!"))


def _is_under(under: str, title: str) -> bool:
    """Whether a line makes the one above it a heading."""
    return _is_line(under) and len(under) >= min(len(title), _MIN_LINE)


def _is_edge(line: str) -> bool:
    return set(line.strip()) == {"=", " "}


def _is_line(line: str) -> bool:
    """Whether a line is one sign, repeated."""
    return len(line) > 1 and line[0] in _PUNCTUATION and line == line[0] * len(line)

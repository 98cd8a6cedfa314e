"""Texts in light markup: lines that become headings, paragraphs, code and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import dedent
from typing import NamedTuple

from smartcrawl.extract.formats.common import (
    MAX_ANCHOR,
    MAX_REFERENCES,
    Tokens,
    check_document_text,
    clean_document_text,
    parsed_document,
)
from smartcrawl.extract.formats.heading_ids import HeadingIds
from smartcrawl.extract.links import Reference
from smartcrawl.extract.sniff import decode_charset
from smartcrawl.model.documents import Document


class Piece(NamedTuple):
    """A part of a paragraph."""

    text: str
    href: str = ""  #: of a link
    is_code: bool = False


#: The parts of a paragraph, which is one line.
Inline = Callable[[str], Iterable[Piece]]


def marked_pieces(
    markup: re.Pattern[str], text: str, piece: Callable[[re.Match[str]], Piece]
) -> Iterator[Piece]:
    """Yield the parts of a paragraph: plain text, and the piece of each place with markup."""
    at = 0
    for found in markup.finditer(text):
        yield Piece(text[at : found.start()])
        yield piece(found)
        at = found.end()
    yield Piece(text[at:])


class Lines:
    """The lines of a text, read from the first to the last."""

    def __init__(self, text: str) -> None:
        self._lines = [line.rstrip() for line in text.expandtabs(8).split("\n")]
        self._at = 0

    def __iter__(self) -> Iterator[str]:
        while self._at < len(self._lines):
            self._at += 1
            yield self._lines[self._at - 1]

    def ahead(self, count: int = 0) -> str:
        """Return a line that was not read yet; beyond the last one an empty line."""
        at = self._at + count
        return self._lines[at] if at < len(self._lines) else ""

    def skip(self, count: int = 1) -> None:
        """Leave out lines."""
        self._at += count

    def until(self, is_end: Callable[[str], bool]) -> list[str]:
        """Return the lines before the one that ends a block, which is read, too."""
        found: list[str] = []
        for line in self:
            if is_end(line):
                break
            found.append(line)
        return found

    def while_(self, belongs: Callable[[str], bool]) -> list[str]:
        """Return the following lines that belong together."""
        found: list[str] = []
        while self._at < len(self._lines) and belongs(self._lines[self._at]):
            found.append(self._lines[self._at])
            self._at += 1
        return found

    def indented(self, indent: int) -> list[str]:
        """Return the following lines that are empty or indented by more than ``indent``."""
        return self.while_(lambda line: not line or indentation(line) > indent)


def indentation(line: str) -> int:
    """Return the number of spaces before a line."""
    return len(line) - len(line.lstrip(" "))


class Outline(Tokens):
    """Tokens of a text whose lines are joined to paragraphs; with its title and links.

    ``ids``: headings have ids, since GitHub shows such texts as pages.
    """

    def __init__(self, inline: Inline, *, ids: bool = True) -> None:
        super().__init__()
        self._ids = HeadingIds() if ids else None
        self.references: list[Reference] = []
        self.title = ""
        self.inline = inline
        self._lines: list[str] = []

    @property
    def is_open(self) -> bool:
        """Whether a paragraph has begun."""
        return bool(self._lines)

    def line(self, line: str) -> None:
        """Add a line to the open paragraph."""
        self._lines.append(line.strip())

    def end_paragraph(self) -> None:
        """End the open paragraph."""
        if self._lines:
            text = " ".join(self._lines)
            self._lines.clear()
            self._inline(text)
            self.end_line()

    def paragraph(self, line: str) -> None:
        """Add a paragraph of one line."""
        self.end_paragraph()
        self.line(line)
        self.end_paragraph()

    def head(self, text: str, level: int, name: str = "") -> None:
        """Add a heading; ``name`` is the id that the text gives it."""
        self.end_paragraph()
        start = len(self)
        self._inline(text)
        self.heading(start, level)
        line = self.since(start)
        if self._ids is not None:
            self.place(start, name or self._ids.next_id(line))
        self.title = self.title or line
        self.end_line()

    def code_lines(self, lines: Sequence[str]) -> None:
        """Add code without its indentation and the empty lines around it."""
        self.end_paragraph()
        if text := dedent("\n".join(lines)).strip("\n"):
            self.code(text)

    def table(self, rows: Iterable[Sequence[str]], head: int = 0) -> None:
        """Add a table, of which the first ``head`` rows name the columns."""
        self.end_paragraph()
        self.start_table()
        for number, row in enumerate(rows):
            if number < head:
                self.name_columns()
            for cell in row:
                self._inline(cell.strip())
                self.end_cell()
            self.end_row()
        self.end_table()

    def _inline(self, text: str) -> None:
        for piece in self.inline(text):
            start = len(self)
            self.text(piece.text)
            if piece.is_code:
                self.literal(start)
            if piece.href:
                self.link(start, piece.href)
                if len(self.references) < MAX_REFERENCES:
                    anchor = self.since(start)[:MAX_ANCHOR]
                    self.references.append(
                        Reference(piece.href, "hyperlink", nofollow=False, anchor=anchor)
                    )

    def document(
        self, url: str, charset: str, *, title: str = "", description: str = "", language: str = ""
    ) -> Document:
        """Return the document; its title is the given one, else its first heading."""
        self.end_paragraph()
        return parsed_document(
            url=url,
            text=self.sections(),
            title=title or self.title,
            description=description,
            declared=language,
            charset=charset,
            references=self.references,
        )


def outline_source(body: bytes, content_type: str) -> tuple[str, str]:
    """Return the charset and the text of a body, without control characters.

    Raises:
        FormatError: TOO_LARGE beyond ``MAX_TEXT`` characters.
    """
    charset, text = decode_charset(body, content_type, markup=False)
    check_document_text(len(text))
    return charset, clean_document_text(text)

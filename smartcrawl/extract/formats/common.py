"""Common parts of all readers: their error, their limits, and the parts of a document."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final

import can_ada

from smartcrawl.extract.language import SAMPLE, detected_language, iso_639_1_language
from smartcrawl.extract.links import Reference, document_base_url, resolve_html_links
from smartcrawl.extract.sections import (
    BREAK,
    CELL,
    ROW,
    Heading,
    TokenBlock,
    keep_text_layout,
    markup_line,
    text_sections,
)
from smartcrawl.extract.spans import MAX_ID, MAX_SPANS, TokenSpan, counted_spans, span_target
from smartcrawl.model.documents import (
    CODE,
    INLINE_CODE,
    LINK,
    PLACE,
    TABLE,
    Block,
    Document,
    Section,
)
from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.placed_spans import placed_spans

MAX_TEXT: Final = 20_000_000  #: characters of one document
MAX_TITLE: Final = 200  #: characters
MAX_ANCHOR: Final = 200  #: characters
MAX_DESCRIPTION: Final = 1_000  #: characters
MAX_HEADINGS: Final = 50_000  #: further ones are text
MAX_REFERENCES: Final = 100_000  #: links as written; further ones are not read

#: Titles that programs write for a document without one.
_NO_TITLE: Final = re.compile(
    r"(?:untitled|unbenannt|title|powerpoint presentation|microsoft (?:word|excel|powerpoint) - .*"
    r"|(?:document|presentation|book|slide) ?\d*)?",
    re.IGNORECASE,
)
_NO_TEXT: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f]")  #: form feed ends a line
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class FormatFault(StrEnum):
    """Reasons why a document could not be read."""

    CORRUPT = auto()  #: it is broken, or not of its type
    ENCRYPTED = auto()  #: it wants a password or is under rights management
    TOO_LARGE = auto()  #: it exceeds one of our limits, as a bomb does
    CRASHED = auto()  #: its reader failed, or the process that ran it
    TIME_OUT = auto()  #: it took more CPU or wall time than one document may
    MEMORY = auto()  #: it took more memory than one document may
    BUDGET = auto()  #: the documents of its host took all the time that they have in a run


class FormatError(SmartcrawlError):
    """A document that cannot be read; nothing of it counts. The message is for the operator.

    ``lasting``: its bytes are the reason, so that another try ends in the same way.
    """

    def __init__(self, kind: FormatFault, message: str, *, lasting: bool = True) -> None:
        super().__init__(message)
        self.kind = kind
        self.lasting = lasting


def corrupt_document(what: str) -> FormatError:
    """Return the error for a document that is broken."""
    return FormatError(FormatFault.CORRUPT, what)


def document_too_large(what: str) -> FormatError:
    """Return the error for a document beyond a limit."""
    return FormatError(FormatFault.TOO_LARGE, what)


def document_over_budget() -> FormatError:
    """Return the error for a document whose host has used up its time in this run."""
    what = "the documents of its host took all the time that they have in a run"
    return FormatError(FormatFault.BUDGET, what, lasting=False)


def check_document_text(size: int) -> None:
    """Raise FormatError when a document has more than ``MAX_TEXT`` characters."""
    if size > MAX_TEXT:
        raise document_too_large(f"the document has more than {MAX_TEXT:,} characters of text")


@dataclass(slots=True)
class _OpenTable:
    """A table that has not ended."""

    start: int  #: its first token
    head: int = 0  #: the token after the rows that name the columns; 0: none do so far
    names: bool = False  #: whether the row that ends next names the columns
    has_body: bool = False  #: whether a row has ended that does not


class Tokens:
    """Texts and marks of a document in reading order, with its headings (``text_sections``)."""

    def __init__(self) -> None:
        self._tokens: list[str] = []
        self._headings: list[Heading] = []
        self._tables: list[TokenBlock] = []  # and code
        self._open_tables: list[_OpenTable] = []
        self._spans: list[TokenSpan] = []
        self._size = 0

    def __len__(self) -> int:
        return len(self._tokens)

    def text(self, text: str) -> None:
        """Add a text without marks in it."""
        self._size += len(text)
        check_document_text(self._size)
        self._tokens.append(text)

    def end_line(self) -> None:
        """End a line; a second end adds nothing."""
        if not self._tokens or self._tokens[-1] != BREAK:
            self._mark(BREAK)

    def end_cell(self) -> None:
        """End a cell of a table."""
        self._mark(CELL)

    def end_row(self) -> None:
        """End a row of a table."""
        self._mark(ROW)
        if self._open_tables:
            table = self._open_tables[-1]
            table.has_body = table.has_body or not table.names
            if not table.has_body:
                table.head = len(self._tokens)
            table.names = False

    def _mark(self, mark: str) -> None:
        self._size += 1
        check_document_text(self._size)
        self._tokens.append(mark)

    def heading(self, start: int, level: int) -> None:
        """Make the tokens since ``start`` a heading; ``level`` counts from 1."""
        if len(self._headings) < MAX_HEADINGS:
            self._headings.append(Heading(start, len(self._tokens), max(1, min(level, 6))))

    def place(self, start: int, name: str) -> None:
        """Note the id of the text that begins at a token; an empty or too long one is none."""
        if 0 < len(name) <= MAX_ID and len(self._spans) < MAX_SPANS:
            self._spans.append((start, -start, PLACE, name, "", ""))

    def link(self, start: int, href: str) -> None:
        """Make the tokens since ``start`` a link."""
        target = span_target(clean_document_text(href))
        if target and start < len(self._tokens) and len(self._spans) < MAX_SPANS:
            self._spans.append((start, -len(self._tokens), LINK, target, "", ""))

    def literal(self, start: int) -> None:
        """Make the tokens since ``start`` inline code."""
        if start < len(self._tokens) and len(self._spans) < MAX_SPANS:
            self._spans.append((start, -len(self._tokens), INLINE_CODE, "", "", ""))

    def code(self, text: str) -> None:
        """Add a block of code, in its layout."""
        self.end_line()
        start = len(self._tokens)
        self.text("".join(keep_text_layout((text,))))
        self._tables.append(TokenBlock(CODE, start, len(self._tokens)))
        self.end_line()

    def start_table(self) -> None:
        """Begin a table. The cells before a table in another one are a row of their own."""
        self.end_line()
        if self._open_tables:
            self._mark(ROW)
        self._open_tables.append(_OpenTable(len(self._tokens)))

    def name_columns(self) -> None:
        """Note that the row of the open table that ends next names the columns.

        Only rows above all others do.
        """
        if self._open_tables:
            self._open_tables[-1].names = True

    def end_table(self) -> None:
        """End a table; one with a heading or another table in it only lays out a page."""
        if not self._open_tables:
            return
        table = self._open_tables.pop()
        is_inner = [part.start >= table.start for part in self._tables[-1:]]
        is_inner += [part.start >= table.start for part in self._headings[-1:]]
        if not any(is_inner):
            self._tables.append(TokenBlock(TABLE, table.start, len(self._tokens), table.head))

    def since(self, start: int) -> str:
        """Return the tokens since ``start`` as one line."""
        return markup_line("".join(self._tokens[start:]))

    def sections(self) -> tuple[Section, ...]:
        """Return the sections; a heading within another is part of it."""
        kept: list[Heading] = []
        for heading in sorted(self._headings, key=lambda found: (found.start, -found.end)):
            if not kept or heading.start >= kept[-1].end:
                kept.append(heading)
        found = text_sections(self._tokens, kept, (), self._tables)
        counted = counted_spans(self._tokens, kept, (), self._spans)
        return placed_spans(found, counted) if counted else found


def clean_document_text(text: str) -> str:
    r"""Return ``text`` without control characters and lone surrogates; CR ends a line.

    >>> clean_document_text("a\0b\r\nc\ud800\x0cd")
    'ab\nc\ufffd\nd'
    """
    if "\r" in text or "\f" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    if _NO_TEXT.search(text):
        text = _NO_TEXT.sub("", text)
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def given_document_title(text: str) -> str:
    """Return the title in a document's properties, or an empty string if a program made it up.

    >>> (
    ...     given_document_title(" Annual\\n report "),
    ...     given_document_title("Microsoft Word - draft.doc"),
    ... )
    ('Annual report', '')
    """
    title = markup_line(clean_document_text(text))
    return "" if _NO_TITLE.fullmatch(title) else title[:MAX_TITLE].rstrip()


def parsed_document(
    *,
    url: str,
    text: Iterable[Section],
    title: str = "",
    description: str = "",
    declared: str = "",
    charset: str = "",
    references: Iterable[Reference] = (),
    base: can_ada.URL | None = None,
) -> Document:
    """Return a document of these parts, with its language and absolute links.

    Without ``title``, the first heading or line is one. ``declared`` is the language that the
    document declares; ``base`` is the base URL of its links, if not ``url``.
    """
    kept = tuple(_clean_section(section) for section in text)
    check_document_text(sum(len(section.heading) + len(section.text) for section in kept))
    page = document_base_url(url)
    found = resolve_html_links(references, base=base or page, page=page)
    first = next((s.heading or s.text for s in kept if s.heading or s.text), "")
    return Document(
        title=given_document_title(title)
        or markup_line(first[: 4 * MAX_TITLE].partition("\n")[0])[:MAX_TITLE].rstrip(),
        description=markup_line(clean_document_text(description))[:MAX_DESCRIPTION],
        language=detected_language(_sample(kept), declared),
        declared=iso_639_1_language(declared),
        sections=kept,
        links=found.links,
        links_cut=found.more,
        overlong=found.overlong,
        charset=charset,
    )


def _clean_section(section: Section) -> Section:
    """Return a section whose texts are clean; blocks and spans stay if no character was removed."""
    clean, heading = clean_document_text(section.text), clean_document_text(section.heading)
    is_same, head = len(clean) == len(section.text), section.head
    return Section(
        section.level,
        heading,
        clean,
        section.blocks if is_same else (),
        section.spans if is_same else (),
        head if len(heading) == len(section.heading) else (),
    )


def document_table_section(level: int, heading: str, text: str, *, head: bool = False) -> Section:
    """Return a section that is one table: a row in each line, cells separated by tabs."""
    return Section(level, heading, text, (Block(TABLE, 0, len(text), int(head)),) if text else ())


def _sample(text: tuple[Section, ...]) -> str:
    """Return enough of the text to detect its language."""
    parts: list[str] = []
    size = 0
    for section in text:
        parts += (section.heading, section.text[:SAMPLE])
        size += len(section.heading) + len(section.text)
        if size >= SAMPLE:
            break
    return "\n".join(parts)

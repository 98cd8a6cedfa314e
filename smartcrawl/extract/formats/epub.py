"""EPUB: its chapters in reading order, each read like a page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

import can_ada

from smartcrawl.extract.formats.common import (
    MAX_REFERENCES,
    FormatError,
    FormatFault,
    check_document_text,
    corrupt_document,
    parsed_document,
)
from smartcrawl.extract.formats.zipped import (
    Attributes,
    ZipArchive,
    document_part_name,
    markup_attribute,
    markup_portions,
    walk_markup,
)
from smartcrawl.extract.html import HTML_TYPES, parse_html
from smartcrawl.extract.links import Reference, absolute_target
from smartcrawl.extract.sections import markup_line
from smartcrawl.model.documents import INLINE_CODE, LINK, Document, Section, Span
from smartcrawl.model.placed_spans import with_placed_spans

_CONTAINER: Final = "META-INF/container.xml"
_ENCRYPTION: Final = "META-INF/encryption.xml"
_INSIDE: Final = "http://epub.invalid/"  #: base URL of chapters; links below it are internal
_BASE: Final = can_ada.parse(_INSIDE + "book")
_TAG: Final = re.compile(r"<[^<>]{0,1000}>")
_PROPERTIES: Final = frozenset({"title", "language", "description"})
_MAX_PROPERTY: Final = 2_000  #: characters
_SVG: Final = b"http://www.w3.org/2000/svg"
_CHAPTERS: Final = HTML_TYPES | {"image/svg+xml"}
#: Elements of SVG whose text is read; the last one has markup of XHTML in it.
_DRAWN: Final = frozenset({"text", "title", "desc", "foreignObject"})
#: Attributes with which a part of a text begins at another place.
_MOVES: Final = frozenset({"x", "y", "dx", "dy"})


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a book: title and language of its package, chapters by its spine.

    Of a chapter that is drawn, as SVG or with nothing else in it, the text in the drawing is read.
    Pictures and links within the book are left out.

    Raises:
        FormatError: ENCRYPTED also if a chapter is under rights management.

    Source: EPUB 3.3, sections 4 and 5.
    """
    archive = ZipArchive(body)
    container = _Container()
    walk_markup(container, archive.portions(_CONTAINER), part=_CONTAINER, doctype=True)
    if container.root not in archive:
        raise corrupt_document("the book has no package document")
    book = _Package(container.root)
    walk_markup(book, archive.portions(container.root), part=container.root, doctype=True)
    _check_rights(archive, frozenset(book.chapters))
    text: list[Section] = []
    references: list[Reference] = []
    size = 0
    for part in book.chapters:
        markup = archive.read(part)
        chapter = parse_html(
            markup, content_type="application/xhtml+xml", url=str(_BASE), keep=("body",)
        )
        if not chapter.text and _SVG in markup:
            chapter = replace(chapter, sections=_drawn(markup, part))
        text += map(_outside, with_placed_spans(chapter).sections)
        size += len(chapter.text)
        check_document_text(size)
        if len(references) < MAX_REFERENCES:
            references += [
                Reference(link.url, link.type, nofollow=link.nofollow, anchor=link.anchor)
                for link in chapter.links
                if not link.url.startswith(_INSIDE)
            ]
    return parsed_document(
        url=url,
        text=text,
        title=book.properties.get("title", ""),
        description=_TAG.sub(" ", book.properties.get("description", "")),
        declared=book.properties.get("language", ""),
        references=references,
    )


def _drawn(markup: bytes, part: str) -> tuple[Section, ...]:
    """Return the text of the drawings in a chapter; none where it is not well-formed."""
    seen = _Drawing()
    with suppress(FormatError):
        walk_markup(seen, markup_portions(markup), part=part, doctype=True)
    lines = filter(None, map(markup_line, seen.lines))
    return (Section(0, "", "\n".join(lines)),)


def _outside(section: Section) -> Section:
    """Return a section of a chapter with its links to the web; pictures are within the book."""
    return section._replace(spans=_web(section.spans), head=_web(section.head))


def _web(spans: Iterable[Span]) -> tuple[Span, ...]:
    kept = (span._replace(target=absolute_target(_BASE, span.target)) for span in spans)
    return tuple(
        span
        for span in kept
        if span.kind == INLINE_CODE
        or (span.kind == LINK and span.target and not span.target.startswith(_INSIDE))
    )


def _check_rights(archive: ZipArchive, chapters: frozenset[str]) -> None:
    if _ENCRYPTION not in archive:
        return
    seen = _Encryption()
    walk_markup(seen, archive.portions(_ENCRYPTION), part=_ENCRYPTION)
    if not chapters.isdisjoint(seen.found):
        what = "the book is encrypted: it is under digital rights management"
        raise FormatError(FormatFault.ENCRYPTED, what)


class _Container:
    """The path of the package document."""

    def __init__(self) -> None:
        self.root = ""

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "rootfile" and not self.root:
            self.root = document_part_name("", markup_attribute(attributes, "full-path"))

    def end(self, name: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


class _Encryption:
    """The parts that are encrypted; encrypted fonts do no harm."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "CipherReference":
            self.found.add(document_part_name("", markup_attribute(attributes, "URI")))

    def end(self, name: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


class _Drawing:
    """The lines of text in SVG: each text, title and description."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._drawings = 0
        self._open = 0  # elements since one of text began

    def start(self, name: str, attributes: Attributes) -> None:
        if self._open:
            self._open += 1
            if name == "tspan" and _MOVES.intersection(attributes):
                self.text(" ")
        elif name == "svg":
            self._drawings += 1
        elif self._drawings and name in _DRAWN:
            self._open = 1
            self.lines.append("")

    def end(self, name: str) -> None:
        if self._open:
            self._open -= 1
        elif name == "svg":
            self._drawings -= 1

    def text(self, text: str) -> None:
        if self._open:
            self.lines[-1] += text


class _Item(NamedTuple):
    part: str
    mime: str


class _Package:
    """The package document: properties, parts and reading order of the book."""

    def __init__(self, part: str) -> None:
        self.properties: dict[str, str] = {}
        self._part = part
        self._items: dict[str, _Item] = {}
        self._spine: dict[str, None] = {}
        self._open = ""

    @property
    def chapters(self) -> list[str]:
        """The parts that are read, in reading order, each once."""
        items = (self._items.get(key) for key in self._spine)
        return list(dict.fromkeys(item.part for item in items if item and item.mime in _CHAPTERS))

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "item":
            part = document_part_name(self._part, markup_attribute(attributes, "href"))
            mime = markup_attribute(attributes, "media-type").lower()
            self._items[markup_attribute(attributes, "id")] = _Item(part, mime)
        elif name == "itemref":
            self._spine[markup_attribute(attributes, "idref")] = None
        self._open = name if name in _PROPERTIES and name not in self.properties else ""

    def end(self, name: str) -> None:
        self._open = ""

    def text(self, text: str) -> None:
        if self._open:
            before = self.properties.get(self._open, "")
            self.properties[self._open] = (before + text)[:_MAX_PROPERTY]

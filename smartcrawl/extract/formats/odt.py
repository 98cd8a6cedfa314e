"""ODT: paragraphs, tables and notes in document order, headings by outline level."""

from __future__ import annotations

from typing import Final

import can_ada

from smartcrawl.extract.formats import zipped
from smartcrawl.extract.formats.common import (
    MAX_ANCHOR,
    MAX_REFERENCES,
    FormatError,
    FormatFault,
    Tokens,
    given_document_title,
    parsed_document,
)
from smartcrawl.extract.formats.zipped import Attributes, ZipArchive, markup_attribute, walk_markup
from smartcrawl.extract.links import Reference, absolute_target, document_base_url
from smartcrawl.model.documents import Document

_MANIFEST: Final = "META-INF/manifest.xml"
_PACKED: Final = "encrypted-package"  #: the only member of a document encrypted as a whole
#: Elements that are not visible, or no text of the document.
_UNSEEN: Final = frozenset({"tracked-changes", "annotation", "note-citation", "ruby-text", "forms"})
#: Shapes: their direct texts are descriptions, texts in their paragraphs are visible.
_SHAPES: Final = frozenset({
    "caption", "circle", "connector", "control", "custom-shape", "ellipse", "frame", "g", "line",
    "measure", "path", "polygon", "polyline", "rect",
})  # fmt: skip


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of an OpenDocument text, footnotes at their references.

    Deleted text, comments, page headers and footers are left out.

    Source: OpenDocument 1.3, part 3.
    """
    archive = ZipArchive(body)
    manifest = archive.read(_MANIFEST) if _MANIFEST in archive else b""
    if b"encryption-data" in manifest or _PACKED in archive:
        what = "the document is encrypted: it wants a password"
        raise FormatError(FormatFault.ENCRYPTED, what)
    inside = _inside(url)
    story = _OdtText(inside)
    walk_markup(story, archive.portions("content.xml"), part="content.xml")
    properties = zipped.opc_properties(archive, "meta.xml")
    return parsed_document(
        url=url,
        text=story.tokens.sections(),
        title=given_document_title(properties.get("title", "")) or story.title,
        declared=properties.get("language", ""),
        references=[found for found in story.references if _leads_out(inside, found.href)],
        base=inside,
    )


def _inside(url: str) -> can_ada.URL:
    """Return the base URL of links: the package as a folder (part 2, 3.7)."""
    base = document_base_url(url)
    base.search = ""
    base.pathname = base.pathname.rstrip("/") + "/"
    return base


def _leads_out(inside: can_ada.URL, href: str) -> bool:
    try:
        return not str(inside + href).startswith(str(inside))
    except (ValueError, TypeError):
        return False


class _OdtText:
    """The text of ``content.xml``, automatic styles included."""

    def __init__(self, inside: can_ada.URL) -> None:
        self.title = ""
        self._inside = inside
        self.tokens = Tokens()
        self.references: list[Reference] = []
        self._parents: dict[str, str] = {}
        self._open = [0]  # open paragraphs, for each open shape
        self._begun: list[tuple[int, int]] = []  # first token and heading level of each
        self._anchors: list[tuple[str, int]] = []
        self._heads = [False]  # whether its head rows are read, for each open table
        self._unseen = 0

    def start(self, name: str, attributes: Attributes) -> None:
        if self._unseen or name in _UNSEEN:
            self._unseen += 1
        elif name in ("p", "h"):
            self._start_paragraph(name, attributes)
        elif name in _SHAPES:
            self._open.append(0)
        elif name in ("s", "tab"):
            self.text(" ")
        elif name == "line-break":
            self.tokens.end_line()
        elif name in ("table", "table-header-rows", "table-row"):
            self._start_of_table(name)
        elif name == "a":
            self._anchors.append((markup_attribute(attributes, "href"), len(self.tokens)))
        elif name == "style":
            style = markup_attribute(attributes, "name")
            self._parents[style] = markup_attribute(attributes, "parent-style-name")

    def _start_of_table(self, name: str) -> None:
        if name == "table":
            self.tokens.start_table()
            self._heads.append(False)
        elif name == "table-header-rows":
            self._heads[-1] = True
        elif self._heads[-1]:
            self.tokens.name_columns()

    def _start_paragraph(self, name: str, attributes: Attributes) -> None:
        self.tokens.end_line()
        level = 0
        if name == "h":
            outline = markup_attribute(attributes, "outline-level")
            level = int(outline[:4]) if outline.isdecimal() else 1
        else:
            style = markup_attribute(attributes, "style-name")
            level = int("Title" in (style, self._parents.get(style)))
        self._open[-1] += 1
        self._begun.append((len(self.tokens), level))

    def end(self, name: str) -> None:
        if self._unseen:
            self._unseen -= 1
        elif name in ("p", "h"):
            self._open[-1] -= 1
            start, level = self._begun.pop()
            if level:
                self.tokens.heading(start, level)
                self.title = self.title or (self.tokens.since(start) if level == 1 else "")
            self.tokens.end_line()
        elif name in _SHAPES:
            self._open.pop()
        elif name == "table-cell":
            self.tokens.end_cell()
        elif name == "table-row":
            self.tokens.end_row()
        elif name == "table-header-rows":
            self._heads[-1] = False
        elif name == "table":
            self.tokens.end_table()
            self._heads.pop()
        elif name == "a":
            href, start = self._anchors.pop()
            if _leads_out(self._inside, href):
                self.tokens.link(start, absolute_target(self._inside, href))
            if len(self.references) < MAX_REFERENCES:
                anchor = self.tokens.since(start)[:MAX_ANCHOR]
                self.references.append(Reference(href, "hyperlink", nofollow=False, anchor=anchor))

    def text(self, text: str) -> None:
        if self._open[-1] and not self._unseen:
            self.tokens.text(text)

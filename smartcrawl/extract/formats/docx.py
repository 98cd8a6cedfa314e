"""DOCX: paragraphs, tables and notes in document order, headings by style."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from smartcrawl.extract.formats import zipped
from smartcrawl.extract.formats.common import (
    MAX_ANCHOR,
    MAX_REFERENCES,
    Tokens,
    given_document_title,
    parsed_document,
)
from smartcrawl.extract.formats.drawings import RELATION_IDS, alternative_text, diagram_lines
from smartcrawl.extract.formats.zipped import Attributes, ZipArchive, markup_attribute, walk_markup
from smartcrawl.extract.links import Reference
from smartcrawl.model.documents import Document

#: Elements that are not visible: deleted or moved text, former styles, copies of a drawing.
_UNSEEN: Final = frozenset({
    "del", "moveFrom", "pPrChange", "rPrChange", "trPrChange", "sectPr", zipped.FALLBACK,
})  # fmt: skip
_SIGNS: Final = {"tab": " ", "ptab": " ", "noBreakHyphen": "-", "softHyphen": ""}
_HEADING: Final = re.compile(r"heading ?([1-9])", re.IGNORECASE)
_FIELD_LINK: Final = re.compile(r'\s*HYPERLINK\s+"([^"]*)"')
_MAX_FIELD: Final = 10_000  #: characters of a field's instruction
_BODY_TEXT: Final = 9  #: outline level of text that is no heading


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a Word file, footnotes and endnotes after its text.

    Headings are paragraphs of an outline level, by their style or their own, and of the style
    "Title". Alternative texts of pictures and the text of diagrams follow their paragraph. Deleted
    and hidden text, comments, page headers and footers are left out.

    Source: ECMA-376, part 1, section 17.
    """
    archive = ZipArchive(body)
    main = zipped.opc_main_part(archive, "word/document.xml")
    relations = zipped.opc_relations(archive, main)
    parts = {found.kind: found.target for found in relations.values() if not found.external}
    tokens, references = Tokens(), list[Reference]()
    levels = _levels(archive, parts.get("styles", ""))
    story = _DocxText(archive, tokens, references, levels, relations)
    walk_markup(story, archive.portions(main), part=main)
    for kind in ("footnotes", "endnotes"):
        if (notes := parts.get(kind, "")) in archive:
            tokens.end_line()
            linked = zipped.opc_relations(archive, notes)
            below = _DocxText(archive, tokens, references, {}, linked)
            walk_markup(below, archive.portions(notes), part=notes)
    properties = zipped.opc_properties(archive)
    return parsed_document(
        url=url,
        text=tokens.sections(),
        title=given_document_title(properties.get("title", "")) or story.title,
        declared=properties.get("language", "") or story.language,
        references=references,
    )


class _Style(NamedTuple):
    name: str = ""
    based_on: str = ""
    level: int | None = None


class _Styles:
    """The styles of a document, by id."""

    def __init__(self) -> None:
        self.found: dict[str, _Style] = {}
        self._id: str | None = None

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "style":
            self._id = markup_attribute(attributes, "styleId")
            self.found[self._id] = _Style()
        elif self._id is not None:
            style, value = self.found[self._id], markup_attribute(attributes, "val")
            if name == "name":
                self.found[self._id] = style._replace(name=value)
            elif name == "basedOn":
                self.found[self._id] = style._replace(based_on=value)
            elif name == "outlineLvl" and value.isdecimal():
                self.found[self._id] = style._replace(level=int(value[:4]))

    def end(self, name: str) -> None:
        if name == "style":
            self._id = None

    def text(self, text: str) -> None:
        pass


def _levels(archive: ZipArchive, part: str) -> dict[str, int]:
    """Return the heading level of each style that has one, by its id."""
    styles = _Styles()
    if part in archive:
        walk_markup(styles, archive.portions(part), part=part)
    return {key: level for key in styles.found if (level := _level(styles.found, key))}


def _level(styles: dict[str, _Style], key: str) -> int:
    for _ in range(len(styles)):  # a style may be based on itself
        style = styles.get(key)
        if style is None:
            return 0
        if style.level is not None:
            return style.level + 1 if style.level < _BODY_TEXT else 0
        if style.name.lower() == "title":
            return 1
        if heading := _HEADING.fullmatch(style.name):
            return int(heading[1])
        key = style.based_on
    return 0


class _Paragraph:
    """An open paragraph: its first token, its style, its heading level, if any, its drawings."""

    __slots__ = ("drawn", "level", "start", "style")

    def __init__(self, start: int) -> None:
        self.start = start
        self.style = ""
        self.level: int | None = None
        self.drawn: list[str] = []  # lines that its pictures and diagrams have


class _DocxText:
    """The text of one part: runs within paragraphs within cells within text boxes."""

    def __init__(
        self,
        archive: ZipArchive,
        tokens: Tokens,
        references: list[Reference],
        levels: dict[str, int],
        relations: dict[str, zipped.Relation],
    ) -> None:
        self.title = ""
        self.language = ""
        self._archive = archive
        self._tokens = tokens
        self._references = references
        self._levels = levels
        self._relations = relations
        self._paragraphs: list[_Paragraph] = []
        self._anchors: list[tuple[str, int]] = []
        self._unseen = 0  # open elements that are not visible
        self._properties = 0
        self._hidden = False
        self._reads = False
        self._field: str | None = None

    def start(self, name: str, attributes: Attributes) -> None:
        if self._unseen or name in _UNSEEN:
            self._unseen += 1
        elif name == "t":
            self._reads = not self._hidden
        elif name == "r":
            self._hidden = False
        elif name == "p":
            self._tokens.end_line()
            self._paragraphs.append(_Paragraph(len(self._tokens)))
        elif name == "pPr":
            self._properties += 1
        elif name in ("pStyle", "outlineLvl", "vanish", "lang"):
            self._property(name, attributes)
        elif name in ("br", "cr", "tbl", "tblHeader"):
            self._break(name, attributes)
        elif name in _SIGNS and not self._properties:
            self._tokens.text(_SIGNS[name])
        elif name == "hyperlink":
            self._anchors.append((self._outside(attributes), len(self._tokens)))
        elif name == "hlinkClick":  # of a picture
            self._refer(self._outside(attributes), "")
        elif name in ("fldSimple", "instrText", "fldChar"):
            self._instruction(name, attributes)
        elif name in ("docPr", RELATION_IDS):
            self._draw(name, attributes)

    def _draw(self, name: str, attributes: Attributes) -> None:
        """Note the lines of a picture or diagram, which follow its paragraph."""
        if not self._paragraphs or self._hidden:
            return
        if name == RELATION_IDS:
            lines = diagram_lines(self._archive, attributes, self._relations)
        else:
            lines = [alternative_text(attributes)]
        self._paragraphs[-1].drawn += filter(None, lines)

    def _break(self, name: str, attributes: Attributes) -> None:
        if name == "tbl":
            self._tokens.start_table()
        elif name == "tblHeader":  # of a row, before its cells
            if zipped.is_ooxml_switch_on(attributes):
                self._tokens.name_columns()
        else:
            self._tokens.end_line()

    def _property(self, name: str, attributes: Attributes) -> None:
        value = markup_attribute(attributes, "val")
        if name == "vanish":
            self._hidden = zipped.is_ooxml_switch_on(attributes)
        elif name == "lang":
            self.language = self.language or value
        elif self._paragraphs and name == "pStyle":
            self._paragraphs[-1].style = value
        elif self._paragraphs and value.isdecimal():
            level = int(value[:4])
            self._paragraphs[-1].level = level + 1 if level < _BODY_TEXT else 0

    def _instruction(self, name: str, attributes: Attributes) -> None:
        """Read the instruction of a field, which may be a link."""
        if name == "instrText":
            self._field = self._field or ""
        elif name == "fldSimple":
            self._link(markup_attribute(attributes, "instr"))
        elif self._field is not None:
            self._link(self._field)
            self._field = None

    def _link(self, instruction: str) -> None:
        if found := _FIELD_LINK.match(instruction[:_MAX_FIELD]):
            self._refer(found[1], "")

    def _outside(self, attributes: Attributes) -> str:
        """Return the address that an element leads to; empty for one within the package."""
        relation = self._relations.get(markup_attribute(attributes, "id"))
        return relation.target if relation is not None and relation.external else ""

    def _refer(self, href: str, anchor: str) -> None:
        if href and len(self._references) < MAX_REFERENCES:
            self._references.append(Reference(href, "hyperlink", nofollow=False, anchor=anchor))

    def end(self, name: str) -> None:
        if self._unseen:
            self._unseen -= 1
        elif name == "t":
            self._reads = False
        elif name == "p" and self._paragraphs:
            self._end_paragraph(self._paragraphs.pop())
        elif name == "pPr":
            self._properties -= 1
        elif name == "tc":
            self._tokens.end_cell()
        elif name == "tr":
            self._tokens.end_row()
        elif name == "tbl":
            self._tokens.end_table()
        elif name == "hyperlink" and self._anchors:
            href, start = self._anchors.pop()
            if href:
                self._tokens.link(start, href)
                self._refer(href, self._tokens.since(start)[:MAX_ANCHOR])

    def _end_paragraph(self, paragraph: _Paragraph) -> None:
        level = self._levels.get(paragraph.style, 0) if paragraph.level is None else paragraph.level
        if level:
            self._tokens.heading(paragraph.start, level)
            if level == 1 and not self.title:
                self.title = self._tokens.since(paragraph.start)
        self._tokens.end_line()
        for line in paragraph.drawn:
            self._tokens.text(line)
            self._tokens.end_line()

    def text(self, text: str) -> None:
        if self._reads:
            self._tokens.text(text)
        elif self._field is not None and not self._unseen and len(self._field) < _MAX_FIELD:
            self._field += text

"""PPTX: a section for each slide, with its notes."""

from __future__ import annotations

from typing import Final

from smartcrawl.extract.formats import zipped
from smartcrawl.extract.formats.common import (
    MAX_ANCHOR,
    MAX_REFERENCES,
    Tokens,
    check_document_text,
    parsed_document,
)
from smartcrawl.extract.formats.drawings import RELATION_IDS, alternative_text, diagram_lines
from smartcrawl.extract.formats.zipped import Attributes, ZipArchive, markup_attribute, walk_markup
from smartcrawl.extract.links import Reference
from smartcrawl.model.documents import Block, Document, Section, Span, moved_block, moved_span

_TITLES: Final = frozenset({"title", "ctrTitle"})
_FURNITURE: Final = frozenset({"sldNum", "dt", "ftr", "hdr", "sldImg"})  #: placeholders
_SHAPES: Final = frozenset({"sp", "graphicFrame", "cxnSp", "pic"})


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a presentation: slides in order, with their titles as headings.

    Text of tables, diagrams and notes and alternative texts of pictures are part of a slide. Hidden
    slides, slide numbers, dates, page headers and footers are left out, and so is text that only a
    master contains.

    Source: ECMA-376, part 1, section 19.
    """
    archive = ZipArchive(body)
    main = zipped.opc_main_part(archive, "ppt/presentation.xml")
    relations = zipped.opc_relations(archive, main)
    order = _Order()
    walk_markup(order, archive.portions(main), part=main)
    slides = [relations[key].target for key in order.found if key in relations]
    references: list[Reference] = []
    text: list[Section] = []
    size = 0
    for part in dict.fromkeys(slides):
        section = _slide(archive, part, references)
        if section is not None:
            text.append(section)
            size += len(section.heading) + len(section.text)
            check_document_text(size)
    properties = zipped.opc_properties(archive)
    return parsed_document(
        url=url,
        text=text,
        title=properties.get("title", ""),
        declared=properties.get("language", ""),
        references=references,
    )


def _slide(archive: ZipArchive, part: str, references: list[Reference]) -> Section | None:
    relations = zipped.opc_relations(archive, part)
    slide = _Shapes(archive, relations, references)
    walk_markup(slide, archive.portions(part), part=part)
    if slide.hidden:
        return None
    parts = list(slide.tokens.sections())
    notes = [r.target for r in relations.values() if r.kind == "notesSlide" and not r.external]
    for name in notes[:1]:
        below = _Shapes(archive, zipped.opc_relations(archive, name), references)
        walk_markup(below, archive.portions(name), part=name)
        parts += below.tokens.sections()
    content = ""
    blocks: list[Block] = []
    spans: list[Span] = []
    for text in filter(lambda section: section.text, parts):
        content += "\n" * bool(content)
        blocks += [moved_block(block, len(content)) for block in text.blocks]
        spans += [moved_span(span, len(content)) for span in text.spans]
        content += text.text
    if not slide.title and not content:
        return None
    return Section(1 if slide.title else 0, slide.title, content, tuple(blocks), tuple(spans))


class _Order:
    """The slides of a presentation, by the ids of their relations."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "sldId":
            ids = [value for key, value in attributes.items() if key.endswith(":id")]
            self.found += ids[:1]

    def end(self, name: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


class _Shapes:
    """The shapes of one slide, in document order; its title apart."""

    def __init__(
        self,
        archive: ZipArchive,
        relations: dict[str, zipped.Relation],
        references: list[Reference],
    ) -> None:
        self.title = ""
        self.hidden = False
        self.tokens = Tokens()
        self._archive = archive
        self._relations = relations
        self._references = references
        self._placeholder = ""
        self._title = Tokens()
        self._unseen = 0
        self._reads = False
        self._href = ""
        self._run = 0  # first token of the open run

    @property
    def _into(self) -> Tokens:
        return self._title if self._placeholder in _TITLES else self.tokens

    def start(self, name: str, attributes: Attributes) -> None:
        if self._unseen or name == zipped.FALLBACK or (name == "fld" and _changes(attributes)):
            self._unseen += 1
        elif name == "sld":
            self.hidden = attributes.get("show", "").lower() in ("0", "false")
        elif name in _SHAPES:
            self._placeholder, self._title = "", Tokens()
        elif name == "ph":
            self._placeholder = attributes.get("type", "obj")
        elif name == "t":
            self._reads = self._placeholder not in _FURNITURE
        elif name in ("r", "fld"):
            self._href, self._run = "", len(self._into)
        elif name == "hlinkClick":
            relation = self._relations.get(markup_attribute(attributes, "id"))
            if relation is not None and relation.external:
                self._href = relation.target
        elif name == "br":
            self._into.end_line()
        elif name == "tbl":
            self.tokens.start_table()
        elif name == "tblPr" and attributes.get("firstRow", "").lower() in ("1", "true"):
            self.tokens.name_columns()
        elif name in ("cNvPr", RELATION_IDS):
            self._draw(name, attributes)

    def _draw(self, name: str, attributes: Attributes) -> None:
        """Add the lines of a picture or diagram."""
        if name == RELATION_IDS:
            lines = diagram_lines(self._archive, attributes, self._relations)
        else:
            lines = [alternative_text(attributes)]
        for line in filter(None, lines):
            self.tokens.end_line()
            self.tokens.text(line)
            self.tokens.end_line()

    def end(self, name: str) -> None:
        if self._unseen:
            self._unseen -= 1
        elif name == "t":
            self._reads = False
        elif name in ("p", "txBody"):
            self._into.end_line()
        elif name == "tc":
            self.tokens.end_cell()
        elif name == "tr":
            self.tokens.end_row()
        elif name == "tbl":
            self.tokens.end_table()
        elif name in ("r", "fld"):
            self._refer(self._into.since(self._run) if self._href else "")
        elif name in _SHAPES:
            self._end_shape()

    def _refer(self, anchor: str) -> None:
        if self._href and anchor:
            self._into.link(self._run, self._href)
        if self._href and len(self._references) < MAX_REFERENCES:
            anchor = anchor[:MAX_ANCHOR]
            self._references.append(
                Reference(self._href, "hyperlink", nofollow=False, anchor=anchor)
            )
        self._href = ""

    def _end_shape(self) -> None:
        if self._placeholder in _TITLES:
            title = self._title.since(0)
            if self.title and title:
                self.tokens.text(title)
                self.tokens.end_line()
            self.title = self.title or title
        elif self._href:
            self._refer("")  # a link of the shape itself
        self._placeholder = ""

    def text(self, text: str) -> None:
        if self._reads and not self._unseen:
            self._into.text(text)


def _changes(attributes: Attributes) -> bool:
    """Return whether a field shows a number or the date of the day."""
    return attributes.get("type", "").startswith(("slidenum", "datetime"))

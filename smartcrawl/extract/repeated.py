"""The lines of a document that repeat on its host: their marks, and the document without them.

Text, hashes and clones know no marks: these depend on other pages (ADR 151).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final, NamedTuple

from smartcrawl.model.documents import LIST, PICTURE, Block, Document, Section, Span, moved_block
from smartcrawl.model.placed_spans import with_placed_spans
from smartcrawl.rules.repeated import Line, RepeatedLines, repeated_lines_of_page

_LINE: Final = re.compile(r"[^\n]*\S[^\n]*")
#: A line may have millions of words, which would take ten times its memory together.
_PORTION: Final = re.compile(r"[\s\S]{1,65536}\S*")
_LONG: Final = 65_536  #: characters of a line that is read in portions
_DIGEST: Final = 8  #: bytes
_HEADING: Final = "#"  #: before the words of a heading, which is no line of a text
_PARTS: Final = Line(b"")


class Mark(NamedTuple):
    """A part of a section's text that repeats; of a heading ``end`` is -1."""

    section: int
    start: int
    end: int


class _Place(NamedTuple):
    section: int
    start: int
    end: int  #: of a heading -1
    line: Line


def document_lines(document: Document) -> list[Line]:
    """Return the headings and lines of a document, in their order."""
    found: list[Line] = []
    for section in document.sections:
        if all(block.kind == LIST for block in section.blocks):  # most: takes a quarter less time
            texts = [text for text in section.text.split("\n") if text and not text.isspace()]
            if section.heading:
                texts.insert(0, _HEADING + section.heading)
            found += map(_line, texts)
        else:
            found += (place.line for place in _places(Document(sections=(section,))))
    return found


def repeated_marks(document: Document, known: RepeatedLines) -> tuple[Mark, ...]:
    """Return the marks of a document by the list of its host."""
    if not known:
        return ()
    places = list(_places(document))
    goes = repeated_lines_of_page([place.line for place in places], known)
    marks: list[Mark] = []
    whole = _is_whole(places, goes)
    for place, is_repeated in zip(places, goes, strict=True):
        if not is_repeated or (place.end < 0 and place.section not in whole):
            continue
        last = marks[-1] if marks else None
        text = document.sections[place.section].text
        is_next = (
            last is not None and last.section == place.section and min(last.end, place.end) >= 0
        )
        if last is not None and is_next and not text[last.end : place.start].strip():
            marks[-1] = last._replace(end=place.end)
        else:
            marks.append(Mark(place.section, place.start, place.end))
    return tuple(marks)


def _is_whole(places: Sequence[_Place], goes: Sequence[bool]) -> set[int]:
    """Return the sections of which all text goes: only then their headings may."""
    return {place.section for place in places} - {
        place.section
        for place, is_repeated in zip(places, goes, strict=True)
        if place.end >= 0 and not is_repeated
    }


def _places(document: Document) -> Iterator[_Place]:
    for number, section in enumerate(document.sections):
        if section.heading:
            yield _Place(number, 0, -1, _line(_HEADING + section.heading))
        kept = [block for block in section.blocks if block.kind != LIST]
        starts = [block.start for block in kept]
        for found in _LINE.finditer(section.text):
            at = bisect_right(starts, found.start()) - 1
            is_kept = at >= 0 and found.start() < kept[at].end  # code or a table
            yield _Place(number, *found.span(), _PARTS if is_kept else _line(found[0]))


def _line(text: str) -> Line:
    if len(text) < _LONG:
        words = text.split()
        data = " ".join(words).encode(errors="surrogatepass")
        return Line(blake2b(data, digest_size=_DIGEST).digest(), len(words))
    digest, count = blake2b(digest_size=_DIGEST), 0
    for found in _PORTION.finditer(text):
        words = found[0].split()
        between = " " if count and words else ""
        digest.update((between + " ".join(words)).encode(errors="surrogatepass"))
        count += len(words)
    return Line(digest.digest(), count)


def marks_as_text(marks: Sequence[Mark]) -> str:
    """Return marks as JSON ``[[section, start, end], …]``; an empty text: there are none."""
    return json.dumps(marks, separators=(",", ":")) if marks else ""


def document_without(document: Document, marked: str) -> Document:
    """Return a document without its marked parts (``marks_as_text``); the same one without any."""
    if not marked:
        return document
    document = with_placed_spans(document)
    of_sections: dict[int, list[Mark]] = {}
    for mark in (Mark(*row) for row in json.loads(marked)):
        of_sections.setdefault(mark.section, []).append(mark)
    sections: list[Section] = []
    for number, section in enumerate(document.sections):
        left = _section_without(section, of_sections.get(number, ()))
        if left.heading or left.text or number not in of_sections:
            sections.append(left)
    return replace(document, sections=tuple(sections))


def _section_without(section: Section, marks: Sequence[Mark]) -> Section:
    if any(mark.end < 0 for mark in marks):
        section = section._replace(heading="", head=())
    gone = list(_gone(section.text, [mark for mark in marks if mark.end >= 0]))
    if not gone:
        return section
    edges = [0, *(edge for part in gone for edge in part), len(section.text)]
    kept = list(zip(edges[::2], edges[1::2], strict=True))
    text = "".join(section.text[start:end] for start, end in kept)
    moves = _Moves(gone, text)
    return section._replace(
        text=text,
        blocks=tuple(block for one in section.blocks if (block := moves.block(one)) is not None),
        spans=tuple(span for one in section.spans if (span := moves.span(one)) is not None),
    )


def _gone(text: str, marks: Sequence[Mark]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that go, each with the line ends behind it; the last, before it."""
    for mark in marks:
        start, end = mark.start, mark.end
        while end < len(text) and text[end] in "\n ":
            end += 1
        if end < len(text):  # the next line keeps its indentation
            end = text.rfind("\n", start, end) + 1
        else:
            start = len(text[:start].rstrip("\n "))
        yield start, end


class _Moves:
    """Moves places of a text to those without some parts of it."""

    def __init__(self, gone: Sequence[tuple[int, int]], text: str) -> None:
        """``gone``: parts of the former text; ``text``: the rest of it."""
        self._text = text
        self._starts = [start for start, _ in gone]
        self._gone = gone
        sizes = [end - start for start, end in gone]
        self._before = [sum(sizes[:n]) for n in range(len(sizes) + 1)]

    def _at(self, place: int) -> int:
        part = bisect_right(self._starts, place)
        if part and place < self._gone[part - 1][1]:
            return self._starts[part - 1] - self._before[part - 1]
        return place - self._before[part]

    def _is_gone(self, place: int) -> bool:
        part = bisect_right(self._starts, place)
        return bool(part) and place < self._gone[part - 1][1]

    def block(self, block: Block) -> Block | None:
        """Return a block as it is by then; None: nothing is left of it."""
        start = self._at(block.start)
        if block.kind != LIST:
            return moved_block(block, start - block.start)
        end = self._at(block.end - 1) + (not self._is_gone(block.end - 1))
        end = start + len(self._text[start:end].rstrip("\n"))
        return block._replace(start=start, end=end) if start < end else None

    def span(self, span: Span) -> Span | None:
        """Return a span as it is by then; None: it stood in a part that went."""
        if self._is_gone(span.start):
            return None
        start = self._at(span.start)
        if span.kind == PICTURE or span.end == span.start:
            return span._replace(start=start, end=start)
        return span._replace(start=start, end=max(start, self._at(span.end - 1) + 1))

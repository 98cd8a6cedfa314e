"""The searchable parts of a document."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from smartcrawl.model.documents import Chunk, Document

if TYPE_CHECKING:
    from semantic_text_splitter import TextSplitter

MAX_CHARACTERS: Final = 1_500
_PART: Final = 15_000  #: characters given to the splitter at once


def document_chunks(document: Document) -> list[Chunk]:
    """Return the chunks of ``document`` in reading order.

    One for each section, with the headings above it, outermost first; a section over 1,500
    characters is cut at paragraphs, sentences or words, without overlap, and loses only white
    space at the cuts. A heading without text is a chunk of its own, so that it can be found.

    Source: R1-07, G-05.
    """
    found: list[Chunk] = []
    above: list[tuple[int, str]] = []
    for level, heading, text in document.sections:
        while above and above[-1][0] >= level:
            above.pop()
        if heading:
            above.append((level, heading))
        path = tuple(name for _, name in above)
        if len(text) <= MAX_CHARACTERS:
            found.append(Chunk(path, text))
        else:
            splitter = _splitter()
            found += [Chunk(path, c) for part in _parts(text) for c in splitter.chunks(part)]
    return found


def _parts(text: str) -> Iterator[str]:
    """Yield parts cut at lines, else at words: the splitter's time grows with their square."""
    start = 0
    while len(text) - start > _PART:
        end = start + _PART
        cut = max(text.rfind("\n", start, end), 0) or max(text.rfind(" ", start, end), 0) or end
        cut = cut if cut > start else end
        yield text[start:cut]
        start = cut
    yield text[start:]


@cache
def _splitter() -> TextSplitter:
    from semantic_text_splitter import TextSplitter  # noqa: PLC0415  # most commands cut nothing

    return TextSplitter(MAX_CHARACTERS)

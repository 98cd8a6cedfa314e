"""Chunks and words of a page, made by the process that reads it (ADR 177).

What comes of it is checked here, and may say of its page what the text of that page could say.
Digests, by which equal chunks share a vector, are made where they are stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from pydantic import TypeAdapter
from pydantic_core import to_json

from smartcrawl.extract.chunks import MAX_PLACES, document_chunks
from smartcrawl.extract.repeated import Mark, document_without, marks_as_text, repeated_marks
from smartcrawl.extract.spans import MAX_ID
from smartcrawl.extract.wire import LONGEST, AnswerError, PageTask
from smartcrawl.index.analysis.names import name_words
from smartcrawl.index.analysis.stems import chunk_words, load_stemmers
from smartcrawl.index.analysis.vectors import words_vector
from smartcrawl.index.made_chunks import FTS5, NO_WORDS, TSVECTOR, MadeChunk, MadeChunks
from smartcrawl.model.documents import CHUNK_TYPES, ChunkSize, Document, is_linkable_id
from smartcrawl.model.urls import url_host_key
from smartcrawl.rules.repeated import RepeatedLines

_FIELDS: Final = {FTS5: 4, TSVECTOR: 1, NO_WORDS: 0}
_LEVELS: Final = range(7)
_TYPES: Final = frozenset(CHUNK_TYPES)
_MAX_ORDER: Final = 262_144  #: characters; each portion of pages has it
_KEY: Final = r"'[^'\\\s\x00]+':\d{1,5}[AB]?(?:,\d{1,5}[AB]?)*"  #: a word with its places
_VECTOR: Final = re.compile(rf"(?:{_KEY}(?: {_KEY})*)?")


class MadeParts(NamedTuple):
    """What a process makes of a page."""

    marks: tuple[Mark, ...] | None  #: that repeat on its host; None: no list of it was sent
    chunks: tuple[MadeChunk, ...]


class ChunkOrder(NamedTuple):
    """How chunks are made."""

    words: str
    size: ChunkSize
    lists: Mapping[str, RepeatedLines]  #: by host


class ChunkParts:
    """Has processes make the chunks of pages, and their words (``extract.wire.PartMaker``)."""

    module: Final = "smartcrawl.index.reading_child"

    def __init__(self, words: str, size: ChunkSize, lists: Mapping[str, RepeatedLines]) -> None:
        """``lists``: the lines that repeat, by host; none is sent where they are very long."""
        self._words = words
        self.order = _order_as_text(ChunkOrder(words, size, lists))
        if len(self.order) > _MAX_ORDER:
            self.order = _order_as_text(ChunkOrder(words, size, {}))

    def parse(self, answer: bytes, document: Document, url: str) -> MadeChunks:
        """Return the chunks of the page at an address.

        Raises:
            AnswerError: ``made_chunk_parts`` gives no such answer.
        """
        try:
            marks, made = _MADE.validate_json(answer, strict=True)
        except ValueError as error:
            raise AnswerError(str(error)[:LONGEST]) from error
        words = self._words if made and made[0].words else NO_WORDS  # a page that is no new one
        is_sound = marks is None or _are_sound_marks(marks, document)
        if b"\\u0000" in answer or not (is_sound and all(_is_sound(one, words) for one in made)):
            raise AnswerError("chunks that no reader gives")
        marked = None if marks is None else marks_as_text(marks)
        return MadeChunks(made, document, words, host=url_host_key(url), marked=marked)


_MADE: Final = TypeAdapter(MadeParts)


def _is_sound(made: MadeChunk, kind: str) -> bool:
    """Whether a chunk is one that readers make, with words of a kind."""
    chunk, words = made.chunk, made.words
    size = len(chunk.text)
    return (
        chunk.level in _LEVELS
        and 0 <= chunk.repeated <= size
        and set(chunk.types) <= _TYPES
        and len(chunk.places) <= MAX_PLACES
        and all(
            0 <= start <= size and len(name) <= MAX_ID and is_linkable_id(name)
            for start, name, _ in chunk.places
        )
        and len(words) == _FIELDS[kind]
        and (kind != TSVECTOR or _VECTOR.fullmatch(words[0]) is not None)
    )


def _are_sound_marks(marks: Sequence[Mark], document: Document) -> bool:
    """Whether marks are parts of the texts of a document, or its headings, in their order."""
    sizes = [len(section.text) for section in document.sections]
    before = (0, -1)
    for section, start, end in marks:
        if not (0 <= section < len(sizes) and (section, start) > before):
            return False
        if not (0 <= start <= end <= sizes[section] or (start, end) == (0, -1)):
            return False
        before = section, max(end - 1, -1)
    return True


def made_chunk_parts(document: Document, task: PageTask, order: str) -> bytes:
    """Return the chunks of a page with their words, for ``ChunkParts.parse``.

    A page that is no new one gets no words: it keeps most of its chunks, with those that they have.
    An empty order loads what all orders need: a process that reads pages opens no file after that.
    """
    if not order:
        for kind in _FIELDS:
            list(_made(document, kind, ChunkSize(100)))
        load_stemmers()
        return b""
    wanted = _order_of_text(order)
    lines = wanted.lists.get(url_host_key(task.url))
    words = wanted.words if task.is_new else NO_WORDS
    marks = None if lines is None else repeated_marks(document, lines)
    left = document_without(document, marks_as_text(marks or ()))
    return to_json(MadeParts(marks, tuple(_made(left, words, wanted.size))))


def _order_as_text(order: ChunkOrder) -> str:
    lists = {
        host: (
            sorted((one.hex(), other.hex()) for one, other in lines.pairs),
            sorted((line.hex(), at) for line, at in lines.places),
        )
        for host, lines in order.lists.items()
    }
    return json.dumps((order.words, order.size, lists), separators=(",", ":"))


@lru_cache(1)  # all pages of a crawl have one
def _order_of_text(text: str) -> ChunkOrder:
    words, size, lists = json.loads(text)
    by_host = {
        host: RepeatedLines(
            frozenset((bytes.fromhex(one), bytes.fromhex(other)) for one, other in pairs),
            frozenset((bytes.fromhex(line), at) for line, at in places),
        )
        for host, (pairs, places) in lists.items()
    }
    return ChunkOrder(words, ChunkSize(*size), by_host)


def _made(document: Document, kind: str, size: ChunkSize) -> Iterator[MadeChunk]:
    title, language = document.title, document.language
    for position, chunk in enumerate(document_chunks(document, size)):
        texts = (title, chunk.path, chunk.text, chunk.pictures, language)
        names, words = "", list[str]()
        if kind != NO_WORDS:
            names = name_words(title, chunk.path, chunk.text, chunk.places, first=not position)
        if kind == FTS5:
            words = chunk_words(*texts, names=names)
        elif kind == TSVECTOR:
            words = [words_vector(*texts, names=names)]
        yield MadeChunk(chunk, names, tuple(words))

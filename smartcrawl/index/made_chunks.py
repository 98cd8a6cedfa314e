"""Chunks whose names and words were made where their page was read (ADR 177)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from smartcrawl.model.documents import Chunk, Document

FTS5: Final = "fts5"  #: the words of SQLite's index
TSVECTOR: Final = "tsvector"  #: those of PostgreSQL's
WORDS: Final = {"sqlite": FTS5, "postgres": TSVECTOR}  #: by the dialect of the registry
NO_WORDS: Final = ""  #: an index elsewhere makes its own


class MadeChunk(NamedTuple):
    """A chunk with its names and words."""

    chunk: Chunk
    names: str  #: ``analysis.names.name_words``
    words: tuple[str, ...]  #: ``analysis.stems.chunk_words`` or ``analysis.vectors.words_vector``


class MadeChunks(list[Chunk]):
    """The chunks of a page with the names and words of each.

    ``marked``: the parts of the page that are left out by the list of ``host``; None: no list was
    looked at.
    """

    __slots__ = ("_language", "_title", "_words", "host", "made", "marked")

    def __init__(
        self,
        made: Sequence[MadeChunk],
        document: Document,
        words: str,
        *,
        host: str = "",
        marked: str | None = None,
    ) -> None:
        super().__init__([one.chunk for one in made])
        self.made, self.host, self.marked = made, host, marked
        self._title, self._language, self._words = document.title, document.language, words

    def suits(self, words: str, title: str, language: str) -> bool:
        """Whether these are the ``words`` of an index, for a page with a title and a language."""
        return (words, title, language) == (self._words, self._title, self._language)

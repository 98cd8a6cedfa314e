"""The embedded index: FTS5 over chunks, in the registry's file and transaction (ADR 1)."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.index.embedded.finding import TEXTS, search_snippet, search_snippet_beginning
from smartcrawl.index.queries import Term
from smartcrawl.index.searching import Marks
from smartcrawl.model.documents import Chunk
from smartcrawl.registry.connection import Connection, Many


class ChunkColumns(NamedTuple):
    """Columns of a chunk that are not searched."""

    level: int
    types: str
    repeated: int
    hash: bytes


def searchable_chunks(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the chunks, or one empty chunk by which the title is found."""
    return list(chunks) or [Chunk((), "")]


def embedded_index_chunk_columns(title: str, chunk: Chunk) -> ChunkColumns:
    """Return the columns of a chunk that are not searched."""
    return ChunkColumns(chunk.level, ",".join(chunk.types), chunk.repeated, chunk.digest(title))


class IndexBuffer:
    """Buffers additions and removals (``ports.Sink``) until ``flush``, which subclasses define."""

    is_elsewhere: Final = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._removed: set[int] = set()
        self._added: dict[int, tuple[str, list[Chunk]]] = {}

    def prepare(self, texts: Sequence[tuple[str, Sequence[Chunk]]]) -> Sequence[int]:
        """Write nothing: only one process at a time writes to this database anyway."""
        return ()

    def put(self, content: int, title: str, chunks: Sequence[Chunk]) -> None:
        """Add the chunks of a content row that has none."""
        self._added[content] = (title, searchable_chunks(chunks))

    def remove(self, content: int) -> None:
        """Remove the chunks of a content row; later additions stay."""
        self._removed.add(content)
        self._added.pop(content, None)

    def moved(self, contents: Iterable[int]) -> None:
        """Do nothing: this index is about contents, whichever pages are their originals."""

    def renamed(self, former: Mapping[int, tuple[str, bytes]]) -> None:
        """Do nothing: ids are those of the records."""

    def taken(self) -> tuple[set[int], dict[int, tuple[str, list[Chunk]]]]:
        """Return the removals and additions since the last call, by content."""
        removed, self._removed = self._removed, set()
        added, self._added = self._added, {}
        return removed, added


_PLAIN = "SELECT no, headings, text, pictures FROM chunk WHERE no IN carray(:chunks)"
_NEXT = "SELECT coalesce(max(no), 0) + 1 FROM chunk"
_PUT = """
INSERT INTO chunk (no, content, position, title, headings, text, pictures,
                   level, types, repeated, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PUT_WORDS = """
INSERT INTO chunk_words (rowid, title, headings, text, pictures) VALUES (?, ?, ?, ?, ?)
"""
_HELD = """
SELECT no, content, position, title, headings, text, pictures, level, types, repeated, hash
  FROM chunk WHERE content IN carray(?)
"""
_COLUMNS = "UPDATE chunk SET level = ?, types = ?, repeated = ?, hash = ? WHERE no = ?"
_MOVE = "UPDATE chunk SET content = ?, position = ? WHERE no = ?"
_REMOVE_WORDS = """
INSERT INTO chunk_words (chunk_words, rowid, title, headings, text, pictures)
SELECT 'delete', no, title, headings, text, pictures FROM chunk WHERE no IN carray(?)
"""
_REMOVE = "DELETE FROM chunk WHERE no IN carray(?)"
_SNIPPETS = """
SELECT rowid, highlight(chunk_words, 1, :open, :close),
       snippet(chunk_words, 2, :open, :close, ' … ', 32),
       snippet(chunk_words, 3, :open, :close, ' … ', 32)
  FROM chunk_words WHERE chunk_words MATCH :query AND rowid IN carray(:chunks)
"""
_QUOTE = '"'

_Row = tuple[str, str, str, str]  #: title, headings, text, pictures
_Places = dict[tuple[int, int], ChunkColumns]  #: by (content.no, position), of equal rows


class EmbeddedIndex(IndexBuffer):
    """Writes chunks and their words over the registry's connection, in its transaction.

    Changes are buffered until ``flush``, the last step of a batch. FTS5 writes out its own buffer
    whenever another table's statement may have to be rolled back. To do so once a batch instead of
    once a page halves the cost of indexing.
    """

    def flush(self) -> None:
        """Write the additions and removals since the last call.

        A chunk that is removed in one place and added in another keeps its row and its words. So
        only the different chunks of a changed page are written.
        """
        removed, added = self.taken()
        wanted: defaultdict[_Row, _Places] = defaultdict(dict)
        for content, (title, chunks) in added.items():
            for position, chunk in enumerate(chunks):
                row = (title, chunk.path, chunk.text, chunk.pictures)
                wanted[row][content, position] = embedded_index_chunk_columns(title, chunk)
        dropped = self._keep(removed, wanted) if removed else array("q")
        rows = self._numbered(wanted)
        self._connection.executemany(_PUT, rows)
        if dropped:
            self._connection.execute(_REMOVE_WORDS, (Many(dropped),))
        self._connection.executemany(_PUT_WORDS, [(row[0], *row[3:7]) for row in rows])
        if dropped:
            self._connection.execute(_REMOVE, (Many(dropped),))

    def _keep(self, contents: set[int], wanted: Mapping[_Row, _Places]) -> array[int]:
        """Move chunks of some contents to the places where they are wanted; return the others."""
        moved: list[tuple[int, int, int]] = []
        changed: list[tuple[Any, ...]] = []
        dropped: list[int] = []
        held: Any = self._connection.execute(_HELD, (Many(sorted(contents)),))
        for no, content, position, *rest in held:
            row: _Row = (rest[0], rest[1], rest[2], rest[3])
            columns, here = rest[4:], (content, position)
            places = wanted.get(row)
            if not places:
                dropped.append(no)
                continue
            if here in places:
                new = places.pop(here)
            else:
                place, new = places.popitem()
                moved.append((*place, no))
            if tuple(columns) != new:
                changed.append((*new, no))
        self._connection.executemany(_MOVE, moved)
        self._connection.executemany(_COLUMNS, changed)
        return array("q", sorted(dropped))

    def _numbered(self, wanted: Mapping[_Row, _Places]) -> list[tuple[Any, ...]]:
        """Return the rows of new chunks; chunks of one content are consecutive."""
        number = int(self._connection.execute(_NEXT).get)
        rows = sorted(
            (place, row, columns)
            for row, found in wanted.items()
            for place, columns in found.items()
        )
        return [(number + n, *place, *row, *more) for n, (place, row, more) in enumerate(rows)]


class _Fts5:
    """Matching of words in FTS5 (``finding.IndexLanguage``)."""

    def match(self, name: str) -> str:
        """Return the chunks ``k`` that match a value, after FROM."""
        return f"chunk_words w JOIN chunk k ON k.no = w.rowid WHERE chunk_words MATCH :{name}"

    def count(self, name: str, within: str = "") -> str:
        """Return the query for the number of chunks that match a value."""
        if within:
            return f"SELECT count(*) FROM {self.match(name)} {within}"
        return f"SELECT count(*) FROM chunk_words WHERE chunk_words MATCH :{name}"

    def value(self, text: str) -> str:
        """Return the expression that matches a word, or words that stay together."""
        return f'"{text.replace(_QUOTE, " ")}"'

    def texts(
        self, connection: Connection, words: Sequence[str], within: str, values: Mapping[str, Any]
    ) -> list[str]:
        """Return the texts of some chunks that have any of some words, with their headings."""
        statement = TEXTS.format(match=self.match("words"), within=within)
        rows = connection.execute(statement, {"words": self._any_of(words), **values}).fetchall()
        return ["\n".join(row) for row in rows]

    def _any_of(self, words: Sequence[str]) -> str:
        return " OR ".join(map(self.value, words))

    def shown(
        self, connection: Connection, terms: Sequence[Term], chunks: Sequence[int], marks: Marks
    ) -> Mapping[int, tuple[str, str]]:
        """Return headings and a snippet of some chunks, with marks around the words found."""
        names = {
            "query": self._any_of([term.text for term in terms]),
            "chunks": Many(list(chunks)),
            "open": marks[0],
            "close": marks[1],
        }
        rows = connection.execute(_SNIPPETS, names).fetchall()
        found = {
            chunk: (headings, search_snippet(text, pictures, marks[0]))
            for chunk, headings, text, pictures in rows
        }
        plain = {"chunks": Many([chunk for chunk in chunks if chunk not in found])}
        rows = connection.execute(_PLAIN, plain).fetchall()
        return found | {
            no: (headings, search_snippet_beginning(text or pictures))
            for no, headings, text, pictures in rows
        }


FTS5: Final = _Fts5()

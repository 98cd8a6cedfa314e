"""The embedded index of a registry in PostgreSQL: words of chunks in its full-text search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from smartcrawl.index.analysis.stems import Keys, index_keys
from smartcrawl.index.embedded.finding import TEXTS, read_text_rows
from smartcrawl.index.embedded.sqlite import (
    IndexBuffer,
    embedded_index_chunk_columns,
    searchable_chunks,
)
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.index_protocols import IndexedText

_SCAN = "SELECT set_config('enable_seqscan', ?, false)"
_COUNTED: Final = 20_000  #: chunks of a word that are counted at most
_AT_ONCE: Final = 500  #: chunks of one statement
_NUMBERS = """
SELECT nextval(pg_get_serial_sequence('content', 'no')) FROM generate_series(1, ?)
"""
_REMOVE = "DELETE FROM chunk WHERE content IN carray(?)"
_PUT = """
INSERT INTO chunk (content, position, title, headings, text, pictures, language,
                   level, types, repeated, hash, words)
SELECT content, position, title, headings, text, pictures, language, level, types, repeated, hash,
       words::tsvector
  FROM unnest(?::bigint[], ?::integer[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[],
              ?::integer[], ?::text[], ?::integer[], ?::bytea[], ?::text[])
       AS chunks (content, position, title, headings, text, pictures, language,
                  level, types, repeated, hash, words)
"""
_LAST: Final = 16_383  #: the highest place of a word that PostgreSQL knows


class PostgresIndex(IndexBuffer):
    """Writes chunks and their words over the registry's connection, in its transaction."""

    def prepare(self, texts: Sequence[IndexedText]) -> Sequence[int]:
        """Write chunks under unused content numbers (``ports.Sink``).

        Finding its words is most of the cost of a new page. Workers that share a run commit one
        after another, and would wait for each other's words.
        """
        numbers = [no for (no,) in self._connection.execute(_NUMBERS, (len(texts),)).fetchall()]
        self._write({
            number: text._replace(chunks=searchable_chunks(text.chunks))
            for number, text in zip(numbers, texts, strict=True)
        })  # fmt: skip
        return numbers

    def flush(self) -> None:
        """Write the additions and removals since the last call."""
        removed, added = self.taken()
        if removed:
            self._connection.execute(_REMOVE, (Many(sorted(removed)),))
        self._write(added)

    def _write(self, contents: Mapping[int, IndexedText]) -> None:
        rows: list[tuple[Any, ...]] = []
        self.note_languages(contents.values())
        for content, (title, chunks, language) in sorted(contents.items()):
            for position, chunk in enumerate(chunks):
                texts = (title, chunk.path, chunk.text, chunk.pictures, language)
                columns = embedded_index_chunk_columns(title, chunk)
                rows.append((content, position, *texts, *columns, words_vector(*texts)))
        for start in range(0, len(rows), _AT_ONCE):
            values = zip(*rows[start : start + _AT_ONCE], strict=True)
            self._connection.execute(_PUT, tuple(map(Many, values)))


def words_vector(title: str, headings: str, text: str, pictures: str, language: str) -> str:
    """Return the keys of a chunk as a tsvector, with their places.

    Titles have weight A, headings B. No phrase reaches from one of these into another.

    >>> words_vector("Häuser", "", "alte Häuser", "", "de")
    "'haus':1A,5 'alt':4"
    """
    places: defaultdict[str, list[str]] = defaultdict(list)
    before = 0
    for part, weight in ((title, "A"), (headings, "B"), (text, ""), (pictures, "")):
        keys = index_keys(part, language)
        for at, key in enumerate(keys, before + 1):
            places[key].append(f"{min(at, _LAST)}{weight}")
        before += len(keys) + 1
    return " ".join(f"'{key}':{','.join(found)}" for key, found in places.items())


class TsVector:
    """Matching of words in PostgreSQL (``finding.IndexLanguage``)."""

    def match(self, name: str) -> str:
        """Return the chunks ``k`` that match a value, after FROM."""
        return f"chunk k WHERE k.words @@ :{name}::tsquery"

    def count(self, name: str, within: str = "") -> str:
        """Return the query for the number of chunks that match a value, up to a limit."""
        few = f"SELECT 1 FROM {self.match(name)} {within} LIMIT {_COUNTED}"
        return f"SELECT count(*) FROM ({few}) AS few"

    def value(self, asked: Sequence[Keys]) -> str:
        """Return the expression that matches a word by any of its keys."""
        phrases = (" <-> ".join(f"'{key}'" for key in keys) for keys in asked)
        return " | ".join(f"({phrase})" for phrase in phrases)

    def texts(
        self, connection: Connection, keys: Sequence[str], within: str, values: Mapping[str, Any]
    ) -> list[tuple[str, str]]:
        """Return texts of chunks that have any of some keys, with headings and language.

        PostgreSQL expects that nearly every chunk has one of so many words, and would read them
        all, one after another.
        """
        connection.execute(_SCAN, ("off",))
        try:
            statement = TEXTS.format(match=self.match("words"), within=within)
            named = {"words": self.value([(key,) for key in keys]), **values}
            rows = connection.execute(statement, named).fetchall()
        finally:
            connection.execute(_SCAN, ("on",))
        return read_text_rows(rows)

"""The embedded index of a registry in PostgreSQL: stems of chunks in its full-text search."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from smartcrawl.index.embedded.finding import TEXTS, fts5_value_letters, search_snippet
from smartcrawl.index.embedded.sqlite import (
    IndexBuffer,
    embedded_index_chunk_columns,
    searchable_chunks,
)
from smartcrawl.index.queries import Term
from smartcrawl.index.searching import Marks
from smartcrawl.model.documents import Chunk
from smartcrawl.registry.connection import Connection, Many

_SCAN = "SELECT set_config('enable_seqscan', ?, false)"
_COUNTED: Final = 20_000  #: chunks of a word that are counted at most
_AT_ONCE: Final = 500  #: chunks of one statement
_NUMBERS = """
SELECT nextval(pg_get_serial_sequence('content', 'no')) FROM generate_series(1, ?)
"""
_REMOVE = "DELETE FROM chunk WHERE content IN carray(?)"
_PUT = """
INSERT INTO chunk (content, position, title, headings, text, pictures,
                   level, types, repeated, hash, words)
SELECT content, position, title, headings, text, pictures, level, types, repeated, hash,
       setweight(to_tsvector('stems', in_title), 'A')
       || setweight(to_tsvector('stems', in_headings), 'B') || to_tsvector('stems', in_text)
       || to_tsvector('stems', in_pictures)
  FROM unnest(?::bigint[], ?::integer[], ?::text[], ?::text[], ?::text[], ?::text[], ?::integer[],
              ?::text[], ?::integer[], ?::bytea[], ?::text[], ?::text[], ?::text[], ?::text[])
       AS chunks (content, position, title, headings, text, pictures,
                  level, types, repeated, hash, in_title, in_headings, in_text, in_pictures)
"""
_SHOWN = """
SELECT no, ts_headline('stems', translate(headings, :joints, :gaps), {query}, :whole),
       ts_headline('stems', translate(text, :joints, :gaps), {query}, :part),
       ts_headline('stems', translate(pictures, :joints, :gaps), {query}, :part)
  FROM chunk WHERE no IN carray(:chunks)
"""

#: Characters that PostgreSQL reads as parts of tags, paths, hosts and numbers.
_JOINTS: Final = "<&/.-_@+:"
_GAPS: Final = "".join(map(chr, range(0x10, 0x10 + len(_JOINTS))))  #: their substitutes
_WHOLE: Final = str.maketrans(_GAPS, _JOINTS)
_BETWEEN_WORDS: Final = re.compile(r"[^\w\s]+|_+")
#: The same for ASCII, where it takes a tenth of the time.
_SPACED: Final = {code: " " for code in range(128) if _BETWEEN_WORDS.fullmatch(chr(code))}


class PostgresIndex(IndexBuffer):
    """Writes chunks and their words over the registry's connection, in its transaction."""

    def prepare(self, texts: Sequence[tuple[str, Sequence[Chunk]]]) -> Sequence[int]:
        """Write chunks under unused content numbers (``ports.Sink``).

        Finding its words is most of the cost of a new page. Workers that share a run commit one
        after another, and would wait for each other's words.
        """
        numbers = [no for (no,) in self._connection.execute(_NUMBERS, (len(texts),)).fetchall()]
        self._write(
            (number, title, searchable_chunks(chunks))
            for number, (title, chunks) in zip(numbers, texts, strict=True)
        )
        return numbers

    def flush(self) -> None:
        """Write the additions and removals since the last call."""
        removed, added = self.taken()
        if removed:
            self._connection.execute(_REMOVE, (Many(sorted(removed)),))
        self._write((content, title, chunks) for content, (title, chunks) in sorted(added.items()))

    def _write(self, contents: Iterable[tuple[int, str, Sequence[Chunk]]]) -> None:
        rows: list[tuple[Any, ...]] = []
        for content, title, chunks in contents:
            for position, chunk in enumerate(chunks):
                texts = (title, chunk.path, chunk.text, chunk.pictures)
                columns = embedded_index_chunk_columns(title, chunk)
                rows.append((content, position, *texts, *columns, *map(searched_words, texts)))
        for start in range(0, len(rows), _AT_ONCE):
            values = zip(*rows[start : start + _AT_ONCE], strict=True)
            self._connection.execute(_PUT, tuple(map(Many, values)))


def searched_words(text: str) -> str:
    """Return the words of a text as FTS5 would index them.

    Diacritics are removed. A word ends where letters and digits end.

    >>> searched_words("<i>/docs/cafés.html</i>").split()
    ['i', 'docs', 'cafes', 'html', 'i']
    """
    if text.isascii():
        return text.translate(_SPACED)
    parted = unicodedata.normalize("NFKD", text)
    text = "".join(letter for letter in parted if not unicodedata.combining(letter))
    return _BETWEEN_WORDS.sub(" ", text)


class _Stems:
    """Matching of words in PostgreSQL (``finding.IndexLanguage``)."""

    def match(self, name: str) -> str:
        """Return the chunks ``k`` that match a value, after FROM."""
        return f"chunk k WHERE k.words @@ phraseto_tsquery('stems', :{name})"

    def count(self, name: str, within: str = "") -> str:
        """Return the query for the number of chunks that match a value, up to a limit."""
        few = f"SELECT 1 FROM {self.match(name)} {within} LIMIT {_COUNTED}"
        return f"SELECT count(*) FROM ({few}) AS few"

    def value(self, text: str) -> str:
        """Return the value that matches a word, or words that stay together."""
        return searched_words(text)

    def texts(
        self, connection: Connection, words: Sequence[str], within: str, values: Mapping[str, Any]
    ) -> list[str]:
        """Return the texts of some chunks that have any of some words, with their headings.

        The words are letters only. PostgreSQL expects that nearly every chunk has one of so many
        words, and would read them all, one after another.
        """
        match = "chunk k WHERE k.words @@ to_tsquery('stems', :words)"
        connection.execute(_SCAN, ("off",))
        try:
            statement = TEXTS.format(match=match, within=within)
            named = {"words": " | ".join(words), **values}
            rows = connection.execute(statement, named).fetchall()
        finally:
            connection.execute(_SCAN, ("on",))
        return ["\n".join(row) for row in rows]

    def shown(
        self, connection: Connection, terms: Sequence[Term], chunks: Sequence[int], marks: Marks
    ) -> Mapping[int, tuple[str, str]]:
        """Return headings and a snippet of some chunks, with marks around the words found."""
        start, stop = (mark.replace('"', "") for mark in marks)
        shape = f'StartSel="{start}",StopSel="{stop}"'
        names: dict[str, Any] = {
            "chunks": Many(list(chunks)),
            "joints": _JOINTS,
            "gaps": _GAPS,
            "whole": f"{shape},HighlightAll=true",
            "part": f"{shape},MaxWords=32,MinWords=16",
        }
        names |= {
            f"word_{fts5_value_letters(n)}": searched_words(term.text)
            for n, term in enumerate(terms)
        }
        tests = [
            f"phraseto_tsquery('stems', :word_{fts5_value_letters(n)})" for n in range(len(terms))
        ]
        statement = _SHOWN.format(query=f"({' || '.join(tests)})")
        rows = connection.execute(statement, names).fetchall()
        return {
            no: (headings, search_snippet(text, pictures, start))
            for no, headings, text, pictures in (
                (no, *(shown.translate(_WHOLE) for shown in texts)) for no, *texts in rows
            )
        }


STEMS: Final = _Stems()

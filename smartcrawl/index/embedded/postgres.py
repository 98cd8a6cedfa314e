"""The embedded index of a registry in PostgreSQL: words of chunks in its full-text search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Final

from smartcrawl.index.analysis.names import name_words
from smartcrawl.index.analysis.stems import ANY_END, Keys, index_keys
from smartcrawl.index.analysis.vectors import words_vector
from smartcrawl.index.embedded.counting import ChunkFacts, ChunkPlaces, ChunksAsked
from smartcrawl.index.embedded.finding import TEXTS, fts5_value_letters, read_text_rows
from smartcrawl.index.embedded.sqlite import (
    FEW_TEXTS,
    AnalyzedChunks,
    IndexBuffer,
    embedded_index_chunk_columns,
    frequent_index_keys,
    searchable_chunks,
)
from smartcrawl.index.made_chunks import TSVECTOR, MadeChunks
from smartcrawl.index.ranking import LETTERS
from smartcrawl.model.documents import Chunk
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.index_protocols import IndexedText

_COUNTED: Final = 20_000  #: chunks of a word that are counted at most
_AT_ONCE: Final = 500  #: chunks of one statement
_NUMBERS = """
SELECT nextval(pg_get_serial_sequence('content', 'no')) FROM generate_series(1, ?)
"""
_REMOVE = "DELETE FROM chunk WHERE content IN carray(?)"
_PUT = """
INSERT INTO chunk (content, position, title, headings, text, pictures, language,
                   level, types, repeated, hash, places, words)
SELECT content, position, title, headings, text, pictures, language, level, types, repeated, hash,
       places, words::tsvector
  FROM unnest(?::bigint[], ?::integer[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[],
              ?::integer[], ?::text[], ?::integer[], ?::bytea[], ?::text[], ?::text[])
       AS chunks (content, position, title, headings, text, pictures, language,
                  level, types, repeated, hash, places, words)
"""
#: New words wait in a list, which every look-up of a word reads whole until the next VACUUM. Only
#: the owner of an index may move them into it.
_SETTLE: Final = """
SELECT gin_clean_pending_list(oid) FROM pg_class
 WHERE oid = 'chunk_words'::regclass AND pg_has_role(relowner, 'USAGE')
"""


class PostgresIndex(IndexBuffer):
    """Writes chunks and their words over the registry's connection, in its transaction."""

    def analyzed(self, text: IndexedText, former: int | None = None) -> list[Chunk]:
        """Return the chunks of a text with their columns and words.

        Those of a ``former`` content are all written anew.
        """
        title, chunks, language = text
        if not chunks:
            return []
        return AnalyzedChunks(chunks, list(_rows(title, chunks, language)))

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
            of_text: Iterable[tuple[Any, ...]] = _rows(title, chunks, language)
            if isinstance(chunks, AnalyzedChunks):
                of_text = chunks.rows
            rows += [(content, position, *row) for position, row in enumerate(of_text)]
        for start in range(0, len(rows), _AT_ONCE):
            values = zip(*rows[start : start + _AT_ONCE], strict=True)
            self._connection.execute(_PUT, tuple(map(Many, values)))
        if rows:
            self._connection.execute(_SETTLE)


def _rows(title: str, chunks: Sequence[Chunk], language: str) -> Iterator[tuple[Any, ...]]:
    """Yield the columns of the chunks of a text, the last one is its words."""
    if isinstance(chunks, MadeChunks) and chunks.suits(TSVECTOR, title, language):
        for chunk, _, words in chunks.made:
            texts = (title, chunk.path, chunk.text, chunk.pictures, language)
            yield (*texts, *embedded_index_chunk_columns(title, chunk), *words)
        return
    for position, chunk in enumerate(chunks):
        texts = (title, chunk.path, chunk.text, chunk.pictures, language)
        columns = embedded_index_chunk_columns(title, chunk)
        names = name_words(title, chunk.path, chunk.text, chunk.places, first=not position)
        yield (*texts, *columns, words_vector(*texts, names=names))


#: Chunks by the rank of each word times its weight, for their lengths.
_RANKED: Final = """
SELECT k.no, k.content, k.position, k.hash, {ranks} AS rank
  FROM chunk k {joined} WHERE k.words @@ :any::tsquery {conditions}
 ORDER BY rank DESC, k.hash FETCH FIRST ({most}) ROWS {ties}
"""
#: The same, where some have equal ranks and hashes: they are compared further among the chunks
#: that are returned, and those that are equal to the last of them.
_BEST: Final = """
SELECT b.no, b.content, b.position, c.content_hash FROM ({ranked}
  ) b JOIN content c ON c.no = b.content JOIN source o ON o.no = c.source
 ORDER BY b.rank DESC, b.hash, c.content_hash, o.name, b.position LIMIT :most
"""
_RANK: Final = ":weight_{name} * ts_rank(k.words, :{name}::tsquery, 1)"
_OF_PAGES: Final = "JOIN chunk p ON p.no = k.no JOIN content c ON c.no = k.content"
#: The places of some words alone: they get a weight that no word has.
_PLACES: Final = """
SELECT k.no, k.title, k.headings, k.language, length(k.text) + length(k.pictures), length(k.words),
       ts_filter(setweight(k.words, 'C', ?::text[]{begun}), '{{c}}')::text
  FROM chunk k WHERE k.no IN carray(?)
"""
_BEGUN: Final = """ || ARRAY(
    SELECT word FROM unnest(tsvector_to_array(k.words)) AS word, unnest(?::text[]) AS b
     WHERE starts_with(word, b))"""
_WORD: Final = re.compile(r"'([^']+)':([0-9C,]+)")
#: All chunks as PostgreSQL estimates them; few of them are counted.
_TOTAL: Final = """
SELECT CASE WHEN few.number < 20000 THEN few.number
            ELSE (SELECT greatest(reltuples::bigint, few.number) FROM pg_class
                   WHERE oid = 'chunk'::regclass) END
  FROM (SELECT count(*) AS number
          FROM (SELECT 1 FROM chunk k WHERE 1 = 1 {within} LIMIT 20000) AS n) AS few
"""
#: In how many chunks some keys are, each by itself; few of these are counted.
_HELD_KEYS: Final = """
SELECT w.key, (SELECT count(*) FROM (
           SELECT 1 FROM chunk k WHERE k.words @@ w.words::tsquery {within} LIMIT 200) AS few)
  FROM unnest(:keys::text[], :words::text[]) AS w (key, words)
"""


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
        phrases = (" <-> ".join(map(_operand, keys)) for keys in asked)
        return " | ".join(f"({phrase})" for phrase in phrases)

    def total(self, connection: Connection, value: str, within: str, values: Any) -> int:
        """Return about the number of all chunks."""
        return int(connection.execute(_TOTAL.format(within=within), values).get)

    def best_chunks(self, connection: Connection, asked: ChunksAsked) -> list[ChunkFacts]:
        """Return the chunks that have any of some words, the best first.

        ``ts_rank`` does not know how rare a word is, so that each one has its weight.
        """
        names = [f"rank_{fts5_value_letters(n)}" for n in range(len(asked.words))]
        named = {name: self.value(keys) for name, keys in zip(names, asked.words, strict=True)}
        weights = zip(names, asked.weights, strict=True)
        weighed = {f"weight_{name}": round(weight, 4) for name, weight in weights}
        ranks = [_RANK.format(name=name) for name in names]
        ranked = partial(
            _RANKED.format,
            joined=_OF_PAGES if asked.conditions else "",
            conditions=f"AND {asked.conditions}" if asked.conditions else "",
            ranks=" + ".join(ranks),
        )
        any_ = " | ".join(named.values())
        values = {**named, **weighed, **asked.values, "any": any_, "most": asked.most}
        found: Any = connection.execute(ranked(most=":most + 1", ties="ONLY"), values).fetchall()
        if any(one[3:] == other[3:] for one, other in pairwise(found)):
            statement = _BEST.format(ranked=ranked(most=":most", ties="WITH TIES"))
            return [ChunkFacts(*row) for row in connection.execute(statement, values).fetchall()]
        return [ChunkFacts(no, page, at, page) for no, page, at, *_ in found[: asked.most]]

    def places(
        self, connection: Connection, phrases: Sequence[Keys], chunks: Sequence[int], matching: int
    ) -> dict[int, ChunkPlaces]:
        """Return where some chunks have phrases, out of their stored words."""
        keys = sorted({key for phrase in phrases for key in phrase})
        begun = [key[:-1] for key in keys if key.endswith(ANY_END)]
        asked = [Many(some) for some in (keys, begun, sorted(chunks)) if some]
        statement = _PLACES.format(begun=_BEGUN if begun else "")
        found: dict[int, ChunkPlaces] = {}
        for no, title, headings, language, long, words, places in connection.execute(
            statement, tuple(asked)
        ).fetchall():
            of_title, of_headings = _count(title, language), _count(headings, language)
            at = {
                key: [int(place[:-1]) for place in some.split(",")]
                for key, some in _WORD.findall(places)
            }
            ends = of_title + 1, of_title + of_headings + 2
            # a word of six letters; a pair of letters is a word, too
            length = max(long // LETTERS, words - of_title - of_headings)
            in_fields = [_in_fields(at, phrase, ends) for phrase in phrases]
            found[no] = ChunkPlaces(of_title, length, length, in_fields, headings)
        return found

    def texts(
        self, connection: Connection, keys: Sequence[str], within: str, values: Mapping[str, Any]
    ) -> list[tuple[str, str]]:
        """Return texts of chunks that have any of some keys, with headings and language.

        Each key is looked up by itself: of one query for all of them the index of PostgreSQL looks
        at each key for each chunk that it finds.
        """

        def counted(some: Sequence[str], _: str) -> dict[str, int]:
            words = Many([self.value([(key,)]) for key in some])
            asked = {"keys": Many(list(some)), "words": words, **values}
            rows: Any = connection.execute(_HELD_KEYS.format(within=within), asked)
            return {key: often for key, often in rows.fetchall() if often}

        keys = frequent_index_keys(keys, counted)
        if not keys:
            return []
        statement = TEXTS.format(match=self.match("words"), within=within, most=FEW_TEXTS)
        named = {"words": self.value([(key,) for key in keys]), **values}
        return read_text_rows(connection.execute(statement, named).fetchall())


@lru_cache(10_000)
def _count(text: str, language: str) -> int:
    return len(index_keys(text, language))


def _operand(key: str) -> str:
    return f"'{key[:-1]}':*" if key.endswith(ANY_END) else f"'{key}'"


def _places(at: Mapping[str, Sequence[int]], key: str) -> Sequence[int]:
    if not key.endswith(ANY_END):
        return at.get(key, ())
    begun = [places for known, places in at.items() if known.startswith(key[:-1])]
    return sorted(place for places in begun for place in places)


def _in_fields(
    at: Mapping[str, Sequence[int]], phrase: Keys, ends: tuple[int, int]
) -> tuple[list[int], ...]:
    """Return the places of a phrase in title, headings and text, given those of its words.

    ``ends`` are the places between these.

    >>> _in_fields({"haus": [1, 4], "alt": [3]}, ("alt", "haus"), (2, 2))
    ([], [], [0], [])
    """
    first, *rest = (_places(at, key) for key in phrase)
    found: tuple[list[int], ...] = ([], [], [], [])
    for place in first:
        if all(place + n in some for n, some in enumerate(rest, 1)):
            field = sum(place > end for end in ends)
            found[field].append(place - (0, *ends)[field] - 1)
    return found

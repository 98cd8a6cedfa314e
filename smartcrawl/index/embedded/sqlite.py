"""The embedded index: FTS5 over chunks, in the registry's file and transaction (ADR 1).

FTS5 gets the words as they are made here, and splits them at spaces alone.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from operator import itemgetter
from typing import Any, Final, NamedTuple

from smartcrawl.index.analysis.names import name_words
from smartcrawl.index.analysis.stems import ANY_END, Keys, chunk_words
from smartcrawl.index.embedded.counting import ChunkFacts, ChunkPlaces, ChunksAsked
from smartcrawl.index.embedded.finding import MOST_TEXTS, TEXTS, read_text_rows
from smartcrawl.index.embedded.state import IndexState, KeptRows
from smartcrawl.index.made_chunks import FTS5, MadeChunks
from smartcrawl.model.documents import Chunk
from smartcrawl.registry.chunks import chunk_places_as_text, chunk_places_of_text
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.index_protocols import IndexedText


class ChunkColumns(NamedTuple):
    """Columns of a chunk that are not searched."""

    level: int
    types: str
    repeated: int
    hash: bytes
    places: str  #: JSON (``registry.chunks.chunk_places_as_text``)


def searchable_chunks(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the chunks, or one empty chunk by which the title is found."""
    if isinstance(chunks, AnalyzedChunks) or (isinstance(chunks, MadeChunks) and chunks):
        return chunks
    return list(chunks) or [Chunk((), "")]


def embedded_index_chunk_columns(title: str, chunk: Chunk) -> ChunkColumns:
    """Return the columns of a chunk that are not searched."""
    places = chunk_places_as_text(chunk.places)
    types = ",".join(chunk.types)
    return ChunkColumns(chunk.level, types, chunk.repeated, chunk.digest(title), places)


def stored_name_words(
    title: str, headings: str, text: str, places: str | None, position: int
) -> str:
    """Return the names of a stored chunk; ``places`` None: they are not known yet."""
    known = chunk_places_of_text(places) if places else ()
    return name_words(title, headings, text, known, first=not position)


class AnalyzedChunks(list[Chunk]):
    """The chunks of a text with what is stored of each, made while no transaction is open."""

    __slots__ = ("rows",)

    def __init__(self, chunks: Iterable[Chunk], rows: Sequence[tuple[Any, ...]]) -> None:
        super().__init__(chunks)
        self.rows = rows


class IndexBuffer:
    """Buffers additions and removals (``ports.Sink``) until ``flush``, which subclasses define."""

    is_elsewhere: Final = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._removed: set[int] = set()
        self._added: dict[int, IndexedText] = {}

    def prepare(self, texts: Sequence[IndexedText]) -> Sequence[int]:
        """Write nothing: only one process at a time writes to this database anyway."""
        return ()

    def put(self, content: int, title: str, chunks: Sequence[Chunk], language: str) -> None:
        """Add the chunks of a content row that has none."""
        self._added[content] = IndexedText(title, searchable_chunks(chunks), language)

    def remove(self, content: int) -> None:
        """Remove the chunks of a content row; later additions stay."""
        self._removed.add(content)
        self._added.pop(content, None)

    def moved(self, contents: Iterable[int]) -> None:
        """Do nothing: this index is about contents, whichever pages are their originals."""

    def renamed(self, former: Mapping[int, tuple[str, bytes]]) -> None:
        """Do nothing: ids are those of the records."""

    def taken(self) -> tuple[set[int], dict[int, IndexedText]]:
        """Return the removals and additions since the last call, by content."""
        removed, self._removed = self._removed, set()
        added, self._added = self._added, {}
        return removed, added

    def note_languages(self, texts: Iterable[IndexedText]) -> None:
        """Note the languages of texts that are written, in which a search has to ask.

        Only a new one is written, so that no worker waits for another.
        """
        if found := {text.language for text in texts}:
            known = {code for (code,) in self._connection.execute(_LANGUAGES).fetchall()}
            new = [(language,) for language in sorted(found - known)]
            self._connection.executemany(_LANGUAGE, new)


_LANGUAGES = "SELECT language FROM chunk_language"
_LANGUAGE = "INSERT INTO chunk_language (language) VALUES (?) ON CONFLICT (language) DO NOTHING"
_NEXT = "SELECT coalesce(max(no), 0) + 1 FROM chunk"
_PUT = """
INSERT INTO chunk (no, content, position, title, headings, text, pictures, language,
                   level, types, repeated, hash, places)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PUT_WORDS = """
INSERT INTO chunk_words (rowid, title, headings, text, pictures) VALUES (?, ?, ?, ?, ?)
"""
_HELD = """
SELECT no, content, position, title, headings, text, pictures, language,
       level, types, repeated, hash, places
  FROM chunk WHERE content IN carray(?)
"""
_HELD_TEXTS = "SELECT title, headings, text, pictures, language FROM chunk WHERE content = ?"
_COLUMNS = "UPDATE chunk SET level = ?, types = ?, repeated = ?, hash = ?, places = ? WHERE no = ?"
_MOVE = "UPDATE chunk SET content = ?, position = ? WHERE no = ?"
_REMOVE_WORDS = "DELETE FROM chunk_words WHERE rowid IN carray(?)"
_REMOVE = "DELETE FROM chunk WHERE no IN carray(?)"
_Row = tuple[str, str, str, str, str, str]  #: title, headings, text, pictures, language, names
_Places = dict[tuple[int, int], ChunkColumns]  #: by (content.no, position), of equal rows


class EmbeddedIndex(IndexBuffer):
    """Writes chunks and their words over the registry's connection, in its transaction.

    Changes are buffered until ``flush``, the last step of a batch. FTS5 writes out its own buffer
    whenever another table's statement may have to be rolled back. To do so once a batch instead of
    once a page halves the cost of indexing.
    """

    def analyzed(self, text: IndexedText, former: int | None = None) -> list[Chunk]:
        """Return the chunks of a text with their rows, columns and words.

        Chunks that the ``former`` content of its page has, too, keep their words, and get none.
        """
        title, chunks, language = text
        if not chunks:
            return []
        made = isinstance(chunks, MadeChunks) and chunks.suits(FTS5, title, language)
        if former is None or made:
            return AnalyzedChunks(chunks, list(_rows_with_words(title, chunks, language)))
        held = set(self._connection.execute(_HELD_TEXTS, (former,)).fetchall())
        rows = [
            (row, columns, None if row[:5] in held else chunk_words(*row[:5], names=row[5]))
            for row, columns in _rows(title, chunks, language)
        ]
        return AnalyzedChunks(chunks, rows)

    def flush(self) -> None:
        """Write the additions and removals since the last call.

        A chunk that is removed in one place and added in another keeps its row and its words. So
        only the different chunks of a changed page are written.
        """
        removed, added = self.taken()
        wanted: defaultdict[_Row, _Places] = defaultdict(dict)
        self.note_languages(added.values())
        known: dict[_Row, Sequence[str]] = {}  # words that are made already
        for content, (title, chunks, language) in added.items():
            made: Sequence[Any] | None = None
            if isinstance(chunks, AnalyzedChunks):
                made = chunks.rows
            elif isinstance(chunks, MadeChunks) and chunks.suits(FTS5, title, language):
                made = list(_rows_with_words(title, chunks, language))
            if made is not None:
                rows_of_text = [(row, columns) for row, columns, _ in made]
                known.update((row, words) for row, _, words in made if words is not None)
            else:
                rows_of_text = list(_rows(title, chunks, language))
            for position, (row, columns) in enumerate(rows_of_text):
                wanted[row][content, position] = columns
        dropped = self._keep(removed, wanted) if removed else array("q")
        rows = self._numbered(wanted)
        self._connection.executemany(_PUT, [(*row[:8], *row[9:]) for row in rows])
        if dropped:
            self._connection.execute(_REMOVE_WORDS, (Many(dropped),))
        words = [
            (row[0], *(known.get(row[3:9]) or chunk_words(*row[3:8], names=row[8]))) for row in rows
        ]
        self._connection.executemany(_PUT_WORDS, words)
        if dropped:
            self._connection.execute(_REMOVE, (Many(dropped),))

    def _keep(self, contents: set[int], wanted: Mapping[_Row, _Places]) -> array[int]:
        """Move chunks of some contents to the places where they are wanted; return the others."""
        moved: list[tuple[int, int, int]] = []
        changed: list[tuple[Any, ...]] = []
        dropped: list[int] = []
        held: Any = self._connection.execute(_HELD, (Many(sorted(contents)),))
        for no, content, position, *rest in held:
            names = stored_name_words(rest[0], rest[1], rest[2], rest[-1], position)
            row: _Row = (rest[0], rest[1], rest[2], rest[3], rest[4], names)
            columns, here = rest[5:], (content, position)
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


def _rows(
    title: str, chunks: Sequence[Chunk], language: str
) -> Iterator[tuple[_Row, ChunkColumns]]:
    """Yield what is searched of the chunks of a text, and their other columns."""
    for position, chunk in enumerate(chunks):
        names = name_words(title, chunk.path, chunk.text, chunk.places, first=not position)
        row = (title, chunk.path, chunk.text, chunk.pictures, language, names)
        yield row, embedded_index_chunk_columns(title, chunk)


def _rows_with_words(
    title: str, chunks: Sequence[Chunk], language: str
) -> Iterator[tuple[_Row, ChunkColumns, Sequence[str]]]:
    """Yield the same rows with their words, those that were made already as they are."""
    if isinstance(chunks, MadeChunks) and chunks.suits(FTS5, title, language):
        for chunk, names, words in chunks.made:
            row = (title, chunk.path, chunk.text, chunk.pictures, language, names)
            yield row, embedded_index_chunk_columns(title, chunk), words
        return
    for row, columns in _rows(title, chunks, language):
        yield row, columns, chunk_words(*row[:5], names=row[5])


#: Weights of title, headings, text and pictures in a proposal.
_WEIGHTS: Final = "4.0, 2.0, 1.0, 1.0"
_COUNTED: Final = "index_places"  #: the function that notes where a chunk has words
_ROWS: Final = "index_rows"  #: the function that returns the number of all chunks
_SEEKING: Final = 40_000  #: chunks with a word above which those that are wanted are looked up
_BEST: Final = """
SELECT w.rowid AS no, bm25({table}, {weights}) AS score FROM {table} w {joined}
 WHERE {table} MATCH :any {conditions}
"""
_SPARE: Final = 40  #: chunks that are read beyond those that are asked for, to compare equal ranks
_FEW_MATCHES: Final = 1_000  #: chunks that are read to compare equal ranks, if there are no more
#: All of these are in one index, which is read in a quarter of the time of the rows.
_FACTS: Final = """
SELECT k.no, k.content, k.position, coalesce(k.hash, x'')
  FROM {chunks} b CROSS JOIN chunk k INDEXED BY chunk_facts ON k.no = b.{no}
"""
_ORIGINS: Final = """
SELECT c.no, c.content_hash, o.name FROM content c JOIN source o ON o.no = c.source
 WHERE c.no IN carray(?)
"""
_OF_RANK: Final = "(SELECT no FROM ({best}) WHERE score = :rank LIMIT -1)"
#: The first of those chunks that have one rank, where many have one hash, too.
_ALIKE: Final = """
SELECT k.no, k.content, k.position, coalesce(k.hash, x'')
  FROM (SELECT no FROM ({best}) WHERE score = :rank LIMIT -1) b
 CROSS JOIN chunk k INDEXED BY chunk_facts ON k.no = b.no
 CROSS JOIN content c ON c.no = k.content CROSS JOIN source o ON o.no = c.source
 ORDER BY k.hash, c.content_hash, o.name, k.position LIMIT :most
"""
_HEADINGS: Final = "SELECT no, headings FROM chunk WHERE no IN carray(?)"
_Facts = tuple[int, int, int, bytes]  #: no, content, position and hash of a chunk
_OF_PAGES: Final = "CROSS JOIN chunk p INDEXED BY chunk_facts ON p.no = w.rowid"
_OF_CONTENTS: Final = f"{_OF_PAGES} CROSS JOIN content c ON c.no = p.content"
_NAMES_CONTENT: Final = re.compile(r"\bc\.")  #: in conditions
_ALL: Final = "SELECT count(*) FROM chunk k WHERE 1 = 1"
_TOTAL: Final = f"SELECT {_ROWS}(chunk_words) FROM chunk_words WHERE chunk_words MATCH ? LIMIT 1"
_PLACES: Final = """
SELECT {function}({table}) FROM {table} WHERE {table} MATCH ? AND {sign}rowid IN carray(?)
"""


class Fts5:
    """Matching of words in FTS5 (``finding.IndexLanguage``)."""

    def __init__(self, until: int | None, state: IndexState | None = None) -> None:
        """``until``: the last chunk that has new words; None: all have.

        ``state`` keeps what is read of chunks; None: nothing does.
        """
        self._until = until
        self._state = state or IndexState([], until)

    def match(self, name: str) -> str:
        """Return the chunks ``k`` that match a value, after FROM."""
        return self._match(name)

    def _match(self, name: str, chunks: str = "chunk k") -> str:
        if self._until is None:
            return f"chunk_words w JOIN {chunks} ON k.no = w.rowid WHERE chunk_words MATCH :{name}"
        return f"{self._former(name)} JOIN {chunks} ON k.no = w.no WHERE 1 = 1"

    def _former(self, name: str) -> str:
        """Return the numbers ``w.no`` of chunks that match, also those that wait for new words."""
        return f"""(
            SELECT rowid AS no FROM chunk_words WHERE chunk_words MATCH :{name} UNION ALL
            SELECT rowid FROM chunk_words_former
             WHERE chunk_words_former MATCH :{name} AND rowid > {self._until}) w"""

    def count(self, name: str, within: str = "") -> str:
        """Return the query for the number of chunks that match a value."""
        if within or self._until is not None:
            return f"SELECT count(*) FROM {self.match(name)} {within}"
        return f"SELECT count(*) FROM chunk_words WHERE chunk_words MATCH :{name}"

    def value(self, asked: Sequence[Keys]) -> str:
        """Return the expression that matches a word by any of its keys."""
        return " OR ".join(
            f'"{" ".join(keys)[:-1]}" *' if keys[-1].endswith(ANY_END) else f'"{" ".join(keys)}"'
            for keys in asked
        )

    def total(self, connection: Connection, value: str, within: str, values: Any) -> int:
        """Return the number of all chunks, as FTS5 notes it; of some it counts them."""
        if within or self._until is not None:
            return int(connection.execute(f"{_ALL} {within}", values).get)
        _counting(connection, {})
        return int(connection.execute(_TOTAL, (value,)).get or 0)

    def best_chunks(self, connection: Connection, asked: ChunksAsked) -> list[ChunkFacts]:
        """Return the chunks that have any of some words, the best first by FTS5's own bm25.

        FTS5 knows no hashes: those of the best chunks are read, and of all that have the rank of
        the last one only if these are more than a few.
        """
        few = asked.matching if asked.matching <= _FEW_MATCHES else 0
        limit = max(few, asked.most + _SPARE)
        joined = more = ""
        if asked.conditions:  # "+" keeps SQLite from trying each content of a list for each chunk
            joined = _OF_CONTENTS if _NAMES_CONTENT.search(asked.conditions) else _OF_PAGES
            more = f"AND {asked.conditions.replace('p.content', '+p.content')}"
        best = " UNION ALL ".join(
            _BEST.format(table=table, weights=_WEIGHTS, joined=joined, conditions=f"{more} {until}")
            for table, until in self._tables()
        )
        any_ = self.value([keys for one in asked.words for keys in one])
        named: dict[str, Any] = {"any": any_, "most": limit, **asked.values}
        statement = f"{best} ORDER BY score, no LIMIT :most"
        ranked: Any = connection.execute(statement, named).fetchall()
        equal: list[_Facts] = []
        if len(ranked) > asked.most:
            last = ranked[asked.most - 1][1]
            if ranked[-1][1] == last and len(ranked) == limit and limit != few:
                ranked = [one for one in ranked if one[1] < last]
                equal = self._of_rank(connection, best, named | {"rank": last})
            else:
                ranked = [one for one in ranked if one[1] <= last]
        return self._in_order_of_hashes(connection, dict(ranked), equal, asked.most)

    def _of_rank(self, connection: Connection, best: str, named: Mapping[str, Any]) -> list[_Facts]:
        """Return the first of the chunks that have one rank, which are many."""
        chunks = _OF_RANK.format(best=best)
        statement = f"{_FACTS.format(chunks=chunks, no='no')} ORDER BY k.hash LIMIT :most"
        rows: list[Any] = connection.execute(statement, named).fetchall()
        edge = rows[:-_SPARE]
        if edge and edge[-1][3] == rows[-1][3]:
            rows = connection.execute(_ALIKE.format(best=best), named).fetchall()
        return rows

    def places(
        self, connection: Connection, phrases: Sequence[Keys], chunks: Sequence[int], matching: int
    ) -> dict[int, ChunkPlaces]:
        """Return where some chunks have phrases.

        FTS5 looks through all chunks that have any; of some in very many it looks up each one.
        """
        sizes = self._state.sizes if self._until is None else KeptRows(len(chunks))
        found = _counting(connection, sizes)
        values = self.value(phrases), Many(sorted(chunks))
        sign = "" if matching > _SEEKING else "+"
        for table, limit in self._tables():
            statement = _PLACES.format(function=_COUNTED, table=table, sign=sign)
            connection.execute(f"{statement} {limit.replace('w.', '')}", values).fetchall()
        places = dict(found)
        sizes.keep({no: one[:3] for no, one in found if no not in sizes})
        found.clear()
        above = [no for no, one in places.items() if any(some[1] for some in one.phrases)]
        if above:
            rows: Any = connection.execute(_HEADINGS, (Many(sorted(above)),)).fetchall()
            places |= {no: places[no]._replace(headings=headings) for no, headings in rows}
        return places

    def _tables(self) -> list[tuple[str, str]]:
        """Return the tables of words, with a condition on the chunks that each is asked for."""
        if self._until is None:
            return [("chunk_words", "")]
        former = ("chunk_words_former", f"AND w.rowid > {self._until}")
        return [("chunk_words", ""), former]

    def texts(
        self, connection: Connection, keys: Sequence[str], within: str, values: Mapping[str, Any]
    ) -> list[tuple[str, str]]:
        """Return texts of chunks that have any of some keys, with headings and language."""
        if self._until is None:
            _make_terms(connection)
            keys = frequent_index_keys(
                keys, lambda some, begin: _held_keys(connection, some, begin), are_all=bool(within)
            )
            if not keys:
                return []
        most = MOST_TEXTS if within or self._until is not None else FEW_TEXTS
        match = self._match("words", "chunk k INDEXED BY chunk_facts")
        statement = TEXTS.format(match=match, within=within, most=most)
        value = self.value([(key,) for key in keys])
        return read_text_rows(connection.execute(statement, {"words": value, **values}).fetchall())

    def _in_order_of_hashes(
        self,
        connection: Connection,
        ranks: Mapping[int, float],
        others: Sequence[_Facts],
        most: int,
    ) -> list[ChunkFacts]:
        """Return the facts of the first chunks by their ranks, without those that are gone.

        ``others``: chunks of one lower rank. Contents are compared only where equal hashes have
        equal ranks.
        """
        known = self._facts_of(connection, ranks)
        ranked = [(rank, known[no][3], known[no]) for no, rank in ranks.items() if no in known]
        ranked.sort(key=_rank_and_hash)
        found = [one[2] for one in ranked]
        found += others
        if len({row[3] for row in found}) == len(found):
            return [ChunkFacts(*row[:3], row[1]) for row in found[:most]]
        equal = [
            row[1] for one, other in pairwise(found)
            if one[3] == other[3] and ranks.get(one[0]) == ranks.get(other[0])
            for row in (one, other)
        ]  # fmt: skip
        pages: dict[int, Any] = {}
        if equal:
            origins = {no: rest for no, *rest in connection.execute(
                _ORIGINS, (Many(sorted({*equal})),)
            ).fetchall()}  # fmt: skip
            found.sort(key=lambda row: (
                ranks.get(row[0], inf), row[3], origins.get(row[1], ()), row[2]
            ))  # fmt: skip
            pages = {no: origin[0] for no, origin in origins.items()}
        return [ChunkFacts(*row[:3], pages.get(row[1], row[1])) for row in found[:most]]

    def _facts_of(self, connection: Connection, chunks: Collection[int]) -> Mapping[int, _Facts]:
        """Return the facts of chunks that are there, and perhaps of others."""
        kept = self._state.chunks
        lacking = [no for no in chunks if no not in kept]
        if not lacking:
            return kept
        statement = _FACTS.format(chunks="carray(?)", no="value")
        rows: Any = connection.execute(statement, (Many(lacking),)).fetchall()
        new = {row[0]: row for row in rows}
        known = {no: kept[no] for no in chunks if no in kept} | new
        kept.keep(new)
        return known


_rank_and_hash: Final = itemgetter(0, 1)


class _Counting:
    """The function of a connection that notes where chunks have words, and what it knows."""

    def __init__(self) -> None:
        self.found: list[tuple[int, ChunkPlaces]] = []
        self.sizes: Mapping[int, tuple[int, int, int]] = {}  #: of chunks, those of ``ChunkPlaces``

    def count(self, api: Any) -> None:
        """Note the places of the current chunk of a query."""
        no = api.rowid
        sizes = self.sizes.get(no)
        if sizes is None:
            size = api.column_size
            text = size(2)
            sizes = size(0), text + size(3), text
        places = list(map(api.phrase_locations, range(api.phrase_count)))
        self.found.append((no, ChunkPlaces(*sizes, places)))


def _counting(
    connection: Any, sizes: Mapping[int, tuple[int, int, int]]
) -> list[tuple[int, ChunkPlaces]]:
    """Return the empty list in which the function of a connection notes places.

    ``sizes``: those of chunks that are known. The functions are made at first.
    """
    counting: _Counting | None = connection.counted
    if counting is None:
        counting = connection.counted = _Counting()
        connection.register_fts5_function(_COUNTED, counting.count)
        connection.register_fts5_function(_ROWS, lambda api: api.row_count)
    counting.found.clear()
    counting.sizes = sizes
    return counting.found


def _make_terms(connection: Any) -> None:
    """Give a connection the table of the keys of the index, which is its own and holds nothing."""
    is_reading = connection.pragma("query_only")
    if is_reading:  # which keeps it from tables of its own, too
        connection.pragma("query_only", 0)
    try:
        connection.execute(_TERMS)
    finally:
        if is_reading:
            connection.pragma("query_only", 1)


_TERMS: Final = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.chunk_terms USING fts5vocab (main, chunk_words, row)"
)
_HELD_KEYS: Final = "SELECT term, doc FROM temp.chunk_terms WHERE term >= ? AND term < ?"
_SOME_KEYS: Final = "SELECT term, doc FROM temp.chunk_terms WHERE term IN carray(?)"
_KNOWN: Final = 3  #: letters with which most variants of a word begin
FEW_TEXTS: Final = 20  #: texts of these
_MOST_KEYS: Final = 3  #: keys whose texts are read
_CLEAR: Final = 10  #: chunks of a key that is no misspelling; times as many as of a rare key


def _held_keys(connection: Connection, keys: Sequence[str], begin: str) -> dict[str, int]:
    """Return in how many chunks some keys are, of those that the index has."""
    if begin:
        rows: Any = connection.execute(_HELD_KEYS, (begin, f"{begin}\U0010ffff")).fetchall()
        wanted = set(keys)
        return {key: often for key, often in rows if key in wanted}
    return dict(connection.execute(_SOME_KEYS, (Many(sorted(keys)),)).fetchall())


def frequent_index_keys(
    keys: Iterable[str],
    counted: Callable[[Sequence[str], str], Mapping[str, int]],
    *,
    are_all: bool = False,
) -> list[str]:
    """Return those of some keys that the index has: the most frequent ones, or all.

    ``counted`` returns in how many chunks keys are, of those that are in any; the second value is
    how they all begin, "" if they begin differently. A word is seldom misspelt at its beginning, so
    that other keys are looked up only where those that begin alike are rare. Keys that are rare
    beside the most frequent one may be misspellings themselves, and are left out.
    """
    wanted = sorted(set(keys))
    begins = Counter(key[:_KNOWN] for key in wanted if len(key) > _KNOWN)
    begin = max(begins, key=lambda one: (begins[one], one), default="")
    alike = [key for key in wanted if begin and key.startswith(begin)]
    found = dict(counted(alike, begin)) if alike else {}
    if are_all or max(found.values(), default=0) < _CLEAR:
        others = [key for key in wanted if not begin or not key.startswith(begin)]
        found |= counted(others, "")
    if are_all:
        return sorted(found)
    best = sorted(found, key=lambda key: (-found[key], key))[:_MOST_KEYS]
    return sorted(key for key in best if found[key] * _CLEAR > found[best[0]])

"""Searches of the embedded index, in the SQL that both databases share (ADR 48).

The database proposes chunks by its own rank, and gives the places of the words in the best of them;
only the texts of the hits that are shown are read (ADR 161). ``searching`` has the steps.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from smartcrawl.index.analysis.marking import Marks
from smartcrawl.index.analysis.stems import (
    Keys,
    asked_keys_of_languages,
    index_keys,
    index_words,
    keys_of_words,
)
from smartcrawl.index.embedded.counting import (
    WIDE,
    WINDOW,
    AddressWords,
    AskedPhrases,
    ChunkFacts,
    ChunkPlaces,
    ChunksAsked,
    CountedAs,
    Window,
    counted_page,
    terms_of_counts,
    window_of_chunks,
)
from smartcrawl.index.embedded.facets import count_embedded_pages
from smartcrawl.index.embedded.latest import latest_embedded_pages
from smartcrawl.index.embedded.state import IndexState
from smartcrawl.index.embedded.vectors import index_halfvec_text
from smartcrawl.index.facets import Counted
from smartcrawl.index.filters import SearchFilters, search_query_filters
from smartcrawl.index.queries import (
    Query,
    Term,
    search_query_place,
    search_query_site,
    search_signs_after,
)
from smartcrawl.index.ranking import (
    LETTERS,
    MOST_PARTS,
    MOST_SHOWN,
    PAGES,
    POOL,
    NearPage,
    ProposedPage,
    Ranked,
    RankedPart,
    VectorQuery,
    first_with_exactness,
    name_gains,
    parts_to_show,
    search_term_weight,
)
from smartcrawl.index.searching import (
    MOST_PROPOSED,
    FoundPage,
    Hit,
    HitChunk,
    Proposed,
    QueryMarker,
    embedded_document_id,
    is_lost_hit,
    proposing_search_terms,
)
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.page_types import BEGINNINGS, ENDINGS, NAMED, OTHER
from smartcrawl.model.program import extra_installation
from smartcrawl.model.urls import shown_title
from smartcrawl.registry.chunks import chunk_places_of_text, vector_table
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.visibility import Readable

NO_CONDITION: Final = "1 = 1"
_IN_SOURCES = "c.source {negation} IN (SELECT no FROM source WHERE name IN carray(:{name}))"
#: Contents ``v`` that count for somebody who may not read every source.
_READABLE: Final = "v.source IN (SELECT no FROM source WHERE name IN carray(:readable))"
#: The same of chunks ``k``.
_CHUNK_IS_READABLE: Final = (
    f"AND EXISTS (SELECT 1 FROM content v WHERE v.no = k.content AND {_READABLE})"
)
_CHUNK_IN_SOURCES: Final = """
 AND EXISTS (SELECT 1 FROM content v JOIN source o ON o.no = v.source
              WHERE v.no = k.content AND o.name IN carray(:wanted))
"""
_HAVING = "p.content {negation} IN (SELECT k.content FROM {match})"
_IN_LANGUAGES = "{negation} c.language IN carray(:{name})"
#: The content has a record that meets conditions.
_OF_RECORD = """EXISTS (
    SELECT 1 FROM record r WHERE r.content = c.no AND r.entry > 0 AND {conditions})"""
_DATE = "coalesce(c.published, r.last_changed)"
#: The media type of a record ``r``: as a file was read, or as a server names it.
RECORD_MEDIA: Final = {
    dialect: base.format("coalesce(r.media, r.content_type, '')")
    for dialect, base in (
        ("sqlite", "lower(trim(substr({0}, 1, instr({0} || ';', ';') - 1)))"),
        ("postgres", "lower(trim(split_part({0}, ';', 1)))"),
    )
}
#: Contents of records at some sites.
_OF_SITES = """
SELECT r.content FROM record r JOIN host h ON h.no = r.host
 WHERE r.content IS NOT NULL AND r.entry > 0 AND ({sites})
"""
_MOST_OF_SITES: Final = 10_000  #: contents that are kept of some sites
_SITE = """((h.name = :{host} OR h.name LIKE :{below} ESCAPE '!' OR h.name LIKE :{ports} ESCAPE '!')
            AND ({ends}))"""
#: An address that ends with a path, or goes on with one of the signs that may follow.
_PATH = "r.url LIKE '%://' || h.name || :{path} || '{rest}' ESCAPE '!'"
_PLACE = "(r.url = :{place} OR substr(r.url, 1, :{size}) = :{start})"
_LIKE_SIGNS: Final = re.compile("[!%_]")


#: Returns the contents that a query with values finds; None: the database looks them up.
AtSites = Callable[[str, Mapping[str, Any]], Sequence[int] | None]


class IndexLanguage(Protocol):
    """Matching of words in a database."""

    def match(self, name: str) -> str:
        """Return the chunks ``k`` that match a value, after FROM."""

    def count(self, name: str, within: str = "") -> str:
        """Return the query for the number of chunks that match a value, or a lower bound of it.

        ``within``: further conditions on the chunks, after AND.
        """

    def value(self, asked: Sequence[Keys]) -> str:
        """Return the value that matches a word, or words that stay together, by any of its keys."""

    def total(self, connection: Connection, value: str, within: str, values: Any) -> int:
        """Return the number of all chunks, given what matches some; 0: none does."""

    def best_chunks(self, connection: Connection, asked: ChunksAsked) -> list[ChunkFacts]:
        """Return the chunks that are asked for, the best first."""

    def places(
        self, connection: Connection, phrases: Sequence[Keys], chunks: Sequence[int], matching: int
    ) -> dict[int, ChunkPlaces]:
        """Return where some chunks have phrases; ``matching`` is how many chunks have any."""

    def texts(
        self, connection: Connection, keys: Sequence[str], within: str, values: Mapping[str, Any]
    ) -> list[tuple[str, str]]:
        """Return texts of chunks that have any of some keys, with headings and language.

        They are of the most frequent keys, and in the order of their hashes: the same whichever
        page came first. ``within``: further conditions on the chunks, after AND, with their values.
        """


def search_conditions(
    query: Query,
    language: IndexLanguage,
    sources: Sequence[str],
    value: Callable[[str], str],
    readable: Readable = None,
    *,
    dialect: str,
    at_sites: AtSites = lambda *_: None,
) -> tuple[str, dict[str, Any]]:
    """Return the conditions that contents ``c`` and ``p.content`` must meet, and their values.

    Without any they are ``NO_CONDITION``. ``sources`` empty means all, and so does ``readable``
    None: those that the caller may read. ``value`` returns what matches a text. ``at_sites``:
    knows the contents of sites.

    Raises:
        SearchQueryError: a filter of the query has a value that means nothing.
    """
    conditions: list[str] = []
    values: dict[str, Any] = {}
    if readable is not None:
        conditions.append(_IN_SOURCES.format(negation="", name="readable"))
        values["readable"] = Many(list(readable))
    for negation, names in (("", sources), ("NOT", query.excluded_sources)):
        if names:
            name = f"{negation.lower() or 'in'}_sources"
            conditions.append(_IN_SOURCES.format(negation=negation, name=name))
            values[name] = Many(list(names))
    if query.language:
        conditions.append("c.language = :content_language")
        values["content_language"] = query.language
    if query.pages is not None:
        conditions.append("c.no IN carray(:only_contents)")
        values["only_contents"] = Many(sorted(query.pages))
    filters = search_query_filters(query)
    for negation, codes in (("", filters.languages), ("NOT", filters.excluded_languages)):
        if codes:
            name = f"{negation.lower() or 'of'}_languages"
            conditions.append(_IN_LANGUAGES.format(negation=negation, name=name))
            values[name] = Many(list(codes))
    of_records, more = _filter_conditions(filters, dialect)
    if of_records:
        conditions.append(_OF_RECORD.format(conditions=of_records))
        values |= more
    sites, of_sites = _at_sites_condition(query, at_sites)
    conditions += sites
    values |= of_sites
    for negation, texts in (("", query.required), ("NOT", query.excluded)):
        for place, text in enumerate(texts):
            name = f"{negation.lower() or 'with'}_{fts5_value_letters(place)}"
            values[name] = value(text)
            match = language.match(name)
            conditions.append(_HAVING.format(negation=negation, match=match))
    return " AND ".join(conditions) or NO_CONDITION, values


def _at_sites_condition(query: Query, at_sites: AtSites) -> tuple[list[str], dict[str, Any]]:
    """Return the condition that contents meet by the sites of a query, if it has any."""
    sites, values = _site_conditions(query)
    if not sites:
        return [], {}
    statement = _OF_SITES.format(sites=sites)
    known = at_sites(statement, values)
    if known is None:
        return [f"p.content IN ({statement})"], values
    return ["p.content IN carray(:at_sites)"], {"at_sites": Many(known)}


def record_conditions(query: Query, dialect: str) -> tuple[str, dict[str, Any]]:
    """Return a condition on ``r``, ``h`` and ``c`` for the filters of a query that records meet.

    They are sites, types and dates. The second part has its values.
    """
    sites, values = _site_conditions(query)
    filters, more = _filter_conditions(search_query_filters(query), dialect)
    return " AND ".join(filter(None, (sites, filters))) or NO_CONDITION, values | more


def _filter_conditions(filters: SearchFilters, dialect: str) -> tuple[str, dict[str, Any]]:
    """Return a condition on ``r`` and ``c`` for types and dates, and its values."""
    conditions: list[str] = []
    values: dict[str, Any] = {}
    for negation, types in (("", filters.types), ("NOT ", filters.excluded_types)):
        if types:
            each = [_type_condition(word, RECORD_MEDIA[dialect]) for word in types]
            conditions.append(f"{negation}({' OR '.join(each)})")
    for sign, name, second in ((">=", "since", filters.since), ("<", "until", filters.until)):
        if second is not None:
            conditions.append(f"{_DATE} {sign} :{name}")
            values[name] = second
    return " AND ".join(conditions), values


def _type_condition(word: str, media: str) -> str:
    """Return the condition of one of ``page_types``; its texts are our own."""
    if word == OTHER:
        return " AND ".join(f"NOT ({_type_condition(one, media)})" for one in NAMED if one != word)
    named = ", ".join(f"'{name}'" for name in NAMED[word])
    found = f"{media} IN ({named})"
    like = f"{BEGINNINGS[word]}%" if word in BEGINNINGS else ""
    like = like or (f"%{ENDINGS[word]}" if word in ENDINGS else "")
    if not like:
        return found
    every = ", ".join(f"'{name}'" for names in NAMED.values() for name in names)
    return f"{found} OR {media} LIKE '{like}' AND {media} NOT IN ({every})"


def _site_conditions(query: Query) -> tuple[str, dict[str, Any]]:
    """Return a condition on ``r`` and ``h`` for the sites of a query, and its values."""
    conditions: list[str] = []
    values: dict[str, Any] = {}
    for negation, sites in (("", query.sites), ("NOT ", query.excluded_sites)):
        each: list[str] = []
        for site in sites:
            condition, given = _site_condition(site, fts5_value_letters(len(values)))
            each.append(condition)
            values |= given
        if each:
            conditions.append(f"{negation}({' OR '.join(each)})")
    return " AND ".join(conditions), values


def _site_condition(site: str, name: str) -> tuple[str, dict[str, Any]]:
    """Return the condition of one site, and its values; ``name`` ends their names."""
    place = search_query_place(site)
    if place is not None:
        names = {part: f"{part}_{name}" for part in ("place", "size", "start")}
        given: tuple[Any, ...] = (place, len(place) + 1, f"{place}/")
        return _PLACE.format(**names), dict(zip(names.values(), given, strict=True))
    host, path = search_query_site(site)
    names = {part: f"{part}_{name}" for part in ("host", "below", "ports", "path")}
    rests = ("", *(f"{sign}%" for sign in search_signs_after(path))) if path else ("%",)
    ends = " OR ".join(_PATH.format(path=names["path"], rest=rest) for rest in rests)
    below, start = _LIKE_SIGNS.sub(r"!\g<0>", host), _LIKE_SIGNS.sub(r"!\g<0>", path)
    given = (host, f"%.{below}", below if ":" in host else f"{below}:%", start)
    return _SITE.format(ends=ends, **names), dict(zip(names.values(), given, strict=True))


def fts5_value_letters(place: int) -> str:
    """Return a number in letters, for the name of a value.

    >>> fts5_value_letters(0), fts5_value_letters(27)
    ('a', 'bb')
    """
    return chr(ord("a") + place % 26) * (1 + place // 26)


#: Distances are those of vectors of length 1: their squares are 2 - 2 cos.
_NEAR = """
WITH near AS MATERIALIZED (
    SELECT v.hash, {distance} AS distance FROM {table} v
     WHERE v.embedder = :embedder AND v.vector IS NOT NULL {filter}
     ORDER BY distance LIMIT :most
)
"""
_OF_NEAR = """
  FROM near n JOIN chunk k ON k.hash = n.hash
  JOIN content c ON c.no = k.content JOIN content p ON p.no = k.content
 WHERE {conditions}
"""
#: In SQLite the chunk is that of the least distance.
_PAGES: Final = {
    "sqlite": "SELECT k.content, min(n.distance), k.no"
    + _OF_NEAR
    + "GROUP BY k.content ORDER BY 2, c.content_hash, c.source LIMIT :pool",
    "postgres": "SELECT content, distance, no FROM (SELECT DISTINCT ON (k.content)"
    + " k.content, n.distance, k.no, c.content_hash, c.source"
    + _OF_NEAR
    + "ORDER BY k.content, n.distance, k.position) AS best"
    + " ORDER BY distance, content_hash, source LIMIT :pool",
}
_CHUNKS = """
SELECT content, no, headings, text, position, pictures FROM (
    SELECT k.content, k.no, k.headings, k.text, k.position, k.pictures,
           row_number() OVER (PARTITION BY k.content ORDER BY {distance}, k.position) AS place
      FROM chunk k JOIN {table} v ON v.hash = k.hash
     WHERE k.content IN carray(:contents) AND v.embedder = :embedder AND v.vector IS NOT NULL
) AS near WHERE place <= :most ORDER BY content, place
"""
_FILTER = """
AND EXISTS (SELECT 1 FROM chunk k JOIN content c ON c.no = k.content
              JOIN chunk p ON p.no = k.no WHERE k.hash = v.hash AND {conditions})
"""
_SIZE = "SELECT count(*) FROM {table} WHERE embedder = ?"
_IS_MANY = """
SELECT count(*) FROM (SELECT 1 FROM chunk_vector WHERE embedder = ? LIMIT ?) AS few
"""
_EXACT = {
    "sqlite": "vec_distance_L2(v.vector, :vector)",
    "postgres": "v.vector <-> :vector::halfvec",
}
#: The expression of the index of an embedder; that of _EXACT is of none.
_BY_INDEX = "v.vector::halfvec({dimension}) <-> :vector::halfvec({dimension})"
#: The index is read on until the filter lets enough through. It gives vectors nearly in order.
_ITERATE = """
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', false),
       set_config('hnsw.ef_search', ?, false)
"""
_MOST_EXACT: Final = 10_000  #: vectors that PostgreSQL compares one by one
_MOST_SEARCHED: Final = 1_000  #: most that hnsw.ef_search takes
_PER_PAGE: Final = 10  #: chunks that are looked at for each page that is wanted, at first
_MORE: Final = 8  #: times as many are looked at next


def nearest_pages(
    connection: Connection,
    near: VectorQuery,
    *,
    conditions: str,
    values: dict[str, Any],
    pool: int,
) -> list[NearPage]:
    """Return at most ``pool`` contents with a chunk near a query, the nearest first.

    ``conditions`` on the content ``c`` and on ``p.content``, with their values. Among many vectors
    in PostgreSQL the index finds nearly all of the nearest; where it finds too few, and elsewhere,
    the query is compared with every vector.

    Raises:
        SettingError: the package with the functions for vectors is missing.
    """
    names = values | {"embedder": near.embedder, "vector": near.vector, "pool": pool}
    most = pool * _PER_PAGE
    if connection.dialect == "postgres":
        names["vector"] = index_halfvec_text(near.vector)
        if connection.execute(_IS_MANY, (near.embedder, _MOST_EXACT + 1)).get > _MOST_EXACT:
            distance = _BY_INDEX.format(dimension=len(near.vector) // 4)
            names["embedder"] = near.embedder
            connection.execute(_ITERATE, (str(min(most, _MOST_SEARCHED)),))
            statement = _statement(connection, distance, conditions)
            rows = connection.execute(statement, names | {"most": most}).fetchall()
            if len(rows) == pool:
                return [NearPage(*row) for row in rows]
    else:
        load_embedded_index_functions(connection)
    statement = _statement(connection, _EXACT[connection.dialect], conditions)
    size = _SIZE.format(table=vector_table(connection))
    while True:
        rows = connection.execute(statement, names | {"most": most}).fetchall()
        if len(rows) == pool or most > connection.execute(size, (near.embedder,)).get:
            return [NearPage(*row) for row in rows]
        most *= _MORE  # a page with many near chunks hides others


def nearest_chunks(
    connection: Connection, near: VectorQuery, contents: Sequence[int], most: int
) -> dict[int, list[RankedPart]]:
    """Return at most ``most`` chunks of each of some contents, those nearest to a query first.

    Raises:
        SettingError: the package with the functions for vectors is missing.
    """
    vector: object = near.vector
    if connection.dialect == "postgres":
        vector = index_halfvec_text(near.vector)
    else:
        load_embedded_index_functions(connection)
    statement = _CHUNKS.format(distance=_EXACT[connection.dialect], table=vector_table(connection))
    names = {
        "embedder": near.embedder,
        "vector": vector,
        "contents": Many(sorted(set(contents))),
        "most": most,
    }
    found: defaultdict[int, list[RankedPart]] = defaultdict(list)
    for content, *facts in connection.execute(statement, names).fetchall():
        found[content].append(RankedPart(*facts))
    return found


def _statement(connection: Connection, distance: str, conditions: str) -> str:
    is_limited = conditions != NO_CONDITION
    near = _NEAR.format(
        distance=distance,
        table=vector_table(connection),
        filter=_FILTER.format(conditions=conditions) if is_limited else "",
    )
    of_pages = conditions.replace("p.content", "k.content")
    return near + _PAGES[connection.dialect].format(conditions=of_pages)


def load_embedded_index_functions(connection: Any) -> None:
    """Load the functions of sqlite-vec into a connection, once.

    Raises:
        SettingError: the package is missing.
    """
    if connection.has_vectors:
        return
    try:
        import sqlite_vec  # noqa: PLC0415  # of the extras vectors and openai
    except ImportError as error:
        raise SettingError(
            f"vectors need the package sqlite-vec: run {extra_installation('vectors')}"
        ) from error
    connection.enable_load_extension(True)
    try:
        connection.load_extension(sqlite_vec.loadable_path())
    finally:
        connection.enable_load_extension(False)
    connection.has_vectors = True


def parts_of_hits(
    connection: Connection, best: Sequence[Ranked], near: VectorQuery | None
) -> list[list[RankedPart]]:
    """Return the parts to show of each of some pages, best first, by one query for all.

    First the part of the ranking, then those with words of the query and those near to it, joined
    by their ranks. ``near`` None: only words count.
    """
    nearest = {}
    if near is not None:
        contents = [one.page.key for one in best]
        nearest = nearest_chunks(connection, near, contents, MOST_SHOWN)
    return [parts_to_show(one, nearest.get(one.page.key, ())) for one in best]


_PARTS = """
SELECT content, no, headings, text, position, pictures FROM chunk
 WHERE content IN carray(:contents) AND position < :most ORDER BY content, position
"""
_SOME = """
SELECT no, headings, text, position, pictures, places FROM chunk WHERE no IN carray(?)
"""
_Parts = dict[int, list[RankedPart]]


def first_parts(connection: Connection, contents: Many) -> _Parts:
    """Return the first chunks of some contents with their texts, in order."""
    values = {"contents": contents, "most": MOST_PARTS}
    return _parts(connection.execute(_PARTS, values).fetchall())


def _parts(rows: Sequence[Sequence[Any]]) -> _Parts:
    found: defaultdict[int, list[RankedPart]] = defaultdict(list)
    for content, *facts in rows:
        found[int(content)].append(RankedPart(*facts))
    return found


_CHUNK_COUNT = "SELECT {place}, ({count})"
_RECORDS = """
SELECT c.no, r.url, o.name, c.title, c.language, c.description, s.status, s.lost_count,
       s.last_checked, r.last_changed, r.no, r.id, c.published, c.author, c.text_length
  FROM content c
  JOIN record r ON r.content = c.no AND r.entry > 0
  JOIN state s ON s.no = r.no
  JOIN source o ON o.no = r.source
  JOIN host h ON h.no = r.host
 WHERE c.no IN carray({contents}) {conditions}
 ORDER BY length(r.url), r.url
"""
MOST_TEXTS: Final = 60  #: texts that are read to correct the words of a query
#: Texts of chunks ``k``, in the order of what is in them.
TEXTS: Final = """
SELECT t.title, t.headings, t.text, t.pictures, t.language
  FROM (SELECT k.no, k.hash FROM {match} {within} ORDER BY k.hash LIMIT {most}) AS b
  JOIN chunk t ON t.no = b.no
 ORDER BY b.hash
"""


_Rows = Sequence[Sequence[Any]]
_NO_ROWS: Final[_Rows] = ()


def _rows_by_content(rows: Iterable[Sequence[Any]]) -> dict[int, _Rows]:
    """Return rows without their first column, the number of their content, by it."""
    found: dict[int, list[Sequence[Any]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row[1:])
    return dict(found)


class IndexTables:
    """One search in one database."""

    def __init__(
        self,
        connection: Connection,
        language: IndexLanguage,
        sources: Sequence[str],
        *,
        state: IndexState,
        readable: Readable = None,
    ) -> None:
        """``sources`` empty means all; of sources that are not ``readable`` nothing counts."""
        self._connection = connection
        self._language = language
        self._sources = list(sources)
        self._readable = readable
        self._within, self._values = "", dict[str, Any]()
        if readable is not None:
            self._within, self._values = _CHUNK_IS_READABLE, {"readable": Many(list(readable))}
        self._readers = None if readable is None else tuple(readable)
        self._records: dict[int, _Rows] = {}
        self._state = state
        self._languages = state.languages
        self._former = state.until is not None  # some chunks have the words of a former version
        self._read: dict[int, RankedPart] = {}  # chunks with their texts
        self._first = POOL
        self._gains: Mapping[Keys, float] = {}  # of the names of the query

    def _value(self, text: str) -> str:
        """Return what matches a word, or words that stay together."""
        return self._language.value(self._keys(text))

    def _keys(self, text: str) -> tuple[Keys, ...]:
        keys = asked_keys_of_languages(text, self._languages)
        return keys + former_keys(text) if self._former else keys

    def bounded(self, query: Query) -> Query:
        """Return a query as it is: its words are few enough."""
        return query

    def proposed(self, query: Query, pool: int, least: int) -> Proposed:
        """Return the contents that have any of the words, and all that they must have.

        Of their words only those in the best chunks are counted later.
        """
        values = [self._value(term.text) for term in query.terms]
        names = [(key,) for name in query.names for key in name.keys]
        asked = [*values, *(self._language.value([key]) for key in names)]
        every = self._numbers(asked)
        counts, of_names = every[: len(values)], every[len(values) :]
        total = self._total(max(zip(every, asked, strict=True))[1]) if any(every) else 0
        places = proposing_search_terms(counts)
        phrases = self._phrases(query.terms)
        words = [phrases.of_terms[place] for place in places]
        weights = [search_term_weight(counts[place], total) for place in places]
        by_text = {
            term.text: search_term_weight(count, total)
            for term, count in zip(query.terms, counts, strict=True)
        }
        gains = name_gains(query.names, of_names, total, by_text)
        self._gains = {(key,): gain for key, gain in gains.items()}
        words += [(key,) for key in self._gains]
        weights += self._gains.values()
        conditions, given = self._conditions(query)

        def best(most: int, *, are_all: bool) -> Window:
            asked = ChunksAsked(words, weights, conditions, given, most, sum(every))
            chunks = self._language.best_chunks(self._connection, asked)
            return window_of_chunks(chunks, more=len(chunks) >= most, are_all=are_all)

        is_wide = pool > POOL or least > PAGES
        most = WIDE if is_wide else WINDOW
        window = best(most, are_all=is_wide)
        while window.is_short and most < WIDE:  # several sources have the same pages
            most = min(2 * most, WIDE)
            window = best(most, are_all=False)
        if window.more and not is_wide and window.different < least:
            window = best(WIDE, are_all=True)
        found = dict(list(window.chunks.items())[:MOST_PROPOSED])
        more = window.more or len(found) < len(window.chunks)
        return Proposed(found, counts, total, window.first, more)

    def _phrases(self, terms: Sequence[Term]) -> AskedPhrases:
        former = [former_keys(term.text) for term in terms] if self._former else ()
        return AskedPhrases(terms, self._languages, former, self._gains)

    def _conditions(self, query: Query) -> tuple[str, dict[str, Any]]:
        """Return the conditions of a query on contents, empty for none, and their values."""
        if len(query.terms) == 1:  # all that is proposed has it
            query = replace(query, required=())
        found, values = self._all_conditions(query)
        return "" if found == NO_CONDITION else found, values

    def _all_conditions(self, query: Query) -> tuple[str, dict[str, Any]]:
        return search_conditions(
            query, self._language, self._sources, self._value, self._readable,
            dialect=self._connection.dialect, at_sites=self._contents_at_sites,
        )  # fmt: skip

    def _contents_at_sites(self, statement: str, values: Mapping[str, Any]) -> Sequence[int] | None:
        """Return the contents that a statement finds, which are kept; None: they are too many."""
        kept, key = self._state.sites, (statement, *values.values())
        if key not in kept:
            most = f"SELECT DISTINCT content FROM ({statement}) AS s LIMIT {_MOST_OF_SITES + 1}"
            rows: Any = self._connection.execute(most, values).fetchall()
            numbers = sorted(no for (no,) in rows)
            kept.keep({key: numbers if len(numbers) <= _MOST_OF_SITES else None})
        found: Sequence[int] | None = kept[key]
        return found

    def _total(self, value: str) -> int:
        """Return the number of all chunks that count."""
        known = self._state.number(self._readers)
        if known is None:
            within = self._within, self._values
            known = self._language.total(self._connection, value, *within)
            self._state.keep(self._readers, known)
        return known

    def facet_counts(self, query: Query, facets: Collection[str]) -> Counted:
        """Count the pages that have any of the words and meet the filters (``index.facets``)."""
        conditions, values = self._all_conditions(query)
        of_records, more = record_conditions(query, self._connection.dialect)
        words = {"any_word": self._language.value([
            keys for term in query.terms for keys in self._keys(term.text)
        ])}  # fmt: skip
        return count_embedded_pages(
            self._connection, facets, words | values | more | self._values,
            match=self._language.match("any_word"), within=self._within, conditions=conditions,
            of_records=of_records,
        )  # fmt: skip

    def latest(self, query: Query, few: float, most: int) -> list[tuple[Any, Any]]:
        """Return addresses and contents of pages that have any of the words, the latest first."""
        conditions, values = self._all_conditions(query)
        of_records, more = record_conditions(query, self._connection.dialect)
        names = [f"word_{fts5_value_letters(n)}" for n in range(len(query.terms))]
        words = [self._value(term.text) for term in query.terms]
        return latest_embedded_pages(
            self._connection, [self._language.match(name) for name in names],
            dict(zip(names, words, strict=True)) | values | more | self._values,
            few=few, most=most, within=self._within, conditions=conditions, of_records=of_records,
        )  # fmt: skip

    def counted(self, terms: Sequence[Term]) -> list[int]:
        """Return how many chunks have each word."""
        return self._numbers([self._value(term.text) for term in terms])

    def _numbers(self, values: Sequence[str]) -> list[int]:
        """Return how many chunks match each of some values."""
        known = [self._state.number((value, self._readers)) for value in values]
        unknown = [place for place, number in enumerate(known) if number is None]
        if unknown:
            names = {place: f"word_{fts5_value_letters(n)}" for n, place in enumerate(unknown)}
            counts = [
                _CHUNK_COUNT.format(place=place, count=self._language.count(name, self._within))
                for place, name in names.items()
            ]
            asked = {name: values[place] for place, name in names.items()} | self._values
            statement = " UNION ALL ".join(counts)
            for place, count in self._connection.execute(statement, asked).fetchall():
                known[place] = count
                self._state.keep((values[place], self._readers), count)
        return [number or 0 for number in known]

    def texts(self, forms: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return texts of the index that have some of these words, with their languages."""
        within, values = self._within, dict(self._values)
        if self._sources:
            within += _CHUNK_IN_SOURCES
            values["wanted"] = Many(self._sources)
        keys = {key for language in self._languages for key in keys_of_words(forms, language)}
        if self._former:
            keys |= {key for some in former_keys(" ".join(forms)) for key in some}
        return self._language.texts(self._connection, sorted(keys), within, values)

    def nearest_pages(self, query: Query, near: VectorQuery, pool: int) -> list[NearPage]:
        """Return contents that are near to a query in meaning, and all that they must have."""
        conditions, values = self._all_conditions(query)
        return nearest_pages(
            self._connection, near, conditions=conditions, values=values, pool=pool
        )

    def pages(
        self, query: Query, found: Proposed, near: Sequence[NearPage], places: Mapping[int, int]
    ) -> dict[int, ProposedPage]:
        """Return proposed and near contents that have a record, by their numbers.

        Words with signs are not in the index: of a query that has some, texts are read.
        """
        self._first = found.first
        contents = sorted({*found.found, *(page.content for page in near)})
        if not contents:
            return {}
        self._records = self._records_of(query, contents)
        terms = [query.terms[place] for place in places]
        phrases = self._phrases(terms)
        chunks = [chunk.no for some in found.found.values() for chunk in some]
        known: Mapping[int, ChunkPlaces] = {}
        if chunks and phrases.phrases:
            known = self._language.places(
                self._connection, phrases.phrases, chunks, sum(found.pages)
            )
        texts = None
        if any(term.signed for term in query.terms):
            texts = first_parts(self._connection, Many(contents))
        addresses = AddressWords(terms)
        pages = {}
        for content, rows in self._records.items():
            url, title, language, length = rows[0][0], rows[0][2], rows[0][3], rows[0][13]
            parts: Sequence[RankedPart] = [] if texts is None else texts.get(content, [])
            matched, counts = frozenset[int](), None
            if (some := found.found.get(content)) is not None:
                of_address = addresses.terms(url, language)
                known_as = CountedAs(of_address, length // LETTERS, len(terms), phrases.gains)
                of_phrases = phrases.terms_of_language(language)
                counted, counts = counted_page(some, known, of_phrases, known_as)
                if texts is None:
                    parts = counted
                else:
                    matched, counts = terms_of_counts(counts), None
            pages[content] = ProposedPage(
                content, url, title, parts, matched, language, counts, source=rows[0][1]
            )
        return pages

    def _records_of(self, query: Query, contents: Sequence[int]) -> dict[int, _Rows]:
        conditions, values = record_conditions(query, self._connection.dialect)
        if conditions != NO_CONDITION:
            statement = _RECORDS.format(contents=":contents", conditions=f"AND ({conditions})")
            rows = self._connection.execute(
                statement, values | {"contents": Many(contents)}
            ).fetchall()
            return _rows_by_content(rows)
        kept = self._state.records
        known = {content: kept.get(content) for content in contents}
        lacking = [content for content, some in known.items() if some is None]
        if lacking:  # values without names stay apart from the text of a statement
            statement = _RECORDS.format(contents="?", conditions="")
            rows = self._connection.execute(statement, (Many(lacking),)).fetchall()
            new = dict.fromkeys(lacking, _NO_ROWS) | _rows_by_content(rows)
            kept.keep(new)
            known |= new
        return {content: some for content, some in known.items() if some}

    def with_best_parts(
        self, ranked: list[Ranked], words: tuple[Sequence[Term], Sequence[float]]
    ) -> list[Ranked]:
        """Return rated pages; the first ones with the texts of their best chunks."""
        if any(one.page.counts for one in ranked):
            return first_with_exactness(ranked, *words, first=self._first, texts=self._with_texts)
        return ranked

    def _with_texts(self, ranked: Sequence[Ranked]) -> list[Ranked]:
        """Return pages with the texts of their best chunks."""
        parts = [part for one in ranked if one.part for part in (one.part, *one.others)]
        wanted = {part.key for part in parts if not part.text} - self._read.keys()
        if wanted:
            rows = self._connection.execute(_SOME, (Many(sorted(wanted)),)).fetchall()
            known = {part.key: part for part in parts}
            for no, headings, text, number, pictures, anchors in rows:
                part = known[no]  # "_replace" takes four times as long
                self._read[no] = RankedPart(
                    no, headings, text, number, pictures, part.places, anchors, part.has_above
                )
        return [
            one
            if one.part is None
            else one._replace(
                part=self._read.get(one.part.key, one.part),
                others=[self._read.get(part.key, part) for part in one.others],
            )
            for one in ranked
        ]

    def records(self, key: int) -> list[tuple[bytes, Sequence[Any]]]:
        """Return the record of a content in every source, each with the id of its address."""
        return [(bytes(row[10]), row) for row in self._records[key]]

    def shown(
        self,
        best: Sequence[FoundPage],
        terms: Sequence[Term],
        marks: Marks,
        near: VectorQuery | None,
    ) -> list[Hit]:
        """Return hits with their chunks; ``near``: the meaning of the query, where it counts."""
        if not best:
            return []
        ranked = self._with_texts([one.ranked for one in best])
        parts = parts_of_hits(self._connection, ranked, near)
        marker = QueryMarker(terms, marks)
        return [
            _hit(one, rows, some, marker) for (one, rows), some in zip(best, parts, strict=True)
        ]


def _hit(one: Ranked, rows: _Rows, parts: Sequence[RankedPart], marker: QueryMarker) -> Hit:
    """Return a hit; a part that was removed meanwhile is shown as it was found."""
    url, source, title, language, description, status, losses = rows[0][:7]
    checked, changed, no, key, published, author = rows[0][7:13]
    seen = [marker.shown(part, language) for part in parts]
    snippet = seen[0].snippet if seen else ""
    headings = marker.headings(parts[0], language) if parts else ""
    return Hit(
        url=url,
        source=source,
        title=shown_title(title, url),
        headings=headings,
        snippet=snippet,
        score=float(f"{one.score:.6g}"),
        language=language,
        description=description,
        lost=is_lost_hit(status, losses),
        last_checked=checked,
        last_changed=changed,
        published=published,
        author=author,
        no=no,
        key=bytes(key),
        document_id=embedded_document_id(bytes(key)),
        sources=tuple(dict.fromkeys(row[1] for row in rows)),
        chunks=tuple(
            HitChunk(
                part.number,
                part.headings,
                one.snippet,
                part.text,
                places=None if part.anchors is None else chunk_places_of_text(part.anchors),
                found=one.found,
            )
            for part, one in zip(parts, seen, strict=True)
            if part.headings or part.text
        ),
    )


def former_keys(text: str) -> tuple[Keys, ...]:
    """Return the keys by which words are among those of a former version, as far as they are."""
    plain = index_words(text)
    return (tuple(plain), tuple(index_keys(" ".join(plain), "en"))) if plain else ()


def read_text_rows(rows: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Return the texts of ``TEXTS`` with their languages."""
    return [("\n".join(row[:4]), row[4]) for row in rows]

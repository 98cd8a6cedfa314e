"""Searches of the embedded index, in the SQL that both databases share (ADR 48).

The database proposes pages by how rare the words are that they have; ``searching`` has the steps.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

from smartcrawl.index.analysis.marking import Marks
from smartcrawl.index.analysis.stems import (
    Keys,
    asked_keys_of_languages,
    index_keys,
    index_words,
)
from smartcrawl.index.embedded.vectors import index_halfvec_text
from smartcrawl.index.filters import SearchFilters, search_query_filters
from smartcrawl.index.queries import (
    Query,
    Term,
    search_query_place,
    search_query_site,
    search_signs_after,
)
from smartcrawl.index.ranking import (
    MOST_PARTS,
    MOST_SHOWN,
    NearPage,
    ProposedPage,
    Ranked,
    RankedPart,
    VectorQuery,
    parts_to_show,
    rate_far_parts,
)
from smartcrawl.index.searching import (
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
from smartcrawl.registry.chunks import vector_table
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
_AT_SITES = """p.content IN (
    SELECT r.content FROM record r JOIN host h ON h.no = r.host WHERE r.entry > 0 AND ({sites}))
"""
_SITE = """((h.name = :{host} OR h.name LIKE :{below} ESCAPE '!' OR h.name LIKE :{ports} ESCAPE '!')
            AND ({ends}))"""
#: An address that ends with a path, or goes on with one of the signs that may follow.
_PATH = "r.url LIKE '%://' || h.name || :{path} || '{rest}' ESCAPE '!'"
_PLACE = "(r.url = :{place} OR substr(r.url, 1, :{size}) = :{start})"
_LIKE_SIGNS: Final = re.compile("[!%_]")


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

    def texts(
        self, connection: Connection, keys: Sequence[str], within: str, values: Mapping[str, Any]
    ) -> list[tuple[str, str]]:
        """Return texts of chunks that have any of some keys, with headings and language.

        ``within``: further conditions on the chunks, after AND, with their values.
        """


def search_conditions(
    query: Query,
    language: IndexLanguage,
    sources: Sequence[str],
    value: Callable[[str], str],
    readable: Readable = None,
    *,
    dialect: str,
) -> tuple[str, dict[str, Any]]:
    """Return the conditions that contents ``c`` and ``p.content`` must meet, and their values.

    Without any they are ``NO_CONDITION``. ``sources`` empty means all, and so does ``readable``
    None: those that the caller may read. ``value`` returns what matches a text.

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
    sites, of_sites = _site_conditions(query)
    if sites:
        conditions.append(_AT_SITES.format(sites=sites))
        values |= of_sites
    for negation, texts in (("", query.required), ("NOT", query.excluded)):
        for place, text in enumerate(texts):
            name = f"{negation.lower() or 'with'}_{fts5_value_letters(place)}"
            values[name] = value(text)
            match = language.match(name)
            conditions.append(_HAVING.format(negation=negation, match=match))
    return " AND ".join(conditions) or NO_CONDITION, values


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
    + "GROUP BY k.content ORDER BY 2, k.content LIMIT :pool",
    "postgres": "SELECT * FROM (SELECT DISTINCT ON (k.content) k.content, n.distance, k.no"
    + _OF_NEAR
    + "ORDER BY k.content, n.distance, k.no) AS best ORDER BY 2, 1 LIMIT :pool",
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


_MOST_FAR: Final = 20  #: chunks of one page beyond those that are always looked at
_PARTS = """
SELECT content, no, headings, text, position, pictures FROM chunk
 WHERE content IN carray(:contents) AND position < :most ORDER BY content, position
"""
#: Chunks with a word. The sign keeps SQLite from asking FTS5 about each chunk of the pages.
_FAR = """
SELECT {place} AS place, k.content AS content, k.position AS position, k.no AS no FROM {match}
   AND +k.content IN carray(:contents) AND k.position >= :most
"""
_SOME = """
SELECT content, no, headings, text, position, pictures FROM chunk WHERE no IN carray(:chunks)
"""

Counts = Callable[[Sequence[Term]], Sequence[int]]
_Parts = dict[int, list[RankedPart]]


def first_parts(connection: Connection, contents: Many) -> _Parts:
    """Return the chunks of some contents that a search always looks at, in order."""
    values = {"contents": contents, "most": MOST_PARTS}
    return _parts(connection.execute(_PARTS, values).fetchall())


def with_far_parts(
    connection: Connection,
    language: IndexLanguage,
    ranked: Sequence[Ranked],
    words: tuple[Sequence[Term], Sequence[float]],
    *,
    counts: Counts,
    value: Callable[[str], str],
) -> list[Ranked]:
    """Return rated pages whose best chunks may be far down; scores and order stay.

    ``words``: those of the query that some page has, with their weights. ``counts`` returns the
    number of chunks that have each word, ``value`` what matches a text.
    """
    terms, weights = words
    contents = [one.page.key for one in ranked if one.found and len(one.page.parts) == MOST_PARTS]
    if not contents or not terms:
        return list(ranked)
    asked = {place: value(terms[place].text) for place in proposing_search_terms(counts(terms))}
    found = _places_of_chunks(connection, language, asked, contents)
    chosen = [no for chunks in found.values() for no in _best_chunks(chunks, weights)]
    far = _parts(connection.execute(_SOME, {"chunks": Many(sorted(chosen))}).fetchall())
    return [
        rate_far_parts(one, far[one.page.key], terms, weights) if one.page.key in far else one
        for one in ranked
    ]


_Chunks = dict[int, tuple[int, set[int]]]  #: position, and places of the words; by chunk.no


def _places_of_chunks(
    connection: Connection,
    language: IndexLanguage,
    words: Mapping[int, str],
    contents: Collection[int],
) -> dict[int, _Chunks]:
    """Return the far chunks of some contents that have any of some words.

    ``words``: the values that match them, by their places among the words of the query.
    """
    names = {place: f"word_{fts5_value_letters(place)}" for place in words}
    statement = " UNION ALL ".join(
        _FAR.format(place=place, match=language.match(name)) for place, name in names.items()
    )
    asked: dict[str, object] = {name: words[place] for place, name in names.items()}
    asked |= {"contents": Many(sorted(contents)), "most": MOST_PARTS}
    found: dict[int, _Chunks] = defaultdict(dict)
    for place, content, position, no in connection.execute(statement, asked).fetchall():
        found[content].setdefault(no, (position, set()))[1].add(place)
    return found


def _best_chunks(chunks: _Chunks, weights: Sequence[float]) -> list[int]:
    """Return the chunks that have most of the words, the first of equal ones."""

    def order(no: int) -> tuple[float, int]:
        position, places = chunks[no]
        return -sum(weights[place] for place in places), position

    return sorted(chunks, key=order)[:_MOST_FAR]


def _parts(rows: Sequence[Sequence[Any]]) -> _Parts:
    found: defaultdict[int, list[RankedPart]] = defaultdict(list)
    for content, *facts in rows:
        found[int(content)].append(RankedPart(*facts))
    return found


#: Contents by a term, with the number of their chunks that have it.
_PER = """
SELECT {place} AS place, {bit} AS bit, k.content AS content, count(*) AS often,
       :title_{name} AS title, :name_{name} AS name
  FROM {match} {within} GROUP BY k.content
"""
_CHUNK_COUNT = "SELECT {place}, ({count})"
#: First the number of pages for each place of a term, then the contents that are proposed.
_PROPOSED = """
WITH per AS ({per}),
known AS (
    SELECT place, count(*) AS pages, (SELECT count(*) FROM content v {readable}) AS total
      FROM per GROUP BY place
),
term AS (
    SELECT place, ln(1 + (total - pages + 0.5) / (pages + 0.5)) AS weight FROM known
),
proposed AS (
    SELECT p.content, sum(p.bit) AS bits,
           sum(t.weight * (p.often / (p.often + 1.0 + c.text_length / 6000.0)
               + CASE WHEN lower(c.title) LIKE p.title OR c.title LIKE p.name
                      THEN 1 ELSE 0 END)) AS score
      FROM per p JOIN term t ON t.place = p.place JOIN content c ON c.no = p.content
     WHERE {conditions}
     GROUP BY p.content
     ORDER BY score DESC, p.content LIMIT :pool
)
SELECT -1 - place, pages, total FROM known
UNION ALL
SELECT content, bits, score FROM proposed
"""
_RECORDS = """
SELECT c.no, r.url, o.name, c.title, c.language, c.description, s.status, s.lost_count,
       s.last_checked, r.last_changed, r.no, r.id, c.published, c.author
  FROM content c
  JOIN record r ON r.content = c.no AND r.entry > 0
  JOIN state s ON s.no = r.no
  JOIN source o ON o.no = r.source
  JOIN host h ON h.no = r.host
 WHERE c.no IN carray(:contents) AND ({conditions})
 ORDER BY length(r.url), r.url
"""
#: Texts of chunks ``k``.
TEXTS: Final = """
SELECT k.title, k.headings, k.text, k.pictures, k.language FROM {match} {within} LIMIT 60
"""
_LANGUAGES = "SELECT language FROM chunk_language"


_Rows = list[list[Any]]


class IndexTables:
    """One search in one database."""

    def __init__(
        self,
        connection: Connection,
        language: IndexLanguage,
        sources: Sequence[str],
        *,
        readable: Readable = None,
        former: bool = False,
    ) -> None:
        """``sources`` empty means all; of sources that are not ``readable`` nothing counts.

        ``former``: some chunks still have the words of a former version.
        """
        self._connection = connection
        self._language = language
        self._sources = list(sources)
        self._readable = readable
        self._within, self._values = "", dict[str, Any]()
        if readable is not None:
            self._within, self._values = _CHUNK_IS_READABLE, {"readable": Many(list(readable))}
        self._records: defaultdict[int, _Rows] = defaultdict(list)
        found = connection.execute(_LANGUAGES).fetchall()
        self._languages = sorted(code for (code,) in found) or [""]
        self._former = former

    def _value(self, text: str) -> str:
        """Return what matches a word, or words that stay together."""
        keys = asked_keys_of_languages(text, self._languages)
        return self._language.value(keys + former_keys(text) if self._former else keys)

    def bounded(self, query: Query) -> Query:
        """Return a query as it is: its words are few enough."""
        return query

    def proposed(self, query: Query, pool: int) -> Proposed:
        """Return the contents that have any of the words, and all that they must have."""
        counts = self.counted(query.terms)
        per = []
        values: dict[str, Any] = {"pool": pool}
        for place in proposing_search_terms(counts):
            name, term = fts5_value_letters(place), query.terms[place]
            values[f"word_{name}"] = self._value(term.text)
            beginning = term.beginning
            values[f"title_{name}"] = f"%{beginning}%"
            values[f"name_{name}"] = f"%{beginning.capitalize()}%"
            match = self._language.match(f"word_{name}")
            per.append(
                _PER.format(
                    place=place, bit=1 << place, name=name, match=match, within=self._within
                )
            )
        conditions, more = self._conditions(query)
        statement = _PROPOSED.format(
            per=" UNION ALL ".join(per),
            conditions=conditions,
            readable="" if self._readable is None else f"WHERE {_READABLE}",
        )
        rows = self._connection.execute(statement, values | more).fetchall()
        return _read(rows, counts)

    def _conditions(self, query: Query) -> tuple[str, dict[str, Any]]:
        return search_conditions(
            query, self._language, self._sources, self._value, self._readable,
            dialect=self._connection.dialect,
        )  # fmt: skip

    def counted(self, terms: Sequence[Term]) -> list[int]:
        """Return how many chunks have each word."""
        names = [f"word_{fts5_value_letters(place)}" for place in range(len(terms))]
        counts = [
            _CHUNK_COUNT.format(place=place, count=self._language.count(name, self._within))
            for place, name in enumerate(names)
        ]
        values = [self._value(term.text) for term in terms]
        words = dict(zip(names, values, strict=True))
        values_of_all = words | self._values
        rows = self._connection.execute(" UNION ALL ".join(counts), values_of_all).fetchall()
        return [count for _, count in sorted(rows)]

    def texts(self, forms: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return texts of the index that have some of these words, with their languages."""
        within, values = self._within, dict(self._values)
        if self._sources:
            within += _CHUNK_IN_SOURCES
            values["wanted"] = Many(self._sources)
        words = " ".join(forms)
        keys = {key for language in self._languages for key in index_keys(words, language)}
        keys |= {key for some in former_keys(words) for key in some} if self._former else set()
        return self._language.texts(self._connection, sorted(keys), within, values)

    def nearest_pages(self, query: Query, near: VectorQuery, pool: int) -> list[NearPage]:
        """Return contents that are near to a query in meaning, and all that they must have."""
        conditions, values = self._conditions(query)
        return nearest_pages(
            self._connection, near, conditions=conditions, values=values, pool=pool
        )

    def pages(
        self, query: Query, found: Proposed, near: Sequence[NearPage], places: Mapping[int, int]
    ) -> dict[int, ProposedPage]:
        """Return proposed and near contents that have a record, by their numbers."""
        contents = Many(sorted({*found.found, *(page.content for page in near)}))
        if not contents.values:
            return {}
        self._records.clear()
        conditions, values = record_conditions(query, self._connection.dialect)
        values |= {"contents": contents}
        statement = _RECORDS.format(conditions=conditions)
        for content, *row in self._connection.execute(statement, values).fetchall():
            self._records[content].append(row)
        parts = first_parts(self._connection, contents)
        return {
            content: ProposedPage(content, rows[0][0], rows[0][2], parts.get(content, []),
                 frozenset(places[place] for place in found.found.get(content, ())), rows[0][3])
            for content, rows in self._records.items()
        }  # fmt: skip

    def with_far_parts(
        self, ranked: list[Ranked], words: tuple[Sequence[Term], Sequence[float]]
    ) -> list[Ranked]:
        """Return rated pages with their best chunks, which may be far down."""
        return with_far_parts(
            self._connection, self._language, ranked, words, counts=self.counted, value=self._value
        )

    def records(self, key: int) -> list[tuple[bytes, list[Any]]]:
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
        parts = parts_of_hits(self._connection, [one for one, _ in best], near)
        marker = QueryMarker(terms, marks)
        return [
            _hit(one, rows, some, marker) for (one, rows), some in zip(best, parts, strict=True)
        ]


def _read(rows: Sequence[tuple[int, int, float]], counts: Sequence[int]) -> Proposed:
    total = int(max((row[2] for row in rows if row[0] < 0), default=0))
    terms = len(counts)
    pages = [min(count, total) for count in counts]
    contents: dict[int, frozenset[int]] = {}
    for content, number, _ in sorted(rows, key=lambda row: (-row[2], row[0])):
        if content < 0:
            pages[-1 - content] = number
        else:
            places = (place for place in range(terms) if int(number) >> place & 1)
            contents[content] = frozenset(places)
    return Proposed(contents, pages, total)


def _hit(one: Ranked, rows: _Rows, parts: Sequence[RankedPart], marker: QueryMarker) -> Hit:
    """Return a hit; a part that was removed meanwhile is shown as it was found."""
    url, source, title, language, description, status, losses = rows[0][:7]
    checked, changed, no, key, published, author = rows[0][7:]
    seen = [marker.shown(part, language) for part in parts]
    headings, snippet = seen[0] if seen else ("", "")
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
            HitChunk(part.number, part.headings, highlight, part.text)
            for part, (_, highlight) in zip(parts, seen, strict=True)
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

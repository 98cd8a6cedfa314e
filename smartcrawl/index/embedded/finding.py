"""Searches of the embedded index, in the SQL that both databases share (ADR 48).

The database proposes pages by how rare the words are that they have; ``searching`` has the steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from smartcrawl.index.embedded.conditions import (
    IndexLanguage,
    fts5_value_letters,
    search_conditions,
    site_conditions,
)
from smartcrawl.index.embedded.nearness import nearest_pages, parts_of_hits
from smartcrawl.index.hits import Hit, HitChunk, embedded_document_id, is_lost_hit
from smartcrawl.index.queries import Query, Term
from smartcrawl.index.ranking import (
    MOST_PARTS,
    NearPage,
    ProposedPage,
    Ranked,
    RankedPart,
    VectorQuery,
    rate_far_parts,
)
from smartcrawl.index.searching import FoundPage, Marks, Proposed, proposing_search_terms
from smartcrawl.registry.connection import Connection, Many

_MOST_FAR: Final = 20  #: chunks of one page beyond those that are always looked at
_PARTS = """
SELECT content, no, headings, text, position FROM chunk
 WHERE content IN carray(:contents) AND position < :most ORDER BY content, position
"""
#: Chunks with a word. The sign keeps SQLite from asking FTS5 about each chunk of the pages.
_FAR = """
SELECT {place} AS place, k.content AS content, k.position AS position, k.no AS no FROM {match}
   AND +k.content IN carray(:contents) AND k.position >= :most
"""
_SOME = "SELECT content, no, headings, text, position FROM chunk WHERE no IN carray(:chunks)"

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
    counts: Counts,
) -> list[Ranked]:
    """Return rated pages whose best chunks may be far down; scores and order stay.

    ``words``: those of the query that some page has, with their weights. ``counts`` returns the
    number of chunks that have each word.
    """
    terms, weights = words
    contents = [one.page.key for one in ranked if one.found and len(one.page.parts) == MOST_PARTS]
    if not contents or not terms:
        return list(ranked)
    asked = {
        place: language.value(terms[place].text) for place in proposing_search_terms(counts(terms))
    }
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


def _parts(rows: Sequence[Sequence[int | str]]) -> _Parts:
    found: defaultdict[int, list[RankedPart]] = defaultdict(list)
    for content, no, headings, text, position in rows:
        found[int(content)].append(RankedPart(no, str(headings), str(text), int(position)))
    return found


_SNIPPET: Final = 32  #: words

#: Contents by a term, with the number of their chunks that have it.
_PER = """
SELECT {place} AS place, {bit} AS bit, k.content AS content, count(*) AS often,
       :title_{name} AS title
  FROM {match} GROUP BY k.content
"""
_CHUNKS = "SELECT {place}, ({count})"
#: First the number of pages for each place of a term, then the contents that are proposed.
_PROPOSED = """
WITH per AS ({per}),
known AS (
    SELECT place, count(*) AS pages, (SELECT count(*) FROM content) AS total
      FROM per GROUP BY place
),
term AS (
    SELECT place, ln(1 + (total - pages + 0.5) / (pages + 0.5)) AS weight FROM known
),
proposed AS (
    SELECT p.content, sum(p.bit) AS bits,
           sum(t.weight * (p.often / (p.often + 1.0 + c.text_length / 6000.0)
               + CASE WHEN lower(c.title) LIKE p.title THEN 1 ELSE 0 END)) AS score
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
       s.last_checked, r.last_changed, r.no, r.id
  FROM content c
  JOIN record r ON r.content = c.no AND r.entry > 0
  JOIN state s ON s.no = r.no
  JOIN source o ON o.no = r.source
  JOIN host h ON h.no = r.host
 WHERE c.no IN carray(:contents) AND ({sites})
 ORDER BY length(r.url), r.url
"""
#: Texts of chunks ``k``.
TEXTS: Final = "SELECT k.title, k.headings, k.text FROM {match} LIMIT 60"


_Rows = list[list[Any]]


class IndexTables:
    """One search in one database."""

    def __init__(
        self, connection: Connection, language: IndexLanguage, sources: Sequence[str]
    ) -> None:
        self._connection = connection
        self._language = language
        self._sources = list(sources)
        self._records: defaultdict[int, _Rows] = defaultdict(list)

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
            values[f"word_{name}"] = self._language.value(term.text)
            values[f"title_{name}"] = f"%{term.stems[0]}%"
            match = self._language.match(f"word_{name}")
            per.append(_PER.format(place=place, bit=1 << place, name=name, match=match))
        conditions, more = search_conditions(query, self._language, self._sources)
        statement = _PROPOSED.format(per=" UNION ALL ".join(per), conditions=conditions)
        rows = self._connection.execute(statement, values | more).fetchall()
        return _read(rows, counts)

    def counted(self, terms: Sequence[Term]) -> list[int]:
        """Return how many chunks have each word."""
        names = [f"word_{fts5_value_letters(place)}" for place in range(len(terms))]
        counts = [
            _CHUNKS.format(place=place, count=self._language.count(name))
            for place, name in enumerate(names)
        ]
        values = [self._language.value(term.text) for term in terms]
        words = dict(zip(names, values, strict=True))
        rows = self._connection.execute(" UNION ALL ".join(counts), words).fetchall()
        return [count for _, count in sorted(rows)]

    def texts(self, forms: Sequence[str]) -> Sequence[str]:
        """Return texts of the index that have some of these words."""
        return self._language.texts(self._connection, forms)

    def nearest_pages(self, query: Query, near: VectorQuery, pool: int) -> list[NearPage]:
        """Return contents that are near to a query in meaning, and all that they must have."""
        conditions, values = search_conditions(query, self._language, self._sources)
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
        sites, values = site_conditions(query)
        values |= {"contents": contents}
        statement = _RECORDS.format(sites=sites or "1 = 1")
        for content, *row in self._connection.execute(statement, values).fetchall():
            self._records[content].append(row)
        parts = first_parts(self._connection, contents)
        return {
            content: ProposedPage(content, rows[0][0], rows[0][2], parts.get(content, []),
                 frozenset(places[place] for place in found.found.get(content, ())))
            for content, rows in self._records.items()
        }  # fmt: skip

    def with_far_parts(
        self, ranked: list[Ranked], words: tuple[Sequence[Term], Sequence[float]]
    ) -> list[Ranked]:
        """Return rated pages with their best chunks, which may be far down."""
        return with_far_parts(self._connection, self._language, ranked, words, self.counted)

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
        chunks = [part.key for some in parts for part in some]
        shown = self._language.shown(self._connection, terms, chunks, marks)
        return [_hit(one, rows, some, shown) for (one, rows), some in zip(best, parts, strict=True)]


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


def _hit(
    one: Ranked, rows: _Rows, parts: Sequence[RankedPart], shown: Mapping[int, tuple[str, str]]
) -> Hit:
    """Return a hit; a part that was removed meanwhile is shown as it was found."""
    url, source, title, language, description, status, losses = rows[0][:7]
    checked, changed, no, key = rows[0][7:]
    seen = [
        shown.get(part.key) or (part.headings, search_snippet_beginning(part.text))
        for part in parts
    ]
    headings, snippet = seen[0] if seen else ("", "")
    return Hit(
        url=url,
        source=source,
        title=title,
        headings=headings,
        snippet=snippet,
        score=float(f"{one.score:.6g}"),
        language=language,
        description=description,
        lost=is_lost_hit(status, losses),
        last_checked=checked,
        last_changed=changed,
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


def search_snippet_beginning(text: str) -> str:
    """Return the beginning of a text, as a snippet without words that were found."""
    shown = text.split(maxsplit=_SNIPPET)
    return " ".join(shown[:_SNIPPET]) + (" …" if len(shown) > _SNIPPET else "")

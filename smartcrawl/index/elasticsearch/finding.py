"""Searches of an index in an Elasticsearch (ADR 48).

The server proposes pages and counts how many have each word; ``ranking`` sorts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from smartcrawl.index.elasticsearch import search
from smartcrawl.index.elasticsearch.nearness import (
    NearHit,
    elasticsearch_hit_chunks,
    exact_nearness_request,
    near_hits,
    nearest_chunks_request,
    nearness_request,
)
from smartcrawl.index.elasticsearch.search import ElasticsearchHit, Tags
from smartcrawl.index.embedded.nearness import joined_index_rankings
from smartcrawl.index.embedded.vectors import QueryMeaning, VectorQuery
from smartcrawl.index.proposing import (
    MOST_PROPOSED,
    existing_search_terms,
    propose_search_hits,
    search_pool,
    weighed_search_terms,
)
from smartcrawl.index.queries import Query, Term, parsed_search_query, search_query_sources
from smartcrawl.index.ranking import POOL, Ranked, rank_searched_pages
from smartcrawl.index.spelling import SpellingFound, search_spelling_variants

_Page = tuple[Ranked, tuple[str, ...]]  #: a page, and the sources that have it
Ask = Callable[..., Any]  #: sends a search request and returns the body of the answer


class _Proposed(NamedTuple):
    """Pages that the server proposes."""

    hits: Sequence[dict[str, Any]]
    pages: list[int]  #: for each term, how many pages have it
    total: int  #: all pages

    @property
    def is_empty(self) -> bool:
        """Whether no page is proposed."""
        return not self.hits


_NOTHING: Final = _Proposed([], [], 0)


def elasticsearch_answer(
    ask: Ask,
    query: str,
    *,
    sources: Sequence[str],
    limit: int,
    offset: int = 0,
    marks: Tags,
    language: str = "",
    meaning: QueryMeaning | None = None,
) -> tuple[list[ElasticsearchHit], str]:
    """Return the pages that answer a query, best first, and the query that they answer.

    The first ``offset`` pages are left out. The query is empty if it is the one that was asked.
    ``meaning`` finds the vector of a query, where meaning counts, too.
    """
    asked = parsed_search_query(query, language)
    wanted = search_query_sources(sources, asked.sources)
    if not asked.terms or wanted is None or limit < 1:
        return [], ""
    listed = ask(size=0, aggregations=search.language_aggregation(), request_cache=True)
    finder = _Finder(ask, search.searched_field_endings(listed["aggregations"]), wanted)
    asked = finder.bounded(asked.only(existing_search_terms(asked.terms, finder.counted)))
    asked, found, meant = propose_search_hits(query, asked, finder, limit, offset)
    places = slice(offset, offset + limit)
    near = None if meaning is None else meaning(meant or query)
    if near is not None and not near.reads_sentences:
        asked = asked.of_words()
    if near is None:
        best, terms = finder.best(asked, found, [])
    elif near.only:
        pages = finder.nearest_pages(asked, near, search_pool(limit, offset, asked))
        best, terms = finder.best(asked, _NOTHING, pages)
    else:
        best, terms = _joined_pages(
            finder, asked, near, {search_pool(limit, offset, asked): found}, places
        )
    return finder.shown(best[places], terms, marks, near), meant


def _joined_pages(
    finder: _Finder,
    query: Query,
    near: VectorQuery,
    proposed: Mapping[int, _Proposed],
    wanted: slice,
) -> tuple[list[_Page], Sequence[Term]]:
    """Return pages that have the words of a query or are near to it; the words to mark in them.

    As ``index/embedded/finding.py`` does: what more proposals add comes last.
    """
    best: list[_Page] = []
    pool = POOL
    while True:
        pages = finder.nearest_pages(query, near, pool)
        words = proposed.get(pool) or finder.proposed(query, pool)
        found, terms = finder.best(query, words, pages, joined_with=near)
        known = {_address(one) for one, _ in best}
        least = best[-1][0].score if best else inf
        best += [
            (one._replace(score=min(one.score, least)), sources)
            for one, sources in found
            if _address(one) not in known
        ]
        is_all = len(pages) < pool and len(words.hits) < pool
        if is_all or len(best) >= wanted.stop or pool == MOST_PROPOSED:
            return best, terms
        pool = MOST_PROPOSED


class _Finder:
    """Searches for one query."""

    def __init__(self, ask: Ask, held: Sequence[str], sources: Sequence[str]) -> None:
        self._ask = ask
        self._held = held
        self._sources = sources

    def bounded(self, query: Query) -> Query:
        """Return a query with as many words as the server takes."""
        return query.only(search.bounded_query_terms(query.terms, self._held))

    def counted(self, terms: Sequence[Term]) -> list[int]:
        """Return how many pages have each word.

        Words that the server would not take count as one page: they stay, to be cut like those of
        a short query.
        """
        asked = search.bounded_query_terms(terms, self._held)
        every = self._ask(**search.counted_terms_request(asked, self._held))["aggregations"]["all"]
        pages = [int(every[str(place)]["doc_count"]) for place in range(len(asked))]
        return pages + [1] * (len(terms) - len(asked))

    def proposed(self, query: Query, pool: int) -> _Proposed:
        """Return the pages that have any of the words, and all that they must have."""
        body = self._ask(
            **search.search_proposal_request(query, query.terms, self._held, self._sources, pool)
        )
        every = body["aggregations"]["all"]
        pages = [every[str(place)]["doc_count"] for place in range(len(query.terms))]
        return _Proposed(body["hits"]["hits"], pages, every["doc_count"])

    def nearest(self, word: str, far: bool) -> SpellingFound:
        """Return the words of the index that differ from a word by one error, or two (``far``)."""
        forms = search_spelling_variants(word, far=far)
        hits = self._ask(**search.near_index_words_request(sorted(forms), self._held))["hits"][
            "hits"
        ]
        return SpellingFound(forms, search.indexed_texts(hits))

    def nearest_pages(self, query: Query, near: VectorQuery, pool: int) -> list[NearHit]:
        """Return pages that are near to a query in meaning, and have all that they must have."""
        asked = (query, near.vector, self._held, self._sources, pool)
        hits = self._ask(**nearness_request(*asked))["hits"]["hits"]
        if len(hits) < pool:  # there may be more, which the graph does not lead to
            hits = self._ask(**exact_nearness_request(*asked))["hits"]["hits"]
        return near_hits(hits)

    def best(
        self,
        query: Query,
        found: _Proposed,
        near: Sequence[NearHit],
        *,
        joined_with: VectorQuery | None = None,
    ) -> tuple[list[_Page], Sequence[Term]]:
        """Rate pages; return them, best first, and the words to mark in them.

        ``near``: pages that are near in meaning. With ``joined_with``, the meaning of the query,
        their order and that of the words are joined.
        """
        fused = joined_with is not None
        places, terms, weights = weighed_search_terms(query, found)
        by_words = [search.indexed_page_of_hit(hit, places) for hit in found.hits]
        ranked = rank_searched_pages(terms, weights, by_words, any_word=fused)
        if near:
            pages = {one.near.content: search.indexed_page_of_hit(one.hit, places) for one in near}
            pages |= {page.key: page for page in by_words}
            lacking = (
                joined_with.lacking([str(page.key) for page in by_words]) if joined_with else {}
            )
            ranked = joined_index_rankings(
                ranked, pages, [one.near for one in near], fused=fused,
                is_question=query.is_question, lacking=lacking,
                text=rank_searched_pages(terms, weights, by_words) if lacking else (),
            )  # fmt: skip
        return _once(ranked), terms or query.terms

    def shown(
        self,
        best: Sequence[_Page],
        terms: Sequence[Term],
        marks: Tags,
        near: VectorQuery | None = None,
    ) -> list[ElasticsearchHit]:
        """Return hits with their chunks; ``near``: the meaning of the query, where it counts."""
        tags = search.search_highlight_marks()
        with_words = [str(one.page.key) for one, _ in best if one.found]
        words, nearest = {}, {}
        if with_words:
            words = self._pages(search.indexed_snippets(with_words, terms, self._held, tags))
        if near is not None and best:
            keys = [str(one.page.key) for one, _ in best]
            asked = (keys, near.vector, terms, self._held, tags)
            nearest = self._pages(nearest_chunks_request(*asked))
        found = []
        for one, sources in best:
            key = str(one.page.key)
            hit = words.get(key) or nearest.get(key)
            if hit is not None:
                chunks = elasticsearch_hit_chunks(words.get(key), nearest.get(key), tags)
                found.append(
                    search.search_hit(
                        hit["_source"],
                        chunks,
                        score=one.score,
                        sources=sources,
                        tags=tags,
                        marks=marks,
                    )
                )
        return found

    def _pages(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the pages that answer a request, by their keys."""
        return {hit["_source"]["key"]: hit for hit in self._ask(**request)["hits"]["hits"]}


def _address(one: Ranked) -> str:
    """Return the hash of the address of a page, which is the same in all sources."""
    return str(one.page.key).rpartition(":")[2]


def _once(ranked: Sequence[Ranked]) -> list[_Page]:
    """Return each page once, with the sources that have it."""
    found: dict[str, _Page] = {}
    for one in ranked:
        source, _, address = str(one.page.key).rpartition(":")
        if address in found:
            first, sources = found[address]
            found[address] = (first, (*sources, source))
        else:
            found[address] = (one, (source,))
    return list(found.values())

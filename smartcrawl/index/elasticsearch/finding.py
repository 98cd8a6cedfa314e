"""Searches of an index in an Elasticsearch (docs/adr/0048).

The server proposes pages and counts how many have each word; ``ranking`` sorts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from smartcrawl.index.elasticsearch import search
from smartcrawl.index.elasticsearch.search import ElasticsearchHit, Tags
from smartcrawl.index.proposing import propose_search_hits, weighed_search_terms
from smartcrawl.index.queries import MOST, Query, parsed_search_query, search_query_sources
from smartcrawl.index.ranking import Ranked, rank_searched_pages
from smartcrawl.index.spelling import SpellingFound, search_spelling_variants

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


def elasticsearch_answer(
    ask: Ask,
    query: str,
    *,
    sources: Sequence[str],
    limit: int,
    offset: int = 0,
    marks: Tags,
    language: str = "",
) -> tuple[list[ElasticsearchHit], str]:
    """Return the pages that answer a query, best first, and the query that they answer.

    The first ``offset`` pages are left out. The query is empty if it is the one that was asked.
    """
    asked = parsed_search_query(query, language)
    asked = asked.only(asked.terms[:MOST])
    wanted = search_query_sources(sources, asked.sources)
    if not asked.terms or wanted is None or limit < 1:
        return [], ""
    listed = ask(size=0, aggregations=search.language_aggregation(), request_cache=True)
    finder = _Finder(ask, search.searched_field_endings(listed["aggregations"]), wanted)
    asked = finder.bounded(asked)
    asked, found, meant = propose_search_hits(query, asked, finder, limit, offset)
    return finder.found(asked, found, slice(offset, offset + limit), marks), meant


class _Finder:
    """Searches for one query."""

    def __init__(self, ask: Ask, held: Sequence[str], sources: Sequence[str]) -> None:
        self._ask = ask
        self._held = held
        self._sources = sources

    def bounded(self, query: Query) -> Query:
        """Return a query with as many words as the server takes."""
        return query.only(search.bounded_query_terms(query.terms, self._held))

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

    def found(
        self, query: Query, found: _Proposed, wanted: slice, marks: Tags
    ) -> list[ElasticsearchHit]:
        """Rate the pages; of all, best first, return those ``wanted``."""
        places, terms, weights = weighed_search_terms(query, found)
        pages = [search.indexed_page_of_hit(hit, places) for hit in found.hits]
        best = _once(rank_searched_pages(terms, weights, pages))[wanted]
        if not best:
            return []
        tags = search.search_highlight_marks()
        keys = [str(one.page.key) for one, _ in best]
        hits = self._ask(**search.indexed_snippets(keys, terms, self._held, tags))["hits"]["hits"]
        by_key = {hit["_source"]["key"]: hit for hit in hits}
        return [
            search.search_hit(by_key[str(one.page.key)], one.score, sources, tags, marks)
            for one, sources in best
            if one.page.key in by_key
        ]


def _once(ranked: Sequence[Ranked]) -> list[tuple[Ranked, tuple[str, ...]]]:
    """Return each page once, with the sources that have it."""
    found: dict[str, tuple[Ranked, tuple[str, ...]]] = {}
    for one in ranked:
        source, _, address = str(one.page.key).rpartition(":")
        if address in found:
            first, sources = found[address]
            found[address] = (first, (*sources, source))
        else:
            found[address] = (one, (source,))
    return list(found.values())

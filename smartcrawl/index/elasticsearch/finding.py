"""Searches of an index in an Elasticsearch (ADR 48).

The server proposes pages and counts how many have each word; ``searching`` has the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smartcrawl.index.elasticsearch import search
from smartcrawl.index.elasticsearch.nearness import (
    elasticsearch_hit_chunks,
    exact_nearness_request,
    near_hits,
    nearest_chunks_request,
    nearness_request,
)
from smartcrawl.index.elasticsearch.search import ElasticsearchHit, Tags
from smartcrawl.index.queries import Query, Term
from smartcrawl.index.ranking import NearPage, ProposedPage, Ranked, VectorQuery
from smartcrawl.index.searching import FoundPage, Proposed

Ask = Callable[..., Any]  #: sends a search request and returns the body of the answer


class ElasticsearchFinder:
    """Searches for one query."""

    def __init__(self, ask: Ask, sources: Sequence[str]) -> None:
        listed = ask(size=0, aggregations=search.language_aggregation(), request_cache=True)
        self._ask = ask
        self._held = search.searched_field_endings(listed["aggregations"])
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

    def proposed(self, query: Query, pool: int) -> Proposed:
        """Return the pages that have any of the words, and all that they must have."""
        body = self._ask(
            **search.search_proposal_request(query, query.terms, self._held, self._sources, pool)
        )
        every = body["aggregations"]["all"]
        pages = [every[str(place)]["doc_count"] for place in range(len(query.terms))]
        found = {hit["_source"]["key"]: hit for hit in body["hits"]["hits"]}
        return Proposed(found, pages, every["doc_count"])

    def texts(self, forms: Sequence[str]) -> Sequence[str]:
        """Return texts of the index that have some of these words."""
        request = search.near_index_words_request(forms, self._held)
        return search.indexed_texts(self._ask(**request)["hits"]["hits"])

    def nearest_pages(self, query: Query, near: VectorQuery, pool: int) -> list[NearPage]:
        """Return pages that are near to a query in meaning, and have all that they must have."""
        asked = (query, near.vector, self._held, self._sources, pool)
        hits = self._ask(**nearness_request(*asked))["hits"]["hits"]
        if len(hits) < pool:  # there may be more, which the graph does not lead to
            hits = self._ask(**exact_nearness_request(*asked))["hits"]["hits"]
        return near_hits(hits)

    def pages(
        self, query: Query, found: Proposed, near: Sequence[NearPage], places: Mapping[int, int]
    ) -> dict[Any, ProposedPage]:
        """Return proposed and near pages by their keys; the answers have all of both."""
        hits = {one.content: one.hit for one in near} | dict(found.found)
        return {key: search.indexed_page_of_hit(hit, places) for key, hit in hits.items()}

    def with_far_parts(self, ranked: list[Ranked], words: Any) -> list[Ranked]:
        """Return rated pages as they are: the answers have their best chunks."""
        return ranked

    def records(self, key: str) -> list[tuple[str, str]]:
        """Return the hash of the address of a page, which all sources share, and its source."""
        source, _, address = key.rpartition(":")
        return [(address, source)]

    def shown(
        self,
        best: Sequence[FoundPage],
        terms: Sequence[Term],
        marks: Tags,
        near: VectorQuery | None,
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
                        sources=tuple(sources),
                        tags=tags,
                        marks=marks,
                    )
                )
        return found

    def _pages(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the pages that answer a request, by their keys."""
        return {hit["_source"]["key"]: hit for hit in self._ask(**request)["hits"]["hits"]}

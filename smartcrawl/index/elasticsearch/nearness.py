"""Pages of an Elasticsearch that are near to a query in meaning: kNN over their chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import Any, Final

from smartcrawl.index.elasticsearch.search import (
    PARTS,
    RATED,
    SHOWN,
    Tags,
    any_words_of_chunk,
    chunk_highlight,
    chunks_with_words,
    search_filters,
)
from smartcrawl.index.embedded.vectors import index_vector_numbers
from smartcrawl.index.queries import Query, Term
from smartcrawl.index.ranking import MOST_SHOWN, NearPage
from smartcrawl.rules.vectors import fuse

_LEAST_CANDIDATES: Final = 500  #: chunks of a shard that are looked at, at least
_CANDIDATES: Final = 5  #: the same for each page that is wanted
_MOST_CANDIDATES: Final = 10_000  #: Elasticsearch's own limit
#: The score of a kNN search.
_SCORE: Final = "(1.0 + cosineSimilarity(params.vector, 'chunks.vector')) / 2.0"


def nearness_request(
    query: Query, vector: bytes, held: Sequence[str], sources: Sequence[str], pool: int
) -> dict[str, Any]:
    """Return the request for the pages whose chunks are nearest to a vector, each page once.

    The filters of a query hold before the pages are counted. ``held`` are the endings of the fields
    with text; ``vector`` has float32 numbers, little-endian.
    """
    candidates = max(_LEAST_CANDIDATES, _CANDIDATES * pool)
    return {
        "knn": {
            "field": "chunks.vector",
            "query_vector": index_vector_numbers(vector).tolist(),
            "k": pool,
            "num_candidates": min(candidates, _MOST_CANDIDATES),
            "filter": {"bool": search_filters(query, held, sources)},
            "inner_hits": {"size": 1, "_source": False},
        },
        "size": pool,
        "source": RATED,
        "track_total_hits": False,
    }


def exact_nearness_request(
    query: Query, vector: bytes, held: Sequence[str], sources: Sequence[str], pool: int
) -> dict[str, Any]:
    """Return the request for the same pages by a comparison with every chunk.

    The graph of an index does not lead out of many chunks that have equal vectors.
    """
    nested = {
        "path": "chunks",
        "score_mode": "max",
        "query": _every_chunk(vector),
        "inner_hits": {"size": 1, "_source": False},
    }
    return {
        "query": {"bool": {"must": [{"nested": nested}], **search_filters(query, held, sources)}},
        "size": pool,
        "source": RATED,
        "track_total_hits": False,
    }


def nearest_chunks_request(
    keys: Sequence[str], vector: bytes, terms: Sequence[Term], held: Sequence[str], tags: Tags
) -> dict[str, Any]:
    """Return the request for the nearest chunks of each of some pages, by the keys of these.

    ``tags`` are around the words found, if there are any.
    """
    words = {"highlight_query": any_words_of_chunk(terms, held)}
    nested = {
        "path": "chunks",
        "query": _every_chunk(vector),
        "inner_hits": {
            "size": MOST_SHOWN,
            "sort": ["_score", {"chunks.position": "asc"}],
            "_source": PARTS,
            "highlight": chunk_highlight(held, tags) | words,
        },
    }
    filters = [{"terms": {"key": list(keys)}}, {"nested": nested}]
    return {
        "query": {"bool": {"filter": filters}},
        "size": len(keys),
        "source": SHOWN,
        "track_total_hits": False,
    }


def elasticsearch_hit_chunks(
    words: Mapping[str, Any] | None, near: Mapping[str, Any] | None, tags: Tags
) -> list[Mapping[str, Any]]:
    """Return the chunks to show of a page, best first.

    First the best by words, if it has any, then both kinds, joined by their ranks. ``words`` and
    ``near`` are the page as each request found it.
    """
    by_words = [] if words is None else chunks_with_words(words, tags)
    by_meaning = [] if near is None else near["inner_hits"]["chunks"]["hits"]["hits"]
    known = {_position(chunk): chunk for chunk in (*by_meaning, *by_words)}
    lists = [[_position(chunk) for chunk in some] for some in (by_words, by_meaning)]
    first = next(place for places in lists for place in places)
    order = dict.fromkeys([first, *(place for place, _ in fuse(lists))])
    return [known[place] for place in order][:MOST_SHOWN]


def _position(chunk: Mapping[str, Any]) -> int:
    return int(chunk["_source"].get("position", 0))


def _every_chunk(vector: bytes) -> dict[str, Any]:
    """Return the query for all chunks that have a vector, scored as kNN scores them."""
    script = {"source": _SCORE, "params": {"vector": index_vector_numbers(vector).tolist()}}
    return {"script_score": {"query": {"exists": {"field": "chunks.vector"}}, "script": script}}


def near_hits(hits: Iterable[Mapping[str, Any]]) -> list[NearPage]:
    """Return the pages of an answer, the nearest first, with the position of their nearest chunk.

    The score of a hit is half of 1 + the cosine; of equal ones the order is that of addresses.
    """
    found = []
    for hit in hits:
        (chunk,) = hit["inner_hits"]["chunks"]["hits"]["hits"]
        distance = sqrt(max(0.0, 4 - 4 * hit["_score"]))
        found.append(NearPage(hit["_source"]["key"], distance, chunk["_nested"]["offset"], hit))
    return sorted(found, key=_order)


def _order(one: NearPage) -> tuple[float, int, str, str]:
    url = one.hit["_source"]["url"]
    return one.distance, len(url), url, one.content

"""Searches of an index in an Elasticsearch, by words and by meaning (ADR 48).

The server proposes pages and counts how many have each word; ``searching`` has the steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Final
from uuid import uuid4

from smartcrawl.index.elasticsearch.documents import SUFFIXES, WEIGHTS, analyzer_suffix
from smartcrawl.index.embedded.vectors import index_vector_numbers
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
)
from smartcrawl.index.searching import FoundPage, HitChunk, Proposed
from smartcrawl.registry.visibility import Readable
from smartcrawl.rules.vectors import fuse

MOST_HITS: Final = 10_000  #: Elasticsearch's own limit
MOST_WORDS: Final = 64  #: words of one query that count
#: Words of a query times the fields that are searched: below the limit of a server with the least
#: memory.
MOST_CLAUSES: Final = 4_000
#: A word for an analyzer, at most; each character of Chinese and the like is one.
_WORD: Final = re.compile(r"[\u2e80-\U0010ffff]|[^\W\u2e80-\U0010ffff]{1,255}")
_SNIPPET: Final = 200  #: characters, about the 32 words of the embedded index
SHOWN: Final = ["key", "url", "source", "title", "language", "description"]
#: Fields of a page that is rated; its vectors would be most of the answer.
RATED: Final[Mapping[str, Any]] = {
    "includes": ["key", "url", "source", "title", "language", "chunks"],
    "excludes": ["chunks.vector"],
}
PARTS: Final = {"excludes": ["chunks.vector", "vector"]}  #: of the source of inner hits
_TEXTS: Final = 20  #: pages in which nearest words are looked for
_LANGUAGES: Final = 200  #: more than ISO 639-1 has
_READABLE: Final = "readable"  #: name of the counts of some sources


#: Temporary marks around found words, replaced by ``marks``.
Tags = tuple[str, str]


def search_highlight_marks() -> Tags:
    """Return two words that occur in no text."""
    word = uuid4().hex
    return f"<{word}>", f"</{word}>"


@dataclass(frozen=True, slots=True)
class ElasticsearchHit:
    """One page that answers a query."""

    key: str  #: its ``_id``, by which the registry's facts are joined
    url: str
    source: str
    title: str
    headings: str  #: heading path of the best chunk
    snippet: str
    score: float  #: greater is better
    language: str
    description: str
    sources: tuple[str, ...] = ()  #: all sources that have it, ``source`` first
    chunks: tuple[HitChunk, ...] = ()  #: best first; empty: it has no text


def language_aggregation() -> dict[str, Any]:
    """Return the aggregation that lists the languages of an index."""
    return {"languages": {"terms": {"field": "language", "size": _LANGUAGES}}}


def searched_field_endings(aggregations: Mapping[str, Any]) -> list[str]:
    """Return the endings of the fields with text, from the answer to ``language_aggregation()``."""
    buckets = aggregations["languages"]["buckets"]
    held = {"", *(analyzer_suffix(bucket["key"]) for bucket in buckets)}
    return [ending for ending in SUFFIXES if ending in held]


def bounded_query_phrases(wanted: Iterable[str], most: int) -> list[str]:
    """Return phrases of ``most`` words in all, leaving out the rest.

    >>> bounded_query_phrases(["broken", "error code 42", "fuse"], 3)
    ['broken', 'error code']
    """
    found = []
    for phrase in wanted:
        if most < 1:
            break
        ends = [word.end() for word in _WORD.finditer(phrase)]
        found.append(phrase if len(ends) <= most else phrase[: ends[most - 1]])
        most -= len(ends)
    return found


def most_query_words(held: Sequence[str]) -> int:
    """Return how many words of a query count in an index with text under some endings."""
    return min(MOST_WORDS, MOST_CLAUSES // (len(WEIGHTS) * len(held)))


def bounded_query_terms(terms: Sequence[Term], held: Sequence[str]) -> list[Term]:
    """Return the terms of a query that count, cut if they have too many words."""
    texts = bounded_query_phrases([term.text for term in terms], most_query_words(held))
    return [replace(term, text=text) for term, text in zip(terms, texts, strict=False)]


def counted_terms_request(
    terms: Sequence[Term], held: Sequence[str], readable: Readable = None
) -> dict[str, Any]:
    """Return the request for how many pages have each of some terms, of all that are readable."""
    counts: dict[str, Any] = {
        str(n): {"filter": _anywhere(term.text, held)} for n, term in enumerate(terms)
    }
    if readable is not None:
        counts = {_READABLE: {"filter": _of_sources(readable), "aggregations": counts}}
    return {"size": 0, "aggregations": {"all": {"global": {}, "aggregations": counts}}}


def counted_terms(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the counts that ``counted_terms_request`` asked for."""
    every: Mapping[str, Any] = answer["aggregations"]["all"]
    found: Mapping[str, Any] = every.get(_READABLE, every)
    return found


def _of_sources(names: Sequence[str]) -> dict[str, Any]:
    return {"terms": {"source": list(names)}}


def search_proposal_request(
    query: Query, held: Sequence[str], sources: Sequence[str], limit: int, readable: Readable = None
) -> dict[str, Any]:
    """Return the request for the pages that may answer a query, and for how many have each term.

    ``held`` are the endings of the fields with text.
    """
    terms = query.terms
    named = [_anywhere(term.text, held, name=str(place)) for place, term in enumerate(terms)]
    return counted_terms_request(terms, held, readable) | {
        "query": {
            "bool": {
                "should": named,
                "minimum_should_match": 1,
                **search_filters(query, held, sources, readable),
            }
        },
        "size": max(0, min(limit, MOST_HITS)),
        "sort": ["_score", {"urlLength": "asc"}, {"url": "asc"}],
        "source": RATED,
        "track_total_hits": False,
    }


def search_filters(
    query: Query, held: Sequence[str], sources: Sequence[str], readable: Readable = None
) -> dict[str, list[dict[str, Any]]]:
    """Return the conditions of a query on pages, as parts of ``bool``."""
    filters: list[dict[str, Any]] = [_anywhere(text, held) for text in query.required]
    filters += [_of_sources(names) for names in (sources or None, readable) if names is not None]
    if query.language:
        filters.append({"term": {"language": query.language}})
    if query.sites:
        filters.append({"bool": {"should": _at_sites(query.sites)}})
    excluded = [_anywhere(text, held) for text in query.excluded] + _at_sites(query.excluded_sites)
    if query.excluded_sources:
        excluded.append(_of_sources(query.excluded_sources))
    return {"filter": filters, "must_not": excluded}


def _anywhere(text: str, held: Sequence[str], *, name: str | None = None) -> dict[str, Any]:
    """Return the query for pages that have a word or phrase in any chunk."""
    queries = [_words([text], ending) for ending in held]
    nested = {"path": "chunks", "score_mode": "max", "query": {"dis_max": {"queries": queries}}}
    return {"nested": nested | ({} if name is None else {"_name": name})}


def _at_sites(sites: Iterable[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for site in sites:
        place = search_query_place(site)
        if place is None:
            found.append({"regexp": {"url": {"value": index_site_pattern(site)}}})
        else:
            found += [{"term": {"url": place}}, {"prefix": {"url": f"{place}/"}}]
    return found


def index_site_pattern(site: str) -> str:
    r"""Return the pattern of the addresses of a site of the web, in Lucene's syntax.

    >>> index_site_pattern("a.example/docs")
    'https?://([^/]*\\.)?a\\.example(:[0-9]+)?\\/docs([\\/\\?].*)?'
    """
    host, path = search_query_site(site)
    port = "" if ":" in host else "(:[0-9]+)?"
    behind = f"{_quoted(path)}([{_quoted(search_signs_after(path))}].*)?" if path else "(/.*)?"
    return rf"https?://([^/]*\.)?{_quoted(host)}{port}{behind}"


def _quoted(text: str) -> str:
    return "".join(sign if sign.isalnum() else f"\\{sign}" for sign in text)


def indexed_terms_matched(hit: Mapping[str, Any]) -> frozenset[int]:
    """Return the places of the terms that a proposed page has."""
    return frozenset(int(name) for name in hit.get("matched_queries", ()))


def indexed_page_of_hit(hit: Mapping[str, Any], places: Mapping[int, int]) -> ProposedPage:
    """Return a proposed page; ``places`` are the new ones of its terms."""
    page = hit["_source"]
    ending = analyzer_suffix(page.get("language", ""))
    parts = [
        RankedPart(
            chunk.get("position", 0),
            chunk.get(f"headings{ending}", ""),
            chunk.get(f"text{ending}", ""),
            chunk.get("position", 0),
            chunk.get(f"pictures{ending}", ""),
        )
        for chunk in page.get("chunks", ())
    ]
    terms = frozenset(places[place] for place in indexed_terms_matched(hit) if place in places)
    return ProposedPage(page["key"], page["url"], page.get("title", ""), parts[:MOST_PARTS], terms)


def near_index_words_request(
    forms: Sequence[str], held: Sequence[str], sources: Sequence[str], readable: Readable = None
) -> dict[str, Any]:
    """Return the request for pages of some sources that have any of some words."""
    text = " ".join(forms[: MOST_CLAUSES // (2 * len(held))])
    queries = [
        {"match": {f"chunks.{name}{ending}": text}}
        for ending in held
        for name in ("text", "pictures")
    ]
    nested = {"path": "chunks", "query": {"bool": {"should": queries}}, "score_mode": "none"}
    filters = [_of_sources(names) for names in (sources or None, readable) if names is not None]
    found = {"bool": {"must": [{"nested": nested}], "filter": filters}}
    return {"query": found, "size": _TEXTS, "source": ["chunks"]}


def indexed_texts(hits: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return all texts of the chunks of some pages."""
    return [
        str(value)
        for hit in hits
        for chunk in hit["_source"].get("chunks", ())
        for name, value in chunk.items()
        if name != "position"
    ]


def indexed_snippets(
    keys: Sequence[str], terms: Sequence[Term], held: Sequence[str], tags: Tags
) -> dict[str, Any]:
    """Return the request for pages by their keys, with ``tags`` around the words found."""
    nested = {
        "path": "chunks",
        "score_mode": "max",
        "query": any_words_of_chunk(terms, held),
        "inner_hits": {
            "size": MOST_SHOWN,
            "sort": ["_score", {"chunks.position": "asc"}],
            "_source": PARTS,
            "highlight": chunk_highlight(held, tags),
        },
    }
    return {
        "query": {
            "bool": {"filter": [{"terms": {"key": list(keys)}}], "must": [{"nested": nested}]}
        },
        "size": len(keys),
        "source": SHOWN,
        "track_total_hits": False,
    }


def any_words_of_chunk(terms: Sequence[Term], held: Sequence[str]) -> dict[str, Any]:
    """Return the query for any words in a chunk, whatever its language."""
    texts = [term.text for term in terms]
    return {"dis_max": {"queries": [_words(texts, ending) for ending in held]}}


def _words(wanted: Sequence[str], ending: str) -> dict[str, Any]:
    """Return the query for any words in the fields of one language, as if they were one field."""
    fields = [f"chunks.{name}{ending}^{weight}" for name, weight in WEIGHTS.items()]
    single = [one for one in wanted if one.isalnum()]
    together = [one for one in wanted if not one.isalnum()]
    queries: list[dict[str, Any]] = [
        {"multi_match": {"query": one, "type": "phrase", "fields": fields}} for one in together
    ]
    if single:
        words = {"query": " ".join(single), "operator": "or", "fields": fields}
        queries.append({"combined_fields": words})
    return {"bool": {"should": queries, "minimum_should_match": 1}}


def chunk_highlight(held: Sequence[str], tags: Tags) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for ending in held:
        fields[f"chunks.headings{ending}"] = {"number_of_fragments": 0}
        fields[f"chunks.text{ending}"] = {
            "number_of_fragments": 1,
            "fragment_size": _SNIPPET,
            "no_match_size": _SNIPPET,
        }
        fields[f"chunks.pictures{ending}"] = {"number_of_fragments": 1, "fragment_size": _SNIPPET}
    return {"pre_tags": [tags[0]], "post_tags": [tags[1]], "fields": fields}


def chunks_with_words(hit: Mapping[str, Any], tags: Tags) -> list[Mapping[str, Any]]:
    """Return the best chunk of a page, and others that have words of the query."""
    best, *others = hit["inner_hits"]["chunks"]["hits"]["hits"]
    return [best, *(chunk for chunk in others if _has_words(chunk, tags))]


def search_hit(
    page: Mapping[str, Any],
    chunks: Iterable[Mapping[str, Any]],
    *,
    score: float,
    sources: tuple[str, ...],
    tags: Tags,
    marks: Tags,
) -> ElasticsearchHit:
    """Return one hit with its score and chunks; ``marks`` replace ``tags`` around the words."""
    ending = analyzer_suffix(page.get("language", ""))
    found = [_hit_chunk(chunk, ending, tags, marks) for chunk in chunks]
    headings, first = found[0]
    return ElasticsearchHit(
        key=page["key"],
        url=page["url"],
        source=page["source"],
        title=page.get("title", ""),
        headings=headings,
        snippet=first.highlight,
        score=float(f"{score:.6g}"),
        language=page.get("language", ""),
        description=page.get("description", ""),
        sources=sources,
        chunks=tuple(chunk for _, chunk in found if chunk.path or chunk.text),
    )


def _has_words(chunk: Mapping[str, Any], tags: Tags) -> bool:
    """Whether a chunk has words of the query itself, not only by the title of its page."""
    return any(tags[0] in text for texts in chunk.get("highlight", {}).values() for text in texts)


def _hit_chunk(
    chunk: Mapping[str, Any], ending: str, tags: Tags, marks: Tags
) -> tuple[str, HitChunk]:
    """Return the headings of a chunk with marks around the words found, and the chunk."""
    stored, marked = chunk["_source"], chunk.get("highlight", {})
    path, text = stored.get(f"headings{ending}", ""), stored.get(f"text{ending}", "")
    headings = marked.get(f"chunks.headings{ending}", [path])[0]
    pictures = stored.get(f"pictures{ending}", "")
    fragment = marked.get(f"chunks.text{ending}", [""])[0]
    of_pictures = marked.get(f"chunks.pictures{ending}", [""])[0]
    if of_pictures and tags[0] not in fragment:
        highlight = _marked(_cut(of_pictures, pictures, tags), tags, marks)
    else:
        highlight = _marked(_cut(fragment, text, tags), tags, marks)
    return _marked(headings, tags, marks), HitChunk(
        stored.get("position", 0), path, highlight, text
    )


def _cut(fragment: str, text: str, tags: Tags) -> str:
    """Mark a fragment with dots where text precedes or follows it."""
    plain = fragment.replace(tags[0], "").replace(tags[1], "").strip()
    before = "" if text.strip().startswith(plain) else "… "
    behind = "" if text.strip().endswith(plain) else " …"
    return f"{before}{fragment}{behind}"


def _marked(text: str, tags: Tags, marks: tuple[str, str]) -> str:
    return " ".join(text.split()).replace(tags[0], marks[0]).replace(tags[1], marks[1])


_LEAST_CANDIDATES: Final = 500  #: chunks of a shard that are looked at, at least
_CANDIDATES: Final = 5  #: the same for each page that is wanted
_MOST_CANDIDATES: Final = 10_000  #: Elasticsearch's own limit
#: The score of a kNN search.
_SCORE: Final = "(1.0 + cosineSimilarity(params.vector, 'chunks.vector')) / 2.0"


def nearness_request(vector: bytes, filters: Mapping[str, Any], pool: int) -> dict[str, Any]:
    """Return the request for the pages whose chunks are nearest to a vector, each page once.

    The ``filters`` of a query hold before the pages are counted. ``vector`` has float32 numbers,
    little-endian.
    """
    candidates = max(_LEAST_CANDIDATES, _CANDIDATES * pool)
    return {
        "knn": {
            "field": "chunks.vector",
            "query_vector": index_vector_numbers(vector).tolist(),
            "k": pool,
            "num_candidates": min(candidates, _MOST_CANDIDATES),
            "filter": {"bool": filters},
            "inner_hits": {"size": 1, "_source": False},
        },
        "size": pool,
        "source": RATED,
        "track_total_hits": False,
    }


def exact_nearness_request(vector: bytes, filters: Mapping[str, Any], pool: int) -> dict[str, Any]:
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
        "query": {"bool": {"must": [{"nested": nested}], **filters}},
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


Ask = Callable[..., Any]  #: sends a search request and returns the body of the answer


class ElasticsearchFinder:
    """Searches for one query."""

    def __init__(self, ask: Ask, sources: Sequence[str], *, readable: Readable = None) -> None:
        listed = ask(size=0, aggregations=language_aggregation(), request_cache=True)
        self._ask = ask
        self._held = searched_field_endings(listed["aggregations"])
        self._sources = sources
        self._readable = readable

    def bounded(self, query: Query) -> Query:
        """Return a query with as many words as the server takes."""
        return query.only(bounded_query_terms(query.terms, self._held))

    def counted(self, terms: Sequence[Term]) -> list[int]:
        """Return how many pages have each word.

        Words that the server would not take count as one page: they stay, to be cut like those of
        a short query.
        """
        asked = bounded_query_terms(terms, self._held)
        every = counted_terms(self._ask(**counted_terms_request(asked, self._held, self._readable)))
        pages = [int(every[str(place)]["doc_count"]) for place in range(len(asked))]
        return pages + [1] * (len(terms) - len(asked))

    def proposed(self, query: Query, pool: int) -> Proposed:
        """Return the pages that have any of the words, and all that they must have."""
        body = self._ask(
            **search_proposal_request(query, self._held, self._sources, pool, self._readable)
        )
        every = counted_terms(body)
        pages = [every[str(place)]["doc_count"] for place in range(len(query.terms))]
        found = {hit["_source"]["key"]: hit for hit in body["hits"]["hits"]}
        return Proposed(found, pages, every["doc_count"])

    def texts(self, forms: Sequence[str]) -> Sequence[str]:
        """Return texts of the index that have some of these words."""
        request = near_index_words_request(forms, self._held, self._sources, self._readable)
        return indexed_texts(self._ask(**request)["hits"]["hits"])

    def nearest_pages(self, query: Query, near: VectorQuery, pool: int) -> list[NearPage]:
        """Return pages that are near to a query in meaning, and have all that they must have."""
        filters = search_filters(query, self._held, self._sources, self._readable)
        asked = (near.vector, filters, pool)
        hits = self._ask(**nearness_request(*asked))["hits"]["hits"]
        if len(hits) < pool:  # there may be more, which the graph does not lead to
            hits = self._ask(**exact_nearness_request(*asked))["hits"]["hits"]
        return near_hits(hits)

    def pages(
        self, query: Query, found: Proposed, near: Sequence[NearPage], places: Mapping[int, int]
    ) -> dict[Any, ProposedPage]:
        """Return proposed and near pages by their keys; the answers have all of both."""
        hits = {one.content: one.hit for one in near} | dict(found.found)
        return {key: indexed_page_of_hit(hit, places) for key, hit in hits.items()}

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
        tags = search_highlight_marks()
        with_words = [str(one.page.key) for one, _ in best if one.found]
        words, nearest = {}, {}
        if with_words:
            words = self._pages(indexed_snippets(with_words, terms, self._held, tags))
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
                    search_hit(
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

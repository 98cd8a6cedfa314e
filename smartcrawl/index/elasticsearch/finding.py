"""Searches of an index in an Elasticsearch, by words and by meaning (ADR 48).

The server proposes pages and counts how many have each word; ``searching`` has the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Final

from smartcrawl.index.analysis.marking import Marks
from smartcrawl.index.analysis.stems import (
    ANY_END,
    BEGINNING,
    Keys,
    asked_keys_of_languages,
    index_keys,
)
from smartcrawl.index.analysis.words import words_at
from smartcrawl.index.elasticsearch.documents import (
    WEIGHTS,
    WORDS,
    analyzer_suffix,
    index_timestamp,
    indexed_chunk_places,
)
from smartcrawl.index.elasticsearch.facets import count_elasticsearch_pages
from smartcrawl.index.elasticsearch.latest import latest_pages_request
from smartcrawl.index.embedded.vectors import index_vector_numbers
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
    MOST_PARTS,
    MOST_SHOWN,
    PAGES,
    POOL,
    NearPage,
    ProposedPage,
    Ranked,
    RankedPart,
    VectorQuery,
    name_gains,
    parts_to_show,
    rate_far_parts,
    search_term_weight,
)
from smartcrawl.index.searching import MOST_PROPOSED, FoundPage, HitChunk, Proposed, QueryMarker
from smartcrawl.model.page_types import BEGINNINGS, ENDINGS, NAMED, OTHER
from smartcrawl.model.urls import shown_title
from smartcrawl.registry.visibility import Readable

MOST_HITS: Final = 10_000  #: Elasticsearch's own limit
MOST_WORDS: Final = 64  #: words of one query that count
#: Keys of a query times the fields that are searched: below the limit of a server with the least
#: memory.
MOST_CLAUSES: Final = 4_000
#: Fields of a page that is rated; its vectors would be most of the answer.
RATED: Final[Mapping[str, Any]] = {
    "includes": ["key", "url", "source", "title", "language", "description", "chunks"],
    "excludes": ["chunks.vector"],
}
PARTS: Final = {"excludes": ["chunks.vector", "vector"]}  #: of the source of inner hits
_NAME_BOOST: Final = 8  #: of a name among the words of a proposal
_TEXTS: Final = 20  #: pages in which nearest words are looked for
_LANGUAGES: Final = 200  #: more than ISO 639-1 has
_READABLE: Final = "readable"  #: name of the counts of some sources


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


def held_languages(aggregations: Mapping[str, Any]) -> list[str]:
    """Return the languages of an index, and "", from the answer to ``language_aggregation()``."""
    return sorted({"", *(bucket["key"] for bucket in aggregations["languages"]["buckets"])})


@dataclass(frozen=True, slots=True)
class Wording:
    """How words are asked for in an index."""

    languages: Sequence[str]  #: of its pages
    #: Whether it has no words that are made here, but those of the server's analyzers alone.
    former: bool = False

    def query(self, text: str) -> dict[str, Any]:
        """Return the query for chunks that have a word, or words that stay together."""
        if self.former:
            text = text.rstrip(BEGINNING)  # a former index knows whole words alone
            return {"dis_max": {"queries": [self._analyzed(text, of) for of in self._endings()]}}
        return _words(asked_keys_of_languages(text, self.languages))

    def near(self, forms: Sequence[str]) -> dict[str, Any]:
        """Return the query for chunks that have any of some words in their text."""
        if self.former:
            endings = self._endings()
            text = " ".join(forms[: MOST_CLAUSES // (2 * len(endings))])
            held = [f"chunks.{name}{end}" for end in endings for name in ("text", "pictures")]
            return {"bool": {"should": [{"match": {name: text}} for name in held]}}
        words = " ".join(forms)
        keys = {key for language in self.languages for key in index_keys(words, language)}
        text = " ".join(sorted(keys)[: MOST_CLAUSES // 2])
        fields = ("chunks.textWords", "chunks.picturesWords")
        return {"bool": {"should": [{"match": {name: text}} for name in fields]}}

    def _endings(self) -> list[str]:
        return sorted({analyzer_suffix(language) for language in self.languages})

    def _analyzed(self, text: str, ending: str) -> dict[str, Any]:
        fields = [f"chunks.{name}{ending}^{weight}" for name, weight in WEIGHTS.items()]
        kind = "best_fields" if text.isalnum() else "phrase"
        return {"multi_match": {"query": text, "type": kind, "fields": fields}}


def bounded_query_phrases(wanted: Iterable[str], most: int) -> list[str]:
    """Return phrases of ``most`` words in all, leaving out the rest.

    >>> bounded_query_phrases(["broken", "error code 42", "fuse"], 3)
    ['broken', 'error code']
    """
    found = []
    for phrase in wanted:
        if most < 1:
            break
        ends = [word.end for word in words_at(phrase)]
        found.append(phrase if len(ends) <= most else phrase[: ends[most - 1]])
        most -= len(ends)
    return found


def most_query_words(languages: Sequence[str]) -> int:
    """Return how many words of a query count in an index with text in some languages."""
    return min(MOST_WORDS, MOST_CLAUSES // (len(WEIGHTS) * len(languages)))


def bounded_query_terms(terms: Sequence[Term], languages: Sequence[str]) -> list[Term]:
    """Return the terms of a query that count, cut if they have too many words."""
    texts = bounded_query_phrases([term.text for term in terms], most_query_words(languages))
    return [replace(term, text=text) for term, text in zip(terms, texts, strict=False)]


def counted_terms_request(
    terms: Sequence[Term],
    wording: Wording,
    readable: Readable = None,
    names: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the request for how many pages have each of some terms, of all that are readable.

    ``names``: keys of names that are counted, too.
    """
    counts: dict[str, Any] = {
        str(n): {"filter": _anywhere(term.text, wording)} for n, term in enumerate(terms)
    }
    counts |= {key: {"filter": _named(key)} for key in names}
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
    query: Query, wording: Wording, sources: Sequence[str], limit: int, readable: Readable = None
) -> dict[str, Any]:
    """Return the request for the pages that may answer a query, and for how many have each term.

    ``wording``: how words are asked for.
    """
    terms, keys = query.terms, asked_name_keys(query, wording)
    named = [_anywhere(term.text, wording, name=str(place)) for place, term in enumerate(terms)]
    named += map(_named, keys)
    return counted_terms_request(terms, wording, readable, keys) | {
        "query": {
            "bool": {
                "should": named,
                "minimum_should_match": 1,
                **search_filters(query, wording, sources, readable),
            }
        },
        "size": max(0, min(limit, MOST_HITS)),
        "sort": ["_score", {"urlLength": "asc"}, {"url": "asc"}],
        "source": RATED,
        "track_total_hits": False,
    }


def search_filters(
    query: Query, wording: Wording, sources: Sequence[str], readable: Readable = None
) -> dict[str, list[dict[str, Any]]]:
    """Return the conditions of a query on pages, as parts of ``bool``."""
    filters: list[dict[str, Any]] = [_anywhere(text, wording) for text in query.required]
    filters += [_of_sources(names) for names in (sources or None, readable) if names is not None]
    if query.language:
        filters.append({"term": {"language": query.language}})
    if query.sites:
        filters.append({"bool": {"should": _at_sites(query.sites)}})
    if query.pages is not None:
        filters.append({"terms": {"key": list(query.pages)}})
    asked = search_query_filters(query)
    if asked.languages:
        filters.append(_any_of(map(_of_language, asked.languages)))
    if asked.types:
        filters.append(_any_of(map(_of_type, asked.types)))
    if asked.of_dates:
        filters.append(_at_dates(asked))
    excluded = [_anywhere(text, wording) for text in query.excluded] + _at_sites(
        query.excluded_sites
    )
    if query.excluded_sources:
        excluded.append(_of_sources(query.excluded_sources))
    excluded += map(_of_language, asked.excluded_languages)
    excluded += map(_of_type, asked.excluded_types)
    return {"filter": filters, "must_not": excluded}


def _any_of(queries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {"bool": {"should": list(queries), "minimum_should_match": 1}}


def _lacks(field: str) -> dict[str, Any]:
    return {"bool": {"must_not": [{"exists": {"field": field}}]}}


def _of_language(code: str) -> dict[str, Any]:
    return {"term": {"language": code}} if code else _lacks("language")


def _of_type(word: str) -> dict[str, Any]:
    """Return the query for pages of one of ``page_types``."""
    if word == OTHER:
        others = [_of_type(one) for one in NAMED if one != word]
        return {"bool": {"must_not": others}}
    named = {"terms": {"mimeType": list(NAMED[word])}}
    if word in BEGINNINGS:
        like: dict[str, Any] = {"prefix": {"mimeType": BEGINNINGS[word]}}
    elif word in ENDINGS:
        like = {"wildcard": {"mimeType": f"*{ENDINGS[word]}"}}
    else:
        return named
    every = [name for names in NAMED.values() for name in names]
    unnamed = {"bool": {"filter": [like], "must_not": [{"terms": {"mimeType": every}}]}}
    return _any_of([named, unnamed])


def _at_dates(asked: SearchFilters) -> dict[str, Any]:
    """Return the query for pages of some dates: that of publication, else of the last change."""
    bounds = {"gte": asked.since, "lt": asked.until}
    between: dict[str, Any] = {name: index_timestamp(at) for name, at in bounds.items()
                               if at is not None}  # fmt: skip
    changed = [{"range": {"lastChanged": between}}, _lacks("published")]
    return _any_of([{"range": {"published": between}}, {"bool": {"filter": changed}}])


def asked_name_keys(query: Query, wording: Wording) -> list[str]:
    """Return the keys of the names of a query; none where the index has no words of ours."""
    return [] if wording.former else [key for name in query.names for key in name.keys]


def _named(key: str) -> dict[str, Any]:
    """Return the query for pages with the key of a name in any chunk."""
    query = {"term": {f"chunks.{WORDS[-1]}": {"value": key, "boost": _NAME_BOOST}}}
    return {"nested": {"path": "chunks", "score_mode": "max", "query": query, "_name": key}}


def _anywhere(text: str, wording: Wording, *, name: str | None = None) -> dict[str, Any]:
    """Return the query for pages that have a word or phrase in any chunk."""
    nested = {"path": "chunks", "score_mode": "max", "query": wording.query(text)}
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
    return frozenset(int(name) for name in hit.get("matched_queries", ()) if name.isdecimal())


def indexed_page_of_hit(
    hit: Mapping[str, Any], places: Mapping[int, int], gains: Mapping[str, float]
) -> ProposedPage:
    """Return a proposed page with all of its chunks; ``places`` are the new ones of its terms.

    ``gains``: what a page gains by the keys of names.
    """
    page = hit["_source"]
    language = page.get("language", "")
    ending = analyzer_suffix(language)
    parts = [_part(chunk, ending) for chunk in page.get("chunks", ())]
    terms = frozenset(places[place] for place in indexed_terms_matched(hit) if place in places)
    named = max((gains.get(name, 0.0) for name in hit.get("matched_queries", ())), default=0.0)
    title = page.get("title", "")
    return ProposedPage(page["key"], page["url"], title, parts, terms, language, named=named)


def _part(chunk: Mapping[str, Any], ending: str) -> RankedPart:
    position = chunk.get("position", 0)
    headings, text, pictures = (
        chunk.get(f"{name}{ending}", "") for name in ("headings", "text", "pictures")
    )
    return RankedPart(position, headings, text, position, pictures)


def near_index_words_request(
    forms: Sequence[str], wording: Wording, sources: Sequence[str], readable: Readable = None
) -> dict[str, Any]:
    """Return the request for pages of some sources that have any of some words."""
    nested = {"path": "chunks", "query": wording.near(forms), "score_mode": "none"}
    filters = [_of_sources(names) for names in (sources or None, readable) if names is not None]
    found = {"bool": {"must": [{"nested": nested}], "filter": filters}}
    order = [{"urlLength": "asc"}, {"url": "asc"}]  # whichever page came first
    return {"query": found, "size": _TEXTS, "sort": order, "source": ["language", "chunks"]}


def indexed_texts(hits: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return all texts of the chunks of some pages, with their languages."""
    return [
        (str(value), hit["_source"].get("language", ""))
        for hit in hits
        for chunk in hit["_source"].get("chunks", ())
        for name, value in chunk.items()
        if name.partition("_")[0] in WEIGHTS
    ]


def _words(asked: Sequence[Keys]) -> dict[str, Any]:
    """Return the query for any keys of a word in all fields, as if they were one field."""
    fields = [
        f"chunks.{name}^{weight}" for name, weight in zip(WORDS, WEIGHTS.values(), strict=True)
    ]
    together = [" ".join(keys) for keys in asked if len(keys) > 1]
    begun = [keys[0][:-1] for keys in asked if keys[-1].endswith(ANY_END)]
    single = [keys[0] for keys in asked if len(keys) == 1 and not keys[0].endswith(ANY_END)]
    queries: list[dict[str, Any]] = [
        {"multi_match": {"query": one, "type": "phrase", "fields": fields}} for one in together
    ]
    queries += [
        {"prefix": {f"chunks.{name}": {"value": one, "boost": weight}}}
        for one in begun
        for name, weight in zip(WORDS, WEIGHTS.values(), strict=True)
    ]
    if single:
        words = {"query": " ".join(single), "operator": "or", "fields": fields}
        queries.append({"combined_fields": words})
    return {"bool": {"should": queries, "minimum_should_match": 1}}


def search_hit(
    page: Mapping[str, Any],
    parts: Sequence[RankedPart],
    *,
    score: float,
    sources: tuple[str, ...],
    marker: QueryMarker,
) -> ElasticsearchHit:
    """Return one hit with its score and chunks, whose words ``marker`` marks."""
    language = page.get("language", "")
    seen = [marker.shown(part, language) for part in parts]
    places = {
        chunk.get("position", 0): indexed_chunk_places(chunk["places"])
        for chunk in page.get("chunks", ())
        if "places" in chunk
    }
    snippet = seen[0].snippet if seen else ""
    headings = marker.headings(parts[0], language) if parts else ""
    return ElasticsearchHit(
        key=page["key"],
        url=page["url"],
        source=page["source"],
        title=shown_title(page.get("title", ""), page["url"]),
        headings=headings,
        snippet=snippet,
        score=float(f"{score:.6g}"),
        language=language,
        description=page.get("description", ""),
        sources=sources,
        chunks=tuple(
            HitChunk(
                part.number,
                part.headings,
                one.snippet,
                part.text,
                places=places.get(part.number),
                found=one.found,
            )
            for part, one in zip(parts, seen, strict=True)
            if part.headings or part.text
        ),
    )


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


def nearest_chunks_request(keys: Sequence[str], vector: bytes) -> dict[str, Any]:
    """Return the request for the nearest chunks of each of some pages, by the keys of these."""
    nested = {
        "path": "chunks",
        "query": _every_chunk(vector),
        "inner_hits": {
            "size": MOST_SHOWN,
            "sort": ["_score", {"chunks.position": "asc"}],
            "_source": PARTS,
        },
    }
    filters = [{"terms": {"key": list(keys)}}, {"nested": nested}]
    return {
        "query": {"bool": {"filter": filters}},
        "size": len(keys),
        "source": ["key", "language"],
        "track_total_hits": False,
    }


def nearest_parts(hit: Mapping[str, Any]) -> list[RankedPart]:
    """Return the chunks of a page that ``nearest_chunks_request`` found, the nearest first."""
    ending = analyzer_suffix(hit["_source"].get("language", ""))
    return [_part(one["_source"], ending) for one in hit["inner_hits"]["chunks"]["hits"]["hits"]]


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


def _first_pages(hits: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return how many proposals are the first ``PAGES`` pages, and how many pages these are.

    A page that several sources have counts once.
    """
    urls: set[str] = set()
    for place, hit in enumerate(hits):
        urls.add(hit["_source"]["url"])
        if len(urls) > PAGES:
            return place, PAGES
    return len(hits), len(urls)


def _order(one: NearPage) -> tuple[float, int, str, str]:
    url = one.hit["_source"]["url"]
    return one.distance, len(url), url, one.content


Ask = Callable[..., Any]  #: sends a search request and returns the body of the answer


class ElasticsearchFinder:
    """Searches for one query."""

    def __init__(
        self, ask: Ask, sources: Sequence[str], *, readable: Readable = None, former: bool = False
    ) -> None:
        """``former``: the index has no words that are made here."""
        listed = ask(size=0, aggregations=language_aggregation(), request_cache=True)
        self._ask = ask
        self._languages = held_languages(listed["aggregations"])
        self._wording = Wording(self._languages, former)
        self._sources = sources
        self._readable = readable
        self._pages: dict[str, Mapping[str, Any]] = {}  #: stored fields of pages, by key
        self._gains: Mapping[str, float] = {}  #: of the names of the query
        self._far: dict[str, Sequence[RankedPart]] = {}  #: chunks that are not always looked at

    def bounded(self, query: Query) -> Query:
        """Return a query with as many words as the server takes."""
        return query.only(bounded_query_terms(query.terms, self._languages))

    def counted(self, terms: Sequence[Term]) -> list[int]:
        """Return how many pages have each word.

        Words that the server would not take count as one page: they stay, to be cut like those of
        a short query.
        """
        asked = bounded_query_terms(terms, self._languages)
        every = counted_terms(
            self._ask(**counted_terms_request(asked, self._wording, self._readable))
        )
        pages = [int(every[str(place)]["doc_count"]) for place in range(len(asked))]
        return pages + [1] * (len(terms) - len(asked))

    def proposed(self, query: Query, pool: int, least: int) -> Proposed:
        """Return the pages that have any of the words, and all that they must have."""
        size = PAGES if pool == POOL and least <= PAGES else MOST_PROPOSED
        while True:
            asked = query, self._wording, self._sources, size, self._readable
            body = self._ask(**search_proposal_request(*asked))
            hits = body["hits"]["hits"]
            first, different = _first_pages(hits)
            if different == PAGES or len(hits) < size or size == MOST_PROPOSED:
                break
            size = min(2 * size, MOST_PROPOSED)  # several sources have the same pages
        every = counted_terms(body)
        pages = [every[str(place)]["doc_count"] for place in range(len(query.terms))]
        total = every["doc_count"]
        by_text = {
            term.text: search_term_weight(count, total)
            for term, count in zip(query.terms, pages, strict=True)
        }
        keys = asked_name_keys(query, self._wording)
        counts = [every[key]["doc_count"] for key in keys]
        names = query.names if keys else ()
        self._gains = name_gains(names, counts, total, by_text)
        found = {hit["_source"]["key"]: hit for hit in hits}
        return Proposed(found, pages, total, first, more=len(found) >= size)

    def facet_counts(self, query: Query, facets: Collection[str]) -> Counted:
        """Count the pages that have any of the words and meet the filters (``index.facets``)."""
        words = _any_of(_anywhere(term.text, self._wording) for term in query.terms)
        filters = search_filters(query, self._wording, self._sources, self._readable)
        wanted = {"bool": {**filters, "filter": [words, *filters["filter"]]}}
        types = {word: _of_type(word) for word in NAMED}
        return count_elasticsearch_pages(self._ask, wanted, facets, types)

    def latest(self, query: Query, few: float, most: int) -> list[tuple[Any, Any]]:
        """Return addresses and keys of pages that have any of the words, the latest first."""
        words = [_anywhere(term.text, self._wording) for term in query.terms]
        filters = search_filters(query, self._wording, self._sources, self._readable)
        hits = self._ask(**latest_pages_request(words, filters, few, most))["hits"]["hits"]
        keys = [hit["_source"]["key"] for hit in hits]
        return [(key.rpartition(":")[2], key) for key in keys]

    def texts(self, forms: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return texts of the index that have some of these words, with their languages."""
        request = near_index_words_request(forms, self._wording, self._sources, self._readable)
        return indexed_texts(self._ask(**request)["hits"]["hits"])

    def nearest_pages(self, query: Query, near: VectorQuery, pool: int) -> list[NearPage]:
        """Return pages that are near to a query in meaning, and have all that they must have."""
        filters = search_filters(query, self._wording, self._sources, self._readable)
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
        pages = {key: indexed_page_of_hit(hit, places, self._gains) for key, hit in hits.items()}
        self._pages |= {key: hit["_source"] for key, hit in hits.items()}
        self._far = {key: page.parts[MOST_PARTS:] for key, page in pages.items()}
        return {key: page._replace(parts=page.parts[:MOST_PARTS]) for key, page in pages.items()}

    def with_best_parts(
        self, ranked: list[Ranked], words: tuple[Sequence[Term], Sequence[float]]
    ) -> list[Ranked]:
        """Return rated pages with their best chunks, which may be far down; scores stay."""
        return [
            rate_far_parts(one, self._far[one.page.key], *words)
            if one.found and self._far.get(one.page.key)
            else one
            for one in ranked
        ]

    def records(self, key: str) -> list[tuple[str, str]]:
        """Return the hash of the address of a page, which all sources share, and its source."""
        source, _, address = key.rpartition(":")
        return [(address, source)]

    def shown(
        self,
        best: Sequence[FoundPage],
        terms: Sequence[Term],
        marks: Marks,
        near: VectorQuery | None,
    ) -> list[ElasticsearchHit]:
        """Return hits with their chunks; ``near``: the meaning of the query, where it counts."""
        marker = QueryMarker(terms, marks)
        nearest: dict[str, list[RankedPart]] = {}
        if near is not None and best:
            asked = nearest_chunks_request([str(one.page.key) for one, _ in best], near.vector)
            hits = self._ask(**asked)["hits"]["hits"]
            nearest = {hit["_source"]["key"]: nearest_parts(hit) for hit in hits}
        return [
            search_hit(
                self._pages[one.page.key],
                parts_to_show(one, nearest.get(one.page.key, ())),
                score=one.score,
                sources=tuple(sources),
                marker=marker,
            )
            for one, sources in best
        ]

"""Search requests, equivalent to those of the embedded index (index/embedded/sqlite.py)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from smartcrawl.index.elasticsearch.analysis import SUFFIXES, suffix
from smartcrawl.index.elasticsearch.mapping import WEIGHTS
from smartcrawl.index.queries import phrases

MOST_HITS: Final = 10_000  #: Elasticsearch's own limit
MOST_WORDS: Final = 64  #: words of one query that count
#: Words of a query times the fields that are searched: below the limit of a server with the least
#: memory.
MOST_CLAUSES: Final = 4_000
#: A word for an analyzer, at most; each character of Chinese and the like is one.
_WORD: Final = re.compile(r"[\u2e80-\U0010ffff]|[^\W\u2e80-\U0010ffff]{1,255}")
_SNIPPET: Final = 200  #: characters, about the 32 words of the embedded index
_SHOWN: Final = ["key", "url", "source", "title", "language", "description"]
_LANGUAGES: Final = 200  #: more than ISO 639-1 has


#: Temporary marks around found words, replaced by ``marks``.
Tags = tuple[str, str]


def unlikely() -> Tags:
    """Return two words that occur in no text."""
    word = uuid4().hex
    return f"<{word}>", f"</{word}>"


@dataclass(frozen=True, slots=True)
class Found:
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


def languages() -> dict[str, Any]:
    """Return the aggregation that lists the languages of an index."""
    return {"languages": {"terms": {"field": "language", "size": _LANGUAGES}}}


def endings(aggregations: Mapping[str, Any]) -> list[str]:
    """Return the endings of the fields with text, from the answer to ``languages()``."""
    buckets = aggregations["languages"]["buckets"]
    held = {"", *(suffix(bucket["key"]) for bucket in buckets)}
    return [ending for ending in SUFFIXES if ending in held]


def has_words(query: str) -> bool:
    """Whether a query has a word."""
    return bool(phrases(query))


def bounded(wanted: Iterable[str], most: int) -> list[str]:
    """Return phrases of ``most`` words in all, leaving out the rest.

    >>> bounded(["broken", "error code 42", "fuse"], 3)
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


def request(
    query: str,
    held: Sequence[str],
    *,
    sources: Sequence[str],
    limit: int,
    every: bool,
    tags: Tags,
) -> dict[str, Any]:
    """Return the request for a query, which has a word.

    The words must all occur in one chunk (``every``), or any of them; its title and headings
    count as part of it. ``held`` are the endings of the fields with text. ``tags`` are put around
    the words found. Hits with equal scores are sorted by the length of the address, then by the
    address.
    """
    wanted = bounded(phrases(query), min(MOST_WORDS, MOST_CLAUSES // (len(WEIGHTS) * len(held))))
    in_chunks = {"dis_max": {"queries": [_words(wanted, ending, every=every) for ending in held]}}
    nested = {
        "path": "chunks",
        "score_mode": "max",
        "query": in_chunks,
        "inner_hits": {
            "size": 1,
            "sort": ["_score", {"chunks.position": "asc"}],
            "highlight": _highlight(held, tags),
        },
    }
    filters = [{"terms": {"source": list(sources)}}] if sources else []
    return {
        "query": {"bool": {"must": [{"nested": nested}], "filter": filters}},
        "size": max(0, min(limit, MOST_HITS)),
        "sort": ["_score", {"urlLength": "asc"}, {"url": "asc"}],
        "source": _SHOWN,
        "track_total_hits": False,
    }


def _words(wanted: Sequence[str], ending: str, *, every: bool) -> dict[str, Any]:
    """Return the query for words in the fields of one language, as if they were one field."""
    fields = [f"chunks.{name}{ending}^{weight}" for name, weight in WEIGHTS.items()]
    single = [one for one in wanted if one.isalnum()]
    together = [one for one in wanted if not one.isalnum()]
    queries: list[dict[str, Any]] = [
        {"multi_match": {"query": one, "type": "phrase", "fields": fields}} for one in together
    ]
    if single:
        words = {"query": " ".join(single), "operator": "and" if every else "or", "fields": fields}
        queries.append({"combined_fields": words})
    if every:
        return {"bool": {"must": queries}}
    return {"bool": {"should": queries, "minimum_should_match": 1}}


def _highlight(held: Sequence[str], tags: Tags) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for ending in held:
        fields[f"chunks.headings{ending}"] = {"number_of_fragments": 0}
        fields[f"chunks.text{ending}"] = {
            "number_of_fragments": 1,
            "fragment_size": _SNIPPET,
            "no_match_size": _SNIPPET,
        }
    return {"pre_tags": [tags[0]], "post_tags": [tags[1]], "fields": fields}


def found(hit: Mapping[str, Any], tags: Tags, marks: tuple[str, str]) -> Found:
    """Return one hit of an answer; ``marks`` replace ``tags`` around the words found."""
    page = hit["_source"]
    (chunk,) = hit["inner_hits"]["chunks"]["hits"]["hits"]
    ending = suffix(page.get("language", ""))
    text = chunk["_source"].get(f"text{ending}", "")
    shown = chunk.get("highlight", {})
    headings = shown.get(
        f"chunks.headings{ending}", [chunk["_source"].get(f"headings{ending}", "")]
    )
    fragments = shown.get(f"chunks.text{ending}", [""])
    return Found(
        key=page["key"],
        url=page["url"],
        source=page["source"],
        title=page.get("title", ""),
        headings=_marked(headings[0], tags, marks),
        snippet=_marked(_cut(fragments[0], text, tags), tags, marks),
        score=float(f"{hit['_score']:.6g}"),
        language=page.get("language", ""),
        description=page.get("description", ""),
    )


def _cut(fragment: str, text: str, tags: Tags) -> str:
    """Mark a fragment with dots where text precedes or follows it."""
    plain = fragment.replace(tags[0], "").replace(tags[1], "").strip()
    before = "" if text.strip().startswith(plain) else "… "
    behind = "" if text.strip().endswith(plain) else " …"
    return f"{before}{fragment}{behind}"


def _marked(text: str, tags: Tags, marks: tuple[str, str]) -> str:
    return " ".join(text.split()).replace(tags[0], marks[0]).replace(tags[1], marks[1])

"""Counts of the pages that a query finds in an Elasticsearch, for facets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from smartcrawl.index.elasticsearch.latest import RUNTIME_DATE
from smartcrawl.index.facets import DATES, MOST_COUNTED, MOST_VALUES, Counted, finest_dates

_MOST_LANGUAGES: Final = 200
_EXACT: Final = 40_000  #: the most values that Elasticsearch counts nearly exactly
_INTERVALS: Final = {4: ("year", "yyyy"), 7: ("month", "yyyy-MM"), 10: ("day", "yyyy-MM-dd")}
_PAGES: Final = {"cardinality": {"field": "urlHash", "precision_threshold": _EXACT}}


def count_elasticsearch_pages(
    ask: Callable[..., Any],
    query: Mapping[str, Any],
    facets: Collection[str],
    types: Mapping[str, Mapping[str, Any]],
) -> Counted:
    """Count the pages that a query finds, up to ``MOST_COUNTED`` in each shard.

    ``types``: the query for each type. Documents are counted; only where several sources have one
    of the pages, the addresses are counted in a second request, which costs more.
    """
    answer = _asked(ask, query, facets, types, once=False)
    found = answer["aggregations"]
    total = int(found["pages"]["value"])
    if total != found["entries"]["value"]:
        answer = _asked(ask, query, facets, types, once=True)
        found = answer["aggregations"]
    values = {facet: dict(_counts(facet, found)) for facet in facets if facet != "date"}
    if "date" in facets:
        values["date"] = dict(finest_dates(dict(_counts(f"date{n}", found)) for n in DATES))
    is_whole = total <= MOST_COUNTED and not answer.get("terminated_early", False)
    return Counted(total, is_whole, values)


def _asked(
    ask: Callable[..., Any],
    query: Mapping[str, Any],
    facets: Collection[str],
    types: Mapping[str, Mapping[str, Any]],
    *,
    once: bool,
) -> Any:
    wanted: dict[str, dict[str, Any]] = {}
    if "source" in facets:
        wanted["source"] = {"terms": {"field": "source", "size": MOST_VALUES}}
    if "language" in facets:
        terms = {"field": "language", "size": _MOST_LANGUAGES, "missing": ""}
        wanted["language"] = {"terms": terms}
    if "type" in facets:
        wanted["type"] = {"filters": {"filters": dict(types)}}
    if "date" in facets:
        for letters in DATES:
            interval, form = _INTERVALS[letters]
            by = {"calendar_interval": interval, "format": form, "min_doc_count": 1}
            wanted[f"date{letters}"] = {"date_histogram": {"field": "date", **by}}
    if once:
        wanted = {name: one | {"aggregations": {"pages": _PAGES}} for name, one in wanted.items()}
    return ask(
        query=query,
        size=0,
        terminate_after=MOST_COUNTED + 1,
        track_total_hits=False,
        runtime_mappings=RUNTIME_DATE,
        aggregations={"pages": _PAGES, "entries": {"value_count": {"field": "key"}}, **wanted},
    )


def _counts(name: str, found: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the values of a facet with their pages."""
    buckets = found[name]["buckets"]
    if isinstance(buckets, Mapping):
        buckets = [{"key": value, **bucket} for value, bucket in buckets.items()]
    for bucket in buckets:
        pages = bucket["pages"]["value"] if "pages" in bucket else bucket["doc_count"]
        yield bucket.get("key_as_string", bucket["key"]), int(pages)

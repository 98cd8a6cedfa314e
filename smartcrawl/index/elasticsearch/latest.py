"""The latest pages that a query finds in an Elasticsearch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

#: The date of a hit; documents of a former version have no ``published``.
_DATE: Final = """
if (doc.containsKey('published') && !doc['published'].empty) {
  emit(doc['published'].value.toInstant().toEpochMilli());
} else if (!doc['lastChanged'].empty) {
  emit(doc['lastChanged'].value.toInstant().toEpochMilli());
}
"""
#: The date of a page as a field ``date`` of requests.
RUNTIME_DATE: Final = {"date": {"type": "date", "script": {"source": _DATE}}}


def latest_pages_request(
    words: Sequence[Mapping[str, Any]],
    filters: Mapping[str, Any],
    few: float,
    most: int,
) -> dict[str, Any]:
    """Return the request for pages that have any of some words, the latest first.

    Each word scores 1, so that a score is the number of words; pages with no more than ``few`` of
    them come last.
    """
    each = [{"constant_score": {"filter": word, "boost": 1}} for word in words]
    script = {"source": "_score > params.few ? 1 : 0", "params": {"few": few}}
    return {
        "query": {"bool": {"should": each, "minimum_should_match": 1, **filters}},
        "runtime_mappings": RUNTIME_DATE,
        "size": most,
        "sort": [
            {"_script": {"type": "number", "script": script, "order": "desc"}},
            {"date": {"order": "desc"}},
            {"urlLength": "asc"},
            {"url": "asc"},
            {"key": "asc"},
        ],
        "source": ["key"],
        "track_scores": True,  # else the script gets none
        "track_total_hits": False,
    }

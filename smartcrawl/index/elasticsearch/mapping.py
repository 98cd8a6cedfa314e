"""What an index of pages looks like: names, settings and fields, written out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from smartcrawl.index.elasticsearch.analysis import SUFFIXES, analysis, analyzer

#: Rises with each change of what follows or of documents.py; another one is refused.
MAPPING_VERSION: Final = 2
#: Fields of a chunk that are searched, with their weights, as in the embedded index.
WEIGHTS: Final[Mapping[str, int]] = {"title": 8, "headings": 4, "text": 1}
_NESTED_LIMIT: Final = 50_000  #: chunks and images of one page; Elasticsearch's own is 10,000
_LONGEST: Final = 8_191  #: characters of what is found as a whole; a longer one is kept, not found
_PRIORITY: Final = 500  #: of our template among others that match the same names


def settings() -> dict[str, Any]:
    """Return the settings of an index that this program relies on."""
    return {
        "index": {
            "auto_expand_replicas": "0-1",
            "mapping": {"nested_objects": {"limit": str(_NESTED_LIMIT)}},
            "analysis": analysis(),
        }
    }


def mappings() -> dict[str, Any]:
    """Return the fields of a page and of a tombstone."""
    keyword = {"type": "keyword", "ignore_above": _LONGEST}
    text = {"type": "text", "analyzer": analyzer("")}
    return {
        "dynamic": "false",
        "_meta": {"product": "smartcrawl", "version": MAPPING_VERSION},
        "properties": {
            "key": keyword,  # _id once more: that one cannot be sorted by
            "id": keyword,  # the registry's
            "source": keyword,
            "deleted": {"type": "boolean"},
            "deletedAt": {"type": "date"},
            "url": keyword,
            "urlLength": {"type": "integer"},
            "urlHash": keyword,
            "canonicalUrl": keyword,
            "title": text,
            "description": text,
            "language": keyword,
            "contentHash": keyword,
            "contentGroupId": keyword,
            "lastChanged": {"type": "date"},
            "mimeType": keyword,
            "depth": {"type": "integer"},
            "chunks": {"type": "nested", "dynamic": "false", "properties": _chunk()},
            "images": {
                "type": "nested",
                "dynamic": "false",
                "properties": {
                    "id": keyword,
                    "parentPageId": keyword,
                    "parentPageUrl": keyword,
                    "source": keyword,  # the address of the page that shows it
                    "src": keyword,
                    "alt": text,
                    "context": text,
                    "width": {"type": "integer"},
                    "height": {"type": "integer"},
                },
            },
        },
    }


def _chunk() -> dict[str, Any]:
    fields = {
        f"{name}{ending}": {"type": "text", "analyzer": analyzer(ending)}
        for ending in SUFFIXES
        for name in WEIGHTS
    }
    return {"position": {"type": "integer"}, **fields}


def template(pattern: str) -> dict[str, Any]:
    """Return the composable template of the indices whose names match a pattern."""
    return {
        "index_patterns": [pattern],
        "priority": _PRIORITY,
        "template": {"settings": settings(), "mappings": mappings()},
        "_meta": {"product": "smartcrawl", "version": MAPPING_VERSION},
    }


#: What a search sees.
LIVING: Final[Mapping[str, Any]] = {"bool": {"must_not": [{"term": {"deleted": True}}]}}


def differences(wanted: Any, found: Any, place: str = "") -> Iterator[str]:
    """Yield what of ``wanted`` is not so in ``found``, which may hold more.

    Elasticsearch tells settings as texts, so numbers and switches are compared as such.

    >>> list(differences({"a": {"b": 1, "c": True}}, {"a": {"b": "1", "c": "false", "d": 2}}))
    ['a.c is false, not true']
    >>> list(differences({"a": {"b": 1}}, {}))
    ['a is absent']
    """
    if not isinstance(wanted, Mapping):
        told = [str(one).lower() if isinstance(one, bool) else one for one in (wanted, found)]
        if str(told[0]) != str(told[1]):
            yield f"{place} is {told[1]}, not {told[0]}"
        return
    for name, value in wanted.items():
        where = f"{place}.{name}" if place else name
        if not isinstance(found, Mapping) or name not in found:
            yield f"{where} is absent"
        else:
            yield from differences(value, found[name], where)

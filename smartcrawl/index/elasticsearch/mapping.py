"""Settings, fields and template of an index of pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from smartcrawl.index.elasticsearch.analysis import SUFFIXES, analysis, analyzer
from smartcrawl.model.index_pages import EmbedderKey

#: Version of the fields. It rises with each change that an older index cannot take.
MAPPING_VERSION: Final = 2
#: Fields of a chunk that are searched, with their weights, as in the embedded index.
WEIGHTS: Final[Mapping[str, int]] = {"title": 8, "headings": 4, "text": 1}
_NESTED_LIMIT: Final = 50_000  #: chunks and images of one page; Elasticsearch's own is 10,000
_LONGEST: Final = 8_191  #: characters of a keyword; a longer one is stored, but not found
_PRIORITY: Final = 500  #: priority among templates that match the same names


def index_settings() -> dict[str, Any]:
    """Return the settings of an index that this program relies on."""
    return {
        "index": {
            "auto_expand_replicas": "0-1",
            "mapping": {"nested_objects": {"limit": str(_NESTED_LIMIT)}},
            "analysis": analysis(),
        }
    }


def index_mappings(embedder: EmbedderKey | None = None) -> dict[str, Any]:
    """Return the fields of a page and of a tombstone, with vectors if there is an embedder."""
    keyword = {"type": "keyword", "ignore_above": _LONGEST}
    text = {"type": "text", "analyzer": analyzer("")}
    meta: dict[str, Any] = {"product": "smartcrawl", "version": MAPPING_VERSION}
    chunk = _chunk()
    page: dict[str, Any] = {}
    if embedder is not None:
        meta["embedder"] = embedder._asdict()
        chunk["vector"] = _vector(embedder.dimension)
        page["vectorsHash"] = keyword
    return {
        "dynamic": "false",
        "_meta": meta,
        "properties": {
            "key": keyword,  # the same as _id, which cannot be sorted by
            "id": keyword,  # id of the registry
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
            **page,
            "chunks": {"type": "nested", "dynamic": "false", "properties": chunk},
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


def _vector(dimension: int) -> dict[str, Any]:
    return {
        "type": "dense_vector",
        "dims": dimension,
        "index": True,
        "similarity": "cosine",
        "index_options": {"type": "hnsw"},
    }


def mapped_embedder(mappings: Mapping[str, Any]) -> EmbedderKey | None:
    """Return the embedder whose vectors an index has; None: it has no field for vectors."""
    named = mappings.get("_meta", {}).get("embedder")
    return None if named is None else EmbedderKey(**named)


def index_template(pattern: str, embedder: EmbedderKey | None = None) -> dict[str, Any]:
    """Return the composable template of the indices whose names match a pattern."""
    return {
        "index_patterns": [pattern],
        "priority": _PRIORITY,
        "template": {"settings": index_settings(), "mappings": index_mappings(embedder)},
        "_meta": {"product": "smartcrawl", "version": MAPPING_VERSION},
    }


#: Filter of searches: every document but tombstones.
LIVING: Final[Mapping[str, Any]] = {"bool": {"must_not": [{"term": {"deleted": True}}]}}


def mapping_differences(wanted: Any, found: Any, place: str = "") -> Iterator[str]:
    """Yield the differences of ``found`` from ``wanted``; ``found`` may have more entries.

    Elasticsearch returns settings as texts, so numbers and switches are compared as texts.

    >>> list(
    ...     mapping_differences({"a": {"b": 1, "c": True}}, {"a": {"b": "1", "c": "false", "d": 2}})
    ... )
    ['a.c is false, not true']
    >>> list(mapping_differences({"a": {"b": 1}}, {}))
    ['a is absent']
    """
    if not isinstance(wanted, Mapping):
        texts = [str(one).lower() if isinstance(one, bool) else str(one) for one in (wanted, found)]
        if texts[0] != texts[1]:
            yield f"{place} is {texts[1]}, not {texts[0]}"
        return
    for name, value in wanted.items():
        where = f"{place}.{name}" if place else name
        if not isinstance(found, Mapping) or name not in found:
            yield f"{where} is absent"
        else:
            yield from mapping_differences(value, found[name], where)

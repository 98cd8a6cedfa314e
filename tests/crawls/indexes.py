"""What an Elasticsearch holds, read past the product."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from elasticsearch import Elasticsearch

_MOST = 1_000  #: documents of a test's index


def hits(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every document with its version, tombstones too, by the environment of a command."""
    index = f"{environment['ELASTICSEARCH_INDEX_PREFIX']}-pages*"
    with Elasticsearch(environment["ELASTICSEARCH_URL"]) as client:
        client.indices.refresh(index=index)
        found: list[dict[str, Any]] = client.search(index=index, size=_MOST, version=True)["hits"][
            "hits"
        ]
    assert len(found) < _MOST
    return sorted(found, key=lambda hit: str(hit["_id"]))


def age(environment: Mapping[str, str], hit: Mapping[str, Any], seconds: int) -> None:
    """Write a tombstone as if it had been written some seconds earlier, under its own version."""
    tombstone = hit["_source"]
    written = datetime.fromisoformat(tombstone["deletedAt"]) - timedelta(seconds=seconds)
    with Elasticsearch(environment["ELASTICSEARCH_URL"]) as client:
        client.index(
            index=hit["_index"],
            id=hit["_id"],
            document={**tombstone, "deletedAt": written.isoformat()},
            version=hit["_version"],
            version_type="external_gte",
            refresh=True,
        )


def texts(document: Mapping[str, Any]) -> list[str]:
    """The texts of a document's chunks, in whatever language."""
    chunks = document.get("chunks", [])
    return [value for chunk in chunks for name, value in chunk.items() if name.startswith("text")]

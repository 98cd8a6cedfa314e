"""Scans of an index, key by key, in constant memory."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from smartcrawl.index.elasticsearch import library
from smartcrawl.index.elasticsearch.documents import claim_of_index_version, epoch_of_index_version
from smartcrawl.index.elasticsearch.faults import index_answer
from smartcrawl.model.patience import Patience

_PAGE: Final = 1_000  #: documents of one request
_READ: Final = ("key", "contentHash", "deleted", "vectorsHash")
_KEEP: Final = "5m"  #: how long the server keeps its view for the next request


class Held(NamedTuple):
    """One document of an index."""

    key: str
    number: int  #: claim number under which it was written
    content_hash: str  #: ``sha256:…``; empty for a tombstone
    deleted: bool  #: whether it is a tombstone
    version: int  #: epoch and number
    epoch: int
    vectors_hash: str = ""  #: of the chunks with a vector (documents.index_vectors_hash)


class IndexScanner:
    """Reads an index in the order of its keys, sorted as UTF-8.

    If the reader takes too long and the server drops the view, it is opened anew. The rest of the
    scan then shows the index as it is by then.
    """

    def __init__(
        self, client: library.Elasticsearch, index: str, name: str, patience: Patience
    ) -> None:
        self._client = client
        self._index = index
        self._name = name
        self._patience = patience

    def held(self, filters: Sequence[Mapping[str, Any]]) -> Generator[Held]:
        """Yield the documents that pass all filters; those written since the start may lack.

        Raises:
            SinkError: the server no longer answers, or refuses.
        """
        view, last = self._open(), None
        try:
            while True:
                page = self._page(view, filters, last)
                if page is None:
                    view = self._open()
                    continue
                view = page["pit_id"]
                hits = page["hits"]["hits"]
                yield from map(_held, hits)
                if len(hits) < _PAGE:
                    return
                last = hits[-1]["sort"][0]
        finally:
            with suppress(library.ApiError, library.TransportError):  # it ends by itself, too
                self._client.close_point_in_time(id=view)

    def _open(self) -> str:
        request = partial(self._client.open_point_in_time, index=self._index, keep_alive=_KEEP)
        return str(index_answer(self._name, request, self._patience)["id"])

    def _page(
        self, view: str, filters: Sequence[Mapping[str, Any]], last: str | None
    ) -> Mapping[str, Any] | None:
        """Return the next documents; None if the server has dropped the view."""
        request = partial(
            self._client.options(ignore_status=404).search,
            pit={"id": view, "keep_alive": _KEEP},
            query={"bool": {"filter": filters}},
            size=_PAGE,
            sort=[{"key": "asc"}],
            search_after=None if last is None else [last],
            source=False,
            docvalue_fields=[{"field": name} for name in _READ],
            version=True,
            allow_partial_search_results=False,
            track_total_hits=False,
        )
        answer: Mapping[str, Any] = index_answer(self._name, request, self._patience).body
        return answer if "hits" in answer else None


def _held(hit: Mapping[str, Any]) -> Held:
    fields, version = hit["fields"], hit["_version"]
    return Held(
        key=fields["key"][0],
        number=claim_of_index_version(version),
        content_hash=fields.get("contentHash", [""])[0],
        deleted=fields.get("deleted", [False])[0],
        version=version,
        epoch=epoch_of_index_version(version),
        vectors_hash=fields.get("vectorsHash", [""])[0],
    )

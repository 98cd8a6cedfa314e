"""Bulk writes and scans of an index, key by key.

Bulk writes of documents and tombstones, each under its claim number and with its own result.

Source: ADR 130.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum, auto
from functools import partial
from typing import Any, Final, NamedTuple

from smartcrawl.index.elasticsearch import library
from smartcrawl.index.elasticsearch.documents import (
    claim_of_index_version,
    epoch_of_index_version,
    index_tombstone,
    index_version,
)
from smartcrawl.index.elasticsearch.faults import (
    FORBIDDEN,
    PASSING,
    index_answer,
    index_error_text,
    index_fault_reason,
    index_forbidden,
    index_missing,
    index_refusal,
    is_elasticsearch_request_too_large,
    is_passing_index_fault,
)
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.patience import AwayError, Patience
from smartcrawl.model.program import program_name

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


MOST_DOCUMENTS: Final = 500  #: documents of one request
MOST_BYTES: Final = 5_000_000  #: bytes of one request, unless one document has more
#: Bytes of the longest document: Elasticsearch takes requests of up to 100 MiB by default
#: (``http.max_content_length``).
LONGEST: Final = 100_000_000
#: Fields of an answer that are read, a fifth of it.
_WRITTEN: Final = [
    "items.*._id",
    "items.*.status",
    "items.*.error.type",
    "items.*.error.reason",
    "items.*.error.caused_by.reason",
]
_HELD: Final = re.compile(r"current version \[(\d+)\]")


class Entry(NamedTuple):
    """One document or tombstone to write."""

    key: str
    number: int  #: claim number
    document: Mapping[str, Any] | None  #: PageDocument.as_json(); None: the page was removed


class Fate(StrEnum):
    """Result of writing an entry."""

    DONE = auto()  #: written, or written before under this very number
    STALE = auto()  #: not written: a later claim has written already
    REJECTED = auto()  #: refused, and would be again: a dead letter


class Written(NamedTuple):
    """The answer to one entry."""

    key: str
    number: int
    fate: Fate
    reason: str = ""  #: why it was rejected, for people


class _Action(NamedTuple):
    """One entry in the form that is sent."""

    entry: Entry
    lines: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """Its bytes in a request."""
        return sum(map(len, self.lines)) + len(self.lines)


class BulkWriter:
    """Writes entries through one alias; memory does not grow with their number."""

    def __init__(
        self,
        client: library.Elasticsearch,
        index: str,
        name: str,
        *,
        epoch: int,
        patience: Patience,
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._index = index
        self._name = name
        self._epoch = epoch
        self._patience = patience
        self._now = now
        self.newest = 0  #: highest version of a document that refused a write

    def written(self, entries: Iterable[Entry]) -> Iterator[Written]:
        """Write entries in their order and yield their results in the same order.

        Raises:
            SinkError: the index took no write for SINK_WAIT_SECONDS, forbids writes, or was
                written by a registry of a later epoch. Entries without a result may have been
                written: write them again, under the same numbers.
        """
        for part in _parts(map(self._action, entries)):
            if part[0].size > LONGEST:  # it is alone
                yield _too_large(part[0].entry, f"{part[0].size:,} bytes")
            else:
                yield from self._part(part)

    def purge(self, found: Iterable[tuple[str, int]]) -> int:
        """Delete documents, given by key and version, unless they were written since.

        Returns the number of deleted documents.
        """
        actions = (_Action(Entry(key, at, None), (_line("delete", key, at),)) for key, at in found)
        return sum(
            answer.fate is Fate.DONE for part in _parts(actions) for answer in self._part(part)
        )

    def _action(self, entry: Entry) -> _Action:
        document = entry.document
        if document is None:
            document = index_tombstone(entry.key, int(self._now()))
        head = _line("index", entry.key, index_version(self._epoch, entry.number))
        return _Action(entry, (head, _encoded(document)))

    def _part(self, part: list[_Action]) -> list[Written]:
        """Send one request, again until each of its entries has a final result."""
        answers: dict[int, Written] = {}
        pending = dict(enumerate(part))
        while pending:
            why, taken = "", self._send(list(pending.values()))
            for place, (action, item) in zip(list(pending), taken, strict=True):
                answer = self._judged(action.entry, item)
                if isinstance(answer, Written):
                    answers[place] = answer
                    del pending[place]
                else:
                    why = answer
            if len(pending) < len(taken):
                self._patience.over()
            if pending:
                self._patience.wait(AwayError(why))
        return [answers[place] for place in range(len(part))]

    def _send(self, actions: list[_Action]) -> list[tuple[_Action, dict[str, Any]]]:
        """Send actions in one request; return each of them with its item of the answer.

        An answer that lacks some items, or has others, does not count: the request is repeated.
        """
        lines: Any = [line for action in actions for line in action.lines]
        try:
            answer = self._client.bulk(
                index=self._index, operations=lines, require_alias=True, filter_path=_WRITTEN
            ).body
        except (library.ApiError, library.TransportError) as error:
            if isinstance(error, library.ApiError) and is_elasticsearch_request_too_large(error):
                return self._halves(actions, index_fault_reason(error))
            if not is_passing_index_fault(error):
                raise index_refusal(error, self._name) from error
            return [
                (action, {"status": 503, "error": index_fault_reason(error)}) for action in actions
            ]
        items = [one for item in _items(answer) for one in item.values()]
        keys = [action.entry.key for action in actions]
        if [item.get("_id") for item in items] != keys:
            unknown = {"status": 503, "error": "its answer is not about what it was sent"}
            return [(action, unknown) for action in actions]
        return list(zip(actions, items, strict=True))

    def _halves(self, actions: list[_Action], why: str) -> list[tuple[_Action, dict[str, Any]]]:
        """Send a request that is too large for the server or a proxy in two halves."""
        if len(actions) == 1:
            return [(actions[0], {"status": 413, "error": why})]
        half = len(actions) // 2
        return self._send(actions[:half]) + self._send(actions[half:])

    def _judged(self, entry: Entry, item: Mapping[str, Any]) -> Written | str:
        """Return the result of an entry, or why it has to be sent again."""
        status, error = int(item.get("status", 503)), item.get("error")
        why = index_error_text(error)
        if status < 300 or (status == 404 and error is None):  # deleted before
            return Written(entry.key, entry.number, Fate.DONE)
        if status == 409:
            return self._stale(entry, why)
        if status in PASSING:
            return why
        if status in FORBIDDEN:
            raise index_forbidden(self._name, why)
        if status == 404:
            raise index_missing(self._name, why)
        if status == 413:
            return _too_large(entry, why)
        return Written(entry.key, entry.number, Fate.REJECTED, why)

    def _stale(self, entry: Entry, why: str) -> Written:
        held = _HELD.search(why)
        if held:
            self.newest = max(self.newest, int(held[1]))
        if held and epoch_of_index_version(int(held[1])) > self._epoch:
            raise SinkError(
                f"{self._name} has {entry.key} of epoch {epoch_of_index_version(int(held[1]))},"
                " and this"
                f" registry is at epoch {self._epoch}: it was restored from a backup, or another"
                f" registry writes to the same index; {program_name()} registry --new-epoch"
                " lets this one overwrite it"
            )
        return Written(entry.key, entry.number, Fate.STALE)


def _too_large(entry: Entry, size: str) -> Written:
    """Return the result of a document that no request can have.

    ``size``: how large it is, or the server's words about it.
    """
    reason = (
        f"its document with text and vectors is too large for the index ({size}): raise "
        "CHUNK_SIZE, lower EMBEDDING_DIMENSION, leave out such large pages with "
        "DOWNLOAD_MAXSIZE, or give the index server more memory"
    )
    return Written(entry.key, entry.number, Fate.REJECTED, reason)


def _line(action: str, key: str, at: int) -> bytes:
    head = {action: {"_id": key, "version": at, "version_type": "external_gte"}}
    return _encoded(head)


def _encoded(value: Mapping[str, Any]) -> bytes:
    # "replace": halves of surrogate pairs are no UTF-8 and would fail the whole request
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _items(answer: Any) -> list[dict[str, dict[str, Any]]]:
    items = answer.get("items") if isinstance(answer, dict) else None
    return items if isinstance(items, list) else []


def _parts(actions: Iterable[_Action]) -> Iterator[list[_Action]]:
    """Yield actions in lists that fit into one request each."""
    part: list[_Action] = []
    size = 0
    for action in actions:
        if part and (len(part) == MOST_DOCUMENTS or size + action.size > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(action)
        size += action.size
    if part:
        yield part

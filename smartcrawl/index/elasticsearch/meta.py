"""Metadata that an index stores about itself: a random identity, and the last sealed run.

Both are compared with the registry's facts before anything is written: an index that was deleted,
restored or replaced must not be taken for the one that has every page.

Source: ADR 130.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self
from uuid import uuid4

from smartcrawl.index.elasticsearch import library
from smartcrawl.index.elasticsearch.documents import epoch_of_index_version
from smartcrawl.index.elasticsearch.faults import REBUILD, index_answer
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.patience import Patience
from smartcrawl.model.program import program_name

FOREIGN: Final = (
    "was written by another registry: name another ELASTICSEARCH_INDEX_PREFIX; if this one is to"
    f" take it over, {REBUILD}"
)
_NEW_EPOCH: Final = (
    f"{program_name()} audit --repair makes the index equal to the registry page by page,"
    f" {program_name()} registry --new-epoch lets the next runs overwrite it"
)
BEHIND: Final = (
    "has writes that this registry does not know: the registry was restored from a backup that is"
    f" older than a run, or another copy of it writes there; {_NEW_EPOCH}"
)
NEWER: Final = f"is newer than this registry, which was restored from a backup; {_NEW_EPOCH}"
_ID: Final = "sink"
_MAPPINGS: Final[Mapping[str, Any]] = {"dynamic": "false", "_meta": {"product": "smartcrawl"}}
_SETTINGS: Final[Mapping[str, Any]] = {"number_of_shards": 1, "auto_expand_replicas": "0-1"}


@dataclass(frozen=True, slots=True)
class Known:
    """Facts that a registry has recorded about the index that it wrote."""

    identity: str | None = None  #: None: it has written to none so far
    epoch: int = 1
    sealed: int = 0  #: version (documents.py) of the last seal that the index acknowledged
    sealing: int | None = None  #: version of the last seal that was sent to the index
    registry: str = ""  #: the registry's own id, which the indices that it makes have
    openings: int = 0  #: how often it was opened to be written, this registry has noted


@dataclass(frozen=True, slots=True)
class IndexMetadata:
    """Metadata of an index."""

    identity: str
    sealed: int = 0  #: highest version that was sealed
    index: str | None = None  #: UUID of the index that is written; None: it is not made yet
    building: str | None = None  #: UUID of the index that is being rebuilt
    openings: int = 0  #: how often it was opened to be written, after the registry noted that

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Read the metadata from a document."""
        return cls(
            stored["identity"],
            stored["sealed"],
            stored.get("index"),
            stored.get("building"),
            stored.get("openings", 0),
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return {
            "identity": self.identity,
            "sealed": self.sealed,
            "index": self.index,
            "building": self.building,
            "openings": self.openings,
        }


def index_meta_mismatch(memory: IndexMetadata, known: Known) -> str | None:
    """Return why an index is not the one that a registry knows, and the remedy; None if it is."""
    if known.identity is None and memory.sealed:
        return FOREIGN
    if known.identity not in (None, memory.identity):
        return (
            "is not the index that this registry wrote (another identity);"
            f" {program_name()} audit --repair compares them page by page, {REBUILD}"
        )
    if memory.sealed != known.sealing:
        if memory.sealed < known.sealed:
            return (
                f"is older than this registry: a backup of it was restored; {program_name()} audit"
                " --repair"
                f" writes what it lacks, {REBUILD}"
            )
        if memory.sealed > known.sealed and epoch_of_index_version(memory.sealed) >= known.epoch:
            return NEWER
    if known.identity is not None and memory.openings > known.openings:
        return BEHIND
    return None


class IndexMetaDocument:
    """The one document of ``{prefix}-meta``; each change is based on the version that was read."""

    def __init__(
        self, client: library.Elasticsearch, index: str, name: str, patience: Patience
    ) -> None:
        self._client = client
        self._index = index
        self._name = name
        self._patience = patience

    def read(self) -> IndexMetadata | None:
        """Return the metadata; None if there is none."""
        return self._read()[0]

    def found(self) -> IndexMetadata:
        """Return the metadata, and create it if there is none."""
        make = self._client.options(ignore_status=400).indices.create
        request = partial(make, index=self._index, mappings=_MAPPINGS, settings=_SETTINGS)
        answer = index_answer(self._name, request, self._patience).body
        fault = answer.get("error", {}).get("type", "resource_already_exists_exception")
        if fault != "resource_already_exists_exception":
            raise SinkError(f"{self._name} does not make the index {self._index}: {fault}")
        memory = self.read()
        if memory is None:
            self._put(IndexMetadata(uuid4().hex), {"op_type": "create"})
            memory = self.read()
        if memory is None:
            raise SinkError(f"{self._name} loses documents that are written to {self._index}")
        return memory

    def change(self, identity: str, /, **changes: Any) -> IndexMetadata:
        """Change the metadata and return it; ``sealed`` and ``openings`` never fall.

        Raises:
            SinkError: the metadata was deleted, or has another identity by now.
        """
        while True:
            memory, place = self._read()
            if memory is None or memory.identity != identity:
                raise SinkError(
                    f"{self._name}: {self._index} was deleted or replaced while it was in use;"
                    f" {REBUILD}"
                )
            after = replace(memory, **changes)
            after = replace(
                after,
                sealed=max(memory.sealed, after.sealed),
                openings=max(memory.openings, after.openings),
            )
            if after == memory or self._put(after, place):
                return after

    def _read(self) -> tuple[IndexMetadata | None, dict[str, int]]:
        request = partial(self._client.options(ignore_status=404).get, index=self._index, id=_ID)
        answer = index_answer(self._name, request, self._patience).body
        if not answer.get("found"):
            return None, {}
        place = {"if_seq_no": answer["_seq_no"], "if_primary_term": answer["_primary_term"]}
        return IndexMetadata.of(answer["_source"]), place

    def _put(self, memory: IndexMetadata, place: Mapping[str, Any]) -> bool:
        """Write the metadata, unless another process did since the read; return False then."""
        request = partial(
            self._client.options(ignore_status=409).index,
            index=self._index,
            id=_ID,
            document=memory.as_json(),
            refresh=True,
            **place,
        )
        return index_answer(self._name, request, self._patience).meta.status != 409

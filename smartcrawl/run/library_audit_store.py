"""Comparison of the items of one library with the files of its vector store, read as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from smartcrawl.index.vectorstore.ports import (
    HASH,
    ITEM,
    FileStatus,
    ItemVersion,
    ListedFile,
    StoredFile,
    vector_store_attribute,
)
from smartcrawl.index.vectorstore.rows import store_files_by_id, vector_store_files_to_leave
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.library.items import library_rows_of
from smartcrawl.run.audit_pairs import Difference, Pairs
from smartcrawl.run.embedded_items import EmbeddedItems
from smartcrawl.run.library_audit import LibraryAudit, Place

_BATCH: Final = 500  #: items of one look-up
_COMPLETED: Final = "completed"
_LEAVING: Final = "it is to be removed from the store"
_NOT_NOTED: Final = "it is to be removed from the store, whose list lacks it"


class StoreComparison:
    """Compares the items of one source with a store, whose list comes page by page."""

    def __init__(
        self, audit: LibraryAudit, connection: Connection, items: EmbeddedItems, store: int | None
    ) -> None:
        """``store``: its number in the registry; None: the registry does not know it."""
        self._audit, self._connection, self._items, self._store = audit, connection, items, store
        self._pairs = Pairs()
        self._leaving: set[str | None] = set()
        if store is not None:
            rows = vector_store_files_to_leave(connection, store, items.source_no)
            self._leaving = {file.file for file in rows}

    def close(self) -> None:
        """Remove the temporary file."""
        self._pairs.close()

    def expect(self) -> None:
        """Add the items that the store is to have, and those whose files may stay."""
        for version in self._items.versions():
            self._pairs.expect(vector_store_attribute(version.url), _value(version), version.url)
        for numbers in _batches(self._items.kept()):
            for row in library_rows_of(self._connection, numbers).values():
                self._pairs.expect(vector_store_attribute(row.unique_id), None, is_needed=False)

    def find(self, page: Sequence[ListedFile]) -> None:
        """Add those files of a page of the list that are ours."""
        known: dict[str | None, StoredFile] = {}
        if self._store is not None:
            ids = [file.id for file in page]
            known = store_files_by_id(self._connection, self._store, self._items.source_no, ids)
        for file in page:
            row = known.get(file.id)
            if row is not None:
                self._leaving.discard(file.id)
                key, value = vector_store_attribute(row.version.url), _value(row.version)
                if row.status is FileStatus.LEAVING:
                    value = _LEAVING
            elif file.has(self._items.marks):
                key, value = file.attributes.get(ITEM, ""), file.attributes.get(HASH, "")
                expected = self._pairs.expected(key)
                if expected is not None and expected.startswith(f"{value} "):
                    value = expected
                elif not (self._items.knows_all or self._pairs.is_expected(key)):
                    continue
            else:
                continue
            if file.status != _COMPLETED:
                value = file.status
            self._pairs.find(key, value, f"{key} ({file.id})")

    def report(self) -> None:
        """Add the differences; the list was read to its end."""
        for pair in self._pairs.differences():
            detail = pair.value if " " not in pair.value or pair.value == _LEAVING else ""
            if pair.difference is Difference.CHANGED:
                detail = detail or "another version"
            elif pair.difference is Difference.SURPLUS:
                detail = detail or "no item is to have it"
            self._audit.add(Place.VECTOR_STORE, pair.difference, pair.name, detail)
        for file in sorted(filter(None, self._leaving)):
            self._audit.add(Place.VECTOR_STORE, Difference.SURPLUS, file, _NOT_NOTED)


def _value(version: ItemVersion) -> str:
    return f"{version.hash.hex()} {version.facts.hex()}"


def _batches(numbers: Iterable[int]) -> Iterator[list[int]]:
    left = iter(numbers)
    while batch := list(islice(left, _BATCH)):
        yield batch

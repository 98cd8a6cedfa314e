"""Comparison of one library's records with its disk, maps and vector store, in constant memory.

Nothing is changed. Source: R3-131 to R3-139, R3-52, R3-141, and docs/libraries.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from hashlib import file_digest, sha256
from typing import Final, NamedTuple

from smartcrawl.index.vectorstore.rows import completed_store_files, vector_store_number
from smartcrawl.model.library import LibraryRow, SourceType
from smartcrawl.model.vector_store_options import VectorStoreOptions
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.library.embedding import embed_failure_rows
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.registry.library.items import library_body_hash_rows, library_row_batches
from smartcrawl.run.audit_pairs import Difference, Pairs
from smartcrawl.run.library_maps import run_row_of_files_map
from smartcrawl.sources.sharepoint.busy_files import retry_busy_sharepoint_file
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.mapfiles import FilesMapRow
from smartcrawl.sources.sharepoint.maptext import (
    Cell,
    sharepoint_map_file_records,
    sharepoint_map_line,
)
from smartcrawl.sources.sharepoint.paths import (
    sharepoint_list_path,
    sharepoint_original_path,
    source_path,
)
from smartcrawl.sources.sharepoint.source import SharepointSource
from smartcrawl.sources.sharepoint.vectorstore_map import EmbeddedFile, VectorstoreMapRow

_CONFIG: Final = CRAWLER_HARDCODED_CONFIG
_ORIGINALS: Final = _CONFIG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER
_EMBEDDED: Final = _CONFIG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER
_FAILED: Final = f"{_CONFIG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER}/"
_BATCH: Final = 500  #: items of one look-up
_AGAIN: Final = "the next download brings it"
OTHER_BYTES: Final = "other bytes than were downloaded"  #: detail of a difference


class Place(StrEnum):
    """Place of a difference; the words are keys of the JSON."""

    FILES = "files"  #: the files on disk
    FILES_MAP = "filesMap"
    VECTORSTORE_MAP = "vectorstoreMap"
    VECTOR_STORE = "vectorStore"
    METADATA = "metadata"  #: files_metadata.json


class LibraryDifference(NamedTuple):
    """One difference between the records of a library and a place."""

    place: Place
    difference: Difference
    source: str  #: source_id; empty: of the whole domain
    item: str  #: path, unique id, or name of a file
    detail: str = ""


Found = Callable[[LibraryDifference], None]


class LibraryAudit:
    """The audit of one source."""

    def __init__(
        self, connection: Connection, source: SharepointSource, source_no: int, found: Found
    ) -> None:
        """``found`` is called with each difference."""
        self._connection, self._source, self._no = connection, source, source_no
        self._folder = LibraryFolder(source.folder)
        self._prefix = source_path(source.domain, source.source_type, source.source_id) + "/"
        self._found = found
        self._has_sizes = source.source_type is SourceType.FILES  # as the library lists them
        self._list = ""  #: path of the original of a list
        if source.source_type is SourceType.LISTS:
            self._list = sharepoint_list_path(source.source_id)

    def add(self, place: Place, difference: Difference, item: str, detail: str = "") -> None:
        """Add a difference."""
        self._found(LibraryDifference(place, difference, self._source.source_id, item, detail))

    # The disk

    def compare_files(
        self, *, reads_data: bool = False, tick: Callable[[int], None] = lambda count: None
    ) -> int:
        """Compare the disk with the items; return the number of items.

        ``reads_data``: whether to read each file, and to compare its bytes with those that were
        downloaded. ``tick`` is called with the number of items at each look-up.

        Raises:
            OSError: a folder cannot be read.
        """
        with Pairs() as pairs:
            count = 0
            for rows in library_row_batches(self._connection, self._no, _BATCH):
                self._expect_files(pairs, rows)
                if reads_data and self._has_sizes:
                    self._compare_bytes(rows)
                count += len(rows)
                tick(len(rows))
            for path, size, modified in self._walked():
                pairs.find(path, self._value(size, modified))
            for pair in pairs.differences():
                self.add(Place.FILES, pair.difference, pair.name, self._why(pair.difference))
        return count

    def _expect_files(self, pairs: Pairs, rows: Sequence[LibraryRow]) -> None:
        for row in rows:
            if row.path is None:
                if row.sharepoint_error is None:
                    missing = Difference.MISSING
                    self.add(Place.FILES, missing, row.server_relative_url, _AGAIN)
                continue
            value = self._value(row.file_size, row.last_modified)
            original = sharepoint_original_path(row.path)
            if row.path.startswith(_FAILED) or row.path == self._list:
                self._expect_alone(pairs, row.path)
                continue
            pairs.expect(row.path, value)
            if not self._is_walked(row.path):
                self._find_alone(pairs, row.path)
            if self._source.source_type is SourceType.SITEPAGES and original != row.path:
                pairs.expect(original, value)

    def _expect_alone(self, pairs: Pairs, path: str) -> None:
        """Expect a file, whatever is in it."""
        if pairs.is_expected(path):
            return
        pairs.expect(path, None)
        self._find_alone(pairs, path)

    def _find_alone(self, pairs: Pairs, path: str) -> None:
        facts = self._folder.facts(path)
        if facts is not None:
            pairs.find(path, self._value(*facts))

    def _value(self, size: int, modified: int) -> str:
        """Return the facts of a file that are compared; what is made of an item has its date."""
        return f"{size} {modified}" if self._has_sizes else str(modified)

    def _is_walked(self, path: str) -> bool:
        tops = (f"{_EMBEDDED}/",) if self._has_sizes else (f"{_EMBEDDED}/", f"{_ORIGINALS}/")
        return path.startswith(tops)

    def _walked(self) -> Iterator[tuple[str, int, int]]:
        """Yield path, size and date of each file of which an item is to be known."""
        tops = (_EMBEDDED,) if self._has_sizes else (_EMBEDDED, _ORIGINALS)
        for top in tops:
            for facts in self._folder.walk(top):
                if facts[0] != self._list:
                    yield facts

    def _compare_bytes(self, rows: Sequence[LibraryRow]) -> None:
        """Add the files whose bytes are not those that were downloaded (R3-107)."""
        hashes = library_body_hash_rows(self._connection, [row.no for row in rows])
        for row in rows:
            path, digest = row.path, hashes.get(row.no)
            if path is None or digest is None or path.startswith(_FAILED):
                continue
            if self._folder.facts(path) != (row.file_size, row.last_modified):
                continue  # it is compared anyway
            try:
                with self._folder.open(path) as file:
                    is_same = file_digest(file, "sha256").digest() == digest
            except OSError as error:
                why = f"it cannot be read ({error.strerror})"
                self.add(Place.FILES, Difference.CHANGED, path, why)
                continue
            if not is_same:
                self.add(Place.FILES, Difference.CHANGED, path, OTHER_BYTES)

    def _why(self, difference: Difference) -> str:
        if difference is Difference.CHANGED:
            return "other size or date than its item" if self._has_sizes else "other date"
        return "no item is at this path" if difference is Difference.SURPLUS else ""

    # The maps

    def compare_files_map(self) -> None:
        """Compare ``files_map.csv`` with the items, cell by cell (R3-51)."""
        batches = library_row_batches(self._connection, self._no, _BATCH)
        rows = (run_row_of_files_map(row, self._prefix) for batch in batches for row in batch)
        self._compare_map(Place.FILES_MAP, _CONFIG.FILE_MAP_CSV, FilesMapRow, rows)

    def compare_vectorstore_map(self, store: VectorStoreOptions) -> None:
        """Compare ``vectorstore_map.csv`` with the files that the registry knows (R3-52)."""
        rows, name = self._embedded_rows(store), _CONFIG.VECTOR_STORE_MAP_CSV
        self._compare_map(Place.VECTORSTORE_MAP, name, VectorstoreMapRow, rows)

    def _embedded_rows(self, store: VectorStoreOptions) -> Iterator[VectorstoreMapRow]:
        number = vector_store_number(self._connection, store.url, store.store)
        failures = embed_failure_rows(self._connection, self._no)
        for rows in library_row_batches(self._connection, self._no, _BATCH):
            embedded = self.embedded(number, store, rows)
            for row in rows:
                file = embedded.get(row.no)
                error = failures[row.no].error if row.no in failures else ""
                if file or error or row.sharepoint_error or row.processing_error:
                    cells = run_row_of_files_map(row, self._prefix)
                    yield VectorstoreMapRow.of(cells, file, error)

    def embedded(
        self, number: int | None, store: VectorStoreOptions, rows: Sequence[LibraryRow]
    ) -> Mapping[int, EmbeddedFile]:
        """Return the completed files of some items, by record.no; ``number``: that of the store."""
        if number is None:
            return {}
        numbers = [row.no for row in rows]
        files = completed_store_files(self._connection, number, self._no, numbers)
        return {
            no: EmbeddedFile(
                file.file, store.store, file.uploaded_at or file.embedded_at, file.embedded_at
            )
            for no, file in files.items()
            if file.file is not None
        }

    def _compare_map(
        self, place: Place, name: str, kind: type[NamedTuple], rows: Iterable[tuple[Cell, ...]]
    ) -> None:
        column = kind._fields.index("sharepoint_unique_file_id")
        with Pairs() as pairs:
            has_rows = False
            for row in rows:
                has_rows = True
                pairs.expect(str(row[column]), _digest(row))
            problem = self._read_map(pairs, name, kind._fields, column)
            if problem is None:
                for pair in pairs.differences():
                    detail = f"row of {name}"
                    self.add(place, pair.difference, pair.name, detail)
            elif problem:
                self.add(place, Difference.CHANGED, name, problem)
            elif has_rows:
                self.add(place, Difference.MISSING, name)

    def _read_map(
        self, pairs: Pairs, name: str, columns: tuple[str, ...], column: int
    ) -> str | None:
        """Add the rows of a map; return why it cannot be read, or an empty text: it is missing."""
        path = self._folder.root / name
        try:
            with closing(retry_busy_sharepoint_file(lambda: path.open("rb"))) as file:
                records = sharepoint_map_file_records(file)
                header = next(records, None)
                if header is None or tuple(header.cells) != columns:
                    return "it is empty" if header is None else "its columns are others"
                for record in records:
                    if len(record.cells) == len(columns):
                        pairs.find(record.cells[column], _digest(record.cells))
                    else:
                        pairs.find(f"line {record.line}", "")
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"it cannot be read ({error.strerror})"
        return None


def _digest(cells: Iterable[Cell]) -> str:
    return sha256(sharepoint_map_line(cells)).hexdigest()

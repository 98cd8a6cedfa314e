"""What the records of a library expect, beside what its disk, maps and vector store have.

Nothing is changed. Both sides of a comparison are in a temporary file, so it takes constant memory.
Source: R3-131 to R3-139, R3-52, R3-141, and docs/libraries.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from enum import StrEnum
from hashlib import file_digest, sha256
from typing import Any, Final, NamedTuple, Self

import apsw

from smartcrawl.model.library import LibraryRow, SourceType
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.registry.library.items import (
    library_body_hash_rows,
    library_row_batches,
)
from smartcrawl.run.library.maps import (
    run_row_of_files_map,
)
from smartcrawl.sources.private_files import retry_busy_sharepoint_file
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.mapfiles import (
    Cell,
    FilesMapRow,
    sharepoint_map_file_records,
    sharepoint_map_line,
)
from smartcrawl.sources.sharepoint.paths import (
    sharepoint_list_path,
    sharepoint_original_path,
    source_path,
)
from smartcrawl.sources.sharepoint.source import SharepointSource

_CONFIG: Final = CRAWLER_HARDCODED_CONFIG
_ORIGINALS: Final = f"{_CONFIG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER}/"
_EMBEDDED: Final = f"{_CONFIG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER}/"
_FAILED: Final = f"{_CONFIG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER}/"
_BATCH: Final = 500  #: items of one look-up, or rows of one statement
OTHER_BYTES: Final = "other bytes than were downloaded"  #: detail of a difference
_SOME: Final = "some"  #: value of a file whose bytes may be any
_EMPTY: Final = "empty"  #: value of a file that has none, and was to have some

_SCHEMA: Final = """
CREATE TABLE expected (key BLOB PRIMARY KEY, value BLOB, name BLOB, needed INTEGER) WITHOUT ROWID;
CREATE TABLE found (key BLOB, place INTEGER, value BLOB, name BLOB, PRIMARY KEY (key, place))
  WITHOUT ROWID;
BEGIN
"""
_EXPECT: Final = """
INSERT INTO expected VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
   SET value = excluded.value, name = excluded.name, needed = excluded.needed
 WHERE excluded.needed
"""
_FIND: Final = "INSERT INTO found VALUES (?, ?, ?, ?)"
_EXPECTED: Final = "SELECT value, 1 FROM expected WHERE key = ?"
#: A key whose values are all others is changed, once. Beside the right value, others are surplus.
_DIFFERENCES: Final = """
SELECT 'missing', e.key, e.name, NULL
  FROM expected e
 WHERE e.needed AND NOT EXISTS (SELECT 1 FROM found f WHERE f.key = e.key)
 UNION ALL
SELECT 'changed', e.key, e.name, (SELECT value FROM found f WHERE f.key = e.key LIMIT 1)
  FROM expected e
 WHERE e.value IS NOT NULL AND EXISTS (SELECT 1 FROM found f WHERE f.key = e.key)
   AND NOT EXISTS (SELECT 1 FROM found f WHERE f.key = e.key AND f.value = e.value)
 UNION ALL
SELECT 'surplus', f.key, f.name, f.value
  FROM found f LEFT JOIN expected e USING (key)
 WHERE e.key IS NULL
    OR (e.needed AND f.place <> (SELECT min(place) FROM found s
                                  WHERE s.key = f.key AND s.value IS coalesce(e.value, s.value)))
 ORDER BY 2, 1
"""


class Difference(StrEnum):
    """Kind of a difference."""

    MISSING = "missing"  #: expected, and not found
    CHANGED = "changed"  #: found with another value
    SURPLUS = "surplus"  #: found, and not expected, or once more than expected


class Pair(NamedTuple):
    """One difference between both sides."""

    difference: Difference
    key: str
    name: str  #: for people, or whatever the one who expected it needs
    value: str  #: that was found; empty: none was


class Pairs:
    """Two sides, each a set of keys with a value; both are in a temporary file."""

    def __init__(self) -> None:
        self._place = 0
        self._expecting: list[tuple[Any, ...]] = []  #: not written yet, as below
        self._finding: list[tuple[Any, ...]] = []
        self._database = apsw.Connection("")  # temporary, on disk as soon as it is large
        self._database.execute(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the file."""
        self._database.close()

    def expect(
        self, key: str, value: str | None, name: str = "", *, is_needed: bool = True
    ) -> None:
        """Add what is to be found; ``value`` None: any.

        ``is_needed``: whether it must be found, and only once.
        """
        values = (_bytes(key), None if value is None else _bytes(value), _bytes(name or key))
        self._add(_EXPECT, self._expecting, (*values, is_needed))

    def find(self, key: str, value: str, name: str = "") -> None:
        """Add what was found."""
        self._place += 1
        row = (_bytes(key), self._place, _bytes(value), _bytes(name or key))
        self._add(_FIND, self._finding, row)

    def _add(self, statement: str, rows: list[tuple[Any, ...]], row: tuple[Any, ...]) -> None:
        rows.append(row)
        if len(rows) == _BATCH:
            self._write(statement, rows)

    def _write(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        self._database.executemany(statement, rows)
        rows.clear()

    def expected(self, key: str) -> str | None:
        """Return the value that is expected under a key; None: none, or any."""
        value: Any = self._look(key)
        return None if value is None or value[0] is None else _text(value[0])

    def is_expected(self, key: str) -> bool:
        """Whether something is expected under a key."""
        return self._look(key) is not None

    def _look(self, key: str) -> Any:
        self._write(_EXPECT, self._expecting)
        return self._database.execute(_EXPECTED, (_bytes(key),)).fetchone()

    def differences(self) -> Iterator[Pair]:
        """Yield the differences, by key."""
        self._write(_EXPECT, self._expecting)
        self._write(_FIND, self._finding)
        row: Any
        for row in self._database.execute(_DIFFERENCES):
            kind, key, name, value = row
            yield Pair(Difference(kind), _text(key), _text(name), _text(value or b""))


def _bytes(text: str) -> bytes:
    """Return text as bytes; names of files may have halves of surrogate pairs."""
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


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


class LibraryComparison:
    """The records of one source beside what was made of them."""

    def __init__(
        self,
        connection: Connection,
        source: SharepointSource,
        source_no: int,
        folder: LibraryFolder | None = None,
    ) -> None:
        """``folder``: that of the source, if it is not as its disk has it."""
        self.source, self.no = source, source_no
        self.folder = folder or LibraryFolder(source.folder)
        #: Whether its files are those of the library, byte for byte.
        self.has_files = source.source_type is SourceType.FILES
        self.list = ""  #: path of the original of a list, which all of its items share
        if source.source_type is SourceType.LISTS:
            self.list = sharepoint_list_path(source.source_id)
        self._tops = (_EMBEDDED,) if self.has_files else (_EMBEDDED, _ORIGINALS)
        self._connection = connection
        self.prefix = source_path(source.domain, source.source_type, source.source_id) + "/"

    def batches(self) -> Iterator[list[LibraryRow]]:
        """Yield the items, some at a time."""
        return library_row_batches(self._connection, self.no, _BATCH)

    def found(
        self, place: Place, difference: Difference, item: str, detail: str = ""
    ) -> LibraryDifference:
        """Return a difference of this source."""
        return LibraryDifference(place, difference, self.source.source_id, item, detail)

    # The disk

    def disk(
        self, rows: Iterable[tuple[LibraryRow, bool]], *, tidies: bool = False
    ) -> Iterator[Pair]:
        """Compare the disk with items: yield the paths that differ, each with the item's number.

        ``rows``: items, each with whether its file must be there; any other is left alone. An item
        without a place and without an error is missing at its address. What is made of an item has
        its date, and a size of its own. ``tidies``: empty folders are removed.

        Raises:
            OSError: a folder cannot be read.
        """
        has_list = needs_list = False
        with Pairs() as pairs:
            for row, is_needed in rows:
                if row.path is None:
                    if row.sharepoint_error is None:
                        yield Pair(Difference.MISSING, row.server_relative_url, str(row.no), "")
                elif row.path == self.list:
                    has_list, needs_list = True, needs_list or is_needed
                elif is_needed:
                    self._expect_files(pairs, row, row.path)
                else:
                    pairs.expect(row.path, None, is_needed=False)
            if has_list:
                pairs.expect(self.list, _SOME, is_needed=needs_list)
                self._find(pairs, self.list, has_any=True)
            for path, size, modified in self.walked(tidies=tidies):
                pairs.find(path, self._value(size, modified))
            yield from pairs.differences()

    def _expect_files(self, pairs: Pairs, row: LibraryRow, path: str) -> None:
        number, has_any = str(row.no), self.is_note(row)
        value = self._value(row.file_size if self.has_files else 1, row.last_modified)
        pairs.expect(path, _SOME if has_any else value, number)
        if not path.startswith(self._tops):
            self._find(pairs, path, has_any=has_any)
        if self.source.source_type is SourceType.SITEPAGES:
            original = sharepoint_original_path(path)
            if original != path:
                pairs.expect(original, value, number)

    def _find(self, pairs: Pairs, path: str, *, has_any: bool) -> None:
        facts = self.folder.facts(path)
        if facts is not None:
            value = self._value(*facts)
            pairs.find(path, (_SOME if facts[0] else _EMPTY) if has_any else value)

    def is_note(self, row: LibraryRow) -> bool:
        """Whether the file of an item only says why there is none (E2)."""
        has_error = row.sharepoint_error is not None or not self.has_files
        return has_error and row.path is not None and row.path.startswith(_FAILED)

    def _value(self, size: int, modified: int) -> str:
        """Return the facts of a file that are compared (M-51)."""
        if self.has_files:
            return f"{size} {modified}"
        return str(modified) if size else _EMPTY

    def size_of(self, pair: Pair) -> int:
        """Return the bytes of a surplus file; -1: it has no size by which it is known again."""
        return int(pair.value.partition(" ")[0]) if self.has_files else -1

    def walked(self, *, tidies: bool = False) -> Iterator[tuple[str, int, int]]:
        """Yield path, size and date of each file that is surplus unless an item is to have it."""
        for top in self._tops:
            for facts in self.folder.walk(top.removesuffix("/"), tidies=tidies):
                if facts[0] != self.list:
                    yield facts

    def files(
        self, *, reads_data: bool = False, tick: Callable[[int], None] = lambda count: None
    ) -> Iterator[LibraryDifference]:
        """Compare the disk with the items.

        ``reads_data``: whether to read each file first, and to compare its bytes with those that
        were downloaded. ``tick`` is called with the number of items at each look-up.

        Raises:
            OSError: a folder cannot be read.
        """
        reads = reads_data and self.has_files
        for batch in self.batches() if reads else ():
            tick(len(batch))
            yield from self._other_bytes(batch)

        def rows() -> Iterator[tuple[LibraryRow, bool]]:
            for batch in self.batches():
                tick(0 if reads else len(batch))
                yield from ((row, True) for row in batch)

        date = "other size or date than its item" if self.has_files else "other date"
        details = {Difference.CHANGED: date, Difference.SURPLUS: "no item is at this path"}
        for pair in self.disk(rows()):
            detail = details.get(pair.difference, "")
            if pair.key.startswith("/"):  # the address of an item
                detail = "the next download fetches it"
            yield self.found(Place.FILES, pair.difference, pair.key, detail)

    def _other_bytes(self, rows: Sequence[LibraryRow]) -> Iterator[LibraryDifference]:
        """Yield the files whose bytes are not those that were downloaded (R3-107)."""
        hashes = library_body_hash_rows(self._connection, [row.no for row in rows])
        for row in rows:
            path, digest = row.path, hashes.get(row.no)
            if path is None or digest is None or self.is_note(row):
                continue
            if self.folder.facts(path) != (row.file_size, row.last_modified):
                continue  # it is compared anyway
            try:
                with self.folder.open(path) as file:
                    is_same = file_digest(file, "sha256").digest() == digest
            except OSError as error:
                why = f"it cannot be read ({error.strerror})"
                yield self.found(Place.FILES, Difference.CHANGED, path, why)
                continue
            if not is_same:
                yield self.found(Place.FILES, Difference.CHANGED, path, OTHER_BYTES)

    # The maps

    def files_map(self) -> Iterator[LibraryDifference]:
        """Compare ``files_map.csv`` with the items, cell by cell (R3-51)."""
        rows = (run_row_of_files_map(row, self.prefix) for batch in self.batches() for row in batch)
        return self.map(Place.FILES_MAP, _CONFIG.FILE_MAP_CSV, FilesMapRow, rows)

    def map(
        self, place: Place, name: str, kind: type[NamedTuple], rows: Iterable[tuple[Cell, ...]]
    ) -> Iterator[LibraryDifference]:
        """Compare a map with the rows that it is to have."""
        column = kind._fields.index("sharepoint_unique_file_id")
        with Pairs() as pairs:
            has_rows = False
            for row in rows:
                has_rows = True
                pairs.expect(str(row[column]), _digest(row))
            try:
                problem = self._read_map(pairs, name, kind._fields, column)
            except FileNotFoundError:
                if has_rows:
                    yield self.found(place, Difference.MISSING, name)
                return
            except OSError as error:
                problem = f"it cannot be read ({error.strerror})"
            if problem:
                yield self.found(place, Difference.CHANGED, name, problem)
                return
            for pair in pairs.differences():
                yield self.found(place, pair.difference, pair.name, f"row of {name}")

    def _read_map(self, pairs: Pairs, name: str, columns: tuple[str, ...], column: int) -> str:
        """Add the rows of a map; return why it cannot be read, or an empty text.

        Raises:
            OSError: it cannot be read.
        """
        path = self.folder.root / name
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
        return ""


def _digest(cells: Iterable[Cell]) -> str:
    return sha256(sharepoint_map_line(cells)).hexdigest()

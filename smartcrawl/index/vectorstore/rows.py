"""The files that were given to vector stores, in the registry.

Each method is one transaction, durable on return: a row is written before the request that it
announces, and changed after the answer that it records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from smartcrawl.index.vectorstore.ports import (
    FileStatus,
    ItemVersion,
    ListedFile,
    StoredFile,
    StoreItem,
    UploadedFile,
    vector_store_upload_id,
)
from smartcrawl.registry.connection import Connection, Many, transaction

_NOTE_STORE = """
INSERT INTO vector_store (url, id) VALUES (?, ?) ON CONFLICT (url, id) DO NOTHING
"""
_STORE = "SELECT no FROM vector_store WHERE url = ? AND id = ?"
_ROWS = """
SELECT intent, no, url, content_hash, facts, CASE WHEN file IS NULL THEN name ELSE '' END, size,
       file, status, intended_at, uploaded_at, embedded_at
  FROM store_file WHERE store = ? AND source = ? ORDER BY intended_at, intent
"""
_COLUMNS = """
SELECT intent, no, url, content_hash, facts, '', size, file, status, intended_at, uploaded_at,
       embedded_at
  FROM store_file
"""
_COMPLETED = f"""
{_COLUMNS} WHERE store = ? AND source = ? AND no IN carray(?) AND status = 'completed'
   AND file IS NOT NULL ORDER BY intended_at, intent
"""
_ALL_COMPLETED = f"""
{_COLUMNS} WHERE store = ? AND source = ? AND status = 'completed' AND file IS NOT NULL
 ORDER BY intended_at, intent
"""
_BY_ID = f"{_COLUMNS} WHERE store = ? AND source = ? AND file IN carray(?)"
_LEAVING = f"""
{_COLUMNS} WHERE store = ? AND source = ? AND status = 'leaving' AND file IS NOT NULL
"""
_UNANSWERED = """
SELECT 1 FROM store_file WHERE store = ? AND source = ? AND file IS NULL LIMIT 1
"""
_INTEND = """
INSERT INTO store_file (intent, store, source, no, url, content_hash, body_hash, size, name, file,
                        status, intended_at, facts, embedded_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPLOADED = "UPDATE store_file SET file = ?, uploaded_at = ?, status = ? WHERE intent = ?"
_STATUS = "UPDATE store_file SET status = ? WHERE intent IN carray(?)"
_SINCE = "UPDATE store_file SET embedded_at = ? WHERE intent = ?"
_DROP = "DELETE FROM store_file WHERE intent IN carray(?)"
_LEFT = """
INSERT INTO left_upload (url, file, name, size, left_at)
SELECT v.url, f.file, f.name, f.size, ? FROM store_file f JOIN vector_store v ON v.no = f.store
 WHERE f.intent IN carray(?) AND f.file IS NOT NULL AND f.size IS NOT NULL
ON CONFLICT (url, file) DO NOTHING
"""
_LEAVE_OTHERS = """
UPDATE store_file SET status = 'leaving'
 WHERE store = ? AND source = ? AND no = ? AND intent <> ? AND file IS NOT NULL
"""
_LEFT_UPLOADS = "SELECT file FROM left_upload WHERE url = ?"
_UPLOADS_OF_STORES = """
SELECT v.id, f.file FROM store_file f JOIN vector_store v ON v.no = f.store
 WHERE v.url = ? AND f.file IS NOT NULL AND f.size IS NOT NULL
"""
_FORGET_LEFT = "DELETE FROM left_upload WHERE url = ? AND file IN carray(?)"
_FORGET_STORED = """
DELETE FROM store_file WHERE file IN carray(?)
   AND store IN (SELECT no FROM vector_store WHERE url = ?)
"""
_LEFT_ELSEWHERE = "SELECT count(*) FROM left_upload WHERE url <> ?"
_SHOWN = """
SELECT f.intent, COALESCE(r.url, f.name) FROM store_file f LEFT JOIN record r ON r.no = f.no
 WHERE f.intent IN carray(?)
"""
_NO_VERSIONS: Final[Mapping[int, ItemVersion]] = MappingProxyType({})


class StoreRows:
    """The rows of one store and source."""

    def __init__(
        self, connection: Connection, *, url: str, store: str, source: int, now: int
    ) -> None:
        """``now``: Unix seconds."""
        self._connection = connection
        self._source, self._now = source, now
        with transaction(connection):
            connection.execute(_NOTE_STORE, (url, store))
            self._store = int(connection.execute(_STORE, (url, store)).get)

    def files(self, versions: Mapping[int, ItemVersion] = _NO_VERSIONS) -> list[StoredFile]:
        """Return the rows, the oldest intent first; equal ``versions`` are shared, by record.no."""
        return vector_store_files(self._connection, self._store, self._source, versions)

    def completed(self) -> Iterator[StoredFile]:
        """Yield the completed files, one at a time in memory, the oldest intent first."""
        return _files(self._connection, _ALL_COMPLETED, (self._store, self._source))

    def has_unanswered(self) -> bool:
        """Whether an upload was intended whose id is not known."""
        found: int | None = self._connection.execute(_UNANSWERED, (self._store, self._source)).get
        return found is not None

    def intend(self, item: StoreItem) -> StoredFile:
        """Record the intent to upload a file; its name has the unique id."""
        intent = vector_store_upload_id()
        name = f"{item.name}-{intent}{item.ending}"
        file = StoredFile(
            intent, item.version, name, item.size, None, FileStatus.INTENDED, self._now
        )
        self._insert(file, item.digest)
        return file

    def adopt(self, found: ListedFile, version: ItemVersion, status: FileStatus) -> StoredFile:
        """Record a file of ours that is in the store, and that no row has."""
        file = StoredFile.adopted(found, version, status, self._now)
        self._insert(file, None)
        return file

    def note_upload(self, file: StoredFile, found: UploadedFile) -> StoredFile:
        """Record the id that the server gave to a file."""
        values = (found.id, found.created_at, FileStatus.UPLOADED.value, file.intent)
        with transaction(self._connection):
            self._connection.execute(_UPLOADED, values)
        return file.uploaded(found)

    def note_listed(self, file: StoredFile, status: FileStatus, listed: ListedFile) -> StoredFile:
        """Record the status of a file that is attached, and since when it is."""
        with transaction(self._connection):
            self._connection.execute(_STATUS, (status.value, Many([file.intent])))
            self._connection.execute(_SINCE, (listed.created_at, file.intent))
        return file.listed(status, listed)

    def note(self, files: Iterable[StoredFile], status: FileStatus) -> list[StoredFile]:
        """Record the status of files."""
        files = list(files)
        if files:
            with transaction(self._connection):
                self._connection.execute(_STATUS, (status.value, _intents(files)))
        return [file._replace(status=status) for file in files]

    def note_completed(self, file: StoredFile) -> None:
        """Record that a file is completed, and that the former ones of its page may go."""
        place = (self._store, self._source, file.version.no, file.intent)
        with transaction(self._connection):
            completed = (FileStatus.COMPLETED.value, Many([file.intent]))
            self._connection.execute(_STATUS, completed)
            self._connection.execute(_LEAVE_OTHERS, place)

    def shown_names(self, files: Sequence[StoredFile]) -> dict[str, str]:
        """Return the addresses of the pages in files, or the names as sent, by intent."""
        return dict(self._connection.execute(_SHOWN, (_intents(files),)).fetchall())

    def leave(self, files: Sequence[StoredFile]) -> None:
        """Record that files are in this store no more, and that the account still has them.

        Those that were found in the store are uploads of another registry, and are forgotten.
        """
        if files:
            with transaction(self._connection):
                self._connection.execute(_LEFT, (self._now, _intents(files)))
                self._connection.execute(_DROP, (_intents(files),))

    def drop(self, files: Sequence[StoredFile]) -> None:
        """Forget files that are neither in the store nor in the account any more."""
        if files:
            with transaction(self._connection):
                self._connection.execute(_DROP, (_intents(files),))

    def _insert(self, file: StoredFile, digest: bytes | None) -> None:
        no, url, hash_, facts = file.version
        values = (
            *(file.intent, self._store, self._source, no, url, hash_),
            *(digest, file.size, file.name, file.file, file.status.value, file.intended_at),
            *(facts or None, file.embedded_at),
        )
        with transaction(self._connection):
            self._connection.execute(_INTEND, values)


def vector_store_files(
    connection: Connection,
    store: int,
    source: int,
    versions: Mapping[int, ItemVersion] = _NO_VERSIONS,
) -> list[StoredFile]:
    """Return the rows of a store and a source, the oldest intent first.

    Only files without an id have a name. ``versions``, by record.no: those that are equal are
    shared, as both are in memory.
    """

    def shared(version: ItemVersion) -> ItemVersion:
        known = versions.get(version.no)
        return known if known is not None and known == version else version

    rows = _files(connection, _ROWS, (store, source))
    return [file._replace(version=shared(file.version)) for file in rows]


def completed_store_files(
    connection: Connection, store: int, source: int, numbers: Sequence[int]
) -> dict[int, StoredFile]:
    """Return the completed files of some pages or items, by record.no; of several the newest."""
    rows = _files(connection, _COMPLETED, (store, source, Many(numbers)))
    return {file.version.no: file for file in rows}


def store_files_by_id(
    connection: Connection, store: int, source: int, ids: Sequence[str]
) -> dict[str | None, StoredFile]:
    """Return those of some files, by the id that the server gave, that the registry knows."""
    rows = _files(connection, _BY_ID, (store, source, Many(ids)))
    return {file.file: file for file in rows}


def vector_store_files_to_leave(
    connection: Connection, store: int, source: int
) -> Iterator[StoredFile]:
    """Yield the files that are still to be detached."""
    return _files(connection, _LEAVING, (store, source))


def _files(connection: Connection, statement: str, values: tuple[Any, ...]) -> Iterator[StoredFile]:
    rows: Any = connection.execute(statement, values)
    times_by_value: dict[Any, Any] = {}  # many are equal, and all are in memory
    for intent, no, url, hash_, facts, name, size, file, status, *times in rows:
        version = ItemVersion(no, url, bytes(hash_), bytes(facts or b""))
        shared = [times_by_value.setdefault(time, time) for time in times]
        yield StoredFile(intent, version, name, size, file, FileStatus(status), *shared)


def vector_store_number(connection: Connection, url: str, store: str) -> int | None:
    """Return the number of a store, or None: nothing was pushed to it."""
    number: int | None = connection.execute(_STORE, (url, store)).get
    return number


def left_upload_ids(connection: Connection, url: str) -> set[str]:
    """Return the ids of uploads to a server that were taken out of their store."""
    rows: Any = connection.execute(_LEFT_UPLOADS, (url,))
    return {file for (file,) in rows}


def store_upload_ids(connection: Connection, url: str) -> dict[str, set[str]]:
    """Return the ids of uploads to a server by their store, in which they are, or shall be."""
    found: dict[str, set[str]] = {}
    rows: Any = connection.execute(_UPLOADS_OF_STORES, (url,))
    for store, file in rows:
        found.setdefault(store, set()).add(file)
    return found


def forget_uploads(connection: Connection, url: str, ids: Sequence[str]) -> None:
    """Forget uploads that their server does not have any more."""
    if ids:
        with transaction(connection):
            connection.execute(_FORGET_LEFT, (url, Many(ids)))
            connection.execute(_FORGET_STORED, (Many(ids), url))


def count_left_uploads_elsewhere(connection: Connection, url: str) -> int:
    """Return how many uploads were left at other servers."""
    return int(connection.execute(_LEFT_ELSEWHERE, (url,)).get)


def _intents(files: Sequence[StoredFile]) -> Many:
    return Many([file.intent for file in files])

"""Rows of the items of document libraries, of their drives, and of what a listing lacks.

The items that a library counts and its listing lacks, as its source stores them (R3-69).

Rights trim the answers of a library, and not its count. The first difference is accepted. A greater
one withholds the removals of its run, and is accepted with them.

Drives as they were at a delta token (tables library_drive and library_drive_item).

Names are stored as JSON: a library's may have NUL in it, which PostgreSQL does not take.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from smartcrawl.model.library import LibraryFile, LibraryRow
from smartcrawl.registry.connection import Connection, Many, transaction
from smartcrawl.registry.database.databases import Database
from smartcrawl.rules.model import Word
from smartcrawl.sources.sharepoint.access import DriveFile, DriveToken, DriveUpdate, Folder

_COLUMNS: Final = ", ".join(f"i.{name}" for name in LibraryRow._fields)
_ALL: Final = f"SELECT {_COLUMNS} FROM library_item i WHERE i.source = ? ORDER BY i.no"
_PAGE: Final = f"""
SELECT {_COLUMNS} FROM library_item i WHERE i.source = ? AND i.no > ? ORDER BY i.no LIMIT ?
"""
_SOME: Final = f"SELECT {_COLUMNS} FROM library_item i WHERE i.no IN carray(?)"
_AT: Final = f"""
SELECT {_COLUMNS} FROM library_item i WHERE i.source = ? AND i.path IN carray(?) ORDER BY i.no
"""
_URLS: Final = """
SELECT unique_id, server_relative_url FROM library_item
 WHERE source = ? AND unique_id IN carray(?)
"""
_NOT_HAD: Final = """
SELECT no, path FROM library_item
 WHERE source = ? AND sharepoint_error IS NOT NULL AND path IS NOT NULL
"""
_SINCE: Final = """
SELECT i.no FROM library_item i JOIN state s USING (no) WHERE i.source = ? AND s.last_checked > ?
"""
_HASHES: Final = """
SELECT r.no, COALESCE(i.body_hash, r.body_hash)
  FROM record r LEFT JOIN library_item i USING (no)
 WHERE r.no IN carray(?) AND COALESCE(i.body_hash, r.body_hash) IS NOT NULL
"""
_OTHERS: Final = """
SELECT DISTINCT path FROM library_item
 WHERE source = ? AND path IN carray(?) AND NOT (no IN carray(?))
"""
_STORE: Final = """
INSERT INTO library_item (no, source, listitem_id, unique_id, filename, server_relative_url,
                          file_size, last_modified, path, downloaded, body_hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET listitem_id = excluded.listitem_id, unique_id = excluded.unique_id,
       filename = excluded.filename, server_relative_url = excluded.server_relative_url,
       file_size = excluded.file_size, last_modified = excluded.last_modified,
       path = excluded.path, downloaded = excluded.downloaded, body_hash = excluded.body_hash,
       sharepoint_error = NULL, processing_error = NULL
"""
#: A former file stays, with its four fields.
_FAILED: Final = """
INSERT INTO library_item (no, source, listitem_id, unique_id, filename, server_relative_url,
                          file_size, last_modified, sharepoint_error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE SET sharepoint_error = excluded.sharepoint_error
"""
_ADDRESS: Final = "INSERT INTO library_address (url, no) VALUES (?, ?) ON CONFLICT DO NOTHING"
_ADDRESSED: Final = """
SELECT no FROM library_address WHERE url = ?
 UNION SELECT no FROM library_item WHERE unique_id = ? ORDER BY 1
"""
_PLACED: Final = "UPDATE library_item SET path = ? WHERE no = ?"
_PROCESSED: Final = """
UPDATE library_item SET path = ?, processing_error = ?
 WHERE no = ? AND path = ? AND file_size = ? AND last_modified = ?
"""
_DELETE: Final = "DELETE FROM library_item WHERE no IN carray(?)"
#: Those of earlier runs that the library has no more do not count.
_FAILURES: Final = f"""
SELECT count(*) FROM library_item i JOIN state s USING (no)
 WHERE i.source = :source AND s.reached_run = :run AND s.outcome = {int(Word.FAILED)}
"""
#: Their URLs, and why.
_FAILED_NOW: Final = f"""
SELECT i.server_relative_url, COALESCE(i.sharepoint_error, r.error_message, '')
  FROM library_item i JOIN state s USING (no) JOIN record r USING (no)
 WHERE i.source = :source AND s.reached_run = :run
   AND (s.outcome = {int(Word.FAILED)} OR (i.path IS NULL AND i.sharepoint_error IS NOT NULL))
 ORDER BY i.no
"""
#: Items whose content the sweep removed, or that were never indexed and are listed no more.
_GONE: Final = f"""
SELECT {_COLUMNS} FROM library_item i JOIN state s USING (no)
 WHERE i.source = :source AND s.standing = 0 AND s.seen_run < :run ORDER BY i.no
"""


def library_rows(connection: Connection, source: int) -> Iterator[LibraryRow]:
    """Yield the items of a source, by number."""
    row: Any
    for row in connection.execute(_ALL, (source,)):
        yield LibraryRow._make(row)


def library_row_batches(
    connection: Connection, source: int, size: int
) -> Iterator[list[LibraryRow]]:
    """Yield the items of a source by number, ``size`` at a time; only those are in memory.

    Each statement reads another moment.
    """
    last = 0
    while True:
        rows: Any = connection.execute(_PAGE, (source, last, size)).fetchall()
        if not rows:
            return
        batch = list(map(LibraryRow._make, rows))
        yield batch
        last = batch[-1].no


def library_rows_since(connection: Connection, source: int, moment: float) -> set[int]:
    """Return the numbers of the items that were looked at after a moment, Unix seconds."""
    rows: Any = connection.execute(_SINCE, (source, moment)).fetchall()
    return {no for (no,) in rows}


def library_body_hash_rows(connection: Connection, numbers: Sequence[int]) -> dict[int, bytes]:
    """Return the SHA-256 of the bytes of items, by number, as far as they are known."""
    rows: Any = connection.execute(_HASHES, (Many(numbers),)).fetchall()
    return {no: bytes(digest) for no, digest in rows}


def library_rows_of(connection: Connection, numbers: Sequence[int]) -> dict[int, LibraryRow]:
    """Return those items of some records that are stored, by number."""
    rows: Any = connection.execute(_SOME, (Many(numbers),)).fetchall()
    return {row[0]: LibraryRow._make(row) for row in rows}


def library_row_urls(
    connection: Connection, source: int, unique_ids: Sequence[str]
) -> dict[str, str]:
    """Return the server relative URLs of some items of a source, by unique id."""
    rows: Any = connection.execute(_URLS, (source, Many(unique_ids))).fetchall()
    return dict(rows)


def lost_library_row_paths(connection: Connection, source: int) -> dict[int, str]:
    """Return the paths of items that could not be had, by number; their files may be missing."""
    rows: Any = connection.execute(_NOT_HAD, (source,)).fetchall()
    return dict(rows)


def library_rows_at(
    connection: Connection, source: int, paths: Sequence[str]
) -> dict[str, LibraryRow]:
    """Return the items whose files are at some paths, by path."""
    rows: Any = connection.execute(_AT, (source, Many(paths))).fetchall()
    found = map(LibraryRow._make, rows)
    return {row.path: row for row in found if row.path is not None}


def library_paths_of_other_rows(
    connection: Connection, source: int, paths: Iterable[str], numbers: Sequence[int]
) -> set[str]:
    """Return those of some paths at which items of the source with other numbers have files."""
    values = (source, Many(sorted(paths)), Many(numbers))
    found: Any = connection.execute(_OTHERS, values).fetchall()
    return {path for (path,) in found}


def store_library_file_row(connection: Connection, source: int, no: int, file: LibraryFile) -> None:
    """Store an item whose file is in place, or the error of one that could not be had (R3-75)."""
    item = file.item
    facts = (
        no, source, item.listitem_id, item.unique_id, item.filename, item.server_relative_url,
        item.file_size, item.last_modified,
    )  # fmt: skip
    if file.error is not None and file.path is None:
        connection.execute(_FAILED, (*facts, file.error[:1024]))
        return
    connection.execute(_ADDRESS, (item.url, no))
    connection.execute(_STORE, (*facts, file.path, file.downloaded, file.digest))
    if file.error is not None:  # such as a path that the system does not take (E2)
        connection.execute(_FAILED, (*facts, file.error[:1024]))


def library_records_at(connection: Connection, address: str) -> list[int]:
    """Return the numbers of the items that have, or had, a URL, or that have a unique id."""
    try:
        address.encode()
    except UnicodeEncodeError:  # bytes of a command line that are not UTF-8
        return []
    rows: Any = connection.execute(_ADDRESSED, (address, address.lower())).fetchall()
    return [no for (no,) in rows]


def place_library_rows(connection: Connection, places: Sequence[tuple[int, str | None]]) -> None:
    """Store the present places of files, each with its number; None: there is no file."""
    connection.executemany(_PLACED, [(path, no) for no, path in places])


class ProcessedRow(NamedTuple):
    """The result of the process step at one item."""

    before: LibraryRow  #: the item as it was read, with a path
    path: str | None  #: place afterwards; None: it must be downloaded again
    error: str | None


def store_processed_rows(connection: Connection, rows: Iterable[ProcessedRow]) -> None:
    """Store the results of a process step.

    An item that a download has replaced meanwhile stays as that has stored it.
    """
    values = [
        (
            row.path, row.error, row.before.no, row.before.path, row.before.file_size,
            row.before.last_modified,
        )
        for row in rows
    ]  # fmt: skip
    connection.executemany(_PROCESSED, values)


def gone_library_rows(connection: Connection, source: int, run: int) -> list[LibraryRow]:
    """Return the items whose pages are not stored any more, and which ``run`` did not list."""
    rows: Any = connection.execute(_GONE, {"source": source, "run": run}).fetchall()
    return [LibraryRow._make(row) for row in rows]


def count_failed_library_rows(connection: Connection, source: int, run: int) -> int:
    """Return the number of items that ``run`` listed, and that could not be had or read."""
    return int(connection.execute(_FAILURES, {"source": source, "run": run}).get)


def failed_library_row_reasons(
    connection: Connection, source: int, run: int
) -> Iterator[tuple[str, str]]:
    """Yield the items that ``run`` listed, and that could not be had or read, each with why."""
    yield from connection.execute(_FAILED_NOW, {"source": source, "run": run})


def delete_library_rows(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete the rows of items whose files are removed."""
    connection.execute(_DELETE, (Many(numbers),))


_LOOK: Final = "SELECT listing FROM source WHERE no = ?"
_STORE_LISTING: Final = "UPDATE source SET listing = ? WHERE no = ?"
_KEY: Final = "shortfall"


TRIMMED: Final = "trimmed"  #: the first word of the note of a run


def stored_trimmed_note(items: int) -> str:
    """Return the note of a run that lacked items beyond those accepted.

    >>> stored_trimmed_note(1)
    'trimmed: the library counts 1 item more than it lists'
    """
    counted = "1 item" if items == 1 else f"{items:,} items"
    return f"{TRIMMED}: the library counts {counted} more than it lists"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A number of lacking items that is accepted, and a greater one that is not."""

    accepted: int
    trimmed_run: int | None = None  #: run.no of the last run that found more
    trimmed: int = 0  #: how many it found

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Return the stored one."""
        stored: dict[str, Any] = json.loads(text)
        return cls(stored[_KEY], stored.get("trimmed_run"), stored.get("trimmed", 0))

    def stored(self) -> str:
        """Return it as JSON."""
        if self.trimmed_run is None:
            return json.dumps({_KEY: self.accepted})
        run = {"trimmed_run": self.trimmed_run, "trimmed": self.trimmed}
        return json.dumps({_KEY: self.accepted} | run)


def stored_library_shortfall(connection: Connection, source: int) -> Shortfall | None:
    """Return the stored shortfall of a library; None: the source has none."""
    text = connection.execute(_LOOK, (source,)).get
    if text is None or _KEY not in json.loads(text):
        return None
    return Shortfall.parsed(text)


def stored_trimmed_items(connection: Connection, source: int, run: int) -> int:
    """Return how many items a run of a library lacked beyond those accepted; else 0."""
    found = stored_library_shortfall(connection, source)
    is_of_run = found is not None and found.trimmed_run == run
    return found.trimmed if found is not None and is_of_run else 0


def accept_library_shortfall_row(connection: Connection, source: int) -> None:
    """Accept what the last trimmed run lacked, with its removals. The caller's transaction."""
    found = stored_library_shortfall(connection, source)
    if found is not None and found.trimmed_run is not None:
        connection.execute(_STORE_LISTING, (Shortfall(found.trimmed).stored(), source))


_DRIVE_COLUMNS: Final = ("source", *DriveFile._fields)
_TOKEN: Final = f"""
SELECT {", ".join(DriveToken._fields)} FROM library_drive d
 WHERE source = ? AND items = (SELECT count(*) FROM library_drive_item i WHERE i.source = d.source)
"""
_FOLDERS: Final = """
SELECT id, name, parent FROM library_drive_item WHERE source = ? AND listitem_id IS NULL
"""
_FILES: Final = f"""
SELECT {", ".join(DriveFile._fields)} FROM library_drive_item
 WHERE source = ? AND listitem_id IS NOT NULL ORDER BY listitem_id
"""
_FORGET: Final = "DELETE FROM library_drive WHERE source = ?"
_FORGET_ITEMS: Final = "DELETE FROM library_drive_item WHERE source = ?"
_DRIVE_DELETE: Final = "DELETE FROM library_drive_item WHERE source = ? AND id IN carray(?)"
_DRIVE_STORE: Final = f"""
INSERT INTO library_drive (source, {", ".join(DriveToken._fields)}, items)
VALUES (?, ?, ?, ?, ?, ?, (SELECT count(*) FROM library_drive_item WHERE source = ?))
"""


@dataclass(frozen=True, slots=True)
class StoredDrive:
    """The drive of a source as the registry has it."""

    token: DriveToken
    _database: Database
    _source: int  #: source.no
    _looks: bool  #: whether it is read as of a dry run, without any write

    def folders(self) -> dict[str, Folder]:
        """Return the folders by id."""
        with self._opened() as connection:
            rows: Any = connection.execute(_FOLDERS, (self._source,)).fetchall()
        return {id_: Folder(json.loads(name), parent) for id_, name, parent in rows}

    def files(self) -> Iterator[DriveFile]:
        """Yield the files, in order of their list item ids."""
        with self._opened() as connection:
            row: Any
            for row in connection.execute(_FILES, (self._source,)):
                file = DriveFile._make(row)
                yield file._replace(name=json.loads(file.name))

    @contextmanager
    def _opened(self) -> Iterator[Connection]:
        with self._database.translated("read"):
            database = self._database
            connection = database.look() if self._looks else database.connect(readonly=True)
            try:
                yield connection
            finally:
                connection.close(force=True)


def stored_drive(
    database: Database, connection: Connection, source: int, *, looks: bool = False
) -> StoredDrive | None:
    """Return the drive of a source; None: none is stored, or not all of its items are.

    ``looks``: whether it is for a dry run, which writes nothing.
    """
    row: Any = connection.execute(_TOKEN, (source,)).fetchone()
    return None if row is None else StoredDrive(DriveToken._make(row), database, source, looks)


def store_library_drive_row(
    connection: Connection, source: int, update: DriveUpdate | None
) -> None:
    """Store a token together with the items at it, in one transaction; None: forget the drive."""
    with transaction(connection):
        connection.execute(_FORGET, (source,))
        if update is None or update.is_whole:
            connection.execute(_FORGET_ITEMS, (source,))
        if update is None:
            return
        folders = [
            (source, id_, folder.parent, json.dumps(folder.name), None, None, None, None)
            for id_, folder in update.folders.items()
        ]
        files = [(source, *file._replace(name=json.dumps(file.name))) for file in update.files]
        replaced = [row[1] for row in (*folders, *files)]
        if not update.is_whole:
            connection.execute(_DRIVE_DELETE, (source, Many([*update.gone, *replaced])))
        connection.fill("library_drive_item", _DRIVE_COLUMNS, [*folders, *files])
        connection.execute(_DRIVE_STORE, (source, *update.token, source))

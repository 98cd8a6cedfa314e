"""Drives as they were at a delta token (tables library_drive and library_drive_item).

Names are stored as JSON: a library's may have NUL in it, which PostgreSQL does not take.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.sources.sharepoint.access import DriveFile, DriveToken, DriveUpdate, Folder

_COLUMNS: Final = ("source", *DriveFile._fields)
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
_DELETE: Final = "DELETE FROM library_drive_item WHERE source = ? AND id IN carray(?)"
_STORE: Final = f"""
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
            connection.execute(_DELETE, (source, Many([*update.gone, *replaced])))
        connection.fill("library_drive_item", _COLUMNS, [*folders, *files])
        connection.execute(_STORE, (source, *update.token, source))

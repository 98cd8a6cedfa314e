"""A delta token is stored with the items at it, or not at all (ADR 84)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database, registry_database
from smartcrawl.registry.library.items import StoredDrive, store_library_drive_row, stored_drive
from smartcrawl.sources.sharepoint.access import DriveFile, DriveToken, DriveUpdate, Folder

SOURCE, OTHER = 7, 8
TOKEN = DriveToken("[]", "drive", "/sites/a/Docs", "root", "https://g/delta?token=1")
FOLDERS = {"f1": Folder("Größe\0", "root"), "f2": Folder("2024", "f1")}


def file(number: int, name: str = "", parent: str = "f2") -> DriveFile:
    return DriveFile(f"i{number}", parent, name or f"{number}.txt", number, f"u{number}", 10, 99)


def whole(*files: DriveFile) -> DriveUpdate:
    return DriveUpdate(TOKEN, True, FOLDERS, files, [])


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Any) -> Database:
    if request.param == "sqlite":
        return registry_database(tmp_path / "registry.db")
    return registry_database(request.getfixturevalue("postgres_url"))


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    connection = database.open()
    yield connection
    connection.close()


def drive(database: Database, connection: Connection, source: int = SOURCE) -> StoredDrive:
    found = stored_drive(database, connection, source)
    assert found is not None
    return found


def test_a_whole_drive_is_what_was_listed(database: Database, connection: Connection) -> None:
    store_library_drive_row(connection, OTHER, whole(file(9)))
    assert stored_drive(database, connection, SOURCE) is None

    store_library_drive_row(connection, SOURCE, whole(file(3), file(1, "a\0\ud800.txt"), file(2)))

    found = drive(database, connection)
    assert found.token == TOKEN
    assert found.folders() == FOLDERS
    assert list(found.files()) == [file(1, "a\0\ud800.txt"), file(2), file(3)]

    store_library_drive_row(connection, SOURCE, whole(file(4)))
    assert list(drive(database, connection).files()) == [file(4)]
    assert list(drive(database, connection, OTHER).files()) == [file(9)]


def test_changes_replace_what_they_name(database: Database, connection: Connection) -> None:
    store_library_drive_row(connection, OTHER, whole(file(1), file(2)))
    store_library_drive_row(connection, SOURCE, whole(file(1), file(2), file(3)))
    token = TOKEN._replace(delta="https://g/delta?token=2")
    folders = {"f1": Folder("Papers", "root"), "f3": Folder("New", "root")}
    changed = [file(2, "two.txt", "f3"), file(4)]

    store_library_drive_row(
        connection, SOURCE, DriveUpdate(token, False, folders, changed, ["i1", "gone"])
    )

    found = drive(database, connection)
    assert found.token == token
    assert found.folders() == FOLDERS | folders
    assert list(found.files()) == [file(2, "two.txt", "f3"), file(3), file(4)]
    assert list(drive(database, connection, OTHER).files()) == [file(1), file(2)]


def test_a_drive_that_has_no_token_any_more_is_forgotten(
    database: Database, connection: Connection
) -> None:
    store_library_drive_row(connection, OTHER, whole(file(1)))
    store_library_drive_row(connection, SOURCE, whole(file(1)))

    store_library_drive_row(connection, SOURCE, None)

    assert stored_drive(database, connection, SOURCE) is None
    left = "SELECT DISTINCT source FROM library_drive_item"
    assert connection.execute(left).fetchall() == [(OTHER,)]


def test_a_token_whose_items_are_not_all_there_is_of_no_use(
    database: Database, connection: Connection
) -> None:
    """As after a salvage: with a part of the items, the others would look removed."""
    store_library_drive_row(connection, SOURCE, whole(file(1), file(2)))

    connection.execute("DELETE FROM library_drive_item WHERE id = 'i2'").fetchall()

    assert stored_drive(database, connection, SOURCE) is None


def test_an_error_stores_neither_token_nor_items(
    database: Database, connection: Connection
) -> None:
    store_library_drive_row(connection, SOURCE, whole(file(1)))
    token = TOKEN._replace(delta="https://g/delta?token=2")
    twice = [file(2), file(2)]

    with pytest.raises(Exception, match=r"(?i)unique"):
        store_library_drive_row(connection, SOURCE, DriveUpdate(token, False, {}, twice, ["i1"]))

    found = drive(database, connection)
    assert (found.token, list(found.files())) == (TOKEN, [file(1)])

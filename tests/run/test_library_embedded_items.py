"""The items that a vector store is to have: those that it refused, and what changed since."""

from pathlib import Path

import pytest

from smartcrawl.model.library import LibraryRow, SourceType
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import empty_registry_in_memory
from smartcrawl.registry.library.embedding import embed_failure_rows
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.run.library.embedding import EmbeddedItems
from smartcrawl.sources.sharepoint.source import SharepointSource

DATE = 1_700_000_000_000_000
HASH = b"h" * 32


class Shelf:
    """A library of one item, which is processed, with its registry and its disk."""

    def __init__(self, storage: Path) -> None:
        self.source = SharepointSource(
            name="D.s", domain="D", source_id="s", source_type=SourceType.FILES,
            site_url="https://a.example/sites/x", url_part="/Docs", storage=storage,
        )  # fmt: skip
        self.connection: Connection = empty_registry_in_memory()
        self.connection.execute("PRAGMA foreign_keys = OFF")
        self.connection.execute(
            "INSERT INTO record (no, source, id, url, host, first_run, first_seen)"
            " VALUES (1, 1, x'01', '', 1, 1, 1)"
        )
        self.folder = LibraryFolder(self.source.folder)
        self.store("02_embedded/x.md", DATE)

    def store(self, path: str, modified: int) -> None:
        """Store the item as a download of this time left it."""
        row = LibraryRow(1, 1, "1", "x.md", "/x.md", 5, modified, path, modified, None, None)
        names = (*LibraryRow._fields, "source", "body_hash")
        self.connection.execute("DELETE FROM library_item")
        self.connection.execute(
            f"INSERT INTO library_item ({', '.join(names)}) VALUES ({'?, ' * 12}?)",
            (*row, 1, HASH),
        )
        self.folder.write(path, b"12345", modified)

    def items(self, *, is_full: bool = False) -> EmbeddedItems:
        return EmbeddedItems(self.connection, self.source, 1, self.folder, is_full=is_full)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """A library whose item was refused by its store."""
    shelf = Shelf(tmp_path)
    items = shelf.items()
    (version,) = items.versions()
    items.note_refused(version, "too long")
    items.settle_failures()
    return shelf


def test_an_item_that_was_refused_is_not_tried_again_as_it_is(shelf: Shelf):
    items = shelf.items()

    assert list(items.versions()) == []
    assert items.owed == {
        1: "/x.md: too long; it is tried again when it changes, or with --mode full"
    }
    assert items.kept() == {1: HASH}
    assert embed_failure_rows(shelf.connection, 1).keys() == {1}


def test_an_item_that_was_refused_is_tried_again_when_it_changed(shelf: Shelf):
    shelf.store("02_embedded/x.md", DATE + 1_000_000)

    items = shelf.items()

    assert [version.no for version in items.versions()] == [1]
    assert items.owed == {}
    assert embed_failure_rows(shelf.connection, 1) == {}


def test_an_item_that_was_refused_is_tried_again_by_mode_full(shelf: Shelf):
    items = shelf.items(is_full=True)

    assert [version.no for version in items.versions()] == [1]
    assert items.owed == {}
    assert embed_failure_rows(shelf.connection, 1) == {}

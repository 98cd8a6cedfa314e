"""The original of a list: one CSV of all its items, made of a listing (R3-57)."""

from __future__ import annotations

from smartcrawl.extract.library.conversion import library_list_row
from smartcrawl.extract.library.lists import ListColumn, ListRow, list_csv
from smartcrawl.model.library import LibraryItem
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.registry.library.shelf import INCOMING


class ListOriginal:
    """The rows of a list, collected while it is listed."""

    def __init__(self, folder: LibraryFolder, path: str) -> None:
        """``path``: of the CSV, below the folder of the source."""
        self._folder = folder
        self._path = path
        self._columns: list[ListColumn] = []
        self._rows: dict[int, ListRow] = {}
        self._modified = 0

    def add(self, item: LibraryItem) -> None:
        """Add an item of the listing.

        Raises:
            ValueError: its content is not that of a list item.
        """
        if item.content is None:
            raise ValueError(f"{item.url} has no content of a list item")
        self._columns, row = library_list_row(item.content)
        self._rows[item.listitem_id] = row
        self._modified = max(self._modified, item.last_modified)

    def write(self) -> bool:
        """Write the CSV, rows by ID, unless it is on disk as it is; return whether it was written.

        It is written beside its place and renamed, so that readers see the old or the new one.
        Its date is the latest of its items. A list without items has no known columns.

        Raises:
            OSError: it cannot be written.
        """
        body = list_csv(self._columns, (self._rows[no] for no in sorted(self._rows)))
        if self._is_written(body):
            return False
        aside = f"{INCOMING}/{self._path.rpartition('/')[2]}"
        self._folder.write(aside, body, self._modified)
        self._folder.rename(aside, self._path)
        return True

    def _is_written(self, body: bytes) -> bool:
        if self._folder.facts(self._path) != (len(body), self._modified):
            return False
        try:
            return self._folder.read(self._path) == body
        except OSError:
            return False

"""The original of a list: one CSV of all its items, made of a listing (R3-57)."""

from __future__ import annotations

from collections.abc import Iterable

from smartcrawl.extract.library.conversion import csv_row_of_library_list
from smartcrawl.extract.library.lists import ListColumn, ListRow, csv_list, read_csv_of_list
from smartcrawl.model.library import LibraryItem, LibraryRow
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
        self._columns, row = csv_row_of_library_list(item.content)
        self._rows[item.listitem_id] = row
        self._modified = max(self._modified, item.last_modified)

    def write(self, stored: Iterable[LibraryRow]) -> None:
        """Write the CSV, rows by ID, unless it is on disk as it is.

        ``stored`` items that the listing lacks keep their rows: their removal is not decided, or
        is withheld. The CSV is written beside its place and renamed, so that readers see the old
        or the new one. Its date is the latest of its items.

        Raises:
            OSError: it cannot be written.
        """
        before = self._before()
        rows, modified = dict(self._rows), self._modified
        for item in stored:
            if item.listitem_id not in rows and item.listitem_id in before:
                rows[item.listitem_id] = before[item.listitem_id]
                modified = max(modified, item.last_modified)
        columns = self._columns
        if rows and not columns:
            titles = next(iter(rows.values())).cells
            columns = [ListColumn(title, title, "") for title in titles]
        body = csv_list(columns, (rows[no] for no in sorted(rows)))
        if self._is_written(body, modified):
            return
        aside = f"{INCOMING}/{self._path.rpartition('/')[2]}"
        self._folder.write(aside, body, modified)
        self._folder.rename(aside, self._path)

    def _before(self) -> dict[int, ListRow]:
        """Return the rows of the CSV on disk by ID; none if it is damaged."""
        try:
            return {row.id: row for row in read_csv_of_list(self._folder.read(self._path))}
        except (OSError, ValueError):
            return {}

    def _is_written(self, body: bytes, modified: int) -> bool:
        return (
            self._folder.facts(self._path) == (len(body), modified)
            and self._folder.read(self._path) == body
        )

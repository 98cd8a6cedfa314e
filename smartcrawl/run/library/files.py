"""The files of a run's library: their places, the held bytes, and the check of the disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from enum import StrEnum, auto
from pathlib import Path
from typing import Final, NamedTuple

from smartcrawl.extract.library.lists import ListColumn, ListRow, csv_list, read_csv_of_list
from smartcrawl.extract.library.pages import (
    csv_row_of_library_list,
    extract_library_content,
    extract_original_content,
)
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.library import LibraryItem, LibraryRow, SourceType
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.registry.library.items import (
    StoredDrive,
    count_failed_library_rows,
    failed_library_row_reasons,
    library_rows,
    lost_library_row_paths,
    place_library_rows,
    store_library_drive_row,
    stored_drive,
)
from smartcrawl.registry.library.shelf import (
    INCOMING,
    LibraryShelf,
    StoredItems,
    library_row_staged_path,
)
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.rules.library import is_changed
from smartcrawl.run.library.maps import LibraryMaps, remove_dry_run_maps
from smartcrawl.run.library.result import MOST_LIBRARY_REASONS
from smartcrawl.run.library.steps import LibraryCheck, LibraryFindings
from smartcrawl.sources.listing.entries import Entry
from smartcrawl.sources.sharepoint.access import LibraryApi, LibraryListing
from smartcrawl.sources.sharepoint.paths import (
    LibraryPathError,
    get_expected_local_path,
    get_failed_local_path,
    get_original_local_path,
    sharepoint_list_path,
    sharepoint_name_of_page_file,
    sharepoint_path_excess,
    source_path,
)
from smartcrawl.sources.sharepoint.source import LibraryEntries, SharepointSource

logger = logging.getLogger(__name__)


class LibraryPlaces:
    """The place of each item, below the folder of its source."""

    def __init__(self, source: SharepointSource) -> None:
        #: Server relative URL of the library, as the library spells it.
        self.root = source.library_path
        self._source = source
        self._prefix = source_path(source.domain, source.source_type, source.source_id) + "/"

    def refusal(self, item: LibraryItem) -> str | None:
        """Return the reason why an item can have no place on disk, or None."""
        try:
            self.path(item)
        except LibraryPathError as error:
            return str(error)
        return None

    def path(self, item: LibraryItem) -> str:
        """Return the place of an item after its download, below the folder of the source."""
        place = get_original_local_path(*self._named(item))
        return place.removeprefix(self._prefix)

    def _named(self, item: LibraryItem) -> tuple[str, SourceType, str, str, str]:
        source = self._source
        return (
            source.domain,
            source.source_type,
            source.source_id,
            item.server_relative_url,
            self.root,
        )

    def excess(self, item: LibraryItem) -> str | None:
        """Return the reason why the place of an item is too long for the system, or None (E2)."""
        whole = (
            get_original_local_path(*self._named(item)),
            get_expected_local_path(*self._named(item)),
        )
        found = (sharepoint_path_excess(self._source.storage, path) for path in whole)
        return next(filter(None, found), None)

    def failed_path(self, item: LibraryItem) -> str:
        """Return the place of the note about an item whose own place is too long."""
        source = self._source
        place = get_failed_local_path(
            source.domain, source.source_type, source.source_id, item.unique_id
        )
        return place.removeprefix(self._prefix)

    def failed_note(self, item: LibraryItem, reason: str) -> bytes:
        """Return the note about an item whose own place is too long: its URL and the reason."""
        return f"{item.url}\n{reason}\n".encode()

    def indexed_name(self, item: LibraryItem) -> str:
        """Return the name of an item as it is embedded, by which its type is known."""
        match self._source.source_type:
            case SourceType.FILES:
                return item.filename
            case SourceType.LISTS:
                return f"{item.listitem_id}.md"
            case SourceType.SITEPAGES:
                return sharepoint_name_of_page_file(item.filename)


_LOOKS: Final = 100  #: at a file that a batch renames
_LOOK: Final = 0.05  #: seconds between two of them


class HeldBytes(NamedTuple):
    """The bytes of an item that the disk has."""

    place: str  #: below the folder of the source
    body: bytes
    downloaded: int  #: Unix microseconds at which they reached the disk


class RunLibrary:
    """The files of one library source, as its run needs them.

    The registry is the truth. The disk follows it by the shelf, and the maps are written from it.
    """

    def __init__(
        self, source: SharepointSource, registry: Registry, opened: OpenRun, *, batches: int = 1
    ) -> None:
        """``batches``: how often items that fail are requested."""
        self.source = source
        self.retries = RetryBatches(batches)
        self.folder = LibraryFolder(source.folder)
        #: The CSV of a list; None: its source is no list.
        self._list: ListOriginal | None = None
        shared = []
        if source.source_type is SourceType.LISTS:
            shared = [sharepoint_list_path(source.source_id)]
            self._list = ListOriginal(self.folder, shared[0])
        self.shelf = LibraryShelf(self.folder, opened.source, shared=shared)
        self.maps = LibraryMaps(source, self.folder)
        self.findings = LibraryFindings()
        self.places = LibraryPlaces(source)
        #: The drive as the last listing had it; None: all of it is to be listed.
        self.drive: StoredDrive | None = None
        self.api: LibraryApi | None = None  #: set when the crawl begins
        self.requests = 0  #: to the API, and for bytes
        self.added = self.changed = self.removed = 0  #: items, by their four fields
        self.downloaded = 0  #: items whose bytes came
        self.adopted = 0  #: files that the map named, and an empty registry did not
        self.listed = 0  #: items of the listing that can be embedded
        self.skipped = 0  #: items of other types
        self.failed = 0  #: items that could not be had or read, at the end
        self.reasons: list[str] = []  #: of the first of them, as the result has them
        self._is_barred = False  #: whether the disk did not even permit the first check
        self._listing: LibraryListing | None = None
        self._is_whole = False  #: whether the listing ended, and is complete
        self._registry = registry
        self._items = StoredItems(registry.database, self.shelf)
        self._opened = opened

    # Before the listing

    def recover(self) -> None:
        """Undo the renamings of a process that died.

        Raises:
            RegistryError: the disk does not permit it.
        """
        try:
            remove_dry_run_maps(self.folder.root)
            undone = self.shelf.recover(self._registry.connection)
        except OSError as error:
            raise library_run_barred_folder(self.folder.root, error) from error
        if undone:
            logger.info("%d renamings of a process that died are undone", undone)

    def begin(self) -> None:
        """Compare disk, map and registry; what is missing or edited is to come again.

        It runs in a thread of its own, over a connection of its own.

        Raises:
            RegistryError: the disk does not permit it.
        """
        connection = self._registry.database.connect()
        try:
            check = LibraryCheck(self.source, self.folder, self._opened.source)
            self.findings = found = check.before(connection, self.maps)
            rows = None
            if found.again or not found.is_map_whole:
                known = self.rows(connection)
                rows = (row for row in known if row.unique_id not in found.again)
            self.maps.begin_files_map(rows)
            if not self._opened.forced:
                self.drive = stored_drive(self._registry.database, connection, self._opened.source)
        except OSError as error:
            self._is_barred = True
            raise library_run_barred_folder(self.folder.root, error) from error
        finally:
            connection.close()
        for line in (*self.findings.lines, *self.findings.again_lines):
            logger.warning("%s", line)

    # The listing

    def entries(self, listing: LibraryListing) -> LibraryEntries:
        """Return the entries of a listing, whose items also go into the map of the library."""
        self._listing = listing
        self.maps.begin_sharepoint_map()
        return LibraryEntries(
            self.source,
            listing,
            again=self.findings.again,
            listed=self._add_listed,
        )

    def _add_listed(self, item: LibraryItem) -> None:
        self.maps.add_listed(item)
        if self._list is not None:
            self._list.add(item)

    def end_listing(self, entries: LibraryEntries) -> None:
        """Take the end of the listing: its map counts if it is whole (R3-69), as does its CSV.

        Raises:
            RegistryError: the CSV of a list cannot be written.
        """
        assert self._listing is not None, "it was begun"
        self.places.root = self._listing.root or self.places.root
        is_whole = not entries.problems
        self.maps.end_sharepoint_map(is_whole=is_whole)
        self.listed = entries.listed
        self.skipped = entries.skipped.total()
        self._is_whole = is_whole
        connection = self._registry.database.connect(readonly=True)
        try:
            with self._registry.database.translated("write"):
                self._write_list(connection)
        finally:
            connection.close()

    def _write_list(self, connection: Connection) -> None:
        """Write the CSV of a list that was listed whole."""
        if self._list is not None and self._is_whole:
            self._list.write(self.rows(connection))

    # Bytes

    @property
    def needs_whole_listing(self) -> bool:
        """Whether no item can be had of a part of the listing: the items of a list share a CSV."""
        return self._list is not None

    def converted(self, item: LibraryItem) -> tuple[bytes, bytes | None]:
        """Return the indexed form of an item that a listing carries, and the bytes of its original.

        The original of a list is one file, and no item has one of its own: None.

        Raises:
            ValueError: the content is none of this kind.
        """
        return library_run_converted_item(self.source.source_type, item)

    def row(self, no: int, item: LibraryItem) -> LibraryRow | None:
        """Return the stored row of an item; of an empty registry, that of the map."""
        return self._items.row(no) or self.findings.adopted.get(item.unique_id)

    def note(self, row: LibraryRow | None, item: LibraryItem) -> None:
        """Count an item whose file is there now: it is new, or its four fields differ (R3-129)."""
        match library_run_item_change(row, item):
            case ItemChange.ADDED:
                self.added += 1
            case ItemChange.CHANGED:
                self.changed += 1

    def held(self, no: int, row: LibraryRow | None, item: LibraryItem) -> HeldBytes | None:
        """Return place, bytes and time of download of an item that the disk has; None: it has not.

        Size and date are those of the library, in the registry and on the disk (R3-25 in
        ADR 83): a renamed file is not downloaded. Without a registry only a file that is in
        its place counts: once files are renamed, it may be that of another item.
        """
        if row is not None and row.no == 0:
            adopted = self._read_held(row, item) if row.path == self.places.path(item) else None
            self.adopted += adopted is not None
            return adopted
        for _ in range(_LOOKS):
            found = self._read_held(row, item)
            if row is None or self._items.rests(row):
                return found
            time.sleep(_LOOK)  # a batch renames it, or another file to its place
            row = self.row(no, item)
        return None

    def _read_held(self, row: LibraryRow | None, item: LibraryItem) -> HeldBytes | None:
        """Return the file at the place of an item, if it fits."""
        if row is None or row.path is None or not library_run_has_file(self.folder, row, item):
            return None
        try:
            body = self.folder.read(row.path)
        except OSError:
            return None
        if len(body) != item.file_size:
            return None
        return HeldBytes(row.path, body, row.downloaded or 0)

    def stage(self, no: int, item: LibraryItem, body: bytes) -> str:
        """Write the new bytes of an item into the incoming folder; return their place.

        Raises:
            OSError: they cannot be written.
        """
        place = library_row_staged_path(no)
        self.folder.write(place, body, item.last_modified)
        return place

    # The end

    def finish(self, *, is_complete: bool) -> None:
        """Remove the files of removed items, check the disk, and write the map of files.

        Raises:
            RegistryError: the disk does not permit it, or the registry cannot be written.
        """
        if self._is_barred:
            return
        connection = self._registry.connection
        try:
            with self._registry.database.translated("write"):
                if is_complete:
                    self.removed = self.shelf.remove_gone(connection, self._opened.no)
                    self._write_list(connection)
                opened = self._opened
                self.failed = count_failed_library_rows(connection, opened.source, opened.no)
                self._note_failures(connection)
                check = LibraryCheck(self.source, self.folder, opened.source)
                is_whole = self._is_whole
                self.findings = check.after(connection, self.findings, is_whole=is_whole)
                self._forget_missing_files(connection)
                self.maps.write_files_map(self.rows(connection))
                self._store_drive(connection)
        except OSError as error:
            raise library_run_barred_folder(self.folder.root, error) from error
        for line in self.findings.lines:
            logger.warning("%s", line)
        logger.info("%s", self.findings.integrity)

    def _note_failures(self, connection: Connection) -> None:
        """Name each item that could not be had or read, in the log and in the result."""
        opened = self._opened
        for name, why in failed_library_row_reasons(connection, opened.source, opened.no):
            line = f"{name}: {why}"
            logger.warning("%s", line)
            if len(self.reasons) < MOST_LIBRARY_REASONS:
                self.reasons.append(line)

    def _forget_missing_files(self, connection: Connection) -> None:
        """Empty the paths of items that could not be had, and whose files are missing (R3-75)."""
        lost = lost_library_row_paths(connection, self._opened.source)
        missing = [(no, None) for no, path in lost.items() if self.folder.facts(path) is None]
        if missing:
            with transaction(connection):
                place_library_rows(connection, missing)

    def _store_drive(self, connection: Connection) -> None:
        """Store the delta token of this listing with the items at it (ADR 84).

        Without this the next run begins from the former token, and no change is lost. A listing
        that has no token, as by another API or with a filter, ends the use of the stored one.
        """
        if self._listing is not None and self._is_whole:
            store_library_drive_row(connection, self._opened.source, self._listing.update)

    def close(self) -> None:
        """Close the connection of the look-ups."""
        self._items.close()

    def rows(self, connection: Connection) -> Iterator[LibraryRow]:
        """Yield the stored items of the source."""
        return library_rows(connection, self._opened.source)


class ItemChange(StrEnum):
    """Change of an item since the last run, by its four fields (R3-129)."""

    ADDED = auto()
    CHANGED = auto()
    NONE = auto()


def library_run_item_change(row: LibraryRow | None, item: LibraryItem) -> ItemChange:
    """Return the change of an item whose file is there now; ``row``: as it was stored."""
    if row is None or row.path is None:
        return ItemChange.ADDED
    return ItemChange.CHANGED if is_changed(item, row) else ItemChange.NONE


def library_run_has_file(folder: LibraryFolder, row: LibraryRow, item: LibraryItem) -> bool:
    """Whether the file of a stored item has the size and the date that the library has now."""
    facts = (item.file_size, item.last_modified)
    if row.path is None or (row.file_size, row.last_modified) != facts:
        return False
    return folder.facts(row.path) == facts


def library_run_converted_item(kind: SourceType, item: LibraryItem) -> tuple[bytes, bytes | None]:
    """Return the indexed form of an item that a listing carries, and the bytes of its original.

    The original of a list is one file, and no item has one of its own: None.

    Raises:
        ValueError: the content is none of this kind.
    """
    assert item.content is not None, "the listing carries it"
    body = extract_library_content(kind, item.content, item.url)
    if kind is SourceType.LISTS:
        return body, None
    return body, extract_original_content(kind, item.content, item.url)


def library_run_barred_folder(root: Path, error: OSError) -> RegistryError:
    """Return the error of a folder that the system does not let this process use."""
    name = error.filename
    place = root / name if isinstance(name, str) and name not in ("", ".") else root
    return RegistryError(
        f"{place} cannot be used ({error.strerror}): it must be a folder or a file of {root}"
        " that this user may write, and no link"
    )


class RetryBatches:
    """The items that failed in this batch, for the next one; the last batch keeps none."""

    def __init__(self, most: int) -> None:
        """``most``: batches, the first one included."""
        self._left = most - 1
        self._failed: dict[int, Entry] = {}  #: by record.no

    def keep(self, number: int, entry: Entry) -> bool:
        """Keep a failed item for the next batch; return False if there is none."""
        if self._left > 0:
            self._failed[number] = entry
        return self._left > 0

    def begin_next(self) -> dict[int, Entry]:
        """Return the items of the next batch; without any, no batch begins."""
        items, self._failed = self._failed, {}
        self._left -= bool(items)
        return items


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

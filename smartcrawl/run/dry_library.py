"""A dry run of a library: it is listed for real, and nothing is changed (R3-61, ADR 88)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.library import LibraryItem, LibraryRow, SourceType
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection, read_transaction
from smartcrawl.registry.database.databases import empty_registry_in_memory, registry_database
from smartcrawl.registry.hosts import HostReader
from smartcrawl.registry.library.folder import OverlaidFolder
from smartcrawl.registry.library.items import TRIMMED, StoredDrive, library_rows, stored_drive
from smartcrawl.registry.library.shelf import LibraryShelf
from smartcrawl.registry.runs.run_results import RunResult
from smartcrawl.rules.model import Standing, Word
from smartcrawl.run.library.comparison import LibraryComparison
from smartcrawl.run.library.files import (
    ItemChange,
    LibraryPlaces,
    library_run_barred_folder,
    library_run_converted_item,
    library_run_has_file,
    library_run_item_change,
)
from smartcrawl.run.library.maps import DryLibraryMaps, LibraryMaps
from smartcrawl.run.library.result import FULL, LibraryResult
from smartcrawl.run.library.steps import LibraryCheck, LibraryFindings
from smartcrawl.run.rehearsal import Rehearsed, rehearse_run
from smartcrawl.sources.listing.entries import Entry
from smartcrawl.sources.sharepoint.access import LibraryApi, LibraryListing
from smartcrawl.sources.sharepoint.source import LibraryEntries, SharepointSource

logger = logging.getLogger(__name__)

_LOOKS: Final = 100  #: at a source that a run changes at this moment
_LOOK: Final = 0.1  #: seconds between two of them
_SOURCE: Final = "SELECT no FROM source WHERE name = ?"
_LAST_RUN: Final = "SELECT max(no) FROM run WHERE source = ?"


class _Moment(NamedTuple):
    """The state of a source, as far as a run that goes on beside a dry run changes it."""

    is_held: bool  #: a process crawls it
    last_run: int | None
    under_way: frozenset[str]  #: paths of files that are being renamed
    rows: int  #: digest of the stored items, while a process crawls it


class DryLibrary:
    """One dry run of one source.

    It takes no lease. Where a run goes on beside it, the comparison is made again until no batch
    was committed meanwhile.
    """

    def __init__(
        self, source: SharepointSource, options: Options, *, forced: bool, largest: int
    ) -> None:
        """``largest``: bytes of a file that is downloaded; 0: any."""
        self.source = source
        self.api: LibraryApi | None = None  #: set when the listing begins
        self.requests = 0
        #: As the last run stored it; a dry run stores no token of its own.
        self.drive: StoredDrive | None = None
        self._options = options
        self._forced = forced
        self._largest = largest
        self._database = registry_database(options.registry)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Connection, int]]:
        """Yield a connection that only reads, as of one moment, and source.no (0: it is new)."""
        is_there = self._database.exists()
        connection = self._database.look() if is_there else empty_registry_in_memory()
        try:
            with self._database.translated("read"), read_transaction(connection):
                yield connection, int(connection.execute(_SOURCE, (self.source.name,)).get or 0)
        finally:
            connection.close()

    def begin(self) -> None:
        """Find the drive from which the run that follows would list the changes."""
        if not self._forced and self._database.exists():
            with self._opened() as (connection, no):
                self.drive = stored_drive(self._database, connection, no, looks=True)

    def blocked_hosts(self) -> set[str]:
        """Return the hosts that the operator blocked."""
        with self._opened() as (connection, no):
            return set(HostReader(connection, no).blocked_hosts())

    def compared(self, listing: LibraryListing) -> LibraryResult:
        """List the library, and compare it with disk, map and registry.

        Raises:
            RegistryError: the disk does not permit it, or the registry cannot be read.
            SourceError: a run changes the source all the time.
        """
        try:
            with DryLibraryMaps(self.source) as maps:
                entries = LibraryEntries(self.source, listing, listed=maps.add_listed)
                listed = list(entries.batches())
                if self._forced:
                    listed = entries.replacing(listed)
                taken = [entry for batch in listed for entry in batch]
                found = self._at_rest(maps, listing, entries, taken)
        except OSError as error:
            raise library_run_barred_folder(self.source.folder, error) from error
        result = found.result
        for line in (*entries.notes, *found.findings.lines):
            logger.warning("%s", line)
        for reason in result.reasons:
            logger.warning("incomplete: %s", reason)
        logger.info("%s", str(result.integrity).replace("check corrected", "check would correct"))
        result.reasons += found.notes
        return result

    def _at_rest(
        self,
        maps: DryLibraryMaps,
        listing: LibraryListing,
        entries: LibraryEntries,
        taken: Sequence[Entry],
    ) -> _Comparison:
        for _ in range(_LOOKS):
            before = self._moment()
            if not (before.is_held and before.under_way):
                with self._opened() as (connection, no):
                    found = _Comparison(
                        self.source, self._options, connection, no,
                        forced=self._forced, largest=self._largest,
                    )  # fmt: skip
                    found.compare(maps, listing, entries, taken)
                if self._moment() == before:
                    return found
            time.sleep(_LOOK)
        raise SourceError(
            f"{self.source.name} is being downloaded, and its files change at every look: repeat"
            " the dry run when that run has ended"
        )

    def _moment(self) -> _Moment:
        is_held = self._database.exists() and self._database.is_held(self.source.name)
        with self._opened() as (connection, no):
            shelf = LibraryShelf(OverlaidFolder(self.source.folder), no)
            last: Any = connection.execute(_LAST_RUN, (no,)).get
            rows = hash(tuple(map(hash, library_rows(connection, no)))) if is_held else 0
            under_way = frozenset(shelf.paths_under_way(connection))
        return _Moment(is_held, last, under_way, rows)


class _Comparison:
    """The library of one listing against disk, map and registry as of one moment."""

    def __init__(
        self,
        source: SharepointSource,
        options: Options,
        connection: Connection,
        source_no: int,
        *,
        forced: bool,
        largest: int,
    ) -> None:
        self._source = source
        self._options = options
        self._connection = connection
        self._no = source_no
        self._forced = forced
        self._largest = largest
        self._folder = OverlaidFolder(source.folder)
        self._places = LibraryPlaces(source)
        self.findings = LibraryFindings()
        self._new_places: set[str] = set()  #: of the items that would be read
        self.result = LibraryResult(source)
        self.notes: list[str] = []  #: why removals would wait, though the listing is complete

    def compare(
        self,
        maps: DryLibraryMaps,
        listing: LibraryListing,
        entries: LibraryEntries,
        taken: Sequence[Entry],
    ) -> None:
        """Count, and write the map of the files that were compared."""
        self._places.root = listing.root or self._places.root
        LibraryShelf(self._folder, self._no).undo_noted(self._connection)
        check = LibraryCheck(self._source, self._folder, self._no)
        self.findings = check.before(self._connection, LibraryMaps(self._source, self._folder))
        rows = {row.no: row for row in library_rows(self._connection, self._no)}
        again = self.findings.again
        maps.write_files_map(row for row in rows.values() if row.unique_id not in again)
        found = self.result
        found.mode = FULL if self.findings.falls_back else found.mode
        found.integrity, found.listed = self.findings.integrity, entries.listed
        found.skipped = entries.skipped.total()
        is_whole = not entries.problems
        rehearsed = rehearse_run(
            self._connection,
            self._source,
            self._no,
            self._options,
            now=int(time.time()),
            robots=None,
            listing=lambda: entries,
            taken=[[self._again(entry) for entry in taken]],
            forced=self._forced,
        )
        assert rehearsed.result is not None, "a run took place"
        for no, entry in rehearsed.reads:
            assert entry.item is not None, "it is one of a library"
            row = rows.get(no) or self.findings.adopted.get(entry.item.unique_id)
            self._count_read(entry, entry.item, row, is_whole=is_whole)
        if not rows:
            found.integrity = replace(found.integrity, orphans=self._orphans(is_whole=is_whole))
        self._count_rest(rehearsed.result, rehearsed, rows)

    def _again(self, entry: Entry) -> Entry:
        """Return an entry with the note whether its file must come again."""
        assert entry.item is not None, "it is one of a library"
        return entry._replace(again=entry.item.unique_id in self.findings.again)

    def _count_rest(
        self, result: RunResult, rehearsed: Rehearsed, rows: dict[int, LibraryRow]
    ) -> None:
        """Count what would not be read, and what the sweep and its guard would do."""
        found = self.result
        entries = rehearsed.records
        found.failed += sum(entries[no].word == Word.FAILED for no in rehearsed.confirmed)
        found.unchanged = found.listed - found.added - found.changed - found.failed
        found.reasons, found.complete = list(result.reasons), result.complete and not found.failed
        found.withheld = result.withheld
        self.notes = [note for note in result.notes if note.startswith(f"{TRIMMED}:")]
        if result.complete:
            listed = {*rehearsed.asked, *rehearsed.confirmed}
            bare = {no for no, entry in entries.items() if entry.standing == Standing.BARE}
            found.removed = len(((bare | rehearsed.removed.keys()) & rows.keys()) - listed)

    def _count_read(
        self, entry: Entry, item: LibraryItem, row: LibraryRow | None, *, is_whole: bool
    ) -> None:
        """Count an item that would be read, as the handler of downloads decides about it."""
        found = self.result
        is_too_large = self._largest and item.file_size > self._largest
        if is_too_large or self._places.refusal(item) is not None:
            found.failed += 1
            return
        is_named = self._places.excess(item) is None
        if is_named:
            if item.content is not None:
                if not self._is_converted(item, is_whole=is_whole):
                    found.failed += 1
                    return
            elif entry.again or self._forced or not self._is_held(row, item):
                found.downloaded += 1
        place = self._places.path(item) if is_named else self._places.failed_path(item)
        self._new_places.add(place)
        match library_run_item_change(row, item):
            case ItemChange.ADDED:
                found.added += 1
            case ItemChange.CHANGED:
                found.changed += 1

    def _orphans(self, *, is_whole: bool) -> int:
        """Return the number of files that no item refers to, once a new registry has the items.

        Without one, no file was an orphan before.
        """
        if not (is_whole or self._new_places):
            return 0
        kept = self._new_places if is_whole else self._new_places | self.findings.known
        comparison = LibraryComparison(self._connection, self._source, self._no, self._folder)
        return sum(path not in kept for path, _, _ in comparison.walked())

    def _is_converted(self, item: LibraryItem, *, is_whole: bool) -> bool:
        kind = self._source.source_type
        if kind is SourceType.LISTS and not is_whole:
            return False
        try:
            library_run_converted_item(kind, item)
        except ValueError as error:
            logger.warning("%s: its content cannot be converted: %s", item.url, error)
            return False
        return True

    def _is_held(self, row: LibraryRow | None, item: LibraryItem) -> bool:
        if row is None or not library_run_has_file(self._folder, row, item):
            return False
        return row.no != 0 or row.path == self._places.path(item)

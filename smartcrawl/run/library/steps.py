"""The steps of a library that need no crawl: process and check (R3.13, R3.16)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime

from smartcrawl.extract.library.lists import ListRow, markdown_of_list_item, read_csv_of_list
from smartcrawl.extract.library.pages import clean_page_html
from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.library import LibraryRow, SourceType
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.library.folder import LibraryFolder, OverlaidFolder
from smartcrawl.registry.library.items import (
    ProcessedRow,
    library_rows,
    library_rows_at,
    store_processed_rows,
)
from smartcrawl.run.library.check import LibraryCheck
from smartcrawl.run.library.maps import LibraryMaps
from smartcrawl.run.library.result import LibraryResult
from smartcrawl.sources.sharepoint.access import list_item_url
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.paths import (
    sharepoint_embedded_path,
    sharepoint_list_path,
    sharepoint_original_path,
)
from smartcrawl.sources.sharepoint.source import SharepointSource

_ORIGINALS = CRAWLER_HARDCODED_CONFIG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER
_EMBEDDED = CRAWLER_HARDCODED_CONFIG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER
_BATCH = 100  #: items of one transaction
_SOURCE = "SELECT no FROM source WHERE name = ?"


def library_run_has_items(source: SharepointSource, options: Options) -> bool:
    """Whether the registry has items of a source.

    Raises:
        RegistryError: the registry cannot be read.
    """
    database = registry_database(options.registry)
    if not database.exists():
        return False
    with database.translated("read"), closing(database.open()) as connection:
        no = connection.execute(_SOURCE, (source.name,)).get
        return no is not None and next(library_rows(connection, int(no)), None) is not None


class LibraryStep:
    """One step at one source; another process at the same step and source ends it."""

    def __init__(
        self,
        source: SharepointSource,
        options: Options,
        *,
        is_dry: bool = False,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        """``is_dry``: whether to count only; then there is no lease, and nothing is written.

        ``is_ending``: whether no further item is to begin.
        """
        self._is_ending = is_ending
        self._source = source
        self._database = registry_database(options.registry)
        self._is_dry = is_dry
        folder = OverlaidFolder if is_dry else LibraryFolder
        self._folder: LibraryFolder = folder(source.folder)
        self._listed: dict[int, ListRow] | None = None  #: the original of a list, by ID
        self._taken: dict[str, int] = {}  #: record.no by the path of its file

    @contextmanager
    def _opened(self, lease: str) -> Iterator[tuple[Connection, int]]:
        """Yield a connection and source.no, under a lease.

        Raises:
            RunHeldError: another process is at this step.
            SourceError: the source was never downloaded.
        """
        missing = f"{self._source.name} was never downloaded: download it first"
        if not self._database.exists():
            raise SourceError(missing)
        if self._is_dry:
            with self._database.translated("read"), closing(self._database.look()) as connection:
                yield connection, self._number(connection, missing)
            return
        since = datetime.now(UTC).isoformat(timespec="seconds")
        with self._database.translated("write"):
            held = self._database.take(lease, since)
            connection = self._database.open()
            try:
                yield connection, self._number(connection, missing)
            finally:
                connection.close()
                held.release()

    def _number(self, connection: Connection, missing: str) -> int:
        no = connection.execute(_SOURCE, (self._source.name,)).get
        if no is None:
            raise SourceError(missing)
        return int(no)

    def check(self) -> LibraryResult:
        """Compare disk, map and registry, and correct the disk without a download."""
        with self._opened(self._source.name) as (connection, no):
            check = LibraryCheck(self._source, self._folder, no)
            maps = LibraryMaps(self._source, self._folder)
            before = check.before(connection, maps)
            found = check.after(connection, before, is_whole=False)
            if not self._is_dry:
                maps.write_files_map(library_rows(connection, no))
        return LibraryResult(
            self._source,
            skipped=len(before.again),
            reasons=[*before.lines, *found.lines, str(found.integrity)],
            integrity=found.integrity,
        )

    def let_come_again(self, paths: Sequence[str]) -> None:
        """Let the next download bring the files at some paths; until then they stay on disk."""
        if not paths:
            return
        with self._opened(self._source.name) as (connection, no):
            rows = library_rows_at(connection, no, paths).values()
            with transaction(connection):
                store_processed_rows(connection, [ProcessedRow(row, None, None) for row in rows])
            LibraryMaps(self._source, self._folder).write_files_map(library_rows(connection, no))

    def process(self) -> LibraryResult:
        """Convert originals for embedding; those that are converted already are left alone."""
        result = LibraryResult(self._source)
        if self._source.source_type is SourceType.FILES:
            return result  # files are embedded as they are (R3-56)
        with self._opened(f"{self._source.name}.process") as (connection, no):
            stored = list(library_rows(connection, no))
            rows = [row for row in stored if self._is_due(row)]
            self._taken = {row.path: row.no for row in stored if row.path is not None}
            for start in range(0, len(rows), _BATCH):
                batch = self._until_order(rows[start : start + _BATCH], result)
                done = [self._processed(row, result) for row in batch]
                if not self._is_dry:
                    with transaction(connection):
                        store_processed_rows(connection, done)
                if result.is_stopped:
                    break
            if not self._is_dry:
                maps = LibraryMaps(self._source, self._folder)
                maps.write_files_map(library_rows(connection, no))
        result.complete = not result.failed
        return result

    def _until_order(
        self, rows: Iterable[LibraryRow], result: LibraryResult
    ) -> Iterator[LibraryRow]:
        """Yield items until an order ends the step."""
        for row in rows:
            if self._is_ending():
                result.is_stopped = True
                return
            yield row

    def _is_due(self, row: LibraryRow) -> bool:
        """Whether an item is not converted yet, or its converted file is missing or edited (M-53).

        A converted file has the date of its item.
        """
        if row.path is None or row.path.startswith(f"{_ORIGINALS}/"):
            return row.path is not None
        if not row.path.startswith(f"{_EMBEDDED}/"):
            return False
        facts = self._folder.facts(row.path)
        return facts is None or facts[1] != row.last_modified

    def _processed(self, row: LibraryRow, result: LibraryResult) -> ProcessedRow:
        """Convert the original of an item; a missing one is downloaded again (R3-79)."""
        original, path = self._places(row)
        try:
            if self._taken.get(path, row.no) != row.no:
                raise LookupError(f"another item is at {path}: download again, then process")
            body = self._converted(row, original)
            self._folder.write(path, body, row.last_modified)
        except FileNotFoundError:
            result.skipped += 1
            result.reasons.append(f"{original} is missing: skipped, the next download fetches it")
            return ProcessedRow(row, None, None)
        except (LookupError, OSError, ValueError) as error:
            result.failed += 1
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            result.reasons.append(f"{row.server_relative_url}: {why}")
            return ProcessedRow(row, row.path, why)
        result.processed += 1
        return ProcessedRow(row, path, None)

    def _places(self, row: LibraryRow) -> tuple[str, str]:
        """Return the places of an item's original, and of the file that is made of it."""
        assert row.path is not None, "it has a file"
        if self._source.source_type is SourceType.LISTS:
            original = sharepoint_list_path(self._source.source_id)
            return original, f"{_EMBEDDED}/{row.listitem_id}.md"
        return sharepoint_original_path(row.path), sharepoint_embedded_path(row.path)

    def _converted(self, row: LibraryRow, original: str) -> bytes:
        """Return the bytes that are embedded of an item.

        Raises:
            OSError: its original cannot be read.
            LookupError: the original of its list lacks it.
            ValueError: its original is none.
        """
        if self._source.source_type is SourceType.SITEPAGES:
            return clean_page_html(self._folder.read(original))
        if self._listed is None:
            self._listed = {item.id: item for item in read_csv_of_list(self._folder.read(original))}
        if row.listitem_id not in self._listed:
            raise LookupError(f"its list has no row of ID {row.listitem_id}")
        folder = row.server_relative_url.rpartition("/")[0]
        url = list_item_url(self._source.site_url, folder, row.listitem_id)
        return markdown_of_list_item(self._listed[row.listitem_id], url).encode()

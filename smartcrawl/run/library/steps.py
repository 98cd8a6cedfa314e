"""The steps of a library that need no crawl: process, and the check of its disk (R3.13, R3.16)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice

from smartcrawl.extract.library.lists import ListRow, markdown_of_list_item, read_csv_of_list
from smartcrawl.extract.library.pages import clean_page_html
from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.library import LibraryRow, SourceType
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.library.folder import LibraryFolder, OverlaidFolder
from smartcrawl.registry.library.items import (
    ProcessedRow,
    library_body_hash_rows,
    library_rows,
    library_rows_at,
    library_rows_of,
    library_rows_since,
    store_processed_rows,
)
from smartcrawl.registry.library.shelf import KEPT
from smartcrawl.rules.library import LackingFile, decide_library_corrections
from smartcrawl.run.library.comparison import Difference, LibraryComparison, Pair
from smartcrawl.run.library.maps import LibraryMaps
from smartcrawl.run.library.result import Integrity, LibraryResult
from smartcrawl.sources.sharepoint.access import list_item_url
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.paths import (
    sharepoint_embedded_path,
    sharepoint_list_path,
    sharepoint_original_path,
)
from smartcrawl.sources.sharepoint.source import SharepointSource

_AT_ONCE = 500  #: items of one look-up


@dataclass(frozen=True, slots=True)
class LibraryFindings:
    """Differences that a check found, and their corrections."""

    again: frozenset[str] = frozenset()  #: unique ids of items whose files must come again
    adopted: Mapping[str, LibraryRow] = field(default_factory=dict)  #: of a map, by unique id
    known: frozenset[str] = frozenset()  #: paths of files that the map names
    integrity: Integrity = field(default_factory=Integrity)
    lines: tuple[str, ...] = ()  #: for the log
    again_lines: tuple[str, ...] = ()  #: about items whose files must come again, for the log
    is_map_whole: bool = True  #: whether the map could be read, but for single rows
    falls_back: bool = False  #: whether every file comes again, as with mode=full


@dataclass(slots=True)
class _Corrected:
    """The result of one comparison of the disk with the items."""

    has_items: bool = False
    verified: int = 0  #: items whose files are at their places
    #: Paths of items that the map lacks, and of those that the disk lacks, by unique id.
    unmapped: dict[str, str | None] = field(default_factory=dict)
    again: dict[str, str | None] = field(default_factory=dict)
    orphans: tuple[str, ...] = ()
    moved: int = 0


class LibraryCheck:
    """Compares the files of a source with its stored items, and corrects the disk."""

    def __init__(self, source: SharepointSource, folder: LibraryFolder, source_no: int) -> None:
        self._source = source
        self._folder = folder
        self._no = source_no

    def before(self, connection: Connection, maps: LibraryMaps) -> LibraryFindings:
        """Return the items that must come again: missing, damaged, or edited in the map.

        A misplaced file goes back to its place, and files that no item refers to are deleted.
        """
        digests = {
            row.unique_id: maps.mapped_digest(row) for row in library_rows(connection, self._no)
        }
        has_items = bool(digests)
        read = maps.read_files_map(digests)
        lines = [*read.lines, *(read.unknown_lines(digests.keys()) if has_items else ())]
        del digests
        newer = library_rows_since(connection, self._no, read.written) if read.is_whole else set()
        agreeing = read.read.agreeing

        def is_mapped(row: LibraryRow) -> bool:
            """Whether the map has an item as the registry has it, or cannot have it."""
            is_kept = row.path is not None and row.path.startswith(f"{KEPT}/")
            return is_kept or row.no in newer or row.unique_id in agreeing

        found = self._corrected(connection, is_mapped, lines)
        adoptable = read.adoptable
        places = [row.path for row in adoptable.values() if row.path is not None]
        taken = library_rows_at(connection, self._no, places)
        adopted = {each: row for each, row in adoptable.items() if row.path not in taken}
        known = frozenset(row.path for row in adopted.values() if row.path is not None)
        # Without an item they may be where a file belongs.
        orphans = [path for path in found.orphans if has_items and path not in known]
        again = found.unmapped | found.again
        return LibraryFindings(
            again=frozenset(again),
            adopted=adopted,
            known=known,
            integrity=Integrity(
                missing_in_map=len(found.unmapped),
                missing_on_disk=len(again) - len(found.unmapped),
                orphans=self._without_orphans(orphans, lines),
                moved=found.moved,
                verified=found.verified,
            ),
            lines=tuple(lines),
            again_lines=tuple(
                f"{again[each] or each} is missing or damaged, or the map has it otherwise:"
                " it comes again"
                for each in sorted(again)
            ),
            is_map_whole=read.is_whole,
            falls_back=read.falls_back,
        )

    def after(
        self, connection: Connection, before: LibraryFindings, *, is_whole: bool
    ) -> LibraryFindings:
        """Delete the files that no item refers to, and count those that are verified.

        ``is_whole``: whether this run listed the library to its end. Without that, a file may
        belong to an item that the registry does not know yet: no row is no reason to delete.
        """
        lines: list[str] = []
        found = self._corrected(connection, lambda row: True, lines)
        orphans = self._without_orphans(
            (
                path
                for path in found.orphans
                if is_whole or (found.has_items and path not in before.known)
            ),
            lines,
        )
        lines += [
            f"{path} is missing or damaged; the next download fetches it"
            for path in found.again.values()
            if path is not None
        ]
        integrity = replace(
            before.integrity,
            orphans=before.integrity.orphans + orphans,
            moved=before.integrity.moved + found.moved,
            verified=found.verified,
        )
        return replace(before, integrity=integrity, lines=tuple(lines), again_lines=())

    def _without_orphans(self, paths: Iterable[str], lines: list[str]) -> int:
        """Delete files that no item refers to; return their number (R3-136)."""
        removed = 0
        for path in paths:
            try:
                if self._folder.remove(path):
                    removed += 1
                    lines.append(f"{path} is deleted: no item of the library is at this place")
            except OSError as error:
                lines.append(f"{path} cannot be deleted: {error.strerror}")
        return removed

    def _corrected(
        self, connection: Connection, is_mapped: Callable[[LibraryRow], bool], lines: list[str]
    ) -> _Corrected:
        """Compare the disk with the items, and move misplaced files.

        ``is_mapped``: whether the map has an item; the file of another is left alone.
        """
        found = _Corrected()

        def rows() -> Iterator[tuple[LibraryRow, bool]]:
            for row in library_rows(connection, self._no):
                found.has_items = True
                is_needed = row.path is None or is_mapped(row)
                if not is_needed:
                    found.unmapped[row.unique_id] = row.path
                elif row.path is not None:
                    found.verified += 1
                yield row, is_needed

        comparison = LibraryComparison(connection, self._source, self._no, self._folder)
        spare: dict[str, int] = {}
        differing: list[Pair] = []
        for pair in comparison.disk(rows(), tidies=True):
            if pair.difference is Difference.SURPLUS:
                spare[pair.key] = comparison.size_of(pair)
            else:
                differing.append(pair)
        lacking = {
            file.unique_id: file for file in self._lacking(connection, comparison, differing, found)
        }
        found.verified -= len(lacking)
        wanted = decide_library_corrections(lacking.values(), spare)
        found.orphans, found.moved = wanted.orphans, len(wanted.moves)
        found.again |= {each: lacking[each].path for each in wanted.missing_on_disk}
        for move in wanted.moves:
            try:
                self._folder.rename(move.source, move.target)
            except OSError as error:
                found.again[move.unique_id] = move.target
                lines.append(f"{move.source} cannot be moved to {move.target}: {error.strerror}")
            else:
                lines.append(f"{move.source} is moved to {move.target}, its place")
                self._folder.tidy(move.source)
        return found

    def _lacking(
        self,
        connection: Connection,
        comparison: LibraryComparison,
        differing: Iterable[Pair],
        found: _Corrected,
    ) -> Iterator[LackingFile]:
        """Yield the files of items that are missing or damaged.

        An item that lacks its place or its original is to come again (R3-79, M-53).
        """
        left = iter(differing)
        while some := list(islice(left, _AT_ONCE)):
            numbers = [int(pair.name) for pair in some if pair.key != comparison.list]
            rows = library_rows_of(connection, numbers)
            hashes = library_body_hash_rows(connection, numbers)
            for pair in some:
                if pair.key == comparison.list:
                    for row in library_rows(connection, self._no):
                        if row.path == pair.key and row.unique_id not in found.unmapped:
                            yield LackingFile(row.unique_id, pair.key, None)
                    continue
                row = rows[int(pair.name)]
                if row.path != pair.key:
                    found.again[row.unique_id] = row.path
                elif pair.difference is Difference.MISSING or not self._is_same(
                    row, pair.key, hashes.get(row.no)
                ):
                    has_size = comparison.has_files and not comparison.is_note(row)
                    size = row.file_size if has_size else None
                    yield LackingFile(row.unique_id, pair.key, size)

    def _is_same(self, row: LibraryRow, path: str, digest: bytes | None) -> bool:
        """Whether only the date of a file is another; then it is set."""
        facts = self._folder.facts(path)
        if facts is None or facts[0] != row.file_size or digest is None:
            return False
        try:
            if sha256(self._folder.read(path)).digest() != digest:
                return False
            self._folder.stamp(path, row.last_modified)
        except OSError:
            return False
        return True


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

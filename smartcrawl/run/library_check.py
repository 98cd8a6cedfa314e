"""The check of a library's disk against the registry, before and after each download (R3-131)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from smartcrawl.model.library import LibraryRow, SourceType
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.registry.library.items import (
    library_body_hash_rows,
    library_rows,
    library_rows_since,
)
from smartcrawl.rules.library import (
    Corrections,
    ExpectedFile,
    StoredRow,
    decide_library_corrections,
    integrity_line,
)
from smartcrawl.run.library_checked_rows import CheckedRow, MadeOfRows
from smartcrawl.run.library_maps import LibraryMaps
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.paths import (
    sharepoint_list_path,
    sharepoint_original_path,
)
from smartcrawl.sources.sharepoint.source import SharepointSource

_CONFIG = CRAWLER_HARDCODED_CONFIG
_ORIGINALS = _CONFIG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER
_FAILED = _CONFIG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER
_EMBEDDED = _CONFIG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER


@dataclass(frozen=True, slots=True)
class LibraryFindings:
    """Differences that a check found, and their corrections."""

    again: frozenset[str] = frozenset()  #: unique ids of items whose files must come again
    adopted: Mapping[str, LibraryRow] = field(default_factory=dict)  #: of a map, by unique id
    known: frozenset[str] = frozenset()  #: paths of files that the map names
    missing_in_map: int = 0
    missing_on_disk: int = 0
    orphans: int = 0
    moved: int = 0
    verified: int = 0
    lines: tuple[str, ...] = ()  #: for the log
    again_lines: tuple[str, ...] = ()  #: about items whose files must come again, for the log
    is_map_whole: bool = True  #: whether the map could be read, but for single rows
    falls_back: bool = False  #: whether every file comes again, as with mode=full

    @property
    def summary(self) -> str:
        """The line of R3-139."""
        missing = self.missing_in_map + self.missing_on_disk
        return integrity_line(missing, self.orphans, self.moved, self.verified)


class LibraryCheck:
    """Compares the files of a source with its stored items."""

    def __init__(self, source: SharepointSource, folder: LibraryFolder, source_no: int) -> None:
        self._source = source
        self._folder = folder
        self._no = source_no

    def before(self, connection: Connection, maps: LibraryMaps) -> LibraryFindings:
        """Return the items that must come again: missing, damaged, or edited in the map.

        A misplaced file goes back to its place, and files that no item refers to are deleted.
        """
        rows: dict[str, CheckedRow] = {}
        digests: dict[str, bytes] = {}
        for whole in library_rows(connection, self._no):
            digests[whole.unique_id] = maps.mapped_digest(whole)
            rows[whole.unique_id] = CheckedRow.of(whole)
        read = maps.read_files_map(digests)
        del digests
        lines = list(read.lines)
        if rows:
            lines += read.unknown_lines(rows.keys())
        newer = (
            set() if not read.is_whole else library_rows_since(connection, self._no, read.written)
        )
        agreeing = read.read.agreeing

        def mapped(row: CheckedRow) -> StoredRow | None:
            """Return the row of the map, as far as it agrees; None: the map has none."""
            is_in_map = row.no in newer or row.unique_id in agreeing or row.is_kept
            return self._stored(row) if is_in_map else None

        found, again = self._corrected(connection, rows, mapped, lines)
        again |= {*found.missing_in_map}
        # A step found that the original was missing (R3-79).
        again |= {row.unique_id for row in rows.values() if row.path is None and not row.has_error}
        taken = {row.path for row in rows.values()}
        adoptable = {
            unique_id: row for unique_id, row in read.adoptable.items() if row.path not in taken
        }
        known = frozenset(row.path for row in adoptable.values() if row.path is not None)
        # They may be where a file belongs.
        orphans = self._without_orphans(_without_owner(found, rows, known), lines)
        return LibraryFindings(
            again=frozenset(again),
            adopted=adoptable,
            known=known,
            missing_in_map=len(found.missing_in_map),
            missing_on_disk=len(again) - len(found.missing_in_map),
            orphans=orphans,
            moved=len(found.moves),
            verified=found.verified,
            lines=tuple(lines),
            again_lines=tuple(
                f"{rows[each].path or each} is missing or damaged, or the map has it otherwise:"
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
        rows = {row.unique_id: CheckedRow.of(row) for row in library_rows(connection, self._no)}
        lines: list[str] = []
        found, again = self._corrected(connection, rows, self._stored, lines)
        paths = found.orphans if is_whole else _without_owner(found, rows, before.known)
        orphans = self._without_orphans(paths, lines)
        lines += [
            f"{row.path} is missing or damaged: the next download brings it"
            for row in rows.values()
            if row.unique_id in again
        ]
        return replace(
            before,
            orphans=before.orphans + orphans,
            moved=before.moved + len(found.moves),
            verified=found.verified,
            lines=tuple(lines),
            again_lines=(),
        )

    def _without_orphans(self, paths: Sequence[str], lines: list[str]) -> int:
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
        self,
        connection: Connection,
        rows: Mapping[str, CheckedRow],
        mapped: Callable[[CheckedRow], StoredRow | None],
        lines: list[str],
    ) -> tuple[Corrections, set[str]]:
        """Compare the disk with the items and a map, and move misplaced files.

        Returns the corrections, and the unique ids of the items that are missing on the disk.
        """
        on_disk, damaged = self._scanned(connection, rows.values())
        found = decide_library_corrections(
            MadeOfRows(rows, self._expected), MadeOfRows(rows, mapped), on_disk, damaged
        )
        again = set(found.missing_on_disk) | self._without_original(rows.values())
        for move in found.moves:
            try:
                self._folder.rename(move.source, move.target)
            except OSError as error:
                again.add(move.unique_id)
                lines.append(f"{move.source} cannot be moved to {move.target}: {error.strerror}")
            else:
                lines.append(f"{move.source} is moved to {move.target}, its place")
                self._folder.tidy(move.source)
        return found, again

    def _scanned(
        self, connection: Connection, rows: Iterable[CheckedRow]
    ) -> tuple[dict[str, int], set[str]]:
        """Return sizes of the files on disk by path, and the paths of damaged ones."""
        facts = self._walked()
        for row in rows:
            if row.path is not None and row.path not in facts:
                elsewhere = self._folder.facts(row.path)
                if elsewhere is not None:
                    facts[row.path] = elsewhere
        differing = {
            row.no: row
            for row in rows
            if row.path in facts and self._is_damaged(row, row.path, facts[row.path])
        }
        damaged = {
            row.path for row in self._damaged(connection, differing, facts) if row.path is not None
        }
        sizes: dict[str, int] = {}
        while facts:  # not both at once: a library may have a million files
            path, (sizes[path], _) = facts.popitem()
        return sizes, damaged

    def _walked(self) -> dict[str, tuple[int, int]]:
        """Return size and time of each file that may be an orphan, by path."""
        tops = [_EMBEDDED]
        if self._source.source_type is not SourceType.FILES:
            tops.append(_ORIGINALS)
        facts = {
            path: (size, modified)
            for top in tops
            for path, size, modified in self._folder.walk(top, tidies=True)
        }
        if self._source.source_type is SourceType.LISTS:
            facts.pop(sharepoint_list_path(self._source.source_id), None)  # never an orphan
        return facts

    def paths(self) -> list[str]:
        """Return the paths of the files that are orphans unless an item refers to them."""
        return list(self._walked())

    def _is_damaged(self, row: CheckedRow, path: str, facts: tuple[int, int]) -> bool:
        """Whether size or date of a file is not that of its item.

        What is made of an item has its date, and a size of its own.
        """
        if self._source.source_type is SourceType.FILES:
            return self._size(row) is not None and facts != (row.file_size, row.last_modified)
        is_shared = path == sharepoint_list_path(self._source.source_id)
        return not (is_shared or path.startswith(f"{_FAILED}/")) and facts[1] != row.last_modified

    def _without_original(self, rows: Iterable[CheckedRow]) -> set[str]:
        """Return the unique ids of processed pages whose original is missing or damaged (M-53)."""
        if self._source.source_type is not SourceType.SITEPAGES:
            return set()
        found = set()
        for row in rows:
            if (
                row.path is not None
                and (original := sharepoint_original_path(row.path)) != row.path
            ):
                facts = self._folder.facts(original)
                if facts is None or self._is_damaged(row, original, facts):
                    found.add(row.unique_id)
        return found

    def _damaged(
        self,
        connection: Connection,
        rows: Mapping[int, CheckedRow],
        facts: Mapping[str, tuple[int, int]],
    ) -> Iterator[CheckedRow]:
        """Yield those of some items whose bytes are others; where they are not, the time is set."""
        hashes = library_body_hash_rows(connection, list(rows))
        for no, row in rows.items():
            assert row.path is not None, "it has a file"
            try:
                is_same = facts[row.path][0] == row.file_size and no in hashes
                if is_same and sha256(self._folder.read(row.path)).digest() == hashes[no]:
                    self._folder.stamp(row.path, row.last_modified)
                    continue
            except OSError:  # such as a pipe
                pass
            yield row

    def _expected(self, row: CheckedRow) -> ExpectedFile | None:
        """Return the place of an item's file; None: it has none."""
        return None if row.path is None else ExpectedFile((row.path,), self._size(row))

    def _size(self, row: CheckedRow) -> int | None:
        """Return the bytes that the file of an item must have; None: not those of the library."""
        is_as_listed = self._source.source_type is SourceType.FILES
        return None if self._is_note(row) or not is_as_listed else row.file_size

    @staticmethod
    def _is_note(row: CheckedRow) -> bool:
        """Whether the file of an item only says why there is none (E2)."""
        return row.has_error and row.path is not None and row.path.startswith(f"{_FAILED}/")

    def _stored(self, row: CheckedRow) -> StoredRow:
        """Return an item as a row of the map; the original of a processed one is kept (M-53)."""
        path = row.path or ""
        if self._source.source_type is SourceType.FILES:  # it is its own original
            return StoredRow(path, row.has_error, path)
        return StoredRow(path, row.has_error, sharepoint_original_path(path))


def _without_owner(
    found: Corrections, rows: Mapping[str, CheckedRow], known: Collection[str]
) -> list[str]:
    """Return the files that neither an item nor the map names; none where there is no item."""
    return [path for path in found.orphans if path not in known] if rows else []

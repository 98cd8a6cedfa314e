"""The check of a library's disk against the registry, before and after each download (R3-131)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from smartcrawl.model.library import LibraryRow, SourceType
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.registry.library.items import library_rows
from smartcrawl.run.library_maps import ReadFilesMap
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.source import SharepointSource

_CONFIG = CRAWLER_HARDCODED_CONFIG
_ORIGINALS = _CONFIG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER
_EMBEDDED = _CONFIG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER


@dataclass(frozen=True, slots=True)
class LibraryFindings:
    """What the check found, and how it was corrected."""

    again: frozenset[str] = frozenset()  #: unique ids of items whose files must come again
    adopted: Mapping[str, LibraryRow] = field(default_factory=dict)  #: of a map, by unique id
    missing_in_map: int = 0
    missing_on_disk: int = 0
    orphans: int = 0
    moved: int = 0
    verified: int = 0
    lines: tuple[str, ...] = ()  #: for the log

    @property
    def summary(self) -> str:
        """The line of R3-139."""
        missing = self.missing_in_map + self.missing_on_disk
        if missing or self.orphans or self.moved:
            return (
                f"Integrity check corrected: {missing} missing, {self.orphans} orphans deleted,"
                f" {self.moved} moved"
            )
        return f"Integrity check passed: {self.verified} files verified"


class LibraryCheck:
    """Compares the files of a source with its stored items."""

    def __init__(self, source: SharepointSource, folder: LibraryFolder, source_no: int) -> None:
        self._source = source
        self._folder = folder
        self._no = source_no

    def before(self, connection: Connection, read: ReadFilesMap) -> LibraryFindings:
        """Return what must come again: files that are missing, damaged, or edited in the map.

        A misplaced file goes back to its place first (RD-13).
        """
        rows = list(library_rows(connection, self._no))
        lines: list[str] = list(read.lines)
        moved, missing = self._put_back(rows, lines)
        in_map = 0
        again = {row.unique_id for row in missing}
        for row in rows:
            if row.path is None or row.unique_id in again:
                continue
            if not self._is_whole(row):
                again.add(row.unique_id)
                lines.append(f"{row.path}: its size or its date is not that of the library")
            elif not read.agrees(row):
                again.add(row.unique_id)
                in_map += 1
        return LibraryFindings(
            again=frozenset(again),
            adopted={} if rows else read.adoptable,
            missing_in_map=in_map,
            missing_on_disk=len(missing),
            moved=moved,
            lines=tuple(lines),
        )

    def _is_whole(self, row: LibraryRow) -> bool:
        """Whether the file of an item has the size and the date that the library gave it."""
        assert row.path is not None, "it has a file"
        if self._source.source_type is not SourceType.FILES or not row.path.startswith(
            f"{_EMBEDDED}/"
        ):
            return True
        return self._folder.facts(row.path) == (row.file_size, row.last_modified)

    def _put_back(self, rows: list[LibraryRow], lines: list[str]) -> tuple[int, list[LibraryRow]]:
        """Move misplaced files to their places; return their number, and the missing items."""
        absent = [
            row for row in rows if row.path is not None and self._folder.facts(row.path) is None
        ]
        if not absent:
            return 0, []
        spare: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        for path, size in self._unreferenced(rows):
            spare[os.path.basename(path), size].append(path)
        moved, missing = 0, []
        for row in absent:
            assert row.path is not None, "it has a file"
            found = spare.get((os.path.basename(row.path), row.file_size))
            if found:
                path = found.pop()
                try:
                    self._folder.rename(path, row.path)
                except OSError as error:
                    lines.append(f"{path} cannot be moved to {row.path}: {error.strerror}")
                else:
                    moved += 1
                    continue
            missing.append(row)
        return moved, missing

    def _unreferenced(self, rows: list[LibraryRow]) -> list[tuple[str, int]]:
        """Return paths and sizes of the files that no item refers to (R3-133)."""
        known = {row.path for row in rows if row.path is not None}
        # The original of a processed item counts as referenced (M-53).
        prefix = f"{_EMBEDDED}/"
        originals = {
            f"{_ORIGINALS}/{path.removeprefix(prefix)}" for path in known if path.startswith(prefix)
        }
        tops = [_EMBEDDED]
        if self._source.source_type is not SourceType.FILES:
            tops.append(_ORIGINALS)
        if self._source.source_type is SourceType.LISTS:
            originals.add(f"{_ORIGINALS}/{self._source.source_id}.csv")
        return [
            (path, size)
            for top in tops
            for path, size, _ in self._folder.walk(top)
            if path not in known and path not in originals
        ]

    def after(self, connection: Connection, before: LibraryFindings) -> LibraryFindings:
        """Delete the files that no item refers to, and count those that are verified."""
        rows = list(library_rows(connection, self._no))
        lines: list[str] = []
        moved, missing = self._put_back(rows, lines)
        orphans = 0
        for path, _ in self._unreferenced(rows):
            try:
                orphans += self._folder.remove(path)
            except OSError as error:
                lines.append(f"{path} cannot be deleted: {error.strerror}")
        lost = {row.no for row in missing}
        lines += [f"{row.path} is missing: the next run downloads it" for row in missing]
        verified = sum(row.path is not None and row.no not in lost for row in rows)
        return replace(
            before,
            orphans=orphans,
            moved=before.moved + moved,
            verified=verified,
            lines=tuple(lines),
        )

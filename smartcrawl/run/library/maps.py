"""The maps of a library source: written from the registry, and read back to make work (R3.9).

A map can order a download, and never a removal (ADR 83).
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, Self

from smartcrawl.model.library import LibraryItem, LibraryRow
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.sources.private_files import folder_like_its_parent
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.mapfiles import (
    EmbeddedFile,
    FilesMapRow,
    MapFileWriter,
    MapState,
    ReadMap,
    SharepointMapRow,
    VectorstoreMapRow,
    read_sharepoint_files_map,
    replaced_sharepoint_map,
    sharepoint_map_microseconds,
)
from smartcrawl.sources.sharepoint.paths import source_path
from smartcrawl.sources.sharepoint.source import SharepointSource

_CONFIG: Final = CRAWLER_HARDCODED_CONFIG
_NAMED_ROWS: Final = 5  #: unknown rows of a map, each with a line of the log


@dataclass(frozen=True, slots=True)
class ReadFilesMap:
    """A map of files as it was found, beside the items of the registry."""

    read: ReadMap
    prefix: str  #: of paths in the map, before those below the folder of the source
    lines: tuple[str, ...]  #: for the log
    written: float  #: Unix seconds of its last change; 0: it is missing
    falls_back: bool = False  #: whether every file comes again for its sake

    @property
    def is_whole(self) -> bool:
        """Whether it could be read, but for single rows."""
        return self.read.state is MapState.WHOLE

    def unknown_lines(self, known: Set[str]) -> list[str]:
        """Return lines about rows of items that are not stored; ``known``: unique ids."""
        name = _CONFIG.FILE_MAP_CSV
        unknown = sorted(self.read.rows.keys() - known)
        lines = [f"{name}: the row of {each} names no stored item: dropped" for each in unknown]
        if len(lines) > _NAMED_ROWS:
            more = len(lines) - _NAMED_ROWS
            lines[_NAMED_ROWS:] = [f"{name}: {more:,} more rows name no stored item: dropped"]
        return lines

    @property
    def adoptable(self) -> Mapping[str, LibraryRow]:
        """The rows with a file, as items of an empty registry, by unique id."""
        return {
            unique_id: _adopted(row, row.path.removeprefix(self.prefix))
            for unique_id, row in self.read.rows.items()
            if row.path.startswith(self.prefix) and not row.sharepoint_error
        }


def _adopted(row: FilesMapRow, path: str) -> LibraryRow:
    """Return the item that a row of a map describes, whose file is at a path."""
    return LibraryRow(
        0,
        row.sharepoint_listitem_id or 0,
        row.sharepoint_unique_file_id,
        row.filename,
        row.server_relative_url,
        row.file_size or 0,
        sharepoint_map_microseconds(row.last_modified_utc) or 0,
        path,
        sharepoint_map_microseconds(row.downloaded_utc),
        None,
        None,
    )


def run_row_of_files_map(row: LibraryRow, prefix: str) -> FilesMapRow:
    """Return the row of an item in ``files_map.csv`` (R3-51).

    ``prefix``: path of the folder of the source, with a slash at its end.
    """
    item = LibraryItem(
        row.listitem_id,
        row.unique_id,
        row.filename,
        row.server_relative_url,
        row.file_size,
        row.last_modified,
        url="",
    )
    return FilesMapRow.of(
        item,
        "" if row.path is None else prefix + row.path,
        None if row.path is None else row.downloaded,
        sharepoint_error=row.sharepoint_error or "",
        processing_error=row.processing_error or "",
    )


def run_rows_of_vectorstore_map(
    rows: Iterable[LibraryRow],
    embedded: Mapping[int, EmbeddedFile],
    errors: Mapping[int, str],
    prefix: str,
) -> Iterator[VectorstoreMapRow]:
    """Yield the rows of ``vectorstore_map.csv``: items in the store, and those with an error.

    ``embedded`` and ``errors``: by record.no. ``prefix``: as of the map of files (R3-52).
    """
    for row in rows:
        file, error = embedded.get(row.no), errors.get(row.no, "")
        if file or error or row.sharepoint_error or row.processing_error:
            yield VectorstoreMapRow.of(run_row_of_files_map(row, prefix), file, error)


def _digest(row: FilesMapRow) -> bytes:
    return blake2b(repr(tuple(row)).encode(), digest_size=16).digest()


class _NotWholeError(Exception):
    """Leaves a map as it was."""


class LibraryMaps:
    """The maps in the folder of one source."""

    def __init__(self, source: SharepointSource, folder: LibraryFolder) -> None:
        self._root = folder.root
        self._prefix = source_path(source.domain, source.source_type, source.source_id) + "/"
        self._listed: MapFileWriter | None = None
        self._writing = ExitStack()

    def mapped_digest(self, row: LibraryRow) -> bytes:
        """Return 16 bytes that stand for the row of an item in the map of files."""
        return _digest(run_row_of_files_map(row, self._prefix))

    def read_files_map(self, stored: Mapping[str, bytes]) -> ReadFilesMap:
        """Return the map of files, however damaged it is.

        ``stored``: `mapped_digest` of each stored item, by unique id.
        """

        def is_expected(found: FilesMapRow) -> bool:
            return stored.get(found.sharepoint_unique_file_id) == _digest(found)

        path = self._root / _CONFIG.FILE_MAP_CSV
        try:
            written = path.stat().st_mtime
        except OSError:
            written = 0.0
        read = read_sharepoint_files_map(path, is_expected)
        lines = list(read.damaged)
        # A library that was never downloaded has no map, and nothing comes again.
        is_new = read.state is MapState.MISSING and not stored
        falls_back = read.state is not MapState.WHOLE and self._root.is_dir() and not is_new
        if falls_back:
            lines.append(f"{path} is {read.state}: as with mode=full, every file comes again")
        return ReadFilesMap(read, self._prefix, tuple(lines), written, falls_back)

    def begin_files_map(self, rows: Iterable[LibraryRow] | None) -> None:
        """Let the map of files be older than what this run will store.

        A process that dies leaves items that the map does not have yet; its age distinguishes them
        from those that a person took out. ``rows``: what the map is to have; None: it is right.

        Raises:
            OSError: it cannot be written.
        """
        if rows is not None:
            self.write_files_map(rows)
        before = int(time.time()) - 1
        os.utime(self._root / _CONFIG.FILE_MAP_CSV, (before, before))

    def write_files_map(self, rows: Iterable[LibraryRow]) -> None:
        """Write the map of files anew; readers see the old one or the new one, whole.

        Raises:
            OSError: it cannot be written.
        """
        os.makedirs(self._root, exist_ok=True)
        with replaced_sharepoint_map(self._root / _CONFIG.FILE_MAP_CSV, FilesMapRow) as writer:
            for row in rows:
                writer.write(run_row_of_files_map(row, self._prefix))

    def write_vectorstore_map(
        self,
        rows: Iterable[LibraryRow],
        embedded: Mapping[int, EmbeddedFile],
        errors: Mapping[int, str],
    ) -> None:
        """Write the map of what is embedded anew: items in the store, and those with an error.

        ``embedded`` and ``errors``: by record.no.

        Raises:
            OSError: it cannot be written.
        """
        os.makedirs(self._root, exist_ok=True)
        path = self._root / _CONFIG.VECTOR_STORE_MAP_CSV
        with replaced_sharepoint_map(path, VectorstoreMapRow) as writer:
            for row in run_rows_of_vectorstore_map(rows, embedded, errors, self._prefix):
                writer.write(row)

    def begin_sharepoint_map(self) -> None:
        """Begin the map of the library beside the present one.

        Raises:
            OSError: it cannot be written.
        """
        os.makedirs(self._root, exist_ok=True)
        path = self._root / _CONFIG.SHAREPOINT_MAP_CSV
        self._listed = self._writing.enter_context(replaced_sharepoint_map(path, SharepointMapRow))

    def add_listed(self, item: LibraryItem) -> None:
        """Add an item to the map of the library."""
        assert self._listed is not None, "the map was begun"
        self._listed.write(SharepointMapRow.of(item))

    def end_sharepoint_map(self, *, is_whole: bool) -> None:
        """Let the new map of the library replace the present one, if the listing is whole."""
        self._listed = None
        if is_whole:
            self._writing.close()
        else:
            self._writing.__exit__(_NotWholeError, _NotWholeError(), None)


_ID_BYTES: Final = 8
_STEMS: Final = tuple(
    name.removesuffix(".csv") for name in (_CONFIG.SHAREPOINT_MAP_CSV, _CONFIG.FILE_MAP_CSV)
)
#: Names of these maps, also while their headers are written. A copy that a person made has another.
_OURS: Final = re.compile(
    rf"({'|'.join(_STEMS)})_[0-9a-f]{{{2 * _ID_BYTES}}}\.csv(\.[0-9a-f]+\.writing)?"
)


def remove_dry_run_maps(root: Path) -> None:
    """Remove the maps that killed dry runs left in the folder of a source.

    A dry run that goes on has locked its maps.

    Raises:
        OSError: the folder cannot be read.
    """
    try:
        found = [entry for entry in root.iterdir() if _OURS.fullmatch(entry.name)]
    except (FileNotFoundError, NotADirectoryError):
        return
    for path in found:
        with suppress(OSError):  # a dry run writes it, or has just removed it
            opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(opened)


class DryLibraryMaps:
    """The maps of one dry run, as a context manager. Afterwards the folder is as it was.

    A process that is stopped by force removes them when it exits; those of a killed one are removed
    by the next run.
    """

    def __init__(self, source: SharepointSource) -> None:
        self._root = source.folder
        self._prefix = source_path(source.domain, source.source_type, source.source_id) + "/"
        self._id = secrets.token_hex(_ID_BYTES)
        self._writers: dict[Path, MapFileWriter] = {}
        self._made: list[Path] = []  #: folders, the outermost first
        #: Times of the folder that was there, Unix nanoseconds, before and after its change.
        self._before: int | None = None  #: None: there is nothing to remove
        self._after: int | None = None

    def __enter__(self) -> Self:
        atexit.register(self._remove)
        try:
            remove_dry_run_maps(self._root)
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        missing = [self._root, *self._root.parents]
        self._made = [path for path in reversed(missing) if not path.exists()]
        self._before = self._there.stat().st_mtime_ns
        folder_like_its_parent(self._root)
        self._listed = self._begun(_STEMS[0], SharepointMapRow)

    @property
    def _there(self) -> Path:
        """The innermost folder that this dry run did not make."""
        return self._made[0].parent if self._made else self._root

    def _begun(self, stem: str, row: type[NamedTuple]) -> MapFileWriter:
        path = self._root / f"{stem}_{self._id}.csv"
        self._writers[path] = writer = MapFileWriter(path, row)
        self._after = self._there.stat().st_mtime_ns
        return writer

    def add_listed(self, item: LibraryItem) -> None:
        """Add an item to the map of the library."""
        self._listed.write(SharepointMapRow.of(item))

    def write_files_map(self, rows: Iterable[LibraryRow]) -> None:
        """Write the stored items that the listing is compared with, and end both maps.

        Raises:
            OSError: they cannot be written.
        """
        path = self._root / f"{_STEMS[1]}_{self._id}.csv"
        if path in self._writers:  # the comparison is made again
            self._writers[path].close()
        writer = self._begun(_STEMS[1], FilesMapRow)
        for row in rows:
            writer.write(run_row_of_files_map(row, self._prefix))
        for each in self._writers.values():
            each.finish()

    def __exit__(self, *_: object) -> None:
        self._remove()
        atexit.unregister(self._remove)

    def _remove(self) -> None:
        """Remove the maps and the folders that were made for them; a second call does nothing."""
        if self._before is None:
            return
        is_alone = self._there.stat().st_mtime_ns == self._after
        for path, writer in self._writers.items():
            path.unlink(missing_ok=True)
            writer.close()
        for folder in reversed(self._made):
            with suppress(OSError):  # another process uses it by now
                folder.rmdir()
        if is_alone:  # else the time is that of another change
            os.utime(self._there, ns=(self._there.stat().st_atime_ns, self._before))
        self._before = None

"""The two maps of a dry run of a library: they are written, and removed at its end (R3-61)."""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from smartcrawl.model.library import LibraryItem, LibraryRow
from smartcrawl.run.library_maps import run_row_of_files_map
from smartcrawl.sources.private_files import folder_like_its_parent
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.mapfiles import FilesMapRow, MapFileWriter, SharepointMapRow
from smartcrawl.sources.sharepoint.paths import source_path
from smartcrawl.sources.sharepoint.source import SharepointSource

_CONFIG: Final = CRAWLER_HARDCODED_CONFIG
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

"""The folder of a library source with changes that are only kept in memory: for dry runs."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from smartcrawl.registry.library.folder import LibraryFolder


class OverlaidFolder(LibraryFolder):
    """A folder that is renamed, removed and dated in, while its disk stays as it is.

    So the check of a library and the recovery after a crash find in a dry run what they would find
    in the run that follows.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        #: Where the bytes of a path are on the disk; None: there is no file any more.
        self._places: dict[str, str | None] = {}
        self._dates: dict[str, int] = {}  #: Unix microseconds, by place on the disk

    def _place(self, path: str) -> str | None:
        return self._places.get(path, path)

    def write(self, path: str, data: bytes, modified: int) -> None:
        """Write nothing: no file of a dry run is read again."""

    def open(self, path: str) -> BufferedReader:
        """Return a file, open for reading.

        Raises:
            OSError: there is none, or it cannot be read.
        """
        place = self._place(path)
        if place is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return super().open(place)

    def facts(self, path: str) -> tuple[int, int] | None:
        """Return size in bytes and time of modification, Unix microseconds; None: no file."""
        place = self._place(path)
        found = None if place is None else super().facts(place)
        if found is None or place is None:
            return None
        return found[0], self._dates.get(place, found[1])

    def stamp(self, path: str, modified: int) -> None:
        """Note the time of modification of a file, Unix microseconds."""
        place = self._place(path)
        if place is not None:
            self._dates[place] = modified

    def rename(self, before: str, after: str) -> None:
        """Note that a file has another name.

        Raises:
            OSError: there is none.
        """
        place = self._place(before)
        if not self._exists(before):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), before)
        self._places[before] = None
        self._places[after] = place

    def remove(self, path: str) -> bool:
        """Note that a file is gone; return whether it was there."""
        was_there = self._exists(path)
        self._places[path] = None
        return was_there

    def _exists(self, path: str) -> bool:
        """Whether there is a file, or a symlink, which can be renamed and removed like one."""
        place = self._place(path)
        if place is None:
            return False
        try:
            with self._opened(place) as (folder, name):
                os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def tidy(self, path: str) -> None:
        """Leave empty folders alone."""

    def walk(self, top: str, *, tidies: bool = False) -> Iterator[tuple[str, int, int]]:
        """Yield path, size in bytes and time (Unix microseconds) of each file below a folder."""
        for path, size, modified in super().walk(top):
            if self._place(path) == path:
                yield path, size, self._dates.get(path, modified)
        for path, place in sorted(self._places.items()):
            if place not in (None, path) and path.startswith(f"{top}/"):
                found = self.facts(path)
                if found is not None:
                    yield path, *found

"""The folder of one library source: files reached component by component, never by a symlink."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Final

from smartcrawl.sources.private_files import (
    READABLE_FILE,
    READABLE_FOLDER,
    folder_like_its_parent,
    is_private_folder,
)
from smartcrawl.sources.sharepoint.paths import sharepoint_path_problem

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class LibraryFolder:
    """Files below a folder, each named by its path with slashes.

    Missing folders on the way are made where a file is written or put (B5). Empty ones that a
    renaming or a removal leaves go.
    """

    def __init__(self, root: Path) -> None:
        """``root``: it is made when the first file is written."""
        self.root = root

    @contextmanager
    def _opened(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of the folder of a path, and the last name of the path.

        Raises:
            OSError: a component is missing, or no folder, or it leads out of the folder.
        """
        problem = sharepoint_path_problem(path)
        if problem is not None:
            raise OSError(errno.EINVAL, problem)
        folders, _, name = path.rpartition("/")
        with self._folder(folders, make=make) as opened:
            yield opened, name

    @contextmanager
    def _folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """Yield a descriptor of a folder; the empty path is the root."""
        if make:
            folder_like_its_parent(self.root)
        mode = 0o700 if is_private_folder(self.root) else READABLE_FOLDER
        opened = os.open(self.root, _FOLDER_FLAGS & ~os.O_NOFOLLOW)
        try:
            for name in path.split("/") if path else ():
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, mode, dir_fd=opened)
                inner = os.open(name, _FOLDER_FLAGS, dir_fd=opened)
                os.close(opened)
                opened = inner
            yield opened
        finally:
            os.close(opened)

    def write(self, path: str, data: bytes, modified: int) -> None:
        """Write a file and its time of modification, Unix microseconds, down to the disk.

        Raises:
            OSError: it cannot be written.
        """
        with self._opened(path, make=True) as (folder, name):
            mode = 0o600 if is_private_folder(self.root) else READABLE_FILE
            with open(os.open(name, _NEW_FLAGS, mode, dir_fd=folder), "wb", buffering=0) as file:
                left = memoryview(data)
                while left:
                    left = left[file.write(left) :]
                os.utime(file.fileno(), ns=(modified * 1_000, modified * 1_000))
                os.fsync(file.fileno())
            os.fsync(folder)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file.

        Raises:
            OSError: there is none, or it cannot be read.
        """
        with self.open(path) as file:
            return file.read()

    def open(self, path: str) -> BufferedReader:
        """Return a file, open for reading.

        Raises:
            OSError: there is none, or it cannot be read.
        """
        with self._opened(path) as (folder, name):
            file = os.fdopen(os.open(name, _FILE_FLAGS, dir_fd=folder), "rb")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise OSError(errno.EINVAL, f"{name} is not a file")
        return file

    def facts(self, path: str) -> tuple[int, int] | None:
        """Return size in bytes and time of modification, Unix microseconds; None: no file."""
        try:
            with self._opened(path) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        return (found.st_size, found.st_mtime_ns // 1_000) if stat.S_ISREG(found.st_mode) else None

    def stamp(self, path: str, modified: int) -> None:
        """Set the time of modification of a file, Unix microseconds.

        Raises:
            OSError: there is none, or it cannot be set.
        """
        with self._opened(path) as (folder, name):
            times = (modified * 1_000, modified * 1_000)
            os.utime(name, ns=times, dir_fd=folder, follow_symlinks=False)

    def rename(self, before: str, after: str) -> None:
        """Rename a file, down to the disk; a file with the new name is replaced.

        Raises:
            OSError: it cannot be renamed.
        """
        with (
            self._opened(before) as (folder, name),
            self._opened(after, make=True) as (other, new),
        ):
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=other)
            os.fsync(other)
            os.fsync(folder)

    def remove(self, path: str) -> bool:
        """Remove a file, and the folders above it that are empty then; return whether it was there.

        Raises:
            OSError: it cannot be removed.
        """
        try:
            with self._opened(path) as (folder, name):
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)
        except (FileNotFoundError, NotADirectoryError):
            return False
        self.tidy(path)
        return True

    def tidy(self, path: str) -> None:
        """Remove the empty folders above a path, except the first, which the layout names."""
        while path.count("/") > 1:
            path = path.rpartition("/")[0]
            try:
                with self._opened(path) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except OSError:  # it has other files
                return

    def walk(self, top: str, *, tidies: bool = False) -> Iterator[tuple[str, int, int]]:
        """Yield path, size in bytes and time (Unix microseconds) of each file below a folder.

        Symlinks are yielded, too, as things that are no file of a library; none is followed.
        ``tidies``: empty folders are removed.

        Raises:
            OSError: a folder cannot be read.
        """
        pending = [top]
        while pending:
            path = pending.pop()
            try:
                with self._folder(path) as folder:
                    names = sorted(os.scandir(folder), key=lambda entry: entry.name)
                    if tidies and not names:
                        self.tidy(f"{path}/")
                    for entry in names:
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(f"{path}/{entry.name}")
                            continue
                        found = entry.stat(follow_symlinks=False)
                        yield f"{path}/{entry.name}", found.st_size, found.st_mtime_ns // 1_000
            except FileNotFoundError:  # such as no file was ever downloaded
                continue


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

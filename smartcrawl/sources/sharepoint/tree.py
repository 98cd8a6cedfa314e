"""Folders and files of libraries on disk, opened name by name, without following any link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from smartcrawl.sources.listing.names import shown_listing_path
from smartcrawl.sources.listing.opening import (
    close_listed_folder,
    open_listed_below,
    open_listed_file,
    open_listed_folder,
    open_listing_root,
)
from smartcrawl.sources.sharepoint.paths import (
    LibraryPathError,
    crawler_folder,
)


class StoredFile(NamedTuple):
    """One name below a folder of a library on disk that is no folder."""

    path: str  #: relative to the crawler's folder
    size: int  #: bytes
    modified_ns: int  #: Unix nanoseconds
    is_regular: bool  #: False: a link, a FIFO or a device, which no library made


@contextmanager
def open_library_root(storage: Path) -> Iterator[int]:
    """Open the crawler's folder of ``PERSISTENT_STORAGE_PATH``, which is made when missing.

    Raises:
        OSError: it cannot be made or opened.
    """
    folder = crawler_folder(storage)
    folder.mkdir(parents=True, exist_ok=True)
    opened = open_listing_root(str(folder))
    try:
        yield opened
    finally:
        close_listed_folder(opened)


@contextmanager
def open_library_parent(root: int, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder of a file below an open root; give it with the last name of ``path``.

    ``make``: missing folders are made on the way (R3-108).

    Raises:
        LibraryPathError: the path does not stay below the root.
        NotADirectoryError: a link or a file has the name of a folder.
        OSError: a folder is missing, or cannot be made or opened.
    """
    *folders, name = _names(path)
    parent = _made_below(root, folders) if make else open_listed_below(root, folders)
    try:
        yield parent, name
    finally:
        close_listed_folder(parent)


def _names(path: str) -> list[str]:
    """Return the names of a path, which may be one that only another program would choose.

    Raises:
        LibraryPathError: the path does not stay below the root.
    """
    names = path.split("/")
    if "\0" in path or not {"", ".", ".."}.isdisjoint(names):
        raise LibraryPathError(f"{shown_listing_path(path)} is no path below the storage")
    return names


def _made_below(root: int, names: Sequence[str]) -> int:
    current = os.dup(root)
    for name in names:
        try:
            try:
                below = open_listed_folder(name, current)
            except FileNotFoundError:
                with suppress(FileExistsError):  # another process made it
                    os.mkdir(name, dir_fd=current)
                    os.fsync(current)
                below = open_listed_folder(name, current)
        finally:
            os.close(current)
        current = below
    return current


def open_library_file(root: int, path: str) -> int:
    """Open a regular file below an open root for reading.

    Raises:
        LibraryPathError: the path does not stay below the root.
        FileNotFoundError: there is none, or something else has its name.
        OSError: it cannot be opened.
    """
    with open_library_parent(root, path) as (parent, name):
        return open_listed_file(name, parent)


def stored_library_files(root: int, folder: str) -> Iterator[StoredFile]:
    """Yield all names below a folder that are no folders; none when it is missing.

    Links are yielded, too, and never followed.

    Raises:
        LibraryPathError: the path does not stay below the root.
        NotADirectoryError: a link or a file has the name of the folder.
        OSError: a folder cannot be read.
    """
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        try:
            opened = open_listed_below(root, _names(place))
        except FileNotFoundError:  # it is missing, or another process removed it
            continue
        except NotADirectoryError:
            if place == folder:
                raise
            continue  # another process replaced it
        try:
            with os.scandir(opened) as entries:
                for entry in entries:
                    path = f"{place}/{entry.name}"
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    if stat.S_ISDIR(found.st_mode):
                        waiting.append(path)
                    else:
                        is_regular = stat.S_ISREG(found.st_mode)
                        yield StoredFile(path, found.st_size, found.st_mtime_ns, is_regular)
        finally:
            close_listed_folder(opened)

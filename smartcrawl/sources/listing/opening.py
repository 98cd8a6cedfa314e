"""Opening of files and folders below a root, component by component, without any link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def open_listing_root(root: str) -> int:
    """Open the root of a listing, which may be a link itself."""
    return os.open(root, _FOLDER)


def open_listed_folder(name: str, parent: int) -> int:
    """Open a folder in an open folder; a link in its place is NotADirectoryError."""
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)


def open_listed_below(root: int, names: Sequence[str]) -> int:
    """Open a folder below an open root; ``root`` stays open."""
    current = os.dup(root)
    for name in names:
        try:
            below = open_listed_folder(name, current)
        finally:
            os.close(current)
        current = below
    return current


def open_listed_file(name: str, parent: int) -> int:
    """Open a regular file in an open folder, without waiting for a FIFO or a device.

    Raises:
        FileNotFoundError: there is none, or something else has its name.
        OSError: it cannot be opened.
    """
    before = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISREG(before.st_mode):  # to open a device may already do something
        raise FileNotFoundError(errno.ENOENT, "it is no regular file")
    opened = os.open(name, _FILE, dir_fd=parent)
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return opened
    os.close(opened)
    raise FileNotFoundError(errno.ENOENT, "it is no regular file")


def path_inside_listing(path: str, root: str) -> str | None:
    """Return the path, below a real root, that an existing path leads to, or None if none.

    Raises:
        OSError: the path leads nowhere, or cannot be followed.
    """
    real = os.path.realpath(path, strict=True)
    if real == root:
        return ""
    start = root.rstrip("/") + "/"
    return real[len(start) :] if real.startswith(start) else None


def listed_link_is_broken(error: OSError) -> bool:
    """Whether an error of ``inside`` means that the link leads nowhere."""
    return error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


def close_listed_folder(opened: int) -> None:
    """Close a folder that was open for reading, where an error means nothing."""
    with suppress(OSError):
        os.close(opened)

"""Files that others use, too: written aside, and waited for while they are busy (R3-63)."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, TypeVar

from smartcrawl.sources.private_files import FILE, READABLE_FILE, is_private_folder

_T = TypeVar("_T")
_TRIES: Final = 6
_WAIT: Final = 0.05  #: seconds before the second try; it doubles with each
#: Errors of a file that another process uses at this moment, on local and on network drives.
_CONCURRENT: Final = frozenset(
    {errno.EAGAIN, errno.EBUSY, errno.EDEADLK, errno.ENOLCK, errno.ESTALE, errno.ETXTBSY}
)


def retry_busy_sharepoint_file(action: Callable[[], _T], wait: float = _WAIT) -> _T:
    """Return the result of ``action``, which is repeated while another process is in its way.

    ``wait``: seconds before the second try. Source: R3-28, R3-63.

    Raises:
        OSError: the last try failed, or another error occurred.
    """
    for tried in range(1, _TRIES):
        try:
            return action()
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno not in _CONCURRENT:
                raise
        time.sleep(wait * 2 ** (tried - 1))
    return action()


_WRITING: Final = ".writing"  #: ending of a file that is being written


def write_sharepoint_source_file(
    path: Path, write: Callable[[IO[bytes]], object], place: Callable[[Path, Path], Path]
) -> Path:
    """Write a file beside ``path``, down to the disk, and ``place`` it; return its place.

    After an error, or the death of the process, nothing is at the place that was not there before.

    Raises:
        OSError: it cannot be written.
    """
    remove_abandoned_sharepoint_files(path)
    sibling = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_WRITING}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    mode = FILE if is_private_folder(path.parent) else READABLE_FILE
    try:
        with open(os.open(sibling, flags, mode), "w+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            write(file)
            file.flush()
            os.fsync(file.fileno())
            placed = retry_busy_sharepoint_file(lambda: place(sibling, path))
    finally:
        with suppress(FileNotFoundError):
            sibling.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return placed


def replacing(sibling: Path, path: Path) -> Path:
    """Rename a file over its place."""
    os.replace(sibling, path)
    return path


def sharepoint_file_as_new(sibling: Path, path: Path) -> Path:
    """Give a file its place.

    Raises:
        FileExistsError: the place is taken.
    """
    os.link(sibling, path)
    return path


def sharepoint_file_beside_others(sibling: Path, path: Path) -> Path:
    """Give a file its place, or one with ``_2``, ``_3`` … at its end if that is taken."""
    number, free = 1, path
    while True:
        try:
            return sharepoint_file_as_new(sibling, free)
        except FileExistsError:
            number += 1
            free = path.with_name(f"{path.name}_{number}")


def remove_abandoned_sharepoint_files(path: Path, pattern: str | None = None) -> None:
    """Remove the files that killed processes left beside ``path``: no process has a lock on them.

    ``pattern``: of the names of further files; None: those of ``path`` alone.
    """
    for left in path.parent.glob(f".{pattern or path.name}.*{_WRITING}"):
        with suppress(OSError):  # another process writes it, or has just removed it
            opened = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()
            finally:
                os.close(opened)

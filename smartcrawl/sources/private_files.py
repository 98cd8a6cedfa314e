"""Files that only their owner may read, with any umask, and files that others use, too."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, TypeVar

FOLDER: Final = 0o700
FILE: Final = 0o600
#: Modes of what others may read, as far as the umask permits; never writable for everybody.
READABLE_FOLDER: Final = 0o775
READABLE_FILE: Final = 0o664
_OTHERS: Final = 0o077
#: Folders that smartcrawl makes in DATA_DIR; a DATA_DIR with others serves other purposes, too.
_OURS: Final = frozenset({"leases", "logs", "snapshots"})


def private_folder(path: Path) -> None:
    """Make a folder for the owner alone; an existing one keeps its mode.

    Missing folders above it are made with the umask.

    Raises:
        OSError: it cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=FOLDER)
        path.chmod(FOLDER)  # a umask may have taken the owner's own rights


def private_file(path: Path) -> None:
    """Make an empty file for the owner alone; an existing one keeps its mode.

    Raises:
        OSError: it cannot be made.
    """
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE)
        try:
            os.fchmod(descriptor, FILE)
        finally:
            os.close(descriptor)


def folder_like_its_parent(path: Path) -> None:
    """Make a folder and its missing parents, each private where its parent is.

    Raises:
        OSError: it cannot be made.
    """
    if path.is_dir():
        return
    folder_like_its_parent(path.parent)
    if is_private_folder(path.parent):
        private_folder(path)
    else:
        path.mkdir(exist_ok=True)


def file_like_its_folder(path: Path) -> None:
    """Make an empty file that is private where its folder is; do nothing in any other folder.

    Raises:
        OSError: it cannot be made.
    """
    if is_private_folder(path.parent):
        private_file(path)


def write_private_file_like_folder(path: Path, data: bytes) -> None:
    """Write a new file that is private where its folder is.

    Raises:
        FileExistsError: something has its name.
        OSError: it cannot be written.
    """
    private = is_private_folder(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, FILE if private else READABLE_FILE)
    with open(descriptor, "wb", buffering=0) as file:
        if private and stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, FILE)
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]


def is_private_folder(folder: Path) -> bool:
    """Whether the owner alone may enter a folder; False where there is none."""
    try:
        return not folder.stat().st_mode & _OTHERS
    except OSError:
        return False


def narrow_private_file(path: Path) -> None:
    """Take the rights of group and others from a file or folder of this user."""
    with suppress(OSError):  # it does not exist, or belongs to another user
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid():
            return
        if found.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)


def narrow_private_data(folder: Path) -> None:
    """Narrow DATA_DIR, and the files and folders in it.

    A folder with other folders in it, such as a home or ``/tmp``, keeps its mode, because other
    programs use it. Only the registry, leases, logs and snapshots in it are narrowed.
    """
    try:
        entries = [(entry.name, entry.is_dir()) for entry in os.scandir(folder)]
    except OSError:
        return
    alone = all(name in _OURS for name, is_folder in entries if is_folder)
    if alone:
        narrow_private_file(folder)
    for name, is_folder in entries:
        if alone or (name in _OURS if is_folder else name.startswith("registry.db")):
            narrow_private_file(folder / name)
    leases = folder / "leases"
    if leases.is_dir():
        for lock in leases.glob("*.lock"):
            narrow_private_file(lock)


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


WRITING: Final = ".writing"  #: ending of a file that is being written


def write_sharepoint_source_file(
    path: Path, write: Callable[[IO[bytes]], object], place: Callable[[Path, Path], Path]
) -> Path:
    """Write a file beside ``path``, down to the disk, and ``place`` it; return its place.

    After an error, or the death of the process, nothing is at the place that was not there before.

    Raises:
        OSError: it cannot be written.
    """
    remove_abandoned_sharepoint_files(path)
    sibling = path.with_name(f".{path.name}.{secrets.token_hex(4)}{WRITING}")
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
    for left in path.parent.glob(f".{pattern or path.name}.*{WRITING}"):
        with suppress(OSError):  # another process writes it, or has just removed it
            opened = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()
            finally:
                os.close(opened)

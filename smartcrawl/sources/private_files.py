"""Files and folders that only their owner may read, with any umask."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

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

"""Files and folders that appear whole or not at all, whenever the process is killed.

They are written beside their place, synchronized with the disk, and renamed. What is being written
is made exclusively, with a random name: in a folder that others may write to, a file of theirs is
neither taken nor foreseen.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO, Final

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.reports.export import is_exported_line
from smartcrawl.sources.private_files import (
    FILE,
    READABLE_FILE,
    READABLE_FOLDER,
    is_private_folder,
    private_folder,
)

MARK: Final = ".smartcrawl-export"  #: file in each folder of ours: the number of its other files
_LONGEST: Final = 64 << 20  #: bytes of a first line that is read
_HERE: Final = -100  #: AT_FDCWD
_EXCHANGE: Final = 2  #: RENAME_EXCHANGE
_NOT_POSSIBLE: Final = (errno.EINVAL, errno.ENOSYS)
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LEFT: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class PlaceError(SmartcrawlError):
    """A file or folder cannot be written where the operator wants it."""


class WholeFolder:
    """A folder of files that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = 0

    @contextmanager
    def file(self, name: str) -> Iterator[IO[str]]:
        """Open a new file. It is synchronized with the disk when the folder is complete.

        Raises:
            FileExistsError: the folder has a file of this name.
        """
        path = self.path / name
        with open(path, "x", encoding="utf-8", newline="", opener=_open_readable) as file:
            self.files += 1
            yield file


@contextmanager
def whole_output_folder(place: str) -> Iterator[WholeFolder]:
    """Yield a folder to write; at the end it is at ``place``, and replaces an earlier export.

    Raises:
        PlaceError: something else is there, or it cannot be written.
    """
    path = _path_of(place)
    with _translated(path):
        _check_replaceable(path)
        part = _new_part(path)
        if is_private_folder(part.parent):
            private_folder(part)
        else:
            part.mkdir(mode=READABLE_FOLDER)
        with _locked(part, _FOLDER, path) as descriptor:
            try:
                yield (folder := WholeFolder(part))
                files = folder.files
                with folder.file(MARK) as mark:
                    mark.write(f"{files}\n")
                if path.exists() and _is_own(path):
                    mode = stat.S_IMODE(path.stat().st_mode)
                    os.fchmod(descriptor, mode & ~stat.S_IWOTH)
                _synchronize_files(part)
                os.fsync(descriptor)
                _check_replaceable(path)  # once more, after the time that writing took
                _check_same(part, descriptor)
                _put(part, path)
                _synchronize_folder(path.parent)
            finally:
                shutil.rmtree(part, ignore_errors=True)  # what is unfinished, or was replaced


@contextmanager
def whole_output_file(place: str) -> Iterator[IO[str]]:
    """Yield a file to write; at the end it is at ``place``, and replaces an earlier export.

    Raises:
        PlaceError: something else is there, or it cannot be written.
    """
    path = _path_of(place)
    with _translated(path):
        _check_replaceable_file(path)
        with part_of_output_file(path) as (part, file):
            yield file
            _synchronize(file)
            _check_replaceable_file(path)  # once more, after the time that writing took
            _check_same(part, file.fileno())
            part.replace(path)
            _synchronize_folder(path.parent)


@contextmanager
def part_of_output_file(path: Path) -> Iterator[tuple[Path, IO[str]]]:
    """Yield a new file beside ``path`` for this process alone; rename it, or it is removed.

    Raises:
        PlaceError: another process of this user writes there.
    """
    part = _new_part(path)
    is_private = is_private_folder(path.parent)
    with _locked(part, _NEW, path, FILE if is_private else READABLE_FILE) as descriptor:
        try:
            if is_private:  # a umask may have taken the owner's own rights
                os.fchmod(descriptor, FILE)
            with open(os.dup(descriptor), "w", encoding="utf-8", newline="") as file:
                yield part, file
        finally:
            part.unlink(missing_ok=True)


def _path_of(place: str) -> Path:
    path = Path(os.path.realpath(place))
    if not path.name or "\0" in place:
        raise PlaceError(f"cannot write {place!r}: name a file or folder")
    return path


def _new_part(path: Path) -> Path:
    """Return a name beside ``path`` for what is being written, and remove what died there.

    Raises:
        PlaceError: another process of this user writes there.
    """
    name = re.compile(rf"\.{re.escape(path.name)}\.(?:[0-9a-f]{{16}}\.)?part")
    with os.scandir(path.parent) as entries:
        parts = [path.parent / entry.name for entry in entries if name.fullmatch(entry.name)]
    for part in parts:
        if _is_own(part) and not part.is_symlink():
            with _locked(part, _LEFT, path):
                _remove(part)
    return path.with_name(f".{path.name}.{token_hex(8)}.part")


def _is_own(path: Path) -> bool:
    return path.lstat().st_uid == os.geteuid()


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part)
    else:
        part.unlink()


def _check_replaceable(path: Path) -> None:
    """Refuse a place where something else than an export would be lost.

    Raises:
        PlaceError: the folder is no export, has other files, or is the current folder.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise PlaceError(f"cannot write {path}: it is a file; name a new folder")
    if Path.cwd().is_relative_to(path):
        raise PlaceError(f"cannot write {path}: this is the current folder; name one below it")
    files = sum(1 for _ in os.scandir(path))
    if not files:
        return
    try:
        written = int((path / MARK).read_text("ascii"))
    except (OSError, ValueError):
        raise PlaceError(
            f"cannot write {path}: the folder has files, and is no export; name a new folder"
        ) from None
    if files - 1 > written or any(entry.is_dir() for entry in os.scandir(path)):
        raise PlaceError(
            f"cannot write {path}: it is an export with files of others in it, and would be"
            " replaced as a whole; move them, or name a new folder"
        )


def _check_replaceable_file(path: Path) -> None:
    """Refuse a file that is neither empty nor an export of JSON lines.

    Raises:
        PlaceError: something else is there.
    """
    if not path.exists():
        return
    if not path.is_file():
        raise PlaceError(f"cannot write {path}: it is not a file; name a new file")
    with path.open("rb") as file:
        line = file.readline(_LONGEST)
    if line and not is_exported_line(line):
        raise PlaceError(f"cannot write {path}: the file is no export; move it, or name a new file")


@contextmanager
def _locked(part: Path, flags: int, path: Path, mode: int = FILE) -> Iterator[int]:
    """Open what is being written, for this process alone; the kernel ends the lock with it."""
    descriptor = os.open(part, flags, mode)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _check_same(part, descriptor)
        yield descriptor
    except BlockingIOError:
        raise PlaceError(
            f"cannot write {path}: another export writes there; wait until it ends"
        ) from None
    finally:
        os.close(descriptor)


def _check_same(part: Path, descriptor: int) -> None:
    """Refuse a part that another one has replaced since this process opened it.

    Raises:
        BlockingIOError: something else has its name.
    """
    if not os.path.samestat(os.fstat(descriptor), part.lstat()):
        raise BlockingIOError


def _open_readable(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, READABLE_FILE)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # of the progress, or of standard output
        raise
    except OSError as error:
        raise PlaceError(
            f"cannot write {path} ({error.strerror}); name a place in a folder that exists, has"
            " room, and that this user may write to"
        ) from error


def _put(part: Path, path: Path) -> None:
    """Put a folder in its place; a folder that is there changes places with it at once."""
    if not path.exists():
        part.rename(path)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, os.fsencode(part), _HERE, os.fsencode(path), _EXCHANGE):
        number = ctypes.get_errno()
        if number in _NOT_POSSIBLE:
            raise PlaceError(
                f"cannot write {path}: its file system cannot exchange two folders; remove this"
                " export first, or name a new folder"
            )
        raise OSError(number, os.strerror(number), str(path))


def _synchronize(file: IO[str]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _synchronize_files(folder: Path) -> None:
    """Synchronize all files, of which the kernel has written most by now."""
    for entry in os.scandir(folder):
        with open(entry.path, "rb") as file:
            os.fsync(file.fileno())


def _synchronize_folder(path: Path) -> None:
    descriptor = os.open(path, _FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

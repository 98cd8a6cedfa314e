"""Leases as OS file locks: one run at a time crawls a source (ADR 134)."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, unquote

from smartcrawl.model.exceptions import RegistryError, RunHeldError
from smartcrawl.sources.private_files import FILE, private_file, private_folder

_MOST: Final = 250  #: characters of a file's name, without ``.lock``
_CUT: Final = 40  #: characters of the source in the name of a file that would be longer


class FileLease:
    """The exclusive right to crawl one source, until it is released or the process dies."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor: int | None = descriptor
        self.path = path

    @classmethod
    def take(cls, folder: Path, source: str, since: str) -> Self:
        """Take the lease of ``source``; the error of a second process contains ``since``.

        Raises:
            RunHeldError: another process has the lease; with its pid, host and start.
            RegistryError: the lease cannot be written.
        """
        path = _path(folder, source)
        try:
            private_folder(folder)
            private_file(path)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE)
        except OSError as error:
            raise RegistryError(
                f"cannot write {path} ({error.strerror}); name another DATA_DIR that this user"
                " may write to"
            ) from error
        try:
            _lock(descriptor)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise RunHeldError(
                source,
                pid=int(holder.get("pid", 0)),
                host=str(holder.get("host", "?")),
                since=str(holder.get("since", "?")),
            ) from None
        holder = {"pid": os.getpid(), "host": os.uname().nodename, "since": since}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        return cls(descriptor, path)

    @staticmethod
    def is_held(folder: Path, source: str) -> bool:
        """Whether a process crawls ``source`` now."""
        try:
            descriptor = os.open(_path(folder, source), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    @staticmethod
    def leased(folder: Path) -> list[str]:
        """Return the sources that processes crawl now, from the lease files alone."""
        return [source for source in FileLease.sources(folder) if FileLease.is_held(folder, source)]

    @staticmethod
    def sources(folder: Path) -> list[str]:
        """Return the sources that were ever crawled, from the lease files alone."""
        return [unquote(path.stem) for path in sorted(folder.glob("*.lock"))]

    def release(self) -> None:
        """Release the lease; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _holder(descriptor: int) -> dict[str, Any]:
    """Return the holder's data, or {} if it is writing them just now."""
    with suppress(json.JSONDecodeError, UnicodeDecodeError):
        holder = json.loads(os.pread(descriptor, 4096, 0))
        if isinstance(holder, dict):
            return holder
    return {}


def _lock(descriptor: int) -> None:
    """Lock a file; wait for a process that only looks at it (``is_held``).

    Raises:
        BlockingIOError: another process has the lock.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(0.05)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _path(folder: Path, source: str) -> Path:
    """Return the lease file; a name that no file may have is cut off, and ends in its hash."""
    name = quote(source, safe="")
    if len(name) > _MOST:
        name = f"{quote(source[:_CUT], safe='')}~{sha256(source.encode()).hexdigest()}"
    return folder / f"{name}.lock"

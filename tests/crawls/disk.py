"""What a disk does otherwise than others; imported before the command begins.

Modes of files bind a command of root, too. Environment:

FAILS_IN     a folder, of which a listing gets one item and then an error of the disk
READS        a file, which gets one line for each file that is read: its path below the root
WHEN_READ    JSON: by the path of a file below the root, the program of a shell that runs in the
             root before this file is read first
WHEN_LISTED  JSON: by the path of a folder, the program of a shell that runs in it before it is
             listed first
DAMAGED      the start of paths below the root whose files cannot be read, by an error of the disk
INTERRUPTED  so many files are read before the command gets SIGINT
PAGE         keys of one page of a store's listing
"""

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from smartcrawl.engine.download import files
from smartcrawl.sources.listing import bucket, folder

_VERSION = 0x20080522  #: of the structures of capset(2)
_FREE = (1 << 1) | (1 << 2)  #: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Rights(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def bind() -> None:
    """Give up the rights by which root opens every file, in this thread and those it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, rights = _Header(_VERSION, 0), (_Rights * 2)()
    if libc.capget(ctypes.byref(header), rights):
        raise OSError(ctypes.get_errno(), "capget")
    rights[0].effective &= ~_FREE
    rights[0].permitted &= ~_FREE
    if libc.capset(ctypes.byref(header), rights):
        raise OSError(ctypes.get_errno(), "capset")


class _Broken:
    """Items of a folder that cannot be read to its end."""

    def __init__(self, opened: int) -> None:
        self._items = os.scandir(opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._items.close()

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        yield next(self._items)
        raise OSError(errno.EIO, os.strerror(errno.EIO))


class _Os:
    """The module os, but for some folders."""

    def __init__(self, broken: str | None, programs: dict[str, str]) -> None:
        self._broken = broken and os.path.realpath(broken)
        self._programs = {os.path.realpath(path): text for path, text in programs.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def scandir(self, opened: int) -> Any:
        path = os.readlink(f"/proc/self/fd/{opened}")
        if program := self._programs.pop(path, None):
            subprocess.run(program, shell=True, cwd=path, check=True)
        return _Broken(opened) if path == self._broken else os.scandir(opened)


class Reads:
    """Reading of files, with what happens meanwhile."""

    def __init__(self) -> None:
        self._real = files.read_listed_file
        self._log = os.environ.get("READS")
        self._last = int(os.environ.get("INTERRUPTED", "0"))
        self._programs = json.loads(os.environ.get("WHEN_READ", "{}"))
        self._damaged = os.environ.get("DAMAGED")
        self._count = 0
        self._lock = threading.Lock()

    def __call__(self, root: str | Path, relative: str, **more: Any) -> Any:
        with self._lock:
            self._count += 1
            if self._log is not None:
                with Path(self._log).open("a") as log:
                    print(ascii(relative), file=log)
            if program := self._programs.pop(relative, None):
                subprocess.run(program, shell=True, cwd=root, check=True)
            if self._count == self._last:
                os.kill(os.getpid(), signal.SIGINT)
        if self._damaged is not None and relative.startswith(self._damaged):
            raise OSError(errno.EIO, os.strerror(errno.EIO), relative)
        return self._real(root, relative, **more)


def arrange() -> None:
    """Make the disk of this process another one."""
    if sys.platform == "linux" and os.geteuid() == 0:
        bind()
    broken, programs = os.environ.get("FAILS_IN"), os.environ.get("WHEN_LISTED")
    if broken or programs:
        folder.os = _Os(broken, json.loads(programs or "{}"))  # type: ignore[assignment]
    if page := os.environ.get("PAGE"):
        bucket._PAGE = int(page)  # type: ignore[misc]
    files.read_listed_file = Reads()


if os.environ.get("ARRANGED_BY") == __name__:  # not where tests are only collected
    arrange()

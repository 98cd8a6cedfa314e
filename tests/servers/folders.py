"""Folders for what servers keep, in memory where there is some."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")
_PREFIX = "smartcrawl-server-"
_GRACE_SECONDS = 60


@contextmanager
def data_folder() -> Iterator[Path]:
    """An empty folder, removed at the end.

    Memory is dear: folders are removed, too, whose tests were killed before they could.
    """
    in_memory = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK | os.X_OK)
    base = _MEMORY if in_memory else Path(tempfile.gettempdir())
    for folder in base.glob(f"{_PREFIX}*"):
        _remove_if_left(folder)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    handle = _handle(folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield folder
    finally:
        shutil.rmtree(folder)
        os.close(handle)


def _remove_if_left(folder: Path) -> None:
    try:
        if time.time() - folder.stat().st_ctime < _GRACE_SECONDS:
            return  # just made, and not locked yet; or just left by a server that is still ending
        handle = _handle(folder)
    except OSError:
        return  # gone, or another user's
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass  # in use
    finally:
        os.close(handle)


def _handle(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

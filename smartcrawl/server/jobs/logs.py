"""Logs of jobs' runs: their files, and reading one while it grows."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import IO, Final

from anyio import sleep, to_thread

PART: Final = 65_536  #: bytes of a log that are in memory at once
_PAUSE: Final = 0.25  #: seconds between two looks at a log that has grown no further


def log_of(folder: Path, id_: str) -> Path:
    """Return the log of a job's run; ``id_``: as the registry has it, never as a client sent it."""
    return folder / f"{id_}.log"


def open_log(path: Path) -> IO[bytes] | None:
    """Open a log for reading; None: it is not here, or no plain file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    return os.fdopen(descriptor, "rb", buffering=0)


async def parts_of(
    log: IO[bytes], goes_on: Callable[[], Awaitable[bool]] | None = None
) -> AsyncIterator[bytes]:
    """Yield a log in parts of at most 64 KiB, and close it.

    ``goes_on``: whether more may be written; it is asked at each end of the file, and after it
    said no the rest is read. Without it, only what is there now is read.
    """
    try:
        writes = goes_on is not None
        while True:
            part = await to_thread.run_sync(log.read, PART)
            if part:
                yield part
            elif not writes or goes_on is None:
                return
            else:
                writes = await goes_on()
                if writes:
                    await sleep(_PAUSE)
    finally:
        log.close()

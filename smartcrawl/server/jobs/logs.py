"""Logs of jobs' runs: their files, and an answer that reads one, also while it grows."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import IO, Final

from anyio import sleep, to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

PART: Final = 65_536  #: bytes of a log that are in memory at once
_PAUSE: Final = 0.5  #: seconds between two looks at a log that has grown no further
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",  # a log repeats words of pages
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx passes each part on at once
}

GoesOn = Callable[[], Awaitable[bool]]


def job_log(folder: Path, id_: str) -> Path:
    """Return the log of a job's run; ``id_``: as the registry has it, never as a client sent it."""
    return folder / f"{id_}.log"


def open_job_log(path: Path) -> IO[bytes] | None:
    """Open a log for reading; None: it is not here."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    return os.fdopen(descriptor, "rb", buffering=0)


async def job_log_parts(log: IO[bytes], goes_on: GoesOn | None = None) -> AsyncIterator[bytes]:
    """Yield a log in parts of at most 64 KiB.

    ``goes_on``: whether more may be written. It is asked at each end of the file; after it said
    no, the rest is read. Without it, the log is read as long as it is now.
    """
    left = os.fstat(log.fileno()).st_size
    while goes_on is None and left:
        part = await to_thread.run_sync(log.read, min(PART, left))
        if not part:
            return
        left -= len(part)
        yield part
    writes = True
    while goes_on is not None:
        part = await to_thread.run_sync(log.read, PART)
        if part:
            yield part
        elif not writes:
            return
        else:
            writes = await goes_on()
            if writes:
                await sleep(_PAUSE)


class LogResponse(StreamingResponse):
    """A log as text. It ends when the client goes away, and closes the log in any case."""

    media_type = "text/plain"  # and Starlette adds the charset

    def __init__(
        self, log: IO[bytes], goes_on: GoesOn | None, closed: Callable[[], None] = lambda: None
    ) -> None:
        """``closed``: called at its end."""
        super().__init__(job_log_parts(log, goes_on), headers=_HEADERS)
        self._log = log
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the log."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._log.close()
            self._closed()

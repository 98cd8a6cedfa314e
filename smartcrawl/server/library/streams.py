"""Answers that follow a library's job: its log line by line, and its result at the end (E-18)."""

from __future__ import annotations

import html
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import IO, Any, Final, Protocol

from anyio import sleep, to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from smartcrawl.model.redaction import escaped_text, json_safe_text
from smartcrawl.server.jobs.library_job import LibraryJob
from smartcrawl.server.jobs.logs import PART, open_job_log

HEARTBEAT: Final = 15.0  #: seconds without a line after which a stream shows that it lives
_LOOK: Final = 0.25  #: seconds between two looks at a log that has grown no further
_LONGEST: Final = 65_536  #: bytes of a line; a longer one comes in parts
#: Returns the job of a stream as it is now; None: the server ends.
Seen = Callable[[], Awaitable[LibraryJob | None]]


class Form(Protocol):
    """The form of an answer."""

    media_type: str
    headers: dict[str, str]

    def begin(self, job: LibraryJob) -> str:
        """Return the text before the first line."""

    def line(self, text: str) -> str:
        """Return a line of the log; ``text``: without control characters and line break."""

    def heartbeat(self) -> str:
        """Return a sign that the answer goes on."""

    def end(self, result: dict[str, Any]) -> str:
        """Return the end, with the result of the job."""


class StreamForm:
    """Lines of text as they happen; the last one is the result as JSON."""

    media_type = "text/plain; charset=utf-8"
    headers: dict[str, str] = {}  # noqa: RUF012  # as the protocol has it

    def begin(self, job: LibraryJob) -> str:
        """Name the job, by which the stream can be controlled."""
        return f"job {job.id}: {job.action} of {job.name}\n"

    def line(self, text: str) -> str:
        """Return the line."""
        return f"{text}\n"

    def heartbeat(self) -> str:
        """Return an empty line."""
        return "\n"

    def end(self, result: dict[str, Any]) -> str:
        """Return the result on one line."""
        return f"{_json(result)}\n"


class JsonForm:
    """The result alone; blanks before it keep the connection open."""

    media_type = "application/json"
    headers: dict[str, str] = {}  # noqa: RUF012  # as the protocol has it

    def begin(self, job: LibraryJob) -> str:
        """Return nothing."""
        return ""

    def line(self, text: str) -> str:
        """Return nothing: JSON has no place for it."""
        return ""

    def heartbeat(self) -> str:
        """Return a blank, which JSON permits before a value."""
        return " "

    def end(self, result: dict[str, Any]) -> str:
        """Return the result."""
        return _json(result)


class HtmlForm:
    """A page that grows; nothing of it can be anything but text."""

    media_type = "text/html; charset=utf-8"
    headers: dict[str, str] = {  # noqa: RUF012  # as the protocol has it
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"
    }

    def begin(self, job: LibraryJob) -> str:
        """Return the head of the page."""
        title = html.escape(f"{job.action} of {job.name}")
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n'
            f"<title>{title}</title>\n<h1>{title}</h1>\n<p>Job {html.escape(job.id)}</p>\n<pre>\n"
        )

    def line(self, text: str) -> str:
        """Return the line, escaped."""
        return f"{html.escape(text)}\n"

    def heartbeat(self) -> str:
        """Return a comment."""
        return "<!-- -->"

    def end(self, result: dict[str, Any]) -> str:
        """Return the result, and the end of the page."""
        text = html.escape(json.dumps(result, indent=2))
        return f'</pre>\n<h2>Result</h2>\n<pre id="result">{text}</pre>\n</html>\n'


FORMS: Final[dict[str, Form]] = {
    "stream": StreamForm(),
    "json": JsonForm(),
    "html": HtmlForm(),
}


def _json(result: dict[str, Any]) -> str:
    return json_safe_text(json.dumps(result, separators=(",", ":")))


class _Lines:
    """The lines of a log that grows. Its file need not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._rest = b""

    def read(self) -> list[str]:
        """Return the whole lines that were written since."""
        if self._file is None:
            self._file = open_job_log(self._path)
            if self._file is None:
                return []
        *whole, self._rest = (self._rest + self._file.read(PART)).split(b"\n")
        if len(self._rest) > _LONGEST:
            whole, self._rest = [*whole, self._rest], b""
        return [escaped_text(line.decode("utf-8", "replace")) for line in whole]

    def rest(self) -> list[str]:
        """Return the last line, if nothing ended it."""
        line, self._rest = self._rest, b""
        return [escaped_text(line.decode("utf-8", "replace"))] if line else []

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


async def library_job_parts(
    job: LibraryJob, form: Form, path: Path, seen: Seen, *, heartbeat: float = HEARTBEAT
) -> AsyncIterator[bytes]:
    """Yield an answer that goes on to the end of a job, or of the server.

    ``path``: its log. ``heartbeat``: seconds without a line after which something is sent.
    """
    yield form.begin(job).encode()
    lines, quiet, now = _Lines(path), 0.0, job
    try:
        while True:
            is_over = now.is_over  # before the log is read to its end
            found = await to_thread.run_sync(lines.read)
            if found:
                quiet = 0.0
                yield "".join(map(form.line, found)).encode()
                continue
            if is_over:
                yield "".join(map(form.line, lines.rest())).encode()
                yield form.end(now.final()).encode()
                return
            await sleep(_LOOK)
            quiet += _LOOK
            if quiet >= heartbeat:
                quiet = 0.0
                yield form.heartbeat().encode()
            after = await seen()
            if after is None:
                yield form.end(_goes_on(now)).encode()
                return
            now = after
    finally:
        lines.close()


def _goes_on(job: LibraryJob) -> dict[str, Any]:
    """Return the result of a stream that ends before its job does."""
    return job.final() | {"reason": f"the server is ending; job {job.id} continues without it"}


class LibraryJobResponse(StreamingResponse):
    """An answer that follows a job. A client that leaves does not stop the job."""

    def __init__(
        self,
        job: LibraryJob,
        form: Form,
        path: Path,
        seen: Seen,
        *,
        closed: Callable[[], None] = lambda: None,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        """Take the arguments of ``library_job_parts``; ``closed``: called at the end."""
        headers = form.headers | {
            "X-Job-Id": job.id,
            "Location": f"/api/v1/jobs/{job.id}",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",  # nginx passes each part on at once
        }
        parts = library_job_parts(job, form, path, seen, heartbeat=heartbeat)
        super().__init__(parts, headers=headers, media_type=form.media_type)
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._closed()

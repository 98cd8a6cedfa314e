"""Logs of jobs' runs: their files, and the answers that read them, also while they grow."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import IO, Annotated, Final, Literal

from anyio import sleep, to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi import Path as InPath
from fastapi import Query as InQuery
from fastapi.responses import PlainTextResponse
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.processes import Process
from smartcrawl.model.redaction import redacted_line
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.runs.run_orders import PREFIX
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.context import Context
from smartcrawl.server.errors import ApiError, api_not_found, api_unavailable
from smartcrawl.server.jobs.answers import EXAMPLE_JOB
from smartcrawl.server.jobs.clock import LoggedRun, api_job_run_logged, last_api_job_run_logged
from smartcrawl.server.jobs.declared import DeclaredNames
from smartcrawl.server.jobs.library_store import LibraryJobs
from smartcrawl.server.jobs.readable import ReadableJobs
from smartcrawl.server.jobs.scrapyd import ScrapydClient
from smartcrawl.server.jobs.store import JobStore, RunStage
from smartcrawl.server.queries import Query, refuse_repeated_parameter

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


_EXAMPLE: Final = "2024-01-20 10:00:00,000 [smartcrawl] INFO: Run 1 of docs\n"
MOST: Final = 64  #: logs that one server sends at once; each has an open file


class LogQuery(Query):
    """The query of a log."""

    follow: Literal["true", "false"] = "false"


class _Logs:
    """The logs of this server."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._folder = context.options.data_dir / "logs"
        self._names = DeclaredNames(*context.options.source_files)
        self._sent = 0

    async def answer(self, id_: str, reader: Reader, *, follow: bool) -> Response:
        """Return the log of a run, or of the last run of a job.

        Raises:
            ApiError: the log is not here.
            JobError: there is no such job, no such run, or the job has not run yet.
        """
        run = await to_thread.run_sync(self._context.stores.read, self._finder(id_, reader))
        if self._sent >= MOST:
            raise api_unavailable(f"this server sends {MOST} logs already")
        self._sent += 1  # before the log is opened: others ask meanwhile
        log = None
        try:
            log = await to_thread.run_sync(open_job_log, job_log(self._folder, run.id))
        finally:
            self._sent -= log is None
        if log is None:
            raise self._not_here(run)
        goes_on = self._watch(run.id) if follow else None
        return LogResponse(log, goes_on, self._was_sent)

    def _finder(self, id_: str, reader: Reader) -> Callable[[Connection], LoggedRun]:
        database = self._context.stores.database

        def find(seen: Connection) -> LoggedRun:
            what = "run" if id_.startswith(PREFIX) else "job"
            ReadableJobs(seen, reader, self._names()).check(id_, what)
            if id_.startswith(PREFIX):
                return _logged(seen, id_)
            return last_api_job_run_logged(seen, JobStore(database, seen).get(id_).no)

        return find

    def _watch(self, id_: str) -> GoesOn:
        """Return whether a run is open, as long as the server is."""
        stores, ending = self._context.stores, self._context.ending

        async def goes_on() -> bool:
            if ending.is_set():
                return False
            try:
                return (await stores.read_little(lambda seen: _logged(seen, id_))).is_open
            except RegistryError:
                return True  # it is away, and the crawl waits for it, too

        return goes_on

    def _was_sent(self) -> None:
        self._sent -= 1

    def _not_here(self, run: LoggedRun) -> ApiError:
        server = self._context.server
        if server.scrapyd_url:
            client = ScrapydClient(server.scrapyd_url, server.scrapyd_project)
            spider = self._names.spider_of(run.source)
            place = f"the log is in scrapyd: {client.log_url(run.id, spider)}"
        elif run.host is not None and run.host != Process.this().host:
            place = f"the log is on the machine {redacted_line(run.host)}: ask the server there"
        elif run.stage is RunStage.WAITING:
            place = "the run has not started"
        else:
            place = "the log is not on this machine any more"
        return api_not_found("The log is not here", reason=place)


def _logged(seen: Connection, id_: str) -> LoggedRun:
    """Return a run of a job, or the job of a library, by its jb_ id.

    Raises:
        JobError: there is none.
    """
    job = LibraryJobs(seen).find(id_)
    if job is None:
        return api_job_run_logged(seen, id_)
    process = job.started.process
    return LoggedRun(job.id, job.stage, None if process is None else process.host, job.name)


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of logs."""
    logs = _Logs(context)

    @router.get(
        "/jobs/{job_id}/log",
        tags=["jobs"],
        summary="The log of a run, by its jb_ id; or, by a job's id, of its last run",
        response_class=PlainTextResponse,
        responses={200: {"content": {"text/plain": {"example": _EXAMPLE}}}, 404: {}},
        dependencies=[Depends(refuse_repeated_parameter)],
    )
    async def get_job_log(
        request: Request,
        job_id: Annotated[str, InPath(examples=[EXAMPLE_JOB])],
        query: Annotated[LogQuery, InQuery()],
    ) -> Response:
        reader = context.reader(request)
        return await logs.answer(job_id, reader, follow=query.follow == "true")

"""Steps of document libraries over HTTP (E-18, E-19): each request is a job of its own."""

from __future__ import annotations

import html
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal, Protocol

from anyio import sleep, to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as InQuery
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from smartcrawl.model.exceptions import RegistryError, SmartcrawlError, SourceError
from smartcrawl.model.library import SourceType
from smartcrawl.model.redaction import escaped_text, json_safe_text
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.visibility import Reader
from smartcrawl.run.library.metadata import LibraryMetadata, MetadataResult
from smartcrawl.run.library.store import (
    StoreAbsentError,
    run_attached_file_ids,
    run_domain_store_is_gone,
)
from smartcrawl.server.answers import Answer
from smartcrawl.server.context import Context
from smartcrawl.server.errors import ApiError, api_not_found, api_unavailable
from smartcrawl.server.guard import ORDER_PARAMETER
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.jobs.library_store import LibraryChoices, LibraryJob, LibraryJobs
from smartcrawl.server.jobs.logs import PART, job_log, open_job_log
from smartcrawl.server.jobs.readable import ReadableJobs
from smartcrawl.server.queries import (
    Query,
    WholeNumber,
    json_response,
    refuse_api_query,
    refuse_repeated_parameter,
)
from smartcrawl.sources.fields import Between, JsonInteger
from smartcrawl.sources.jobs import CONFLICT, JobError
from smartcrawl.sources.sharepoint.domains import (
    DOMAIN_ID,
    SCOPES,
    Domain,
    load_sharepoint_domain,
    sharepoint_domain_ids,
)
from smartcrawl.sources.sharepoint.source import SharepointSource

logger = logging.getLogger(__name__)


def api_requested_domain(storage: Path, domain_id: str) -> Domain:
    """Return a domain; problems of its domain.json, with its place, are only logged.

    Raises:
        ApiError: there is none (R3-67), or its domain.json has problems.
    """
    if not DOMAIN_ID.fullmatch(domain_id) or domain_id not in sharepoint_domain_ids(storage):
        raise api_not_found("Domain not found", reason="there is no domain of this id")
    try:
        return load_sharepoint_domain(storage, domain_id)
    except SourceError as error:
        logger.error("%s", error)
        raise ApiError(
            "INVALID_CONFIG",
            field="domain_id",
            reason="the domain.json of this domain has problems, which the log of this server"
            " names: correct them there",
        ) from error


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


_AWAY: Final = (
    "the list of the vector store could not be read to its end; nothing was removed, and the log of"
    " this server has the reason"
)
_NO_MAP: Final = (
    "a source has no whole map of the vector store, or the domain names no store; nothing was"
    " removed, and the log of this server has the reason: embed the domain"
)


class CleanupQuery(Query):
    """The query of a cleanup."""

    domain_id: str = Field(pattern="^[A-Za-z0-9_-]{1,64}$", examples=["DOMAIN01"])


class CleanedMetadata(Answer):
    """The numbers of entries of files_metadata.json."""

    removed: int = Field(examples=[2])
    remaining: int = Field(examples=[98])


def check_readable_domain(
    connection: Connection, domain: str, source: str | None, reader: Reader
) -> None:
    """Check that a caller may read a source of a domain; None: all of its sources.

    Raises:
        ApiError: he may not: it is as if there were no such domain.
    """
    if not ReadableJobs(connection, reader, ()).may_read_library(domain, source):
        raise api_not_found("Domain not found", reason="there is no domain of this id")


def _cleaned(context: Context, domain_id: str) -> MetadataResult:
    """Remove outdated entries.

    Raises:
        ApiError: there is no such domain, its store is gone, or something could not be read.
    """
    options = context.options
    domain = api_requested_domain(options.sharepoint.storage, domain_id)
    database = registry_database(options.registry)
    try:
        with database.translated("write"), closing(database.open()) as connection:
            metadata = LibraryMetadata(
                domain, connection, datetime.fromtimestamp(context.clock(), UTC)
            )
            found = metadata.cleanup(lambda: run_attached_file_ids(domain, options.store_server))
    except StoreAbsentError as error:
        logger.error("%s", error)
        raise api_not_found(
            "Vector store not found", reason="the vector store of the domain is gone"
        ) from error
    except RegistryError:
        raise
    except (SmartcrawlError, OSError) as error:
        logger.error("%s", error)
        is_about_maps = isinstance(error, SourceError | OSError)
        raise api_unavailable(_NO_MAP if is_about_maps else _AWAY) from error
    for line in found.lines:
        logger.warning("%s", line)
    return found


def add_cleanup_routes(context: Context, router: APIRouter) -> None:
    """Add the route of the cleanup."""

    @router.get(
        "/cleanup_metadata",
        tags=["libraries"],
        summary="Remove the metadata of files that the vector store of a domain lacks",
        response_model=CleanedMetadata,
        responses={404: {}},
        dependencies=[Depends(refuse_repeated_parameter)],
        openapi_extra={"parameters": [ORDER_PARAMETER]},
    )
    async def cleanup_metadata(
        request: Request, query: Annotated[CleanupQuery, InQuery()]
    ) -> Response:
        reader = context.reader(request)
        await to_thread.run_sync(
            context.stores.read,
            lambda seen: check_readable_domain(seen, query.domain_id, None, reader),
        )
        found = await to_thread.run_sync(_cleaned, context, query.domain_id)
        return json_response({"removed": found.removed, "remaining": found.remaining})


MOST: Final = 64  #: jobs that one server follows at once; each has an open file
_DOMAIN: Final = "DOMAIN01"
_MOST_BATCHES: Final = 5
_ID_PATTERN: Final = "^[A-Za-z0-9_-]{1,64}$"
_Mode = Literal["incremental", "full"]
_Format = Literal["stream", "json", "html"]
_Flag = Literal["true", "false"]
_SCOPE_OF: Final = {kinds[0]: scope for scope, kinds in SCOPES.items() if len(kinds) == 1}


_RESULT: Final = {
    "domain": _DOMAIN,
    "action": "crawl",
    "mode": "incremental",
    "scope": "all",
    "dryRun": False,
    "complete": True,
    "sources": [],
}
#: The description that all of these routes share.
_DESCRIBED: Final[dict[str, Any]] = {
    "tags": ["libraries"],
    "response_class": PlainTextResponse,
    "responses": {
        200: {
            "description": "The log of the job as it happens, and its result as the last line",
            "content": {
                "text/plain": {"example": f"{json.dumps(_RESULT)}\n"},
                "application/json": {"schema": {"type": "object"}, "example": _RESULT},
                "text/html": {"schema": {"type": "string"}, "example": "<!DOCTYPE html>…"},
            },
        },
        404: {},
        409: {},
        422: {},
    },
}
_BY_QUERY: Final[dict[str, Any]] = {
    "dependencies": [Depends(refuse_repeated_parameter)],
    "openapi_extra": {"parameters": [KEY_PARAMETER, ORDER_PARAMETER]},
}


_BY_BODY: Final[dict[str, Any]] = {
    "dependencies": [Depends(refuse_api_query)],
    "openapi_extra": {"parameters": [KEY_PARAMETER]},
}


class _CrawlQuery(Query):
    """The query of a crawl."""

    domain_id: str = Field(pattern=_ID_PATTERN, examples=[_DOMAIN])
    mode: _Mode = "incremental"
    scope: Literal["all", "files", "lists", "sitepages"] = "all"
    dry_run: _Flag = "false"
    retry_batches: WholeNumber = Field(default=2, ge=1, le=_MOST_BATCHES)
    format: _Format = "stream"


class _StepQuery(Query):
    """The query of one step."""

    domain_id: str = Field(pattern=_ID_PATTERN, examples=[_DOMAIN])
    mode: _Mode = "incremental"
    source_type: Literal["file_sources", "list_sources", "sitepage_sources"] | None = None
    source_id: str | None = Field(default=None, pattern=_ID_PATTERN)
    dry_run: _Flag = "false"
    retry_batches: WholeNumber = Field(default=2, ge=1, le=_MOST_BATCHES)
    format: _Format = "stream"


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    domain_id: str = Field(pattern=_ID_PATTERN, examples=[_DOMAIN])
    mode: _Mode = "incremental"
    dry_run: bool = False
    retry_batches: Annotated[JsonInteger, Between(1, _MOST_BATCHES)] = 2
    format: _Format = "stream"


class LibraryCrawl(_Body):
    """A crawl of the libraries of a domain."""

    scope: Literal["all", "files", "lists", "sitepages"] = "all"


class LibraryStep(_Body):
    """One step at the libraries of a domain."""

    source_type: Literal["file_sources", "list_sources", "sitepage_sources"] | None = None
    source_id: str | None = Field(default=None, pattern=_ID_PATTERN)


@dataclass(frozen=True, slots=True)
class _Order:
    """A request, read from its query or its body."""

    action: str
    domain: str
    choices: LibraryChoices
    format: str

    @classmethod
    def of(cls, action: str, given: _CrawlQuery | _StepQuery | _Body) -> _Order:
        """Return the order of a query or body."""
        scope: str = getattr(given, "scope", "all")
        kind: str | None = getattr(given, "source_type", None)
        choices = LibraryChoices(
            mode=given.mode,
            scope=scope if kind is None else _SCOPE_OF[SourceType(kind)],
            source=getattr(given, "source_id", None),
            dry_run=given.dry_run in (True, "true"),
            retry_batches=given.retry_batches,
        )
        return cls(action, given.domain_id, choices, given.format)


class _Libraries:
    """Orders jobs, and answers with what they do."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._once = Once(context)
        self._storage = context.options.sharepoint.storage
        self._store_server = context.options.store_server
        self._followed = 0

    async def answer(self, request: Request, order: _Order) -> Response:
        """Order a job, and follow it.

        Raises:
            ApiError: there is no such domain, source or store, or this server follows too many
                jobs.
            JobError: another process is at the step.
        """
        reader = self._context.reader(request)
        await to_thread.run_sync(self._context.stores.read, _checker(order, reader))
        sources = await to_thread.run_sync(self._sources, order)
        if self._followed >= MOST:
            raise api_unavailable(f"this server follows {MOST} jobs already")

        def work(connection: Connection) -> Reply:
            if not order.choices.dry_run:
                self._refuse_held(sources)
            now = int(self._context.clock())
            jobs = LibraryJobs(connection)
            return Reply.of(
                200, {"id": jobs.create(order.domain, order.action, order.choices, now).id}
            )

        reply = await self._once.answer(request, work)
        if reply.status_code != 200:
            return reply  # a refusal that is kept with its key
        id_ = str(json.loads(bytes(reply.body))["id"])
        job = await to_thread.run_sync(self._context.stores.read, _finder(id_))
        self._followed += 1
        path = job_log(self._context.options.data_dir / "logs", job.id)
        return LibraryJobResponse(
            job, FORMS[order.format], path, self._watch(id_), closed=self._left
        )

    def _left(self) -> None:
        self._followed -= 1

    def _watch(self, id_: str) -> Callable[[], Any]:
        stores, ending = self._context.stores, self._context.ending
        last: list[LibraryJob] = []

        async def seen() -> LibraryJob | None:
            if ending.is_set():
                return None
            try:
                last[:] = [await stores.read_little(_finder(id_))]
            except RegistryError:
                if not last:
                    raise
            return last[0]

        return seen

    def _sources(self, order: _Order) -> list[SharepointSource]:
        """Return the sources of an order (R3-67).

        Raises:
            ApiError: there is no such domain or source, its domain.json has problems, or the
                server of its vector store does not have that any more.
        """
        domain = api_requested_domain(self._storage, order.domain)
        try:
            sources = domain.sources(order.choices.scope, order.choices.source)
        except SourceError as error:
            raise api_not_found(
                "Source not found", reason="the domain has no source of this id in this scope"
            ) from error
        # A crawl has other steps, too: it goes on without this one (R3-116).
        if order.action == "embed" and run_domain_store_is_gone(domain, self._store_server):
            raise api_not_found(
                "Vector store not found",
                reason="the vector store of the domain is gone: correct its vector_store_id",
            )
        return sources

    def _refuse_held(self, sources: list[SharepointSource]) -> None:
        """Refuse an order while a process that is no job is at one of its sources.

        Raises:
            JobError: with the source.
        """
        for source in sources:
            if self._context.stores.database.is_held(source.name):
                raise JobError(
                    CONFLICT,
                    field="domain_id",
                    reason=f"{source.name} is being crawled by another process: try again when "
                    "it has ended",
                )


def _checker(order: _Order, reader: Reader) -> Callable[[Connection], None]:
    return lambda seen: check_readable_domain(seen, order.domain, order.choices.source, reader)


def _finder(id_: str) -> Callable[[Connection], LibraryJob]:
    return lambda seen: LibraryJobs(seen).get(id_)


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of libraries."""
    libraries = _Libraries(context)
    _add_crawl(libraries, router)
    for action in ("download", "process", "embed"):
        _add_step(libraries, router, action)


def _add_crawl(libraries: _Libraries, router: APIRouter) -> None:
    summary = "Crawl the libraries of a domain: all steps, and an archive of the maps"

    @router.get("/crawl", summary=summary, **_DESCRIBED, **_BY_QUERY)
    async def get_crawl(request: Request, query: Annotated[_CrawlQuery, InQuery()]) -> Response:
        return await libraries.answer(request, _Order.of("crawl", query))

    @router.post("/crawl", summary=summary, **_DESCRIBED, **_BY_BODY)
    async def post_crawl(request: Request, order: LibraryCrawl) -> Response:
        return await libraries.answer(request, _Order.of("crawl", order))


def _add_step(libraries: _Libraries, router: APIRouter, action: str) -> None:
    path = f"/{action}_data"
    summary = f"The step {action} at the libraries of a domain"

    @router.get(path, summary=summary, operation_id=f"get_{action}", **_DESCRIBED, **_BY_QUERY)
    async def step(request: Request, query: Annotated[_StepQuery, InQuery()]) -> Response:
        return await libraries.answer(request, _Order.of(action, query))

    @router.post(path, summary=summary, operation_id=f"post_{action}", **_DESCRIBED, **_BY_BODY)
    async def post_step(request: Request, order: LibraryStep) -> Response:
        return await libraries.answer(request, _Order.of(action, order))

"""Steps of document libraries over HTTP (E-18, E-19): each request is a job of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as InQuery
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from smartcrawl.model.exceptions import RegistryError, SourceError
from smartcrawl.model.json_integer import Between, JsonInteger
from smartcrawl.model.library import SourceType
from smartcrawl.registry.connection import Connection
from smartcrawl.run.library.store import run_domain_store_is_gone
from smartcrawl.server.context import Context
from smartcrawl.server.data.queries import (
    Query,
    WholeNumber,
    refuse_api_query,
    refuse_repeated_parameter,
)
from smartcrawl.server.errors import api_not_found, api_unavailable
from smartcrawl.server.guard import ORDER_PARAMETER
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.jobs.library_job import LibraryChoices, LibraryJob
from smartcrawl.server.jobs.library_store import LibraryJobs
from smartcrawl.server.jobs.logs import job_log
from smartcrawl.server.library.domains import api_requested_domain
from smartcrawl.server.library.streams import FORMS, LibraryJobResponse
from smartcrawl.sources.jobs import CONFLICT, JobError
from smartcrawl.sources.sharepoint.domains import SCOPES
from smartcrawl.sources.sharepoint.source import SharepointSource

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

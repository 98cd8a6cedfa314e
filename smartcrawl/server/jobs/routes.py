"""Jobs over HTTP: create, list, read, replace and delete (E-01 to E-05; R2-20 to R2-30)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

from anyio import to_thread
from fastapi import APIRouter, Body, Depends, Path, Request, Response
from fastapi import Query as InQuery
from pydantic import BaseModel, ConfigDict, Field, WrapValidator

from smartcrawl.model.options import Options
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.runs.run_orders import PREFIX
from smartcrawl.reports.tables import run_table_report
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.rules.run_orders import JobStatus
from smartcrawl.rules.visibility import Visibility
from smartcrawl.server.bodies import names_private_job_address
from smartcrawl.server.context import Context
from smartcrawl.server.errors import api_invalid_input
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.jobs.answers import (
    EXAMPLE_JOB,
    JobDetail,
    JobHead,
    Jobs,
    LibraryJobDetail,
    RunDetail,
)
from smartcrawl.server.jobs.clock import api_job_run_of_id, api_job_runs
from smartcrawl.server.jobs.declared import DeclaredNames, KnownJobs, refuse_job_deletion
from smartcrawl.server.jobs.library_store import (
    LibraryJobs,
    api_library_job_head,
    refuse_library_job_change,
)
from smartcrawl.server.jobs.orders import api_job_standing
from smartcrawl.server.jobs.readable import ReadableJobs
from smartcrawl.server.jobs.store import Job, JobProgress, JobStore
from smartcrawl.server.queries import (
    Query,
    WholeNumber,
    json_response,
    refuse_api_query,
    refuse_repeated_parameter,
)
from smartcrawl.sources.fields import Between, JsonInteger
from smartcrawl.sources.jobs import INVALID_INPUT, INVALID_URL, JobDefinition, JobError, JobSchedule

_MOST: Final = 1_000  #: jobs of a page
_MOST_VERSION: Final = 10**15  #: that a description of numbers as floats has exactly
_VERSION: Final = re.compile(r'(?:W/)?"?(\d{1,18})"?', re.ASCII)
_ID = Annotated[str, Path(examples=[EXAMPLE_JOB])]
_IF_MATCH: Final = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": r"^(\*|(W/)?(\"[0-9]{1,18}\"|[0-9]{1,18}))$"},
    "description": "The version that the client has seen, as in the body",
}


class _Versioned(BaseModel):
    version: Annotated[JsonInteger, Between(1, _MOST_VERSION)] | None = Field(
        default=None, description="The one that the client has seen"
    )


class JobReplacement(JobDefinition, _Versioned):
    """The new definition of a job."""


class DeclaredSchedule(_Versioned):
    """The new schedule of a declared source."""

    model_config = ConfigDict(extra="forbid")

    schedule: JobSchedule


def _object(value: Any, _: object) -> Any:
    """Return an object as it was sent: which of the two it has to be, the job decides."""
    if not isinstance(value, dict):
        raise ValueError("the body must be a JSON object")
    return value


_Replacement = Annotated[JobReplacement | DeclaredSchedule, WrapValidator(_object), Body()]


class ListQuery(Query):
    """The query of a list of jobs."""

    status: JobStatus | None = None
    limit: WholeNumber = Field(default=100, ge=1, le=_MOST)
    offset: WholeNumber = Field(default=0, ge=0, le=1_000_000_000)


def api_job_head(job: Job, visibility: Visibility) -> dict[str, Any]:
    """Return a job without its progress (R2-24); ``visibility``: of its source."""
    return {
        "job_id": job.id,
        "type": "crawl",
        "name": job.name,
        "status": job.status.value,
        "declared": job.declared,
        "created_at": iso_time(job.created_at),
        "next_run": iso_time(job.next_run),
        "version": job.version,
        "complete": job.complete,
        "visibility": visibility.value,
    }


def api_job_detail(
    connection: Connection, job: Job, visibility: Visibility, now: int, file: str | None = None
) -> dict[str, Any]:
    """Return a job with its definition and the progress of its last run (R2-26).

    ``file``: that declares its source, if it is declared.
    """
    progress = JobProgress.of(connection, job.no)
    runs = [
        {"job_id": run.id, "status": run.stage.value, "due_at": iso_time(run.due_at)}
        for run in api_job_runs(connection, job.no)
    ]
    requested = api_job_standing(connection, job.id).requested if job.no else None
    more: dict[str, Any] = {"requested": requested, "reasons": list(job.reasons), "runs": runs}
    more["declared_in"] = file
    return api_job_head(job, visibility) | _shown_definition(job) | progress.data(job, now) | more


def _shown_definition(job: Job) -> dict[str, Any]:
    """Return the definition of a job without its secrets; of a declared source, its schedule."""
    found = {"seed_urls": None, "config": None, "filters": None}
    if job.definition is not None:
        found |= job.definition.shown()
    return found | {"schedule": {"type": job.schedule.type, "cron": job.schedule.cron}}


def api_job_run_detail(connection: Connection, id_: str) -> dict[str, Any]:
    """Return a run of a job, with the keys of ``smartcrawl runs`` once it is open (M-39).

    Raises:
        JobError: there is none of this id.
    """
    found, no = api_job_run_of_id(connection, id_)
    open_run = {} if no is None else next(run_table_report(connection, run=no))
    return open_run | {
        "job_id": found.id,
        "job": found.job,
        "status": found.stage.value,
        "requested": found.requested,
        "due_at": iso_time(found.due_at),
        "run": no,
        "reasons": list(found.reasons) or open_run.get("reasons", []),
    }


def job_request_version(headers: Mapping[str, str], body: Mapping[str, Any]) -> int | None:
    """Return the version that the client has seen, of the body or else of If-Match.

    Raises:
        JobError: it is no whole number, or the two differ.
    """
    given = body.get("version")
    if given is not None and (type(given) is not int or given < 1):
        raise JobError(INVALID_INPUT, field="version", reason="version must be a whole number")
    match = headers.get("if-match", "*").strip()
    if match == "*":
        return given
    found = _VERSION.fullmatch(match)
    if found is None or (given is not None and given != int(found[1])):
        reason = 'If-Match must be the version of the job, such as "3"'
        raise JobError(INVALID_INPUT, field="If-Match", reason=reason)
    return int(found[1])


def refuse_private_job_seeds(definition: JobDefinition, options: Options) -> None:
    """Refuse seeds at addresses that no crawl may connect to; names are checked when it does.

    Raises:
        JobError: with the place of the seed, which is not repeated.
    """
    guard = ConnectionGuard(options.allow_networks, options.allow_ports)
    for place, url in enumerate(definition.seed_urls):
        if names_private_job_address(url, guard):
            reason = f"seed_urls[{place}] is an address that ALLOW_NETWORKS does not allow"
            raise JobError(INVALID_URL, field="seed_urls", reason=reason)


class _Changes:
    """Requests that change jobs.

    They are checked before the transaction: a large definition takes a while, in which no crawl
    could write.
    """

    def __init__(self, context: Context, names: DeclaredNames) -> None:
        self._context = context
        self._names = names
        self._once = Once(context)

    async def create(self, request: Request, given: JobDefinition) -> Response:
        """Create a job."""
        definition, names = await to_thread.run_sync(self._prepared, given)
        reader = self._context.reader(request)

        def work(connection: Connection) -> Reply:
            readable, checked = ReadableJobs(connection, reader, names), _checked(definition)
            readable.check_new(checked.name)
            job = self._store(connection).create(checked, names, self._now())
            head = api_job_head(job, readable.visibility(job.name))
            return Reply.of(201, head, Location=f"{request.url.path}/{job.id}")

        return await self._once.answer(request, work)

    async def replace(self, request: Request, id_: str, body: dict[str, Any]) -> Response:
        """Replace the definition of a job."""
        given = {key: value for key, value in body.items() if key != "version"}
        definition, names = await to_thread.run_sync(self._prepared, given)
        reader = self._context.reader(request)

        def work(connection: Connection) -> Reply:
            readable = ReadableJobs(connection, reader, names)
            version, now = job_request_version(request.headers, body), self._now()
            source = None
            if readable.sees(id_):  # else it is as if there were none
                refuse_library_job_change(connection, id_)
                known = KnownJobs(self._context.stores.database, connection, names)
                source = known.find_declared(id_)
            if source is not None:
                job = known.schedule(source, given, now, version=version)
                return Reply.of(200, api_job_head(job, readable.visibility(job.name)))
            store, checked = self._store(connection), _checked(definition)
            readable.check(id_)
            readable.check_new(checked.name)
            job = store.replace(id_, checked, names, now, version=version)
            return Reply.of(200, api_job_head(job, readable.visibility(job.name)))

        return await self._once.answer(request, work)

    async def delete(self, request: Request, id_: str) -> Response:
        """Delete a job; once more does nothing (R2-30)."""
        reader = self._context.reader(request)

        def work(connection: Connection) -> None:
            ReadableJobs(connection, reader, self._names()).check(id_)
            refuse_library_job_change(connection, id_)
            refuse_job_deletion(self._known(connection).find_declared(id_))
            self._store(connection).delete(id_, self._now())

        await self._context.stores.write_in_turn(work)
        return Response(status_code=204)

    def _prepared(
        self, given: JobDefinition | dict[str, Any]
    ) -> tuple[JobDefinition | JobError, tuple[str, ...]]:
        """Return a checked definition or why it is refused, and the names of declared sources."""
        names = self._names()
        try:
            if isinstance(given, dict):
                given = JobDefinition.checked(given, self._now())
            else:
                given.check(self._now())
            refuse_private_job_seeds(given, self._context.options)
        except JobError as error:
            return error, names
        return given, names

    def _store(self, connection: Connection) -> JobStore:
        return JobStore(self._context.stores.database, connection)

    def _known(self, connection: Connection) -> KnownJobs:
        return KnownJobs(self._context.stores.database, connection, self._names())

    def _now(self) -> int:
        return int(self._context.clock())


def _checked(definition: JobDefinition | JobError) -> JobDefinition:
    """Return a definition.

    Raises:
        JobError: it is refused.
    """
    if isinstance(definition, JobError):
        raise definition
    return definition


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of jobs."""
    names = DeclaredNames(*context.options.source_files)
    _add_changes(_Changes(context, names), router)
    _add_reads(context, names, router)


def _add_changes(changes: _Changes, router: APIRouter) -> None:
    @router.post(
        "/jobs",
        tags=["jobs"],
        summary="Create a job; it is crawled at its times, or once at once",
        status_code=201,
        response_model=JobHead,
        responses={409: {}, 422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER]},
    )
    async def create_job(request: Request, definition: JobDefinition) -> Response:
        return await changes.create(request, definition)

    @router.put(
        "/jobs/{job_id}",
        tags=["jobs"],
        summary="Replace the definition of a job, or the schedule of a declared source",
        response_model=JobHead,
        responses={404: {}, 409: {}, 422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER, _IF_MATCH]},
    )
    async def replace_job(request: Request, job_id: _ID, body: _Replacement) -> Response:
        return await changes.replace(request, job_id, cast(dict[str, Any], body))

    @router.delete(
        "/jobs/{job_id}",
        tags=["jobs"],
        summary="Delete a job; its pages stay searchable",
        status_code=204,
        responses={404: {}, 409: {}},
        dependencies=[Depends(refuse_api_query)],
    )
    async def delete_job(request: Request, job_id: _ID) -> Response:
        if await request.body():
            raise api_invalid_input(None, "DELETE takes no body")
        return await changes.delete(request, job_id)


def _add_reads(context: Context, names: DeclaredNames, router: APIRouter) -> None:
    _add_list(context, names, router)
    _add_detail(context, names, router)


def _add_list(context: Context, names: DeclaredNames, router: APIRouter) -> None:
    stores = context.stores

    @router.get(
        "/jobs",
        tags=["jobs"],
        summary="Jobs in the order of their creation, the declared sources, jobs of libraries",
        response_model=Jobs,
        dependencies=[Depends(refuse_repeated_parameter)],
    )
    def list_jobs(request: Request, query: Annotated[ListQuery, InQuery()]) -> Response:
        reader = context.reader(request)

        def work(connection: Connection) -> tuple[list[dict[str, Any]], int]:
            status, limit, offset = query.status, query.limit, query.offset
            readable = ReadableJobs(connection, reader, names())
            jobs, crawls = KnownJobs(stores.database, connection, names()).page(
                status=status, limit=limit, offset=offset, hidden=readable.hidden()
            )
            heads = [api_job_head(job, readable.visibility(job.name)) for job in jobs]
            if not readable.lists_libraries:
                return heads, crawls
            steps, others = LibraryJobs(connection).page(
                status=status, limit=limit - len(jobs), offset=max(0, offset - crawls)
            )
            return [*heads, *map(api_library_job_head, steps)], crawls + others

        found, total = stores.read_moment(work)
        place = {"total": total, "offset": query.offset, "limit": query.limit}
        return json_response({"jobs": found, "pagination": place})


def _add_detail(context: Context, names: DeclaredNames, router: APIRouter) -> None:
    stores = context.stores

    @router.get(
        "/jobs/{job_id}",
        tags=["jobs"],
        summary="A job with its definition and progress; by a jb_ id, a run or a job of a library",
        response_model=JobDetail | RunDetail | LibraryJobDetail,
        responses={404: {}},
        dependencies=[Depends(refuse_api_query)],
    )
    async def get_job(request: Request, job_id: _ID) -> Response:
        reader = context.reader(request)
        if job_id.startswith(PREFIX):

            def run(seen: Connection) -> dict[str, Any]:
                ReadableJobs(seen, reader, names()).check(job_id, "run")
                library = LibraryJobs(seen).find(job_id)
                return api_job_run_detail(seen, job_id) if library is None else library.detail()

            return json_response(await to_thread.run_sync(stores.read_moment, run))
        now = int(context.clock())

        def work(seen: Connection) -> dict[str, Any]:
            readable = ReadableJobs(seen, reader, names())
            readable.check(job_id)
            job = KnownJobs(stores.database, seen, names()).get(job_id)
            file = names.file_of(job.name) if job.declared else None
            return api_job_detail(seen, job, readable.visibility(job.name), now, file)

        return json_response(await to_thread.run_sync(stores.read_moment, work))

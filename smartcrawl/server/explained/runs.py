"""Runs over HTTP: their list, and one run with its progress, reasons, notes and pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.removal.orders import latest_removal_order_rows
from smartcrawl.registry.removal.purge import source_row_of_run
from smartcrawl.registry.visibility import stored_visibilities
from smartcrawl.reports.run_story import (
    RunList,
    job_run_of_run,
    neighbour_runs,
    run_live_report,
    run_note_texts,
    run_page_rows,
    run_reason_texts,
    run_samples_report,
)
from smartcrawl.reports.tables import run_table_report
from smartcrawl.reports.today import is_reported_library
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.context import Context
from smartcrawl.server.errors import api_not_found
from smartcrawl.server.explained.answers import RunPages, Runs, RunSamples, RunStory
from smartcrawl.server.explained.orders import removal_order_data
from smartcrawl.server.explained.removals import chosen_source_names
from smartcrawl.server.queries import (
    NUMBER_PATTERN,
    Query,
    WholeNumber,
    described_api_query,
    json_response,
    number_of_path,
    read_api_query,
    refuse_api_query,
)

_MOST: Final = 1_000
RUN_OF_PATH = Annotated[str, Path(examples=["17"], json_schema_extra={"pattern": NUMBER_PATTERN})]
_COUNT: Final = """
SELECT count(*) FROM run r JOIN source o ON o.no = r.source WHERE o.name IN carray(:sources)
"""
_MOST_ORDERS: Final = 20


class RunsQuery(Query):
    """The query of the runs."""

    source: str | None = Field(
        default=None, max_length=255, description="Only this source", examples=["docs"]
    )
    limit: WholeNumber = Field(default=20, ge=1, le=_MOST)
    offset: WholeNumber = Field(default=0, ge=0, le=1_000_000)


class RunPagesQuery(Query):
    """The query of the pages of a run."""

    list: Literal["new", "modified", "lost", "failed", "removed"] = Field(
        default="new", description="What the run found, or did to them"
    )
    limit: WholeNumber = Field(default=100, ge=1, le=_MOST)
    offset: WholeNumber = Field(default=0, ge=0, le=1_000_000_000)


def runs_data(
    connection: Connection, names: Sequence[str], *, limit: int, offset: int
) -> dict[str, Any]:
    """Return runs of some sources under the keys of ``Runs``, newest first."""
    total = int(connection.execute(_COUNT, {"sources": Many(names)}).get)
    rows = (
        run_table_report(connection, sources=names, most=offset + limit, scans=False)
        if names
        else []
    )
    return {
        "runs": list(rows)[offset:],
        "pagination": {"total": total, "offset": offset, "limit": limit},
    }


def check_readable_run(connection: Connection, run: int, reader: Reader) -> str:
    """Return the source of a run.

    Raises:
        ApiError: the caller may read no run of this number.
    """
    found = source_row_of_run(connection, run)
    if found is None or not reader.may_read(
        found[1], stored_visibilities(connection).get(found[1])
    ):
        raise api_not_found("Run not found", reason="there is no run of this number")
    return found[1]


def run_data(connection: Connection, context: Context, run: int, reader: Reader) -> dict[str, Any]:
    """Return a run under the keys of ``RunStory``.

    Raises:
        ApiError: the caller may read no run of this number.
    """
    name = check_readable_run(connection, run, reader)
    row = next(run_table_report(connection, run=run, scans=False))
    before, after = neighbour_runs(connection, run)
    is_library = is_reported_library(connection, name)
    orders = latest_removal_order_rows(connection, sources=[name], run=run, most=_MOST_ORDERS)
    is_open = row["finishedAt"] is None
    return row | {
        "isRunning": is_open and context.stores.database.is_held(name),
        "why": run_reason_texts(row["reasons"], run, source=name, is_library=is_library),
        "meanings": run_note_texts(row["notes"], program_name()),
        "progress": run_live_report(connection, run, int(context.clock())),
        "before": None
        if before is None
        else next(run_table_report(connection, run=before, scans=False)),
        "after": after,
        "log": job_run_of_run(connection, run),
        "orders": [removal_order_data(order) for order in orders],
    }


def run_samples_data(
    connection: Connection, context: Context, run: int, reader: Reader
) -> dict[str, Any]:
    """Return the samples of a run under the keys of ``RunSamples``.

    Raises:
        ApiError: the caller may read no run of this number.
    """
    name = check_readable_run(connection, run, reader)
    found = run_samples_report(connection, run)
    is_open = found["finishedAt"] is None
    return found | {"isRunning": is_open and context.stores.database.is_held(name)}


def run_pages_data(
    connection: Connection, query: RunPagesQuery, run: int, reader: Reader
) -> dict[str, Any]:
    """Return a list of pages of a run under the keys of ``RunPages``.

    Raises:
        ApiError: the caller may read no run of this number.
    """
    check_readable_run(connection, run, reader)
    rows = run_page_rows(
        connection, run, RunList(query.list), limit=query.limit + 1, offset=query.offset
    )
    return {
        "pages": rows[: query.limit],
        "pagination": {
            "offset": query.offset,
            "limit": query.limit,
            "more": len(rows) > query.limit,
        },
    }


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of runs."""
    stores = context.stores

    @router.get(
        "/runs",
        tags=["runs"],
        summary="Runs of all sources or of one, newest first",
        response_model=Runs,
        openapi_extra={"parameters": described_api_query(RunsQuery)},
    )
    async def list_runs(request: Request) -> Response:
        query, reader = read_api_query(RunsQuery, request), context.reader(request)

        def work(connection: Connection) -> dict[str, Any]:
            names = chosen_source_names(connection, reader, query.source)
            return runs_data(connection, names, limit=query.limit, offset=query.offset)

        return json_response(await to_thread.run_sync(stores.read_moment, work))

    @router.get(
        "/runs/{run}",
        tags=["runs"],
        summary="A run: its counts, progress, and why it was not complete",
        response_model=RunStory,
        responses={404: {}},
        dependencies=[Depends(refuse_api_query)],
    )
    async def get_run(request: Request, run: RUN_OF_PATH) -> Response:
        no, reader = number_of_path(run, "run"), context.reader(request)
        work = partial(run_data, context=context, run=no, reader=reader)
        return json_response(await to_thread.run_sync(stores.read_moment, work))

    @router.get(
        "/runs/{run}/progress",
        tags=["runs"],
        summary="Samples of the progress of a run: done, waiting, requests, 304s, failures, bytes",
        response_model=RunSamples,
        responses={404: {}},
        dependencies=[Depends(refuse_api_query)],
    )
    async def get_progress_of_run(request: Request, run: RUN_OF_PATH) -> Response:
        no, reader = number_of_path(run, "run"), context.reader(request)
        work = partial(run_samples_data, context=context, run=no, reader=reader)
        return json_response(await to_thread.run_sync(stores.read_moment, work))

    @router.get(
        "/runs/{run}/pages",
        tags=["runs"],
        summary="Pages that a run found new, modified or lost, removed, or that failed",
        response_model=RunPages,
        responses={404: {}},
        openapi_extra={"parameters": described_api_query(RunPagesQuery)},
    )
    async def list_pages_of_run(request: Request, run: RUN_OF_PATH) -> Response:
        query, no = read_api_query(RunPagesQuery, request), number_of_path(run, "run")
        work = partial(run_pages_data, query=query, run=no, reader=context.reader(request))
        return json_response(await to_thread.run_sync(stores.read_moment, work))

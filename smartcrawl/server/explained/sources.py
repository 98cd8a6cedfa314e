"""Sources and hosts over HTTP: the reports of ``smartcrawl status`` and ``hosts``, as data."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from smartcrawl.extract.robots_txt import is_robots_txt
from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.hosts import host_rows
from smartcrawl.registry.jobs import load_stored_jobs_and_sources
from smartcrawl.registry.removal.tombstones import failed_start_sources
from smartcrawl.registry.visibility import readable_source_names, readable_sources
from smartcrawl.reports.freshness import FreshnessReport, freshness_reports
from smartcrawl.reports.status import (
    SourceStatus,
    reported_concerns,
    status_report,
    status_report_data,
    status_report_verdict,
)
from smartcrawl.reports.status_text import status_report_lines
from smartcrawl.reports.tables import run_table_report
from smartcrawl.reports.today import vanished_sources
from smartcrawl.reports.vectors import pushed_report_text, vector_counts_lines
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.context import Context
from smartcrawl.server.explained.answers import Hosts, Sources
from smartcrawl.server.explained.removals import chosen_source_names
from smartcrawl.server.queries import (
    KeptAnswers,
    Query,
    WholeNumber,
    described_api_query,
    json_response,
    read_api_query,
    refuse_api_query,
)
from smartcrawl.sources.declared import DeclaredSources

logger = logging.getLogger(__name__)

_SECONDS: Final = 10  #: age up to which a status counts
_MOST_READERS: Final = 100  #: answers that are kept, by the sources that they are about
_RUNS: Final = 10  #: last runs of a source, of which the counts are given
_MOST_HOSTS: Final = 1_000


class HostsQuery(Query):
    """The query of the hosts."""

    source: str | None = Field(
        default=None, max_length=255, description="Only hosts of this source", examples=["docs"]
    )
    limit: WholeNumber = Field(default=100, ge=1, le=_MOST_HOSTS)
    offset: WholeNumber = Field(default=0, ge=0, le=1_000_000_000)


def sources_data(
    connection: Connection, context: Context, names: Sequence[str], now: int
) -> dict[str, Any]:
    """Return the status of some sources under the keys of ``Sources``; ``now``: Unix seconds."""
    options, longest = context.options, context.options.schedule.longest
    declared = readable_declared_sources(connection, options)
    vanished: Collection[str] = ()
    wrong: Collection[str] = ()
    budgets = dict[str, FreshnessReport]()
    if declared is not None:
        vanished, wrong = vanished_sources(connection, options, declared), tuple(declared.wrong)
        budgets = freshness_reports(connection, declared, names, options.schedule, now)
    *found, total = status_report(
        connection,
        now,
        vanished=vanished,
        wrong=wrong,
        visibilities=context.visibilities(),
        readable=names,
        left_out=failed_start_sources(connection),
    )
    return {
        "at": iso_time(now),
        "sources": [
            _source(
                connection,
                context,
                status,
                now,
                longest=longest,
                budget=budgets.get(str(status.source)),
            )
            for status in found
        ],
        "total": _figures(total),
    }


def _figures(status: SourceStatus) -> dict[str, Any]:
    lines = status_report_lines(status)
    if status.vectors is not None:
        lines += vector_counts_lines(status.vectors)
    lines += [("pushed", pushed_report_text(counts)) for counts in status.pushed]
    figures = [{"label": label, "text": text} for label, text in lines]
    return status_report_data(status) | {"figures": figures}


def _source(
    connection: Connection,
    context: Context,
    status: SourceStatus,
    now: int,
    *,
    longest: int,
    budget: FreshnessReport | None,
) -> dict[str, Any]:
    name = str(status.source)
    verdict = status_report_verdict(status, now, longest=longest)
    last = status.last_run
    is_open = last is not None and last.finished_at is None
    runs = [
        {key: row[key] for key in ("run", "new", "modified", "lost", "removed")}
        for row in run_table_report(connection, sources=[name], most=_RUNS, scans=False)
        if row["finishedAt"] is not None
    ]
    figures, concerns = _figures(status), list[str]()
    if budget is not None:
        figures["figures"].append({"label": "freshness", "text": budget.text()})
        concerns = list(budget.concerns())
    return figures | {
        "freshness": None if budget is None else budget.data(),
        "verdict": str(verdict),
        "isWell": verdict.well,
        "isRunning": is_open and context.stores.database.is_held(name),
        "look": [{"text": text, "command": None} for text in concerns]
        + [
            {"text": one.text, "command": " ".join([program_name(), *one.command])}
            if one.command
            else {"text": one.text, "command": None}
            for one in reported_concerns(status, now, longest=longest)
        ],
        "runs": runs[::-1],
    }


def readable_declared_sources(connection: Connection, options: Options) -> DeclaredSources | None:
    """Return the sources of today; None where a file of them cannot be read, which is logged."""
    try:
        return load_stored_jobs_and_sources(options, connection)
    except SourceError as error:
        logger.error("%s", error)
        return None


def hosts_data(
    connection: Connection, context: Context, reader: Reader, query: HostsQuery
) -> dict[str, Any]:
    """Return the hosts of a query under the keys of ``Hosts``, by name.

    Raises:
        ApiError: the caller reads no source of this name.
    """
    names = chosen_source_names(connection, reader, query.source)
    rows = []
    if names:  # without any, those of all
        is_held = context.stores.database.is_held
        found = host_rows(
            connection,
            sources=names,
            is_running=is_held,
            is_robots_txt=is_robots_txt,
            readable=readable_sources(connection, reader),
        )
        rows = list(found)
    return {
        "hosts": rows[query.offset : query.offset + query.limit],
        "pagination": {"total": len(rows), "offset": query.offset, "limit": query.limit},
    }


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of sources and hosts."""
    stores = context.stores
    kept: KeptAnswers[dict[str, Any]] = KeptAnswers(_SECONDS, _MOST_READERS, context.clock)

    @router.get(
        "/sources",
        tags=["monitoring"],
        summary="Each source: its counts, last runs, verdict, and what deserves a look",
        response_model=Sources,
        dependencies=[Depends(refuse_api_query)],
    )
    async def list_sources(request: Request) -> Response:
        reader = context.reader(request)
        names = await stores.read_little(lambda seen: readable_source_names(seen, reader))

        def work() -> dict[str, Any]:
            now = int(context.clock())
            return stores.read(lambda connection: sources_data(connection, context, names, now))

        return json_response(await kept.get(tuple(names), work))

    @router.get(
        "/hosts",
        tags=["monitoring"],
        summary="Hosts: delay, requests in flight, errors, robots.txt, and why one gets no request",
        response_model=Hosts,
        openapi_extra={"parameters": described_api_query(HostsQuery)},
    )
    async def list_hosts(request: Request) -> Response:
        query, reader = read_api_query(HostsQuery, request), context.reader(request)

        def work(connection: Connection) -> dict[str, Any]:
            return hosts_data(connection, context, reader, query)

        return json_response(await to_thread.run_sync(stores.read, work))

"""The status of all items together: what ``smartcrawl status`` counts (E-17, R0-78)."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Depends, Response

from smartcrawl.registry.connection import Connection
from smartcrawl.reports.status import status_report
from smartcrawl.server.context import Context
from smartcrawl.server.data.answers import SearchStatus
from smartcrawl.server.data.kept import KeptAnswers
from smartcrawl.server.data.queries import json_response, refuse_api_query

_SECONDS: Final = 10  #: age up to which an answer counts


def api_search_status(connection: Connection, now: int) -> dict[str, Any]:
    """Return the counts and rates of all sources together."""
    total = status_report(connection, now)[-1]
    counts = total.counts
    return {
        "items": {
            "Pending": counts.pending,
            "Crawled": counts.crawled,
            "Indexed": counts.indexed,
            "Error": counts.error,
            "OutOfScope": counts.out_of_scope,
            "Gone": counts.gone,
        },
        "indexed": counts.indexed,
        "changeRate": total.changes.rate,
        "errorRate": counts.error_rate,
        "lost": counts.lost,
        "orphans": counts.orphans,
    }


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of the status."""
    stores = context.stores
    answers: KeptAnswers[dict[str, Any]] = KeptAnswers(_SECONDS, 1, context.clock)

    def work() -> dict[str, Any]:
        return stores.read(lambda connection: api_search_status(connection, int(context.clock())))

    @router.get(
        "/SearchStatus",
        tags=["monitoring"],
        summary="Items by status, and the rates of changes and errors",
        response_model=SearchStatus,
        dependencies=[Depends(refuse_api_query)],
    )
    async def search_status() -> Response:
        return json_response(await answers.get("", work))

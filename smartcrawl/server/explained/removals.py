"""Removals over HTTP: those that wait for approval, those that can be undone, and the orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import Field

from smartcrawl.model.options import Options
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.orders import latest_removal_order_rows
from smartcrawl.registry.removal.purge import Target, removal_rows
from smartcrawl.registry.visibility import readable_source_names
from smartcrawl.reports.removals import (
    LOST_TEXT,
    WaitingRemovals,
    removal_rule_counts,
    removal_target_report,
    reported_waiting_removals,
    withholding_text,
)
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.context import Context
from smartcrawl.server.errors import api_invalid_input
from smartcrawl.server.explained.answers import AllRemovals
from smartcrawl.server.explained.orders import removal_order_data
from smartcrawl.server.queries import (
    KeptAnswers,
    Query,
    WholeNumber,
    described_api_query,
    json_response,
    read_api_query,
)

_SECONDS: Final = 2  #: age up to which the lists count: several viewers share one look
_KEPT: Final = 20  #: lists that are kept, by their sources
_MOST_SAMPLE: Final = 1_000
_MOST_RUNS: Final = 100
_MOST_ORDERS: Final = 20


class RemovalsQuery(Query):
    """The query of the removals."""

    source: str | None = Field(
        default=None, max_length=255, description="Only this source", examples=["docs"]
    )
    limit: WholeNumber = Field(
        default=10, ge=0, le=_MOST_SAMPLE, description="Pages of each sample"
    )
    offset: WholeNumber = Field(default=0, ge=0, le=1_000_000_000)


def chosen_source_names(
    connection: Connection, reader: Reader, source: str | None
) -> Sequence[str]:
    """Return the sources that a caller may read, or the one of them that is asked for.

    Raises:
        ApiError: the caller may read no source of this name.
    """
    names = readable_source_names(connection, reader)
    if source is None:
        return names
    if source not in names:
        raise api_invalid_input("source", "source must be the name of a source that was crawled")
    return [source]


class RemovalLists:
    """What waits, is lost or is orphaned; lists of a few seconds ago are shared."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept: KeptAnswers[list[WaitingRemovals]] = KeptAnswers(_SECONDS, _KEPT, context.clock)

    async def of(self, names: Sequence[str]) -> list[WaitingRemovals]:
        """Return the lists of some sources."""
        stores, policy = self._context.stores, self._context.options.policy

        def work() -> list[WaitingRemovals]:
            return stores.read_moment(
                lambda connection: reported_waiting_removals(connection, policy, names)
            )

        return await self._kept.get(tuple(names), work)


def removals_data(
    connection: Connection,
    lists: Sequence[WaitingRemovals],
    options: Options,
    names: Sequence[str],
    *,
    limit: int,
    offset: int = 0,
) -> dict[str, Any]:
    """Return the lists under the keys of ``AllRemovals``, and what was removed and ordered."""

    def pages(targets: Sequence[Target], text: str = "") -> dict[str, Any]:
        return {
            "count": len(targets),
            "removable": sum(target.removable for target in targets),
            "rules": [] if text else removal_rule_counts(targets),
            "sample": [
                removal_target_report(one, text) for one in targets[offset : offset + limit]
            ],
        }

    why = withholding_text(options.sweep_max_ratio, options.sweep_min_count)
    removed = removal_rows(connection, sources=names) if names else []
    orders = latest_removal_order_rows(connection, sources=names, most=_MOST_ORDERS)
    return {
        "sources": [
            {
                "source": one.source,
                "stored": one.stored,
                "run": one.run,
                "why": why if one.waiting else None,
                "waiting": pages(one.waiting),
                "lost": pages(one.lost, LOST_TEXT),
                "orphans": pages(one.orphans),
            }
            for one in lists
        ],
        "removed": [
            {
                "run": one.run,
                "source": one.source,
                "removed": one.count,
                "undone": one.undone,
                "restorable": one.restorable,
                "removed_at": iso_time(one.at),
                "until_at": iso_time(one.at + options.undo_ttl),
            }
            for one in removed[:_MOST_RUNS]
        ],
        "orders": [removal_order_data(order) for order in orders],
        "pagination": {"offset": offset, "limit": limit},
    }


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of the removals."""
    stores = context.stores
    lists = RemovalLists(context)

    @router.get(
        "/removals",
        tags=["removals"],
        summary="Removals that wait for approval, can be undone, or were ordered",
        response_model=AllRemovals,
        openapi_extra={"parameters": described_api_query(RemovalsQuery)},
    )
    async def list_removals(request: Request) -> Response:
        query, reader = read_api_query(RemovalsQuery, request), context.reader(request)
        names = await stores.read_little(
            lambda connection: chosen_source_names(connection, reader, query.source)
        )
        found = await lists.of(names)

        def work(connection: Connection) -> dict[str, Any]:
            return removals_data(
                connection,
                found,
                context.options,
                names,
                limit=query.limit,
                offset=query.offset,
            )

        return json_response(await to_thread.run_sync(stores.read, work))

"""Addresses over HTTP: posted, they are asked by the next run of their source (E-08; R2-33)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pending_pins import (
    PendingPin,
    make_stored_addresses_due,
    store_pending_pin_rows,
    stored_address_ids,
)
from smartcrawl.server.context import Context
from smartcrawl.server.data.answers import PostedCounts
from smartcrawl.server.data.queries import refuse_api_query
from smartcrawl.server.frontier.addresses import PostedUrls
from smartcrawl.server.frontier.holders import Candidate, Holders
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.jobs.routes import job_request_body
from smartcrawl.sources.jobs.errors import JobError

#: The example of R2-33.
_EXAMPLE: Final = {
    "urls": [
        {
            "url": "https://example.com/article/123",
            "priority": 1,
            "metadata": {"source": "sitemap", "discovered_at": "2024-01-20T10:00:00Z"},
        }
    ]
}
_BODY: Final[dict[str, Any]] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/PostedUrls"},
            "example": _EXAMPLE,
        }
    },
}


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Checked addresses, and the sources of today."""

    candidates: list[Candidate]
    sources: list[str]


class _Posting:
    """Requests that post addresses.

    They are checked before the transaction, so that it is short.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._once = Once(context)

    async def post(self, request: Request) -> Response:
        """Store the new addresses of a request, all or none."""
        body = await request.body()
        prepared = await to_thread.run_sync(self._prepared, body)

        def work(connection: Connection) -> Reply:
            if isinstance(prepared, JobError):
                raise prepared
            return Reply.of(200, self._stored(connection, prepared))

        return await self._once.answer(request, body, work)

    def _prepared(self, body: bytes) -> _Prepared | JobError:
        """Return the checked addresses, or the error that is the reply to the request."""
        try:
            posted = PostedUrls.checked(job_request_body(body))
        except JobError as error:
            return error

        context = self._context

        def work(connection: Connection) -> _Prepared:
            holders = Holders(connection, context.options, context.server.robots)
            return _Prepared(holders.candidates(posted.urls), holders.names)

        return context.stores.read(work)

    def _stored(self, connection: Connection, prepared: _Prepared) -> dict[str, int]:
        """Store the new addresses, and make known ones due; return the counts of R2-34."""
        now = int(self._context.clock())
        ids = list({each.id: None for each in prepared.candidates})
        known = stored_address_ids(connection, ids, prepared.sources)
        make_stored_addresses_due(connection, sorted(known), prepared.sources, now)
        pins: list[PendingPin] = []
        duplicates = blocked = 0
        for each in prepared.candidates:
            if each.id in known:
                duplicates += 1
            elif each.source is None:
                blocked += 1
            else:
                known.add(each.id)
                pins.append(
                    PendingPin(each.source, each.id, each.url, each.host, now, each.priority)
                )
        store_pending_pin_rows(connection, pins)
        return {"added": len(pins), "duplicates": duplicates, "blocked": blocked}


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route that takes addresses."""
    posting = _Posting(context)

    @router.post(
        "/frontier/urls",
        tags=["data"],
        summary="Add addresses to their sources; the next run asks them, urgent ones first",
        response_model=PostedCounts,
        responses={409: {}, 422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER], "requestBody": _BODY},
    )
    async def post(request: Request) -> Response:
        return await posting.post(request)

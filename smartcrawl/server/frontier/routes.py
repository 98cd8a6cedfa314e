"""Addresses over HTTP: posted, they are asked by the next run of their source (E-08; R2-33)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pending_pins import (
    KnownAddress,
    PendingPin,
    known_address_rows,
    make_stored_addresses_due,
    store_pending_pin_rows,
)
from smartcrawl.server.context import Context
from smartcrawl.server.data.answers import PostedCounts
from smartcrawl.server.data.queries import refuse_api_query
from smartcrawl.server.frontier.addresses import PostedUrls
from smartcrawl.server.frontier.holders import Candidate, Holders
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.items.due_runs import post_due_run
from smartcrawl.sources.kinds import DOCUMENTS

_ADDED: Final = "added"
_DUPLICATE: Final = "duplicate"
_BLOCKED: Final = "blocked"


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

    async def post(self, request: Request, posted: PostedUrls) -> Response:
        """Store the new addresses of a request, all or none."""
        prepared = await to_thread.run_sync(self._prepared, posted)

        def work(connection: Connection) -> Reply:
            return Reply.of(200, self._stored(connection, prepared))

        return await self._once.answer(request, work)

    def _prepared(self, posted: PostedUrls) -> _Prepared:
        """Return the checked addresses."""
        context = self._context

        def work(connection: Connection) -> _Prepared:
            holders = Holders(connection, context.options, context.server.robots)
            return _Prepared(holders.candidates(posted.urls), holders.names)

        return context.stores.read(work)

    def _stored(self, connection: Connection, prepared: _Prepared) -> dict[str, Any]:
        """Store the new addresses, and make known ones due; return the counts of R2-34."""
        now = int(self._context.clock())
        ids = list({each.id: None for each in prepared.candidates})
        known = known_address_rows(connection, ids, prepared.sources)
        make_stored_addresses_due(connection, sorted(known), prepared.sources, now)
        pins: list[PendingPin] = []
        fates = []
        added: dict[bytes, tuple[str, ...]] = {}
        for each in prepared.candidates:
            fates.append(_fate(each, added.get(each.id), known.get(each.id)))
            if fates[-1]["result"] == _ADDED:
                added[each.id] = each.sources
                pins += (
                    PendingPin(source, each.id, each.url, each.host, now, each.priority)
                    for source in each.sources
                )
        store_pending_pin_rows(connection, pins)
        if any(pin.source == DOCUMENTS.name for pin in pins):
            post_due_run(connection, DOCUMENTS.name, now)  # it has no times of its own
        counts = Counter(fate["result"] for fate in fates)
        return {
            "added": counts[_ADDED],
            "duplicates": counts[_DUPLICATE],
            "blocked": counts[_BLOCKED],
            "urls": fates,
        }


def _fate(
    posted: Candidate, before: tuple[str, ...] | None, known: KnownAddress | None
) -> dict[str, Any]:
    """Return the fate of an address, with the reason.

    ``before``: the sources that it joined earlier in the same request. ``known``: that had it.
    """
    result, sources = _DUPLICATE, before or ()
    if before is not None:
        reason = "it was sent twice"
    elif known is not None:
        sources = (known.source,)
        has = f"{known.source} has it, and its next visit is due now"
        reason = has if known.is_record else f"it waits for the next run of {known.source}"
    elif not posted.sources:
        result, reason = _BLOCKED, posted.refusal
    elif posted.sources == (DOCUMENTS.name,):
        result, sources = _ADDED, posted.sources
        reason = f"no source has it in scope: it joined {DOCUMENTS.name}, and a run follows"
    else:
        result, sources = _ADDED, posted.sources
        reason = f"the next run of {' and of '.join(sources)} requests it"
    return {"url": posted.url, "result": result, "sources": list(sources), "reason": reason}


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route that takes addresses."""
    posting = _Posting(context)

    @router.post(
        "/frontier/urls",
        tags=["data"],
        summary="Add addresses to their sources; the next run requests urgent ones first",
        response_model=PostedCounts,
        responses={409: {}, 422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER]},
    )
    async def add_urls(request: Request, posted: PostedUrls) -> Response:
        return await posting.post(request, posted)

"""What the sources would do with addresses, without a request."""

from __future__ import annotations

from typing import Annotated, Any, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.urls import MAX_URL_LENGTH, normalize_url
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.names import stored_source_names
from smartcrawl.reports.decisions import AddressDecisions
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.bodies import names_private_job_address
from smartcrawl.server.context import Context
from smartcrawl.server.errors import api_not_found
from smartcrawl.server.explained.answers import Decisions
from smartcrawl.server.explained.records import ReadSources
from smartcrawl.server.queries import json_response, refuse_api_query
from smartcrawl.sources.jobs import declared_job_address

MOST_TRIED: Final = 100  #: addresses of a request
_PRIVATE: Final = "it names an address that ALLOW_NETWORKS does not allow"
_EXAMPLE: Final[dict[str, Any]] = {"urls": ["https://docs.example.com/guide"], "source": "docs"}


class TriedAddresses(BaseModel):
    """Addresses, and the source whose decision is wanted."""

    model_config = ConfigDict(
        strict=True, extra="forbid", json_schema_extra={"examples": [_EXAMPLE]}
    )

    urls: list[Annotated[str, Field(max_length=4 * MAX_URL_LENGTH)]] = Field(
        min_length=1, max_length=MOST_TRIED, description="Addresses that are tried"
    )
    source: str | None = Field(
        default=None,
        max_length=255,
        description="The only source that is asked; null: each that has the host of an address",
    )


def api_decisions(
    connection: Connection, *, context: Context, reader: Reader, tried: TriedAddresses
) -> dict[str, Any]:
    """Return the decisions under the keys of ``Decisions``.

    Raises:
        ApiError: the caller may read no source of this name.
    """
    sources = ReadSources(connection, context, reader)
    names = sorted({*stored_source_names(connection), *sources.known})
    names = [name for name in names if sources.may_read(name)]
    if tried.source is not None:
        if tried.source not in names:
            raise api_not_found("Source not found", reason="no source has this name")
        names = [tried.source]
    options = context.options
    guard = ConnectionGuard(options.allow_networks, options.allow_ports)
    found = AddressDecisions(connection, options, sources.known, sources.robots, names)
    return {
        "decisions": [
            _decided(url, found, sources, guard)
            for url in dict.fromkeys(url.strip() for url in tried.urls)
        ]
    }


def _decided(
    url: str, found: AddressDecisions, sources: ReadSources, guard: ConnectionGuard
) -> dict[str, Any]:
    """Return the decisions about one address, or why it cannot be crawled."""
    empty: dict[str, Any] = {"url": url, "records": [], "sources": [], "isAddress": False}
    if url_item_kind(normalize_url(url)) == "url":
        try:
            url = declared_job_address(url)
        except ValueError as error:
            return empty | {"sentence": f"Not an address that can be crawled: it {error}."}
        if names_private_job_address(url, guard):
            return empty | {"sentence": f"No crawl requests it: {_PRIVATE}."}
    return {"url": url, "isAddress": True} | found.about(url, sources.may_read)


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route."""
    stores = context.stores

    @router.post(
        "/decisions",
        tags=["data"],
        summary="What the sources would do with addresses: scope, robots.txt, patterns and login",
        response_model=Decisions,
        responses={404: {}},
        dependencies=[Depends(refuse_api_query)],
    )
    async def try_addresses(request: Request, tried: TriedAddresses) -> Response:
        reader = context.reader(request)

        def work(connection: Connection) -> dict[str, Any]:
            return api_decisions(connection, context=context, reader=reader, tried=tried)

        return json_response(await to_thread.run_sync(stores.read_moment, work))

"""Crawled documents: one by its id, and lists of them (E-10, E-11; R2-37 to R2-39)."""

from __future__ import annotations

import re
from typing import Annotated, Final

import can_ada
from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.connection import Connection
from smartcrawl.server.context import Context
from smartcrawl.server.data.answers import EXAMPLE_HASH, Document, Documents
from smartcrawl.server.data.cursors import CURSOR_PATTERN, Cursors, Place
from smartcrawl.server.data.document_rows import (
    LATEST,
    Filters,
    api_document,
    api_document_count,
    api_documents_page,
)
from smartcrawl.server.data.kept import KeptAnswers
from smartcrawl.server.data.queries import (
    TIME_PATTERN,
    Query,
    WholeNumber,
    described_api_query,
    first_second_of_parameter,
    json_response,
    json_text,
    json_text_response,
    last_second_of_parameter,
    read_api_query,
)
from smartcrawl.server.direct import DirectRoute
from smartcrawl.server.errors import api_invalid_input, api_not_found

_HASH: Final = re.compile("[0-9a-fA-F]{64}")
#: Account and container of Azure, which are the host of a file (ADR 62).
_CONTAINER: Final = re.compile("[a-z0-9]{3,24}/[a-z0-9$-]{3,63}")
_MOST: Final = 1_000  #: documents of a page
_LITTLE: Final = 1_000  #: rows before and in a page that the event loop may read
_TOTAL_SECONDS: Final = 10  #: age up to which a total counts
_TOTALS: Final = 1_000  #: totals that are kept


class OneQuery(Query):
    """The query of one document."""

    source: str | None = Field(
        default=None, max_length=255, description="Its source; else the latest visit counts"
    )


class ListQuery(Query):
    """The query of a list."""

    domain: str | None = Field(default=None, max_length=300, examples=["example.com"])
    from_: str | None = Field(
        default=None,
        alias="from",
        description="First day, or time",
        examples=["2024-01-01"],
        json_schema_extra={"pattern": TIME_PATTERN},
    )
    to: str | None = Field(
        default=None,
        description="Last day, or time, inclusive",
        examples=["2024-12-31"],
        json_schema_extra={"pattern": TIME_PATTERN},
    )
    limit: WholeNumber = Field(default=100, ge=1, le=_MOST)
    offset: WholeNumber = Field(default=0, ge=0, le=1_000_000_000, description="Not with a cursor")
    cursor: str | None = Field(
        default=None,
        description="The next_cursor of a page with the same filters",
        json_schema_extra={"pattern": CURSOR_PATTERN},
    )

    def filters(self) -> Filters:
        """Return the filters.

        Raises:
            ApiError: one of them is wrong.
        """
        since = 0 if self.from_ is None else first_second_of_parameter(self.from_, "from")
        until = LATEST if self.to is None else last_second_of_parameter(self.to, "to")
        if since > until:
            raise api_invalid_input("to", "to must not be before from")
        domain = self.domain
        if domain is not None and not _CONTAINER.fullmatch(domain):
            domain = api_host_parameter(domain)
        return Filters(domain, since, until)


def api_host_parameter(domain: str) -> str:
    """Return the host of a domain, as the registry names it; a port other than 80 and 443 counts.

    >>> [api_host_parameter(x) for x in ("Example.com:443", "bücher.example", "a.example:8080")]
    ['example.com', 'xn--bcher-kva.example', 'a.example:8080']

    Raises:
        ApiError: the text is none.
    """
    try:
        parsed = can_ada.parse(f"http://{domain}/")
    except ValueError:
        parsed = None
    if parsed is None or re.search(r"[/?#@\\\s]", domain) or not parsed.hostname:
        raise api_invalid_input(
            "domain", "domain must be a host such as example.com, without a path"
        )
    return url_host_key(parsed.href)


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of documents, which are asked most."""
    direct = APIRouter(prefix=router.prefix, route_class=DirectRoute)
    _add_document(context, direct)
    _add_list(context, direct)
    router.routes.extend(direct.routes)


def _add_document(context: Context, router: APIRouter) -> None:
    stores = context.stores

    @router.get(
        "/documents/{url_hash}",
        tags=["data"],
        summary="A crawled document, by the SHA-256 of its normalized address",
        response_model=Document,
        responses={404: {}},
        openapi_extra={"parameters": described_api_query(OneQuery)},
    )
    async def get_document(
        request: Request,
        url_hash: Annotated[
            str, Path(examples=[EXAMPLE_HASH], json_schema_extra={"pattern": f"^{_HASH.pattern}$"})
        ],
    ) -> Response:
        query = read_api_query(OneQuery, request)
        if not _HASH.fullmatch(url_hash):
            raise api_invalid_input("url_hash", "url_hash must be 64 hexadecimal digits")
        key = bytes.fromhex(url_hash)
        found = await stores.read_little(
            lambda connection: api_document(connection, key, query.source)
        )
        if found is None:
            raise api_not_found("Document not found", reason="no document has this url_hash")
        return json_response(found)


def _add_list(context: Context, router: APIRouter) -> None:
    stores = context.stores
    cursors = Cursors(stores)
    totals: KeptAnswers[int] = KeptAnswers(_TOTAL_SECONDS, _TOTALS, context.clock)

    @router.get(
        "/documents",
        tags=["data"],
        summary="Crawled documents, newest visit first",
        response_model=Documents,
        openapi_extra={"parameters": described_api_query(ListQuery)},
    )
    async def list_documents(request: Request) -> Response:
        query = read_api_query(ListQuery, request)
        filters = query.filters()
        await cursors.prepare()
        below = Place(filters.until + 1, 0)
        if query.cursor is not None:
            if query.offset:
                raise api_invalid_input("offset", "offset must not be given with a cursor")
            below = cursors.read(query.cursor, filters)
        total = await totals.get(
            filters,
            lambda: stores.read(lambda connection: api_document_count(connection, filters)),
        )
        rows, last = await _page(context, filters, below, query)
        pagination = {
            "total": total,
            "offset": query.offset,
            "limit": query.limit,
            "next_cursor": None if last is None else cursors.write(last, filters),
        }
        text = f'{{"documents":{rows},"pagination":{json_text(pagination)}}}'
        return json_text_response(text)


async def _page(
    context: Context, filters: Filters, below: Place, query: ListQuery
) -> tuple[str, Place | None]:
    """Return a page as JSON; a long one, or one far from the beginning of its list, in a thread."""

    def work(connection: Connection) -> tuple[str, Place | None]:
        return api_documents_page(connection, filters, below, query.limit, query.offset)

    if query.limit + query.offset <= _LITTLE:
        return await context.stores.read_little(work)
    return await to_thread.run_sync(context.stores.read, work)

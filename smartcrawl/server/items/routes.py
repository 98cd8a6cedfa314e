"""Orders over HTTP: add an address, index an item or all of them anew (E-13 to E-15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Self

from fastapi import APIRouter, Depends, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.urls import MAX_URL_LENGTH, normalize_url, url_digest, url_digests_of_id
from smartcrawl.registry.connection import Connection
from smartcrawl.server.context import Context
from smartcrawl.server.data.answers import AddedItem, QueuedItems, ReindexedItem
from smartcrawl.server.data.queries import refuse_api_query
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.items.orders import ItemOrders
from smartcrawl.sources.jobs import declared_job_address

_URL: Final = "https://docs.example.com/guide"
_Work = Callable[[ItemOrders], dict[str, Any]]


def _address(text: str) -> str:
    """Return an address, which may be that of a file; messages do not repeat it."""
    known = normalize_url(text)
    if not known.startswith(("http://", "https://")) and url_item_kind(known) == "file":
        return text
    return declared_job_address(text)


def _id(text: str) -> str:
    if url_digests_of_id(text) is None:
        raise ValueError("must be one of the registry, such as url_k7gxn3…")
    return text


def _true(value: bool) -> bool:
    if not value:
        raise ValueError("must be true")
    return value


def _order(**example: Any) -> ConfigDict:
    return ConfigDict(strict=True, extra="forbid", json_schema_extra={"examples": [example]})


class AddOrder(BaseModel):
    """An address to add."""

    model_config = _order(url=_URL, force=False)

    url: Annotated[str, AfterValidator(_address)] = Field(
        max_length=4 * MAX_URL_LENGTH, examples=[_URL]
    )
    force: bool = Field(default=False, description="Whether to index it anew if it is known")


class RebuildOrder(BaseModel):
    """Whether all pages are only visited again, or also indexed anew."""

    model_config = _order(force=True)

    force: bool = False


class ReindexOrder(BaseModel):
    """An item to index anew."""

    model_config = _order(source=_URL, force=True)

    id: Annotated[str, AfterValidator(_id)] | None = Field(
        default=None, max_length=255, description="As url_k7gxn3…"
    )
    source: Annotated[str, AfterValidator(_address)] | None = Field(
        default=None, max_length=4 * MAX_URL_LENGTH, description="Its address", examples=[_URL]
    )
    force: Annotated[bool, AfterValidator(_true)] = Field(examples=[True])

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.id is None) == (self.source is None):
            raise ValueError("exactly one of id and source must be given")
        return self


class _Orders:
    """Carries out the orders of requests, each key once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._once = Once(context)

    async def answer(self, request: Request, order: _Work) -> Response:
        """Answer with the result of an order."""

        def work(connection: Connection) -> Reply:
            now = int(self._context.clock())
            return Reply.of(202, order(ItemOrders(connection, self._context.options, now)))

        return await self._once.answer(request, work)


def _span(order: ReindexOrder, context: Context) -> tuple[bytes, bytes]:
    """Return the ids (32 bytes) between which those of an order are."""
    if order.source is not None:
        key = url_digest(normalize_url(order.source, context.options.trackers))
        return key, key
    span = url_digests_of_id(order.id or "")
    assert span is not None, "the id was checked"
    return span


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of orders."""
    orders = _Orders(context)

    @router.post(
        "/AddUrlDocument",
        tags=["items"],
        summary="Add an address; a run of what is due of its source follows",
        status_code=202,
        response_model=AddedItem,
        responses={409: {}, 422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER]},
    )
    async def add_url_document(request: Request, order: AddOrder) -> Response:
        return await orders.answer(request, lambda items: items.add(order.url, force=order.force))

    @router.post(
        "/ReindexItem",
        tags=["items"],
        summary="Index an item anew; a run of what is due of its source follows",
        status_code=202,
        response_model=ReindexedItem,
        responses={404: {}, 409: {}, 422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER]},
    )
    async def reindex_item(request: Request, order: ReindexOrder) -> Response:
        span, field = _span(order, context), "id" if order.source is None else "source"
        return await orders.answer(request, lambda items: items.reindex(*span, field))

    @router.post(
        "/RebuildIndex",
        tags=["items"],
        summary="Visit all pages again, or index them anew; runs of all sources follow",
        status_code=202,
        response_model=QueuedItems,
        responses={422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER]},
    )
    async def rebuild_index(request: Request, order: RebuildOrder) -> Response:
        return await orders.answer(request, lambda items: items.rebuild(force=order.force))

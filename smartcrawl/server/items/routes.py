"""Orders over HTTP: add an address, index an item or all of them anew (E-13 to E-15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Self, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.urls import MAX_URL_LENGTH, normalize_url, url_digest, url_digests_of_id
from smartcrawl.registry.connection import Connection
from smartcrawl.server.context import Context
from smartcrawl.server.data.answers import AddedItem, QueuedItems, ReindexedItem
from smartcrawl.server.data.queries import refuse_api_query
from smartcrawl.server.errors import ApiError, api_error_of_defects, api_invalid_input
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.items.orders import ItemOrders
from smartcrawl.sources.jobs.definition import declared_job_address

_URL: Final = "https://docs.example.com/guide"
_Body = TypeVar("_Body", bound=BaseModel)
_Work = Callable[[ItemOrders], dict[str, Any]]


def _address(name: str, *, of_files: bool = False) -> AfterValidator:
    """Return the check of an address; its messages do not repeat it.

    ``of_files``: whether it may be that of a file.
    """

    def checked(text: str) -> str:
        known = normalize_url(text)
        if (
            of_files
            and not known.startswith(("http://", "https://"))
            and url_item_kind(known) == "file"
        ):
            return text
        try:
            return declared_job_address(text)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None

    return AfterValidator(checked)


def _true(value: bool) -> bool:
    if not value:
        raise ValueError("force must be true")
    return value


class _Order(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)


class AddOrder(_Order):
    """An address to add."""

    url: Annotated[str, _address("url", of_files=True)] = Field(
        max_length=4 * MAX_URL_LENGTH, examples=[_URL]
    )
    force: bool = Field(default=False, description="Whether to index it anew if it is known")


class RebuildOrder(_Order):
    """Whether all pages are only visited again, or also indexed anew."""

    force: bool = False


class ReindexOrder(_Order):
    """An item to index anew."""

    id: str | None = Field(default=None, max_length=255, description="As url_k7gxn3…")
    source: Annotated[str, _address("source", of_files=True)] | None = Field(
        default=None, max_length=4 * MAX_URL_LENGTH, description="Its address", examples=[_URL]
    )
    force: Annotated[bool, AfterValidator(_true)] = Field(examples=[True])

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.id is None) == (self.source is None):
            raise ValueError("exactly one of id and source must be given")
        return self


def checked_request_body(model: type[_Body], body: bytes) -> _Body:
    """Return the body of a request, which the layer of bodies has checked.

    Raises:
        ApiError: there is none, or it does not fit.
    """
    if not body:
        raise api_invalid_input(None, "a JSON body is missing")
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        defects = error.errors(include_url=False, include_input=False)
        raise api_error_of_defects(
            [{**defect, "loc": ("body", *defect["loc"])} for defect in defects]
        ) from None  # its text would repeat the request


def _described(model: type[BaseModel], **example: object) -> dict[str, Any]:
    """Return the description of a request, whose body the route reads itself."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    content = {"schema": schema, "example": example}
    body = {"required": True, "content": {"application/json": content}}
    return {"parameters": [KEY_PARAMETER], "requestBody": body}


class _Orders:
    """Carries out the orders of requests, each key once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._once = Once(context)

    async def answer(self, request: Request, ordered: Callable[[bytes], _Work]) -> Response:
        """Answer with the result of the order that ``ordered`` reads out of the body.

        Raises:
            ApiError: the body is wrong, and has no key.
        """
        body = await request.body()
        try:
            order = ordered(body)
        except ApiError as error:
            return await self._once.refuse(request, body, error)

        def work(connection: Connection) -> Reply:
            now = int(self._context.clock())
            return Reply.of(202, order(ItemOrders(connection, self._context.options, now)))

        return await self._once.answer(request, body, work)


def _span(order: ReindexOrder, context: Context) -> tuple[bytes, bytes]:
    """Return the ids (32 bytes) between which those of an order are.

    Raises:
        ApiError: the id has not the form of one.
    """
    if order.source is not None:
        key = url_digest(normalize_url(order.source, context.options.trackers))
        return key, key
    span = url_digests_of_id(order.id or "")
    if span is None:
        raise api_invalid_input("id", "id must be one of the registry, such as url_k7gxn3…")
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
        openapi_extra=_described(AddOrder, url=_URL, force=False),
    )
    async def add_url_document(request: Request) -> Response:
        def ordered(body: bytes) -> _Work:
            order = checked_request_body(AddOrder, body)
            return lambda items: items.add(order.url, force=order.force)

        return await orders.answer(request, ordered)

    @router.post(
        "/ReindexItem",
        tags=["items"],
        summary="Index an item anew; a run of what is due of its source follows",
        status_code=202,
        response_model=ReindexedItem,
        responses={404: {}, 409: {}, 422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra=_described(ReindexOrder, source=_URL, force=True),
    )
    async def reindex_item(request: Request) -> Response:
        def ordered(body: bytes) -> _Work:
            order = checked_request_body(ReindexOrder, body)
            span = _span(order, context)
            field = "id" if order.source is None else "source"
            return lambda items: items.reindex(*span, field)

        return await orders.answer(request, ordered)

    @router.post(
        "/RebuildIndex",
        tags=["items"],
        summary="Visit all pages again, or index them anew; runs of all sources follow",
        status_code=202,
        response_model=QueuedItems,
        responses={422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra=_described(RebuildOrder, force=True),
    )
    async def rebuild_index(request: Request) -> Response:
        def ordered(body: bytes) -> _Work:
            order = checked_request_body(RebuildOrder, body)
            return lambda items: items.rebuild(force=order.force)

        return await orders.answer(request, ordered)

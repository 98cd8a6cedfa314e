"""Keys over HTTP: list, make and revoke them, with a key of scope admin (ADR 170)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from smartcrawl.model.redaction import redacted_line
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.server.answers import EXAMPLE_KEY, Keys, NewKey
from smartcrawl.server.context import Context
from smartcrawl.server.errors import ApiError, api_invalid_input, api_not_found
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.keys import (
    MOST_KEY_DAYS,
    Key,
    Scope,
    find_listed_key,
    list_api_keys,
    make_api_key,
    reason_against_key_sources,
    revoke_api_key,
)
from smartcrawl.server.queries import json_response, refuse_api_query
from smartcrawl.sources.fields import Between, JsonInteger
from smartcrawl.sources.jobs import INVALID_INPUT, JobError

_DAY: Final = 86_400  #: seconds
_LONGEST: Final = 255  #: characters of a name
_MOST_SOURCES: Final = 1_000
_KEY_ID: Final = re.compile("[0-9a-f]{12}")
_NO_KEY: Final = "Key not found"
_NO_ID: Final = "no key has this id"
_ID = Annotated[str, Path(examples=[EXAMPLE_KEY])]
_NO_ADMIN: Final = (
    "keys take a key of scope admin, also where no other request needs one; the command line makes"
    " the first: smartcrawl serve --create-key NAME --scope admin"
)


def _key_name(text: str) -> str:
    name = redacted_line(text.strip())
    if not name:
        raise ValueError("must be a word for what the key is for, such as grafana")
    return name


class KeyOrder(BaseModel):
    """What a new key is for, and what it permits."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        json_schema_extra={"examples": [{"name": "grafana", "scope": "read", "expires_days": 365}]},
    )

    name: Annotated[str, AfterValidator(_key_name)] = Field(
        min_length=1, max_length=_LONGEST, description="What it is for: a program or a person"
    )
    scope: Literal["search", "read", "operate", "admin"] = Field(
        default="read",
        description="What it permits. search: searches of its sources alone; read: to read what is"
        " stored; operate: to start and change crawls, too; admin: everything",
    )
    sources: list[Annotated[str, Field(min_length=1, max_length=_LONGEST)]] = Field(
        default=[],
        max_length=_MOST_SOURCES,
        description="Names of the sources that it reads; none: the public ones, with the scope"
        " admin all",
    )
    expires_days: Annotated[JsonInteger, Between(1, MOST_KEY_DAYS)] | None = Field(
        default=None, description="Days until it expires; without, it does not"
    )


def key_data(key: Key, now: float) -> dict[str, Any]:
    """Return a key under the keys of ``KeyHead``."""
    return {
        "key_id": key.id,
        "name": key.name,
        "scope": key.scope.name.lower(),
        "sources": list(key.sources) or None,
        "created_at": iso_time(key.created),
        "expires_at": iso_time(key.expires),
        "revoked_at": iso_time(key.revoked),
        "counts": key.counts(now),
    }


def _refuse_without_key(request: Request) -> None:
    """Refuse a request without a key also where none is needed: a new key would read more.

    Raises:
        ApiError: the request has no key.
    """
    if request.scope.get("smartcrawl.key") is None:
        raise ApiError("FORBIDDEN", reason=_NO_ADMIN)


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of keys."""
    stores, once = context.stores, Once(context)
    described: dict[str, Any] = {
        "tags": ["access"],
        "dependencies": [Depends(refuse_api_query)],
    }

    @router.get(
        "/keys", summary="All API keys, without their texts", response_model=Keys, **described
    )
    async def list_keys(request: Request) -> Response:
        _refuse_without_key(request)
        found = await to_thread.run_sync(stores.read, list_api_keys)
        return json_response({"keys": [key_data(key, context.clock()) for key in found]})

    @router.post(
        "/keys",
        summary="Make an API key; its text is answered once",
        status_code=201,
        response_model=NewKey,
        responses={422: {}},
        openapi_extra={"parameters": [KEY_PARAMETER]},
        **described,
    )
    async def create_key(request: Request, order: KeyOrder) -> Response:
        _refuse_without_key(request)
        return await _made(context, once, request, order)

    @router.delete(
        "/keys/{key_id}",
        summary="Revoke an API key; servers refuse it within 5 seconds",
        status_code=204,
        responses={404: {}},
        **described,
    )
    async def revoke_key(request: Request, key_id: _ID) -> Response:
        _refuse_without_key(request)
        if await request.body():
            raise api_invalid_input(None, "DELETE takes no body")
        if not _KEY_ID.fullmatch(key_id):
            raise api_not_found(_NO_KEY, reason=_NO_ID)

        def work(connection: Connection) -> bool:
            revoke_api_key(connection, key_id, int(context.clock()))
            return find_listed_key(connection, key_id) is not None

        if not await stores.write_in_turn(work):
            raise api_not_found(_NO_KEY, reason=_NO_ID)
        return Response(status_code=204)


async def _made(context: Context, once: Once, request: Request, order: KeyOrder) -> Response:
    """Make a key, each Idempotency-Key once."""
    texts: dict[str, str] = {}  # by the id of the key: a conflict repeats the work

    def work(connection: Connection) -> Reply:
        now, scope = int(context.clock()), Scope[order.scope.upper()]
        reason = reason_against_key_sources(scope, order.sources)
        if reason is not None:
            raise JobError(INVALID_INPUT, field="sources", reason=reason)
        days = order.expires_days
        text, key = make_api_key(
            connection,
            order.name,
            scope,
            now,
            expires=None if days is None else now + days * _DAY,
            sources=list(dict.fromkeys(order.sources)),
        )
        texts[key.id] = text
        place = f"{request.url.path}/{key.id}"
        return Reply.of(201, key_data(key, now) | {"key": None}, Location=place)

    answer = await once.answer(request, work)
    return _with_text(answer, texts)


def _with_text(answer: Response, texts: Mapping[str, str]) -> Response:
    """Return the answer with the text of the key, which is stored with no reply."""
    if answer.status_code != 201:
        return answer
    data = json.loads(bytes(answer.body))
    found = data | {"key": texts.get(data["key_id"])}
    return Reply.of(201, found, Location=answer.headers["Location"]).response()

"""Requests with an Idempotency-Key are carried out once (R2-14 to R2-19, M-40, ADR 54).

The key is inserted first. The work and the stored reply are in the same transaction, so that
either all of it happened or nothing did. A second request waits for the first, and gets its reply.
The reply to an order is stored at once, and once more when its effect is known (ADR 57).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from fastapi import Request, Response
from redis.asyncio import Redis
from redis.exceptions import RedisError

from smartcrawl.registry.connection import Connection
from smartcrawl.server.context import Context
from smartcrawl.server.errors import (
    ApiError,
    api_error_of_job,
    api_invalid_input,
    error_response,
    request_id_of,
)
from smartcrawl.server.keys import KEPT
from smartcrawl.sources.jobs import JobError

logger = logging.getLogger(__name__)

HEADER: Final = "Idempotency-Key"
_CHANGES: Final = ("POST", "PUT")
MOST: Final = 1_000  #: keys of one API key that are kept
_HEX: Final = "[0-9a-fA-F]"
#: Of a UUID of version 4.
KEY_PATTERN: Final = f"^{_HEX}{{8}}-{_HEX}{{4}}-4{_HEX}{{3}}-[89abAB]{_HEX}{{3}}-{_HEX}{{12}}$"
_UUID: Final = re.compile(KEY_PATTERN)
_REDIS_SECONDS: Final = 0.5  #: for Redis to take a copy
_NEWEST: Final = "SELECT max(created_at) FROM reply"
_FORGET: Final = "DELETE FROM reply WHERE created_at <= ?"
_INSERT: Final = """
INSERT INTO reply (owner, method, path, key, request_hash, created_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (owner, method, path, key) DO NOTHING RETURNING 1
"""
_LOOK: Final = """
SELECT request_hash, status, headers, body, pending FROM reply
 WHERE owner = ? AND method = ? AND path = ? AND key = ?
"""
_COUNT: Final = "SELECT count(*) FROM reply WHERE owner = ?"
_KEEP: Final = """
UPDATE reply SET status = ?, headers = ?, body = ?, pending = ?
 WHERE owner = ? AND method = ? AND path = ? AND key = ?
"""
#: The first of the servers that wait for an effect stores it; the others answer the same.
_SETTLE: Final = """
UPDATE reply SET status = ?, headers = ?, body = ?, pending = FALSE
 WHERE owner = ? AND method = ? AND path = ? AND key = ? AND pending
"""
_EXAMPLE: Final = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
#: The header as OpenAPI describes it.
KEY_PARAMETER: Final = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": KEY_PATTERN, "examples": [_EXAMPLE]},
    "description": "A UUID of version 4: the request is carried out once in 24 hours",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that can be stored."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)
    pending: bool = False  #: the effect of an order is not known yet

    @classmethod
    def of(cls, status: int, data: Mapping[str, Any], **headers: str) -> Reply:
        """Return an answer with data as JSON."""
        return cls(status, json.dumps(data, separators=(",", ":"), allow_nan=False), headers)

    def response(self) -> Response:
        """Return it as a response."""
        return Response(self.body, self.status, dict(self.headers), media_type="application/json")


Work = Callable[[Connection], Reply]
#: Waits for the effect of an order; returns the reply with it, or else the given one.
Settling = Callable[[Reply], Awaitable[Reply]]


class Once:
    """Carries out requests that change something, each key once."""

    def __init__(self, context: Context) -> None:
        self._stores = context.stores
        self._clock = context.clock
        self._time = context.key_time
        self._required = context.server.require_idempotency_key
        self._redis = context.options.redis

    async def answer(
        self, request: Request, work: Work, settling: Settling | None = None
    ) -> Response:
        """Answer a request with its stored reply, or with that of ``work``.

        ``work`` uses the connection of a transaction, and raises JobError before it writes. If
        its reply is pending, that of ``settling`` takes its place.

        Raises:
            ApiError: the key is missing, is no UUID, or came with another request.
            JobError: of work, where there is no key.
        """
        key = self._key(request)
        if key is None:
            reply = await self._stores.write_in_turn(work)
            return (await _settled(reply, settling)).response()
        row = (_owner(request), request.method, request.url.path, key)
        head = f"{request.url.query}\n{request.headers.get('if-match', '')}\n"
        asked = sha256(head.encode() + await request.body()).digest()

        def once(connection: Connection) -> Reply:
            return self._once(connection, row, asked, _errors_replied(request, work))

        reply = await self._stores.write_in_turn(once)
        if reply.pending:
            found = await _settled(reply, settling)
            reply = await self._stores.write_in_turn(lambda at: _kept(at, row, found))
        await self._copy(key, reply)
        return reply.response()

    async def refuse(self, request: Request, error: ApiError) -> Response:
        """Answer a request that is refused before any work; its key keeps the refusal, too."""
        try:
            if request.method in _CHANGES and self._key(request) is not None:
                return await self.answer(request, lambda _: _error_replied(request, error))
        except ApiError as wrong:  # about the key
            error = wrong
        return error_response(error, request_id_of(request.scope))

    def _key(self, request: Request) -> str | None:
        given = request.headers.getlist(HEADER)
        if not given:
            if self._required:
                raise api_invalid_input(HEADER, f"{HEADER} is missing: send a UUID of version 4")
            return None
        key = given[0].lower()
        if len(given) > 1 or not _UUID.fullmatch(key):
            raise api_invalid_input(HEADER, f"{HEADER} must be one UUID of version 4")
        return key

    def _once(
        self, connection: Connection, row: tuple[str, ...], asked: bytes, work: Work
    ) -> Reply:
        now = self._time.at(int(self._clock()), connection.execute(_NEWEST).get)
        connection.execute(_FORGET, (now - KEPT,))
        if connection.execute(_INSERT, (*row, asked, now)).get is None:
            found: Any = connection.execute(_LOOK, row).fetchone()
            if bytes(found[0]) != asked:
                reason = "send a new key with a new request"
                raise ApiError("IDEMPOTENCY_KEY_REUSED", field=HEADER, reason=reason)
            return _stored(found)
        if int(connection.execute(_COUNT, row[:1]).get) > MOST:
            reason = f"a client has at most {MOST} keys in 24 hours: send some requests without one"
            raise ApiError("RATE_LIMITED", reason=reason, headers={"Retry-After": "3600"})
        reply = work(connection)
        connection.execute(_KEEP, (*_values(reply), reply.pending, *row))
        return reply

    async def _copy(self, key: str, reply: Reply) -> None:
        """Put a copy of a reply into Redis for other programs (R2-15); it decides nothing."""
        if self._redis is None:
            return
        text = json.dumps({"status": reply.status, "body": reply.body})
        try:
            async with Redis.from_url(
                self._redis, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS
            ) as redis:
                await redis.set(f"idempotency:{key}", text, ex=KEPT)
        except (RedisError, OSError) as error:
            logger.warning("Redis got no copy of a reply: %s", error)


async def _settled(reply: Reply, settling: Settling | None) -> Reply:
    return await settling(reply) if reply.pending and settling is not None else reply


def _kept(connection: Connection, row: tuple[str, ...], reply: Reply) -> Reply:
    """Store the reply to an order with its effect; return the one that is stored."""
    connection.execute(_SETTLE, (*_values(reply), *row))
    return _stored(connection.execute(_LOOK, row).fetchone())


def _values(reply: Reply) -> tuple[int, str, str]:
    return reply.status, json.dumps(dict(reply.headers)), reply.body


def _stored(found: Any) -> Reply:
    return Reply(found[1], found[3], json.loads(found[2]), bool(found[4]))


def _errors_replied(request: Request, work: Work) -> Work:
    """Return work whose refusals are replies as well: they are kept, too."""

    def replied(connection: Connection) -> Reply:
        try:
            return work(connection)
        except JobError as error:
            return _error_replied(request, api_error_of_job(error))

    return replied


def _error_replied(request: Request, error: ApiError) -> Reply:
    response = error_response(error, request_id_of(request.scope))
    return Reply(response.status_code, bytes(response.body).decode(), error.headers)


def _owner(request: Request) -> str:
    key = request.scope["smartcrawl.key"]
    return "" if key is None else str(key.id)

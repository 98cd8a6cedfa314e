"""Checks of bodies, paths and queries: JSON of at most 1 MiB that both databases can store.

A body is read and checked whole before a route gets it, so that no value can fail deeper down:
NUL in PostgreSQL, lone surrogates in UTF-8, numbers beyond 64 bits in both.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, Final, NoReturn

from anyio import move_on_after, to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smartcrawl.model.urls import url_endpoint
from smartcrawl.rules.connections import (
    METADATA_NAMES,
    ConnectionGuard,
    bare_connection_host,
    literal_connection_address,
)
from smartcrawl.server.errors import ApiError, api_invalid_input, send_error_response

LIMIT: Final = 1_048_576  #: bytes
_LIMIT_OF_NOTICES: Final = 4 * LIMIT  #: 10,000 addresses of 400 bytes
#: Paths of notices from outside.
_NOTICES: Final = ("/indexnow", "/api/v1/hooks/")
_DISCARDED: Final = 16 * LIMIT  #: bytes of a body that is too large that are read, at most
_SECONDS: Final = 2.0  #: for them
_LITTLE: Final = 16_384  #: bytes that the event loop may check
DEPTH: Final = 32  #: arrays and objects within each other
_LARGEST: Final = 2**63  #: exclusive; the smallest integer is -2**63
_DIGITS: Final = 20  #: of an integer, with its sign
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_NESTING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


class Bodies:
    """The layer that reads and checks the body, the path and the query of a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body in one piece."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            check_request_address(scope)
            limit = _LIMIT_OF_NOTICES if scope["path"].startswith(_NOTICES) else LIMIT
            _check_length(headers, limit)
            body = await _read(receive, limit)
            if body:
                _check_headers(headers)
                if len(body) <= _LITTLE:
                    check_json_body(body)
                else:  # a second of work at most, in which others are served
                    await to_thread.run_sync(check_json_body, body)
        except ApiError as error:
            if error.code == "PAYLOAD_TOO_LARGE" and "expect" not in headers:
                await _discard_rest(receive)
            await send_error_response(scope, receive, send, error)
            return
        if body is not None:
            await self._app(scope, _replayed(body, receive), send)


def check_request_address(scope: Scope) -> None:
    """Refuse NUL in path and query: no page has it, and PostgreSQL refuses it as a value.

    Raises:
        ApiError: there is one.
    """
    if "\x00" in scope["path"] or b"%00" in scope.get("query_string", b""):
        raise api_invalid_input(None, "path and query must not contain NUL (%00)")


def _check_length(headers: Headers, limit: int) -> None:
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> ApiError:
    headers = {"Connection": "close"}  # not all of the rest is read
    reason = f"a body has at most {limit} bytes"
    return ApiError("PAYLOAD_TOO_LARGE", reason=reason, headers=headers)


async def _discard_rest(receive: Receive) -> None:
    """Read some more of a body that is too large: a proxy that cannot send it answers with 502."""
    left = _DISCARDED
    with move_on_after(_SECONDS):
        while left > 0:
            message = await receive()
            left -= len(message.get("body", b""))
            if not message.get("more_body", False):
                return


async def _read(receive: Receive, limit: int) -> bytes | None:
    """Return the body; None if the client went away."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that yields the body first."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _check_headers(headers: Headers) -> None:
    """Refuse what a form of a web page could send, and compressed bodies."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise api_invalid_input("Content-Type", "Content-Type must be application/json")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise api_invalid_input("Content-Encoding", "the body must not be compressed")


def check_json_body(body: bytes) -> None:
    """Refuse a body that is no JSON, or has values that cannot be stored.

    Raises:
        ApiError: with the reason.
    """
    _check_depth(body)
    try:
        value = json.loads(
            body.decode("utf-8"),
            parse_constant=_refused_constant,
            parse_int=_integer,
            parse_float=_float,
        )
    except UnicodeDecodeError as error:
        raise api_invalid_input(None, "the body must be UTF-8") from error
    except json.JSONDecodeError as error:
        reason = f"the body is no JSON: {error.msg} at character {error.pos + 1}"
        raise api_invalid_input(None, reason) from error
    _check_texts(value)


def _check_depth(body: bytes) -> None:
    depth = 0
    for found in _NESTING.finditer(body):
        mark = found[0]
        depth += (mark in (b"[", b"{")) - (mark in (b"]", b"}"))
        if depth > DEPTH:
            raise api_invalid_input(None, f"the body is nested deeper than {DEPTH} levels")


def _refused_constant(name: str) -> NoReturn:
    raise api_invalid_input(None, f"{name} is no number of JSON")


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) <= _DIGITS else _LARGEST
    if not -_LARGEST <= value < _LARGEST:
        raise api_invalid_input(None, "integers must fit into 64 bits")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise api_invalid_input(None, "a number is too large")
    return value


def _check_texts(value: Any) -> None:
    """Refuse texts and keys with NUL or a lone surrogate."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            if _UNSTORABLE.search(value):
                raise api_invalid_input(None, "texts must not contain NUL or lone surrogates")
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            pending += value
            pending += value.values()


def names_private_job_address(url: str, guard: ConnectionGuard) -> bool:
    """Whether a request URL names a private address that is not allowed.

    Other names are checked when they are resolved. The port counts as permitted: the scope of a
    source has it.
    """
    host, port = url_endpoint(url)
    name = bare_connection_host(host)
    if literal_connection_address(name) is None and name.rstrip(".") not in METADATA_NAMES:
        return False
    guard.permit_port(host, port)
    return guard.refusal(name, host=host, port=port) is not None

"""Errors of the API, all in one envelope, with the id of their request (R2-09 to R2-13).

An error is raised as ``ApiError`` anywhere below a route, or answered by a layer with
``send_error_response``. Its code decides its status.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smartcrawl.model.exceptions import (
    EmbedderError,
    FrontierError,
    RegistryError,
    SinkError,
)
from smartcrawl.model.redaction import redacted_line
from smartcrawl.sources.jobs import JobError, job_error_of_defect

logger = logging.getLogger(__name__)


#: Each code with its status (R2-10) and the message that it has unless another is given.
CODES: Final[Mapping[str, tuple[int, str]]] = {
    "INVALID_INPUT": (400, "Request validation failed"),
    "INVALID_CONFIG": (400, "Crawl configuration is invalid"),
    "INVALID_URL": (400, "URL format is invalid"),
    "UNAUTHORIZED": (401, "A valid API key is needed"),
    "FORBIDDEN": (403, "This request is not permitted"),
    "NOT_FOUND": (404, "Nothing was found at this path"),
    "METHOD_NOT_ALLOWED": (405, "This path does not take this method"),
    "CONFLICT": (409, "The request conflicts with the present state"),
    "PAYLOAD_TOO_LARGE": (413, "The request is too large"),
    "IDEMPOTENCY_KEY_REUSED": (422, "This Idempotency-Key was used with another request"),
    "UNPROCESSABLE": (422, "The notice is about nothing that is crawled here"),
    "RATE_LIMITED": (429, "Too many requests in this minute"),
    "INTERNAL_ERROR": (500, "An unexpected error occurred"),
    "SERVICE_UNAVAILABLE": (503, "A backing store is not available"),
}
RETRY_AFTER: Final = 5  #: seconds, with a 503

_Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]


class ApiError(Exception):
    """An error with its code; ``message`` None: the one of the code."""

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        field: str | None = None,
        reason: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.code = code
        self.status, usual = CODES[code]
        self.message = usual if message is None else message
        self.field = field
        self.reason = reason
        self.headers = dict(headers or {})
        super().__init__(self.message)


def api_not_found(message: str | None = None, *, reason: str | None = None) -> ApiError:
    """Return the error of a thing that does not exist."""
    return ApiError("NOT_FOUND", message, reason=reason)


def api_invalid_input(field: str | None, reason: str) -> ApiError:
    """Return the error of a request that is wrong in ``field``."""
    return ApiError("INVALID_INPUT", field=field, reason=reason)


def api_unavailable(reason: str, *, seconds: int = RETRY_AFTER) -> ApiError:
    """Return the error of a store that is away; a client may ask again after ``seconds``."""
    headers = {"Retry-After": str(seconds)}
    return ApiError("SERVICE_UNAVAILABLE", reason=reason, headers=headers)


def api_error_of_job(error: JobError) -> ApiError:
    """Return the error of a request about jobs."""
    return ApiError(error.code, error.message, field=error.field, reason=error.reason)


def error_response(error: ApiError, request_id: str) -> Response:
    """Return an error in its envelope, in ASCII: any text can be sent."""
    details = {"field": error.field, "reason": error.reason}
    envelope = {
        "error": {
            "code": error.code,
            "message": error.message,
            "details": {name: text for name, text in details.items() if text is not None},
            "request_id": request_id,
        }
    }
    body = json.dumps(envelope, separators=(",", ":"))
    return Response(body, error.status, error.headers, media_type="application/json")


async def send_error_response(scope: Scope, receive: Receive, send: Send, error: ApiError) -> None:
    """Answer a request with an error, in a layer around the routes."""
    await error_response(error, request_id_of(scope))(scope, receive, send)


def request_id_of(scope: Scope) -> str:
    """Return the id of a request, which the layer of request ids has set."""
    return str(scope["smartcrawl.request_id"])


def add_error_handlers(
    api: FastAPI, refuse: Callable[[Request, ApiError], Awaitable[Response]]
) -> None:
    """Turn every error of the routes into the envelope.

    ``refuse``: answers a request whose body is wrong, and keeps the answer with its key.
    """

    async def refused(request: Request, error: Any) -> Response:
        defect = error.errors()[0]
        found = api_error_of_job(job_error_of_defect(defect, defect["loc"][1:]))
        return await refuse(request, found)

    kinds: Mapping[type[Exception], Callable[[Request, Any], ApiError]] = {
        ApiError: _as_raised,
        JobError: lambda _, error: api_error_of_job(error),
        HTTPException: _of_routing,
        RegistryError: _of_store,
        SinkError: _of_store,
        FrontierError: _of_store,
        EmbedderError: _of_store,
        Exception: _of_anything,
    }
    for kind, error_of in kinds.items():
        api.add_exception_handler(kind, _handler(error_of))
    api.add_exception_handler(RequestValidationError, refused)


def _handler(error_of: Callable[[Request, Any], ApiError]) -> _Handler:
    async def handle(request: Request, error: Any) -> Response:
        return error_response(error_of(request, error), request_id_of(request.scope))

    return handle


def _as_raised(_: Request, error: ApiError) -> ApiError:
    return error


def _of_anything(_: Request, __: Exception) -> ApiError:
    """Return the error without any text of the exception; ``Faults`` logs that."""
    return ApiError("INTERNAL_ERROR")


def _of_store(_: Request, error: Exception) -> ApiError:
    """Return the error of a store that is away; its text, with its place, is only logged."""
    logger.error("%s", error)
    kinds = {
        RegistryError: "the registry",
        SinkError: "the search index",
        FrontierError: "Redis",
        EmbedderError: "the embedder of the vectors",
    }
    what = next(name for kind, name in kinds.items() if isinstance(error, kind))
    return api_unavailable(f"{what} is not available")


def _of_routing(request: Request, error: HTTPException) -> ApiError:
    """Return the error of an unknown path; ``Methods`` has that of a method."""
    path = redacted_line(request.url.path)
    if error.status_code == 404:
        return api_not_found(reason=f"there is no endpoint {path}; /openapi.json lists them")
    if error.status_code == 400:
        return api_invalid_input(None, "the body could not be read")
    return ApiError("INTERNAL_ERROR")


_CURRENT: Final[ContextVar[str | None]] = ContextVar("request_id", default=None)


class RequestIds:
    """The outermost layer: it names the request; an id of the client's is not taken."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{secrets.token_hex(8)}"
        scope["smartcrawl.request_id"] = request_id
        header = (b"x-request-id", request_id.encode())

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        token = _CURRENT.set(request_id)
        try:
            await self._app(scope, receive, named)
        finally:
            _CURRENT.reset(token)


class WithRequestId(logging.Filter):
    """Gives the log lines of a request its id; handlers get it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the id of the request in whose course the line was logged."""
        request_id = _CURRENT.get()
        if request_id is not None:
            record.request_id = request_id
        return True


class Faults:
    """The layer that logs what nothing expected, and answers 500 without its text (R2-13)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; an exception is logged with its traceback."""
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            if scope["type"] != "http":
                raise
            logger.exception("a request failed unexpectedly")
            if not begun:
                await send_error_response(scope, receive, send, ApiError("INTERNAL_ERROR"))

"""An id for each request: in its errors, in the header X-Request-Id, and in its log lines."""

from __future__ import annotations

import logging
import secrets
from contextvars import ContextVar
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smartcrawl.server.errors import ApiError, send_error_response

logger = logging.getLogger(__name__)

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

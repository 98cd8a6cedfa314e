"""Searches from pages of other sites: the only path that CORS opens (ADR 49).

Their origins are those of ``API_ORIGINS``, exactly. No cookie is sent along, for none counts here.
The key is in the page, where each visitor can read it, and should have the scope ``search``.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smartcrawl.server.limits import SEARCH_PATH

_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "Authorization, X-API-Key",
    "Access-Control-Max-Age": "7200",  # seconds; browsers take no more
}
_READABLE: Final = "Retry-After, X-Request-Id"  #: headers of the answer that a page may read


class SearchOrigins:
    """The layer that answers preflights, and lets pages of these origins read answers."""

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; errors can be read, too."""
        if scope["type"] != "http" or scope["path"] != SEARCH_PATH or not self._origins:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        known = {"Access-Control-Allow-Origin": origin} if origin in self._origins else {}
        if known and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            answer = Response(status_code=204, headers=known | _PREFLIGHT | {"Vary": "Origin"})
            await answer(scope, receive, send)
            return
        if known:
            known["Access-Control-Expose-Headers"] = _READABLE
        added = [
            (name.lower().encode(), text.encode("latin-1"))
            for name, text in {**known, "Vary": "Origin"}.items()
        ]

        async def opened(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        await self._app(scope, receive, opened)

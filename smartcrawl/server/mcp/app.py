"""The MCP server over HTTP, at ``/mcp``: behind the keys, limits and checks of the HTTP API."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.model.options import Options
from smartcrawl.server.bodies import Bodies
from smartcrawl.server.errors import ApiError, Faults, RequestIds, send_error_response
from smartcrawl.server.guard import Guard, Identity
from smartcrawl.server.keys import KeyCache
from smartcrawl.server.limits import Limits, RequestCounts
from smartcrawl.server.stores import Stores

MCP_PATH: Final = "/mcp"
#: ``Guard`` checks Host and Origin, by the one rule of all servers here.
_CHECKED: Final = TransportSecuritySettings(enable_dns_rebinding_protection=False)


class _OnlyPosts:
    """The layer that refuses streams: nothing would ever be sent over them, and each stays open."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a message on; answer any other request to its path with 405, as the protocol says.

        Source: MCP 2025-06-18, Streamable HTTP, "Listening for Messages from the Server".
        """
        if scope["type"] != "http" or scope["method"] == "POST" or scope["path"] != MCP_PATH:
            await self._app(scope, receive, send)
        else:
            error = ApiError("METHOD_NOT_ALLOWED", headers={"Allow": "POST"})
            await send_error_response(scope, receive, send, error)


def create_mcp_app(
    mcp: MCPServer[Any],
    stores: Stores,
    options: Options,
    server: ServerOptions,
    *,
    clock: Callable[[], float] = time.time,
    counts: RequestCounts | None = None,
) -> ASGIApp:
    """Return the application.

    It keeps no sessions: each request is whole, so that clients may come and go, and no number of
    them fills the memory.
    """
    app: ASGIApp = mcp.streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        stateless_http=True,
        transport_security=_CHECKED,
    )
    app = Bodies(_OnlyPosts(app))
    app = Guard(app, server)
    app = Faults(app)
    counts = counts or RequestCounts(server, clock)
    app = Limits(app, counts, options.redis)  # around all that answers errors
    app = Identity(app, KeyCache(stores, clock), counts)
    app = Faults(app)  # those of the limits and of the keys
    return RequestIds(app)

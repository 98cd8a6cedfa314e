"""The MCP server over HTTP, at ``/mcp``: behind the keys, limits and checks of the HTTP API."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from smartcrawl.model.options import Options
from smartcrawl.model.server_options import ServerOptions
from smartcrawl.server.bodies import Bodies
from smartcrawl.server.guard import Guard, Identity
from smartcrawl.server.keys import KeyCache
from smartcrawl.server.limits import Limits
from smartcrawl.server.request_ids import Faults, RequestIds
from smartcrawl.server.stores import Stores

MCP_PATH: Final = "/mcp"
#: ``Guard`` checks Host and Origin, by the one rule of all servers here.
_CHECKED: Final = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def create_mcp_app(
    mcp: MCPServer[Any],
    stores: Stores,
    options: Options,
    server: ServerOptions,
    *,
    clock: Callable[[], float] = time.time,
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
    app = Bodies(app)
    app = Guard(app, server)
    app = Faults(app)
    app = Limits(app, server, clock, options.redis)  # around all that answers errors
    app = Identity(app, KeyCache(stores, clock))
    app = Faults(app)  # those of the limits and of the keys
    return RequestIds(app)

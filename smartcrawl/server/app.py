"""The API as one ASGI application: its routes, and the layers around them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from threading import Event
from typing import Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from smartcrawl import __version__
from smartcrawl.model.options import Options
from smartcrawl.model.server_options import ServerOptions
from smartcrawl.server import health, metrics
from smartcrawl.server.bodies import Bodies
from smartcrawl.server.context import Context
from smartcrawl.server.data import documents, frontier_stats, search, search_status
from smartcrawl.server.direct import Direct
from smartcrawl.server.errors import add_error_handlers
from smartcrawl.server.frontier import routes as frontier_routes
from smartcrawl.server.guard import Guard, Identity
from smartcrawl.server.idempotency import Once
from smartcrawl.server.items import routes as item_routes
from smartcrawl.server.jobs import control as job_control
from smartcrawl.server.jobs import log_routes
from smartcrawl.server.jobs import routes as job_routes
from smartcrawl.server.keys import KeyCache
from smartcrawl.server.library import cleanup as library_cleanup
from smartcrawl.server.library import routes as library_routes
from smartcrawl.server.limits import Limits, RequestCounts
from smartcrawl.server.measures import Metrics
from smartcrawl.server.methods import Methods
from smartcrawl.server.metrics import Measured
from smartcrawl.server.openapi import DescribedApi
from smartcrawl.server.request_ids import Faults, RequestIds
from smartcrawl.server.robots import routes as robots_routes
from smartcrawl.server.stores import Stores
from smartcrawl.server.versions import Deprecations, Version

#: Every version with its modules of routes; a function there adds them.
VERSIONS: Final[Sequence[Version]] = (
    Version("", (health.add_routes, metrics.add_routes)),
    Version("/api", (search_status.add_routes, search.add_routes, item_routes.add_routes)),
    Version(
        "/api/v1",
        (
            documents.add_routes,
            job_routes.add_routes,
            job_control.add_routes,
            log_routes.add_routes,
            frontier_routes.add_routes,
            frontier_stats.add_routes,
            robots_routes.add_routes,
        ),
    ),
    Version("/v2/crawler", (library_routes.add_routes, library_cleanup.add_routes)),
)


def create_app(
    options: Options,
    server: ServerOptions,
    *,
    clock: Callable[[], float] = time.time,
    versions: Sequence[Version] = VERSIONS,
    ending: Event | None = None,
    counts: RequestCounts | None = None,
) -> ASGIApp:
    """Return the application; nothing is opened before its first request.

    ``ending``: set when the server ends. ``counts``: of requests, where others count, too.
    """
    counts = counts or RequestCounts(server, clock)
    stores = Stores(options.registry)
    context = Context(options, server, stores, Metrics(), clock, ending or Event())
    api = create_api(context, versions)
    app: ASGIApp = Direct(api)
    app = Bodies(app)
    app = Guard(app, server)
    app = Methods(app, api.routes)
    app = Faults(app)
    app = Limits(app, counts, options.redis)  # around all that answers errors
    app = Identity(app, KeyCache(stores, clock), counts)
    app = Faults(app)  # those of the limits and of the keys
    app = Deprecations(app, versions)
    app = Measured(app, context.metrics)
    return RequestIds(app)


def create_api(context: Context, versions: Sequence[Version]) -> FastAPI:
    """Return the routes of all versions, without the layers."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        context.stores.close()

    api = DescribedApi(
        title="smartcrawl",
        version=__version__,
        redirect_slashes=False,
        servers=[{"url": "/", "description": "The server that answers this description"}],
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    for version in versions:
        router = APIRouter(prefix=version.prefix)
        for add_routes in version.routes:
            add_routes(context, router)
        for route in router.routes:
            if isinstance(route, APIRoute):
                route.operation_id = route.operation_id or route.name  # names of a client's calls
        api.router.routes.extend(router.routes)  # plainly: Allow and metrics look them up
    add_error_handlers(api, Once(context).refuse)
    return api

"""The API as one ASGI application: its routes, and the layers around them.

The layer that answers methods that a path does not have, before anything else is looked at.

A client that asks by a wrong method learns that first, with the methods of the path: not that its
key, its body or another header is wrong. Only the limits come before, since they count all.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from re import Pattern
from threading import Event
from typing import Final, Literal

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smartcrawl import __version__
from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.model.options import Options
from smartcrawl.model.redaction import redacted_line
from smartcrawl.server import documents, key_routes, metrics, search
from smartcrawl.server import frontier as frontier_routes
from smartcrawl.server import hooks as hook_routes
from smartcrawl.server import indexnow as indexnow_routes
from smartcrawl.server import items as item_routes
from smartcrawl.server import library as library_cleanup
from smartcrawl.server import library as library_routes
from smartcrawl.server import robots as robots_routes
from smartcrawl.server.bodies import Bodies
from smartcrawl.server.context import Context, Metrics
from smartcrawl.server.cors import SearchOrigins
from smartcrawl.server.direct import Direct
from smartcrawl.server.errors import (
    ApiError,
    Faults,
    RequestIds,
    add_error_handlers,
    send_error_response,
)
from smartcrawl.server.explained import changes as change_routes
from smartcrawl.server.explained import decisions as decision_routes
from smartcrawl.server.explained import libraries as domain_routes
from smartcrawl.server.explained import orders as removal_orders
from smartcrawl.server.explained import previews as preview_routes
from smartcrawl.server.explained import records as record_routes
from smartcrawl.server.explained import removals as removal_routes
from smartcrawl.server.explained import run_logs as run_log_routes
from smartcrawl.server.explained import runs as run_routes
from smartcrawl.server.explained import sources as source_routes
from smartcrawl.server.guard import Guard, Identity
from smartcrawl.server.idempotency import Once
from smartcrawl.server.jobs import control as job_control
from smartcrawl.server.jobs import fires, logs
from smartcrawl.server.jobs import routes as job_routes
from smartcrawl.server.jobs.declared import DeclaredNames
from smartcrawl.server.keys import KeyCache
from smartcrawl.server.limits import Limits, RequestCounts
from smartcrawl.server.metrics import Measured
from smartcrawl.server.openapi import DescribedApi
from smartcrawl.server.pages.app import create_pages
from smartcrawl.server.stores import Stores

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class Methods:
    """The layer; it passes paths on that no route has."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        """``routes``: those of all versions."""
        self._app = app
        self._plain: dict[str, frozenset[str]] = {}  #: methods of paths without parameters
        self._others: dict[Pattern[str], frozenset[str]] = {}
        for route in routes:
            if isinstance(route, Route) and route.methods:
                if route.param_convertors:
                    before = self._others.get(route.path_regex, frozenset())
                    self._others[route.path_regex] = before | route.methods
                else:
                    before = self._plain.get(route.path, frozenset())
                    self._plain[route.path] = before | route.methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse its method."""
        if scope["type"] == "http":
            allowed = self._allowed(scope["path"])
            if allowed and scope["method"] not in allowed:
                await send_error_response(scope, receive, send, _refusal(scope["path"], allowed))
                return
        await self._app(scope, receive, send)

    def _allowed(self, path: str) -> Set[str]:
        """Return the methods of a path: the router itself names those of one route only."""
        found = self._plain.get(path, frozenset())
        for pattern, methods in self._others.items():
            if pattern.match(path):
                found |= methods
        return found


def _refusal(path: str, allowed: Set[str]) -> ApiError:
    names = ", ".join(sorted(allowed, key=_METHODS.index))
    reason = f"{redacted_line(path)} takes {names}"
    return ApiError("METHOD_NOT_ALLOWED", reason=reason, headers={"Allow": names})


#: Adds the routes of a module to the router of a version, which has the prefix.
Routes = Callable[[Context, APIRouter], None]


@dataclass(frozen=True, slots=True)
class Deprecated:
    """The end of a version: a header of each of its answers names both times."""

    since: datetime  #: when it was, or will be, deprecated (RFC 9745)
    sunset: datetime  #: when it is served no more (RFC 8594)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers ``Deprecation`` and ``Sunset``.

        >>> Deprecated(datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)).headers()
        [(b'deprecation', b'@1798761600'), (b'sunset', b'Sat, 01 Jan 2028 00:00:00 GMT')]
        """
        gone = format_datetime(self.sunset.astimezone(UTC), usegmt=True)
        return [
            (b"deprecation", f"@{int(self.since.timestamp())}".encode()),
            (b"sunset", gone.encode()),
        ]


@dataclass(frozen=True, slots=True)
class Version:
    """A version: the prefix of its paths, and its modules of routes."""

    prefix: str
    routes: Sequence[Routes]
    deprecated: Deprecated | None = None


class Deprecations:
    """The layer that marks every answer of a deprecated version, errors included."""

    def __init__(self, app: ASGIApp, versions: Sequence[Version]) -> None:
        self._app = app
        deepest = sorted(versions, key=lambda version: len(version.prefix), reverse=True)
        self._headers = {
            f"{version.prefix}/": version.deprecated.headers() if version.deprecated else []
            for version in deepest
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; mark its answer."""
        path = scope.get("path", "")
        its = (added for prefix, added in self._headers.items() if path.startswith(prefix))
        found = next(its, [])  # of /api/v1 before /api
        if not found:
            await self._app(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *found]
            await send(message)

        await self._app(scope, receive, marked)


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """The registry answers."""

    status: Literal["ready"] = "ready"


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of probes."""

    @router.get(
        "/health", tags=["monitoring"], summary="Whether the process answers; asks no database"
    )
    async def health() -> Health:
        return Health()

    @router.get("/ready", tags=["monitoring"], summary="Whether the registry answers")
    def ready() -> Ready:
        with context.stores.reading() as connection:
            connection.execute("SELECT 1").fetchall()
        return Ready()


#: Every version with its modules of routes; a function there adds them.
VERSIONS: Final[Sequence[Version]] = (
    Version("", (add_routes, metrics.add_routes, indexnow_routes.add_routes)),
    Version("/api", (search.add_status_routes, search.add_routes, item_routes.add_routes)),
    Version(
        "/api/v1",
        (
            documents.add_routes,
            record_routes.add_routes,
            decision_routes.add_routes,
            preview_routes.add_routes,
            removal_routes.add_routes,
            removal_orders.add_routes,
            run_routes.add_routes,
            run_log_routes.add_routes,
            change_routes.add_routes,
            source_routes.add_routes,
            domain_routes.add_routes,
            job_routes.add_routes,
            job_control.add_routes,
            logs.add_routes,
            fires.add_routes,
            item_routes.add_source_routes,
            frontier_routes.add_routes,
            frontier_routes.add_stats_routes,
            robots_routes.add_routes,
            hook_routes.add_routes,
            key_routes.add_routes,
        ),
    ),
    Version("/v2/crawler", (library_routes.add_routes, library_cleanup.add_cleanup_routes)),
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
    visibilities = DeclaredNames(*options.source_files).visibilities
    context = Context(
        options, server, stores, Metrics(), clock, ending or Event(), visibilities=visibilities
    )
    api = create_api(context, versions)
    app: ASGIApp = Direct(api)
    app = Bodies(app)
    app = Guard(app, server)
    app = Methods(app, api.routes)
    calls = app = Faults(app)
    app = Limits(app, counts, options.redis)  # around all that answers errors
    app = Identity(app, KeyCache(stores, clock), counts)
    app = Faults(app)  # those of the limits and of the keys
    app = Deprecations(app, versions)
    app = SearchOrigins(app, server.origins)  # around all that answers errors
    app = create_pages(context, app, calls, api.openapi, counts)
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

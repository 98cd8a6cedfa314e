"""The pages as one ASGI application, beside the API under the same roof (ADR 167)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from smartcrawl.server.context import Context
from smartcrawl.server.errors import ApiError
from smartcrawl.server.limits import Limits, RateClass, RequestCounts
from smartcrawl.server.pages import (
    begin,
    changes,
    frontier,
    jobs,
    keys,
    libraries,
    login,
    records,
    reference,
    removals,
    runs,
    search,
    sources,
    tries,
)
from smartcrawl.server.pages.layers import PageFaults, PageGuard, PageHeaders, send_page_error
from smartcrawl.server.pages.pages import Pages
from smartcrawl.server.pages.sessions import PageSessions

#: Each module adds its pages, in the order of the navigation.
MODULES: Final[Sequence[Callable[[Pages], None]]] = (
    search.add_pages,
    begin.add_pages,
    jobs.add_pages,
    sources.add_pages,
    frontier.add_pages,
    libraries.add_pages,
    runs.add_pages,
    changes.add_pages,
    removals.add_pages,
    records.add_pages,
    tries.add_pages,
    reference.add_pages,
    keys.add_pages,
    login.add_pages,
)
#: First parts of paths that are never a page: no cookie and no form counts there.
_API: Final = frozenset(
    {"api", "v2", "mcp", "indexnow", "metrics", "health", "ready", "openapi.json"}
)


class PagesBeside:
    """The layer that gives pages their requests, and the API all others."""

    def __init__(
        self,
        api: ASGIApp,
        pages: ASGIApp,
        firsts: frozenset[str],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        """``firsts``: the first parts of the paths of pages; ``close``: ends what they opened."""
        self._api = api
        self._pages = pages
        self._firsts = firsts - _API
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        is_page = scope["type"] == "http" and self._is_page(scope)
        try:
            await (self._pages if is_page else self._api)(scope, receive, send)
        finally:
            if scope["type"] == "lifespan":
                await self._close()

    def _is_page(self, scope: Scope) -> bool:
        """Whether a path is one of a page, or an unknown one that a browser asked for."""
        first = scope["path"].lstrip("/").partition("/")[0]
        if first in self._firsts or first in _API:
            return first in self._firsts
        accepts = [text for name, text in scope["headers"] if name == b"accept"]
        return any(b"text/html" in text for text in accepts)


def create_pages(
    context: Context,
    api: ASGIApp,
    calls: ASGIApp,
    describe: Callable[[], dict[str, Any]],
    counts: RequestCounts,
) -> ASGIApp:
    """Return the application of pages and API.

    ``api``: the whole API, ``calls``: what of it is behind the limits and keys, for the pages
    themselves; ``describe`` returns its OpenAPI description.
    """
    pages = Pages(context, calls, describe)
    for add_pages in MODULES:
        add_pages(pages)
    app: ASGIApp = Router(pages.routes, redirect_slashes=False, default=_no_page)
    app = PageGuard(app, pages)
    app = PageFaults(app, pages)

    async def refuse(scope: Scope, receive: Receive, send: Send, error: ApiError) -> None:
        await send_page_error(pages, (scope, receive, send), error)

    app = limits = Limits(app, counts, context.options.redis, kind_of=_page_kind, refuse=refuse)
    app = PageSessions(app, context.stores, context.clock)
    app = PageFaults(app, pages)  # those of the sessions
    app = PageHeaders(app)
    firsts = frozenset(route.path.lstrip("/").partition("/")[0] for route in pages.routes)
    return PagesBeside(api, app, firsts, limits.close)


async def _no_page(scope: Scope, receive: Receive, send: Send) -> None:
    raise HTTPException(404)


def _page_kind(_method: str, _path: str) -> RateClass:
    return RateClass.PAGES

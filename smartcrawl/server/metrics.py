"""The measures as Prometheus reads them: of requests, which a layer takes, and of the crawl."""

from __future__ import annotations

import logging
import time
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.visibility import readable_source_names
from smartcrawl.reports.measures import SourceMeasures, source_measures
from smartcrawl.server.context import Context, Metrics
from smartcrawl.server.crawl_metrics import crawl_metrics_text
from smartcrawl.server.explained.sources import readable_declared_sources
from smartcrawl.server.queries import KeptAnswers

logger = logging.getLogger(__name__)

_SECONDS: Final = 60  #: age up to which the measures of the crawl count
_MOST_READERS: Final = 20  #: answers that are kept, by the sources that they are about
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_EXAMPLE: Final = 'smartcrawl_api_requests_total{method="GET",route="/health",status="200"} 1.0\n'


class Measured:
    """The layer that counts each request under the template of its route."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            if status:  # else the client went away before its answer
                route = getattr(scope.get("route"), "path_format", "none")
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self._metrics.count(method, route, status, time.perf_counter() - begun)


class CrawlMeasures:
    """The measures of the crawl, kept for a while: to count pages, all of their states are read."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept: KeptAnswers[bytes] = KeptAnswers(_SECONDS, _MOST_READERS, context.clock)

    async def text(self, request: Request) -> bytes:
        """Return the measures of the sources that a caller reads, as Prometheus takes them."""
        stores, reader = self._context.stores, self._context.reader(request)
        try:
            names = await stores.read_little(lambda seen: readable_source_names(seen, reader))
            return await self._kept.get(tuple(names), lambda: self._text(names))
        except RegistryError as error:
            logger.error("%s", error)
            return crawl_metrics_text(None, int(self._context.clock()))

    def _text(self, names: list[str]) -> bytes:
        """Read the measures; with no source there are none, and not those of all."""
        now = int(self._context.clock())
        if not names:
            return crawl_metrics_text((), now)

        def work(connection: Connection) -> list[SourceMeasures]:
            return source_measures(
                connection,
                self._context.options,
                now,
                is_held=self._context.stores.database.is_held,
                declared=readable_declared_sources(connection, self._context.options),
                sources=names,
            )

        return crawl_metrics_text(self._context.stores.read(work), now)


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route that Prometheus asks."""
    crawl = CrawlMeasures(context)

    @router.get(
        "/metrics",
        tags=["monitoring"],
        summary="Requests, and the crawl by source, for Prometheus",
        response_class=PlainTextResponse,
        responses={200: {"content": {"text/plain": {"example": _EXAMPLE}}}},
    )
    async def metrics(request: Request) -> Response:
        text = context.metrics.text() + await crawl.text(request)
        return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)

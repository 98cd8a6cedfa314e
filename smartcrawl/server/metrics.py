"""The measures as Prometheus reads them, and the layer that takes them."""

from __future__ import annotations

import time
from typing import Final

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smartcrawl.server.context import Context, Metrics

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


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route that Prometheus asks."""

    @router.get(
        "/metrics",
        tags=["monitoring"],
        summary="Counts and times of requests, for Prometheus",
        response_class=PlainTextResponse,
        responses={200: {"content": {"text/plain": {"example": _EXAMPLE}}}},
    )
    async def metrics() -> Response:
        return Response(context.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

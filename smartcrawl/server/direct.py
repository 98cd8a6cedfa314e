"""Routes that are asked most: FastAPI describes them, and each is called without its detours.

For each request FastAPI looks at all routes before, solves dependencies, opens stacks for their
ends, and prepares the encoding of an answer: for a single document that takes longer than to read
it. The routes here have no dependency, take texts from their path alone, and return whole
responses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import signature
from typing import Any

from fastapi import FastAPI, Response
from fastapi.routing import APIRoute
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send


class DirectRoute(APIRoute):
    """A route whose endpoint gets the request, and the texts of its path by their names."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **described: Any) -> None:
        """Raise ValueError if the endpoint takes anything that only FastAPI can give it."""
        super().__init__(path, endpoint, **described)
        taken = set(signature(endpoint).parameters)
        fields = self.dependant.path_params
        texts = {field.name for field in fields if field.field_info.annotation is str}
        if self.dependencies or taken != {"request", *texts}:
            raise ValueError(f"{path} takes more than the request, and texts from its path")
        self.app = _called(endpoint)


def _called(endpoint: Callable[..., Awaitable[Response]]) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        response = await endpoint(request=request, **scope["path_params"])
        await response(scope, receive, send)

    return app


class Direct:
    """The layer that passes requests of these routes around FastAPI, and all others to it.

    Errors are handled as FastAPI would; what nothing expected is left to ``Faults``.
    """

    def __init__(self, api: FastAPI) -> None:
        self._api = api
        handlers = {
            kind: handler
            for kind, handler in api.exception_handlers.items()
            if kind is not Exception
        }
        self._routes = [
            (route, ExceptionMiddleware(route.app, handlers))
            for route in api.routes
            if isinstance(route, DirectRoute)
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        for route, app in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:  # else FastAPI answers, such as 405
                scope.update(found)
                await app(scope, receive, send)
                return
        await self._api(scope, receive, send)

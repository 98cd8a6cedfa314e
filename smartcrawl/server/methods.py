"""The layer that answers methods that a path does not have, before anything else is looked at.

A client that asks by a wrong method learns that first, with the methods of the path: not that its
key, its body or another header is wrong. Only the limits come before, since they count all.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from re import Pattern
from typing import Final

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from smartcrawl.model.redaction import redacted_line
from smartcrawl.server.errors import ApiError, send_error_response

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

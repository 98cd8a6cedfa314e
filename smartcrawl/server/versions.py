"""The versions of the API that are served side by side, and their deprecation (R2-03, R2-05)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime

from fastapi import APIRouter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smartcrawl.server.context import Context

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

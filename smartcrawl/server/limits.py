"""Limits of requests a minute, by class, and the headers that report them (R2-06 to R2-08).

A client is the session of a page, its API key, or else its address. Minutes are those of the clock.
Several servers count together in Redis; one alone counts in its own memory. What is no HTTP request
reaches no layer (``smartcrawl/server/running.py``), and counts in the memory of its process alone.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.server.errors import ApiError, api_unavailable, send_error_response
from smartcrawl.server.keys import Scope

logger = logging.getLogger(__name__)


#: Paths of documents, records and searches.
_DATA: Final = (
    "/api/v1/documents/",
    "/api/v1/records/",
    "/api/v1/decisions/",
    "/api/Search/",
    "/mcp/",
)
#: Paths that read with any method; a tool that changes something asks for its scope itself.
_READING: Final = ("/mcp/", "/api/v1/decisions/")
#: Paths that act with any method.
_ACTING: Final = ("/v2/crawler/", "/indexnow/")
#: The only path for keys of search boxes, which each visitor of their pages can read.
SEARCH_PATH: Final = "/api/Search"
#: Paths that change every page at once, or give rights.
_ADMIN: Final = ("/api/RebuildIndex/", "/api/v1/keys/")
#: Paths that remove or restore pages at once.
_OF_REMOVALS: Final = re.compile(
    r"/api/v1/(?:removals|runs/[^/]*/(?:approve|undo)|records/[^/]*/forget)/?"
)
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class RateClass(Enum):
    """The kinds of requests with a limit of their own."""

    JOBS = "jobs"
    DATA = "data"
    MONITORING = "monitoring"
    PAGES = "pages"  #: for a browser; all others are endpoints


def api_request_changes_something(method: str, path: str) -> bool:
    """Whether a request may change something.

    >>> api_request_changes_something("GET", "/v2/crawler/crawl")
    True
    >>> api_request_changes_something("GET", "/api/v1/jobs")
    False
    >>> api_request_changes_something("POST", "/mcp")
    False
    """
    return _is_at(path, _ACTING) or (method not in _SAFE and not _is_at(path, _READING))


def api_request_acts_by_reading(method: str, path: str) -> bool:
    """Whether a request may change something although its method only reads.

    >>> api_request_acts_by_reading("GET", "/v2/crawler/crawl")
    True
    >>> api_request_acts_by_reading("POST", "/v2/crawler/crawl")
    False
    """
    return method in _SAFE and api_request_changes_something(method, path)


def api_rate_class(method: str, path: str) -> RateClass:
    """Return the class whose limit counts a request.

    >>> api_rate_class("GET", "/api/v1/documents/1f"), api_rate_class("GET", "/api/SearchStatus")
    (<RateClass.DATA: 'data'>, <RateClass.MONITORING: 'monitoring'>)
    """
    if api_request_changes_something(method, path):
        return RateClass.JOBS
    return RateClass.DATA if _is_at(path, _DATA) else RateClass.MONITORING


def api_scope_needed(method: str, path: str) -> Scope:
    """Return the least scope for a request.

    >>> api_scope_needed("POST", "/api/RebuildIndex").name, api_scope_needed("GET", "/metrics").name
    ('ADMIN', 'READ')
    >>> api_scope_needed("POST", "/api/v1/runs/17/approve").name
    'ADMIN'
    """
    if _is_at(path, _ADMIN) or (method not in _SAFE and _OF_REMOVALS.fullmatch(path)):
        return Scope.ADMIN
    if api_request_changes_something(method, path):
        return Scope.OPERATE
    return Scope.SEARCH if path == SEARCH_PATH else Scope.READ


def _is_at(path: str, places: tuple[str, ...]) -> bool:
    """Whether a path is one of these places, or below one; each ends with a slash."""
    return f"{path}/".startswith(places)


_MINUTE: Final = 60
_TIMEOUT: Final = 0.5  #: seconds for Redis to answer
_PAUSE: Final = 1.0  #: seconds in which Redis is not asked again after a failure


class RequestCounts:
    """The requests of each client in the present minute, as far as this process knows."""

    def __init__(self, server: ServerOptions, clock: Callable[[], float] = time.time) -> None:
        self.limits = {
            RateClass.JOBS: server.jobs_limit,
            RateClass.DATA: server.data_limit,
            RateClass.MONITORING: server.monitoring_limit,
            RateClass.PAGES: server.pages_limit,
        }
        self.clock = clock
        self._minute = 0
        self._counts: Counter[str] = Counter()

    def counted(self, name: str, minute: int) -> int:
        """Count one request, and return how many there were in this minute."""
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
        self._counts[name] += 1
        return self._counts[name]

    def refuse_spent(self, scope: AsgiScope) -> None:
        """Refuse a request without a known key whose address has no requests left.

        The look-up of its key would not be counted otherwise.

        Raises:
            ApiError: RATE_LIMITED.
        """
        now = self.clock()
        kind, minute = api_rate_class(scope["method"], scope["path"]), int(now // _MINUTE)
        limit, name = self.limits[kind], f"{kind.value}:{_client_by_address(scope.get('client'))}"
        if minute == self._minute and self._counts[name] >= limit:
            raise _above(limit, kind, (minute + 1) * _MINUTE - now)

    def headers(self, kind: RateClass, minute: int, used: int) -> list[tuple[bytes, bytes]]:
        """Return the headers of an answer to the last of ``used`` requests."""
        limit = self.limits[kind]
        return [
            (b"x-ratelimit-limit", b"%d" % limit),
            (b"x-ratelimit-remaining", b"%d" % max(0, limit - used)),
            (b"x-ratelimit-reset", b"%d" % ((minute + 1) * _MINUTE)),
        ]

    def unread(self, client: tuple[str, int] | None) -> list[tuple[bytes, bytes]]:
        """Count what a client sent that is no request; return the headers of the answer.

        No layer sees it, so that it is never refused for its number.
        """
        kind, minute = RateClass.MONITORING, int(self.clock() // _MINUTE)
        name = f"{kind.value}:{_client_by_address(client)}"
        return self.headers(kind, minute, self.counted(name, minute))


#: Answers a request with an error, as ``send_error_response`` does.
Refuse = Callable[[AsgiScope, Receive, Send, ApiError], Awaitable[None]]


class Limits:
    """The layer that counts each request, and refuses those above the limit of its class."""

    def __init__(
        self,
        app: ASGIApp,
        counts: RequestCounts,
        redis: str | None,
        *,
        kind_of: Callable[[str, str], RateClass] = api_rate_class,
        refuse: Refuse = send_error_response,
    ) -> None:
        """``redis``: URL of the Redis in which several servers count together.

        ``kind_of``: from method and path to the class.
        """
        self._app = app
        self._kind_of = kind_of
        self._refuse = refuse
        self._here = counts
        self._shared = _Shared(redis, counts.clock) if redis else None

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; its answer gets the headers in both cases."""
        if scope["type"] != "http":
            try:
                await self._app(scope, receive, send)
            finally:
                if scope["type"] == "lifespan":
                    await self.close()
            return
        method, path, now = scope["method"], scope["path"], self._here.clock()
        kind, minute = self._kind_of(method, path), int(now // _MINUTE)
        counted = f"{kind.value}:{api_client(scope)}"
        used = self._here.counted(counted, minute)
        away = False
        if self._shared is not None:
            shared = await self._shared.counted(counted, minute)
            away = shared is None
            used = used if shared is None else shared
        limit, reset = self._here.limits[kind], (minute + 1) * _MINUTE
        headers = self._here.headers(kind, minute, used)

        async def limited(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *headers]
            await send(message)

        if used > limit:
            await self._refuse(scope, receive, limited, _above(limit, kind, reset - now))
        elif away and api_request_changes_something(method, path):
            await self._refuse(scope, receive, limited, api_unavailable("Redis is not available"))
        else:
            await self._app(scope, receive, limited)

    async def close(self) -> None:
        """Close the connections to Redis."""
        if self._shared is not None:
            await self._shared.close()


def _above(limit: int, kind: RateClass, seconds: float) -> ApiError:
    """Return the error of a request above the limit; the next minute begins in ``seconds``."""
    reason = f"a client may send {limit} requests of the class {kind.value} in a minute"
    return ApiError("RATE_LIMITED", reason=reason, headers={"Retry-After": str(int(seconds) + 1)})


def api_client(scope: AsgiScope) -> str:
    """Return the client of a request: its session, its key, or else its address.

    All visitors of a page with a search box have its key, so that each address counts for itself.
    """
    session = scope.get("smartcrawl.session")
    if session is not None:
        return str(session.client)
    key = scope.get("smartcrawl.key")
    if key is not None and key.scope > Scope.SEARCH:
        return f"key:{key.id}"
    return _client_by_address(scope.get("client"))


def _client_by_address(client: Sequence[str | int] | None) -> str:
    """Return a client that has no key; ``client``: its address and port."""
    return f"address:{api_client_network(str(client[0]) if client else 'unknown')}"


@lru_cache(maxsize=10_000)
def api_client_network(address: str) -> str:
    """Return the address of a client; of IPv6 the network, for each client has 2⁶⁴ addresses.

    >>> [api_client_network(x) for x in ("2001:db8::1", "::ffff:10.0.0.1", "10.0.0.1")]
    ['2001:db8::/64', '10.0.0.1', '10.0.0.1']
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((parsed, 64), strict=False))
    return str(parsed)


class _Shared:
    """The counts of all servers, in Redis."""

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        self._redis: Redis = Redis.from_url(
            url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT
        )
        self._clock = clock
        self._away_until = 0.0

    async def counted(self, name: str, minute: int) -> int | None:
        """Count one request; None while Redis is away."""
        if 0 < self._away_until - self._clock() <= _PAUSE:  # else the clock was put back
            return None
        place = f"smartcrawl:limit:{name}:{minute}"
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.incr(place)
                pipe.expire(place, 2 * _MINUTE)
                used, _ = await pipe.execute()
        except (RedisError, OSError) as error:
            logger.warning("Redis is away, requests that change something wait for it: %s", error)
            self._away_until = self._clock() + _PAUSE
            return None
        return int(used)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

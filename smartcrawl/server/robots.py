"""The robots.txt of a host over HTTP: as a crawl stored it, else asked for now (E-12; R2-40).

The download has limits of time and size. Public addresses are asked only, unless ALLOW_NETWORKS
allows others. All work is on the event loop and never blocks it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

import can_ada
from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Request, Response

from smartcrawl.extract.robots_txt import (
    LIMIT,
    AgentRules,
    robots_txt_as_utf8,
    robots_txt_groups,
    robots_txt_sitemaps,
)
from smartcrawl.model.options import Options
from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import join_url, url_endpoint
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.visibility import readable_sources
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.rules.http import MAX_REDIRECTS, REDIRECTS
from smartcrawl.rules.visibility import EVERYTHING, Reader
from smartcrawl.server.answers import Robots
from smartcrawl.server.context import Context
from smartcrawl.server.documents import api_host_parameter
from smartcrawl.server.errors import ApiError, api_not_found, api_unavailable
from smartcrawl.server.queries import json_response, refuse_api_query
from smartcrawl.sources.base import Source
from smartcrawl.sources.proxies import Proxy
from smartcrawl.sources.trust import CertificateTrust
from smartcrawl.sources.web_client import (
    UnconnectedError,
    UnknownHostError,
    WebAnswer,
    WebClient,
    WebError,
)

SECONDS: Final = 5.0  #: for everything
_CONNECT_SECONDS: Final = 2.0  #: for a connection, so that time is left for the other scheme


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """The answer to a request for robots.txt, or the reason why there is none."""

    origin: str  #: such as ``https://example.com``
    status: int = 0  #: 0: none
    body: bytes = b""
    reason: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the answer says nothing about the rules."""
        return self.reason is not None and not 400 <= self.status < 500


class RobotsDownload:
    """Asks hosts for their robots.txt."""

    def __init__(self, options: Options, user_agent: str, web: WebClient | None = None) -> None:
        """``web``: asks them; None: a client of its own."""
        self._options = options
        self._headers = {
            "User-Agent": user_agent,
            "Accept": "text/plain, */*;q=0.1",
        }
        self._web = web

    async def answer(self, host: str) -> RobotsAnswer:
        """Return the answer of a host (as ``host.name``), over https or else over http."""
        origin = ""
        try:
            async with asyncio.timeout(SECONDS):
                for origin in (f"https://{host}", f"http://{host}"):
                    try:
                        return await self.of_origin(origin)
                    except UnconnectedError as error:
                        reason = str(error)
        except TimeoutError:
            reason = f"no whole answer within {SECONDS:g} s"
        except UnknownHostError:
            reason = "its name is not found"
        except WebError as error:
            reason = str(error)
        return RobotsAnswer(origin, reason=reason)

    async def of_origin(self, origin: str) -> RobotsAnswer:
        """Return the answer of an origin, such as ``https://example.com``, after redirects.

        Raises:
            WebError: there is none, or it says nothing about the rules.
        """
        if self._web is None:
            self._web = await to_thread.run_sync(api_web_client, self._options)
        url = f"{origin}/robots.txt"
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._web.ask(url, self._headers, most=LIMIT)
            status, location = answer.status, answer.headers.get("location", "")
            if status not in REDIRECTS or not location:
                break
            target = join_url(can_ada.parse(url), location)
            if target is None:
                raise WebError("a redirect leads to no web address")
            url = target
        else:
            raise WebError(f"more than {MAX_REDIRECTS} redirects")
        if 400 <= status < 500:
            return RobotsAnswer(origin, status, reason=f"status {status}: everything is allowed")
        if not 200 <= status < 300:
            raise WebError(f"status {status}")
        return RobotsAnswer(origin, status, _text(answer))


def api_web_client(
    options: Options,
    *,
    source: Source | None = None,
    permitted: Iterable[str] = (),
    certificate: tuple[str, str] | None = None,
    proxy: Proxy | None = None,
) -> WebClient:
    """Return a client under the rules of the engine and the lane.

    ``source``: whose certificates of servers are accepted; None: those of the settings.
    ``permitted``: addresses whose ports are permitted, whatever they are. ``certificate``: the
    files of the one that it shows, and of its key. ``proxy``: makes its connections.
    """
    trust, context = CertificateTrust.of(source, options), ssl.create_default_context()
    if not trust.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.ca_file is not None:
        context.load_verify_locations(cafile=trust.ca_file)
    if certificate is not None:
        context.load_cert_chain(*certificate)
    guard = ConnectionGuard(options.allow_networks, options.allow_ports)
    for url in permitted:
        guard.permit_port(*url_endpoint(url))
    return WebClient(guard, tls=context, proxy=proxy, connect_seconds=_CONNECT_SECONDS)


def _text(answer: WebAnswer) -> bytes:
    """Return the body of an answer in UTF-8."""
    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise WebError("it is compressed, although no compression was requested")
    body = robots_txt_as_utf8(answer.body)
    if b"\0" in body:
        raise WebError("it is not text")
    return body


AT_ONCE: Final = 8  #: downloads at once
_MOST: Final = 1_000  #: answers that are kept
_MOST_BYTES: Final = 16 * 1024 * 1024  #: of their bodies together
_LEAST_SECONDS: Final = 60  #: for which a failure counts, and any answer without a lifetime


class KeptRobots(NamedTuple):
    """An answer, and the time of its request."""

    at: int  #: Unix seconds
    answer: RobotsAnswer


class RobotsCache:
    """The answers of hosts, each downloaded once for all who wait for it."""

    def __init__(
        self,
        download: Callable[[str], Awaitable[RobotsAnswer]],
        seconds: int,
        clock: Callable[[], float],
    ) -> None:
        """``seconds``: for which an answer counts; 0: as short as a failure."""
        self._download = download
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[str, KeptRobots] = OrderedDict()
        self._bytes = 0
        self._pending: dict[str, asyncio.Task[KeptRobots]] = {}

    async def get(self, host: str) -> KeptRobots:
        """Return the answer of a host.

        Raises:
            ApiError: too many other hosts are being asked.
        """
        found = self._kept.get(host)
        if found is not None and 0 <= self._clock() - found.at < self._lifetime(found.answer):
            return found
        task = self._pending.get(host)
        if task is None:
            if len(self._pending) >= AT_ONCE:
                raise api_unavailable(f"{AT_ONCE} robots.txt are being downloaded: try again later")
            task = asyncio.ensure_future(self._downloaded(host))
            self._pending[host] = task
            task.add_done_callback(lambda _: self._pending.pop(host, None))
        return await asyncio.shield(task)  # a client that goes away ends no other one's answer

    async def _downloaded(self, host: str) -> KeptRobots:
        kept = KeptRobots(int(self._clock()), await self._download(host))
        self._forget(host)
        self._kept[host] = kept
        self._bytes += len(kept.answer.body)
        while len(self._kept) > _MOST or self._bytes > _MOST_BYTES:
            self._forget(next(iter(self._kept)))
        return kept

    def _forget(self, host: str) -> None:
        found = self._kept.pop(host, None)
        if found is not None:
            self._bytes -= len(found.answer.body)

    def _lifetime(self, answer: RobotsAnswer) -> float:
        seconds = self._seconds or _LEAST_SECONDS
        return min(seconds, _LEAST_SECONDS) if answer.failed else seconds


_STORED: Final = """
SELECT fetched_at, origin, status, body FROM robots WHERE origin IN (:https, :http) {readable}
 ORDER BY fetched_at DESC, origin DESC LIMIT 1
"""
#: For callers who may not read every source: one that they read has pages of the host.
_IS_READABLE: Final = """
AND EXISTS (SELECT 1 FROM host h JOIN state s ON s.host = h.no JOIN record r ON r.no = s.no
             WHERE h.name = :host
               AND r.source IN (SELECT no FROM source WHERE name IN carray(:readable)))
"""


def api_stored_robots(
    connection: Connection, host: str, reader: Reader = EVERYTHING
) -> KeptRobots | None:
    """Return the copy of a host's robots.txt that a crawl stored last, None without one.

    ``reader``: who asks; hosts of sources that he may not read are as if they were never crawled.
    """
    values: dict[str, Any] = {"https": f"https://{host}", "http": f"http://{host}"}
    readable = readable_sources(connection, reader)
    if readable is not None:
        values |= {"host": host, "readable": Many(readable)}
    statement = _STORED.format(readable="" if readable is None else _IS_READABLE)
    row: Any = connection.execute(statement, values).fetchone()
    if row is None:
        return None
    at, origin, status, body = row
    reason = f"status {status}: everything is allowed" if status >= 400 else None
    return KeptRobots(at, RobotsAnswer(origin, status, bytes(body or b""), reason))


def api_robots(host: str, kept: KeptRobots, ttl: int) -> dict[str, Any]:
    """Return a robots.txt under the keys of R2-40.

    Raises:
        ApiError: there are no rules, with the reason.
    """
    answer = kept.answer
    if answer.reason is not None:
        raise _no_robots(answer.reason)
    try:
        groups = robots_txt_groups(answer.body)
    except ValueError as error:
        raise _no_robots(str(error)) from error
    return {
        "domain": host,
        "fetched_at": iso_time(kept.at),
        "expires_at": iso_time(kept.at + ttl) if ttl else None,
        "rules": {
            "user_agents": {agent: _agent_data(rules) for agent, rules in groups.items()},
            "sitemaps": robots_txt_sitemaps(answer.body, answer.origin),
        },
    }


def _agent_data(rules: AgentRules) -> dict[str, Any]:
    return {
        "allow": rules.allow,
        "disallow": rules.disallow,
        "crawl_delay": rules.crawl_delay,
    }


def _no_robots(reason: str) -> ApiError:
    return api_not_found("robots.txt not found", reason=reason)


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of robots.txt."""
    options, robots = context.options, context.server.robots
    download = RobotsDownload(options, robots.user_agent)
    cache = RobotsCache(download.answer, options.robots_ttl, context.clock)

    @router.get(
        "/robots/{domain}",
        tags=["monitoring"],
        summary="The rules of a host's robots.txt: as a crawl stored them, else downloaded",
        response_model=Robots,
        responses={404: {}},
        dependencies=[Depends(refuse_api_query)],
    )
    async def get_robots(
        request: Request, domain: Annotated[str, Path(examples=["example.com"])]
    ) -> Response:
        host, reader = api_host_parameter(domain), context.reader(request)
        kept = await to_thread.run_sync(
            context.stores.read, lambda connection: api_stored_robots(connection, host, reader)
        )
        if kept is None:
            kept = await cache.get(host)
        return json_response(await to_thread.run_sync(api_robots, host, kept, options.robots_ttl))

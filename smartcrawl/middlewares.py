"""Thin components around rules: robots, validators, and the scope of other spiders' requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

import can_ada
from protego import Protego
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from smartcrawl.exceptions import RobotsDisallowedError, RobotsUnknownError
from smartcrawl.faults import told
from smartcrawl.items import Attempt
from smartcrawl.rules.http import MAX_REDIRECTS, REDIRECTS, conditional_headers
from smartcrawl.rules.model import Fault
from smartcrawl.run import Run, run_of
from smartcrawl.urls import join

logger = logging.getLogger(__name__)


class RevalidationMiddleware:
    """Ask "has it changed?" for every page that is held, instead of "send it" (RP-05).

    Requests of a page carry ``meta["attempt"]``; others pass untouched. The headers are
    computed anew for each request, so none is carried to another address (RD-03).
    """

    def __init__(self, run: Run | None) -> None:
        self._run = run

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        return cls(run_of(crawler))

    def process_request(self, request: Request) -> None:
        """Add the validators that belong to this very address."""
        attempt: Attempt | None = request.meta.get("attempt")
        if attempt is None or self._run is None:
            return
        page = attempt.page
        headers = conditional_headers(
            page.etag,
            page.last_modified,
            trusted=page.standing > 0
            and not self._run.forced
            and page.configuration == self._run.configuration
            and request.url == page.url,
        )
        for name in ("If-None-Match", "If-Modified-Since"):
            request.headers.pop(name, None)
        for name, value in headers.items():
            request.headers[name] = value.encode("latin-1")
        attempt.conditional = bool(headers)
        attempt.requests += 1
        attempt.conditional_requests += attempt.conditional
        if not attempt.trail or attempt.trail[-1] != request.url:
            attempt.trail.append(request.url)

    def process_response(self, request: Request, response: Response) -> Response:
        """Note what came over the wire, before it is decompressed."""
        attempt: Attempt | None = request.meta.get("attempt")
        if attempt is not None:
            attempt.content_length = len(response.body)
            attempt.wire_bytes += attempt.content_length
            encoding = response.headers.get("Content-Encoding")
            attempt.content_encoding = encoding.decode("latin-1").lower() if encoding else None
            attempt.packed = response.body if encoding else b""
        return response


class _DisallowedError(RobotsDisallowedError, IgnoreRequest):
    """The same for Scrapy: no error of the spider, nothing to log."""


class _UnknownError(RobotsUnknownError, IgnoreRequest):
    """Likewise."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a host's robots.txt says."""

    parser: Protego | None  #: None: everything is allowed
    unknown: str | None  #: why the rules could not be had
    fault: Fault  #: of a page whose rules are unknown
    fetched_at: float  #: monotonic seconds


class RobotsMiddleware:
    """Ask robots.txt before any page of a host: 2xx rules, 4xx none, anything else unknown.

    Unknown rules make a page UNREACHABLE, never excluded and never allowed (INV-21).
    """

    def __init__(self, crawler: Crawler, *, user_agent: str, ttl: int) -> None:
        self._crawler = crawler
        self._user_agent = user_agent
        self._ttl = ttl
        self._rules: dict[str, Rules] = {}
        self._asking: dict[str, asyncio.Task[Rules]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self | None:
        """Read the settings, once."""
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured("ROBOTSTXT_OBEY is off")
        agent = crawler.settings["ROBOTSTXT_USER_AGENT"] or crawler.settings["USER_AGENT"]
        ttl = crawler.settings.getint("ROBOTS_TTL_SECONDS")
        return cls(crawler, user_agent=agent, ttl=ttl)

    async def process_request(self, request: Request) -> None:
        """Let the request pass, or refuse it.

        Raises:
            RobotsDisallowedError: the rules forbid the address.
            RobotsUnknownError: the rules of its host could not be had.
        """
        if request.meta.get("dont_obey_robotstxt"):
            return
        parts = urlsplit(request.url)
        origin = f"{parts.scheme}://{parts.netloc}"
        rules = self._rules.get(origin)
        if rules is None or (self._ttl and time.monotonic() - rules.fetched_at > self._ttl):
            rules = await self._ask(origin)
        if rules.unknown is not None:
            raise _UnknownError(
                f"{origin}/robots.txt could not be read: {rules.unknown}", rules.fault
            )
        if rules.parser is not None and not rules.parser.can_fetch(request.url, self._user_agent):
            raise _DisallowedError(f"disallowed by {origin}/robots.txt")

    async def _ask(self, origin: str) -> Rules:
        """Ask a host once, however many of its pages are waiting for the answer."""
        task = self._asking.get(origin)
        if task is None:
            task = self._asking[origin] = asyncio.ensure_future(self._fetch(origin))
            task.add_done_callback(lambda _: self._asking.pop(origin, None))
        return await asyncio.shield(task)

    async def _fetch(self, origin: str) -> Rules:
        url = f"{origin}/robots.txt"
        parser, unknown, fault = None, None, Fault.ROBOTS_UNKNOWN
        try:
            for _ in range(MAX_REDIRECTS + 1):
                request = Request(
                    url, meta={"dont_obey_robotstxt": True}, callback=NO_CALLBACK, priority=1000
                )
                response = await self._crawler.engine.download_async(request)
                location = (response.headers.get("Location") or b"").decode("latin-1")
                target = join(can_ada.parse(url), location) if location else None
                if response.status not in REDIRECTS or target is None:
                    break
                url = target
        except Exception as error:  # noqa: BLE001  # whatever failed, the rules are unknown
            fault, unknown = told(error, url)
            if fault is not Fault.ADDRESS_REFUSED:
                fault = Fault.ROBOTS_UNKNOWN
        else:
            if 200 <= response.status < 300:
                parser = Protego.parse(response.body.decode("utf-8-sig", "replace"))
                if (run := run_of(self._crawler)) is not None:
                    run.robots_read(origin, response.body)
            elif not 400 <= response.status < 500 or response.status == 429:
                unknown = f"status {response.status}"
        if unknown is not None:
            logger.warning(
                "robots.txt unknown: no page of this host is asked: %s (%s)", unknown, url
            )
        rules = self._rules[origin] = Rules(parser, unknown, fault, time.monotonic())
        return rules


class ScopeMiddleware:
    """Keep the requests that a user's own spider yields inside the source's scope."""

    def __init__(self, run: Run | None, crawler: Crawler) -> None:
        self._run = run
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        return cls(run_of(crawler), crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Drop requests out of scope, counted; anything else passes."""
        async for entry in result:
            if self._outside(entry):
                self._crawler.stats.inc_value("scope/dropped")
            else:
                yield entry

    def _outside(self, entry: object) -> bool:
        return (
            self._run is not None
            and isinstance(entry, Request)
            and "attempt" not in entry.meta
            and not self._run.scope.allows(entry.url)
        )

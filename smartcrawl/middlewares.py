"""Middlewares: each hands a request or answer to the room below that decides about it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.delays import (
    gate_of_crawler,
    host_of_scrapy_request,
    note_download_failure,
    pause_of_scrapy_response,
)
from smartcrawl.engine.download.faults import download_fault
from smartcrawl.engine.download.network import (
    AddressCheck,
    downloads_have_proxies,
    installed_resolver,
)
from smartcrawl.engine.download.robots import DownloadedRobots, RobotsDownloads
from smartcrawl.engine.download.stored import lacks_stored_body
from smartcrawl.engine.own_spiders import is_own_spider, reads_answers
from smartcrawl.model.exceptions import (
    AddressRefusedError,
    HostBlockedError,
    HostDownError,
    RobotsDisallowedError,
    RobotsUnknownError,
    RunHaltedError,
    TurnSpentError,
)
from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.model.urls import sessionless_url, url_origin
from smartcrawl.rules.absence import PASSING
from smartcrawl.run.hosts import FRESH, HostGate
from smartcrawl.run.run import Run
from smartcrawl.run.visits import (
    PASSING_FAULTS,
    conditional_page_headers,
    host_refusal,
    note_page_request,
)
from smartcrawl.sources.proxies import Proxy, proxy_of_source
from smartcrawl.sources.site import SiteSource

if TYPE_CHECKING:
    from smartcrawl.engine.render.renderer import PageRenderer

logger = logging.getLogger(__name__)


class RevalidationMiddleware:
    """Make the requests for stored pages conditional (RP-05).

    Requests of a page carry ``meta["attempt"]``; others pass untouched. The headers are
    computed anew for each request, so none is carried to another address (RD-03).
    """

    def __init__(self, run: Run | None, *, bodies: bool = False) -> None:
        """``bodies``: whether the spider needs the body of each page, also after a 304."""
        self._run = run
        self._bodies = bodies

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        return cls(run_of_crawler(crawler), bodies=reads_answers(type(crawler.spider)))

    def process_request(self, request: Request) -> None:
        """Add the validators of this address."""
        attempt: VisitAttempt | None = request.meta.get("attempt")
        if attempt is None or self._run is None:
            return
        headers: Mapping[str, str] = {}
        if not (self._bodies and self._is_without_body(self._run, attempt)):
            headers = conditional_page_headers(self._run, attempt.page, request.url)
        for name in ("If-None-Match", "If-Modified-Since"):
            request.headers.pop(name, None)
        for name, value in headers.items():
            request.headers[name] = value.encode("latin-1")
        note_page_request(attempt, request.url, headers, is_head=request.method != "GET")

    @staticmethod
    def _is_without_body(run: Run, attempt: VisitAttempt) -> bool:
        page = attempt.page
        return not page.plan.verify and (attempt.lost_body or lacks_stored_body(run, page))

    def process_response(self, request: Request, response: Response) -> Response:
        """Record size and encoding of the body on the wire, before it is decompressed."""
        attempt: VisitAttempt | None = request.meta.get("attempt")
        if attempt is not None:
            encoding = response.headers.get("Content-Encoding")
            attempt.receives(len(response.body), encoding.decode("latin-1") if encoding else None)
        return response


class SourceProxyMiddleware:
    """Send all requests of a source by its proxy, those for robots.txt and of a browser, too.

    A proxy that a middleware of the user chose is left as it is. Proxies of the environment do not
    count beside it, nor does no_proxy.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._url = proxy.url
        self._headers = [(name, value.encode("ascii")) for name, value in proxy.headers.items()]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the proxy of the source of a run."""
        run = run_of_crawler(crawler)
        found = None if run is None else proxy_of_source(run.source.name, run.source.request.proxy)
        if found is None:
            raise NotConfigured  # without words, which Scrapy would log as a warning
        return cls(found)

    def process_request(self, request: Request) -> None:
        """Name the proxy; its user and password go to no other."""
        if request.meta.setdefault("proxy", self._url) != self._url:
            return
        for name, value in self._headers:
            request.headers[name] = value


class SourceHeadersMiddleware:
    """Send the headers of a source to the origins of its seeds, and to no other (ADR 145).

    Each request is judged anew, so that no redirect carries them elsewhere. They come before those
    of the settings, which other origins get. robots.txt is asked without them.
    """

    def __init__(self, headers: Mapping[str, str], origins: frozenset[str]) -> None:
        self._headers = [(name, value.encode("ascii")) for name, value in headers.items()]
        self._origins = origins

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the headers of the source of a run."""
        run = run_of_crawler(crawler)
        if run is None or not run.source.request.headers:
            raise NotConfigured  # without words, which Scrapy would log as a warning
        return cls(dict(run.source.request.headers), run.source.origins)

    def process_request(self, request: Request) -> None:
        """Add the headers, or remove those that a request to another origin left."""
        of_robots = request.callback is NO_CALLBACK and request.meta.get("dont_obey_robotstxt")
        if url_origin(request.url) in self._origins and not of_robots:
            for name, value in self._headers:
                request.headers[name] = value
            return
        for name, value in self._headers:
            if request.headers.get(name) == value:
                del request.headers[name]


class _DisallowedError(RobotsDisallowedError, IgnoreRequest):
    """The same error, ignored by Scrapy: not logged as an error of the spider."""


class _UnknownError(RobotsUnknownError, IgnoreRequest):
    """The same error, ignored by Scrapy."""


class _TurnSpentError(TurnSpentError, IgnoreRequest):
    """The same error, ignored by Scrapy."""


class RobotsMiddleware:
    """Request robots.txt before any page of a host, and no page that it forbids.

    Unknown rules make a page UNREACHABLE, never excluded and never allowed (INV-21). Where several
    workers share a host, a page whose turn was spent on robots.txt waits for the next turn.
    """

    def __init__(self, rules: RobotsDownloads, run: Run | None) -> None:
        self.rules = rules
        self._run = run

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self | None:
        """Read the settings, once."""
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured  # without words, which Scrapy would log as a warning
        run = run_of_crawler(crawler)
        if run is not None and not any(kind.asks_robots for kind in run.source.kinds):
            raise NotConfigured  # files have no robots.txt
        return cls(RobotsDownloads.from_crawler(crawler), run)

    async def process_request(self, request: Request) -> Request | None:
        """Let the request pass, replace it by one without its session id, or refuse it.

        Raises:
            RobotsDisallowedError: the rules forbid the address.
            RobotsUnknownError: the rules of its host are unknown.
            TurnSpentError: the page is requested later.
        """
        if request.meta.get("dont_obey_robotstxt") or not self._concerns(request):
            return None
        began = time.monotonic()
        rules = await self.rules.of(request)
        if rules.unknown is not None:
            raise _UnknownError(
                f"{rules.origin}/robots.txt could not be read: {rules.unknown}", rules.fault
            )
        page = self._page_without_turn(request, rules, began)
        if not rules.allows(request.url):
            plain = sessionless_url(request.url)
            if plain != request.url and "attempt" in request.meta and rules.allows(plain):
                return request.replace(url=plain, dont_filter=True)
            raise _DisallowedError(f"disallowed by {rules.origin}/robots.txt")
        if page is not None and self._run is not None:
            self._run.turns.give_back(page)
            raise _TurnSpentError(f"{rules.origin}/robots.txt used up the request of this page")
        return None

    def _concerns(self, request: Request) -> bool:
        """Whether robots.txt decides about a request: not about that for a file of a listing."""
        attempt = request.meta.get("attempt")
        if self._run is None or not isinstance(attempt, VisitAttempt):
            return True
        return self._run.source.kind_of(attempt.page.url).asks_robots

    def _page_without_turn(
        self, request: Request, rules: DownloadedRobots, began: float
    ) -> Page | None:
        """Return the page of a request whose turn was spent on robots.txt since ``began``."""
        attempt = request.meta.get("attempt")
        if self._run is None or not isinstance(attempt, VisitAttempt) or attempt.traffic.requests:
            return None  # redirects and retries belong to the turn of the first request
        asked = rules.asked and rules.asked_at >= began
        spent = self._run.turns.is_spent(attempt.page, rules.crawl_delay, asked=asked)
        return attempt.page if spent else None


class ScopeMiddleware:
    """Keep the requests that a user's own spider yields inside the source's scope."""

    def __init__(self, run: Run | None, crawler: Crawler) -> None:
        self._run = run
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of a user's own spider; requests of the frontier are in scope already."""
        if not is_own_spider(crawler):
            raise NotConfigured
        return cls(run_of_crawler(crawler), crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Drop and count requests out of scope; let anything else pass."""
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


class _BlockedError(HostBlockedError, IgnoreRequest):
    """The same error, ignored by Scrapy: not logged as an error of the spider."""


class _DownError(HostDownError, IgnoreRequest):
    """The same error, ignored by Scrapy."""


class HostMiddleware:
    """Refuse requests to hosts that are blocked or down, and notify the gate of all results.

    Nothing is requested from a blocked host, robots.txt included. Answers are recorded as they
    come from the network, before any other component sees them.
    """

    def __init__(self, crawler: Crawler, run: Run, gate: HostGate) -> None:
        self._crawler = crawler
        self._run = run
        self._gate = gate
        self._most = run.options.retry_after_max_wait

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider, and the gate of its hosts."""
        run, gate = run_of_crawler(crawler), gate_of_crawler(crawler)
        if run is None or gate is None:
            raise NotConfigured  # without words, which Scrapy would log as a warning
        if not run.source.traits.is_polite:
            raise NotConfigured  # files are on no host
        middleware = cls(crawler, run, gate)
        crawler.signals.connect(middleware.answered, signal=signals.response_downloaded)
        return middleware

    async def process_request(self, request: Request) -> None:
        """Let the request pass, or refuse it.

        Raises:
            HostBlockedError: the operator blocked the host.
            HostDownError: the host does not answer.
        """
        gate = self._gate
        refusal = host_refusal(self._run, gate, request.url, host_of_scrapy_request(request))
        if isinstance(refusal, HostBlockedError):
            raise _BlockedError(str(refusal))
        if refusal is not None:
            raise _DownError(str(refusal))
        if gate.throttled and request.callback is NO_CALLBACK:  # it does not pass the scheduler
            host = host_of_scrapy_request(request)
            while (wait := gate.wait(host, time.monotonic())) and self._waits():
                await asyncio.sleep(min(wait, 1))

    def _waits(self) -> bool:
        """Whether a request may wait for its host: the crawl goes on."""
        return bool(self._crawler.engine.running) and self._run.halt.order is None

    def answered(self, response: Response, request: Request) -> None:
        """Record an answer, and the pause that it may ask for."""
        host, now = host_of_scrapy_request(request), time.monotonic()
        self._gate.answered(host, now)
        seconds = pause_of_scrapy_response(response)
        attempt: VisitAttempt | None = request.meta.get("attempt")
        if attempt is not None:
            attempt.retry_after = seconds
        if seconds is not None:
            self._run.hosts.asks_for_time(request.url, seconds)
        if seconds and seconds <= self._most:
            logger.info("%s asked for a pause of %d s", host, seconds)
            self._gate.pause(host, seconds, now)

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Record a visit that ended without an answer; retried requests do not come here."""
        note_download_failure(self._crawler, request, exception, ends=True)


class PassingRetryMiddleware(RetryMiddleware):
    """Retry passing failures in this run, and no others (M-32).

    Scrapy's own middleware also retries lasting failures: a refused address, a broken
    certificate, an answer that is not HTTP, and a pause that is longer than RETRY_AFTER_MAX_WAIT.
    The scheduler decides when the retry is sent.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Read the settings, once; a spider without a run gets Scrapy's behaviour."""
        middleware = super().from_crawler(crawler)
        run = run_of_crawler(crawler)
        middleware._most = run.options.retry_after_max_wait if run is not None else None
        if run is not None:
            middleware.retry_http_codes = set(PASSING)
            middleware.give_up_log_level = "DEBUG"  # it is recorded as the page's outcome
        return middleware

    _most: int | None = None

    def process_response(  # type: ignore[override]  # Scrapy passes no spider any more
        self, request: Request, response: Response
    ) -> Request | Response:
        """Return the retry, or the answer when there is none."""
        if self._most is not None and (pause_of_scrapy_response(response) or 0) > self._most:
            return response
        return super().process_response(request, response)

    def process_exception(  # type: ignore[override]  # likewise
        self, request: Request, exception: Exception
    ) -> Request | Response | None:
        """Return the retry, or None when the visit ends."""
        if self._most is None:
            return super().process_exception(request, exception)
        if isinstance(exception, RunHaltedError):
            return None
        if download_fault(exception, request.url)[0] not in PASSING_FAULTS:
            return None
        again = super().process_exception(request, exception)
        if again is not None:
            again.meta[FRESH] = True  # a kept connection may have ended
            note_download_failure(self.crawler, request, exception, ends=False)
        return again


class _RefusedError(AddressRefusedError, IgnoreRequest):
    """The same error, ignored by Scrapy: not logged as an error of the spider."""


class AddressMiddleware:
    """Refuse addresses that must not be connected to, before any handler has them.

    Schemes, literals and names of metadata services are judged here, and the hosts that a proxy
    would connect to. Other names are judged by the resolver, when they are resolved.
    """

    def __init__(self, check: AddressCheck) -> None:
        self._check = check

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the resolver of this process, for a spider that has a run."""
        run = run_of_crawler(crawler)
        if run is None:
            raise NotConfigured  # without words, which Scrapy would log as a warning
        if not run.source.traits.is_polite:
            raise NotConfigured  # files are on no host
        enabled = crawler.settings.getbool("HTTPPROXY_ENABLED")
        return cls(AddressCheck(installed_resolver(), proxied=enabled and downloads_have_proxies()))

    async def process_request(self, request: Request) -> None:
        """Let the request pass, or refuse it.

        Raises:
            AddressRefusedError: the address is not public, or not of the web.
        """
        refusal = await self._check.refusal(request.url, proxied="proxy" in request.meta)
        if refusal is not None:
            raise _RefusedError(refusal)


class RenderMiddleware:
    """Confirm a page by its data, or replace its document by what a browser shows of it."""

    def __init__(self, renderer: PageRenderer) -> None:
        self.renderer = renderer

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider; a source without a browser needs none of it."""
        run = run_of_crawler(crawler)
        if run is None or run.choice is None or not isinstance(run.source, SiteSource):
            raise NotConfigured  # without words, which Scrapy would log as a warning
        if run.choice.missing:
            logger.info("pages are read without a browser: %s", run.choice.missing)
        from smartcrawl.engine.render.renderer import PageRenderer  # noqa: PLC0415  # only here

        renderer = PageRenderer(crawler, run, run.source)
        crawler.signals.connect(renderer.close, signal=signals.spider_closed)
        return cls(renderer)

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        """Return the page by its data, the rendered page, or the answer as it is, with its route.

        A document that is needed and was confirmed only is requested once more.

        Raises:
            RenderingError: the page could not be rendered.
        """
        if "#" in request.url and "#" not in response.url:  # the downloader sends none
            response = response.replace(url=request.url)
        if not self.renderer.concerns(request, response):
            return response
        return await self.renderer.taken(request, response)

"""Thin components around rules: robots, validators, and the scope of other spiders' requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, Self
from urllib.request import getproxies

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from smartcrawl.engine.download.faults import PASSING_FAULTS, fault_of
from smartcrawl.engine.download.network import GuardedResolver, installed_resolver, looked_up
from smartcrawl.engine.download.robots import RobotsCache
from smartcrawl.engine.download.validators import conditions
from smartcrawl.engine.gate import gate_of, host_of
from smartcrawl.engine.own_spiders import is_own
from smartcrawl.model.exceptions import (
    AddressRefusedError,
    HostBlockedError,
    HostDownError,
    RobotsDisallowedError,
    RobotsUnknownError,
    TurnSpentError,
)
from smartcrawl.model.pages import Attempt
from smartcrawl.model.urls import endpoint, host_key
from smartcrawl.rules.absence import PASSING
from smartcrawl.rules.http import retry_after
from smartcrawl.run.hosts.gate import HostGate, Turn
from smartcrawl.run.run import Run, run_of

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
        headers = conditions(self._run, attempt.page, request.url)
        for name in ("If-None-Match", "If-Modified-Since"):
            request.headers.pop(name, None)
        for name, value in headers.items():
            request.headers[name] = value.encode("latin-1")
        conditional = bool(headers) and request.method == "GET"
        attempt.asks(request.url, conditional=conditional, etag=headers.get("If-None-Match"))

    def process_response(self, request: Request, response: Response) -> Response:
        """Note what came over the wire, before it is decompressed."""
        attempt: Attempt | None = request.meta.get("attempt")
        if attempt is not None:
            attempt.content_length = len(response.body)
            attempt.wire_bytes += attempt.content_length
            encoding = response.headers.get("Content-Encoding")
            attempt.content_encoding = encoding.decode("latin-1").lower() if encoding else None
        return response


class _DisallowedError(RobotsDisallowedError, IgnoreRequest):
    """The same for Scrapy: no error of the spider, nothing to log."""


class _UnknownError(RobotsUnknownError, IgnoreRequest):
    """Likewise."""


class _TurnSpentError(TurnSpentError, IgnoreRequest):
    """Likewise."""


class RobotsMiddleware:
    """Ask robots.txt before any page of a host, and ask no page that it forbids.

    Unknown rules make a page UNREACHABLE, never excluded and never allowed (INV-21). Where other
    workers ask the host, too, a page whose turn was spent on robots.txt waits for the next one.
    """

    def __init__(self, rules: RobotsCache, run: Run | None) -> None:
        self.rules = rules
        self._run = run

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self | None:
        """Read the settings, once."""
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured("ROBOTSTXT_OBEY is off")
        return cls(RobotsCache.from_crawler(crawler), run_of(crawler))

    async def process_request(self, request: Request) -> None:
        """Let the request pass, or refuse it.

        Raises:
            RobotsDisallowedError: the rules forbid the address.
            RobotsUnknownError: the rules of its host could not be had.
            TurnSpentError: it is asked later.
        """
        if request.meta.get("dont_obey_robotstxt"):
            return
        began = time.monotonic()
        rules = await self.rules.of(request)
        if rules.unknown is not None:
            raise _UnknownError(
                f"{rules.origin}/robots.txt could not be read: {rules.unknown}", rules.fault
            )
        asked = rules.asked and rules.asked_at >= began
        run, attempt, spent = self._run, request.meta.get("attempt"), None
        if run is not None and isinstance(attempt, Attempt) and not attempt.requests:
            page = attempt.page  # a hop, or another try, is of the same turn
            spent = page if run.turns.is_spent(page, rules.crawl_delay, asked=asked) else None
        if not rules.allows(request.url):
            raise _DisallowedError(f"disallowed by {rules.origin}/robots.txt")
        if run is not None and spent is not None:
            run.turns.give_back(spent)
            raise _TurnSpentError(f"its turn was spent on {rules.origin}/robots.txt")


class ScopeMiddleware:
    """Keep the requests that a user's own spider yields inside the source's scope."""

    def __init__(self, run: Run | None, crawler: Crawler) -> None:
        self._run = run
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider, if that yields requests of its own.

        Pages of the frontier are in scope already.
        """
        if not is_own(crawler):
            raise NotConfigured
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


class _BlockedError(HostBlockedError, IgnoreRequest):
    """The same for Scrapy: no error of the spider, nothing to log."""


class _DownError(HostDownError, IgnoreRequest):
    """Likewise."""


class HostMiddleware:
    """Refuse what must not be asked of a host, and tell the gate what comes of the rest.

    Of a blocked host neither pages nor robots.txt are asked. Answers are noted as they come
    from the network, before anybody looks at them.
    """

    def __init__(self, crawler: Crawler, run: Run, gate: HostGate) -> None:
        self._crawler = crawler
        self._run = run
        self._gate = gate
        self._most = run.options.retry_after_max_wait

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider, and the gate of its hosts."""
        run, gate = run_of(crawler), gate_of(crawler)
        if run is None or gate is None:
            raise NotConfigured("the spider has no run")
        middleware = cls(crawler, run, gate)
        crawler.signals.connect(middleware.answered, signal=signals.response_downloaded)
        return middleware

    async def process_request(self, request: Request) -> None:
        """Let the request pass, or refuse it.

        Raises:
            HostBlockedError: the operator blocked the host.
            HostDownError: nobody answers there.
        """
        blocked, gate = self._run.blocked_hosts, self._gate
        if blocked and (host := host_key(request.url)) in blocked:
            raise _BlockedError(
                f"{host} is blocked; to ask it again: scrapy hosts --unblock {host}"
            )
        if gate.down and gate.is_down(host_of(request)):
            raise _DownError(
                f"not asked: nobody answers at {host_of(request)}, it was given up for this run"
            )
        if gate.held and request.callback is NO_CALLBACK:  # the scheduler did not see it
            host = host_of(request)
            while (wait := gate.wait(host, time.monotonic())) and self._crawler.engine.running:
                await asyncio.sleep(min(wait, 1))

    def answered(self, response: Response, request: Request) -> None:
        """Note an answer, and the pause that it may ask for."""
        host, now = host_of(request), time.monotonic()
        self._gate.answered(host, now)
        seconds = _asked_wait(response)
        attempt: Attempt | None = request.meta.get("attempt")
        if attempt is not None:
            attempt.retry_after = seconds
        if seconds is not None:
            self._run.hosts.asks_for_time(request.url, seconds)
        if seconds and seconds <= self._most:
            logger.info("%s asks to be left alone for %d s", host, seconds)
            self._gate.pause(host, seconds, now)

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Note a visit that ended without an answer: what is tried again does not come here."""
        _note_failure(self._crawler, request, exception, ends=True)


class PassingRetryMiddleware(RetryMiddleware):
    """Try again in this run what may pass, and nothing else (M-32).

    Scrapy's own would also repeat what cannot pass: a refused address, a broken certificate,
    an answer that is not HTTP, and a page that asks for more patience than a run has. When
    the next try may go out is the scheduler's business.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Read the settings, once; a spider without a run gets Scrapy's behaviour."""
        middleware = super().from_crawler(crawler)
        run = run_of(crawler)
        middleware._most = run.options.retry_after_max_wait if run is not None else None
        if run is not None:
            middleware.retry_http_codes = set(PASSING)
            middleware.give_up_log_level = "DEBUG"  # it is recorded as the page's outcome
        return middleware

    _most: int | None = None

    def process_response(  # type: ignore[override]  # Scrapy gives no spider any more
        self, request: Request, response: Response
    ) -> Request | Response:
        """Return the next try, or the answer when it stands."""
        if self._most is not None and (_asked_wait(response) or 0) > self._most:
            return response
        return super().process_response(request, response)

    def process_exception(  # type: ignore[override]  # likewise
        self, request: Request, exception: Exception
    ) -> Request | Response | None:
        """Return the next try, or None when the visit ends."""
        if self._most is None:
            return super().process_exception(request, exception)
        if fault_of(exception, request.url)[0] not in PASSING_FAULTS:
            return None
        again = super().process_exception(request, exception)
        if again is not None:
            _note_failure(self.crawler, request, exception, ends=False)
        return again


def _asked_wait(response: Response) -> int | None:
    """Return the seconds that a 429 or 503 asks to wait."""
    if response.status not in (429, 503):
        return None
    value = response.headers.get("Retry-After")
    return retry_after(value.decode("latin-1") if value else None, int(time.time()))


def _note_failure(crawler: Crawler, request: Request, error: Exception, *, ends: bool) -> None:
    """Tell the gate of a page request that brought no whole answer, and people what follows."""
    run, gate = run_of(crawler), gate_of(crawler)
    if isinstance(error, IgnoreRequest) or request.callback is NO_CALLBACK:
        return  # it was not asked, or is no page
    if run is None or gate is None:
        return
    host, (fault, message) = host_of(request), fault_of(error, request.url)
    turn = gate.failed(host, fault, time.monotonic(), ends=ends)
    if turn is Turn.PARKED:
        seconds = run.options.host_park_seconds
        logger.warning("nobody answers at %s: left alone for %d s (%s)", host, seconds, message)
    elif turn is Turn.DOWN:
        run.incomplete(f"host_down: {host}")
        logger.warning("nobody answers at %s: given up for this run (%s)", host, message)


class _RefusedError(AddressRefusedError, IgnoreRequest):
    """The same for Scrapy: no error of the spider, nothing to log."""


class AddressMiddleware:
    """Refuse what must not be connected to, as far as the address itself tells.

    Names are judged when they are resolved, by the resolver that connects (network). Literals,
    names of metadata services and schemes are judged here, before any handler has them; so is
    what a proxy would connect to in our place.
    """

    def __init__(self, resolver: GuardedResolver | None, *, proxied: bool = False) -> None:
        self._resolver = resolver
        self._proxied = proxied  #: whether proxies of the environment connect in our place
        self._judged: dict[tuple[str, int], str | None] = {}  #: what they would connect to

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the resolver of this process, for a spider that has a run."""
        if run_of(crawler) is None:
            raise NotConfigured("the spider has no run")
        enabled = crawler.settings.getbool("HTTPPROXY_ENABLED")
        return cls(installed_resolver(), proxied=enabled and bool(getproxies()))

    async def process_request(self, request: Request) -> None:
        """Let the request pass, or refuse it.

        Raises:
            AddressRefusedError: it leads where no page of the web is.
        """
        url, resolver = request.url, self._resolver
        if not url.startswith(("http://", "https://")):
            scheme = url.partition(":")[0]
            raise _RefusedError(f"scheme not allowed: {scheme}")
        if resolver is None:
            return
        host, port = endpoint(url)
        refusal = resolver.refusal(host, port)
        if refusal is None and (self._proxied or "proxy" in request.meta):
            refusal = await self._judge(resolver, host, port)
        if refusal is not None:
            raise _RefusedError(refusal)

    async def _judge(self, resolver: GuardedResolver, host: str, port: int) -> str | None:
        """Look a name up that a proxy will connect to, once."""
        if (host, port) not in self._judged:
            self._judged[host, port] = await looked_up(resolver, host, port)
        return self._judged[host, port]

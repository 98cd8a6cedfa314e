"""The frontier as Scrapy's scheduler: a page becomes a Request when its turn comes."""

from __future__ import annotations

import heapq
import logging
import time
from collections import deque
from functools import partial
from itertools import count
from typing import Any, Protocol, Self

from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.asyncio import CallLaterResult, call_later

from smartcrawl.engine.current_run import run_of_crawler, stop_crawler, wake_engine
from smartcrawl.engine.delays import gate_of_crawler, host_of_scrapy_request
from smartcrawl.engine.own_spiders import reads_answers
from smartcrawl.extract.sitemaps import MAX_SITEMAP
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.run.hosts import HostGate, host_gate_slot
from smartcrawl.run.run import Run
from smartcrawl.run.visits import begins_with_head, first_page_address

logger = logging.getLogger(__name__)


class Lane(Protocol):
    """The revalidation lane, which requests pages outside the engine."""

    def take(self, page: Page) -> bool:
        """Start the request for a page; return False if the engine must request it."""

    @property
    def waits(self) -> bool:
        """Whether some answers are unsettled."""


class NumberScheduler(BaseScheduler):
    """Serves ordinary Requests first, then the pages of the run's frontier.

    A host at its limit of requests in flight gets no more until one of them ends. So one slow host
    neither fills the engine nor delays a stop. A host that the gate throttles gets no request until
    its pause is over; the other hosts do not wait for it.
    """

    def __init__(self, crawler: Crawler, *, per_host: int, max_size: int) -> None:
        self._crawler = crawler
        self._max_sitemap = max(MAX_SITEMAP, max_size) if max_size else 0
        self._per_host = per_host
        self.lane: Lane | None = None
        self._passed_on: deque[Request] = deque()  #: requests that the lane passed to the engine
        self._ordinary: list[tuple[int, int, Request]] = []
        self._throttled: dict[str, list[tuple[int, int, Request]]] = {}  #: ordinary, by host
        self._gate: HostGate | None = None
        self._waking: tuple[float, CallLaterResult] | None = None  #: monotonic time and call
        self._order = count()
        self._seen: set[bytes] = set()
        self._run: Run | None = None
        self._receive: Any = None  #: callback of pages
        self._errback: Any = None
        self._bodies = False  #: whether the spider needs the body of each page

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Read the limits from the settings: requests in flight per host, and body size."""
        settings = crawler.settings
        return cls(
            crawler,
            per_host=settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN"),
            max_size=settings.getint("DOWNLOAD_MAXSIZE"),
        )

    def open(self, spider: Spider) -> None:
        """Take the spider's run, if it has one."""
        self._bodies = reads_answers(type(spider))
        if self._bodies:
            self._receive = spider.receive  # type: ignore[attr-defined]  # of a VisitSpider
        else:
            self._receive = getattr(spider, "parse", None)
        self._errback = getattr(spider, "errback", None)
        self._run = run_of_crawler(self._crawler)
        self._gate = gate_of_crawler(self._crawler)
        self._crawler.signals.connect(self._idle, signal=signals.spider_idle)
        if self._run is not None:
            self._run.start(self.look_again, partial(stop_crawler, self._crawler, self._run))

    def close(self, reason: str) -> None:
        """Cancel the scheduled wake-up of the engine."""
        if self._waking is not None:
            self._waking[1].cancel()

    def has_pending_requests(self) -> bool:
        """Whether requests or pages are pending, or answers of the lane are unsettled."""
        return (
            self.has_requests
            or (self.lane is not None and self.lane.waits)
            or (self._run is not None and self._run.pending)
        )

    def enqueue_request(self, request: Request) -> bool:
        """Queue an ordinary Request: a redirect hop, a retry, or one of a user's own spider."""
        if not request.dont_filter:
            fingerprint = self._crawler.request_fingerprinter.fingerprint(request)
            if fingerprint in self._seen:
                return False
            self._seen.add(fingerprint)
        heapq.heappush(self._ordinary, (-request.priority, next(self._order), request))
        return True

    def next_request(self) -> Request | None:
        """Return the next request, or None when no request may be sent now."""
        if self._passed_on:
            return self._passed_on.popleft()
        if (self._ordinary or self._throttled) and (request := self._next_ordinary()) is not None:
            return request
        page = self.next_page()
        while page is not None and self.lane is not None and self.lane.take(page):
            full = self._crawler.engine.downloader.needs_backout()
            page = self.next_page() if not full else None
        if page is not None:
            return self.request_of(page)
        if self._run is not None and self._run.turns.resting:
            call_later(0, self.look_again)
        elif self._gate is not None and self._gate.throttled:
            self._wake_in_time(self._gate)
        return None

    # For the lane

    @property
    def has_requests(self) -> bool:
        """Whether requests other than pages of the frontier wait for the engine."""
        return bool(self._passed_on or self._ordinary or self._throttled)

    def pass_on(self, request: Request) -> None:
        """Queue a request before all others, even if the gate throttles its host."""
        self._passed_on.append(request)
        self.look_again()

    def next_page(self) -> Page | None:
        """Return the next page of the frontier, or None when there is none now."""
        run = self._run
        if run is None:
            return None
        try:
            return run.next_page(self._free)
        except Exception as error:  # without a stop the engine would wait forever
            found = run.registry.database.explained(error)
            if found is None:
                logger.exception("cannot find the next page")
                why = f"cannot find the next page ({type(error).__name__}: {error})"
                found = RegistryError(why)
            stop_crawler(self._crawler, run, found)
            return None

    def _next_ordinary(self) -> Request | None:
        """Return the first ordinary Request whose host is not throttled."""
        gate = self._gate
        if gate is None or not (gate.throttled or self._throttled):
            return heapq.heappop(self._ordinary)[2]
        for host in [host for host in self._throttled if self._let(gate, host)]:
            for entry in self._throttled.pop(host):
                heapq.heappush(self._ordinary, entry)
        while self._ordinary:
            entry = heapq.heappop(self._ordinary)
            host = host_of_scrapy_request(entry[2])
            if self._let(gate, host):
                return entry[2]
            self._throttled.setdefault(host, []).append(entry)
        return None

    def _let(self, gate: HostGate, host: str) -> bool:
        """Whether the gate permits a request to this host now."""
        flying = sum(
            host_of_scrapy_request(r) == host for r in self._crawler.engine.downloader.active
        )
        return gate.may_ask(host, time.monotonic(), flying)

    def _wake_in_time(self, gate: HostGate) -> None:
        """Wake the engine as soon as a throttled host may be requested again.

        Otherwise only its heartbeat, every five seconds, would wake it.
        """
        now = time.monotonic()
        wait = gate.next_turn(now)
        if wait is None or not self.has_pending_requests():
            return
        if self._waking is not None:
            if now < self._waking[0] <= now + wait:
                return
            self._waking[1].cancel()
        self._waking = now + wait, call_later(wait, self._wake)

    def look_again(self) -> None:
        """Let the engine ask for a request at once, not only at its next heartbeat."""
        wake_engine(self._crawler)

    def _wake(self) -> None:
        self._waking = None
        request = self.next_request()
        if request is not None:
            request.dont_filter = True  # it has passed the filter
            self._crawler.engine.crawl(request)

    def _idle(self) -> None:
        """Keep the spider open while pages of throttled hosts are pending."""
        if self._gate is not None and self._gate.throttled and self.has_pending_requests():
            raise DontCloseSpider

    def request_of(
        self, page: Page, attempt: VisitAttempt | None = None, url: str | None = None
    ) -> Request:
        """Return the first request for a page, or that for another spelling in its ``attempt``."""
        meta: dict[str, Any] = {
            "attempt": attempt or VisitAttempt(page),
            "handle_httpstatus_all": True,
            Downloader.DOWNLOAD_SLOT: host_gate_slot(page.host),
        }
        if page.kind:
            meta["download_maxsize"] = self._max_sitemap
        run, others = self._run, self._bodies or url is not None
        head = run is not None and not others and begins_with_head(run, page)
        return Request(
            url or first_page_address(page),
            method="HEAD" if head else "GET",
            callback=self._receive,
            errback=self._errback,
            meta=meta,
            dont_filter=True,
        )

    def _free(self, host: str) -> bool:
        """Whether a host may have one more request in flight.

        Requests are counted in the downloader's ``active`` set, which is always up to date. A slot
        lists a request only in a later turn of the event loop.
        """
        gate = self._gate
        if gate is not None and gate.throttled and not self._let(gate, host_gate_slot(host)):
            return False
        downloader, name = self._crawler.engine.downloader, host_gate_slot(host)
        active, slot = downloader.active, downloader.slots.get(name)
        most = self._per_host if slot is None else min(slot.concurrency, self._per_host)
        if len(active) < most:
            return True
        flying = [r for r in active if r.meta.get(Downloader.DOWNLOAD_SLOT) == name]
        return len(flying) < most

"""Scrapy's view of the frontier: Requests are born here, one a page, when its turn comes."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Self

from scrapy import Request, Spider
from scrapy.core.downloader import Downloader
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler

from smartcrawl.items import Attempt, Page
from smartcrawl.run import Run, run_of


class NumberScheduler(BaseScheduler):
    """Serves ordinary Requests first, then the pages of the run's frontier.

    A host that has as many requests in flight as it may have gives nothing until one of
    them ends; so one slow host neither fills the engine nor delays a stop.
    """

    def __init__(self, crawler: Crawler, *, per_host: int) -> None:
        self._crawler = crawler
        self._per_host = per_host
        self._ordinary: list[tuple[int, int, Request]] = []
        self._order = count()
        self._seen: set[bytes] = set()
        self._run: Run | None = None
        self._spider: Spider | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Read the limit of requests in flight for each host."""
        return cls(crawler, per_host=crawler.settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN"))

    def open(self, spider: Spider) -> None:
        """Take the spider's run, if it has one."""
        self._spider = spider
        self._run = run_of(self._crawler)

    def has_pending_requests(self) -> bool:
        """Whether anything waits, be it for a full host."""
        return bool(self._ordinary) or (self._run is not None and self._run.pending)

    def enqueue_request(self, request: Request) -> bool:
        """Take an ordinary Request: a hop, a retry, or what a user's own spider yields."""
        if not request.dont_filter:
            fingerprint = self._crawler.request_fingerprinter.fingerprint(request)
            if fingerprint in self._seen:
                return False
            self._seen.add(fingerprint)
        heapq.heappush(self._ordinary, (-request.priority, next(self._order), request))
        return True

    def next_request(self) -> Request | None:
        """Return what is asked next, or None when nothing may go out now."""
        if self._ordinary:
            return heapq.heappop(self._ordinary)[2]
        if self._run is None:
            return None
        page = self._run.next_page(self._free)
        return self._request(page) if page is not None else None

    def _request(self, page: Page) -> Request:
        spider = self._spider
        return Request(
            page.url,
            callback=spider.parse,  # type: ignore[union-attr]  # open() was called
            errback=spider.errback,  # type: ignore[union-attr]  # a spider with a run has it
            meta={
                "attempt": Attempt(page),
                "handle_httpstatus_all": True,
                Downloader.DOWNLOAD_SLOT: slot_of(page.host),
            },
            dont_filter=True,
        )

    def _free(self, host: str) -> bool:
        """Whether a host may have one more request in flight.

        The downloader's set of active requests is exact at once; its slots learn of a
        request only in a later turn of the loop.
        """
        active = self._crawler.engine.downloader.active
        if len(active) < self._per_host:
            return True
        slot = slot_of(host)
        flying = [r for r in active if r.meta.get(Downloader.DOWNLOAD_SLOT) == slot]
        return len(flying) < self._per_host


def slot_of(host: str) -> str:
    """Return Scrapy's download slot of a host: politeness does not tell ports apart.

    >>> slot_of("example.com"), slot_of("127.0.0.1:8801"), slot_of("[::1]:8801")
    ('example.com', '127.0.0.1', '::1')
    """
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).strip("[]")

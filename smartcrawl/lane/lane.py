"""Known pages asked beside the engine: a 304 becomes a Visit at once, the rest is handed over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import Request, signals
from scrapy.core.downloader import Downloader, Slot
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.utils.request import request_httprepr

from smartcrawl.exceptions import LaneError
from smartcrawl.gates import gate_of
from smartcrawl.items import Attempt, Page
from smartcrawl.lane.fitness import unfit
from smartcrawl.middlewares import RevalidationMiddleware, RobotsMiddleware, conditions
from smartcrawl.network import installed_resolver
from smartcrawl.politeness import slot_of
from smartcrawl.robots_rules import RobotsRules
from smartcrawl.run import Run, run_of
from smartcrawl.scheduler import NumberScheduler
from smartcrawl.urls import endpoint

if TYPE_CHECKING:
    from smartcrawl.lane.client import Answer, LaneClient

logger = logging.getLogger(__name__)

IN_HAND: Final = "in_hand"  #: in Request.meta: the Response that was received already
_SHORT: Final = 0.001  #: seconds
_MOST_FAILURES: Final = 3  #: of a host, after which the engine asks its pages
_READ: Final = frozenset({b"etag", b"last-modified", b"x-robots-tag"})  #: headers of a 304
_STATUS_LINE: Final = len("HTTP/1.1 304 Not Modified\r\n\r\n")


class InHandMiddleware:
    """Gives the engine an answer that the lane received, so that nobody asks twice."""

    def process_request(self, request: Request) -> Response | None:
        """Return the answer in hand; what is asked again after it is asked anew."""
        response: Response | None = request.meta.pop(IN_HAND, None)
        return response


@dataclass(slots=True)
class _Origin:
    """What the lane knows of a scheme, host and port."""

    refused: bool  #: by the address guard
    size: int  #: bytes of a request without its path and its conditions
    failures: int = 0


@dataclass(slots=True)
class _Flight:
    """A request that is under way."""

    page: Page
    request: Request
    headers: Mapping[str, str]
    origin: _Origin
    slot: Slot


class RevalidationLane:
    """Asks "has it changed?" of known pages without Scrapy's engine, where that is the same.

    A request counts among those of engine, downloader and slot, keeps the slot's delay, and goes
    out only to hosts whose robots.txt is known. A 304 becomes a Visit, which passes the pipelines;
    any other answer enters the engine with the response in hand; where none came the engine asks.

    Source: design.md 10; docs/adr/0031.
    """

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._client: LaneClient | None = None
        self._origins: dict[str, _Origin] = {}
        self._paces: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._robots: RobotsRules | None = None
        self._headers: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Wait for the spider of a run, unless REVALIDATION_LANE is off."""
        run = run_of(crawler)
        if run is None or not run.options.revalidation_lane:
            raise NotConfigured("there is nothing for the lane to do")
        lane = cls(crawler, run)
        crawler.signals.connect(lane.opened, signal=signals.spider_opened)
        crawler.signals.connect(lane.closed, signal=signals.spider_closed)
        return lane

    def opened(self) -> None:
        """Open the lane, if nothing of the crawl speaks against it."""
        why = unfit(self._crawler)
        if why is not None:
            logger.info("the engine asks known pages, too: %s", why)
            return
        engine = self._crawler.engine
        assert engine is not None
        self._engine, self._downloader = engine, engine.downloader
        middlewares = self._downloader.middleware.middlewares
        for middleware in middlewares:
            if isinstance(middleware, RobotsMiddleware):
                self._robots = middleware.rules
            if isinstance(middleware, RevalidationMiddleware):
                self._revalidation = middleware
        self._headers = _same_headers(middlewares)
        self._steps = [step.process_item for step in engine.scraper.itemproc.middlewares]
        self._gate = gate_of(self._crawler)
        scheduler = engine.scheduler
        assert isinstance(scheduler, NumberScheduler)
        self._scheduler = scheduler
        scheduler.lane = self

    # What it takes

    def take(self, page: Page) -> bool:
        """Ask for a page, if it may be asked here; it is under way then."""
        flight = self._flight(page)
        if flight is None:
            return False
        self._start(flight)
        return True

    def _flight(self, page: Page) -> _Flight | None:
        """Return the request for a page, noted as in flight; None: it is the engine's."""
        if page.verify or page.kind or page.signed is not None or self._run.trust.asks_head(page):
            return None
        headers = conditions(self._run, page, page.url)
        origin = self._origin(page.url) if headers else None
        if origin is None:
            return None
        request = self._scheduler.request_of(page)
        if not self._allows(page, request):
            return None
        downloader = self._downloader
        _, slot = downloader._get_slot(request)
        if slot.free_transfer_slots() <= 0:
            return None
        assert self._engine._slot is not None
        self._engine._slot.add_request(request)
        downloader.active.add(request)
        slot.active.add(request)
        slot.transferring.add(request)
        return _Flight(page, request, headers, origin, slot)

    def _origin(self, url: str) -> _Origin | None:
        """Return what is known of an origin; None where the lane may not ask."""
        end = url.find("/", 8)
        name = url[:end] if end > 0 else url
        origin = self._origins.get(name)
        if origin is None:
            resolver = installed_resolver()
            refusal = resolver.refusal(*endpoint(url)) if resolver is not None else "no guard"
            size = len(request_httprepr(Request(f"{name}/", headers=self._headers))) - 1
            origin = self._origins[name] = _Origin(refusal is not None, size)
        return None if origin.refused or origin.failures >= _MOST_FAILURES else origin

    def _allows(self, page: Page, request: Request) -> bool:
        """Whether nothing is known of the host that the engine would have to look into."""
        gate, blocked = self._gate, self._run.blocked_hosts
        if (blocked and page.host in blocked) or (
            gate is not None and gate.down and gate.is_down(slot_of(page.host))
        ):
            return False
        if self._robots is None:
            return True
        url = page.url
        rules = self._robots.at_hand(url[: url.find("/", 8)], request)
        return rules is not None and rules.unknown is None and rules.allows(url)

    # How it goes on

    async def _work(self, flight: _Flight) -> None:
        """Ask for a page, and for others after it, as long as there are any."""
        after: _Flight | None = flight
        while after is not None:
            await self._visit(after)
            after = self._next()
            if after is not None:
                self._spread()
        self._scheduler.look_again()

    def _spread(self) -> None:
        """Put what may be asked at the same time under way, too."""
        while (flight := self._next()) is not None:
            self._start(flight)

    def _start(self, flight: _Flight) -> None:
        task = asyncio.ensure_future(self._work(flight))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _next(self) -> _Flight | None:
        """Return the next page's request; None where there is none now, or the engine's is next."""
        scheduler = self._scheduler
        while not (scheduler.has_requests or self._engine.needs_backout()):
            page = scheduler.next_page()
            if page is None:
                return None
            flight = self._flight(page)
            if flight is not None:
                return flight
            scheduler.pass_on(scheduler.request_of(page))
        return None

    async def _visit(self, flight: _Flight) -> None:
        request, slot = flight.request, flight.slot
        try:
            await self._ask(flight)
        except Exception:
            logger.exception("cannot process %s", request.url)
            self._run.unanswered(flight.page)
        finally:
            slot.transferring.discard(request)
            slot.active.discard(request)
            self._downloader.active.discard(request)
            if slot.queue:
                self._downloader._process_queue(slot)
            assert self._engine._slot is not None
            self._engine._slot.remove_request(request)

    async def _ask(self, flight: _Flight) -> None:
        request, slot = flight.request, flight.slot
        if slot.delay:
            await self._turn(request, slot)
        slot.lastseen = time.monotonic()
        attempt: Attempt = request.meta["attempt"]
        attempt.asks(request.url, conditional=True)
        self._count_request(flight)
        try:
            answer = await self._open().ask(request.url, {**self._headers, **flight.headers})
        except LaneError as error:
            self._fall_back(flight, error)
            return
        request.meta["download_latency"] = answer.latency
        if answer.status == 304:
            await self._unchanged(flight, answer)
        else:
            self._hand_over(flight, answer)

    async def _turn(self, request: Request, slot: Slot) -> None:
        """Wait until the slot's delay is over, and what the engine queued before has gone out."""
        name = request.meta[Downloader.DOWNLOAD_SLOT]
        async with self._paces.setdefault(name, asyncio.Lock()):
            ahead = {queued for queued, _ in slot.queue}
            delay = slot.download_delay()
            while True:
                wait = slot.lastseen + delay - time.monotonic()
                if wait <= 0 and ahead.isdisjoint(queued for queued, _ in slot.queue):
                    break
                await asyncio.sleep(max(wait, _SHORT))
            slot.lastseen = time.monotonic()

    def _open(self) -> LaneClient:
        if self._client is None:
            client: Any = import_module("smartcrawl.lane.client")  # 10 MiB that first crawls spare
            opened: LaneClient = client.LaneClient(self._crawler.settings, installed_resolver())
            self._client = opened
        return self._client

    # What comes of it

    async def _unchanged(self, flight: _Flight, answer: Answer) -> None:
        """Turn a 304 into the page's Visit."""
        request = flight.request
        told = [pair for pair in answer.headers if pair[0].lower() in _READ]
        response = Response(request.url, status=304, headers=_headers(told), request=request)
        self._tell(response, request)
        self._count_answer(answer)
        self._revalidation.process_response(request, response)
        parse: Any = request.callback
        for item in parse(response):
            await self._process(item)

    async def _process(self, item: Any) -> None:
        for step in self._steps:
            done = step(item)
            item = await done if isawaitable(done) else done
        self._counts["item_scraped_count"] += 1

    def _hand_over(self, flight: _Flight, answer: Answer) -> None:
        """Let the engine go on with an answer that is no 304."""
        request = flight.request
        headers = _headers(answer.headers)
        kind = responsetypes.from_args(headers=headers, url=request.url, body=answer.body)
        response = kind(
            request.url,
            status=answer.status,
            headers=headers,
            body=answer.body,
            protocol=answer.protocol,
        )
        response.request = request
        self._counts["lane/handed_over"] += 1
        self._tell(response, request)
        request.meta[IN_HAND] = response
        self._scheduler.pass_on(request)

    def _fall_back(self, flight: _Flight, error: LaneError) -> None:
        """Let the engine ask what the lane could not."""
        flight.origin.failures += 1
        self._counts["lane/fallbacks"] += 1
        logger.debug("the engine asks %s: %s", flight.request.url, error)
        self._scheduler.pass_on(flight.request)

    def _tell(self, response: Response, request: Request) -> None:
        """Let everybody know who waits for answers: pauses and delays follow from them."""
        self._crawler.signals.send_catch_log(
            signals.response_downloaded,
            response=response,
            request=request,
            spider=self._crawler.spider,
        )

    # Counts, as the engine's own

    def _count_request(self, flight: _Flight) -> None:
        counts, url = self._counts, flight.request.url
        size = flight.origin.size + len(url) - url.find("/", 8)
        size += sum(len(name) + len(value) + 4 for name, value in flight.headers.items())
        counts["downloader/request_count"] += 1
        counts["downloader/request_method_count/GET"] += 1
        counts["downloader/request_bytes"] += size

    def _count_answer(self, answer: Answer) -> None:
        counts = self._counts
        size = _STATUS_LINE + sum(len(name) + len(value) + 4 for name, value in answer.headers)
        counts["downloader/response_count"] += 1
        counts["downloader/response_status_count/304"] += 1
        counts["downloader/response_bytes"] += size
        counts["response_received_count"] += 1
        counts["lane/not_modified"] += 1

    async def closed(self) -> None:
        """Hand the counts to the stats, and close the connections."""
        for name, count in self._counts.items():
            self._crawler.stats.inc_value(name, count)
        if self._client is not None:
            await self._client.close()


def _headers(pairs: Any) -> Headers:
    headers = Headers()
    for name, value in pairs:
        headers.appendlist(name, value)
    return headers


def _same_headers(middlewares: Any) -> dict[str, str]:
    """Return the headers that the engine's middlewares give to every request."""
    request = Request("http://localhost/")
    for middleware in middlewares:
        if type(middleware).__name__ in (
            "DefaultHeadersMiddleware",
            "UserAgentMiddleware",
            "DecodingMiddleware",
        ):
            middleware.process_request(request)
    told = request.headers.to_unicode_dict()
    return {str(name): value for name, value in told.items()}

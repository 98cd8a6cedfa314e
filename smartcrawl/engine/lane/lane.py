"""Known pages asked beside the engine: a 304 becomes a Visit, the rest is handed over."""

from __future__ import annotations

import asyncio
import logging
import time
from inspect import isawaitable
from typing import Any, Final, NamedTuple, Self

from scrapy import Request, signals
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.utils.request import request_httprepr

from smartcrawl.engine.delays import DelayControl
from smartcrawl.engine.download.certificates import Trust
from smartcrawl.engine.download.decoding import DecodingMiddleware
from smartcrawl.engine.download.network import installed_resolver
from smartcrawl.engine.download.robots import RobotsCache
from smartcrawl.engine.download.validators import conditions
from smartcrawl.engine.gate import gate_of
from smartcrawl.engine.lane.client import LaneClient
from smartcrawl.engine.lane.connections import Answer
from smartcrawl.engine.lane.fitness import unfit
from smartcrawl.engine.lane.flights import Counts, Flight, NotModified, Origin
from smartcrawl.engine.scheduler import NumberScheduler
from smartcrawl.engine.stopping import is_stopping
from smartcrawl.model.exceptions import LaneError
from smartcrawl.model.pages import Attempt, Page
from smartcrawl.model.urls import endpoint
from smartcrawl.run.hosts.gate import slot_of
from smartcrawl.run.run import Run, run_of
from smartcrawl.run.strays import FRESH, origin_of
from smartcrawl.run.visits import confirmed

logger = logging.getLogger(__name__)

IN_HAND: Final = "in_hand"  #: in Request.meta: the Response that was received already
_SHORT: Final = 0.001  #: seconds
_LONG: Final = 0.5  #: seconds within which a wait is given up when the crawl is to end
_MOST_FAILURES: Final = 3  #: of a host, after which the engine asks its pages
#: Headers of a 304.
_ETAG, _DATE, _LENGTH, _TAG = b"etag", b"last-modified", b"content-length", b"x-robots-tag"


class _Unsettled(NamedTuple):
    """An answer whose connection was not found clean yet."""

    flight: Flight
    answer: Answer
    request: Request | None  #: the engine's, with the answer in hand; None: a 304


class InHandMiddleware:
    """Gives the engine an answer that the lane received, so that nobody asks twice."""

    def process_request(self, request: Request) -> Response | None:
        """Return the answer in hand; what is asked again after it is asked anew."""
        response: Response | None = request.meta.pop(IN_HAND, None)
        return response


class RevalidationLane:
    """Asks "has it changed?" of known pages without Scrapy's engine, where that is the same.

    A request counts among those of engine, downloader and slot, keeps the slot's delay, and goes
    out only to hosts whose robots.txt is known. A 304 becomes a Visit, which passes the pipelines;
    any other answer enters the engine with the response in hand. Both wait until the connection
    is found clean; where it is not, or no answer came, the engine asks.

    Source: design.md 10; docs/adr/0031, 0032.
    """

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._client: LaneClient | None = None
        self._origins: dict[str, Origin] = {}
        self._paces: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._robots: RobotsCache | None = None
        self._control: DelayControl | None = None
        self._headers: dict[str, str] = {}
        self._counts = Counts()
        self._unsettled: dict[asyncio.Future[bool], list[_Unsettled]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Wait for the spider of a run, unless REVALIDATION_LANE is off."""
        run = run_of(crawler)
        if run is None or not run.options.revalidation_lane:
            raise NotConfigured
        lane = cls(crawler, run)
        crawler.signals.connect(lane.opened, signal=signals.spider_opened)
        crawler.signals.connect(lane.closed, signal=signals.spider_closed)
        return lane

    def opened(self) -> None:
        """Open the lane, if nothing of the crawl speaks against it."""
        why, resolver = unfit(self._crawler), installed_resolver()
        if why is not None or resolver is None:
            logger.info("the engine asks known pages, too: %s", why)
            return
        engine = self._crawler.engine
        assert engine is not None
        self._engine, self._downloader, self._resolver = engine, engine.downloader, resolver
        middlewares = self._downloader.middleware.middlewares
        for middleware in middlewares:
            rules = getattr(middleware, "rules", None)
            if isinstance(rules, RobotsCache):
                self._robots = rules
        extensions = self._crawler.extensions
        for extension in extensions.middlewares if extensions is not None else ():
            if isinstance(extension, DelayControl):
                self._control = extension
        self._headers = _same_headers(middlewares)
        self._steps = [step.process_item for step in engine.scraper.itemproc.middlewares]
        self._gate = gate_of(self._crawler)
        scheduler = engine.scheduler
        assert isinstance(scheduler, NumberScheduler)
        self._scheduler = scheduler
        scheduler.lane = self

    @property
    def waits(self) -> bool:
        """Whether answers wait for their connections to be clean."""
        return bool(self._unsettled)

    # What it takes

    def take(self, page: Page) -> bool:
        """Ask for a page, if it may be asked here; it is under way then."""
        flight = self._flight_or_none(page)
        if flight is None:
            return False
        self._start(flight)
        return True

    def _flight_or_none(self, page: Page) -> Flight | None:
        try:
            return self._flight(page)
        except Exception:  # no page is lost for that
            logger.exception("the engine asks %s", page.url)
            return None

    def _flight(self, page: Page) -> Flight | None:
        """Return the request for a page, noted as in flight; None: it is the engine's."""
        if page.verify or page.kind or page.signed is not None or self._run.trust.asks_head(page):
            return None
        headers = conditions(self._run, page, page.url)
        origin = self._origin(page.url) if headers else None
        if origin is None:
            return None
        name = slot_of(page.host)
        slot = self._downloader.slots.get(name)
        if slot is None or slot.free_transfer_slots() <= 0:
            return None
        if not self._allows(page, origin, name):
            return None
        flight = Flight(
            page, Attempt(page), headers, origin, slot, {Downloader.DOWNLOAD_SLOT: name}
        )
        request: Any = flight
        assert self._engine._slot is not None
        self._engine._slot.add_request(request)
        self._downloader.active.add(request)
        slot.active.add(request)
        slot.transferring.add(request)
        return flight

    def _origin(self, url: str) -> Origin | None:
        """Return what is known of an origin; None where the lane may not ask."""
        name = origin_of(url)
        origin = self._origins.get(name)
        if origin is None:
            refusal = self._resolver.refusal(*endpoint(url))
            sent = {key: value.encode("latin-1") for key, value in self._headers.items()}
            size = len(request_httprepr(Request(f"{name}/", headers=sent)))
            size -= len(name) + 1  # what is counted is the path
            origin = self._origins[name] = Origin(name, refusal is not None, size)
        return None if origin.refused or origin.failures >= _MOST_FAILURES else origin

    def _allows(self, page: Page, origin: Origin, slot: str) -> bool:
        """Whether nothing is known of the host that the engine would have to look into."""
        gate, blocked = self._gate, self._run.blocked_hosts
        if (blocked and page.host in blocked) or (
            gate is not None and gate.down and gate.is_down(slot)
        ):
            return False
        if self._robots is None:
            return True
        rules = self._robots.at_hand(origin.name)
        if rules is None or rules.unknown is not None or not rules.allows(page.url):
            return False
        return not self._run.turns.is_spent(page, rules.crawl_delay, asked=False)

    # How it goes on

    async def _work(self, flight: Flight) -> None:
        """Ask for a page, and for others after it, as long as there are any."""
        after: Flight | None = flight
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

    def _start(self, flight: Flight) -> None:
        task = asyncio.ensure_future(self._work(flight))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _next(self) -> Flight | None:
        """Return the next page's request; None where there is none now, or the engine's is next."""
        scheduler = self._scheduler
        while not (scheduler.has_requests or self._engine.needs_backout()):
            page = scheduler.next_page()
            if page is None:
                return None
            flight = self._flight_or_none(page)
            if flight is not None:
                return flight
            scheduler.pass_on(scheduler.request_of(page))
        return None

    async def _visit(self, flight: Flight) -> None:
        """Ask for a page, and free its place; the answer waits among the unsettled ones."""
        request: Any = flight
        slot, answer = flight.slot, None
        try:
            answer = await self._ask(flight)
            if answer is not None and answer.status != 304:
                await asyncio.wait([answer.clean])  # no more bodies in memory than in the engine
        except Exception:
            logger.exception("cannot process %s", flight.page.url)
            self._run.turns.unanswered(flight.page)
        finally:
            slot.transferring.discard(request)
            slot.active.discard(request)
            self._downloader.active.discard(request)
            if slot.queue:
                self._downloader._process_queue(slot)
            if answer is None:
                self._land(flight)

    def _land(self, flight: Flight) -> None:
        """Take a flight off the engine's list of requests under way."""
        request: Any = flight
        assert self._engine._slot is not None
        self._engine._slot.remove_request(request)

    async def _ask(self, flight: Flight) -> Answer | None:
        """Return the answer, which is to be settled; None: the visit goes on elsewhere."""
        slot = flight.slot
        if slot.delay:
            await self._turn(flight)
        else:
            slot.lastseen = time.monotonic()
        if is_stopping(self._crawler):
            self._run.turns.unanswered(flight.page)  # it stays pending
            return None
        etag = flight.headers.get("If-None-Match")
        flight.attempt.asks(flight.page.url, conditional=True, etag=etag)
        self._counts.asked(flight)
        try:
            answer = await self._open().ask(flight.page.url, flight.headers)
        except LaneError as error:
            self._fall_back(flight, error)
            return None
        flight.meta["download_latency"] = answer.latency
        request = None
        if answer.status == 304:
            self._answered(flight)
        else:
            request = self._request_in_hand(flight, answer)
        group = self._unsettled.get(answer.clean)
        if group is None:
            group = self._unsettled[answer.clean] = []
            answer.clean.add_done_callback(self._settled)
        group.append(_Unsettled(flight, answer, request))
        return answer

    async def _turn(self, flight: Flight) -> None:
        """Wait until the slot's delay is over, and what the engine queued before has gone out."""
        slot, name = flight.slot, flight.meta[Downloader.DOWNLOAD_SLOT]
        async with self._paces.setdefault(name, asyncio.Lock()):
            ahead = {queued for queued, _ in slot.queue}
            delay = slot.download_delay()
            while True:
                wait = slot.lastseen + delay - time.monotonic()
                gone = ahead.isdisjoint(queued for queued, _ in slot.queue)
                if (wait <= 0 and gone) or is_stopping(self._crawler):
                    break
                await asyncio.sleep(min(max(wait, _SHORT), _LONG))
            slot.lastseen = time.monotonic()

    def _open(self) -> LaneClient:
        if self._client is None:
            trust = Trust.of(self._run.source, self._run.options)
            self._client = LaneClient(
                self._crawler.settings, self._resolver, trust, self._headers, self._run.strays
            )
        return self._client

    # What comes of it

    def _settled(self, clean: asyncio.Future[bool]) -> None:
        """Go on with the answers of a connection that was found clean, or never will be."""
        task = asyncio.ensure_future(self._count(self._unsettled[clean], clean.result()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._unsettled.pop(clean, None))
        task.add_done_callback(lambda _: self._scheduler.look_again())

    async def _count(self, group: list[_Unsettled], clean: bool) -> None:
        for flight, answer, request in group:
            try:
                if not clean:
                    self._withdraw(flight)
                elif request is None:
                    await self._unchanged(flight, answer)
                else:
                    self._counts.handed_over += 1
                    self._scheduler.pass_on(request)
            except Exception:
                logger.exception("cannot process %s", flight.page.url)
                self._run.turns.unanswered(flight.page)
            finally:
                self._land(flight)

    async def _unchanged(self, flight: Flight, answer: Answer) -> None:
        """Turn a 304 into the page's Visit."""
        told: dict[bytes, str | None] = {_ETAG: None, _DATE: None, _LENGTH: None}
        tags = []
        for name, value in answer.headers:
            lower = name.lower()
            if lower == _TAG:
                tags.append(value.decode("latin-1"))
            elif lower in told:
                told[lower] = value.decode("latin-1")
        self._counts.confirmed(answer.size, has_length=told[_LENGTH] is not None)
        visit = flight.attempt.visit(flight.page.url)
        visit.robots_tags = tuple(tags)
        item: Any = confirmed(visit, told[_ETAG], told[_DATE], latency=answer.latency)
        for step in self._steps:
            done = step(item)
            item = await done if isawaitable(done) else done

    def _request_in_hand(self, flight: Flight, answer: Answer) -> Request:
        """Return the request with which the engine goes on with an answer that is no 304.

        Pauses and delays that follow from the answer begin at once.
        """
        request = self._request(flight)
        headers = Headers()
        for name, value in answer.headers:
            headers.appendlist(name, value)
        kind = responsetypes.from_args(headers=headers, url=flight.page.url, body=answer.body)
        response = kind(
            flight.page.url,
            status=answer.status,
            headers=headers,
            body=answer.body,
            request=request,
            protocol=answer.protocol,
        )
        self._crawler.signals.send_catch_log(
            signals.response_downloaded,
            response=response,
            request=request,
            spider=self._crawler.spider,
        )
        request.meta[IN_HAND] = response
        return request

    def _withdraw(self, flight: Flight) -> None:
        """Let the engine ask again, apart: the answer may have been that of another page."""
        self._counts.withdrawn += 1
        logger.debug("the engine asks %s again: its connection was not clean", flight.page.url)
        request = self._request(flight)
        request.meta[FRESH] = True
        self._scheduler.pass_on(request)

    def _fall_back(self, flight: Flight, error: LaneError) -> None:
        """Let the engine ask what the lane could not."""
        flight.origin.failures += 1
        self._counts.fallbacks += 1
        if not error.sent:
            flight.attempt = Attempt(flight.page)
        logger.debug("the engine asks %s: %s", flight.page.url, error)
        self._scheduler.pass_on(self._request(flight))

    def _request(self, flight: Flight) -> Request:
        """Return the engine's request for a page, with what it has cost so far."""
        request = self._scheduler.request_of(flight.page)
        request.meta.update(flight.meta, attempt=flight.attempt)
        return request

    def _answered(self, flight: Any) -> None:
        """Let those know of a 304 who wait for answers: pauses and delays follow from them."""
        if self._gate is not None:
            self._gate.answered(flight.meta[Downloader.DOWNLOAD_SLOT], time.monotonic())
        if self._control is not None:
            self._control.answered(flight, NotModified(flight))
        if self._robots is not None:
            self._robots.delays.answered(flight)

    async def closed(self) -> None:
        """Hand the counts to the stats, and close the connections."""
        if self._client is not None:
            self._counts.strays = self._client.strays
            await self._client.close()
        self._counts.tell(self._crawler.stats)


def _same_headers(middlewares: Any) -> dict[str, str]:
    """Return the headers that the engine's middlewares give to every request."""
    request = Request("http://localhost/")
    for middleware in middlewares:
        if isinstance(
            middleware, DefaultHeadersMiddleware | UserAgentMiddleware | DecodingMiddleware
        ):
            middleware.process_request(request)
    return {
        name.decode("latin-1"): b",".join(values).decode("latin-1")
        for name, values in request.headers.items()
    }

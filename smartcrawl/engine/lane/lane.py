"""The revalidation lane: conditional requests for stored pages, outside Scrapy's engine.

A 304 becomes a Visit; any other answer is passed to the engine.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, NamedTuple, Self

from scrapy import Request, signals
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.download.certificates import CertificateTrust
from smartcrawl.engine.download.network import installed_resolver
from smartcrawl.engine.download.robots import RobotsDownloads
from smartcrawl.engine.gate import gate_of_crawler
from smartcrawl.engine.lane.client import LaneClient
from smartcrawl.engine.lane.confirmations import LaneConfirmations
from smartcrawl.engine.lane.connections import LaneAnswer
from smartcrawl.engine.lane.fitness import lane_obstacle
from smartcrawl.engine.lane.flights import Flight, LaneCounts
from smartcrawl.engine.lane.handover import IN_HAND, LaneHandover
from smartcrawl.engine.lane.origins import Origin, Origins, lane_request_headers
from smartcrawl.engine.lane.turns import LaneTurns
from smartcrawl.engine.scheduler import NumberScheduler
from smartcrawl.engine.stopping import is_crawler_stopping
from smartcrawl.model.exceptions import LaneError
from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.run.hosts.gate import host_gate_slot
from smartcrawl.run.page_requests import conditional_page_headers
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)


class _Unsettled(NamedTuple):
    """An answer of a connection that is not known to be clean yet."""

    flight: Flight
    answer: LaneAnswer
    request: Request | None  #: the engine's, with the answer in its meta; None: a 304


class InHandMiddleware:
    """Gives the engine an answer that the lane received, so that no page is requested twice."""

    def process_request(self, request: Request) -> Response | None:
        """Return the received answer once; a retry of the request goes to the server."""
        response: Response | None = request.meta.pop(IN_HAND, None)
        return response


class RevalidationLane:
    """Sends conditional requests for stored pages, where the engine would get the same results.

    Each request counts in engine, downloader and slot, keeps the slot's delay, and is sent only
    to a host whose robots.txt is cached. A 304 becomes a Visit, which passes the pipelines. Any
    other answer is passed to the engine in the meta of a request. Both wait until their connection
    proves clean. If it is not clean, or no answer came, the engine requests the page.

    Source: ADR 31, 32.
    """

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._client: LaneClient | None = None
        self._wait_turn = LaneTurns(crawler).wait
        self._works: set[asyncio.Task[None]] = set()  #: those that send requests
        self._tasks: set[asyncio.Task[None]] = set()
        self._robots: RobotsDownloads | None = None
        self._headers: dict[str, str] = {}
        self._counts = LaneCounts()
        self._unsettled: dict[asyncio.Future[bool], list[_Unsettled]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Connect the lane to the signals of a crawl.

        Raises:
            NotConfigured: REVALIDATION_LANE is off, or the spider has no run, or one of files.
        """
        run = run_of_crawler(crawler)
        if run is None or not run.options.revalidation_lane or run.source.traits.is_listed:
            raise NotConfigured
        lane = cls(crawler, run)
        crawler.signals.connect(lane.opened, signal=signals.spider_opened)
        crawler.signals.connect(lane.closed, signal=signals.spider_closed)
        return lane

    def opened(self) -> None:
        """Attach the lane to the scheduler, if all components of the crawl permit it."""
        why, resolver = lane_obstacle(self._crawler), installed_resolver()
        if why is not None or resolver is None:
            logger.info("the revalidation lane is not used: %s", why)
            return
        engine = self._crawler.engine
        assert engine is not None
        self._engine, self._downloader, self._resolver = engine, engine.downloader, resolver
        middlewares = self._downloader.middleware.middlewares
        for middleware in middlewares:
            rules = getattr(middleware, "rules", None)
            if isinstance(rules, RobotsDownloads):
                self._robots = rules
        self._headers = lane_request_headers(middlewares)
        self._usable_origin = Origins(resolver, self._headers).usable
        self._gate = gate_of_crawler(self._crawler)
        scheduler = engine.scheduler
        assert isinstance(scheduler, NumberScheduler)
        self._scheduler = scheduler
        self._confirmations = LaneConfirmations(self._crawler, self._robots, self._counts)
        self._handover = LaneHandover(self._crawler, scheduler, self._counts)
        scheduler.lane = self
        self._run.halt.when_dropped(self._drop)

    @property
    def waits(self) -> bool:
        """Whether some answers are unsettled: their connections may still prove unclean."""
        return bool(self._unsettled)

    # Admission of pages

    def take(self, page: Page) -> bool:
        """Start the request for a page; return False if the engine must request it."""
        flight = self._flight_or_none(page)
        if flight is None:
            return False
        self._start(flight)
        return True

    def _flight_or_none(self, page: Page) -> Flight | None:
        try:
            return self._flight(page)
        except Exception:  # the page goes to the engine
            logger.exception("the engine asks %s", page.url)
            return None

    def _flight(self, page: Page) -> Flight | None:
        """Return the request for a page, registered as in flight; None: leave it to the engine."""
        plan = page.plan
        other = plan.signed is not None or plan.spelling is not None
        if plan.verify or page.kind or other or self._run.trust.asks_head(page):
            return None
        headers = conditional_page_headers(self._run, page, page.url)
        origin = self._usable_origin(page.url) if headers else None
        if origin is None:
            return None
        name = host_gate_slot(page.host)
        slot = self._downloader.slots.get(name)
        if slot is None or slot.free_transfer_slots() <= 0:
            return None
        if not self._allows(page, origin, name):
            return None
        flight = Flight(
            page, VisitAttempt(page), headers, origin, slot, {Downloader.DOWNLOAD_SLOT: name}
        )
        request: Any = flight
        assert self._engine._slot is not None
        self._engine._slot.add_request(request)
        self._downloader.active.add(request)
        slot.active.add(request)
        slot.transferring.add(request)
        return flight

    def _allows(self, page: Page, origin: Origin, slot: str) -> bool:
        """Whether the lane may request a page now.

        Its host is neither blocked nor down, its cached robots.txt allows the page, and its turn
        in a shared run is not spent.
        """
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

    # Requests

    async def _work(self, flight: Flight) -> None:
        """Request a page, and then further pages until none is ready."""
        after: Flight | None = flight
        while after is not None:
            await self._visit(after)
            after = self._next()
            if after is not None:
                self._spread()
        self._scheduler.look_again()

    def _spread(self) -> None:
        """Start further requests, as many as may be in flight at the same time."""
        while (flight := self._next()) is not None:
            self._start(flight)

    def _start(self, flight: Flight) -> None:
        task = asyncio.ensure_future(self._work(flight))
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    def _next(self) -> Flight | None:
        """Return the request for the next page; None if none is ready, or the engine is first."""
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
        """Request a page, leave its answer unsettled, and free its place in the slot."""
        request: Any = flight
        slot, answer = flight.slot, None
        try:
            answer = await self._ask(flight)
            if answer is not None and answer.status != 304:
                await asyncio.wait([answer.clean])  # limits the bodies in memory, as in the engine
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
        """Remove a flight from the engine's requests in flight."""
        request: Any = flight
        assert self._engine._slot is not None
        self._engine._slot.remove_request(request)

    async def _ask(self, flight: Flight) -> LaneAnswer | None:
        """Send the request and return its unsettled answer.

        None: no answer counts. The page stays pending, or the engine requests it.
        """
        slot = flight.slot
        if slot.delay:
            await self._wait_turn(flight)
        else:
            slot.lastseen = time.monotonic()
        if is_crawler_stopping(self._crawler):
            self._run.turns.unanswered(flight.page)  # it stays pending
            return None
        etag = flight.headers.get("If-None-Match")
        flight.attempt.asks(flight.page.url, conditional=True, etag=etag)
        self._counts.asked(flight)
        try:
            answer = await self._open().ask(flight.page.url, flight.headers)
        except LaneError as error:
            if self._ends():
                self._run.turns.unanswered(flight.page)
            else:
                self._handover.fall_back(flight, error)
            return None
        flight.meta["download_latency"] = answer.latency
        request = None
        if answer.status == 304:
            self._confirmations.notify(flight)
        else:
            request = self._handover.in_hand(flight, answer)
        group = self._unsettled.get(answer.clean)
        if group is None:
            group = self._unsettled[answer.clean] = []
            answer.clean.add_done_callback(self._settled)
        group.append(_Unsettled(flight, answer, request))
        return answer

    def _open(self) -> LaneClient:
        if self._client is None:
            trust = CertificateTrust.of(self._run.source, self._run.options)
            self._client = LaneClient(
                self._crawler.settings, self._resolver, trust, self._headers, self._run.strays
            )
            self._client.ends = self._ends
        return self._client

    # Answers

    def _settled(self, clean: asyncio.Future[bool]) -> None:
        """Accept the answers of a clean connection, or withdraw those of an unclean one."""
        task = asyncio.ensure_future(self._count(self._unsettled[clean], clean.result()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._unsettled.pop(clean, None))
        task.add_done_callback(lambda _: self._scheduler.look_again())

    async def _count(self, group: list[_Unsettled], clean: bool) -> None:
        for flight, answer, request in group:
            try:
                if not clean and self._ends():
                    self._run.turns.unanswered(flight.page)
                elif not clean:
                    self._handover.withdraw(flight)
                elif request is None:
                    await self._confirmations.visit(flight, answer)
                else:
                    self._handover.pass_on(request)
            except Exception:
                logger.exception("cannot process %s", flight.page.url)
                self._run.turns.unanswered(flight.page)
            finally:
                self._land(flight)

    # The end

    def _ends(self) -> bool:
        """Whether the run ends by order: failures do not count, and no request is sent."""
        return self._run.halt.order is not None

    def _drop(self) -> None:
        """Give up the requests in flight, and the answers that are unsettled."""
        for task in list(self._works):
            task.cancel()
        if self._client is not None:
            self._client.abort()

    async def closed(self) -> None:
        """Close the connections, and add the counts to the stats."""
        if self._client is not None:
            self._counts.strays = self._client.strays
            await self._client.close()
        self._counts.add_to(self._crawler.stats)

"""The revalidation lane: conditional requests for stored pages, outside Scrapy's engine.

A 304 becomes a Visit; any other answer is passed to the engine.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Self

from pydispatch.dispatcher import getAllReceivers, liveReceivers
from scrapy import Request, signals
from scrapy.core.downloader import Downloader, Slot
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.statscollectors import StatsCollector
from scrapy.utils.request import request_httprepr

from smartcrawl.engine.current_run import is_crawler_stopping, run_of_crawler
from smartcrawl.engine.delays import delay_control_of_crawler, gate_of_crawler
from smartcrawl.engine.download.decoding import DecodingMiddleware
from smartcrawl.engine.download.network import GuardedResolver, installed_resolver
from smartcrawl.engine.download.robots import RobotsDownloads
from smartcrawl.engine.items import VisitDone, VisitsFirst
from smartcrawl.engine.lane.client import LaneClient
from smartcrawl.engine.lane.connections import LaneAnswer
from smartcrawl.engine.own_spiders import HttpAuth
from smartcrawl.engine.scheduler import NumberScheduler
from smartcrawl.extract.encodings import EncodingError, decode_encodings
from smartcrawl.model.exceptions import LaneError, RenderingError
from smartcrawl.model.pages import Page, Visit, VisitAttempt
from smartcrawl.model.urls import url_endpoint, url_host_key
from smartcrawl.rules.data_requests import Way
from smartcrawl.rules.model import Fault
from smartcrawl.run.hosts import FRESH, host_gate_slot, run_stray_origin
from smartcrawl.run.login_ports import RunLogin
from smartcrawl.run.received import Answer
from smartcrawl.run.render_choice import RenderChoice
from smartcrawl.run.run import Run
from smartcrawl.run.visits import (
    conditional_page_headers,
    confirmed_visit,
    failed_visit,
    page_is_trusted,
    visit_of_answer,
)
from smartcrawl.sources.client_certificates import ClientCertificate
from smartcrawl.sources.trust import CertificateTrust

logger = logging.getLogger(__name__)


_SCRAPY: Final = "scrapy.downloadermiddlewares"
#: Middlewares whose work the lane does, or that leave a conditional request and its 304 alone.
KNOWN: Final = frozenset(
    {
        "smartcrawl.engine.lane.lane.InHandMiddleware",
        "smartcrawl.middlewares.AddressMiddleware",
        "smartcrawl.middlewares.HostMiddleware",
        "smartcrawl.middlewares.RobotsMiddleware",
        "smartcrawl.middlewares.RenderMiddleware",  # the lane asks for the data of pages, too
        "smartcrawl.engine.auth.middleware.AuthMiddleware",  # the lane adds the same credentials
        "smartcrawl.middlewares.PassingRetryMiddleware",
        "smartcrawl.middlewares.RevalidationMiddleware",
        "smartcrawl.middlewares.ScopeMiddleware",
        "smartcrawl.middlewares.SourceHeadersMiddleware",
        "smartcrawl.engine.download.decoding.DecodingMiddleware",
        "smartcrawl.engine.own_spiders.Offsite",  # pages of the frontier pass it
        f"{_SCRAPY}.downloadtimeout.DownloadTimeoutMiddleware",
        f"{_SCRAPY}.defaultheaders.DefaultHeadersMiddleware",
        f"{_SCRAPY}.useragent.UserAgentMiddleware",
        f"{_SCRAPY}.stats.DownloaderStats",
        "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware",
        "scrapy.spidermiddlewares.start.StartSpiderMiddleware",
        "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware",
    }
)
PARSE: Final = "smartcrawl.spiders.site.SiteSpider.parse"
#: Signals of an answer, which the lane does not send for a 304. It calls the listeners below, or
#: does their work.
ANSWERS: Final = (
    signals.response_downloaded,
    signals.bytes_received,
    signals.request_reached_downloader,
    signals.request_left_downloader,
    signals.response_received,
    signals.headers_received,
    signals.item_dropped,  # as which each Visit ends
)
_LISTENERS: Final = frozenset(
    {
        "scrapy.extensions.corestats.CoreStats",
        "smartcrawl.engine.download.decoding.SlowBodies",
        "smartcrawl.engine.delays.DelayControl",
        "smartcrawl.middlewares.HostMiddleware",
        "smartcrawl.engine.download.robots.CrawlDelays",
    }
)


def lane_obstacle(crawler: Crawler) -> str | None:
    """Return the component of a crawl that rules the lane out, as a message; None: all permit it.

    Every component is ruled out that is not known to leave conditional requests alone: components
    of the user's own, cookies, logins, proxies.
    """
    return next(_reasons(crawler), None)


def _reasons(crawler: Crawler) -> Iterator[str]:
    engine, settings, spider = crawler.engine, crawler.settings, crawler.spider
    assert engine is not None
    if type(engine.scheduler) is not NumberScheduler:
        yield f"the scheduler is {_name(engine.scheduler)}"
    if _name(getattr(type(spider), "parse", None)) != PARSE:
        yield f"{_name(spider)} reads answers in its own way"
    components = (*engine.downloader.middleware.middlewares, *engine.scraper.spidermw.middlewares)
    for component in components:
        asleep = isinstance(component, HttpAuth) and component.is_asleep(crawler)
        if not asleep and _name(component) not in KNOWN:
            yield f"{_name(component)} is in use"
    if type(engine.scraper.itemproc) is not VisitsFirst:
        yield f"ITEM_PROCESSOR is {_name(engine.scraper.itemproc)}"
    for signal in ANSWERS:
        for listener in _listeners(crawler, signal):
            yield f"{listener} listens to each answer"
    if installed_resolver() is None:
        yield "TWISTED_DNS_RESOLVER is another one"
    if settings["DOWNLOAD_BIND_ADDRESS"]:
        yield "DOWNLOAD_BIND_ADDRESS is set"
    if settings["DOWNLOADER_CLIENTCONTEXTFACTORY"] != "SENTINEL":  # Scrapy's default
        yield "DOWNLOADER_CLIENTCONTEXTFACTORY is set"
    for scheme in ("http", "https"):
        handler = settings.getwithbase("DOWNLOAD_HANDLERS")[scheme]
        if handler != "smartcrawl.engine.download.headers.BoundedHttpHandler":
            yield f"the handler of {scheme} is {handler}"


def _listeners(crawler: Crawler, signal: object) -> Iterator[str]:
    receivers: Iterable[Any] = liveReceivers(getAllReceivers(crawler, signal))
    for receiver in receivers:
        owner = getattr(receiver, "__self__", receiver)
        if _name(owner) not in _LISTENERS:
            yield _name(owner)


def _is_logged_in(session: RunLogin, url: str) -> bool:
    """Whether the credentials for a page are at hand, if it gets some."""
    return session.is_ready and not session.logs_out(url)


def _name(component: object) -> str:
    kind = (
        component if callable(component) and hasattr(component, "__qualname__") else type(component)
    )
    return f"{kind.__module__}.{kind.__qualname__}"


_MOST_FAILURES: Final = 3  #: failures of an origin, after which the engine asks its pages


@dataclass(slots=True)
class Origin:
    """The lane's record of a scheme, host and port."""

    name: str
    refused: bool  #: whether the address guard refuses it
    size: int  #: bytes of a request without its path and its conditional headers
    failures: int = 0


#: Middlewares that add headers to every request.
_HEADERS: Final = (DefaultHeadersMiddleware, UserAgentMiddleware, DecodingMiddleware)
_OF_SOURCE: Final = "smartcrawl.middlewares.SourceHeadersMiddleware"  #: a room above this one


class Origins:
    """Keeps the record of each origin; ``headers`` returns those of each request to one."""

    def __init__(
        self, resolver: GuardedResolver, headers: Callable[[str], Mapping[str, str]]
    ) -> None:
        self._resolver = resolver
        self._headers = headers
        self._origins: dict[str, Origin] = {}

    def usable(self, url: str) -> Origin | None:
        """Return the origin of a URL, or None where the lane must not send requests."""
        name = run_stray_origin(url)
        origin = self._origins.get(name)
        if origin is None:
            refusal = self._resolver.refusal(*url_endpoint(url))
            sent = {key: value.encode("latin-1") for key, value in self._headers(name).items()}
            size = len(request_httprepr(Request(f"{name}/", headers=sent)))
            size -= len(name) + 1  # a flight adds the length of its whole URL
            origin = self._origins[name] = Origin(name, refusal is not None, size)
        return None if origin.refused or origin.failures >= _MOST_FAILURES else origin


def lane_request_headers(middlewares: Iterable[Any], origin: str) -> dict[str, str]:
    """Return the headers that the engine's middlewares add to every request to an origin."""
    request = Request(f"{origin}/")
    for middleware in middlewares:
        if isinstance(middleware, _HEADERS) or _name(middleware) == _OF_SOURCE:
            middleware.process_request(request)
    return {
        name.decode("latin-1"): b",".join(values).decode("latin-1")
        for name, values in request.headers.items()
    }


_STATUS_LINE: Final = len("HTTP/1.1 304 Not Modified\r\n\r\n")
_LENGTH_LINE: Final = len("Content-Length: 0\r\n")


@dataclass(slots=True, eq=False)
class Flight:
    """A request in flight; it is listed with Scrapy's own requests where those are counted."""

    page: Page
    attempt: VisitAttempt
    headers: Mapping[str, str]  #: the conditional ones
    origin: Origin
    slot: Slot
    meta: dict[str, Any]  #: the keys of Request.meta that listeners read


@dataclass(slots=True, eq=False)
class _DataFlight:
    """A request for data in flight, with the fields of a Request that listeners read."""

    slot: Slot
    meta: dict[str, Any]


class NotModified(NamedTuple):
    """A 304 with the fields of a Response that listeners read."""

    request: Any
    status: int = 304


@dataclass(slots=True)
class LaneCounts:
    """Counts for Scrapy's stats of requests that its downloader did not see."""

    requests: int = 0
    request_bytes: int = 0
    not_modified: int = 0
    visits: int = 0  #: pages that the lane finished
    answer_bytes: int = 0
    handed_over: int = 0  #: answers that were passed to the engine
    fallbacks: int = 0  #: pages passed to the engine, because no whole answer came
    withdrawn: int = 0  #: pages that the engine asked again: unclean connection
    strays: int = 0  #: connections on which bytes came without a request
    data: int = 0  #: answers with data of rendered pages
    data_bytes: int = 0

    def asked(self, origin: Origin, url: str, headers: Mapping[str, str]) -> None:
        """Count a request."""
        size = origin.size + len(url)
        for name, value in headers.items():
            size += len(name) + len(value) + 4
        self.requests += 1
        self.request_bytes += size

    def confirmed(self, size: int, *, has_length: bool) -> None:
        """Count a 304; ``size`` is the bytes of its headers."""
        self.not_modified += 1
        self.answer_bytes += _STATUS_LINE + size
        if not has_length:
            self.answer_bytes += _LENGTH_LINE  # Scrapy counts it even where it is missing

    def received_data(self, size: int) -> None:
        """Count an answer with data; ``size`` is the bytes of its headers and body."""
        self.data += 1
        self.data_bytes += _STATUS_LINE + size

    def add_to(self, stats: StatsCollector) -> None:
        """Add all counts to the stats."""
        counts = {
            "downloader/request_count": self.requests,
            "downloader/request_method_count/GET": self.requests,
            "downloader/request_bytes": self.request_bytes,
            "downloader/response_count": self.not_modified + self.data,
            "downloader/response_status_count/200": self.data,
            "downloader/response_status_count/304": self.not_modified,
            "downloader/response_bytes": self.answer_bytes + self.data_bytes,
            "response_received_count": self.not_modified + self.data,
            "item_dropped_count": self.visits,
            f"item_dropped_reasons_count/{VisitDone.__name__}": self.visits,
            "lane/not_modified": self.not_modified,
            "lane/handed_over": self.handed_over,
            "lane/fallbacks": self.fallbacks,
            "lane/withdrawn": self.withdrawn,
            "lane/strays": self.strays,
        }
        for name, count in counts.items():
            if count:
                stats.inc_value(name, count)


_SHORT: Final = 0.001  #: seconds
_LONG: Final = 0.5  #: seconds within which a wait is given up when the crawl is to end


class LaneTurns:
    """Lets the requests of the lane wait for their slots, one after another."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._locks: dict[str, asyncio.Lock] = {}  #: by slot name

    async def wait(self, flight: Flight | _DataFlight) -> None:
        """Wait until the slot's delay is over and the engine sent the requests queued before."""
        slot, name = flight.slot, flight.meta[Downloader.DOWNLOAD_SLOT]
        async with self._locks.setdefault(name, asyncio.Lock()):
            ahead = {queued for queued, _ in slot.queue}
            delay = slot.download_delay()
            while True:
                wait = slot.lastseen + delay - time.monotonic()
                gone = ahead.isdisjoint(queued for queued, _ in slot.queue)
                if (wait <= 0 and gone) or is_crawler_stopping(self._crawler):
                    break
                await asyncio.sleep(min(max(wait, _SHORT), _LONG))
            slot.lastseen = time.monotonic()


_LENGTH: Final = b"content-length"


class LaneConfirmations:
    """Processes 304 answers as the engine, its extensions and its pipelines would."""

    def __init__(
        self, crawler: Crawler, robots: RobotsDownloads | None, counts: LaneCounts
    ) -> None:
        self._robots = robots
        self._counts = counts
        self._gate = gate_of_crawler(crawler)
        self._control = delay_control_of_crawler(crawler)
        engine = crawler.engine
        assert engine is not None
        items = engine.scraper.itemproc
        assert isinstance(items, VisitsFirst), "the lane is fit for it"
        self._take = items.take

    def notify(self, flight: Any) -> None:
        """Notify the listeners of a 304, from which pauses and delays follow."""
        if self._gate is not None:
            self._gate.answered(flight.meta[Downloader.DOWNLOAD_SLOT], time.monotonic())
        if self._control is not None:
            self._control.answered(flight, NotModified(flight))
        if self._robots is not None:
            self._robots.delays.answered(flight)

    def count(self, answer: LaneAnswer) -> None:
        """Count a 304."""
        has_length = False
        for name, _ in answer.headers:
            if len(name) == len(_LENGTH) and name.lower() == _LENGTH:
                has_length = True
        self._counts.confirmed(answer.size, has_length=has_length)

    async def visit(self, flight: Flight, answer: LaneAnswer) -> None:
        """Pass the Visit of a page that a 304 confirmed through the pipelines."""
        attempt, headers, latency = flight.attempt, answer.headers, answer.latency
        self._counts.visits += 1
        await self._take(confirmed_visit(attempt, flight.page.url, headers, latency=latency))

    async def take(self, visit: Visit) -> None:
        """Pass a Visit through the pipelines."""
        self._counts.visits += 1
        await self._take(visit)


IN_HAND: Final = "in_hand"  #: key of Request.meta: the Response that the lane already received


class LaneHandover:
    """Makes the engine's requests for pages that the lane does not finish."""

    def __init__(self, crawler: Crawler, scheduler: NumberScheduler, counts: LaneCounts) -> None:
        self._crawler = crawler
        self._scheduler = scheduler
        self._counts = counts

    def in_hand(self, flight: Flight, answer: LaneAnswer) -> Request:
        """Return the engine's request for a page, with the received answer in its meta.

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

    def pass_on(self, request: Request) -> None:
        """Pass a request with its answer to the engine."""
        self._counts.handed_over += 1
        self._scheduler.pass_on(request)

    def ask_again(self, flight: Flight) -> None:
        """Let the engine ask for a page whose document is needed, though it is confirmed."""
        self._counts.handed_over += 1
        self._scheduler.pass_on(self._request(flight))

    def withdraw(self, flight: Flight) -> None:
        """Discard an answer, which may belong to another page: the engine requests the page.

        The request gets a connection of its own.
        """
        self._counts.withdrawn += 1
        logger.debug(
            "Scrapy's engine requests %s again: its connection was not clean", flight.page.url
        )
        self._scheduler.pass_on(self._request(flight, failures=1))

    def fall_back(self, flight: Flight, error: LaneError) -> None:
        """Pass a page to the engine after the lane got no whole answer."""
        flight.origin.failures += 1
        self._counts.fallbacks += 1
        if not error.sent:
            flight.attempt = VisitAttempt(flight.page)
        logger.debug("Scrapy's engine requests %s: %s", flight.page.url, error)
        self._scheduler.pass_on(self._request(flight, failures=error.times if error.sent else 0))

    def _request(self, flight: Flight, *, failures: int = 0) -> Request:
        """Return the engine's request for a page, with the attempt so far.

        ``failures``: requests of the lane that failed, which count against RETRY_TIMES.
        """
        request = self._scheduler.request_of(flight.page)
        if failures:
            most = self._crawler.settings.getint("RETRY_TIMES")
            request.meta["retry_times"] = min(failures, most)
            request.meta[FRESH] = True  # a kept connection may have ended
        request.meta.update(flight.meta, attempt=flight.attempt)
        return request


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
        self._headers: Callable[[str], Mapping[str, str]] = lambda origin: {}
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
            logger.info("the fast lane for known pages is off: %s", why)
            return
        engine = self._crawler.engine
        assert engine is not None
        self._engine, self._downloader, self._resolver = engine, engine.downloader, resolver
        middlewares = self._downloader.middleware.middlewares
        for middleware in middlewares:
            rules = getattr(middleware, "rules", None)
            if isinstance(rules, RobotsDownloads):
                self._robots = rules
            if (renderer := getattr(middleware, "renderer", None)) is not None:
                renderer.lane = self.ask_data
        self._headers = partial(lane_request_headers, middlewares)
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
            logger.exception("Scrapy's engine requests %s", page.url)
            return None

    def _flight(self, page: Page) -> Flight | None:
        """Return the request for a page, registered as in flight; None: leave it to the engine."""
        plan = page.plan
        other = plan.signed is not None or plan.spelling is not None
        if plan.verify or page.kind or other or self._run.trust.asks_head(page):
            return None
        headers = conditional_page_headers(self._run, page, page.url)
        origin = self._usable_origin(page.url) if headers else None
        session = self._run.session
        if origin is None or (session is not None and not _is_logged_in(session, page.url)):
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
        session = self._run.session
        if is_crawler_stopping(self._crawler) or (session is not None and session.over):
            self._run.turns.unanswered(flight.page)  # it stays pending
            return None
        etag = flight.headers.get("If-None-Match")
        flight.attempt.asks(flight.page.url, conditional=True, etag=etag)
        self._counts.asked(flight.origin, flight.page.url, flight.headers)
        try:
            url, headers = flight.page.url, flight.headers
            if session is not None:
                headers = {**headers, **session.dress(flight.attempt, url)}
            answer = await self._open().ask(url, headers)
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
                self._crawler.settings,
                self._resolver,
                trust,
                self._headers,
                self._run.strays,
                certificate_of=self._certificate_of,
            )
            self._client.ends = self._ends
        return self._client

    def _certificate_of(self, origin: str) -> ClientCertificate | None:
        session = self._run.session
        return session.certificate if session is not None and session.concerns(origin) else None

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
                    self._confirmations.count(answer)
                    if self._run.choice is None or flight.page.rendering is None:
                        await self._confirmations.visit(flight, answer)
                    else:
                        await self._confirm(self._run.choice, flight, answer)
                else:
                    self._handover.pass_on(request)
            except Exception:
                logger.exception("cannot process %s", flight.page.url)
                self._run.turns.unanswered(flight.page)
            finally:
                self._land(flight)

    async def _confirm(self, choice: RenderChoice, flight: Flight, answer: LaneAnswer) -> None:
        """Finish a page that a browser showed and that answered 304, by its data."""
        page, attempt = flight.page, flight.attempt
        document = Answer(page.url, 304, answer.headers, b"", answer.latency)
        trusted = page_is_trusted(self._run, page, page.url)
        try:
            found = await choice.take(attempt, document, trusted=trusted)
        except RenderingError as error:
            why = Fault(error.fault), str(error)
            await self._confirmations.take(failed_visit(self._run, attempt, page.url, why))
            return
        if found is None or found.way is Way.CONFIRMED:
            await self._confirmations.visit(flight, answer)
        elif found.way is Way.NOT_FOUND:
            visit = visit_of_answer(self._run, attempt, document._replace(status=404, headers=()))
            assert isinstance(visit, Visit), "a 404 leads nowhere"
            await self._confirmations.take(visit)
        else:
            self._handover.ask_again(flight)

    # Data of rendered pages

    async def ask_data(self, url: str, headers: Mapping[str, str]) -> Answer | None:
        """Ask for data of a rendered page; None: the downloader is to ask, as for other answers."""
        name = host_gate_slot(url_host_key(url))
        origin, slot = self._usable_origin(url), self._downloader.slots.get(name)
        if origin is None or slot is None or slot.free_transfer_slots() <= 0:
            return None
        if not self._allows_data(url, origin, name):
            return None
        query: Any = _DataFlight(slot, {Downloader.DOWNLOAD_SLOT: name})
        self._downloader.active.add(query)
        slot.active.add(query)
        slot.transferring.add(query)
        try:
            return await self._asked_data(query, origin, url, headers)
        except LaneError as error:
            origin.failures += 1
            logger.debug("the downloader requests %s: %s", url, error)
            return None
        finally:
            slot.transferring.discard(query)
            slot.active.discard(query)
            self._downloader.active.discard(query)
            if slot.queue:
                self._downloader._process_queue(slot)

    async def _asked_data(
        self, query: _DataFlight, origin: Origin, url: str, headers: Mapping[str, str]
    ) -> Answer | None:
        if query.slot.delay:
            await self._wait_turn(query)
        else:
            query.slot.lastseen = time.monotonic()
        if is_crawler_stopping(self._crawler) or self._ends():
            return None
        self._counts.asked(origin, url, headers)
        answer = await self._open().ask(url, headers, of_browser=True)
        query.meta["download_latency"] = answer.latency
        if not await answer.clean or answer.status not in (200, 304):
            return None
        body = answer.body
        if answer.status == 304:
            self._confirmations.notify(query)
            self._confirmations.count(answer)
        else:
            self._counts.received_data(answer.size + len(body))
            lines = [v for n, v in answer.headers if n.lower() == b"content-encoding"]
            words = [w.strip() for line in lines for w in line.decode("latin-1").split(",")]
            if words:
                limit = self._crawler.settings.getint("DOWNLOAD_MAXSIZE")
                try:
                    body = decode_encodings(body, words, limit=limit)
                except EncodingError:
                    return None
        return Answer(url, answer.status, answer.headers, body, answer.latency)

    def _allows_data(self, url: str, origin: Origin, slot: str) -> bool:
        """Whether the lane may ask for data: its host and its robots.txt, which is at hand."""
        gate, blocked = self._gate, self._run.blocked_hosts
        if blocked and url_host_key(url) in blocked:
            return False
        if gate is not None and (slot in gate.throttled or gate.is_down(slot)):
            return False
        if self._robots is None:
            return True
        rules = self._robots.at_hand(origin.name)
        return rules is not None and rules.unknown is None and rules.allows(url)

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

"""The delay of each host, and the gate through which its requests pass."""

from __future__ import annotations

import logging
import time
from typing import Any, Final
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.download.faults import download_fault
from smartcrawl.model.batches import HostNow
from smartcrawl.model.options import host_delays_option
from smartcrawl.rules.http import retry_after
from smartcrawl.rules.model import Fault
from smartcrawl.rules.pace import Pace
from smartcrawl.run.hosts import HostGate, host_gate_slot
from smartcrawl.run.visits import note_host_failure

logger = logging.getLogger(__name__)

_HEALTHY: Final = frozenset({200, 304})  #: others may come fast, because the server did no work
_MOST_RESTING: Final = 1_000  #: hosts whose pace is remembered while they get no requests


def gate_of_crawler(crawler: Any) -> HostGate | None:
    """Return the gate that the components of a crawl share; None for a spider without a run."""
    run = run_of_crawler(crawler)
    return None if run is None else run.gate


def host_of_scrapy_request(request: Request) -> str:
    """Return the host of a request: the name of its download slot."""
    slot: str | None = request.meta.get(Downloader.DOWNLOAD_SLOT)
    return slot if slot is not None else urlsplit(request.url).hostname or ""


def pause_of_scrapy_response(response: Response) -> int | None:
    """Return the seconds for which a 429 or 503 asks to wait, None without such a wish."""
    if response.status not in (429, 503):
        return None
    value = response.headers.get("Retry-After")
    return retry_after(value.decode("latin-1") if value else None, int(time.time()))


def note_download_failure(
    crawler: Crawler, request: Request, error: Exception, *, ends: bool
) -> None:
    """Notify the gate of a page request without a whole answer, and log the consequence.

    ``ends``: whether the visit ends with it. Requests that were not sent, those of no page, and
    those of a run that ends by order do not count. A time-out counts for the pace of its host, too.
    """
    run, gate = run_of_crawler(crawler), gate_of_crawler(crawler)
    if isinstance(error, IgnoreRequest) or request.callback is NO_CALLBACK:
        return
    if run is None or gate is None or run.halt.order is not None:
        return
    host, why = host_of_scrapy_request(request), download_fault(error, request.url)
    note_host_failure(run, host, why, time.monotonic(), ends=ends)
    control = delay_control_of_crawler(crawler)
    if control is not None and why[0] is Fault.TIME_OUT:
        control.timed_out(request)


def download_slot_now(crawler: Crawler, host: str) -> HostNow:
    """Return the delay, the requests in flight, and the pauses of a host at this moment."""
    slot, gate, now = host_gate_slot(host), gate_of_crawler(crawler), time.monotonic()
    ahead = time.time() - now  #: Unix seconds ahead of the monotonic clock
    engine = crawler.engine
    asked = engine.downloader.slots.get(slot) if engine is not None else None
    hold = gate.throttled.get(slot) if gate is not None else None

    def moment(until: float | None) -> int | None:
        return round(until + ahead) if until is not None and until > now else None

    return HostNow(
        delay_ms=round(1000 * asked.delay) if asked is not None else 0,
        in_flight=len(asked.active) if asked is not None else 0,
        parked_until=moment(hold.parked) if hold is not None else None,
        paused_until=moment(hold.paused) if hold is not None else None,
        is_down=gate is not None and gate.is_down(slot),
    )


class DelayControl(AutoThrottle):
    """The pace of each host, in place of Scrapy's AutoThrottle.

    A host gets as many requests at a time as are permitted, and one where it slows down
    (``rules/pace.py``); only then is there a delay, which follows its latency as in AutoThrottle.
    With AUTOTHROTTLE_TARGET_CONCURRENCY there is always one, and that many requests on average.
    AutoThrottle lowers the delay on a 200 only, because error pages come fast. Here a 304 may lower
    it, too, for it is a healthy answer. A host keeps the delay that DOWNLOAD_SLOTS has for it, or a
    longer one.

    Source: ADR 10, 179.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        if not settings.getbool("AUTOTHROTTLE_ENABLED"):
            raise NotConfigured
        self.crawler = crawler
        self.target_concurrency = settings.getfloat("AUTOTHROTTLE_TARGET_CONCURRENCY")
        self._least = host_delays_option(settings)
        self._paces: dict[str, Pace] = {}  #: by slot
        self._permitted = 1  #: requests at a time
        self._own: dict[str, int] = {}  #: those of single hosts, by slot
        crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(self._response_downloaded, signal=signals.response_downloaded)

    def _spider_opened(self, spider: Any) -> None:
        """Set the bounds of delays; new slots have one request at a time.

        Scrapy drops a slot that was idle for a minute, also that of a host that is held.
        """
        super()._spider_opened(spider)
        if self.target_concurrency:
            return
        downloader = self.crawler.engine.downloader
        self._permitted, downloader.domain_concurrency = downloader.domain_concurrency, 1
        given: dict[str, dict[str, Any]] = downloader.per_slot_settings
        own = {name: one for name, one in given.items() if "concurrency" in one}
        self._own = {name: int(one["concurrency"]) for name, one in own.items()}
        singles = {name: {**one, "concurrency": 1} for name, one in own.items()}
        downloader.per_slot_settings = {**given, **singles}

    def answered(self, request: Any, response: Any) -> None:
        """Adjust the pace to an answer that did not pass the downloader."""
        self._response_downloaded(response, request, self.crawler.spider)

    def _response_downloaded(self, response: Response, request: Request, spider: Any) -> None:
        """Adjust the pace of a host; the gate stores it, for all workers of a shared run."""
        name, slot = self._get_slot(request, spider)
        if name is None or slot is None:
            return
        latency = request.meta.get("download_latency")
        gate = gate_of_crawler(self.crawler)
        if latency is not None and not request.meta.get("autothrottle_dont_adjust_delay"):
            if self.target_concurrency:
                self._adjust_delay(slot, latency, response)
            else:
                self._set_pace(name, slot, latency, request, response)
        if self._least:
            slot.delay = max(slot.delay, self._least.get(name, 0))
        if gate is not None:
            gate.paced(name, slot.delay)

    def _set_pace(
        self, name: str, slot: Any, latency: float, request: Any, response: Response
    ) -> None:
        """Give a host its requests at a time, and its delay.

        Requests of no page (robots.txt, an API), and answers that no server gave, show nothing. A
        host of which only such are known gets its requests, unless it was just robots.txt.
        """
        pace, now = self._paces.get(name), time.monotonic()
        if getattr(request, "callback", None) is not NO_CALLBACK and latency > 0:
            before = pace or self._first_pace()
            pace = before.after(response.status, latency, now)
            self._keep(name, before, pace, now)
        if pace is not None and not pace.is_single:
            slot.concurrency, slot.delay = self._most(name), self.mindelay
            return
        self._adjust_delay(slot, latency, response)
        if pace is None and not request.meta.get("dont_obey_robotstxt"):
            slot.concurrency = self._most(name)
        elif pace is not None:
            slot.concurrency = 1
            gate = gate_of_crawler(self.crawler)
            if gate is not None:
                gate.single(name, pace.single_until(latency, now), now)

    def timed_out(self, request: Request) -> None:
        """Give a host one request at a time, if its time-outs show that it slows down."""
        spider = self.crawler.spider
        assert spider is not None
        name, slot = self._get_slot(request, spider)
        if self.target_concurrency or name is None or slot is None:
            return
        seconds, now = float(request.meta.get("download_timeout", 0)), time.monotonic()
        before = self._paces.get(name) or self._first_pace()
        pace = before.after_time_out(seconds, now)
        self._keep(name, before, pace, now)
        gate = gate_of_crawler(self.crawler)
        if pace.is_single:
            slot.concurrency = 1
            if gate is not None:
                gate.single(name, pace.single_until(0, now), now)

    def _keep(self, name: str, before: Pace, pace: Pace, now: float) -> None:
        """Keep the pace of a host, and log whether it is held now."""
        self._paces[name] = pace
        if pace.held != before.held:
            seconds = round(pace.held - now)
            logger.info("%s slows down: one request at a time for %d seconds", name, seconds)

    def _first_pace(self) -> Pace:
        """Return the pace of a host that was not asked before; forget those that rest."""
        slots = self.crawler.engine.downloader.slots
        if len(self._paces) > _MOST_RESTING + 2 * len(slots):
            self._paces = {host: pace for host, pace in self._paces.items() if host in slots}
        return Pace()

    def _most(self, name: str) -> int:
        """Return the requests at a time that a host may have."""
        return self._own.get(name, self._permitted)

    def _adjust_delay(self, slot: Any, latency: float, response: Response) -> None:
        target = latency / (self.target_concurrency or 1)
        delay = min(max(self.mindelay, target, (slot.delay + target) / 2), self.maxdelay)
        if response.status in _HEALTHY or delay > slot.delay:
            slot.delay = delay


def delay_control_of_crawler(crawler: Crawler) -> DelayControl | None:
    """Return the control of the pace of hosts; None: AUTOTHROTTLE_ENABLED is off."""
    extensions = crawler.extensions
    found = extensions.middlewares if extensions is not None else ()
    return next((one for one in found if isinstance(one, DelayControl)), None)

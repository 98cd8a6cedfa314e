"""The delay of each host, and the gate through which its requests pass."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.download.faults import download_fault
from smartcrawl.model.batches import HostNow
from smartcrawl.model.options import host_delays_option
from smartcrawl.rules.http import retry_after
from smartcrawl.run.hosts import HostGate, host_gate_slot
from smartcrawl.run.visits import note_host_failure


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
    those of a run that ends by order do not count.
    """
    run, gate = run_of_crawler(crawler), gate_of_crawler(crawler)
    if isinstance(error, IgnoreRequest) or request.callback is NO_CALLBACK:
        return
    if run is None or gate is None or run.halt.order is not None:
        return
    host, why = host_of_scrapy_request(request), download_fault(error, request.url)
    note_host_failure(run, host, why, time.monotonic(), ends=ends)


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
    """Scrapy's AutoThrottle, except that a 304 may lower the delay.

    AutoThrottle lowers it on a 200 only, because error pages come fast; a 304 is a healthy
    answer, and a refresh of unchanged pages would otherwise keep its first delay for ever. A host
    keeps the delay that DOWNLOAD_SLOTS has for it, or a longer one.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._least = host_delays_option(crawler.settings)

    def answered(self, request: Any, response: Any) -> None:
        """Adjust the delay to an answer that did not pass the downloader."""
        self._response_downloaded(response, request, self.crawler.spider)

    def _response_downloaded(self, response: Response, request: Request, spider: Any) -> None:
        """Adjust the delay of a host; the gate stores it, for all workers of a shared run."""
        super()._response_downloaded(response, request, spider)
        name, slot = self._get_slot(request, spider)
        if name is None or slot is None:
            return
        if self._least:
            slot.delay = max(slot.delay, self._least.get(name, 0))
        gate = gate_of_crawler(self.crawler)
        if gate is not None:
            gate.paced(name, slot.delay)

    def _adjust_delay(self, slot: Any, latency: float, response: Response) -> None:
        if response.status != 304:
            super()._adjust_delay(slot, latency, response)
        else:
            target = latency / self.target_concurrency
            delay = max(target, (slot.delay + target) / 2)
            slot.delay = min(max(self.mindelay, delay), self.maxdelay)

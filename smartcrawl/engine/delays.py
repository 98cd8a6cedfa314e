"""The delay of each host, and the current state of its requests."""

from __future__ import annotations

import time
from typing import Any

from scrapy.crawler import Crawler
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Response

from smartcrawl.engine.gate import gate_of_crawler, host_of_scrapy_request
from smartcrawl.model.batches import HostNow
from smartcrawl.run.hosts.gate import host_gate_slot


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
    answer, and a refresh of unchanged pages would otherwise keep its first delay for ever.
    """

    def answered(self, request: Any, response: Any) -> None:
        """Adjust the delay to an answer that did not pass the downloader."""
        self._response_downloaded(response, request, self.crawler.spider)  # type: ignore[arg-type]

    def _adjust_delay(self, slot: Any, latency: float, response: Response) -> None:
        if response.status != 304:
            super()._adjust_delay(slot, latency, response)
        else:
            target = latency / self.target_concurrency
            delay = max(target, (slot.delay + target) / 2)
            slot.delay = min(max(self.mindelay, delay), self.maxdelay)
        gate = gate_of_crawler(self.crawler)
        if gate is not None and response.request is not None:
            gate.paced(host_of_scrapy_request(response.request), slot.delay)

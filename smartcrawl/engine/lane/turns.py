"""The delay between two requests of a download slot, as the lane keeps it."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler

from smartcrawl.engine.lane.flights import Flight
from smartcrawl.engine.stopping import is_crawler_stopping

_SHORT: Final = 0.001  #: seconds
_LONG: Final = 0.5  #: seconds within which a wait is given up when the crawl is to end


class LaneTurns:
    """Lets the requests of the lane wait for their slots, one after another."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._locks: dict[str, asyncio.Lock] = {}  #: by slot name

    async def wait(self, flight: Flight) -> None:
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

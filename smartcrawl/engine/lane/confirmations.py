"""304 answers of the lane: each notifies the listeners and becomes the Visit of its page."""

from __future__ import annotations

import time
from typing import Any, Final

from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler

from smartcrawl.engine.delays import DelayControl
from smartcrawl.engine.download.robots import RobotsDownloads
from smartcrawl.engine.gate import gate_of_crawler
from smartcrawl.engine.items import VisitsFirst
from smartcrawl.engine.lane.connections import LaneAnswer
from smartcrawl.engine.lane.flights import Flight, LaneCounts, NotModified
from smartcrawl.run.visits import confirmed_visit

_LENGTH: Final = b"content-length"


class LaneConfirmations:
    """Processes 304 answers as the engine, its extensions and its pipelines would."""

    def __init__(
        self, crawler: Crawler, robots: RobotsDownloads | None, counts: LaneCounts
    ) -> None:
        self._robots = robots
        self._counts = counts
        self._gate = gate_of_crawler(crawler)
        self._control: DelayControl | None = None
        extensions, engine = crawler.extensions, crawler.engine
        assert engine is not None
        for extension in extensions.middlewares if extensions is not None else ():
            if isinstance(extension, DelayControl):
                self._control = extension
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

    async def visit(self, flight: Flight, answer: LaneAnswer) -> None:
        """Pass the Visit of a page that a 304 confirmed through the pipelines."""
        has_length = False
        for name, _ in answer.headers:
            if len(name) == len(_LENGTH) and name.lower() == _LENGTH:
                has_length = True
        self._counts.confirmed(answer.size, has_length=has_length)
        attempt, headers, latency = flight.attempt, answer.headers, answer.latency
        await self._take(confirmed_visit(attempt, flight.page.url, headers, latency=latency))

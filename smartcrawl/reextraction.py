"""Extracting pages again out of their snapshots, beside the engine and without one request."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, NotConfigured

from smartcrawl.items import Page, Visit
from smartcrawl.rules.model import Outcome
from smartcrawl.run import Run, run_of

logger = logging.getLogger(__name__)

_PORTION = 40  #: pages looked up with one statement


class ReExtraction:
    """Reads again what a due crawl skipped and today's configuration reads in another way.

    It begins when nothing is left to ask, and the run ends when it is done.
    """

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        run = run_of(crawler)
        if run is None or run.turns is None:
            raise NotConfigured
        found = cls(crawler, run)
        crawler.signals.connect(found.idle, signal=signals.spider_idle)
        crawler.signals.connect(found.closed, signal=signals.spider_closed)
        return found

    def idle(self) -> None:
        """Keep the spider open while there is something to read."""
        turns = self._run.turns
        if self._task is None and turns is not None and len(turns.again):
            logger.info(
                "the configuration changed: %d pages are extracted again from their snapshots",
                len(turns.again),
            )
            self._run.extracting = True
            self._task = asyncio.ensure_future(self._work())
            self._task.add_done_callback(self._done)
        if self._task is not None:
            raise DontCloseSpider

    async def _work(self) -> None:
        chain: Any = self._crawler.engine.scraper.itemproc
        while pages := self._run.to_extract_again(_PORTION):
            for page in pages:
                await chain.process_item_async(_again(page))
            await asyncio.sleep(0)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._run.extracting = False
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("extracting again failed: %s", error, exc_info=error)
        slot = self._crawler.engine._slot
        if slot is not None:
            slot.nextcall.schedule()

    def closed(self) -> None:
        """Stop where the run was stopped; what is left is found again by the next."""
        if self._task is not None:
            self._task.cancel()


def _again(page: Page) -> Visit:
    """Return what stands for a visit of a page that nobody asks."""
    return Visit(
        page=page,
        outcome=Outcome.NOT_MODIFIED,
        url=page.url,
        etag=page.etag,
        last_modified=page.last_modified,
        again=True,
    )

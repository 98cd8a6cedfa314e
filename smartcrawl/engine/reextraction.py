"""Pages extracted again from their snapshots, and documents that wait, beside the engine."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, NotConfigured

from smartcrawl.engine.current_run import run_of_crawler, wake_engine
from smartcrawl.extract import html
from smartcrawl.extract.formats import FORMATS
from smartcrawl.model.pages import Page, Visit
from smartcrawl.run.run import Run
from smartcrawl.run.visits import unasked_visit

logger = logging.getLogger(__name__)


MOST: Final = 1_000  #: documents
MOST_BYTES: Final = 64 * 1024 * 1024  #: bytes of their bodies


class DocumentPipelineTasks:
    """Passes documents through the pipelines in separate tasks.

    Scrapy stops downloading while 5 MB of answers are in its pipelines
    (SCRAPER_SLOT_MAX_ACTIVE_SIZE). Documents that wait here are not among them. Documents beyond
    ``MOST`` and ``MOST_BYTES`` take the ordinary way, so memory stays bounded.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._tasks: set[asyncio.Task[None]] = set()
        self._bytes = 0

    def take(self, visit: Visit) -> bool:
        """Take a visit if it is a document; return False for others, which are to be yielded."""
        body = visit.answer.body or b""
        if len(self._tasks) >= MOST or self._bytes + len(body) > MOST_BYTES:
            return False
        if html.sniffed_media_type(visit.answer.content_type, body, visit.url) not in FORMATS:
            return False
        self._bytes += len(body)
        task = asyncio.ensure_future(self._process(visit, len(body)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _process(self, visit: Visit, size: int) -> None:
        """Pass one document through; Scrapy counts it, so the spider is not idle meanwhile."""
        scraper = self._crawler.engine.scraper
        try:
            await scraper.start_itemproc_async(visit, response=None)
        finally:
            self._bytes -= size
            slot = scraper.slot
            if slot is not None and slot.closing is not None and not slot.closing.called:
                scraper._check_if_closing()  # Scrapy does so only after its own items


_PORTION: Final = 40  #: pages looked up with one statement
_AT_ONCE: Final = 128  #: pages in flight: read, waiting, or being written
_LARGE: Final = 256 * 1024  #: bytes on the wire
_LARGE_AT_ONCE: Final = 4  #: of larger bodies, so that they do not fill the memory


class ReExtraction:
    """Extracts again the pages that a due crawl skipped and whose configuration has changed.

    It begins when no page is left to request, and the run ends after it.
    """

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._task: asyncio.Task[None] | None = None
        self._pages: deque[Page] = deque()  #: the next ones
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        run = run_of_crawler(crawler)
        if run is None or run.due_pages is None:
            raise NotConfigured
        found = cls(crawler, run)
        crawler.signals.connect(found.idle, signal=signals.spider_idle)
        crawler.signals.connect(found.closed, signal=signals.spider_closed)
        return found

    def idle(self) -> None:
        """Keep the spider open while there are pages to read."""
        extractions = self._run.extractions
        if self._task is None and len(extractions.again):
            logger.info(
                "the configuration changed; %d pages are extracted again from their snapshots",
                len(extractions.again),
            )
            extractions.under_way = True
            self._task = asyncio.ensure_future(self._work())
            self._task.add_done_callback(self._done)
        if self._task is not None:
            raise DontCloseSpider

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_AT_ONCE):
                tasks.create_task(self._read_pages())

    async def _read_pages(self) -> None:
        """Read pages one after the other, as one of several tasks."""
        chain: Any = self._crawler.engine.scraper.itemproc
        while (page := self._next()) is not None:
            if page.record.content_length > _LARGE:
                async with self._large:
                    await chain.take(unasked_visit(page))
            else:
                await chain.take(unasked_visit(page))
            await asyncio.sleep(0)

    def _next(self) -> Page | None:
        if self._run.halt.order is not None:
            return None
        if not self._pages and not self._run.failure:
            self._pages.extend(self._run.extractions.take(_PORTION))
        return self._pages.popleft() if self._pages else None

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._run.extractions.under_way = False
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("extracting again failed: %s", error, exc_info=error)
        wake_engine(self._crawler)

    def closed(self) -> None:
        """Stop with the run; the next run finds the remaining pages again."""
        if self._task is not None:
            self._task.cancel()

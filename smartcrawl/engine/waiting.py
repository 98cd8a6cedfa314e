"""Documents that wait for a reading process, beside the engine so that no page waits for them."""

from __future__ import annotations

import asyncio
from typing import Final

from scrapy.crawler import Crawler

from smartcrawl.extract import html
from smartcrawl.extract.formats import FORMATS
from smartcrawl.model.pages import Visit

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

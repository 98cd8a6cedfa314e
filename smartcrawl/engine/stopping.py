"""Ending a run that cannot go on."""

from __future__ import annotations

import asyncio
import logging

from scrapy.crawler import Crawler

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)


def is_crawler_stopping(crawler: Crawler) -> bool:
    """Whether a crawl ends: no request is sent and nothing waited for any more."""
    slot = crawler.engine._slot
    return slot is None or slot.closing is not None


def stop_crawler(crawler: Crawler, run: Run, error: SmartcrawlError) -> None:
    """End a run as interrupted: committed pages stay, and it can be resumed."""
    if run.failure is None:
        run.failure = error
        logger.error("%s", error)
        closing = asyncio.ensure_future(crawler.engine.close_spider_async(reason="commit_failed"))
        closing.add_done_callback(lambda done: done.exception())

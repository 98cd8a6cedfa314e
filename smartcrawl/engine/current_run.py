"""The run of a Scrapy crawler: found, woken and stopped."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest

from smartcrawl.model.exceptions import RunHaltedError, SmartcrawlError
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)


def run_of_crawler(crawler: Any) -> Run | None:
    """Return the run of a crawler's spider, or None if the spider has no run."""
    return getattr(crawler.spider, "run", None)


def wake_engine(crawler: Crawler) -> None:
    """Let the engine ask for a request, and check whether it is idle, at once."""
    slot = crawler.engine._slot if crawler.engine is not None else None
    if slot is not None:
        slot.nextcall.schedule()


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


class HaltedRequestError(RunHaltedError, IgnoreRequest):
    """The same error, ignored by Scrapy: not logged as an error of the spider."""

"""Pages that waited and that a run accepts as edits, committed without a second request."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider

from smartcrawl.engine.stopping import is_crawler_stopping
from smartcrawl.engine.waking import wake_engine
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)


class EditSubmitter:
    """The last step of a run: decide, then send the waiting answers through the pipelines."""

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._task: asyncio.Task[None] | None = None

    @property
    def under_way(self) -> bool:
        """Whether waiting answers are being committed."""
        return self._task is not None

    def step(self, now: int) -> None:
        """Take the step; ``now`` is Unix seconds.

        Raises:
            RegistryError: the registry cannot be written.
            DontCloseSpider: answers are being committed now.
        """
        self._run.ending.settle_collapsed(now)
        if count := len(self._run.collapses.accepted):
            pages = "1 page" if count == 1 else f"{count} pages"
            logger.info("%s shrank to less than a tenth, or got one text: taken as edits", pages)
            self._task = asyncio.ensure_future(self._work())
            self._task.add_done_callback(self._done)
            raise DontCloseSpider

    async def _work(self) -> None:
        chain: Any = self._crawler.engine.scraper.itemproc
        run = self._run
        while not (run.failure or is_crawler_stopping(self._crawler)):
            visit = run.collapses.take()
            if visit is None:
                return
            try:
                await chain.take(visit)
            except Exception:  # the page stays withheld, and the others are taken
                logger.exception("not taken as an edit: %s", visit.url)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("committing edits failed: %s", error, exc_info=error)
        wake_engine(self._crawler)

    def stop(self) -> None:
        """Stop with the run; when it is resumed, it finds the waiting answers again."""
        if self._task is not None:
            self._task.cancel()

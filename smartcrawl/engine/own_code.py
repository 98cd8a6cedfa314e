"""Errors of a user's own code, named by their class, file and line."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any, Final, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from twisted.python.failure import Failure

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.download.faults import own_code_place
from smartcrawl.model.pages import Visit, VisitAttempt
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 0.1  #: seconds


class OwnCodeErrors:
    """Names the errors of a user's own code, and leaves pages pending whose Visit they prevented.

    An error after the Visit was yielded concerns the items of its page, never the page.
    """

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._waiting: list[tuple[Any, VisitAttempt, str]] = []  #: errors of callbacks
        self._counts: Counter[str] = Counter()  #: of items, by place

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        run = run_of_crawler(crawler)
        if run is None:
            raise NotConfigured  # without words, which Scrapy would log as a warning
        errors = cls(crawler, run)
        crawler.signals.connect(errors.spider_failed, signal=signals.spider_error)
        crawler.signals.connect(errors.item_failed, signal=signals.item_error)
        crawler.signals.connect(errors.settle, signal=signals.spider_idle)
        crawler.signals.connect(errors.closed, signal=signals.spider_closed)
        return errors

    def spider_failed(self, failure: Failure, response: Any) -> None:
        """Note an error of a callback; its page is judged once its items are through."""
        place = own_code_place(failure)
        request = getattr(response, "request", None)
        attempt = request.meta.get("attempt") if request is not None else None
        if isinstance(attempt, VisitAttempt):
            self._waiting.append((request, attempt, place))
            asyncio.get_running_loop().call_later(_LOOK_AGAIN, self.settle)
        self._counts[place] += 1

    def item_failed(self, item: Any, failure: Failure) -> None:
        """Count an error of a pipeline that got an item of the user's own."""
        if not isinstance(item, Visit):
            self._counts[own_code_place(failure)] += 1

    def settle(self) -> None:
        """Leave the pages pending that have no Visit, as far as their items are through."""
        slot = self._crawler.engine.scraper.slot
        active = slot.active if slot is not None else ()
        waiting, self._waiting = self._waiting, []
        for request, attempt, place in waiting:
            if request in active:
                self._waiting.append((request, attempt, place))
            elif not attempt.traffic.is_recorded:
                self._run.turns.unanswered(attempt.page)
                self._run.shortcomings.fail_code(place, attempt.page.url)
        if self._waiting:
            asyncio.get_running_loop().call_later(_LOOK_AGAIN, self.settle)

    def closed(self) -> None:
        """Judge the last pages, and log what failed how often."""
        self.settle()
        for place, count in self._counts.most_common():
            times = "once" if count == 1 else f"{count:,} times"
            logger.error("your own code failed %s: %s", times, place)

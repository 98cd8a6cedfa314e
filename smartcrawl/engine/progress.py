"""Progress of a run for people and programs."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.logformatter import LogFormatter, LogFormatterResult

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.signals import page_progress
from smartcrawl.model.pages import Visit
from smartcrawl.reports.text import report_time_span
from smartcrawl.run.run import Run
from smartcrawl.terminal.bar import REFRESH, SECONDS, Bar, ProgressFacts, print_progress_line
from smartcrawl.terminal.output import discard_output, printed_json

logger = logging.getLogger(__name__)


class JsonProgress:
    """Prints one JSON object a line for each page on standard output (``--progress json``)."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Listen to the progress of the crawl, if PROGRESS_FORMAT is json."""
        if crawler.settings["PROGRESS_FORMAT"] != "json":
            raise NotConfigured
        progress = cls()
        crawler.signals.connect(progress.print_event, signal=page_progress)
        return progress

    def print_event(self, event: dict[str, Any]) -> None:
        """Print one event."""
        try:
            print(printed_json(event, sys.stdout), flush=True)
        except BrokenPipeError:  # the crawl goes on without its reader
            discard_output()


class Progress:
    """A bar on a terminal, plain log lines elsewhere."""

    def __init__(self, crawler: Crawler, run: Run, *, interval: float) -> None:
        self._crawler = crawler
        self._run = run
        self._interval = interval
        self._started = time.monotonic()
        self._bar: Bar | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        run = run_of_crawler(crawler)
        if run is None:
            raise NotConfigured  # without words, which Scrapy would log as a warning
        if crawler.settings["PROGRESS_FORMAT"] != "line":
            raise NotConfigured
        progress = cls(crawler, run, interval=SECONDS)
        crawler.signals.connect(progress.opened, signal=signals.spider_opened)
        crawler.signals.connect(progress.closed, signal=signals.spider_closed)
        return progress

    def opened(self) -> None:
        """Begin to report."""
        self._started = time.monotonic()
        self._bar = Bar.on(sys.stderr)
        self._task = asyncio.ensure_future(self._report())

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self._interval if self._bar is None else REFRESH)
            self._show(time.monotonic() - self._started)

    def _show(self, elapsed: float) -> None:
        if self._bar is not None:
            self._bar.draw(self.facts(elapsed), self.line(elapsed))
        elif sys.stderr.isatty():  # another process has the bar of this terminal
            print_progress_line(self.line(elapsed))
        else:
            logger.info("%s", self.line(elapsed))

    def facts(self, elapsed: float) -> ProgressFacts:
        """Return the state of the run for the bar.

        The total grows as links are found. A shared run has none: only Redis has the count of the
        queue.
        """
        progress = self._run.batches.progress
        rate, speed = self._speed(elapsed)
        parts, total = [*speed], None
        if not self._run.opened.shared:
            queued = self._queued()
            total = progress.visits + queued
            parts += [f"{report_time_span(int(queued / rate))} left"] if rate else []
        return ProgressFacts(self._run.source.name, progress.visits, total, tuple(parts))

    def _queued(self) -> int:
        """Return the number of pages that were found and are not done.

        The engine takes answers faster than they are read: thousands of small files wait in it.
        """
        engine: Any = self._crawler.engine
        slot = engine.scraper.slot
        answered = 0 if slot is None else len(slot.queue) + len(slot.active)
        return len(self._run.frontier) + len(engine.downloader.active) + answered

    def _speed(self, elapsed: float) -> tuple[float, tuple[str, str]]:
        """Return the pages a second, and the words for them and for the share of 304."""
        progress = self._run.batches.progress
        rate = progress.visits / elapsed if elapsed > 0 else 0.0
        share = 100 * progress.not_modified / progress.visits if progress.visits else 0
        return rate, (f"{rate:.1f} pages/s", f"{share:.0f} % 304")

    def line(self, elapsed: float) -> str:
        """Return the line: done/queued, pages/s, share of 304, new and modified, time left.

        In a shared run the counts are those of this worker; only Redis has the count of the queue.
        """
        progress = self._run.batches.progress
        rate, speed = self._speed(elapsed)
        waits, left = "more with others", ""
        if not self._run.opened.shared:
            queued = self._queued()
            waits = f"{queued} queued"
            left = f", about {queued / rate:.0f} s left" if rate else ""
        return (
            f"{self._run.source.name}: {progress.visits} done, {waits},"
            f" {', '.join(speed)}, {progress.words.get('new', 0)} new,"
            f" {progress.words.get('modified', 0)} modified{left}"
        )

    def closed(self) -> None:
        """Stop reporting."""
        if self._task is not None:
            self._task.cancel()
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class QuietLog(LogFormatter):
    """Logs no line for each page and item: counts and registry have more, and cost less."""

    def crawled(self, request: Request, response: Response, spider: Spider) -> None:  # type: ignore[override]  # Scrapy documents None as "do not log"
        """Log nothing."""

    def scraped(self, item: Any, response: Any, spider: Spider) -> None:  # type: ignore[override]  # likewise
        """Log nothing."""

    def dropped(  # type: ignore[override]  # likewise
        self, item: Any, exception: BaseException, response: Any, spider: Spider
    ) -> LogFormatterResult | None:
        """Log nothing for a Visit, which ends so; log what a user's own pipeline dropped."""
        if isinstance(item, Visit):
            return None
        return super().dropped(item, exception, response, spider)

    def download_error(self, *args: Any, **kwargs: Any) -> LogFormatterResult:
        """Log an error at DEBUG, which the registry records as the page's outcome, too."""
        result = super().download_error(*args, **kwargs)
        return LogFormatterResult(level=logging.DEBUG, msg=result["msg"], args=result["args"])

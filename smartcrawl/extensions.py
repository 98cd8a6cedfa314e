"""Beside the road: the life of a run, the delay of each host, and what people see."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import threading
import time
from functools import partial
from typing import Any, Self
from urllib.request import getproxies

from pydispatch.dispatcher import getReceivers
from rich.console import Console
from rich.live import Live
from rich.text import Text
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, NotConfigured
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Response
from scrapy.logformatter import LogFormatter, LogFormatterResult

from smartcrawl.edits import Edits
from smartcrawl.extract.robots_txt import sitemaps
from smartcrawl.gates import gate_of, host_of
from smartcrawl.model.batches import HostNow
from smartcrawl.model.exceptions import RegistryError, SinkError
from smartcrawl.model.pages import Attempt, Visit
from smartcrawl.model.redaction import json_safe
from smartcrawl.model.urls import endpoint
from smartcrawl.network import installed_resolver
from smartcrawl.run.hosts.gate import slot_of
from smartcrawl.run.run import Run, run_of
from smartcrawl.signals import page_progress

logger = logging.getLogger(__name__)


class RunLifecycle:
    """Ends a run: hand on depths, seal, settle, report. Each step happens once."""

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._edits = Edits(crawler, run)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        run = run_of(crawler)
        if run is None:
            raise NotConfigured("the spider has no run")
        lifecycle = cls(crawler, run)
        crawler.signals.connect(lifecycle.opened, signal=signals.spider_opened)
        crawler.signals.connect(lifecycle.idle, signal=signals.spider_idle)
        crawler.signals.connect(lifecycle.closed, signal=signals.spider_closed)
        crawler.signals.connect(lifecycle.unanswered, signal=signals.spider_error)
        crawler.signals.connect(lifecycle.dropped, signal=signals.item_dropped)
        crawler.signals.connect(lifecycle.dropped, signal=signals.item_error)
        return lifecycle

    def unanswered(self, response: Response) -> None:
        """Note a page of which a spider of a user's own made nothing: it stays pending."""
        attempt = response.request.meta.get("attempt") if response.request is not None else None
        if isinstance(attempt, Attempt):
            self._run.unanswered(attempt.page)

    def dropped(self, item: Any) -> None:
        """Note a visit that a pipeline of a user's own kept from being written, likewise."""
        if isinstance(item, Visit):
            self._run.unanswered(item.page)

    def opened(self) -> None:
        """Say what begins, and what an earlier process left behind."""
        run = self._run
        if run.opened.interrupted is not None:
            logger.warning(
                "run %d of %s was interrupted and is closed now; this is a new run"
                " (-a resume=1 would have gone on with it)",
                run.opened.interrupted,
                run.source.name,
            )
        resolver = installed_resolver()
        if resolver is not None:
            resolver.protect([*run.reach.endpoints(), *self._proxies()], run.reach.ports())
        run.ledger.observe = partial(host_now, self._crawler)
        if run.turns is not None:  # it may have no reason to read robots.txt again
            run.reach.sitemaps_known(sitemaps)
        if getReceivers(self._crawler, page_progress):
            run.watcher = self._tell
        gc.collect()
        gc.freeze()  # what was imported lives to the end: 4 % less work for the collector
        if run.opened.over:
            logger.warning(
                "nothing is asked: the job %s is over, it was run %d of %s; another name begins a"
                " new run",
                run.orders.job,
                run.opened.no,
                run.source.name,
            )
            return
        verb = "goes on" if run.opened.resumed else "begins"
        logger.info("run %d of %s %s", run.opened.no, run.source.name, verb)

    def _proxies(self) -> list[tuple[str, int]]:
        """Return the proxies of the environment, if they are to be used: they are given, too."""
        if not self._crawler.settings.getbool("HTTPPROXY_ENABLED"):
            return []
        urls = [url if "//" in url else f"http://{url}" for url in getproxies().values()]
        return [endpoint(url) for url in urls]

    def _tell(self, event: dict[str, Any]) -> None:
        """Send a progress event from whatever thread it comes."""
        send = partial(self._crawler.signals.send_catch_log, signal=page_progress, event=event)
        if threading.current_thread() is threading.main_thread():
            send()
        else:
            self._loop.call_soon_threadsafe(send)

    def idle(self) -> None:
        """Hand on the depth of pages that turned out to lie nearer; there may be more to ask."""
        run = self._run
        if run.failure is not None or run.extractions.pending:
            return
        if self._edits.under_way:
            raise DontCloseSpider
        engine, edits = self._crawler.engine, self._edits.step
        steps = (run.relax, run.follow_unnamed, run.relax, edits, run.relax, run.begin_verify)
        for step in (*steps, None):
            scheduler = engine.scheduler
            request = scheduler.next_request() if scheduler is not None else None
            if request is not None:
                engine.crawl(request)  # wakes the engine; DontCloseSpider alone would not
                raise DontCloseSpider
            if engine.downloader.active:  # the lane asks
                raise DontCloseSpider
            if run.resting:
                raise DontCloseSpider
            if run.extractions.pending:  # what was skipped just now
                self._wake()
                raise DontCloseSpider
            if step is None or run.pending or run.failure is not None:
                return  # the engine closes nothing that still waits for a host
            try:
                with run.registry.database.translated("read"):
                    step(int(time.time()))
            except (RegistryError, SinkError) as error:
                run.failure = error
                return

    def _wake(self) -> None:
        """Have the engine find itself idle again."""
        slot = self._crawler.engine._slot
        if slot is not None:
            slot.nextcall.schedule()

    async def closed(self, reason: str) -> None:
        """Seal the run, or close it as interrupted."""
        run = self._run
        self._edits.stop()
        self._loop = asyncio.get_running_loop()
        try:
            with run.registry.database.translated("write"):
                await asyncio.to_thread(run.finish, reason, int(time.time()))
        except (RegistryError, SinkError) as error:
            run.failure = run.failure or error
            logger.error("%s", error)
        if stale := run.ledger.progress.stale:
            logger.warning("%d visits came too late and were dropped", stale)


def host_now(crawler: Crawler, host: str) -> HostNow:
    """Return how a host is being asked at this moment."""
    slot, gate, now = slot_of(host), gate_of(crawler), time.monotonic()
    ahead = time.time() - now  #: of the monotonic clock
    engine = crawler.engine
    asked = engine.downloader.slots.get(slot) if engine is not None else None
    hold = gate.held.get(slot) if gate is not None else None

    def moment(until: float | None) -> int | None:
        return round(until + ahead) if until is not None and until > now else None

    return HostNow(
        delay_ms=round(1000 * asked.delay) if asked is not None else 0,
        in_flight=len(asked.active) if asked is not None else 0,
        parked_until=moment(hold.parked) if hold is not None else None,
        paused_until=moment(hold.paused) if hold is not None else None,
        is_down=gate is not None and gate.is_down(slot),
    )


class DelayControl(AutoThrottle):
    """Scrapy's AutoThrottle, except that a 304 may lower the delay.

    AutoThrottle lowers it on a 200 only, because error pages come fast; a 304 is a healthy
    answer, and a refresh of unchanged pages would otherwise keep its first delay for ever.
    """

    def answered(self, request: Any, response: Any) -> None:
        """Take note of an answer that did not pass the downloader."""
        self._response_downloaded(response, request, self.crawler.spider)  # type: ignore[arg-type]

    def _adjust_delay(self, slot: Any, latency: float, response: Response) -> None:
        if response.status != 304:
            super()._adjust_delay(slot, latency, response)
        else:
            target = latency / self.target_concurrency
            delay = max(target, (slot.delay + target) / 2)
            slot.delay = min(max(self.mindelay, delay), self.maxdelay)
        gate = gate_of(self.crawler)
        if gate is not None and response.request is not None:
            gate.paced(host_of(response.request), slot.delay)


class JsonProgress:
    """One JSON object a line on standard output for each page (``--progress json``)."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Listen to the progress of the crawl, if that was asked for."""
        if crawler.settings["PROGRESS_FORMAT"] != "json":
            raise NotConfigured
        progress = cls()
        crawler.signals.connect(progress.tell, signal=page_progress)
        return progress

    def tell(self, event: dict[str, Any]) -> None:
        """Print one event."""
        print(json_safe(json.dumps(event, ensure_ascii=False)), flush=True)


class Progress:
    """One live line on a terminal, plain log lines elsewhere."""

    def __init__(self, crawler: Crawler, run: Run, *, interval: float) -> None:
        self._run = run
        self._interval = interval
        self._started = time.monotonic()
        self._live: Live | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        run = run_of(crawler)
        if run is None:
            raise NotConfigured("the spider has no run")
        if crawler.settings["PROGRESS_FORMAT"] == "json":
            raise NotConfigured
        progress = cls(crawler, run, interval=0.5 if sys.stderr.isatty() else 30)
        crawler.signals.connect(progress.opened, signal=signals.spider_opened)
        crawler.signals.connect(progress.closed, signal=signals.spider_closed)
        return progress

    def opened(self) -> None:
        """Begin to tell."""
        self._started = time.monotonic()
        if sys.stderr.isatty():
            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        self._task = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            line = self.line(time.monotonic() - self._started)
            if self._live is not None:
                self._live.update(Text(line), refresh=True)
            else:
                logger.info("%s", line)

    def line(self, elapsed: float) -> str:
        """Return the line: done/queued, pages/s, share of 304, new and modified, time left.

        Of a run that workers share it tells what this one did; how much waits, Redis knows.
        """
        progress = self._run.ledger.progress
        rate = progress.visits / elapsed if elapsed > 0 else 0.0
        share = 100 * progress.not_modified / progress.visits if progress.visits else 0
        waits, left = "more with others", ""
        if not self._run.opened.shared:
            queued = len(self._run.frontier)
            waits = f"{queued} queued"
            left = f", about {queued / rate:.0f} s left" if rate else ""
        return (
            f"{self._run.source.name}: {progress.visits} done, {waits},"
            f" {rate:.1f} pages/s, {share:.0f} % 304, {progress.words.get('new', 0)} new,"
            f" {progress.words.get('modified', 0)} modified{left}"
        )

    def closed(self) -> None:
        """Stop telling."""
        if self._task is not None:
            self._task.cancel()
        if self._live is not None:
            self._live.stop()


class QuietLog(LogFormatter):
    """No line for each page and item: counts and the registry tell more, and cost less."""

    def crawled(self, request: Request, response: Response, spider: Spider) -> None:  # type: ignore[override]  # Scrapy documents None as "do not log"
        """Log nothing."""

    def scraped(self, item: Any, response: Any, spider: Spider) -> None:  # type: ignore[override]  # likewise
        """Log nothing."""

    def download_error(self, *args: Any, **kwargs: Any) -> LogFormatterResult:
        """Say at DEBUG what the registry records as the page's outcome anyway."""
        result = super().download_error(*args, **kwargs)
        return LogFormatterResult(level=logging.DEBUG, msg=result["msg"], args=result["args"])

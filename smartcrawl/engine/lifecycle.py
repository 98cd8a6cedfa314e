"""The steps of a run inside Scrapy: opening, idle work, verification, end."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

from pydispatch.dispatcher import getReceivers
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, NotConfigured

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.delays import download_slot_now
from smartcrawl.engine.download.network import installed_resolver, protect_run_connections
from smartcrawl.engine.download.proxies import environment_proxy_endpoints
from smartcrawl.engine.edits import EditSubmitter
from smartcrawl.engine.hurrying import hurrying_at_signals
from smartcrawl.engine.memory import rare_garbage_collection
from smartcrawl.engine.pushing import push_pages_at_crawler_end
from smartcrawl.engine.scheduler import NumberScheduler
from smartcrawl.engine.signals import confirmed_page_signal_event, page_progress
from smartcrawl.engine.vectors import (
    close_embedder_at_crawler_end,
    drop_embedding_at_crawler_end,
    log_embedding_at_crawler_start,
    pay_debts_at_crawler_end,
)
from smartcrawl.engine.waking import wake_engine
from smartcrawl.extract.robots_txt import robots_txt_sitemaps
from smartcrawl.model.exceptions import RegistryError, SinkError
from smartcrawl.model.pages import Page, Visit
from smartcrawl.model.program import program_argument
from smartcrawl.rules.model import RunOrder
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)


class RunLifecycle:
    """Opens a run, does its idle steps (depths, edits, verification), and ends it."""

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._edits = EditSubmitter(crawler, run)
        self._signals = ExitStack()  # handlers that shorten waits
        self._collection = ExitStack()  # of garbage, as rarely as it is while the spider is open

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        run = run_of_crawler(crawler)
        if run is None:
            raise NotConfigured  # without words, which Scrapy would log as a warning
        lifecycle = cls(crawler, run)
        crawler.signals.connect(lifecycle.opened, signal=signals.spider_opened)
        crawler.signals.connect(lifecycle.idle, signal=signals.spider_idle)
        crawler.signals.connect(lifecycle.closed, signal=signals.spider_closed)
        crawler.signals.connect(lifecycle.failed, signal=signals.item_error)
        return lifecycle

    def failed(self, item: Any) -> None:
        """Leave a page pending whose visit no pipeline could commit."""
        if isinstance(item, Visit) and not item.postponed:
            self._run.turns.unanswered(item.page)

    def opened(self) -> None:
        """Log the beginning of the run, and an interrupted run that was closed."""
        run = self._run
        if run.opened.interrupted is not None:
            resume = f" ({program_argument('resume')} would have gone on with it)"
            logger.warning(
                "run %d of %s was interrupted and is closed now; this is a new run%s",
                run.opened.interrupted,
                run.source.name,
                "" if run.library is not None else resume,  # its commands have no such argument
            )
        protect_run_connections(run, environment_proxy_endpoints(self._crawler.settings))
        run.batches.observe = partial(download_slot_now, self._crawler)
        if run.due_pages is not None:  # it may not fetch robots.txt again
            run.sitemaps.named_before(robots_txt_sitemaps)
        if getReceivers(self._crawler, page_progress):
            run.watcher = self._send
            if run.listed is not None:
                run.listed.confirmed = self._send_confirmed
        self._collection.enter_context(rare_garbage_collection())
        self._signals.enter_context(hurrying_at_signals(run.registry.database.hurry))
        if run.opened.over:
            logger.warning("nothing is asked: %s", _over_words(run))
            return
        log_embedding_at_crawler_start(run.options)
        drop_embedding_at_crawler_end(self._crawler, run)
        verb = "goes on" if run.opened.resumed else "begins"
        logger.info("run %d of %s %s", run.opened.no, run.source.name, verb)

    def _send_confirmed(self, page: Page) -> None:
        self._send(confirmed_page_signal_event(page))

    def _send(self, event: dict[str, Any]) -> None:
        """Send a progress event to the listeners, from any thread."""
        send = partial(self._crawler.signals.send_catch_log, signal=page_progress, event=event)
        if threading.current_thread() is threading.main_thread():
            send()
        else:
            self._loop.call_soon_threadsafe(send)

    def idle(self) -> None:
        """Do the steps of an idle run, one after another, until one of them finds pages to ask."""
        run = self._run
        if run.failure is not None or run.extractions.pending or run.opened.over:
            return
        if self._edits.under_way:
            raise DontCloseSpider
        engine = self._crawler.engine
        steps = run.ending.steps(self._edits.step, self._ask_late_spellings)
        for step in (self._begin_batch, *steps, None):
            scheduler = engine.scheduler
            request = scheduler.next_request() if scheduler is not None else None
            if request is not None:
                engine.crawl(request)  # wakes the engine; DontCloseSpider alone would not
                raise DontCloseSpider
            if engine.downloader.active:  # requests of the lane are in flight
                raise DontCloseSpider
            if run.turns.resting:
                raise DontCloseSpider
            if isinstance(scheduler, NumberScheduler) and scheduler.has_requests:
                raise DontCloseSpider  # late spellings wait for their hosts
            if run.extractions.pending:  # pages that were skipped just now
                wake_engine(self._crawler)
                raise DontCloseSpider
            if step is None or run.pending or run.failure is not None:
                return  # the engine stays open while pages wait for a host
            try:
                with run.registry.database.translated("read"):
                    step(int(time.time()))
            except (RegistryError, SinkError) as error:
                run.failure = error
                return

    def _begin_batch(self, now: int) -> None:
        """Request the items of a library again that failed, now that all others are done."""
        run = self._run
        if run.library is not None and run.listed is not None:
            run.listed.take_again(run.library.retries.begin_next())

    def _ask_late_spellings(self, now: int) -> None:
        """Ask the spellings that were met after the visits of their addresses had failed."""
        scheduler = self._crawler.engine.scheduler
        assert isinstance(scheduler, NumberScheduler)
        for page in self._run.ending.late_spellings(now):
            scheduler.enqueue_request(scheduler.request_of(page))

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
        try:
            if reason != "shutdown":
                await pay_debts_at_crawler_end(self._crawler, run)
                await push_pages_at_crawler_end(self._crawler, run)
        finally:
            if (resolver := installed_resolver()) is not None:
                resolver.learnt = None  # the registry of the run is closed
            close_embedder_at_crawler_end(run)
            self._collection.close()
            self._signals.close()
        if stale := run.batches.progress.stale:
            logger.warning("visits that came too late and were dropped: %d", stale)


def _over_words(run: Run) -> str:
    """Return why the run of this process's job is over, with the remedy."""
    no, name, job = run.opened.no, run.source.name, run.orders.job
    match run.opened.order:
        case RunOrder.PAUSE:
            resume = program_argument("resume")
            return f"run {no} of {name}, of the job {job}, is paused; {resume} goes on with it"
        case RunOrder.CANCEL:
            why = f"run {no} of {name}, of the job {job}, was cancelled"
        case None:
            why = f"the job {job} is over, it was run {no} of {name}"
    return f"{why}; another name begins a new run"

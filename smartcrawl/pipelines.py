"""The pipelines of a Visit: extract, decide, commit. Other items pass untouched."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from functools import partial
from typing import Any, NoReturn, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem

from smartcrawl.engine.current_run import is_crawler_stopping, run_of_crawler, stop_crawler
from smartcrawl.engine.download.answers import DownloaderProbe
from smartcrawl.engine.download.network import protect_run_connections
from smartcrawl.engine.items import VisitDone
from smartcrawl.engine.scheduler import NumberScheduler
from smartcrawl.engine.signals import page_signal_event
from smartcrawl.model.exceptions import GivenUpError, RegistryError, RunOverError, SinkError
from smartcrawl.model.pages import Visit
from smartcrawl.rules.page_reading import CRAWLS_AT_ONCE, page_reading
from smartcrawl.rules.progress import SAMPLE_SECONDS
from smartcrawl.run.answers import NextRequest, Soft404Probe
from smartcrawl.run.reading import Reading, VisitSteps, judge_run_visit
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)

_FLUSH_AFTER = 2.0  #: seconds that a batch may stay open


class VisitPipeline:
    """A pipeline step over the Visits of a run; any other item passes it untouched."""

    def __init__(self, crawler: Crawler, run: Run | None) -> None:
        self.crawler = crawler
        self.run = run

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        return cls(crawler, run_of_crawler(crawler))


class ExtractPipeline(VisitPipeline):
    """Have each Visit read and judged, and its links offered (run.reading)."""

    def __init__(self, crawler: Crawler, run: Run | None) -> None:
        super().__init__(crawler, run)
        self._reading: Reading | None = None
        if run is not None:
            self._reading = reading = Reading(
                run,
                is_soft_404=Soft404Probe(run, DownloaderProbe(crawler).ask).is_soft_404,
                scope_moved=partial(protect_run_connections, run),
                is_stopping=partial(is_crawler_stopping, crawler),
                pages=page_reading(
                    run.options.read_processes,
                    cores=len(os.sched_getaffinity(0)),
                    jobs=crawler.settings.getint(CRAWLS_AT_ONCE, 1),
                ),
            )
            self._steps = VisitSteps(run, reading, partial(stop_crawler, crawler, run))

    async def process_item(self, item: Any) -> Any:
        """Fill in a Visit; a damaged registry ends the run.

        An answer that does not bring the page waits while another spelling of the address is asked.
        The answer that counts goes on in its place.
        """
        return await self.take(item) if isinstance(item, Visit) else item

    def waits(self, item: Visit) -> bool:
        """Whether a Visit waits for the proof of a login, which passes it on later."""
        session = None if self.run is None else self.run.session
        return session is not None and not session.admits(item)

    async def take(self, item: Visit) -> Visit:
        """Fill in a Visit, and return the one that counts.

        Raises:
            DropItem: another address is asked in this visit, or it is not to be stored.
        """
        if self.run is None:
            return item
        try:
            found = await self._steps.read(item)
        except GivenUpError as error:
            raise DropItem(str(error), log_level="DEBUG") from error
        if found is None:
            why = "it waits for a login, or does not exist under this spelling either"
            raise DropItem(why, log_level="DEBUG")
        if isinstance(found, NextRequest):
            self._ask(item, found)
        return found

    def _ask(self, visit: Visit, found: NextRequest) -> NoReturn:
        attempt = visit.attempt
        assert attempt is not None, "it was requested"
        scheduler = self.crawler.engine.scheduler
        assert isinstance(scheduler, NumberScheduler)
        request = scheduler.request_of(visit.page, attempt, found.url)
        if found.cookie:
            request.headers["Cookie"] = found.cookie.encode("latin-1")
        self.crawler.engine.crawl(request)
        raise DropItem(f"another spelling is requested: {found.url}", log_level="DEBUG")

    async def close_spider(self) -> None:
        """End the processes that read documents."""
        if self._reading is not None:
            await self._reading.close()


class DecidePipeline(VisitPipeline):
    """Take the verdict of the rules on each Visit, and count it; nothing is written yet."""

    def process_item(self, item: Any) -> Any:
        """Set the verdict."""
        if isinstance(item, Visit):
            self.take(item)
        return item

    def take(self, item: Visit) -> None:
        """Set the verdict of a Visit."""
        run = self.run
        if run is not None and not item.page.plan.verify:
            verdict = judge_run_visit(run, item)
            if not item.again:
                component = "edit" if item.accepted else "visit"
                self.crawler.stats.inc_value(f"{component}/{verdict.word.word}")
            if item.parsed.taken_over:
                self.crawler.stats.inc_value("document/taken_over")


class CommitPipeline(VisitPipeline):
    """Gather Visits in batches and have them written, the registry last.

    A batch that cannot be written ends the run as interrupted. Scrapy would swallow an exception
    here, and the run would look complete.
    """

    def __init__(self, crawler: Crawler, run: Run | None) -> None:
        super().__init__(crawler, run)
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sampler: asyncio.TimerHandle | None = None
        self._closing = False
        if run is not None:
            run.registry.indexing.stop_when(partial(is_crawler_stopping, crawler))
            run.workers.listen(self._hurry, self._on_written)

    async def open_spider(self) -> None:
        """Begin to take samples of the run, also while it has nothing to write (ADR 171)."""
        if self.run is not None and not self.run.opened.over:
            self._loop = asyncio.get_running_loop()
            self._sampler = self._loop.call_later(SAMPLE_SECONDS, self._sample)

    def _sample(self) -> None:
        run = self.run
        if run is None or run.failure is not None or self._closing or self._loop is None:
            return
        self._sampler = self._loop.call_later(SAMPLE_SECONDS, self._sample)
        if self._timer is None and not run.batches.is_writing:  # no batch brings one by itself
            run.batches.batch.is_sample = True
            self._flush_late()

    async def process_item(self, item: Any) -> Any:
        """Add the Visit to the open batch; wait when the writer is two batches behind.

        Raises:
            VisitDone: always for a Visit, which ends here.
        """
        if not isinstance(item, Visit):
            return item
        await self.take(item)
        raise VisitDone

    async def take(self, item: Visit) -> None:
        """Add a Visit to the open batch, unless the run failed."""
        run = self.run
        if run is None or run.failure is not None:
            return
        self._loop = asyncio.get_running_loop()
        if item.page.plan.verify:
            run.batches.probe(item)
        else:
            run.batches.record(item)
            item.traffic.is_recorded = True
            if run.watcher is not None and not item.again:
                run.watcher(page_signal_event(item))
        if run.batches.batch.full or run.turns.hurries:
            await self._flush(run)
        elif self._timer is None:
            self._timer = self._loop.call_later(_FLUSH_AFTER, self._flush_late)

    def _flush_late(self) -> None:
        self._timer = None
        if self.run is not None and self.run.failure is None:
            task = asyncio.ensure_future(self._flush(self.run))
            task.add_done_callback(lambda done: done.exception())

    def _hurry(self) -> None:
        """Write the open batch now, because other workers have no page left to request."""
        if self.run is not None and self.run.batches.batch and self.run.turns.hurries:
            self._flush_late()

    def _on_written(self) -> None:
        """Announce a written batch to other workers at once; called in the writer's thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        run = self.run
        if run is None or run.failure is not None or self._closing:
            return
        try:
            run.batches.collect()
        except (RegistryError, SinkError) as error:
            self._end(run, error)

    def _end(self, run: Run, error: RegistryError | SinkError) -> None:
        """End the run, unless another worker ended it already."""
        if not (isinstance(error, RunOverError) and run.workers.found_over()):
            stop_crawler(self.crawler, run, error)

    async def _flush(self, run: Run) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            await run.batches.flush(int(time.time()))
        except (RegistryError, SinkError) as error:
            self._end(run, error)

    async def close_spider(self) -> None:
        """Write the last batch; the run is sealed after this."""
        run = self.run
        self._closing = True
        if self._sampler is not None:
            self._sampler.cancel()
        if run is None or run.failure is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        try:
            run.batches.submit(int(time.time()))
            await asyncio.to_thread(run.batches.drain)
        except (RegistryError, SinkError) as error:
            if not (isinstance(error, RunOverError) and run.workers.found_over()):
                run.failure = error
                logger.error("%s", error)

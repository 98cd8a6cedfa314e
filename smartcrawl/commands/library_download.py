"""The download step of ``scrapy library``: one crawl of a source after another."""

from __future__ import annotations

from collections.abc import Callable

from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess, Crawler

from smartcrawl.commands.library_order import DOWNLOAD, LibraryOrder
from smartcrawl.model.exceptions import RunHeldError, RunPausedError, SmartcrawlError
from smartcrawl.model.program import program_argument, program_name
from smartcrawl.run.library_report import LibraryReport
from smartcrawl.run.run import Run
from smartcrawl.sources.sharepoint.source import SharepointSource
from smartcrawl.spiders.sharepoint import SharepointSpider


def paused_library_source_reason(error: RunPausedError) -> str:
    """Return why a paused source is left out, with the command that goes on with its run."""
    return (
        f"run {error.run} of {error.source} is paused since {error.since}; this goes on with it:"
        f" {program_name()} crawl sharepoint {program_argument('source', error.source)}"
        f" {program_argument('resume')}"
    )


class LibraryDownload:
    """Downloads the sources of an order into its report."""

    def __init__(
        self,
        process: AsyncCrawlerProcess,
        create_crawler: Callable[[type[Spider]], Crawler],
        order: LibraryOrder,
        report: LibraryReport,
    ) -> None:
        self._process = process
        self._create_crawler = create_crawler
        self._order = order
        self._report = report
        self._crawler: Crawler | None = None  #: of the last source
        if order.job is not None:
            order.job.current_run = self._current_run

    def _current_run(self) -> int | None:
        """Return run.no of the last crawl that was begun; None: its run is not open yet."""
        run: Run | None = getattr(getattr(self._crawler, "spider", None), "run", None)
        return None if run is None else run.opened.no

    async def carry_out(self) -> None:
        """Crawl each source; its run requests what failed again, in batches (R3-60)."""
        for source in self._order.sources:
            if self._order.is_ending():
                self._report.is_stopped = True
                return
            if self._report.is_skipped(source) or self._order.is_done(DOWNLOAD, source):
                continue
            before = self._report.is_incomplete
            run = await self._crawl_library(source)
            if run is not None:
                self._report.add_run(source, run)
            if self._report.is_stopped:
                self._order.save(self._report, paused=source, incomplete=before)
                return
            after = self._report.is_incomplete
            self._order.save(self._report, done=(DOWNLOAD, source), incomplete=after)

    async def _crawl_library(self, source: SharepointSource) -> Run | None:
        """Crawl one source; return its run, or None if there was none."""
        crawler = self._crawler = self._create_crawler(SharepointSpider)
        batches = str(self._order.words.retry_batches)
        arguments = {"source": source.name, "retry_batches": batches}
        if self._order.is_full:
            arguments["force"] = "1"
        if self._order.is_paused(source):
            arguments["resume"] = "1"
        try:
            await self._process.crawl(crawler, **arguments)
        except RunPausedError as error:
            self._report.skip(source, paused_library_source_reason(error), is_held=True)
            return None
        except RunHeldError as error:
            self._report.skip(source, str(error), is_held=True)
            return None
        except SmartcrawlError as error:
            self._report.skip(source, str(error))
            return None
        run: Run | None = getattr(crawler.spider, "run", None)
        assert crawler.stats is not None
        is_ended = run is not None and run.halt.order is not None
        self._report.is_stopped |= (
            is_ended or crawler.stats.get_value("finish_reason") == "shutdown"
        )
        if run is None or run.result is None or run.failure is not None:
            why = "the crawl was not carried out; its log has the reason"
            if run is not None and run.failure is not None:
                why = str(run.failure)
            self._report.skip(source, why)
            return None
        return run

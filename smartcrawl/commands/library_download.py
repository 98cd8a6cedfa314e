"""The download step of ``scrapy library``: one crawl of a source after another."""

from __future__ import annotations

from collections.abc import Callable

from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess, Crawler

from smartcrawl.commands.library_order import LibraryOrder
from smartcrawl.model.exceptions import RunHeldError, RunPausedError, SmartcrawlError
from smartcrawl.run.library_report import LibraryReport, failed_library_items
from smartcrawl.run.run import Run
from smartcrawl.sources.sharepoint.source import SharepointSource
from smartcrawl.spiders.sharepoint import SharepointSpider


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

    async def carry_out(self) -> None:
        """Crawl each source, and what failed again, in batches (R3-60)."""
        for source in self._order.sources:
            force = self._order.is_full
            for batch in range(self._order.words.retry_batches):
                run = await self._crawl_library(source, force=force)
                if run is None:
                    break
                self._report.add_run(source, run, is_first=batch == 0)
                if not failed_library_items(run) or not _goes_on(run):
                    break
                force = False

    async def _crawl_library(self, source: SharepointSource, *, force: bool) -> Run | None:
        """Crawl one source; return its run, or None if there was none."""
        crawler = self._create_crawler(SharepointSpider)
        arguments = {"source": source.name} | ({"force": "1"} if force else {})
        try:
            await self._process.crawl(crawler, **arguments)
        except (RunHeldError, RunPausedError) as error:
            self._report.skip(source, str(error), is_held=True)
            return None
        except SmartcrawlError as error:
            self._report.skip(source, str(error))
            return None
        run: Run | None = getattr(crawler.spider, "run", None)
        if run is None or run.result is None or run.failure is not None:
            why = "the crawl was not carried out; its log has the reason"
            if run is not None and run.failure is not None:
                why = str(run.failure)
            self._report.skip(source, why)
            return None
        return run


def _goes_on(run: Run) -> bool:
    """Whether a further batch may bring what this run could not have."""
    return run.failure is None and run.halt.order is None and run.result is not None

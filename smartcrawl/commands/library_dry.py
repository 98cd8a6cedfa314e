"""``scrapy library download --dry-run``: a crawl that lists a library, and changes nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Self, cast

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.exceptions import DontCloseSpider

from smartcrawl.commands.library_order import LibraryOrder
from smartcrawl.engine.current_run import wake_engine
from smartcrawl.engine.download.library import LIBRARY_REQUEST, library_api_of_crawl
from smartcrawl.engine.download.network import environment_proxy_endpoints, installed_resolver
from smartcrawl.engine.listing import LISTING_RUN_SETTINGS, ListingRun
from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.run.library_dry import DryLibrary, DryLibraryResult
from smartcrawl.run.library_report import LibraryReport
from smartcrawl.run.opening import library_source_of_run_arguments
from smartcrawl.run.run import Run
from smartcrawl.sources.sharepoint.source import SharepointSource
from smartcrawl.spiders.base import VisitSpider

logger = logging.getLogger(__name__)

_STOPPED: Final = "it was stopped, and nothing was changed"


class DryLibrarySpider(VisitSpider):
    """Lists a library and compares it; it opens no run, and yields nothing."""

    name = "sharepoint"
    custom_settings = LISTING_RUN_SETTINGS
    opens_run = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.library: DryLibrary
        self.result: DryLibraryResult | None = None
        self.why = _STOPPED  #: reason for having no result
        self._comparing: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Prepare the dry run of the source that ``source=DOMAIN.SOURCE`` names.

        Raises:
            SmartcrawlError: there is none, or the registry cannot be read.
        """
        spider = super().from_crawler(crawler, *args, **kwargs)
        options = Options.of(crawler.settings)
        source = library_source_of_run_arguments(options, {"source": kwargs["source"]})
        largest = crawler.settings.getint("DOWNLOAD_MAXSIZE")
        spider.library = DryLibrary(source, options, forced="force" in kwargs, largest=largest)
        listing_run = ListingRun(source, options, spider.library.blocked_hosts())
        spider.run = cast(Run, listing_run)  # no component asks for more of it
        spider._options, spider._ports = options, listing_run.ports()
        crawler.signals.connect(spider._opened, signal=signals.spider_opened)
        crawler.signals.connect(spider._idle, signal=signals.spider_idle)
        crawler.signals.connect(spider._closed, signal=signals.spider_closed)
        crawler.signals.connect(spider._asks, signal=signals.request_reached_downloader)
        return spider

    _options: Options
    _ports: list[tuple[str, int]]

    def _opened(self) -> None:
        resolver = installed_resolver()
        if resolver is not None:
            resolver.protect(environment_proxy_endpoints(self.crawler.settings), self._ports)
        logger.info("dry run of %s begins", self.library.source.name)
        self._comparing = asyncio.ensure_future(self._compare())

    async def _compare(self) -> None:
        try:
            await asyncio.to_thread(self.library.begin)
            api = library_api_of_crawl(self.crawler, self.library, self._options)
            self.result = await asyncio.to_thread(self.library.compared, api.listing())
        except SmartcrawlError as error:
            self.why = str(error)
        except Exception as error:
            logger.exception("cannot list %s", self.library.source.name)
            self.why = f"{type(error).__name__}: {error}"
        finally:
            wake_engine(self.crawler)

    def _asks(self, request: Request) -> None:
        """Count a request; a retry is one more."""
        self.library.requests += LIBRARY_REQUEST in request.meta

    def _idle(self) -> None:
        if self._comparing is not None and not self._comparing.done():
            raise DontCloseSpider

    async def _closed(self, reason: str) -> None:
        """Wait until the maps are removed; a listing that is under way ends by itself."""
        if self._comparing is not None:
            await asyncio.wait([self._comparing])
        if reason != "finished":
            self.result, self.why = None, _STOPPED


class DryLibraryDownload:
    """Counts in a report what a download of the sources of an order would do."""

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
        """List each source; the first one that a signal stops is the last."""
        for source in self._order.sources:
            if self._report.is_skipped(source):
                continue
            if not await self._counted(source):
                self._report.is_stopped = True
                break

    async def _counted(self, source: SharepointSource) -> bool:
        """Count what a download of a source would do; return whether others may follow."""
        crawler = self._create_crawler(DryLibrarySpider)
        arguments = {"source": source.name} | ({"force": "1"} if self._order.is_full else {})
        try:
            await self._process.crawl(crawler, **arguments)
        except SmartcrawlError as error:
            self._report.skip(source, str(error))
            return True
        spider = crawler.spider
        assert isinstance(spider, DryLibrarySpider), "it was crawled with this one"
        if spider.result is None:
            self._report.skip(source, spider.why)
            return spider.why != _STOPPED
        self._report.add_dry_run(source, spider.result, spider.library.requests)
        return True

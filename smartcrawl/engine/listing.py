"""The listing of a run's source, made in a thread beside the engine."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.stopping import stop_crawl
from smartcrawl.model.exceptions import RegistryError, SettingError, SinkError
from smartcrawl.model.options import Options
from smartcrawl.model.urls import display_url
from smartcrawl.run.listed import ListedFiles
from smartcrawl.run.run import Run
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.listing.bucket import BucketListing
from smartcrawl.sources.listing.entries import Entry, Listing
from smartcrawl.sources.listing.folder import FolderListing
from smartcrawl.sources.listing.stamps import FileValidator

logger = logging.getLogger(__name__)


def listing_of_source(source: FilesSource, options: Options, now_ns: int) -> Listing:
    """Return the listing of a source; ``now_ns``: Unix nanoseconds at which it begins."""
    if not source.is_local:
        return BucketListing(source.root, rules=source.scope.rules, now_ns=now_ns)
    return FolderListing(
        source.folder,
        rules=source.scope.rules,
        validator=FileValidator(options.file_validator),
        now_ns=now_ns,
    )


class ListingFeed:
    """Feeds the entries of a listing to the run while they are listed."""

    def __init__(self, crawler: Crawler, run: Run, source: FilesSource) -> None:
        assert run.listed is not None, "the source is listed"
        self._crawler = crawler
        self._run = run
        self._listed: ListedFiles = run.listed
        self._source = source
        self._root = display_url(source.root)
        self._feeding: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider, if its source is listed."""
        run = run_of_crawler(crawler)
        if run is None or not isinstance(run.source, FilesSource):
            raise NotConfigured("nothing is listed")
        feed = cls(crawler, run, run.source)
        crawler.signals.connect(feed.opened, signal=signals.spider_opened)
        crawler.signals.connect(feed.closed, signal=signals.spider_closed)
        return feed

    def opened(self) -> None:
        """Begin to list."""
        if self._run.opened.over:
            self._listed.is_open = False
            return
        self._feeding = asyncio.ensure_future(self._feed())

    async def closed(self) -> None:
        """End the listing of a crawl that ends early."""
        if self._feeding is not None:
            self._feeding.cancel()
            await asyncio.wait([self._feeding])

    async def _feed(self) -> None:
        run = self._run
        listing = listing_of_source(self._source, run.options, time.time_ns())
        batches = listing.batches()
        try:
            while not run.is_ending:
                entries: list[Entry] | None = await asyncio.to_thread(next, batches, None)
                if entries is None:
                    self._end(listing)
                    break
                self._listed.take(entries)
                self._look_again()
                await self._write()
        except (RegistryError, SettingError, SinkError) as error:  # such as a missing driver
            self._listed.is_open = False
            stop_crawl(self._crawler, run, error)
        except Exception as error:
            logger.exception("cannot list %s", self._root)
            self._listed.fail(self._root, f"{type(error).__name__}: {error}")
        self._look_again()

    def _end(self, listing: Listing) -> None:
        self._listed.end(self._root, listing)
        for problem in listing.problems:
            logger.warning("not listed: %s", problem)
        if listing.skipped:
            counts = ", ".join(f"{count} {what}" for what, count in listing.skipped.most_common())
            logger.info("left out of %s: %s", self._root, counts)

    async def _write(self) -> None:
        """Have a full batch written; wait while the writer is two batches behind."""
        batches = self._run.batches
        if batches.batch.full:
            before = batches.submit(int(time.time()))
            if before is not None:
                await asyncio.wrap_future(before)
            batches.collect()

    def _look_again(self) -> None:
        """Let the engine ask for a request at once."""
        engine = self._crawler.engine
        slot = engine._slot if engine is not None else None
        if slot is not None:
            slot.nextcall.schedule()

"""The listing of a run's source, made in a thread beside the engine."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, Self

from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings

from smartcrawl import settings as module
from smartcrawl.engine.current_run import run_of_crawler, stop_crawler, wake_engine
from smartcrawl.engine.download.library import downloader_library_entries
from smartcrawl.engine.download.network import (
    EnvironmentProxies,
    lane_tls_context,
)
from smartcrawl.model.exceptions import RegistryError, SettingError, SinkError
from smartcrawl.model.options import Options
from smartcrawl.model.urls import display_url, url_endpoint, url_has_port
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.run.hosts import HostGate, Strays
from smartcrawl.run.listed import ListedFiles
from smartcrawl.run.orders import Halt
from smartcrawl.run.run import Run
from smartcrawl.sources.base import Source
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.github.api import GithubApi, github_token
from smartcrawl.sources.github.listing import ListedCommit, RepositoryListing
from smartcrawl.sources.github.source import GithubSource, quoted_repository_path
from smartcrawl.sources.listing.bucket import BucketListing
from smartcrawl.sources.listing.entries import Entry, FileValidator, Listing
from smartcrawl.sources.listing.folder import FolderListing
from smartcrawl.sources.sharepoint.source import LibraryEntries
from smartcrawl.sources.trust import CertificateTrust

logger = logging.getLogger(__name__)


def repository_listing_of_scrapy_settings(
    source: GithubSource,
    options: Options,
    settings: BaseSettings,
    *,
    known: str | None,
    wait: Callable[[float], bool],
) -> RepositoryListing:
    """Return the listing of a repository.

    ``known``: the facts of a listing whose files are all stored (ListedCommit.dumps). ``wait``
    pauses for some seconds, and returns whether the crawl ends meanwhile.

    Raises:
        SettingError: the token, or the proxy of the environment, cannot be used.
    """
    api = GithubApi(
        options.github.api,
        guard=ConnectionGuard(options.allow_networks, options.allow_ports),
        tls=lane_tls_context(settings, CertificateTrust.of(source, options)),
        proxy=EnvironmentProxies(settings).proxy_of(options.github.api),
        token=github_token(),
        user_agent=str(settings["USER_AGENT"]),
        timeout=settings.getfloat("DOWNLOAD_TIMEOUT"),
        retries=settings.getint("RETRY_TIMES"),
        longest_wait=options.retry_after_max_wait,
        wait=wait,
    )
    return RepositoryListing(
        source.address,
        api=api,
        rules=source.scope.rules,
        known=None if known is None else ListedCommit.loads(known),
    )


def downloader_place_of_raw_file(options: Options, commit: ListedCommit) -> str:
    """Return the URL below which the files of a listed commit are read."""
    place = f"{options.github.raw}/{commit.repository}/{commit.sha}"
    return f"{place}/{quoted_repository_path(commit.folder)}" if commit.folder else place


_KEPT: Final = (
    "smartcrawl.engine.delays.DelayControl",
    "smartcrawl.engine.download.decoding.SlowBodies",
)

#: Settings of its spider: of the components of a crawl, those that send requests are left.
LISTING_RUN_SETTINGS: Final[dict[str, Any]] = {
    "SCHEDULER": "smartcrawl.engine.listing.NoPages",
    "ITEM_PIPELINES": dict.fromkeys(module.ITEM_PIPELINES),
    "ITEM_PROCESSOR": "scrapy.pipelines.ItemPipelineManager",  # a listing has no Visit
    "EXTENSIONS": {
        path: place if path in _KEPT else None for path, place in module.EXTENSIONS.items()
    },
}


class NoPages(BaseScheduler):
    """A scheduler without a page: each request is sent by the thread that waits for it."""

    def has_pending_requests(self) -> bool:
        """Return False."""
        return False

    def enqueue_request(self, request: Request) -> bool:
        """Refuse a request."""
        return False

    def next_request(self) -> Request | None:
        """Return None."""
        return None


class _NoNotes:
    """The facts about hosts that a run stores; here they are not."""

    def asks_for_time(self, url: str, seconds: int) -> None:
        """Store nothing."""


class ListingRun:
    """The attributes of a run that handlers and middlewares ask for, without a registry.

    So requests have the limits, retries, pauses and the address guard of those of a run.
    """

    def __init__(self, source: Source, options: Options, blocked_hosts: Collection[str]) -> None:
        self.source = source
        self.options = options
        self.blocked_hosts = blocked_hosts
        self.gate = HostGate(options)
        self.halt = Halt()
        self.strays = Strays()
        self.hosts = _NoNotes()
        self.session = None  #: it has no login
        self.choice = None  #: nothing is rendered

    def ports(self) -> list[tuple[str, int]]:
        """Return the (host, port) pairs that the source names as its own."""
        hosts = self.source.scope.hosts
        return [url_endpoint(f"http://{host}/") for host in hosts if url_has_port(host)]


_PAUSE: Final = 0.05  #: seconds between looks at the files that wait to be read


def listing_of_scrapy_settings(
    source: Source,
    options: Options,
    settings: BaseSettings,
    now_ns: int,
    *,
    known: str | None = None,
    wait: Callable[[float], bool] | None = None,
) -> Listing:
    """Return the listing of a source; ``now_ns``: Unix nanoseconds at which it begins.

    ``known``: the facts of a listing whose files are all stored. ``wait`` pauses, and returns
    whether the crawl ends meanwhile; None: nothing is waited for.

    Raises:
        SettingError: a setting that it needs is wrong.
    """
    if isinstance(source, GithubSource):
        pause = wait or (lambda seconds: True)
        return repository_listing_of_scrapy_settings(
            source, options, settings, known=known, wait=pause
        )
    assert isinstance(source, FilesSource), "these kinds are listed"
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

    def __init__(self, crawler: Crawler, run: Run) -> None:
        assert run.listed is not None, "the source is listed"
        self._crawler = crawler
        self._run = run
        self._listed: ListedFiles = run.listed
        self._root = display_url(run.source.starts[0])
        self._ends = threading.Event()  #: ends the pauses of the listing
        self._feeding: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider, if its source is listed."""
        run = run_of_crawler(crawler)
        if run is None or not run.source.traits.is_listed:
            raise NotConfigured  # nothing is listed
        feed = cls(crawler, run)
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
        self._ends.set()
        if self._feeding is not None:
            self._feeding.cancel()
            await asyncio.wait([self._feeding])

    async def _feed(self) -> None:
        run = self._run
        try:
            if run.library is not None:
                await asyncio.to_thread(run.library.begin)
            listing = self._listing()
            batches = listing.batches()
            if self._listed.waits and run.forced:
                taken = await asyncio.to_thread(list, batches)
                assert isinstance(listing, LibraryEntries), "only these wait"
                batches = iter(listing.replacing(taken))
            while not run.is_ending:
                entries: list[Entry] | None = await asyncio.to_thread(next, batches, None)
                if isinstance(listing, RepositoryListing):
                    self._locate(listing)
                if entries is None and (again := self._again(listing)) is not None:
                    batches = again
                    continue
                if entries is None:
                    await self._confirm(listing)
                    self._end(listing)
                    break
                self._listed.take(entries)
                wake_engine(self._crawler)
                await self._write()
                while self._listed.is_full and self._may_wait(listing) and not run.is_ending:
                    await asyncio.sleep(_PAUSE)
        except (RegistryError, SettingError, SinkError) as error:  # such as a missing driver
            self._listed.close()
            stop_crawler(self._crawler, run, error)
        except Exception as error:
            logger.exception("cannot list %s", self._root)
            self._listed.fail(self._root, f"{type(error).__name__}: {error}")
        wake_engine(self._crawler)

    def _again(self, listing: Listing) -> Iterator[list[Entry]] | None:
        """Return a second pass over a store whose listing lacks stored files; else None."""
        if isinstance(listing, BucketListing) and self._listed.lacks_some:
            return listing.again()
        return None

    def _may_wait(self, listing: Listing) -> bool:
        """Whether no read waits for the end of the listing, as those of pinned files may."""
        return not isinstance(listing, RepositoryListing | LibraryEntries)

    def _listing(self) -> Listing:
        """Return the listing of the run.

        Raises:
            SettingError: a setting that it needs is wrong.
        """
        run = self._run
        if run.library is not None:
            return downloader_library_entries(self._crawler, run, run.library)
        known = None
        if isinstance(run.source, GithubSource):
            known = self._listed.known(run.source.listing_rules(run.options.github.api))
        return listing_of_scrapy_settings(
            run.source,
            run.options,
            self._crawler.settings,
            time.time_ns(),
            known=known,
            wait=self._ends.wait,
        )

    def _locate(self, listing: RepositoryListing) -> None:
        """Set the place of the raw files, as soon as the commit is known."""
        if listing.commit is not None and self._listed.place is None:
            self._listed.locate(downloader_place_of_raw_file(self._run.options, listing.commit))

    async def _confirm(self, listing: Listing) -> None:
        """Confirm the files of the last listing if nothing changed, and store the facts of this."""
        run = self._run
        if not isinstance(listing, RepositoryListing) or listing.commit is None:
            return
        if listing.is_unchanged:
            for _ in self._listed.confirm_stored():
                wake_engine(self._crawler)
                await self._write()
        if not listing.problems:
            assert isinstance(run.source, GithubSource)
            rules = run.source.listing_rules(run.options.github.api)
            self._listed.remember(rules, listing.commit.dumps())

    def _end(self, listing: Listing) -> None:
        if isinstance(listing, LibraryEntries):
            assert self._run.library is not None, "it is a library"
            warning = self._listed.judge_shortfall(self._root, listing)
            if warning is not None:
                listing.notes.append(warning)
            self._run.library.end_listing(listing)
        elif isinstance(listing, FolderListing):
            self._listed.judge_mounts(listing)
        self._listed.end(self._root, listing)
        if isinstance(listing, RepositoryListing | LibraryEntries):
            for note in listing.notes:
                logger.warning("%s", note)
        for problem in listing.problems:
            logger.warning("cannot be listed: %s", problem)
        for what, count in listing.skipped.items():
            if what.startswith("."):
                self._run.shortcomings.leave_unread(what, count)
        if listing.skipped:
            counts = ", ".join(f"{count} {what}" for what, count in listing.skipped.most_common())
            logger.info("left out of %s: %s", self._root, counts)

    async def _write(self) -> None:
        """Have a full batch written; wait while the writer is two batches behind."""
        batches = self._run.batches
        if batches.batch.full:
            await batches.flush(int(time.time()))

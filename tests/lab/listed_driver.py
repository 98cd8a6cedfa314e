"""Runs of folders, repositories and document libraries in one process, without an engine.

The spider, the listing and the download handler are the product's. They know Scrapy by Request,
Response and a crawler, of which `LabEngine` has the little that they ask for. SharePoint answers
from the tenant of `tests.servers.sharepoint` in memory, and a peer of GitHub on loopback.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.exceptions import (
    DownloadConnectionRefusedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)
from scrapy.http import Headers, Response
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from twisted.python.failure import Failure

from smartcrawl.engine.delays import pause_of_scrapy_response
from smartcrawl.engine.download.faults import download_fault
from smartcrawl.engine.download.files import FileHandler
from smartcrawl.engine.download.github import RepositoryHandler
from smartcrawl.engine.download.headers import BoundedHttpHandler
from smartcrawl.engine.download.library import LibraryHandler
from smartcrawl.engine.download.network import EnvironmentProxies
from smartcrawl.engine.listing import ListingFeed
from smartcrawl.model.pages import Visit, VisitAttempt
from smartcrawl.rules.absence import PASSING
from smartcrawl.run.answers import NextRequest
from smartcrawl.run.hosts import host_gate_slot
from smartcrawl.run.run import Run
from smartcrawl.run.visits import (
    PASSING_FAULTS,
    conditional_page_headers,
    note_host_failure,
    note_page_request,
)
from smartcrawl.sources.github.api import github_token
from smartcrawl.sources.github.source import GithubSource
from tests.lab.driver import Driver
from tests.lab.lab_site import Web
from tests.servers.sharepoint import answers as sharepoint
from tests.servers.sharepoint.server import PLACES, SharepointServer

_LOOK = 0.005  #: seconds until the driver looks whether the listing went on


class LabEngine:
    """What components of a listed crawl ask of Scrapy's engine."""

    running = True

    def __init__(self, download: Callable[[Request], Any]) -> None:
        self._slot = SimpleNamespace(closing=None, nextcall=SimpleNamespace(schedule=lambda: None))
        self._download = download
        self.downloader = SimpleNamespace(slots={}, active=set())

    async def download_async(self, request: Request) -> Response:
        """Send a request of no page."""
        response: Response = await self._download(request)
        return response

    async def close_spider_async(self, reason: str) -> None:
        """Do nothing: the driver looks at the failure of the run."""


class _Wire(BoundedHttpHandler):
    """Hands requests to SharePoint without a connection."""

    def __init__(self, crawler: Crawler, server: SharepointServer) -> None:
        self.crawler = crawler
        self._server = server

    async def download_request(self, request: Request) -> Response:
        parts = urlsplit(request.url)
        origin = f"{parts.scheme}://{parts.netloc}"
        place = next((name for name in PLACES if self._server.origin(name) == origin), None)
        if place is None:
            raise DownloadConnectionRefusedError(f"no server listens at {origin}")
        headers = {
            name.decode("latin-1").lower(): b", ".join(values).decode("latin-1")
            for name, values in request.headers.items()
        }
        asked = sharepoint.Request(
            request.method, place, origin, parts.path, parts.query, headers, request.body
        )
        answer = self._server.answer(asked)
        if answer.closed or answer.cut:
            raise ResponseDataLossError
        seconds = self.crawler.settings.getfloat("DOWNLOAD_TIMEOUT")
        if answer.delay >= seconds:
            raise DownloadTimeoutError(f"{request.url} took longer than {seconds} seconds")
        request.meta["download_latency"] = 0.0
        return Response(
            request.url,
            status=answer.status,
            headers={name: value.encode("latin-1") for name, value in answer.headers.items()},
            body=answer.body,
            request=request,
        )


class _Loopback(BoundedHttpHandler):
    """Sends requests to a server of this process, without the engine's downloader."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    async def download_request(self, request: Request) -> Response:
        return await asyncio.to_thread(self._answer, request)

    @staticmethod
    def _answer(request: Request) -> Response:
        parts = urlsplit(request.url)
        headers = {name.decode(): b", ".join(v).decode() for name, v in request.headers.items()}
        with closing(HTTPConnection(parts.netloc, timeout=60)) as connection:
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
            connection.request(request.method, target, headers=headers)
            answer = connection.getresponse()
            body, got = answer.read(), Headers(answer.getheaders())
        request.meta["download_latency"] = 0.0
        return Response(request.url, status=answer.status, headers=got, body=body, request=request)


class _LabRepositoryHandler(RepositoryHandler, _Loopback):
    """The handler of repositories, which asks a peer of GitHub in this process."""

    def __init__(self, crawler: Crawler, run: Run, source: GithubSource) -> None:
        _Loopback.__init__(self, crawler)
        assert run.listed is not None
        self._listed, self._source, self._scope = run.listed, source, source.scope
        self._most = source.max_file_size or crawler.settings.getint("MAX_FILE_SIZE")
        self._token = github_token()
        self._proxies = EnvironmentProxies(crawler.settings)


class _LabLibraryHandler(LibraryHandler, _Wire):
    """The handler of libraries, whose requests do not leave the process."""

    def __init__(self, crawler: Crawler, run: Run, server: SharepointServer) -> None:
        _Wire.__init__(self, crawler, server)
        assert run.listed is not None
        assert run.library is not None
        self._crawler, self._run = crawler, run
        self._listed, self._library = run.listed, run.library
        self._most = crawler.settings.getint("DOWNLOAD_MAXSIZE")
        self._proxies = EnvironmentProxies(crawler.settings)

        async def permitted(url: str, *, proxied: bool) -> None:
            """Refuse nothing: what a crawl may connect to is shown by real ones."""

        self._check: Any = SimpleNamespace(refusal=permitted)


class ListedDriver(Driver):
    """Takes a run of a listed source from its listing to its end."""

    def __init__(
        self, crawler: Crawler, run: Run, now: int, server: SharepointServer | None
    ) -> None:
        super().__init__(run, Web(), crawler.settings, now)
        self._crawler: Any = crawler
        self._spider: Any = crawler.spider
        self._handler: Any
        if run.library is not None:
            assert server is not None, "SharePoint is served"
            self._handler = _LabLibraryHandler(crawler, run, server)
        elif isinstance(run.source, GithubSource):
            assert run.source.scope.wiki is None, "only a real crawl reads a wiki"
            self._handler = _LabRepositoryHandler(crawler, run, run.source)
        else:
            self._handler = FileHandler.from_crawler(crawler)
        crawler._engine = LabEngine(self._sent)  # type: ignore[assignment]

    async def to_the_end(self) -> None:
        """Take the whole run, with its listing beside it."""
        self._feed = ListingFeed(self._crawler, self._run)
        self._feed.opened()
        try:
            await super().to_the_end()
        finally:
            await self._feed.closed()

    async def _waits(self) -> bool:
        """Let the listing go on, if it does."""
        feeding = self._feed._feeding
        if feeding is None or feeding.done():
            return False
        await asyncio.wait([feeding], timeout=_LOOK)
        return True

    async def _answered(
        self, attempt: VisitAttempt, request: NextRequest, *, is_head: bool
    ) -> Visit | NextRequest | None:
        page = attempt.page
        slot = host_gate_slot(page.host)
        meta = {"attempt": attempt, "handle_httpstatus_all": True, Downloader.DOWNLOAD_SLOT: slot}
        sent = Request(request.url, meta=meta, dont_filter=True)

        def note() -> None:
            headers = conditional_page_headers(self._run, page, sent.url)
            note_page_request(attempt, sent.url, headers, is_head=False)

        try:
            response = await self._sent(sent, note)
        except Exception as error:  # noqa: BLE001  # the spider judges it
            failure = Failure(error)
            failure.request = sent  # type: ignore[attr-defined]  # as Scrapy does
            found = list(self._spider.errback(failure))
        else:
            response.request = sent
            encoding = response.headers.get("Content-Encoding")
            attempt.receives(len(response.body), encoding.decode() if encoding else None)
            found = list(self._spider.parse(response))
        assert len(found) <= 1, "a listed page has one answer"
        return found[0] if found else None

    async def _sent(self, request: Request, note: Callable[[], None] = lambda: None) -> Response:
        """Send a request, again after passing failures, as the middlewares of a crawl do."""
        slot = request.meta.get(Downloader.DOWNLOAD_SLOT, "")
        for left in range(self._retries, -1, -1):
            note()
            try:
                response: Response = await self._handler.download_request(request)
            except Exception as error:
                why = download_fault(error, request.url)
                again = left > 0 and why[0] in PASSING_FAULTS
                if "attempt" in request.meta:
                    note_host_failure(self._run, slot, why, self._clock, ends=not again)
                if not again:
                    raise
                continue
            waits = self._paused(request, slot, response)
            if not (left and response.status in PASSING):
                return response
            if waits > self._run.options.retry_after_max_wait:
                return response
        raise AssertionError("the last try returns")

    def _paused(self, request: Request, slot: str, response: Response) -> int:
        """Record an answer, and return the seconds for which it asks to be left alone."""
        run = self._run
        run.gate.answered(slot, self._clock)
        seconds = pause_of_scrapy_response(response)
        attempt = request.meta.get("attempt")
        if attempt is not None:
            attempt.retry_after = seconds
        if seconds is not None:
            run.hosts.asks_for_time(request.url, seconds)
        return seconds or 0


class LabProcess(AsyncCrawlerProcess):
    """Scrapy's process without one: each crawl is a run of the lab."""

    def __init__(self, settings: Settings, now: int, server: SharepointServer | None) -> None:
        self.settings = settings
        self._now = now
        self._server = server
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)

    def create_crawler(self, spider: Any) -> Crawler:
        return Crawler(spider, self.settings)

    async def crawl(self, crawler: Any, *args: Any, **arguments: Any) -> None:  # type: ignore[override]
        """Open a run as Scrapy would, and take it to its end."""
        crawler._stats = MemoryStatsCollector(crawler)
        crawler.spider = crawler.spidercls.from_crawler(crawler, **arguments)
        await ListedDriver(crawler, crawler.spider.run, self._now, self._server).to_the_end()
        crawler.stats.set_value("finish_reason", "finished")

    def run(self, crawl: Coroutine[Any, Any, None]) -> None:
        """Run one crawl to its end."""
        self._loop.run_until_complete(crawl)

    def start(self, *args: Any, **options: Any) -> None:
        """Run what was begun to its end."""
        try:
            while tasks := asyncio.all_tasks(self._loop):
                self._loop.run_until_complete(asyncio.wait(tasks))
                for task in tasks:
                    task.result()
        finally:
            self.end()

    def end(self) -> None:
        """Close the loop of the crawls."""
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
        asyncio.set_event_loop(None)

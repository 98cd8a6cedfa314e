"""Requests to the API of a library through Scrapy's downloader, for a thread that waits for them.

So they have the limits, retries, pauses and the address guard of every other request.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final, Protocol
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from smartcrawl.engine.download.faults import download_fault
from smartcrawl.engine.stopping import is_crawler_stopping
from smartcrawl.model.options import Options
from smartcrawl.registry.library.drive import StoredDrive
from smartcrawl.rules.model import Fault
from smartcrawl.run.library import RunLibrary
from smartcrawl.run.run import Run
from smartcrawl.sources.sharepoint.access import (
    LibraryAnswer,
    LibraryApi,
    LibraryRequest,
    LibraryUnreachableError,
)
from smartcrawl.sources.sharepoint.choice import library_api
from smartcrawl.sources.sharepoint.entries import LibraryEntries
from smartcrawl.sources.sharepoint.source import SharepointSource

_LOOK: Final = 0.5  #: seconds between looks whether the crawl ends
LIBRARY_REQUEST: Final = "library_request"  #: in the meta of a request to the API


def downloader_library_request(asked: LibraryRequest) -> Request:
    """Return the request for Scrapy; its answer is returned whatever its status."""
    return Request(
        asked.url,
        method=asked.method,
        headers=dict(asked.headers),
        body=asked.body,
        callback=NO_CALLBACK,
        dont_filter=True,
        meta={
            LIBRARY_REQUEST: True,
            "dont_redirect": True,
            "handle_httpstatus_all": True,
            "download_maxsize": asked.most,
            "download_warnsize": 0,
            # A download that waits for a token has a place of its host: this must not need one.
            "download_slot": f"library {urlsplit(asked.url).netloc}",
        },
    )


def downloader_library_answer(response: Response) -> LibraryAnswer:
    """Return Scrapy's answer as clients of the API read it."""
    headers = {
        name.decode("latin-1").lower(): (response.headers.get(name) or b"").decode("latin-1")
        for name in response.headers
    }
    return LibraryAnswer(response.status, headers, response.body)


class AskedLibrary(Protocol):
    """The library of a run or of a dry run, whose requests are counted."""

    source: SharepointSource
    api: LibraryApi | None
    requests: int
    drive: StoredDrive | None


class DownloaderFetch:
    """Sends requests by the downloader of a crawl; called in any thread but that of the engine."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._loop = asyncio.get_running_loop()

    def __call__(self, asked: LibraryRequest) -> LibraryAnswer:
        """Return the answer.

        Raises:
            LibraryUnreachableError: there is no whole answer.
        """
        asking = asyncio.run_coroutine_threadsafe(self.ask(asked), self._loop)
        while True:
            try:
                return asking.result(_LOOK)
            except FutureTimeoutError:
                if is_crawler_stopping(self._crawler):
                    asking.cancel()
                    raise LibraryUnreachableError("the crawl ends") from None

    async def ask(self, asked: LibraryRequest) -> LibraryAnswer:
        """Return the answer, in the engine's own thread.

        Raises:
            LibraryUnreachableError: there is no whole answer.
        """
        request = downloader_library_request(asked)
        assert self._crawler.engine is not None, "the crawl runs"
        try:
            response = await self._crawler.engine.download_async(request)
        except Exception as error:
            fault, message = download_fault(error, asked.url)
            if fault is not Fault.ADDRESS_REFUSED:  # which has a setting as its remedy
                message = f"{message}; crawl again later"
            raise LibraryUnreachableError(message) from error
        return downloader_library_answer(response)


def library_api_of_crawl(crawler: Crawler, library: AskedLibrary, options: Options) -> LibraryApi:
    """Return the client of a library's API whose requests the crawl sends, one for the run.

    Raises:
        SettingError: credentials are missing or wrong.
    """
    if library.api is None:
        fetch = DownloaderFetch(crawler)
        library.api = library_api(library.source, options.sharepoint, fetch, library.drive)
    return library.api


def downloader_library_entries(crawler: Crawler, run: Run, library: RunLibrary) -> LibraryEntries:
    """Return the entries of a run's library, none of which was asked for yet.

    Raises:
        SettingError: credentials are missing or wrong.
    """
    api = library_api_of_crawl(crawler, library, run.options)
    return library.entries(api.listing())

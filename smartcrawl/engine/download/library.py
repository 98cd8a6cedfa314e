"""The download handler of libraries: the bytes of listed items, each written to disk first.

Requests to the API of a library pass Scrapy's downloader, for a thread that waits for them. So they
have the limits, retries, pauses and the address guard of every other request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from hashlib import sha256
from typing import Final, Protocol, Self
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from smartcrawl.engine.current_run import is_crawler_stopping, run_of_crawler
from smartcrawl.engine.download.faults import download_fault
from smartcrawl.engine.download.files import downloader_headers_of_file, downloader_media_type
from smartcrawl.engine.download.headers import BoundedHttpHandler
from smartcrawl.engine.download.network import AddressCheck, EnvironmentProxies, installed_resolver
from smartcrawl.model.exceptions import AddressRefusedError, DefiniteRefusalError, StoreAwayError
from smartcrawl.model.library import (
    LIBRARY_FILE,
    LISTED_ENTRY,
    LibraryFile,
    LibraryItem,
    LibraryRow,
)
from smartcrawl.model.option_groups import SharepointOptions
from smartcrawl.model.options import Options
from smartcrawl.model.pages import VisitAttempt
from smartcrawl.registry.library.items import StoredDrive
from smartcrawl.rules.model import Fault
from smartcrawl.run.library.files import RunLibrary
from smartcrawl.run.run import Run
from smartcrawl.sources.listing.entries import Entry
from smartcrawl.sources.sharepoint.access import (
    Fetch,
    KnownDrive,
    LibraryAnswer,
    LibraryApi,
    LibraryError,
    LibraryRequest,
    LibraryUnreachableError,
)
from smartcrawl.sources.sharepoint.asking import sharepoint_refusal
from smartcrawl.sources.sharepoint.graph import GraphApi
from smartcrawl.sources.sharepoint.rest import RestApi
from smartcrawl.sources.sharepoint.source import LibraryEntries, SharepointSource

logger = logging.getLogger(__name__)


def library_api(
    source: SharepointSource,
    options: SharepointOptions,
    fetch: Fetch,
    known: KnownDrive | None = None,
) -> LibraryApi:
    """Return the client of a source's API; no request is sent yet.

    ``known``: the drive as the last listing had it, of which Graph lists the changes alone.

    Raises:
        SettingError: credentials are missing or wrong.
    """
    if options.api == "graph":
        return GraphApi(source, options, fetch, known=known)
    return RestApi(source, options, fetch)


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


_HOPS: Final = 3
_SHOWN: Final = 500  #: characters of a long URL in the log
_LOCKED: Final = 423  #: a lock may end while other items are requested
_GONE: Final = frozenset({404, 410})
_PASSING: Final = frozenset({408, 425, 429})


class LibraryHandler(BoundedHttpHandler):
    """Reads an item under the URL of its page.

    Bytes that the disk has are read there. Others are downloaded by the item's id, so renaming
    meanwhile does no harm, and written into the incoming folder. What a listing named does not go
    away by an error, so no answer is evidence against a page.
    """

    def __init__(self, crawler: Crawler, run: Run, library: RunLibrary) -> None:
        super().__init__(crawler)
        assert run.listed is not None, "the source is listed"
        self._crawler = crawler
        self._run = run
        self._listed = run.listed
        self._library = library
        self._most = crawler.settings.getint("DOWNLOAD_MAXSIZE")
        self._proxies = EnvironmentProxies(crawler.settings)
        self._check = AddressCheck(installed_resolver())

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        run = run_of_crawler(crawler)
        if run is None or run.library is None:
            raise NotConfigured("only a crawl of a library reads its files")
        return cls(crawler, run, run.library)

    async def download_request(self, request: Request) -> Response:
        """Read the item of a request of the run, or ask the API.

        Raises:
            StoreAwayError: the item cannot be had; with the reason and the remedy.
        """
        attempt = request.meta.get("attempt")
        if not isinstance(attempt, VisitAttempt):
            if LIBRARY_REQUEST in request.meta:
                self._library.requests += 1  # here, for a retry is one more
                return await super().download_request(request)
            return Response(request.url, status=403)
        page = attempt.page
        entry: Entry | None = request.meta.setdefault(LISTED_ENTRY, self._listed.entry(page.no))
        if entry is None or entry.item is None:
            if self._listed.proves_absence:
                return Response(page.url, status=404, flags=["the library has no such item"])
            raise DefiniteRefusalError("its library could not be listed")
        item = entry.item
        # AutoThrottle would let each item that needs no request wait as long as one that does.
        request.meta["download_latency"] = 0.0
        request.meta[LIBRARY_FILE] = LibraryFile(item, None, error="it was not read")
        if self._most and item.file_size > self._most:
            raise DefiniteRefusalError(
                f"its {item.file_size:,} bytes exceed DOWNLOAD_MAXSIZE; raise it"
            )
        row = await asyncio.to_thread(self._library.row, page.no, item)
        file, body = await self._file(request, entry, item, row)
        if isinstance(body, Response):
            return body
        self._library.note(row, item)
        if file.error is None:
            file = file._replace(digest=sha256(body).digest())
        request.meta[LIBRARY_FILE] = file
        headers = downloader_headers_of_file(entry.validator, entry.modified_at)
        media = downloader_media_type(self._library.places.indexed_name(item))
        if media is not None:
            headers["Content-Type"] = media
        return Response(page.url, headers=headers, body=body)

    async def _file(
        self, request: Request, entry: Entry, item: LibraryItem, row: LibraryRow | None
    ) -> tuple[LibraryFile, bytes | Response]:
        """Return the file of an item and its bytes, or the answer that is no file."""
        library, page = self._library, request.meta["attempt"].page
        if (refused := library.places.refusal(item)) is not None:
            raise DefiniteRefusalError(refused)
        if (excess := library.places.excess(item)) is not None:
            logger.warning("%s is skipped: %s", item.url[:_SHOWN], excess)
            note = library.places.failed_note(item, excess)
            path = library.places.failed_path(item)
            staged = await asyncio.to_thread(library.stage, page.no, item, note)
            return LibraryFile(item, path, staged, downloaded=_now(), error=excess), b""
        path = library.places.path(item)
        if item.content is not None:
            if library.needs_whole_listing and not self._listed.is_whole:
                raise DefiniteRefusalError(
                    "its list could not be read completely; crawl again later"
                )
            try:
                body, original = library.converted(item)
            except ValueError as error:
                why = f"its content cannot be converted: {error}"
                raise DefiniteRefusalError(why) from error
            place = None
            if original is not None:
                place = await asyncio.to_thread(library.stage, page.no, item, original)
            return LibraryFile(item, path, place, downloaded=_now()), body
        if not (entry.again or self._run.forced):
            held = await asyncio.to_thread(library.held, page.no, row, item)
            if held is not None:
                return LibraryFile(
                    item, path, held=held.place, downloaded=held.downloaded
                ), held.body
        answer = await self._downloaded(request, item)
        if answer.status >= 500 or answer.status in _PASSING:
            wait = {n: v for n, v in answer.headers.items() if n == "retry-after"}
            return request.meta[LIBRARY_FILE], Response(
                page.url, status=answer.status, headers=wait
            )
        if answer.status != 200:
            why = str(sharepoint_refusal(answer))
            if answer.status in _GONE:
                why = (
                    f"status {answer.status}: the library lists this file but does not "
                    "have it, so it was probably removed or moved just now; the next run "
                    "tries again"
                )
            raise StoreAwayError(why) if answer.status == _LOCKED else DefiniteRefusalError(why)
        if len(answer.body) != item.file_size:
            raise StoreAwayError(
                f"received {len(answer.body):,} bytes, but the library lists "
                f"{item.file_size:,}: the file probably changed just now; the next run "
                "tries again"
            )
        staged = await asyncio.to_thread(library.stage, page.no, item, answer.body)
        library.downloaded += 1
        return LibraryFile(item, path, staged, downloaded=_now()), answer.body

    async def _downloaded(self, request: Request, item: LibraryItem) -> LibraryAnswer:
        """Return the answer for the bytes of an item.

        Raises:
            StoreAwayError: no request can be made of it.
        """
        api = library_api_of_crawl(self._crawler, self._library, self._run.options)
        renewed = False
        try:
            asked = await asyncio.to_thread(api.content_request, item)
            for _ in range(_HOPS):
                answer = await self._sent(request, downloader_library_request(asked))
                if answer.status == 401 and not renewed:
                    renewed = True
                    asked = await asyncio.to_thread(api.renewed, asked)
                elif answer.status in (301, 302, 303, 307, 308):
                    location = answer.headers.get("location", "")
                    asked = await asyncio.to_thread(api.followed, asked, location)
                else:
                    return answer
        except LibraryError as error:
            raise StoreAwayError(str(error)) from error
        raise StoreAwayError("its download redirects in a circle")

    async def _sent(self, request: Request, sent: Request) -> LibraryAnswer:
        """Return the answer to a request for the bytes of an item.

        Raises:
            AddressRefusedError: its address is forbidden, as a redirect may name one.
        """
        self._proxies.choose(sent)
        refusal = await self._check.refusal(sent.url, proxied="proxy" in sent.meta)
        if refusal is not None:
            raise AddressRefusedError(refusal)
        sent.meta["download_timeout"] = request.meta.get("download_timeout")
        self._library.requests += 1
        answer = await super().download_request(sent)
        request.meta["download_latency"] = sent.meta.get("download_latency", 0)
        return downloader_library_answer(answer)


def _now() -> int:
    """Return the present time in Unix microseconds."""
    return time.time_ns() // 1_000

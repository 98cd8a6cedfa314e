"""The download handler: Scrapy's own, with limits for headers and for stray bytes."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, Final, NamedTuple

from scrapy import Request
from scrapy.core.downloader.handlers.http11 import (
    HTTP11DownloadHandler,
    _LenientHTTP11ClientFactory,
    _LenientHTTP11ClientProtocol,
    _LenientHTTPClientParser,
)
from scrapy.crawler import Crawler
from scrapy.http import Response
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.web._newclient import HEADER, STATUS, ParseError, RequestNotSent, ResponseFailed
from twisted.web.client import HTTPConnectionPool, RequestTransmissionFailed
from twisted.web.http import _DataLoss, _IdentityTransferDecoder

from smartcrawl.engine.current_run import HaltedRequestError, run_of_crawler
from smartcrawl.engine.download.answers import CERTIFIED
from smartcrawl.engine.download.network import ContextFactory
from smartcrawl.model.exceptions import HeadersTooLargeError
from smartcrawl.model.options import Options
from smartcrawl.run.hosts import FRESH, Strays, run_stray_origin
from smartcrawl.run.orders import Halt
from smartcrawl.sources.client_certificates import ClientCertificate
from smartcrawl.sources.trust import CertificateTrust

_STATUS_LINE: Final = re.compile(rb"HTTP/\d+\.\d+ [1-9]\d\d(?: |$)", re.IGNORECASE)
MAX_HEADERS: Final = 64 * 1024  #: bytes of status line and headers, 1xx answers included


class _Road(NamedTuple):
    """Connections with one choice of certificates."""

    contexts: Any
    kept: HTTPConnectionPool
    single: HTTPConnectionPool  #: one request a connection


class BoundedHttpHandler(HTTP11DownloadHandler):
    """HTTP/1.1 as Scrapy speaks it; an answer with endless headers is given up.

    Twisted bounds a line of the headers but not their number. A server could fill the memory
    before the body begins, the only part that DOWNLOAD_MAXSIZE bounds.

    An origin that sends bytes without a request gets one request a connection (Strays), and so
    does a page that is requested again for that reason or after a failure (FRESH).

    Requests that show the certificate of a login (CERTIFIED) have connections of their own.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        run = run_of_crawler(crawler)
        self._strays = Strays() if run is None else run.strays
        self._halt = Halt() if run is None else run.halt
        self._halt.when_dropped(self._drop)
        self._asked: set[asyncio.Task[Any]] = set()
        #: A kept connection that ended takes one of RETRY_TIMES; the next request gets a new one.
        self._retries = crawler.settings.getint("RETRY_TIMES") == 0
        self._plain = self._road(self._contextFactory, self._pool)
        self._certified: _Road | None = None  #: of requests that show a certificate
        if crawler.settings["DOWNLOADER_CLIENTCONTEXTFACTORY"] == "SENTINEL":  # Scrapy's default
            self._plain = self._plain._replace(contexts=self._contexts(None))

    def _road(self, contexts: Any, kept: HTTPConnectionPool) -> _Road:
        """Return connections that no other requests share."""
        kept.retryAutomatically = self._retries
        single: Any = HTTPConnectionPool(kept._reactor, persistent=False)  # type: ignore[no-untyped-call]
        for pool in (kept, single):
            pool._factory = partial(_BoundedFactory, self._strays)
        return _Road(contexts, kept, single)

    def _contexts(self, certificate: ClientCertificate | None) -> Any:
        contexts: Any = ContextFactory.from_crawler(self._crawler)
        run = run_of_crawler(self._crawler)
        if run is None:
            contexts.trust = CertificateTrust.of(None, Options.of(self._crawler.settings))
        else:
            contexts.trust = CertificateTrust.of(run.source, run.options)
        contexts.certificate = certificate
        return contexts

    def _road_of(self, request: Request) -> _Road:
        certificate = request.meta.get(CERTIFIED)
        if certificate is None:
            return self._plain
        if self._certified is None:
            kept: Any = HTTPConnectionPool(self._pool._reactor, persistent=True)  # type: ignore[no-untyped-call]
            kept.maxPersistentPerHost = self._plain.kept.maxPersistentPerHost
            self._certified = self._road(self._contexts(certificate), kept)
        return self._certified

    async def download_request(self, request: Request) -> Response:
        """Download a request on a kept connection, or on a new one.

        Raises:
            HaltedRequestError: the run ends by order: it is not sent, or given up.
        """
        if self._halt.order is not None:
            raise HaltedRequestError(f"{request.url} is not requested: the run is ending")
        alone = FRESH in request.meta or self._strays.suspects(run_stray_origin(request.url))
        road = self._road_of(request)
        self._take(road, road.single if alone else road.kept)
        task = asyncio.current_task()
        assert task is not None, "Scrapy makes a task of each download"
        self._asked.add(task)
        try:
            try:
                return await super().download_request(request)
            except (RequestNotSent, RequestTransmissionFailed):
                if alone:
                    raise
                self._take(road, road.single)  # a kept connection ended before it took the request
                return await super().download_request(request)
        except asyncio.CancelledError:
            if self._halt.order is None:
                raise
            task.uncancel()
            raise HaltedRequestError(f"{request.url} was dropped: the run is ending") from None
        finally:
            self._asked.discard(task)

    def _take(self, road: _Road, pool: HTTPConnectionPool) -> None:
        """Have super() use these connections, which it reads before its first await."""
        self._contextFactory, self._pool = road.contexts, pool

    def _drop(self) -> None:
        """Give up the requests in flight, and their connections."""
        for task in list(self._asked):
            task.cancel()

    async def close(self) -> None:
        """Close the kept connections."""
        for road in filter(None, (self._certified, self._plain)):
            self._pool = road.kept
            await super().close()


class _BoundedFactory(_LenientHTTP11ClientFactory):
    def __init__(self, strays: Strays, *others: Any) -> None:
        super().__init__(*others)  # type: ignore[no-untyped-call]
        self._strays = strays

    def buildProtocol(self, addr: Any) -> _BoundedProtocol:
        protocol = _BoundedProtocol(self._quiescentCallback)  # type: ignore[no-untyped-call]
        protocol.strays = self._strays
        return protocol


class _BoundedProtocol(_LenientHTTP11ClientProtocol):
    """Counts the bytes before the body, and gives the connection up after MAX_HEADERS.

    A connection on which bytes come without a request is given up, too, and counted.
    """

    strays: Strays
    _head = 0
    _asked: Any = None  #: URI of the last request; None once stray bytes were counted for it

    def request(self, request: Any) -> Any:
        self._head = 0
        self._asked = request._parsedURI
        answer = super().request(request)
        assert self._parser is not None
        self._parser.__class__ = _BoundedParser  # Scrapy replaces the class in the same way
        return answer

    def dataReceived(self, data: bytes) -> None:
        if self._state == "QUIESCENT":  # after the end of an answer that was not cut off
            self._stray()
        super().dataReceived(data)  # type: ignore[no-untyped-call]
        parser = self._parser
        if parser is not None and parser.state in (STATUS, HEADER):
            self._head += len(data)
            if self._head > MAX_HEADERS:
                self._giveUp(Failure(HeadersTooLargeError()))  # type: ignore[no-untyped-call]

    def _finishResponse_WAITING(self, rest: bytes) -> None:
        """End an answer; Twisted alone would drop bytes after it and keep the connection."""
        if rest:
            self._stray()
            assert self._currentRequest is not None
            self._currentRequest.persistent = False
        super()._finishResponse_WAITING(rest)

    def _stray(self) -> None:
        uri, self._asked = self._asked, None
        if uri is not None:
            self.strays.came(f"{uri.scheme.decode('ascii')}://{uri.netloc.decode('ascii')}")


class _BoundedParser(_LenientHTTPClientParser):
    """Parser of HTTP; any other protocol is a ParseError."""

    MAX_LENGTH = MAX_HEADERS
    _head = 0  #: bytes of all lines so far, those of 1xx answers included

    def lineReceived(self, line: bytes) -> None:
        """Count a line; the protocol alone would not count the last ones before a body."""
        self._head += len(line) + len(b"\r\n")
        if self._head > MAX_HEADERS:
            raise HeadersTooLargeError
        super().lineReceived(line)

    def dataReceived(self, data: bytes) -> Any:
        """Parse on; all errors in status line and headers are of one class."""
        if self.state not in (STATUS, HEADER):
            return super().dataReceived(data)  # type: ignore[no-untyped-call]
        try:
            return super().dataReceived(data)  # type: ignore[no-untyped-call]
        except (HeadersTooLargeError, ParseError):
            raise
        except Exception as error:
            raise ParseError(f"{type(error).__name__}: {error}", b"") from error  # type: ignore[no-untyped-call]

    def statusReceived(self, status: bytes) -> None:
        """Take the status line; its protocol must be HTTP, and its code one of HTTP."""
        if not _STATUS_LINE.match(status):
            raise ParseError("no status line of HTTP", status)  # type: ignore[no-untyped-call]
        super().statusReceived(status)  # type: ignore[no-untyped-call]

    def lineLengthExceeded(self, line: bytes) -> None:
        raise HeadersTooLargeError

    def connectionLost(self, reason: Failure | None = None) -> None:
        """End the answer; a body without a length is whole only after a clean close."""
        decoder = self.bodyDecoder
        ends_with_connection = (
            isinstance(decoder, _IdentityTransferDecoder) and decoder.contentLength is None
        )
        if ends_with_connection and reason is not None and not reason.check(ConnectionDone):  # type: ignore[no-untyped-call]
            why = [reason, Failure(_DataLoss())]  # type: ignore[no-untyped-call]
            lost = Failure(ResponseFailed(why, self.response))  # type: ignore[no-untyped-call]
            self.response._bodyDataFinished(lost)
        else:
            super().connectionLost(reason)

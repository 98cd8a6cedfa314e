"""From the bytes on the wire to a body: Content-Encoding undone, slow bodies given up."""

from __future__ import annotations

import time
from typing import Self
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured, StopDownload
from scrapy.http import Response
from scrapy.responsetypes import responsetypes

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.memory import UndecodedBodies
from smartcrawl.extract.encodings import ACCEPTED, EncodingError, decode_encodings

_PATIENCE = 10  #: seconds before the rate of a body counts


class DecodingMiddleware:
    """Undo the Content-Encoding of a body, strictly and within DOWNLOAD_MAXSIZE.

    Scrapy's own middleware returns the part of a cut or corrupt stream that it could unpack, and
    half a page would pass for the page.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._undecoded = UndecodedBodies()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Read the settings, once."""
        if not crawler.settings.getbool("COMPRESSION_ENABLED"):
            raise NotConfigured("COMPRESSION_ENABLED is off")
        return cls(crawler.settings.getint("DOWNLOAD_MAXSIZE"))

    def process_request(self, request: Request) -> None:
        """Announce the codings that can be undone."""
        request.headers.setdefault("Accept-Encoding", ACCEPTED)

    def process_response(self, request: Request, response: Response) -> Response:
        """Return the answer with its body decoded.

        Raises:
            EncodingError: the body contradicts its header, was cut, or is too large.
        """
        lines = response.headers.getlist("Content-Encoding")
        if not lines or request.method == "HEAD":
            return response
        words = [word.strip() for line in lines for word in line.decode("latin-1").split(",")]
        limit = request.meta.get("download_maxsize", self._max_size)
        try:
            body = decode_encodings(response.body, words, limit=limit)
        except EncodingError:
            self._undecoded.add(len(response.body))
            raise
        del response.headers["Content-Encoding"]
        kind = responsetypes.from_args(headers=response.headers, url=response.url, body=body)
        return response.replace(cls=kind, body=body)


class SlowBodies:
    """Gives up bodies that come more slowly than MIN_DOWNLOAD_RATE.

    A server that sends a byte a second would occupy a connection for DOWNLOAD_TIMEOUT, again
    and again.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._bodies: WeakKeyDictionary[Request, tuple[float, int]] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Listen for received bytes, if there is a least rate."""
        rate = crawler.settings.getint("MIN_DOWNLOAD_RATE")
        if not rate or run_of_crawler(crawler) is None:
            raise NotConfigured  # without words, which Scrapy would log as a warning
        slow = cls(rate)
        crawler.signals.connect(slow.received, signal=signals.bytes_received)
        return slow

    def received(self, data: bytes, request: Request) -> None:
        """Count a piece of a body.

        Raises:
            StopDownload: the body is too slow.
        """
        now = time.monotonic()
        since, size = self._bodies.get(request, (now, 0))  # a retry is another request
        size += len(data)
        self._bodies[request] = since, size
        if downloader_is_slow(size, now - since, self._rate):
            raise StopDownload(fail=True)


def downloader_is_slow(size: int, seconds: float, rate: int) -> bool:
    """Whether a body of which ``size`` bytes came in so many seconds is too slow.

    >>> (
    ...     downloader_is_slow(5_000, 9.9, 1_024),
    ...     downloader_is_slow(5_000, 10.0, 1_024),
    ...     downloader_is_slow(10_240, 10.0, 1_024),
    ... )
    (False, True, False)
    """
    return seconds >= _PATIENCE and size < rate * seconds

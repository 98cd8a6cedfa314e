"""Requests of the lane that are under way, and what they add to Scrapy's counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from scrapy.core.downloader import Slot
from scrapy.statscollectors import StatsCollector

from smartcrawl.model.pages import Attempt, Page

_STATUS_LINE: Final = len("HTTP/1.1 304 Not Modified\r\n\r\n")
_LENGTH_LINE: Final = len("Content-Length: 0\r\n")


@dataclass(slots=True)
class Origin:
    """What the lane knows of a scheme, host and port."""

    name: str
    refused: bool  #: by the address guard
    size: int  #: bytes of a request, less those of its address and its conditions
    failures: int = 0


@dataclass(slots=True, eq=False)
class Flight:
    """A request that is under way; it stands among Scrapy's own where those are counted."""

    page: Page
    attempt: Attempt
    headers: Mapping[str, str]  #: its conditions
    origin: Origin
    slot: Slot
    meta: dict[str, Any]  #: what others look for in that of a Request


class NotModified(NamedTuple):
    """What those who wait for answers look at, of a 304."""

    request: Flight
    status: int = 304


@dataclass(slots=True)
class Counts:
    """What Scrapy's stats are to say of requests that its downloader did not see."""

    requests: int = 0
    request_bytes: int = 0
    not_modified: int = 0
    answer_bytes: int = 0
    handed_over: int = 0  #: answers that the engine went on with
    fallbacks: int = 0  #: pages that the engine asked, for the lane got no whole answer
    withdrawn: int = 0  #: pages that the engine asked again, for their connection was not clean
    strays: int = 0  #: connections on which bytes came without a request

    def asked(self, flight: Flight) -> None:
        """Count a request."""
        size = flight.origin.size + len(flight.page.url)
        for name, value in flight.headers.items():
            size += len(name) + len(value) + 4
        self.requests += 1
        self.request_bytes += size

    def confirmed(self, size: int, *, has_length: bool) -> None:
        """Count a 304 with so many bytes of headers."""
        self.not_modified += 1
        self.answer_bytes += _STATUS_LINE + size
        if not has_length:
            self.answer_bytes += _LENGTH_LINE  # Scrapy counts it, there or not

    def tell(self, stats: StatsCollector) -> None:
        """Add everything to the stats."""
        counts = {
            "downloader/request_count": self.requests,
            "downloader/request_method_count/GET": self.requests,
            "downloader/request_bytes": self.request_bytes,
            "downloader/response_count": self.not_modified,
            "downloader/response_status_count/304": self.not_modified,
            "downloader/response_bytes": self.answer_bytes,
            "response_received_count": self.not_modified,
            "item_scraped_count": self.not_modified,
            "lane/not_modified": self.not_modified,
            "lane/handed_over": self.handed_over,
            "lane/fallbacks": self.fallbacks,
            "lane/withdrawn": self.withdrawn,
            "lane/strays": self.strays,
        }
        for name, count in counts.items():
            if count:
                stats.inc_value(name, count)

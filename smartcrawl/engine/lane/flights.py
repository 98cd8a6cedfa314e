"""Requests of the lane that are in flight, and their counts in Scrapy's stats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from scrapy.core.downloader import Slot
from scrapy.statscollectors import StatsCollector

from smartcrawl.engine.items import VisitDone
from smartcrawl.engine.lane.origins import Origin
from smartcrawl.model.pages import Page, VisitAttempt

_STATUS_LINE: Final = len("HTTP/1.1 304 Not Modified\r\n\r\n")
_LENGTH_LINE: Final = len("Content-Length: 0\r\n")


@dataclass(slots=True, eq=False)
class Flight:
    """A request in flight; it is listed with Scrapy's own requests where those are counted."""

    page: Page
    attempt: VisitAttempt
    headers: Mapping[str, str]  #: the conditional ones
    origin: Origin
    slot: Slot
    meta: dict[str, Any]  #: the keys of Request.meta that listeners read


class NotModified(NamedTuple):
    """A 304 with the fields of a Response that listeners read."""

    request: Flight
    status: int = 304


@dataclass(slots=True)
class LaneCounts:
    """Counts for Scrapy's stats of requests that its downloader did not see."""

    requests: int = 0
    request_bytes: int = 0
    not_modified: int = 0
    answer_bytes: int = 0
    handed_over: int = 0  #: answers that were passed to the engine
    fallbacks: int = 0  #: pages passed to the engine, because no whole answer came
    withdrawn: int = 0  #: pages that the engine asked again: unclean connection
    strays: int = 0  #: connections on which bytes came without a request

    def asked(self, flight: Flight) -> None:
        """Count a request."""
        size = flight.origin.size + len(flight.page.url)
        for name, value in flight.headers.items():
            size += len(name) + len(value) + 4
        self.requests += 1
        self.request_bytes += size

    def confirmed(self, size: int, *, has_length: bool) -> None:
        """Count a 304; ``size`` is the bytes of its headers."""
        self.not_modified += 1
        self.answer_bytes += _STATUS_LINE + size
        if not has_length:
            self.answer_bytes += _LENGTH_LINE  # Scrapy counts it even where it is missing

    def add_to(self, stats: StatsCollector) -> None:
        """Add all counts to the stats."""
        counts = {
            "downloader/request_count": self.requests,
            "downloader/request_method_count/GET": self.requests,
            "downloader/request_bytes": self.request_bytes,
            "downloader/response_count": self.not_modified,
            "downloader/response_status_count/304": self.not_modified,
            "downloader/response_bytes": self.answer_bytes,
            "response_received_count": self.not_modified,
            "item_dropped_count": self.not_modified,
            f"item_dropped_reasons_count/{VisitDone.__name__}": self.not_modified,
            "lane/not_modified": self.not_modified,
            "lane/handed_over": self.handed_over,
            "lane/fallbacks": self.fallbacks,
            "lane/withdrawn": self.withdrawn,
            "lane/strays": self.strays,
        }
        for name, count in counts.items():
            if count:
                stats.inc_value(name, count)

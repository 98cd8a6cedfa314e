"""A crawl that lists a library and reads no item: the part of a run that requests need."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from scrapy import Request
from scrapy.core.scheduler import BaseScheduler

from smartcrawl import settings as module
from smartcrawl.model.options import Options
from smartcrawl.model.urls import url_endpoint, url_has_port
from smartcrawl.run.halt import Halt
from smartcrawl.run.hosts.gate import HostGate
from smartcrawl.run.strays import Strays
from smartcrawl.sources.base import Source

_KEPT: Final = (
    "smartcrawl.engine.delays.DelayControl",
    "smartcrawl.engine.download.decoding.SlowBodies",
)

#: Settings of its spider: of the components of a crawl, those that send requests are left.
LISTING_RUN_SETTINGS: Final[dict[str, Any]] = {
    "SCHEDULER": "smartcrawl.engine.listing_run.NoPages",
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

    def ports(self) -> list[tuple[str, int]]:
        """Return the (host, port) pairs that the source names as its own."""
        hosts = self.source.scope.hosts
        return [url_endpoint(f"http://{host}/") for host in hosts if url_has_port(host)]

"""The gate of a crawl, and the host of a request, as Scrapy has them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.core.downloader import Downloader

from smartcrawl.run.hosts.gate import HostGate
from smartcrawl.run.run import run_of


def gate_of(crawler: Any) -> HostGate | None:
    """Return the gate that the parts of a crawl share; None for a spider without a run."""
    run = run_of(crawler)
    return None if run is None else run.gate


def host_of(request: Request) -> str:
    """Return the host of a request, by the name that its download slot has."""
    slot: str | None = request.meta.get(Downloader.DOWNLOAD_SLOT)
    return slot if slot is not None else urlsplit(request.url).hostname or ""

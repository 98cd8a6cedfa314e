"""Between Scrapy and the gate of a crawl: hosts of requests, pauses, and failed requests."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.download.faults import download_fault
from smartcrawl.rules.http import retry_after
from smartcrawl.run.failures import note_host_failure
from smartcrawl.run.hosts.gate import HostGate


def gate_of_crawler(crawler: Any) -> HostGate | None:
    """Return the gate that the components of a crawl share; None for a spider without a run."""
    run = run_of_crawler(crawler)
    return None if run is None else run.gate


def host_of_scrapy_request(request: Request) -> str:
    """Return the host of a request: the name of its download slot."""
    slot: str | None = request.meta.get(Downloader.DOWNLOAD_SLOT)
    return slot if slot is not None else urlsplit(request.url).hostname or ""


def pause_of_scrapy_response(response: Response) -> int | None:
    """Return the seconds for which a 429 or 503 asks to wait, None without such a wish."""
    if response.status not in (429, 503):
        return None
    value = response.headers.get("Retry-After")
    return retry_after(value.decode("latin-1") if value else None, int(time.time()))


def note_download_failure(
    crawler: Crawler, request: Request, error: Exception, *, ends: bool
) -> None:
    """Notify the gate of a page request without a whole answer, and log the consequence.

    ``ends``: whether the visit ends with it. Requests that were not sent, those of no page, and
    those of a run that ends by order do not count.
    """
    run, gate = run_of_crawler(crawler), gate_of_crawler(crawler)
    if isinstance(error, IgnoreRequest) or request.callback is NO_CALLBACK:
        return
    if run is None or gate is None or run.halt.order is not None:
        return
    host, why = host_of_scrapy_request(request), download_fault(error, request.url)
    note_host_failure(run, host, why, time.monotonic(), ends=ends)

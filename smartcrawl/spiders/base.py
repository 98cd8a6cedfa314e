"""What every spider shares: one Request a page, and exactly one Visit for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import can_ada
from scrapy import Request, Spider
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)
from twisted.python.failure import Failure

from smartcrawl.exceptions import RobotsDisallowedError, RobotsUnknownError
from smartcrawl.items import Attempt, Visit
from smartcrawl.network import installed_resolver
from smartcrawl.rules.model import Fault, Outcome
from smartcrawl.run import Run

#: What it means that nobody answered; the first class that fits counts (R4-42).
FAULTS: Final[tuple[tuple[type[Exception], Fault], ...]] = (
    (RobotsUnknownError, Fault.ROBOTS_UNKNOWN),
    (CannotResolveHostError, Fault.DNS),
    (DownloadConnectionRefusedError, Fault.REFUSED),
    (DownloadTimeoutError, Fault.TIME_OUT),
    (ResponseDataLossError, Fault.TRUNCATED),
    (DownloadCancelledError, Fault.TOO_LARGE),
)

#: What people read, with what they may do about it.
MESSAGES: Final = {
    Fault.DNS: "its host name cannot be resolved: check the spelling and the name server",
    Fault.ADDRESS_REFUSED: "its address is not public; permit its network with ALLOW_NETWORKS",
    Fault.REFUSED: "connection refused: is the server running, and is the port right?",
    Fault.TIME_OUT: "no whole answer within DOWNLOAD_TIMEOUT",
    Fault.TRUNCATED: "the body ended before its announced length",
    Fault.TOO_LARGE: "the body is larger than DOWNLOAD_MAXSIZE",
    Fault.TLS: "no secure connection",
    Fault.RESET: "the connection broke before a whole answer came",
}


def fault_of(error: BaseException) -> Fault:
    """Return the extended status of a failed download."""
    for kind, fault in FAULTS:
        if isinstance(error, kind):
            return fault
    text = str(error)
    if "SSL" in text or "certificate" in text:
        return Fault.TLS
    if "Connection" in text or "connection" in text:
        return Fault.RESET
    return Fault.NETWORK


def _refused(url: str) -> str | None:
    """Return the address that a host resolved to and that the guard refused."""
    resolver = installed_resolver()
    return resolver.refused.get(can_ada.parse(url).hostname) if resolver is not None else None


class VisitSpider(Spider):
    """A spider whose pages come from a Run; ``run`` is set before the crawl starts."""

    run: Run | None = None

    async def start(self) -> AsyncIterator[Any]:
        """Yield nothing: the seeds were offered as numbers when the run opened."""
        seeds: tuple[Request, ...] = ()
        for seed in seeds:
            yield seed

    def errback(self, failure: Failure) -> Iterator[Visit]:
        """Turn "nobody answered" into the page's one Visit."""
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy
        attempt: Attempt = request.meta["attempt"]
        error: BaseException = failure.value  # type: ignore[assignment]  # never None here
        visit = attempt.visit(request.url)
        if isinstance(error, RobotsDisallowedError):
            visit.outcome, visit.error = Outcome.EXCLUDED, str(error)
        else:
            fault = fault_of(error)
            detail = str(error).strip("<>[] ") or type(error).__name__
            resolver = installed_resolver() if fault is Fault.DNS else None
            address = (
                resolver.refused.get(can_ada.parse(request.url).hostname) if resolver else None
            )
            if address is not None:
                fault, detail = Fault.ADDRESS_REFUSED, address
            visit.outcome, visit.http_status = fault.outcome, int(fault)
            visit.error = f"{MESSAGES.get(fault, detail)} ({detail})"[:1024]
        yield visit

"""What every spider shares: one Request a page, and exactly one Visit for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import can_ada
from scrapy import Request, Spider
from twisted.python.failure import Failure

from smartcrawl.exceptions import RobotsDisallowedError
from smartcrawl.faults import described, fault_of
from smartcrawl.items import Attempt, Visit
from smartcrawl.network import installed_resolver
from smartcrawl.rules.model import Fault, Outcome
from smartcrawl.run import Run


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
            address = _refused(request.url) if fault is Fault.DNS else None
            if address is not None:
                fault = Fault.ADDRESS_REFUSED
            visit.outcome, visit.http_status = fault.outcome, int(fault)
            visit.error = described(error, fault, address)
        yield visit

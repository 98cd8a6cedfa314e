"""The stored body of a page that a 304 confirmed, for a user's own spider that reads it."""

from __future__ import annotations

import logging
from typing import Final, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.responsetypes import responsetypes

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.own_spiders import reads_answers
from smartcrawl.model.exceptions import SnapshotError, SnapshotStoreError
from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)

STORED: Final = "stored"  #: flag of a response whose body is the stored one
_CONFIRMED: Final = "confirmed_by"  #: key of Request.meta: the 304
_OF_BODIES: Final = ("Content-Encoding", "Content-Length", "Transfer-Encoding")


class StoredBodyMiddleware:
    """Gives ``parse`` of a user's own spider the stored body where the server answered 304.

    The response has status 200 and the flag ``stored``, as Scrapy's HttpCache does it. Where the
    stored body cannot be read, the page is requested again without validators.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of a spider that has its own ``parse``."""
        run = run_of_crawler(crawler)
        if run is None or not reads_answers(type(crawler.spider)):
            raise NotConfigured
        return cls(run)

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        """Return the response with the stored body, or the next request of the page."""
        attempt = request.meta.get("attempt")
        if (
            response.status != 304
            or not isinstance(attempt, VisitAttempt)
            or attempt.page.plan.verify
            or not attempt.traffic.conditional
        ):
            return response
        try:
            body, content_type = await self._run.stored_pages.body(attempt.page)
        except (SnapshotStoreError, SnapshotError) as error:
            logger.info("%s is downloaded again: %s", request.url, error)
            attempt.lost_body = True
            return request.replace(dont_filter=True)
        headers = response.headers.copy()
        for name in _OF_BODIES:
            headers.pop(name, None)
        headers["Content-Type"] = content_type
        kind = responsetypes.from_args(headers=headers, url=response.url, body=body)
        response.request = request  # the engine sets it for the response that it gets
        request.meta[_CONFIRMED] = response
        return kind(
            response.url,
            status=200,
            headers=headers,
            body=body,
            flags=[*response.flags, STORED],
            request=request,
            certificate=response.certificate,
            ip_address=response.ip_address,
            protocol=response.protocol,
        )


def lacks_stored_body(run: Run, page: Page) -> bool:
    """Whether a 304 would leave a page without a body, as no snapshot has it."""
    return run.registry.snapshots is None or page.record.snapshot is None


def server_answer(response: Response) -> Response:
    """Return the answer of the server where a response has the stored body, else the response."""
    answer: Response = response.meta.get(_CONFIRMED, response) if response.flags else response
    return answer

"""Pages that the engine goes on with: an answer other than 304, or none that counts."""

from __future__ import annotations

import logging
from typing import Final

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.http import Headers
from scrapy.responsetypes import responsetypes

from smartcrawl.engine.lane.connections import LaneAnswer
from smartcrawl.engine.lane.flights import Flight, LaneCounts
from smartcrawl.engine.scheduler import NumberScheduler
from smartcrawl.model.exceptions import LaneError
from smartcrawl.model.pages import VisitAttempt
from smartcrawl.run.strays import FRESH

logger = logging.getLogger(__name__)

IN_HAND: Final = "in_hand"  #: key of Request.meta: the Response that the lane already received


class LaneHandover:
    """Makes the engine's requests for pages that the lane does not finish."""

    def __init__(self, crawler: Crawler, scheduler: NumberScheduler, counts: LaneCounts) -> None:
        self._crawler = crawler
        self._scheduler = scheduler
        self._counts = counts

    def in_hand(self, flight: Flight, answer: LaneAnswer) -> Request:
        """Return the engine's request for a page, with the received answer in its meta.

        Pauses and delays that follow from the answer begin at once.
        """
        request = self._request(flight)
        headers = Headers()
        for name, value in answer.headers:
            headers.appendlist(name, value)
        kind = responsetypes.from_args(headers=headers, url=flight.page.url, body=answer.body)
        response = kind(
            flight.page.url,
            status=answer.status,
            headers=headers,
            body=answer.body,
            request=request,
            protocol=answer.protocol,
        )
        self._crawler.signals.send_catch_log(
            signals.response_downloaded,
            response=response,
            request=request,
            spider=self._crawler.spider,
        )
        request.meta[IN_HAND] = response
        return request

    def pass_on(self, request: Request) -> None:
        """Pass a request with its answer to the engine."""
        self._counts.handed_over += 1
        self._scheduler.pass_on(request)

    def withdraw(self, flight: Flight) -> None:
        """Discard an answer, which may belong to another page: the engine requests the page.

        The request gets a connection of its own.
        """
        self._counts.withdrawn += 1
        logger.debug("the engine asks %s again: its connection was not clean", flight.page.url)
        self._scheduler.pass_on(self._request(flight, failures=1))

    def fall_back(self, flight: Flight, error: LaneError) -> None:
        """Pass a page to the engine after the lane got no whole answer."""
        flight.origin.failures += 1
        self._counts.fallbacks += 1
        if not error.sent:
            flight.attempt = VisitAttempt(flight.page)
        logger.debug("the engine asks %s: %s", flight.page.url, error)
        self._scheduler.pass_on(self._request(flight, failures=error.times if error.sent else 0))

    def _request(self, flight: Flight, *, failures: int = 0) -> Request:
        """Return the engine's request for a page, with the attempt so far.

        ``failures``: requests of the lane that failed, which count against RETRY_TIMES.
        """
        request = self._scheduler.request_of(flight.page)
        if failures:
            most = self._crawler.settings.getint("RETRY_TIMES")
            request.meta["retry_times"] = min(failures, most)
            request.meta[FRESH] = True  # a kept connection may have ended
        request.meta.update(flight.meta, attempt=flight.attempt)
        return request

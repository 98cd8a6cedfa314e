"""The spider of web sites: from the answer of each address to its Visit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Self

import can_ada
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from smartcrawl.engine.download.bot_walls import bot_wall_of_response
from smartcrawl.engine.download.stored import server_answer
from smartcrawl.engine.waiting import DocumentPipelineTasks
from smartcrawl.extract.links import may_lead_on
from smartcrawl.model.given_numbers import given_number
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Visit, VisitAttempt
from smartcrawl.model.signatures import unsigned_url
from smartcrawl.model.urls import join_url
from smartcrawl.rules.absence import TEMPORARY
from smartcrawl.rules.http import (
    http_status_read,
    http_validators_kept,
    outcome_of_http_status,
)
from smartcrawl.rules.model import Fault, Outcome
from smartcrawl.run.detours import Redirect
from smartcrawl.run.opening import open_run, orders_of_run_arguments, source_of_run_arguments
from smartcrawl.run.visits import fill_confirmed_visit
from smartcrawl.sources.base import Source
from smartcrawl.spiders.base import VisitSpider


class SiteSpider(VisitSpider):
    """One Visit for each page: from parse() after an answer, otherwise from errback()."""

    name = "site"
    waiting: DocumentPipelineTasks | None = (
        None  #: None: a spider of the user's own sees every Visit
    )

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Open the run that this spider crawls for.

        Arguments, all strings: ``url`` or ``source``, ``sitemap``, ``force=1``, ``resume=1``,
        ``max_pages=N``, ``lost_threshold=N``, ``job=NAME``.

        Raises:
            SmartcrawlError: the run cannot be opened; the message names the remedy.
        """
        spider = super().from_crawler(crawler, *args, **kwargs)
        if not cls.opens_run:
            return spider
        options = Options.of(crawler.settings)
        source = cls.source_of(options, kwargs)
        if cls is SiteSpider:
            spider.waiting = DocumentPipelineTasks(crawler)
        spider.run = open_run(source, options, orders_of_run_arguments(kwargs), int(time.time()))
        return spider

    @classmethod
    def source_of(cls, options: Options, arguments: dict[str, Any]) -> Source:
        """Return the source that the arguments name.

        Raises:
            SourceError: no source or several sources fit, or an argument is unknown.
        """
        return source_of_run_arguments(options, arguments)

    def parse(self, response: Response, **_: Any) -> Iterator[Visit | Request]:
        """Turn an answer into the Visit of its page, or into the next request of that Visit.

        An answer that is none of a page of the run, as in ``scrapy parse``, has no Visit.
        """
        if "attempt" not in response.meta:
            return
        response = server_answer(response)
        assert response.request is not None
        attempt: VisitAttempt = response.meta["attempt"]
        visit = attempt.visit(unsigned_url(response.url))
        answer = visit.answer
        visit.http_status = http_status_read(response.status)
        visit.outcome = outcome_of_http_status(
            response.status, conditional=attempt.traffic.conditional
        )
        if attempt.away is not None:
            yield self._away(response, visit)
            return
        lines = response.headers.getlist("X-Robots-Tag")
        answer.robots_tags = tuple(line.decode("latin-1") for line in lines)
        answer.refresh = _header(response, "Refresh")
        if visit.outcome in (Outcome.NOT_FOUND, Outcome.HTTP_ERROR) and visit.page.lacks_signature:
            why = f"HTTP status {response.status} without the signature that it was read under"
            visit.fail(Fault.UNSIGNED, why)
            yield visit
            return
        if response.request.method == "HEAD":
            yield self._after_head(response, visit)
            return
        latency = response.meta.get("download_latency", 0)
        if visit.outcome is Outcome.NOT_MODIFIED and not visit.page.plan.verify:
            etag, date = _header(response, "ETag"), _header(response, "Last-Modified")
            yield fill_confirmed_visit(visit, etag, date, latency=latency)
            return
        answer.response_ms = int(1000 * latency)
        answer.etag, answer.last_modified = http_validators_kept(
            _header(response, "ETag"), _header(response, "Last-Modified"), int(time.time())
        )
        decided = self._decided(response, visit)
        if decided is not None:
            yield decided
            return
        match visit.outcome:
            case Outcome.CHANGED | Outcome.NOT_ACCEPTABLE:
                answer.body = response.body
                answer.content_type = _header(response, "Content-Type") or ""
                answer.content_encoding = attempt.content_encoding
                answer.set_cookies, answer.cookie = _cookies(response)
            case Outcome.REDIRECT:
                again = self._redirected(response, visit)
                if again is not None:
                    yield again
                    return
            case Outcome.NOT_FOUND | Outcome.HTTP_ERROR | Outcome.TRANSIENT:
                visit.error = f"HTTP status {response.status}"
        if answer.body is None or self.waiting is None or not self.waiting.take(visit):
            yield visit

    def _decided(self, response: Response, visit: Visit) -> Visit | Request | None:
        """Return the Visit, or its next request, where neither body nor redirect matters further.

        A look at an unreached page goes on only where a cookie was set, or may be on the way.
        """
        if visit.outcome is Outcome.BAD_HEADER:
            visit.fail(Fault.UNSOLICITED_304, "304 to a request that was not conditional")
        wall = bot_wall_of_response(response) if response.status != 304 else None
        if wall is not None:
            visit.fail(Fault.CHALLENGE, f"{wall} instead of the page")
            return visit
        if not visit.page.plan.verify:
            return None
        if visit.outcome is Outcome.REDIRECT and (
            response.status in TEMPORARY or "Set-Cookie" in response.headers
        ):
            return self._redirected(response, visit) or visit
        return visit

    def _after_head(self, response: Response, visit: Visit) -> Visit | Request:
        """Return the Visit of a page that a HEAD confirms, otherwise the GET of the page."""
        answer = visit.answer
        assert self.run is not None
        assert response.request is not None
        length = _header(response, "Content-Length") or ""
        etag, date = _header(response, "ETag"), _header(response, "Last-Modified")
        size = given_number(length)
        request = response.request
        if response.status == 304 and {b"If-None-Match", b"If-Modified-Since"} & set(
            request.headers
        ):
            visit.outcome = Outcome.NOT_MODIFIED  # as to a GET with the same validators
            visit.traffic.conditional = True
            visit.traffic.conditional_requests += 1
            latency = response.meta.get("download_latency", 0)
            return fill_confirmed_visit(visit, etag, date, latency=latency)
        confirmed = visit.http_status == 200 and answer.refresh is None
        if confirmed and self.run.trust.confirms(visit.page, etag, date, size):
            visit.outcome = Outcome.NOT_MODIFIED
            answer.etag = visit.page.record.etag
            answer.last_modified = visit.page.record.last_modified
            return visit
        return request.replace(method="GET", dont_filter=True)

    def _redirected(self, response: Response, visit: Visit) -> Request | None:
        """Return the next request of this visit, or None if the redirect is its outcome."""
        location = _location(response)
        target = join_url(can_ada.parse(response.url), location) if location else None
        if target is None:
            visit.fail(Fault.NO_LOCATION, f"status {response.status} without a usable Location")
            return None
        assert self.run is not None
        assert response.request is not None
        request = response.request
        redirect = Redirect(response.url, target, response.status, *_cookies(response))
        cookie = self.run.detours.next_cookies(visit, redirect, int(time.time()))
        if cookie is None:
            return None
        kept = ("attempt", "handle_httpstatus_all", "download_slot", "download_maxsize")
        meta = {name: response.meta[name] for name in kept if name in response.meta}
        following = request.replace(url=target, meta=meta, dont_filter=True)
        following.headers.pop("Cookie", None)
        if cookie:
            following.headers["Cookie"] = cookie.encode("latin-1")
        return following

    def _away(self, response: Response, visit: Visit) -> Visit | Request:
        """Return the Visit, or its next request, after an answer on the way back to the page."""
        assert self.run is not None
        if visit.outcome is Outcome.REDIRECT:
            following = self._redirected(response, visit)
            if following is not None:
                return following
        refresh = _header(response, "Refresh")
        if visit.outcome is Outcome.CHANGED and may_lead_on(refresh, response.body):
            answer = visit.answer
            answer.refresh, answer.body = refresh, response.body
            answer.content_type = _header(response, "Content-Type") or ""
            answer.set_cookies, answer.cookie = _cookies(response)
            return visit
        return self.run.detours.counting(visit)


def _location(response: Response) -> str:
    """Return the Location: as UTF-8 where it is valid, like browsers, otherwise as Latin-1."""
    value = response.headers.get("Location") or b""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _cookies(response: Response) -> tuple[tuple[str, ...], str]:
    """Return the lines Set-Cookie of an answer, and the Cookie of its request."""
    assert response.request is not None
    lines = tuple(line.decode("latin-1") for line in response.headers.getlist("Set-Cookie"))
    return lines, (response.request.headers.get("Cookie") or b"").decode("latin-1")


def _header(response: Response, name: str) -> str | None:
    value = response.headers.get(name)
    return value.decode("latin-1") if value else None

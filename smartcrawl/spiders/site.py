"""Web sites: seeds, links, and what each address answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Self

import can_ada
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from smartcrawl.exceptions import SourceError
from smartcrawl.items import Attempt, Visit
from smartcrawl.options import Options
from smartcrawl.orders import Orders
from smartcrawl.rules.http import MAX_REDIRECTS, is_other_version, kept_validators, outcome_of
from smartcrawl.rules.model import Fault, Outcome
from smartcrawl.run import Run
from smartcrawl.signatures import unsigned
from smartcrawl.sources import Source, ad_hoc, load, select, with_sitemaps
from smartcrawl.spiders.base import VisitSpider
from smartcrawl.spiders.waiting import WaitingDocuments
from smartcrawl.urls import join, normalize
from smartcrawl.walls import wall_of

logger = logging.getLogger(__name__)

ARGUMENTS = ("url", "sitemap", "source", "force", "resume", "max_pages", "lost_threshold", "job")
_FROM_SCRAPYD = ("_job", "_version")


class SiteSpider(VisitSpider):
    """One request, one Visit: from parse() if anybody answered, else from errback()."""

    name = "site"
    waiting: WaitingDocuments | None = None  #: None: a spider of a user's own sees every Visit

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Open the run that this spider crawls for.

        Arguments, all strings: ``url`` or ``source``, ``sitemap``, ``force=1``, ``resume=1``,
        ``max_pages=N``, ``lost_threshold=N``, ``job=NAME``.

        Raises:
            SmartcrawlError: the run cannot be opened; the message names the remedy.
        """
        spider = super().from_crawler(crawler, *args, **kwargs)
        options = Options.of(crawler.settings)
        source = chosen_source(options, kwargs)
        if cls is SiteSpider:
            spider.waiting = WaitingDocuments(crawler)
        spider.run = open_run(source, options, orders(kwargs), int(time.time()))
        return spider

    def parse(self, response: Response, **_: Any) -> Iterator[Visit | Request]:
        """Turn an answer into the page's one Visit, or ask on where its address moved."""
        assert response.request is not None
        attempt: Attempt = response.meta["attempt"]
        visit = attempt.visit(unsigned(response.url))
        visit.http_status = response.status
        visit.outcome = outcome_of(response.status, conditional=attempt.conditional)
        lines = response.headers.getlist("X-Robots-Tag")
        visit.robots_tags = tuple(line.decode("latin-1") for line in lines)
        if visit.outcome in (Outcome.NOT_FOUND, Outcome.HTTP_ERROR) and visit.page.lacks_signature:
            why = f"HTTP status {response.status} without the signature that it was read under"
            visit.fail(Fault.UNSIGNED, why)
            yield visit
            return
        if response.request.method == "HEAD":
            yield self._looked_at(response, visit)
            return
        latency = response.meta.get("download_latency", 0)
        if visit.outcome is Outcome.NOT_MODIFIED and not visit.page.verify:
            told = (_header(response, "ETag"), _header(response, "Last-Modified"))
            yield confirmed(visit, *told, latency=latency)
            return
        visit.response_ms = int(1000 * latency)
        visit.etag, visit.last_modified = kept_validators(
            _header(response, "ETag"), _header(response, "Last-Modified"), int(time.time())
        )
        if visit.outcome is Outcome.BAD_HEADER:
            visit.fail(Fault.UNSOLICITED_304, "304 to a request that was not conditional")
        wall = wall_of(response) if response.status != 304 else None
        if wall is not None:
            visit.fail(Fault.CHALLENGE, f"{wall} instead of the page")
        if wall is not None or visit.page.verify:
            yield visit
            return
        match visit.outcome:
            case Outcome.CHANGED | Outcome.NOT_ACCEPTABLE:
                visit.body = response.body
                visit.content_type = _header(response, "Content-Type") or ""
                visit.content_encoding = attempt.content_encoding
            case Outcome.REDIRECT:
                again = self._redirected(response, visit, attempt)
                if again is not None:
                    yield again
                    return
            case Outcome.NOT_FOUND | Outcome.HTTP_ERROR | Outcome.TRANSIENT:
                visit.error = f"HTTP status {response.status}"
        if visit.body is None or self.waiting is None or not self.waiting.take(visit):
            yield visit

    def _looked_at(self, response: Response, visit: Visit) -> Visit | Request:
        """Return the Visit of a page that a HEAD shows to be the same, else ask for the page."""
        assert self.run is not None
        assert response.request is not None
        length = _header(response, "Content-Length") or ""
        told = (_header(response, "ETag"), _header(response, "Last-Modified"))
        told_length = int(length) if length.isdecimal() else None
        if response.status == 200 and self.run.trust.confirms(visit.page, *told, told_length):
            visit.outcome = Outcome.NOT_MODIFIED
            visit.etag, visit.last_modified = visit.page.etag, visit.page.last_modified
            return visit
        return response.request.replace(method="GET", dont_filter=True)

    def _redirected(self, response: Response, visit: Visit, attempt: Attempt) -> Request | None:
        """Return the next request of this visit, or None when the redirect is its outcome."""
        location = _location(response)
        target = join(can_ada.parse(response.url), location) if location else None
        if target is None:
            visit.fail(Fault.NO_LOCATION, f"status {response.status} without a usable Location")
            return None
        assert self.run is not None
        trackers = self.run.options.trackers
        if normalize(target, trackers) != normalize(response.url, trackers):
            visit.location = target
            return None
        if target in attempt.trail or len(attempt.trail) > MAX_REDIRECTS:
            visit.fail(Fault.REDIRECT_LOOP, f"redirected to itself in a circle: {target}")
            return None
        assert response.request is not None
        kept = ("attempt", "handle_httpstatus_all", "download_slot", "download_maxsize")
        meta = {name: response.meta[name] for name in kept if name in response.meta}
        return response.request.replace(url=target, meta=meta, dont_filter=True)


def confirmed(
    visit: Visit, etag: str | None, last_modified: str | None, *, latency: float
) -> Visit:
    """Fill in the Visit of a page that answered 304; ``latency`` in seconds.

    A 304 may renew validators; those that it does not repeat stay (RFC 9111 section 3.2). A 304
    whose ETag names another version than the request did confirms nothing (section 4.3.4). An ETag
    of another version is never stored, also where the request had only a date: the text is not its.
    """
    page = visit.page
    visit.outcome, visit.http_status = Outcome.NOT_MODIFIED, 304
    visit.response_ms = int(1000 * latency)
    visit.etag, visit.last_modified = page.etag, page.last_modified
    if (etag or page.etag, last_modified or page.last_modified) == (page.etag, page.last_modified):
        return visit
    etag, last_modified = kept_validators(etag, last_modified, int(time.time()))
    if is_other_version(visit.asked_etag, etag):
        why = f"a 304 with the ETag {etag:.80} to a request with {visit.asked_etag:.80}"
        visit.fail(Fault.OTHER_VERSION, f"{why}: the stored page stays, the next request is whole")
        return visit
    if etag and page.etag and not is_other_version(page.etag, etag):
        visit.etag = etag
    visit.last_modified = last_modified or page.last_modified
    return visit


def open_run(source: Source, options: Options, orders: Orders, now: int) -> Run:
    """Open a run of ``source``, join the one that other workers are at, or go on with the last.

    Raises:
        RunHeldError: another process crawls this source alone.
        SmartcrawlError: it cannot be opened; the message names the remedy.
    """
    if options.redis is None:
        return Run.open(source, options, orders, now)
    if options.due_only and not orders.force:
        logger.info("%s: what is due is asked by this process alone", source.name)
        return Run.open(source, options, orders, now)
    shared: Any = import_module("smartcrawl.shared_run")  # 6 MiB that one worker does not need
    run: Run = shared.SharedRun.join(source, options, orders, now)
    return run


def chosen_source(options: Options, arguments: dict[str, Any]) -> Source:
    """Return the source that ``url``, ``source`` or sources.toml names.

    Raises:
        SourceError: none or several fit, or an argument is unknown.
    """
    unknown = [name for name in arguments if name not in (*ARGUMENTS, *_FROM_SCRAPYD)]
    if unknown:
        raise SourceError(
            f"unknown argument {unknown[0]!r}: the spider site takes {', '.join(ARGUMENTS)}"
        )
    url, name = arguments.get("url"), arguments.get("source")
    sitemaps = str(arguments.get("sitemap", "")).split()
    declared = load(options.sources_file)
    if url is not None and name is not None:
        raise SourceError("give either -a url=… or -a source=…, not both")
    if url is not None:
        return ad_hoc(url, declared, sitemaps=sitemaps)
    if name is not None:
        return with_sitemaps(select(name, declared), sitemaps)
    if sitemaps:
        return ad_hoc(None, declared, sitemaps=sitemaps)
    if len(declared) == 1:
        return next(iter(declared.values()))
    if not declared:
        raise SourceError(
            "nothing to crawl: give -a url=https://… or -a sitemap=https://…,"
            f" or declare sources in {options.sources_file}"
        )
    raise SourceError(f"several sources are declared: give -a source= one of {', '.join(declared)}")


def orders(arguments: dict[str, Any]) -> Orders:
    """Return the orders in the spider's arguments.

    Raises:
        SourceError: ``max_pages`` is no whole number, or a switch is neither on nor off.
    """
    pages = str(arguments.get("max_pages", "0"))
    if not pages.isdecimal():
        raise SourceError(f"max_pages is {pages!r}: it takes a whole number, 0 for no limit")
    threshold = arguments.get("lost_threshold")
    if threshold is not None and not (str(threshold).isdecimal() and int(threshold)):
        raise SourceError(
            f"lost_threshold is {threshold!r}: it takes a whole number of at least 1, the runs"
            " that must find a page gone before it may be removed"
        )
    return Orders(
        force=_switch(arguments, "force"),
        resume=_switch(arguments, "resume"),
        max_pages=int(pages),
        lost_threshold=int(threshold) if threshold is not None else None,
        job=str(arguments["job"]) if arguments.get("job") else None,
    )


def _switch(arguments: dict[str, Any], name: str) -> bool:
    value = str(arguments.get(name, "0")).lower()
    if value not in ("1", "true", "yes", "0", "false", "no", ""):
        raise SourceError(f"{name} is {value!r}: it takes 1 or 0")
    return value in ("1", "true", "yes")


def _location(response: Response) -> str:
    """Return the Location as written: UTF-8 where it is that, as browsers read it."""
    value = response.headers.get("Location") or b""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _header(response: Response, name: str) -> str | None:
    value = response.headers.get(name)
    return value.decode("latin-1") if value else None

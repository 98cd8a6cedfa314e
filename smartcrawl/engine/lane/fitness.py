"""The components of a crawl with which the lane gives the same results as the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pydispatch.dispatcher import getAllReceivers, liveReceivers
from scrapy import signals
from scrapy.crawler import Crawler

from smartcrawl.engine.download.network import installed_resolver
from smartcrawl.engine.items import VisitsFirst
from smartcrawl.engine.own_spiders import HttpAuth
from smartcrawl.engine.scheduler import NumberScheduler

_SCRAPY: Final = "scrapy.downloadermiddlewares"
#: Middlewares whose work the lane does, or that leave a conditional request and its 304 alone.
KNOWN: Final = frozenset(
    {
        "smartcrawl.engine.lane.lane.InHandMiddleware",
        "smartcrawl.middlewares.AddressMiddleware",
        "smartcrawl.middlewares.HostMiddleware",
        "smartcrawl.middlewares.RobotsMiddleware",
        "smartcrawl.middlewares.PassingRetryMiddleware",
        "smartcrawl.middlewares.RevalidationMiddleware",
        "smartcrawl.middlewares.ScopeMiddleware",
        "smartcrawl.engine.download.decoding.DecodingMiddleware",
        "smartcrawl.engine.own_spiders.Offsite",  # pages of the frontier pass it
        f"{_SCRAPY}.downloadtimeout.DownloadTimeoutMiddleware",
        f"{_SCRAPY}.defaultheaders.DefaultHeadersMiddleware",
        f"{_SCRAPY}.useragent.UserAgentMiddleware",
        f"{_SCRAPY}.stats.DownloaderStats",
        "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware",
        "scrapy.spidermiddlewares.start.StartSpiderMiddleware",
        "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware",
    }
)
PARSE: Final = "smartcrawl.spiders.site.SiteSpider.parse"
#: Signals of an answer, which the lane does not send for a 304. It calls the listeners below, or
#: does their work.
ANSWERS: Final = (
    signals.response_downloaded,
    signals.bytes_received,
    signals.request_reached_downloader,
    signals.request_left_downloader,
    signals.response_received,
    signals.headers_received,
    signals.item_dropped,  # as which each Visit ends
)
_LISTENERS: Final = frozenset(
    {
        "scrapy.extensions.corestats.CoreStats",
        "smartcrawl.engine.download.decoding.SlowBodies",
        "smartcrawl.engine.delays.DelayControl",
        "smartcrawl.middlewares.HostMiddleware",
        "smartcrawl.engine.download.robots.CrawlDelays",
    }
)


def lane_obstacle(crawler: Crawler) -> str | None:
    """Return the component of a crawl that rules the lane out, as a message; None: all permit it.

    Every component is ruled out that is not known to leave conditional requests alone: components
    of the user's own, cookies, logins, proxies.
    """
    return next(_reasons(crawler), None)


def _reasons(crawler: Crawler) -> Iterator[str]:
    engine, settings, spider = crawler.engine, crawler.settings, crawler.spider
    assert engine is not None
    if type(engine.scheduler) is not NumberScheduler:
        yield f"the scheduler is {_name(engine.scheduler)}"
    components = (*engine.downloader.middleware.middlewares, *engine.scraper.spidermw.middlewares)
    for component in components:
        asleep = isinstance(component, HttpAuth) and component.is_asleep(crawler)
        if not asleep and _name(component) not in KNOWN:
            yield f"{_name(component)} is in use"
    if type(engine.scraper.itemproc) is not VisitsFirst:
        yield f"ITEM_PROCESSOR is {_name(engine.scraper.itemproc)}"
    if _name(getattr(type(spider), "parse", None)) != PARSE:
        yield f"{_name(spider)} reads answers in its own way"
    for signal in ANSWERS:
        for listener in _listeners(crawler, signal):
            yield f"{listener} listens to each answer"
    if installed_resolver() is None:
        yield "TWISTED_DNS_RESOLVER is another one"
    if settings["DOWNLOAD_BIND_ADDRESS"]:
        yield "DOWNLOAD_BIND_ADDRESS is set"
    if settings["DOWNLOADER_CLIENTCONTEXTFACTORY"] != "SENTINEL":  # Scrapy's default
        yield "DOWNLOADER_CLIENTCONTEXTFACTORY is set"
    for scheme in ("http", "https"):
        handler = settings.getwithbase("DOWNLOAD_HANDLERS")[scheme]
        if handler != "smartcrawl.engine.download.headers.BoundedHttpHandler":
            yield f"the handler of {scheme} is {handler}"


def _listeners(crawler: Crawler, signal: object) -> Iterator[str]:
    receivers: Iterable[Any] = liveReceivers(getAllReceivers(crawler, signal))
    for receiver in receivers:
        owner = getattr(receiver, "__self__", receiver)
        if _name(owner) not in _LISTENERS:
            yield _name(owner)


def _name(component: object) -> str:
    kind = (
        component if callable(component) and hasattr(component, "__qualname__") else type(component)
    )
    return f"{kind.__module__}.{kind.__qualname__}"

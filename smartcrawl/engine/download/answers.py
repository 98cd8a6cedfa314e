"""Answers of Scrapy's downloader, as the parts of a run read them."""

from __future__ import annotations

from typing import Final

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from smartcrawl.run.hosts import host_gate_slot
from smartcrawl.run.received import Answer

#: Keys of Request.meta, of a source that logs in.
OF_LOGIN: Final = "of_login"  #: whether it is a request of the login itself
AS_PAGE: Final = "as_page"  #: whether a request that is for no page gets the credentials, too
AS_PROOF: Final = "as_proof"  #: whether it belongs to the proof page, which the login waits for
OWN_COOKIE: Final = "own_cookie"  #: the Cookie of the visit, without that of the login
WORN: Final = "worn"  #: names of the headers that log in
#: The certificate that its connection shows; it has connections of its own.
CERTIFIED: Final = "certified"
_VALIDATORS: Final = (b"If-None-Match", b"If-Modified-Since")


def answer_of_scrapy_response(response: Response) -> Answer:
    """Return an answer of the downloader."""
    request = response.request
    assert request is not None
    return Answer(
        url=response.url,
        status=response.status,
        headers=[(name, value) for name, values in response.headers.items() for value in values],
        body=response.body,
        latency=request.meta.get("download_latency", 0),
        is_head=request.method == "HEAD",
        has_validators=any(name in request.headers for name in _VALIDATORS),
        cookie=_cookie(request),
    )


async def downloaded_answer(crawler: Crawler, request: Request) -> Answer:
    """Return the answer to a request that the downloader of a crawl sends beside its pages.

    Raises:
        RunHaltedError: the run ends by order.
        Exception: there is no answer.
    """
    engine = crawler.engine
    assert engine is not None, "the crawl runs"
    response = await engine.download_async(request)
    if response.request is None:
        response.request = request
    return answer_of_scrapy_response(response)


def _cookie(request: Request) -> str:
    """Return the Cookie of a request, without that of a login."""
    own: str | None = request.meta.get(OWN_COOKIE)
    return (request.headers.get("Cookie") or b"").decode("latin-1") if own is None else own


class DownloaderProbe:
    """Requests one address of a host by the downloader of a crawl, before its pages."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    async def ask(self, url: str, host: str) -> Answer:
        """Return the answer.

        Raises:
            RunHaltedError: the run ends by order.
            Exception: there is no answer.
        """
        request = Request(
            url,
            callback=NO_CALLBACK,
            priority=RobotsTxtMiddleware.DOWNLOAD_PRIORITY,
            meta={"download_slot": host_gate_slot(host), "dont_retry": True, AS_PAGE: True},
            dont_filter=True,
        )
        return await downloaded_answer(self._crawler, request)

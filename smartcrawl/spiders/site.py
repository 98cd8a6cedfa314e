"""The spider of web sites: from the answer of each address to its Visit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from smartcrawl.engine.download.answers import WORN, answer_of_scrapy_response
from smartcrawl.engine.download.stored import server_answer
from smartcrawl.engine.reextraction import DocumentPipelineTasks
from smartcrawl.engine.source_settings import options_with_source_keys
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Visit, VisitAttempt
from smartcrawl.run.answers import NextRequest
from smartcrawl.run.opening import open_run, orders_of_run_arguments, source_of_run_arguments
from smartcrawl.run.visits import visit_of_answer
from smartcrawl.sources.base import Source
from smartcrawl.spiders.base import VisitSpider

#: What the request after a redirect takes along.
_KEPT: Final = ("attempt", "handle_httpstatus_all", "download_slot", "download_maxsize")


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
        options = options_with_source_keys(crawler.settings, source, options)
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
        assert self.run is not None
        response = server_answer(response)
        attempt: VisitAttempt = response.meta["attempt"]
        answer = answer_of_scrapy_response(response)
        found = visit_of_answer(self.run, attempt, answer)
        if isinstance(found, NextRequest):
            yield _following(response, found)
            return
        goes_on = found.answer.body is None or attempt.away is not None
        if goes_on or self.waiting is None or not self.waiting.take(found):
            yield found


def _following(response: Response, found: NextRequest) -> Request:
    """Return the next request of a visit."""
    request = response.request
    assert request is not None
    if found.is_whole:
        return request.replace(method="GET", dont_filter=True)
    meta = {name: response.meta[name] for name in _KEPT if name in response.meta}
    following = request.replace(url=found.url, meta=meta, dont_filter=True)
    for name in ("Cookie", *request.meta.get(WORN, ())):
        following.headers.pop(name, None)
    if found.cookie:
        following.headers["Cookie"] = found.cookie.encode("latin-1")
    return following

"""The base of all spiders: one Request for each page, and exactly one Visit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar, Final, Self

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.settings import BaseSettings
from twisted.python.failure import Failure

from smartcrawl.engine.download.faults import OwnCodeError, download_fault, is_own_code_error
from smartcrawl.engine.logs import say_refused_crawls
from smartcrawl.engine.own_spiders import brings_page, feed_refusal, own_base
from smartcrawl.engine.project_settings import (
    apply_settings_file,
    check_project_settings,
    leave_out_unused_components,
)
from smartcrawl.model.exceptions import (
    HostBlockedError,
    LogsOutError,
    NotLoggedInError,
    RobotsDisallowedError,
    SettingError,
    TurnSpentError,
)
from smartcrawl.model.pages import Visit, VisitAttempt
from smartcrawl.run.run import Run
from smartcrawl.run.visits import excluded_visit, failed_visit
from smartcrawl.sources.kinds import KINDS, SITE

LISTING: Final = "smartcrawl.engine.listing.ListingFeed"  #: of the sources whose files are listed


class VisitSpider(Spider):
    """Spider whose pages come from a Run; ``run`` is set before the crawl starts."""

    run: Run | None = None
    #: It crawls the sources whose kind has this spider; a user's own crawls those of its base.
    crawls: ClassVar[str] = SITE.spider
    opens_run: ClassVar[bool] = True  #: False: for Scrapy's commands that look at one page

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Add the settings of the class; what this crawl does not use is not imported either."""
        super().update_settings(settings)
        apply_settings_file(settings, are_ours=True)
        is_listed = any(kind.is_listed for kind in KINDS.values() if kind.spider == cls.crawls)
        leave_out_unused_components(settings, *() if is_listed else (LISTING,))

    async def start(self) -> AsyncIterator[Any]:
        """Yield nothing: the seeds were offered as numbers when the run opened."""
        seeds: tuple[Request, ...] = ()
        for seed in seeds:
            yield seed

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Make the spider; its class opens the run.

        Raises:
            SettingError: the crawl has a feed, and the spider yields no items; or the settings
                are those of a project that lacks our components.
        """
        say_refused_crawls()
        if cls.opens_run:
            check_project_settings(cls.name, crawler.settings)
            if (refusal := feed_refusal(cls, crawler.settings)) is not None:
                raise SettingError(refusal)
        return super().from_crawler(crawler, *args, **kwargs)

    def receive(self, response: Response, **given: Any) -> Any:
        """Pass the answer of a page to ``parse`` of a user's own spider, if it brings the page.

        Others are read by smartcrawl alone, as Scrapy keeps them from spiders: errors and
        redirects (but those that ``handle_httpstatus_list`` names), sitemaps, and the look at
        a page that no link leads to any more.
        """
        if brings_page(self, response):
            return self.parse(response, **given)
        return own_base(type(self)).parse(self, response)

    def errback(self, failure: Failure) -> Iterator[Visit | Request]:
        """Yield the Visit of a page without an answer; one that was not requested has none yet.

        Once the run ends by order or loses its login, a failure has none either: the page stays
        pending.
        """
        if isinstance(failure.value, TurnSpentError):
            return
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy
        attempt: VisitAttempt = request.meta["attempt"]
        is_ending = self.run is not None and self.run.halt.order is not None
        if self.run is not None and (is_ending or isinstance(failure.value, NotLoggedInError)):
            self.run.turns.unanswered(attempt.page)
            return
        if request.method == "HEAD" and not isinstance(failure.value, IgnoreRequest):
            yield request.replace(method="GET", dont_filter=True)  # the HEAD was to save this GET
            return
        error: BaseException = failure.value  # type: ignore[assignment]  # never None here
        if is_own_code_error(error, request.url):
            raise OwnCodeError(f"your own code failed for {request.url}") from error
        if isinstance(error, RobotsDisallowedError | HostBlockedError | LogsOutError):
            yield excluded_visit(self.run, attempt, request.url, str(error))
        else:
            why = download_fault(error, request.url)
            yield failed_visit(self.run, attempt, request.url, why)

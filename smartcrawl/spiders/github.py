"""The spider of repositories: new files of the listed commit, and the pages of the wiki."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from smartcrawl.engine.download.network import EnvironmentProxies
from smartcrawl.engine.project_settings import check_project_settings
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Visit, VisitAttempt
from smartcrawl.model.urls import is_same_url_place
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.run.opening import github_source_of_run_arguments
from smartcrawl.sources.base import Source
from smartcrawl.sources.github.content import LFS_REASON, github_blob_sha, is_github_lfs_pointer
from smartcrawl.sources.kinds import GITHUB
from smartcrawl.spiders.files import visit_of_spider_answer
from smartcrawl.spiders.site import SiteSpider


class GithubSpider(SiteSpider):
    """One Visit for each new or changed file of the commit, and for each page of the wiki.

    The listing confirms the other files. The arguments are those of the spider of files, with
    ``url`` in place of ``root``. A wiki is a web site within its repository (ADR 68).
    """

    name = "github"
    crawls = GITHUB.spider
    custom_settings = {  # noqa: RUF012  # as Scrapy has it
        "DOWNLOAD_HANDLERS": dict.fromkeys(
            ("http", "https"), "smartcrawl.engine.download.github.RepositoryHandler"
        ),
    }

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Open the run that this spider crawls for, once the way to the API is known to be usable.

        Raises:
            SmartcrawlError: the run cannot be opened; the message names the remedy.
        """
        if cls.opens_run:
            check_project_settings(cls.name, crawler.settings)
        options = Options.of(crawler.settings)
        EnvironmentProxies(crawler.settings).proxy_of(options.github.api)  # a wrong one is no run
        return super().from_crawler(crawler, *args, **kwargs)

    @classmethod
    def source_of(cls, options: Options, arguments: dict[str, Any]) -> Source:
        """Return the source that the arguments name.

        Raises:
            SourceError: no source or several sources fit, or an argument is unknown.
        """
        return github_source_of_run_arguments(options, arguments)

    def parse(self, response: Response, **_: Any) -> Iterator[Visit | Request]:
        """Turn the answer of the handler into the Visit of its page."""
        attempt: VisitAttempt | None = response.meta.get("attempt")
        if attempt is None:  # it is none of a page of the run
            return
        assert self.run is not None
        if not self.run.source.lists(attempt.page.url):
            for found in super().parse(response):
                if isinstance(found, Visit):
                    _judge_front(found, self.run.source)
                yield found
            return
        visit = visit_of_spider_answer(response)
        if visit.answer.body is not None:
            _check(visit, visit.answer.body)
        yield visit


def _judge_front(visit: Visit, source: Source) -> None:
    """Take a redirect of a stored page to the front of the repository for a 404.

    GitHub answers so for every page of a wiki that was switched off.
    """
    target = visit.answer.location
    if target is None or visit.page.state.standing is Standing.BARE:
        return
    if any(is_same_url_place(target, front) for front in source.optional_seeds.values()):
        visit.outcome, visit.http_status, visit.answer.location = Outcome.NOT_FOUND, 404, None
        visit.error = f"there is no wiki: it redirects to the front of the repository, {target}"


def _check(visit: Visit, body: bytes) -> None:
    """Compare a body with the blob of the commit, and set aside a pointer of Git LFS."""
    answer = visit.answer
    listed, found = answer.etag, github_blob_sha(body, like=answer.etag)
    answer.etag, answer.content_length = found, len(body)
    if listed is not None and found != listed:
        answer.body = None
        visit.fail(
            Fault.CHANGED_WHILE_READ,
            "its bytes differ from those of the commit: check GITHUB_RAW_URL",
        )
    elif is_github_lfs_pointer(body):
        answer.body = None
        visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, LFS_REASON

"""The spider of files: the listing of its run names them, and this turns each into a Visit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.http import Response

from smartcrawl.engine.download.files import TOO_LARGE
from smartcrawl.engine.download.stored import server_answer
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, Visit, VisitAttempt
from smartcrawl.rules.http import outcome_of_http_status
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.run.opening import files_source_of_run_arguments, open_run, orders_of_run_arguments
from smartcrawl.sources.base import Source
from smartcrawl.sources.files import STORE_SCHEMES
from smartcrawl.sources.kinds import FILES
from smartcrawl.spiders.base import VisitSpider


class ListedSpider(VisitSpider):
    """Spider of a source whose listing names all pages."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Open the run that this spider crawls for.

        Arguments, all strings: those that name the source (``source_of``), ``force=1``,
        ``resume=1``, ``max_pages=N``, ``lost_threshold=N``.

        Raises:
            SmartcrawlError: the run cannot be opened; the message names the remedy.
        """
        spider = super().from_crawler(crawler, *args, **kwargs)
        if not cls.opens_run:
            return spider
        options = Options.of(crawler.settings)
        source = cls.source_of(options, kwargs)
        spider.run = open_run(source, options, orders_of_run_arguments(kwargs), int(time.time()))
        return spider

    @classmethod
    def source_of(cls, options: Options, arguments: dict[str, Any]) -> Source:
        """Return the source that the arguments name."""
        raise NotImplementedError  # each spider has its own arguments


class FilesSpider(ListedSpider):
    """One Visit for each file that is new or changed; the listing confirms the others."""

    name = "files"
    crawls = FILES.spider
    #: A folder is no host: nothing is delayed, and only this spider reads files.
    custom_settings = {  # noqa: RUF012  # as Scrapy has it
        "DOWNLOAD_DELAY": 0,
        "AUTOTHROTTLE_ENABLED": False,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DOWNLOAD_HANDLERS": {
            "http": None,
            **dict.fromkeys(
                ("file", *STORE_SCHEMES), "smartcrawl.engine.download.files.FileHandler"
            ),
        },
    }

    @classmethod
    def source_of(cls, options: Options, arguments: dict[str, Any]) -> Source:
        """Return the source that ``root`` or ``source`` names.

        Raises:
            SourceError: no source or several sources fit, or an argument is unknown.
        """
        return files_source_of_run_arguments(options, arguments)

    def parse(self, response: Response, **_: Any) -> Iterator[Visit]:
        """Turn the answer of the file handler into the Visit of its file, if it is one of a run."""
        if "attempt" in response.meta:
            yield visit_of_spider_answer(response)


def visit_of_spider_answer(response: Response) -> Visit:
    """Return the Visit of a file by the answer of its handler."""
    attempt: VisitAttempt = response.meta["attempt"]
    response = server_answer(response)
    visit = attempt.visit(response.url)
    answer = visit.answer
    visit.http_status = response.status
    visit.outcome = outcome_of_http_status(response.status, conditional=True)
    answer.etag = _text(response, "ETag")
    answer.last_modified = _text(response, "Last-Modified")
    if response.status == TOO_LARGE:
        size = int(_text(response, "Content-Length") or 0)
        visit.outcome = Outcome.NOT_ACCEPTABLE
        visit.error = (
            f"not read: its {size:,} bytes exceed max_file_size of its source, or MAX_FILE_SIZE"
        )
        if _has_another_size(attempt.page, size):
            remedy = (
                "its stored text stays; raise max_file_size, or leave the file out with exclude"
            )
            visit.fail(Fault.BOMB, f"{visit.error}; {remedy}")
    elif visit.outcome is Outcome.CHANGED:
        answer.body = response.body
        answer.content_type = _text(response, "Content-Type") or ""
    else:
        visit.error = "; ".join([f"file status {response.status}", *response.flags])
    return visit


def _has_another_size(page: Page, size: int) -> bool:
    """Whether a file of ``size`` bytes is another version than the one whose text is stored.

    A file of the same size that is too large now was read before the limit was lowered.
    """
    return page.state.standing is Standing.HELD and page.record.content_length != size


def _text(response: Response, name: str) -> str | None:
    value = response.headers.get(name)
    return value.decode("latin-1") if value else None

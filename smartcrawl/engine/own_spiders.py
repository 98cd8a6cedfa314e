"""Components for a spider of the user's own, which cost nothing without one.

Each call of a middleware, for each request, costs as much as a look-up in the registry. The spider
of this project yields no requests of its own that need bounds or a login.
"""

from __future__ import annotations

from typing import Any, Self

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpauth import HttpAuthMiddleware
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import NotConfigured
from scrapy.http import HtmlResponse, Response
from scrapy.settings import BaseSettings
from scrapy.utils.response import get_meta_refresh

from smartcrawl.extract.links import document_base_url, refresh_target_at_once
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.pages import VisitAttempt
from smartcrawl.model.program import program_argument, program_name
from smartcrawl.rules.http import is_refresh_at_once


def is_own_spider(crawler: Crawler) -> bool:
    """Whether the spider is the user's own, and may yield requests."""
    return is_own_class(type(crawler.spider))


def is_own_class(spider: type) -> bool:
    """Whether a class of spiders is the user's own."""
    return not spider.__module__.startswith("smartcrawl.")


def reads_answers(spider: type) -> bool:
    """Whether a user's own spider has its own ``parse``, which needs the body of each page."""
    base = own_base(spider)
    return base is not None and spider.parse is not base.parse  # type: ignore[attr-defined]


def own_base(spider: type) -> Any:
    """Return the class of smartcrawl that a spider is made of; None: it is none of ours."""
    return next((base for base in spider.__mro__ if not is_own_class(base)), None)


def brings_page(spider: Spider, response: Response) -> bool:
    """Whether an answer is one that a spider of Scrapy would get, and brings a page."""
    attempt = response.meta.get("attempt")
    if not isinstance(attempt, VisitAttempt):
        return True  # a request of the user's own
    if attempt.page.kind or attempt.page.plan.verify or attempt.away is not None:
        return False
    allowed = [
        *getattr(spider, "handle_httpstatus_list", ()),
        *map(int, spider.settings.getlist("HTTPERROR_ALLOWED_CODES")),
    ]
    if response.status in allowed:
        return True
    return 200 <= response.status < 300 and not _leads_on(response)


def _leads_on(response: Response) -> bool:
    """Whether a page leads to another address at once, so that its visit is a redirect."""
    here = document_base_url(response.url)
    header = (response.headers.get("Refresh") or b"").decode("latin-1")
    if refresh_target_at_once(header, here, here) not in (None, str(here)):
        return True
    seconds, target = None, None
    if isinstance(response, HtmlResponse) and b"refresh" in response.body.lower():
        seconds, target = get_meta_refresh(response)
    return seconds is not None and is_refresh_at_once(int(seconds)) and target != str(here)


def feed_refusal(spider: type, settings: BaseSettings) -> str | None:
    """Return why a crawl with this spider has no feed, with the remedy; None: it has none."""
    if is_own_class(spider) or not (settings.getdict("FEEDS") or settings["FEED_URI"]):
        return None
    program = program_name()
    return (
        "pages are stored in the registry, not in a feed: leave out -o, -O and FEEDS (-s "
        f"FEEDS={{}}). To export them: {program} export --source NAME --format jsonl "
        f"--output FILE, or their records: {program} registry --format jsonl --output FILE"
    )


def overwritten_feed(settings: BaseSettings) -> str | None:
    """Return why several sources cannot share the feeds of the settings, with the remedy; or None.

    Each source is a crawl of its own, which would overwrite the items of the one before.
    """
    for place, options in settings.getdict("FEEDS").items():
        if options.get("overwrite") and "%(" not in str(place):
            return (
                "several sources would be crawled, and each would overwrite the items in "
                f"{place}: give one source ({program_argument('source', 'NAME')}), or a "
                "file for each, such as items-%(source)s.jsonl"
            )
    return None


class Offsite(OffsiteMiddleware):
    """Keeps the requests of a spider inside its ``allowed_domains``."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Switch this off for the spider of this project."""
        if not is_own_spider(crawler):
            raise NotConfigured
        return super().from_crawler(crawler)


class HttpAuth(HttpAuthMiddleware):
    """Adds a login to requests: from settings, spider attributes or the request itself."""

    @staticmethod
    def is_asleep(crawler: Crawler) -> bool:
        """Whether neither settings nor the spider name a user."""
        settings, spider = crawler.settings, crawler.spider
        named = (settings[f"HTTPAUTH_{name}"] for name in ("USER", "PASS"))
        attributes = (getattr(spider, name, None) for name in ("http_user", "http_pass"))
        return not any((*named, *attributes))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Switch this off where no request needs a login."""
        if not is_own_spider(crawler) and cls.is_asleep(crawler):
            raise NotConfigured
        try:
            return super().from_crawler(crawler)
        except ValueError as error:  # that of Scrapy names a value that only Python can give
            raise SettingError(
                "HTTPAUTH_USER and HTTPAUTH_PASS need HTTPAUTH_DOMAIN, the domain that "
                "may receive them: set it, such as HTTPAUTH_DOMAIN=example.com"
            ) from error

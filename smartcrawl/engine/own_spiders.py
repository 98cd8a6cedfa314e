"""Components for a spider of the user's own, which cost nothing without one.

Each call of a middleware, for each request, costs as much as a look-up in the registry. The spider
of this project yields no requests of its own that need bounds or a login.
"""

from __future__ import annotations

from typing import Self

from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpauth import HttpAuthMiddleware
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import NotConfigured


def is_own_spider(crawler: Crawler) -> bool:
    """Whether the spider is the user's own, and may yield requests."""
    return not type(crawler.spider).__module__.startswith("smartcrawl.")


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
        return super().from_crawler(crawler)

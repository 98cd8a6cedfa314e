"""Components that only a spider of somebody's own needs, and which cost nothing without one.

Each call of a middleware, for each request, costs as much as a look into the registry. The spider
of this project yields no requests of its own: nothing has to keep those in bounds or log them in.
"""

from __future__ import annotations

from typing import Self

from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpauth import HttpAuthMiddleware
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import NotConfigured


def is_own(crawler: Crawler) -> bool:
    """Whether the spider is somebody's own, and may yield requests."""
    return not type(crawler.spider).__module__.startswith("smartcrawl.")


class Offsite(OffsiteMiddleware):
    """Keeps the requests of a spider inside its ``allowed_domains``."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Look whether the spider may yield any."""
        if not is_own(crawler):
            raise NotConfigured
        return super().from_crawler(crawler)


class HttpAuth(HttpAuthMiddleware):
    """Logs requests in: by settings, or by attributes and requests of a spider."""

    @staticmethod
    def is_asleep(crawler: Crawler) -> bool:
        """Whether only a request that names a user itself would be logged in."""
        settings, spider = crawler.settings, crawler.spider
        named = (settings[f"HTTPAUTH_{name}"] for name in ("USER", "PASS"))
        told = (getattr(spider, name, None) for name in ("http_user", "http_pass"))
        return not any((*named, *told))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Look whether anything may name a user."""
        if not is_own(crawler) and cls.is_asleep(crawler):
            raise NotConfigured
        return super().from_crawler(crawler)

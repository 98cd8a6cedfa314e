"""The add-on that makes smartcrawl part of a Scrapy project of the user's own.

``ADDONS = {"smartcrawl.addon.Smartcrawl": 100}`` gives the project the spider ``site``, and each
spider that is a ``SiteSpider`` smartcrawl's scheduler, middlewares, pipelines and extensions.
Other spiders of the project keep what they have. The manual is docs/operations/project.md.
"""

from __future__ import annotations

from typing import Self

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings, Settings

from smartcrawl.engine.logs import Logs
from smartcrawl.engine.project_settings import complete_crawler_settings, complete_scrapy_settings
from smartcrawl.spiders.base import VisitSpider

_SPIDERS = "smartcrawl.spiders"


class Smartcrawl:
    """Add-on of Scrapy; it does nothing for spiders of other kinds."""

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Add the spider ``site``, the address guard, and smartcrawl's log to the process."""
        complete_scrapy_settings(settings)
        settings.add_to_list("SPIDER_MODULES", _SPIDERS)
        Logs.update_pre_crawler_settings(settings)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Switch this off for spiders of other kinds, and where none opens a run."""
        spider = crawler.spidercls
        if not (issubclass(spider, VisitSpider) and spider.opens_run):
            raise NotConfigured
        return cls()

    def update_settings(self, settings: Settings) -> None:
        """Add what a crawl needs."""
        complete_crawler_settings(settings)

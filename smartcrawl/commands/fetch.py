"""``scrapy fetch``: request one page without a run, and print it."""

from __future__ import annotations

from scrapy.commands.fetch import Command as Scrapys

from smartcrawl.commands.one_page import OnePage


class Command(OnePage, Scrapys):
    """Scrapy's command, with spiders that open no run."""

"""``scrapy shell``: request one page without a run, and try selectors on it."""

from __future__ import annotations

from scrapy.commands.shell import Command as Scrapys

from smartcrawl.commands.one_page import OnePage


class Command(OnePage, Scrapys):
    """Scrapy's command, with spiders that open no run."""

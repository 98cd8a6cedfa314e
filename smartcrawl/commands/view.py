"""``scrapy view``: request one page without a run, and show it in a browser."""

from __future__ import annotations

from scrapy.commands.view import Command as Scrapys

from smartcrawl.commands.one_page import OnePage


class Command(OnePage, Scrapys):
    """Scrapy's command, with spiders that open no run."""

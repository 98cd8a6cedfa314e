"""``scrapy parse``: request one page without a run, and print what a spider finds in it."""

from __future__ import annotations

from scrapy.commands.parse import Command as Scrapys

from smartcrawl.commands.one_page import OnePage


class Command(OnePage, Scrapys):
    """Scrapy's command, with spiders that open no run."""

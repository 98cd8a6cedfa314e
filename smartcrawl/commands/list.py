"""``scrapy list``: the spiders of the project, with those that an add-on brings."""

from __future__ import annotations

from argparse import Namespace

from scrapy.addons import AddonManager
from scrapy.commands.list import Command as ScrapyList


class Command(ScrapyList):
    """Scrapy's command, which scrapyd calls, too, after the add-ons have added their spiders."""

    def run(self, args: list[str], opts: Namespace) -> None:
        """Print the names."""
        assert self.settings is not None
        AddonManager.load_pre_crawler_settings(self.settings)
        super().run(args, opts)

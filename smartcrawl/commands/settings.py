"""``scrapy settings``: the values of settings, with those of smartcrawl.toml."""

from __future__ import annotations

from argparse import Namespace

from scrapy.commands.settings import Command as ScrapySettings

from smartcrawl.engine.project_settings import apply_settings_file, end_scrapy_process
from smartcrawl.model.exceptions import SettingError


class Command(ScrapySettings):
    """Scrapy's command, which reads the file of settings as a crawl does."""

    def process_options(self, args: list[str], opts: Namespace) -> None:
        """Apply the options, then the file."""
        super().process_options(args, opts)
        assert self.settings is not None
        try:
            apply_settings_file(self.settings, are_ours=True)
        except SettingError as error:
            end_scrapy_process(error)

"""The shared part of Scrapy's commands for one page: parse, shell, fetch and view."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.options import Options
from smartcrawl.model.program import SCRAPYS
from smartcrawl.spiders.base import VisitSpider
from smartcrawl.terminal.output import print_complaint


class OnePage:
    """Opens no run: the page is looked at, and the registry stays as it is."""

    def run(self: Any, args: list[str], opts: Namespace) -> None:
        """Carry the command out as Scrapy does, unless a setting is wrong."""
        try:
            Options.of(self.settings)
        except SettingError as error:
            print_complaint(SCRAPYS, str(error))
            self.exitcode = 1
            return
        VisitSpider.opens_run = False
        super().run(args, opts)  # type: ignore[misc]  # that of Scrapy's command

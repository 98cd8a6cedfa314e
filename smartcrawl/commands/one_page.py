"""The shared part of Scrapy's commands for one page: parse, shell, fetch and view."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from smartcrawl.spiders.base import VisitSpider


class OnePage:
    """Opens no run: the page is looked at, and the registry stays as it is."""

    def run(self: Any, args: list[str], opts: Namespace) -> None:
        """Carry the command out as Scrapy does."""
        VisitSpider.opens_run = False
        super().run(args, opts)  # type: ignore[misc]  # that of Scrapy's command

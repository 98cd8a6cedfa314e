"""The run of a Scrapy crawler."""

from __future__ import annotations

from typing import Any

from smartcrawl.run.run import Run


def run_of_crawler(crawler: Any) -> Run | None:
    """Return the run of a crawler's spider, or None if the spider has no run."""
    return getattr(crawler.spider, "run", None)

"""The engine, made to look again at once: by itself it does so every five seconds."""

from __future__ import annotations

from scrapy.crawler import Crawler


def wake_engine(crawler: Crawler) -> None:
    """Let the engine ask for a request, and check whether it is idle, at once."""
    slot = crawler.engine._slot if crawler.engine is not None else None
    if slot is not None:
        slot.nextcall.schedule()

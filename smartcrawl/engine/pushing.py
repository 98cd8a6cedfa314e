"""The push of a source to its vector store, after each swept run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing

from scrapy.crawler import Crawler

from smartcrawl.index.vectorstore.ports import Pushed
from smartcrawl.model.exceptions import PushHeldError, SmartcrawlError
from smartcrawl.model.program import program_name
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.model import RunState
from smartcrawl.run.pushing import push_run_source, run_left_uploads_in_words
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)

_STATE = "SELECT state FROM run WHERE no = ?"


async def push_pages_at_crawler_end(crawler: Crawler, run: Run) -> None:
    """Make the vector store equal to the pages of a run that was swept.

    An error leaves the rest to the next run, or to ``scrapy push``: it is no failure of the run.
    """
    options = run.options.vector_store
    if options is None or run.failure is not None or run.opened.over:
        return
    try:
        with run.registry.database.translated("write"):
            pushed = await asyncio.to_thread(_push, run, lambda: not crawler.crawling)
    except PushHeldError as error:
        logger.info("%s", error)
        return
    except SmartcrawlError as error:
        logger.error("%s is not pushed: %s", run.source.name, error)
        return
    if pushed is None:
        return
    for name in ("completed", "detached", "adopted"):
        crawler.stats.set_value(f"push/{name}", getattr(pushed, name))
    crawler.stats.set_value("push/failed", len(pushed.failed))
    for url, why in pushed.failed:
        logger.warning("%s was not pushed: %s", url, why)
    if pushed.error is not None:
        logger.warning("%s", pushed.error)
    logger.info(
        "%s of %s in the vector store %s: %d pushed, %d removed",
        report_noun(pushed.unchanged + pushed.completed, "page"),
        run.source.name,
        options.store,
        pushed.completed,
        pushed.detached,
    )
    if pushed.left:
        command = f"{program_name()} library cleanup --files"
        logger.info("%s", run_left_uploads_in_words(pushed.left, command))
    if not pushed.is_whole:
        logger.warning("the next run, or %s push, tries again", program_name())


def _push(run: Run, is_ending: Callable[[], bool]) -> Pushed | None:
    """Push; None: the run was not swept."""
    options, database = run.options.vector_store, run.registry.database
    assert options is not None, "the caller looked"
    with closing(database.connect()) as connection:
        if connection.execute(_STATE, (run.opened.no,)).get != RunState.SWEPT:
            return None
        return push_run_source(connection, database, options, run.source.name, is_ending=is_ending)

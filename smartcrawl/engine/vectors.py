"""The vectors of a run: what leaves the machine for them, and the debts that its end pays."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Final

from scrapy.crawler import Crawler

from smartcrawl.index.choice import index_writer_of_registry
from smartcrawl.index.debts import (
    PaidDebts,
    RemoteDebts,
    pay_embedded_index_debts,
    remote_index_debts,
)
from smartcrawl.index.embedded.vectors import (
    drop_index_leftovers,
    has_index_vectors,
    index_embedder_number,
)
from smartcrawl.model.exceptions import RegistryError, RunHeldError, SinkError
from smartcrawl.model.option_groups import ON_THIS_MACHINE
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.chunks import RefusedChunks, refused_chunk_counts, refused_reasons_text
from smartcrawl.registry.commit.run_counts import store_embedded_chunk_counts
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.reports.text import report_noun
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)

_LOG_SECONDS: Final = 10  #: between two lines about the embedded chunks


def log_embedding_at_crawler_start(options: Options) -> None:
    """Log where the text of pages is sent to, if it leaves the machine."""
    store = options.vector_store
    if store is not None:
        logger.info(
            "after the run, the text of new and changed pages will be sent to %s, vector store %s",
            store.destination,
            store.store,
        )
    embedder = options.embedder
    if embedder is not None and embedder.name not in ON_THIS_MACHINE:
        logger.info(
            "the text of new and changed pages is sent to %s, model %s",
            embedder.destination,
            embedder.model,
        )


async def pay_debts_at_crawler_end(crawler: Crawler, run: Run) -> None:
    """Embed the chunks of a source that have no vector, after the end of its run.

    An error leaves them for the next run, or for ``embed``. After one that lasts, such as a
    refused key, nothing is asked; nor is it after an order, which ends the run at once. Without an
    embedder, vectors of a former one that nothing uses are dropped.
    """
    if run.is_ending or run.opened.over:
        return
    if run.opened.shared and not run.ending.ended_here:
        return  # one worker pays; two would embed the same chunks
    if run.batches.embedder is None:
        await _drop_leftovers_at_crawler_end(crawler, run)
        return
    try:
        with run.registry.database.translated("write"):
            paid, refused = await asyncio.to_thread(_pay, run, lambda: not crawler.crawling)
    except (RegistryError, RunHeldError, SinkError) as error:
        logger.error("some vectors are missing: %s", error)
        return
    crawler.stats.set_value("embedding/owed", paid.owed)
    if paid.error is not None:
        logger.warning("%s", paid.error)
    if paid.owed:
        logger.warning(
            "%s without a vector; the next run, or %s embed, tries again",
            report_noun(paid.owed, "chunk"),
            program_name(),
        )
    if refused:
        _log_refused(refused, run)


def _log_refused(refused: Sequence[RefusedChunks], run: Run) -> None:
    """Log how many chunks of a source are refused and why; a server may take them later."""
    embedder = run.batches.embedder
    level, again = logging.INFO, ""
    if embedder is not None and embedder.destination is not None:
        level, again = logging.WARNING, f"; to try again: {program_name()} embed --refused"
    logger.log(
        level,
        "%s refused by the embedder, so without a vector (%s)%s",
        report_noun(sum(one.number for one in refused), "chunk"),
        refused_reasons_text([one.reason for one in refused]),
        again,
    )


def drop_embedding_at_crawler_end(crawler: Crawler, run: Run) -> None:
    """Let an order that drops a run's work end a call of its embedder, too.

    After a signal the last batches are written with the vectors that they have by then.
    """
    if run.batches.embedder is not None:
        run.halt.when_dropped(run.batches.embedder.close)
        run.batches.is_stopping = lambda: not crawler.crawling


def close_embedder_at_crawler_end(run: Run) -> None:
    """Close the embedder that ``open_run`` opened, at the very end of a run."""
    if run.batches.embedder is not None:
        run.batches.embedder.close()


def embedded_chunks_log(clock: Callable[[], float] = time.monotonic) -> Callable[[int], None]:
    """Return a function that logs how many chunks are embedded, at most every ten seconds.

    ``clock`` measures seconds.
    """
    due = clock() + _LOG_SECONDS

    def report(number: int) -> None:
        nonlocal due
        if clock() >= due:
            due = clock() + _LOG_SECONDS
            logger.info("%s embedded so far", report_noun(number, "chunk"))

    return report


async def _drop_leftovers_at_crawler_end(crawler: Crawler, run: Run) -> None:
    try:
        with run.registry.database.translated("write"):
            await asyncio.to_thread(_drop_leftovers, run, lambda: not crawler.crawling)
    except (RegistryError, RunHeldError, SinkError) as error:
        logger.warning("unused vectors could not be removed yet: %s", error)


def _drop_leftovers(run: Run, is_ending: Callable[[], bool]) -> None:
    now = int(time.time())
    with ExitStack() as stack:
        connection = stack.enter_context(closing(run.registry.database.connect()))
        if has_index_vectors(connection):
            elsewhere = _debts_elsewhere(run, connection, stack, is_ending, now)
            drop_index_leftovers(
                connection,
                now=now,
                ttl=run.options.undo_ttl,
                is_ending=is_ending,
                elsewhere=elsewhere,
            )


def _debts_elsewhere(
    run: Run, connection: Connection, stack: ExitStack, is_ending: Callable[[], bool], now: int
) -> RemoteDebts | None:
    """Return the debts of an index elsewhere, whose lease and connections ``stack`` closes."""
    if run.options.elasticsearch is None:
        return None
    if not run.opened.shared:  # the run has closed its own index, and left its lease
        since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        stack.callback(run.registry.database.take(run.source.name, since).release)
    indexing = index_writer_of_registry(run.options, connection)
    stack.callback(indexing.close)
    indexing.stop_when(is_ending)
    return remote_index_debts(indexing)


def _pay(run: Run, is_ending: Callable[[], bool]) -> tuple[PaidDebts, list[RefusedChunks]]:
    """Pay the debts of a run's source; return the result, and its chunks that are refused."""
    embedder, now = run.batches.embedder, int(time.time())
    assert embedder is not None, "the caller looked"
    embedder.end_pause()
    with ExitStack() as stack:
        connection = stack.enter_context(closing(run.registry.database.connect()))
        elsewhere = _debts_elsewhere(run, connection, stack, is_ending, now)
        paid = pay_embedded_index_debts(
            connection,
            embedder,
            sources=[run.source.name],
            now=now,
            ttl=run.options.undo_ttl,
            report=embedded_chunks_log(),
            is_ending=is_ending,
            is_off=run.batches.embeds_no_more,
            elsewhere=elsewhere,
            unanswered=run.batches.unanswered,
        )
        with transaction(connection):
            store_embedded_chunk_counts(connection, run.opened.no, paid.embedded, paid.owed)
        number = index_embedder_number(connection, embedder)
        return paid, refused_chunk_counts(connection, number or 0, [run.source.name])

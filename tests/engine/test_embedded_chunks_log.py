"""Vectors at the end of a run: what is logged, and what is waited for."""

import logging
from unittest.mock import Mock

import pytest

from smartcrawl.engine.vectors import drop_embedding_at_crawler_end, embedded_chunks_log


def test_a_run_that_embeds_for_long_says_so_every_ten_seconds(caplog: pytest.LogCaptureFixture):
    now = [0.0]
    report = embedded_chunks_log(lambda: now[0])

    with caplog.at_level(logging.INFO):
        for now[0], number in ((1, 8), (9.9, 80), (10, 81), (15, 120), (20, 160)):
            report(number)

    assert [record.getMessage() for record in caplog.records] == [
        "81 chunks embedded so far", "160 chunks embedded so far",
    ]  # fmt: skip


def test_vectors_are_waited_for_until_a_signal_stops_the_crawl():
    """An embedder is closed by an order alone; a signal lets the last batches be written."""
    crawler, run = Mock(crawling=True), Mock()

    drop_embedding_at_crawler_end(crawler, run)

    assert not run.batches.is_stopping()
    crawler.crawling = False
    assert run.batches.is_stopping()
    run.halt.when_dropped.assert_called_once_with(run.batches.embedder.close)

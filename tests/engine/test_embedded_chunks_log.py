"""The lines of a run that embeds at its end."""

import logging

import pytest

from smartcrawl.engine.vectors import embedded_chunks_log


def test_a_run_that_embeds_for_long_says_so_every_ten_seconds(caplog: pytest.LogCaptureFixture):
    now = [0.0]
    report = embedded_chunks_log(lambda: now[0])

    with caplog.at_level(logging.INFO):
        for now[0], number in ((1, 8), (9.9, 80), (10, 81), (15, 120), (20, 160)):
            report(number)

    assert [record.getMessage() for record in caplog.records] == [
        "81 chunks embedded so far", "160 chunks embedded so far",
    ]  # fmt: skip

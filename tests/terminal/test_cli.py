"""Messages that every command prints beside its answer."""

import logging

import pytest

from smartcrawl.terminal.command import warnings_printed


def test_a_command_tells_what_it_waits_for_and_nothing_less(capsys: pytest.CaptureFixture[str]):
    logger = logging.getLogger("smartcrawl.index.writing")
    with warnings_printed("audit"):
        logger.warning("waiting for %s", "http://127.0.0.1:9200")
        logger.info("no warning")
    logger.warning("after its end")

    assert capsys.readouterr() == ("", "audit: waiting for http://127.0.0.1:9200\n")

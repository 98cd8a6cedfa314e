"""What every command tells people beside its answer."""

import logging

import pytest

from smartcrawl.engine.command import warnings_told


def test_a_command_tells_what_it_waits_for_and_nothing_less(capsys: pytest.CaptureFixture[str]):
    logger = logging.getLogger("smartcrawl.index.writing")
    with warnings_told("audit"):
        logger.warning("waiting for %s", "http://127.0.0.1:9200")
        logger.info("nothing that anybody wants to know")
    logger.warning("after its end")

    assert capsys.readouterr() == ("", "audit: waiting for http://127.0.0.1:9200\n")

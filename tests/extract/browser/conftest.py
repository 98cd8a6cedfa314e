"""The browser of these tests: one for each process that runs them."""

from collections.abc import Iterator

import pytest

from tests.extract.browser.shown import Shown, shown_browser


@pytest.fixture(scope="session")
def shown(program: str) -> Iterator[Shown]:
    with shown_browser(program) as opened:
        yield opened

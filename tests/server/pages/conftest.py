"""One browser for all tests of pages, and a tab of its own for each."""

from collections.abc import Iterator

import pytest

from tests.server.pages.chrome import Browser, Tab, browsing


@pytest.fixture(scope="session")
def browser(program: str) -> Iterator[Browser]:
    with browsing(program) as started:
        yield started


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    with browser.tab() as opened:
        yield opened

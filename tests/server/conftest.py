"""Processes that are pretended, for tests of the runner of each kind of work."""

from collections.abc import Iterator

import pytest

from tests.server import parts
from tests.server.fake_crawls import FakeSystem

parts.share()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Close what the applications of a test left open."""
    parts.close_connections()


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSystem]:
    system = FakeSystem(monkeypatch)
    yield system
    system.close()

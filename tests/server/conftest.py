"""Processes that are pretended, for tests of the runner of each kind of work."""

from collections.abc import Iterator

import pytest

from tests.server import parts
from tests.server.fake_crawls import FakeSystem

parts.share()


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSystem]:
    system = FakeSystem(monkeypatch)
    yield system
    system.close()

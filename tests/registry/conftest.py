"""A registry in memory for one test, and one in a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.registry.build import Desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    """One source of a registry in memory, with a run that is open."""
    desk = Desk()
    desk.open()
    yield desk
    desk.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a registry may lie."""
    return tmp_path / "data" / "registry.db"

"""A registry in a file."""

from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a registry may lie."""
    return tmp_path / "data" / "registry.db"

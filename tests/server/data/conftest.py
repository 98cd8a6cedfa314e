"""Registries in either database that the API reads."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.registry.spare import Spare
from tests.server.data.library import Library


@pytest.fixture(params=["sqlite", "postgres"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Library]:
    """An empty registry, and an API."""
    place: Path | str = tmp_path / "data" / "registry.db"
    put_back: Callable[[str], None] = lambda _: None  # noqa: E731
    if request.param == "postgres":
        spare: Spare = request.getfixturevalue("spare_registries")
        place, put_back = spare.take(), spare.put_back
    library = Library(place, tmp_path)
    yield library
    library.close()
    put_back(str(place))

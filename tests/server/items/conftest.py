"""APIs over registries in either database, with a site that one source has."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from smartcrawl.model.urls import url_digest, url_item_id
from smartcrawl.registry.connection import transaction
from tests.registry.spare import Spare
from tests.server.api_client import ask
from tests.server.data.library import Library

KNOWN = "https://docs.example.com/known"
ADD, REINDEX, REBUILD = "/api/AddUrlDocument", "/api/ReindexItem", "/api/RebuildIndex"


def item_id(url: str) -> str:
    return url_item_id("url", url_digest(url))


class Desk(Library):
    """A registry with the declared source *one*, and an API."""

    def __init__(self, place: Path | str, folder: Path) -> None:
        super().__init__(place, folder)
        self.sources_file = folder / "sources.toml"
        self.declare("[sources.one]\nseeds = ['https://docs.example.com/']\n")
        self.put(KNOWN)

    def declare(self, text: str) -> None:
        self.sources_file.write_text(text)

    def post(self, path: str, body: object, **given: Any) -> httpx.Response:
        return ask(self.app, "POST", path, json=body, **given)

    def order(self, path: str, **body: object) -> dict[str, Any]:
        answer = self.post(path, body)
        assert answer.status_code == 202, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with transaction(self.connection):
            return [tuple(row) for row in self.connection.execute(statement, values).fetchall()]

    def waiting(self) -> list[str]:
        """The sources whose ordered runs wait."""
        return [name for (name,) in self.rows(
            "SELECT source FROM due_run ORDER BY source"
        )]  # fmt: skip

    def addresses(self) -> list[tuple[str, str, int]]:
        """The added addresses that no run has registered."""
        return [(s, u, n) for s, u, n in self.rows(
            "SELECT source, url, forced FROM ordered_address ORDER BY source, url"
        )]  # fmt: skip

    def add_job(self, name: str, url: str, **changes: object) -> None:
        definition = json.dumps({"seed_urls": [url]})
        row = {
            "id": f"job_{name}",
            "name": name,
            "definition": definition,
            "created_at": 1,
        } | changes
        self.connection.fill("job", list(row), [tuple(row.values())])


@pytest.fixture(params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    if request.param == "sqlite":
        desk = Desk(tmp_path / "data" / "registry.db", tmp_path)
        yield desk
        desk.close()
        return
    spare: Spare = request.getfixturevalue("spare_registries")
    place = spare.take()
    desk = Desk(place, tmp_path)
    yield desk
    desk.close()
    spare.put_back(place)

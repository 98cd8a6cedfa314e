"""Registries for jobs, in either database, which several servers open at once."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.jobs.clock import JobClock
from smartcrawl.server.jobs.store import JobStore
from smartcrawl.sources.jobs import JobDefinition
from tests.registry.build import begin_registry
from tests.registry.spare import Spare
from tests.server.api_client import application, ask

NOW = 1_705_744_800  #: 2024-01-20T10:00:00Z


JOBS = "/api/v1/jobs"


class Office:
    """One registry, and the stores and clocks of servers that share it."""

    def __init__(self, place: Path | str) -> None:
        self.place = place
        begin_registry(place)
        self.database = registry_database(place)
        self._opened: list[Connection] = []
        self.connection = self.connect()
        self.store = JobStore(self.database, self.connection)
        self.clock = JobClock(self.database, self.connection)

    def connect(self) -> Connection:
        self._opened.append(self.database.open())
        return self._opened[-1]

    def other_store(self) -> JobStore:
        return JobStore(self.database, self.connect())

    def other_clock(self) -> JobClock:
        return JobClock(self.database, self.connect())

    def create(self, name: str = "docs", *, now: int = NOW, **changes: object):
        """Create a job; with ``cron`` a recurring one."""
        return self.store.create(defined(name, now=now, **changes), (), now)

    def rows(self, statement: str, *values: object) -> list:
        return [tuple(row) for row in self.connection.execute(statement, values).fetchall()]

    def close(self) -> None:
        for connection in self._opened:
            connection.close()


def defined(
    name: str = "docs", *, cron: str | None = None, now: int = NOW, **changes: object
) -> JobDefinition:
    schedule = {"type": "one_time"} if cron is None else {"type": "recurring", "cron": cron}
    body = {"name": name, "seed_urls": ["https://docs.example.com/"], "schedule": schedule}
    return JobDefinition.checked(body | changes, now)


@pytest.fixture(params=["sqlite", "postgres"])
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Office]:
    """An empty registry."""
    place: Path | str = tmp_path / "data" / "registry.db"
    put_back: Callable[[str], None] = lambda _: None  # noqa: E731
    if request.param == "postgres":
        spare: Spare = request.getfixturevalue("spare_registries")
        place, put_back = spare.take(), spare.put_back
    office = Office(place)
    yield office
    office.close()
    put_back(str(place))


class Api:
    """An application and its registry."""

    def __init__(self, folder: Path, place: Path | str, **changed: object) -> None:
        self.now = float(NOW)
        self.place = place
        self.folder = folder
        begin_registry(place)
        self.app = self.server(**changed)
        self.database = registry_database(place)
        self.connection = self.database.open()
        self.store = JobStore(self.database, self.connection)
        self.clock = JobClock(self.database, self.connection)

    def server(self, **changed: object) -> ASGIApp:
        """Another server of the registry."""
        return application(
            self.folder, clock=lambda: self.now, run={"registry": self.place}, **changed
        )

    def ask(self, method: str, path: str = "", **given: Any) -> httpx.Response:
        return ask(self.app, method, JOBS + path, **given)

    def create(self, name: str = "docs", **changed: Any) -> dict[str, Any]:
        answer = self.ask("POST", json=body(name, **changed))
        assert answer.status_code == 201, answer.text
        return answer.json()

    def rows(self, statement: str) -> list[tuple]:
        return [tuple(row) for row in self.connection.execute(statement).fetchall()]


@pytest.fixture(params=["sqlite", "postgres"])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    if request.param == "sqlite":
        api = Api(tmp_path, tmp_path / "registry.db")
        yield api
        api.connection.close()
        return
    spare: Spare = request.getfixturevalue("spare_registries")
    place = spare.take()
    api = Api(tmp_path, place)
    yield api
    api.connection.close()
    spare.put_back(place)


def body(name: str = "docs", **changed: Any) -> dict[str, Any]:
    found = {"name": name, "seed_urls": ["https://docs.example.com/"], **changed}
    return {key: value for key, value in found.items() if value is not None}

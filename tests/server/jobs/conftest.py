"""Registries for jobs, in either database, which several servers open at once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import database_of
from smartcrawl.server.jobs.clock import JobClock
from smartcrawl.server.jobs.store import JobStore
from smartcrawl.sources.jobs.definition import JobDefinition
from tests.registry.spare import Spare

NOW = 1_705_744_800  #: 2024-01-20T10:00:00Z


class Office:
    """One registry, and the stores and clocks of servers that share it."""

    def __init__(self, place: Path | str) -> None:
        self.place = place
        self.database = database_of(place)
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

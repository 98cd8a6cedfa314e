"""Registries in a file and in PostgreSQL: one contract, the same tests (design.md 5)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from smartcrawl.ports import Connection
from smartcrawl.registry.postgres import PostgresDatabase
from tests import servers
from tests.registry.build import Desk

#: Modules whose tests ask nothing of one database alone.
CONTRACT = (
    "test_outcome_absence", "test_outcome_table", "test_registry_choices", "test_registry_clones",
    "test_registry_commit", "test_registry_items", "test_registry_purge", "test_registry_reports",
    "test_registry_runs", "test_registry_status", "test_registry_tombstones",
)  # fmt: skip
_TABLES = (
    "SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables WHERE schemaname = 'public'"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a registry may lie."""
    return tmp_path / "data" / "registry.db"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the contract with both databases; the name of the database is in the test's id."""
    name = metafunc.module.__name__.rpartition(".")[2]
    only = metafunc.definition.get_closest_marker("sqlite") is not None
    if name in CONTRACT and not only:
        metafunc.parametrize("database", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(autouse=True)
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The database that registries of a test lie in."""
    name = getattr(request, "param", "sqlite")
    if name == "postgres":
        opened: list[Connection] = []
        spare: Spare = request.getfixturevalue("spare_registries")
        places: dict[Path | None, str] = {}

        def connected(path: Path | None) -> Connection:
            key = path if path is not None else Path(f"memory {len(places)}")
            if key not in places:
                places[key] = spare.take()
            opened.append(PostgresDatabase(places[key]).open())
            return opened[-1]

        monkeypatch.setattr(Desk, "connected", staticmethod(connected))
        yield name
        for connection in opened:
            connection.close()
        for url in places.values():
            spare.put_back(url)
    else:
        yield name


class Spare:
    """Empty registries that are used again: to make one takes longer than most tests."""

    def __init__(self, server: servers.Postgres, make: Callable[[], str]) -> None:
        self._server = server
        self._make = make
        self._spare: list[str] = []

    def take(self) -> str:
        return self._spare.pop() if self._spare else self._make()

    def put_back(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute(_TABLES).fetchone()
            assert row is not None
            tables = (
                str(row[0]).replace("smartcrawl_schema, ", "").replace(", smartcrawl_schema", "")
            )
            connection.execute(f"TRUNCATE {tables} RESTART IDENTITY".encode())
            connection.execute(
                "INSERT INTO sequence (name, value) VALUES ('number', 0), ('address', 0)"
            )
        self._spare.append(url)


@pytest.fixture(scope="session")
def spare_registries(postgres: servers.Postgres) -> Iterator[Spare]:
    """Registries in the PostgreSQL of this worker."""
    made = []

    def make() -> str:
        within = postgres.database()
        made.append(within)
        return within.__enter__()

    yield Spare(postgres, make)
    for within in made:
        within.__exit__(None, None, None)

"""Registries in a file and in PostgreSQL: one contract, the same tests (ADR 28).

The conftest.py of each folder with such tests imports all of it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.model.urls import Trackers
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.database.sqlite import SqliteDatabase
from tests.registry.build import Desk, begin_registry
from tests.registry.spare import Spare

#: Modules whose tests ask nothing of one database alone.
CONTRACT = (
    "test_outcome_absence", "test_outcome_removal", "test_outcome_table", "test_registry_absent",
    "test_registry_away", "test_registry_choices", "test_registry_clones",
    "test_registry_collapsed", "test_registry_commit", "test_registry_guard",
    "test_registry_items", "test_registry_listed", "test_registry_orders", "test_registry_pages",
    "test_registry_purge", "test_registry_renamed", "test_registry_reports", "test_registry_runs",
    "test_registry_seed_names", "test_registry_sharing", "test_registry_status",
    "test_registry_tombstones", "test_login_rows", "test_process_rows", "test_rendered_rows",
    "test_render_sample_rows",
    "test_registry_views", "test_run_counts", "test_seed_fields", "test_file_items",
    "test_registry_equal_bytes", "test_registry_renamed_pins", "test_exported_pages",
    "test_mcp_registry", "test_tables_manual", "test_run_samples", "test_run_hosts",
)  # fmt: skip
#: The same, of which those in PostgreSQL need its extension vector.
OF_VECTORS = ("test_vectors",)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a registry may lie."""
    return tmp_path / "data" / "registry.db"


@pytest.fixture
def begun(database: str, file: Path) -> Iterator[tuple[Database, Connection]]:
    """A registry with its schema, and a connection for writing."""
    begin_registry(file)
    place = (Desk.database or SqliteDatabase)(file)
    connection = place.open()
    yield place, connection
    connection.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the contract with both databases; the name of the database is in the test's id."""
    name = metafunc.module.__name__.rpartition(".")[2]
    only = metafunc.definition.get_closest_marker("sqlite") is not None
    if name in (*CONTRACT, *OF_VECTORS) and not only:
        metafunc.parametrize("database", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(autouse=True)
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The database that registries of a test lie in."""
    name = getattr(request, "param", "sqlite")
    if name == "postgres":
        opened: list[Connection] = []
        of_vectors = request.node.path.stem in OF_VECTORS
        spares = "spare_vector_registries" if of_vectors else "spare_registries"
        spare: Spare = request.getfixturevalue(spares)
        places: dict[Path | None, str] = {}

        def of_file(path: Path | None) -> PostgresDatabase:
            key = path if path is not None else Path(f"memory {len(places)}")
            if key not in places:
                places[key] = spare.take()
            return PostgresDatabase(places[key])

        def connected(path: Path | None) -> Connection:
            opened.append(of_file(path).open())
            return opened[-1]

        def reports(path: Path, trackers: Trackers) -> Connection:
            opened.append(PostgresDatabase(places[path]).reports(trackers))
            return opened[-1]

        monkeypatch.setattr(Desk, "connected", staticmethod(connected))
        monkeypatch.setattr(Desk, "database", staticmethod(of_file))
        monkeypatch.setattr(Desk, "reports", staticmethod(reports))
        yield name
        for connection in opened:
            connection.close()
        for url in places.values():
            spare.put_back(url)
    else:
        yield name

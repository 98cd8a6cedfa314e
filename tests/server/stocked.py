"""An API with some data of each kind, on either database."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.jobs.store import JobStore
from smartcrawl.server.keys import Scope, make_api_key
from tests.registry.spare import Spare
from tests.server.api_client import application
from tests.server.data.library import Library
from tests.server.jobs.conftest import NOW, defined

UNLIMITED = {"jobs_limit": 10**9, "data_limit": 10**9, "monitoring_limit": 10**9}


class Stocked:
    """An application and its registry, with documents, a recurring, a plain and a deleted job."""

    def __init__(self, place: Path | str, folder: Path, **server: object) -> None:
        self.place = place
        self.library = Library(place, folder)
        self.hashes = [
            self.library.put(f"https://{host}/article/{number}")
            for host in ("example.com", "a.example:8080")
            for number in range(5)
        ]
        database = registry_database(place)
        self.connection = database.open()
        store = JobStore(database, self.connection)
        self.job = store.create(defined("recurring", cron="0 3 * * 1"), (), NOW).id
        self.other_job = store.create(defined("plain"), (), NOW).id
        self.deleted_job = store.create(defined("deleted"), (), NOW).id
        store.delete(self.deleted_job, NOW)
        with transaction(self.connection):
            self.key, _ = make_api_key(self.connection, "tests", Scope.ADMIN, 0)
        self.app: ASGIApp = application(
            folder, run={"registry": place}, clock=lambda: float(NOW), **(UNLIMITED | server)
        )

    def close(self) -> None:
        self.library.close()
        self.connection.close()


@contextmanager
def stocked(request: pytest.FixtureRequest, folder: Path, **server: object) -> Iterator[Stocked]:
    """Yield one in the database that the fixture's parameter names."""
    if request.param == "sqlite":
        made = Stocked(folder / "registry.db", folder, **server)
        yield made
        made.close()
        return
    spare: Spare = request.getfixturevalue("spare_registries")
    place = spare.take()
    made = Stocked(place, folder, **server)
    yield made
    made.close()
    spare.put_back(place)

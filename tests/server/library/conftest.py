"""Jobs of libraries over registries in either database; the processes are pretended."""

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest

from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.jobs import (
    LibraryJobEnd,
    begin_library_job_row,
    end_library_job_row,
    library_job_order_row,
)
from smartcrawl.rules.model import RunOrder
from smartcrawl.server.jobs.library_store import LibraryJob, LibraryJobs, LibraryWork
from smartcrawl.server.jobs.runner import CrawlProgram, LocalCrawls, Runner
from tests.registry.spare import Spare
from tests.server.api_client import ask
from tests.server.data.library import NOW
from tests.server.fake_crawls import FakeProcess, FakeSystem, dead_server, fake_program
from tests.server.items.conftest import Desk


def declare(folder: Path, domain: str = "DOMAIN01", **more: object) -> None:
    """Write a domain.json with a source of each kind."""
    place = folder / "library" / "domains" / domain
    place.mkdir(parents=True, exist_ok=True)
    site = {"site_url": "https://contoso.sharepoint.com/sites/a", "filter": ""}
    library = {"source_id": "source01", "sharepoint_url_part": "/Shared Documents"}
    content = {
        "name": "Demo",
        "file_sources": [site | library],
        "list_sources": [site | {"source_id": "list01", "list_name": "Tasks"}],
        "sitepage_sources": [],
    }
    (place / "domain.json").write_text(json.dumps(content | more))


class Quay:
    """A runner, and the processes that it starts."""

    def __init__(self, desk: Desk, folder: Path, system: FakeSystem) -> None:
        self.desk = desk
        self.system = system
        self.logs = folder / "logs"
        self.program: CrawlProgram = fake_program(
            system, self.logs, self.life, library=("library",)
        )
        self.children: dict[str, FakeProcess] = {}
        self.gone: dict[str, int] = {}  #: exit statuses of the jobs that wait no more

    def life(self, process: FakeProcess) -> Generator[None, None, int]:
        """Begin a job, and end it when the test or an order says so."""
        connection = self.desk.database.open()
        try:
            place = process.words.index("-a")
            id_ = process.words[place + 1].removeprefix("_job=")
            with transaction(connection):
                progress = begin_library_job_row(connection, id_)
            process.print(json.dumps([process.words[1:place], progress]))
            if progress is None:
                return 4
            order = None
            while order is None and id_ not in self.gone:
                yield
                order = library_job_order_row(connection, id_)
            if order is None and self.gone[id_] not in (0, 3):
                return self.gone[id_]
            with transaction(connection):
                end_library_job_row(connection, id_, self.end(id_, order), 1)
            return 0
        finally:
            connection.close()

    def end(self, id_: str, order: RunOrder | None) -> LibraryJobEnd:
        if order is None:
            status = self.gone[id_]
            return LibraryJobEnd("ended", status, {"complete": status == 0})
        if order is RunOrder.PAUSE:
            return LibraryJobEnd("paused", 3, progress={"done": ["a"]})
        return LibraryJobEnd("cancelled", 3, {"complete": False})

    def runner(self, most: int = 2, connection: Connection | None = None) -> Runner:
        database = self.desk.database
        crawls = LocalCrawls(database, self.program)
        crawls.children = self.children
        return Runner(
            database, LibraryWork(database, connection or self.desk.connection), crawls, most
        )

    def job(self, id_: str) -> LibraryJob:
        return LibraryJobs(self.desk.connection).get(id_)

    def go(self, id_: str, status: int = 0) -> None:
        self.gone[id_] = status

    def begun(self, id_: str) -> list:
        """The words and the progress of each process that was started for a job."""
        log = self.logs / f"{id_}.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def watched(self, runner: Runner, done: Callable[[], object], now: int) -> None:
        for _ in range(100):
            if done():
                return
            self.system.step()
            runner.tick(now)
        raise AssertionError(self.desk.rows("SELECT * FROM library_job"))

    def lose_server(self, *, host: str | None = None) -> None:
        """Let the server that started everything be a dead one."""
        mark = str(dead_server(host))
        self.desk.rows("UPDATE process SET server = ? WHERE server IS NOT NULL", mark)
        self.children.clear()

    @contextmanager
    def serving(self, status: int = 0) -> Iterator[None]:
        """Carry out what is ordered, in a thread; each job ends with a status."""
        ending = Event()
        database = registry_database(self.desk.place)

        def work() -> None:
            connection = database.open()
            runner = self.runner(connection=connection)
            while not ending.wait(0.02):
                runner.tick(NOW)
                self.system.step()
                for (id_,) in connection.execute("SELECT id FROM library_job").fetchall():
                    self.go(id_, status)
            connection.close()

        thread = Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()

    def ask(self, method: str, path: str, **given: object) -> httpx.Response:
        return ask(self.desk.app, method, path, **given)


@pytest.fixture(params=["sqlite", "postgres"])
def quay(request: pytest.FixtureRequest, tmp_path: Path, system: FakeSystem) -> Iterator[Quay]:
    if request.param == "sqlite":
        place: Path | str = tmp_path / "data" / "registry.db"
        desk = Desk(place, tmp_path)
    else:
        spare: Spare = request.getfixturevalue("spare_registries")
        place = spare.take()
        desk = Desk(place, tmp_path)
    desk.place = place
    yield Quay(desk, tmp_path, system)
    system.close()
    desk.close()
    if isinstance(place, str):
        request.getfixturevalue("spare_registries").put_back(place)

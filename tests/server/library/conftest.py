"""Jobs of libraries over registries in either database, carried out by a process of the tests."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest

from smartcrawl.model.processes import Process
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.jobs.library_job import LibraryJob
from smartcrawl.server.jobs.library_launcher import LibraryLauncher
from smartcrawl.server.jobs.library_store import LibraryJobs
from smartcrawl.server.jobs.local import CrawlProgram
from tests.registry.spare import Spare
from tests.server.api_client import ask
from tests.server.data.library import NOW
from tests.server.items.conftest import Desk

#: A command that begins its job, and ends it when a file or an order says so.
SCRIPT = """
import json, os, sys, time
from pathlib import Path
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.library.job_rows import (
    LibraryJobEnd, begin_library_job_row, end_library_job_row, library_job_order_row)

place = os.environ["PLACE"]
database = registry_database(Path(place) if place.startswith("/") else place)
connection = database.open()
id_ = sys.argv[sys.argv.index("-a") + 1].removeprefix("_job=")
words = sys.argv[1:sys.argv.index("-a")]
with transaction(connection):
    progress = begin_library_job_row(connection, id_)
print(json.dumps([words, progress]), flush=True)
if progress is None:
    sys.exit(4)
go = Path(os.environ["FOLDER"]) / f"go-{id_}"
order = None
while order is None and not go.exists():
    time.sleep(0.02)
    order = library_job_order_row(connection, id_)
if order is None:
    status = int(go.read_text())
    if status not in (0, 3):
        sys.exit(status)
    end = LibraryJobEnd("ended", status, {"complete": status == 0})
elif order == "pause":
    end = LibraryJobEnd("paused", 3, progress={"done": ["a"]})
else:
    end = LibraryJobEnd("cancelled", 3, {"complete": False})
with transaction(connection):
    end_library_job_row(connection, id_, end, 1)
"""


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
    """A launcher, and the processes that it starts."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk = desk
        self.folder = folder
        self.logs = folder / "logs"
        (folder / "script.py").write_text(SCRIPT)
        root = str(Path(__file__).resolve().parents[3])
        environment = os.environ | {
            "FOLDER": str(folder),
            "PLACE": str(desk.place),
            "PYTHONPATH": root,
        }
        library = (sys.executable, str(folder / "script.py"))
        self.program = CrawlProgram(("false",), environment, self.logs, library=library)
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.lost: list[subprocess.Popen[bytes]] = []

    def launcher(self, most: int = 2) -> LibraryLauncher:
        return LibraryLauncher(
            self.desk.database, self.desk.connection, self.program, most, self.children
        )

    def job(self, id_: str) -> LibraryJob:
        return LibraryJobs(self.desk.connection).get(id_)

    def go(self, id_: str, status: int = 0) -> None:
        (self.folder / f"go-{id_}.new").write_text(str(status))
        (self.folder / f"go-{id_}.new").rename(self.folder / f"go-{id_}")

    def begun(self, id_: str) -> list:
        """The words and the progress of each process that was started for a job."""
        log = self.logs / f"{id_}.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def watched(self, launcher: LibraryLauncher, done: Callable[[], object], now: int) -> None:
        until = time.monotonic() + 60
        while not done():
            assert time.monotonic() < until, self.desk.rows("SELECT * FROM library_job")
            launcher.watch(now)
            launcher.start_waiting(now)
            time.sleep(0.02)

    def lose_server(self, *, host: str | None = None) -> None:
        """Let the server that started everything be a dead one."""
        dead = subprocess.Popen([sys.executable, "-c", ""])
        mark = Process.of(dead.pid)
        dead.wait()
        mark = Process(host or mark.host, mark.pid, mark.start)
        self.desk.rows("UPDATE library_job SET server = ? WHERE server IS NOT NULL", str(mark))
        self.lost += self.children.values()
        self.children.clear()

    @contextmanager
    def serving(self, status: int = 0) -> Iterator[None]:
        """Carry out what is ordered, in a thread; each job ends with a status."""
        ending = Event()
        database = registry_database(self.desk.place)

        def work() -> None:
            connection = database.open()
            launcher = LibraryLauncher(database, connection, self.program, 2, self.children)
            while not ending.wait(0.05):
                launcher.watch(NOW)
                launcher.start_waiting(NOW)
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
def quay(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Quay]:
    if request.param == "sqlite":
        place: Path | str = tmp_path / "data" / "registry.db"
        desk = Desk(place, tmp_path)
    else:
        spare: Spare = request.getfixturevalue("spare_registries")
        place = spare.take()
        desk = Desk(place, tmp_path)
    desk.place = place
    quay = Quay(desk, tmp_path)
    yield quay
    for child in (*quay.children.values(), *quay.lost):
        child.kill()
        child.wait()
    desk.close()
    if isinstance(place, str):
        request.getfixturevalue("spare_registries").put_back(place)

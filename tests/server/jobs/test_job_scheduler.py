"""The scheduler: alone over a simulated month, and in `smartcrawl serve` with real crawls."""

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from smartcrawl.model.processes import Process
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.run_orders import JobStatus
from smartcrawl.server.jobs.declared import KnownJobs, api_job_id
from smartcrawl.server.jobs.runner import Runner
from smartcrawl.server.jobs.scheduler import CrawlRuns, JobScheduler
from smartcrawl.server.jobs.store import JobStore, RunStage
from smartcrawl.sources.jobs import JobSchedule
from tests.registry.build import begin_registry
from tests.registry.spare import Spare
from tests.server.fake_crawls import NoCrawls
from tests.server.jobs.conftest import NOW, Office, defined
from tests.server.test_serve import Server, serving
from tests.site_server import Page, Site, html

HOUR, DAY = 3_600, 86_400


@pytest.mark.covers("R2-23")
def test_two_schedulers_fire_each_time_of_a_month_once(office: Office):
    office.create("hourly", cron="0 * * * *")
    office.create("weekly", cron="30 4 * * 1")

    def scheduler() -> JobScheduler:
        connection = office.connect()
        runner = Runner(office.database, CrawlRuns(office.database, connection), NoCrawls(), 0)
        clock = type(office.clock)(office.database, connection)
        return JobScheduler(clock, runner)

    servers = [scheduler(), scheduler()]
    for now in range(NOW, NOW + 30 * DAY, HOUR // 2):
        for server in servers:
            server.tick(now)
        office.connection.execute(
            "UPDATE job_run SET state = 'ended', ended_at = ? WHERE state = 'waiting'", (now,)
        )

    fired = office.rows("SELECT j.name, k.due_at FROM job_run k JOIN job j ON j.no = k.job")
    assert Counter(name for name, _ in fired) == {"hourly": 30 * 24 - 1, "weekly": 5}
    assert len(set(fired)) == len(fired)


class Desk:
    """The registry of a server that runs, seen from outside."""

    def __init__(self, folder: Path, place: Path | str) -> None:
        self.folder = folder
        self.settings = OPEN | ({} if isinstance(place, Path) else {"REGISTRY_URL": place})
        begin_registry(place)
        self.database = registry_database(place)
        self.connection = self.database.open()
        self.store = JobStore(self.database, self.connection)

    def create(self, site: Site, **config: object) -> str:
        now = int(time.time())
        definition = defined(
            "docs",
            now=now,
            seed_urls=[site.url("/")],
            config={"crawl_delay_ms": 0, "respect_robots_txt": False, **config},
        )
        return self.store.create(definition, (), now).id

    def status(self, id_: str) -> JobStatus:
        return self.store.get(id_).status

    def runs(self) -> list[tuple]:
        look = (  # one that waits has no process yet
            "SELECT id, state, coalesce(starts, 0), run FROM job_run NATURAL LEFT JOIN process"
            " ORDER BY no"
        )
        return [tuple(row) for row in self.connection.execute(look).fetchall()]

    def crawler(self) -> Process | None:
        begun = CrawlRuns(self.database, self.connection).begun()
        return begun[0].started.process if begun else None

    def until(self, done: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not done():
            logs = [log.read_text() for log in self.folder.glob("logs/*")]
            assert time.monotonic() < end, (self.runs(), *logs)
            time.sleep(0.05)


def opened(folder: Path, place: Path | str) -> Iterator[Desk]:
    desk = Desk(folder, place)
    yield desk
    process = desk.crawler()
    if process is not None and process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    desk.connection.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield from opened(tmp_path, tmp_path / "registry.db")


@pytest.fixture(params=["sqlite", "postgres", "workers"])
def any_desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    if request.param == "sqlite":
        yield from opened(tmp_path, tmp_path / "registry.db")
        return
    spare: Spare = request.getfixturevalue("spare_registries")
    place = spare.take()
    for desk in opened(tmp_path, place):
        if request.param == "workers":  # its crawls are open to other workers
            desk.settings["REDIS_URL"] = request.getfixturevalue("redis_url")
        yield desk
    spare.put_back(place)


OPEN = {"ALLOW_NETWORKS": "127.0.0.0/8", "SOFT_404_DETECTION": "0"}


def slow_site(site: Site) -> None:
    paths = [f"/{n}" for n in range(12)]
    site.pages["/"] = html("Home", *paths)
    for path in paths:
        site.pages[path] = Page(html(path, text=f"words of {path}"), delay=0.4)


@pytest.mark.covers("R2-32")
def test_a_server_crawls_a_job_and_records_its_end(desk: Desk, site: Site):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="alpha")
    with serving(desk.folder, **OPEN) as server:
        id_ = desk.create(site)
        desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED)
        status, logged = server.end()

    assert (status, "Traceback" in logged) == (0, False)
    job = desk.store.get(id_)
    assert (job.complete, job.reasons) == (True, ())
    assert [r.path for r in site.log] == ["/", "/a"]
    ((run, stage, starts, _),) = desk.runs()
    assert (stage, starts) == (RunStage.ENDED, 1)
    log = (desk.folder / "logs" / f"{run}.log").read_text()
    assert "docs" in log
    assert desk.folder.stat().st_mode & 0o077 == 0  # logs are a folder of ours


@pytest.mark.long
def test_under_scrapy_the_crawls_are_scrapys_commands(desk: Desk, site: Site):
    site.pages["/"] = Page(html("Home", text="alpha"), delay=1)
    program = [sys.executable, "-m", "scrapy", "serve"]
    with serving(desk.folder, program=program, **OPEN):
        id_ = desk.create(site)
        desk.until(lambda: desk.crawler() is not None)
        words = Path(f"/proc/{desk.crawler().pid}/cmdline").read_bytes().split(b"\0")
        assert words[2:5] == [b"scrapy", b"crawl", b"site"]
        desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED)

    assert [r.path for r in site.log] == ["/"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["scrapy", "smartcrawl"])
def test_a_declared_source_of_files_is_crawled_as_a_job(desk: Desk, name: str):
    (desk.folder / "docs").mkdir()
    (desk.folder / "docs" / "a.md").write_text("# Alpha\n")
    sources = desk.folder / "sources.toml"
    sources.write_text('[sources.docs]\nkind = "files"\nroot = "docs"\n')
    known = KnownJobs(desk.database, desk.connection, ("docs",))
    job = known.find_declared(api_job_id("docs"))
    assert job is not None
    known.schedule(job, {"schedule": JobSchedule().model_dump()}, int(time.time()))

    program = [sys.executable, "-m", name, "serve"]
    with serving(desk.folder, program=program, SOURCES_FILE=str(sources), **OPEN):
        desk.until(lambda: desk.status(job.id) is JobStatus.COMPLETED)

    found = desk.store.get(job.id)
    assert (found.complete, found.reasons) == (True, ())
    url = f"file://{desk.folder}/docs/a.md"
    assert desk.connection.execute("SELECT url FROM record").fetchall() == [(url,)]


def killed(desk: Desk, server: Server, *, crawl: bool) -> None:
    """Kill a server as it is, and its crawl with it as in a container."""
    server.process.kill()
    server.process.communicate()
    process = desk.crawler()
    assert process is not None
    assert process.is_alive()  # in a session of its own
    if crawl:
        os.kill(process.pid, signal.SIGKILL)


def goes_on(desk: Desk, site: Site, *, crawl: bool) -> None:
    """Kill a server, with `crawl` its crawl as well, and let the next one go on with it."""
    slow_site(site)
    with serving(desk.folder, **desk.settings) as server:
        id_ = desk.create(site)
        desk.until(lambda: len(site.log) > 3 and desk.status(id_) is JobStatus.RUNNING)
        ((run, _, _, no),) = desk.runs()
        killed(desk, server, crawl=crawl)
    with serving(desk.folder, **desk.settings) as server:
        desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED, 150)
        server.end()

    assert desk.store.get(id_).complete is True
    assert desk.runs() == [(run, "ended", 2 if crawl else 1, no)]  # one id, one run
    asked = Counter(r.path for r in site.log)
    assert set(asked) == {"/", *(f"/{n}" for n in range(12))}
    if not crawl:
        assert set(asked.values()) == {1}


@pytest.mark.long
def test_the_next_server_finds_the_crawl_of_a_killed_one(any_desk: Desk, site: Site):
    goes_on(any_desk, site, crawl=False)


@pytest.mark.long
def test_the_next_server_resumes_a_crawl_that_died_as_well(desk: Desk, site: Site):
    goes_on(desk, site, crawl=True)


@pytest.mark.long  # PostgreSQL notes the death after a minute
def test_it_is_resumed_over_any_registry(any_desk: Desk, site: Site):
    goes_on(any_desk, site, crawl=True)


@pytest.mark.long
def test_a_server_that_ends_in_order_leaves_its_crawl_to_the_next(desk: Desk, site: Site):
    slow_site(site)
    with serving(desk.folder, **OPEN) as server:
        id_ = desk.create(site)
        desk.until(lambda: desk.status(id_) is JobStatus.RUNNING)
        assert server.end()[0] == 0
    process = desk.crawler()
    assert process is not None
    assert process.is_alive()
    assert desk.status(id_) is JobStatus.RUNNING
    desk.until(lambda: not process.is_alive())
    with serving(desk.folder, **OPEN):
        desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED)

    assert set(Counter(r.path for r in site.log).values()) == {1}


@pytest.mark.long
def test_two_servers_crawl_a_job_once(any_desk: Desk, site: Site):
    desk = any_desk
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="alpha")
    with serving(desk.folder, **desk.settings), serving(desk.folder, **desk.settings):
        id_ = desk.create(site)
        desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED)

    assert len(desk.runs()) == 1
    assert set(Counter(r.path for r in site.log).values()) == {1}


@pytest.mark.long
@pytest.mark.covers("E-01", "E-03", "R2-24", "R2-26", "M-39")
def test_a_job_of_a_client_is_crawled_and_shown(any_desk: Desk, site: Site):
    desk = any_desk
    site.pages["/"] = html("Home", "/a", "/missing")
    site.pages["/a"] = html("A", text="alpha")
    with serving(desk.folder, **desk.settings) as server:
        jobs = f"{server.url}/api/v1/jobs"
        definition = {
            "name": "docs",
            "seed_urls": [site.url("/")],
            "config": {"crawl_delay_ms": 0, "respect_robots_txt": False},
        }
        created = httpx.post(jobs, json=definition).json()
        path = f"{jobs}/{created['job_id']}"
        assert created["status"] == "created"
        desk.until(lambda: httpx.get(path).json()["status"] == "completed")
        time.sleep(2)  # a progress may be so old
        job = httpx.get(path).json()
        run = httpx.get(f"{jobs}/{job['runs'][0]['job_id']}").json()
        found = httpx.get(f"{server.url}/api/v1/documents").json()["documents"]

    assert job["complete"] is True
    assert job["progress"] == {
        "pages_crawled": 3,
        "pages_queued": 0,
        "pages_failed": 1,
        "bytes_downloaded": run["bytesDownloaded"],
        "domains_visited": 1,
    }
    assert (run["status"], run["state"], run["new"], run["lost"]) == ("ended", "swept", 2, 0)
    assert {one["url"] for one in found} == {site.url("/"), site.url("/a")}

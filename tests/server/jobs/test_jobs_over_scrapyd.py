"""Jobs that a real scrapyd crawls for a real server."""

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from smartcrawl.rules.run_orders import JobStatus
from tests.scrapyd_server import Scrapyd, checkout, scrapyd
from tests.server.jobs.test_job_scheduler import OPEN, Desk, opened, slow_site
from tests.server.test_serve import serving
from tests.servers.processes import free_port
from tests.site_server import Site, html

PASSWORD = "pass/word"


@dataclass(frozen=True, slots=True)
class Place:
    """A scrapyd that is started and ended, always at one address."""

    folder: Path
    port: int
    environment: Mapping[str, str]

    @property
    def settings(self) -> dict[str, str]:
        return {"SCRAPYD_URL": f"http://deployer:pass%2Fword@127.0.0.1:{self.port}/", **OPEN}

    def started(self) -> AbstractContextManager[Scrapyd]:
        return scrapyd(self.folder, self.environment, port=self.port, password=PASSWORD)


@pytest.fixture(scope="module")
def eggs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of eggs after a deployment."""
    folder, copy = tmp_path_factory.mktemp("deployed"), tmp_path_factory.mktemp("checkout")
    checkout(copy)
    with scrapyd(folder, {"DATA_DIR": str(folder / "data")}) as server:
        with (copy / "scrapy.cfg").open("a") as file:
            file.write(f"\n[deploy:test]\nurl = {server.url}\n")
        deployed = server.client("test", "--version", "1", cwd=copy)
    assert deployed.returncode == 0, deployed.stderr
    return folder / "eggs"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield from opened(tmp_path / "data", tmp_path / "data/registry.db")


@pytest.fixture
def place(eggs: Path, tmp_path: Path) -> Place:
    folder = tmp_path / "scrapyd"
    shutil.copytree(eggs, folder / "eggs")
    return Place(folder, free_port(), OPEN | {"DATA_DIR": str(tmp_path / "data")})


def listed_jobs(server: Scrapyd) -> list[str]:
    found = server.ask("listjobs.json", project="smartcrawl")
    return [job["id"] for state in ("pending", "running", "finished") for job in found[state]]


@pytest.mark.long
@pytest.mark.covers("R2-23", "R2-26")
def test_a_job_waits_for_scrapyd_and_is_crawled_once(desk: Desk, place: Place, site: Site):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="alpha")
    with serving(desk.folder, **place.settings) as server:
        jobs = f"{server.url}/api/v1/jobs"
        definition = {
            "name": "docs",
            "seed_urls": [site.url("/")],
            "config": {
                "crawl_delay_ms": 0,
                "respect_robots_txt": False,
                "user_agent": "of-the-job/1.0",
            },
        }
        id_ = httpx.post(jobs, json=definition).json()["job_id"]
        desk.until(lambda: len(desk.runs()) == 1)
        ((run, stage, starts, _),) = desk.runs()
        assert (stage, starts) == ("waiting", 0)  # scrapyd is not there
        with place.started() as there:
            desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED, 240)

            assert listed_jobs(there) == [run]
        job = httpx.get(f"{jobs}/{id_}").json()
        status, logged = server.end()

    assert (job["status"], job["complete"]) == ("completed", True)
    assert job["progress"]["pages_crawled"] == 2
    assert [(r.path, r.headers["user-agent"]) for r in site.log] == [
        ("/", "of-the-job/1.0"),
        ("/a", "of-the-job/1.0"),
    ]
    assert [row[1:3] for row in desk.runs()] == [("ended", 1)]
    assert status == 0
    assert logged.count("jobs wait for scrapyd") == 1
    assert "scrapyd answers again" in logged
    assert "word" not in logged.replace("password", "")
    assert "Traceback" not in logged


@pytest.mark.long
def test_what_scrapyd_lost_is_resumed_once_under_its_id(desk: Desk, place: Place, site: Site):
    """Its end also ended the crawl, as systemd's does."""
    slow_site(site)
    with serving(desk.folder, **place.settings):
        with place.started():
            id_ = desk.create(site)
            desk.until(lambda: len(site.log) > 3 and desk.status(id_) is JobStatus.RUNNING, 240)
            ((run, _, _, no),) = desk.runs()
            process = desk.crawler()
            assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        with place.started() as there:
            desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED, 240)
            lines = [line for line in there.said().splitlines() if "Process started" in line]

    assert desk.store.get(id_).complete is True
    assert desk.runs() == [(run, "ended", 2, no)]
    assert len(lines) == 1
    assert "resume=1" in lines[0]
    assert {r.path for r in site.log} == {"/", *(f"/{n}" for n in range(12))}


@pytest.mark.long
def test_a_crawl_outlives_scrapyd_and_its_server(desk: Desk, place: Place, site: Site):
    slow_site(site)
    with place.started():
        with serving(desk.folder, **place.settings) as server:
            id_ = desk.create(site, crawl_delay_ms=2_000)  # longer than scrapyd's start
            desk.until(lambda: desk.status(id_) is JobStatus.RUNNING, 240)
            server.process.kill()
            server.process.communicate()
        process = desk.crawler()
        assert process is not None
    with place.started() as there, serving(desk.folder, **place.settings):
        assert process.is_alive()
        desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED, 240)
        assert listed_jobs(there) == []

    assert desk.store.get(id_).complete is True
    assert [row[1:3] for row in desk.runs()] == [("ended", 1)]
    assert set(Counter(r.path for r in site.log).values()) == {1}


@pytest.mark.long
@pytest.mark.covers("E-07", "R2-27", "R2-28")
def test_an_order_ends_a_crawl_under_scrapyd_and_a_resume_starts_it_there_again(
    desk: Desk, place: Place, site: Site
):
    slow_site(site)
    with place.started() as there, serving(desk.folder, **place.settings) as server:
        id_ = desk.create(site)
        desk.until(lambda: len(site.log) > 3 and desk.status(id_) is JobStatus.RUNNING, 240)
        path = f"{server.url}/api/v1/jobs/{id_}/control"
        httpx.post(path, json={"action": "pause"}, timeout=30).raise_for_status()
        desk.until(lambda: desk.status(id_) is JobStatus.PAUSED)
        desk.until(lambda: not desk.database.is_held("docs"))
        asked = len(site.log)
        assert asked < 13
        time.sleep(3)  # some ticks of the scheduler
        assert (desk.status(id_), len(site.log)) == (JobStatus.PAUSED, asked)

        httpx.post(path, json={"action": "resume"}, timeout=30).raise_for_status()
        desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED, 240)
        lines = [line for line in there.said().splitlines() if "Process started" in line]

    assert desk.store.get(id_).complete is True
    assert len(lines) == 2
    assert "resume=1" in lines[1]
    ((_, state, starts, _),) = desk.runs()
    assert (state, starts) == ("ended", 2)
    assert set(Counter(r.path for r in site.log).values()) == {1}


@pytest.mark.long
def test_a_scrapyd_of_another_registry_is_named_as_the_reason(
    desk: Desk, place: Place, site: Site, tmp_path: Path
):
    site.pages["/"] = html("Home")
    other = replace(place, environment={**place.environment, "DATA_DIR": str(tmp_path / "other")})
    with other.started() as there, serving(desk.folder, **place.settings):
        id_ = desk.create(site)
        desk.until(lambda: desk.status(id_) is JobStatus.FAILED, 240)
        ((run, _, starts, _),) = desk.runs()
        log = (there.folder / "logs/smartcrawl/site" / f"{run}.log").read_text()

    (reason,) = desk.store.get(id_).reasons
    assert "scrapyd needs the REGISTRY_URL or DATA_DIR of this server" in reason
    assert f"/logs/smartcrawl/site/{run}.log" in reason
    assert "there is no source 'docs'" in log
    assert starts == 2
    assert site.log == []


@pytest.mark.long
def test_two_servers_over_postgresql_have_one_scrapyd(
    place: Place, site: Site, tmp_path: Path, postgres_url: str
):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="alpha")
    registry = {"REGISTRY_URL": postgres_url}
    there = replace(place, environment={**place.environment, **registry})
    settings = {**place.settings, **registry}
    for desk in opened(tmp_path / "data", postgres_url):
        with (
            there.started() as server,
            serving(desk.folder, **settings),
            serving(desk.folder, **settings),
        ):
            id_ = desk.create(site)
            desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED, 240)  # noqa: B023
            assert listed_jobs(server) == [desk.runs()[0][0]]

        assert set(Counter(r.path for r in site.log).values()) == {1}

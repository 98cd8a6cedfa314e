"""Real crawls that are paused, resumed and cancelled over HTTP, by any of several servers."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from smartcrawl.rules.model import RunState
from tests.crawls.ready import popen
from tests.registry.spare import Spare
from tests.server.jobs.test_job_scheduler import Desk, opened
from tests.server.test_serve import Server, serving, setting_words
from tests.site_server import Site, html

ROOT = Path(__file__).resolve().parents[3]
PAGES = {"/", *(f"/{n}" for n in range(60))}


@pytest.fixture(params=["sqlite", "postgres", "workers"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    if request.param == "sqlite":
        yield from opened(tmp_path, tmp_path / "registry.db")
        return
    spare: Spare = request.getfixturevalue("spare_registries")
    place = spare.take()
    for desk in opened(tmp_path, place):
        if request.param == "workers":
            desk.settings["REDIS_URL"] = request.getfixturevalue("redis_url")
        yield desk
    spare.put_back(place)


def definition(site: Site, delay: int) -> dict:
    """A recurring job that asks a page each ``delay`` milliseconds."""
    return {
        "name": "docs",
        "seed_urls": [site.url("/")],
        "config": {"crawl_delay_ms": delay, "respect_robots_txt": False},
        "schedule": {"type": "recurring", "cron": "0 0 1 1 *"},
    }


def create(desk: Desk, server: Server, site: Site) -> str:
    """Create a slow job, and let its time come now; return its id."""
    paths = sorted(PAGES - {"/"})
    site.pages["/"] = html("Home", *paths)
    for path in paths:
        site.pages[path] = html(path, text=f"words of {path}")
    created = httpx.post(f"{server.url}/api/v1/jobs", json=definition(site, 500))
    id_: str = created.raise_for_status().json()["job_id"]
    desk.connection.execute("UPDATE job SET due_at = ?", (int(time.time()),))
    return id_


def shown(server: Server, id_: str) -> dict:
    return httpx.get(f"{server.url}/api/v1/jobs/{id_}").raise_for_status().json()


def order(desk: Desk, server: Server, id_: str, action: str, status: str) -> None:
    """Give an order, and wait for its effect; an answer waits two seconds for it."""
    path = f"{server.url}/api/v1/jobs/{id_}/control"
    answer = httpx.post(path, json={"action": action}, timeout=30)
    found = answer.raise_for_status().json()
    assert (found["status"] == status) is (found["requested"] is None)
    assert found["requested"] in (None, action)
    desk.until(lambda: shown(server, id_)["status"] == status)


def running(desk: Desk, server: Server, site: Site, id_: str) -> str:
    """Wait until the job has asked some pages; return the id of its run."""
    desk.until(lambda: len(site.log) > 3 and shown(server, id_)["status"] == "running")
    (run,) = shown(server, id_)["runs"]
    return run["job_id"]


@pytest.mark.long
@pytest.mark.covers("E-06", "E-07", "R2-27", "R2-28", "R2-32", "M-39")
def test_a_paused_job_survives_restarts_and_asks_each_page_once(desk: Desk, site: Site):
    with serving(desk.folder, **desk.settings) as server:
        id_ = create(desk, server, site)
        run = running(desk, server, site, id_)
        server.end()
    with serving(desk.folder, **desk.settings) as server:
        assert shown(server, id_)["status"] == "running"
        order(desk, server, id_, "pause", "paused")
        desk.until(lambda: not desk.database.is_held("docs"))
        asked = len(site.log)
        assert asked < len(PAGES)
        server.end()
    with serving(desk.folder, **desk.settings) as server:
        paused = shown(server, id_)
        assert (paused["status"], paused["requested"]) == ("paused", None)
        assert paused["reasons"] == ["paused"]
        assert shown(server, run)["status"] == "paused"
        assert shown(server, run)["state"] == "interrupted"
        assert len(site.log) == asked
        path = f"{server.url}/api/v1/jobs/{id_}"
        httpx.put(path, json=definition(site, 0)).raise_for_status()  # its run goes on with it
        order(desk, server, id_, "resume", "running")
        desk.until(lambda: shown(server, id_)["status"] == "scheduled")
        ended = shown(server, id_)

    assert (ended["complete"], ended["reasons"]) == (True, [])
    assert [(one["job_id"], one["status"]) for one in ended["runs"]] == [(run, "ended")]
    assert desk.connection.execute("SELECT count(*) FROM run").get == 1
    assert Counter(r.path for r in site.log) == dict.fromkeys(PAGES, 1)


@pytest.mark.long
@pytest.mark.parametrize("desk", ["sqlite"], indirect=True)
def test_a_setting_says_how_many_jobs_run_at_once(desk: Desk, site: Site):
    with serving(desk.folder, **desk.settings, MAX_RUNNING_JOBS="1") as server:
        first = create(desk, server, site)
        running(desk, server, site, first)
        more = definition(site, 0) | {"name": "more", "seed_urls": [site.url("/5")]}
        created = httpx.post(f"{server.url}/api/v1/jobs", json=more).raise_for_status()
        second = created.json()["job_id"]
        desk.connection.execute(
            "UPDATE job SET due_at = ? WHERE name = 'more'", (int(time.time()),)
        )
        begun = [("running", 1), ("waiting", 0)]
        desk.until(lambda: [(state, starts) for _, state, starts, _ in desk.runs()] == begun)
        time.sleep(1.5)  # some ticks of the scheduler
        assert [(state, starts) for _, state, starts, _ in desk.runs()] == begun

        order(desk, server, first, "cancel", "cancelled")
        desk.until(lambda: shown(server, second)["complete"] is True)


@contextmanager
def joined(desk: Desk, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Start workers that join the run of the job."""
    settings = desk.settings | {"DATA_DIR": str(desk.folder)}
    given = setting_words(settings)
    command = [sys.executable, "-m", "scrapy", "crawl", "site", "-a", "source=docs", *given]
    workers = []
    for number in range(count):
        with (desk.folder / "logs" / f"worker-{number}.log").open("w") as log:
            workers.append(popen(command, cwd=ROOT, stdout=log, stderr=log))
    try:
        desk.until(lambda: desk.connection.execute("SELECT count(*) FROM lease").get == count + 1)
        yield workers
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()


@pytest.mark.long
@pytest.mark.covers("E-06", "RD-21", "M-39")
@pytest.mark.parametrize("desk", ["workers"], indirect=True)
def test_a_job_that_three_workers_crawl_is_paused_and_resumed_as_one(desk: Desk, site: Site):
    with serving(desk.folder, **desk.settings) as server:
        id_ = create(desk, server, site)
        run = running(desk, server, site, id_)
        with joined(desk, 2) as workers:
            order(desk, server, id_, "pause", "paused")
            assert [worker.wait(60) for worker in workers] == [3, 3]
        desk.until(lambda: not desk.database.is_held("docs"))
        asked = len(site.log)
        assert asked < len(PAGES)
        visited = "SELECT url FROM record JOIN state USING (no) WHERE visited_run = 1 AND kind = 0"
        done = {f"/{url.split('/', 3)[3]}" for (url,) in desk.connection.execute(visited)}
        assert done == {r.path for r in site.log}
        paused = shown(server, id_)
        assert (paused["status"], paused["reasons"]) == ("paused", ["paused"])

        path = f"{server.url}/api/v1/jobs/{id_}"
        httpx.put(path, json=definition(site, 0)).raise_for_status()
        assert len(site.log) == asked
        order(desk, server, id_, "resume", "running")
        desk.until(lambda: shown(server, id_)["status"] == "scheduled")
        ended = shown(server, id_)

    assert (ended["complete"], ended["reasons"]) == (True, [])
    assert [(one["job_id"], one["status"]) for one in ended["runs"]] == [(run, "ended")]
    assert desk.connection.execute("SELECT count(*) FROM run").get == 1
    assert Counter(r.path for r in site.log) == dict.fromkeys(PAGES, 1)


@pytest.mark.long
@pytest.mark.covers("E-06", "R2-32")
def test_a_job_is_cancelled_by_a_server_that_did_not_start_it(desk: Desk, site: Site):
    with serving(desk.folder, **desk.settings) as server:
        id_ = create(desk, server, site)
        run = running(desk, server, site, id_)
        with serving(desk.folder, **desk.settings) as other:
            order(desk, other, id_, "cancel", "cancelled")
            assert shown(server, run)["status"] == "cancelled"
        desk.until(lambda: not desk.database.is_held("docs"))
        asked = len(site.log)
        refused = httpx.post(f"{server.url}/api/v1/jobs/{id_}/resume")
        desk.connection.execute("UPDATE job SET due_at = 1")
        time.sleep(1.5)  # some ticks of the scheduler
        ended = shown(server, id_)

    assert refused.status_code == 409
    assert (ended["complete"], ended["reasons"], ended["next_run"]) == (
        False,
        ["cancelled"],
        "1970-01-01T00:00:01Z",
    )
    assert len(ended["runs"]) == 1
    assert desk.connection.execute("SELECT state FROM run").get == RunState.CANCELLED
    assert asked == len(site.log) < len(PAGES)

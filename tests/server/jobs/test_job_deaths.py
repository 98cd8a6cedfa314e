"""``kill -9`` of the server and of the crawl, at each step of a job's life.

Whatever dies, the next server ends the job: one run, under one id, that saw every page; a page
that was not on its way is asked once.
"""

import importlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

import httpx
import pytest

from smartcrawl.rules.model import RunState
from smartcrawl.rules.run_orders import JobStatus
from tests.server.jobs.test_job_scheduler import Desk, opened
from tests.server.test_serve import Server, serving, setting_words
from tests.site_server import Site, html

ROOT = Path(__file__).resolve().parents[3]
PAGES = 8
JOBS, RUNS = "smartcrawl.server.jobs", "smartcrawl.registry.runs"
#: The steps of a server, in their order.
OF_THE_SERVER = [
    ("before", f"{JOBS}.clock", "JobClock._fire"),
    ("after", f"{JOBS}.clock", "JobClock._fire"),
    ("after", f"{JOBS}.runner", "Runner._claimed"),
    ("after", f"{JOBS}.runner", "LocalCrawls.start"),
    ("after", f"{JOBS}.runner", "Runner._started"),
    ("before", f"{JOBS}.clock", "JobClock.began"),
    ("after", f"{JOBS}.clock", "JobClock.began"),
    ("before", f"{JOBS}.clock", "JobClock.ended"),
    ("after", f"{JOBS}.clock", "JobClock.ended"),
]
#: Those of a crawl.
OF_THE_CRAWL = [
    ("before", f"{RUNS}.runs", "open_run_row"),
    ("before", f"{RUNS}.run_orders", "store_job_process_row"),
    ("after", f"{RUNS}.runs", "open_run_row"),
    ("before", "smartcrawl.registry.commit.batch", "RegistryCommit.write"),
    ("after", "smartcrawl.registry.commit.batch", "RegistryCommit.write"),
    ("before", f"{RUNS}.runs", "seal_run_row"),
    ("after", f"{RUNS}.runs", "seal_run_row"),
    ("after", f"{RUNS}.runs", "settle_sealed_row"),
    ("after", f"{RUNS}.runs", "sweep_candidate_rows"),
]
Step = tuple[str, str, str]


def name_of(step: Step) -> str:
    return f"{step[0]} {step[2]}"


@pytest.mark.parametrize("step", OF_THE_SERVER + OF_THE_CRAWL, ids=name_of)
def test_each_step_is_a_function_that_stands(step: Step):
    """A process that does not find its step goes on, and its test waits in vain."""
    _, module, name = step
    assert callable(attrgetter(name)(importlib.import_module(module)))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield from opened(tmp_path, tmp_path / "registry.db")


@contextmanager
def mortal(
    desk: Desk, step: Step, monkeypatch: pytest.MonkeyPatch, **more: str
) -> Iterator[Server]:
    """Start a server that dies at a step, or whose crawl does."""
    start = desk.folder / "start"
    start.mkdir()
    (start / "sitecustomize.py").write_text("import tests.server.jobs.dying\n")
    given: Mapping[str, str] = {
        "JOB_DIES_AT": " ".join([*step, str(desk.folder / "dead")]),
        "PYTHONPATH": os.pathsep.join([str(start), str(ROOT)]),
        **more,
    }
    with monkeypatch.context() as changed:
        for name, value in given.items():
            changed.setenv(name, value)
        with serving(desk.folder, **desk.settings) as server:
            yield server


def fill(site: Site) -> None:
    paths = [f"/{n}" for n in range(PAGES)]
    site.pages["/"] = html("Home", *paths)
    for path in paths:
        site.pages[path] = html(path, text=f"words of {path}")


def asked(site: Site) -> Counter[str]:
    return Counter(request.path for request in site.log)


def check_end(desk: Desk, site: Site, id_: str) -> None:
    """Check that the job ended with one whole run, and that nothing of it is left open."""
    job = desk.store.get(id_)
    assert (job.status, job.complete, job.reasons) == (JobStatus.COMPLETED, True, ())
    ((_, state, starts, run),) = desk.runs()
    assert (state, starts <= 2) == ("ended", True)
    look = "SELECT no, state, complete FROM run"
    assert desk.connection.execute(look).fetchall() == [(run, RunState.SWEPT, 1)]
    check_pages(desk, site)


def check_pages(desk: Desk, site: Site) -> None:
    """Check that every page was asked and is stored, and that no process has the source."""
    pages = "SELECT count(*) FROM record WHERE content IS NOT NULL"
    assert desk.connection.execute(pages).get == PAGES + 1
    assert not desk.database.is_held("docs")
    assert set(asked(site)) == {"/", *(f"/{n}" for n in range(PAGES))}


def ends_with_the_next(desk: Desk, site: Site, id_: str) -> None:
    """Let the next server end the job."""
    with serving(desk.folder, **desk.settings) as server:
        assert httpx.get(f"{server.url}/health").status_code == 200
        desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED, 90)
        status, logged = server.end()
    assert (status, "Traceback" in logged) == (0, False), logged
    check_end(desk, site, id_)


@pytest.mark.long
@pytest.mark.covers("R2-32")
@pytest.mark.parametrize("step", OF_THE_SERVER, ids=name_of)
def test_a_server_that_is_killed_leaves_its_job_to_the_next(
    desk: Desk, site: Site, step: Step, monkeypatch: pytest.MonkeyPatch
):
    fill(site)
    with mortal(desk, step, monkeypatch) as server:
        id_ = desk.create(site)
        desk.until(lambda: server.process.poll() is not None)

    ends_with_the_next(desk, site, id_)
    assert set(asked(site).values()) == {1}  # its crawl goes on


@pytest.mark.long
@pytest.mark.covers("R2-32")
@pytest.mark.parametrize("step", OF_THE_CRAWL, ids=name_of)
def test_a_crawl_that_dies_with_its_server_is_resumed_once(
    desk: Desk, site: Site, step: Step, monkeypatch: pytest.MonkeyPatch
):
    fill(site)
    with mortal(desk, step, monkeypatch, JOB_DIES_WITH="server") as server:
        id_ = desk.create(site)
        desk.until(lambda: server.process.poll() is not None)

    ends_with_the_next(desk, site, id_)
    is_sealed = step in OF_THE_CRAWL[6:]
    assert max(asked(site).values()) <= (1 if is_sealed else 2)


@pytest.mark.long
@pytest.mark.covers("R2-32")
@pytest.mark.parametrize("step", OF_THE_CRAWL, ids=name_of)
def test_a_crawl_that_is_killed_alone_fails_and_is_made_up_for_by_the_next(
    desk: Desk, site: Site, step: Step, monkeypatch: pytest.MonkeyPatch
):
    fill(site)
    with mortal(desk, step, monkeypatch) as server:
        id_ = desk.create(site)
        desk.until(lambda: desk.status(id_) is JobStatus.FAILED)
        assert desk.store.get(id_).reasons[-1:] == ("its process was ended by SIGKILL",)
        assert not desk.database.is_held("docs")
        assert server.end()[0] == 0

    settings = desk.settings | {"DATA_DIR": str(desk.folder)}
    crawl = [sys.executable, "-m", "scrapy", "crawl", "site", "-a", "source=docs", "-a", "resume=1"]
    subprocess.run([*crawl, *setting_words(settings)], check=True, capture_output=True, timeout=60)

    run = "SELECT state, complete FROM run ORDER BY no DESC LIMIT 1"
    assert desk.connection.execute(run).fetchall() == [(RunState.SWEPT, 1)]
    check_pages(desk, site)

"""Declared sources as jobs: listed, scheduled and ordered, but edited in sources.toml."""

import json
import logging
import os
import time
from pathlib import Path

import httpx
import pytest

from smartcrawl.model.options import Options
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.jobs import load_stored_jobs, load_stored_jobs_and_sources
from smartcrawl.registry.runs.runs import RunRequest, open_run_row
from smartcrawl.server.jobs import control
from smartcrawl.server.jobs.answers import JobDetail, JobHead, Jobs
from smartcrawl.server.jobs.clock import JobClock
from smartcrawl.server.jobs.declared import DeclaredNames, api_job_id
from smartcrawl.server.jobs.store import RunStage
from tests.choices import options
from tests.server.api_client import application, ask, error_of
from tests.server.jobs.conftest import JOBS, NOW, Api, body
from tests.server.test_serve import serving
from tests.site_server import Site, html

HOURLY = {"type": "recurring", "cron": "0 * * * *"}
ONCE = {"type": "one_time"}
HOUR = 3_600
DOCS = api_job_id("docs")


def declare(folder: Path, *names: str) -> None:
    """Write a new sources.toml; its time differs also within one tick of the clock."""
    path = folder / "sources.toml"
    path.write_text(
        "".join(f'[sources.{n}]\nseeds = ["https://{n}.example.com/"]\n' for n in names)
    )
    declare.time += 1_000_000_000
    os.utime(path, ns=(declare.time, declare.time))


declare.time = 1_700_000_000_000_000_000


@pytest.fixture
def sources(api: Api) -> Api:
    """A server with two declared sources."""
    declare(api.folder, "docs", "news")
    api.clock = clock_of(api)
    return api


def clock_of(api: Api) -> JobClock:
    return JobClock(api.database, api.connection, DeclaredNames(api.folder / "sources.toml"))


def put(api: Api, schedule: object = ONCE, id_: str = DOCS, **more: object) -> httpx.Response:
    return api.ask("PUT", f"/{id_}", json={"schedule": schedule, **more})


def scheduled(api: Api, schedule: object = ONCE) -> dict:
    answer = put(api, schedule)
    assert answer.status_code == 200, answer.text
    JobHead.model_validate_json(answer.content)
    return answer.json()


def listed(api: Api, query: str = "") -> tuple[list[tuple[str, bool]], int]:
    answer = api.ask("GET", query)
    Jobs.model_validate_json(answer.content)
    found = answer.json()
    return [(job["name"], job["declared"]) for job in found["jobs"]], found["pagination"]["total"]


@pytest.mark.covers("E-02", "E-03")
def test_declared_sources_are_jobs_without_a_row(sources: Api):
    sources.create("own")

    assert listed(sources) == ([("own", False), ("docs", True), ("news", True)], 3)
    shown = sources.ask("GET", f"/{DOCS}")
    JobDetail.model_validate_json(shown.content)
    found = shown.json()
    assert (found["status"], found["declared"], found["version"]) == ("created", True, 1)
    assert found["created_at"] is found["next_run"] is found["requested"] is None
    assert (found["runs"], found["progress"]["pages_crawled"]) == ([], 0)
    assert ask(sources.server(), "GET", f"{JOBS}/{DOCS}").json() == found  # of another server
    assert sources.clock.fire(NOW + 99 * HOUR)[0].name == "own"
    assert sources.rows("SELECT name FROM job") == [("own",)]


@pytest.mark.covers("E-02")
def test_declared_sources_follow_the_jobs_of_clients_on_any_page(sources: Api):
    for name in ("a", "b"):
        sources.create(name)
    scheduled(sources, HOURLY)
    names = ["a", "b", "docs", "news"]

    pages = [listed(sources, f"?limit=1&offset={place}") for place in range(5)]
    assert [[name for name, _ in page] for page, _ in pages] == [[name] for name in names] + [[]]
    assert {total for _, total in pages} == {4}
    assert [name for name, _ in listed(sources, "?limit=2&offset=1")[0]] == ["b", "docs"]
    assert listed(sources, "?status=scheduled") == ([("docs", True)], 1)
    assert [name for name, _ in listed(sources, "?status=created")[0]] == ["a", "b", "news"]
    assert listed(sources, "?status=created&limit=1&offset=2") == ([("news", True)], 3)


@pytest.mark.covers("E-04")
def test_a_declared_source_is_scheduled(sources: Api):
    found = scheduled(sources, HOURLY)

    assert (found["job_id"], found["declared"], found["status"]) == (DOCS, True, "scheduled")
    assert (found["next_run"], found["version"]) == ("2024-01-20T11:00:00Z", 2)
    assert found["created_at"] == "2024-01-20T10:00:00Z"
    (run,) = sources.clock.fire(NOW + HOUR)
    assert (run.name, run.job, run.due_at) == ("docs", DOCS, NOW + HOUR)
    assert sources.ask("GET", f"/{DOCS}").json()["next_run"] == "2024-01-20T12:00:00Z"
    assert sources.ask("GET", f"/{run.id}").json()["job"] == DOCS


@pytest.mark.covers("E-04")
def test_a_schedule_of_one_time_is_due_at_once_each_time_it_is_put(sources: Api):
    for place in range(2):
        now = NOW + place * HOUR
        sources.now = float(now)
        assert scheduled(sources)["status"] == "created"
        (run,) = sources.clock.fire(now)
        sources.now += 30
        assert scheduled(sources)["status"] == "created"  # it waits already
        assert sources.clock.fire(now + 60) == []
        no = open_run_row(sources.connection, RunRequest("docs", "site", job_run=run.id), now).no
        sources.clock.began(run.id, no, now)
        assert sources.ask("GET", f"/{DOCS}").json()["status"] == "running"
        sources.clock.ended(run.id, 3, now + 5, ["max_pages"])
        ended = sources.ask("GET", f"/{DOCS}").json()
        assert (ended["status"], ended["complete"]) == ("completed", False)
        assert sources.clock.fire(now + 99) == []  # the second PUT was no second run
    assert scheduled(sources)["version"] == 6
    anew = sources.ask("GET", f"/{DOCS}").json()
    assert (anew["complete"], anew["reasons"], len(anew["runs"])) == (None, [], 2)


def test_one_time_during_a_run_is_that_run(sources: Api):
    scheduled(sources)
    (run,) = sources.clock.fire(NOW)
    no = open_run_row(sources.connection, RunRequest("docs", "site", job_run=run.id), NOW).no
    sources.clock.began(run.id, no, NOW)

    assert scheduled(sources)["status"] == "running"
    assert sources.clock.fire(NOW + 1) == []
    sources.clock.ended(run.id, 0, NOW + 2)
    assert sources.clock.fire(NOW + 3) == []
    assert sources.ask("GET", f"/{DOCS}").json()["status"] == "completed"
    assert scheduled(sources, HOURLY)["status"] == "scheduled"


@pytest.mark.covers("E-04", "G-11")
def test_a_schedule_is_put_at_the_version_that_was_seen(sources: Api):
    assert put(sources, version=1).json()["version"] == 2
    for given in ({"version": 1}, {"version": 3}):
        stale = put(sources, **given)
        assert (stale.status_code, error_of(stale)["details"]["field"]) == (409, "version")
    header = {"If-Match": '"2"'}
    answer = sources.ask("PUT", f"/{DOCS}", json={"schedule": ONCE}, headers=header)
    assert answer.json()["version"] == 3
    fresh = put(sources, id_=api_job_id("news"), version=2)
    assert fresh.status_code == 409  # it was never scheduled


@pytest.mark.covers("E-04", "E-05")
@pytest.mark.parametrize("stored", [False, True])
def test_a_declared_source_is_edited_in_its_file(sources: Api, stored: bool):
    if stored:
        scheduled(sources, HOURLY)
    rows = sources.rows("SELECT * FROM job")
    for part, value in body(config={}, filters={}).items():
        answer = put(sources, **{part: value})
        error = error_of(answer)
        assert (answer.status_code, error["code"]) == (409, "CONFLICT")
        assert error["message"] == "The source is declared"
        assert error["details"] == {
            "field": part,
            "reason": "Job 'docs' is declared in sources.toml: edit it there;"
            " here only schedule and version can be changed",
        }
    deleted = sources.ask("DELETE", f"/{DOCS}")
    assert deleted.status_code == 409
    assert error_of(deleted)["details"]["reason"] == (
        "Job 'docs' is declared in sources.toml: remove it there"
    )
    assert sources.rows("SELECT * FROM job") == rows


@pytest.mark.long(but=9)
@pytest.mark.covers("E-04")
@pytest.mark.parametrize(
    ("given", "code", "field"),
    [
        ({}, "INVALID_INPUT", "schedule"),
        ([], "INVALID_INPUT", None),
        (None, "INVALID_INPUT", None),
        ({"schedule": None}, "INVALID_CONFIG", "schedule"),
        ({"schedule": []}, "INVALID_CONFIG", "schedule"),
        ({"schedule": "hourly"}, "INVALID_CONFIG", "schedule"),
        ({"schedule": {"type": "daily"}}, "INVALID_CONFIG", "type"),
        ({"schedule": {"type": None}}, "INVALID_CONFIG", "type"),
        ({"schedule": {"type": True}}, "INVALID_CONFIG", "type"),
        ({"schedule": {"type": "recurring"}}, "INVALID_CONFIG", "cron"),
        ({"schedule": {"type": "one_time", "cron": "0 0 * * *"}}, "INVALID_CONFIG", "cron"),
        ({"schedule": {"type": "recurring", "cron": "* * * * *"}}, "INVALID_CONFIG", "cron"),
        ({"schedule": {"type": "recurring", "cron": "0 " * 9_999}}, "INVALID_CONFIG", "cron"),
        ({"schedule": {"at": 1}}, "INVALID_CONFIG", "at"),
        ({"schedule": {}, "version": True}, "INVALID_INPUT", "version"),
        ({"schedule": {}, "version": "1"}, "INVALID_INPUT", "version"),
        ({"schedule": {}, "version": 2**63}, "INVALID_INPUT", None),
        ({"schedule": {}, "surprise": 1}, "INVALID_INPUT", "surprise"),
    ],
)
def test_a_wrong_schedule_is_refused(tmp_path: Path, given: object, code: str, field: str | None):
    declare(tmp_path, "docs")
    app = application(tmp_path)
    headers = {"Content-Type": "application/json"}
    answer = ask(app, "PUT", f"{JOBS}/{DOCS}", content=json.dumps(given), headers=headers)

    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, code)
    assert error["details"].get("field") == field
    assert ask(app, "GET", f"{JOBS}/{DOCS}").json()["version"] == 1


@pytest.mark.covers("E-06", "R2-32")
def test_a_declared_source_takes_orders(sources: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control, "WAIT", 0.1)

    def ordered(action: str) -> tuple[int, str]:
        answer = sources.ask("POST", f"/{DOCS}/control", json={"action": action})
        found = answer.json()
        if answer.status_code == 409:
            return 409, found["error"]["details"]["reason"]
        return answer.status_code, found["status"]

    for action in ("pause", "resume"):
        assert ordered(action) == (409, "the job is created: it can be cancelled")
    assert sources.rows("SELECT * FROM job") == []
    assert ordered("cancel") == (200, "cancelled")
    assert ordered("cancel") == (409, "the job is cancelled, which is final")
    assert sources.clock.fire(NOW + HOUR) == []
    assert scheduled(sources, HOURLY)["status"] == "scheduled"  # begun anew
    assert ordered("pause") == (200, "paused")
    assert scheduled(sources, HOURLY)["status"] == "paused"
    assert sources.clock.fire(NOW + 9 * HOUR) == []
    assert ordered("resume") == (200, "scheduled")
    assert [run.name for run in sources.clock.fire(NOW + 9 * HOUR)] == ["docs"]


def test_a_source_that_vanished_keeps_its_row_and_never_fires(sources: Api):
    scheduled(sources, HOURLY)
    declare(sources.folder, "news")

    assert sources.clock.fire(NOW + 5 * HOUR) == []
    assert clock_of(sources).fire(NOW + 5 * HOUR) == []
    assert listed(sources) == ([("news", True)], 1)
    for answer in (
        sources.ask("GET", f"/{DOCS}"),
        put(sources, HOURLY),
        sources.ask("DELETE", f"/{DOCS}"),
        sources.ask("POST", f"/{DOCS}/pause"),
    ):
        assert (answer.status_code, error_of(answer)["code"]) == (404, "NOT_FOUND")
        assert error_of(answer)["details"]["reason"] == "there is no job of this id"
    assert sources.ask("POST", json=body("docs")).status_code == 409  # the row has the name
    assert sources.rows("SELECT name, status FROM job") == [("docs", "scheduled")]

    declare(sources.folder, "docs")
    assert [run.name for run in sources.clock.fire(NOW + 5 * HOUR)] == ["docs"]


def test_a_clock_that_knows_no_declared_sources_fires_none(sources: Api):
    scheduled(sources, HOURLY)
    own = sources.create("own")
    fired = JobClock(sources.database, sources.connection).fire(NOW + HOUR)

    assert [run.job for run in fired] == [own["job_id"]]


def test_a_job_of_a_client_with_the_name_stands_for_both(sources: Api):
    sources.create("tools")
    declare(sources.folder, "tools", "docs")

    assert listed(sources) == ([("tools", False), ("docs", True)], 2)
    assert sources.ask("GET", f"/{api_job_id('tools')}").status_code == 404
    ((id_,),) = sources.rows("SELECT id FROM job")
    assert sources.ask("PUT", f"/{id_}", json=body("tools")).status_code == 200


def test_a_broken_file_leaves_the_sources_as_they_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    names = DeclaredNames(tmp_path / "sources.toml")
    assert names() == ()
    declare(tmp_path, "docs")
    assert names() == ("docs",)
    (tmp_path / "sources.toml").write_text("[sources.docs\n")
    with caplog.at_level(logging.ERROR):
        assert names() == names() == ("docs",)
    assert len(caplog.records) == 1  # once for each change
    assert "declared sources stay as they were" in caplog.text
    declare(tmp_path, "news", "docs")
    assert names() == ("news", "docs")
    (tmp_path / "sources.toml").unlink()
    assert names() == ()


def test_a_wrong_table_stays_as_it_was_and_the_others_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    names = DeclaredNames(tmp_path / "sources.toml")
    declare(tmp_path, "docs", "news")
    assert names() == ("docs", "news")

    declare(tmp_path, "tools")
    text = (tmp_path / "sources.toml").read_text()
    (tmp_path / "sources.toml").write_text(f"{text}[sources.news]\nseeds = 1\n[sources.new]\n")

    assert names() == ("tools", "news")
    assert "[sources.news] seeds is 1" in caplog.text


def test_the_spider_of_a_job_is_that_of_its_kind(tmp_path: Path):
    names = DeclaredNames(tmp_path / "sources.toml")
    assert names.spider_of("docs") == "site"

    (tmp_path / "sources.toml").write_text(
        '[sources.docs]\nkind = "files"\nroot = "docs"\n'
        '[sources.web]\nseeds = ["https://docs.example.com/"]\n'
    )

    assert names() == ("docs", "web")
    assert [names.spider_of(name) for name in ("docs", "web", "own")] == ["files", "site", "site"]


def test_jobs_are_created_while_the_file_is_broken(sources: Api):
    (sources.folder / "sources.toml").write_text("[sources.docs\n")

    assert sources.ask("POST", json=body("own")).status_code == 201
    assert listed(sources) == ([("own", False)], 1)  # it was never read before


def test_a_crawl_takes_the_definition_of_the_file(sources: Api):
    """The row of a declared source is no definition, also when the source has vanished."""
    scheduled(sources, HOURLY)
    given: Options = options(sources.folder, registry=sources.place)

    known = load_stored_jobs_and_sources(given, sources.connection)
    assert (known["docs"].seeds, known["docs"].of_job) == (("https://docs.example.com/",), False)
    declare(sources.folder, "news")
    assert list(load_stored_jobs_and_sources(given, sources.connection)) == ["news"]
    assert load_stored_jobs(given) == {}


@pytest.mark.long
def test_a_declared_source_is_crawled_by_a_put(tmp_path: Path, site: Site):
    site.pages["/"] = html("Home", "/a", "/left-out")
    for path in ("/a", "/left-out"):
        site.pages[path] = html(path, text=f"words of {path}")
    (tmp_path / "sources.toml").write_text(
        f"[sources.docs]\nseeds = ['{site.url('/')}']\nexcluded_patterns = ['left-out']\n"
    )
    settings = {"SOURCES_FILE": str(tmp_path / "sources.toml"), "SOFT_404_DETECTION": "0"}
    with serving(tmp_path, **settings) as server:
        path = f"{server.url}/api/v1/jobs/{DOCS}"
        assert httpx.get(path).json()["status"] == "created"
        httpx.put(path, json={"schedule": ONCE}).raise_for_status()
        until = time.monotonic() + 60
        while (found := httpx.get(path).json())["status"] != "completed":
            assert time.monotonic() < until, found
            time.sleep(0.1)

    assert found["complete"] is True
    assert [run["status"] for run in found["runs"]] == [RunStage.ENDED]
    assert {r.path for r in site.log} - {"/robots.txt"} == {"/", "/a"}
    connection = registry_database(tmp_path / "registry.db").open()
    assert connection.execute("SELECT declared FROM source").get
    connection.close()

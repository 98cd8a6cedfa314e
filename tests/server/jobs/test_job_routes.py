"""Jobs over HTTP, with the keys, texts and statuses of the specification (E-01 to E-05)."""

import copy
import json
import threading
from pathlib import Path

import pytest

from smartcrawl.registry.runs.runs import RunRequest, open_run_row, seal_run_row
from smartcrawl.server.jobs.answers import JobDetail, JobHead, Jobs, RunDetail
from smartcrawl.server.jobs.store import JobProgress
from smartcrawl.server.stores import Stores
from smartcrawl.sources import jobs as job_definition
from smartcrawl.sources.fields import declared_pattern_size
from smartcrawl.sources.jobs import JobDefinition
from tests.server.api_client import Call, application, ask, ask_all, error_of
from tests.server.fake_crawls import claim_run
from tests.server.jobs.conftest import JOBS as PATH
from tests.server.jobs.conftest import Api, body
from tests.sources.test_job_definition import EXAMPLE

NOW = 1_705_744_800  #: 2024-01-20T10:00:00Z
#: The answer of R2-26.
PROGRESS = {
    "progress": {"pages_crawled", "pages_queued", "pages_failed", "bytes_downloaded",
                 "domains_visited"},
    "timing": {"started_at", "elapsed_seconds", "estimated_completion"},
    "rate": {"pages_per_second", "bytes_per_second"},
}  # fmt: skip


def test_an_integer_of_a_configuration_may_be_written_with_a_point(api: Api):
    config = {"max_depth": 4.0, "max_pages": 1e3, "timeout_seconds": 30.0}

    answer = api.ask("POST", json=EXAMPLE | {"config": config})

    assert answer.status_code == 201, answer.text
    refused = api.ask("POST", json=EXAMPLE | {"name": "b", "config": {"max_depth": 4.5}})
    assert refused.status_code == 400
    assert "max_depth must be a valid integer" in refused.text


@pytest.mark.covers("E-01", "R2-20", "R2-24")
def test_the_example_of_the_specification_gets_its_answer(api: Api):
    answer = api.ask("POST", json=EXAMPLE)

    assert answer.status_code == 201
    created = answer.json()
    JobHead.model_validate(created)
    id_ = created.pop("job_id")
    assert id_.startswith("job_")
    assert answer.headers["Location"] == f"{PATH}/{id_}"
    assert created == {
        "type": "crawl",
        "name": "daily-news-crawl",
        "status": "scheduled",
        "declared": False,
        "created_at": "2024-01-20T10:00:00Z",
        "next_run": "2024-01-21T00:00:00Z",
        "version": 1,
        "complete": None,
        "visibility": "public",
    }


@pytest.mark.covers("E-01", "R2-11", "R2-25")
@pytest.mark.parametrize(
    ("place", "value", "code", "field", "reason"),
    [
        ("name", None, "INVALID_INPUT", "name", "name must be a valid string"),
        ("seed_urls", [], "INVALID_INPUT", "seed_urls",
         "seed_urls must have at least 1 item after validation, not 0"),
        ("seed_urls", ["nothing"], "INVALID_URL", "seed_urls", None),
        ("seed_urls", [7], "INVALID_URL", "seed_urls", "seed_urls[0] must be a valid string"),
        ("config", {"max_depth": 11}, "INVALID_CONFIG", "max_depth",
         "max_depth must be between 1 and 10"),
        ("config", {"timeout": 1}, "INVALID_CONFIG", "timeout", None),
        ("filters", {"url_patterns": ["("]}, "INVALID_CONFIG", "url_patterns", None),
        ("schedule", {"type": "recurring", "cron": "* * * * *"}, "INVALID_CONFIG", "cron", None),
        ("surprise", 1, "INVALID_INPUT", "surprise", None),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(
    tmp_path: Path, place: str, value: object, code: str, field: str, reason: str | None
):
    wrong = copy.deepcopy(EXAMPLE) | {place: value}
    answer = ask(application(tmp_path), "POST", PATH, json=wrong)

    error = error_of(answer)
    assert (answer.status_code, error["code"], error["details"]["field"]) == (400, code, field)
    if code == "INVALID_CONFIG":
        assert error["message"] == "Crawl configuration is invalid"
    if reason is not None:
        assert error["details"]["reason"] == reason


def test_patterns_are_compiled_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """ATT-66: also those of a replacement."""
    threads: list[threading.Thread] = []

    def compiled(pattern: str, *, small: bool) -> int:
        threads.append(threading.current_thread())
        return declared_pattern_size(pattern, small=small)

    monkeypatch.setattr(job_definition, "declared_pattern_size", compiled)
    app = application(tmp_path)
    job = ask(app, "POST", PATH, json=EXAMPLE).json()["job_id"]
    asked = len(threads)
    assert asked > 0
    ask(app, "PUT", f"{PATH}/{job}", json=EXAMPLE)

    assert len(threads) > asked
    assert threading.main_thread() not in threads


@pytest.mark.parametrize(
    "given", [{}, {"content": b"{", "headers": {"Content-Type": "application/json"}}, {"json": []}]
)
@pytest.mark.covers("R2-25")
def test_a_body_that_is_no_object_is_refused(tmp_path: Path, given: dict):
    answer = ask(application(tmp_path), "POST", PATH, **given)

    assert (answer.status_code, error_of(answer)["code"]) == (400, "INVALID_INPUT")


@pytest.mark.long(but=4)
@pytest.mark.parametrize(
    "seed",
    ["http://127.0.0.1/", "http://0x7f.1:8080/", "http://[::1]/", "http://169.254.169.254/latest",
     "http://2852039166/", "http://[::ffff:10.0.0.1]/", "http://metadata.google.internal/"],
)  # fmt: skip
def test_a_seed_at_a_private_address_is_refused_without_repeating_it(tmp_path: Path, seed: str):
    given = body(seed_urls=["https://docs.example.com/", seed])
    answer = ask(application(tmp_path), "POST", PATH, json=given)

    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "INVALID_URL")
    assert error["details"]["reason"].startswith("seed_urls[1] is an address")
    assert seed not in answer.text


@pytest.mark.covers("E-01", "R2-12")
def test_a_name_in_use_is_a_conflict(api: Api):
    api.create("daily-news-crawl")
    answer = api.ask("POST", json=EXAMPLE)

    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (409, "CONFLICT")
    assert error["message"] == "Crawl job with this name already exists"
    assert error["details"] == {
        "field": "name",
        "reason": "Job 'daily-news-crawl' already exists",
    }


def test_the_name_of_a_declared_source_is_in_use(tmp_path: Path):
    file = tmp_path / "sources.toml"
    file.write_text('[sources.docs]\nseeds = ["https://docs.example.com/"]\n')
    app = application(tmp_path, run={"sources_file": file})

    assert ask(app, "POST", PATH, json=body("docs")).status_code == 409
    assert ask(app, "POST", PATH, json=body("other")).status_code == 201


@pytest.mark.covers("E-02")
def test_jobs_are_listed_by_status_and_page(api: Api):
    schedule = {"type": "recurring", "cron": "0 0 * * *"}
    for place in range(5):
        api.create(f"j{place}", schedule=schedule if place % 2 else None)

    def names(query: str) -> tuple[list[str], dict]:
        answer = api.ask("GET", query)
        Jobs.model_validate(answer.json())
        return [job["name"] for job in answer.json()["jobs"]], answer.json()["pagination"]

    everything = {"total": 5, "offset": 0, "limit": 100}
    assert names("") == ([f"j{place}" for place in range(5)], everything)
    assert names("?status=scheduled")[0] == ["j1", "j3"]
    assert names("?limit=2&offset=3") == (["j3", "j4"], {"total": 5, "offset": 3, "limit": 2})
    assert api.ask("GET", f"/{api.store.page()[0][0].id}").json()["name"] == "j0"
    api.connection.execute("UPDATE job SET complete = FALSE WHERE name = 'j1'")
    listed = {job["name"]: job["complete"] for job in api.ask("GET").json()["jobs"]}
    assert listed == {"j0": None, "j1": False, "j2": None, "j3": None, "j4": None}


@pytest.mark.covers("E-02")
@pytest.mark.parametrize(
    "query", ["status=done", "limit=0", "limit=1001", "offset=-1", "colour=red", "limit=1&limit=2"]
)
def test_a_wrong_parameter_of_a_list_is_refused(tmp_path: Path, query: str):
    answer = ask(application(tmp_path), "GET", f"{PATH}?{query}")

    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "INVALID_INPUT")
    assert error["details"]["field"] == query.partition("=")[0]


def run_of(api: Api, name: str) -> tuple[str, int]:
    """Begin the run of a job that is due; return its id, and run.no."""
    (run,) = api.clock.fire(int(api.now))
    no = open_run_row(api.connection, RunRequest(name, "site", job_run=run.id), int(api.now)).no
    api.clock.began(run.id, no, int(api.now))
    return run.id, no


@pytest.mark.covers("E-03", "R2-26")
def test_a_job_has_the_keys_of_the_specification(api: Api):
    id_ = api.create()["job_id"]
    before = api.ask("GET", f"/{id_}").json()
    JobDetail.model_validate(before)
    assert {part: set(before[part]) for part in PROGRESS} == PROGRESS
    assert (before["status"], before["timing"]["started_at"]) == ("created", None)
    assert before["progress"]["pages_crawled"] == 0

    run, no = run_of(api, "docs")
    look = "UPDATE run SET visits = 300, bytes_downloaded = 5000, marks = ? WHERE no = ?"
    api.connection.execute(look, (json.dumps([[NOW, 0, 0], [NOW + 19, 300, 5000]]), no))
    api.now += 20
    after = api.ask("GET", f"/{id_}").json()
    JobDetail.model_validate(after)
    assert (after["status"], after["complete"]) == ("running", None)
    assert after["progress"]["pages_crawled"] == 300
    assert after["timing"]["started_at"] == "2024-01-20T10:00:00Z"
    assert after["timing"]["elapsed_seconds"] == 20
    assert after["rate"] == {"pages_per_second": 15.0, "bytes_per_second": 250.0}
    assert after["runs"] == [{"job_id": run, "status": "running", "due_at": "2024-01-20T10:00:00Z"}]

    seal_run_row(api.connection, no, ("max_pages",), int(api.now))
    api.clock.ended(run, 3, int(api.now), ["max_pages"])
    api.now += 100
    ended = api.ask("GET", f"/{id_}").json()
    assert (ended["status"], ended["complete"], ended["reasons"]) == (
        "completed",
        False,
        ["max_pages"],
    )
    assert ended["timing"]["elapsed_seconds"] == 20


@pytest.mark.covers("R2-26")
def test_progress_counts_the_pages_of_the_last_run(api: Api):
    id_ = api.create()["job_id"]
    _, no = run_of(api, "docs")
    words = json.dumps({"failed": 1, "lost": 1, "new": 1})
    marks = json.dumps([[NOW, 0, 0], [NOW + 8, 3, 0]])
    api.connection.execute(
        "UPDATE run SET visits = 3, queued = 2, hosts = 2, words = ?, marks = ? WHERE no = ?",
        (words, marks, no),
    )
    api.now += 10
    found = api.ask("GET", f"/{id_}").json()

    assert found["progress"] == {
        "pages_crawled": 3,
        "pages_queued": 2,
        "pages_failed": 2,
        "bytes_downloaded": 0,
        "domains_visited": 2,
    }
    assert found["timing"]["estimated_completion"] == "2024-01-20T10:00:17Z"

    api.now += 58  # a minute after its last batch
    idle = api.ask("GET", f"/{id_}").json()
    assert idle["rate"] == {"pages_per_second": 0.0, "bytes_per_second": 0.0}
    assert idle["timing"]["estimated_completion"] is None

    api.now -= 58
    api.connection.execute("UPDATE job SET status = 'paused'")
    paused = api.ask("GET", f"/{id_}").json()
    assert paused["rate"]["pages_per_second"] == 0.3
    assert paused["timing"]["estimated_completion"] is None


@pytest.mark.covers("R2-26")
def test_the_progress_of_a_job_is_read_by_keys(api: Api):
    """It is polled, and a scan of a million pages takes 0.3 s."""
    api.create()
    run_of(api, "docs")
    seen: list[str] = []

    class Traced:
        def execute(self, statement: str, values: object = ()):
            seen.append(statement)
            return api.connection.execute(statement, values)

    JobProgress.of(Traced(), 1)
    (statement,) = seen
    if api.connection.dialect == "sqlite":
        plan = api.connection.execute(f"EXPLAIN QUERY PLAN {statement}", (1,)).fetchall()
        assert all("SCAN" not in str(row) for row in plan), plan
    assert " state" not in statement


@pytest.mark.covers("E-03", "M-39")
def test_a_run_of_a_job_is_found_by_its_id(api: Api):
    id_ = api.create()["job_id"]
    (due,) = api.clock.fire(NOW)
    waiting = api.ask("GET", f"/{due.id}").json()
    RunDetail.model_validate(waiting)
    assert (waiting["job"], waiting["status"], waiting["run"]) == (id_, "waiting", None)

    no = open_run_row(api.connection, RunRequest("docs", "site"), NOW).no
    api.clock.began(due.id, no, NOW)
    running = api.ask("GET", f"/{due.id}").json()
    RunDetail.model_validate(running)
    assert (running["status"], running["run"], running["source"]) == ("running", no, "docs")
    assert running["state"] == "open"
    assert running["requests"] == 0

    for method in ("PUT", "DELETE"):
        given = {"json": body()} if method == "PUT" else {}
        assert api.ask(method, f"/{due.id}", **given).status_code == 404


@pytest.mark.covers("E-03", "E-04", "E-05")
def test_unknown_and_deleted_jobs_are_not_found_alike(api: Api):
    deleted = api.create()["job_id"]
    assert api.ask("DELETE", f"/{deleted}").status_code == 204
    for id_ in (deleted, "job_0000000000000000", "jb_0000000000000000"):
        answer = api.ask("GET", f"/{id_}")
        error = error_of(answer)
        assert (answer.status_code, error["code"]) == (404, "NOT_FOUND")
        assert error["message"] == "Crawl job not found"
        assert api.ask("PUT", f"/{id_}", json=body()).status_code == 404
    assert api.ask("DELETE", "/job_0000000000000000").status_code == 404


@pytest.mark.covers("E-04", "R2-29", "G-11")
def test_a_job_is_replaced_at_the_version_that_was_seen(api: Api):
    id_ = api.create()["job_id"]
    cron = {"type": "recurring", "cron": "0 0 * * *"}
    replaced = api.ask("PUT", f"/{id_}", json=body(schedule=cron, version=1))
    assert replaced.status_code == 200
    assert (replaced.json()["version"], replaced.json()["status"]) == (2, "scheduled")
    assert replaced.json()["next_run"] == "2024-01-21T00:00:00Z"

    for given in ({"json": body(version=1)}, {"json": body(), "headers": {"If-Match": '"1"'}}):
        stale = api.ask("PUT", f"/{id_}", **given)
        error = error_of(stale)
        assert (stale.status_code, error["code"]) == (409, "CONFLICT")
        assert error["details"]["field"] == "version"
    assert api.ask("PUT", f"/{id_}", json=body(), headers={"If-Match": '"2"'}).status_code == 200
    assert api.ask("PUT", f"/{id_}", json=body()).json()["version"] == 4  # the last writer wins


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"json": body(version="1")}, "version"),
        ({"json": body(version=True)}, "version"),
        ({"json": body(version=0)}, "version"),
        ({"json": body(), "headers": {"If-Match": "abc"}}, "If-Match"),
        ({"json": body(version=2), "headers": {"If-Match": "1"}}, "If-Match"),
        ({"json": body(config={"max_depth": 0})}, "max_depth"),
    ],
)
@pytest.mark.covers("E-04")
def test_a_wrong_replacement_is_refused(tmp_path: Path, given: dict, field: str):
    app = application(tmp_path)
    id_ = ask(app, "POST", PATH, json=body()).json()["job_id"]
    answer = ask(app, "PUT", f"{PATH}/{id_}", **given)

    assert (answer.status_code, error_of(answer)["details"]["field"]) == (400, field)
    assert ask(app, "GET", f"{PATH}/{id_}").json()["version"] == 1


@pytest.mark.covers("E-05", "R2-30", "G-12")
def test_a_job_is_deleted_and_that_may_be_repeated(api: Api):
    id_ = api.create()["job_id"]
    for _ in range(2):
        answer = api.ask("DELETE", f"/{id_}")
        assert (answer.status_code, answer.content) == (204, b"")
    assert api.ask("GET").json()["jobs"] == []
    assert api.rows("SELECT name, deleted_at FROM job") == [("docs", NOW)]


@pytest.mark.covers("E-05", "G-12")
def test_a_running_job_is_not_deleted(api: Api):
    id_ = api.create()["job_id"]
    run_of(api, "docs")
    answer = api.ask("DELETE", f"/{id_}")

    assert (answer.status_code, error_of(answer)["code"]) == (409, "CONFLICT")


def test_requests_that_change_jobs_need_the_scope_and_count_as_such(tmp_path: Path):
    calls: list[Call] = [("POST", PATH, {"json": body()}), ("GET", PATH)]
    created, listed = ask_all(application(tmp_path, jobs_limit=7, monitoring_limit=9), calls)

    assert created.headers["X-RateLimit-Limit"] == "7"
    assert listed.headers["X-RateLimit-Limit"] == "9"


def test_what_a_query_or_another_method_asks_is_refused(tmp_path: Path):
    app = application(tmp_path)
    assert ask(app, "POST", f"{PATH}?force=1", json=body()).status_code == 400
    assert ask(app, "DELETE", f"{PATH}/job_1", json={}).status_code in (400, 404)
    answer = ask(app, "PATCH", f"{PATH}/job_1", json={})
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, PUT, DELETE")


def test_a_deleted_jobs_waiting_run_is_not_claimed(api: Api):
    id_ = api.create()["job_id"]
    api.clock.fire(NOW)
    api.ask("DELETE", f"/{id_}")

    assert claim_run(api.database, api.connection, NOW) is None
    assert api.rows("SELECT state FROM job_run") == [("skipped",)]


@pytest.mark.covers("E-03", "R2-20")
def test_the_definition_of_a_job_is_read_as_it_was_given(api: Api):
    id_ = api.ask("POST", json=EXAMPLE).json()["job_id"]

    found = api.ask("GET", f"/{id_}").json()

    JobDetail.model_validate(found)
    assert found["seed_urls"] == ["https://cnn.com/", "https://bbc.com/", "https://reuters.com/"]
    for part in ("config", "filters", "schedule"):
        assert found[part] == EXAMPLE[part]
    listed, created = api.ask("GET").json()["jobs"][0], api.create("other")
    assert not {"seed_urls", "config", "filters"} & (listed.keys() | created.keys())


def test_secrets_of_a_definition_are_masked_and_may_be_sent_back(api: Api):
    seed = "https://docs.example.com/token:8c1f"
    filters = {"excluded_patterns": ["password=8c1f"]}
    id_ = api.create(seed_urls=[seed, "https://docs.example.com/"], filters=filters)["job_id"]

    found = api.ask("GET", f"/{id_}")

    assert "8c1f" not in found.text
    shown = {part: found.json()[part] for part in ("name", "seed_urls", "config", "filters")}
    assert shown["seed_urls"] == [
        "https://docs.example.com/token:…",
        "https://docs.example.com/",
    ]
    shown["config"]["max_depth"] = 2
    assert api.ask("PUT", f"/{id_}", json=shown).status_code == 200
    stored = api.store.get(id_).definition
    assert stored.seed_urls[0] == seed
    assert stored.filters.excluded_patterns == ["password=8c1f"]
    assert stored.config.max_depth == 2


@pytest.mark.covers("R2-12", "R2-30")
def test_the_name_of_a_deleted_job_is_free(api: Api):
    """Its pages are those of the next job of the name, which keeps what it still reaches."""
    first = api.create()["job_id"]
    run, no = run_of(api, "docs")
    seal_run_row(api.connection, no, (), int(api.now))
    api.clock.ended(run, 0, int(api.now))
    assert api.ask("DELETE", f"/{first}").status_code == 204

    assert api.create()["job_id"] != first
    assert api.ask("POST", json=body()).status_code == 409
    open_run_row(api.connection, RunRequest("crawled", "site"), int(api.now))
    assert api.ask("POST", json=body("crawled")).status_code == 409


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_no_body_is_checked_while_other_writers_wait(
    api: Api, monkeypatch: pytest.MonkeyPatch, method: str
):
    """A large definition takes a while, in which no crawl could write."""
    path = f"/{api.create()['job_id']}" if method == "PUT" else ""
    writing, checked = [], []
    write, check = Stores.write, JobDefinition.check

    def in_transaction(stores: Stores, work):
        writing.append(work)
        try:
            return write(stores, work)
        finally:
            writing.pop()

    def noted(given: JobDefinition, now: int) -> None:
        checked.append(bool(writing))
        check(given, now)

    monkeypatch.setattr(Stores, "write", in_transaction)
    monkeypatch.setattr(JobDefinition, "check", noted)

    sound = api.ask(method, path, json=body("other"))
    refused = api.ask(method, path, json=body("more", filters={"url_patterns": ["("]}))

    assert (sound.is_success, refused.status_code) == (True, 400)
    assert checked == [False, False]

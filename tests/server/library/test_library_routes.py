"""Steps of document libraries over HTTP (E-18, E-19)."""

import json
from pathlib import Path
from uuid import uuid4

import pytest

from smartcrawl.model.times import iso_time
from smartcrawl.rules.run_orders import JobAction
from tests.server.api_client import error_of
from tests.server.data.library import NOW
from tests.server.library.conftest import Quay, declare

CRAWL = "/v2/crawler/crawl"
JOBS = "/api/v1/jobs"
STEPS = {name: f"/v2/crawler/{name}_data" for name in ("download", "process", "embed")}


@pytest.fixture(autouse=True)
def domain(tmp_path: Path) -> None:
    declare(tmp_path)


def words_of(quay: Quay, answer) -> list[str]:
    """The words of the command that a request started."""
    ((words, _),) = quay.begun(answer.headers["X-Job-Id"])
    return words


def test_an_integer_may_be_written_as_programs_of_json_do(quay: Quay):
    """JSON Schema takes 4.0 for an integer, and the OpenAPI asks for one."""
    with quay.serving(1):
        posted = quay.ask("POST", CRAWL, json={"domain_id": "DOMAIN01", "retry_batches": 4.0})

    assert posted.status_code == 200, posted.text
    assert "--retry-batches 4" in " ".join(words_of(quay, posted))


@pytest.mark.covers("E-18", "E-19", "R3-11", "R3-12", "R3-19", "R3-59")
@pytest.mark.parametrize(
    ("path", "given", "words"),
    [
        (CRAWL, {}, "crawl DOMAIN01 --mode incremental --scope all --retry-batches 2"),
        (
            CRAWL,
            {"mode": "full", "scope": "lists", "retry_batches": 5, "dry_run": True},
            "crawl DOMAIN01 --mode full --scope lists --retry-batches 5 --dry-run",
        ),
        (
            STEPS["download"],
            {"source_type": "file_sources", "source_id": "source01"},
            "download DOMAIN01 --mode incremental --scope files --retry-batches 2"
            " --source source01",
        ),
        (
            STEPS["process"],
            {"source_type": "sitepage_sources"},
            "process DOMAIN01 --mode incremental --scope sitepages --retry-batches 2",
        ),
        (STEPS["embed"], {}, "embed DOMAIN01 --mode incremental --scope all --retry-batches 2"),
    ],
)
def test_a_request_is_a_job_whose_log_it_gets(quay: Quay, path: str, given: dict, words: str):
    with quay.serving(3):
        query = {name: json.dumps(v).strip('"') for name, v in given.items()}
        got = quay.ask("GET", path, params={"domain_id": "DOMAIN01"} | query)
        posted = quay.ask("POST", path, json={"domain_id": "DOMAIN01"} | given)
    for answer in (got, posted):
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert words_of(quay, answer) == words.split()
        first, *_, last = answer.text.splitlines()
        id_ = answer.headers["X-Job-Id"]
        assert first == f"job {id_}: {words.split(maxsplit=1)[0]} of DOMAIN01"
        assert answer.headers["Location"] == f"/api/v1/jobs/{id_}"
        assert json.loads(last) == {"complete": False}
    assert got.headers["X-Job-Id"] != posted.headers["X-Job-Id"]


@pytest.mark.covers("E-18")
def test_the_result_comes_as_json_or_as_a_page(quay: Quay):
    with quay.serving():
        found = {
            form: quay.ask("GET", CRAWL, params={"domain_id": "DOMAIN01", "format": form})
            for form in ("json", "html")
        }
    assert found["json"].json() == {"complete": True}
    assert found["json"].headers["Content-Type"] == "application/json"
    assert found["html"].headers["Content-Type"] == "text/html; charset=utf-8"
    assert found["html"].headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert '<pre id="result">' in found["html"].text


@pytest.mark.covers("E-18", "R3-12")
def test_a_job_is_read_and_controlled_by_its_id(quay: Quay):
    with quay.serving():
        answer = quay.ask("GET", STEPS["process"], params={"domain_id": "DOMAIN01"})
    id_ = answer.headers["X-Job-Id"]
    detail = quay.ask("GET", f"/api/v1/jobs/{id_}").json()
    assert detail == {
        "job_id": id_,
        "type": "library",
        "domain": "DOMAIN01",
        "action": "process",
        "mode": "incremental",
        "scope": "all",
        "source": None,
        "dry_run": False,
        "status": "ended",
        "requested": None,
        "created_at": iso_time(NOW),
        "ended_at": "1970-01-01T00:00:01Z",
        "exit_status": 0,
        "reasons": [],
        "result": {"complete": True},
    }
    log = quay.ask("GET", f"/api/v1/jobs/{id_}/log", params={"follow": "true"})
    assert json.loads(log.text)[0][:2] == ["process", "DOMAIN01"]
    for action in JobAction:
        refused = quay.ask("POST", f"/api/v1/jobs/{id_}/control", json={"action": action})
        assert (refused.status_code, error_of(refused)["code"]) == (409, "CONFLICT")


@pytest.mark.covers("R3-67")
@pytest.mark.parametrize(
    ("path", "given"),
    [
        (CRAWL, {"domain_id": "DOMAIN02"}),
        (STEPS["download"], {"domain_id": "DOMAIN02"}),
        (STEPS["download"], {"domain_id": "DOMAIN01", "source_id": "source02"}),
        (
            STEPS["download"],
            {"domain_id": "DOMAIN01", "source_id": "source01", "source_type": "list_sources"},
        ),
    ],
)
def test_an_unknown_domain_or_source_is_not_found(quay: Quay, path: str, given: dict):
    for answer in (quay.ask("GET", path, params=given), quay.ask("POST", path, json=given)):
        assert (answer.status_code, error_of(answer)["code"]) == (404, "NOT_FOUND")
    assert quay.desk.rows("SELECT * FROM library_job") == []


def test_a_store_that_cannot_be_asked_is_no_store_that_is_gone(quay: Quay, tmp_path: Path):
    declare(tmp_path, vector_store_id="vs_1")
    with quay.serving(1):
        answer = quay.ask("GET", STEPS["embed"], params={"domain_id": "DOMAIN01"})
    assert answer.status_code == 200
    assert words_of(quay, answer)[0] == "embed"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "half"),
        ("scope", "everything"),
        ("dry_run", "yes"),
        ("retry_batches", "0"),
        ("retry_batches", "6"),
        ("format", "xml"),
        ("domain_id", "../etc"),
        ("domain_id", "a" * 65),
        ("source_id", "source01"),
        ("more", "1"),
    ],
)
def test_a_wrong_parameter_is_refused(quay: Quay, field: str, value: str):
    given = {"domain_id": "DOMAIN01"} | {field: value}
    for answer in (quay.ask("GET", CRAWL, params=given), quay.ask("POST", CRAWL, json=given)):
        error = error_of(answer)
        assert (answer.status_code, error["code"]) == (400, "INVALID_INPUT")
        assert error["details"]["field"] == field
    assert quay.desk.rows("SELECT * FROM library_job") == []


def test_a_domain_json_with_problems_is_not_repeated(quay: Quay, tmp_path: Path):
    declare(tmp_path, file_sources=[{"source_id": "secret place"}])
    answer = quay.ask("GET", CRAWL, params={"domain_id": "DOMAIN01"})
    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "INVALID_CONFIG")
    assert str(tmp_path) not in answer.text
    assert "secret" not in answer.text


def test_a_step_that_is_under_way_is_a_conflict_with_its_holder(quay: Quay):
    lease = quay.desk.database.take("DOMAIN01.source01", "today")
    answer = quay.ask("GET", CRAWL, params={"domain_id": "DOMAIN01"})
    assert (answer.status_code, error_of(answer)["code"]) == (409, "CONFLICT")
    assert "DOMAIN01.source01" in error_of(answer)["details"]["reason"]
    lease.release()
    with quay.serving():
        key = {"Idempotency-Key": str(uuid4())}
        given = {"domain_id": "DOMAIN01", "format": "json"}
        first = quay.ask("GET", CRAWL, params=given, headers=key)
        again = quay.ask("GET", CRAWL, params=given, headers=key)
        other = quay.ask("GET", STEPS["embed"], params=given, headers=key)
    assert first.json() == again.json() == other.json() == {"complete": True}
    assert first.headers["X-Job-Id"] == again.headers["X-Job-Id"] != other.headers["X-Job-Id"]


def test_a_get_that_acts_is_refused_to_other_sites_and_counted_as_a_change(quay: Quay):
    for path in (CRAWL, *STEPS.values()):
        answer = quay.ask(
            "GET",
            path,
            params={"domain_id": "DOMAIN01"},
            headers={"Origin": "https://evil.example"},
        )
        assert (answer.status_code, error_of(answer)["code"]) == (403, "FORBIDDEN")
    assert quay.desk.rows("SELECT * FROM library_job") == []


@pytest.mark.covers("E-18", "R2-24", "R3-12")
def test_the_list_of_jobs_has_those_of_libraries_behind_the_others(quay: Quay):
    quay.desk.add_job("docs", "https://docs.example.com/")
    known = quay.ask("GET", JOBS).json()["jobs"]
    before = len(known)  # one server keeps the jobs of other tests
    with quay.serving(3):
        done = quay.ask("POST", STEPS["embed"], json={"domain_id": "DOMAIN01"})
    with quay.serving(1):
        failed = quay.ask("POST", CRAWL, json={"domain_id": "DOMAIN01"})
    ids = [answer.headers["X-Job-Id"] for answer in (done, failed)]

    found = quay.ask("GET", JOBS).json()

    assert found["pagination"]["total"] == before + 2
    assert [job["type"] for job in known] == ["crawl"] * before
    assert found["jobs"][:before] == known
    steps = found["jobs"][before:]
    assert [job["job_id"] for job in steps] == ids
    assert [job["type"] for job in steps] == ["library", "library"]
    assert [job["name"] for job in steps] == ["DOMAIN01 embed", "DOMAIN01 crawl"]
    assert [job["status"] for job in steps] == ["completed", "failed"]
    assert [job["complete"] for job in steps] == [False, None]
    for query, expected in (
        ({"status": "failed"}, ids[1:]),
        ({"limit": 1, "offset": before}, ids[:1]),
        ({"limit": 2, "offset": before + 1}, ids[1:]),
        ({"offset": before + 2}, []),
        ({"status": "paused"}, []),
    ):
        page = quay.ask("GET", JOBS, params=query).json()["jobs"]
        assert [job["job_id"] for job in page] == expected, query
    for id_ in ids:
        detail = quay.ask("GET", f"{JOBS}/{id_}")
        assert (detail.status_code, detail.json()["type"]) == (200, "library")


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_the_job_of_a_library_is_neither_replaced_nor_deleted(quay: Quay, method: str):
    """It is the record of one order; the answer says what to do instead."""
    with quay.serving():
        id_ = quay.ask("POST", CRAWL, json={"domain_id": "DOMAIN01"}).headers["X-Job-Id"]
    body = {"name": "docs", "seed_urls": ["https://docs.example.com/"]}

    answer = quay.ask(method, f"{JOBS}/{id_}", **({"json": body} if method == "PUT" else {}))

    assert answer.status_code == 409
    assert f"the job {id_} is the step crawl at the libraries of DOMAIN01" in answer.text
    assert quay.ask("GET", f"{JOBS}/{id_}").json()["status"] == "ended"

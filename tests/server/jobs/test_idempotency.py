"""Requests with an Idempotency-Key are carried out once, by any number of servers."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from redis import Redis

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.server import idempotency
from smartcrawl.server.idempotency import MOST
from smartcrawl.server.jobs.store import JobStore
from smartcrawl.server.keys import KEPT, KeyTime, Scope, make_api_key
from tests.server.api_client import application, ask, error_of
from tests.server.jobs.conftest import JOBS, NOW, Api, Office, body
from tests.server.test_serve import serving


def keyed(key: object = None) -> dict[str, str]:
    return {"Idempotency-Key": str(uuid4() if key is None else key)}


@pytest.mark.covers("R2-15", "R2-17")
def test_a_client_has_a_thousand_keys_in_a_day():
    assert (KEPT, MOST) == (86_400, 1_000)


@pytest.mark.covers("R2-14", "R2-16", "R2-17")
def test_a_key_is_carried_out_once_within_a_day(api: Api):
    headers = keyed()
    first = api.ask("POST", json=body(), headers=headers)
    api.now += KEPT - 1
    again = api.ask("POST", json=body(), headers=headers)

    assert first.status_code == again.status_code == 201
    assert first.content == again.content
    assert first.headers["Location"] == again.headers["Location"]
    assert first.headers["X-Request-Id"] != again.headers["X-Request-Id"]
    assert api.rows("SELECT count(*) FROM job") == [(1,)]
    api.now += 1  # the key is free: the name is in use, now
    assert api.ask("POST", json=body(), headers=headers).status_code == 409


@pytest.mark.covers("R2-16", "R2-17")
def test_a_repeated_request_tells_of_a_job_that_is_deleted_by_now(api: Api):
    headers = keyed()
    first = api.ask("POST", json=body(), headers=headers)
    job = first.headers["Location"]
    assert ask(api.app, "DELETE", job).status_code < 300

    again = api.ask("POST", json=body(), headers=headers)

    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert ask(api.app, "GET", job).status_code == 404


@pytest.mark.covers("R2-17")
@pytest.mark.parametrize("days", [1.01, 365])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_key_does_not_vanish_when_the_clock_leaps_ahead(
    api: Api, days: float, is_restarted: bool
):
    headers, now = keyed(), api.now
    first = api.ask("POST", json=body(), headers=headers)
    api.now += int(days * KEPT)
    if is_restarted:
        api.app = api.server()
    later = keyed()
    for _ in range(3):  # the new time is no truer for being seen again
        assert api.ask("POST", json=body("other"), headers=later).status_code == 201
        assert api.ask("POST", json=body(), headers=headers).content == first.content

    api.now = now + 3_600
    for _ in range(2):
        assert api.ask("POST", json=body(), headers=headers).content == first.content
        assert api.ask("POST", json=body("other"), headers=later).status_code == 201
    assert api.rows("SELECT count(*) FROM job") == [(2,)]
    api.now = now + KEPT  # the first is a day old
    assert api.ask("POST", json=body(), headers=headers).status_code == 409
    api.now += KEPT
    api.ask("POST", json=body("third"), headers=keyed())
    assert api.rows("SELECT count(*) FROM reply") == [(1,)]


def test_a_key_is_as_old_as_the_clock_says_for_a_day_between_requests():
    time = KeyTime()
    assert [time.at(now, now - KEPT) for now in (KEPT, 2 * KEPT)] == [KEPT, 2 * KEPT]
    assert time.at(3 * KEPT + 1, 2 * KEPT) == 2 * KEPT + KEPT // 4
    assert time.at(3 * KEPT + 61, 2 * KEPT) == 2 * KEPT + KEPT // 4 + 60
    assert time.at(3 * KEPT + 1, None) == 2 * KEPT + KEPT // 4 + 60  # it was put back
    assert time.at(2 * KEPT, None) == 2 * KEPT


def test_a_client_that_comes_once_a_week_does_not_keep_its_keys_for_ever(api: Api):
    for week in range(6):
        api.ask("POST", json=body(f"docs-{week}"), headers=keyed())
        api.now += 7 * KEPT
    assert api.rows("SELECT count(*) FROM reply") == [(4,)]


@pytest.mark.covers("R2-16", "R2-19")
def test_a_refusal_is_kept_as_well(api: Api):
    api.create()
    headers = keyed()
    first = api.ask("POST", json=body(), headers=headers)
    api.ask("DELETE", f"/{api.store.page()[0][0].id}")
    again = api.ask("POST", json=body(), headers=headers)

    assert first.status_code == again.status_code == 409
    assert first.content == again.content
    assert api.ask("POST", json=body(), headers=keyed()).status_code == 201


def test_a_replacement_with_a_key_is_carried_out_once(api: Api):
    id_ = api.create()["job_id"]
    headers = keyed()
    for _ in range(3):
        answer = api.ask("PUT", f"/{id_}", json=body(version=1), headers=headers)
        assert (answer.status_code, answer.json()["version"]) == (200, 2)
    assert api.ask("PUT", f"/{id_}", json=body(version=1), headers=keyed()).status_code == 409


@pytest.mark.parametrize("what", ["body", "if-match"])
def test_a_key_of_another_request_is_refused(api: Api, what: str):
    """ATT-50."""
    id_ = api.create()["job_id"]
    headers = keyed()
    assert api.ask("PUT", f"/{id_}", json=body(), headers=headers).status_code == 200
    if what == "if-match":
        headers["If-Match"] = "2"
    other = body(config={"max_depth": 2}) if what == "body" else body()
    answer = api.ask("PUT", f"/{id_}", json=other, headers=headers)

    assert (answer.status_code, error_of(answer)["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert api.ask("GET", f"/{id_}").json()["version"] == 2


def test_a_key_belongs_to_its_client_method_and_path(api: Api):
    """ATT-50."""
    given = {}
    for name in ("a", "b"):
        text, _ = make_api_key(api.connection, name, Scope.OPERATE, NOW)
        given[name] = {"Authorization": f"Bearer {text}"}
    headers = keyed()
    made = [
        api.ask("POST", json=body(name), headers=headers | given.get(name, {}))
        for name in ("a", "b", "c")
    ]
    assert [answer.status_code for answer in made] == [201] * 3
    for answer in made[:2]:
        path = f"/{answer.json()['job_id']}"
        renamed = body(answer.json()["name"], config={"max_depth": 3})
        assert api.ask("PUT", path, json=renamed, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "key",
    ["", "1", "3f0c5f5e-7a0e-11ee-b962-0242ac120002", "7c9e6679-7425-40de-944b-e07fc1f90ae7x", "é"],
)
@pytest.mark.covers("R2-14")
def test_a_key_is_a_uuid_of_version_4(tmp_path: Path, key: str):
    headers = {"Idempotency-Key": key.encode("latin-1")}
    answer = ask(application(tmp_path), "POST", JOBS, json=body(), headers=headers)

    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "INVALID_INPUT")
    assert error["details"]["field"] == "Idempotency-Key"


@pytest.mark.covers("M-40", "R2-19")
def test_a_key_can_be_required(tmp_path: Path):
    app = application(tmp_path, require_idempotency_key=True)
    missing = ask(app, "POST", JOBS, json=body())

    assert (missing.status_code, error_of(missing)["code"]) == (400, "INVALID_INPUT")
    created = ask(app, "POST", JOBS, json=body(), headers=keyed())
    assert created.status_code == 201
    path = f"{JOBS}/{created.json()['job_id']}"
    assert ask(app, "PUT", path, json=body()).status_code == 400
    assert ask(app, "DELETE", path).status_code == 204  # safe to repeat without one


def test_a_failure_of_the_server_keeps_nothing(api: Api, monkeypatch: pytest.MonkeyPatch):
    headers = keyed()
    create = JobStore.create

    def fail(self: JobStore, *values: object) -> None:
        create(self, *values)
        raise RegistryError("the registry is away")

    monkeypatch.setattr(JobStore, "create", fail)
    answer = api.ask("POST", json=body(), headers=headers)
    assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
    assert api.rows("SELECT count(*) FROM job") == api.rows("SELECT count(*) FROM reply") == [(0,)]
    monkeypatch.setattr(JobStore, "create", create)
    assert api.ask("POST", json=body(), headers=headers).status_code == 201


def test_a_client_has_a_thousand_keys(api: Api, monkeypatch: pytest.MonkeyPatch):
    """ATT-50."""
    monkeypatch.setattr(idempotency, "MOST", 3)
    made = [api.ask("POST", json=body(f"j{n}"), headers=keyed()) for n in range(4)]

    assert [answer.status_code for answer in made] == [201, 201, 201, 429]
    assert error_of(made[-1])["code"] == "RATE_LIMITED"
    assert api.rows("SELECT count(*) FROM job") == [(3,)]
    assert api.ask("POST", json=body("j9")).status_code == 201
    api.now += KEPT
    assert api.ask("POST", json=body("j8"), headers=keyed()).status_code == 201


@pytest.mark.long
@pytest.mark.covers("R2-16", "M-40")
def test_of_many_equal_requests_to_two_servers_one_creates_a_job(office: Office, tmp_path: Path):
    """ATT-50."""
    headers = keyed()
    in_file = isinstance(office.place, Path)
    there = {"REGISTRY_URL": f"sqlite:///{office.place}" if in_file else str(office.place)}
    folders = (tmp_path / "one", tmp_path / "other")
    with serving(folders[0], **there) as one, serving(folders[1], **there) as other:

        def post(place: int) -> httpx.Response:
            url = (one, other)[place % 2].url + JOBS
            return httpx.post(url, json=body(), headers=headers, timeout=30)

        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(post, range(50)))
        listed = httpx.get(one.url + JOBS).json()

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert listed["pagination"]["total"] == 1


@pytest.mark.covers("R2-15")
def test_redis_has_a_copy_for_a_day_that_decides_nothing(tmp_path: Path, redis_url: str):
    headers = keyed()
    name = f"idempotency:{headers['Idempotency-Key']}"
    app = application(tmp_path, run={"redis": redis_url})
    first = ask(app, "POST", JOBS, json=body(), headers=headers)
    with Redis.from_url(redis_url) as redis:
        kept = json.loads(redis.get(name))
        assert (kept["status"], kept["body"]) == (201, first.text)
        assert KEPT - 60 < redis.ttl(name) <= KEPT
        redis.delete(name)  # an eviction

    again = ask(
        application(tmp_path, run={"redis": redis_url}), "POST", JOBS, json=body(), headers=headers
    )
    assert again.content == first.content

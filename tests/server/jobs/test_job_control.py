"""Orders to jobs over HTTP (E-06, E-07)."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import httpx
import pytest
from anyio import to_thread

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.runs.run_orders import order_run_row, run_order_row
from smartcrawl.registry.runs.runs import RunRequest, interrupt_run_row, open_run_row
from smartcrawl.rules.model import RunOrder
from smartcrawl.server.idempotency import Reply
from smartcrawl.server.jobs import control, orders, routes
from smartcrawl.server.jobs.answers import Ordered
from smartcrawl.server.jobs.orders import JobOrders
from smartcrawl.server.keys import Scope, make_api_key
from tests.server.api_client import application, ask, error_of
from tests.server.fake_crawls import claim_run
from tests.server.jobs.conftest import JOBS, NOW, Api, body

USUAL_WAIT = control.WAIT
DAILY = {"type": "recurring", "cron": "0 0 * * *"}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers wait for the effect of an order only shortly."""
    monkeypatch.setattr(control, "WAIT", 0.2)


def test_an_answer_waits_two_seconds_for_the_effect_of_an_order():
    assert USUAL_WAIT == 2


def running(api: Api, name: str = "docs") -> tuple[str, str, int]:
    """A running job; return its id, that of its run, and run.no."""
    job = api.create(name)["job_id"]
    api.clock.fire(NOW)
    id_ = claim_run(api.database, api.connection, NOW)
    assert id_ is not None
    run = open_run_row(api.connection, RunRequest(name, "site", job_run=id_), NOW).no
    api.clock.began(id_, run, NOW)
    return job, id_, run


@contextmanager
def crawling(api: Api, run: int) -> Iterator[None]:
    """Carry out the order to a run as its crawl does, in a thread."""
    ending = threading.Event()

    def crawl() -> None:
        connection = api.database.open()
        while not ending.wait(0.02):
            order = run_order_row(connection, run)
            if order is not None:
                interrupt_run_row(connection, run, NOW, ["paused"])
                if order is RunOrder.CANCEL:
                    order_run_row(connection, run, order, NOW)
                break
        connection.close()

    thread = threading.Thread(target=crawl)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def answered(answer: httpx.Response) -> tuple:
    assert answer.status_code == 200, answer.text
    Ordered.model_validate_json(answer.content)
    found = answer.json()
    assert set(found) == {"job_id", "status", "requested"}
    return found["status"], found["requested"]


def controlled(api: Api, id_: str, action: str, **given: object) -> httpx.Response:
    return api.ask("POST", f"/{id_}/control", json={"action": action}, **given)


@pytest.mark.covers("E-06", "R2-27")
@pytest.mark.parametrize(("action", "status"), [("pause", "paused"), ("cancel", "cancelled")])
def test_an_order_is_answered_when_the_run_obeyed(api: Api, action: str, status: str):
    job, id_, run = running(api)
    with crawling(api, run):
        answer = controlled(api, job, action)

    assert answered(answer) == (status, None)
    assert answer.json()["job_id"] == job
    assert api.rows("SELECT state FROM job_run") == [(status,)]
    shown = api.ask("GET", f"/{job}").json()
    assert (shown["status"], shown["requested"], shown["reasons"]) == (status, None, [status])
    assert api.ask("GET", f"/{id_}").json()["status"] == status


@pytest.mark.covers("E-06", "R2-27")
@pytest.mark.parametrize("asked", [control, routes])
def test_a_run_that_goes_on_while_it_is_read_is_seen_before_or_after(
    api: Api, monkeypatch: pytest.MonkeyPatch, asked: ModuleType
):
    job, id_, run = running(api)
    with crawling(api, run):
        controlled(api, job, "pause")
    standing, status = asked.api_job_standing, orders._job
    going_on = [False]

    def read_standing(connection: Connection, id_: str) -> orders.Standing:
        going_on[0] = True
        return standing(connection, id_)

    def read_status(connection: Connection, job: str) -> tuple:
        found = status(connection, job)
        if going_on[0]:
            going_on[0] = False
            api.clock.began(id_, run, NOW)
        return found

    monkeypatch.setattr(orders, "_job", read_status)
    monkeypatch.setattr(asked, "api_job_standing", read_standing)
    found = controlled(api, job, "resume").json()
    if asked is routes:
        assert (found["status"], found["requested"]) == ("paused", "resume")
        found = api.ask("GET", f"/{job}").json()

    assert (found["status"], found["requested"]) in [("paused", "resume"), ("running", None)]
    assert api.ask("GET", f"/{job}").json()["status"] == "running"


@pytest.mark.covers("E-06")
def test_an_order_that_takes_longer_is_shown_as_requested(api: Api, short: None):
    job, id_, run = running(api)
    answer = controlled(api, job, "pause")

    assert answered(answer) == ("running", "pause")
    assert api.ask("GET", f"/{job}").json()["requested"] == "pause"
    assert api.ask("GET", f"/{id_}").json()["requested"] == "pause"
    interrupt_run_row(api.connection, run, NOW, ["paused"])
    assert answered(controlled(api, job, "pause")) == ("paused", None)


@pytest.mark.covers("E-07", "R2-28")
def test_pause_and_resume_have_paths_of_their_own(api: Api, short: None):
    job = api.create(schedule=DAILY)["job_id"]

    assert answered(api.ask("POST", f"/{job}/pause")) == ("paused", None)
    assert answered(api.ask("POST", f"/{job}/resume", json={})) == ("scheduled", None)
    assert answered(controlled(api, job, "pause")) == ("paused", None)
    assert answered(controlled(api, job, "resume")) == ("scheduled", None)
    assert api.ask("POST", f"/{job}/cancel").status_code == 404


@pytest.mark.covers("E-06", "E-07", "M-39")
def test_a_resumed_run_is_requested_until_it_is_open(api: Api, short: None):
    job, id_, run = running(api)
    with crawling(api, run):
        assert answered(api.ask("POST", f"/{id_}/pause")) == ("paused", None)

    assert answered(api.ask("POST", f"/{job}/resume")) == ("paused", "resume")
    assert answered(api.ask("POST", f"/{id_}/resume")) == ("waiting", "resume")


def test_a_resume_is_answered_when_the_run_is_open(api: Api):
    job, id_, run = running(api)
    with crawling(api, run):
        controlled(api, job, "pause")
    began = threading.Event()

    def starts() -> None:
        connection = api.database.open()
        look = "SELECT 1 FROM job_run WHERE requested = 'resume'"
        while not began.wait(0.02):
            if connection.execute(look).get is not None:
                type(api.clock)(api.database, connection).began(id_, run, NOW)
                break
        connection.close()

    thread = threading.Thread(target=starts)
    thread.start()
    answer = api.ask("POST", f"/{job}/resume")
    began.set()
    thread.join()
    assert answered(answer) == ("running", None)


@pytest.mark.covers("E-06", "R2-27", "R2-32")
@pytest.mark.parametrize("exit_status", [0, 1])
def test_a_job_that_ran_once_is_started_again(api: Api, exit_status: int):
    job = api.create()["job_id"]
    (first,) = api.clock.fire(NOW)
    assert controlled(api, job, "start").status_code == 409  # its run waits
    api.clock.ended(first.id, exit_status, NOW, ["gone"])

    assert answered(controlled(api, job, "start")) == ("created", None)

    shown = api.ask("GET", f"/{job}").json()
    assert (shown["status"], shown["complete"], shown["reasons"]) == ("created", None, [])
    (second,) = api.clock.fire(NOW + 1)
    assert second.id != first.id
    assert controlled(api, first.id, "start").status_code == 409  # a run is over for good
    api.clock.ended(second.id, 0, NOW + 9)
    assert api.ask("GET", f"/{job}").json()["status"] == "completed"


@pytest.mark.covers("R2-32")
def test_only_a_job_that_runs_once_and_ended_is_started(api: Api):
    waiting, recurring = api.create("one"), api.create("two", schedule=DAILY)
    cancelled = api.create("three")["job_id"]
    controlled(api, cancelled, "cancel")
    api.connection.execute("UPDATE job SET status = 'failed' WHERE name = 'two'")

    for id_ in (waiting["job_id"], recurring["job_id"], cancelled):
        answer = controlled(api, id_, "start")
        assert (answer.status_code, error_of(answer)["code"]) == (409, "CONFLICT")


@pytest.mark.covers("E-06", "R2-27", "R2-32")
@pytest.mark.parametrize("path", ["control", "resume"])
def test_an_order_that_a_state_does_not_take_is_a_conflict(api: Api, path: str):
    job = api.create()["job_id"]
    given = {"json": {"action": "resume"}} if path == "control" else {}
    answer = api.ask("POST", f"/{job}/{path}", **given)

    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (409, "CONFLICT")
    assert error["message"] == "The job is in another state"
    assert error["details"] == {
        "field": "status",
        "reason": "the job is created: it can be cancelled",
    }


@pytest.mark.covers("E-06", "E-07", "R2-27")
def test_orders_to_unknown_and_deleted_jobs_are_not_found_alike(api: Api):
    deleted = api.create()["job_id"]
    assert api.ask("DELETE", f"/{deleted}").status_code == 204
    texts = set()
    for id_ in (deleted, "job_0000000000000000", "jb_0000000000000000"):
        for answer in (controlled(api, id_, "pause"), api.ask("POST", f"/{id_}/resume")):
            error = error_of(answer)
            assert (answer.status_code, error["code"]) == (404, "NOT_FOUND")
            texts.add((error["message"], error["details"]["reason"]))
    assert texts == {("Crawl job not found", "there is no job of this id")}


_ACTIONS = "action must be 'pause', 'resume', 'cancel' or 'start'"


@pytest.mark.long(but=8)
@pytest.mark.covers("E-06", "R2-27")
@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ({"action": "stop"}, "action", _ACTIONS),
        ({"action": "PAUSE"}, "action", _ACTIONS),
        ({"action": ""}, "action", _ACTIONS),
        ({"action": None}, "action", _ACTIONS),
        ({"action": True}, "action", _ACTIONS),
        ({"action": 1}, "action", _ACTIONS),
        ({"action": ["pause"]}, "action", _ACTIONS),
        ({"action": {"pause": 1}}, "action", _ACTIONS),
        ({"action": "p" * 100_000}, "action", _ACTIONS),
        ({"action": "pause\x00"}, None, None),
        ({"action": 2**64}, None, None),
        ({}, "action", "action is missing"),
        ({"action": "pause", "force": True}, "force", "force is not known"),
        ([], None, "the body must be a JSON object"),
        ("pause", None, "the body must be a JSON object"),
        (None, None, "the body must be a JSON object"),
    ],
)
def test_a_wrong_order_is_refused(
    tmp_path: Path, given: object, field: str | None, reason: str | None
):
    app = application(tmp_path)
    id_ = ask(app, "POST", JOBS, json=body(schedule=DAILY)).json()["job_id"]
    headers = {"Content-Type": "application/json"}
    answer = ask(app, "POST", f"{JOBS}/{id_}/control", content=json.dumps(given), headers=headers)

    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "INVALID_INPUT")
    if reason is not None:
        assert error["details"].get("field") == field
        assert error["details"]["reason"].startswith(reason)
    assert ask(app, "GET", f"{JOBS}/{id_}").json()["status"] == "scheduled"


@pytest.mark.long(but=5)
@pytest.mark.covers("E-07")
@pytest.mark.parametrize("given", [{"action": "pause"}, [], None, 1, {"force": True}])
@pytest.mark.parametrize("path", ["pause", "resume"])
def test_a_path_of_its_own_takes_no_body(tmp_path: Path, path: str, given: object):
    app = application(tmp_path)
    id_ = ask(app, "POST", JOBS, json=body(schedule=DAILY)).json()["job_id"]
    headers = {"Content-Type": "application/json"}
    answer = ask(app, "POST", f"{JOBS}/{id_}/{path}", content=json.dumps(given), headers=headers)

    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "INVALID_INPUT")
    assert error["details"]["reason"] == "this path takes no body"


def test_orders_take_no_query_and_a_body_where_one_is_needed(tmp_path: Path):
    app = application(tmp_path)
    id_ = ask(app, "POST", JOBS, json=body(schedule=DAILY)).json()["job_id"]
    for path in ("control", "pause", "resume"):
        answer = ask(app, "POST", f"{JOBS}/{id_}/{path}?wait=1")
        assert (answer.status_code, error_of(answer)["details"]["field"]) == (400, "wait")
        assert ask(app, "GET", f"{JOBS}/{id_}/{path}").headers["Allow"] == "POST"
    missing = ask(app, "POST", f"{JOBS}/{id_}/control")
    assert error_of(missing)["details"]["reason"] == "a JSON body is missing"


def test_orders_need_the_scope_operate_and_count_as_changes(api: Api):
    job = api.create(schedule=DAILY)["job_id"]
    statuses = {}
    for scope in (Scope.READ, Scope.OPERATE):
        text, _ = make_api_key(api.connection, scope.name, scope, NOW)
        headers = {"Authorization": f"Bearer {text}"}
        answer = api.ask("POST", f"/{job}/pause", headers=headers)
        statuses[scope] = answer.status_code
    assert statuses == {Scope.READ: 403, Scope.OPERATE: 200}
    assert answer.headers["X-RateLimit-Limit"] == "100"


@pytest.mark.covers("E-06", "E-07", "R2-16", "R2-18")
def test_an_order_with_a_key_is_given_once_and_answered_alike(api: Api):
    job, _, run = running(api)
    headers = {"Idempotency-Key": str(uuid4())}
    with crawling(api, run):
        first = controlled(api, job, "pause", headers=headers)
    assert answered(first) == ("paused", None)
    assert answered(controlled(api, job, "cancel")) == ("cancelled", None)
    again = controlled(api, job, "pause", headers=headers)

    assert again.content == first.content
    reused = controlled(api, job, "cancel", headers=headers)
    assert (reused.status_code, error_of(reused)["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    late = {"Idempotency-Key": str(uuid4())}
    refusals = [api.ask("POST", f"/{job}/pause", headers=late) for _ in range(2)]
    assert [answer.status_code for answer in refusals] == [409, 409]
    assert refusals[0].content == refusals[1].content


@pytest.mark.covers("R2-16")
def test_equal_orders_at_the_same_time_get_the_same_answer(api: Api):
    """Each waits for the effect, and the first of them stores it."""
    job, _, run = running(api)
    headers = {"Idempotency-Key": str(uuid4())}
    apps = [api.server() for _ in range(4)]
    given = {"json": {"action": "pause"}, "headers": headers}
    with ThreadPoolExecutor(len(apps)) as pool, crawling(api, run):
        path = f"{JOBS}/{job}/control"
        answers = list(pool.map(lambda app: ask(app, "POST", path, **given), apps))

    assert {answered(answer) for answer in answers} == {("paused", None)}
    assert len({answer.content for answer in answers}) == 1
    assert [bool(pending) for (pending,) in api.rows("SELECT pending FROM reply")] == [False]


def test_the_first_server_that_knows_an_effect_decides_the_answer(
    api: Api, short: None, monkeypatch: pytest.MonkeyPatch
):
    job, _, run = running(api)
    headers = {"Idempotency-Key": str(uuid4())}
    settled = control._Control._settled
    first: list[httpx.Response] = []

    async def late(self: control._Control, id_: str, reply: Reply) -> Reply:
        monkeypatch.setattr(control._Control, "_settled", settled)
        given = {"json": {"action": "pause"}, "headers": headers}
        first.append(
            await to_thread.run_sync(
                lambda: ask(api.server(), "POST", f"{JOBS}/{job}/control", **given)
            )
        )
        interrupt_run_row(api.connection, run, NOW, ["paused"])
        return await settled(self, id_, reply)

    monkeypatch.setattr(control._Control, "_settled", late)
    second = controlled(api, job, "pause", headers=headers)
    assert answered(first[0]) == ("running", "pause")
    assert second.content == first[0].content
    assert api.ask("GET", f"/{job}").json()["status"] == "paused"


def test_an_answer_whose_server_died_is_completed_by_the_next_request(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    job, _, run = running(api)
    headers = {"Idempotency-Key": str(uuid4())}

    class DiedError(BaseException):
        pass

    async def die(*_: object) -> None:
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(control._Control, "_settled", die)
        with pytest.raises(BaseException) as caught:  # noqa: PT011  # a group, or the error
            controlled(api, job, "pause", headers=headers)
        assert "DiedError" in repr(caught.value)
    assert [bool(pending) for (pending,) in api.rows("SELECT pending FROM reply")] == [True]
    interrupt_run_row(api.connection, run, NOW, ["paused"])
    again = controlled(api, job, "pause", headers=headers)
    assert answered(again) == ("paused", None)
    controlled(api, job, "cancel")
    assert controlled(api, job, "pause", headers=headers).content == again.content


def test_an_order_to_a_job_that_is_deleted_meanwhile_keeps_its_first_answer(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    job, _, _ = running(api)
    looked = control._Control._looked

    def delete_first(self: control._Control, id_: str) -> object:
        api.connection.execute("UPDATE job SET deleted_at = 1")
        return looked(self, id_)

    monkeypatch.setattr(control._Control, "_looked", delete_first)
    headers = {"Idempotency-Key": str(uuid4())}
    assert answered(controlled(api, job, "pause", headers=headers)) == ("running", "pause")


def test_a_waiting_answer_lends_no_connection(api: Api, monkeypatch: pytest.MonkeyPatch):
    """Another request is answered meanwhile, although one connection writes."""
    job, _, run = running(api)
    other = api.create("other", schedule=DAILY)["job_id"]
    monkeypatch.setattr(control, "WAIT", 60.0)

    async def both() -> None:
        transport = httpx.ASGITransport(api.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as http:
            slow = asyncio.create_task(http.post(f"{JOBS}/{job}/pause"))
            while api.rows("SELECT requested FROM run") != [("pause",)]:
                assert not slow.done()
                await asyncio.sleep(0.01)
            assert answered(await http.post(f"{JOBS}/{other}/pause")) == ("paused", None)
            assert not slow.done()
            interrupt_run_row(api.connection, run, NOW, ["paused"])
            assert answered(await slow) == ("paused", None)

    asyncio.run(both())


def test_each_look_reads_and_writes_only_what_obeyed(
    api: Api, short: None, monkeypatch: pytest.MonkeyPatch
):
    job, _, _ = running(api)
    settled: list[str] = []
    settle: Callable[..., None] = JobOrders.settle
    monkeypatch.setattr(
        JobOrders, "settle", lambda self, id_, now: settled.append(id_) or settle(self, id_, now)
    )
    controlled(api, job, "pause")
    assert settled == []

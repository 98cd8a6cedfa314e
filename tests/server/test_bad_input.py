"""Whatever is sent, the answer is an error in the envelope with the headers of every answer.

The requests are made from the OpenAPI: a field, parameter or endpoint that is new is tested, too.
"""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from smartcrawl.registry.connection import Connection
from smartcrawl.server.guard import INDEXNOW_PATH
from tests.server.api_client import Call, ask_all, error_of
from tests.server.bad_values import NO_IDS, bad_bodies, bad_queries, whole_body
from tests.server.described import Described, Operation
from tests.server.stocked import Stocked, stocked

JSON = {"Content-Type": "application/json"}
BAD = frozenset({"INVALID_INPUT", "INVALID_CONFIG", "INVALID_URL"})
#: Probes and Prometheus, which may send parameters of their own.
PROBES = frozenset({"/health", "/ready", "/metrics"})
#: Tables whose rows a refused request does not change.
TABLES = ("job", "job_run", "reply", "record", "source", "run", "host")


@pytest.fixture(params=["sqlite", "postgres"])
def stock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stocked]:
    with stocked(request, tmp_path, takes_indexnow=True) as made:
        yield made


@pytest.fixture
def described(stock: Stocked) -> Described:
    return Described(stock.app)


def place_of(operation: Operation, stock: Stocked, **given: str) -> str:
    """Return the path of an operation about things that exist."""
    there = {
        "job_id": stock.job, "url_hash": stock.hashes[0], "domain": "example.com",
        "record_id": "1", "run": "1", "order_id": "ro_0123456789abcdef",
        "key_id": "0123456789ab", "source": "docs",
    } | given  # fmt: skip
    return re.sub(r"\{(\w+)\}", lambda found: there[found[1]], operation.path)


def checked(answer: httpx.Response, statuses: set[int] | None = None) -> str:
    """Return what is wrong with an error, "" if nothing is."""
    if statuses is not None and answer.status_code not in statuses:
        return f"{answer.status_code}: {answer.text[:200]}"
    if answer.status_code >= 500:
        return f"{answer.status_code}: {answer.text[:200]}"
    try:
        for name in ("Limit", "Remaining", "Reset"):
            assert int(answer.headers[f"X-RateLimit-{name}"]) >= 0, name
        assert answer.headers["X-Request-Id"].startswith("req_")
        assert "X-Injected" not in answer.headers
        if answer.status_code >= 400:
            error_of(answer)
    except (AssertionError, KeyError) as error:
        return f"{error!r}: {answer.headers} {answer.text[:200]}"
    return ""


def rows(connection: Connection) -> list[int]:
    return [int(connection.execute(f"SELECT count(*) FROM {table}").get) for table in TABLES]


@pytest.mark.covers("R2-06", "R2-09", "R2-10", "R2-11", "R2-25")
def test_a_body_with_one_wrong_value_changes_nothing(stock: Stocked, described: Described):
    """ATT-49: too much, too deep and too large are refused like any other value."""
    before = rows(stock.connection)
    wrong = []
    for operation in described.operations():
        if operation.body is None:
            continue
        path = place_of(operation, stock)
        bad = list(bad_bodies(described, operation))
        calls: list[Call] = [
            (operation.method, path, {"content": one.content, "headers": JSON}) for one in bad
        ]
        assert len(bad) >= 20, operation.name
        # A notice may have 10,000 addresses; the protocol answers a key of another form with 422.
        refused = {400, 422} if operation.path == INDEXNOW_PATH else {413}
        for one, answer in zip(bad, ask_all(stock.app, calls), strict=True):
            place = (operation.name, one.what, one.place)
            fault = checked(answer, refused if one.what == "huge" else {400})
            if not fault and answer.status_code == 400:
                error = error_of(answer)
                named = error["details"].get("field")
                known = {*one.place, *one.place[:-1], None}
                fault = "" if error["code"] in BAD and named in known else str(error)
            wrong += [(place, fault)] if fault else []

    assert wrong == []
    assert rows(stock.connection) == before


@pytest.mark.covers("R2-10")
def test_a_body_in_another_form_changes_nothing(stock: Stocked, described: Described):
    before = rows(stock.connection)
    wrong: list[Any] = []
    for operation in described.operations():
        if operation.body is None:
            continue
        body = json.dumps(whole_body(described, operation)).encode()
        forms = {
            "gzip": (gzip.compress(body), JSON | {"Content-Encoding": "gzip"}),
            "named gzip": (body, JSON | {"Content-Encoding": "gzip"}),
            "form": (body, {"Content-Type": "application/x-www-form-urlencoded"}),
            "text": (body, {"Content-Type": "text/plain"}),
            "untyped": (body, {}),
            "utf-16": (body.decode().encode("utf-16"), JSON),
            "latin-1": (b'{"name": "\xff"}', JSON),
            "bom": (b"\xef\xbb\xbf" + body, JSON),
            "half": (body[:-1], JSON),
            "twice": (body + body, JSON),
            "list": (b"[" + body + b"]", JSON),
            "text in JSON": (json.dumps(body.decode()).encode(), JSON),
            "null": (b"null", JSON),
            "number": (b"1", JSON),
            "empty": (b"", JSON),
        }
        path = place_of(operation, stock)
        calls: list[Call] = [
            (operation.method, path, {"content": content, "headers": headers})
            for content, headers in forms.values()
        ]
        for what, answer in zip(forms, ask_all(stock.app, calls), strict=True):
            if what == "empty" and not operation.data["requestBody"].get("required"):
                continue
            fault = checked(answer, {400})
            wrong += [(operation.name, what, fault)] if fault else []

    assert wrong == []
    assert rows(stock.connection) == before


@pytest.mark.covers("R2-06", "R2-09", "R2-10")
def test_a_query_with_one_wrong_parameter_is_refused(stock: Stocked, described: Described):
    """ATT-25: a parameter is a value of its type, and never a part of a statement."""
    wrong = []
    for operation in described.operations():
        if operation.path in PROBES:
            continue
        queries = list(bad_queries(operation))
        path = place_of(operation, stock)
        body: dict[str, Any] = {}
        if operation.body is not None:
            body = {"json": whole_body(described, operation)}
        calls: list[Call] = [(operation.method, f"{path}?{query}", body) for query in queries]
        for query, answer in zip(queries, ask_all(stock.app, calls), strict=True):
            fault = checked(answer, {400})
            wrong += [(operation.name, query[:80], fault)] if fault else []

    assert wrong == []


STRANGE = ("%FF%FE", "%ED%A0%80", "'%20OR%201=1%20--", "%F0%9F%98%80", "%0D%0AX-Injected:%201")


@pytest.mark.covers("R2-06", "R2-09")
def test_no_text_in_a_query_or_a_path_is_a_fault_of_the_server(
    stock: Stocked, described: Described
):
    """ATT-25, ATT-51: an id that is none, is none of anybody."""
    wrong: list[Any] = []
    for operation in described.operations():
        names = [one["name"] for one in operation.parameters("path")]
        paths = [place_of(operation, stock, **{name: id_}) for name in names for id_ in NO_IDS]
        asked = {path: {400, 404} for path in paths}
        place = place_of(operation, stock)
        for one in operation.parameters("query"):
            texts = (*STRANGE, "x" * 60_000)
            asked |= {f"{place}?{one['name']}={text}": set(range(200, 500)) for text in texts}
        body: dict[str, Any] = {"headers": {"X-API-Key": stock.key}}  # keys want one
        if operation.body is not None:
            body |= {"json": whole_body(described, operation)}
        calls: list[Call] = [(operation.method, path, body) for path in asked]
        answers = ask_all(stock.app, calls)
        for (path, statuses), answer in zip(asked.items(), answers, strict=True):
            fault = checked(answer, statuses)
            wrong += [(operation.name, path[:80], fault)] if fault else []

    assert wrong == []


@pytest.mark.covers("E-03", "E-04")
def test_unknown_and_deleted_jobs_are_answered_alike(stock: Stocked, described: Described):
    """ATT-51. Only DELETE has an answer of its own, for it may be repeated (R2-30)."""
    asked = 0
    for operation in described.operations():
        if "{job_id}" not in operation.path or operation.method == "DELETE":
            continue
        body: dict[str, Any] = {}
        if operation.body is not None:
            body = {"json": whole_body(described, operation)}
        ids = (stock.deleted_job, "job_0000000000000000", "job_x", "x")
        calls: list[Call] = [
            (operation.method, place_of(operation, stock, job_id=id_), body) for id_ in ids
        ]
        errors = [error_of(answer) for answer in ask_all(stock.app, calls)]
        texts = {json.dumps(error | {"request_id": ""}) for error in errors}
        assert len(texts) == 1, (operation.name, texts)
        assert errors[0]["code"] == "NOT_FOUND", operation.name
        asked += 1

    assert asked >= 2

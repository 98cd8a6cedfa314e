"""Bodies, paths and queries that no route should see."""

import asyncio
import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter

from smartcrawl.server import bodies
from smartcrawl.server.app import Version
from smartcrawl.server.bodies import DEPTH, LIMIT
from smartcrawl.server.context import Context
from tests.server.api_client import application, ask, error_of

JSON = {"Content-Type": "application/json"}


async def never(*_: object) -> None:
    raise AssertionError("a refused body reached a route")


def add_routes(_: Context, router: APIRouter) -> None:
    @router.post("/echo")
    def echo(body: dict[str, Any]) -> dict[str, Any]:
        return body

    @router.get("/named/{name}")
    def named(name: str) -> str:
        return name


@pytest.fixture
def app(tmp_path: Path):
    return application(tmp_path, versions=(Version("", (add_routes,)),))


def nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{'a': 1}",
        b'{"a": 1,}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": 9223372036854775808}',
        b'{"a": -9223372036854775809}',
        b'{"a": ' + b"9" * 5_000 + b"}",
        b'{"a": "\\u0000"}',
        b'{"a": ["x", {"b": "\\ud800"}]}',
        b'{"\\udfff": 1}',
        b'{"\\u0000": 1}',
        b'{"a": "\xff"}',
        b"\xef\xbb\xbf{}",
        nested(DEPTH + 1),
        nested(100_000),
        b"[" * 1_000_000,
    ],
)
def test_a_body_that_cannot_be_stored_is_400(app, body: bytes):
    answer = ask(app, "POST", "/echo", content=body, headers=JSON)

    assert answer.status_code == 400
    assert error_of(answer)["code"] == "INVALID_INPUT"
    assert error_of(answer)["details"]["reason"]


@pytest.mark.parametrize(
    "body",
    [
        {"a": 2**63 - 1, "b": -(2**63), "c": 1.5e300, "d": None, "e": [True]},
        {"a": 'brackets in text: [[[[{{{{ \\" ' * 50},
        {"ü": "日本 \U0001f600"},
    ],
)
def test_a_sound_body_arrives_as_sent(app, body: dict[str, Any]):
    answer = ask(app, "POST", "/echo", json=body)

    assert (answer.status_code, answer.json()) == (200, body)
    assert ask(app, "POST", "/echo", content=nested(DEPTH), headers=JSON).status_code == 200


def body_of(size: int) -> bytes:
    around = len(json.dumps({"a": ""}))
    return json.dumps({"a": "x" * (size - around)}).encode()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_has_at_most_one_mebibyte(app, chunked: bool):
    """ATT-49."""

    async def parts(body: bytes):
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    def status(size: int) -> int:
        body = body_of(size)
        answer = ask(app, "POST", "/echo", content=parts(body) if chunked else body, headers=JSON)
        if answer.status_code != 200:
            assert error_of(answer)["code"] == "PAYLOAD_TOO_LARGE"
        return answer.status_code

    assert [status(LIMIT), status(LIMIT + 1), status(4 * LIMIT)] == [200, 413, 413]


@pytest.mark.parametrize(
    ("headers", "mebibytes", "read"),
    [([], 4, 4), ([], 99, 16), ([(b"expect", b"100-continue")], 4, 0)],
    ids=["all", "bounded", "not asked for"],
)
def test_the_rest_of_a_body_that_is_too_large_is_read_before_the_answer(
    headers: list[tuple[bytes, bytes]], mebibytes: int, read: int
):
    """A proxy that cannot send it answers with 502 of its own."""
    events: list[str] = []

    async def receive() -> dict[str, Any]:
        events.append("read")
        more = events.count("read") < mebibytes
        return {"type": "http.request", "body": b"x" * LIMIT, "more_body": more}

    async def send(message: dict[str, Any]) -> None:
        events.append(message["type"])

    length = (b"content-length", str(mebibytes * LIMIT).encode())
    asked = {"type": "http", "path": "/", "headers": [length, *headers]}
    scope = asked | {"smartcrawl.request_id": "req_1"}
    asyncio.run(bodies.Bodies(never)(scope, receive, send))

    assert events == ["read"] * read + ["http.response.start", "http.response.body"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
    ],
)
def test_what_a_form_sends_is_refused(app, headers: dict[str, str]):
    answer = ask(app, "POST", "/echo", content=b'{"a": 1}', headers=headers)

    assert answer.status_code == 400
    assert error_of(answer)["details"]["field"] == "Content-Type"


def test_a_compressed_body_is_refused(app):
    headers = JSON | {"Content-Encoding": "gzip"}

    answer = ask(app, "POST", "/echo", content=gzip.compress(b'{"a": 1}'), headers=headers)

    assert answer.status_code == 400
    assert error_of(answer)["details"]["field"] == "Content-Encoding"


@pytest.mark.parametrize("path", ["/named/a%00b", "/named/a?b=%00", "/nothing/%00"])
def test_nul_in_an_address_is_refused(app, path: str):
    assert ask(app, "GET", path).status_code == 400
    assert ask(app, "GET", "/named/a%20b").json() == "a b"


@pytest.mark.parametrize(("size", "beside"), [(100, False), (LIMIT - 10, True)])
def test_a_long_body_is_checked_beside_the_event_loop(
    app, size: int, beside: bool, monkeypatch: pytest.MonkeyPatch
):
    """A million values take a second, in which no other request would be answered."""
    threads = []
    check = bodies.check_json_body

    def noted(body: bytes) -> None:
        threads.append(threading.current_thread())
        check(body)

    monkeypatch.setattr(bodies, "check_json_body", noted)
    refused = ask(
        app, "POST", "/echo", content=b'{"a": "%s\x00"}' % (b"a" * (size - 10)), headers=JSON
    )
    answer = ask(app, "POST", "/echo", content=b'{"a": "%s"}' % (b"a" * (size - 10)), headers=JSON)

    assert (refused.status_code, answer.status_code) == (400, 200)
    assert [thread is not threading.main_thread() for thread in threads] == [beside] * 2

"""One envelope for every error, whatever goes wrong (R2-09 to R2-13)."""

import io
import logging
from pathlib import Path
from typing import Annotated

import pytest
from anyio import to_thread
from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from smartcrawl.model.exceptions import FrontierError, RegistryError, SinkError
from smartcrawl.server.app import Version
from smartcrawl.server.context import Context
from smartcrawl.server.errors import CODES, ApiError, WithRequestId
from smartcrawl.server.keys import KeyCache
from smartcrawl.server.limits import Limits
from smartcrawl.terminal.log_lines import printed_line_formatter
from tests.server.api_client import application, ask, ask_all, error_of


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Config(Strict):
    max_depth: int = Field(default=3, ge=1, le=10)


class Order(Strict):
    name: str
    config: Config = Config()
    seed_urls: list[str] = []


class Listed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limit: int = Field(default=100, ge=1, le=1000)


ERRORS = {
    "conflict": ApiError(
        "CONFLICT",
        "Crawl job with this name already exists",
        field="name",
        reason="Job 'daily-news-crawl' already exists",
    ),
    "registry": RegistryError("cannot read /secret/place"),
    "index": SinkError("cannot reach https://user:pw@es.example"),
    "redis": FrontierError("cannot reach redis.example"),
    "bug": ZeroDivisionError("of /secret/place"),
}


def add_routes(_: Context, router: APIRouter) -> None:
    @router.post("/orders", status_code=201)
    def post(order: Order) -> Order:
        return order

    @router.get("/orders")
    def get(query: Annotated[Listed, Query()]) -> Listed:
        return query

    @router.get("/lines")
    async def lines() -> None:
        logging.getLogger("a.route").warning("on the loop")
        await to_thread.run_sync(logging.getLogger("a.route").warning, "in a thread")

    @router.get("/errors/{name}")
    def fail(name: str) -> None:
        raise ERRORS[name]


VERSIONS = (Version("/api/v1", (add_routes,)),)


@pytest.fixture
def app(tmp_path: Path):
    return application(tmp_path, versions=VERSIONS)


@pytest.mark.covers("R2-10")
def test_the_codes_have_their_statuses():
    """`UNAUTHORIZED` and those below it are additions of issue 23 and of IndexNow."""
    assert {code: status for code, (status, _) in CODES.items()} == {
        "INVALID_INPUT": 400,
        "INVALID_CONFIG": 400,
        "INVALID_URL": 400,
        "NOT_FOUND": 404,
        "CONFLICT": 409,
        "RATE_LIMITED": 429,
        "INTERNAL_ERROR": 500,
        "SERVICE_UNAVAILABLE": 503,
        "UNAUTHORIZED": 401,
        "FORBIDDEN": 403,
        "METHOD_NOT_ALLOWED": 405,
        "PAYLOAD_TOO_LARGE": 413,
        "IDEMPOTENCY_KEY_REUSED": 422,
        "UNPROCESSABLE": 422,
    }


@pytest.mark.covers("R2-09")
def test_an_error_has_the_keys_and_texts_of_the_specification(app):
    answer = ask(app, "GET", "/api/v1/errors/conflict")

    assert answer.status_code == 409
    error = error_of(answer)
    assert error["code"] == "CONFLICT"
    assert error["message"] == "Crawl job with this name already exists"
    assert error["details"] == {
        "field": "name",
        "reason": "Job 'daily-news-crawl' already exists",
    }


@pytest.mark.covers("R2-09")
def test_each_request_has_an_id_of_its_own(app):
    given = {"headers": {"X-Request-Id": "mine"}}
    answers = ask_all(app, [("GET", "/nothing", given)] * 20)

    assert len({error_of(answer)["request_id"] for answer in answers}) == 20


def test_each_line_of_a_request_has_its_id_in_text_too(app):
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(printed_line_formatter("text"))
    handler.addFilter(WithRequestId())
    logger = logging.getLogger("a.route")
    logger.addHandler(handler)
    try:
        answer = ask(app, "GET", "/api/v1/lines")
        logger.warning("of no request")
    finally:
        logger.removeHandler(handler)

    id_ = answer.headers["X-Request-Id"]
    messages = [line.partition("WARNING: ")[2] for line in lines.getvalue().splitlines()]
    assert messages == [f"on the loop ({id_})", f"in a thread ({id_})", "of no request"]


@pytest.mark.parametrize(
    "path", ["/nothing", "/api/v1/nothing", "/api/v1/orders/", "/api/v1/Orders"]
)
def test_an_unknown_path_is_404_and_never_a_redirect(app, path: str):
    answer = ask(app, "GET", path)

    assert answer.status_code == 404
    assert error_of(answer)["code"] == "NOT_FOUND"


def test_a_method_that_a_path_does_not_take_is_405_with_all_that_it_takes(app):
    answer = ask(app, "PUT", "/api/v1/orders")

    assert answer.status_code == 405
    assert error_of(answer)["code"] == "METHOD_NOT_ALLOWED"
    assert answer.headers["Allow"] == "GET, POST"


@pytest.mark.long(but=16)
@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/v1/jobs", "GET, POST"),
        ("/api/v1/jobs/job_1", "GET, PUT, DELETE"),
        ("/api/v1/jobs/job_1/pause", "POST"),
        ("/openapi.json", "GET, HEAD"),
    ],
)
@pytest.mark.parametrize("server", [{}, {"host": "0.0.0.0"}])
@pytest.mark.parametrize(
    "given",
    [{}, {"content": b"{"}, {"headers": {"X-API-Key": "sc_wrong"}}, {"params": {"x": "\0"}},
     {"headers": {"Host": "a.example", "Content-Type": "text/plain"}, "content": b"x"}],
)  # fmt: skip
def test_a_method_is_judged_before_key_host_query_and_body(
    tmp_path: Path, path: str, allowed: str, server: dict, given: dict
):
    answer = ask(application(tmp_path, **server), "PATCH", path, **given)

    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
    assert error_of(answer)["details"]["reason"] == f"{path} takes {allowed}"


@pytest.mark.covers("R2-10")
@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "INVALID_INPUT", "name"),
        ({"name": 1}, "INVALID_INPUT", "name"),
        ({"name": None}, "INVALID_INPUT", "name"),
        ({"name": "a", "nmae": "b"}, "INVALID_INPUT", "nmae"),
        ({"name": 1, "config": {"max_depth": 11}}, "INVALID_INPUT", "name"),
        ({"name": "a", "config": {"max_depth": 11}}, "INVALID_CONFIG", "max_depth"),
        ({"name": "a", "config": {"max_depth": True}}, "INVALID_CONFIG", "max_depth"),
        ({"name": "a", "config": {"nothing": 1}}, "INVALID_CONFIG", "nothing"),
        ({"name": "a", "config": 7}, "INVALID_CONFIG", "config"),
        ({"name": "a", "seed_urls": [1]}, "INVALID_URL", "seed_urls"),
        ([], "INVALID_INPUT", None),
    ],
)
def test_the_field_decides_the_code(app, body: object, code: str, field: str | None):
    answer = ask(app, "POST", "/api/v1/orders", json=body)

    assert answer.status_code == 400
    error = error_of(answer)
    assert (error["code"], error["details"].get("field")) == (code, field)
    assert error["message"] == CODES[code][1]
    assert field is None or field in error["details"]["reason"]


def test_a_sound_request_passes(app):
    order = {"name": "a", "config": {"max_depth": 10}, "seed_urls": ["https://a.example/"]}

    assert ask(app, "POST", "/api/v1/orders", json=order).status_code == 201


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=a", "limit=", "limits=1"])
def test_a_wrong_query_is_400(app, query: str):
    answer = ask(app, "GET", f"/api/v1/orders?{query}")

    assert answer.status_code == 400
    error = error_of(answer)
    assert error["code"] == "INVALID_INPUT"
    assert error["details"]["field"] == query.partition("=")[0]


@pytest.mark.covers("R2-13")
def test_an_unexpected_error_is_500_without_its_text_and_is_logged(
    app, caplog: pytest.LogCaptureFixture
):
    answer = ask(app, "GET", "/api/v1/errors/bug")

    assert answer.status_code == 500
    error = error_of(answer)
    assert error["code"] == "INTERNAL_ERROR"
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


@pytest.mark.covers("R2-13")
@pytest.mark.parametrize(
    ("name", "what"),
    [("registry", "the registry"), ("index", "the search index"), ("redis", "Redis")],
)
def test_a_store_that_is_away_is_503_with_retry_after(
    app, name: str, what: str, caplog: pytest.LogCaptureFixture
):
    answer = ask(app, "GET", f"/api/v1/errors/{name}")

    assert answer.status_code == 503
    error = error_of(answer)
    assert error["code"] == "SERVICE_UNAVAILABLE"
    assert error["details"]["reason"].startswith(what)
    assert int(answer.headers["Retry-After"]) > 0
    assert "cannot" not in answer.text
    assert str(ERRORS[name]) in caplog.text


@pytest.mark.covers("R2-13")
@pytest.mark.parametrize("layer", [(KeyCache, "cached"), (Limits, "__call__")])
def test_an_unexpected_error_of_a_layer_is_500_in_the_envelope_too(
    app, layer: tuple[type, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def broken(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(*layer, broken)
    answer = ask(app, "GET", "/health", headers={"X-API-Key": "sc_key"})

    assert answer.status_code == 500
    assert error_of(answer)["code"] == "INTERNAL_ERROR"
    assert "secret" not in answer.text
    assert "KeyError: 'secret'" in caplog.text

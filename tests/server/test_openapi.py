"""The description of the API is that of its routes, of its manual, and of its answers."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from smartcrawl.server.app import VERSIONS, create_api
from smartcrawl.server.context import Context, Metrics
from smartcrawl.server.stores import Stores
from tests.choices import options
from tests.server.api_client import application, ask, server_options
from tests.server.test_serve import serving

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
ENDPOINT = re.compile(r"^### `([A-Z]+) (\S+)`$", re.MULTILINE)


def inventory(description: dict) -> set[tuple[str, str]]:
    return {
        (method.upper(), path)
        for path, methods in description["paths"].items()
        for method in methods
    }


def test_the_manual_has_the_endpoints_of_the_description(tmp_path: Path):
    description = ask(application(tmp_path), "GET", "/openapi.json").json()

    assert inventory(description) == set(ENDPOINT.findall(PAGE.read_text("utf-8")))


def test_the_description_has_our_errors_and_not_fastapis(tmp_path: Path):
    description = ask(application(tmp_path), "GET", "/openapi.json").json()

    keyed = {
        (method, path)
        for method, path in inventory(description)
        if "422" in description["paths"][path][method.lower()]["responses"]
    }
    orders = {
        ("POST", f"/api/v1/jobs/{{job_id}}/{name}") for name in ("control", "pause", "resume")
    }
    steps = ("crawl", "download_data", "process_data", "embed_data")
    libraries = {(way, f"/v2/crawler/{step}") for way in ("GET", "POST") for step in steps}
    assert keyed == {
        ("GET", "/indexnow"),  # by its protocol
        ("POST", "/indexnow"),
        ("POST", "/api/v1/jobs"),
        ("PUT", "/api/v1/jobs/{job_id}"),
        ("POST", "/api/v1/frontier/urls"),
        *orders,
        ("POST", "/api/v1/runs/{run}/approve"),
        ("POST", "/api/v1/runs/{run}/undo"),
        ("POST", "/api/v1/records/{record_id}/forget"),
        ("POST", "/api/v1/removals"),
        ("POST", "/api/v1/keys"),
        ("POST", "/api/v1/reindex"),
        ("POST", "/api/AddUrlDocument"),
        ("POST", "/api/ReindexItem"),
        ("POST", "/api/RebuildIndex"),
        *libraries,
    }
    assert "HTTPValidationError" not in description["components"]["schemas"]
    for path, methods in description["paths"].items():
        for operation in methods.values():
            answers = operation["responses"]
            assert {"400", "401", "403", "413", "429", "500", "503"} <= set(answers), path
            successes = 2 if path == "/indexnow" else 1
            assert len({"200", "201", "202", "204"} & set(answers)) == successes, path
            for status, answer in answers.items():
                assert "X-RateLimit-Remaining" in answer["headers"]
                assert ("Retry-After" in answer["headers"]) is (status in ("429", "503"))


def test_metrics_count_routes_and_never_what_was_asked(tmp_path: Path):
    """ATT-58."""
    app = application(tmp_path)
    ask(app, "GET", "/health")
    ask(app, "GET", "/secret-path?token=sc_secret")
    ask(app, "BREW", "/health")

    text = ask(app, "GET", "/metrics").text

    health = 'smartcrawl_api_requests_total{method="GET",route="/health",status="200"} 1.0'
    assert health in text
    assert 'method="GET",route="none",status="404"} 1.0' in text
    assert 'method="other"' in text
    assert "secret" not in text
    assert "BREW" not in text


@pytest.mark.covers("R2-13")
def test_log_lines_have_the_id_of_their_request(tmp_path: Path):
    (tmp_path / "registry.db").write_bytes(b"no registry at all, but some text" * 100)
    with serving(tmp_path, LOG_FORMAT="json") as server:
        answer = httpx.get(f"{server.url}/ready")
        _, logged = server.end()

    assert answer.status_code == 503
    lines = [line for line in logged.splitlines() if answer.headers["X-Request-Id"] in line]
    assert len(lines) == 1
    assert f'"request_id": "{answer.headers["X-Request-Id"]}"' in lines[0]


def test_a_request_that_its_client_leaves_is_not_counted_as_answered(tmp_path: Path):
    app = application(tmp_path)
    head = [(b"host", b"localhost"), (b"content-length", b"9")]
    scope = {
        "type": "http", "method": "GET", "path": "/health", "query_string": b"", "headers": head,
        "client": ("127.0.0.1", 50_000),
    }  # fmt: skip

    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def never(_: object) -> None:
        raise AssertionError("an answer was sent")

    asyncio.run(app(scope, gone, never))

    assert "smartcrawl_api_requests_total{" not in ask(app, "GET", "/metrics").text


def bodies(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each schema within the bodies of requests."""
    pending = [
        operation["requestBody"]
        for methods in description["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    ]
    seen = set()
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            yield value
            name = value.get("$ref", "").rpartition("/")[2]
            if name and name not in seen:
                seen.add(name)
                pending.append(description["components"]["schemas"][name])
            pending += value.values()


@pytest.mark.covers("R2-10")
def test_every_number_of_a_body_is_described_with_its_bounds(tmp_path: Path):
    """Integers beyond 64 bits are refused, and the description says so."""
    description = ask(application(tmp_path), "GET", "/openapi.json").json()

    numbers = [one for one in bodies(description) if one.get("type") in ("integer", "number")]

    assert len(numbers) >= 5
    assert [one for one in numbers if not one.keys() >= {"minimum", "maximum"}] == []


def test_the_description_is_made_when_it_is_asked_for_and_stays(tmp_path: Path):
    """It would take most of the time in which a server starts."""
    stores = Stores(tmp_path / "registry.db")
    context = Context(options(tmp_path), server_options(), stores, Metrics(), lambda: 0.0, Event())
    api = create_api(context, VERSIONS)

    assert api.openapi_schema is None
    assert api.openapi() is api.openapi()

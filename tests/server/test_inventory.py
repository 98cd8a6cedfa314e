"""Each endpoint is in the inventory, and described in whole: to programs and in the manual.

A route that is new fails here until it has a row, a summary, examples, a tag, a section of
docs/api.md and a class of limits.
"""

import re
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest
from fastapi.routing import APIRoute

from smartcrawl.server.app import VERSIONS, create_api
from smartcrawl.server.context import Context, Metrics
from smartcrawl.server.stores import Stores
from tests.choices import options
from tests.server.api_client import application, server_options
from tests.server.described import SUCCESSES, Described

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
#: Statuses that each endpoint documents.
ANYWHERE = frozenset({"400", "401", "403", "413", "429", "500", "503"})


class Row(NamedTuple):
    """An endpoint: its number, the class of its limit, and its own statuses."""

    number: str
    limit: str
    success: str
    errors: str = ""


#: The inventory of the specification (E-01 to E-20).
INVENTORY = {
    "POST /api/v1/jobs": Row("E-01", "jobs", "201", "409 422"),
    "GET /api/v1/jobs": Row("E-02", "monitoring", "200"),
    "GET /api/v1/jobs/{job_id}": Row("E-03", "monitoring", "200", "404"),
    "PUT /api/v1/jobs/{job_id}": Row("E-04", "jobs", "200", "404 409 422"),
    "DELETE /api/v1/jobs/{job_id}": Row("E-05", "jobs", "204", "404 409"),
    "POST /api/v1/jobs/{job_id}/control": Row("E-06", "jobs", "200", "404 409"),
    "POST /api/v1/jobs/{job_id}/pause": Row("E-07", "jobs", "200", "404 409"),
    "POST /api/v1/jobs/{job_id}/resume": Row("E-07", "jobs", "200", "404 409"),
    "POST /api/v1/frontier/urls": Row("E-08", "jobs", "200"),
    "GET /api/v1/frontier/stats": Row("E-09", "monitoring", "200"),
    "GET /api/v1/documents/{url_hash}": Row("E-10", "data", "200", "404"),
    "GET /api/v1/documents": Row("E-11", "data", "200"),
    "GET /api/v1/robots/{domain}": Row("E-12", "monitoring", "200", "404"),
    "POST /api/AddUrlDocument": Row("E-13", "jobs", "202"),
    "POST /api/RebuildIndex": Row("E-14", "jobs", "202"),
    "POST /api/ReindexItem": Row("E-15", "jobs", "202", "404"),
    "GET /api/Search": Row("E-16", "data", "200"),
    "GET /api/SearchStatus": Row("E-17", "monitoring", "200"),
    "GET /v2/crawler/crawl": Row("E-18", "jobs", "200", "404 409 422"),
    "POST /v2/crawler/crawl": Row("E-18", "jobs", "200", "404 409 422"),
    "GET /v2/crawler/download_data": Row("E-19", "jobs", "200", "404 409 422"),
    "POST /v2/crawler/download_data": Row("E-19", "jobs", "200", "404 409 422"),
    "GET /v2/crawler/process_data": Row("E-19", "jobs", "200", "404 409 422"),
    "POST /v2/crawler/process_data": Row("E-19", "jobs", "200", "404 409 422"),
    "GET /v2/crawler/embed_data": Row("E-19", "jobs", "200", "404 409 422"),
    "POST /v2/crawler/embed_data": Row("E-19", "jobs", "200", "404 409 422"),
    "GET /v2/crawler/cleanup_metadata": Row("E-20", "jobs", "200", "404"),
}
#: Endpoints that are no part of the inventory.
ADDED = {
    "GET /health": Row("", "monitoring", "200"),
    "GET /ready": Row("", "monitoring", "200"),
    "GET /metrics": Row("", "monitoring", "200"),
    "GET /api/v1/jobs/{job_id}/log": Row("", "monitoring", "200", "404"),
    "GET /api/v1/records/{record_id}": Row("", "data", "200", "404"),
    "GET /api/v1/records": Row("", "data", "200"),
    "GET /api/v1/removals": Row("", "monitoring", "200"),
    "GET /api/v1/removals/{order_id}": Row("", "monitoring", "200", "404"),
    "GET /api/v1/runs": Row("", "monitoring", "200"),
    "GET /api/v1/runs/{run}": Row("", "monitoring", "200", "404"),
    "GET /api/v1/runs/{run}/log": Row("", "monitoring", "200", "404"),
    "GET /api/v1/runs/{run}/pages": Row("", "monitoring", "200", "404"),
    "GET /api/v1/changes": Row("", "monitoring", "200"),
    "GET /api/v1/changes.atom": Row("", "monitoring", "200", "304"),
    "GET /api/v1/documents/{url_hash}/diff": Row("", "data", "200", "404"),
    "GET /api/v1/runs/{run}/progress": Row("", "monitoring", "200", "404"),
    "GET /api/v1/sources": Row("", "monitoring", "200"),
    "GET /api/v1/hosts": Row("", "monitoring", "200"),
    "GET /api/v1/frontier/due": Row("", "monitoring", "200"),
    "GET /api/v1/libraries": Row("", "monitoring", "200"),
    "POST /api/v1/runs/{run}/approve": Row("", "jobs", "202", "404 409 422"),
    "POST /api/v1/removals": Row("", "jobs", "202", "404 409 422"),
    "POST /api/v1/records/{record_id}/forget": Row("", "jobs", "202", "404 409 422"),
    "POST /api/v1/runs/{run}/undo": Row("", "jobs", "202", "404 409 422"),
    "POST /api/v1/reindex": Row("", "jobs", "202", "404 409 422"),
    "POST /api/v1/previews": Row("", "jobs", "200", "404"),
    "POST /api/v1/decisions": Row("", "data", "200", "404"),
    "GET /indexnow": Row("", "jobs", "200", "404 422"),
    "POST /indexnow": Row("", "jobs", "200", "404 422"),
    "POST /api/v1/hooks/{source}": Row("", "jobs", "202", "404"),
    "GET /api/v1/fires": Row("", "monitoring", "200"),
    "GET /api/v1/keys": Row("", "monitoring", "200"),
    "POST /api/v1/keys": Row("", "jobs", "201", "422"),
    "DELETE /api/v1/keys/{key_id}": Row("", "jobs", "204", "404"),
}
ROWS = INVENTORY | ADDED
#: The statuses of IndexNow are those of its protocol: 202 while a key is checked, and 422.
INDEXNOW = frozenset({"GET /indexnow", "POST /indexnow"})


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Described:
    return Described(application(tmp_path_factory.mktemp("described")))


@pytest.mark.covers(
    "E-01",
    "E-02",
    "E-03",
    "E-04",
    "E-05",
    "E-06",
    "E-07",
    "E-08",
    "E-09",
    "E-10",
    "E-11",
    "E-12",
    "E-13",
    "E-14",
    "E-15",
    "E-16",
    "E-17",
    "E-18",
    "E-19",
    "E-20",
    "R2-02",
)
def test_each_endpoint_is_that_of_the_inventory(described: Described):
    found = {operation.name: operation for operation in described.operations()}

    assert set(found) == set(ROWS), "give each new endpoint a row of its own"
    for name, operation in found.items():
        row = ROWS[name]
        assert operation.data["x-rate-limit-class"] == row.limit, name
        also = {"202"} if name in INDEXNOW else set()
        assert operation.statuses & SUCCESSES == {row.success} | also, name
        own = operation.statuses - ANYWHERE - SUCCESSES
        keyed = any(one["name"] == "Idempotency-Key" for one in operation.parameters("header"))
        assert set(row.errors.split()) <= own, name
        assert own <= {"304", "404", "409", "422"}, name
        assert ("422" in own) is (keyed or name in INDEXNOW), name
        assert operation.statuses >= ANYWHERE, name


def test_each_route_is_described(tmp_path: Path, described: Described):
    """A route with include_in_schema=False would be tested by nothing that reads the OpenAPI."""
    stores = Stores(tmp_path / "registry.db")
    context = Context(options(tmp_path), server_options(), stores, Metrics(), lambda: 0.0, Event())
    routes = create_api(context, VERSIONS).routes
    served = [
        f"{method} {route.path}"
        for route in routes
        if isinstance(route, APIRoute)
        for method in sorted(route.methods)
    ]

    assert sorted(served) == sorted(operation.name for operation in described.operations())


def test_each_endpoint_has_summary_tag_and_examples(described: Described):
    for operation in described.operations():
        data, name = operation.data, operation.name
        assert data.get("summary", "").strip(), name
        assert data["summary"].lower() != data["operationId"].replace("_", " "), name
        assert len(data.get("tags", ())) == 1, name
        for parameter in operation.parameters("path"):
            schema = parameter["schema"]
            assert schema.get("examples") or parameter.get("examples"), (name, parameter["name"])
        if operation.body is not None:
            assert described.example(operation) is not None, name
        success = data["responses"][ROWS[name].success]
        for kind, content in success.get("content", {}).items():
            shown = "example" in content or described.has_example(content["schema"])
            assert shown, (name, kind)


def test_each_endpoint_has_a_section_of_the_manual_with_a_curl(described: Described):
    page = PAGE.read_text("utf-8")

    for operation in described.operations():
        parts = page.split(f"\n### `{operation.name}`\n")
        assert len(parts) == 2, operation.name
        section = re.split(r"^##", parts[1], maxsplit=1, flags=re.MULTILINE)[0]
        assert re.search(r"^    curl ", section, re.MULTILINE), operation.name


def test_a_key_in_the_description_is_none_of_the_query(described: Described):
    kinds = described.data["components"]["securitySchemes"].values()

    assert {(kind["type"], kind.get("in", kind.get("scheme"))) for kind in kinds} == {
        ("http", "bearer"),
        ("apiKey", "header"),
    }


@pytest.mark.covers("R2-01")
@pytest.mark.parametrize(
    ("purpose", "endpoints"),
    [
        ("control", ["POST /api/v1/jobs", "POST /api/v1/jobs/{job_id}/control"]),
        ("monitoring", ["GET /api/v1/jobs/{job_id}", "GET /ready", "GET /api/v1/frontier/stats"]),
        ("data", ["GET /api/v1/documents", "GET /api/v1/documents/{url_hash}"]),
        ("configuration", ["PUT /api/v1/jobs/{job_id}", "POST /api/v1/frontier/urls"]),
    ],
)
def test_the_api_serves_its_four_purposes(described: Described, purpose: str, endpoints: list[str]):
    assert {operation.name for operation in described.operations()} >= set(endpoints), purpose


#: Fields of the first version, as the specification names them; a client may rely on them.
FIRST_FIELDS = {
    "JobHead": {"job_id", "name", "status", "created_at", "next_run"},
    "Progress": {
        "pages_crawled", "pages_queued", "pages_failed", "bytes_downloaded", "domains_visited",
    },
    "Timing": {"started_at", "elapsed_seconds", "estimated_completion"},
    "Rate": {"pages_per_second", "bytes_per_second"},
    "FrontierStats": {
        "total_urls", "by_priority", "by_domain", "ready_to_crawl", "delayed",
    },
}  # fmt: skip


@pytest.mark.parametrize("model", FIRST_FIELDS)
def test_a_version_adds_fields_and_takes_none_away(described: Described, model: str):
    schema = described.data["components"]["schemas"][model]

    assert schema["properties"].keys() >= FIRST_FIELDS[model]
    assert set(schema["required"]) >= FIRST_FIELDS[model]


@pytest.mark.covers("R2-04")
def test_new_fields_of_a_request_are_optional(described: Described):
    schema = described.data["components"]["schemas"]["JobDefinition"]

    assert set(schema["required"]) == {"name", "seed_urls"}

"""Versions side by side, and the headers of one that ends (R2-03, R2-05)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi import APIRouter

from smartcrawl.server.app import Deprecated, Version
from smartcrawl.server.context import Context
from tests.server.api_client import application, ask


def add_routes(_: Context, router: APIRouter) -> None:
    @router.get("/name")
    def name() -> str:
        return router.prefix


OLD = Version(
    "/api/v1",
    (add_routes,),
    Deprecated(datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)),
)
NEW = Version("/api/v2", (add_routes,))


@pytest.mark.covers("R2-03", "R2-05")
def test_two_versions_are_served_and_the_old_one_says_when_it_ends(tmp_path: Path):
    app = application(tmp_path, versions=(OLD, NEW), monitoring_limit=3)

    old, new = (ask(app, "GET", f"/api/{version}/name") for version in ("v1", "v2"))
    missing = ask(app, "GET", "/api/v1/nothing")
    refused = ask(app, "GET", "/api/v1/name")

    assert (old.json(), new.json()) == ("/api/v1", "/api/v2")
    assert (missing.status_code, refused.status_code) == (404, 429)
    for answer in (old, missing, refused):
        assert answer.headers["Deprecation"] == "@1798761600"
        assert answer.headers["Sunset"] == "Sat, 01 Jan 2028 00:00:00 GMT"
    assert not {"deprecation", "sunset"} & set(new.headers)


@pytest.mark.covers("R2-05")
def test_the_end_of_a_version_marks_no_version_below_its_path(tmp_path: Path):
    outer = Version("/api", (add_routes,), OLD.deprecated)
    app = application(tmp_path, versions=(outer, NEW))

    old, new = (ask(app, "GET", path) for path in ("/api/name", "/api/v2/name"))

    assert "Deprecation" in old.headers
    assert (new.json(), "Deprecation" in new.headers) == ("/api/v2", False)

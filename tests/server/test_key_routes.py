"""Keys over HTTP: who lists, makes and revokes them, and that a text is answered once."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from starlette.types import ASGIApp

from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.answers import KeyHead, Keys, NewKey
from smartcrawl.server.keys import Scope, find_api_key
from tests.server.api_client import application, ask, error_of
from tests.server.pages.browsing import made_key

KEYS = "/api/v1/keys"
NOW = 1_750_000_000


@pytest.fixture
def app(tmp_path: Path) -> ASGIApp:
    return application(tmp_path, clock=lambda: float(NOW))


@pytest.fixture
def admin(app: ASGIApp, tmp_path: Path) -> dict[str, str]:
    return {"X-API-Key": made_key(tmp_path, Scope.ADMIN)}


def made(app: ASGIApp, headers: dict[str, str], **body: Any) -> httpx.Response:
    return ask(app, "POST", KEYS, headers=headers, json={"name": "grafana"} | body)


def test_a_key_is_made_counts_is_listed_and_is_revoked(
    app: ASGIApp, admin: dict[str, str], tmp_path: Path
):
    answer = made(app, admin, scope="operate", sources=["docs", "docs"], expires_days=30)
    key = NewKey.model_validate(answer.json())

    assert answer.status_code == 201
    assert answer.headers["Location"] == f"{KEYS}/{key.key_id}"
    assert (key.scope, key.sources, key.counts) == ("operate", ["docs"], True)
    assert key.expires_at == "2025-07-15T15:06:40Z"
    used = {"X-API-Key": str(key.key)}
    assert ask(app, "GET", "/api/v1/jobs", headers=used).status_code == 200
    connection = registry_database(tmp_path / "registry.db").open()
    found = find_api_key(connection, str(key.key), NOW)
    assert found is not None
    assert (found.scope, found.sources) == (Scope.OPERATE, ("docs",))
    listed = Keys.model_validate(ask(app, "GET", KEYS, headers=admin).json()).keys
    assert listed[-1] == KeyHead.model_validate(key.model_dump(exclude={"key"}))
    assert str(key.key).rpartition("_")[2] not in ask(app, "GET", KEYS, headers=admin).text

    assert ask(app, "DELETE", f"{KEYS}/{key.key_id}", headers=admin).status_code == 204
    assert ask(app, "DELETE", f"{KEYS}/{key.key_id}", headers=admin).status_code == 204
    assert find_api_key(connection, str(key.key), NOW) is None
    connection.close()
    after = ask(app, "GET", KEYS, headers=admin).json()["keys"][-1]
    assert (after["revoked_at"], after["counts"]) == ("2025-06-15T15:06:40Z", False)


def test_a_repeated_order_makes_one_key_and_stores_no_text(
    app: ASGIApp, admin: dict[str, str], tmp_path: Path
):
    headers = admin | {"Idempotency-Key": str(uuid4())}
    first, again = made(app, headers), made(app, headers)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json() | {"key": None}
    assert again.headers["Location"] == first.headers["Location"]
    connection = registry_database(tmp_path / "registry.db").open()
    assert connection.execute("SELECT count(*) FROM api_key").get == 2
    stored = str(connection.execute("SELECT body FROM reply").fetchall())
    assert "key_id" in stored
    assert first.json()["key"].rpartition("_")[2] not in stored
    connection.close()


@pytest.mark.parametrize("scope", [Scope.SEARCH, Scope.READ, Scope.OPERATE])
def test_keys_take_a_key_of_scope_admin(app: ASGIApp, tmp_path: Path, scope: Scope):
    key = {"X-API-Key": made_key(tmp_path, scope, "docs")}

    for method, path, given in (
        ("GET", KEYS, {}),
        ("POST", KEYS, {"json": {"name": "x"}}),
        ("DELETE", f"{KEYS}/0123456789ab", {}),
    ):
        answer = ask(app, method, path, headers=key, **given)
        assert (answer.status_code, error_of(answer)["code"]) == (403, "FORBIDDEN"), method


def test_where_no_key_is_needed_keys_still_take_one(app: ASGIApp):
    """Such a caller reads public sources alone; a key that he makes would read more, for good."""
    for method, path, given in (
        ("GET", KEYS, {}),
        ("POST", KEYS, {"json": {"name": "x", "scope": "admin"}}),
        ("DELETE", f"{KEYS}/0123456789ab", {}),
    ):
        answer = ask(app, method, path, **given)
        assert answer.status_code == 403, method
        assert "serve --create-key NAME --scope admin" in error_of(answer)["details"]["reason"]


@pytest.mark.parametrize(
    ("body", "field", "why"),
    [
        ({"name": " "}, "name", "must be a word"),
        ({"name": "x" * 256}, "name", "at most 255"),
        ({"scope": "root"}, "scope", "'search', 'read', 'operate' or 'admin'"),
        ({"scope": "admin", "sources": ["docs"]}, "sources", "reads every source"),
        ({"scope": "search"}, "sources", "search needs sources"),
        ({"expires_days": 0}, "expires_days", "between 1 and 36500"),
        ({"sources": [""]}, "sources", "at least 1"),
    ],
)
def test_a_wrong_order_is_refused_at_its_field(
    app: ASGIApp, admin: dict[str, str], body: dict[str, Any], field: str, why: str
):
    answer = made(app, admin, **body)

    assert answer.status_code == 400
    assert error_of(answer)["details"]["field"] == field
    assert why in error_of(answer)["details"]["reason"]


def test_a_key_that_does_not_exist_is_not_found(app: ASGIApp, admin: dict[str, str]):
    assert ask(app, "DELETE", f"{KEYS}/0123456789ab", headers=admin).status_code == 404

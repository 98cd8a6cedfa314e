"""A server on loopback without keys, and the web pages that would like to use it."""

from contextlib import closing
from pathlib import Path

import pytest
from fastapi import APIRouter

from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.app import Version
from smartcrawl.server.context import Context
from smartcrawl.server.keys import Scope as KeyScope
from smartcrawl.server.keys import make_api_key
from tests.server.api_client import application, ask, error_of


def add_routes(_: Context, router: APIRouter) -> None:
    @router.post("/orders")
    def order() -> None:
        pass

    @router.get("/orders")
    def orders() -> None:
        pass


@pytest.fixture
def app(tmp_path: Path):
    return application(tmp_path, versions=(Version("", (add_routes,)),))


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example"},
        {"Host": "rebound.example:8080"},
        {"Host": "127.0.0.1.rebound.example"},
        {"Host": "localhost.rebound.example"},
        {"Host": "localhost@rebound.example"},
        {"Host": ""},
        {"Host": "10.0.0.1"},
        {"Origin": "https://a.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": ""},
        {"Origin": "http://localhost:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_web_page_of_elsewhere_is_refused(app, method: str, headers: dict[str, str]):
    answer = ask(app, method, "/orders", headers=headers)

    assert answer.status_code == 403
    assert error_of(answer)["code"] == "FORBIDDEN"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost"},
        {"Host": "LOCALHOST:8080"},
        {"Host": "127.0.0.1:8080"},
        {"Host": "127.0.0.2"},
        {"Host": "[::1]:8080"},
        {"Origin": "http://localhost:8080"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_programs_and_pages_of_this_machine_are_served(app, headers: dict[str, str]):
    assert ask(app, "POST", "/orders", headers=headers).status_code == 200


@pytest.mark.parametrize("hosts", [("localhost", "rebound.example"), ("localhost", "localhost")])
def test_a_second_host_is_refused(app, hosts: tuple[str, str]):
    answer = ask(app, "GET", "/orders", headers=[("Host", host) for host in hosts])

    assert answer.status_code == 403


def test_no_answer_permits_other_sites(app):
    answer = ask(app, "GET", "/orders", headers={"Origin": "http://localhost:8080"})
    preflight = ask(app, "OPTIONS", "/orders", headers={"Access-Control-Request-Method": "POST"})

    assert preflight.status_code == 405
    for one in (answer, preflight):
        assert not [name for name in one.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "name", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"]
)
def test_a_proxy_that_was_not_declared_needs_a_key(app, name: str):
    """Without API_TRUSTED_PROXIES it would make its clients programs of this machine."""
    through = {"Host": "localhost", name: ""}

    for method in ("GET", "POST"):
        answer = ask(app, method, "/orders", headers=through)
        assert answer.status_code == 401
        assert error_of(answer)["details"]["reason"] == (
            "the request came through a proxy: send an API key"
        )


def test_probes_come_through_any_proxy(tmp_path: Path):
    answer = ask(application(tmp_path), "GET", "/health", headers={"X-Forwarded-For": "192.0.2.1"})

    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["crawl", "download_data", "cleanup_metadata"])
def test_a_get_that_acts_takes_a_header_that_only_programs_send(tmp_path: Path, path: str):
    """ATT-67: previews of mail and agents follow a link; a key needs no further header."""
    app = application(tmp_path)
    place, given = f"/v2/crawler/{path}", {"params": {"domain_id": "DOMAIN01"}}

    refused = ask(app, "GET", place, headers={"X-Smartcrawl": ""}, **given)
    assert refused.status_code == 403
    assert error_of(refused)["details"]["reason"] == (
        "a GET that starts work takes the header X-Smartcrawl: order, or an API key"
    )
    with closing(registry_database(tmp_path / "registry.db").open()) as connection:
        key, _ = make_api_key(connection, "seed", KeyScope.OPERATE, 0)
    for headers in ({"X-Smartcrawl": "order"}, {"X-Smartcrawl": "", "X-API-Key": key}):
        assert ask(app, "GET", place, headers=headers, **given).status_code == 404


def test_reading_and_posting_take_no_such_header(tmp_path: Path):
    app, without = application(tmp_path), {"X-Smartcrawl": ""}

    assert ask(app, "GET", "/api/v1/jobs", headers=without).status_code == 200
    posted = ask(app, "POST", "/v2/crawler/crawl", headers=without, json={"domain_id": "DOMAIN01"})
    assert posted.status_code == 404

"""Search boxes in pages of other sites: their keys, their origins, and nothing beside (ADR 49)."""

from contextlib import closing
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.keys import Scope, make_api_key
from smartcrawl.server.limits import api_scope_needed
from smartcrawl.settings import defaults
from tests.registry.build import Desk
from tests.server.api_client import application, ask, error_of

SITE = "https://www.example.com"
OTHER = "https://evil.example"
PATH = "/api/Search?q=lantern"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("boxes")
    desk = Desk(made / "registry.db")
    for source in ("docs", "shop"):
        desk.source = source
        desk.open()
        desk.index(f"https://{source}.example/", f"a lantern of {source}", title=source)
    desk.close()
    return made


@pytest.fixture(scope="module")
def key(folder: Path) -> str:
    with closing(registry_database(folder / "registry.db").open()) as connection:
        return make_api_key(connection, "box", Scope.SEARCH, 0, sources=("docs",))[0]


@pytest.fixture(scope="module")
def app(folder: Path) -> ASGIApp:
    """A server at loopback that pages of one site may search."""
    return application(folder, run={"registry": folder / "registry.db"}, origins=(SITE,))


def sent_by_page(app: ASGIApp, path: str, origin: str, key: str = "", **given) -> httpx.Response:
    headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    return ask(app, given.pop("method", "GET"), path, headers=headers, **given)


def opened(answer: httpx.Response) -> dict[str, str]:
    return {name: text for name, text in answer.headers.items() if name.startswith("access-")}


def test_a_page_of_a_listed_site_searches_the_sources_of_its_key(app: ASGIApp, key: str):
    answer = sent_by_page(app, PATH, SITE, key)

    assert [hit["title"] for hit in answer.json()["hits"]] == ["docs"]
    assert opened(answer) == {
        "access-control-allow-origin": SITE,
        "access-control-expose-headers": "Retry-After, X-Request-Id",
    }
    assert answer.headers["Vary"] == "Origin"


def test_a_preflight_needs_no_key(app: ASGIApp):
    wanted = {"Access-Control-Request-Method": "GET"}
    headers = {"Origin": SITE, "Sec-Fetch-Site": "cross-site"} | wanted
    answer = ask(app, "OPTIONS", "/api/Search", headers=headers)

    assert answer.status_code == 204
    assert opened(answer) == {
        "access-control-allow-origin": SITE,
        "access-control-allow-methods": "GET",
        "access-control-allow-headers": "Authorization, X-API-Key",
        "access-control-max-age": "7200",
    }
    other = ask(app, "OPTIONS", "/api/Search", headers=headers | {"Origin": OTHER})
    assert (other.status_code, opened(other)) == (405, {})


@pytest.mark.parametrize(
    "origin", [OTHER, "null", f"{SITE}.evil.example", "http://www.example.com"]
)
def test_other_origins_read_nothing(app: ASGIApp, key: str, origin: str):
    assert opened(sent_by_page(app, PATH, origin, key)) == {}


def test_errors_can_be_read_and_a_key_is_needed_from_another_site(app: ASGIApp):
    answer = sent_by_page(app, PATH, SITE)
    assert error_of(answer)["code"] == "FORBIDDEN"
    assert opened(answer)["access-control-allow-origin"] == SITE
    wrong = sent_by_page(app, PATH, SITE, "sc_000000000000_" + "a" * 43)
    assert error_of(wrong)["code"] == "UNAUTHORIZED"
    assert opened(wrong)["access-control-allow-origin"] == SITE


@pytest.mark.parametrize(
    "path", ["/api/SearchStatus", "/api/v1/documents", "/api/v1/jobs", "/metrics", "/api/Search/"]
)
def test_a_key_of_a_search_box_reads_nothing_else(app: ASGIApp, key: str, path: str):
    answer = sent_by_page(app, path, SITE, key)

    assert answer.status_code in (403, 404)
    assert opened(answer) == {}


def test_it_changes_nothing(app: ASGIApp, key: str):
    headers = {"X-API-Key": key}
    for method, path in (("POST", "/api/v1/jobs"), ("POST", "/api/RebuildIndex"),
                         ("GET", "/v2/crawler/crawl")):  # fmt: skip
        assert error_of(ask(app, method, path, headers=headers))["code"] == "FORBIDDEN"
    assert api_scope_needed("POST", "/mcp") > Scope.SEARCH


def test_one_visitor_exhausts_no_other(folder: Path, key: str):
    place = {"registry": folder / "registry.db"}
    app = application(folder, run=place, origins=(SITE,), data_limit=2, host="0.0.0.0")

    statuses = [
        sent_by_page(app, PATH, SITE, key, client=client).status_code
        for client in ("10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2")
    ]
    assert statuses == [200, 200, 429, 200]


def test_without_origins_no_page_of_another_site_searches(folder: Path, key: str):
    app = application(folder, run={"registry": folder / "registry.db"})

    answer = sent_by_page(app, PATH, SITE, key)
    assert opened(answer) == {}
    assert "Vary" not in answer.headers


def test_the_script_is_there_for_other_sites(app: ASGIApp):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    answer = ask(app, "GET", "/search.js", headers=headers)

    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert answer.headers["Cache-Control"] == "public, max-age=3600"
    for markup in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert markup not in answer.text


@pytest.mark.parametrize(
    "value", ["*", "www.example.com", "https://a.example/", "ftp://a.example", "null", "https://"]
)
def test_an_origin_that_no_browser_sends_is_refused(value: str):
    with pytest.raises(SettingError, match="API_ORIGINS"):
        ServerOptions.of(defaults | {"API_ORIGINS": value})
    read = ServerOptions.of(defaults | {"API_ORIGINS": "https://A.example, http://[::1]:3000"})
    assert read.origins == ("https://a.example", "http://[::1]:3000")

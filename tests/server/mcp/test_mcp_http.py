"""Who may call the MCP server over HTTP, asked in this process."""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.jobs.runner import CrawlProgram
from smartcrawl.server.keys import Scope, make_api_key
from smartcrawl.server.mcp.app import create_mcp_app
from smartcrawl.server.mcp.tools import McpRefresher, create_mcp_server
from smartcrawl.server.stores import Stores
from tests.choices import options
from tests.server.api_client import server_options
from tests.server.mcp.mcp_shelf import fill

LOCAL = "http://127.0.0.1:8090"
HEADERS = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mcp-http")
    fill(folder)
    return folder


@pytest.fixture
def stores(folder: Path) -> Iterator[Stores]:
    stores = Stores(folder / "registry.db", only_reading=True)
    yield stores
    stores.close()


@pytest.fixture(scope="module")
def keys(folder: Path) -> dict[str, str]:
    connection = registry_database(folder / "registry.db").open()
    with transaction(connection):
        made = {
            scope.name.lower(): make_api_key(connection, "tests", scope, 0)[0] for scope in Scope
        }
    connection.close()
    return made


def program(folder: Path, code: str) -> CrawlProgram:
    """A crawl that does `code` instead of crawling."""
    words = (sys.executable, "-c", code)
    return CrawlProgram(words, {}, folder / "logs", due=words)


class Web:
    """The server, asked like a browser or a client would."""

    def __init__(
        self,
        stores: Stores,
        folder: Path,
        refresher: McpRefresher | None = None,
        *,
        index: Mapping[str, object] | None = None,
        **server: object,
    ) -> None:
        """``index``: fields of Options, such as another index."""
        choices = options(folder, **(index or {}))
        self._mcp = create_mcp_server(stores, choices, refresher)
        self._app = create_mcp_app(self._mcp, stores, choices, server_options(**server))

    def send(self, body: object, headers: Mapping[str, str] | None = None, **given: Any) -> Any:
        """The answer to one request; the server ends with it."""
        return self.send_all([body], headers, **given)[0]

    def send_all(
        self, bodies: Sequence[object], headers: Mapping[str, str] | None = None, **given: Any
    ) -> list[httpx.Response]:
        async def sent() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self._app, client=("127.0.0.1", 50_000))
            async with (
                self._mcp.session_manager.run(),
                httpx.AsyncClient(transport=transport, base_url=LOCAL) as http,
            ):
                method, path = given.get("method", "POST"), given.get("path", "/mcp")
                sent = {**HEADERS, **(headers or {})}
                return [
                    await http.request(method, path, json=body, headers=sent) for body in bodies
                ]

        return asyncio.run(asyncio.wait_for(sent(), 30))


def call(tool: str, **arguments: object) -> dict[str, object]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def result_of(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["result"]
    return found


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:8090"}, 200),
        ({"Host": "rebound.example"}, 403),
        ({"Host": "127.0.0.1.rebound.example:8090"}, 403),
        ({"Origin": LOCAL}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_no_page_in_a_browser_reaches_a_server_without_a_key(
    stores: Stores, folder: Path, headers: dict[str, str], status: int
):
    answer = Web(stores, folder).send(call("search", query="fuse"), headers)

    assert answer.status_code == status
    assert ("spare ones" in answer.text) == (status == 200)


@pytest.mark.parametrize("scope", [None, "none", "read", "operate"])
def test_at_another_address_every_request_needs_a_key(
    stores: Stores, folder: Path, keys: dict[str, str], scope: str | None
):
    web = Web(stores, folder, host="0.0.0.0")
    key = keys.get(scope or "", "sc_000000000000_" + "x" * 43)
    answer = web.send(call("search", query="fuse"), bearer(key) if scope else {})

    if scope in ("read", "operate"):
        assert result_of(answer)["structuredContent"]["results"]
        return
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "spare ones" not in answer.text


def test_a_page_in_a_browser_with_a_key_is_a_client(
    stores: Stores, folder: Path, keys: dict[str, str]
):
    headers = bearer(keys["read"]) | {"Origin": "https://chat.example"}

    assert Web(stores, folder).send(call("list_sources"), headers).status_code == 200


def test_requests_are_limited_as_those_of_the_api(stores: Stores, folder: Path):
    web = Web(stores, folder, data_limit=2)
    statuses = [answer.status_code for answer in web.send_all([call("list_sources")] * 4)]

    assert statuses[:2] == [200, 200]
    assert 429 in statuses[2:]  # a minute may begin meanwhile


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"method": "GET"}, 405),
        ({"method": "PUT"}, 405),
        ({"method": "DELETE"}, 405),
        ({"path": "/"}, 404),
        ({"path": "/api/v1/jobs", "method": "GET"}, 404),
    ],
)
def test_there_is_one_path_and_one_method(
    stores: Stores, folder: Path, given: dict[str, str], status: int
):
    assert Web(stores, folder).send(None, **given).status_code == status


@pytest.mark.parametrize("body", [7, [], {}, {"jsonrpc": "2.0"}, {"jsonrpc": "1.0", "id": 1}])
def test_what_is_no_message_is_refused(stores: Stores, folder: Path, body: object):
    assert 400 <= Web(stores, folder).send(body).status_code < 500


# Crawls


def test_a_refresh_over_http_takes_a_key_that_may_change_something(
    stores: Stores, folder: Path, keys: dict[str, str]
):
    refresher = McpRefresher(stores, options(folder), program(folder, "raise SystemExit(7)"))
    web = Web(stores, folder, refresher, host="0.0.0.0")

    order = call("refresh", source="handbook")
    read = result_of(web.send(order, bearer(keys["read"])))
    web = Web(stores, folder, refresher, host="0.0.0.0")
    operate = result_of(web.send(order, bearer(keys["operate"])))

    assert "refresh takes a key of scope operate" in read["content"][0]["text"]
    said = operate["content"][0]["text"]
    assert "ended before it began (exit status 7): see due-handbook.log" in said
    assert read["isError"] is operate["isError"] is True


def test_a_source_that_is_being_crawled_is_not_crawled_twice(stores: Stores, folder: Path):
    started = folder / "started"
    code = f"open({str(started)!r}, 'w')"
    refresher = McpRefresher(stores, options(folder), program(folder, code))
    lease = stores.database.take("handbook", "2025-06-15T15:06:40+00:00")
    try:
        said = Web(stores, folder, refresher).send(call("refresh", source="handbook"))
    finally:
        lease.release()

    assert "handbook is being crawled already" in result_of(said)["content"][0]["text"]
    assert not started.exists()


def test_a_crawl_that_opens_no_run_in_time_is_named_by_its_process(stores: Stores, folder: Path):
    slept: list[float] = []
    refresher = McpRefresher(
        stores, options(folder), program(folder, "import time; time.sleep(9)"), sleep=slept.append
    )
    started = refresher.start("handbook")

    assert started.run is None
    assert started.pid > 0
    assert 19 < sum(slept) < 21


def test_a_refresh_asks_every_page_in_a_process_of_its_own(folder: Path, tmp_path: Path):
    seen = tmp_path / "seen"
    code = f"import sys, os; open({str(seen)!r}, 'w').write(f'{{sys.argv[1:]}} {{os.getsid(0)}}')"
    child = program(folder, code).start_refresh("handbook")
    assert child.wait(timeout=30) == 0

    assert seen.read_text() == (
        f"['--source=handbook', '-s', 'RECRAWL_POLICY=always', '--progress', 'none'] {child.pid}"
    )

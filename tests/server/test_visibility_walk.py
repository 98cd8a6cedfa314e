"""No answer tells anything of a source that its caller may not read (ADR 147).

There are two servers: one whose registry has a private source, and one that never heard of it. For
every operation of openapi.json and every tool of MCP, both are asked about that source, and answer
alike, to the byte. A new operation or parameter fails here until it is asked about the source, too.
"""

import asyncio
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from smartcrawl.model.option_groups import ElasticsearchTarget
from smartcrawl.model.urls import normalize_url, url_digest, url_item_id
from smartcrawl.registry.connection import transaction
from smartcrawl.server import indexnow
from smartcrawl.server.explained.fetching import FetchedPage, NotFetchedError, PageFetch
from smartcrawl.server.indexnow import KeyFileDownload
from smartcrawl.server.keys import Scope, make_api_key
from smartcrawl.server.mcp.tools import McpRefresher
from smartcrawl.server.robots import RobotsAnswer, RobotsDownload
from smartcrawl.server.stores import Stores
from tests.choices import options
from tests.index.meanings import desk_at
from tests.index.remote_desk import RemoteDesk
from tests.registry.build import Desk
from tests.registry.spare import Spare
from tests.server.api_client import ORDER, application
from tests.server.described import Described, Operation
from tests.server.mcp.test_mcp_http import Web, call, program
from tests.servers import Elasticsearch

NOW = 1_750_000_000
HOST = "zanzibar.example"
PAGE = f"https://{HOST}/quillwort/page"
PUBLIC = "https://docs.example/guide"
SHARED = "https://docs.example/quillwort"  #: of the private source, at the host of the public one
SOURCE = "zanzibar"
#: What no answer may have, in any spelling.
PLANTED = re.compile("zanzibar|quillwort", re.IGNORECASE)
HASH = url_digest(normalize_url(PAGE)).hex()
ID = url_item_id("url", bytes.fromhex(HASH))
ORDERED = "ro_00000000000000aa"
JOB, RUN = "job_00000000000000aa", "jb_00000000000000aa"

#: Values about the private source, by the names of parameters, in paths and queries.
PARAMETERS: dict[str, list[str]] = {
    "url_hash": [HASH],
    "job_id": [JOB, RUN],
    "domain": [HOST],
    "source": [SOURCE],
    "q": [
        "quillwort",
        "quillw",
        "quillwart",
        '"quillwort" lantern',
        f"in:{SOURCE} lantern",
        "lantern",
        "lantern type:html",
        "lantern -in:docs",
    ],
    "collection": [SOURCE],
    "domain_id": ["ZANZIBAR"],
    "record_id": ["2"],
    "run": ["2"],
    "order_id": [ORDERED],
    "key_id": ["00000000000a"],
    "key": ["0123-4567"],
    "keyLocation": [f"https://{HOST}/0123-4567.txt"],
    "url": [PAGE, SHARED, f"{PAGE}/y", f"{PAGE}/z", f"http://www.{HOST}/quillwort/page"],
}
#: Parameters that choose a form or a part of an answer, with another value than the usual one.
FORMS: dict[str, str] = {
    "facets": "1", "sort": "date", "prefix": "1",
    "nestImages": "true", "limit": "1", "offset": "1", "mode": "text", "from": "2024-01-01",
    "to": "2030-01-01", "status": "created", "follow": "false", "format": "json",
    "scope": "files", "dry_run": "true", "retry_batches": "1", "source_type": "file_sources",
    "source_id": "quillwort",
    "cron": "0 3 * * 1", "links_in": "true", "list": "lost", "text": "true",
    "since": "1", "before": "1", "after": "2", "level": "WARNING", "lines": "1",
}  # fmt: skip
#: Parameters whose values come from an answer, which the caller of the private source never got.
GIVEN = frozenset({"cursor"})
#: Bodies about the private source.
BODIES: dict[str, list[dict[str, Any]]] = {
    "POST /api/v1/jobs": [{"name": "another", "seed_urls": [PAGE]}],
    "PUT /api/v1/jobs/{job_id}": [
        {"name": "another", "seed_urls": [PAGE]},
        {"schedule": {"type": "recurring", "cron": "0 0 * * *"}},
    ],
    "POST /api/v1/jobs/{job_id}/control": [{"action": "cancel"}, {"action": "start"}],
    "POST /api/v1/frontier/urls": [{"urls": [{"url": PAGE}, {"url": f"https://{HOST}/new"}]}],
    "POST /api/AddUrlDocument": [
        {"url": PAGE},
        {"url": PAGE, "force": True},
        {"url": PAGE, "source": SOURCE},
    ],
    "POST /api/ReindexItem": [{"id": ID, "force": True}, {"source": PAGE, "force": True}],
    "POST /api/RebuildIndex": [{"force": False}],
    "POST /api/v1/runs/{run}/approve": [{"max": 1}],
    "POST /api/v1/runs/{run}/undo": [{"pin": True}],
    "POST /api/v1/records/{record_id}/forget": [{"confirm": True}],
    "POST /api/v1/decisions": [
        {"urls": [PAGE]},
        {"urls": [PAGE, f"https://{HOST}/new"], "source": SOURCE},
    ],
    "POST /api/v1/reindex": [{"source": SOURCE}],
    "POST /indexnow": [
        {"host": HOST, "key": "0123-4567", "urlList": [PAGE]},
        {"host": "docs.example", "key": "0123-4567", "urlList": [PUBLIC, SHARED]},
    ],
    "POST /api/v1/previews": [{"url": PAGE}, {"url": PAGE, "source": SOURCE}],
    "POST /api/v1/keys": [{"name": "quillwort", "sources": [SOURCE]}],
    "POST /api/v1/removals": [{"source": SOURCE, "kind": "lost", "max": 1}],
    **{
        f"POST /v2/crawler/{step}": [{"domain_id": "ZANZIBAR"}]
        for step in ("crawl", "download_data", "process_data", "embed_data")
    },
}
#: Operations that tell an administrator nothing of this source, either: those of libraries, of the
#: server itself, of keys. All the same no answer has what was planted.
SILENT = re.compile(
    r"GET /(health|ready|metrics)|(GET|POST) /v2/crawler/.*|POST /api/v1/jobs|\w+ /api/v1/keys.*"
    "|GET /api/v1/fires|GET /api/v1/libraries"
    "|POST /api/v1/hooks/.*"  # no API key counts there
)
#: It is refused where there is anything private at all, but tells no more than that.
REFUSED = "POST /api/RebuildIndex"
ARGUMENTS: dict[str, list[object]] = {
    "query": ["quillwort", "quillwart", f"in:{SOURCE} lantern", "lantern"],
    "sources": [[SOURCE], []],
    "id": [ID, PAGE, "smartcrawl://page/2"],
    "source": [SOURCE],
}
FORMS_OF_TOOLS: dict[str, object] = {
    "language": "en", "mode": "text", "limit": 1, "offset": 1, "facets": True, "sort": "date",
    "since": "1",
}  # fmt: skip


def declare(folder: Path, *, private: bool) -> None:
    """Write sources.toml: a public source; with ``private`` two with a login, one never crawled."""
    lines = ['[sources.docs]\nseeds = ["https://docs.example/"]']
    for name in (SOURCE, f"{SOURCE}-new") if private else ():
        login = 'auth = { kind = "basic", user = "A_USER", password = "A_PASSWORD" }'
        lines.append(f'[sources.{name}]\nseeds = ["https://{name}.example/"]\n{login}')
    (folder / "sources.toml").write_text("\n".join(lines))


def fill(desk: Desk, folder: Path, *, private: bool) -> dict[str, str]:
    """Crawl the sources; return keys by the name of their scope."""
    desk.open(now=NOW)
    desk.index(PUBLIC, "a lantern of the harbour", title="Guide")
    desk.seal(now=NOW)
    if private:
        desk.source = SOURCE
        desk.open(now=NOW)
        desk.index(PAGE, "a lantern and a quillwort", title="Quillwort of Zanzibar")
        desk.index(SHARED, "a quillwort at a host that all know", title="Quillwort elsewhere")
        desk.seal(now=NOW)
        plant(desk, folder)
    desk.connection.execute("UPDATE record SET first_seen = ?", (NOW,)).fetchall()
    visits = "(SELECT count(*) FROM record WHERE record.host = host.no)"
    desk.connection.execute(f"UPDATE host SET pages_crawled = {visits}").fetchall()
    with transaction(desk.connection):
        return {scope.name: make_api_key(desk.connection, "walk", scope, NOW)[0] for scope in Scope}


def plant(desk: Desk, folder: Path) -> None:
    """Store something of each other kind about the private source."""
    digest, new = url_digest(normalize_url(f"{PAGE}/x")), url_digest(normalize_url(f"{PAGE}/y"))
    rows: list[tuple[str, tuple[object, ...]]] = [
        ("UPDATE source SET visibility = 'private' WHERE name = ?", (SOURCE,)),
        (
            "INSERT INTO job (id, name, definition, created_at, declared, reasons)"
            " VALUES (?, ?, '{\"schedule\": {}}', 5, TRUE, '[\"quillwort\"]')",
            (JOB, SOURCE),
        ),
        (
            "INSERT INTO job_run (id, job, due_at, fired_at, state, run, reasons)"
            " SELECT ?, no, 5, 5, 'ended', 2, '[\"quillwort\"]' FROM job",
            (RUN,),
        ),
        (
            "INSERT INTO pending_pin (source, id, url, host, at, priority)"
            " VALUES (?, ?, ?, ?, 5, 1)",
            (SOURCE, digest, f"{PAGE}/x", HOST),
        ),
        (
            "INSERT INTO ordered_address (source, id, url, forced, at) VALUES (?, ?, ?, 0, 5)",
            (SOURCE, new, f"{PAGE}/y"),
        ),
        (
            "INSERT INTO removal_order (id, source, action, run, orderer, created_at)"
            " VALUES (?, ?, 'undo', 2, 'quillwort', 5)",
            (ORDERED, SOURCE),
        ),
        (
            "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, 5, 200, ?)",
            (f"https://{HOST}", b"User-agent: *\nDisallow: /quillwort"),
        ),
    ]
    with transaction(desk.connection):
        for statement, values in rows:
            desk.connection.execute(statement, values).fetchall()
    (folder / "logs").mkdir()
    (folder / "logs" / f"{RUN}.log").write_text(f"GET {PAGE}\n")


class Served:
    """A registry, and its two servers."""

    def __init__(
        self, folder: Path, url: str, index: ElasticsearchTarget | None = None, *, private: bool
    ) -> None:
        """``url``: of a registry in PostgreSQL; "": in SQLite. ``index``: None: beside it."""
        folder.mkdir()
        declare(folder, private=private)
        self.folder = folder
        place: Path | str = url or folder / "registry.db"
        self.elsewhere = {} if index is None else {"elasticsearch": index}
        self.desk = desk_at(url) if url else Desk(folder / "registry.db")
        if index is not None:
            self.desk.close()
            self.desk = RemoteDesk(options(folder, **self.elsewhere), folder / "registry.db")
        self.keys = fill(self.desk, folder, private=private)
        unlimited = {"jobs_limit": 10**9, "data_limit": 10**9, "monitoring_limit": 10**9}
        run = {"registry": place, **self.elsewhere}
        given = {"takes_indexnow": True, **unlimited}
        self.app = application(folder, clock=lambda: float(NOW), run=run, **given)
        self.stores = Stores(place, only_reading=True)

    def headers(self, scope: str | None) -> dict[str, str]:
        return {} if scope is None else {"Authorization": f"Bearer {self.keys[scope]}"}

    def ask(self, requests: list[tuple[str, str, dict[str, Any]]], scope: str | None) -> list[str]:
        """Return the answers: their status and body, without the id of the request."""

        async def asked() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self.app, client=("127.0.0.1", 50_000))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                http.headers.update({**ORDER, **self.headers(scope)})
                return [
                    await http.request(method, path, **given) for method, path, given in requests
                ]

        return [told(answer) for answer in asyncio.run(asked())]

    def call(self, bodies: list[object], scope: str | None) -> list[str]:
        return [told(answer) for answer in self.sent(bodies, scope)]

    def sent(self, bodies: list[object], scope: str | None) -> list[httpx.Response]:
        """Send messages to a server of MCP, which takes no more of them after its end."""
        crawls = program(self.folder, "")
        refresher = McpRefresher(self.stores, options(self.folder), crawls, sleep=lambda _: None)
        web = Web(self.stores, self.folder, refresher, data_limit=10**9, index=self.elsewhere)
        return web.send_all(bodies, self.headers(scope))

    def close(self) -> None:
        self.stores.close()
        self.desk.close()


def told(answer: httpx.Response) -> str:
    """Return what an answer says, without the parts that no two answers share."""
    text = re.sub(r"req_\w+|(job|jb|ro)_[0-9a-f]{16}", "…", answer.text)
    text = re.sub(r'"key(_id)?":"\w[^"]+"', '"key":"…"', text)
    return f"{answer.status_code} {text}"


def planted(what: object) -> set[str]:
    """Return the planted words in an answer, or in a request, which an error may repeat."""
    return set(PLANTED.findall(str(what).lower()))


@pytest.fixture(
    params=["sqlite", "postgres", pytest.param("elasticsearch", marks=pytest.mark.long)]
)
def servers(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Served, Served]]:
    """A server with the private source, and one without."""

    async def answer(self: RobotsDownload, host: str) -> RobotsAnswer:
        return RobotsAnswer("", reason="no host is asked")

    async def fetched(self: PageFetch) -> FetchedPage:
        raise NotFetchedError("no host is asked")

    monkeypatch.setattr(RobotsDownload, "answer", answer)

    async def key_file(self: KeyFileDownload, url: str) -> bytes:
        return b"0123-4567"

    monkeypatch.setattr(PageFetch, "fetched", fetched)
    monkeypatch.setattr(KeyFileDownload, "body", key_file)
    # A busy machine must not answer one of two notices before its key is verified.
    monkeypatch.setattr(indexnow, "ANSWER_SECONDS", 60.0)
    urls = ["", ""]
    if request.param == "postgres":
        spare: Spare = request.getfixturevalue("spare_registries")
        urls = [spare.take(), spare.take()]
    indexes: list[ElasticsearchTarget | None] = [None, None]
    if request.param == "elasticsearch":
        server: Elasticsearch = request.getfixturevalue("elasticsearch")
        prefix = request.getfixturevalue("elasticsearch_prefix")
        indexes = [ElasticsearchTarget(server.url, f"{prefix}{name}") for name in ("a", "b")]
    made = (
        Served(tmp_path / "with", urls[0], indexes[0], private=True),
        Served(tmp_path / "without", urls[1], indexes[1], private=False),
    )
    yield made
    for one, url in zip(made, urls, strict=True):
        one.close()
        if url:
            spare.put_back(url)


def requests_of(operation: Operation) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield requests about the private source: with each parameter, and with each body."""
    name = operation.name
    in_path = [one["name"] for one in operation.parameters("path")]
    in_query = {one["name"]: one.get("required", False) for one in operation.parameters("query")}
    known = PARAMETERS.keys() | FORMS.keys() | GIVEN
    new = {*in_path, *in_query} - known
    assert not new, f"{name} takes {new}: give them values about a private source"
    needed = [one for one, is_needed in in_query.items() if is_needed]
    asked: list[list[str]] = [needed]
    asked += [[*needed, one] for one in in_query if one not in {*needed, *GIVEN}]
    bodies: list[dict[str, Any] | None] = [None]
    if operation.body is not None:
        assert name in BODIES, f"{name} takes a body: give it one about a private source"
        bodies = list(BODIES[name])
    for body in bodies:
        for names in asked:
            every = [[(one, value) for value in PARAMETERS.get(one, [FORMS.get(one, "")])]
                     for one in [*in_path, *names]]  # fmt: skip
            for chosen in itertools.product(*every):
                values = dict(chosen)
                path = operation.path.format(**values)
                given: dict[str, Any] = {"params": {one: values[one] for one in names}}
                yield operation.method, path, given | ({} if body is None else {"json": body})


@pytest.mark.long(but=2)
@pytest.mark.parametrize("scope", ["READ", "OPERATE", None])
def test_every_operation_answers_as_if_the_source_were_not_there(
    servers: tuple[Served, Served], scope: str | None
):
    having, lacking = servers
    operations = Described(having.app).operations()
    operations.sort(key=lambda one: one.method != "GET")  # before the caller adds addresses of it
    for operation in operations:
        requests = list(requests_of(operation))
        found, other = (one.ask(requests, scope) for one in servers)
        for request, answer, expected in zip(requests, found, other, strict=True):
            assert planted(answer) <= planted(request), (request, answer)
            if operation.name not in ("GET /metrics", REFUSED):
                assert answer == expected, request
    assert having.ask([("GET", "/api/v1/jobs", {})], scope) == lacking.ask(
        [("GET", "/api/v1/jobs", {})], scope
    )


def test_to_an_administrator_every_operation_tells_of_it(servers: tuple[Served, Served]):
    """Else the walk would not see what it tells to others."""
    operations = Described(servers[0].app).operations()
    operations.sort(key=lambda one: one.path != "/api/ReindexItem")  # before the address is added
    for operation in operations:
        requests = list(requests_of(operation))
        found, other = (one.ask(requests, "ADMIN") for one in servers)
        if operation.name in ("GET /metrics", "GET /api/v1/keys"):
            continue  # no two answers are alike
        assert (found != other) != bool(SILENT.fullmatch(operation.name)), (
            f"{operation.name}: ask it so that it tells of a private source, or name it in SILENT"
        )


def calls(tools: list[dict[str, Any]]) -> Iterator[dict[str, object]]:
    """Yield calls of each tool about the private source."""
    for tool in tools:
        taken = tool["inputSchema"].get("properties", {})
        new = taken.keys() - ARGUMENTS.keys() - FORMS_OF_TOOLS.keys() - GIVEN
        assert not new, f"{tool['name']} takes {new}: give them values about a private source"
        needed = tool["inputSchema"].get("required", [])
        for more in [[], *([one] for one in taken if one not in {*needed, *GIVEN})]:
            every = [[(one, value) for value in ARGUMENTS.get(one, [FORMS_OF_TOOLS.get(one)])]
                     for one in [*needed, *more]]  # fmt: skip
            for chosen in itertools.product(*every):
                yield call(tool["name"], **dict(chosen))


RESOURCE = {"jsonrpc": "2.0", "id": 1, "method": "resources/read",
            "params": {"uri": "smartcrawl://page/2"}}  # fmt: skip


@pytest.mark.long(but=1)
@pytest.mark.parametrize("scope", ["READ", "OPERATE", None])
def test_every_tool_of_mcp_answers_as_if_the_source_were_not_there(
    servers: tuple[Served, Served], scope: str | None
):
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    (answer,) = servers[0].sent([listing], scope)
    bodies: list[object] = [*calls(answer.json()["result"]["tools"]), RESOURCE]
    assert len(bodies) > 10

    found, other = (one.call(bodies, scope) for one in servers)

    for body, told_, expected in zip(bodies, found, other, strict=True):
        assert planted(told_) <= planted(body), (body, told_)
        assert told_ == expected, body
    assert servers[0].call([RESOURCE], "ADMIN") != other[-1:]
    assert PLANTED.search(servers[0].call([call("search", query="quillwort")], "ADMIN")[0])


def test_a_key_that_names_the_source_reads_it_and_nothing_else(servers: tuple[Served, Served]):
    served = servers[0]
    with transaction(served.desk.connection):
        key, _ = make_api_key(served.desk.connection, "wiki", Scope.READ, NOW, sources=[SOURCE])
    served.keys["WIKI"] = key

    (hits, listed, document) = served.ask(
        [
            ("GET", "/api/Search", {"params": {"q": "lantern"}}),
            ("GET", "/api/v1/documents", {}),
            ("GET", f"/api/v1/documents/{HASH}", {}),
        ],
        "WIKI",
    )
    assert all(PAGE in text and PUBLIC not in text for text in (hits, listed))
    assert PAGE in document
    (sources,) = served.call([call("list_sources")], "WIKI")
    assert SOURCE in sources
    assert '"docs"' not in sources


def test_a_table_that_opens_or_closes_a_source_counts_at_once(servers: tuple[Served, Served]):
    served = servers[0]
    asked = [("GET", "/api/Search", {"params": {"q": "lantern"}})]
    file = served.folder / "sources.toml"
    assert (PUBLIC in served.ask(asked, None)[0], PAGE in served.ask(asked, None)[0]) == (
        True,
        False,
    )
    text = file.read_text()
    file.write_text(
        text.replace(f"[sources.{SOURCE}]", f'[sources.{SOURCE}]\nvisibility = "public"')
    )
    assert PAGE in served.ask(asked, None)[0]
    file.write_text(text.replace("[sources.docs]", '[sources.docs]\nvisibility = "private"'))
    (answer,) = served.ask(asked, None)
    assert (PUBLIC in answer, PAGE in answer) == (False, False)
    file.write_text("")
    assert PAGE not in served.ask(asked, None)[0], "its login is lost, not its visibility"

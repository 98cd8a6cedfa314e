"""Secrets of logins of each kind are nowhere: files, commands, HTTP API, MCP, pages (ADR 146)."""

import base64
import json
from collections.abc import Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from smartcrawl.model.run_logs import run_log_file
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.keys import Scope, make_api_key
from smartcrawl.server.stores import Stores
from tests.guarded_site import PASSWORD, PROOF, USER, Guard, pages
from tests.lab.lab import Lab
from tests.lab.lab_site import LabSite
from tests.server.api_client import application, ask_all
from tests.server.described import Described, Operation
from tests.server.mcp.test_mcp_http import Web, call, result_of
from tests.server.pages.browsing import Visitor
from tests.server.pages.site_map import page_paths
from tests.site_server import Page

TOKEN, COOKIE, GRANTED = "tok-77aa61", "key=c0ffee42", "grant-51bd90"
NAMES = '{ user = "DOCS_USER", pass = "DOCS_PASSWORD" }'
#: The keys of each kind, and what the site takes.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "form": (f'login = "ORIGIN/login"\nfields = {NAMES}\nlogged_in = "{PROOF}"', {}),
    "cookie": (f'cookie = "DOCS_COOKIE"\nlogged_in = "{PROOF}"', {"cookie": COOKIE}),
    "basic": ('user = "DOCS_USER"\npassword = "DOCS_PASSWORD"', {"basic": True}),
    "digest": ('user = "DOCS_USER"\npassword = "DOCS_PASSWORD"', {"digest": True}),
    "bearer": ('token = "DOCS_TOKEN"', {"token": TOKEN}),
    "header": ('headers = { X-Api-Key = "DOCS_TOKEN" }', {"token": TOKEN}),
    "oauth2_client": (
        'token_url = "https://id.example/token"\nclient_id = "DOCS_USER"\n'
        'client_secret = "DOCS_PASSWORD"',
        {"token": GRANTED},
    ),
}
#: Values of parameters and arguments that no example names.
GIVEN = {
    "q": "treasure",
    "query": "treasure",
    "url": "http://site.example/p1",
    "source": "form",
    "name": "form",
    "number": "1",
    "run": "1",
    "id": "1",
}


class GuardedLabSite(Guard, LabSite):
    wall = "401"

    def takes(self, **what: Any) -> None:
        """Take this kind of login alone."""
        nothing = {"basic": False, "digest": False, "token": None, "cookie": None}
        vars(self).update(nothing | what)
        self.sessions.clear()


class TokenLabSite(LabSite):
    def answer(self, method: str, path: str, headers: dict[str, str]) -> Any:
        self.pages["/token"] = Page(json.dumps({"access_token": GRANTED, "expires_in": 600}))
        return super().answer("GET", path, headers)


@pytest.fixture
def site() -> GuardedLabSite:
    return GuardedLabSite()


@pytest.fixture
def guard(lab: Lab, site: GuardedLabSite, monkeypatch: pytest.MonkeyPatch) -> GuardedLabSite:
    """A site and a source of it for each kind of a login, crawled well, then badly."""
    given = {"USER": USER, "PASSWORD": PASSWORD, "TOKEN": TOKEN, "COOKIE": COOKIE}
    for name, value in given.items():
        monkeypatch.setenv(f"DOCS_{name}", value)
    site.pages |= pages(3)
    lab.crawl.web.sites.append(TokenLabSite("id.example", scheme="https"))
    origin = site.url("").rstrip("/")
    lab.crawl.sources_file.write_text(
        "".join(
            f'[sources.{kind}]\nseeds = ["{origin}/"]\n[sources.{kind}.auth]\nkind = "{kind}"\n'
            f'origins = ["{origin}"]\n{keys.replace("ORIGIN", origin)}\n'
            for kind, (keys, _) in KINDS.items()
        )
    )
    return site


def secrets() -> list[str]:
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    return [PASSWORD, TOKEN, COOKIE, GRANTED, pair, "session=s", quote(COOKIE)]


def found_in(text: str | bytes) -> list[str]:
    """The secrets that a text has."""
    read = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return [secret for secret in secrets() if secret in read]


def address(operation: Operation, described: Described, given: Mapping[str, str]) -> str:
    """The path of an operation with values for what it needs."""

    def value(parameter: Any) -> str:
        schema = described.resolved(parameter["schema"])
        examples = [*parameter.get("examples", {}).values()] or schema.get("examples", [])
        example = examples[0] if examples else "1"
        example = example["value"] if isinstance(example, dict) else example
        return quote(str(given.get(parameter["name"], example)), safe="")

    path = operation.path
    for parameter in operation.parameters("path"):
        path = path.replace(f"{{{parameter['name']}}}", value(parameter))
    query = [
        f"{parameter['name']}={value(parameter)}"
        for parameter in operation.parameters("query")
        if parameter.get("required") or parameter["name"] in given
    ]
    return "?".join([path, "&".join(query)]) if query else path


@pytest.mark.sqlite
def test_no_secret_is_in_any_output(lab: Lab, guard: GuardedLabSite):
    lab.settings["LOG_LEVEL"] = "DEBUG"
    said = []
    for kind, (_, what) in KINDS.items():
        guard.takes(**what)
        said.append(lab.run(source=kind))
        assert len(lab.rows(f"SELECT 1 FROM source WHERE name = '{kind}'")) == 1
        guard.pages["/p1"] = Page("broken", status=500)
        said.append(lab.run(source=kind, expect=None))
        guard.pages |= pages(3)
        guard.takes(token="another")
        said.append(lab.run(source=kind, expect=3))
        assert "login: " in said[-1].reasons[0]
    assert set(guard.given) >= {f"Bearer {TOKEN}", f"Bearer {GRANTED}", COOKIE}
    for words in (
        ("config",), ("status",), ("runs",), ("registry",), ("hosts",),
        ("why", lab.site.url("/p1")), ("plan",), ("plan", "--simulate"),
        ("export", "--format", "jsonl", "--output", str(lab.crawl.folder / "out.jsonl")),
    ):  # fmt: skip
        said.append(lab.crawl.run(*words, expect=None))
    assert [found_in(one.out + one.err) for one in said] == [[]] * len(said)
    assert {
        name: found for name, content in lab.crawl.written() if (found := found_in(content))
    } == {}


def admin(lab: Lab) -> str:
    """A key that reads every source: sources with a login are private."""
    opened = closing(registry_database(lab.crawl.registry).open())
    with opened as connection, transaction(connection):
        return make_api_key(connection, "tests", Scope.ADMIN, 0)[0]


@pytest.mark.sqlite
def test_no_secret_is_in_the_api_or_in_mcp(lab: Lab, guard: GuardedLabSite):
    for kind, (_, what) in KINDS.items():
        guard.takes(**what)
        lab.run(source=kind)
        guard.takes(token="another")
        lab.run(source=kind, expect=3)
    folder = lab.crawl.folder
    app = application(folder, run={"registry": lab.crawl.registry})
    described, headers = Described(app), {"Authorization": f"Bearer {admin(lab)}"}
    name = sha256(lab.site.url("/p1").encode()).hexdigest()
    given = GIVEN | {"domain": lab.site.host, "url_hash": name}
    asked = [
        (operation.method, address(operation, described, given))
        for operation in described.operations()
        if operation.method == "GET"
    ]
    wrong = [("GET", f"{path.partition('?')[0]}/no-such?q=%00") for _, path in asked]
    answers = ask_all(app, [(*one, {"headers": headers}) for one in asked + wrong])
    assert [found_in(answer.text + str(answer.headers)) for answer in answers] == [[]] * len(
        answers
    )
    read = [path for (_, path), answer in zip(asked, answers, strict=False) if answer.is_success]
    assert len(read) > len(asked) // 2, read
    assert any("treasure" in answer.text for answer in answers)

    stores = Stores(lab.crawl.registry, only_reading=True)
    try:
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        tools = result_of(Web(stores, folder).send(listing, headers))["tools"]
        bodies = []
        for tool in tools:
            names = tool["inputSchema"].get("properties", {})
            given = {name: GIVEN[name] for name in names if name in GIVEN}
            bodies.append(call(tool["name"], **given))
        answers = Web(stores, folder).send_all(bodies, headers)
    finally:
        stores.close()
    assert [found_in(answer.text) for answer in answers] == [[]] * len(tools)
    assert any("treasure" in answer.text for answer in answers)


def shown(lab: Lab, folder: Path) -> list[str]:
    """The paths of all pages about a source, with those of each run, its log and its pages."""
    url = lab.site.url("/p1")
    ((number,),) = lab.rows(
        "SELECT r.no FROM record r JOIN source s ON s.no = r.source"
        f" WHERE s.name = 'form' AND r.url = '{url}'"
    )
    ((key,),) = lab.rows("SELECT id FROM api_key")
    known = {"no": number, "key_id": key, "run": 1}
    known["url_hash"] = sha256(url.encode()).hexdigest()
    #: the error pages of what is not there
    other = {"job": "job_00000000000000aa", "order": "ro_00000000000000aa"}
    found = [*page_paths(folder, known | other)]
    for (run,) in lab.rows("SELECT no FROM run"):
        lists = ("new", "failed", "pending", "lost")
        found += [f"/runs/{run}", *(f"/runs/{run}?list={name}" for name in lists)]
        found += [f"/runs/{run}?part={part}&fragment" for part in ("", "log", "chart")]
    for (page,) in lab.rows("SELECT no FROM record"):
        found.append(f"/records/{page}?text=true&links_in=true")
    for kind in KINDS:
        found += [f"{path}?source={kind}" for path in ("/runs", "/changes", "/status", "/hosts")]
        found.append(f"/?q=treasure&source={kind}")
    tried = quote(url, safe="")
    found += [f"/records?url={tried}", f"/try?urls={tried}&source=form", "/frontier?hosts=all"]
    return [*found, "/records/999999", "/runs/999999", "/no-such-page"]


@pytest.mark.sqlite
def test_no_secret_is_on_a_page(lab: Lab, guard: GuardedLabSite):
    lab.settings["LOG_LEVEL"] = "DEBUG"
    folder = lab.crawl.folder
    for kind, (_, what) in KINDS.items():
        for takes, status in ((what, 0), ({"token": "another"}, 3)):
            guard.takes(**takes)
            ran = lab.run(source=kind, expect=status)
            log = run_log_file(folder, ran.no)
            log.parent.mkdir(exist_ok=True)
            log.write_text(ran.err + ran.out)
    key = admin(lab)
    visitor = Visitor(application(folder, run={"registry": lab.crawl.registry}, pages_limit=10**9))
    assert visitor.submit("/login", "/login", key=key).status_code == 303
    paths = shown(lab, folder)
    answers = {
        path: visitor.get(path, headers={"HX-Request": "true"} if "&fragment" in path else {})
        for path in paths
    }
    texts = {path: answer.text + str(answer.headers) for path, answer in answers.items()}
    assert {path: found for path, text in texts.items() if (found := found_in(text))} == {}
    missing = {path for path, answer in answers.items() if answer.status_code >= 400}
    assert missing == {path for path in paths if "00000000000000aa" in path or "999999" in path} | {
        "/no-such-page"
    }
    for part in ("/p1", "treasure", "login: ", *KINDS):
        assert any(part in text for text in texts.values()), part
    assert "login: " in texts["/runs/2?part=log&fragment"]

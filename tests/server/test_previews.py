"""One page as it would be indexed: requested once, by the rules of its source, stored nowhere."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.types import ASGIApp

from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.server.explained import previews
from smartcrawl.server.explained.answers import Preview
from smartcrawl.server.explained.fetching import HostTurns, NotFetchedError
from smartcrawl.server.keys import Scope
from tests.connect_proxy import ConnectProxy
from tests.registry.build import Desk
from tests.server.api_client import application, ask, error_of
from tests.server.pages.browsing import Visitor, form_of, logged_in_visitor, made_key, parsed, words

NOW = 1_750_000_000
PAGE = """<!doctype html><html lang=en><head><title>{title}</title></head><body>
<nav><a href="/menu">The menu of everything</a></nav>
<main><h1>Lamps</h1><p>{text}</p><a href="/next">Next page</a>
<a href="javascript:alert(1)">Bad</a><a href="https://other.example/">Elsewhere</a></main>
<footer>All rights reserved by nobody</footer></body></html>"""
TEXT = "A lantern of the harbour shines for all who come by sea, whatever the weather. " * 8


class Site:
    """A server on loopback: pages by path, and the requests that came."""

    def __init__(self) -> None:
        site = self
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.robots = "User-agent: *\nDisallow: /secret"

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.path, dict(self.headers)))
                status, headers, body = site.answer(self.path, dict(self.headers))
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if path == "/robots.txt":
            return 200, {"Content-Type": "text/plain"}, self.robots.encode()
        if path.startswith("/private") and headers.get("Authorization") != "Basic dTpw":
            return 401, {}, b""
        if path in self.pages:
            return self.pages[path]
        body = PAGE.format(title="Lamps of <b>", text=TEXT).encode()
        return 200, {"Content-Type": "text/html; charset=utf-8"}, body

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


other = site  #: a second one, at a port of its own


@pytest.fixture
def folder(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("A_USER", "u")
    monkeypatch.setenv("A_PASSWORD", "p")
    (tmp_path / "sources.toml").write_text(f"""
[sources.docs]
seeds = ["{site.url}/"]
excluded_patterns = ["/old/"]
user_agent = "LampBot/1"
delay = 0

[sources.closed]
seeds = ["{site.url}/private/"]
delay = 0

[sources.closed.auth]
kind = "basic"
user = "A_USER"
password = "A_PASSWORD"
origins = ["{site.url}"]
""")
    return tmp_path


@pytest.fixture
def app(folder: Path) -> ASGIApp:
    return served(folder)


def served(folder: Path, **given: Any) -> ASGIApp:
    run = {"allow_networks": (ip_network("127.0.0.0/8"),), "download_delay": 0.0}
    return application(folder, clock=lambda: float(NOW), run=run, **given)


def tried(app: ASGIApp, url: str, headers: Any = None, **more: Any) -> dict[str, Any]:
    given = {"json": {"url": url} | more, "headers": headers or {}}
    answer = ask(app, "POST", "/api/v1/previews", **given)
    assert answer.status_code == 200, answer.text
    return Preview.model_validate(answer.json()).model_dump()


def test_a_page_shows_what_would_be_indexed_and_what_not(app: ASGIApp, site: Site):
    found = tried(app, f"{site.url}/guide", source="docs")

    assert found["sentence"] == "It is indexed like this."
    assert (found["isFetched"], found["isIndexed"], found["status"]) == (True, True, 200)
    page = found["document"]
    assert page["title"] == "Lamps of <b>"
    assert page["language"] == "en"
    assert page["headings"] == [{"level": 1, "text": "Lamps"}]
    assert TEXT.strip() in page["text"]
    assert page["dropped"]["shown"] == [
        "The menu of everything",
        "All rights reserved by nobody",
    ]
    links = {link["url"]: link["inScope"] for link in page["links"]["shown"]}
    assert links[f"{site.url}/next"] is True
    assert links["https://other.example/"] is False
    assert site.paths() == ["/robots.txt", "/guide"]
    assert {headers["User-Agent"] for _, headers in site.asked} == {"LampBot/1"}


def test_nothing_is_stored_and_a_stored_robots_txt_is_not_asked_again(
    folder: Path, app: ASGIApp, site: Site
):
    desk = Desk(folder / "registry.db")
    with transaction(desk.connection):
        desk.connection.execute(
            "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, ?, 200, ?)",
            (site.url, NOW, b"User-agent: *\nDisallow: /secret"),
        ).fetchall()
    tried(app, f"{site.url}/guide", source="docs")

    assert site.paths() == ["/guide"]
    assert desk.rows("SELECT count(*) FROM record") == [(0,)]
    assert desk.rows("SELECT count(*) FROM host") == [(0,)]
    refused = tried(app, f"{site.url}/secret", source="docs")
    assert "disallowed by robots.txt, line 2" in refused["sentence"]
    assert site.paths() == ["/guide"]
    desk.close()


@pytest.mark.parametrize(
    ("path", "why", "asked"),
    [
        ("/old/x", "left out", []),
        ("/secret", "disallowed by robots.txt, line 2", ["/robots.txt"]),
    ],
)
def test_what_a_source_leaves_out_is_not_requested(
    app: ASGIApp, site: Site, path: str, why: str, asked: list[str]
):
    found = tried(app, f"{site.url}{path}", source="docs")

    assert why in found["sentence"]
    assert (found["isFetched"], found["document"]) == (False, None)
    assert site.paths() == asked


def test_another_host_gets_nothing_of_a_source(app: ASGIApp, site: Site):
    other = site.url.replace("127.0.0.1", "localhost")
    found = tried(app, f"{other}/guide", source="docs")

    assert found["sentence"] == "Not requested: its host is not in the scope of docs."
    assert site.asked == []


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((404, {}, b"gone"), "It answered 404: nothing is indexed."),
        ((200, {"Content-Type": "image/png"}, b"\x89PNG\r\n\x1a\n"), "Nothing is indexed"),
        ((200, {"Content-Type": "text/html", "Content-Encoding": "br"}, b"x"), "compressed"),
        ((200, {"Content-Type": "text/html"}, b"<p>" + b"x" * 2_200_000), "be read: it has 2,2"),
        ((200, {"Content-Type": "text/html"}, b"<p>" + b"x" * 9_000_000), "more than 8,388,608"),
        ((200, {"Content-Type": "text/html", "Content-Length": "99"}, b"<p>x"), "no answer from"),
        ((200, {"Content-Type": "text/html"}, b"<meta name=robots content=noindex>x"), "noindex"),
        pytest.param(
            (200, {"Content-Type": "application/pdf"}, b"%PDF-1.4 broken"),
            "It cannot be read",
            marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_an_answer_that_gives_nothing_gets_a_sentence(
    app: ASGIApp, site: Site, answer: Any, sentence: str
):
    site.pages["/x"] = answer
    found = tried(app, f"{site.url}/x", source="docs")

    assert sentence in found["sentence"]
    assert found["isIndexed"] is False
    assert "  " not in found["sentence"]


def test_a_redirect_is_named_and_not_followed(app: ASGIApp, site: Site):
    site.pages["/x"] = (301, {"Location": "http://169.254.169.254/latest"}, b"")
    found = tried(app, f"{site.url}/x", source="docs")

    assert found["redirect"] == "http://169.254.169.254/latest"
    assert found["sentence"] == "It redirects: try the address to which it leads."


def test_a_slow_answer_is_given_up(app: ASGIApp, site: Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(previews, "SECONDS", 0.3)
    there = threading.Event()
    monkeypatch.setattr(site, "answer", lambda *_: (there.wait(5), (200, {}, b""))[1])

    found = tried(app, f"{site.url}/x", source="docs")
    there.set()

    assert found["sentence"] == "Given up: no whole answer within 0.3 s."


def test_the_login_of_a_source_is_for_its_origins_and_for_those_who_operate(
    folder: Path, site: Site
):
    app = served(folder, host="0.0.0.0")
    operator = {"X-API-Key": made_key(folder, Scope.OPERATE, "closed")}
    reader = {"X-API-Key": made_key(folder, Scope.READ, "closed")}
    stranger = {"X-API-Key": made_key(folder, Scope.OPERATE, "docs")}
    url = f"{site.url}/private/page"

    for headers, status in ((reader, 403), (stranger, 404)):
        body = {"url": url, "source": "closed"}
        refused = ask(app, "POST", "/api/v1/previews", json=body, headers=headers)
        assert refused.status_code == status
    assert site.asked == []
    found = tried(app, url, operator, source="closed")
    assert (found["withLogin"], found["status"]) == (True, 200)
    assert all("dTpw" not in str(value) for value in found.values())
    without = tried(app, url, stranger, source="docs")
    assert (without["withLogin"], without["status"]) == (False, 401)


def test_a_refused_login_is_not_tried_again(
    folder: Path, app: ASGIApp, site: Site, monkeypatch: pytest.MonkeyPatch
):
    """Else some tries would lock the account."""
    monkeypatch.setenv("A_PASSWORD", "wrong")
    admin = {"X-API-Key": made_key(folder, Scope.ADMIN)}
    first = tried(app, f"{site.url}/private/page", admin, source="closed")
    asked = len(site.asked)
    again = tried(app, f"{site.url}/private/page", admin, source="closed")

    assert "login:" in first["sentence"]
    assert "not tried again before" in again["sentence"]
    assert [path for path in site.paths()[asked:] if path != "/robots.txt"] == []


def test_an_address_that_is_none_or_private_is_refused(folder: Path):
    app = application(folder)
    for url, why in (("x", "must be an http"), ("http://127.0.0.1/", "ALLOW_NETWORKS")):
        answer = ask(app, "POST", "/api/v1/previews", json={"url": url})
        error = error_of(answer)
        assert (answer.status_code, error["code"]) == (400, "INVALID_URL")
        assert error["details"]["field"] == "url"
        assert why in error["details"]["reason"]


def test_a_name_that_leads_inside_is_not_connected_to(folder: Path, site: Site):
    """What a name means is looked up and judged when it is connected to."""
    found = tried(application(folder), site.url.replace("127.0.0.1", "localhost"))

    assert found["isFetched"] is False
    assert site.asked == []


def test_a_blocked_host_gets_no_request(folder: Path, app: ASGIApp, site: Site):
    connection = registry_database(folder / "registry.db").open()
    host = site.url.removeprefix("http://")
    with transaction(connection):
        statement = "INSERT INTO host (name, is_blocked, block_reason) VALUES (?, TRUE, 'moving')"
        connection.execute(statement, (host,)).fetchall()
    connection.close()

    found = tried(app, f"{site.url}/x", source="docs")

    assert found["sentence"] == f"Not requested: {host} is blocked: moving."
    assert site.asked == []


def test_a_login_is_not_made_beside_that_of_a_run(folder: Path, app: ASGIApp, site: Site):
    admin = {"X-API-Key": made_key(folder, Scope.ADMIN)}
    with registry_database(folder / "registry.db").take("closed", "now"):
        found = tried(app, f"{site.url}/private/page", admin, source="closed")

    assert "closed is being crawled with its login" in found["sentence"]
    assert site.asked == []


def test_without_a_source_robots_txt_is_asked_for_each_time(
    folder: Path, site: Site, monkeypatch: pytest.MonkeyPatch
):
    """A stored copy may be that of a source that the caller does not read."""
    monkeypatch.setattr(ConnectionGuard, "refusal", lambda *_, **__: None)
    desk = Desk(folder / "registry.db")
    with transaction(desk.connection):
        desk.connection.execute(
            "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, ?, 200, ?)",
            (site.url, NOW, b"User-agent: *\nDisallow: /"),
        ).fetchall()
    desk.close()
    app = served(folder)

    assert tried(app, f"{site.url}/missing.png")["isFetched"] is True
    assert "disallowed by robots.txt" in tried(app, f"{site.url}/secret")["sentence"]
    assert site.paths() == ["/robots.txt", "/missing.png", "/robots.txt"]


def test_more_than_two_pages_at_once_have_to_wait(
    folder: Path, site: Site, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(previews, "_AT_ONCE", 0)
    body = {"url": f"{site.url}/x", "source": "docs"}
    answer = ask(served(folder), "POST", "/api/v1/previews", json=body)

    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    assert site.asked == []


def test_a_preview_that_is_over_makes_room(
    folder: Path, site: Site, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(previews, "_AT_ONCE", 1)
    app = served(folder)
    site.pages["/x"] = (404, {}, b"")

    for _ in range(2):
        assert tried(app, f"{site.url}/x", source="docs")["status"] == 404


def test_headers_of_a_source_are_for_the_origins_of_its_seeds(
    folder: Path, site: Site, other: Site
):
    (folder / "sources.toml").write_text(f"""
[sources.docs]
seeds = ["{site.url}/"]
allowed_domains = ["127.0.0.1"]
headers = {{ X-Team = "docs" }}
delay = 0
""")
    app = served(folder)

    for each in (site, other):
        each.pages["/x"] = (404, {}, b"")
        assert tried(app, f"{each.url}/x", source="docs")["status"] == 404
    assert [each.asked[-1][1].get("X-Team") for each in (site, other)] == ["docs", None]


def test_the_proxy_of_a_source_makes_the_request(
    folder: Path, site: Site, monkeypatch: pytest.MonkeyPatch
):
    host = "docs.invalid"
    site.pages["/x"] = (404, {}, b"")
    (folder / "sources.toml").write_text(
        f'[sources.docs]\nseeds = ["http://{host}/"]\nproxy = "DOCS_PROXY"\ndelay = 0\n'
    )
    without = tried(served(folder), f"http://{host}/x", source="docs")
    assert "DOCS_PROXY is not set" in str(without)
    with ConnectProxy({host: urlsplit(site.url).port or 80}, password="pa-ss-wo-rd") as proxy:
        monkeypatch.setenv("DOCS_PROXY", proxy.url)

        assert tried(served(folder), f"http://{host}/x", source="docs")["status"] == 404

        urls = [f"http://{host}/robots.txt", f"http://{host}/x"]
        assert [one.target for one in proxy.log] == urls


def test_a_robots_txt_that_is_not_there_allows_all(
    app: ASGIApp, site: Site, monkeypatch: pytest.MonkeyPatch
):
    missing = lambda *_: (404, {}, b"User-agent: *\nDisallow: /")  # noqa: E731
    monkeypatch.setattr(site, "answer", missing)

    assert tried(app, f"{site.url}/x", source="docs")["status"] == 404
    assert site.paths() == ["/robots.txt", "/x"]


def test_turns_keep_the_delay_of_a_host():
    now = [100.0]
    turns = HostTurns(lambda: now[0])

    assert [turns.wait("a", 4.0) for _ in range(3)] == [0.0, 4.0, 8.0]
    assert turns.wait("b", 4.0) == 0.0
    with pytest.raises(NotFetchedError, match="its delay is 4 s: try again in 12 s"):
        turns.wait("a", 4.0)
    now[0] += 12
    assert turns.wait("a", 4.0) == 0.0


# The page


def test_the_page_leads_from_a_decision_to_a_preview(app: ASGIApp, site: Site):
    site.pages["/x"] = (200, {"Content-Type": "text/html"}, PAGE.format(
        title="&lt;script&gt;alert(1)&lt;/script&gt;",
        text=f"&lt;b hx-get=/x&gt;\u202e{TEXT}",
    ).encode())  # fmt: skip
    visitor = Visitor(app)
    typed = {"urls": f"{site.url}/x", "source": "docs"}
    posting = [f for f in parsed(visitor.get("/try", params=typed)).forms if f.method == "POST"]
    (form,) = [f for f in posting if f.get("action") == "/try"]
    page = parsed(visitor.post("/try", {n: v or "" for n, v in form.fields.items()}))

    main = page.get_element_by_id("main")
    assert "It is indexed like this" in words(main)
    assert "All rights reserved by nobody" in words(main)
    assert page.xpath("//b | //main//script | //*[@hx-get]") == []
    assert "\u202e" not in main.text_content()
    for link in main.xpath(".//a[starts-with(@href, 'http')]"):
        assert link.get("rel") == "noreferrer noopener nofollow"
    assert main.xpath(".//a[starts-with(@href, 'javascript')]") == []
    outside = [
        e for e in main.xpath(".//h1 | .//dd | .//li") if not e.xpath("ancestor::*[@hx-disable]")
    ]
    assert outside == []


def test_a_reader_is_offered_no_request(folder: Path, site: Site):
    app = served(folder, host="0.0.0.0", pages_limit=10**9)
    visitor = logged_in_visitor(app, folder, Scope.READ)
    page = parsed(visitor.get("/try", params={"urls": f"{site.url}/x"}))

    assert [f.get("action") for f in page.forms if f.method == "POST"] == ["/logout", "/theme"]
    token = form_of(page, "/logout").fields["token"]
    assert visitor.post("/try", {"token": token, "url": f"{site.url}/x"}).status_code == 403
    assert site.asked == []

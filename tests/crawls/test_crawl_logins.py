"""Sources that log in, by engine and lane: sessions, walls, redirects, secrets (ADR 146)."""

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.crew import Crew
from tests.guarded_site import PASSWORD, PROOF, USER, WALLS, GuardedSite, Wall, pages
from tests.servers import nginx
from tests.site_server import Page, Site, html

_SETTINGS: dict[str, object] = {"RETRY_TIMES": 0, "LOG_LEVEL": "DEBUG"}


@pytest.fixture
def guard(crawl: Crawl) -> Iterator[GuardedSite]:
    """A site with 21 pages behind a form."""
    crawl.environment |= {"DOCS_USER": USER, "DOCS_PASSWORD": PASSWORD}
    site = GuardedSite()
    site.pages |= pages()
    with site:
        declare(crawl, site.url(""))
        yield site


def declare(crawl: Crawl, origin: str, auth: str | None = None) -> None:
    form = f"""
kind = "form"
login = "{origin}/login"
fields = {{ user = "DOCS_USER", pass = "DOCS_PASSWORD" }}
logged_in = "{PROOF}"
"""
    crawl.declare(
        f'[sources.docs]\nseeds = ["{origin}/"]\n[sources.docs.auth]\norigins = ["{origin}"]\n'
        f"{form if auth is None else auth}\n"
    )


def words(crawl: Crawl) -> set[str]:
    found = crawl.pages()
    return {found[path]["lastOutcome"] for path in found if path in pages()}


def test_engine_and_lane_log_in_once_a_run(crawl: Crawl, guard: GuardedSite):
    """robots.txt is asked without credentials, and neither waits for the other."""
    guard.pages["/robots.txt"] = Page(
        "User-agent: *\nDisallow: /login\n", content_type="text/plain"
    )
    crawl(source="docs", settings=_SETTINGS)
    assert (words(crawl), guard.attempts) == ({"new"}, 1)
    result = crawl(source="docs", settings=_SETTINGS)
    assert (words(crawl), guard.attempts) == ({"unchanged"}, 2)
    run = crawl.runs()[0]
    assert run["notModified"] >= 20
    assert "Nothing changed" in result.out
    robots = [r for r in guard.log if r.path == "/robots.txt"]
    assert robots
    assert not any("cookie" in request.headers for request in robots)


@pytest.mark.long
@pytest.mark.parametrize("wall", ["404", "302"])
def test_a_session_that_ends_in_lane_and_engine_ages_nothing(
    crawl: Crawl, guard: GuardedSite, wall: str
):
    crawl(source="docs", settings=_SETTINGS)
    guard.wall = wall  # type: ignore[assignment]
    for lasts, status in ((14, 0), (6, 3)):
        guard.lasts = lasts
        guard.sessions.clear()
        result = crawl(source="docs", settings=_SETTINGS, expect=None)
        assert result.status in (status, 3)
        assert words(crawl) <= {"unchanged", "skipped", "orphaned"}
        counts = "SELECT sum(lost_count + gone_count) FROM state WHERE standing = 2"
        assert crawl.rows(counts) == [(0,)]
        assert crawl.runs()[0]["removed"] == 0
    assert "login: ended twice" in result.out
    guard.lasts = 10**9
    crawl(source="docs", settings=_SETTINGS)
    assert words(crawl) == {"unchanged"}


def test_credentials_go_neither_elsewhere_nor_to_http(crawl: Crawl, guard: GuardedSite):
    with Site() as other:
        other.pages["/x"] = html("Elsewhere", text="Public words")
        guard.pages["/p1"] = Page(redirect=other.url("/x"), status=302)
        text = crawl.sources_file.read_text()
        hosts = json.dumps([guard.url("").partition("://")[2], other.url("").partition("://")[2]])
        crawl.declare(
            text.replace("[sources.docs.auth]", f"allowed_domains = {hosts}\n[sources.docs.auth]")
        )
        for _ in range(2):
            crawl(source="docs", settings=_SETTINGS | {"ALLOW_NETWORKS": "127.0.0.0/8"})
        assert other.count("/x") == 2
        assert not any({"cookie", "authorization"} & r.headers.keys() for r in other.log)


def test_nginx_takes_basic(crawl: Crawl, tmp_path: Path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "index.html").write_text(html("Home", "/a.html", "/b.html"))
    for name in "ab":
        (root / f"{name}.html").write_text(html(f"Page {name}", text=f"treasure {name} " * 20))
    (tmp_path / "users").write_text(f"{USER}:{{PLAIN}}{PASSWORD}\n")
    crawl.environment |= {"DOCS_USER": USER, "DOCS_PASSWORD": PASSWORD}
    auth = 'kind = "basic"\nuser = "DOCS_USER"\npassword = "DOCS_PASSWORD"'
    lines = f'auth_basic "docs"; auth_basic_user_file {tmp_path / "users"};'
    with nginx(root, extra=lines) as server:
        declare(crawl, server.url.rstrip("/"), auth)
        crawl(source="docs")
        assert len(crawl.hits("treasure")) == 2
        result = crawl(source="docs")
        assert "Nothing changed" in result.out
        assert {page["lastStatusCode"] for page in crawl.records()} == {304}
        crawl.environment["DOCS_PASSWORD"] = "another"
        result = crawl(source="docs", expect=3)
        assert "login: refused (HTTP 401)" in result.out
        assert len(crawl.hits("treasure")) == 2
        assert crawl.records(status="Gone") == []


class TokenSite(Site):
    """A token endpoint, whose tokens last for two minutes."""

    asked = ""

    def answer(self, method: str, path: str, headers: dict[str, str]) -> Any:
        self.asked = headers.get("authorization", "")
        given = '{"access_token": "tok-77aa", "token_type": "Bearer", "expires_in": 120}'
        self.pages["/token"] = Page(given, content_type="application/json")
        return super().answer("GET", path, headers)


@pytest.mark.long
def test_a_token_of_another_host_logs_in(crawl: Crawl, guard: GuardedSite):
    """By engine and lane; its endpoint gets no token, and the pages no secret."""
    guard.token, guard.wall = "tok-77aa", "404"
    with TokenSite() as tokens:
        origins = json.dumps([guard.url(""), tokens.url("")])
        crawl.declare(
            f'[sources.docs]\nseeds = ["{guard.url("/")}"]\n[sources.docs.auth]\n'
            f'kind = "oauth2_client"\norigins = {origins}\ntoken_url = "{tokens.url("/token")}"\n'
            'client_id = "DOCS_USER"\nclient_secret = "DOCS_PASSWORD"\n'
        )
        refused = crawl(source="docs", settings=_SETTINGS, expect=3)
        assert f"login: no answer from {tokens.url('/token')} (" in refused.out, refused.out
        assert tokens.log == []
        settings = _SETTINGS | {"ALLOW_NETWORKS": "127.0.0.0/8"}
        for found in ("new", "unchanged"):
            crawl(source="docs", settings=settings)
            assert words(crawl) == {found}
        assert [r.path for r in tokens.log] == ["/token", "/token"]
        assert tokens.asked == "Basic Ym90OmdlaGVpbS01ZjJj"
        assert set(guard.given) == {"", "Bearer tok-77aa"}
        assert crawl.runs()[0]["notModified"] >= 20
    sought = (b"tok-77aa", PASSWORD.encode(), b"Ym90OmdlaGVpbS01ZjJj")
    assert [n for n, c in crawl.written() if any(one in c for one in sought)] == []


def test_the_page_of_the_manual_logs_in(crawl: Crawl, guard: GuardedSite):
    """The declaration as it stands there, of a site whose address begins with http://."""
    page = (Path(__file__).parents[2] / "docs" / "howto" / "login.md").read_text("utf-8")
    (declaration,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    origin = guard.url("")
    declaration = declaration.replace("https://docs.example.com", origin)
    crawl.declare(declaration)
    refused = crawl(source="docs", expect=1)
    (advice,) = re.findall(r"origins = \[.*\]", refused.err)
    crawl.declare(f"{declaration}\n{advice}\n")
    result = crawl(source="docs")
    assert "docs: logged in" in result.err
    assert words(crawl) == {"new"}


@pytest.mark.long
@pytest.mark.parametrize("wall", WALLS)
def test_workers_log_in_each_and_try_a_wrong_password_once_together(crew: Crew, wall: Wall):
    """A refusal, a first crawl, a refresh, and a session that ends in the middle of one."""
    site = GuardedSite()
    site.wall = wall
    site.pages |= pages()
    with site:
        crew.crawl.environment |= {"DOCS_USER": USER, "DOCS_PASSWORD": PASSWORD}
        declare(crew.crawl, site.url(""))
        site.password = "another"
        crew.end(*crew.begin(None, 2), statuses=(3,))
        assert (site.attempts, words(crew.crawl) & {"new"}) == (1, set())
        crew.crawl.environment["DOCS_PASSWORD"] = "another"
        crew.end(*crew.begin(None, 2))
        assert words(crew.crawl) == {"new"}
        assert site.logins in (1, 2), "a worker that comes late may have no page left"
        crew.end(*crew.begin(None, 2))
        assert words(crew.crawl) == {"unchanged"}
        site.lasts = 8
        site.sessions.clear()
        crew.end(*crew.begin(None, 2), statuses=(0, 3))
        assert words(crew.crawl) <= {"unchanged", "skipped", "orphaned"}


@pytest.mark.long
def test_a_secret_is_nowhere(crawl: Crawl, guard: GuardedSite):
    """Neither in files, tables and logs, nor in what commands print, nor in a list of processes."""
    seen: list[str] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.2):
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.append(entry.read_bytes().decode("utf-8", "replace"))
                except OSError:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    results = []
    try:
        results.append(crawl(source="docs", settings=_SETTINGS))
        guard.pages["/p3"] = Page("no", status=500)
        results.append(crawl(source="docs", settings=_SETTINGS, expect=None))
        guard.password = "another"
        results.append(crawl(source="docs", settings=_SETTINGS, expect=3))
    finally:
        stop.set()
        watcher.join()
    out = os.fspath(crawl.folder / "exported")
    results += [
        crawl.run(*command.split(), expect=None)
        for command in (
            "config", "status", "runs", "registry", "hosts", "plan", "list",
            f"why {guard.url('/p1')}", f"export --format jsonl --output {out}",
        )
    ]  # fmt: skip
    secrets = [PASSWORD, *(name for name in guard.sessions if len(name) > 1)]
    assert PASSWORD in "".join(guard.posted.decode() for _ in "x"), "it was sent"
    assert not any(PASSWORD in result.out + result.err for result in results)
    assert [name for name, content in crawl.written() if PASSWORD.encode() in content] == []
    sessions = [f"session={name}".encode() for name in secrets[1:]]
    assert [n for n, c in crawl.written() if any(one in c for one in sessions)] == []
    assert not any(PASSWORD in line for line in seen)


def test_an_address_with_a_password_is_refused_and_not_shown(crawl: Crawl, site: Site):
    url = site.url("/").replace("://", f"://bot:{PASSWORD}@")
    result = crawl(url, expect=1)
    assert "[sources.NAME.auth]" in result.err
    assert PASSWORD not in result.out + result.err
    assert site.log == []

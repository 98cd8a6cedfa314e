"""Sites that scripts write behind a login: the browser sees no session (ADR 146, 148)."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.guarded_site import PASSWORD, PROOF, USER, WALLS, GuardedSite, Wall
from tests.site_server import Page, html

pytestmark = pytest.mark.long

SCRIPT = """
const words = ' and so many more words that it is a page of its own, which scripts write'.repeat(3);
fetch('/logout').catch(() => null);
Promise.all(['/api/me.json', '/api' + location.pathname.replace(/[/]$/, '/home') + '.json'].map(
  url => fetch(url).then(answer => answer.json()))).then(([me, page]) => {
    document.title = page.title;
    document.body.innerHTML = '<nav>' + me.menu.map(path => `<a href="${path}">${path}</a>`)
      + `<a href="${me.account}">Account</a></nav><main><h1>` + page.title + '</h1><p>' + page.text
      + words + '</p><p>seen:' + document.cookie + '</p></main>';
  });
"""
SHELL = '<!doctype html><title>Shell</title><div id="app"></div><script src="/app.js"></script>'
PATHS = ("/", "/one", "/two")


class App(GuardedSite):
    """Three pages whose proof only scripts write; each answer to those inside sets a cookie."""

    def _shown(self, place: str, page: Page) -> Page:
        return replace(page, headers={"Set-Cookie": "crumb=leaked; Path=/"})


@pytest.fixture
def app(crawl: Crawl, program: str) -> Iterator[App]:
    crawl.environment |= {"DOCS_USER": USER, "DOCS_PASSWORD": PASSWORD, "RENDER_BROWSER": program}
    with App() as site:
        site.pages |= dict.fromkeys(PATHS, SHELL)
        site.pages["/app.js"] = Page(SCRIPT, content_type="text/javascript")
        site.pages["/api/me.json"] = data(menu=PATHS, account="/account")
        for name in ("home", "one", "two"):
            site.pages[f"/api/{name}.json"] = data(title=f"Title of {name}", text=f"about {name}")
        yield site


def declare(crawl: Crawl, site: App, render: str | None) -> None:
    """Declare the site; ``render``: None: the setting decides."""
    origin, key = site.url(""), f'render = "{render}"\n' if render else ""
    crawl.declare(
        f'[sources.app]\nseeds = ["{origin}/"]\n{key}[sources.app.auth]\n'
        f'kind = "form"\norigins = ["{origin}"]\nlogin = "{origin}/login"\n'
        f'fields = {{ user = "DOCS_USER", pass = "DOCS_PASSWORD" }}\nlogged_in = "{PROOF}"\n'
    )


def data(**what: Any) -> Page:
    return Page(json.dumps(what), content_type="application/json")


def words_of(crawl: Crawl) -> dict[str, str]:
    found = crawl.pages()
    return {path: found[path]["lastOutcome"] for path in PATHS if path in found}


@pytest.mark.parametrize("render", ["always", None])
@pytest.mark.parametrize("wall", WALLS)
def test_pages_of_scripts_behind_a_login_are_read_and_kept(
    crawl: Crawl, app: App, wall: Wall, render: str | None
):
    declare(crawl, app, render)
    crawl.environment["RENDER"] = "auto"
    app.wall = wall
    crawl(source="app")
    assert words_of(crawl) == dict.fromkeys(PATHS, "new")
    assert crawl.hits('"about one"') == ["/one"]
    assert (crawl.hits("leaked"), app.count("/logout"), app.logins) == ([], 0, 1)
    inside = [r for r in app.log if r.path.startswith("/api/")]
    assert {"session=" in r.headers.get("cookie", "") for r in inside} == {True}

    crawl(source="app")
    assert words_of(crawl) == dict.fromkeys(PATHS, "unchanged")

    app.lasts = 6
    app.sessions.clear()
    crawl(source="app", expect=None)
    assert set(words_of(crawl).values()) <= {"unchanged", "skipped", "failed", "orphaned"}
    assert len(crawl.hits("about")) == 3
    counts = "SELECT sum(lost_count + gone_count) FROM state WHERE standing = 2"
    assert crawl.rows(counts) == [(0,)]

    app.lasts = 10**9
    app.pages["/api/one.json"] = data(title="Title of one", text="news of one")
    crawl(source="app")
    assert words_of(crawl) == dict.fromkeys(PATHS, "unchanged") | {"/one": "modified"}
    app.password = "another"
    result = crawl(source="app", expect=3)
    assert "login: " in result.out
    assert len(crawl.hits("one")) == 1


#: Documents with the proof, whose text scripts write.
WITH_PROOF = SHELL.replace("<div", '<a href="/account">My account</a><div')
TEXTS = tuple(f"/t/{number}" for number in range(5))


@pytest.mark.parametrize("wall", WALLS)
def test_samples_are_taken_with_the_session_and_none_of_its_walls(
    crawl: Crawl, app: App, wall: Wall
):
    """A session that ends among the samples makes no wall one of them."""
    declare(crawl, app, "auto")
    app.wall, app.lasts = wall, 6
    app.pages |= dict.fromkeys(PATHS, WITH_PROOF)
    text = " ".join(f"word{n}" for n in range(80))
    for path in TEXTS:
        app.pages[path] = html(f"Text {path}", "/account", text=f"{path} {text}")
    app.pages["/api/me.json"] = data(menu=[*PATHS, *TEXTS], account="/account")
    crawl(source="app", expect=None)
    assert (crawl.hits("teaser"), crawl.hits('"Sign in"')) == ([], [])
    assert set(crawl.hits('"my account"')).isdisjoint(PATHS), "a shell"
    app.lasts = 10**9
    crawl(source="app")
    assert set(crawl.pages()) == {*PATHS, *TEXTS, "/account"}  # which is not there
    assert (crawl.hits('"about one"'), crawl.hits('"t 3"')) == (["/one"], ["/t/3"])
    assert (crawl.hits("leaked"), app.count("/logout")) == ([], 0)
    done = crawl(source="app")
    assert set(words_of(crawl).values()) == {"unchanged"}
    assert "0 renderings" in str(done)


def test_without_a_browser_a_proof_that_scripts_write_is_none(crawl: Crawl, app: App):
    """Nothing is lost, and the login is tried once in an hour."""
    declare(crawl, app, "auto")
    crawl(source="app")
    crawl.environment["RENDER_BROWSER"] = "/no/such/browser"
    for _ in range(2):
        done = crawl(source="app", expect=3)
        assert "login: no proof on" in str(done)
    assert "render: no browser" in str(done)
    assert app.attempts == 2
    assert len(crawl.hits("about")) == 3

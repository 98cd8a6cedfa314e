"""Sites that scripts write: a crawl with a browser finds their pages, and keeps them."""

import json
from dataclasses import replace

import pytest

from tests.connect_proxy import ConnectProxy
from tests.crawls.commands import Crawl
from tests.site_server import Page, Site

pytestmark = pytest.mark.long(but=2)

SCRIPT = """
const words = ' and so many more words that it is a page of its own, which scripts write'.repeat(3);
Promise.all(['/api/menu.json', '/api' + location.pathname.replace(/[/]$/, '/home') + '.json'].map(
  url => fetch(url).then(answer => answer.json()))).then(([menu, page]) => {
    document.title = page.title;
    document.body.innerHTML = '<nav>' + menu.map(path => `<a href="${path}">${path}</a>`).join(' ')
      + '</nav><main><h1>' + page.title + '</h1><p>' + page.text + words + '</p></main>';
  });
"""
SHELL = '<!doctype html><title>Shell</title><div id="app"></div><script src="/app.js"></script>'
PATHS = ("/", "/one", "/two")


def data(title: str, text: str) -> Page:
    return Page(json.dumps({"title": title, "text": text}), content_type="application/json")


def publish(site: Site) -> None:
    """Publish three pages whose document is one shell."""
    site.pages |= dict.fromkeys(PATHS, SHELL)
    site.pages["/app.js"] = Page(SCRIPT, content_type="text/javascript")
    site.pages["/api/menu.json"] = Page(json.dumps(PATHS), content_type="application/json")
    for name in ("home", "one", "two"):
        site.pages[f"/api/{name}.json"] = data(f"Title of {name}", f"first text of {name}")


@pytest.fixture
def rendered(site: Site, crawl: Crawl, program: str) -> Crawl:
    publish(site)
    crawl.declare(f'[sources.app]\nseeds = ["{site.url("/")}"]\nrender = "always"\n')
    crawl.environment["RENDER_BROWSER"] = program
    return crawl


def words_of(crawl: Crawl) -> dict[str, str]:
    return {path: page["lastOutcome"] for path, page in crawl.pages().items()}


def test_pages_of_scripts_are_crawled_and_refreshed(site: Site, rendered: Crawl):
    rendered(source="app")
    assert words_of(rendered) == dict.fromkeys(PATHS, "new")
    assert rendered.hits('"first text of one"') == ["/one"]
    assert site.count("/app.js") == site.count("/api/menu.json") == 1  # for all pages
    assert {record.headers.get("user-agent", "")[:10] for record in site.log} == {"smartcrawl"}
    site.log.clear()
    told = str(rendered(source="app"))
    assert words_of(rendered) == dict.fromkeys(PATHS, "unchanged")
    assert "3 requests, 3 of them conditional, 3 answered 304" in told
    assert "0 renderings; 5 requests more, for data of rendered pages" in told
    assert "the fast lane for known pages is off" not in told
    assert {record.status for record in site.log} <= {304, 404}
    [asked] = [record.headers for record in site.log if record.path == "/api/one.json"]
    assert asked["accept"] == "*/*"
    site.pages["/api/one.json"] = data("Title of one", "second text of one")
    rendered(source="app")
    assert words_of(rendered) == dict.fromkeys(PATHS, "unchanged") | {"/one": "modified"}
    assert rendered.hits('"second text of one"') == ["/one"]


def test_data_without_validators_is_compared(site: Site, rendered: Crawl):
    for name in ("home", "one", "two"):
        plain = site.pages[f"/api/{name}.json"]
        assert isinstance(plain, Page)
        site.pages[f"/api/{name}.json"] = replace(plain, etag=None, gzip=True)
    rendered(source="app")
    rendered.environment["RENDER_BROWSER"] = "/no/such/browser"
    told = str(rendered(source="app"))
    assert "3 requests, 3 of them conditional, 3 answered 304" in told
    assert "0 renderings; 5 requests more, for data of rendered pages" in told
    assert words_of(rendered) == dict.fromkeys(PATHS, "unchanged")
    del site.pages["/api/one.json"]
    site.pages["/api/two.json"] = Page("no", status=500)
    assert "data: 1 request to 127.0.0.1" in str(rendered(source="app", expect=3))
    found = {
        path: (page["lastOutcome"], page["httpStatusCode"])
        for path, page in rendered.pages().items()
    }
    assert found == {"/": ("unchanged", 200), "/one": ("lost", 404), "/two": ("failed", 1219)}


def test_without_a_browser_nothing_is_lost(site: Site, rendered: Crawl):
    rendered(source="app")
    rendered.environment["RENDER_BROWSER"] = "/no/such/browser"
    done = rendered(source="app")
    assert "0 renderings; 5 requests more, for data of rendered pages" in str(done)
    assert words_of(rendered) == dict.fromkeys(PATHS, "unchanged")
    site.pages["/api/one.json"] = data("Title of one", "second text of one")
    done = rendered(source="app", expect=3)
    assert "render: no browser" in str(done)
    assert "RENDER_BROWSER=/no/such/browser names no program" in str(done)
    assert rendered.hits('"first text of one"') == ["/one"]
    assert words_of(rendered) == dict.fromkeys(PATHS, "unchanged") | {"/one": "failed"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Page("no", status=500), "HTTP 500"),
        (None, "data: robots.txt of 127.0.0.1"),
    ],
    ids=["error", "robots"],
)
def test_a_shell_is_not_stored_as_the_page(
    site: Site, rendered: Crawl, answer: Page | None, reason: str
):
    if answer is not None:
        site.pages["/api/menu.json"] = answer
    else:
        site.pages["/robots.txt"] = Page(
            "User-agent: *\nDisallow: /api/", content_type="text/plain"
        )
    done = rendered(source="app", expect=3)
    assert reason in str(done)
    assert words_of(rendered) == {"/": "failed"}


def test_a_page_that_does_not_settle_keeps_what_is_stored(site: Site, rendered: Crawl):
    rendered(source="app")
    site.pages["/two"] = "<!doctype html><title>T</title><script>for (;;);</script>"
    source = "render_seconds = 1\n"
    rendered.declare(f'[sources.app]\nseeds = ["{site.url("/")}"]\nrender = "always"\n{source}')
    done = rendered(source="app", expect=3)
    found = rendered.pages()["/two"]
    assert (found["lastOutcome"], found["httpStatusCode"]) == ("failed", 1218), done
    assert rendered.hits('"first text of two"') == ["/two"]
    assert words_of(rendered)["/one"] == "unchanged"


ELSEWHERE = SCRIPT.replace("'/api/menu.json'", "'http://10.0.0.1/menu.json'")


def test_an_api_on_a_private_host_is_not_asked(site: Site, rendered: Crawl):
    """Not even where the source names it: the guard of addresses holds for each request."""
    keys = f'seeds = ["{site.url("/")}"]\nrender = "always"\ndata_hosts = ["10.0.0.1"]\n'
    rendered.declare(f"[sources.app]\n{keys}")
    site.pages["/app.js"] = Page(ELSEWHERE, content_type="text/javascript")
    done = rendered(source="app", expect=3, settings={"ALLOW_NETWORKS": "127.0.0.0/8"})
    assert "data: 1 request to 10.0.0.1: " in str(done)
    assert words_of(rendered) == {"/": "failed"}


def test_a_slow_api_keeps_what_is_stored(site: Site, rendered: Crawl):
    rendered(source="app")
    slow = data("Title of one", "second text of one")
    site.pages["/api/one.json"] = replace(slow, delay=30)
    done = rendered(source="app", expect=3, settings={"DOWNLOAD_TIMEOUT": "1"})
    assert "data: 1 request to 127.0.0.1" in str(done)
    assert words_of(rendered) == dict.fromkeys(PATHS, "unchanged") | {"/one": "failed"}
    assert rendered.hits('"first text of one"') == ["/one"]


def test_a_post_that_is_declared_as_reading_is_sent(site: Site, rendered: Crawl):
    """Undeclared, its page shows nothing, and is not stored."""
    post = "fetch('/graphql', {method: 'POST', body: location.pathname})"
    shown = f"{post}.then(a => a.text()).then(t => document.body.innerHTML = '<p>' + t + '</p>')"
    site.pages |= {"/": f"<!doctype html><title>T</title><script>{shown}</script>"}
    site.pages["/graphql"] = Page(" ".join(f"word{n}" for n in range(40)), etag=None)
    done = rendered(source="app", expect=3)
    assert "only GET is sent" in str(done)
    assert (words_of(rendered), site.count("/graphql")) == ({"/": "failed"}, 0)
    keys = f'seeds = ["{site.url("/")}"]\nrender = "always"\ndata_posts = ["/graphql$"]\n'
    rendered.declare(f"[sources.app]\n{keys}")
    rendered(source="app")
    assert (rendered.hits("word7"), site.posted) == (["/"], b"/")
    done = rendered(source="app")
    assert words_of(rendered) == {"/": "unchanged"}
    assert "0 renderings; 1 request more" in str(done)
    site.pages["/graphql"] = Page(" ".join(f"other{n}" for n in range(40)), etag=None)
    rendered(source="app")
    assert (words_of(rendered), rendered.hits("other7")) == ({"/": "modified"}, ["/"])


def test_the_requests_of_a_browser_go_by_the_proxy_of_the_source(site: Site, rendered: Crawl):
    host, port = "app.invalid", int(site.url("").rpartition(":")[2])
    with ConnectProxy({host: port}) as proxy:
        rendered.declare(
            f'[sources.app]\nseeds = ["http://{host}/"]\nrender = "always"\nproxy = "{proxy.url}"\n'
        )

        rendered(source="app")

        assert rendered.hits('"first text of one"') == ["/one"]
        assert {f"http://{host}/app.js", f"http://{host}/api/one.json"} <= {
            one.target for one in proxy.log
        }
        assert len(proxy.log) == len(site.log)

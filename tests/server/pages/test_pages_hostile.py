"""Nothing that a site says becomes a part of a page: crawled, shown and looked at whole."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from lxml import html

from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.keys import Scope, make_api_key
from tests.crawls.commands import Crawl
from tests.server.api_client import application
from tests.server.pages.browsing import Visitor
from tests.server.pages.chrome import Tab
from tests.server.pages.hostile_site import MARKUP, WORD, fill, fill_registry, injected, seen_pages
from tests.server.test_serve import serving
from tests.site_server import Site

pytestmark = pytest.mark.sqlite
STARTS = (
    "/",
    f"/?q={WORD}",
    f"/?q={WORD}&source={WORD}",
    f"/crawl?url={WORD}%22%3E%3Cb%3E",
    f"/try?urls=https://{WORD}.example/%22%3E%3Cb%3E%0Ajavascript:{WORD}&source={WORD}%22%3E%3Cb%3E",
    f"/try?urls={WORD}%22%3E%3Cb%3E",
    f"/jobs/new?name={WORD}%22%3E%3Cb%3E&seed_urls=%3C/textarea%3E%3Cb%3E&cron=%3Cb%3E",
)


@pytest.fixture
def crawled(site: Site, crawl: Crawl) -> Crawl:
    """A crawl of the site, and one more in which pages have changed."""
    fill(site)
    crawl(site.url("/"), expect=None)
    site.pages["/a"] = "gone"
    crawl(site.url("/"), expect=None)
    return crawl


def seen_words(visitor: Visitor) -> int:
    """Look at all pages; return how often a word of the site stands in them."""
    shown = 0
    for path, page in seen_pages(visitor, *STARTS):
        assert injected(page) == [], path
        shown += page.text_content().count(WORD)
    return shown


def test_no_text_of_a_registry_becomes_a_part_of_a_page(tmp_path: Path):
    fill_registry(tmp_path / "registry.db")
    app = application(tmp_path, run={"registry": tmp_path / "registry.db"}, pages_limit=10**9)

    assert seen_words(Visitor(app)) > 20


@pytest.mark.long
def test_no_text_of_a_site_becomes_a_part_of_a_page(crawled: Crawl):
    """ATT-71."""
    app = application(crawled.data_dir, run={"registry": crawled.registry}, pages_limit=10**9)

    assert seen_words(Visitor(app)) > 20


def test_what_becomes_a_part_of_a_page_is_noticed():
    clean = f"<html><body><main hx-disable><p>{WORD}</p></main></body></html>"
    assert injected(html.fromstring(clean)) == []
    for markup in (MARKUP, f"<p>{WORD}</p>", '<a href="javascript:x">a</a>', "<p onclick=x>a</p>"):
        assert injected(html.fromstring(f"<html><body>{markup}</body></html>")) != [], markup


@pytest.fixture
def elsewhere() -> Iterator[ThreadingHTTPServer]:
    """A server of another origin, whose page has a search box."""

    class Handler(BaseHTTPRequestHandler):
        page = b""

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(type(self).page if self.path == "/" else b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def key(crawled: Crawl) -> str:
    connection = registry_database(crawled.registry).open()
    with transaction(connection):
        names = [name for (name,) in connection.execute("SELECT name FROM source")]
        text, _ = make_api_key(connection, "box", Scope.SEARCH, 0, sources=names)
    connection.close()
    return text


def opened(tab: Tab, url: str) -> None:
    """Go to a page, and wait for what its scripts begin."""
    tab.go(url)
    tab.settle()


@pytest.mark.long
def test_no_script_of_a_site_runs_with_and_without_a_policy(
    crawled: Crawl, key: str, elsewhere: ThreadingHTTPServer, tab: Tab
):
    origin = f"http://127.0.0.1:{elsewhere.server_address[1]}"
    app = application(crawled.data_dir, run={"registry": crawled.registry}, pages_limit=10**9)
    paths = [path for path, _ in seen_pages(Visitor(app), *STARTS)]
    given = {"API_ORIGINS": origin, "API_PAGES_PER_MINUTE": "100000"}
    with serving(Path(crawled.data_dir), **given) as server:
        for has_policy in (True, False):
            if not has_policy:
                tab.ignore_policies()
            for path in paths:
                opened(tab, f"{server.url}{path}")
                assert tab.ask("window.hit") is None, path
        assert [one for one in tab.complaints if "status of 40" not in one] == []
        assert {url for url in tab.requested if not url.startswith(server.url)} == set()
        assert [url for url in tab.requested if "evil" in url] == []

        script = f'<script src="{server.url}/search.js" data-key="{key}"></script>'
        elsewhere.RequestHandlerClass.page = f"<div data-smartcrawl></div>{script}".encode()
        tab.go(f"{origin}/")
        tab.ask("document.querySelector('.smartcrawl-field').focus()")
        tab.type(WORD)
        tab.wait("document.querySelectorAll('.smartcrawl-hit').length > 0")
        tab.settle()
        assert WORD in tab.ask("document.querySelector('.smartcrawl-hits').innerText")
        tags = "[...document.querySelectorAll('.smartcrawl-box *')].map(one => one.tagName)"
        assert set(tab.ask(tags)) <= {"FORM", "INPUT", "P", "OL", "LI", "A", "SPAN", "MARK"}
        assert tab.ask("window.hit") is None
        assert [url for url in tab.requested if "evil" in url] == []

"""Orders over a real server, with the crawls that it starts, in both databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from smartcrawl.model.urls import url_hash
from smartcrawl.registry.database.databases import registry_database
from tests.crawls.commands import Crawl, wait_until
from tests.server.items.conftest import ADD, REBUILD, REINDEX, item_id
from tests.server.test_serve import serving
from tests.site_server import Page, Site, html

both = pytest.mark.parametrize(
    "stack", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True
)
#: The ordered runs that wait or are under way.
DUE = """
SELECT source FROM (SELECT source FROM due_run UNION ALL SELECT id FROM process) AS ordered
"""
#: Nobody gave the addresses of the test's site by hand.
OPEN = {"ALLOW_NETWORKS": "127.0.0.0/8"}


class Api:
    """A running server over the registry of a crawl."""

    def __init__(self, url: str, crawl: Crawl) -> None:
        self.url = url
        self.crawl = crawl

    def order(self, path: str, **body: object) -> dict[str, Any]:
        answer = httpx.post(self.url + path, json=body)
        assert answer.status_code == 202, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def status_of(self, url: str) -> int | None:
        """The status of the answer to a document's last request."""
        answer = httpx.get(f"{self.url}/api/v1/documents/{url_hash(url)}")
        return answer.json()["http_status"] if answer.status_code == 200 else None

    def settle(self) -> None:
        """Wait until no ordered run waits or runs."""
        wait_until(lambda: not self.crawl.rows(DUE), "the ordered runs are over")
        self.crawl._told.clear()


@contextmanager
def serve(crawl: Crawl, **settings: str) -> Iterator[Api]:
    given = crawl.environment | {"SOURCES_FILE": str(crawl.sources_file)} | OPEN
    given |= {"API_DATA_PER_MINUTE": "1000000"} | settings
    with serving(crawl.data_dir, **given) as server:
        yield Api(server.url, crawl)


@pytest.fixture
def three(site: Site) -> Site:
    """Three pages that lead to each other, and all else that could lead a crawler on."""
    paths = ("/", "/b", "/c")
    feed = '<link rel="alternate" type="application/rss+xml" href="/feed.xml">'
    site.pages["/robots.txt"] = Page(
        f"User-agent: *\nDisallow: /no\nSitemap: {site.url('/sitemap.xml')}\n",
        content_type="text/plain",
    )
    site.pages["/sitemap.xml"] = Page(
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
        + "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in paths)
        + "</urlset>",
        content_type="application/xml",
    )
    for path in paths:
        site.pages[path] = html(
            f"Page {path}", *paths, "/no", text=f"lantern {path} " * 9, head=feed
        )
    site.pages["/no"] = html("No", text="hidden")
    return site


def asked(site: Site) -> list[str]:
    """The pages that were asked, without robots.txt; forgets them."""
    found = [r.path for r in site.log if r.path != "/robots.txt"]
    site.log.clear()
    return found


@pytest.mark.long
@both
@pytest.mark.covers("E-13", "R0-57", "R0-58", "R0-67", "R0-71", "R0-72")
def test_an_added_page_is_crawled_and_none_of_its_host(three: Site, crawl: Crawl):
    url = three.url("/b")
    with serve(crawl) as api:
        assert api.order(ADD, url=url) == {
            "id": item_id(url), "status": "Pending", "reindexGeneration": 0,
        }  # fmt: skip
        wait_until(lambda: api.status_of(url) == 200, "the page is crawled")
        api.settle()
        assert asked(three) == ["/b"]
        hits = httpx.get(f"{api.url}/api/Search?q=lantern&collection=documents").json()["hits"]
        assert [(hit["url"], hit["sources"]) for hit in hits] == [(url, ["documents"])]

        api.order(ADD, url=three.url("/no"))  # robots.txt is obeyed for the page itself
        wait_until(lambda: len(crawl.rows("SELECT no FROM pin")) == 2, "it is registered")
        api.settle()
        assert asked(three) == []

        three.pages["/b"] = html("Page /b", "/", "/c", text="a lamp " * 9)
        api.order(ADD, url=url)  # due at once
        wait_until(lambda: "/b" in [r.path for r in three.log], "the page is asked again")
        api.settle()
        assert asked(three) == ["/b"]
    assert [(r["source"], r["status"]) for r in crawl.records(status="Indexed")] == [
        ("documents", "Indexed")
    ]
    assert [hit["url"] for hit in crawl.search("lamp")] == [url]


@pytest.mark.long
@both
@pytest.mark.covers("E-13")
def test_the_commands_know_the_source_of_single_pages(three: Site, crawl: Crawl):
    url = three.url("/b")
    with serve(crawl) as api:
        api.order(ADD, url=url)
        wait_until(lambda: api.status_of(url) == 200, "the page is crawled")
        api.settle()
    crawl.environment |= OPEN
    three.log.clear()

    status, why = crawl.run("status").out, crawl.run("why", url).out
    other = crawl.run("why", three.url("/c"), expect=None)
    crawl(source="documents")
    assert asked(three) == ["/b"]
    crawl.run("due", "--source", "documents")
    crawl.run("due")
    assert asked(three) == []
    crawl.run("reindex", "--url", url)
    crawl.run("due")
    assert asked(three) == ["/b"]

    assert "documents" in status
    assert "pinned" in why
    assert "documents" not in other.out + other.err
    crawl.run("forget", url)
    crawl(source="documents", expect=3)
    assert asked(three) == []
    assert crawl.search("lantern") == []


@pytest.mark.long
@both
@pytest.mark.covers("E-13", "R0-50")
def test_a_single_page_that_is_gone_is_removed_with_evidence(three: Site, crawl: Crawl):
    """Nothing links to it, which is no reason; its own answer is one."""
    urls = [three.url("/b"), three.url("/c")]
    with serve(crawl) as api:
        for url in urls:
            api.order(ADD, url=url)
        wait_until(lambda: [api.status_of(url) for url in urls] == [200, 200], "both are crawled")
        api.settle()
    crawl.environment |= OPEN
    del three.pages["/c"]
    for _ in range(8):
        crawl(source="documents", settings={"LOST_GRACE": "", "LOST_THRESHOLD": "2"}, expect=None)

    left = {r["url"]: r["status"] for r in crawl.records(source="documents")}
    assert left[urls[0]] == "Indexed"
    assert left[urls[1]] == "Gone"
    assert "/c" in crawl.run("why", urls[1]).out
    assert crawl.rows("SELECT count(*) FROM evidence") == [(1,)]


@pytest.mark.long
@pytest.mark.covers("R0-16", "R0-57", "R0-100")
def test_an_added_page_is_found_under_the_spelling_of_its_order(site: Site, crawl: Crawl):
    site.pages |= {"/": html("Home", "/about/"), "/about": html("About", text="who we are")}
    crawl.declare(f"[sources.one]\nseeds = ['{site.url('/')}']\n")
    crawl(source="one")
    assert crawl.outcomes()["/about/"] == "failed"

    with serve(crawl) as api:
        api.order(ADD, url=site.url("/about"), force=True)
        wait_until(lambda: site.count("/about"), "it is asked")
        api.settle()

    assert crawl.outcomes()["/about"] == "new"
    assert crawl.hits('"who we are"') == ["/about"]


@pytest.mark.long
@both
@pytest.mark.covers("E-14", "E-15", "R0-52", "R0-56", "R0-68")
def test_forced_items_are_fetched_without_validators(three: Site, crawl: Crawl):
    three.pages["/robots.txt"] = Page("", content_type="text/plain")
    del three.pages["/no"]
    for path in ("/", "/b", "/c"):
        three.pages[path] = html(f"Page {path}", "/", "/b", "/c", text=f"lantern {path} " * 9)
    crawl.declare(f"[sources.one]\nseeds = ['{three.url('/')}']\n")
    crawl(source="one")
    three.log.clear()

    def conditional() -> dict[str, bool]:
        found = {r.path: "if-none-match" in r.headers for r in three.log if r.path != "/robots.txt"}
        three.log.clear()
        return found

    with serve(crawl) as api:
        api.order(REINDEX, source=three.url("/b"), force=True)
        wait_until(lambda: three.log, "something is asked")
        api.settle()
        assert conditional() == {"/b": False}

        assert api.order(REBUILD) == {"queued": 3}
        wait_until(lambda: len({r.path for r in three.log} - {"/robots.txt"}) == 3, "all are asked")
        api.settle()
        assert conditional() == {"/": True, "/b": True, "/c": True}

        assert api.order(REBUILD, force=True) == {"queued": 3}
        wait_until(lambda: len({r.path for r in three.log} - {"/robots.txt"}) == 3, "all are asked")
        api.settle()
        assert conditional() == {"/": False, "/b": False, "/c": False}
    generations = crawl.rows("SELECT generation, processed, requested FROM item ORDER BY no")
    assert [(int(g), int(p), bool(r)) for g, p, r in generations] == [
        (1, 1, False), (2, 2, False), (1, 1, False),
    ]  # fmt: skip


@pytest.mark.long
@both
@pytest.mark.covers("E-13")
def test_an_order_during_a_run_of_its_source_waits_for_it(three: Site, crawl: Crawl, stack: str):
    crawl.declare(f"[sources.one]\nseeds = ['{three.url('/')}']\n")
    three.pages["/new"] = html("New", text="a new lantern")
    place = crawl.registry if stack == "sqlite" else crawl.environment["REGISTRY_URL"]
    with serve(crawl) as api:
        lease = registry_database(place).take("one", "today")
        try:
            for path in ("/new", "/b", "/new"):
                api.order(ADD, url=three.url(path))
            api.order(ADD, url=f"{three.url('/').replace('127.0.0.1', '127.0.0.2')}")
            wait_until(
                lambda: not crawl.rows(f"{DUE} WHERE source = 'documents'"),
                "another source is crawled meanwhile",
            )
            assert crawl.rows("SELECT source FROM due_run") == [("one",)]
            assert crawl.rows("SELECT id FROM process") == []
            assert len(crawl.rows("SELECT id FROM ordered_address WHERE source = 'one'")) == 2
        finally:
            lease.release()
        wait_until(lambda: api.status_of(three.url("/new")) == 200, "the page is crawled")
        api.settle()
    assert crawl.rows("SELECT count(*) FROM run r JOIN source o ON o.no = r.source"
                      " WHERE o.name = 'one'") == [(1,)]  # fmt: skip


@pytest.mark.long
@pytest.mark.covers("E-13")
def test_a_name_of_a_private_address_is_refused_when_it_resolves(three: Site, crawl: Crawl):
    url = three.url("/b").replace("127.0.0.1", "localhost")
    with serve(crawl, ALLOW_NETWORKS="") as api:
        api.order(ADD, url=url)
        wait_until(lambda: crawl.rows("SELECT no FROM pin"), "it is registered")
        api.settle()
    assert three.log == []
    (record,) = crawl.records(source="documents")
    assert "not allowed" in record["errorMessage"]

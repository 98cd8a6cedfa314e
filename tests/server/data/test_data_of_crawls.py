"""The routes of data after, and during, real crawls, in both databases."""

import time
from collections.abc import Iterator
from hashlib import sha256
from threading import Thread

import httpx
import pytest

from smartcrawl.model.urls import url_hash
from smartcrawl.reports.status import status_report
from tests.crawls.commands import Crawl
from tests.registry.build import with_iso_times
from tests.server.data.library import Library
from tests.server.test_serve import serving
from tests.site_server import Page, Site, html

PAGES = 60
both = pytest.mark.parametrize(
    "stack", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True
)


@pytest.fixture
def crawled(site: Site, crawl: Crawl) -> Site:
    """A site of some pages that was crawled once."""
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(PAGES)), "/missing", "/old")
    for number in range(PAGES):
        site.pages[f"/{number}"] = html(f"Page {number}", text=f"Text of page {number}.")
    site.pages["/old"] = Page(redirect="/0")
    crawl(site.url("/"))
    return site


@pytest.fixture
def library(crawl: Crawl, stack: str) -> Iterator[Library]:
    """The API over the registry of the crawl."""
    place = crawl.registry if stack == "sqlite" else crawl.environment["REGISTRY_URL"]
    library = Library(place, crawl.folder)
    yield library
    library.close()


@both
@pytest.mark.covers("E-10", "R2-37")
def test_a_crawled_page_is_found_by_the_hash_of_its_address(crawled: Site, library: Library):
    url = crawled.url("/7")
    found = library.read(f"/api/v1/documents/{url_hash(url)}")
    view = with_iso_times(
        library.execute(
            "SELECT url_hash, http_status, content_type, content_length, etag, content_hash,"
            " storage_path, crawled_at FROM crawled_documents WHERE url = ?",
            (url,),
        )
    )
    assert view[0][5] == sha256(html("Page 7", text="Text of page 7.").encode()).hexdigest()

    assert view == [
        (
            found["url_hash"],
            found["http_status"],
            found["content_type"],
            found["content_length"],
            found["headers"]["etag"],
            found["content_hash"].removeprefix("sha256:"),
            found["storage_path"],
            found["crawled_at"],
        )
    ]
    assert found["http_status"] == 200
    alias = library.read(f"/api/v1/documents/{url_hash(crawled.url('/old'))}")
    assert alias["http_status"] == 301
    missing = library.get(f"/api/v1/documents/{url_hash(crawled.url('/missing'))}")
    assert missing.status_code == 404


@both
@pytest.mark.covers("E-11", "R2-38")
def test_lists_have_what_was_crawled(crawled: Site, library: Library):
    host = crawled.url("/").split("/")[2]
    found = library.read(f"/api/v1/documents?domain={host}&limit=1000")
    view = library.execute("SELECT url FROM crawled_documents")

    assert sorted(row["url"] for row in found["documents"]) == sorted(url for (url,) in view)
    assert found["pagination"]["total"] == len(view) == PAGES + 2
    times = [row["crawled_at"] for row in found["documents"]]
    assert times == sorted(times, reverse=True)


@both
@pytest.mark.covers("E-11", "R2-39")
def test_paging_while_a_crawl_writes_repeats_nothing_and_skips_only_its_pages(
    crawled: Site, crawl: Crawl, library: Library, stack: str
):
    """A second crawl visits every page while a client reads the list, over a real server."""
    before = {row["url"] for row in library.read("/api/v1/documents?limit=1000")["documents"]}
    settings = {} if stack == "sqlite" else {"REGISTRY_URL": crawl.environment["REGISTRY_URL"]}
    crawling = Thread(target=crawl, args=(crawled.url("/"),))
    former = library.execute("SELECT max(no) FROM run")[0][0]  # seconds do not part the two crawls
    found: list[str] = []
    with serving(crawl.data_dir, API_DATA_PER_MINUTE="100000", **settings) as server:
        url, cursor = f"{server.url}/api/v1/documents?limit=2", ""
        crawling.start()
        while cursor is not None:
            page = httpx.get(url + cursor).json()
            found += [row["url"] for row in page["documents"]]
            following = page["pagination"]["next_cursor"]
            cursor = None if following is None else f"&cursor={following}"
        crawling.join()
    visited = library.execute("SELECT count(*) FROM state WHERE visited_run > ?", (former,))

    assert len(found) == len(set(found))
    missing = before - set(found)
    again = library.execute(
        "SELECT url FROM record JOIN state USING (no) WHERE visited_run > ?", (former,)
    )
    assert missing <= {url for (url,) in again}
    assert visited[0][0] >= PAGES


@both
@pytest.mark.covers("E-09", "R2-36", "E-17", "R0-78")
def test_statistics_agree_with_the_status_of_the_sources(
    crawled: Site, crawl: Crawl, library: Library
):
    """A page changed, one is gone, and one is linked no more."""
    crawled.pages["/1"] = html("Page 1", text="Another text.")
    crawled.pages["/"] = html("Home", *(f"/{n}" for n in range(2, PAGES)), "/1", "/missing")
    del crawled.pages["/2"]
    crawl(crawled.url("/"))
    library.now = time.time()
    counts = status_report(library.connection, int(library.now))[-1].counts
    status, frontier = library.read("/api/SearchStatus"), library.read("/api/v1/frontier/stats")
    later = library.now = library.now + 40 * 86_400
    due = status_report(library.connection, int(later))[-1].counts.due

    assert sum(status["items"].values()) == counts.pages
    assert (status["indexed"], status["items"]["Error"]) == (counts.indexed, counts.error)
    assert (status["lost"], status["orphans"]) == (counts.lost, counts.orphans)
    assert status["lost"] == 1
    assert status["orphans"] == 1
    assert 0 < status["changeRate"] < 0.1
    assert frontier["ready_to_crawl"] == counts.due
    assert frontier["total_urls"] == due == frontier["ready_to_crawl"] + frontier["delayed"]
    assert list(frontier["by_domain"].values()) == [due]
    assert library.read("/api/v1/frontier/stats")["ready_to_crawl"] == due

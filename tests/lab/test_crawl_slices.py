"""Due crawls see a source in slices, and are as careful together as one full crawl."""

import pytest

from tests.crawls.commands import Crawl, Result
from tests.lab.test_crawl_due import asked, due, let
from tests.site_server import Page, Site, html

EARLIER = "lost_since = lost_since - 300000, gone_since = gone_since - 300000"
PAGES = 30


def slices() -> list[list[str]]:
    names = [f"/p{number:02}" for number in range(PAGES)]
    return [names[first : first + 6] for first in range(0, PAGES, 6)]


def sitemap(*entries: tuple[str, str]) -> Page:
    urls = "".join(f"<url><loc>{loc}</loc><lastmod>{at}</lastmod></url>" for loc, at in entries)
    body = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
    return Page(body, content_type="application/xml")


def held(crawl: Crawl) -> int:
    return int(crawl.rows("SELECT count(*) FROM state WHERE standing = 2")[0][0])


def at_once(crawl: Crawl, *args: str) -> Result:
    """A due crawl that tries nothing twice."""
    return due(crawl, "-s", "RETRY_TIMES=0", *args, expect=None)


@pytest.fixture
def wide(site: Site, crawl: Crawl) -> Site:
    """Thirty pages behind one, crawled once."""
    site.pages["/login"] = html("Login", text="please sign in")
    site.pages["/"] = html("Home", "/login", *(path for part in slices() for path in part))
    for part in slices():
        site.pages |= {path: html(path, text=f"the text of {path}") for path in part}
    crawl(site.url("/"))
    site.clear()
    return site


@pytest.mark.covers("M-05", "U-16", "R4-13")
def test_a_deployment_that_went_wrong_is_withheld_slice_by_slice(wide: Site, crawl: Crawl):
    for part in slices():
        wide.pages |= {path: Page("not found", status=404) for path in part}
    for part in slices():
        for _ in range(3):  # gone often enough
            let(crawl, f"next_visit = 0, {EARLIER}", *part)
            due(crawl)

    assert held(crawl) >= PAGES + 2 - 15  # the guard holds at half of a source
    assert crawl.runs()[0]["withheld"] > 0


@pytest.mark.covers("M-21", "U-16")
def test_a_login_wall_is_told_slice_by_slice(wide: Site, crawl: Crawl):
    for part in slices():
        wide.pages |= {path: Page(redirect="/login", status=302) for path in part}
    for part in slices():
        let(crawl, "next_visit = 0", *part)
        due(crawl)

    assert held(crawl) >= PAGES + 2 - 15


@pytest.mark.covers("U-11", "R4-41", "U-16")
def test_a_page_that_is_gone_is_asked_often_and_counted_once_a_day(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="the text of a")
    crawl(site.url("/"))
    site.pages["/a"] = Page("not found", status=404)
    for _ in range(3):
        let(crawl, "next_visit = 0", "/a")
        due(crawl)
    assert crawl.rows("SELECT max(lost_count) FROM state") == [(1,)]

    let(crawl, "next_visit = 0, lost_since = lost_since - 90000", "/a")
    due(crawl)

    assert crawl.rows("SELECT max(lost_count) FROM state") == [(2,)]


@pytest.mark.covers("M-11", "U-18")
def test_a_page_that_a_sitemap_brings_forward_before_its_turn_is_asked(site: Site, crawl: Crawl):
    """It lies behind the sitemap and behind pages that nobody asks, whichever comes first."""
    site.pages["/"] = html("Home", "/hub", "/leaf")
    site.pages["/hub"] = html("Hub", "/leaf", text="the hub")
    site.pages["/leaf"] = html("Leaf", text="the leaf")
    where = f"Sitemap: {site.url('/map.xml')}"
    site.pages["/robots.txt"] = Page(where, content_type="text/plain")
    site.pages["/map.xml"] = sitemap((site.url("/leaf"), "2020-01-01"))
    crawl(site.url("/"))
    for number in range(5):
        stamp = f"2020-01-0{2 + number % 2}"
        site.pages["/map.xml"] = sitemap((site.url("/leaf"), stamp))
        let(crawl, "next_visit = 0", "/", "/hub", "/map.xml")
        due(crawl)
        assert crawl.outcomes()["/leaf"] in ("skipped", "unchanged")

    assert crawl.hits('"the leaf"') == ["/leaf"]
    assert crawl.rows("SELECT count(*) FROM candidate") == [(0,)]


@pytest.mark.covers("U-18", "M-11")
def test_orphans_are_looked_at_behind_a_sitemap_that_nobody_names(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a", "/orphan")
    site.pages["/a"] = html("A", text="the text of a")
    site.pages["/orphan"] = html("O", text="the orphan")
    site.pages["/only-map"] = html("M", text="of the map")
    where = f"Sitemap: {site.url('/map.xml')}"
    site.pages["/robots.txt"] = Page(where, content_type="text/plain")
    site.pages["/map.xml"] = sitemap((site.url("/only-map"), "2020-01-01"))
    crawl(site.url("/"))
    site.pages["/robots.txt"] = Page("", content_type="text/plain")
    site.pages["/"] = html("Home", "/a")
    for _ in range(4):
        let(crawl, "next_visit = 0", "/only-map")
        due(crawl)
        let(crawl, "next_visit = 0", "/", "/a")
        due(crawl)

    assert crawl.outcomes()["/orphan"] == "deleted"
    assert crawl.hits('"of the map"') == ["/only-map"]


@pytest.mark.covers("U-16", "RD-07")
def test_what_failed_before_and_is_not_due_is_no_complete_run(wide: Site, crawl: Crawl):
    wide.pages |= {path: Page("no", status=503) for path in slices()[0]}
    crawl(wide.url("/"), expect=None, settings={"RETRY_TIMES": 0})
    assert crawl.runs()[0]["complete"] is False
    for _ in range(2):
        at_once(crawl)
        assert crawl.runs()[0]["complete"] is False
        assert "not_due: 6" in crawl.runs()[0]["reasons"]


@pytest.mark.covers("U-16", "RD-07")
def test_a_sitemap_that_failed_before_and_is_not_due_is_no_complete_run(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="the text of a")
    where = f"Sitemap: {site.url('/map.xml')}"
    site.pages["/robots.txt"] = Page(where, content_type="text/plain")
    site.pages["/map.xml"] = Page("no", status=503)
    crawl(site.url("/"), expect=None, settings={"RETRY_TIMES": 0})

    at_once(crawl)

    assert crawl.runs()[0]["complete"] is False
    told = [why.partition(":")[0] for why in crawl.runs()[0]["reasons"]]
    assert "sitemap_failed" in told


@pytest.mark.covers("U-16", "R0-29")
def test_a_registered_page_that_is_not_due_is_no_seed_that_failed(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="the text of a")
    site.pages["/pinned"] = html("P", text="the pin")
    crawl(site.url("/"))
    crawl.run("reindex", "--url", site.url("/pinned"))
    crawl(site.url("/"))
    let(crawl, "next_visit = 0", "/", "/a")

    due(crawl)

    assert crawl.runs()[0]["reasons"] in ([], ["not_due: 1"])


@pytest.mark.covers("U-18", "M-11")
def test_an_orphan_that_was_removed_is_due_as_soon_as_it_is_linked_again(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a", "/x")
    site.pages["/a"] = html("A", text="the text of a")
    site.pages["/x"] = html("X", text="the text of x")
    crawl(site.url("/"))
    site.pages["/"] = html("Home", "/a")
    for _ in range(3):
        crawl(site.url("/"))
    assert crawl.outcomes()["/x"] == "deleted"
    site.pages["/"] = html("Home", "/a", "/x")
    let(crawl, "next_visit = 0", "/")

    due(crawl)

    assert crawl.hits('"the text of x"') == ["/x"]


@pytest.mark.covers("M-15", "M-11")
def test_a_new_configuration_does_not_ask_failing_pages_again_at_once(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="the text of a")
    source = f'[sources.docs]\nkind = "site"\nseeds = ["{site.url("/")}"]\n'
    crawl.declare(source)
    crawl(source="docs", settings={"SNAPSHOT_STORE": "off"})
    crawl.declare(source + 'drop_selectors = [".x"]\n')
    site.pages["/a"] = Page("no", status=503)
    at_once(crawl, "-s", "SNAPSHOT_STORE=off")
    assert asked(site).count("/a") == 2
    site.clear()

    at_once(crawl, "-s", "SNAPSHOT_STORE=off")

    assert asked(site) == []


@pytest.mark.covers("M-15")
def test_what_is_fetched_whole_a_run_is_counted_by_page(site: Site, crawl: Crawl):
    names = [f"/p{number}" for number in range(8)]
    site.pages["/"] = html("Home", *names)
    site.pages |= {name: html(name, text=f"the text of {name}") for name in names}
    source = f'[sources.docs]\nkind = "site"\nseeds = ["{site.url("/")}"]\n'
    crawl.declare(source)
    crawl(source="docs", settings={"SNAPSHOT_STORE": "off"})
    crawl.declare(source + 'drop_selectors = [".x"]\n')
    site.clear()

    at_once(crawl, "-s", "SNAPSHOT_STORE=off", "-s", "RE_EXTRACT_PER_RUN=5")

    assert len(asked(site)) == 5


@pytest.mark.covers("U-16", "M-11")
def test_a_long_chain_of_skipped_pages_is_walked_to_its_end(site: Site, crawl: Crawl):
    length = 60
    site.pages["/"] = html("Home", "/p1")
    for number in range(1, length):
        further = [f"/p{number + 1}"] if number + 1 < length else []
        site.pages[f"/p{number}"] = html(f"P{number}", *further, text=f"the text {number}")
    crawl(site.url("/"))
    let(crawl, "next_visit = 0", "/")

    due(crawl)

    assert crawl.runs()[0]["skipped"] == length - 1


@pytest.mark.covers("M-15", "U-16")
def test_a_page_whose_removal_by_index_mode_is_withheld_is_asked_once(site: Site, crawl: Crawl):
    names = [f"/tag/{number}" for number in range(12)]
    site.pages["/"] = html("Home", *names)
    site.pages |= {name: html(name, text=f"the text of {name}") for name in names}
    source = f'[sources.docs]\nkind = "site"\nseeds = ["{site.url("/")}"]\n'
    crawl.declare(source)
    crawl(source="docs")
    crawl.declare(source + "index_modes = [{ pattern = '/tag/', mode = 'links_only' }]\n")
    site.clear()
    at_once(crawl)
    assert sorted(asked(site)) == sorted(names)
    assert crawl.runs()[0]["withheld"] == 12
    site.clear()

    at_once(crawl)

    assert asked(site) == []
    assert crawl.runs()[0]["withheld"] == 12

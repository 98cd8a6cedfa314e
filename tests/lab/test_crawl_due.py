"""A due crawl asks only what is due, reaches the rest by its stored links, and loses nothing."""

import json
from datetime import UTC, datetime

import pytest

from tests.crawls.commands import Crawl, Result
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, html

DAY = 86_400


def due(crawl: Crawl, *args: str, expect: int | None = 0) -> Result:
    """`scrapy due`."""
    return crawl.run("due", *args, expect=expect)


def asked(site: Site) -> list[str]:
    """The paths that were asked, robots.txt and sitemaps left out."""
    return sorted(r.path for r in site.log if r.path.count(".") == 0)


def let(crawl: Crawl, statement: str, *paths: str) -> None:
    """Write to the state of pages, by their path; without paths, of all."""
    where = " OR ".join(f"r.url LIKE '%{path}'" for path in paths) or "true"
    crawl.rows(f"UPDATE state SET {statement} WHERE no IN (SELECT no FROM record r WHERE {where})")
    crawl._told.clear()


@pytest.fixture
def shop(site: Site, crawl: Crawl) -> Site:
    """A site of three levels that was crawled once."""
    site.pages["/"] = html("Home", "/hub", "/other")
    site.pages["/hub"] = html("Hub", "/leaf", "/twig")
    site.pages["/leaf"] = html("Leaf", text="the leaf")
    site.pages["/twig"] = html("Twig", text="the twig")
    site.pages["/other"] = html("Other", text="something else")
    crawl(site.url("/"))
    site.clear()
    return site


@pytest.mark.covers("R0-71", "M-11", "U-16", "RP-09")
def test_when_nothing_is_due_nothing_is_asked_and_everything_is_reached(shop: Site, crawl: Crawl):
    result = due(crawl)

    assert shop.log == []
    assert set(crawl.outcomes().values()) == {"skipped"}
    run = crawl.runs()[0]
    assert (run["requests"], run["skipped"]) == (0, 5)
    assert run["complete"] is False
    assert run["reasons"] == ["not_due: 5"]
    assert "skipped" in result.out
    assert crawl.counts_add_up()
    assert crawl.hits('"the leaf"') == ["/leaf"]  # it is as searchable as before


@pytest.mark.covers("R0-71", "M-11")
def test_what_was_visited_by_a_clock_a_year_ahead_is_due(shop: Site, crawl: Crawl):
    year = 365 * DAY
    ahead = f"last_checked = last_checked + {year}, next_visit = next_visit + {year}"
    let(crawl, ahead, "/leaf", "/other")
    [status] = json.loads(crawl.run("status", "--format", "json").out)["sources"]
    assert status["due"] == 2
    shop.pages["/leaf"] = html("Leaf", text="the edited leaf")

    due(crawl)

    assert asked(shop) == ["/leaf", "/other"]
    assert crawl.hits('"the edited leaf"') == ["/leaf"]
    shop.clear()

    due(crawl)

    assert asked(shop) == []


@pytest.mark.covers("R0-71", "M-11", "U-16")
def test_what_is_due_is_asked_behind_pages_that_are_not(shop: Site, crawl: LabCrawl):
    let(crawl, f"next_visit = {crawl.now}", "/leaf")
    shop.pages["/leaf"] = html("Leaf", "/fresh", text="the leaf has grown")
    shop.pages["/fresh"] = html("Fresh", text="something new")

    due(crawl)

    assert asked(shop) == ["/fresh", "/leaf"]
    assert crawl.outcomes() == {
        "/": "skipped", "/hub": "skipped", "/other": "skipped", "/twig": "skipped",
        "/leaf": "modified", "/fresh": "new",
    }  # fmt: skip
    depths = {path: record["depth"] for path, record in crawl.pages().items()}
    assert depths["/fresh"] == 3


@pytest.mark.covers("U-16", "M-11")
def test_due_crawls_age_nobody_until_every_page_was_asked_anew(shop: Site, crawl: Crawl):
    """An orphan is one by as many looks at all the links as in full crawls, not by the clock."""
    shop.pages["/hub"] = html("Hub", "/leaf")  # the twig is linked no more
    let(crawl, "next_visit = 0", "/hub")
    due(crawl)
    assert crawl.outcomes()["/twig"] == "orphaned"
    for _ in range(4):
        due(crawl)
    assert [run["complete"] for run in crawl.runs()] == [False] * 5 + [True]
    assert crawl.hits("twig") == ["/twig"]

    for number in range(3):  # each in two parts
        let(crawl, "next_visit = 0", "/hub", "/leaf")
        due(crawl)
        assert crawl.runs()[0]["complete"] is False, number
        let(crawl, "next_visit = 0", "/", "/other")
        due(crawl)
        assert crawl.runs()[0]["complete"] is True, number

    assert crawl.hits("twig") == []
    assert crawl.outcomes()["/twig"] == "deleted"


@pytest.mark.covers("U-16")
def test_pages_that_are_reached_and_not_due_never_become_orphans(shop: Site, crawl: Crawl):
    for _ in range(5):
        let(crawl, "next_visit = 0", "/", "/other", "/hub", "/twig")
        due(crawl)

    assert crawl.hits('"the leaf"') == ["/leaf"]
    states = dict(crawl.rows("SELECT r.url, s.seen_run FROM state s JOIN record r USING (no)"))
    assert set(states.values()) == {6}
    assert crawl.rows("SELECT count(*) FROM candidate") == [(0,)]


@pytest.mark.covers("R0-42", "U-15", "U-16")
def test_what_robots_refuse_goes_on_ageing_while_it_is_not_due(shop: Site, crawl: Crawl):
    shop.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /twig\n", content_type="text/plain")
    for number in range(3):
        let(crawl, "next_visit = 0", "/", "/other", "/hub", "/leaf")
        if not number:
            let(crawl, "next_visit = 0", "/twig")
        due(crawl)

    assert crawl.outcomes()["/twig"] == "deleted"


@pytest.mark.covers("M-21", "U-16")
def test_a_redirect_counts_by_what_its_target_answered_last(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/old", "/new")
    site.pages["/old"] = html("Old", text="an old text")
    site.pages["/new"] = html("New", text="a new text")
    crawl(site.url("/"))
    site.pages["/old"] = Page(redirect="/new", status=302)
    let(crawl, "next_visit = 0", "/old")

    due(crawl)

    assert crawl.hits("text") == ["/new"]
    assert crawl.pages()["/old"]["lostCount"] == 0
    assert crawl.runs()[0]["removed"] == 1


@pytest.mark.covers("M-11")
def test_errors_are_asked_again_when_their_wait_is_over(shop: Site, crawl: Crawl):
    shop.pages["/leaf"] = Page("gone", status=500)
    let(crawl, "next_visit = 0", "/leaf")
    due(crawl, "-s", "RETRY_TIMES=0", expect=3)
    record = crawl.pages()["/leaf"]
    waits = crawl.rows(
        "SELECT next_visit - last_checked, interval FROM state WHERE error_count > 0"
    )
    assert record["status"] == "Error"
    assert waits[0][1] == 600
    assert 600 <= waits[0][0] <= 660
    shop.clear()

    due(crawl)
    assert asked(shop) == []
    let(crawl, "next_visit = 0", "/leaf")
    due(crawl, "-s", "RETRY_TIMES=0", expect=3)
    assert asked(shop) == ["/leaf"]
    assert crawl.rows("SELECT interval FROM state WHERE error_count > 0") == [(1200,)]


@pytest.mark.covers("R0-48", "R0-36")
def test_the_interval_grows_and_is_shown_as_the_seed_has_it(shop: Site, crawl: Crawl):
    for _ in range(3):
        let(crawl, "next_visit = 0")
        due(crawl)

    rows = crawl.rows('SELECT "crawlIntervalSeconds" FROM "IngestItems"')
    assert rows == [(259_200,)] * 5
    (wait,) = crawl.rows("SELECT next_visit - last_checked FROM state ORDER BY no")[0]
    assert 0.9 * 259_200 <= wait <= 0.95 * 259_200


# Sitemaps and notices


def sitemap(*entries: tuple[str, str]) -> Page:
    urls = "".join(f"<url><loc>{loc}</loc><lastmod>{mod}</lastmod></url>" for loc, mod in entries)
    body = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
    return Page(body, content_type="application/xml")


@pytest.mark.covers("R0-49")
def test_a_lastmod_brings_a_visit_forward_and_never_puts_one_off(site: Site, crawl: LabCrawl):
    paths = ("/a", "/b", "/c")
    site.pages["/"] = html("Home", *paths)
    for path in paths:
        site.pages[path] = html(path, text=f"text of {path}")
    old = "2020-01-01"
    site.pages["/robots.txt"] = Page(f"Sitemap: {site.url('/map.xml')}", content_type="text/plain")
    site.pages["/map.xml"] = sitemap(*((site.url(path), old) for path in paths))
    crawl(site.url("/"))
    site.clear()
    due(crawl)
    assert site.log == []

    now = datetime.fromtimestamp(crawl.now, UTC).isoformat(timespec="seconds")
    let(crawl, "next_visit = 0", "/map.xml", "/c")
    let(crawl, "last_checked = last_checked - 60", "/a")
    site.pages["/map.xml"] = sitemap(
        (site.url("/a"), now), (site.url("/b"), "2021-01-01"), (site.url("/c"), old)
    )
    due(crawl)
    assert asked(site) == ["/a", "/c"]  # b was modified before it was asked last
    site.clear()

    let(crawl, "next_visit = 0", "/map.xml")
    let(crawl, "last_checked = last_checked - 60", "/a")
    due(crawl)  # the lastmod of a is no news any more
    assert asked(site) == []


@pytest.mark.covers("R0-49", "R0-57")
def test_a_notice_brings_addresses_forward_and_crawls_nothing(shop: Site, crawl: Crawl):
    result = due(crawl, "--notice", shop.url("/leaf"), shop.url("/twig/?utm_source=x"))
    assert result.out.count("due now") == 2
    assert shop.log == []

    due(crawl)
    assert asked(shop) == ["/leaf", "/twig"]

    later = crawl.rows("SELECT next_visit FROM state ORDER BY no")
    due(crawl, "--notice", shop.url("/"))
    result = due(crawl, "--notice", shop.url("/unknown"), expect=1)
    assert "scrapy reindex --url" in result.err
    assert len(crawl.rows("SELECT no FROM state WHERE next_visit > 0")) == len(later)


@pytest.mark.covers("RP-09")
def test_every_source_is_crawled_declared_or_not(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", text="a home")
    crawl(site.url("/"))
    crawl.declare(f'[sources.docs]\nkind = "site"\nseeds = ["{site.url("/")}"]\n')

    due(crawl)
    assert {run["source"] for run in crawl.runs()} == {"docs", site.url("/")[7:-1]}
    assert len(crawl.runs()) == 3
    due(crawl, "--source", "docs")
    assert crawl.runs()[0]["source"] == "docs"
    crawl.run("forget", "--source", "docs", "--max", "1")
    crawl.declare("")
    due(crawl)
    assert crawl.runs()[0]["source"] == site.url("/")[7:-1]
    assert len(crawl.runs()) == 5


def test_a_forgotten_source_is_not_due_until_an_undo(shop: Site, crawl: Crawl):
    name = shop.url("/").split("/")[2]
    crawl.run("forget", "--source", name, "--max", "9")
    crawl.run("due", "--notice", shop.url("/"))
    shop.clear()
    assert "nothing was crawled yet" in due(crawl, expect=1).err
    assert asked(shop) == []

    assert "restored" in crawl.run("undo", "1").out
    assert f"of {name}: " in due(crawl).out


def test_without_anything_to_crawl_it_says_how_to_begin(crawl: Crawl):
    result = due(crawl, expect=1)

    assert "scrapy crawl site -a url=" in result.err


@pytest.mark.sqlite  # a test's database in PostgreSQL has a registry from the start
def test_a_notice_without_a_registry_says_how_to_begin(crawl: Crawl):
    result = due(crawl, "--notice", "http://a.example/", expect=1)

    assert "scrapy crawl site -a url=" in result.err


@pytest.mark.covers("U-16")
def test_a_due_crawl_that_was_cut_goes_on_as_one(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", *(f"/p{n}" for n in range(40)))
    for number in range(40):
        site.pages[f"/p{number}"] = html(f"Page {number}", text=f"text {number}")
    crawl(site.url("/"))
    let(crawl, "next_visit = 0", *(f"/p{n}" for n in range(30)))
    for number in range(30):
        site.pages[f"/p{number}"] = Page(html(f"Page {number}", text=f"text {number}"), delay=0.05)
    crawl.run("due", "-a", "max_pages=10", expect=3)
    assert len(asked(site)) == 41 + 10
    site.clear()
    due(crawl)
    assert len(asked(site)) == 20


# What an address on the command line is to the next run


def starts(result: Result) -> list[str]:
    """The warnings of another start."""
    return [line for line in result.err.splitlines() if "The start page of" in line]


def test_another_start_is_told_with_both_and_due_goes_on_from_it(shop: Site, crawl: Crawl):
    result = crawl(shop.url("/hub"))

    (told,) = starts(result)
    assert f"changed from {shop.url('/')} to {shop.url('/hub')}. Pages linked only" in told
    assert f"declare the source in {crawl.sources_file}" in told
    let(crawl, "next_visit = 0")
    shop.clear()
    assert not starts(due(crawl))
    assert asked(shop) == ["/hub", "/leaf", "/twig"]


def test_a_start_that_fails_is_not_where_the_next_due_crawl_begins(shop: Site, crawl: Crawl):
    result = crawl(shop.url("/misspelt"), expect=3)
    assert len(starts(result)) == 1

    let(crawl, "next_visit = 0", "/", "/hub")
    shop.clear()
    result = due(crawl)
    assert asked(shop) == ["/", "/hub"]
    assert not starts(result)
    assert not starts(crawl(shop.url("/")))


def test_a_start_that_only_moved_is_the_same_start(site: Site, crawl: Crawl):
    site.pages["/old"] = Page("", status=301, headers={"Location": "/new"})
    site.pages["/new"] = html("New", "/leaf")
    site.pages["/leaf"] = html("Leaf")
    crawl(site.url("/old"), scope="host")

    assert not starts(crawl(site.url("/new")))
    assert not starts(crawl(site.url("/old")))
    site.pages["/leaf"] = Page("", status=404)  # it was held, and is a start whatever becomes of it
    for _ in range(3):
        crawl(site.url("/leaf"), lost_threshold=1, expect=3)
    let(crawl, "next_visit = 0")
    site.clear()
    due(crawl, expect=3)
    assert asked(site) == ["/leaf"]


def test_the_scope_is_where_a_seed_that_is_not_due_moved_it(crawl: LabCrawl):
    """Its redirect is known: pages of the host that it led to stay in scope."""
    bare, www = LabSite("example.com"), LabSite("www.example.com")
    crawl.web.sites[:] = [bare, www]
    bare.pages["/"] = Page(redirect=www.url("/"))
    www.pages["/"] = html("Home", "/leaf")
    www.pages["/leaf"] = html("Leaf")
    crawl(bare.url("/"))
    let(crawl, f"next_visit = {crawl.now}", "www.example.com/leaf")
    www.pages["/leaf"] = html("Leaf", "/fresh", text="the leaf has grown")
    www.pages["/fresh"] = html("Fresh", text="something new")
    www.clear()

    due(crawl)

    assert asked(www) == ["/fresh", "/leaf"]
    assert "scope" not in str(crawl.runs()[0]["reasons"])


def test_a_sitemap_that_is_not_given_again_is_told(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home")
    site.pages["/far"] = html("Far")
    entries = f"<urlset><url><loc>{site.url('/far')}</loc></url></urlset>"
    site.pages["/map.xml"] = Page(entries, content_type="application/xml")
    crawl(site.url("/"), sitemap=site.url("/map.xml"))

    assert site.url("/map.xml") in starts(crawl(site.url("/")))[0]

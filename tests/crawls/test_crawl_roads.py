"""Refreshes, redirects and cookies of pages, by the lane and by the engine.

These stories show that both send and read the same; all others are told in tests/lab.
"""

from collections.abc import Iterator

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.cookie_site import CookieSite, fill_intranet, fill_ways
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.parametrize("lane", ["auto", "off"])
CONDITIONS = ("if-none-match", "if-modified-since")
PATHS = {"/", "/self", "/tour", "/plain", "/leaf"}
ASKED = {"/self": 2, "/tour": 2, "/check?back=/tour": 1, "/plain": 1, "/leaf": 1}
ON_THE_WAY = {
    *("/set?to=/moved", "/put?to=/stub", "/lift?n=1&back=%2Fveil", "/sign?to=/header"),
    *("/first?to=/far", "/second"),
}


@pytest.fixture
def site() -> Iterator[CookieSite]:
    with CookieSite() as site:
        yield site


@pytest.fixture
def intranet(site: CookieSite) -> CookieSite:
    fill_intranet(site)
    return site


@pytest.fixture
def ways(site: CookieSite) -> CookieSite:
    fill_ways(site)
    return site


def conditions(site: Site) -> dict[str, tuple[str | None, ...]]:
    """The conditional headers of each request, robots.txt left out."""
    return {
        request.path: tuple(request.headers.get(name) for name in CONDITIONS)
        for request in site.log
        if request.path != "/robots.txt"
    }


@pytest.mark.long(but=1)
@pytest.mark.covers("R1-15", "RD-04")
@pytest.mark.parametrize("answered", ['"two"', 'W/"two"'])
def test_a_304_that_names_another_version_confirms_nothing(
    site: Site, crawl: Crawl, lane: str, answered: str
):
    """RFC 9111, 4.3.4: what is stored is not the version that the server calls unmodified."""
    crawl.environment |= {"REVALIDATION_LANE": lane, "TRUST_SAMPLE_RATIO": "0"}
    modified, later = "Mon, 05 Jan 2026 10:00:00 GMT", "Tue, 06 Jan 2026 10:00:00 GMT"
    others = [f"/p{n}" for n in range(12)]
    site.pages["/"] = html("Home", "/page", *others)
    site.pages |= {path: html(path) for path in others}
    page = html("Page", "/leaf", text="the old words")
    site.pages["/page"] = Page(page, etag='"one"', last_modified=modified)
    site.pages["/leaf"] = html("Leaf")
    crawl(site.url("/"))
    before, stored = crawl.pages()["/page"], crawl.stored()
    site.pages["/page"] = Page("", status=304, etag=answered, last_modified=later)

    result = crawl(site.url("/"), settings={"STATS_DUMP": "1"})

    assert ("lane/not_modified" in result.err) is (lane == "auto")
    after = crawl.pages()["/page"]
    assert (after["lastOutcome"], after["httpStatusCode"]) == ("failed", 1216)
    assert after["errorMessage"].startswith(
        f'a 304 response with the ETag {answered} to a request with "on'
    )
    kept = ("httpEtag", "httpLastModified", "contentHash", "lostCount", "effectiveStatus")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert crawl.stored() == stored
    assert crawl.hits("old words") == ["/page"]
    assert crawl.outcomes()["/leaf"] == "unchanged"
    assert crawl.runs()[0]["complete"]
    assert crawl.runs()[0]["notModified"] == len(others) + 2
    assert crawl.runs()[0]["notes"] == [f"other_version: 1 page, {site.url('/page')}"]
    assert crawl.counts_add_up()
    site.pages["/page"] = Page("", status=403)
    crawl(site.url("/"))
    site.pages["/page"] = Page(html("Page", text="the new words"), etag='"two"')
    assert "its last 304 response named another version" in crawl.run("why", site.url("/page")).out
    site.clear()

    crawl(site.url("/"))

    assert conditions(site)["/page"] == (None, None)
    assert crawl.outcomes()["/page"] == "modified"
    assert crawl.hits("new words") == ["/page"]
    site.clear()

    crawl(site.url("/"))

    assert conditions(site)["/page"] == ('"two"', None)
    assert crawl.outcomes()["/page"] == "unchanged"


@pytest.mark.long(but=2)
@pytest.mark.covers("R0-41", "M-21", "RD-02")
def test_a_page_that_moved_leaves_only_its_target(site: Site, crawl: Crawl, lane: str):
    """To another page, by a redirect; and within its address, to another spelling."""
    crawl.environment["REVALIDATION_LANE"] = lane
    others = [f"/p{n}" for n in range(12)]
    site.pages |= {path: html(path) for path in others}
    site.pages["/"] = html("Home", "/page", "/dir", "/round", *others)
    site.pages["/page"] = html("Page", text="treasure")
    site.pages["/dir"] = html("Dir", "leaf", text="a directory")
    site.pages["/round"] = html("Round", text="what stays")
    site.pages |= {path: html(path) for path in ("/leaf", "/dir/leaf")}
    crawl(site.url("/"))
    site.pages["/page"] = Page(redirect="/new#part")
    site.pages["/new"] = html("New", text="a treasure that moved")
    site.pages["/dir"], site.pages["/dir/"] = Page(redirect="/dir/"), site.pages["/dir"]
    site.pages["/round"] = Page(redirect="/round")
    site.clear()

    crawl(site.url("/"))

    asked = sorted((r.path, r.status) for r in site.log if r.path != "/robots.txt")
    assert [(path, status) for path, status in asked if status != 304] == [
        ("/dir", 301), ("/dir/", 200), ("/dir/leaf", 200), ("/new", 200), ("/page", 301),
        ("/round", 301),
    ]  # fmt: skip
    assert crawl.hits("treasure") == ["/new"]
    assert crawl.outcomes() == {
        "/": "unchanged", "/dir/": "unchanged", "/dir/leaf": "new", "/leaf": "orphaned",
        "/new": "new", "/page": "redirected", "/round": "lost",
    } | dict.fromkeys(others, "unchanged")  # fmt: skip
    assert crawl.pages()["/page"]["contentHash"] is None
    assert crawl.pages()["/round"]["httpStatusCode"] == 1002
    assert crawl.hits("stays") == ["/round"]
    assert crawl.counts_add_up()


@pytest.mark.long(but=1)  # "auto" asks new pages by the engine, known ones by the lane
def test_a_page_is_asked_once_more_with_the_cookie_that_it_set(
    intranet: CookieSite, crawl: Crawl, lane: str
):
    settings = {"REVALIDATION_LANE": lane}
    crawl(intranet.url("/"), settings=settings)

    assert crawl.outcomes() == dict.fromkeys(PATHS, "new")
    assert crawl.hits("itself") == ["/self"]
    assert crawl.hits("behind") == ["/tour"]
    assert {path: intranet.count(path) for path in ASKED} == ASKED
    assert intranet.cookies("/self") == [None, "seen=1"]
    assert intranet.cookies("/tour") == [None, "tour=1; checked=1"]
    assert intranet.cookies("/check?back=/tour") == ["tour=1"]
    assert intranet.cookies("/plain") == intranet.cookies("/leaf") == [None]
    assert crawl.runs()[0]["requests"] == len(intranet.log) - 1, "all but robots.txt"

    for _ in range(2):
        intranet.clear()
        crawl(intranet.url("/"), settings=settings)

        assert set(crawl.outcomes().values()) == {"unchanged"}
        assert {path: intranet.count(path) for path in ASKED} == ASKED, "nothing was kept"
        for path in ("/self", "/tour"):
            asked = [request for request in intranet.log if request.path == path]
            assert [request.status for request in asked] == [302, 304]
            assert all("if-none-match" in request.headers for request in asked)
    assert crawl.counts_add_up()


@pytest.mark.long  # "auto" asks new pages by the engine, known ones by the lane
def test_a_cookie_that_is_set_on_the_way_brings_the_page(ways: CookieSite, crawl: Crawl, lane: str):
    settings = {"REVALIDATION_LANE": lane}
    found = {"/moved", "/stub", "/veil", "/header", "/far"}
    for word in ("new", "unchanged", "unchanged"):
        ways.clear()
        crawl(ways.url("/"), settings=settings)

        assert crawl.outcomes() == dict.fromkeys({"/", *found}, word)
        assert set(crawl.hits("behind")) == found
        assert crawl.hits('"please wait"') == []
        asked = {path: ways.count(path) for path in (*found, *ON_THE_WAY)}
        assert asked == dict.fromkeys(found, 2) | dict.fromkeys(ON_THE_WAY, 1)
        assert ways.cookies("/stub") == [None, "b=1"]
        assert ways.cookies("/far") == [None, "e=1"]
    assert [request.status for request in ways.log if request.path == "/stub"] == [200, 304]
    assert crawl.counts_add_up()

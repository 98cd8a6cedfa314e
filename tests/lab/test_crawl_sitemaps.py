"""Sitemaps and feeds: read, held, replayed, and never a reason to lose a page."""

import gzip
import json

import pytest

from smartcrawl.extract import sitemaps
from tests.crawls.commands import Crawl, Record
from tests.site_server import Page, Site, html

XML = "application/xml"
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
#: Two runs instead of three, so that a test needs fewer of them.
SOON = {"LOST_THRESHOLD": 2, "ORPHAN_THRESHOLD": 2}


def urlset(*paths: str, lastmod: str = "") -> str:
    date = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    urls = "".join(f"<url><loc>{path}</loc>{date}</url>" for path in paths)
    return f'<?xml version="1.0"?><urlset {NAMESPACE}>{urls}</urlset>'


def index(*paths: str) -> str:
    maps = "".join(f"<sitemap><loc>{path}</loc></sitemap>" for path in paths)
    return f'<?xml version="1.0"?><sitemapindex {NAMESPACE}>{maps}</sitemapindex>'


def rss(*paths: str) -> str:
    items = "".join(f"<item><link>{path}</link></item>" for path in paths)
    return f'<?xml version="1.0"?><rss version="2.0"><channel>{items}</channel></rss>'


def robots(*sitemaps: str) -> Page:
    text = "User-agent: *\nDisallow:\n" + "".join(f"Sitemap: {path}\n" for path in sitemaps)
    return Page(text, content_type="text/plain")


def xml(body: str | bytes) -> Page:
    return Page(body, content_type=XML)


@pytest.fixture
def mapped(site: Site) -> Site:
    """A home page that links to one page, and a sitemap of two that nobody links to."""
    site.pages["/robots.txt"] = robots("/map.xml")
    site.pages["/map.xml"] = xml(urlset("/one", "/two"))
    site.pages["/"] = html("Home", *(f"/linked/{n}" for n in range(4)))
    for path in ("/one", "/two", *(f"/linked/{n}" for n in range(4))):
        site.pages[path] = html(path, text=f"the text of {path}")
    return site


def recorded(crawl: Crawl, path: str = "/map.xml") -> tuple[str, int, str]:
    """Word, status and message of a record."""
    page = crawl.pages()[path]
    return page["lastOutcome"], page["httpStatusCode"], page["errorMessage"] or ""


def reasons(crawl: Crawl) -> list[str]:
    found: list[str] = crawl.runs()[0]["reasons"]
    return found


def test_pages_that_only_a_sitemap_names_are_found_and_it_is_no_page(mapped: Site, crawl: Crawl):
    result = crawl(mapped.url("/"))

    assert crawl.outcomes()["/one"] == crawl.outcomes()["/two"] == "new"
    assert recorded(crawl) == ("excluded", 200, "not indexed: a sitemap of 2 addresses")
    assert crawl.hits("two") == ["/two"]
    assert "1 sitemap or feed with 2 addresses" in result.out
    assert "excluded" not in result.out
    [record] = [r for r in records(crawl, "--sitemaps") if r]
    assert record["url"] == mapped.url("/map.xml")
    assert crawl.counts_add_up()


def records(crawl: Crawl, *options: str) -> list[Record]:
    out = crawl.run("registry", "--format", "jsonl", *options).out
    return [json.loads(line) for line in out.splitlines()]


def test_a_sitemap_is_asked_conditionally_and_a_304_replays_it(mapped: Site, crawl: Crawl):
    crawl(mapped.url("/"))
    mapped.clear()

    result = crawl(mapped.url("/"))

    statuses = {r.path: r.status for r in mapped.log if r.path != "/robots.txt"}
    assert statuses == dict.fromkeys(statuses, 304)
    assert {"/map.xml", "/one", "/two"} <= statuses.keys()
    assert crawl.outcomes()["/one"] == "unchanged"
    assert "0 B downloaded" in result.out
    assert "excluded" not in result.out


@pytest.mark.long(but=3)
@pytest.mark.parametrize("form", ["gzip", "index", "index in index", "text", "atom", "rss"])
def test_every_form_is_read(site: Site, crawl: Crawl, form: str):
    site.pages["/"] = html("Home")
    site.pages["/one"] = html("One")
    site.pages["/robots.txt"] = robots("/map")
    match form:
        case "gzip":
            site.pages["/map"] = Page(
                gzip.compress(urlset("/one").encode()), content_type="application/octet-stream"
            )
        case "index":
            site.pages["/map"] = xml(index("/sub.xml.gz"))
            site.pages["/sub.xml.gz"] = Page(gzip.compress(urlset("/one").encode()))
        case "index in index":
            site.pages["/map"] = xml(index("/sub.xml"))
            site.pages["/sub.xml"] = xml(index("/subsub.xml"))
            site.pages["/subsub.xml"] = xml(urlset("/one"))
        case "text":
            site.pages["/map"] = Page(site.url("/one") + "\n", content_type="text/plain")
        case "atom":
            entry = f'<entry><link href="{site.url("/one")}"/></entry>'
            feed = f'<feed xmlns="http://www.w3.org/2005/Atom">{entry}</feed>'
            site.pages["/map"] = Page(feed, content_type="application/atom+xml")
        case "rss":
            site.pages["/map"] = Page(rss("/one"), content_type="application/rss+xml")

    crawl(site.url("/"))
    assert crawl.outcomes()["/one"] == "new"

    crawl(site.url("/"))
    assert crawl.outcomes()["/one"] == "unchanged"
    assert crawl.runs()[0]["complete"]


def test_a_fourth_level_is_not_read_and_the_run_says_so(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("/1.xml")
    for level in range(1, 4):
        site.pages[f"/{level}.xml"] = xml(index(f"/{level + 1}.xml"))
    site.pages["/4.xml"] = xml(urlset("/one"))
    site.pages["/"] = html("Home")

    result = crawl(site.url("/"), expect=3)

    assert site.count("/3.xml") == 1
    assert site.count("/4.xml") == 0
    assert reasons(crawl) == [f"sitemap_nesting: {site.url('/4.xml')}"]
    assert "sitemaps below the third level were not read" in result.out


def test_sitemaps_that_name_each_other_end(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("/a.xml")
    site.pages["/a.xml"] = xml(index("/b.xml", "/a.xml"))
    site.pages["/b.xml"] = xml(index("/a.xml", "/b.xml"))
    site.pages["/"] = html("Home")

    crawl(site.url("/"))

    assert (site.count("/a.xml"), site.count("/b.xml")) == (1, 1)


def test_a_given_sitemap_makes_a_source_of_its_host(site: Site, crawl: Crawl):
    site.pages["/deep/map.xml"] = xml(urlset("/one", "https://elsewhere.example/x"))
    site.pages["/one"] = html("One", "/two")
    site.pages["/two"] = html("Two")

    crawl(sitemap=site.url("/deep/map.xml"))

    assert crawl.outcomes() == {"/deep/map.xml": "excluded", "/one": "new", "/two": "new"}
    [run] = crawl.runs()
    assert run["source"] == site.url("").removeprefix("http://")
    assert run["complete"]
    [plan] = json.loads(crawl.run("plan", "--format", "json").out)
    assert plan["source"] == run["source"]
    assert plan["asks"] == 3


def test_a_given_sitemap_joins_a_seed_and_a_declared_source(mapped: Site, crawl: Crawl):
    mapped.pages["/robots.txt"] = robots()
    crawl(mapped.url("/"), sitemap=mapped.url("/map.xml"))
    assert crawl.outcomes()["/one"] == "new"

    crawl.declare(
        f'[sources.docs]\nseeds = ["{mapped.url("/")}"]\nsitemaps = ["{mapped.url("/map.xml")}"]\n'
        f'url_patterns = ["/$", "/linked/", "/two"]\n'
    )
    crawl(source="docs")
    held = {r["url"]: r["lastOutcome"] for r in crawl.records(source="docs")}
    assert held[mapped.url("/map.xml")] == "excluded", "patterns are for pages"
    assert held[mapped.url("/two")] == "new"
    assert mapped.url("/one") not in held


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (None, "HTTP status 404"),
        (Page("<html><body>no map here</body></html>"), "sitemap"),
        (xml("<urlset><url><loc>/one</loc>"), "sitemap"),
    ],
)
def test_a_given_sitemap_has_to_bring_addresses(
    site: Site, crawl: Crawl, page: Page | None, why: str
):
    site.pages["/"] = html("Home")
    if page is not None:
        site.pages["/map.xml"] = page

    result = crawl(site.url("/"), sitemap=site.url("/map.xml"), expect=3)

    [reason] = [reason for reason in reasons(crawl) if reason.startswith("sitemap_failed: ")]
    assert reason.startswith(f"sitemap_failed: {site.url('/map.xml')} (")
    assert why in reason
    assert "pages that only this sitemap lists were not found" in result.out
    assert "1 sitemap or feed could not be read" in result.out
    assert "page failed" not in result.out


@pytest.mark.parametrize("page", [None, Page("<html><body>Every address answers</body></html>")])
def test_a_sitemap_that_robots_names_in_vain_is_no_gap(site: Site, crawl: Crawl, page: Page | None):
    site.pages["/robots.txt"] = robots("/map.xml")
    site.pages["/"] = html("Home")
    if page is not None:
        site.pages["/map.xml"] = page

    crawl(site.url("/"))

    assert crawl.runs()[0]["complete"]


@pytest.mark.parametrize("page", [Page("", status=500), xml("<urlset><url>")])
def test_a_sitemap_that_cannot_be_read_and_never_was_is_a_gap(site: Site, crawl: Crawl, page: Page):
    site.pages["/robots.txt"] = robots("/map.xml")
    site.pages["/"] = html("Home")
    site.pages["/map.xml"] = page

    crawl(site.url("/"), expect=3, settings={"RETRY_TIMES": 0})

    assert any(reason.startswith("sitemap_failed: ") for reason in reasons(crawl))


#: What a sitemap may answer without taking anything away, with its (extended) status.
FAILURES = {
    "cut": (xml(urlset("/cut/one", "/cut/two")[:-30]), 1202),
    "html": (Page("<html><body>not a map</body></html>"), 1204),
    "empty": (Page("", content_type=XML), 1204),
    "down": (Page("down", status=503), 503),
    "gone": (Page("gone", status=404), 404),
    "no": (Page("no", status=403), 403),
    "reset": (Page("", fault="reset"), 1104),
    "doctype": (
        xml(f'<!DOCTYPE urlset [<!ENTITY a "/one">]>{urlset("&a;").partition("?>")[2]}'), 1203,
    ),
}  # fmt: skip


@pytest.mark.covers("M-02", "R4-35")
def test_pages_of_a_sitemap_that_fails_live_on(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots(*(f"/{name}.xml" for name in FAILURES))
    site.pages["/"] = html("Home", *(f"/linked/{n}" for n in range(60)))
    for n in range(60):
        site.pages[f"/linked/{n}"] = html(f"Page {n}")
    only = [f"/{name}/{n}" for name in FAILURES for n in ("one", "two")]
    site.pages |= {path: html(path) for path in only}
    for name in FAILURES:
        site.pages[f"/{name}.xml"] = xml(urlset(f"/{name}/one", f"/{name}/two"))
    crawl(site.url("/"))
    site.pages |= {f"/{name}.xml": page for name, (page, _) in FAILURES.items()}

    for _ in range(2):
        crawl(site.url("/"), settings={"ORPHAN_THRESHOLD": 1, "RETRY_TIMES": 0}, expect=3)
        failed = [reason for reason in reasons(crawl) if reason.startswith("sitemap_failed: ")]
        assert len(failed) == len(FAILURES)
        for name, (_, status) in FAILURES.items():
            assert recorded(crawl, f"/{name}.xml")[:2] == ("failed", status), name
        assert {crawl.outcomes()[path] for path in only} == {"unchanged"}

    for name in FAILURES:
        site.pages[f"/{name}.xml"] = xml(urlset(f"/{name}/one"))
    crawl(site.url("/"), settings=SOON)
    assert recorded(crawl, "/cut.xml")[2] == "not indexed: a sitemap of 1 address"
    outcomes = crawl.outcomes()
    assert {outcomes[f"/{name}/one"] for name in FAILURES} == {"unchanged"}
    assert {outcomes[f"/{name}/two"] for name in FAILURES} == {"orphaned"}


@pytest.mark.covers("M-02", "M-21")
@pytest.mark.parametrize("status", [301, 302])
def test_pages_of_a_sitemap_that_redirects_to_a_page_live_on(
    mapped: Site, crawl: Crawl, status: int
):
    """Many servers send requests for missing addresses to the home page."""
    crawl(mapped.url("/"))
    mapped.pages["/map.xml"] = Page(status=status, redirect="/")

    for _ in range(3):
        crawl(mapped.url("/"), settings=SOON, expect=3)
        assert recorded(crawl)[0] == "redirected"
        assert crawl.outcomes()["/one"] == crawl.outcomes()["/two"] == "unchanged"

    mapped.pages["/map.xml"] = xml(urlset("/one"))
    crawl(mapped.url("/"), settings=SOON)
    assert recorded(crawl)[2] == "not indexed: a sitemap of 1 address"
    assert (crawl.outcomes()["/one"], crawl.outcomes()["/two"]) == ("unchanged", "orphaned")


def test_when_a_sitemap_is_gone_for_good_its_pages_begin_to_age(mapped: Site, crawl: Crawl):
    crawl(mapped.url("/"))
    del mapped.pages["/map.xml"]

    for run in range(2):
        crawl(mapped.url("/"), settings=SOON, expect=0 if run else 3)
        assert crawl.outcomes()["/one"] == "unchanged", run
    assert recorded(crawl)[0] == "gone" or crawl.pages()["/map.xml"]["status"] == "Gone"

    crawl(mapped.url("/"), settings=SOON)
    assert crawl.outcomes()["/one"] == "orphaned"
    assert crawl.hits("two") == ["/two"], "one complete run does not remove"
    crawl(mapped.url("/"), settings=SOON)
    assert crawl.outcomes()["/one"] == crawl.outcomes()["/two"] == "deleted"


@pytest.mark.long(but=2)
@pytest.mark.covers("M-02")
@pytest.mark.parametrize("name", ["down", "html", "cut", "gone"])
def test_a_sitemap_that_was_emptied_and_fails_since_removes_nothing(
    mapped: Site, crawl: Crawl, name: str
):
    crawl(mapped.url("/"))
    mapped.pages["/map.xml"] = xml(urlset())
    crawl(mapped.url("/"), settings={"ORPHAN_THRESHOLD": 2})
    mapped.pages["/map.xml"] = FAILURES[name][0]

    for _ in range(2):
        crawl(mapped.url("/"), settings={"ORPHAN_THRESHOLD": 2, "RETRY_TIMES": 0}, expect=3)
        assert any(reason.startswith("sitemap_failed: ") for reason in reasons(crawl))
        assert crawl.hits("two") == ["/two"]


def test_a_large_sitemap_is_believed_empty_by_the_third_complete_run(mapped: Site, crawl: Crawl):
    paths = [f"/only/{n}" for n in range(10)]
    mapped.pages |= {path: html(path) for path in paths}
    mapped.pages["/map.xml"] = xml(urlset(*paths))
    crawl(mapped.url("/"))
    full, mapped.pages["/map.xml"] = mapped.pages["/map.xml"], xml(urlset())

    for _ in range(2):
        crawl(mapped.url("/"))
        assert "10 stored addresses" in recorded(crawl)[2]
        assert {crawl.outcomes()[path] for path in paths} == {"unchanged"}
    mapped.pages["/map.xml"] = full  # afterwards it counts from the beginning
    crawl(mapped.url("/"))
    mapped.pages["/map.xml"] = xml(urlset())
    crawl(mapped.url("/"))
    mapped.pages["/robots.txt"] = robots("/map.xml", "/never.xml")
    mapped.pages["/never.xml"] = Page("down", status=503)
    crawl(mapped.url("/"), settings={"RETRY_TIMES": 0}, expect=3)  # does not count
    del mapped.pages["/never.xml"]
    crawl(mapped.url("/"))
    assert {crawl.outcomes()[path] for path in paths} == {"unchanged"}

    crawl(mapped.url("/"))
    assert recorded(crawl)[2] == "not indexed: a sitemap of 0 addresses"
    assert {crawl.outcomes()[path] for path in paths} == {"orphaned"}


def test_a_sitemap_that_nobody_names_ages_itself_and_keeps_its_pages_meanwhile(
    mapped: Site, crawl: Crawl
):
    crawl(mapped.url("/"))
    mapped.pages["/robots.txt"] = robots()
    mapped.clear()

    crawl(mapped.url("/"), settings=SOON)
    assert crawl.outcomes()["/map.xml"] == "orphaned"
    assert crawl.outcomes()["/one"] == "unchanged"
    assert mapped.count("/map.xml") == 0

    crawl(mapped.url("/"), settings=SOON)
    assert crawl.outcomes()["/map.xml"] == "deleted"
    assert mapped.count("/map.xml") == 1, "it is looked at before it goes"
    assert crawl.outcomes()["/one"] == "unchanged"

    for word in ("orphaned", "deleted"):
        crawl(mapped.url("/"), settings=SOON)
        assert crawl.outcomes()["/one"] == crawl.outcomes()["/two"] == word


def test_what_left_a_feed_is_not_gone(site: Site, crawl: Crawl):
    """A feed is a window on the newest."""
    head = '<link rel="alternate" type="application/rss+xml" href="/feed">'
    site.pages["/"] = html("Home", head=head)
    for n in range(4):
        site.pages[f"/{n}"] = html(f"News {n}")
    for newest in (1, 2, 3):
        site.pages["/feed"] = Page(
            rss(f"/{newest}", f"/{newest - 1}"), content_type="application/rss+xml"
        )
        crawl(site.url("/"), settings=SOON)

    assert recorded(crawl, "/feed") == ("excluded", 200, "not indexed: a feed of 4 addresses")
    assert {crawl.outcomes()[f"/{n}"] for n in (0, 1, 2)} == {"unchanged"}
    assert crawl.outcomes()["/3"] == "new"


def test_what_robots_names_as_sitemap_may_be_a_page(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("/", "/overview")
    site.pages["/"] = html("Home", "/a", text="the start")
    site.pages["/overview"] = html("Overview", "/b", text="all of it")
    site.pages["/a"], site.pages["/b"] = html("A"), html("B")

    for word in ("new", "unchanged"):
        crawl(site.url("/"))
        assert crawl.outcomes() == dict.fromkeys(("/", "/overview", "/a", "/b"), word)
        assert crawl.hits("start") == ["/"]
        assert {crawl.pages()[p]["depth"] for p in ("/a", "/b")} == {1}
    assert crawl.runs()[0]["complete"]


@pytest.mark.parametrize("entity", ["file:///etc/passwd", "http://127.0.0.1:1/x"])
def test_a_sitemap_cannot_make_us_read_anything(site: Site, crawl: Crawl, entity: str):
    """ATT-30: no entity is read or expanded, and no other server is asked."""
    doctype = f'<!DOCTYPE urlset [<!ENTITY x SYSTEM "{entity}">]>'
    site.pages["/robots.txt"] = robots("/map.xml")
    site.pages["/map.xml"] = xml(f'<?xml version="1.0"?>{doctype}{urlset("/&x;")[21:]}')
    site.pages["/"] = html("Home")

    result = crawl(site.url("/"), expect=3)

    word, status, message = recorded(crawl)
    assert (word, status) == ("failed", 1203)
    assert "DOCTYPE" in message or "document type" in message
    assert "root:" not in result.err + result.out + message


def test_billions_of_laughs_are_not_told(site: Site, crawl: Crawl):
    """ATT-30."""
    entities = '<!ENTITY a0 "ha">' + "".join(
        f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12)
    )
    site.pages["/"] = html("Home")
    site.pages["/robots.txt"] = robots("/map.xml")
    site.pages["/map.xml"] = xml(f"<!DOCTYPE urlset [{entities}]>{urlset('/&a11;')[21:]}")

    crawl(site.url("/"), expect=3)

    assert recorded(crawl)[:2] == ("failed", 1203)


def test_a_sitemap_may_be_larger_than_a_page(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("/map.xml")
    site.pages["/map.xml"] = xml(urlset(*(f"/none/{n}" for n in range(200)), "/one"))
    site.pages["/"] = html("Home")
    site.pages["/one"] = html("One")

    crawl(site.url("/"), settings={"DOWNLOAD_MAXSIZE": 4_000})

    assert crawl.outcomes()["/one"] == "new"


def test_a_sitemap_of_more_than_50_mib_is_given_up(site: Site, crawl: Crawl):
    """ATT-31: packed, so that it costs the network nothing."""
    bomb = gzip.compress(b"<urlset>" + b" " * (51 * 1024 * 1024) + b"</urlset>")
    site.pages["/robots.txt"] = robots("/map.xml")
    site.pages["/map.xml"] = Page(bomb, content_type="application/gzip")
    site.pages["/"] = html("Home")

    crawl(site.url("/"), expect=3)

    word, status, message = recorded(crawl)
    assert (word, status) == ("failed", 1107)
    assert "more than 52,428,800 bytes, unpacked" in message


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> int:
    """Addresses that are read from a sitemap: 50 instead of 50,000, which take a second."""
    assert sitemaps.MAX_ENTRIES == 50_000
    monkeypatch.setattr(sitemaps, "MAX_ENTRIES", 50)
    return sitemaps.MAX_ENTRIES


def test_more_addresses_than_50_000_are_not_read(site: Site, crawl: Crawl, most: int):
    """ATT-31; only the first ones are asked, and few of them in this test."""
    site.pages["/robots.txt"] = robots("/map.xml")
    site.pages["/map.xml"] = xml(urlset(*(f"https://other.example/{n}" for n in range(most + 1))))
    site.pages["/"] = html("Home")

    result = crawl(site.url("/"), expect=3)

    assert reasons(crawl) == [f"too_many_urls: {site.url('/map.xml')}"]
    assert "split the sitemap" in result.out


def test_entries_lie_as_deep_as_their_sitemap(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("/map.xml")
    site.pages["/map.xml"] = xml(index("/sub.xml"))
    site.pages["/sub.xml"] = xml(urlset("/one"))
    site.pages["/"] = html("Home")
    site.pages["/one"] = html("One", "/two")
    site.pages["/two"] = html("Two", "/three")
    site.pages["/three"] = html("Three")

    crawl.environment["DEPTH_LIMIT"] = "1"
    for _ in range(2):
        crawl(site.url("/"))
        depths = {path: page["depth"] for path, page in crawl.pages().items()}
        assert depths == {"/": 0, "/map.xml": 0, "/sub.xml": 0, "/one": 0, "/two": 1}


def test_entries_of_a_feed_that_fails_lie_as_deep_as_it(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", head='<link rel="alternate" href="/feed.xml">')
    site.pages["/feed.xml"] = xml(rss("/one"))
    site.pages["/one"] = html("One")
    crawl.environment["DEPTH_LIMIT"] = "1"
    crawl(site.url("/"))
    site.pages["/feed.xml"] = Page("", status=503)

    crawl(site.url("/"), expect=None)

    outcomes = crawl.outcomes()
    assert (outcomes["/feed.xml"], outcomes["/one"]) == ("failed", "unchanged")


@pytest.mark.parametrize("lastmod", ["1999-01-01", "2099-01-01", "nonsense"])
def test_lastmod_skips_nothing(mapped: Site, crawl: Crawl, lastmod: str):
    crawl(mapped.url("/"))
    mapped.pages["/map.xml"] = xml(urlset("/one", "/two", lastmod=lastmod))
    mapped.pages["/one"] = html("One", text="another text")

    crawl(mapped.url("/"))

    assert crawl.outcomes()["/one"] == "modified"
    assert crawl.outcomes()["/two"] == "unchanged"


def test_robots_sitemaps_can_be_left_alone(mapped: Site, crawl: Crawl):
    crawl(mapped.url("/"), settings={"SITEMAPS_FROM_ROBOTS": 0})

    assert mapped.count("/map.xml") == 0
    assert "/one" not in crawl.outcomes()


def test_a_sitemap_that_moved_is_read_where_it_is(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("/sitemap.xml")
    site.pages["/sitemap.xml"] = Page(redirect="/maps/all.xml.gz")
    site.pages["/maps/all.xml.gz"] = Page(gzip.compress(urlset("/one").encode()))
    site.pages["/"] = html("Home")
    site.pages["/one"] = html("One")

    for word in ("new", "unchanged"):
        crawl(site.url("/"))
        assert crawl.outcomes()["/one"] == word
    assert crawl.runs()[0]["complete"]


def test_entries_out_of_scope_are_not_followed(site: Site, other: Site, crawl: Crawl):
    other.pages["/x"] = html("Elsewhere")
    site.pages["/robots.txt"] = robots("/map.xml")
    site.pages["/map.xml"] = xml(urlset(other.url("/x"), "/one"))
    site.pages["/"] = html("Home")
    site.pages["/one"] = html("One")

    crawl(site.url("/"))

    assert other.log == []
    assert crawl.outcomes()["/one"] == "new"


def test_an_excluded_sitemap_vouches_for_its_pages_while_it_is_held(mapped: Site, crawl: Crawl):
    crawl(mapped.url("/"))
    mapped.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /map\nSitemap: /map.xml\n")

    crawl(mapped.url("/"), settings=SOON)

    assert recorded(crawl)[0] == "excluded"
    assert crawl.outcomes()["/one"] == "unchanged"


# What was left out is known to later runs


def test_what_does_not_fit_into_a_sitemap_keeps_every_run_incomplete(
    site: Site, crawl: Crawl, most: int
):
    """Else the held pages at its end would age in runs that answer 304."""
    site.pages["/robots.txt"] = robots("/map.xml")
    site.pages["/"] = html("Home", *(f"/linked/{n}" for n in range(9)))
    site.pages |= {f"/linked/{n}": html(f"Page {n}") for n in range(9)}
    site.pages["/last"] = html("The last")
    site.pages["/map.xml"] = xml(urlset("/last"))
    crawl(site.url("/"), settings=SOON)
    many = [f"https://other.example/{n}" for n in range(most)]
    site.pages["/map.xml"] = xml(urlset(*many, "/last"))

    for _ in range(3):
        crawl(site.url("/"), settings=SOON, expect=3)
        assert reasons(crawl) == [f"too_many_urls: {site.url('/map.xml')}"]
    assert crawl.pages()["/map.xml"]["lastStatusCode"] == 304
    assert crawl.hits("last") == ["/last"]

    site.pages["/map.xml"] = xml(urlset("/last"))
    crawl(site.url("/"), settings=SOON)
    assert crawl.outcomes()["/last"] == "unchanged"


def test_a_sitemap_that_sank_too_deep_keeps_every_run_incomplete(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("/1.xml")
    site.pages["/1.xml"] = xml(index("/4.xml"))
    site.pages["/4.xml"] = xml(urlset("/one"))
    site.pages["/"] = html("Home")
    site.pages["/one"] = html("One")
    crawl(site.url("/"), settings=SOON)
    for level in (1, 2, 3):
        site.pages[f"/{level}.xml"] = xml(index(f"/{level + 1}.xml"))

    for _ in range(4):
        crawl(site.url("/"), settings=SOON, expect=3)
        assert reasons(crawl) == [f"sitemap_nesting: {site.url('/4.xml')}"]
    assert crawl.hits("one") == ["/one"]


def test_a_raised_budget_counts_although_nothing_changed(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(6)))
    site.pages |= {f"/{n}": html(f"Page {n}") for n in range(6)}

    for _ in range(2):
        crawl(site.url("/"), settings={"HOST_URL_BUDGET": 3}, expect=3)
        assert len(crawl.outcomes()) == 3
        assert [reason.partition(":")[0] for reason in reasons(crawl)] == ["host_budget"]
    crawl(site.url("/"))

    assert len(crawl.outcomes()) == 7
    assert crawl.runs()[0]["complete"]


# What is at once one thing and another


def test_a_page_that_is_not_indexed_stays_a_page_when_it_is_named(site: Site, crawl: Crawl):
    """Such as a site map for people, with noindex, in robots.txt."""
    noindex = '<meta name="robots" content="noindex">'
    site.pages["/robots.txt"] = robots("/overview")
    site.pages["/"] = html("Home")
    site.pages["/a"], site.pages["/b"] = html("A"), html("B")
    site.pages["/overview"] = html("Overview", "/a", head=noindex)
    crawl(site.url("/"))
    assert crawl.outcomes()["/a"] == "new"
    site.pages["/overview"] = html("Overview", "/a", "/b", head=noindex)

    crawl(site.url("/"))
    assert crawl.outcomes()["/b"] == "new"
    assert crawl.pages()["/b"]["depth"] == 1
    assert crawl.runs()[0]["complete"]

    site.pages["/overview"] = html("Overview", "/a", "/b")
    crawl(site.url("/"))
    assert crawl.outcomes()["/overview"] == "new"


def test_a_text_that_was_indexed_is_read_as_the_sitemap_that_it_is_named(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/list.txt")
    site.pages["/list.txt"] = Page(site.url("/one"), content_type="text/plain")
    site.pages["/one"] = html("One")
    crawl(site.url("/"))
    assert crawl.outcomes() == {"/": "new", "/list.txt": "new"}

    crawl(site.url("/"), sitemap=site.url("/list.txt"), expect=None)

    assert crawl.outcomes()["/one"] == "new"


def test_a_given_sitemap_that_is_a_page_is_told(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/map")
    site.pages["/map"] = html("Map")
    crawl(site.url("/"))

    crawl(site.url("/"), sitemap=site.url("/map"), expect=3)

    assert reasons(crawl) == [f"sitemap_failed: {site.url('/map')} (it is a page)"]


def test_a_sitemap_that_redirects_nowhere_is_told(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("/index.xml")
    site.pages["/index.xml"] = xml(index("/s.xml", "/circle.xml"))
    site.pages["/"] = html("Home", *(f"/linked/{n}" for n in range(30)))
    site.pages |= {f"/linked/{n}": html(f"Page {n}") for n in range(30)}
    site.pages["/s.xml"] = Page(redirect="/t.xml")
    site.pages["/t.xml"] = xml(urlset("/one"))
    site.pages["/one"] = html("One")
    crawl(site.url("/"), settings=SOON, expect=None)
    assert crawl.outcomes()["/one"] == "new"
    site.pages["/s.xml"] = Page(redirect="http://elsewhere.example/t.xml")
    site.pages["/circle.xml"] = Page(redirect="/circle2.xml")
    site.pages["/circle2.xml"] = Page(redirect="/circle.xml")

    for _ in range(3):
        crawl(site.url("/"), settings=SOON, expect=3)
        failed = {reason.split(" (")[0] for reason in reasons(crawl)}
        assert f"sitemap_failed: {site.url('/s.xml')}" in failed
        assert f"sitemap_failed: {site.url('/circle.xml')}" in failed
    assert crawl.hits("one") == ["/one"]


# llms.txt

LLMS = {"LLMS_TXT": 1}


def llms(*paths: str, content_type: str = "text/plain") -> Page:
    links = "".join(f"- [Page]({path}): a page\n" for path in paths)
    return Page(f"# Site\n\n> About it\n\n## Docs\n\n{links}", content_type=content_type)


@pytest.fixture
def written(site: Site) -> Site:
    """A home page that links nowhere, and an llms.txt of two pages."""
    site.pages["/"] = html("Home", text="the home page of it all")
    site.pages["/llms.txt"] = llms("/one", "two.html", "http://b.example/", "file:///etc/passwd")
    for path in ("/one", "/two.html"):
        site.pages[path] = html(path, text=f"the text of {path}")
    return site


@pytest.mark.covers("M-47")
def test_pages_that_only_an_llms_txt_names_are_found_and_it_is_no_page(written: Site, crawl: Crawl):
    crawl(written.url("/"))
    assert (written.count("/llms.txt"), crawl.outcomes().keys()) == (0, {"/"})

    result = crawl(written.url("/"), settings=LLMS)

    assert crawl.outcomes()["/one"] == crawl.outcomes()["/two.html"] == "new"
    assert recorded(crawl, "/llms.txt") == (
        "excluded",
        200,
        "not indexed: an llms.txt of 3 addresses",
    )
    assert "1 sitemap or feed with 3 addresses" in result.out
    assert crawl.runs()[0]["complete"]
    assert crawl.counts_add_up()
    written.clear()

    crawl(written.url("/"), settings=LLMS)

    statuses = {request.path: request.status for request in written.log}
    assert {path: statuses[path] for path in ("/llms.txt", "/one", "/two.html")} == {
        "/llms.txt": 304, "/one": 304, "/two.html": 304,
    }  # fmt: skip


@pytest.mark.parametrize(
    "page",
    [
        Page(status=404),
        Page(html("Oh", text="no such page is here, look elsewhere"), content_type="text/html"),
        Page(redirect="/"),
        Page(b"\x00\x01\xff", content_type="application/octet-stream"),
        Page("# nothing", content_type="text/plain"),
    ],
    ids=["absent", "html", "to-the-home-page", "binary", "no-links"],
)
def test_a_site_without_an_llms_txt_lacks_nothing(written: Site, crawl: Crawl, page: Page):
    written.pages["/llms.txt"] = page

    crawl(written.url("/"), settings=LLMS)

    assert crawl.runs()[0]["complete"], reasons(crawl)
    assert crawl.outcomes()["/"] == "new"
    assert "/llms.txt" not in crawl.hits("home OR page OR elsewhere")


def test_pages_of_an_llms_txt_that_fails_live_on(written: Site, crawl: Crawl):
    crawl(written.url("/"), settings=LLMS)
    written.pages["/llms.txt"] = Page(status=500)

    for _ in range(3):
        crawl(written.url("/"), settings=SOON | LLMS | {"RETRY_TIMES": 0}, expect=3)

    assert crawl.hits("two") == ["/two.html"]
    assert crawl.outcomes()["/two.html"] == "unchanged"


def test_an_llms_txt_that_robots_forbids_is_not_asked(written: Site, crawl: Crawl):
    written.pages["/robots.txt"] = Page(
        "User-agent: *\nDisallow: /llms.txt\n", content_type="text/plain"
    )

    crawl(written.url("/"), settings=LLMS)

    assert written.count("/llms.txt") == 0
    assert "/one" not in crawl.outcomes()
    assert crawl.runs()[0]["complete"], reasons(crawl)


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (Page(status=500), "HTTP status 500"),
        (llms(*("/one",) * 100_000), "has more than 2,097,152 bytes"),
    ],
    ids=["error", "large"],
)
def test_an_llms_txt_that_fails_and_never_was_read_is_a_gap(
    written: Site, crawl: Crawl, page: Page, why: str
):
    written.pages["/llms.txt"] = page

    crawl(written.url("/"), settings=LLMS | {"RETRY_TIMES": 0}, expect=3)

    [failed] = [reason for reason in reasons(crawl) if reason.startswith("sitemap_failed")]
    assert written.url("/llms.txt") in failed
    assert why in failed


def test_an_llms_txt_may_be_given_like_a_sitemap(written: Site, crawl: Crawl):
    written.pages["/docs/llms.txt"] = llms("/one")

    crawl(written.url("/"), sitemap=written.url("/docs/llms.txt"))

    assert crawl.hits("one") == ["/one"]

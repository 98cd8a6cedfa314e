"""What is ordered is fetched whole and indexed anew, once, whatever its validators say."""

import json

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html


def requests(site: Site) -> dict[str, bool]:
    """Whether each page was asked with validators."""
    return {r.path: "if-none-match" in r.headers for r in site.log if not r.path.endswith(".txt")}


@pytest.fixture
def shop(site: Site, crawl: Crawl) -> Site:
    site.pages["/"] = html("Home", "/a", "/b")
    site.pages["/a"] = html("A", text="text of a")
    site.pages["/b"] = html("B", text="text of b")
    crawl(site.url("/"))
    site.clear()
    return site


def ordered(crawl: Crawl, *args: str, expect: int = 0) -> list[dict[str, object]]:
    told = json.loads(crawl.run("reindex", *args, "--format", "json", expect=expect).out)
    found: list[dict[str, object]] = told["ordered"]
    return found


@pytest.mark.covers("R0-06", "R0-51", "R0-56", "R0-98", "M-13")
def test_a_page_is_fetched_whole_once(shop: Site, crawl: Crawl):
    (told,) = ordered(crawl, "--url", shop.url("/a"))
    assert told["url"] == shop.url("/a")
    before = crawl.pages()["/a"]["lastChanged"]

    crawl.run("due")
    assert requests(shop) == {"/a": False}
    assert crawl.outcomes()["/a"] == "unchanged"
    assert crawl.pages()["/a"]["lastChanged"] == before
    shop.clear()
    crawl(shop.url("/"))
    assert requests(shop) == {"/": True, "/a": True, "/b": True}


@pytest.mark.covers("R0-67", "R0-87", "R0-88")
def test_a_known_page_that_failed_waits_again_and_stays_a_seed(shop: Site, crawl: Crawl):
    page, shop.pages["/a"] = shop.pages["/a"], Page("", status=500)
    crawl(shop.url("/"), settings={"RETRY_TIMES": 0}, expect=None)
    assert crawl.pages()["/a"]["status"] == "Error"
    shop.pages["/a"] = page

    (told,) = ordered(crawl, "--url", shop.url("/a"))

    assert told["registered"] is False
    assert crawl.pages()["/a"]["status"] == "Pending"
    assert crawl.rows("SELECT r.url FROM pin JOIN record r USING (no)") == [(shop.url("/a"),)]
    crawl.run("due", expect=None)
    assert crawl.pages()["/a"]["status"] == "Indexed"


@pytest.mark.covers("R0-54", "R0-55", "R0-70", "R0-98")
def test_pages_are_meant_by_id_pattern_and_source(shop: Site, crawl: Crawl):
    name = shop.url("/")[7:-1]
    key = crawl.pages()["/b"]["id"]

    assert [one["url"] for one in ordered(crawl, "--id", key)] == [shop.url("/b")]
    assert [one["url"] for one in ordered(crawl, "--pattern", "/[ab]$")] == [
        shop.url("/a"), shop.url("/b"),
    ]  # fmt: skip
    assert len(ordered(crawl, "--source", name)) == 3
    crawl(shop.url("/"))
    assert requests(shop) == {"/": False, "/a": False, "/b": False}


def test_a_dry_run_orders_nothing(shop: Site, crawl: Crawl):
    result = crawl.run("reindex", "--pattern", "/a", "--dry-run")
    assert "would order" in result.out
    assert "1 page would be fetched" in result.out
    assert ordered(crawl, "--url", shop.url("/new"), "--dry-run")[0]["registered"] is True

    crawl.run("due")
    assert requests(shop) == {}
    assert len(crawl.records()) == 3


@pytest.mark.covers("R0-57", "R0-67", "R0-88", "RD-16")
def test_an_address_that_nobody_knew_is_registered_and_stays(shop: Site, crawl: Crawl):
    shop.pages["/island"] = html("Island", text="nobody links here")
    (told,) = ordered(crawl, "--url", shop.url("/island"))
    assert told["registered"] is True
    assert crawl.pages()["/island"]["status"] == "Pending"

    crawl.run("due")
    assert requests(shop) == {"/island": False}
    assert crawl.hits('"nobody links here"') == ["/island"]
    for _ in range(4):
        crawl(shop.url("/"))
    assert crawl.hits('"nobody links here"') == ["/island"]


@pytest.mark.covers("R0-100")
def test_a_gone_page_that_was_ordered_is_asked_once(shop: Site, crawl: Crawl):
    shop.pages["/a"] = Page("", status=404)
    ordered(crawl, "--url", shop.url("/a"))
    crawl.run("due", expect=None)
    crawl.run("due", expect=None)

    assert [r.path for r in shop.log] == ["/robots.txt", "/a"]


@pytest.mark.parametrize(
    ("args", "status", "told"),
    [
        ((), 2, "give pages: --url URL"),
        (("--url", "ftp://x/"), 1, "expected an http or https address"),
        (("--url", "http://elsewhere.example/"), 1, "in the scope of no source"),
        (("--url", "{site}/a.zip"), 1, "its sources leave it out"),
        (("--url", "{site}/a.zip"), 1, "files of type .zip are skipped"),
        (("--id", "url_1"), 1, "is not an id"),
        (("--id", "url_" + "a" * 26), 1, "is not known"),
        (("--pattern", "(("), 1, "not a regular expression"),
        (("--pattern", "nowhere"), 0, "no stored page matches"),
        (("--source", "nobody"), 1, "no source is called"),
    ],
)
def test_what_cannot_be_meant_is_told(shop: Site, crawl: Crawl, args, status, told):
    given = [arg.replace("{site}/", shop.url("/")) for arg in args]
    result = crawl.run("reindex", *given, expect=status)

    assert told in result.err


PRIVATE = Page("User-agent: *\nDisallow: /private/\n", content_type="text/plain")


@pytest.fixture
def forbidding(shop: Site, crawl: Crawl) -> str:
    """An address that the stored robots.txt forbids."""
    shop.pages["/robots.txt"] = PRIVATE
    shop.pages["/private/a"] = html("Private", text="private words")
    crawl(shop.url("/"))
    return shop.url("/private/a")


def test_an_address_that_robots_txt_forbids_is_ordered_with_a_note(forbidding: str, crawl: Crawl):
    dry = crawl.run("reindex", "--url", forbidding, "--dry-run")
    result = crawl.run("reindex", "--url", forbidding, "--format", "json")
    allowed = crawl.run("reindex", "--url", forbidding.replace("private", "open"))

    why = "but no run may fetch it: disallowed by robots.txt, line 2: 'Disallow: /private/'."
    until = "Until robots.txt allows it, each run of its source"
    would, does = (" ".join(one.err.split()) for one in (dry, result))
    assert would == f"note: {forbidding} would be ordered, {why} {until} would end incomplete."
    assert does == (
        f"note: {forbidding} is ordered, {why} {until} ends incomplete. To cancel the "
        f"order: scrapy forget {forbidding}"
    )
    assert json.loads(result.out)["ordered"][0]["registered"] is True
    assert allowed.err == ""


def test_a_run_names_the_pinned_address_that_robots_txt_forbids(
    shop: Site, forbidding: str, crawl: Crawl
):
    crawl.run("reindex", "--url", forbidding)

    shown = " ".join(crawl(shop.url("/"), expect=3).out.split())

    assert f"not complete: pin_failed: {forbidding} (disallowed by " in shown
    assert "added by hand; to drop it: scrapy forget URL)" in shown
    crawl.run("forget", forbidding)
    crawl(shop.url("/"))
    assert crawl.runs()[0]["complete"]

"""Walls, logins, collapsed content, soft 404s: what answers instead takes nothing away."""

import json

import pytest

from tests.crawls.commands import Crawl
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, html

LONG = "These are the words of a page that has a lot to say about lamps and fuses. " * 10
WALL = (
    "<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>"
    '<script src="/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1"></script>'
    "<noscript>Enable JavaScript and cookies to continue</noscript></body></html>"
)
LOGIN = html("Sign in", text="Who are you?").replace(
    "</main>", "<form><input name=user><input type=password></form></main>"
)


@pytest.fixture
def shop(site: Site, crawl: Crawl) -> Site:
    site.pages["/"] = html("Home", "/a", *(f"/p{n}" for n in range(20)))
    site.pages["/a"] = html("A", "/b", text=LONG)
    site.pages["/b"] = html("B", text="the text of b")
    for n in range(20):
        site.pages[f"/p{n}"] = html(f"Page {n}", text=f"text {n}")
    crawl(site.url("/"))
    return site


@pytest.mark.parametrize(
    ("page", "status", "word"),
    [
        (Page(WALL), 1212, "challenge"),
        (Page(WALL, status=403), 1212, "challenge"),
        (Page("", status=403, headers={"cf-mitigated": "challenge"}), 1212, "challenge"),
        (Page(LOGIN), 1213, "login"),
    ],
)
def test_what_stands_in_for_a_page_takes_nothing_away(shop: Site, crawl: Crawl, page, status, word):
    shop.pages["/a"] = page
    whole = word != "login"  # a page with content that is behind a login leads to others unseen
    result = crawl(shop.url("/"), expect=0 if whole else 3)

    record = crawl.pages()["/a"]
    assert (record["status"], record["httpStatusCode"], record["lastOutcome"]) == (
        "Error", status, "failed",
    )  # fmt: skip
    assert record["lostCount"] == 0
    assert crawl.hits('"lamps and fuses"') == ["/a"]
    assert crawl.hits('"text of b"') == ["/b"]  # its links are in force
    assert f"{word}: 1 page, {shop.url('/a')}" in result.out
    assert crawl.runs()[0]["complete"] is whole
    assert "instead of the page" in record["errorMessage"]


def test_a_wall_is_never_indexed_and_before_everything_the_run_is_incomplete(
    shop: Site, crawl: Crawl
):
    for path in list(shop.pages):
        shop.pages[path] = Page(WALL)
    shop.pages["/new"] = Page(WALL)
    crawl(shop.url("/"), expect=3)

    assert len(crawl.hits("text")) == 21
    assert crawl.hits("JavaScript") == []


def test_what_three_runs_find_collapsed_is_believed(shop: Site, crawl: Crawl):
    shop.pages["/p1"] = html("Page 1", text=f"one {LONG}")
    crawl(shop.url("/"))
    shop.pages["/a"] = shop.pages["/p1"] = html("A", text="Under construction")
    for _ in range(2):
        crawl(shop.url("/"))
        assert crawl.hits('"lamps and fuses"') == ["/a", "/p1"]
    crawl(shop.url("/"))

    assert crawl.hits('"Under construction"') == ["/a"]
    assert (crawl.outcomes()["/a"], crawl.outcomes()["/p1"]) == ("modified", "clone")


@pytest.mark.covers("M-13")
def test_an_order_is_believed_at_once(shop: Site, crawl: Crawl):
    shop.pages["/a"] = html("A", text="Under construction")
    crawl.run("reindex", "--url", shop.url("/a"))
    crawl(shop.url("/"))

    assert crawl.hits('"Under construction"') == ["/a"]


def test_a_wall_lets_no_orphan_go(shop: Site, crawl: Crawl):
    shop.pages["/a"] = html("A", text=LONG)  # b is linked no more
    for _ in range(2):
        crawl(shop.url("/"))
    shop.pages["/b"] = Page(WALL)
    for _ in range(3):
        crawl(shop.url("/"))

    assert crawl.hits('"text of b"') == ["/b"]


# Soft 404


def soft(path: str) -> Page:
    text = f"Sorry, we could not find {path}. Try the search, or begin again at our home page."
    return Page(html("Nothing here", text=text))


class SoftSite(LabSite):
    """Answers 200 for whatever it does not have."""

    def _page(self, path: str) -> Page | None:
        return super()._page(path) or (None if path == "/robots.txt" else soft(path))


@pytest.fixture
def soft_site(crawl: LabCrawl) -> SoftSite:
    crawl.web.sites[:] = [site := SoftSite()]
    return site


def test_a_200_that_says_not_found_is_not_found(soft_site: Site, crawl: Crawl):
    crawl.environment["SOFT_404_DETECTION"] = "1"
    site = soft_site
    site.pages["/"] = html("Home", "/a", "/b", "/gone", *(f"/p{n}" for n in range(9)))
    for path in ("/a", "/b", *(f"/p{n}" for n in range(9))):
        site.pages[path] = html(path, text=f"the text of {path}")
    crawl(site.url("/"))
    probes = [r.path for r in site.log if "does-this-exist" in r.path]
    assert len(probes) == 1
    assert crawl.outcomes()["/gone"] == "failed"
    assert crawl.hits('"could not find"') == []

    del site.pages["/b"]
    crawl(site.url("/"))
    assert crawl.outcomes()["/b"] == "lost"
    assert crawl.pages()["/b"]["goneCount"] == 1
    assert crawl.hits('"the text of /b"') == ["/b"]
    for _ in range(2):
        crawl(site.url("/"))
    assert crawl.outcomes()["/b"] == "gone"
    assert len([r for r in site.log if "does-this-exist" in r.path]) == 1  # once a week
    site.pages["/b"] = html("/b", text="the text of b again")
    crawl(site.url("/"))
    assert crawl.hits('"the text of b again"') == ["/b"]


def test_a_host_that_says_404_is_asked_once_and_loses_nothing(shop: Site, crawl: Crawl):
    crawl.environment["SOFT_404_DETECTION"] = "1"
    shop.clear()
    for n in range(2):
        shop.pages["/b"] = html("Nothing here", text=f"could not find the page {n}, sorry")
        crawl(shop.url("/"))

    assert len([r for r in shop.log if "does-this-exist" in r.path]) == 1
    assert crawl.outcomes()["/b"] == "modified"


def test_who_answers_everything_with_one_page_keeps_its_home(soft_site: Site, crawl: Crawl):
    crawl.environment["SOFT_404_DETECTION"] = "1"
    site = soft_site
    site.pages["/"] = soft("/")
    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "new"}


def test_robots_may_forbid_the_question(soft_site: Site, crawl: Crawl):
    crawl.environment["SOFT_404_DETECTION"] = "1"
    site = soft_site
    rules = "User-agent: *\nDisallow: /smartcrawl-does"
    site.pages["/robots.txt"] = Page(rules, content_type="text/plain")
    site.pages["/"] = html("Home", "/gone")
    crawl(site.url("/"))

    assert not [r for r in site.log if "does-this-exist" in r.path]
    assert crawl.outcomes()["/gone"] == "new"
    assert json.loads(crawl.run("runs", "--format", "json").out)[0]["complete"] is True


def test_a_login_form_in_place_of_a_short_page_is_an_edit_until_the_page_is_back(
    site: Site, crawl: Crawl
):
    """What docs/howto/login-wall.md says is taken for an edit, and how the text comes back."""
    form = "<form><input type=password> Please sign in to read this note.</form></main>"
    site.pages["/"] = html("Home", "/note")
    site.pages["/note"] = html("Note", text="The spare fuse is in the lid.")
    crawl(site.url("/"))
    site.pages["/note"] = html("Note").replace("</main>", form)

    crawl(site.url("/"))

    assert crawl.outcomes()["/note"] == "modified"
    assert crawl.hits("fuse") == []

    site.pages["/note"] = html("Note", text="The spare fuse is in the lid.")
    crawl.run("reindex", "--url", site.url("/note"))
    crawl(site.url("/"))

    assert crawl.outcomes()["/note"] == "modified"
    assert crawl.hits("fuse") == ["/note"]


def test_a_foreign_page_status_never_reaches_the_index(site: Site, crawl: Crawl):
    """RD-05: error pages have bodies, too; none of them is content."""
    site.pages["/"] = html("Home", "/404", "/500", "/403")
    for status in (404, 500, 403):
        site.pages[f"/{status}"] = Page(html("Sorry", "/never", text="apology"), status=status)

    crawl(site.url("/"), settings={"RETRY_TIMES": 0}, expect=3)  # more than 10 % were 5xx

    assert crawl.hits("apology") == []
    assert site.count("/never") == 0

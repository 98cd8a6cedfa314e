"""Session ids: no part of an address; and traps, whose reasons stay while their pages stand."""

import re
from itertools import count

import pytest

from tests.crawls.commands import Crawl
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, html

DUE = {"RECRAWL_POLICY": "due"}


class Container(LabSite):
    """A servlet container, which writes a new session id into each link of each answer."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions = count(1)

    def _page(self, path: str) -> Page | None:
        known = super()._page(re.sub(r";jsessionid=\w+|[?&]PHPSESSID=\w+", "", path))
        if not isinstance(known, Page) or path == "/robots.txt":
            return known
        body = str(known.body).replace("SESSION", f"{next(self.sessions):032X}")
        return Page(body, etag=known.etag)


def page(title: str, *links: str, text: str = "") -> str:
    """A page whose text does not have the addresses of its links."""
    entries = "".join(f'<li><a href="{link}">see</a></li>' for link in links)
    return html(title, text=text).replace("</body>", f"<ul>{entries}</ul></body>")


def linked(site: Site) -> dict[str, str]:
    """The requests of pages: as they were asked, by their address without a session id."""
    return {
        request.path.partition(";")[0].partition("?")[0]: request.path
        for request in site.log
        if request.path != "/robots.txt"
    }


@pytest.mark.covers("R0-15", "R4-35")
def test_a_page_is_one_whatever_session_id_leads_to_it(crawl: LabCrawl):
    """With all links carrying ids, each page is asked with validators, and edits are seen."""
    crawl.web.sites[:] = [site := Container()]
    site.pages["/"] = page("Home", "/a;jsessionid=SESSION", "/b?PHPSESSID=SESSION")
    site.pages["/a"] = Page(page("A", "/c;jsessionid=SESSION", text="words of a"), etag='"a"')
    site.pages["/b"] = Page(html("B", text="words of b"), etag='"b"')
    site.pages["/c"] = Page(html("C", text="words of c"), etag='"c"')
    crawl(site.url("/"))
    assert all(re.search(r"=\w{32}$", asked) for at, asked in linked(site).items() if at != "/")

    site.clear()
    site.pages["/b"] = Page(html("B", text="edited words"), etag='"b2"')
    crawl(site.url("/"))

    assert crawl.outcomes() == {
        "/": "unchanged", "/a": "unchanged", "/b": "modified", "/c": "unchanged"
    }  # fmt: skip
    asked = linked(site)
    assert re.fullmatch(r"/a;jsessionid=\w{32}", asked["/a"])  # as this run linked it
    assert asked["/c"] == "/c"  # a 304 brought its link, without an id
    tags = {r.path[:2]: r.headers.get("if-none-match") for r in site.log if r.path != "/"}
    assert (tags["/a"], tags["/b"], tags["/c"]) == ('"a"', '"b"', '"c"')
    assert len(crawl.records()) == 4
    for run in (
        crawl.rows("SELECT url FROM record"),
        crawl.rows("SELECT identity FROM record"),
    ):
        assert not [url for (url,) in run if url and "=" in url]
    assert "/b" in crawl.run("why", site.url("/b?PHPSESSID=7")).out


@pytest.mark.covers("R0-15", "R0-77")
def test_patterns_and_robots_concern_both_forms(crawl: LabCrawl):
    """A pattern may name the id, or the address without it; robots.txt only the id."""
    crawl.web.sites[:] = [site := Container()]
    links = [f"/{name};jsessionid=SESSION" for name in ("a", "b", "c")]
    site.pages["/"] = Page(html("Home", *links, "/d?PHPSESSID=SESSION"))
    site.pages |= {f"/{name}": html(name) for name in "abcd"}
    site.pages["/robots.txt"] = Page(
        "User-agent: *\nDisallow: /*PHPSESSID", content_type="text/plain"
    )
    crawl.declare(
        f'[sources.s]\nseeds = ["{site.url("/")}"]\nexcluded_patterns = ["/a;jsessionid=", "/b$"]\n'
    )
    for _ in range(2):
        crawl(source="s")

    assert set(crawl.outcomes()) == {"/", "/c", "/d"}
    assert linked(site)["/d"] == "/d"
    crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\n')
    site.pages["/"] = Page(html("Home", *links), etag='"stays"')
    for _ in range(2):
        crawl(source="s")
    assert set(crawl.outcomes()) == {"/", "/a", "/b", "/c", "/d"}


def test_a_redirect_that_adds_a_session_id_is_one_visit(site: Site, crawl: Crawl):
    session = "/a;jsessionid=0123456789ABCDEF"
    site.pages["/"] = html("Home", "/a")
    site.pages |= {"/a": Page(redirect=session), session: html("A", text="words of a")}
    for status in (200, 304):
        site.clear()
        crawl(site.url("/"))
        assert [r.status for r in site.log if r.path == session] == [status]
    assert crawl.hits('"words of a"') == ["/a"]
    assert set(crawl.pages()) == {"/", "/a"}


# Traps


def test_the_reason_of_a_trap_is_repeated_while_its_page_stands(site: Site, crawl: Crawl):
    """By a 304, by a crawl in which the page is not due, and by another page with that link."""
    trap = "/calendar/2099/05/"
    site.pages["/"] = html("Home", "/a", "/b", trap)
    site.pages["/a"] = html("A", trap, text="a")
    site.pages["/b"] = html("B", "/" + "l" * 2083, text="b")

    def reasons(expect: int = 3) -> list[str]:
        crawl(site.url("/"), expect=expect)
        return [reason.partition(":")[0] for reason in crawl.runs()[0]["reasons"]]

    assert reasons() == ["calendar", "url_too_long"]
    assert reasons() == ["calendar", "url_too_long"]
    assert set(crawl.outcomes().values()) == {"unchanged"}
    crawl(site.url("/"), settings=DUE, expect=None)
    assert {"calendar", "url_too_long"} <= {
        reason.partition(":")[0] for reason in crawl.runs()[0]["reasons"]
    }
    site.pages["/"] = html("Home", "/a", "/b")
    site.pages["/b"] = html("B", text="b")
    reasons()
    assert reasons() == ["calendar"]  # of /a alone, which answers 304
    site.pages["/a"] = html("A", text="a")
    assert reasons(0) == []


def test_session_ids_of_earlier_runs_do_not_count(site: Site, crawl: Crawl):
    """Under a name that other ids have, too, each id is an address; 20 of a page are followed."""

    def home(first: int, many: int) -> str:
        return html("Home", *(f"/s?sid=a{n:031}" for n in range(first, first + many)))

    site.pages |= {"/s": html("S", text="words"), "/": home(0, 15)}
    crawl(site.url("/"))
    site.pages["/"] = home(15, 15)
    crawl(site.url("/"))
    assert crawl.runs()[0]["complete"]

    site.pages["/"] = home(20, 21)  # ten of them are known
    crawl(site.url("/"), expect=3)
    assert [reason.partition(",")[0] for reason in crawl.runs()[0]["reasons"]] == [
        "session_id: 1 address"
    ]
    crawl(site.url("/"), expect=3)
    assert crawl.runs()[0]["reasons"][0].startswith("session_id: 1 address, ")

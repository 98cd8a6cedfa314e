"""Attacks on what is secret: passwords and tokens in addresses, validators, cookies."""

import json
from datetime import UTC, datetime

import pytest

from tests.crawls.commands import Crawl, Result
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=2)

SECRET = "CANARY"
_QUICK: dict[str, object] = {"RETRY_TIMES": 0, "LOG_LEVEL": "DEBUG"}
#: What a server may be told of us; nothing else is sent.
_HEADERS = {"host", "user-agent", "accept", "accept-language", "accept-encoding"}
_CONDITIONS = {"if-none-match", "if-modified-since"}
#: A query with parameters whose names say that they are secret.
_QUERY = "&".join(
    f"{name}={SECRET}"
    for name in ("sig", "token", "access_token", "X-Amz-Signature", "password", "api_key")
)


def places(crawl: Crawl, *results: Result) -> set[str]:
    """Return where the secret was left: what was printed, each file, each table."""
    found = {"printed" for result in results if SECRET in result.out + result.err}
    return found | {name for name, content in crawl.written() if SECRET.encode() in content}


def test_user_information_of_sitemaps_is_neither_sent_nor_left_anywhere(site: Site, crawl: Crawl):
    """ATT-13, ATT-18: of the sitemap itself, of what it lists, and of what a feed lists."""
    ours = site.url("").replace("://", f"://user:{SECRET}@")
    user_only = site.url("").replace("://", f"://{SECRET}@")
    maps = [f"{ours}/pages.xml", f"{user_only}/feed.xml", f"{ours}/broken.xml"]
    listed = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in maps)
    site.pages["/index.xml"] = Page(f"<sitemapindex>{listed}</sitemapindex>")
    site.pages["/pages.xml"] = Page(f"<urlset><url><loc>{ours}/a</loc></url></urlset>")
    site.pages["/feed.xml"] = Page(
        f"<rss><channel><item><link>{ours}/b</link></item></channel></rss>"
    )
    site.pages["/broken.xml"] = Page(status=302, redirect=f"{ours}/gone.xml")
    for path in ("/index.xml", "/pages.xml", "/feed.xml"):
        site.pages[path] = Page(site.pages[path].body, content_type="text/xml")
    site.pages |= {path: html(path) for path in ("/a", "/b")}

    results = [
        crawl(sitemap=site.url("/index.xml"), settings=_QUICK, force=force, expect=None)
        for force in (0, 1)
    ]

    words = {path: page["lastOutcome"] for path, page in crawl.pages().items()}
    assert (words["/a"], words["/b"]) == ("unchanged", "unchanged")
    assert [site.count(path) for path in ("/a", "/b", "/gone.xml")] == [2, 2, 2]
    assert not any("authorization" in request.headers for request in site.log)
    assert all(SECRET not in request.path for request in site.log)
    assert places(crawl, *results) == set()


def test_what_one_server_gave_is_never_sent_to_another(site: Site, crawl: Crawl):
    """ATT-15, ATT-16, ATT-17: validators, cookies, passwords, and where we come from."""
    with Site() as other:
        date = datetime(2026, 1, 1, tzinfo=UTC)
        cookies = {"Set-Cookie": f"session={SECRET}; Path=/; Max-Age=99999"}
        kept = Page(html("Kept"), etag=f'"{SECRET}"', last_modified=date, headers=cookies)
        rules = Page("User-agent: *\nDisallow:\n", etag=f'"{SECRET}"', last_modified=date)
        ours = site.url("").replace("://", f"://user:{SECRET}@")
        site.pages["/robots.txt"] = rules
        site.pages["/"] = Page(html("Home", f"{ours}/a", other.url("/b")), headers=cookies)
        site.pages["/a"] = kept
        other.pages |= {"/a": html("A", text="elsewhere"), "/b": html("B", text="beta")}
        domains = json.dumps(["127.0.0.1"])
        crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\nallowed_domains = {domains}\n')
        settings = _QUICK | {"ALLOW_NETWORKS": "127.0.0.0/8"}
        crawl(source="s", settings=settings)
        site.pages["/robots.txt"] = Page(status=302, redirect=other.url("/robots.txt"))
        site.pages["/a"] = Page(status=301, redirect=other.url("/a"))
        other.pages["/robots.txt"] = "User-agent: *\nDisallow:\n"
        site.clear()

        crawl(source="s", settings=settings)

        [asked] = [request for request in site.log if request.path == "/a"]
        assert asked.headers["if-none-match"] == f'"{SECRET}"', "there was something to leak"
        assert asked.headers["if-modified-since"] == "Thu, 01 Jan 2026 00:00:00 GMT"
        assert other.count("/robots.txt") == 3
        [moved] = [request for request in other.log if request.path == "/a"]
        assert (moved.status, _CONDITIONS & moved.headers.keys()) == (200, set())
        for request in other.log:
            assert SECRET not in str(request)
        for request in site.log + other.log:
            assert request.headers.keys() <= _HEADERS | _CONDITIONS | {"connection"}, request
        words = {record["url"]: record["lastOutcome"] for record in crawl.records()}
        assert words[site.url("/a")] == "redirected"
        assert words[other.url("/a")] == "new"


def tokens(site: Site, crawl: Crawl) -> Result:
    """Crawl pages whose addresses hold tokens, and which go wrong in every way."""
    names = ("ok", "loop", "cut", "x/x/x/x")
    site.pages["/"] = html("Home", *(f"/{name}?{_QUERY}" for name in names))
    site.pages["/ok"] = html("Fine", text="fine")
    site.pages["/loop"] = Page(redirect=f"/loop?{_QUERY}")
    site.pages["/cut"] = Page(html("Cut"), fault="truncate")
    return crawl(site.url("/"), settings=_QUICK | {"RETRY_TIMES": 1}, expect=3)


def test_tokens_of_addresses_are_asked_for_and_never_logged(site: Site, crawl: Crawl):
    """ATT-14, ATT-18: whoever leaves them out asks for another page.

    What gives access is not kept either (ADR 26); what may only name a page is.
    """
    result = tokens(site, crawl)

    assert site.count(f"/ok?{_QUERY}") == 1
    assert crawl.hits("fine") == [f"/ok?sig={SECRET}&token={SECRET}"]
    assert "/cut?sig=…&token=…&" in result.err
    assert "/x/x/x/x?sig=…&token=…" in result.err
    assert SECRET not in result.err


def test_tokens_of_addresses_are_in_no_message(site: Site, crawl: Crawl):
    """ATT-14, ATT-18: the address is what is asked, and what is said of it is for people."""
    result = tokens(site, crawl)

    told = [record["errorMessage"] or "" for record in crawl.records()]
    told += crawl.runs()[0]["reasons"]
    assert any("in a circle" in message for message in told)
    assert any("path_repeat" in message for message in told)
    assert [message for message in told if SECRET in message] == []
    assert SECRET not in result.out

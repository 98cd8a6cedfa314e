"""Requirements that only whole runs can show, where no other test of a crawl says them."""

import gzip
import hashlib
import inspect
from pathlib import Path

import pytest

from smartcrawl.spiders.site import SiteSpider
from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html


@pytest.mark.covers("RD-03", "R1-38", "M-32")
def test_a_request_that_is_repeated_carries_the_same_validators_again(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/weak")
    site.pages["/weak"] = Page(html("Weak"), etag='W/"1"')
    crawl(site.url("/"))
    site.pages["/weak"] = Page(html("Weak"), etag='W/"1"', flaky=1)
    site.clear()

    crawl(site.url("/"), settings={"CRAWL_ERROR_BACKOFF_BASE": 1})

    asked = [request for request in site.log if request.path == "/weak"]
    assert [request.status for request in asked] == [503, 304]
    assert [request.headers.get("if-none-match") for request in asked] == ['W/"1"'] * 2
    assert crawl.outcomes()["/weak"] == "unchanged"


@pytest.mark.covers("RD-03", "RD-20")
def test_a_redirect_takes_no_header_of_the_page_along(site: Site, crawl: Crawl):
    """The target is a page of its own, with its own validators."""
    site.pages["/"] = html("Home", "/old")
    site.pages["/old"] = Page(html("Old", text="here"), etag='"old"')
    site.pages["/new"] = Page(html("New", text="there"), etag='"new"')
    crawl(site.url("/"))
    site.pages["/old"] = Page(redirect="/new")
    for sent in (None, '"new"'):
        site.clear()

        crawl(site.url("/"))

        [asked] = [request for request in site.log if request.path == "/new"]
        assert asked.headers.get("if-none-match") == sent


@pytest.mark.covers("RD-23")
def test_the_spider_starts_as_scrapy_asks():
    assert inspect.isasyncgenfunction(SiteSpider.start)
    assert not hasattr(SiteSpider, "start_requests")


@pytest.mark.covers("R0-58")
def test_robots_come_first_then_conditions_and_headers_and_bytes_are_captured(
    site: Site, crawl: Crawl
):
    """robots.txt before any page, HEAD and GET with validators, every header and byte stored."""
    rules = "User-agent: *\nDisallow: /private\n"
    site.pages["/robots.txt"] = Page(rules, content_type="text/plain", etag=None)
    site.pages["/"] = versioned(html("Home", "/page", "/private"), '"h"', "Mon")
    site.pages["/private"] = html("Private", text="not for crawlers")
    first, second = (html("Page", text=f"{words} ä") for words in ("first words", "other words"))
    site.pages["/page"] = versioned(first, '"1"', "Mon")
    crawl(site.url("/"))

    assert asked(site) == [("GET", "/robots.txt"), ("GET", "/"), ("GET", "/page")]
    assert captured(crawl, "/page") == wanted(first, '"1"', "Mon")
    assert crawl.pages()["/page"]["httpRobotsAllowed"] is True
    private = crawl.pages()["/private"]
    assert private["httpRobotsAllowed"] is False
    assert [private[key] for key in ("bodyHash", "httpEtag", "httpStatusCode")] == [None] * 3

    site.clear()
    crawl(site.url("/"), settings={"HEAD_POLICY": "always"})

    assert asked(site)[0] == ("GET", "/robots.txt")
    for path in ("/", "/page"):
        assert [request.method for request in site.log if request.path == path] == ["HEAD"]
    assert {r.status for r in site.log if r.method == "HEAD"} == {304}  # which needs no GET
    assert crawl.runs()[0]["notModified"] == 2
    assert crawl.runs()[0]["bytesDownloaded"] == 0
    assert captured(crawl, "/page") == wanted(first, '"1"', "Mon")

    site.pages["/page"] = versioned(second, '"2"', "Tue")
    site.clear()
    crawl(site.url("/"), settings={"HEAD_POLICY": "always"})

    sent = {name: site.log[-1].headers.get(name) for name in ("if-none-match", "if-modified-since")}
    assert asked(site)[-2:] == [("HEAD", "/page"), ("GET", "/page")]
    assert sent == {"if-none-match": '"1"', "if-modified-since": DAYS["Mon"]}
    assert captured(crawl, "/page") == wanted(second, '"2"', "Tue")


DAYS = {"Mon": "Mon, 05 Jan 2026 10:00:00 GMT", "Tue": "Tue, 06 Jan 2026 10:00:00 GMT"}


def versioned(body: str, etag: str, day: str) -> Page:
    return Page(body, etag=etag, last_modified=DAYS[day])


def asked(site: Site) -> list[tuple[str, str]]:
    return [(request.method, request.path) for request in site.log]


def wanted(body: str, etag: str, day: str) -> dict[str, object]:
    """What is stored of a page that was sent with this body and these headers."""
    raw = body.encode()
    return {
        "body": raw,
        "bodyHash": f"sha256:{hashlib.sha256(raw).hexdigest()}",
        "fileContentType": None,
        "httpContentLength": len(raw),
        "httpEtag": etag,
        "httpStatusCode": 200,
        "lastModifiedReceived": DAYS[day],
        "mimeType": "text/html",
    }


def captured(crawl: Crawl, path: str) -> dict[str, object]:
    """What is stored of a page; the body is that of its snapshot."""
    record = crawl.pages()[path]
    found: dict[str, object] = {key: record[key] for key in wanted("", "", "Mon") if key != "body"}
    ((place,),) = crawl.rows(
        f"SELECT storage_path FROM crawled_documents WHERE url = '{record['url']}'"
    )
    return found | {"body": gzip.decompress(Path(place.removeprefix("file://")).read_bytes())}

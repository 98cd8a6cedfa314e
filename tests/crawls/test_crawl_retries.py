"""RETRY_TIMES: how often an address is asked, whatever fails and whoever asks."""

from collections import Counter

import pytest

from tests.crawls.commands import Crawl
from tests.servers.processes import free_port
from tests.site_server import Page, Site, html

#: Failures that may pass, each with its answer.
FAILING = {
    "/reset": Page("no answer", fault="reset"),
    "/hang": Page("no answer", fault="hang"),
    "/cut": Page("half of it " * 50, fault="truncate"),
    "/500": Page("no", status=500),
    "/429": Page("no", status=429),
}
QUICK = {"DOWNLOAD_TIMEOUT": 1, "LOG_LEVEL": "WARNING"}


def counts(site: Site) -> Counter[str]:
    found = Counter(request.path for request in site.log)
    site.clear()
    return found


@pytest.mark.covers("M-32")
@pytest.mark.parametrize("lane", ["auto", "off"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_page_is_asked_once_more_than_retry_times_at_most(
    site: Site, crawl: Crawl, lane: str, times: int
):
    """A request that the lane or a kept connection lost counts like any other."""
    site.pages |= {path: html(path) for path in FAILING}
    site.pages["/"] = html("Home", *FAILING)
    crawl(site.url("/"))
    site.pages |= FAILING
    site.clear()

    settings = QUICK | {"RETRY_TIMES": times, "REVALIDATION_LANE": lane}
    crawl(site.url("/"), settings=settings, expect=3)

    asked = counts(site)
    assert {path: asked[path] for path in FAILING} == dict.fromkeys(FAILING, times + 1)


@pytest.mark.parametrize("lane", ["auto", "off"])
def test_without_retries_only_a_lost_request_is_repeated(site: Site, crawl: Crawl, lane: str):
    """A kept connection may end before the server saw the request: no answer was given."""
    site.pages |= {path: html(path) for path in FAILING}
    site.pages["/"] = html("Home", *FAILING)
    crawl(site.url("/"))
    site.pages |= FAILING
    site.clear()

    settings = QUICK | {"RETRY_TIMES": 0, "REVALIDATION_LANE": lane}
    crawl(site.url("/"), settings=settings, expect=3)

    asked = counts(site)
    lost = {"off": {"/reset": 2}, "auto": {"/reset": 2, "/hang": 2, "/cut": 2}}[lane]
    assert {path: asked[path] for path in FAILING} == dict.fromkeys(FAILING, 1) | lost
    outcomes = crawl.outcomes()
    assert {outcomes[path] for path in FAILING} == {"failed"}


def test_without_retries_a_new_connection_is_used_once(site: Site, crawl: Crawl):
    close = {"Connection": "close"}
    site.pages |= {"/robots.txt": Page("", headers=close), "/": FAILING["/reset"]}

    crawl(site.url("/"), settings=QUICK | {"RETRY_TIMES": 0}, expect=3)

    assert counts(site)["/"] == 1


@pytest.mark.covers("M-32")
@pytest.mark.parametrize("path", FAILING)
def test_robots_txt_and_sitemaps_are_asked_as_often(site: Site, crawl: Crawl, path: str):
    site.pages["/"] = html("Home")
    site.pages["/sitemap.xml"] = FAILING[path]
    settings = QUICK | {"RETRY_TIMES": 1}
    crawl(site.url("/"), settings=settings, sitemap=site.url("/sitemap.xml"), expect=3)
    assert counts(site)["/sitemap.xml"] == 2
    site.pages["/robots.txt"] = FAILING[path]

    crawl(site.url("/"), settings=settings | {"ROBOTS_TTL_SECONDS": 0}, expect=None)

    assert counts(site)["/robots.txt"] == 2


def test_an_address_that_nobody_serves_is_tried_twice(crawl: Crawl):
    """Nothing arrives anywhere: the stats have the tries."""
    settings = QUICK | {"RETRY_TIMES": 1, "STATS_DUMP": 1, "LOG_LEVEL": "INFO", "ROBOTSTXT_OBEY": 0}

    result = crawl(f"http://127.0.0.1:{free_port()}/", settings=settings, expect=3)

    assert "'downloader/request_count': 2," in result.err
    assert "'retry/count': 1," in result.err

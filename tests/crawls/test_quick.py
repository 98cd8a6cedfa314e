"""One crawl on each road and store: all that `script/test --quick` runs beside the rules."""

import pytest

from tests import servers
from tests.crawls.commands import Crawl
from tests.crawls.crew import Crew
from tests.site_server import Site, html

PAGES = 12


def publish(site: Site) -> None:
    paths = [f"/page{n}" for n in range(PAGES)]
    site.pages["/"] = html("Home", *paths)
    site.pages |= {path: html("Page", text=f"first text of {path[1:]}") for path in paths}


def edit(site: Site) -> None:
    """Change a page, remove one, and link a new one."""
    site.clear()
    site.pages["/page1"] = html("Page", "/new", text="second text of page1")
    site.pages["/new"] = html("New", text="first text of new")
    del site.pages["/page2"]


def check(site: Site, crawl: Crawl) -> None:
    """Check the refresh of the edited site: requests, records, search."""
    asked = {record.path: record.status for record in site.log if record.path != "/robots.txt"}
    assert {path: status for path, status in asked.items() if status != 304} == {
        "/page1": 200, "/new": 200, "/page2": 404,
    } | {path: status for path, status in asked.items() if path not in crawl.pages()}  # fmt: skip
    words = {path: page["lastOutcome"] for path, page in crawl.pages().items()}
    assert words == {"/": "unchanged", "/new": "new"} | {
        f"/page{n}": {1: "modified", 2: "lost"}.get(n, "unchanged") for n in range(PAGES)
    }
    assert crawl.hits('"second text of page1"') == ["/page1"]
    assert crawl.hits('"first text of new"') == ["/new"]
    assert crawl.hits('"first text of page1"') == []
    assert crawl.hits('"first text of page2"') == ["/page2"]  # lost, and not removed


@pytest.mark.alone
@pytest.mark.embedded
@pytest.mark.parametrize("stack", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_a_site_is_refreshed(site: Site, crawl: Crawl, lane: str):
    crawl.environment["REVALIDATION_LANE"] = lane
    publish(site)
    crawl(site.url("/"))
    edit(site)
    crawl(site.url("/"))
    check(site, crawl)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.embedded
def test_a_site_is_refreshed_in_an_elasticsearch(
    site: Site, crawl: Crawl, elasticsearch: servers.Elasticsearch, elasticsearch_prefix: str
):
    crawl.environment["ELASTICSEARCH_URL"] = elasticsearch.url
    crawl.environment["ELASTICSEARCH_INDEX_PREFIX"] = elasticsearch_prefix
    publish(site)
    crawl(site.url("/"))
    edit(site)
    crawl(site.url("/"))
    check(site, crawl)


@pytest.mark.long
def test_a_site_is_refreshed_by_workers_that_share_a_redis(site: Site, crew: Crew):
    publish(site)
    crew.run(site.url("/"))
    edit(site)
    crew.run(site.url("/"))
    check(site, crew.crawl)

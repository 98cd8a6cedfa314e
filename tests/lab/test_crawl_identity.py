"""Canonical addresses, names for display, and what an operator may choose about both."""

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Site, html


def canonical(url: str) -> str:
    return html("A", text="the text of a", head=f'<link rel="canonical" href="{url}">')


@pytest.mark.covers("R0-86", "R0-99", "M-12")
@pytest.mark.parametrize(("forced", "action"), [("1", "index"), ("0", "touch")])
def test_another_canonical_address_forces_an_index_write(site: Site, crawl: Crawl, forced, action):
    crawl.environment["FORCE_REINDEX_ON_CANONICAL_CHANGE"] = forced
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="the text of a")
    crawl(site.url("/"))
    indexed = "SELECT last_indexed FROM record WHERE url LIKE '%/a'"
    crawl.rows("UPDATE record SET last_indexed = 1")
    site.pages["/a"] = canonical("https://elsewhere.example/a")
    crawl(site.url("/"))

    assert crawl.outcomes()["/a"] == "unchanged"
    assert (crawl.rows(indexed) == [(1,)]) is (action == "touch")
    assert crawl.pages()["/a"]["canonicalUrl"] == "https://elsewhere.example/a"
    crawl.rows("UPDATE record SET last_indexed = 1")
    site.pages["/a"] = canonical("https://elsewhere.example/a") + "<!-- other bytes -->"
    crawl(site.url("/"))
    assert crawl.rows(indexed) == [(1,)]  # it is the same now


@pytest.mark.covers("R0-74", "R0-80", "R0-81")
def test_the_choices_of_the_operator_are_those_of_the_registry(site: Site, crawl: Crawl):
    crawl.environment |= {"REGISTRY_TABLE_NAME": "Known", "REGISTRY_PARTITION_STRATEGY": "scheme"}
    site.pages["/"] = html("Home", "/?page=2")
    site.pages["/?page=2"] = html("Home 2")
    crawl(site.url("/"))

    assert crawl.rows('SELECT DISTINCT "PartitionKey" FROM "Known"') == [("http",)]
    groups = {record["contentGroupId"] for record in crawl.records()}
    assert len(groups) == 1

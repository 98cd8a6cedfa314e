"""Links to addresses that have no record: `audit` finds them, the next run follows them."""

import json

import pytest

from tests.site_server import html


@pytest.mark.embedded
def test_audit_finds_links_that_lead_nowhere_and_the_next_run_follows_them(site, crawl):
    site.pages["/"] = html("Home", "/a", "/b", text="welcome")
    site.pages["/a"] = html("A", "/b", text="page a")
    site.pages["/b"] = html("B", text="page b")
    crawl(site.url("/"))
    assert crawl.run("audit").status == 0
    [(lost,)] = crawl.rows(f"SELECT no FROM record WHERE url = '{site.url('/b')}'")
    for table in ("links", "item", "state", "record"):  # as an older copy of the database
        crawl.rows(f"DELETE FROM {table} WHERE no = {lost}")

    found = json.loads(crawl.run("audit", "--format", "json", expect=3).out)
    assert found["agree"] is False
    assert sorted((page["url"], page["targets"]) for page in found["nowhere"]) == [
        (site.url("/"), [lost]),
        (site.url("/a"), [lost]),
    ]
    shown = crawl.run("audit", expect=3)
    assert "2 pages link to addresses that have no record\n" in shown.out
    assert "scrapy audit --repair" in shown.err
    assert crawl.run("audit", "--repair", "--dry-run", expect=3).out == shown.out

    mended = crawl.run("audit", "--repair")
    assert "the next run resolves their links again" in mended.out
    assert json.loads(crawl.run("audit", "--format", "json").out)["agree"] is True
    crawl(site.url("/"))

    assert crawl.outcomes()["/b"] == "new"
    assert json.loads(crawl.run("audit", "--format", "json").out)["agree"] is True

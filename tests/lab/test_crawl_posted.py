"""Addresses that were posted over HTTP are asked by the next run of their source, urgent first."""

import json
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.server.api_client import application, ask
from tests.site_server import Site, html

both = pytest.mark.parametrize("stack", ["sqlite", "postgres"], indirect=True)
LOOPBACK = ip_network("127.0.0.0/8")
ONE_BY_ONE = {"CONCURRENT_REQUESTS": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}


def post(crawl: Crawl, site: Site, paths: Mapping[str, int]) -> dict[str, int]:
    """Post addresses with their priorities; return the counts of the answer."""
    registry = crawl.environment.get("REGISTRY_URL", crawl.data_dir / "registry.db")
    run = {"registry": registry, "allow_networks": (LOOPBACK,), "sources_file": crawl.sources_file}
    body = {"urls": [{"url": site.url(path), "priority": n} for path, n in paths.items()]}
    answer = ask(application(crawl.folder, run=run), "POST", "/api/v1/frontier/urls", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert len(found.pop("urls")) == len(paths)
    counts: dict[str, int] = found
    return counts


def why(crawl: Crawl, url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(crawl.run("why", url, "--format", "json").out)
    return found


def asked(site: Site) -> list[str]:
    return [r.path for r in site.log if r.path != "/robots.txt"]


def declare(crawl: Crawl, site: Site) -> None:
    """A site with a linked page and islands, declared as a source."""
    site.pages["/"] = html("Home", "/linked")
    for path in ("/linked", "/late", "/usual", "/urgent", "/first"):
        site.pages[path] = html(path, text=f"The text of {path[1:]}.")
    crawl.declare(f'[sources.docs]\nseeds = ["{site.url("/")}"]\n')


ISLANDS = {"/late": 10, "/usual": 5, "/urgent": 2, "/first": 1}


@both
@pytest.mark.covers("E-08", "R2-33", "R2-35")
def test_posted_addresses_are_asked_by_the_first_run_and_stay_pinned(crawl: Crawl, site: Site):
    """The source was never crawled before; a record keeps its priority for later runs."""
    declare(crawl, site)
    assert post(crawl, site, ISLANDS) == {"added": 4, "duplicates": 0, "blocked": 0}

    waiting = why(crawl, site.url("/first"))
    shown = crawl.run("why", site.url("/first")).out
    crawl(settings=ONE_BY_ONE)
    known = why(crawl, site.url("/first"))
    first = asked(site)
    pins = crawl.rows(
        "SELECT r.url, p.priority FROM pin p JOIN record r ON r.no = p.no ORDER BY p.priority"
    )
    site.clear()
    again = post(crawl, site, ISLANDS)
    crawl(settings=ONE_BY_ONE)

    assert first[:4] == ["/first", "/urgent", "/", "/usual"]
    (posted,) = waiting["posted"]
    assert (posted["source"], posted["priority"], waiting["records"]) == ("docs", 1, [])
    assert f"Posted at {posted['at']} with priority 1: the next run of docs requests it." in shown
    assert "is not known" not in shown
    assert (known["posted"], len(known["records"])) == ([], 1)
    assert set(first[4:]) == {"/linked", "/late"}
    assert [tuple(row) for row in pins] == [
        (site.url(path), n) for path, n in sorted(ISLANDS.items(), key=lambda each: each[1])
    ]
    assert crawl.rows("SELECT * FROM pending_pin") == []
    assert again == {"added": 0, "duplicates": 4, "blocked": 0}
    assert asked(site)[:4] == first[:4]
    view = crawl.rows(
        "SELECT url, priority FROM url_frontier WHERE priority <> 5 ORDER BY priority"
    )
    assert [row[1] for row in view] == [1, 2, 10]


@both
@pytest.mark.covers("E-08", "R2-35")
def test_a_due_crawl_asks_posted_addresses(crawl: Crawl, site: Site):
    declare(crawl, site)
    crawl()
    site.clear()
    assert post(crawl, site, {"/late": 10, "/first": 1})["added"] == 2

    crawl.run("due", "-s", "CONCURRENT_REQUESTS=1", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=1")

    assert asked(site) == ["/first", "/late"]


@both
@pytest.mark.covers("E-08", "R2-33")
def test_posted_addresses_of_no_source_are_asked_by_the_run_that_follows(crawl: Crawl, site: Site):
    declare(crawl, site)
    crawl.declare('[sources.other]\nseeds = ["http://other.example/"]\n')
    assert post(crawl, site, {"/late": 10, "/first": 1})["added"] == 2

    settings = {"ALLOW_NETWORKS": "127.0.0.0/8", **ONE_BY_ONE}
    given = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    crawl.run("due", "--source", "documents", *given)

    assert asked(site) == ["/first", "/late"]
    assert crawl.rows("SELECT * FROM pending_pin") == []


@both
@pytest.mark.covers("E-08")
def test_forget_unpins_posted_addresses_before_and_after_their_first_visit(
    crawl: Crawl, site: Site
):
    declare(crawl, site)
    crawl()
    post(crawl, site, {"/usual": 5, "/first": 1})
    dry = crawl.run("forget", site.url("/usual"), "--dry-run")
    told = crawl.run("forget", site.url("/usual"))
    crawl()
    assert "would be unpinned" in dry.err
    assert "is no longer" in told.err
    assert "/usual" not in asked(site)
    assert "/first" in asked(site)

    crawl.run("forget", site.url("/first"))
    site.clear()
    crawl()

    assert crawl.rows("SELECT * FROM pin") == []
    assert set(asked(site)) <= {"/", "/linked"}


@both
@pytest.mark.covers("E-08")
def test_an_address_that_a_run_found_meanwhile_is_pinned_all_the_same(crawl: Crawl, site: Site):
    declare(crawl, site)
    post(crawl, site, {"/linked": 3})

    crawl()

    assert asked(site).count("/linked") == 1
    pins = crawl.rows("SELECT r.url, p.priority FROM pin p JOIN record r ON r.no = p.no")
    assert [tuple(row) for row in pins] == [(site.url("/linked"), 3)]


@both
@pytest.mark.covers("R2-35")
def test_a_limited_run_asks_urgent_addresses_first(crawl: Crawl, site: Site):
    declare(crawl, site)
    post(crawl, site, ISLANDS)

    crawl(settings=ONE_BY_ONE, max_pages=2, expect=3)

    assert asked(site) == ["/first", "/urgent"]


@both
def test_addresses_of_a_notice_are_asked_once_and_are_no_seeds(crawl: Crawl, site: Site):
    declare(crawl, site)
    crawl()
    site.clear()
    for path in ("/late", "/elsewhere"):
        url = site.url(path)
        crawl.rows(
            "INSERT INTO pending_pin (source, id, url, host, at, priority, pinned)"
            f" VALUES ('docs', '{path}', '{url}', '127.0.0.1', 1, 5, FALSE)"
        )
    crawl.declare(f'[sources.docs]\nseeds = ["{site.url("/")}"]\nexcluded_patterns = ["/else"]\n')

    crawl.run("due")

    assert asked(site) == ["/late"]
    assert crawl.hits("late") == ["/late"]
    assert crawl.rows("SELECT * FROM pin") == []
    assert crawl.rows("SELECT * FROM pending_pin") == [], "what no scope has waits no longer"
    site.pages["/"] = html("Home", "/linked", "/late")
    site.pages["/linked"] = html("Linked", text="another")
    crawl()
    assert crawl.outcomes()["/late"] == "unchanged"

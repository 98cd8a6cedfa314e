"""A job of the HTTP API is a source: the commands crawl and report it like a declared one."""

import json
import time

import pytest

from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.jobs.store import JobStore
from smartcrawl.sources.jobs import JobDefinition
from tests.crawls.commands import Crawl, Result
from tests.site_server import Site, html

pytestmark = [pytest.mark.long(but=2), pytest.mark.sqlite]
_LOOPBACK = {"ALLOW_NETWORKS": "127.0.0.0/8"}


def create(
    crawl: Crawl, site: Site, *, name: str = "docs", host: str = "127.0.0.1", **config: object
) -> str:
    """Store a job for three pages; return its id. `host`: of the seed, as it is spelled there."""
    site.pages["/"] = html("Home", "/a", "/b")
    site.pages["/a"] = html("A", text="alpha")
    site.pages["/b"] = html("B", text="beta")
    now = int(time.time())
    body = {
        "name": name,
        "seed_urls": [site.url("/").replace("127.0.0.1", host)],
        "config": {"crawl_delay_ms": 0, "user_agent": "Jobber/7", **config},
    }
    database = registry_database(crawl.registry)
    connection = database.open()
    try:
        job = JobStore(database, connection).create(JobDefinition.checked(body, now), (), now)
    finally:
        connection.close()
    return job.id


def delete(crawl: Crawl, id_: str) -> None:
    database = registry_database(crawl.registry)
    connection = database.open()
    try:
        JobStore(database, connection).delete(id_, int(time.time()))
    finally:
        connection.close()


def start(crawl: Crawl, *options: str, expect: int | None = 0) -> Result:
    return crawl.run("crawl", "site", "-a", "source=docs", *options, expect=expect)


@pytest.mark.covers("R2-20", "R2-21")
def test_a_job_is_crawled_by_its_name_with_its_settings(crawl: Crawl, site: Site):
    create(crawl, site, respect_robots_txt=False)
    crawl.environment |= _LOOPBACK

    start(crawl)

    assert {r.path for r in site.log} == {"/", "/a", "/b"}  # no robots.txt
    assert {r.headers["user-agent"] for r in site.log} == {"Jobber/7"}


@pytest.mark.covers("R2-21")
def test_settings_of_the_command_line_win_over_those_of_a_job(crawl: Crawl, site: Site):
    create(crawl, site)
    crawl.environment |= _LOOPBACK

    start(crawl, "-s", "USER_AGENT=Operator/1")

    assert {r.headers["user-agent"] for r in site.log} == {"Operator/1"}


def test_the_seeds_of_a_job_open_no_private_address(crawl: Crawl, site: Site):
    create(crawl, site)

    result = start(crawl, expect=3)

    assert site.log == []
    assert "loopback (127.0.0.1)" in str(result) + json.dumps(crawl.pages())


@pytest.mark.covers("R2-20")
def test_a_declared_source_wins_over_a_job_of_its_name(crawl: Crawl, site: Site):
    create(crawl, site)
    crawl.sources_file.write_text(f'[sources.docs]\nseeds = ["{site.url("/a")}"]\n')

    start(crawl)

    assert {r.path for r in site.log} == {"/robots.txt", "/a"}
    assert "Jobber/7" not in {r.headers["user-agent"] for r in site.log}


@pytest.mark.covers("R2-20")
def test_reports_know_a_job_as_a_source(crawl: Crawl, site: Site):
    create(crawl, site)
    crawl.environment |= _LOOPBACK

    planned = json.loads(crawl.run("plan", "--format", "json").out)
    story = crawl.run("why", site.url("/new"), expect=None).out
    crawled = start(crawl)
    registered = crawl.run("reindex", "--url", site.url("/new")).out

    assert [plan["source"] for plan in planned] == ["docs"]
    assert "docs" in story
    assert "/new" in registered
    assert "not declared" not in crawled.err + start(crawl).err


@pytest.mark.covers("R2-20")
def test_what_is_due_of_a_job_is_crawled_by_name_only(crawl: Crawl, site: Site):
    """The scheduler of the API starts jobs (ADR 52)."""
    create(crawl, site)
    crawl.environment |= _LOOPBACK
    start(crawl)
    crawl.rows("UPDATE state SET next_visit = 0")
    site.clear()

    others = crawl.run("due", expect=1)
    status = json.loads(crawl.run("status", "--format", "json").out)
    assert site.log == []
    assert "nothing to crawl: all sources are jobs of the HTTP API" in others.err
    assert "To crawl one now: scrapy due --source docs" in others.err
    assert [source["source"] for source in status["sources"]] == ["docs"]

    crawl.run("due", "--source", "docs")

    assert {r.path for r in site.log} == {"/robots.txt", "/", "/a", "/b"}


@pytest.mark.covers("G-12")
def test_a_deleted_job_is_crawled_and_swept_by_no_command(crawl: Crawl, site: Site):
    """Not even one that is named like its seed's host, as an undeclared source is."""
    id_ = create(crawl, site, name="127.0.0.1")
    crawl.environment |= _LOOPBACK | {"LOST_THRESHOLD": "1", "ORPHAN_THRESHOLD": "1"}
    crawl.run("crawl", "site", "-a", "source=127.0.0.1")
    delete(crawl, id_)
    crawl.rows("UPDATE state SET next_visit = 0")
    site.clear()

    plain = crawl.run("due", expect=1)
    named = crawl.run("due", "--source", "127.0.0.1", expect=1)

    assert "nothing was crawled yet of which a source is left: start with" in plain.err
    assert "there is no source '127.0.0.1'" in named.err
    assert site.log == []
    assert len(crawl.pages()) == 3
    assert "alpha" in crawl.run("search", "alpha").out


@pytest.mark.covers("G-12")
def test_a_deleted_job_is_no_source_and_its_pages_stay(crawl: Crawl, site: Site):
    id_ = create(crawl, site)
    crawl.environment |= _LOOPBACK
    start(crawl)
    delete(crawl, id_)

    refused = start(crawl, expect=1)

    assert "there is no source 'docs'" in refused.err
    assert len(crawl.pages()) == 3
    assert "alpha" in crawl.run("search", "alpha").out

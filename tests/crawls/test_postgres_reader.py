"""A role of PostgreSQL that may only read: what the manual promises to it."""

import pytest

from tests import servers
from tests.crawls.commands import Crawl, Scrapy, wait_until
from tests.site_server import Page, Site, html

pytestmark = [pytest.mark.embedded, pytest.mark.alone]


def test_a_role_that_may_only_read_can_use_each_command_that_reads(
    site: Site, tmp_path, ask: Scrapy, postgres: servers.Postgres, postgres_url: str
):
    crawl = Crawl(tmp_path, ask, postgres_url)
    site.pages["/"] = html("Home", "/a", text="welcome home")
    site.pages["/a"] = Page(html("A", text="the apple"), delay=2)
    database = postgres_url.rpartition("/")[2]
    with crawl.start(site.url("/")) as running:
        wait_until(lambda: any(one.path == "/a" for one in site.log), "a page is being read")
        connections = postgres.execute(
            "SELECT state, query FROM pg_stat_activity"
            f" WHERE application_name = 'smartcrawl' AND datname = '{database}'"
        )
        assert len(connections) <= 5, f"the manual says so: {connections}"
        assert running.end().status == 0
    guest = servers.GUEST
    postgres.execute(f"DROP ROLE IF EXISTS {guest}")
    postgres.execute(f"CREATE ROLE {guest} LOGIN PASSWORD 'right'")
    reader = postgres_url.replace("//smartcrawl@", f"//{guest}:right@")
    crawl.environment["REGISTRY_URL"] = reader
    refused = crawl.run("status", expect=1)
    assert "permission denied" in refused.err
    assert "let this user read there: GRANT USAGE ON SCHEMA and GRANT SELECT" in refused.err
    assert "right@" not in refused.err

    postgres.execute(f"GRANT USAGE ON SCHEMA public TO {guest}", database=database)
    postgres.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {guest}", database=database)
    try:
        assert "/a" in crawl.run("search", "apple").out
        for args in (
            ("search", "--format", "json", "aple"),
            ("status",),
            ("why", site.url("/a")),
            ("runs",),
            ("plan",),
            ("registry",),
            ("hosts",),
        ):
            crawl.run(*args)
        refused = crawl(site.url("/"), expect=1)
        assert "let this user create and write tables there" in refused.err
    finally:
        postgres.execute(f"DROP OWNED BY {guest}; DROP ROLE {guest}", database=database)

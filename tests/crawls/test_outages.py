"""A PostgreSQL that is away for good, and one process that stalls in a transaction.

Source: ADR 117, 118.
"""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.registry.database.databases import registry_database
from tests.crawls.commands import Crawl, Scrapy, wait_until
from tests.crawls.crew import Crew, crew_of
from tests.servers import Postgres
from tests.site_server import Page, Site, html

PAGES = 120
_PATIENCE = "6"  #: seconds that workers of these tests wait for a server that is away


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        site.pages["/"] = html("Home", *(f"/{n}" for n in range(PAGES)))
        for n in range(PAGES):
            site.pages[f"/{n}"] = Page(html(f"Page {n}", text=f"words {n}"), delay=0.05)
        yield site


@pytest.fixture(params=[1, 2], ids=["alone", "two"])
def count(request: pytest.FixtureRequest) -> int:
    """How many processes crawl."""
    return int(request.param)


@pytest.fixture
def crew(
    count: int, tmp_path: Path, ask: Scrapy, redis_url: str, postgres: Postgres
) -> Iterator[Crew]:
    postgres.start()
    with postgres.database() as url:
        registry_database(url).open().close()
        redis = None if count == 1 else redis_url
        with crew_of(Crawl(tmp_path, ask, url, redis=redis), redis_url) as crew:
            yield crew
        postgres.start()


@pytest.mark.covers("R2-41")
@pytest.mark.parametrize("told", [False, True], ids=["waits", "is told to end"])
def test_processes_end_when_postgres_stays_away(
    site: Site, crew: Crew, count: int, postgres: Postgres, told: bool
):
    """All of a process's waits together take its patience; a signal shortens them."""
    patience = {} if told else {"PATIENCE": _PATIENCE}
    workers = crew.begin(site.url("/"), count, BATCH="4", **patience)
    wait_until(lambda: len(site.log) >= 30, "the crawl is under way")
    postgres.kill()
    began = time.monotonic()
    if told:
        wait_until(lambda: all("is away" in worker.said for worker in workers), "all wait")
        for worker in workers:
            worker.signal(signal.SIGTERM)

    results = crew.end(*workers, statuses=(1,))

    assert time.monotonic() - began < 25, "".join(map(str, results))
    assert all("check that the server runs" in result.err for result in results)


@pytest.mark.long
@pytest.mark.parametrize("count", [2], indirect=True)
def test_workers_go_on_after_an_outage_that_is_shorter(
    site: Site, crew: Crew, count: int, postgres: Postgres
):
    workers = crew.begin(site.url("/"), count, BATCH="4")
    wait_until(lambda: len(site.log) >= 30, "the crawl is under way")
    postgres.kill()
    wait_until(lambda: all("is away" in worker.said for worker in workers), "all wait")
    time.sleep(2)
    postgres.start()

    crew.end(*workers)

    assert crew.crawl.rows("SELECT complete FROM run") == [(True,)]
    assert crew.crawl.rows("SELECT count(*) FROM record") == [(PAGES + 1,)]

"""A fail-over that loses the last commits under a run: the next run makes up for all of it.

The database is replaced by an older copy, as by a standby that was behind. What the next run
leaves is compared with what a crawl leaves that nothing disturbed.

Source: ADR 116.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.registry.database.databases import registry_database
from tests.crawls import crew_site
from tests.crawls.commands import Crawl, Scrapy, differences
from tests.crawls.crew import Crew, crew_of, facts
from tests.crawls.failover import Failover
from tests.registry.spare import Spare
from tests.servers import Postgres
from tests.site_server import Site

#: Visits after which the database is copied, and commits that are lost then.
MOMENTS = (
    (3, 200), (60, 1), (0, 1), (0, 5), (0, 20), (8, 1), (8, 7), (16, 2), (24, 4), (32, 30),
    (40, 3), (50, 1), (50, 12), (70, 50), (80, 6), (95, 2), (110, 9), (125, 3), (140, 1), (150, 4),
)  # fmt: skip
LOST = "the database lost the last commits"
AWAY = "check that the server runs"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site() as site:
        crew_site.build(site)
        yield site


@pytest.fixture(scope="module")
def undisturbed(site: Site, tmp_path_factory: pytest.TempPathFactory, ask: Scrapy) -> Any:
    crawl = Crawl(tmp_path_factory.mktemp("undisturbed"), ask)
    crawl(site.url("/"))
    return outcome(crawl)


@pytest.fixture(params=[1, 2], ids=["alone", "two"])
def count(request: pytest.FixtureRequest) -> int:
    """How many processes crawl."""
    return int(request.param)


@pytest.fixture
def crew(
    count: int,
    tmp_path: Path,
    ask: Scrapy,
    redis_url: str,
    postgres: Postgres,
    spare_registries: Spare,
) -> Iterator[Crew]:
    postgres.start()
    url = spare_registries.take()
    registry_database(url).open().close()
    redis = None if count == 1 else redis_url
    with crew_of(Crawl(tmp_path, ask, url, redis=redis), redis_url) as crew:
        yield crew
    spare_registries.put_back(url)


def outcome(crawl: Crawl) -> dict[str, Any]:
    """What is stored, without the words for how it came to be so."""
    found = facts(crawl)
    records = {
        url: [*row[:4], *row[11:]] for url, row in found["records"].items()
    }  # no outcome, no counts
    return {"records": records, "links": found["links"], "chunks": found["chunks"]}


@pytest.mark.long
@pytest.mark.covers("R2-41")
@pytest.mark.parametrize(("after", "commits"), MOMENTS)
def test_next_run_makes_up_for_commits_that_a_fail_over_lost(
    site: Site, undisturbed: Any, crew: Crew, count: int, after: int, commits: int
):
    workers = crew.begin(site.url("/"), count, BATCH="4")
    with Failover(str(crew.crawl.registry.url)) as failover:
        failover.lose(commits, after=after, ended=lambda: all(worker.ended for worker in workers))
        was_under_way = not any(worker.ended for worker in workers)
        results = crew.end(*workers, statuses=(0, 1, 3))
        if was_under_way:
            printed = "".join(map(str, results))
            # A process whose connections end while it opens its run has committed nothing yet.
            opening = after == 0 and all(result.status == 1 for result in results)
            assert LOST in printed or (opening and AWAY in printed), printed
            if crew.crawl.rows("SELECT 1 FROM run WHERE complete"):
                # The other worker sealed the run: what was lost was no page and no link.
                wrong = "\n".join(differences(outcome(crew.crawl), undisturbed))
                assert not wrong, f"{wrong}\n{printed}"

    crew.bury(*workers)  # the copy may have their leases
    crew.end(*crew.begin(site.url("/"), count))

    wrong = "\n".join(differences(outcome(crew.crawl), undisturbed))
    assert not wrong, wrong
    assert (1,) in crew.crawl.rows("SELECT 1 FROM run WHERE complete")

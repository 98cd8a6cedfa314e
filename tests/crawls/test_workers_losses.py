"""Three workers of one run lose a server, each other, or time: what comes of it stays the same.

Each is compared with one worker over a file, which nothing disturbed. What would take a minute, a
lease that is over, is let pass (Crew.bury).

Source: ADR 30; docs/operations/losses.md.
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis import Redis as RedisClient

from smartcrawl.rules.model import RunState
from tests import servers
from tests.crawls import crew_site
from tests.crawls.commands import Crawl, Scrapy, differences, wait_until
from tests.crawls.crew import Crew, Worker, adds_up, crew_of, facts
from tests.index.faulty import faulty, status
from tests.site_server import Site

pytestmark = pytest.mark.long(but=1)

_EDIT = 7  #: seed of what happens between the two runs of a stage
_MIDWAY = 50  #: requests, of some 160
#: What is gone, or not linked, goes in its first run.
AT_ONCE = {"LOST_THRESHOLD": "1", "ORPHAN_THRESHOLD": "1", "RETRY_TIMES": "1"}


@dataclass
class Stage:
    """A site, and what one worker that nobody disturbs makes of it."""

    site: Site
    first: dict[str, Any]
    refreshed: dict[str, Any]  #: after the edit

    def reset(self) -> None:
        """Put the site back to what the first run finds."""
        self.site.pages.clear()
        crew_site.build(self.site)
        self.site.clear()

    def edit(self) -> None:
        """Let happen what happens between the two runs."""
        crew_site.edit(self.site, random.Random(_EDIT))
        self.site.clear()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, ask: Scrapy) -> Iterator[Stage]:
    with Site() as site:
        stage = Stage(site, {}, {})
        stage.reset()
        crawl = Crawl(tmp_path_factory.mktemp("undisturbed"), ask)
        crawl.environment |= AT_ONCE
        crawl(site.url("/"))
        stage.first = facts(crawl)
        stage.edit()
        crawl(site.url("/"))
        stage.refreshed = facts(crawl)
        yield stage


@pytest.fixture
def stage(undisturbed: Stage) -> Stage:
    undisturbed.reset()
    return undisturbed


@pytest.fixture(scope="module")
def known(
    undisturbed: Stage,
    tmp_path_factory: pytest.TempPathFactory,
    ask: Scrapy,
    postgres: servers.Postgres,
) -> Iterator[str]:
    """The name of a registry as the first run leaves it."""
    postgres.start()  # where an earlier test has killed it
    undisturbed.reset()
    with postgres.database() as url:
        crawl = Crawl(tmp_path_factory.mktemp("known"), ask, url)
        crawl.environment |= AT_ONCE
        crawl(undisturbed.site.url("/"))
        yield url.rpartition("/")[2]


@pytest.fixture
def second(
    known: str,
    tmp_path: Path,
    ask: Scrapy,
    redis_url: str,
    postgres: servers.Postgres,
    stage: Stage,
) -> Iterator[Crew]:
    """Workers that know what the first run left; the site is another one by now."""
    postgres.start()
    stage.edit()
    with (
        postgres.database(f"TEMPLATE {known}") as url,
        crew_of(Crawl(tmp_path, ask, url, redis=redis_url), redis_url) as crew,
    ):
        crew.crawl.environment |= AT_ONCE
        # Or a crash would set sequences back to where they were copied: that much was logged ahead
        # in the database that they come from.
        postgres.execute("CHECKPOINT")
        yield crew


def under_way(stage: Stage, crew: Crew, **environment: str) -> list[Worker]:
    """Start three workers that know nothing yet; return when they have their hands full."""
    crew.crawl.environment |= AT_ONCE
    workers = crew.begin(stage.site.url("/"), **environment)
    wait_until(lambda: len(stage.site.log) >= _MIDWAY, "the crawl is under way")
    return workers


def halted(stage: Stage, crew: Crew, place: str, job: str | None = None) -> list[Worker]:
    """Start three workers; return when one of them stands still at a place."""
    mark = crew.crawl.folder / "mark"  # the first one makes it there, so that it is the only one
    workers = crew.begin(stage.site.url("/"), job=job, HALTS_AT=f"{place} {mark}")
    wait_until(
        # Not the mark, which is there before: SIGCONT before SIGSTOP would do nothing.
        lambda: any(worker.stands_still for worker in workers),
        f"one of them stands still at {place}",
    )
    return workers


def go_on(*workers: Worker) -> None:
    """Let workers go on that stand still."""
    for worker in workers:
        worker.signal(signal.SIGCONT)


def same(crew: Crew, expected: dict[str, Any]) -> bool:
    """Whether everything is as one worker left it."""
    found = facts(crew.crawl)
    wrong = "\n".join(differences(found, expected))
    assert not wrong, wrong
    assert adds_up(crew.crawl)
    return True


def test_worker_stage_is_what_these_tests_need(stage: Stage):
    state, complete, reasons, counts, removed, *_ = stage.refreshed["run"]
    assert (state, complete, reasons) == (4, True, [])
    assert removed >= 3
    assert len(stage.first["records"]) > 140
    paths = {url.removeprefix(stage.site.url("")) for url, *_ in stage.refreshed["evidence"]}
    assert "/deep/0" in paths, "an orphan"
    clones = [url for url, row in stage.first["records"].items() if row[15]]
    assert clones
    assert len(counts) > 5


def test_workers_find_what_one_worker_finds(stage: Stage, crew: Crew):
    workers = under_way(stage, crew)
    seen = 0
    while not all(worker.ended for worker in workers):  # they add up while they are at work, too
        assert crew.crawl.counted(1)
        seen += crew.crawl.rows("SELECT queued > 0 AND visits > 0 FROM run") == [(True,)]
    crew.end(*workers)

    assert seen
    assert same(crew, stage.first)
    asked = [request.path for request in stage.site.log if request.path != "/robots.txt"]
    assert len(asked) == len(set(asked)), "nothing was asked twice"


# Servers that go away


@pytest.mark.long
@pytest.mark.covers("M-33", "R2-41", "R2-74")
def test_workers_lose_nothing_when_redis_is_flushed(stage: Stage, crew: Crew, redis_url: str):
    workers = under_way(stage, crew)
    with RedisClient.from_url(redis_url) as client:
        client.flushall()
    crew.end(*workers)

    assert "Redis lost the frontier" in "".join(worker.said for worker in workers)
    assert same(crew, stage.first)


@pytest.mark.parametrize(
    ("name", "away", "says"),
    [
        ("redis", "until then no new page is requested", "Redis is back"),
        ("postgres", "PostgreSQL is away", "PostgreSQL is away"),
    ],
)
def test_workers_lose_nothing_when_a_server_is_killed_and_comes_back(
    request: pytest.FixtureRequest, stage: Stage, crew: Crew, name: str, away: str, says: str
):
    """Redis is empty then."""
    server: servers.Redis | servers.Postgres = request.getfixturevalue(name)
    workers = under_way(stage, crew)
    server.kill()
    wait_until(lambda: any(away in worker.said for worker in workers), "a worker notices")
    server.start()
    crew.end(*workers)

    assert says in "".join(worker.said for worker in workers)
    assert same(crew, stage.first)


@pytest.mark.long
def test_workers_that_all_died_are_followed_by_others_whose_redis_is_flushed_at_once(
    stage: Stage, crew: Crew, redis_url: str
):
    crew.kill(*under_way(stage, crew))
    workers = halted(stage, crew, "RegistryDesk.fill", crew.job)
    with RedisClient.from_url(redis_url) as client:
        client.flushall()
    go_on(*workers)
    crew.end(*workers)

    assert same(crew, stage.first)
    assert crew.crawl.rows("SELECT count(*) FROM run") == [(1,)], "it went on"


@pytest.mark.parametrize("place", ["SharedLastSteps.relax", "settle_sealed_row"])
def test_workers_end_a_run_whose_redis_went_away_at_the_end(
    stage: Stage, second: Crew, redis: servers.Redis, place: str
):
    workers = halted(stage, second, place)
    redis.kill()
    go_on(*workers)
    time.sleep(1)
    redis.start()
    second.end(*workers)

    assert same(second, stage.refreshed)


@pytest.mark.long
def test_workers_lose_nothing_when_postgres_is_killed_while_the_run_ends(
    stage: Stage, second: Crew, postgres: servers.Postgres
):
    workers = halted(stage, second, "settle_sealed_row")
    postgres.kill()
    go_on(*workers)
    postgres.start()
    second.end(*workers)

    assert same(second, stage.refreshed)


@pytest.mark.long
def test_workers_wait_for_an_elasticsearch_that_stands_still(
    stage: Stage,
    crew: Crew,
    own_elasticsearch: servers.Elasticsearch,
    own_elasticsearch_prefix: str,
):
    crew.crawl.environment |= {
        "ELASTICSEARCH_URL": own_elasticsearch.url,
        "ELASTICSEARCH_INDEX_PREFIX": own_elasticsearch_prefix,
        "ELASTICSEARCH_TIMEOUT": "2",
    }
    workers = under_way(stage, crew)
    family = own_elasticsearch.processes()
    for relative in family:
        os.kill(relative.pid, signal.SIGSTOP)
    time.sleep(4)
    for relative in family:
        os.kill(relative.pid, signal.SIGCONT)
    crew.end(*workers)

    assert adds_up(crew.crawl)
    assert sound_elsewhere(crew)
    here = {"chunks": None}  # they are elsewhere
    assert list(differences(facts(crew.crawl) | here, stage.first | here)) == []


@pytest.mark.long
def test_worker_that_is_cut_off_from_elasticsearch_does_not_hold_up_the_others(
    stage: Stage,
    crew: Crew,
    elasticsearch: servers.Elasticsearch,
    elasticsearch_prefix: str,
):
    """It kept its claims for SINK_WAIT_SECONDS, and the run could not end before."""
    crew.crawl.environment |= AT_ONCE | {
        "ELASTICSEARCH_URL": elasticsearch.url,
        "ELASTICSEARCH_INDEX_PREFIX": elasticsearch_prefix,
        "SINK_WAIT_SECONDS": "90",
    }
    with faulty(elasticsearch.port) as proxy:
        proxy.will("/_bulk", *[status(503)] * 10_000)
        [cut] = crew.begin(stage.site.url("/"), 1, ELASTICSEARCH_URL=proxy.url)
        wait_until(proxy.bulks, "it has pages to write")
        began = time.monotonic()
        crew.end(crew.join(stage.site.url("/")))
        assert time.monotonic() - began < 60
        assert "this worker gives its pages back" in cut.said
        cut.signal(signal.SIGTERM)
        crew.end(cut, statuses=(0, 1, 3))

    assert sound_elsewhere(crew)
    here = {"chunks": None}  # they are elsewhere
    assert list(differences(facts(crew.crawl) | here, stage.first | here)) == []


def sound_elsewhere(crew: Crew) -> bool:
    """Whether registry and index agree page by page, and nothing is open between them."""
    assert crew.crawl.rows("SELECT count(*) FROM state WHERE intent > number") == [(0,)]
    assert crew.crawl.rows("SELECT count(*) FROM dead_letter") == [(0,)]
    crew.crawl.run("audit")  # exit status 0: nothing is missing, left over or different
    return True


# Workers that die, stand still, or are told to end


@pytest.mark.parametrize("again", [True, pytest.param(False, marks=pytest.mark.long)])
def test_workers_take_over_from_one_that_was_killed(stage: Stage, crew: Crew, again: bool):
    """Whether it is started again or not."""
    dead, *others = under_way(stage, crew)
    crew.kill(dead)
    if again:
        others.append(crew.join(stage.site.url("/")))
    crew.end(*others)

    assert same(crew, stage.first)
    assert crew.crawl.rows("SELECT count(*) FROM run") == [(1,)]


#: Where the worker that ends a run dies, and how far the run is then.
ENDS = {
    "propose_unreached_rows": RunState.OPEN,
    "settle_sealed_row": RunState.SEALED,
    "sweep_candidate_rows": RunState.SETTLED,
}


@pytest.mark.parametrize("place", ENDS)
def test_workers_end_a_run_once_when_the_one_that_ends_it_is_killed(
    stage: Stage, second: Crew, tmp_path: Path, place: str
):
    workers = second.begin(stage.site.url("/"), DIES_AT=f"{place} {tmp_path / 'mark'}")
    wait_until(lambda: any(worker.ended for worker in workers), "the one that ends it is dead")
    [dead] = [worker for worker in workers if worker.ended]
    assert dead.result.status == -signal.SIGKILL
    state = second.crawl.rows("SELECT state FROM run ORDER BY no DESC LIMIT 1")
    assert state == [(ENDS[place],)]
    second.bury(dead)
    second.end(*(worker for worker in workers if worker is not dead))

    assert same(second, stage.refreshed)


@pytest.mark.long
@pytest.mark.covers("M-33")
def test_workers_fence_off_one_that_stood_still_for_too_long(stage: Stage, crew: Crew):
    """It even holds the row of the run, which all others write to."""
    crew.crawl.environment |= AT_ONCE
    workers = halted(stage, crew, "RegistryCommit.write")
    [still] = [worker for worker in workers if worker.stands_still]
    crew.bury(still)
    crew.end(*(worker for worker in workers if worker is not still))
    assert same(crew, stage.first)
    before = tables(crew)
    asked = len(stage.site.log)

    go_on(still)
    crew.end(still, statuses=(0, 3))

    assert same(crew, stage.first)
    assert tables(crew) == before, "nothing of it is written"
    assert len(stage.site.log) == asked


def tables(crew: Crew) -> dict[str, int]:
    """A number for what each table holds, but for who connected when and drew a number."""
    return {
        name: hash(rows)
        for name, rows in crew.crawl.registry.tables()
        if name not in ("writer", "lease", "sequence")
    }


@pytest.mark.long
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_workers_go_on_without_one_that_is_told_to_end(
    stage: Stage, crew: Crew, number: signal.Signals
):
    one, *others = under_way(stage, crew)
    one.signal(number)
    [left] = crew.end(one, statuses=(3,))
    crew.end(*others)

    assert "continues without this worker" in left.err
    assert same(crew, stage.first)


@pytest.mark.long
def test_workers_whose_clocks_differ_by_an_hour_find_the_same(stage: Stage, second: Crew):
    url = stage.site.url("/")
    workers = second.begin(url, 1)
    workers += [second.join(url, CLOCK=clock) for clock in ("3600", "-3600")]
    second.end(*workers)

    assert same(second, stage.refreshed)

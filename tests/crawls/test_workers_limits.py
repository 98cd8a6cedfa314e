"""What holds for all workers of a run together, and when none of them begins.

Source: ADR 30; R2-43, R2-45, R2-46.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from redis import Redis as RedisClient

from tests import servers
from tests.crawls.commands import Crawl, Scrapy, wait_until
from tests.crawls.crew import Crew
from tests.site_server import Page, Site, TimedSite, html

pytestmark = pytest.mark.long

_SLOW = 0.5  #: seconds until a page of the timed site answers
_DELAY = 0.2
_WANTED = 0.4  #: by robots.txt
_MOST = 2


@pytest.fixture
def timed() -> Iterator[TimedSite]:
    with TimedSite() as site:
        yield site


def fan(site: Site, count: int, delay: float = 0) -> list[str]:
    """A site whose start leads to all of its pages."""
    names = [f"/{n}" for n in range(count)]
    site.pages["/"] = html("Home", *names)
    site.pages |= {name: Page(html(name, text=f"text of {name}"), delay=delay) for name in names}
    return names


@pytest.mark.long
@pytest.mark.covers("R2-43")
def test_workers_together_ask_a_host_as_little_as_one_would(timed: TimedSite, crew: Crew):
    names = fan(timed, 10, _SLOW)
    crew.crawl.environment |= {
        "CONCURRENT_REQUESTS_PER_DOMAIN": str(_MOST),
        "DOWNLOAD_DELAY": str(_DELAY),
    }
    crew.run(timed.url("/"))

    pages = sorted(at for at, path in timed.arrived if path in names)
    assert len(pages) == len(names)
    flying = [sum(at <= other < at + _SLOW - 0.05 for other in pages) for at in pages]
    assert max(flying) <= _MOST
    every = sorted(at for at, _ in timed.arrived)
    gaps = [after - before for before, after in pairwise(every)]
    assert median(gaps) > 0.9 * _DELAY
    for steps in (4, 8):  # one may be late, and the next in time, as the machine is busy
        spans = [b - a for a, b in zip(every, every[steps:], strict=False)]
        assert min(spans) > _DELAY * (steps - 2)


@pytest.mark.covers("R2-45")
def test_workers_all_heed_what_a_host_asked_one_of_them(timed: TimedSite, crew: Crew):
    fan(timed, 100, 0.02)
    busy = "/20"
    good = timed.pages[busy]
    timed.pages[busy] = Page("busy", status=503, headers={"Retry-After": "2"})
    workers = crew.begin(timed.url("/"))
    wait_until(lambda: timed.count(busy), "it was asked")
    timed.pages[busy] = good
    crew.end(*workers)

    asked = next(at for at, path in timed.arrived if path == busy)
    soon = [path for at, path in timed.arrived if asked + 0.5 < at < asked + 1.9]
    assert soon == []
    later = [path for at, path in timed.arrived if at > asked + 1.9]
    assert busy in later
    assert len(later) > 20, "there was enough to ask meanwhile"
    assert set(crew.crawl.outcomes().values()) == {"new"}


@pytest.fixture
def seeds(timed: TimedSite, crew: Crew) -> list[str]:
    """Pages of a host that wants a delay; a run begins with all of them."""
    names = fan(timed, 8)
    rules = f"User-agent: *\nCrawl-delay: {_WANTED}\n"
    timed.pages["/robots.txt"] = Page(rules, content_type="text/plain")
    # Each of them would take some at once.
    crew.crawl.environment |= {"CONCURRENT_REQUESTS_PER_DOMAIN": "8", "CONCURRENT_REQUESTS": "2"}
    crew.crawl.declare(f"[sources.s]\nseeds = {[timed.url(name) for name in names]}\n")
    return names


def kept_their_distance(site: TimedSite) -> bool:
    """Whether a host was asked no faster than it wants, whoever asked."""
    times = sorted(at for at, _ in site.arrived)
    assert times[1] - times[0] > 0.9 * _WANTED, "the first page waits, too"
    for steps in (4, 8):  # one may be late, and the next in time, as the machine is busy
        spans = [b - a for a, b in zip(times, times[steps:], strict=False)]
        assert min(spans) > _WANTED * (steps - 0.5)
    return True


@pytest.mark.covers("R2-45", "R2-73")
@pytest.mark.parametrize("slow", [0, 1.0])
def test_workers_that_start_together_keep_a_crawl_delay_from_the_first_request_on(
    timed: TimedSite, crew: Crew, seeds: list[str], slow: float
):
    timed.pages["/robots.txt"] = replace(timed.pages["/robots.txt"], delay=slow)
    crew.end(*crew.begin(None))

    assert sorted(path for _, path in timed.arrived) == sorted(["/robots.txt", *seeds])
    assert kept_their_distance(timed)


def test_workers_take_over_from_one_that_died_while_it_read_robots_txt(
    timed: TimedSite, crew: Crew, seeds: list[str], redis_url: str
):
    robots = timed.pages["/robots.txt"]
    timed.pages["/robots.txt"] = Page(fault="hang")
    workers = crew.begin(None)
    wait_until(lambda: timed.arrived, "robots.txt is asked")
    with RedisClient.from_url(redis_url, decode_responses=True) as client:
        [claim] = client.hvals(next(client.scan_iter("*:claims")))
    [dead] = [worker for worker in workers if f":{worker.pid}:" in claim]
    timed.pages["/robots.txt"] = robots
    timed.arrived.clear()
    crew.kill(dead)
    crew.end(*(worker for worker in workers if worker is not dead))

    assert sorted(path for _, path in timed.arrived) == sorted(["/robots.txt", *seeds])
    assert kept_their_distance(timed)
    assert {*crew.crawl.outcomes().values()} == {"new"}


def test_workers_together_ask_for_as_many_pages_as_the_run_may(site: Site, crew: Crew):
    fan(site, 60, 0.02)
    workers = [crew.join(site.url("/"), max_pages=20) for _ in range(3)]
    crew.end(*workers, statuses=(3,))

    pages = [request.path for request in site.log if request.path != "/robots.txt"]
    assert len(pages) == len(set(pages)) == 20
    [run] = crew.crawl.runs()
    assert (run["state"], run["complete"], run["new"]) == ("swept", False, 20)
    assert any(reason.startswith("max_pages") for reason in run["reasons"])


@pytest.mark.covers("R2-21")
def test_workers_that_share_a_run_follow_no_more_redirects(site: Site, crew: Crew):
    """A page may be asked by another worker than the redirect that led to it."""
    site.pages["/"] = html("Home", "/0")
    for n in range(3):
        site.pages[f"/{n}"] = Page(redirect=f"/{n + 1}")
    site.pages["/3"] = html("End")
    crew.crawl.environment["REDIRECT_MAX_TIMES"] = "1"

    crew.run(site.url("/"))

    assert {r.path for r in site.log if r.path != "/robots.txt"} == {"/", "/0", "/1"}


def test_worker_that_is_late_for_a_job_finds_it_over(site: Site, crew: Crew):
    fan(site, 5)
    crew.run(site.url("/"), 2)
    site.clear()
    [late] = crew.end(crew.join(site.url("/")))

    assert site.log == []
    assert len(crew.crawl.runs()) == 1
    assert f"job {crew.job} has ended; it was run 1" in late.err


# Refusals: nothing is asked, and nothing is written


def test_worker_with_another_sources_toml_is_refused_with_the_key(
    site: Site, crew: Crew, postgres: servers.Postgres
):
    """It left out links that the others follow, and their pages became orphans."""
    fan(site, 40, 0.2)
    crew.crawl.environment |= {"CONCURRENT_REQUESTS_PER_DOMAIN": "1"}
    declared = f'[sources.docs]\nseeds = ["{site.url("/")}"]\n'
    crew.crawl.declare(declared)
    workers = crew.begin(None, 1)
    wait_until(lambda: len(site.log) > 2, "the run is open")
    database = crew.crawl.environment["REGISTRY_URL"].rpartition("/")[2]
    [(connections,)] = postgres.execute(
        "SELECT count(*) FROM pg_stat_activity"
        f" WHERE application_name = 'smartcrawl' AND datname = '{database}'"
    )
    assert connections <= 8, "the manual says so"
    crew.crawl.declare(declared + "excluded_patterns = ['/secret-part']\n")
    [refused] = crew.end(crew.join(None), statuses=(1,))

    assert "other workers crawl docs in run 1 with another excluded_patterns: give" in refused.err
    assert "secret-part" not in refused.err + str(crew.crawl.rows("SELECT rules FROM run"))
    crew.crawl.declare("# the same\n" + declared)
    crew.end(*workers, crew.join(None))
    [run] = crew.crawl.runs()
    assert (run["complete"], run["new"]) == (True, 41)


@pytest.fixture
def alone(tmp_path: Path, ask: Scrapy, redis_url: str) -> Crawl:
    """A worker whose registry is a file."""
    return Crawl(tmp_path, ask, redis=redis_url)


def test_worker_with_a_registry_that_others_do_not_see_is_refused(site: Site, alone: Crawl):
    fan(site, 2)
    result = alone(site.url("/"), expect=1)

    assert (
        "which workers on other machines cannot see: set REGISTRY_URL=postgresql://" in result.err
    )
    assert site.log == []
    assert not alone.registry.exists(), "the next one would take it for a registry of runs"


def test_worker_with_a_redis_that_evicts_is_refused(site: Site, crew: Crew, redis_url: str):
    fan(site, 2)
    with RedisClient.from_url(redis_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            result = crew.crawl(site.url("/"), expect=1)
        finally:
            client.config_set("maxmemory-policy", "noeviction")

    assert "evicts keys when its memory is full (maxmemory-policy allkeys-lru)" in result.err
    assert "CONFIG SET maxmemory-policy noeviction" in result.err
    assert is_untouched(site, crew.crawl)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://127.0.0.1:6379/0", "expected redis://HOST:PORT/DB"),
        ("redis://127.0.0.1:1/0", "start it, or correct REDIS_URL"),
        ("redis://127.0.0.1:{port}/99999", "has no such database"),
        ("redis://me:hunter2@127.0.0.1:{port}/0", "a valid user and password"),
    ],
)
def test_worker_with_a_wrong_redis_url_is_refused(
    site: Site, crew: Crew, redis: servers.Redis, url: str, says: str
):
    fan(site, 2)
    crew.crawl.environment["REDIS_URL"] = url.format(port=redis.port)
    result = crew.crawl(site.url("/"), expect=None)

    assert result.status in (1, 2)
    assert says in result.err
    assert "hunter2" not in result.err
    assert is_untouched(site, crew.crawl)


def is_untouched(site: Site, crawl: Crawl) -> bool:
    """Whether nothing was asked, and no run begun: a run has a source."""
    return site.log == [] and not crawl.registry.exists()


def test_worker_commands_that_need_a_source_alone_wait_for_nobody(site: Site, crew: Crew):
    fan(site, 40, 0.1)
    workers = crew.begin(site.url("/"), 2)
    wait_until(lambda: len(site.log) > 10, "they are at work")
    source = crew.crawl.rows("SELECT name FROM source")[0][0]

    refused = crew.crawl.run("forget", "--source", source, expect=4)
    assert any(f"by process {worker.pid}" in refused.err for worker in workers)

    single = dict(crew.crawl.environment)
    del crew.crawl.environment["REDIS_URL"]
    refused = crew.crawl(site.url("/"), expect=4)
    crew.crawl.environment = single
    crew.end(*workers)

    assert len(crew.crawl.records()) == 41


@pytest.mark.covers("R0-16", "R0-100")
def test_workers_ask_the_spellings_that_each_of_them_met(site: Site, crew: Crew):
    site.pages["/"] = html("Home", "/install/", "/about/", *(f"/hub/{n}" for n in range(12)))
    for n in range(12):
        site.pages[f"/hub/{n}"] = html(f"Hub {n}", *(["/about"] if n == 11 else []))
    site.pages["/install/"] = html("Install", text="how to install it")
    site.pages["/about"] = html("About", "/team", text="who we are")
    site.pages["/team"] = html("Team", text="all of us")
    crew.run(site.url("/"), 2)
    outcomes = crew.crawl.outcomes()
    assert (outcomes["/about"], outcomes["/team"]) == ("new", "new")
    del site.pages["/install/"]
    site.pages["/install"] = html("Install", text="how to install it")
    site.pages["/hub/3"] = html("Hub 3", "/install")

    crew.run(site.url("/"), 2)

    assert crew.crawl.outcomes()["/install"] == "unchanged"
    assert crew.crawl.counts_add_up()

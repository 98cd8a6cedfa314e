"""The decision about pages that shrank, with the lane and without, killed, and among workers.

The rest of it is in tests/lab/test_crawl_collapse.py.

Source: ADR 37.
"""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.collapsing import PAGES, build, shop, shrink
from tests.crawls.commands import Crawl, Scrapy, wait_until
from tests.crawls.crew import Crew, adds_up, facts
from tests.site_server import Page, Site

pytestmark = pytest.mark.long(but=1)

__all__ = ["shop"]  # a fixture


@pytest.mark.parametrize("lane", ["off", "auto"])
def test_by_each_road_four_pages_of_a_small_run_are_withheld(shop: Site, crawl: Crawl, lane: str):
    crawl.environment["REVALIDATION_LANE"] = lane
    shrink(shop, 4)
    result = crawl(shop.url("/"))

    outcomes = crawl.outcomes()
    assert [outcomes[path] for path in PAGES[:5]] == [*["failed"] * 4, "unchanged"]
    assert "collapsed: 4 pages, such as" in result.out


def test_progress_says_what_became_of_a_page_that_waited(shop: Site, crawl: Crawl):
    shrink(shop, 1)
    result = crawl.run("crawl", "site", "-a", f"url={shop.url('/')}", "--progress", "json")

    lines = [json.loads(line) for line in result.out.splitlines() if line.startswith("{")]
    told = [line["outcome"] for line in lines if line.get("url") == shop.url("/p0")]
    assert told == ["failed", "modified"]


# Killed in the midst of it


@pytest.mark.alone
@pytest.mark.embedded
@pytest.mark.parametrize(
    "where", ["after the begin of", "before the commit of", "after the commit of"]
)
@pytest.mark.parametrize(
    ("step", "count"),
    [
        ("update_collapsed_rows 1", 3),
        ("edit 1", 3),
        ("update_collapsed_rows 1", 4),
        ("delete_collapsed_rows 1", 4),
    ],
)
def test_a_run_that_is_killed_at_the_decision_ends_as_if_it_had_not_been(
    shop: Site, crawl: Crawl, tmp_path: Path, ask: Scrapy, where: str, step: str, count: int
):
    undisturbed = Crawl(tmp_path / "undisturbed", ask)
    undisturbed(shop.url("/"))
    shrink(shop, count)
    undisturbed(shop.url("/"))
    start = ("crawl", "site", "-a", f"url={shop.url('/')}")
    killed = crawl.run("runner", "step", f"{where} {step}", *start, expect=None)
    assert killed.status == -signal.SIGKILL
    crawl.bury()
    shop.clear()

    crawl.run(*start, "-a", "resume=1")

    assert facts(crawl) == facts(undisturbed)
    assert len(crawl.runs()) == 2
    assert not [r for r in shop.log if r.path in PAGES], "no second request"
    assert crawl.rows("SELECT count(*) FROM collapse") == [(0,)]


@pytest.mark.alone
@pytest.mark.embedded
def test_a_run_that_nobody_resumes_leaves_nothing_that_waits(shop: Site, crawl: Crawl):
    shrink(shop, 3)
    start = ("crawl", "site", "-a", f"url={shop.url('/')}")
    crawl.run("runner", "step", "after the commit of update_collapsed_rows 1", *start, expect=None)
    assert crawl.rows("SELECT count(*) FROM collapse WHERE accepted") == [(3,)]
    assert crawl.hits("closed") == []
    crawl.bury()
    shop.clear()

    crawl.run(*start)

    assert [crawl.outcomes()[path] for path in PAGES[:3]] == ["modified"] * 3
    assert [shop.count(path) for path in PAGES[:3]] == [1] * 3
    assert crawl.rows("SELECT count(*) FROM collapse") == [(0,)]


# Workers that share a run


def edited(crew: Crew, site: Site, count: int) -> None:
    build(site)
    for path, page in list(site.pages.items()):
        site.pages[path] = Page(str(page), delay=0.02)
    crew.run(site.url("/"))
    shrink(site, count)
    site.clear()


def facts_of_one_worker(crawl: Crawl, site: Site, count: int) -> dict[str, Any]:
    """Crawl the site before and after its pages shrank, by one process; return what it stored."""
    build(site)
    crawl(site.url("/"))
    shrink(site, count)
    crawl(site.url("/"))
    return facts(crawl)


@pytest.mark.sqlite  # that one worker compares with
@pytest.mark.parametrize("count", [3, 4])
def test_three_workers_decide_once(crew: Crew, site: Site, crawl: Crawl, count: int):
    edited(crew, site, count)
    crew.run(site.url("/"))

    assert adds_up(crew.crawl)
    found = facts(crew.crawl)
    assert found == facts_of_one_worker(crawl, site, count), "as one worker does"
    [(edits,)] = crew.crawl.rows("SELECT edits FROM run ORDER BY no DESC LIMIT 1")
    assert edits == (3 if count == 3 else -1)


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("RunEnding.settle_collapsed", 2),
        ("RunEnding.settle_collapsed", 4),
        ("Collapses.take", 2),  # nothing is taken of pages that are withheld
        ("Collapses.release", 4),
    ],
)
def test_another_worker_goes_on_where_one_died_at_the_decision(
    crew: Crew, site: Site, crawl: Crawl, place: str, count: int
):
    edited(crew, site, count)
    mark = crew.crawl.folder / "mark"
    workers = crew.begin(site.url("/"), DIES_AT=f"{place} {mark}")
    wait_until(lambda: any(worker.ended for worker in workers), "one of them dies")
    dead = [worker for worker in workers if worker.ended]
    crew.bury(*dead)
    crew.end(*(worker for worker in workers if worker not in dead))

    assert adds_up(crew.crawl)
    found = facts(crew.crawl)
    assert found == facts_of_one_worker(crawl, site, count), "as one worker does that lives"

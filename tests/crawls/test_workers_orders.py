"""Orders to a run of three workers over Redis: all of them leave, and the last one closes it."""

import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT

import pytest

from smartcrawl.rules.model import RunState
from tests.crawls.commands import wait_until
from tests.crawls.crew import Crew, Worker
from tests.crawls.orders import (
    CANCEL,
    HANGING,
    MOST_SECONDS,
    PAUSE,
    SLOW,
    ages,
    asked,
    hang,
    held_leases,
    order,
    state,
    visited,
    wait_until_it_hangs,
)
from tests.raw_site import RawSite

pytestmark = pytest.mark.long(but=1)

PAUSED = (RunState.INTERRUPTED, '["paused"]', False, "pause")
DONE = (RunState.SWEPT, "[]", True, None)


@pytest.fixture
def raw() -> Iterator[RawSite]:
    with RawSite() as site:
        yield site


def waiting(crew: Crew, site: RawSite) -> list[Worker]:
    """Start three workers; return when they wait for the pages that hang."""
    hang(site)
    workers = crew.begin(site.url(), **SLOW)
    wait_until_it_hangs(site)
    return workers


def leave(crew: Crew, workers: list[Worker], site: RawSite, since: float) -> None:
    """Wait for workers that were ordered to end."""
    before = len(site.log)
    crew.end(*workers, statuses=(3,))
    assert time.monotonic() - since < MOST_SECONDS, "they waited for the server that hangs"
    assert len(site.log) == before
    assert held_leases(crew.crawl) == []
    assert visited(crew.crawl) == set(asked(site)) - set(HANGING)
    assert crew.crawl.rows("SELECT count(*) FROM state WHERE error_count > 0") == [(0,)]


def resume(crew: Crew, site: RawSite) -> None:
    """Go on with the run: each page that is left is asked once."""
    before = visited(crew.crawl)
    site.restore()
    crew.end(*(crew.join(site.url(), resume=True) for _ in range(3)))
    assert asked(site) == dict.fromkeys({"/", *site.paths} - before, 1)
    assert state(crew.crawl) == DONE
    assert crew.crawl.rows("SELECT count(*), sum(removed) FROM run") == [(1, 0)]


@pytest.mark.covers("RD-21")
def test_workers_are_paused_and_resumed_where_they_were(crew: Crew, raw: RawSite):
    workers = waiting(crew, raw)
    since = time.monotonic()
    assert order(crew.crawl, PAUSE)
    leave(crew, workers, raw, since)

    assert state(crew.crawl) == PAUSED
    raw.log.clear()
    [again] = crew.end(crew.join(raw.url()))
    assert "is paused; continue with -a resume=1" in again.err
    job, crew.job = crew.job, "another"
    [other] = crew.end(crew.join(raw.url()), statuses=(4,))
    assert "is paused since" in other.err
    assert asked(raw) == {}
    assert state(crew.crawl) == PAUSED
    crew.job = job
    resume(crew, raw)


@pytest.mark.covers("RD-21")
def test_workers_are_cancelled_for_good_and_others_begin_a_new_run(crew: Crew, raw: RawSite):
    workers = waiting(crew, raw)
    since = time.monotonic()
    assert order(crew.crawl, CANCEL)
    leave(crew, workers, raw, since)

    assert state(crew.crawl) == (RunState.CANCELLED, '["cancelled"]', False, "cancel")
    raw.restore()
    [again] = crew.end(crew.join(raw.url(), resume=True))
    assert "was cancelled; to start a new run, give another job name" in again.err
    assert asked(raw) == {}
    crew.run(raw.url())
    assert state(crew.crawl)[0] == RunState.CANCELLED
    assert state(crew.crawl, 2) == DONE


@pytest.mark.long
def test_workers_killed_after_the_order_leave_a_paused_run(crew: Crew, raw: RawSite):
    workers = waiting(crew, raw)
    assert order(crew.crawl, PAUSE)
    crew.kill(*workers)
    assert state(crew.crawl)[3] == "pause"
    raw.log.clear()

    crew.end(crew.join(raw.url()))

    assert asked(raw) == {}
    assert state(crew.crawl) == PAUSED, "the order is carried out by the worker that found it"
    resume(crew, raw)


@pytest.mark.parametrize("place", ["propose_unreached_rows", "seal_run_row"])
def test_the_worker_that_ends_a_run_does_not_seal_it_after_an_order(
    crew: Crew, raw: RawSite, tmp_path: Path, place: str
):
    """It stands still while the order comes, so that it has not seen it."""
    crew.crawl.environment["LOST_THRESHOLD"] = "1"
    workers = crew.begin(raw.url(), HALTS_AT=f"{place} {tmp_path / 'mark'}")
    wait_until(lambda: any(worker.stands_still for worker in workers), "one of them ends the run")
    before = ages(crew.crawl)
    assert order(crew.crawl, PAUSE)
    [still] = [worker for worker in workers if worker.stands_still]
    crew.end(*(worker for worker in workers if worker is not still), statuses=(3,))
    still.signal(SIGCONT)
    crew.end(still, statuses=(3,))

    assert state(crew.crawl) == PAUSED
    assert ages(crew.crawl) == before
    resume(crew, raw)

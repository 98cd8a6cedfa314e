"""The counts that batches add up in the row of their run (ADR 58)."""

import json

import pytest

from smartcrawl.model.batches import Batch, HostTally
from smartcrawl.registry.commit.batch import RegistryCommit
from smartcrawl.registry.commit.run_counts import VisitedHosts
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.items import register_address_row
from smartcrawl.rules.model import Outcome
from tests.registry.build import LONG, NOW, Desk, embedded_index
from tests.registry.counted import counts_are_true, scanned, stored_counts

A, A2, B = "http://a.example/1", "http://a.example/2", "http://b.example/1"


class _LostError(Exception):
    """Rolls a batch back."""


def visit(desk: Desk, worker: VisitedHosts, *urls: str, lost: bool = False) -> None:
    """Commit the visits of one batch as a worker that has counted these hosts before."""
    run = desk._run
    commit = RegistryCommit(
        desk.connection,
        embedded_index(desk.connection),
        run=run.no,
        source=run.source,
        number=run.number,
        since=run.last_complete,
        forced=run.forced,
        judgement=Judgement(desk.closing.policy),
        hosts=worker,
    )
    visits = [desk.visit(url, LONG) for url in urls]
    hosts = {visit.page.host: HostTally(crawled=1) for visit in visits}
    batch = Batch(visits=visits, hosts=hosts)
    batch.counts["visits"] = len(visits)
    try:
        with transaction(desk.connection):
            commit.write(batch, NOW)
            if lost:
                raise _LostError
    except _LostError:
        return
    worker.update(commit.counts.hosts)


def hosts(desk: Desk) -> int:
    counted = stored_counts(desk.connection, desk._run.no)
    assert counted == scanned(desk.connection, desk._run.no)
    return counted[1]


@pytest.mark.covers("R2-26")
def test_each_host_counts_once_for_all_workers_of_a_run(desk: Desk):
    first, second = VisitedHosts(), VisitedHosts()
    visit(desk, first, A)
    assert (hosts(desk), first.names) == (1, {"a.example"})
    visit(desk, first, A2)
    assert hosts(desk) == 1
    visit(desk, second, A, B)
    assert (hosts(desk), second.names) == (2, {"a.example", "b.example"})
    visit(desk, first, B)
    assert hosts(desk) == 2
    desk.seal()
    assert desk.value("SELECT count(*) FROM run_host") == 0


@pytest.mark.covers("R2-26")
def test_a_batch_that_is_rolled_back_counts_nothing(desk: Desk):
    worker = VisitedHosts()
    visit(desk, worker, A, lost=True)
    assert (hosts(desk), worker.names) == (0, set())
    visit(desk, worker, A)
    assert hosts(desk) == 1
    assert desk.value("SELECT words FROM run") == json.dumps({"new": 1})


@pytest.mark.covers("R2-26")
def test_a_resumed_run_counts_what_is_stored(desk: Desk):
    """Pages may have been removed since it was interrupted."""
    visit(desk, VisitedHosts(), A, B)
    desk.add(A2)
    desk.connection.execute("DELETE FROM state WHERE no = ?", (desk.number(B),))
    desk.connection.execute("DELETE FROM state WHERE no = ?", (desk.number(A2),))
    assert stored_counts(desk.connection, 1) == (1, 2, {"new": 2})

    desk.open(resume=True, now=NOW + 100)

    assert stored_counts(desk.connection, 1) == (0, 1, {"new": 1})
    assert json.loads(str(desk.value("SELECT marks FROM run"))) == [[NOW + 100, 2, 0]]
    visit(desk, VisitedHosts(), A)
    assert hosts(desk) == 1


@pytest.mark.covers("R2-26")
def test_a_run_that_is_not_resumed_leaves_no_hosts(desk: Desk):
    visit(desk, VisitedHosts(), A)
    assert desk.value("SELECT count(*) FROM run_host") == 1

    desk.open()

    assert desk.value("SELECT count(*) FROM run_host") == 0
    assert stored_counts(desk.connection, desk._run.no) == (0, 0, {})


@pytest.mark.covers("R2-26")
def test_an_address_that_is_registered_by_hand_is_queued(desk: Desk):
    desk.add(A)
    with transaction(desk.connection):
        for _ in range(2):
            register_address_row(desk.connection, "docs", B, desk.trackers, NOW)

    assert stored_counts(desk.connection, 1)[0] == 2
    assert counts_are_true(desk.connection, 1)
    visit(desk, VisitedHosts(), B)
    assert stored_counts(desk.connection, 1)[0] == 1


@pytest.mark.covers("R2-26")
def test_a_page_that_a_run_reaches_again_is_queued_once(desk: Desk):
    for url in (A, A2):
        desk.index(url, LONG)
    desk.seal()
    desk.open()

    for _ in range(2):
        desk.reach(A, A2)
        assert stored_counts(desk.connection, 2)[0] == 2
    desk.write(desk.visit(A, outcome=Outcome.NOT_FOUND, status=404))
    desk.reach(A)

    assert stored_counts(desk.connection, 2) == (1, 1, {"lost": 1})

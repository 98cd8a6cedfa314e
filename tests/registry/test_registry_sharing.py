"""Batches of workers that share a run: what two of them found at once counts once (ADR 30)."""

from collections.abc import Iterable

import pytest

from smartcrawl.index.embedded.choice import embedded_index
from smartcrawl.model.batches import Address, Batch, HostTally
from smartcrawl.model.exceptions import RunOverError
from smartcrawl.model.pages import Visit
from smartcrawl.registry.commit.batch import RegistryCommit, Sharing, renumber_batch_rows
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.connection import draw_sequence_numbers, transaction
from smartcrawl.registry.pack import pack_stored_numbers, unpack_stored_numbers
from smartcrawl.registry.runs import runs
from smartcrawl.registry.runs.shared_reader import SharedReader
from smartcrawl.rules.model import Outcome
from smartcrawl.rules.schedule import Schedule
from smartcrawl.rules.trust import Seen, Trust
from smartcrawl.run.shortcomings import Shortcomings, merged_run_shortcomings
from tests.registry.build import NOW, Desk

A, B, C = (f"http://a.example/{name}" for name in "abc")


class Worker:
    """One of several that write to the run of a desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        with transaction(desk.connection):
            self.sharing = Sharing(
                draw_sequence_numbers(desk.connection, "number"), merged_run_shortcomings
            )

    def write(self, *visits: Visit, **told: object) -> int:
        desk, run = self.desk, self.desk.run
        assert run is not None
        batch = Batch(visits=list(visits), **told)  # type: ignore[arg-type]
        batch.counts["visits"] = len(visits) + len(batch.touched)
        with transaction(desk.connection):
            commit = RegistryCommit(
                desk.connection,
                embedded_index(desk.connection),
                run=run.no,
                source=run.source,
                number=draw_sequence_numbers(desk.connection, "number"),
                since=run.last_complete,
                forced=run.forced,
                judgement=Judgement(schedule=Schedule(jitter=0)),
                sharing=self.sharing,
            )
            return commit.write(batch, NOW)


@pytest.fixture
def workers(desk: Desk) -> tuple[Worker, Worker]:
    return Worker(desk), Worker(desk)


def urls(desk: Desk, numbers: Iterable[int]) -> list[str]:
    known = dict(desk.rows("SELECT no, url FROM record"))
    return [str(known[number]) for number in numbers]


# What waits


def test_what_a_batch_reached_is_offered_breadth_first(desk: Desk, workers: tuple[Worker, Worker]):
    """Redis hands out what it is offered in that order (docs/redis.md)."""
    one, _ = workers
    deep, flat, beside = desk.address(A, 4), desk.address(B, 2), desk.address(C, 2)
    one.write(addresses=[deep, flat, beside])
    assert desk.run is not None

    told = SharedReader(desk.connection, desk.run.no).reached([beside.no, deep.no, flat.no])

    assert [(each.no, each.depth) for each in told] == [(flat.no, 2), (beside.no, 2), (deep.no, 4)]


# Addresses that two meet at once


@pytest.mark.covers("M-33", "M-34")
def test_an_address_that_two_met_at_once_is_registered_once(
    desk: Desk, workers: tuple[Worker, Worker]
):
    one, two = workers
    first, second, alone = desk.address(A, 4), desk.address(A, 2), desk.address(B, 2)
    one.write(addresses=[first])
    two.write(addresses=[second, alone])

    assert desk.rows("SELECT no, url FROM record ORDER BY url") == [(first.no, A), (alone.no, B)]
    assert desk.value("SELECT depth FROM state WHERE no = ?", (first.no,)) == 2
    assert two.sharing.renamed == two.sharing.news == {second.no: first.no}
    assert one.sharing.renamed == {}


def test_what_leads_to_it_is_written_with_the_number_that_counts(
    desk: Desk, workers: tuple[Worker, Worker]
):
    one, two = workers
    (page,) = desk.add("http://a.example/")
    first, second, other = desk.address(A, 1), desk.address(A, 1), desk.address(B, 1)
    one.write(addresses=[first])
    visit = desk.visit(
        "http://a.example/", "It leads on.", links=[], targets=[other.no, second.no, first.no]
    )
    visit.parsed.canonical_no = second.no
    further = Address(*desk.address(C, 2)[:6], discovered_from=second.no)
    two.write(visit, addresses=[second, other, further], kinds={second.no: 1})

    (targets,) = desk.rows("SELECT targets FROM links WHERE no = ?", (page,))[0]
    assert urls(desk, unpack_stored_numbers(targets)) == [B, A]
    assert desk.rows("SELECT canonical_no FROM record WHERE no = ?", (page,)) == [(first.no,)]
    assert desk.rows("SELECT discovered_from FROM record WHERE url = ?", (C,)) == [(first.no,)]
    assert desk.rows("SELECT kind FROM record WHERE no = ?", (first.no,)) == [(1,)]


def test_a_later_batch_of_the_same_worker_is_written_with_it_too(
    desk: Desk, workers: tuple[Worker, Worker]
):
    one, two = workers
    first, second = desk.address(A, 3), desk.address(A, 3)
    one.write(addresses=[first])
    two.write(addresses=[second])
    two.write(reached={second.no: 1})

    assert desk.rows("SELECT no, depth FROM state") == [(first.no, 1)]


def test_renaming_leaves_alone_what_nobody_else_met():
    batch = Batch(
        reached={1: 2, 7: 1}, kinds={7: 1}, retargeted=[(3, 1, pack_stored_numbers([7, 8]), 7)]
    )
    renumber_batch_rows(batch, {})
    assert (batch.reached, batch.kinds) == ({1: 2, 7: 1}, {7: 1})

    renumber_batch_rows(batch, {7: 1})
    assert (batch.reached, batch.kinds) == ({1: 1}, {1: 1})
    assert [(no, list(unpack_stored_numbers(t)), c) for no, _, t, c in batch.retargeted] == [
        (3, [1, 8], 1)
    ]


# Pages that two visited


@pytest.mark.covers("M-33", "R0-72", "R0-73")
def test_the_first_answer_of_a_run_is_the_one_that_counts(
    desk: Desk, workers: tuple[Worker, Worker]
):
    one, two = workers
    desk.add(A)
    early = desk.visit(A, "What the first one read.", etag='"1"')
    late = desk.visit(A, "What the second one read, of the same claim.", etag='"2"')

    assert one.write(early) == 0
    assert two.write(late) == 1, "it is stale"

    assert desk.rows("SELECT etag FROM record") == [('"1"',)]
    assert desk.rows("SELECT attempts FROM state") == [(1,)]
    assert desk.rows("SELECT visits FROM run") == [(1,)], "and it is no visit"


def test_an_unchanged_page_counts_once_too(desk: Desk, workers: tuple[Worker, Worker]):
    number = desk.index(A, "It stays as it is.")
    desk.seal()
    desk.open()
    desk.reach(A)
    one, two = Worker(desk), Worker(desk)

    assert one.write(touched=[number]) == 0
    assert two.write(touched=[number]) == 1
    assert desk.rows("SELECT unchanged_count, attempts FROM state") == [(1, 2)]
    assert desk.rows("SELECT visits FROM run ORDER BY no DESC LIMIT 1") == [(1,)]


def test_a_404_that_two_were_given_counts_once(desk: Desk):
    desk.index(A, "It was there.")
    desk.seal()
    desk.open()
    desk.reach(A)
    gone = {"outcome": Outcome.NOT_FOUND, "status": 404}
    visits = [desk.visit(A, **gone) for _ in range(2)]
    for worker, visit in zip((Worker(desk), Worker(desk)), visits, strict=True):
        worker.write(visit)

    assert desk.rows("SELECT lost_count, gone_count FROM state") == [(1, 1)]


def test_what_was_removed_after_a_worker_joined_is_not_brought_back_by_it(desk: Desk):
    desk.add(A)
    worker = Worker(desk)
    visit = desk.visit(A, "It was asked before that.")
    with transaction(desk.connection):
        number = draw_sequence_numbers(desk.connection, "number")
        desk.connection.execute("UPDATE state SET number = ?", (number,))

    assert worker.write(visit) == 1
    assert desk.rows("SELECT standing FROM state") == [(0,)]


@pytest.mark.covers("R0-90")
def test_nothing_is_written_to_a_run_that_somebody_ended(
    desk: Desk, workers: tuple[Worker, Worker]
):
    desk.add(A)
    visit = desk.visit(A, "Too late.")
    desk.seal()

    with pytest.raises(RunOverError, match="closed by another process"):
        workers[0].write(visit)
    assert desk.rows("SELECT visited_run FROM state") == [(0,)]


# What several learn


def test_what_cut_the_run_is_what_all_workers_found(desk: Desk, workers: tuple[Worker, Worker]):
    for worker, cuts in zip(workers, (Shortcomings(), Shortcomings()), strict=True):
        for page in ("hub", "other"):
            cuts.count("too_many_links", f"http://a.example/{page}")
            cuts.add("robots_unknown: b.example")
            worker.write(cut=cuts.news())

    (stored,) = desk.rows("SELECT cut FROM run")[0]
    assert Shortcomings.loads(str(stored)).as_reasons() == (
        "robots_unknown: b.example", "too_many_links: http://a.example/hub and 3 more",
    )  # fmt: skip


def test_what_validators_are_worth_is_what_all_workers_saw(
    desk: Desk, workers: tuple[Worker, Worker]
):
    desk.write(hosts={"a.example": HostTally(trust=Trust(etags=10, frozen=1))})
    before = Trust(etags=10, frozen=1)
    for worker in workers:
        after = Trust(etags=12, frozen=2, honoured=1)
        worker.write(hosts={"a.example": HostTally(trust=after, trusted=before)}, reached={1: 1})

    assert desk.rows("SELECT etags, frozen, honoured FROM trust") == [(14, 3, 1)]


def test_rotation_is_what_all_workers_of_a_run_saw(desk: Desk, workers: tuple[Worker, Worker]):
    """The worker that writes first starts the counts of this run."""
    assert desk.run is not None
    run = desk.run.no
    left = Trust(repeated=200, run=run - 1, matched=1)
    desk.write(hosts={"a.example": HostTally(trust=left)})
    begun = left.at(run)
    for worker in workers:
        after = begun.after(Seen(True, False, True, False, True, True, True, True))
        after = after.seen_304(turned=True)
        worker.write(hosts={"a.example": HostTally(trust=after, trusted=begun)}, reached={1: 1})

    rows = desk.rows("SELECT repeated, rotated, run, matched FROM trust")
    assert rows == [(2, 2, run, 2)]


def test_a_sweep_is_done_once_however_many_do_it(desk: Desk):
    desk.index(A, "It goes.")
    desk.seal()
    desk.open()
    run = desk.run
    assert run is not None
    ending = desk.ending()
    runs.seal_run_row(desk.connection, run.no, (), NOW)
    desk.end(ending)
    counts = desk.rows("SELECT state, counts, removed FROM run ORDER BY no DESC LIMIT 1")

    desk.end(ending)
    assert desk.rows("SELECT state, counts, removed FROM run ORDER BY no DESC LIMIT 1") == counts


@pytest.mark.sqlite  # PostgreSQL would be connected to again
def test_what_a_batch_without_news_reached_is_told_without_asking(desk: Desk):
    (page,) = desk.add(A)
    run = desk.run
    assert run is not None
    reader = SharedReader(desk.connection, run.no)
    assert [reached.no for reached in reader.reached([page])] == [page]

    desk.close()
    assert reader.reached([]) == []

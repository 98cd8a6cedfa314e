"""Samples of the progress of a run, as its batches write them."""

from typing import Any

import pytest

from smartcrawl.model.batches import Batch
from smartcrawl.registry.commit.run_samples import stored_run_samples
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.runs import runs
from smartcrawl.rules.model import Outcome
from smartcrawl.rules.progress import MOST_SAMPLES
from tests.registry.build import NOW, Desk, closing

A, B, C = (f"http://a.example/{name}" for name in "abc")
DAY = 86_400


def samples(desk: Desk, run: int = 1) -> list[tuple[int, ...]]:
    """Seconds since the begin, pages done, waiting, requests, failed."""
    found = stored_run_samples(desk.connection, run)
    return [(s.at - NOW, s.visits, s.queued, s.requests, s.failed) for s in found]


def test_a_short_run_has_its_begin_and_its_end(desk: Desk):
    desk.write(desk.visit(A, "a"), now=NOW + 3)
    desk.seal(now=NOW + 4)

    assert samples(desk) == [(0, 0, 0, 0, 0), (4, 1, 0, 1, 0)]


def test_a_batch_brings_a_sample_every_ten_seconds(desk: Desk):
    desk.add(A, B, C)
    desk.write(desk.visit(A, "a"), now=NOW + 9)
    desk.write(desk.visit(B, outcome=Outcome.NOT_FOUND, status=404), now=NOW + 10)
    desk.write(desk.visit(C, "c"), now=NOW + 19)

    assert samples(desk) == [(0, 0, 0, 0, 0), (10, 2, 1, 2, 1)]
    desk.seal(now=NOW + 19)
    assert samples(desk)[2:] == [(19, 3, 0, 3, 1)]


def test_a_run_that_writes_nothing_has_samples(desk: Desk):
    desk.committed(Batch(is_sample=True), None, NOW + 10)

    assert samples(desk) == [(0, 0, 0, 0, 0), (10, 0, 0, 0, 0)]
    assert Batch(is_sample=True)
    assert not Batch()


def test_samples_have_what_304s_and_bytes_came_to(desk: Desk):
    batch = Batch(is_sample=True)
    batch.counts.update(visits=7, requests=9, not_modified=5, bytes_downloaded=1234)
    desk.committed(batch, None, NOW + 10)

    assert stored_run_samples(desk.connection, 1, NOW + 1) == [(NOW + 10, 7, 0, 9, 5, 0, 1234)]


def test_a_full_run_keeps_every_second_sample_and_doubles_the_distance(desk: Desk):
    for number in range(1, MOST_SAMPLES + 4):
        desk.committed(Batch(is_sample=True), None, NOW + 10 * number)
    kept = [at for at, *_ in samples(desk)]

    # 361 samples became 181; of the three after them, one is due.
    assert kept == [*range(0, 10 * MOST_SAMPLES + 1, 20), 10 * MOST_SAMPLES + 20]
    assert desk.value("SELECT sample_seconds FROM run") == 20


def test_a_clock_that_was_put_back_leaves_the_samples_in_order(desk: Desk):
    desk.write(desk.visit(A, "a"), now=NOW + 50)
    desk.write(desk.visit(B, "b"), now=NOW - 500)
    desk.seal(now=NOW - 400)

    assert samples(desk) == [(0, 0, 0, 0, 0), (50, 2, 0, 2, 0)]


def test_a_resumed_run_goes_on_with_its_samples(desk: Desk):
    run = desk._run
    desk.write(desk.visit(A, "a"), now=NOW + 3)
    with transaction(desk.connection):
        runs.interrupt_run_row(desk.connection, run.no, NOW + 4, ["shutdown"], is_alive=True)
    desk.open(resume=True, now=NOW + DAY)
    desk.seal(now=NOW + DAY + 2)

    assert [at for at, *_ in samples(desk)] == [0, 4, DAY, DAY + 2]


def test_a_run_whose_process_died_ends_with_what_it_wrote(desk: Desk):
    desk.write(desk.visit(A, "a"), now=NOW + 10)
    desk.open(now=NOW + DAY)

    assert [at for at, *_ in samples(desk)] == [0, 10]


@pytest.mark.parametrize(("ttl", "left"), [(0, [1, 2]), (DAY, [2]), (3 * DAY, [1, 2])])
def test_samples_are_kept_as_long_as_records_of_removed_pages(
    desk: Desk, ttl: int, left: list[int]
):
    desk.seal(now=NOW + 1)
    desk.closing = closing(gone_ttl=ttl)
    desk.open(now=NOW + 2 * DAY)
    desk.seal(now=NOW + 2 * DAY)

    found: Any = desk.rows("SELECT DISTINCT run FROM run_sample ORDER BY run")
    assert [run for (run,) in found] == left


def test_the_stored_pages_are_counted_at_the_end_of_a_run(desk: Desk):
    desk.write(desk.visit(A, "a"), desk.visit(B, "b"))
    assert desk.value("SELECT held FROM run") is None
    desk.seal()
    desk.open(now=NOW + 60)
    desk.write(
        desk.visit(A, outcome=Outcome.NOT_FOUND, status=404),
        desk.visit(C, outcome=Outcome.NOT_FOUND, status=404),
        reached={desk.number(B): 0},
        now=NOW + 60,
    )
    desk.seal(now=NOW + 60)

    assert desk.rows("SELECT held FROM run ORDER BY no") == [(2,), (2,)]  # a last copy is stored

"""The order to visit all pages again, in steps (E-14, R0-53, R0-68)."""

import pytest

from smartcrawl.server import items
from smartcrawl.server.items import Rebuilding
from tests.server.data.library import NOW
from tests.server.items.conftest import REBUILD, Desk

LATER = NOW + 90_000


def fill(desk: Desk) -> None:
    """One page of each kind, after the one that is known already."""
    desk.put("https://docs.example.com/error", status=3, next_visit=LATER)
    desk.put("https://docs.example.com/pending", None, standing=0, status=0, next_visit=LATER)
    desk.put("https://docs.example.com/due", next_visit=NOW - 5)
    desk.put("https://docs.example.com/gone", standing=0, status=5, next_visit=LATER)
    desk.rows("UPDATE state SET next_visit = ? WHERE no = 1", LATER)
    desk.rows("INSERT INTO item (no, generation, processed, requested) VALUES (1, 4, 4, FALSE)")


def states(desk: Desk) -> list[tuple[int, int]]:
    return [(int(s), int(n)) for s, n in desk.rows(
        "SELECT status, next_visit FROM state ORDER BY no"
    )]  # fmt: skip


@pytest.mark.covers("E-14", "R0-68")
def test_without_force_all_pages_are_due_now_and_tombstones_stay(desk: Desk):
    fill(desk)
    assert desk.order(REBUILD) == {"queued": 4}

    Rebuilding(desk.database, desk.connection).steps(NOW)

    assert states(desk) == [(2, NOW), (3, NOW), (0, NOW), (2, NOW - 5), (5, LATER)]
    assert desk.rows("SELECT no, generation FROM item") == [(1, 4)]
    assert desk.rows("SELECT no FROM rebuild") == []


@pytest.mark.covers("E-14", "R0-53", "R0-55")
def test_with_force_stored_pages_are_indexed_anew(desk: Desk):
    fill(desk)
    desk.order(REBUILD, force=True)

    Rebuilding(desk.database, desk.connection).steps(NOW)

    assert states(desk) == [(2, NOW), (0, NOW), (0, NOW), (2, NOW - 5), (5, LATER)]
    found = desk.rows("SELECT no, generation, processed, requested FROM item ORDER BY no")
    assert [(n, g, p, bool(r)) for n, g, p, r in found] == [
        (1, 5, 4, True), (2, 1, 0, True), (4, 1, 0, True),
    ]  # fmt: skip


@pytest.mark.covers("E-14")
def test_it_is_done_in_steps_that_another_server_goes_on_with(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(items, "STEP", 2)
    fill(desk)
    desk.put_all([(f"https://docs.example.com/{n}", NOW) for n in range(20)], next_visit=LATER)
    desk.order(REBUILD, force=True)
    first, second = (Rebuilding(desk.database, desk.connection) for _ in range(2))

    first.steps(NOW)  # of five times two
    assert desk.rows("SELECT place, last FROM rebuild") == [(10, 25)]
    assert [due for _, due in states(desk)].count(LATER) == 16
    second.steps(NOW)
    assert desk.rows("SELECT place FROM rebuild") == [(20,)]
    first.steps(NOW)

    assert desk.rows("SELECT no FROM rebuild") == []
    assert [due for _, due in states(desk)].count(LATER) == 1
    assert {g for (g,) in desk.rows("SELECT generation FROM item WHERE no > 1")} == {1}
    first.steps(NOW)  # there is nothing more to do


@pytest.mark.covers("E-14")
def test_a_second_order_begins_again_and_a_stale_step_does_nothing(desk: Desk):
    fill(desk)
    desk.order(REBUILD)
    desk.rows("UPDATE rebuild SET place = 3")
    desk.order(REBUILD, force=True)
    desk.order(REBUILD)

    (row,) = desk.rows("SELECT forced, place, last FROM rebuild")
    assert (bool(row[0]), *row[1:]) == (True, 0, 5)
    work = Rebuilding(desk.database, desk.connection)
    work._step(False, 3, 5, now=NOW)
    assert {due for _, due in states(desk)} == {LATER, NOW - 5}
    work.steps(NOW)
    assert desk.rows("SELECT count(*) FROM item") == [(3,)]


@pytest.mark.covers("E-14")
def test_an_empty_registry_has_nothing_to_rebuild(desk: Desk):
    desk.rows("DELETE FROM state")
    desk.rows("DELETE FROM record")

    assert desk.order(REBUILD, force=True) == {"queued": 0}
    Rebuilding(desk.database, desk.connection).steps(NOW)
    assert desk.rows("SELECT no FROM rebuild") == []

"""The unified outcome table, U-01 to U-05 and U-19: answers with a body, and 304."""

import pytest

from smartcrawl.rules.model import Fault, Status, Word
from tests.index.asking import search
from tests.registry.build import Desk
from tests.registry.test_outcome_table import (
    DAY,
    HELD,
    INDEXED,
    MODIFIED,
    NEW,
    NOW_SEEN,
    OLD,
    ORIGINAL,
    TEXTS,
    UNCHANGED,
    A,
    Cell,
    Facts,
    Reply,
    answers,
    asked,
    begin,
    bring,
    cells,
    check,
    facts,
)


@pytest.mark.covers("U-01", "R4-34", "R1-10", "R1-20", "RD-11", "R0-62")
@cells(
    "U-01",
    none=INDEXED | NEW,
    gone=INDEXED | NEW,
    redirect=INDEXED | NEW,
    links=INDEXED | NEW,
    error=INDEXED | NEW,
)
def test_a_body_where_no_content_is_held_is_new(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(200, "new"), cell)


#: A 304 where nothing is held answers a request that had no validators.
UNSOLICITED = NOW_SEEN | {
    "status": Status.ERROR, "word": Word.FAILED, "http": int(Fault.UNSOLICITED_304),
    "effective": int(Fault.UNSOLICITED_304), "message": "why", "redirect": None,
}  # fmt: skip


@pytest.mark.covers("U-02", "R4-35", "R4-26", "R1-06", "R1-32", "M-03", "RD-06")
@cells(
    "U-02",
    none=UNSOLICITED | {"errors": 1, "wait": 600},
    held=NOW_SEEN | {"word": Word.UNCHANGED, "http": 304, "unchanged": 1},
    gone=UNSOLICITED | {"status": Status.GONE, "errors": 4, "wait": 4800},
    redirect=UNSOLICITED | {"errors": 1, "wait": 600},
    links=NOW_SEEN | {"http": 304, "unchanged": 1},
    error=UNSOLICITED | {"errors": 2, "wait": 1200},
)
def test_a_304_moves_times_and_counts_where_something_is_held(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(304), cell)


@pytest.mark.covers("U-02", "U-03", "M-03", "R1-32", "R4-26")
@pytest.mark.parametrize("reply", [Reply(304), OLD], ids=["U-02-touched", "U-03"])
def test_what_did_not_change_leaves_content_index_and_links_row_for_row(desk: Desk, reply: Reply):
    bring(desk, "held")
    tables = ("content", "chunk", "links")
    before = {table: desk.stored()[table] for table in tables}
    views = [desk.rows(f"SELECT * FROM {view}") for view in ("pages", "documents")]
    now = begin(desk)
    desk.reach(A)

    if reply.status == 304:
        desk.write(touched=[desk.number(A)], now=now)  # as a plain 304 is written
    else:
        desk.write(asked(desk, reply, now), now=now)
    desk.seal(now=now)

    assert {table: desk.stored()[table] for table in tables} == before
    assert [desk.rows(f"SELECT * FROM {view}") for view in ("pages", "documents")] == views
    assert facts(desk, now) == HELD | UNCHANGED | {"http": reply.status}


@pytest.mark.covers("U-02", "U-04", "R0-48", "R0-49")
def test_the_interval_grows_with_the_third_304_and_a_change_resets_it(desk: Desk):
    bring(desk, "held")

    def wait(reply: Reply) -> int:
        answers(desk, reply)
        return facts(desk, 0)["wait"] // DAY

    assert [wait(Reply(304)) for _ in range(3)] == [1, 1, 3]
    assert wait(Reply(200, "new")) == 1


@pytest.mark.covers("U-03", "R4-35", "R0-47", "M-12")
@cells(
    "U-03",
    held=UNCHANGED | {"http": 200, "validators": "new", "links": ["new"]},
    links=INDEXED | NEW | {"hashes": "old", "shown": "old"},  # it may be indexed now: U-01
)
def test_equal_content_renews_validators_and_links(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(200, "old"), cell)


@pytest.mark.covers("U-04", "U-19", "R4-36", "R4-28", "R1-07", "R1-33")
@cells("U-04", held=INDEXED | MODIFIED, lost=INDEXED | MODIFIED)
def test_other_content_replaces_what_is_held(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(200, "new"), cell)

    assert search(desk.connection, TEXTS["old"]) == []
    assert desk.rows("SELECT text FROM chunk WHERE text LIKE ?", (f"%{TEXTS['old']}%",)) == []


CLONE = INDEXED | {"hashes": "long", "shown": None, "original": ORIGINAL}


@pytest.mark.covers("U-05", "M-23", "R4-13", "R4-15")
@cells(
    "U-05",
    none=CLONE | NEW,
    held=CLONE | MODIFIED,
    lost=CLONE | MODIFIED,
    gone=CLONE | NEW,
    redirect=CLONE | NEW,
    links=CLONE | NEW,
    error=CLONE | NEW,
)
def test_content_of_another_page_makes_a_clone_without_an_entry(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(200, "long"), cell)

    assert {hit.url for hit in search(desk.connection, "Every word")} == {ORIGINAL}
    assert search(desk.connection, TEXTS["old"]) == []


@pytest.mark.covers("U-19", "U-02", "U-03", "U-04", "R4-43")
@pytest.mark.parametrize(
    ("reply", "changes"),
    [
        pytest.param(Reply(304), UNCHANGED | {"http": 304}, id="U-19-by-304"),
        pytest.param(
            Reply(200, "old"),
            UNCHANGED | {"http": 200, "validators": "new", "links": ["new"]},
            id="U-19-by-equal-content",
        ),
        pytest.param(Reply(200, "new"), INDEXED | MODIFIED, id="U-19-by-other-content"),
        pytest.param(Reply(200, "long"), CLONE | MODIFIED, id="U-19-by-content-of-another-page"),
    ],
)
def test_a_lost_page_that_answers_is_not_lost_any_more(desk: Desk, reply: Reply, changes: Facts):
    check(desk, "lost", reply, ({"shown": "old"} | changes, {}))

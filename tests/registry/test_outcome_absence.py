"""The unified outcome table, U-15, U-17 and U-18: pages that are not asked, or not reached."""

import pytest

from smartcrawl.rules.model import RemovalRule, Status, Word
from tests.index.asking import search
from tests.registry.build import Desk, closing
from tests.registry.test_outcome_table import (
    DAY,
    TEXTS,
    A,
    Cell,
    Reply,
    answers,
    asked,
    begin,
    bring,
    cells,
    check,
    facts,
    gone_by,
)

# U-15: not to be asked

REFUSED = {
    "status": Status.OUT_OF_SCOPE, "word": Word.EXCLUDED, "message": "disallowed by robots.txt",
    "unchanged": 0, "errors": 0, "wait": DAY, "checked": "now",
}  # fmt: skip
TAKEN_OUT = gone_by(
    RemovalRule.EXCLUDED, status=Status.OUT_OF_SCOPE, word=Word.DELETED, effective=None, wait=None
)


@pytest.mark.long(but=8)
@pytest.mark.covers("U-15", "R0-42", "M-25", "R4-08")
@cells(
    "U-15",
    none=REFUSED,
    held=REFUSED,
    lost=REFUSED | {"shown": "old, lost"},
    gone=REFUSED | {"status": Status.GONE, "errors": 4, "wait": 4800},
    redirect=REFUSED,
    links=REFUSED,
    error=REFUSED,
)
def test_what_robots_refuse_is_no_sighting_and_stays(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(None), cell)


@pytest.mark.long(but=6)
@pytest.mark.covers("U-15", "M-25")
@cells("U-15", held=TAKEN_OUT, lost=TAKEN_OUT, links=TAKEN_OUT)
@pytest.mark.parametrize("reasons", [(), ("max_pages",)], ids=["complete", "incomplete"])
def test_what_robots_refuse_goes_at_once_where_the_operator_says_so(
    desk: Desk, past: str, cell: Cell, reasons: tuple[str, ...]
):
    bring(desk, past)
    desk.closing = closing(remove_excluded=True)
    now = begin(desk)
    desk.write(asked(desk, Reply(None), now), now=now)
    before = facts(desk, now)
    assert before["removed"] == []

    desk.seal(*reasons, now=now)

    assert facts(desk, now) == before | cell[0]


OUTSIDE = {"status": Status.OUT_OF_SCOPE, "word": Word.EXCLUDED}


@pytest.mark.long(but=6)
@pytest.mark.covers("U-15", "M-25", "R4-08", "R4-17")
@cells(
    "U-15",
    held=({}, OUTSIDE),
    lost=({}, OUTSIDE),
    gone={},
    redirect={},
    links=({}, OUTSIDE),
    error={},
)
def test_what_left_the_scope_is_not_asked_and_stays(desk: Desk, past: str, cell: Cell):
    """Its links are filtered, so nobody reaches it; where nothing is held nothing changes."""
    check(desk, past, None, cell, in_scope=lambda url, depth: url != A)


@pytest.mark.covers("U-15", "U-18", "M-25", "R4-08", "R4-10")
@pytest.mark.parametrize("why", ["robots", "scope"])
def test_what_is_excluded_ages_like_an_orphan(desk: Desk, why: str):
    bring(desk, "held")
    reply = Reply(None) if why == "robots" else None
    desk.closing = closing(in_scope=lambda url, depth: why == "robots" or url != A)
    for _ in range(2):
        answers(desk, reply)
        assert facts(desk, 0)["shown"] == "old"

    answers(desk, reply)

    found = facts(desk, 0)
    assert found["removed"] == [RemovalRule.EXCLUDED]
    assert {name: found[name] for name in TAKEN_OUT} == TAKEN_OUT


@pytest.mark.covers("U-15", "U-02", "M-25")
def test_what_is_allowed_again_comes_back_without_a_loss(desk: Desk):
    bring(desk, "held")
    answers(desk, Reply(None))
    answers(desk, Reply(None))

    answers(desk, Reply(304))

    found = facts(desk, 0)
    assert (found["status"], found["word"]) == (Status.INDEXED, Word.UNCHANGED)
    assert (found["shown"], found["validators"], found["message"]) == ("old", "old", None)


ROBOTS_ALLOWED = 'SELECT "httpRobotsAllowed" FROM "IngestItems" WHERE "normalizedSource" = ?'


@pytest.mark.covers("U-15", "R0-42", "M-25")
def test_only_robots_make_an_entry_say_so(desk: Desk):
    bring(desk, "held")
    assert desk.value(ROBOTS_ALLOWED, (A,)) == 1

    answers(desk, Reply(None))

    assert desk.value(ROBOTS_ALLOWED, (A,)) == 0


@pytest.mark.covers("U-15", "U-18", "M-25")
@pytest.mark.parametrize("why", ["scope", "orphan"])
def test_robots_allow_what_another_rule_takes_out(desk: Desk, why: str):
    bring(desk, "held")
    outside = why == "scope"
    desk.closing = closing(orphan_threshold=1, in_scope=lambda url, depth: not outside or url != A)

    answers(desk, None)

    assert facts(desk, 0)["status"] is Status.OUT_OF_SCOPE
    assert desk.value(ROBOTS_ALLOWED, (A,)) == 1


# U-17, U-18: orphans

ORPHANED = {"word": Word.ORPHANED}
DELETED = gone_by(
    RemovalRule.ORPHAN, status=Status.OUT_OF_SCOPE, word=Word.DELETED, effective=None, wait=None
)


@pytest.mark.long(but=6)
@pytest.mark.covers("U-17", "R4-08", "R4-09", "M-04")
@cells(
    "U-17",
    held=({}, ORPHANED),
    lost=({}, ORPHANED),
    gone={},
    redirect={},
    links=({}, ORPHANED),
    error={},
)
def test_what_nobody_reached_keeps_everything_but_its_word(desk: Desk, past: str, cell: Cell):
    check(desk, past, None, cell)


@pytest.mark.covers("U-17", "RD-07", "M-04")
@pytest.mark.parametrize("past", ["held", "lost", "links"])
def test_runs_that_are_not_complete_age_nobody(desk: Desk, past: str):
    bring(desk, past)
    before = facts(desk, 0)

    for _ in range(5):
        now = begin(desk)
        desk.seal("max_pages", now=now)

    assert facts(desk, 0) == before | ORPHANED


@pytest.mark.covers("U-18", "R4-07", "R4-08", "R4-10", "R4-12", "M-04", "M-05", "RD-02")
@pytest.mark.parametrize(
    ("past", "runs"),
    [
        pytest.param("held", 3, id="U-18-from-held"),
        pytest.param("lost", 2, id="U-18-from-lost"),  # the run in which it was gone counts
        pytest.param("links", 3, id="U-18-from-links"),
    ],
)
def test_an_orphan_goes_in_the_run_that_makes_it_old_enough(desk: Desk, past: str, runs: int):
    bring(desk, past)
    for _ in range(runs - 1):
        answers(desk, None)
    before = facts(desk, 0)
    assert before["word"] is Word.ORPHANED
    assert before["removed"] == []

    answers(desk, None)

    assert facts(desk, 0) == before | DELETED | {"http": 200}  # the answer to the last look
    assert search(desk.connection, TEXTS["old"]) == []


@pytest.mark.covers("U-18", "U-09", "M-09")
@pytest.mark.parametrize("past", ["gone", "redirect", "error"])
def test_where_nothing_is_held_nothing_is_an_orphan(desk: Desk, past: str):
    bring(desk, past)
    before = facts(desk, 0)

    for _ in range(5):
        answers(desk, None)

    assert facts(desk, 0) == before


@pytest.mark.covers("U-18", "R4-40", "M-04")
@pytest.mark.parametrize("look", [503, 403, 1103])
def test_an_orphan_of_whom_nobody_speaks_waits(desk: Desk, look: int):
    bring(desk, "held")
    before = facts(desk, 0)
    desk.closing = closing(orphan_threshold=1)
    now = begin(desk)

    assert desk.verify({A: look}, now=now) == [A]
    desk.seal(now=now, look=False)

    assert facts(desk, 0) == before | ORPHANED | {"proposed": RemovalRule.ORPHAN}


@pytest.mark.covers("U-15", "U-18", "M-04")
def test_an_orphan_that_robots_refuse_needs_no_look(desk: Desk):
    bring(desk, "held")
    before = facts(desk, 0)
    desk.closing = closing(orphan_threshold=1)
    now = begin(desk)

    desk.verify({A: None}, now=now)
    desk.seal(now=now, look=False)

    assert facts(desk, 0) == before | TAKEN_OUT


@pytest.mark.covers("U-18", "U-01", "RD-11", "RD-02")
def test_an_orphan_that_is_linked_again_is_new_and_keeps_its_first_day(desk: Desk):
    bring(desk, "held")
    desk.closing = closing(orphan_threshold=1)
    answers(desk, None)
    assert desk.page(A).record.etag is None

    answers(desk, Reply(200, "old"))

    found = facts(desk, 0)
    assert (found["word"], found["shown"]) == (Word.NEW, "old")
    assert desk.value("SELECT first_run FROM record WHERE url = ?", (A,)) == 1

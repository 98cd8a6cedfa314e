"""The unified outcome table, U-06, U-07 and U-09: answers for which a page may be removed."""

import pytest

from smartcrawl.registry.pack import pack_stored_numbers
from smartcrawl.rules.model import RemovalRule, Standing, Status, Word
from tests.index.asking import search
from tests.registry.build import Desk, closing
from tests.registry.test_outcome_table import (
    NOW_SEEN,
    TARGET,
    TEXTS,
    WELL,
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
    gone_by,
)

# U-06: redirects

MOVED = NOW_SEEN | WELL | {
    "status": Status.CRAWLED, "word": Word.REDIRECTED, "http": 301, "unchanged": 0,
    "redirect": TARGET,
}  # fmt: skip
NOTED = MOVED | {"effective": 301, "links": ["target"]}  #: where nothing is held
#: Where content is held: it stays, and stays searchable, until the sweep.
HOLDS = MOVED | {"status": Status.INDEXED}
SWEPT = gone_by(RemovalRule.REDIRECT, status=Status.CRAWLED, effective=301, links=["target"])


@pytest.mark.long(but=8)
@pytest.mark.covers("U-06", "R4-37", "R1-26", "M-21", "M-22", "RD-02")
@cells(
    "U-06",
    none=NOTED,
    held=(HOLDS, SWEPT),
    lost=(HOLDS | {"lost": 1, "gone": 1, "shown": "old, lost"}, SWEPT),
    gone=NOTED,
    redirect=NOTED,
    links=(MOVED, SWEPT),
    error=NOTED,
)
def test_a_page_that_moved_to_an_indexed_one_goes_with_the_sweep(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(301, to=TARGET), cell)

    assert search(desk.connection, TEXTS["old"]) == []
    entries = "SELECT count(*) FROM pages WHERE url = ?"
    assert desk.value(entries, (A,)) == 0


@pytest.mark.long(but=6)
@pytest.mark.covers("U-06", "M-21")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_every_kind_of_redirect_removes_what_it_leaves_behind(desk: Desk, status: int):
    told = {"http": status}
    check(
        desk,
        "held",
        Reply(status, to=TARGET),
        (HOLDS | told, SWEPT | {"effective": status}),
    )


ELSEWHERE = "http://b.example/login"


@pytest.mark.covers("U-06", "U-10", "M-21", "R4-02")
@pytest.mark.parametrize("past", ["held", "lost"])
@pytest.mark.parametrize("status", [301, 308])
def test_a_page_that_moved_for_ever_to_what_is_not_followed_waits(
    desk: Desk, past: str, status: int
):
    """The address is in scope, and is a trap, or behind too many redirects."""
    told = {"http": status, "redirect": ELSEWHERE, "status": Status.INDEXED}
    counts = {"lost": 1, "gone": 1, "shown": "old, lost"} if past == "lost" else {}
    forgotten = {"lost": 0, "gone": 0, "shown": "old"}

    check(
        desk,
        past,
        Reply(status, to=ELSEWHERE, scoped=False),
        (MOVED | told | counts, forgotten),
    )


def outside(url: str, depth: int) -> bool:
    return url != ELSEWHERE


@pytest.mark.long(but=12)
@pytest.mark.covers("U-06", "U-08", "M-21", "R4-02", "R4-37")
@pytest.mark.parametrize("past", ["held", "lost"])
@pytest.mark.parametrize("status", [301, 308])
@pytest.mark.parametrize("listed", [frozenset({404, 410}), frozenset(), None])
def test_a_page_that_moved_out_of_scope_for_ever_is_lost(
    desk: Desk, past: str, status: int, listed: frozenset[int] | None
):
    moved = MOVED | {"http": status, "redirect": ELSEWHERE, "status": Status.INDEXED}
    counts = {"lost": 1, "gone": 1, "shown": "old, lost"} if past == "lost" else {}
    lost = {
        "status": Status.ERROR, "word": Word.LOST, "shown": "old, lost",
        "message": f"moved to {ELSEWHERE}", "lost": 2 if past == "lost" else 1,
        "gone": 2 if past == "lost" else 1,
    }  # fmt: skip

    check(
        desk,
        past,
        Reply(status, to=ELSEWHERE, scoped=False),
        (moved | counts, lost),
        in_scope=outside,
        purge_statuses=listed,
    )


@pytest.mark.covers("U-06", "U-09", "M-21")
@pytest.mark.parametrize("listed", [frozenset({404}), frozenset(), None])
def test_a_page_that_moved_out_of_scope_goes_at_the_threshold(
    desk: Desk, listed: frozenset[int] | None
):
    bring(desk, "held")
    desk.closing = closing(in_scope=outside, purge_statuses=listed, lost_threshold=2)
    answers(desk, Reply(301, to=ELSEWHERE, scoped=False))
    assert facts(desk, 0)["removed"] == []

    answers(desk, Reply(301, to=ELSEWHERE, scoped=False))

    found = facts(desk, 0)
    assert (found["removed"], found["status"]) == ([RemovalRule.GONE], Status.GONE)
    [detail] = desk.rows("SELECT detail FROM evidence")[0]
    assert f"moved to {ELSEWHERE}" in detail


@pytest.mark.covers("U-06", "U-10", "M-21")
@pytest.mark.parametrize("status", [302, 303, 307])
def test_a_page_that_is_elsewhere_for_a_time_is_never_removed_by_that(desk: Desk, status: int):
    bring(desk, "lost")
    desk.closing = closing(in_scope=outside, purge_statuses=None, lost_threshold=1)

    for _ in range(3):
        answers(desk, Reply(status, to=ELSEWHERE, scoped=False))

    found = facts(desk, 0)
    assert (found["removed"], found["word"]) == ([], Word.LOST)
    assert (found["lost"], found["gone"]) == (4, 1)


@pytest.mark.long(but=6)
@pytest.mark.covers("U-06", "U-10", "M-21", "R4-02")
@pytest.mark.parametrize("past", ["held", "lost"])
@pytest.mark.parametrize("status", [302, 303, 307])
def test_a_page_that_is_elsewhere_for_a_time_is_lost(desk: Desk, past: str, status: int):
    told = {"http": status, "redirect": ELSEWHERE, "status": Status.INDEXED}
    counts = {"lost": 1, "gone": 1, "shown": "old, lost"} if past == "lost" else {}
    message = f"a temporary redirect to a page that is not indexed, or to a login page: {ELSEWHERE}"
    lost = {
        "status": Status.ERROR, "word": Word.LOST, "shown": "old, lost", "message": message,
        "lost": 2 if past == "lost" else 1,
    }  # fmt: skip

    check(desk, past, Reply(status, to=ELSEWHERE, scoped=False), (MOVED | told | counts, lost))


# U-07: not to be indexed

LISTED = NOW_SEEN | WELL | {
    "status": Status.CRAWLED, "standing": Standing.LINKS, "word": Word.EXCLUDED, "effective": 406,
    "unchanged": 0, "message": "why", "validators": "new", "hashes": "new", "links": ["new"],
    "changed": "now",
}  # fmt: skip
STAYS = NOW_SEEN | WELL | {
    "status": Status.INDEXED, "word": Word.EXCLUDED, "message": "why", "shown": "old",
}  # fmt: skip
UNLISTED = gone_by(RemovalRule.NOT_ACCEPTABLE, status=Status.CRAWLED, effective=406, links=["old"])


@pytest.mark.long(but=8)
@pytest.mark.covers("U-07", "R4-37", "M-30", "R4-23")
@cells(
    "U-07",
    none=LISTED,
    held=(STAYS, UNLISTED),
    lost=(STAYS, UNLISTED),
    gone=LISTED,
    redirect=LISTED,
    links=LISTED,
    error=LISTED,
)
@pytest.mark.parametrize(
    "reply",
    [Reply(406, "new"), Reply(200, "new", noindex=True)],
    ids=["406", "noindex"],
)
def test_what_must_not_be_indexed_is_listed_and_what_was_goes_with_the_sweep(
    desk: Desk, past: str, cell: Cell, reply: Reply
):
    check(desk, past, reply, (cell[0] | {"http": reply.status}, cell[1]))

    assert search(desk.connection, f"{TEXTS['old']} {TEXTS['new']}") == []
    no = desk.number(A)
    assert desk.value("SELECT count FROM links WHERE no = ?", (no,)) == 1
    assert desk.rows("SELECT hrefs FROM urlwords WHERE hrefs > 0") == [], "it leads out of scope"
    targets = pack_stored_numbers([no])
    desk.connection.execute("UPDATE links SET targets = ? WHERE no = ?", (targets, no))
    assert desk.value("SELECT hrefs FROM urlwords WHERE hrefs > 0") == 1


@pytest.mark.covers("U-07", "U-04", "RD-02", "R4-14")
def test_a_page_that_may_be_indexed_again_is_new(desk: Desk):
    bring(desk, "held")
    answers(desk, Reply(200, "new", noindex=True))

    answers(desk, Reply(200, "new"))

    found = facts(desk, 0)
    assert (found["status"], found["word"], found["shown"]) == (Status.INDEXED, Word.NEW, "new")


# U-09: gone


def lost(lost: int, gone: int, errors: int) -> Facts:
    return NOW_SEEN | {
        "status": Status.ERROR, "word": Word.LOST, "http": 404, "lost": lost, "gone": gone,
        "unchanged": 0, "errors": errors, "wait": 600 << (errors - 1), "message": "why",
        "shown": "old, lost",
    }  # fmt: skip


def tombstone(gone: int, errors: int, word: Word = Word.FAILED) -> Facts:
    """A record without content that was gone for long enough; it needs no sweep."""
    return NOW_SEEN | {
        "status": Status.GONE, "word": word, "http": 404, "effective": 404, "gone": gone,
        "errors": errors, "wait": 600 << (errors - 1), "message": "why", "redirect": None,
    }  # fmt: skip


GONE = gone_by(RemovalRule.GONE, status=Status.GONE, word=Word.GONE, effective=404)


@pytest.mark.covers("U-09", "U-11", "R0-50", "R1-08", "R1-09", "R1-34", "M-01", "M-08", "RD-02")
@cells(
    "U-09",
    none=tombstone(1, 1),
    held=(lost(1, 1, 1), GONE),
    gone=tombstone(1, 4, Word.GONE),
    redirect=tombstone(1, 1, Word.GONE) | {"links": None},
    links=(lost(0, 1, 1) | {"word": Word.FAILED, "shown": None}, GONE),
)
def test_with_a_threshold_of_one_the_first_404_removes(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(404), cell, lost_threshold=1)


@pytest.mark.covers("U-09", "R0-50", "M-01")
@cells("U-09", lost=(lost(2, 2, 2), GONE), error=tombstone(2, 2))
def test_the_404_that_reaches_the_threshold_removes(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(404), cell, lost_threshold=2)


@pytest.mark.covers("U-09", "RD-10", "R4-14")
@pytest.mark.parametrize("reply", [Reply(404), Reply(406, "old"), Reply(301, to=TARGET), None],
                         ids=["U-09", "U-07", "U-06", "U-18"])  # fmt: skip
def test_a_clone_takes_over_from_an_original_that_is_removed(desk: Desk, reply: Reply | None):
    """The page is its original first, so the clone is what search shows from then on."""
    bring(desk, "held")
    clone = "http://a.example/the/page/again"
    answers(desk, Reply(200, "old"))
    now = begin(desk)
    body = f"<title></title>{TEXTS['old']}"
    desk.write(asked(desk, Reply(304), now), desk.visit(clone, TEXTS["old"], body=body), now=now)
    desk.seal(now=now)
    assert desk.originals()[clone] == A
    desk.closing = closing(lost_threshold=1, orphan_threshold=1)
    now = begin(desk)
    desk.reach(clone)
    desk.write(touched=[desk.number(clone)], now=now)

    if reply is not None:
        desk.write(asked(desk, reply, now), now=now)
    assert len(search(desk.connection, TEXTS["old"])) >= 1
    desk.seal(now=now)

    assert facts(desk, 0)["removed"] != []
    assert [hit.url for hit in search(desk.connection, TEXTS["old"])] == [clone]
    assert desk.originals()[clone] is None

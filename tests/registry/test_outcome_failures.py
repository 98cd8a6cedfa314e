"""The unified outcome table, U-08 and U-10 to U-14, U-20: answers that are errors, and none."""

import pytest

from smartcrawl.rules.model import Fault, Status, Word
from tests.registry.build import Desk, closing
from tests.registry.test_outcome_table import (
    NOW_SEEN,
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

#: A first error, a second in a row, and one after the three of a tombstone.
ONE, TWO, FOUR = (
    NOW_SEEN | {"unchanged": 0, "message": "why", "errors": n, "wait": 600 << (n - 1)}
    for n in (1, 2, 4)
)
ERROR, FAILED, LOST = {"status": Status.ERROR}, {"word": Word.FAILED}, {"word": Word.LOST}
MARKED = ERROR | LOST | {"shown": "old, lost"}  #: a held page that is lost
WEAK = ERROR | FAILED | {"shown": "old, lost"}  #: a held page whose server is weak


def told(status: int) -> Facts:
    """Where nothing is held the answer is the status that the next decision builds on."""
    return {"http": status, "effective": status}


# U-08, U-10, U-11: HTTP errors


@pytest.mark.covers("U-08", "R4-01", "R4-02", "R4-03", "R4-04", "R4-27", "R4-38", "M-06", "M-08")
@cells(
    "U-08",
    held=ONE | MARKED | {"http": 404, "lost": 1, "gone": 1},
    lost=TWO | MARKED | {"http": 404, "lost": 2, "gone": 2},
)
@pytest.mark.parametrize("status", [404, 410])
def test_a_held_page_that_is_not_found_is_lost(desk: Desk, past: str, cell: Cell, status: int):
    check(desk, past, Reply(status), (cell[0] | {"http": status}, cell[1]))


@pytest.mark.covers("U-10", "R4-38", "R4-45", "M-08")
@cells(
    "U-10",
    held=ONE | MARKED | {"lost": 1},
    lost=TWO | MARKED | {"lost": 2},
)
@pytest.mark.parametrize("status", [401, 403, 451, 400, 204])
def test_a_held_page_with_another_error_is_lost_and_not_gone(
    desk: Desk, past: str, cell: Cell, status: int
):
    check(desk, past, Reply(status), (cell[0] | {"http": status}, cell[1]))


@pytest.mark.covers("U-11", "R4-31", "R4-38")
@cells(
    "U-11",
    none=ONE | ERROR | FAILED | told(404) | {"gone": 1},
    gone=FOUR | told(404) | {"gone": 1},
    redirect=ONE | ERROR | FAILED | told(404) | {"gone": 1, "redirect": None, "links": None},
    links=ONE | ERROR | FAILED | {"http": 404, "gone": 1},
    error=TWO | ERROR | FAILED | told(404) | {"gone": 2},
)
def test_what_holds_no_content_and_is_not_found_counts_as_gone_only(
    desk: Desk, past: str, cell: Cell
):
    check(desk, past, Reply(404), cell)


@pytest.mark.covers("U-11", "U-10", "R4-38")
@cells(
    "U-11",
    none=ONE | ERROR | FAILED | told(403),
    gone=FOUR | FAILED | told(403),
    redirect=ONE | ERROR | FAILED | told(403) | {"redirect": None, "links": None},
    links=ONE | ERROR | FAILED | {"http": 403},
    error=TWO | ERROR | FAILED | told(403),
)
def test_what_holds_no_content_and_has_another_error_counts_nothing(
    desk: Desk, past: str, cell: Cell
):
    check(desk, past, Reply(403), cell)


@pytest.mark.covers("U-09", "U-11", "R0-50")
@pytest.mark.parametrize("threshold", [2, 3])
def test_what_never_held_anything_is_a_tombstone_at_the_threshold(desk: Desk, threshold: int):
    desk.closing = closing(lost_threshold=threshold)

    for _ in range(threshold - 1):
        answers(desk, Reply(404))
        assert (facts(desk, 0)["status"], facts(desk, 0)["word"]) == (Status.ERROR, Word.FAILED)
    answers(desk, Reply(404))

    assert (facts(desk, 0)["status"], facts(desk, 0)["word"]) == (Status.GONE, Word.FAILED)
    assert facts(desk, 0)["removed"] == []


# U-12 to U-14, U-20: headers, networks, ourselves, weak servers


def nothing_learnt(status: int, *, answered: bool) -> dict[str, Facts]:
    """The cells of what counts nothing; `answered`: whether it is the page's own answer.

    A weak server and one that says nothing leave where the page moved to.
    """
    header = {"redirect": None} if status < int(Fault.NETWORK) and status >= 1000 else {}
    bare = told(status) if answered else {"http": status}
    return {
        "none": ONE | ERROR | FAILED | bare,
        "held": ONE | WEAK | {"http": status},
        "lost": TWO | WEAK | {"http": status},
        "gone": FOUR | FAILED | bare,
        "redirect": ONE | ERROR | FAILED | bare | header,
        "links": ONE | ERROR | FAILED | {"http": status},
        "error": TWO | ERROR | FAILED | bare,
    }


HEADER = nothing_learnt(int(Fault.NO_LOCATION), answered=True)


@pytest.mark.covers("U-12", "R4-39", "R4-42", "M-31")
@cells(
    "U-12",
    **HEADER
    | {"held": HEADER["held"] | LOST | {"lost": 1}, "lost": HEADER["lost"] | LOST | {"lost": 2}},
)
def test_an_error_of_the_headers_is_a_loss_that_removes_nothing(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(int(Fault.NO_LOCATION)), cell, lost_threshold=1)


@pytest.mark.covers("U-13", "R4-40", "R4-42")
@cells(
    "U-13",
    **nothing_learnt(int(Fault.TIME_OUT), answered=False),
)
def test_a_network_error_says_nothing_about_the_page(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(int(Fault.TIME_OUT)), cell, lost_threshold=1)


@pytest.mark.covers("U-14", "R4-41", "R4-42", "M-31", "RD-01")
@cells(
    "U-14",
    **nothing_learnt(int(Fault.PROCESSING), answered=False),
)
def test_an_error_of_our_own_says_nothing_about_the_page(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(int(Fault.PROCESSING)), cell, lost_threshold=1)


@pytest.mark.covers("U-20", "M-32", "R0-63")
@cells("U-20", **{
    past: cell | {"wait": 7200} for past, cell in nothing_learnt(503, answered=True).items()
})  # fmt: skip
def test_a_weak_server_is_asked_again_when_it_says(desk: Desk, past: str, cell: Cell):
    check(desk, past, Reply(503, retry_after=7200), cell, lost_threshold=1)


@pytest.mark.covers("U-20", "U-10", "M-32")
@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
def test_a_retry_after_that_is_shorter_than_the_backoff_does_not_shorten_it(
    desk: Desk, status: int
):
    cell = TWO | WEAK | {"http": status}

    check(desk, "lost", Reply(status, retry_after=60), (cell, {}), lost_threshold=1)


@pytest.mark.long(but=8)
@pytest.mark.covers("U-13", "U-14", "R4-40", "R4-41")
@pytest.mark.parametrize("fault", [Fault.DNS, Fault.RESET, Fault.TLS, Fault.ROBOTS_UNKNOWN,
                                   Fault.TRUNCATED, Fault.TOO_LARGE, Fault.PROCESSING,
                                   Fault.EMPTY])  # fmt: skip
@pytest.mark.parametrize("past", ["held", "lost", "links"])
def test_ten_runs_without_an_answer_remove_nothing(desk: Desk, fault: Fault, past: str):
    bring(desk, past)
    kept = ("lost", "gone", "validators", "hashes", "links", "removed", "standing", "effective")
    before = {name: facts(desk, 0)[name] for name in kept}

    for _ in range(10):
        answers(desk, Reply(int(fault)))

    after = facts(desk, 0)
    assert {name: after[name] for name in kept} == before
    assert after["proposed"] is None


@pytest.mark.covers("R4-40", "R4-41", "U-13", "U-14")
@pytest.mark.parametrize("number", ["U-13", "U-14"])
def test_the_last_index_time_stays_when_nobody_answers(desk: Desk, number: str):
    fault = Fault.TIME_OUT if number == "U-13" else Fault.PROCESSING
    bring(desk, "held")
    index_time = "SELECT last_index_time FROM urlword WHERE url LIKE '%/page'"
    before = desk.value(index_time)

    answers(desk, Reply(int(fault)))

    assert desk.value(index_time) == before


@pytest.mark.covers("R4-44", "RD-08")
@pytest.mark.parametrize("again", ["before the first is written", "after it"])
def test_a_page_is_found_lost_once_a_run_however_often_it_is_asked(desk: Desk, again: str):
    bring(desk, "held")
    now = begin(desk)
    first = asked(desk, Reply(404), now)
    second = asked(desk, Reply(404), now)
    assert desk.write(first, now=now) == 0
    if again == "after it":
        second = asked(desk, Reply(404), now)

    assert desk.write(second, now=now) == 1  # stale: this claim wrote it already
    desk.seal(now=now)

    assert (facts(desk, 0)["lost"], facts(desk, 0)["gone"]) == (1, 1)

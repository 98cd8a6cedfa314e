"""Collapsed pages in the registry: they wait, are decided about once, and are committed once."""

from dataclasses import replace

import pytest

from smartcrawl.model.pages import Collapse, Visit
from smartcrawl.registry import pages
from smartcrawl.registry.commit import collapsed
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.runs import runs
from smartcrawl.rules import shield
from smartcrawl.rules.model import Fault, Outcome, RunState
from tests.registry.build import LONG, Desk

A, B, C, D = (f"http://a.example/{name}" for name in "abcd")


def collapse(number: int, *, size: int = 3) -> Collapse:
    return Collapse(number.to_bytes(32, "big"), "{}", b"x" * size)


def waits(desk: Desk, url: str, number: int, **told: int) -> Visit:
    """A visit of a page of which hardly anything is left."""
    visit = desk.visit(url, outcome=Outcome.UNPROCESSABLE, status=int(Fault.COLLAPSED))
    visit.collapse = collapse(number, **told)
    return visit


def accepted(desk: Desk, url: str, text: str) -> Visit:
    visit = desk.visit(url, text)
    visit.accepted = True
    return visit


@pytest.fixture
def known(desk: Desk) -> Desk:
    """Four pages, known since the first run; the second one is open."""
    desk.write(*(desk.visit(url, f"{LONG} {url}") for url in (A, B, C, D)))
    desk.seal()
    desk.open()
    return desk


def edits(desk: Desk) -> int:
    assert desk.run is not None
    return int(desk.connection.execute("SELECT edits FROM run WHERE no = ?", (desk.run.no,)).get)


def decide(desk: Desk) -> dict[int, bool]:
    assert desk.run is not None
    collapsed.update_collapsed_rows(desk.connection, desk.run.no)
    return collapsed.waiting_collapsed_rows(desk.connection, desk.run.no)


def state(desk: Desk, url: str) -> tuple[object, ...]:
    row = desk.connection.execute(
        "SELECT outcome, http_status, error_count, attempts FROM state WHERE no = ?",
        (desk.number(url),),
    ).fetchone()
    assert row is not None
    return tuple(row)


def test_a_page_that_waits_is_a_failure_until_it_is_committed_once(known: Desk):
    known.write(waits(known, A, 1))
    assert state(known, A) == (7, 1214, 1, 2)
    number = known.number(A)
    found = collapsed.read_collapsed_row(known.connection, number)
    assert found == collapse(1)
    assert known.write(accepted(known, A, "short")) == 0
    assert state(known, A)[:2] == (7, 1214), "nothing was decided"

    assert decide(known) == {number: True}
    assert edits(known) == 1
    known.write(accepted(known, A, "short"))
    assert state(known, A) == (2, 200, 0, 2)
    assert known.value("SELECT failures FROM state WHERE no = ?", (number,)) == 0
    known.write(accepted(known, A, "shorter"))
    assert (
        known.readers.contents.content_hash(number) == known.visit(A, "short").parsed.content_hash
    )
    assert collapsed.waiting_collapsed_rows(known.connection, known.run.no) == {}


def test_nothing_is_decided_while_nothing_waits(known: Desk):
    assert decide(known) == {}
    assert edits(known) == 0
    assert collapsed.has_undecided_rows(known.connection, known.run.no)
    known.write(waits(known, A, 1))
    assert decide(known) == {known.number(A): True}


def test_it_is_decided_once(known: Desk):
    known.write(*(waits(known, url, n) for n, url in enumerate((A, B, C))))
    assert set(decide(known).values()) == {True}
    known.write(waits(known, D, 9))

    found = decide(known)

    assert found == {known.number(A): True, known.number(B): True, known.number(C): True,
                     known.number(D): False}  # fmt: skip
    assert collapsed.read_collapsed_row(known.connection, known.number(D)) is None, (
        "its body is of no use"
    )
    assert edits(known) == 3


def test_four_of_four_are_withheld_and_dropped(known: Desk):
    known.write(*(waits(known, url, n) for n, url in enumerate((A, B, C, D))))
    numbers = [known.number(url) for url in (A, B, C, D)]
    assert decide(known) == dict.fromkeys(numbers, False)
    assert edits(known) == -1
    assert [collapsed.read_collapsed_row(known.connection, no) for no in numbers] == [None] * 4

    collapsed.delete_collapsed_rows(known.connection, known.run.no, numbers[:3])
    assert list(decide(known)) == numbers[3:]


def test_four_of_four_hundred_bodies_are_edits(known: Desk):
    urls = [f"http://a.example/{n}" for n in range(396)]
    for url in urls:
        known.write(known.visit(url, f"text of {url}"))
    known.write(*(waits(known, url, n) for n, url in enumerate((A, B, C, D))))

    assert set(decide(known).values()) == {True}


def test_a_304_is_no_body(known: Desk):
    urls = [f"http://a.example/{n}" for n in range(396)]
    for url in urls:
        known.write(known.visit(url, outcome=Outcome.NOT_MODIFIED, status=304))
    known.write(*(waits(known, url, n) for n, url in enumerate((A, B, C, D))))

    assert set(decide(known).values()) == {False}


def test_two_that_shrank_to_one_text_are_withheld(known: Desk):
    known.write(waits(known, A, 1), waits(known, B, 1))

    assert edits(known) == 0
    assert set(decide(known).values()) == {False}
    assert edits(known) == -1
    assert collapsed.read_collapsed_row(known.connection, known.number(A)) is None


def test_many_with_one_text_settle_it_before_the_end(known: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shield, "MANY", 3)
    for url, text in ((A, 1), (B, 1), (C, 2)):
        known.write(waits(known, url, text))
    assert edits(known) == 0
    known.write(waits(known, D, 1))

    assert edits(known) == -1
    assert collapsed.read_collapsed_row(known.connection, known.number(A)) is None


def clone(desk: Desk, url: str, text: str) -> Visit:
    """A visit that is withheld because another page got its text."""
    visit = waits(desk, url, 7)
    content = desk.visit(url, text).parsed.content_hash
    visit.collapse = collapse(7)._replace(shrank=False, repeated=True, content_hash=content)
    return visit


def test_pages_become_clones_of_one_that_stood_and_was_confirmed(known: Desk):
    known.write(known.visit(A, outcome=Outcome.NOT_MODIFIED, status=304))
    known.write(known.visit(B, f"{LONG} {A}"))
    known.write(clone(known, C, f"{LONG} {A}"), clone(known, D, f"{LONG} other"))

    assert decide(known) == {known.number(C): True, known.number(D): False}
    assert edits(known) == -1, "none of them shrank"


def test_four_pages_do_not_become_clones_of_one_that_stands(known: Desk):
    """The pages that were taken in this run before the others waited count, too."""
    e = "http://a.example/e"
    known.write(known.visit(e, f"{LONG} {e}"))
    known.seal()
    known.open()
    known.write(known.visit(A, outcome=Outcome.NOT_MODIFIED, status=304))
    known.write(known.visit(B, f"{LONG} {A}"))
    known.write(*(clone(known, url, f"{LONG} {A}") for url in (C, D, e)))

    assert set(decide(known).values()) == {False}


@pytest.mark.parametrize("stands", ["unasked", "edited in this run", "lost"])
def test_a_page_that_did_not_stand_or_was_not_confirmed_has_no_new_clones(known: Desk, stands: str):
    text = f"{LONG} {A}"
    if stands == "edited in this run":
        text = f"{LONG} new"
        known.write(known.visit(A, text))
    elif stands == "lost":
        known.write(known.visit(A, outcome=Outcome.NOT_FOUND, status=404))
    known.write(clone(known, C, text))

    assert decide(known) == {known.number(C): False}


def test_no_more_wait_than_there_is_room_for(known: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shield, "MAX_WAITING_SIZE", 10)
    known.write(waits(known, A, 1, size=10))
    assert edits(known) == 0
    known.write(waits(known, B, 2, size=1))
    assert edits(known) == -1


def test_what_waits_survives_a_run_that_goes_on_and_no_other(known: Desk):
    known.write(waits(known, A, 1))
    runs.interrupt_run_row(known.connection, known.run.no, 0, ["interrupted"])
    known.open(resume=True)
    assert decide(known) == {known.number(A): True}
    runs.interrupt_run_row(known.connection, known.run.no, 0, ["interrupted"])
    known.open()
    assert known.connection.execute("SELECT count(*) FROM collapse").get == 0
    known.write(waits(known, A, 1))
    known.seal()
    assert known.connection.execute("SELECT count(*) FROM collapse").get == 0


def test_nothing_is_decided_when_the_orphans_are_looked_at(known: Desk):
    known.write(waits(known, A, 1))
    known.connection.execute("UPDATE run SET state = ?", (RunState.VERIFYING,))

    assert decide(known) == {known.number(A): False}
    assert edits(known) == 0


def test_the_links_of_a_page_that_waits_lead_nowhere_yet(known: Desk):
    number = known.number(A)
    known.write(known.visit(A, LONG, links=[], targets=[known.number(B)]))
    known.seal()
    known.open()
    assert known.readers.pages.targets(number) is not None
    known.write(waits(known, A, 1))
    assert known.readers.pages.targets(number) is None
    collapsed.delete_collapsed_rows(known.connection, known.run.no, [number])
    assert known.readers.pages.targets(number) is not None


def replaced(desk: Desk, *texts: str) -> None:
    """Let a page have one text after the other, each in a run of its own."""
    for text in texts:
        desk.seal()
        desk.open()
        visit = desk.visit(A, text)
        visit.page = replace(visit.page, text_hash=desk.readers.contents.hashes(visit.page.no)[1])
        desk.write(visit)


def test_the_last_five_texts_of_a_page_are_known(known: Desk):
    texts = [f"text {n}" for n in range(7)]
    replaced(known, *texts)
    number = known.number(A)

    had = [
        known.readers.contents.had_text(number, known.visit(A, text).parsed.text_hash)
        for text in texts
    ]
    assert had == [False, *[True] * 5, False]  # the last is the one it has
    assert known.connection.execute("SELECT count(*) FROM former_text").get == 1
    other = known.number(B)
    assert not known.readers.contents.had_text(other, known.visit(A, texts[3]).parsed.text_hash)


def test_a_page_that_changed_often_is_one_of_the_last_changes_once(known: Desk):
    replaced(known, "text 1", "text 2")
    number, text = known.number(A), known.visit(A, "text 2").parsed.text_hash

    assert known.readers.contents.last_changes() == [(number, text, True)]
    known.seal()
    assert known.readers.contents.last_changes() == [(number, text, False)]


def test_the_documents_of_the_last_changes_are_those_of_pages_with_short_texts(known: Desk):
    replaced(known, "text 1", "text 2")
    found = list(known.readers.contents.last_documents(6))

    assert [(number, document.text) for number, document in found] == [(known.number(A), "text 2")]
    assert list(known.readers.contents.last_documents(5)) == []


@pytest.mark.sqlite
@pytest.mark.parametrize("statement", ["_LAST_CHANGES", "_LAST_DOCUMENTS"])
def test_the_last_changes_are_read_before_the_pages_of_the_source(known: Desk, statement: str):
    """Else SQLite reads each record of the source, with its content."""
    most = pages._MOST_CHANGES  # SQLite plans by the number
    values = {"source": 1, "most": most, "longest": 10_000}
    plan = known.connection.execute(
        f"EXPLAIN QUERY PLAN {getattr(pages, statement)}", values
    ).fetchall()

    assert "record_id" not in str(plan)


def test_another_title_is_no_other_text(known: Desk):
    known.write(known.visit(A, "the same"))
    number = known.number(A)
    before = known.readers.contents.hashes(number)[1]
    visit = known.visit(A, "the same", title="New")
    visit.page = replace(visit.page, text_hash=before)
    known.seal()
    known.open()
    visit = known.visit(A, "the same", title="New")
    visit.page = replace(visit.page, text_hash=before)
    visit = replace(visit, parsed=replace(visit.parsed, text_hash=before))
    known.write(visit)

    assert known.connection.execute("SELECT count(*) FROM former_text").get == 0


def test_hashes_of_whatever_first_bytes_are_kept(desk: Desk):
    for digest in (b"\xff" * 32, b"\x80" + b"\0" * 31, b"\x7f" * 32, b"\0" * 32):
        with transaction(desk.connection):
            collapsed.store_former_hashes(desk.connection, {7: digest})
        assert collapsed.stored_row_had_text(desk.connection, 7, digest)
        assert not collapsed.stored_row_had_text(desk.connection, 7, b"\x01" * 32)

"""Sources whose complete listing says what exists: a page that it lacks is removed in that run."""

import json
from collections.abc import Iterable, Mapping

import pytest

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.index.choice import EMBEDDED
from smartcrawl.registry.pack import unpack_stored_document
from smartcrawl.registry.removal import purge
from smartcrawl.reports.removals import reported_orphans
from smartcrawl.rules.model import Outcome, RemovalRule, Standing, Status, Word
from tests.index.asking import search
from tests.registry.build import LATER, NOW, Desk, closing, index_is_sound

FILES = [f"http://a.example/{n}.txt" for n in range(12)]
A, B = FILES[:2]
LISTED = closing(is_listed=True)


def read(desk: Desk, entries: Iterable[str], answers: Mapping[str, int] | None = None) -> None:
    """List entries: new ones are read, known ones are unchanged unless they answer a status."""
    answers = answers or {}
    known = {url for (url,) in desk.rows("SELECT url FROM record")}
    for url in entries:
        if url not in known:
            desk.index(url, f"words of {url}")
            continue
        desk.reach(url)
        if url in answers:
            desk.write(desk.visit(url, outcome=Outcome.NOT_FOUND, status=answers[url]))
        else:
            desk.write(touched=[desk.number(url)])


def listing(desk: Desk, *entries: str, reasons: Iterable[str] = (), now: int = NOW) -> list[str]:
    """One run that lists entries; return what it removed."""
    desk.open(now=now)
    read(desk, entries)
    assert desk.verify(now=now) == [] or not desk.closing.is_listed
    desk.seal(*reasons, now=now, look=False)
    return [page.url for page in desk.removed]


@pytest.fixture
def folder(database: str) -> Desk:
    """Twelve files after a complete run."""
    desk = Desk()
    desk.closing = LISTED
    assert listing(desk, *FILES) == []
    return desk


def pin(desk: Desk, url: str) -> None:
    desk.connection.execute(
        "INSERT INTO pin (no, source, at) VALUES (?, 1, 0)", (desk.number(url),)
    )


def state(desk: Desk, url: str) -> tuple[Status, Standing, Word]:
    statement = "SELECT status, standing, outcome FROM state WHERE no = ?"
    [(status, standing, word)] = desk.rows(statement, (desk.number(url),))
    return Status(status), Standing(standing), Word(word)


def candidates(desk: Desk) -> dict[str, tuple[RemovalRule, int]]:
    rows = desk.rows("SELECT r.url, c.rule, c.withheld FROM candidate c JOIN record r USING (no)")
    return {url: (RemovalRule(rule), int(withheld)) for url, rule, withheld in rows}


def hits(desk: Desk) -> set[str]:
    assert index_is_sound(desk.connection)
    return {hit.url for hit in search(desk.connection, "words", limit=50)}


def undone(desk: Desk, run: int, *, pin: bool = False) -> tuple[str, ...]:
    done = purge.undo_stored_removals(
        desk.connection,
        EMBEDDED,
        run,
        LATER,
        pin=pin,
        chunked=lambda packed, _: document_chunks(unpack_stored_document(packed)),
    )
    return done.restored


# Complete and incomplete


@pytest.mark.covers("M-07")
def test_a_file_that_the_listing_lacks_is_removed_in_that_run_without_a_look(folder: Desk):
    assert listing(folder, *FILES[1:], now=LATER) == [A]

    assert state(folder, A) == (Status.OUT_OF_SCOPE, Standing.BARE, Word.DELETED)
    assert hits(folder) == set(FILES[1:])
    [(rule, run, detail)] = folder.rows("SELECT rule, run, detail FROM evidence")
    assert (rule, run) == (RemovalRule.ABSENT, 2)
    assert json.loads(detail) == {"why": "not in the listing", "since": LATER, "lastReachedRun": 1}


def test_without_a_listing_the_same_run_removes_nothing(folder: Desk):
    folder.closing = closing()

    assert listing(folder, *FILES[1:]) == []
    assert candidates(folder) == {}


@pytest.mark.covers("M-07")
def test_an_incomplete_listing_removes_nothing(folder: Desk):
    """A reason that comes after the proposal counts, too."""
    assert listing(folder, B, reasons=["listing: /docs (refused)"]) == []

    assert candidates(folder) == {}
    assert hits(folder) == set(FILES)
    assert listing(folder, *FILES[1:]) == [A]


def test_a_source_of_links_alone_loses_what_its_listing_lacks(folder: Desk):
    """A file that is not indexed keeps its links; its record goes as well."""
    folder.open()
    read(folder, FILES[1:])
    folder.reach(A)
    folder.write(folder.visit(A, outcome=Outcome.NOT_ACCEPTABLE, error="noindex"))
    folder.seal(look=False)
    assert state(folder, A)[1] is Standing.LINKS

    assert listing(folder, *FILES[1:]) == [A]
    assert state(folder, A) == (Status.OUT_OF_SCOPE, Standing.BARE, Word.DELETED)


def test_a_file_that_is_listed_and_not_asked_stays(folder: Desk):
    """Such as one that keeps links only and is unchanged."""
    folder.open()
    read(folder, FILES[1:])
    folder.reach(A)

    folder.seal(look=False)

    assert folder.removed == []
    assert candidates(folder) == {}


def test_a_file_that_comes_back_is_read_and_indexed_again(folder: Desk):
    assert listing(folder, *FILES[1:]) == [A]
    folder.open()
    read(folder, FILES[1:])
    folder.reach(A)
    folder.index(A, f"words of {A}")
    folder.seal(look=False)

    assert folder.removed == []
    assert state(folder, A) == (Status.INDEXED, Standing.HELD, Word.NEW)
    assert hits(folder) == set(FILES)


def test_a_file_that_was_removed_is_due_at_once_when_it_is_listed_again(folder: Desk):
    listing(folder, *FILES[1:])

    due = "SELECT next_visit FROM state WHERE no = ?"
    assert folder.value(due, (folder.number(A),)) is None
    assert folder.value(due, (folder.number(B),)) is not None


# In the listing, and gone when it is read


def test_a_listed_file_that_answers_404_is_lost_and_not_absent(folder: Desk):
    for _ in range(2):
        folder.open()
        read(folder, FILES, {A: 404})
        folder.seal(look=False)
        assert folder.removed == []
        assert state(folder, A) == (Status.ERROR, Standing.HELD, Word.LOST)
        assert candidates(folder) == {}

    assert listing(folder, *FILES[1:]) == [A]
    assert folder.value("SELECT rule FROM evidence") == RemovalRule.ABSENT


# Scope


def test_a_file_out_of_scope_ages_as_excluded(folder: Desk):
    folder.closing = closing(is_listed=True, in_scope=lambda url, depth: url != A)
    for _ in range(2):
        assert listing(folder, *FILES[1:]) == []
        assert state(folder, A) == (Status.OUT_OF_SCOPE, Standing.HELD, Word.EXCLUDED)

    assert listing(folder, *FILES[1:]) == [A]
    assert folder.value("SELECT rule FROM evidence") == RemovalRule.EXCLUDED


def test_a_file_that_is_in_scope_again_and_not_listed_goes_at_once(folder: Desk):
    folder.closing = closing(is_listed=True, in_scope=lambda url, depth: url != A)
    assert listing(folder, *FILES[1:]) == []
    folder.closing = LISTED

    assert listing(folder, *FILES[1:]) == [A]
    [detail] = folder.rows("SELECT rule, detail FROM evidence")
    assert detail[0] == RemovalRule.ABSENT


# The guard


@pytest.mark.parametrize(
    ("files", "missing", "removed"),
    [(1, 1, 1), (2, 1, 1), (2, 2, 0), (3, 2, 2), (3, 3, 0), (4, 1, 1), (4, 2, 0)],
)
def test_the_guard_keeps_small_sources(database: str, files: int, missing: int, removed: int):
    desk = Desk()
    desk.closing = LISTED
    listing(desk, *FILES[:files])

    assert listing(desk, *FILES[missing:files]) == FILES[:removed]

    held = 0 if removed else missing
    assert list(candidates(desk).values()) == [(RemovalRule.ABSENT, 1)] * held
    assert hits(desk) == set(FILES[removed:files])


def test_withheld_removals_are_renewed_judged_and_listed(folder: Desk):
    for _ in range(2):
        assert listing(folder, *FILES[6:]) == []
        assert candidates(folder) == dict.fromkeys(FILES[:6], (RemovalRule.ABSENT, 1))

    found = reported_orphans(folder.connection)
    assert [row["url"] for row in found.rows] == FILES[:6]
    assert {
        (row["rule"], row["why"], row["orphanAge"], row["withheldRun"]) for row in found.rows
    } == {("absent", "not in the listing", 2, 2)}
    assert [(release.run, release.pages) for release in found.releases] == [(2, 6)]


def test_new_files_release_none_that_were_withheld(folder: Desk):
    listing(folder, *FILES[6:])
    new = [f"http://a.example/new/{n}.txt" for n in range(50)]

    assert listing(folder, *FILES[6:], *new) == []
    assert set(candidates(folder)) == set(FILES[:6])


def test_a_withheld_file_that_is_listed_again_stays(folder: Desk):
    listing(folder, *FILES[6:])

    assert listing(folder, *FILES[2:]) == [A, B]
    assert candidates(folder) == {}
    assert hits(folder) == set(FILES[2:])


def test_a_due_run_that_reaches_a_withheld_file_refutes_its_removal(folder: Desk):
    listing(folder, *FILES[6:])
    folder.open()
    folder.connection.execute("UPDATE run SET due = TRUE WHERE state = 0")
    folder.reach(A)

    folder.seal("not_due: 11")

    assert set(candidates(folder)) == set(FILES[1:6])


def test_an_incomplete_run_keeps_what_waits_for_approval(folder: Desk):
    listing(folder, *FILES[6:])
    folder.open()
    read(folder, FILES[6:])

    folder.seal("listing: /docs (refused)")

    assert set(candidates(folder)) == set(FILES[:6])


@pytest.mark.covers("R4-12")
def test_approved_removals_go_and_can_be_undone(folder: Desk):
    listing(folder, *FILES[6:])
    waiting = purge.withheld_candidate_rows(folder.connection)
    assert [(target.url, target.rule, target.removable) for target in waiting] == [
        (url, RemovalRule.ABSENT, True) for url in FILES[:6]
    ]

    [done] = purge.remove_stored_pages(folder.connection, EMBEDDED, waiting, LATER)

    assert (list(done.urls), hits(folder)) == (FILES[:6], set(FILES[6:]))
    assert sorted(undone(folder, done.run)) == sorted(FILES[:6])
    assert hits(folder) == set(FILES)


def test_a_file_that_was_listed_since_is_not_released(folder: Desk):
    listing(folder, *FILES[6:])
    folder.open()
    folder.reach(A)

    stays = {t.url: t.why_not for t in purge.withheld_candidate_rows(folder.connection)}

    assert stays == dict.fromkeys(FILES[:6]) | {A: "it was reached or answered since"}


def test_withheld_files_are_purged_under_their_own_rule(folder: Desk):
    pin(folder, A)
    listing(folder, *FILES[6:])

    found = purge.orphaned_page_rows(folder.connection)

    assert [(target.url, target.rule, target.age) for target in found] == [
        (url, RemovalRule.ABSENT, 1) for url in FILES[:6]
    ]
    assert json.loads(found[0].detail)["why"] == "not in the listing"


def test_a_withheld_file_that_left_the_scope_is_purged_as_excluded(folder: Desk):
    listing(folder, *FILES[6:])
    narrow = {"is_listed": True, "min_count": 1}
    folder.closing = closing(in_scope=lambda url, depth: url != A, **narrow)
    listing(folder, *FILES[6:])

    found = {target.url: target.rule for target in purge.orphaned_page_rows(folder.connection)}

    excluded = {A: RemovalRule.EXCLUDED}
    assert found == dict.fromkeys(FILES[:6], RemovalRule.ABSENT) | excluded


# Pins and undo


def test_a_pin_does_not_keep_a_file_that_its_listing_lacks(folder: Desk):
    pin(folder, A)

    assert listing(folder, *FILES[1:]) == [A]
    assert folder.value("SELECT no FROM pin") == folder.number(A), "it is asked for again"


def test_a_pinned_file_that_was_withheld_is_released(folder: Desk):
    pin(folder, A)
    listing(folder, *FILES[6:])

    waiting = purge.withheld_candidate_rows(folder.connection)

    assert [target.why_not for target in waiting] == [None] * 6


@pytest.mark.parametrize("pinned", [False, True])
def test_an_undo_is_exact_and_lasts_until_the_next_complete_listing(folder: Desk, pinned: bool):
    stored = "SELECT url, content, body_hash, first_seen, first_run FROM record ORDER BY url"
    before = folder.rows(stored)
    listing(folder, *FILES[1:])

    assert undone(folder, 2, pin=pinned) == (A,)

    assert folder.rows(stored) == before
    assert state(folder, A)[:2] == (Status.INDEXED, Standing.HELD)
    assert hits(folder) == set(FILES)
    assert listing(folder, *FILES[1:], reasons=["listing: /docs (refused)"]) == []
    assert listing(folder, *FILES[1:]) == [A]


# Interrupted


def test_a_resumed_run_judges_by_what_it_lists_in_the_end(folder: Desk):
    """Its first process proposed two files and died; the second one lists one of them."""
    folder.open()
    read(folder, FILES[2:])
    folder.verify()
    assert set(candidates(folder)) == {A, B}

    folder.open(resume=True)
    read(folder, [B])
    folder.verify()
    folder.seal(look=False)

    assert [page.url for page in folder.removed] == [A]
    assert candidates(folder) == {}
    assert hits(folder) == set(FILES[1:])


def test_a_run_that_was_interrupted_for_good_removes_nothing(folder: Desk):
    folder.open()
    read(folder, FILES[2:])
    folder.verify()

    assert listing(folder, *FILES) == []
    assert candidates(folder) == {}


# Two kinds of pages


@pytest.mark.covers("M-07", "R4-07")
def test_pages_that_links_lead_to_are_no_business_of_the_listing(folder: Desk):
    """A wiki in a listed source: its page ages as an orphan, while the file is absent at once."""
    wiki = "http://a.example/wiki/a"
    folder.closing = closing(is_listed=True, is_linked=lambda url: "/wiki/" in url)
    assert listing(folder, *FILES, wiki, now=LATER) == []

    folder.open(now=LATER)
    read(folder, FILES[1:])
    assert folder.verify(now=LATER) == []
    folder.seal(now=LATER, look=False)
    assert [page.url for page in folder.removed] == [A]
    assert state(folder, wiki) == (Status.INDEXED, Standing.HELD, Word.ORPHANED)
    assert candidates(folder) == {}

    for run in (2, 3):
        folder.open(now=LATER)
        read(folder, FILES[1:])
        assert folder.verify(now=LATER) == ([wiki] if run == 3 else [])
        folder.seal(now=LATER, look=False)
        assert [page.url for page in folder.removed] == ([wiki] if run == 3 else [])
    rules = folder.rows("SELECT record, rule FROM evidence")
    assert dict(rules) == {
        folder.number(A): RemovalRule.ABSENT,
        folder.number(wiki): RemovalRule.ORPHAN,
    }

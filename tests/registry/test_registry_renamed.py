"""Renamed files of listed sources: equal bytes elsewhere are a move (ADR 65)."""

import json
from collections.abc import Mapping

import pytest

from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.removal import purge
from smartcrawl.registry.runs import runs
from smartcrawl.reports import why
from smartcrawl.reports.tables import RECORD_KEYS, record_table_report_row, run_table_report
from smartcrawl.reports.today import reported_records
from smartcrawl.rules.model import Outcome, RemovalRule, Standing, Status, Word
from tests.registry.build import LATER, NOW, Desk, closing
from tests.registry.test_registry_listed import candidates, hits, pin, state, undone

ROOT = "http://a.example/"
OLD = {f"{ROOT}old/{n}.txt": f"words of {n}" for n in range(12)}
NEW = {url.replace("/old/", "/new/"): text for url, text in OLD.items()}
A, B = next(iter(OLD)), next(iter(NEW))  #: the same file before and after
LISTED = closing(is_listed=True)
LATEST = LATER + 3_600
#: Everything about the old records but their last outcome, which settlement replaces.
STORED = """
SELECT r.*, s.status, s.standing, s.http_status, s.effective_status, s.depth, s.lost_count,
       s.gone_count
  FROM record r JOIN state s USING (no) WHERE r.url LIKE '%/old/%' ORDER BY r.no
"""
CHANGES = "SELECT record, run, at FROM change ORDER BY record, run"


def crawl(
    desk: Desk, files: Mapping[str, str], *reasons: str, now: int = NOW, end: bool = True
) -> dict[str, str]:
    """One run over all files, by URL; return the words of what it removed."""
    desk.open(now=now)
    stored = dict(
        desk.rows(
            "SELECT r.url, c.title FROM record r JOIN state s USING (no)"
            " JOIN content c ON c.no = r.content WHERE s.standing = 2"
        )
    )
    known = {url for (url,) in desk.rows("SELECT url FROM record")}
    for url, text in files.items():
        if stored.get(url) == text:
            desk.reach(url)
            desk.write(touched=[desk.number(url)], now=now)
            continue
        if url not in known:
            desk.add(url, now=now)
        desk.reach(url)
        desk.write(desk.visit(url, text, title=text, body=text), now=now)
    if end:
        desk.verify(now=now)
        desk.seal(*reasons, now=now, look=False)
    return {page.url: page.word for page in desk.removed}


@pytest.fixture
def folder(database: str) -> Desk:
    """Twelve files after a complete run, the first of which changed in a second one."""
    desk = Desk()
    desk.closing = LISTED
    crawl(desk, OLD | {A: "other words"})
    assert crawl(desk, OLD, now=LATER) == {}
    return desk


def moved_from(desk: Desk) -> dict[str, str]:
    statement = "SELECT r.url, o.url FROM record r JOIN record o ON o.no = r.moved_from"
    return dict(desk.rows(statement))


def first_seen(desk: Desk, url: str) -> object:
    return desk.value("SELECT first_seen FROM record WHERE url = ?", (url,))


def changes(desk: Desk, url: str) -> list[tuple[object, ...]]:
    return desk.rows("SELECT run, at FROM change WHERE record = ?", (desk.number(url),))


# Moves


@pytest.mark.covers("M-07")
def test_a_renamed_folder_moves_and_nothing_is_withheld(folder: Desk):
    assert crawl(folder, NEW, now=LATEST) == dict.fromkeys(OLD, "redirected")

    assert candidates(folder) == {}
    assert hits(folder) == set(NEW)
    assert moved_from(folder) == dict(zip(NEW, OLD, strict=True))
    assert state(folder, A) == (Status.OUT_OF_SCOPE, Standing.BARE, Word.REDIRECTED)
    assert state(folder, B) == (Status.INDEXED, Standing.HELD, Word.MOVED)
    run = next(run_table_report(folder.connection))
    assert {key: run[key] for key in ("moved", "redirected", "new", "removed", "withheld")} == {
        "moved": 12,
        "redirected": 12,
        "new": 0,
        "removed": 0,
        "withheld": 0,
    }


def test_the_new_record_has_the_discovery_and_the_changes_of_the_old_one(folder: Desk):
    before = changes(folder, A)
    assert before == [(2, LATER)]

    crawl(folder, NEW, now=LATEST)

    assert {first_seen(folder, url) for url in NEW} == {NOW}
    assert changes(folder, B) == before
    assert changes(folder, list(NEW)[1]) == []
    row = record_table_report_row(folder.connection, folder.number(B), 0)
    assert (row["movedFrom"], row["lastOutcome"]) == (A, "moved")
    assert record_table_report_row(folder.connection, folder.number(A), 0)["movedFrom"] is None
    assert RECORD_KEYS[-1] == "movedFrom"


def test_the_evidence_of_the_old_record_names_the_new_address(folder: Desk):
    crawl(folder, NEW, now=LATEST)

    statement = "SELECT rule, detail FROM evidence WHERE record = ?"
    [(rule, detail)] = folder.rows(statement, (folder.number(A),))
    assert rule == RemovalRule.MOVED
    assert json.loads(detail) == {
        "why": "its bytes are at another address",
        "since": LATEST,
        "lastReachedRun": 2,
        "target": B,
        "targetNo": folder.number(B),
        "firstSeen": LATEST,
    }
    chain = folder.value("SELECT chain FROM redirect_chain WHERE no = ?", (folder.number(A),))
    assert json.loads(chain) == [A, B]


def test_the_stories_of_both_records_name_each_other(folder: Desk):
    crawl(folder, NEW, now=LATEST)

    assert why.reported_story_record(folder.connection, folder.number(B), 0)["movedFrom"] == A
    last = why.reported_story_events(folder.connection, folder.number(A))[-1]
    assert (last["event"], last["rule"], last["lastOutcome"]) == ("removed", "moved", "redirected")
    assert (last["found"]["target"], last["found"]["firstSeen"]) == (B, iso_time(LATEST))
    assert why.reported_redirect_chain(folder.connection, folder.number(A)) == [A, B]
    [entry] = reported_records(folder.connection, 1, folder.number(B))
    assert entry.sound


def test_the_next_run_finds_the_new_file_unchanged(folder: Desk):
    crawl(folder, NEW, now=LATEST)

    assert crawl(folder, NEW, now=LATEST) == {}
    assert state(folder, B) == (Status.INDEXED, Standing.HELD, Word.UNCHANGED)
    assert moved_from(folder)[B] == A
    assert changes(folder, B) == [(2, LATER)]


def test_a_move_within_a_move_leads_on(folder: Desk):
    newest = {url.replace("/new/", "/newest/"): text for url, text in NEW.items()}
    crawl(folder, NEW, now=LATEST)

    crawl(folder, newest, now=LATEST)

    assert moved_from(folder) == dict(zip([*NEW, *newest], [*OLD, *NEW], strict=True))
    assert {first_seen(folder, url) for url in newest} == {NOW}
    assert changes(folder, next(iter(newest))) == [(2, LATER)]


def test_a_folder_that_is_renamed_back_moves_again(folder: Desk):
    """Its records are tombstones: they keep their own discovery and changes."""
    crawl(folder, NEW, now=LATEST)
    own = changes(folder, A)

    assert crawl(folder, OLD, now=LATEST + 1) == dict.fromkeys(NEW, "redirected")

    assert candidates(folder) == {}
    assert hits(folder) == set(OLD)
    assert moved_from(folder)[A] == B
    assert (first_seen(folder, A), changes(folder, A)) == (NOW, own)
    assert folder.value("SELECT redirect_no FROM record WHERE url = ?", (A,)) is None


# No moves


def test_an_incomplete_run_moves_nothing(folder: Desk):
    assert crawl(folder, NEW, "listing: /docs (refused)") == {}

    assert moved_from(folder) == {}
    assert hits(folder) == {*OLD, *NEW} - {url for url, o in folder.originals().items() if o}
    assert state(folder, B)[2] is Word.NEW


def test_files_that_an_incomplete_run_found_are_new_until_a_complete_one(folder: Desk):
    crawl(folder, NEW, "listing: /docs (refused)")

    assert crawl(folder, NEW, now=LATEST) == dict.fromkeys(OLD, "redirected")
    assert state(folder, B) == (Status.INDEXED, Standing.HELD, Word.MOVED)
    assert moved_from(folder)[B] == A


def test_pages_of_a_source_without_a_listing_do_not_move(folder: Desk):
    folder.closing = closing(orphan_threshold=1, max_ratio=1)

    crawl(folder, NEW, now=LATEST)

    assert moved_from(folder) == {}
    assert folder.value("SELECT count(*) FROM evidence WHERE rule <> 6") == 0


def test_a_copy_beside_its_original_is_no_move(folder: Desk):
    assert crawl(folder, OLD | {B: OLD[A]}) == {}

    assert moved_from(folder) == {}
    rest = {url: text for url, text in OLD.items() if url != A} | {B: OLD[A]}
    assert crawl(folder, rest) == {A: "deleted"}, "it was a copy in a complete listing"
    assert moved_from(folder) == {}


def test_swapped_names_are_changes(folder: Desk):
    first, second = list(OLD)[:2]
    swapped = OLD | {first: OLD[second], second: OLD[first]}

    assert crawl(folder, swapped) == {}

    assert moved_from(folder) == {}
    assert state(folder, first)[2] is Word.MODIFIED


def test_empty_files_do_not_move(database: str):
    desk = Desk()
    desk.closing = LISTED
    crawl(desk, {A: "", f"{ROOT}x": "words"})

    assert crawl(desk, {B: "", f"{ROOT}x": "words"}) == {A: "deleted"}
    assert moved_from(desk) == {}


def test_content_does_not_move_to_a_file_that_is_not_indexed(folder: Desk):
    rest = {url: text for url, text in OLD.items() if url != A}
    crawl(folder, rest, end=False)
    folder.page(B)
    folder.write(folder.visit(B, outcome=Outcome.NOT_ACCEPTABLE, body=OLD[A], error="noindex"))

    folder.seal()

    assert {page.url: page.word for page in folder.removed} == {A: "deleted"}


def test_files_with_links_alone_move_among_themselves(folder: Desk):
    def listed(run: Mapping[str, str], url: str) -> None:
        crawl(folder, run, end=False)
        page = folder.page(url)
        folder.write(reached={page.no: 0})
        folder.write(folder.visit(url, outcome=Outcome.NOT_ACCEPTABLE, body="x", error="noindex"))
        folder.seal()

    listed(OLD, f"{ROOT}x")
    listed(OLD, f"{ROOT}y")

    assert {page.url: page.word for page in folder.removed} == {f"{ROOT}x": "redirected"}
    assert state(folder, f"{ROOT}y") == (Status.CRAWLED, Standing.LINKS, Word.MOVED)
    assert undone(folder, 4) == (f"{ROOT}x",)
    assert state(folder, f"{ROOT}y") == (Status.CRAWLED, Standing.LINKS, Word.EXCLUDED)


def test_a_new_file_that_is_lost_already_takes_nothing_over(folder: Desk):
    rest = {url: text for url, text in OLD.items() if url != A}
    crawl(folder, rest | {B: OLD[A]}, "listing: /docs (refused)")
    crawl(folder, rest, end=False)
    folder.reach(B)
    folder.write(folder.visit(B, outcome=Outcome.NOT_FOUND, status=404))

    folder.seal()

    assert {page.url: page.word for page in folder.removed} == {A: "deleted"}
    assert moved_from(folder) == {}


def test_a_file_that_was_new_in_an_earlier_complete_run_is_a_copy(folder: Desk):
    """A run may see it without a visit, so that its last outcome is still *new*."""
    crawl(folder, OLD | {B: OLD[A]})
    rest = {url: text for url, text in OLD.items() if url != A}
    crawl(folder, rest, end=False)
    folder.reach(B)
    folder.connection.execute("UPDATE state SET seen_run = 4 WHERE no = ?", (folder.number(B),))

    folder.seal()

    assert {page.url: page.word for page in folder.removed} == {A: "deleted"}


# The guard


def test_moves_do_not_count_and_are_not_withheld_beside_removals(folder: Desk):
    some = dict(list(NEW.items())[:6])

    assert crawl(folder, some) == dict.fromkeys(list(OLD)[:6], "redirected")

    assert candidates(folder) == dict.fromkeys(list(OLD)[6:], (RemovalRule.ABSENT, 1))
    assert hits(folder) == {*some, *list(OLD)[6:]}


def test_a_removal_beside_many_moves_is_judged_by_itself(folder: Desk):
    most = dict(list(NEW.items())[:10])

    removed = crawl(folder, most)

    assert [url for url, word in removed.items() if word == "deleted"] == list(OLD)[10:]
    assert next(run_table_report(folder.connection))["removed"] == 2


def test_a_withheld_file_that_turns_up_elsewhere_moves(folder: Desk):
    crawl(folder, dict(list(OLD.items())[6:]))
    assert set(candidates(folder)) == set(list(OLD)[:6])

    moved = dict(list(NEW.items())[:6]) | dict(list(OLD.items())[6:])
    assert crawl(folder, moved) == dict.fromkeys(list(OLD)[:6], "redirected")

    assert candidates(folder) == {}
    assert purge.withheld_candidate_rows(folder.connection) == []


def test_moves_of_due_crawls_are_no_losses_of_the_source(folder: Desk):
    folder.closing = closing(is_listed=True, min_count=3)
    crawl(folder, NEW)
    folder.connection.execute("UPDATE run SET complete = FALSE WHERE no = 3")
    folder.open()
    folder.connection.execute("UPDATE run SET due = TRUE WHERE state = 0")
    for url in list(NEW)[1:]:
        folder.reach(url)
        folder.write(touched=[folder.number(url)])

    folder.seal()

    assert {page.url: page.word for page in folder.removed} == {B: "deleted"}


def test_a_pinned_file_moves(folder: Desk):
    pin(folder, A)

    assert A in crawl(folder, NEW)


# Undo, and processes that end


@pytest.mark.parametrize("later", [False, True], ids=["at once", "after another run"])
def test_an_undo_is_exact(folder: Desk, later: bool):
    before = folder.rows(STORED)
    history = folder.rows(CHANGES)
    crawl(folder, NEW, now=LATEST)
    if later:
        crawl(folder, NEW | {B: "newer words"}, now=LATEST + 1)

    assert sorted(undone(folder, 3)) == sorted(OLD)

    if later:  # the new files have been originals for so long that they stay it
        assert folder.originals()[list(OLD)[1]] == list(NEW)[1]
        folder.connection.execute("UPDATE record SET duplicate_of = NULL, entry = 1")
    assert folder.rows(STORED) == before
    own = [(folder.number(B), 4, LATEST + 1)] if later else []
    assert folder.rows(CHANGES) == history + own
    assert moved_from(folder) == {}
    assert {first_seen(folder, url) for url in NEW} == {LATEST}
    assert state(folder, list(NEW)[1])[2] is (Word.UNCHANGED if later else Word.NEW)
    assert state(folder, B)[2] is (Word.MODIFIED if later else Word.NEW)


def test_an_undo_of_an_earlier_move_leaves_a_later_one(folder: Desk):
    newest = {url.replace("/new/", "/newest/"): text for url, text in NEW.items()}
    crawl(folder, NEW, now=LATEST)
    crawl(folder, newest, now=LATEST)

    undone(folder, 3)

    assert moved_from(folder) == dict(zip(newest, NEW, strict=True))
    assert state(folder, A)[:2] == (Status.INDEXED, Standing.HELD)
    undone(folder, 4)
    assert moved_from(folder) == {}


def test_an_undo_leaves_what_another_file_has_handed_over_since(folder: Desk):
    other = f"{ROOT}other"
    rest = dict(list(NEW.items())[1:])
    crawl(folder, NEW, now=LATEST)
    crawl(folder, rest | {other: "other words"}, now=LATEST)
    crawl(folder, rest | {B: "other words"}, now=LATEST)
    assert moved_from(folder)[B] == other

    undone(folder, 3)

    assert moved_from(folder) == {B: other}


def test_an_undo_of_evidence_without_a_former_address(folder: Desk):
    """Earlier versions stored none."""
    crawl(folder, dict(list(OLD.items())[1:]))
    [(no, restore)] = folder.rows("SELECT no, restore FROM evidence")
    former = {key: value for key, value in json.loads(restore).items() if key != "moved_from"}
    assert len(former) == len(json.loads(restore)) - 1
    statement = "UPDATE evidence SET restore = ? WHERE no = ?"
    folder.connection.execute(statement, (json.dumps(former), no))

    assert undone(folder, 3) == (A,)


def test_a_page_that_is_removed_otherwise_forgets_its_former_address(folder: Desk):
    crawl(folder, NEW, now=LATEST)
    assert crawl(folder, dict(list(NEW.items())[1:]), now=LATEST) == {B: "deleted"}
    assert B not in moved_from(folder)

    undone(folder, 4)

    assert moved_from(folder)[B] == A


def test_a_process_that_ends_before_the_sweep_leaves_the_moves_to_the_next(
    database: str,
):
    desk = Desk()
    desk.closing = LISTED
    crawl(desk, OLD)
    crawl(desk, NEW, end=False)
    desk.verify()
    runs.seal_run_row(desk.connection, 2, (), NOW)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runs, "sweep_candidate_rows", lambda *_: None)
        desk.end(desk.ending())
    assert set(candidates(desk).values()) == {(RemovalRule.MOVED, 0)}
    assert moved_from(desk) == {}

    desk.open()

    assert moved_from(desk) == dict(zip(NEW, OLD, strict=True))
    assert hits(desk) == set(NEW)


def test_a_resumed_run_moves_what_its_first_process_read(folder: Desk):
    crawl(folder, dict(list(NEW.items())[:6]), end=False)
    folder.verify()
    folder.open(resume=True)
    for url, text in list(NEW.items())[6:]:
        folder.index(url, text, title=text, body=text)
    folder.verify()
    folder.seal(look=False)

    assert moved_from(folder) == dict(zip(NEW, OLD, strict=True))


def test_tombstones_of_moves_are_forgotten_after_their_time(folder: Desk):
    folder.closing = closing(is_listed=True, gone_ttl=60, undo_ttl=30)
    crawl(folder, NEW, now=LATEST)
    with transaction(folder.connection):
        assert folder.value("SELECT count(*) FROM record") == 24

    crawl(folder, NEW, now=LATEST + 61)
    crawl(folder, NEW, now=LATEST + 122)

    assert folder.value("SELECT count(*) FROM record") == 12
    assert folder.value("SELECT count(moved_from) FROM record") == 0

"""Removing between runs: what is offered, what is checked again, what comes back."""

import json
from collections.abc import Mapping

import pytest

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.index.choice import EMBEDDED
from smartcrawl.model.documents import Link
from smartcrawl.model.urls import DEFAULT_TRACKERS, url_digest
from smartcrawl.registry.pack import pack_stored_numbers, unpack_stored_document
from smartcrawl.registry.removal import purge
from smartcrawl.registry.removal.sweep import BATCH, UndoRow
from smartcrawl.registry.runs import runs
from smartcrawl.reports import why
from smartcrawl.rules.absence import Loss, Policy
from smartcrawl.rules.model import Outcome, RemovalRule, RunState, Standing, Status
from tests.index.asking import search
from tests.registry.build import LATER, NOW, Desk, closing, index_is_sound
from tests.registry.counted import counts_are_true

HOME, A, B, C = (f"http://a.example/{path}" for path in ("", "a", "b", "c"))
_ERRORS = {404: Outcome.NOT_FOUND, 410: Outcome.NOT_FOUND, 403: Outcome.HTTP_ERROR}


def crawl(desk: Desk, answers: Mapping[str, object], *, seal: bool = True, now: int = NOW) -> int:
    """One run: a text is new content, True the same as before, a number a status, None robots."""
    run = desk.open(now=now)
    for url, answer in answers.items():
        page = desk.page(url)  # registered and reached when it is new
        desk.write(reached={page.no: 0}, now=now)
        match answer:
            case str():
                visit = desk.visit(url, answer)
            case True:
                visit = desk.visit(url, outcome=Outcome.SAME)
                visit.parsed.document = None
            case int():
                visit = desk.visit(
                    url, outcome=_ERRORS.get(answer, Outcome.TRANSIENT), status=answer
                )
            case _:
                visit = desk.visit(url, outcome=Outcome.EXCLUDED, status=None, error="disallowed")
        desk.write(visit, now=now)
    if seal:
        desk.seal(now=now)
    return run.no


def first(desk: Desk, *urls: str) -> None:
    desk.run = None
    crawl(desk, {url: f"words of {url[-1]}" for url in urls})


@pytest.fixture
def crawled() -> Desk:
    """Four pages after a complete run."""
    desk = Desk()
    first(desk, HOME, A, B, C)
    return desk


def urls(targets: list[purge.Target]) -> list[str]:
    return [target.url for target in targets]


def removed(desk: Desk, targets: list[purge.Target], now: int = LATER) -> list[purge.Removal]:
    done = purge.remove_stored_pages(desk.connection, EMBEDDED, targets, now)
    assert all(counts_are_true(desk.connection, removal.run) for removal in done)
    return done


def undone(desk: Desk, run: int, *, pin: bool = False, now: int = LATER):
    done = purge.undo_stored_removals(
        desk.connection,
        EMBEDDED,
        run,
        now,
        pin=pin,
        chunked=lambda packed, _: document_chunks(unpack_stored_document(packed)),
    )
    of_source = "SELECT max(o.no) FROM run o JOIN run r USING (source) WHERE r.no = ?"
    assert counts_are_true(desk.connection, desk.value(of_source, (run,)))
    return done


def hits(desk: Desk, query: str = "words") -> set[str]:
    return {hit.url for hit in search(desk.connection, query)}


def state(desk: Desk, url: str) -> tuple[Status, Standing]:
    row = desk.rows("SELECT status, standing FROM state WHERE no = ?", (desk.number(url),))
    return Status(row[0][0]), Standing(row[0][1])


# Lost


@pytest.mark.covers("R4-06")
def test_what_is_lost_is_listed_and_only_a_listed_status_makes_it_removable(crawled: Desk):
    crawl(crawled, {HOME: True, A: 404, B: 403, C: 503})

    found = purge.lost_page_rows(crawled.connection, Policy())

    assert [(t.url, t.removable, t.rule) for t in found] == [
        (A, True, RemovalRule.GONE),
        (B, False, RemovalRule.GONE),
    ]
    assert found[1].why_not == "403 is not in LOST_PURGE_STATUSES"
    assert json.loads(found[0].detail) == {"status": 404, "lostCount": 1, "goneCount": 1}


def test_an_error_of_the_moment_after_a_404_protects_the_page(crawled: Desk):
    crawl(crawled, {HOME: True, A: 404, B: True, C: True})
    crawl(crawled, {HOME: True, A: 503, B: True, C: True})

    assert [t.removable for t in purge.lost_page_rows(crawled.connection, Policy())] == [False]


def test_a_page_that_was_never_held_is_not_lost(crawled: Desk):
    crawl(crawled, {HOME: True, A: True, B: True, C: True, "http://a.example/d": 404})

    assert purge.lost_page_rows(crawled.connection, Policy()) == []


@pytest.mark.covers("R4-06", "U-09")
def test_a_lost_page_becomes_an_ordinary_404(crawled: Desk):
    crawl(crawled, {HOME: True, A: 404, B: True, C: True})

    done = removed(crawled, purge.lost_page_rows(crawled.connection, Policy()))

    assert done == [purge.Removal("docs", 2, (A,))]
    assert state(crawled, A) == (Status.GONE, Standing.BARE)
    row = "SELECT effective_status, lost_count, gone_count FROM state WHERE no = ?"
    assert crawled.rows(row, (crawled.number(A),)) == [(404, 0, 0)]
    assert hits(crawled) == {HOME, B, C}
    assert index_is_sound(crawled.connection)


# Orphans


@pytest.mark.covers("R4-12")
def test_an_orphan_is_what_the_latest_complete_run_did_not_reach(crawled: Desk):
    crawl(crawled, {HOME: True, A: True})
    crawl(crawled, {HOME: True, A: True})

    found = purge.orphaned_page_rows(crawled.connection)

    assert [(t.url, t.rule, t.age) for t in found] == [
        (B, RemovalRule.ORPHAN, 2),
        (C, RemovalRule.ORPHAN, 2),
    ]
    assert json.loads(found[0].detail) == {
        "why": "no page links to it",
        "completeRuns": 2,
        "goneCount": 0,
        "since": NOW,
        "lastReachedRun": 1,
    }


def test_a_run_that_did_not_see_everything_makes_no_orphans(crawled: Desk):
    crawl(crawled, {HOME: True}, seal=False)
    crawled.seal("max_pages")

    assert purge.orphaned_page_rows(crawled.connection) == []


def test_a_page_that_a_later_run_reached_is_no_orphan(crawled: Desk):
    """A link leads there now, though the run that found it was cut before it was asked."""
    crawl(crawled, {HOME: True, A: True, B: True})
    crawl(crawled, {HOME: True}, seal=False)
    crawled.reach(C)

    assert purge.orphaned_page_rows(crawled.connection) == []


def test_what_robots_forbids_is_purged_as_excluded(crawled: Desk):
    crawl(crawled, {HOME: True, A: True, B: True, C: None})

    found = purge.orphaned_page_rows(crawled.connection)

    assert [(t.url, t.rule, t.status) for t in found] == [
        (C, RemovalRule.EXCLUDED, Status.OUT_OF_SCOPE)
    ]
    assert json.loads(found[0].detail)["why"] == "disallowed"
    removed(crawled, found)
    assert state(crawled, C) == (Status.OUT_OF_SCOPE, Standing.BARE)


def test_an_excluded_page_that_was_reached_again_and_not_asked_yet_stays(crawled: Desk):
    crawl(crawled, {HOME: True, A: True, B: True, C: None})
    crawl(crawled, {HOME: True}, seal=False)
    crawled.reach(C)

    assert purge.orphaned_page_rows(crawled.connection) == []


def test_pinned_pages_are_no_orphans(crawled: Desk):
    crawl(crawled, {HOME: True, A: True})
    no = crawled.number(B)
    crawled.connection.execute("INSERT INTO pin (no, source, at) VALUES (?, 1, 0)", (no,))

    assert urls(purge.orphaned_page_rows(crawled.connection)) == [C]


def test_what_was_removed_is_no_orphan_any_more(crawled: Desk):
    crawl(crawled, {HOME: True, A: True, B: True})
    removed(crawled, purge.orphaned_page_rows(crawled.connection))

    assert purge.orphaned_page_rows(crawled.connection) == []


@pytest.mark.covers("R4-12", "U-18")
def test_a_purged_orphan_leaves_evidence_under_the_latest_run(crawled: Desk):
    crawl(crawled, {HOME: True, A: True, B: True})
    crawl(crawled, {HOME: True, A: True, B: True}, seal=False)  # it died

    done = removed(crawled, purge.orphaned_page_rows(crawled.connection))

    assert done == [purge.Removal("docs", 3, (C,))]
    rows = crawled.rows("SELECT record, run, rule, at FROM evidence")
    assert rows == [(crawled.number(C), 3, RemovalRule.ORPHAN, LATER)]
    assert hits(crawled) == {HOME, A, B}


def test_a_process_that_is_believed_dead_cannot_write_over_a_removal(crawled: Desk):
    crawl(crawled, {HOME: True, A: True, B: True})
    late = crawled.open()
    visit = crawled.visit(C, outcome=Outcome.CHANGED, text="late words")
    removed(crawled, purge.orphaned_page_rows(crawled.connection))

    assert crawled.write(visit, number=late.number) == 1  # stale
    assert state(crawled, C)[1] is Standing.BARE


def test_other_sources_are_left_alone(crawled: Desk):
    crawl(crawled, {HOME: True})
    other = Desk.__new__(Desk)
    other.__dict__.update(crawled.__dict__)
    other.source = "other"
    crawl(other, {A: "their words", B: "more words"})
    crawl(other, {A: True})

    assert urls(purge.orphaned_page_rows(crawled.connection, sources=["other"])) == [B]
    assert len(purge.orphaned_page_rows(crawled.connection)) == 4
    done = removed(crawled, purge.orphaned_page_rows(crawled.connection))
    assert [(one.source, one.run, len(one.urls)) for one in done] == [
        ("docs", 2, 3),
        ("other", 4, 1),
    ]
    for (source,) in crawled.rows("SELECT no FROM source"):
        assert purge.stored_removal_losses(crawled.connection, source, []) == (
            Loss(0, 1),
            Loss(0, 1),
        )


def test_many_pages_go_in_several_transactions(crawled: Desk, monkeypatch):
    monkeypatch.setattr(purge, "BATCH", 2)
    crawl(crawled, {HOME: True})
    before = crawled.value("SELECT value FROM sequence WHERE name = 'number'")

    removed(crawled, purge.orphaned_page_rows(crawled.connection))

    assert crawled.value("SELECT value FROM sequence WHERE name = 'number'") == before + 2
    assert BATCH == 500
    assert hits(crawled) == {HOME}


# What waits for approval


@pytest.fixture
def waiting() -> Desk:
    """A, B and C are orphans that the guard withheld in run 2."""
    desk = Desk()
    desk.closing = closing(orphan_threshold=1, min_count=1)
    first(desk, HOME, A, B, C)
    crawl(desk, {HOME: True})
    assert len(purge.withheld_candidate_rows(desk.connection)) == 3
    return desk


def test_withheld_removals_wait_with_the_run_that_proposed_them(waiting: Desk):
    found = purge.withheld_candidate_rows(waiting.connection)

    assert [(t.url, t.run, t.rule, t.removable) for t in found] == [
        (A, 2, RemovalRule.ORPHAN, True),
        (B, 2, RemovalRule.ORPHAN, True),
        (C, 2, RemovalRule.ORPHAN, True),
    ]
    assert json.loads(found[0].detail)["probe"] == 200
    assert hits(waiting) == {HOME, A, B, C}


def test_approval_reaches_back_and_not_ahead(waiting: Desk):
    assert purge.withheld_candidate_rows(waiting.connection, run=1) == []
    assert len(purge.withheld_candidate_rows(waiting.connection, run=2)) == 3
    assert len(purge.withheld_candidate_rows(waiting.connection, run=3)) == 3


@pytest.mark.parametrize("asked", [False, True])
def test_what_was_reached_or_answered_since_stays(waiting: Desk, asked: bool):
    """The run that found it again died, so nothing refuted the proposal."""
    crawl(waiting, {HOME: True} | ({B: True} if asked else {}), seal=False)
    if not asked:
        waiting.reach(B)

    found = {t.url: t.why_not for t in purge.withheld_candidate_rows(waiting.connection)}

    assert found == {A: None, B: "it was reached or answered since", C: None}


def test_an_orphan_whose_look_failed_is_not_released():
    desk = Desk()
    desk.closing = closing(orphan_threshold=1, min_count=1)
    first(desk, HOME, A, B, C)
    crawl(desk, {HOME: True}, seal=False)
    desk.verify({B: 503})
    desk.seal(look=False)

    assert urls(purge.withheld_candidate_rows(desk.connection)) == [A, C]
    assert B in urls(purge.orphaned_page_rows(desk.connection))


def test_what_only_a_failed_look_holds_is_not_withheld(crawled: Desk):
    crawled.closing = closing(orphan_threshold=1)
    crawl(crawled, {HOME: True, A: True, B: True}, seal=False)
    crawled.verify({C: 503})
    crawled.seal(look=False)

    assert crawled.rows("SELECT withheld FROM candidate") == [(0,)]
    assert purge.withheld_candidate_rows(crawled.connection) == []


def test_a_page_that_was_pinned_since_is_not_released(waiting: Desk):
    no = waiting.number(A)
    waiting.connection.execute("INSERT INTO pin (no, source, at) VALUES (?, 1, 0)", (no,))

    assert [t.why_not for t in purge.withheld_candidate_rows(waiting.connection)] == [
        "it is pinned",
        None,
        None,
    ]


def test_a_pinned_page_that_is_gone_is_released():
    desk = Desk()
    desk.closing = closing(lost_threshold=1, min_count=1)
    first(desk, HOME, A, B)
    for url in (A, B):
        pin = "INSERT INTO pin (no, source, at) VALUES (?, 1, 0)"
        desk.connection.execute(pin, (desk.number(url),))
    crawl(desk, {HOME: True, A: 404, B: 410})

    found = purge.withheld_candidate_rows(desk.connection)

    assert [(t.url, t.rule, t.removable) for t in found] == [
        (A, RemovalRule.GONE, True),
        (B, RemovalRule.GONE, True),
    ]


@pytest.fixture
def moved() -> Desk:
    """A and B redirect to C; the guard withheld their removal."""
    desk = Desk()
    desk.closing = closing(min_count=1)
    first(desk, HOME, A, B, C)
    desk.open()
    c = desk.number(C)
    desk.reach(HOME, A, B, C)
    desk.write(desk.visit(HOME, outcome=Outcome.SAME), desk.visit(C, outcome=Outcome.SAME))
    for url in (A, B):
        redirect = desk.visit(
            url, outcome=Outcome.REDIRECT, status=301, links=[Link(C, "", "redirect", False)],
            targets=[c], location=C,
        )  # fmt: skip
        desk.write(redirect)
    desk.seal()
    return desk


def test_a_redirect_is_released_while_its_target_is_indexed(moved: Desk):
    found = purge.withheld_candidate_rows(moved.connection)
    assert [(t.url, t.rule, t.removable) for t in found] == [
        (A, RemovalRule.REDIRECT, True),
        (B, RemovalRule.REDIRECT, True),
    ]

    removed(moved, found)

    assert state(moved, A) == (Status.CRAWLED, Standing.BARE)


def test_a_redirect_is_not_released_when_its_target_went(moved: Desk):
    key = url_digest(C)
    removed(moved, [page.forgotten() for page in purge.known_record_rows(moved.connection, key)])

    reasons = {t.why_not for t in purge.withheld_candidate_rows(moved.connection)}

    assert reasons == {"the page in its place is not indexed any more"}


@pytest.mark.parametrize("target_went", [False, True])
def test_an_alias_is_released_only_while_its_canonical_page_is_indexed(target_went: bool):
    desk = Desk()
    desk.closing = closing(min_count=1)
    first(desk, HOME, A, B, C)
    desk.open()
    desk.reach(HOME, A, B, C)
    desk.write(desk.visit(HOME, outcome=Outcome.SAME), desk.visit(C, outcome=Outcome.SAME))
    no = desk.number(C)
    desk.write(desk.visit(A, "words of a, again", canonical_no=no))
    desk.write(desk.visit(B, "words of b, again", canonical_no=desk.number(A)))
    desk.seal()
    found = purge.withheld_candidate_rows(desk.connection)
    assert [(t.url, t.rule) for t in found] == [
        (A, RemovalRule.CANONICAL),
        (B, RemovalRule.CANONICAL),
    ]
    if target_went:
        removed(
            desk,
            [page.forgotten() for page in purge.known_record_rows(desk.connection, url_digest(C))],
        )

    assert {t.removable for t in purge.withheld_candidate_rows(desk.connection)} == {
        not target_went
    }


def test_released_pages_are_no_candidates_any_more(waiting: Desk):
    removed(waiting, purge.withheld_candidate_rows(waiting.connection)[:2])

    assert urls(purge.withheld_candidate_rows(waiting.connection)) == [C]
    assert hits(waiting) == {HOME, C}


# Undo


def test_removals_are_listed_by_run(crawled: Desk):
    assert purge.removal_rows(crawled.connection) == []
    crawl(crawled, {HOME: True, A: 404, B: True})
    removed(crawled, purge.lost_page_rows(crawled.connection, Policy()), now=LATER)
    removed(crawled, purge.orphaned_page_rows(crawled.connection), now=LATER + 1)

    assert purge.removal_rows(crawled.connection) == [
        purge.Removals(2, "docs", 2, undone=0, restorable=2, at=LATER + 1)
    ]
    undone(crawled, 2)
    assert purge.removal_rows(crawled.connection) == [
        purge.Removals(2, "docs", 2, undone=2, restorable=0, at=LATER + 1)
    ]
    assert purge.removal_rows(crawled.connection, sources=["other"]) == []


@pytest.mark.covers("M-09")
def test_a_purge_is_undone_as_it_was_and_counts_as_seen(crawled: Desk):
    before = crawled.stored()["content"], hits(crawled)
    crawl(crawled, {HOME: True, A: 404, B: True})
    removed(crawled, purge.lost_page_rows(crawled.connection, Policy()))
    removed(crawled, purge.orphaned_page_rows(crawled.connection))
    assert hits(crawled) == {HOME, B}

    told = undone(crawled, 2)

    assert (set(told.restored), told.kept, told.expired) == ({A, C}, (), ())
    assert (crawled.stored()["content"], hits(crawled)) == before
    assert state(crawled, A) == state(crawled, C) == (Status.INDEXED, Standing.HELD)
    assert purge.orphaned_page_rows(crawled.connection) == []
    assert purge.lost_page_rows(crawled.connection, Policy()) == []
    assert index_is_sound(crawled.connection)


def test_an_undo_counts_from_the_latest_run_whatever_run_is_undone(crawled: Desk):
    crawl(crawled, {HOME: True, A: True, B: True})
    removed(crawled, purge.orphaned_page_rows(crawled.connection))
    crawl(crawled, {HOME: True, A: True, B: True})
    undone(crawled, 2)

    assert purge.orphaned_page_rows(crawled.connection) == []
    crawl(crawled, {HOME: True, A: True, B: True})
    assert [t.age for t in purge.orphaned_page_rows(crawled.connection)] == [1]


def test_what_was_undone_can_be_removed_and_undone_again(crawled: Desk):
    crawl(crawled, {HOME: True, A: True, B: True})
    removed(crawled, purge.orphaned_page_rows(crawled.connection))
    assert undone(crawled, 2).restored == (C,)
    assert undone(crawled, 2).restored == ()

    removed(
        crawled, [p.forgotten() for p in purge.known_record_rows(crawled.connection, url_digest(C))]
    )

    assert hits(crawled) == {HOME, A, B}
    assert undone(crawled, 2).restored == (C,)
    assert hits(crawled) == {HOME, A, B, C}


def test_newer_content_is_kept(crawled: Desk):
    crawl(crawled, {HOME: True, A: True, B: True})
    removed(crawled, purge.orphaned_page_rows(crawled.connection))
    crawl(crawled, {HOME: True, A: True, B: True, C: "newer words"})

    assert undone(crawled, 2).kept == (C,)
    assert hits(crawled, "newer") == {C}


def test_a_pinned_restoration_is_no_orphan(crawled: Desk):
    crawl(crawled, {HOME: True, A: True, B: True})
    removed(crawled, purge.orphaned_page_rows(crawled.connection))
    undone(crawled, 2, pin=True)

    assert crawled.rows("SELECT no, source FROM pin") == [(crawled.number(C), 1)]
    crawl(crawled, {HOME: True, A: True, B: True})
    assert purge.orphaned_page_rows(crawled.connection) == []


def test_the_source_of_a_run_is_known(crawled: Desk):
    assert purge.source_row_of_run(crawled.connection, 1) == (1, "docs")
    assert purge.source_row_of_run(crawled.connection, 9) is None


# Forgetting


def test_a_page_is_forgotten_in_the_source_that_knows_it(crawled: Desk):
    (page,) = purge.known_record_rows(crawled.connection, url_digest(A))
    assert (page.url, page.held, page.pinned) == (A, True, False)

    removed(crawled, [page.forgotten()])

    (page,) = purge.known_record_rows(crawled.connection, url_digest(A))
    assert (page.held, state(crawled, A)[0]) == (False, Status.OUT_OF_SCOPE)
    assert crawled.rows("SELECT rule FROM evidence") == [(RemovalRule.FORGOTTEN,)]
    assert purge.known_record_rows(crawled.connection, url_digest("http://a.example/zz")) == []


def test_a_forgotten_source_holds_nothing_has_no_pins_and_is_not_missed(crawled: Desk):
    crawled.connection.execute("UPDATE source SET declared = TRUE")
    for url in (A, B):
        pin = "INSERT INTO pin (no, source, at) VALUES (?, 1, 0)"
        crawled.connection.execute(pin, (crawled.number(url),))
    purge.unpin_rows(crawled.connection, [crawled.number(A)])
    assert crawled.rows("SELECT no FROM pin") == [(crawled.number(B),)]

    removed(crawled, purge.forgettable_page_rows(crawled.connection, "docs"))
    purge.undeclare_source_row(crawled.connection, "docs")

    assert purge.stored_removal_losses(crawled.connection, 1, []) == (Loss(0, 0), Loss(0, 0))
    assert crawled.rows("SELECT * FROM pin") == []
    assert runs.declared_source_rows(crawled.connection) == []
    assert hits(crawled) == set()


# The story


def test_links_in_are_found_through_targets_redirects_and_restored_links(crawled: Desk):
    crawled.open()
    number = crawled.number(A)
    links = [Link(A, "", "hyperlink", False)]
    crawled.write(crawled.visit(HOME, "home words", links=links, targets=[number], scope=7))

    def found(key: bytes = b"") -> tuple[int, list[str]]:
        return why.reported_links_in(crawled.connection, 1, number, key, DEFAULT_TRACKERS)

    assert found() == (1, [HOME])
    crawled.connection.execute("UPDATE record SET redirect_no = ? WHERE url = ?", (number, B))
    crawled.connection.execute("UPDATE record SET canonical_no = ? WHERE url = ?", (number, C))
    assert found() == (3, [HOME, B, C])
    crawled.connection.execute("UPDATE links SET scope = 0, targets = zeroblob(0) WHERE count = 1")
    assert found() == (2, [B, C])
    assert found(url_digest(A)) == (3, [HOME, B, C])


def test_a_number_that_only_shares_bytes_is_no_link(crawled: Desk):
    """Packed numbers lie beside each other: 1 and 256 hold the bytes of others between them."""
    crawled.open()
    links = [Link(A, "", "hyperlink", False)]
    crawled.write(crawled.visit(HOME, "home", links=links, targets=[], scope=7))
    targets = pack_stored_numbers([0x01000000, 0x02])
    crawled.connection.execute("UPDATE links SET targets = ? WHERE no = 1", (targets,))

    def found(number: int) -> int:
        return why.reported_links_in(
            crawled.connection, 1, number, url_digest(A), DEFAULT_TRACKERS
        )[0]

    assert (found(0x0201), found(0x02)) == (0, 1)


def test_a_dead_run_is_no_obstacle_and_is_not_settled_by_a_removal(crawled: Desk):
    crawl(crawled, {HOME: True, A: True, B: True})
    crawl(crawled, {HOME: True}, seal=False)

    removed(crawled, purge.orphaned_page_rows(crawled.connection))

    assert runs.last_run_row(crawled.connection, "docs") == (3, 1, RunState.OPEN)


def test_a_soft_404_goes_when_it_was_gone_often_enough(crawled: Desk):
    """docs/decisions.md, what ages: a soft 404 may be removed for it; is_gone says so, too."""
    for _ in range(3):
        crawl(crawled, {HOME: True, B: True, C: True}, seal=False)
        crawled.reach(A)
        crawled.write(crawled.visit(A, outcome=Outcome.SOFT_404, status=200))
        crawled.seal()

    assert crawled.rows("SELECT status FROM state WHERE no = ?", (crawled.number(A),)) == [
        (Status.GONE,)
    ]


@pytest.mark.parametrize(
    ("restore", "changed", "restored"),
    [
        ('{"changed_run": 5}', 4, 2),
        ('{"changed_run": 5}', None, 2),
        ('{"changed_run": 5}', 5, None),
        ('{"changed_run": null}', 4, None),
        ("{}", 4, None),
        (None, 4, None),
    ],
)
def test_content_that_an_older_undo_restored_is_older_than_what_was_removed(
    restore: str | None, changed: int | None, restored: int | None
):
    """Nothing is known of what was removed once it has expired."""
    removal = UndoRow(
        no=9, record=1, rule=1, detail="{}", content=3, links=None, restore=restore, run=6,
        standing=Standing.HELD, current=4, url=A, changed_run=changed, snapshot=None,
        visited_run=6, newer_run=None, earlier_no=8, earlier_run=2, earlier_restore=None,
        rested=None,
    )  # fmt: skip

    assert removal.restored_run == restored

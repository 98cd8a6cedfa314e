"""Pages that moved for good to an address that has left the source (ADR 34)."""

from collections.abc import Mapping

import pytest

from smartcrawl.model.documents import Link
from smartcrawl.registry.hosts import store_host_block_row
from smartcrawl.rules.model import Fault, Outcome, Status, Word
from tests.registry.build import NOW, Desk, closing

HOME, OLD, HOP, END = (f"http://a.example/{path}" for path in ("", "old", "hop", "end"))
OUT = "http://b.example/"
ANSWERS = {
    200: Outcome.CHANGED, 403: Outcome.HTTP_ERROR, 404: Outcome.NOT_FOUND, 410: Outcome.NOT_FOUND,
    503: Outcome.TRANSIENT, None: Outcome.EXCLUDED, int(Fault.RESET): Outcome.UNREACHABLE,
}  # fmt: skip


def redirect(desk: Desk, url: str, status: int, target: str) -> None:
    targets = [] if target == OUT else [desk.page(target).no]
    link = Link(target, "", "redirect", False)
    told = {"links": [link], "targets": targets, "location": target, "kind": desk.page(url).kind}
    desk.write(desk.visit(url, outcome=Outcome.REDIRECT, status=status, **told))


def run(
    desk: Desk, moves: Mapping[str, tuple[int, str]], answers: Mapping[str, int | None], *, now: int
) -> None:
    """One run in which some pages redirect and others answer."""
    desk.open(now=now)
    desk.page(HOME)
    for url in (HOME, *moves, *answers):
        desk.page(url)  # registered where it is new
        desk.reach(url)
    desk.write(touched=[desk.number(HOME)], now=now)
    for url, (status, target) in moves.items():
        redirect(desk, url, status, target)
    for url, answer in answers.items():
        text = "words of the end" if answer == 200 else ""
        desk.write(desk.visit(url, text, outcome=ANSWERS[answer], status=answer))
    desk.seal(now=now)


@pytest.fixture
def site(database: str) -> Desk:
    """Five pages with content after a complete run; OLD is one of them."""
    desk = Desk()
    desk.closing = closing(lost_threshold=2, in_scope=lambda url, depth: url != OUT)
    desk.open()
    for url in (HOME, OLD, *(f"http://a.example/{n}" for n in range(3))):
        desk.index(url, f"words of {url}")
    desk.seal()
    return desk


def found(desk: Desk) -> tuple[object, ...]:
    """Word, message and counts of OLD."""
    return desk.rows(
        "SELECT s.outcome, r.error_message, s.lost_count, s.gone_count FROM state s"
        " JOIN record r USING (no) WHERE s.no = ?",
        (desk.number(OLD),),
    )[0]


@pytest.mark.long(but=6)
@pytest.mark.covers("U-06", "M-21", "R4-37")
@pytest.mark.parametrize("answer", [404, 410, None], ids=["404", "410", "robots"])
@pytest.mark.parametrize("hops", [1, 2])
def test_a_chain_that_ends_where_nothing_is_left_takes_its_page_along(
    site: Desk, answer: int | None, hops: int
):
    way = {OLD: (301, END)} if hops == 1 else {OLD: (301, HOP), HOP: (308, END)}
    for count in (1, 2):
        assert site.removed == []
        run(site, way, {END: answer}, now=NOW + count)
        if count == 1:
            why = f"moved to {END}"
            if answer is not None:
                why = f"not found: redirected to {END}, which does not exist"
            assert found(site) == (Word.LOST, why, 1, 1)

    assert [page.url for page in site.removed] == [OLD]
    status = site.value("SELECT status FROM state WHERE no = ?", (site.number(OLD),))
    assert status == Status.GONE


@pytest.mark.covers("U-06", "M-21")
@pytest.mark.parametrize("answer", [503, 403, int(Fault.RESET)])
def test_a_chain_that_ends_at_an_error_of_another_kind_waits(site: Desk, answer: int):
    for count in (1, 2, 3):
        run(site, {OLD: (301, END)}, {END: answer}, now=NOW + count)

        assert found(site) == (Word.REDIRECTED, None, 0, 0)
    assert site.removed == []


def test_an_end_that_the_operator_blocks_is_waited_for(site: Desk):
    store_host_block_row(site.connection, "a.example", "later")

    run(site, {OLD: (301, END)}, {END: None}, now=NOW + 1)

    assert found(site)[0] == Word.REDIRECTED


def test_what_an_end_answered_in_an_earlier_run_is_no_answer(site: Desk):
    run(site, {}, {OLD: 200, END: 404}, now=NOW + 1)

    run(site, {OLD: (301, END)}, {}, now=NOW + 2)

    assert found(site) == (Word.REDIRECTED, None, 0, 0)


def test_a_sitemap_may_move_anywhere(site: Desk):
    site.connection.execute("UPDATE record SET kind = 1 WHERE url = ?", (OLD,))

    run(site, {OLD: (301, OUT)}, {}, now=NOW + 1)

    assert found(site) == (Word.REDIRECTED, None, 0, 0)


@pytest.mark.covers("U-06", "M-21")
@pytest.mark.parametrize("status", [302, 303, 307])
def test_a_chain_that_turns_off_for_the_moment_is_lost_and_never_gone(site: Desk, status: int):
    """Nor does it carry on what was counted as gone before."""
    run(site, {}, {OLD: 404}, now=NOW + 1)
    for count in (2, 3, 4):
        run(site, {OLD: (301, HOP), HOP: (status, OUT)}, {}, now=NOW + count)

        assert found(site)[2:] == (count, 1)
        stored = site.value("SELECT http_status FROM state WHERE no = ?", (site.number(OLD),))
        assert stored == status
        assert site.removed == []


def test_an_end_out_of_scope_counts_for_the_whole_chain(site: Desk):
    run(site, {OLD: (308, HOP), HOP: (301, OUT)}, {}, now=NOW + 1)

    assert found(site) == (Word.LOST, f"moved to {OUT}", 1, 1)


@pytest.mark.covers("U-19", "R4-43")
def test_a_page_that_answers_again_is_lost_no_more(site: Desk):
    run(site, {OLD: (301, OUT)}, {}, now=NOW + 1)
    assert found(site)[2:] == (1, 1)

    run(site, {}, {OLD: 200}, now=NOW + 2)

    assert found(site)[2:] == (0, 0)


@pytest.mark.covers("M-11")
def test_due_crawls_count_it_once_in_a_day(site: Desk):
    site.closing = closing(lost_threshold=9, in_scope=lambda url, depth: url != OUT, pace=86_400)
    counts = []
    for later in (1, 600, 86_401):
        site.open(now=NOW + later)
        site.connection.execute("UPDATE run SET due = TRUE WHERE state = 0")
        site.reach(HOME, OLD)
        redirect(site, OLD, 301, OUT)
        site.seal("not_due: 4", now=NOW + later)
        counts.append(found(site)[2:])

    assert counts == [(1, 1), (1, 1), (2, 2)]

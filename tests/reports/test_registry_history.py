"""When a source was crawled, and when its pages turned out to have changed."""

from smartcrawl.reports.simulation import PastRun, page_life_report, run_history_report
from smartcrawl.rules.model import Outcome
from smartcrawl.rules.schedule import Life
from tests.registry.build import LATER, LONG, NOW, Desk

A, B = "https://a.example/a", "https://a.example/b"


def changed(desk: Desk, url: str, *times: int, run: int = 2) -> None:
    """Note that a page was found changed."""
    for at in times:
        desk.rows(
            "INSERT INTO change (record, run, at) VALUES (?, ?, ?)", (desk.number(url), run, at)
        )


def told(desk: Desk, url: str) -> Life:
    """The life of one page."""
    (life,) = (life for life in page_life_report(desk.connection, 1) if life.no == desk.number(url))
    return life


def without_changes(desk: Desk) -> None:
    """Leave the registry as one that is older than the table of changes."""
    desk.rows("DELETE FROM change")


def test_runs_are_told_oldest_first(desk: Desk):
    desk.seal()
    desk.open(now=LATER)
    desk.seal("interrupted", now=LATER)
    desk.open(now=LATER + 1)
    desk.rows("UPDATE run SET due = 1 WHERE no = 3")

    assert run_history_report(desk.connection, 1) == [
        PastRun(NOW, 1, 0), PastRun(LATER, 0, 0), PastRun(LATER + 1, 0, 1),
    ]  # fmt: skip
    assert run_history_report(desk.connection, 2) == []


def test_pages_are_told_in_order_of_discovery_with_their_changes_in_order_of_time(desk: Desk):
    desk.index(B, LONG)
    desk.index(A, "words")
    desk.seal()
    desk.open(now=LATER)
    changed(desk, A, LATER + 9, LATER + 5)
    changed(desk, B, LATER)

    assert list(page_life_report(desk.connection, 1)) == [
        Life(desk.number(B), NOW, (LATER,)), Life(desk.number(A), NOW, (LATER + 5, LATER + 9)),
    ]  # fmt: skip
    assert list(page_life_report(desk.connection, 2)) == []


def test_the_first_content_is_no_change(desk: Desk):
    desk.index(A, "words")
    changed(desk, A, NOW, run=1)

    assert told(desk, A).changes == ()


def test_without_noted_changes_the_last_one_is_known(desk: Desk):
    desk.index(A, "words")
    desk.index(B, LONG)
    desk.seal()
    desk.open(now=LATER)
    desk.write(desk.visit(A, "other words"), now=LATER)
    desk.write(desk.visit(B, outcome=Outcome.NOT_MODIFIED, status=304), now=LATER)
    without_changes(desk)

    assert told(desk, A).changes == (LATER,)
    assert told(desk, B).changes == ()


def test_what_is_not_held_is_left_out_and_so_are_sitemaps(desk: Desk):
    desk.index(A, "words")
    desk.index(B, LONG)
    desk.add("https://a.example/never")
    desk.write(desk.visit("https://a.example/lost", outcome=Outcome.NOT_FOUND, status=404))
    desk.rows("UPDATE record SET kind = 1 WHERE no = ?", (desk.number(B),))

    assert [life.no for life in page_life_report(desk.connection, 1)] == [desk.number(A)]


def test_a_lost_page_that_is_held_still_counts(desk: Desk):
    desk.index(A, "words")
    desk.seal()
    desk.open(now=LATER)
    desk.write(desk.visit(A, outcome=Outcome.NOT_FOUND, status=404), now=LATER)

    assert told(desk, A).first_seen == NOW

"""A tombstone stays as long as a link leads there, it can be undone, or its time is not over."""

from dataclasses import replace

import pytest

from smartcrawl.model.documents import Link
from smartcrawl.model.pages import Unreadable
from smartcrawl.registry.commit import record
from smartcrawl.rules.model import Fault, Outcome
from tests.registry.build import NOW, Desk, closing

HOME, PAGE = "http://a.example/", "http://a.example/page"
DAY = 86_400
TTL = 90 * DAY


@pytest.fixture
def desk():
    """A page was removed long ago, and nobody links it."""
    desk = Desk()
    desk.closing = closing(lost_threshold=1, max_ratio=1.0, undo_ttl=DAY, gone_ttl=TTL)
    desk.open()
    link(desk, PAGE)
    desk.write(desk.visit(PAGE, "a text"))
    desk.seal()
    desk.open()
    link(desk, PAGE)
    desk.write(desk.visit(PAGE, outcome=Outcome.NOT_FOUND, status=404))
    desk.seal()
    assert status(desk) == [("Gone",)]
    yield desk
    desk.close()


def link(desk: Desk, *urls: str, now: int = NOW) -> None:
    """Visit the home page, which links these."""
    home = desk.visit(
        HOME, "home", links=[Link(url, "", "hyperlink", False) for url in urls],
        targets=[desk.page(url).no for url in urls],
    )  # fmt: skip
    home.parsed.scope = 7
    desk.write(home, now=now)
    if urls:
        desk.write(reached={desk.number(url): 1 for url in urls}, now=now)


def run(desk: Desk, *reasons: str, now: int, links: tuple[str, ...] = ()) -> None:
    desk.open(now=now)
    link(desk, *links, now=now)
    if links:
        desk.write(desk.visit(PAGE, outcome=Outcome.NOT_FOUND, status=404), now=now)
    desk.seal(*reasons, now=now)


def status(desk: Desk) -> list[tuple[str]]:
    return desk.rows(f'SELECT "status" FROM "IngestItems" WHERE "normalizedSource" = \'{PAGE}\'')


@pytest.mark.covers("R0-79", "M-09", "R0-100")
def test_a_tombstone_is_forgotten_when_its_time_is_over(desk: Desk):
    run(desk, now=NOW + TTL)
    assert status(desk) == [("Gone",)]
    run(desk, now=NOW + TTL + 1)

    assert status(desk) == []
    for table, column in (
        ("state", "no"),
        ("links", "no"),
        ("event", "record"),
        ("evidence", "record"),
    ):
        assert desk.rows(f"SELECT count(*) FROM {table} WHERE {column} = 1") == [(0,)], table


@pytest.mark.covers("R0-79")
def test_while_a_link_leads_there_it_stays(desk: Desk):
    run(desk, now=NOW + 2 * TTL, links=(PAGE,))
    assert status(desk) == [("Gone",)]
    run(desk, now=NOW + 3 * TTL)  # asked a TTL ago: one second is missing
    assert status(desk) == [("Gone",)]
    run(desk, now=NOW + 3 * TTL + 1)
    assert status(desk) == []


@pytest.mark.covers("R0-79")
def test_a_run_that_did_not_see_everything_forgets_nothing(desk: Desk):
    run(desk, "pending: 1", now=NOW + 2 * TTL)

    assert status(desk) == [("Gone",)]


@pytest.mark.covers("R0-79", "M-09")
def test_what_can_be_undone_or_is_pinned_stays(desk: Desk):
    desk.closing = replace(desk.closing, undo_ttl=3 * TTL)
    run(desk, now=NOW + 2 * TTL)
    assert status(desk) == [("Gone",)]
    desk.closing = replace(desk.closing, undo_ttl=DAY)
    desk.connection.execute("INSERT INTO pin (no, source, at) VALUES (1, 1, 0)")
    run(desk, now=NOW + 2 * TTL)
    assert status(desk) == [("Gone",)]


def test_zero_means_for_ever(desk: Desk):
    desk.closing = replace(desk.closing, gone_ttl=0)
    run(desk, now=NOW + 100 * TTL)

    assert status(desk) == [("Gone",)]


@pytest.mark.covers("RD-11", "R0-100")
def test_an_address_that_was_forgotten_is_new_and_links_lead_there_again(desk: Desk):
    """No stored number of it is left: it is looked up by its address again."""
    desk.connection.execute(
        "UPDATE links SET scope = 7, targets = ? WHERE no = 2", (bytes([1, 0, 0, 0]),)
    )
    run_no = NOW + TTL + 1
    desk.open(now=run_no)
    desk.write(reached={2: 0}, now=run_no)
    desk.seal(now=run_no)

    assert status(desk) == []
    assert desk.rows("SELECT scope, targets FROM links WHERE no = 2") == [(0, b"")]


@pytest.mark.covers("R0-79")
def test_orphans_that_were_removed_are_forgotten_likewise(desk: Desk):
    desk.closing = replace(desk.closing, policy=replace(desk.closing.policy, orphan_threshold=1))
    desk.open()
    link(desk)
    desk.write(desk.visit("http://a.example/orphan", "alone"))
    desk.seal()
    run(desk, now=NOW)
    count = "SELECT count(*) FROM record WHERE url LIKE '%/orphan'"
    words = "SELECT outcome FROM state JOIN record USING (no) WHERE url LIKE '%/orphan'"
    assert desk.rows(words) == [(12,)]
    run(desk, now=NOW + TTL + 1)

    assert desk.rows(count) == [(0,)]


def test_nothing_expires_by_a_clock_that_leapt_until_another_run_saw_it(desk: Desk):
    """A year ahead in one run ended every undo."""
    kept = desk.rows("SELECT restore FROM evidence")
    known = "SELECT count(*) FROM record WHERE url = ?"
    assert kept[0][0] is not None

    run(desk, now=NOW + 365 * DAY)
    run(desk, now=NOW + 1)  # it was set right

    assert (desk.rows("SELECT restore FROM evidence"), desk.value(known, (PAGE,))) == (kept, 1)
    run(desk, now=NOW + 365 * DAY)
    assert desk.value(known, (PAGE,)) == 1
    run(desk, now=NOW + 366 * DAY)
    assert desk.value(known, (PAGE,)) == 0


@pytest.mark.parametrize(("ttl", "known"), [(TTL, [False, True]), (0, [True, True])])
def test_unreadable_bodies_are_forgotten_when_their_time_is_over(
    desk: Desk, ttl: int, known: list[bool]
):
    """The time counts from the last run in which the body came; 0 keeps it for ever."""
    desk.closing = replace(desk.closing, gone_ttl=ttl)
    bodies = [Unreadable(bytes([n]) * 16, 1, "application/pdf", Fault.PROCESSING, 0, "cut short")
              for n in range(2)]  # fmt: skip
    record.store_unreadable_rows(desk.connection, bodies, NOW)
    record.store_unreadable_rows(desk.connection, bodies[1:], NOW + DAY)

    run(desk, now=NOW + TTL + 1)

    found = [record.find_unreadable_row(desk.connection, *body[:3]) for body in bodies]
    assert [body is not None for body in found] == known

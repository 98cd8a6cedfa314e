"""Walls that a run indexed before the redirects to them showed what they are (ADR 98)."""

import pytest

from smartcrawl.model.documents import Link
from smartcrawl.registry.removal import purge
from smartcrawl.registry.removal.settle import wall_reason_rows
from smartcrawl.rules.model import Fault, Outcome, RemovalRule, Standing, Status, Word
from tests.registry.build import LATER, Desk, closing

HOME, IN = "http://a.example/", "http://a.example/in"
PAGES = [f"http://a.example/{n}" for n in range(3)]
WALLS = [f"{IN}?next=/{n}" for n in range(3)]


def led(desk: Desk, *pairs: tuple[str, str], status: int = 302) -> None:
    """Have pages redirect to walls, in the run that is open."""
    for url, wall in pairs:
        target = desk.page(wall).no
        desk.page(url)
        desk.reach(url, wall)
        links = [Link(wall, "", "redirect", False)]
        fields = {"links": links, "targets": [target], "location": wall}
        desk.write(desk.visit(url, outcome=Outcome.REDIRECT, status=status, **fields))


def state(desk: Desk, url: str) -> tuple[object, ...]:
    statement = "SELECT standing, status, outcome, http_status FROM state WHERE no = ?"
    return desk.rows(statement, (desk.number(url),))[0]


FAILED = (Standing.BARE, Status.ERROR, Word.FAILED, int(Fault.LOGIN))


@pytest.fixture
def desk(database: str) -> Desk:
    desk = Desk()
    desk.open()
    desk.index(HOME, "words of home")
    return desk


def walled(desk: Desk, *, answer: str = "words of the wall") -> None:
    """One run in which the pages lead to walls, which answer 200."""
    led(desk, *zip(PAGES, WALLS, strict=True))
    for wall in WALLS:
        desk.write(desk.visit(wall, answer))
    desk.seal(look=False)


def test_what_new_pages_redirect_to_with_their_addresses_is_no_page(desk: Desk):
    walled(desk)

    assert [state(desk, url) for url in (*PAGES, *WALLS)] == [FAILED] * 6
    assert state(desk, HOME)[0] == Standing.HELD
    assert {(page.url, page.stood) for page in desk.removed} == {(url, False) for url in WALLS}
    assert desk.value("SELECT count(*) FROM chunk") == 1
    assert desk.value("SELECT removed FROM run WHERE no = 1") == 0
    rows = desk.rows("SELECT DISTINCT rule FROM evidence")
    assert rows == [(RemovalRule.WALL,)]


def test_one_page_that_redirects_is_not_enough(desk: Desk):
    led(desk, (PAGES[0], WALLS[0]))
    desk.write(desk.visit(WALLS[0], "words of the wall"))
    desk.seal()

    assert state(desk, WALLS[0])[2] == Word.NEW
    assert desk.removed == []


def test_what_an_earlier_run_indexed_stays(desk: Desk):
    for wall in WALLS:
        desk.index(wall, "words of the wall")
    desk.seal()
    desk.open()
    desk.reach(HOME, *WALLS)
    led(desk, *zip(PAGES, WALLS, strict=True))
    for wall in WALLS[:2]:
        desk.write(desk.visit(wall, outcome=Outcome.SAME))
    desk.write(desk.visit(WALLS[2], "other words"))
    desk.seal(look=False)

    assert {state(desk, wall)[0] for wall in WALLS} == {Standing.HELD}
    assert {state(desk, page)[2] for page in PAGES} == {Word.REDIRECTED}
    assert desk.removed == []


def test_what_was_known_and_never_indexed_goes(desk: Desk):
    for wall in WALLS:
        desk.write(desk.visit(wall, outcome=Outcome.TRANSIENT, status=503))
    desk.seal()
    desk.open()
    desk.reach(HOME)
    walled(desk)

    assert {state(desk, wall) for wall in WALLS} == {FAILED}


def test_a_page_that_had_content_and_returns_is_no_wall(desk: Desk):
    desk.closing = closing(lost_threshold=1)
    for wall in WALLS:
        desk.index(wall, f"words of {wall}")
    others = [f"http://a.example/other{n}" for n in range(20)]
    for url in others:
        desk.index(url, f"words of {url}")
    desk.seal()
    desk.open()
    desk.reach(HOME, *WALLS, *others)
    for wall in WALLS:
        desk.write(desk.visit(wall, outcome=Outcome.NOT_FOUND, status=410))
    desk.seal()
    assert len(desk.removed) == 3
    desk.open()
    walled(desk)

    assert [state(desk, wall)[2] for wall in WALLS] == [Word.NEW] * 3


def test_a_seed_and_a_page_of_the_operator_are_no_walls(desk: Desk):
    led(desk, *zip(PAGES, WALLS, strict=True))
    for wall in WALLS:
        desk.write(desk.visit(wall, "words of the wall"))
    seed = desk.number(WALLS[0])
    desk.connection.execute("INSERT INTO seed (run, no) VALUES (1, ?)", (seed,))
    pin = (desk.number(WALLS[1]), desk.run.source)
    desk.connection.execute("INSERT INTO pin (no, source, at) VALUES (?, ?, 1)", pin)
    desk.seal(look=False)

    standings = [state(desk, wall)[0] for wall in WALLS]
    assert standings == [Standing.HELD, Standing.HELD, Standing.BARE]


def test_a_stored_page_that_leads_to_a_new_wall_is_lost_and_not_removed(desk: Desk):
    old, alias = "http://a.example/old", "http://a.example/alias"
    desk.index(old, "old words")
    desk.index(alias, "words of an alias")
    desk.seal()
    desk.open()
    desk.reach(HOME, alias)
    led(desk, (old, WALLS[0]))
    desk.write(desk.visit(alias, "its words", canonical_no=desk.page(WALLS[0]).no))
    walled(desk)

    assert state(desk, old)[:3] == (Standing.HELD, Status.ERROR, Word.LOST)
    assert state(desk, alias)[0] == Standing.HELD


def test_an_undo_brings_a_wall_back_for_good(desk: Desk):
    walled(desk)
    done = purge.undo_stored_removals(
        desk.connection, desk.indexing, 1, LATER, pin=False, chunked=lambda packed, marked: []
    )
    assert len(done.restored) == 3
    desk.open(now=LATER)
    desk.reach(HOME, *WALLS)
    led(desk, *zip(PAGES, WALLS, strict=True))
    for wall in WALLS:
        desk.write(desk.visit(wall, outcome=Outcome.SAME), now=LATER)
    desk.seal(now=LATER, look=False)

    assert {state(desk, wall)[0] for wall in WALLS} == {Standing.HELD}


def test_a_removed_wall_is_remembered_while_a_page_is_failed_for_it(desk: Desk):
    """Whether the run visits that page or not, as in a due crawl."""

    def remembered() -> list[bool]:
        statement = "SELECT content_hash IS NOT NULL FROM record WHERE no = ?"
        return [bool(desk.value(statement, (desk.number(wall),))) for wall in WALLS]

    def visit(*walls: str) -> None:
        for wall in walls:
            fields = {"outcome": Outcome.UNPROCESSABLE, "status": int(Fault.LOGIN)}
            desk.write(desk.visit(wall, **fields))

    walled(desk)
    assert remembered() == [True] * 3
    desk.open()
    desk.reach(HOME, *PAGES, *WALLS)
    visit(*WALLS)
    desk.write(desk.visit(PAGES[0], "a page now"))
    desk.seal(look=False)
    assert remembered() == [False, True, True]
    desk.open()
    desk.reach(HOME, *PAGES, *WALLS)
    led(desk, (PAGES[1], WALLS[1]))  # alone by now, and the wall is as it was
    visit(WALLS[1])
    desk.seal(look=False)
    assert remembered() == [False, True, True]
    assert state(desk, PAGES[1]) == FAILED


def test_walls_count_with_the_pages_that_met_them_once(desk: Desk):
    """Three pages of 40 are no tenth of a run, whether their walls are known or not."""
    walled(desk)
    desk.open()
    desk.reach(HOME)
    led(desk, *zip(PAGES, WALLS, strict=True))
    for wall in WALLS:
        fields = {"outcome": Outcome.UNPROCESSABLE, "status": int(Fault.LOGIN)}
        desk.write(desk.visit(wall, **fields))

    assert wall_reason_rows(desk.connection, 2, visits=40) == ()
    assert len(wall_reason_rows(desk.connection, 2, visits=30)) == 3

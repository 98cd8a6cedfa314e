"""Pins of renamed files: a page that was pinned stays pinned under its new name."""

import json

import pytest

from smartcrawl.rules.model import Outcome, RemovalRule, Standing, Status, Word
from tests.registry.build import LATER, Desk, closing
from tests.registry.test_registry_listed import candidates, hits, pin, state, undone
from tests.registry.test_registry_renamed import (
    LATEST,
    LISTED,
    NEW,
    OLD,
    A,
    B,
    crawl,
    moved_from,
)

PINS = "SELECT r.url, p.at, p.priority FROM pin p JOIN record r USING (no) ORDER BY r.no"
SECOND = list(NEW)[1]


@pytest.fixture
def folder(database: str) -> Desk:
    """Twelve files after a complete run; the first one is pinned, with a priority of its own."""
    desk = Desk()
    desk.closing = LISTED
    crawl(desk, OLD)
    pin(desk, A)
    desk.connection.execute("UPDATE pin SET at = 7, priority = 2")
    return desk


def rename_all(
    desk: Desk, *reasons: str, status: int = 404, outcome: Outcome = Outcome.NOT_FOUND
) -> None:
    """Rename the folder: the pin has the old name read, too, which has this answer."""
    desk.open(now=LATEST)
    desk.reach(A)
    desk.write(desk.visit(A, outcome=outcome, status=status), now=LATEST)
    for url, text in NEW.items():
        desk.write(desk.visit(url, text, title=text, body=text), now=LATEST)
    desk.verify(now=LATEST)
    desk.seal(*reasons, now=LATEST, look=False)


@pytest.mark.sqlite
def test_a_pinned_file_that_was_not_asked_takes_its_pin_along(folder: Desk):
    crawl(folder, NEW, now=LATEST)

    assert folder.rows(PINS) == [(B, 7, 2)]
    assert folder.removed[0].url == A


def test_a_pinned_file_that_was_read_and_missing_moves_too(folder: Desk):
    rename_all(folder)

    assert {page.url: page.word for page in folder.removed} == dict.fromkeys(OLD, "redirected")
    assert moved_from(folder)[B] == A
    assert folder.rows(PINS) == [(B, 7, 2)]
    assert candidates(folder) == {}
    assert hits(folder) == set(NEW)
    assert state(folder, A) == (Status.OUT_OF_SCOPE, Standing.BARE, Word.REDIRECTED)
    statement = "SELECT rule, detail FROM evidence WHERE record = ?"
    [(rule, detail)] = folder.rows(statement, (folder.number(A),))
    assert rule == RemovalRule.MOVED
    found = json.loads(detail)
    assert (found["status"], found["since"], found["target"]) == (404, LATEST, B)


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("answer", "reasons"),
    [((404, Outcome.NOT_FOUND), ("listing: somewhere",)), ((403, Outcome.HTTP_ERROR), ())],
    ids=["incomplete", "refused"],
)
def test_a_pinned_file_stays_where_nothing_shows_that_it_is_gone(
    folder: Desk, answer: tuple[int, Outcome], reasons: tuple[str, ...]
):
    rename_all(folder, *reasons, status=answer[0], outcome=answer[1])

    assert A not in {page.url for page in folder.removed}
    assert folder.rows(PINS) == [(A, 7, 2)]
    assert A in hits(folder)


@pytest.mark.sqlite
def test_on_the_web_no_pin_follows_equal_bytes(folder: Desk):
    folder.closing = Desk().closing

    rename_all(folder)

    assert moved_from(folder) == {}
    assert folder.rows(PINS) == [(A, 7, 2)]


@pytest.mark.sqlite
@pytest.mark.parametrize("linked", [A, B])
def test_a_page_to_which_links_lead_is_no_renamed_file(folder: Desk, linked: str):
    """Such as one of the wiki of a repository, which no listing has."""
    folder.closing = closing(is_listed=True, is_linked=linked.__eq__)

    rename_all(folder)

    assert (A in moved_from(folder).values(), B in moved_from(folder)) == (False, False)
    assert len(moved_from(folder)) == 11
    assert folder.rows(PINS) == [(A, 7, 2)]


@pytest.mark.sqlite
def test_a_pinned_file_without_a_new_name_is_lost_as_before(folder: Desk):
    folder.open(now=LATEST)
    folder.reach(A)
    folder.write(folder.visit(A, outcome=Outcome.NOT_FOUND, status=404), now=LATEST)
    for url in list(OLD)[1:]:
        folder.reach(url)
        folder.write(touched=[folder.number(url)], now=LATEST)
    folder.verify(now=LATEST)
    folder.seal(now=LATEST, look=False)

    assert folder.removed == []
    assert state(folder, A)[2] is Word.LOST
    assert folder.rows(PINS) == [(A, 7, 2)]


@pytest.mark.parametrize("is_read", [False, True])
def test_an_undo_gives_the_pin_back(folder: Desk, is_read: bool):
    if is_read:
        rename_all(folder)
    else:
        crawl(folder, NEW, now=LATEST)

    assert sorted(undone(folder, 2)) == sorted(OLD)

    assert folder.rows(PINS) == [(A, 7, 2)]


@pytest.mark.sqlite
def test_an_undo_takes_no_pin_that_was_made_later(folder: Desk):
    crawl(folder, NEW, now=LATEST)
    pin(folder, SECOND)

    undone(folder, 2)

    assert folder.rows(PINS) == [(A, 7, 2), (SECOND, 0, 5)]


@pytest.mark.sqlite
def test_an_undo_after_forget_makes_no_pin(folder: Desk):
    crawl(folder, NEW, now=LATEST)
    folder.connection.execute("DELETE FROM pin")

    undone(folder, 2)

    assert folder.rows(PINS) == []


def test_two_pins_stay_two(folder: Desk):
    """A new name may have been pinned before its file came."""
    folder.open(now=LATER)
    folder.add(B, now=LATER)
    pin(folder, B)
    for url in OLD:
        folder.reach(url)
        folder.write(touched=[folder.number(url)], now=LATER)
    folder.write(folder.visit(B, outcome=Outcome.NOT_FOUND, status=404), now=LATER)
    folder.verify(now=LATER)
    folder.seal(now=LATER, look=False)

    crawl(folder, NEW, now=LATEST)

    assert moved_from(folder)[B] == A
    assert folder.rows(PINS) == [(A, 7, 2), (B, 0, 5)]
    undone(folder, 3)
    assert folder.rows(PINS) == [(A, 7, 2), (B, 0, 5)]

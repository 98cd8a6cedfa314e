"""What the guard counts: pages with content, and all records (ADR 13)."""

import pytest

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal import candidates, purge
from smartcrawl.rules.absence import Loss, Policy
from smartcrawl.rules.model import Outcome, RemovalRule, Word
from tests.registry.build import LATER, Desk, closing

HOME, LOGIN = "http://a.example/", "http://a.example/login"
PAGES = [f"http://a.example/{n}" for n in range(7)]


def answer(desk: Desk, status: int, *urls: str) -> None:
    """Have known pages answer, in the run that is open."""
    desk.reach(*urls)
    outcome = Outcome.SAME if status == 200 else Outcome.NOT_FOUND
    for url in urls:
        visit = desk.visit(url, outcome=outcome, status=status)
        visit.parsed.document = None
        desk.write(visit)


def links_only(desk: Desk, *urls: str) -> None:
    """Have pages answer that they must not be indexed."""
    for url in urls:
        desk.write(desk.visit(url, outcome=Outcome.NOT_ACCEPTABLE, error="noindex"))


@pytest.fixture
def site(database: str) -> Desk:
    """Eight pages with content and one that keeps its links only, after a complete run."""
    desk = Desk()
    desk.closing = closing(lost_threshold=1)
    desk.open()
    for url in (HOME, *PAGES):
        desk.index(url, f"words of {url}")
    links_only(desk, LOGIN)
    desk.seal()
    return desk


@pytest.mark.covers("R4-12")
def test_a_page_without_content_does_not_hide_the_loss_of_all_content(site: Desk):
    site.open()
    site.reach(LOGIN)
    links_only(site, LOGIN)
    answer(site, 404, HOME, *PAGES)

    result = site.seal()

    assert site.removed == []
    assert result.withheld == 8
    assert {row[0] for row in site.rows("SELECT rule FROM candidate")} == {RemovalRule.GONE}


def test_a_few_pages_of_a_source_still_go(site: Desk):
    site.open()
    site.reach(LOGIN)
    links_only(site, LOGIN)
    answer(site, 200, HOME, *PAGES[3:])
    answer(site, 404, *PAGES[:3])

    result = site.seal()

    assert {page.url for page in site.removed} == set(PAGES[:3])
    assert {page.word for page in site.removed} == {Word.GONE.word}
    assert result.withheld == 0


def test_too_many_records_without_content_are_withheld_as_well(database: str):
    desk = Desk()
    desk.closing = closing(lost_threshold=1)
    desk.open()
    links = [f"http://a.example/links/{n}" for n in range(11)]
    desk.index(HOME, "home words")
    links_only(desk, *links)
    desk.seal()
    desk.open()
    answer(desk, 200, HOME)
    answer(desk, 404, *links)

    result = desk.seal()

    assert (desk.removed, result.withheld) == ([], 11)


def test_commands_count_pages_with_content_and_all_records(site: Desk):
    site.open()
    site.reach(LOGIN)
    links_only(site, LOGIN)
    answer(site, 404, HOME, *PAGES)
    site.seal()

    [number] = {number for (number,) in site.rows("SELECT no FROM source")}
    lost = purge.lost_page_rows(site.connection, Policy())
    assert purge.stored_removal_losses(site.connection, number, lost) == (Loss(8, 8), Loss(8, 9))
    everything = purge.forgettable_page_rows(site.connection, "docs")
    assert purge.stored_removal_losses(site.connection, number, everything) == (
        Loss(8, 8),
        Loss(9, 9),
    )
    site.open()
    site.seal()
    orphans = [t for t in purge.orphaned_page_rows(site.connection) if t.url in (LOGIN, PAGES[0])]
    assert purge.stored_removal_losses(site.connection, number, orphans) == (Loss(1, 8), Loss(2, 9))


@pytest.mark.parametrize("undo_ttl", [2_592_000, -1], ids=["undoable", "expired"])
def test_what_due_crawls_removed_since_the_last_complete_run_counts(site: Desk, undo_ttl: int):
    """A part that is small enough by itself is withheld beside the part before it."""
    site.closing = closing(lost_threshold=1, min_count=3, undo_ttl=undo_ttl)
    removed = []
    for part in (PAGES[:3], PAGES[3:4]):
        site.open(now=LATER)
        site.connection.execute("UPDATE run SET due = TRUE WHERE state = 0")
        answer(site, 404, *part)
        site.seal("not_due: 9", now=LATER)
        removed += [page.url for page in site.removed]

    assert removed == PAGES[:3]


def test_what_came_since_does_not_release_what_was_withheld(site: Desk):
    """Not even beside a removal that is small enough by itself; who answers again is free."""
    new = [f"http://a.example/new/{n}" for n in range(20)]
    for _ in range(3):
        site.open()
        site.reach(LOGIN)
        links_only(site, LOGIN)
        answer(site, 404, *PAGES[:4])
        answer(site, 200, HOME, *PAGES[4:])
        for url in new:
            site.index(url, f"words of {url}")

        assert site.seal().withheld == 4
        assert site.removed == []

    site.open()
    site.reach(LOGIN)
    links_only(site, LOGIN)
    answer(site, 404, *PAGES[:3])
    answer(site, 200, HOME, *PAGES[3:], *new)

    assert site.seal().withheld == 0
    assert {page.url for page in site.removed} == set(PAGES[:3])


def test_what_came_since_counts_by_itself_as_well(site: Desk):
    """The pages from before may lose one of them, the source not all of those that came."""
    new = [f"http://a.example/new/{n}" for n in range(20)]
    site.closing = closing(lost_threshold=1, max_ratio=0.0, min_count=0)
    site.open()
    answer(site, 404, PAGES[0])
    answer(site, 200, HOME, *PAGES[1:])
    for url in new:
        site.index(url, f"words of {url}")
    assert site.seal().withheld == 1
    site.closing = closing(lost_threshold=1)
    site.open()
    answer(site, 404, PAGES[0], *new)
    answer(site, 200, HOME, *PAGES[1:])

    assert site.seal().withheld == 21
    assert site.removed == []


def test_orphans_that_keep_links_only_do_not_count_as_pages_that_answer(site: Desk):
    menus = [f"http://a.example/menu/{n}" for n in range(8)]
    site.open()
    answer(site, 200, HOME, *PAGES)
    links_only(site, *menus)
    site.seal()
    site.closing = closing(lost_threshold=1, orphan_threshold=1)
    site.open()
    answer(site, 200, HOME, *PAGES)

    assert site.seal().withheld == 0
    assert {page.url for page in site.removed} == {LOGIN, *menus}


def test_while_removals_stay_withheld_a_run_counts_no_more_than_two_sets_of_addresses(
    site: Desk, monkeypatch: pytest.MonkeyPatch
):
    """Not one for each run that reached one of the orphans last: they are more with each run."""
    counted: list[int] = []
    found = candidates.lowest_stored_number_met

    def lowest(connection: Connection, source: int, run: int) -> int:
        counted.append(run)
        return found(connection, source, run)

    monkeypatch.setattr(candidates, "lowest_stored_number_met", lowest)
    site.closing = closing(lost_threshold=1, orphan_threshold=1)
    for number in range(5):
        site.open()
        answer(site, 200, HOME)
        for n in range(20 if number == 0 else 1):
            site.index(f"http://a.example/new/{number}/{n}", f"words of {number}, {n}")
        counted.clear()
        result = site.seal()

    assert result.withheld > len(PAGES)
    assert len(site.rows("SELECT DISTINCT seen_run FROM state")) == 6
    assert len(counted) <= 1


def test_the_first_address_since_a_run_is_one_of_its_source(site: Desk):
    """Other sources find addresses meanwhile, and some runs find none."""
    found = [f"http://a.example/new/{n}" for n in range(2)]
    for urls in (found, ()):
        site.open()
        answer(site, 200, HOME, *PAGES)
        for url in urls:
            site.index(url, f"words of {url}")
        site.seal()
    one, other = map(site.number, found)
    site.connection.execute("UPDATE record SET source = 2 WHERE no = ?", (other,))

    lowest = [candidates.lowest_stored_number_met(site.connection, 1, run) for run in range(5)]
    assert lowest == [1, 1, one, candidates.EVERY, candidates.EVERY]
    assert candidates.lowest_stored_number_met(site.connection, 2, 2) == other


@pytest.mark.sqlite
def test_the_first_address_since_a_run_is_looked_for_among_the_last_ones(site: Desk):
    """By the index of the source, every record of the source would be read, once for each run."""
    plan = site.connection.execute(
        f"EXPLAIN QUERY PLAN {candidates._MET_SINCE}", {"source": 1, "since": 1}
    ).fetchall()

    assert "record_id" not in str(plan)

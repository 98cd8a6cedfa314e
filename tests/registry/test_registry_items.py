"""Single addresses between visits: registered, ordered, locked."""

import pytest

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.pages import Page
from smartcrawl.model.urls import DEFAULT_TRACKERS as TRACKERS
from smartcrawl.registry import items
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.pages import PageReader
from smartcrawl.rules.model import Outcome, Status
from tests.registry.build import LATER, NOW, Desk

URL = "http://a.example/page"


@pytest.fixture
def desk():
    desk = Desk()
    desk.open()
    desk.write(desk.visit(URL, text="a text"), desk.visit("http://a.example/two", text="another"))
    desk.seal()
    yield desk
    desk.close()


def item(desk: Desk, url: str = URL) -> items.ItemRow:
    (found,) = items.item_rows_by_url(desk.connection, url, TRACKERS)
    return found


def order(desk: Desk, *urls: str) -> None:
    with transaction(desk.connection):
        items.store_order_rows(desk.connection, [item(desk, url).no for url in urls or (URL,)], NOW)


def page(desk: Desk) -> Page:
    (found,) = PageReader(desk.connection, 1).pages([item(desk).no], 0)
    return found


@pytest.mark.covers("R0-29", "R0-55", "R0-56", "R0-89")
def test_an_order_sets_the_flag_and_raises_the_generation(desk: Desk):
    assert (item(desk).requested, item(desk).generation, item(desk).forced) == (False, 0, False)

    order(desk)
    assert (item(desk).requested, item(desk).generation, item(desk).forced) == (True, 1, True)
    assert item(desk).next_visit == NOW
    order(desk)
    assert (item(desk).requested, item(desk).generation) == (True, 2)
    assert (page(desk).state.ordered, page(desk).state.generation) == (True, 2)
    assert not item(desk, "http://a.example/two").forced
    shown = 'SELECT "reindexRequested", "reindexGeneration" FROM "IngestItems" ORDER BY 1'
    assert desk.rows(shown) == [(0, 0), (1, 2)]


@pytest.mark.covers("R0-51", "R0-52", "R0-93", "M-13")
@pytest.mark.parametrize("outcome", [Outcome.CHANGED, Outcome.SAME, Outcome.NOT_FOUND])
def test_an_order_is_used_up_by_an_answer(desk: Desk, outcome):
    order(desk)
    desk.open()
    desk.write(desk.visit(URL, "a text", outcome=outcome))

    assert (item(desk).requested, item(desk).processed, item(desk).forced) == (False, 1, False)
    assert item(desk).generation == 1


@pytest.mark.covers("R0-87")
@pytest.mark.parametrize(
    ("outcome", "then"),
    [(Outcome.CHANGED, Status.INDEXED), (Outcome.NOT_FOUND, Status.ERROR)],
)
def test_the_visit_after_an_order_is_in_the_history(desk: Desk, outcome: Outcome, then: Status):
    desk.open()
    desk.write(desk.visit(URL, outcome=Outcome.NOT_FOUND, status=404))
    desk.seal()
    order(desk)
    assert item(desk).status is Status.PENDING
    new = "http://a.example/new"
    run = desk.open(now=LATER)
    desk.write(desk.visit(URL, "new text", outcome=outcome), desk.visit(new, "a"), now=LATER)

    events = "SELECT run, at, status FROM event WHERE record = ? ORDER BY no"
    assert desk.rows(events, (item(desk).no,)) == [
        (run.no - 1, NOW, Status.ERROR),
        (run.no, LATER, then),
    ]
    assert desk.rows(events, (item(desk, new).no,)) == [], "its first visit changes nothing"


@pytest.mark.covers("R0-51", "M-13")
@pytest.mark.parametrize("outcome", [Outcome.UNREACHABLE, Outcome.TRANSIENT, Outcome.UNPROCESSABLE])
def test_an_order_outlives_a_visit_that_learnt_nothing(desk: Desk, outcome):
    order(desk)
    desk.open()
    desk.write(desk.visit(URL, outcome=outcome, status=None))

    assert item(desk).forced


@pytest.mark.covers("R0-52", "M-13")
def test_an_order_that_comes_while_the_page_is_fetched_is_honoured_later(desk: Desk):
    order(desk)
    desk.open()
    visit = desk.visit(URL, "a text", outcome=Outcome.SAME)
    assert visit.page.state.generation == 1
    order(desk)  # the answer to the first is on its way
    desk.write(visit)

    found = item(desk)
    assert (found.requested, found.generation, found.processed) == (True, 2, 1)
    assert page(desk).state.ordered


@pytest.mark.covers("R0-52", "R0-56")
@pytest.mark.parametrize(
    ("requested", "generation", "processed", "forced"),
    [(False, 2, 1, True), (True, 1, 1, True), (False, 1, 1, False), (False, 1, 2, False)],
)
def test_a_page_is_forced_by_its_flag_or_by_a_later_generation(
    desk: Desk, requested: bool, generation: int, processed: int, forced: bool
):
    """Each alone is enough, for the order as for the visit."""
    order(desk)
    change = "UPDATE item SET requested = ?, generation = ?, processed = ? WHERE no = ?"
    desk.connection.execute(change, (requested, generation, processed, item(desk).no))

    assert item(desk).forced is forced
    assert page(desk).state.ordered is forced


@pytest.mark.covers("R0-04", "R0-57", "R0-67", "R0-87", "R0-88")
def test_registering_makes_one_record_and_keeps_what_was_indexed(desk: Desk):
    url = "http://a.example/new/?utm_source=x"
    with transaction(desk.connection):
        made = items.register_address_row(desk.connection, "docs", url, TRACKERS, LATER)
        again = items.register_address_row(
            desk.connection, "docs", "http://a.example/new", TRACKERS, LATER
        )
    assert made.no == again.no
    assert (made.status, made.next_visit, made.pinned, made.forced) == (
        Status.PENDING, LATER, True, False,
    )  # fmt: skip
    rows = desk.rows(
        'SELECT "status", "firstSeen", "nextCrawlAt", "normalizedSource"'
        ' FROM "IngestItems" WHERE "normalizedSource" LIKE \'%/new\''
    )
    assert rows == [
        ("Pending", "2025-06-15T16:06:40Z", "2025-06-15T16:06:40Z", "http://a.example/new")
    ]

    with transaction(desk.connection):
        known = items.register_address_row(
            desk.connection, "docs", URL, TRACKERS, LATER, force=True
        )
    assert (known.status, known.pinned, known.forced, known.generation) == (
        Status.INDEXED, True, True, 1,
    )  # fmt: skip
    assert desk.rows("SELECT first_seen FROM record WHERE no = 1") == [(NOW,)]
    with pytest.raises(RegistryError, match="never crawled"), transaction(desk.connection):
        items.register_address_row(desk.connection, "nobody", URL, TRACKERS, LATER)


@pytest.mark.long(but=36)
@pytest.mark.covers("R0-87", "R0-88")
@pytest.mark.parametrize("by", ["register", "order"])
@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("due", [None, NOW - 86_400, NOW + 86_400])
def test_an_order_keeps_what_is_indexed_or_crawled_and_all_else_waits(
    desk: Desk, status: Status, by: str, due: int | None
):
    no = item(desk).no
    change = "UPDATE state SET status = ?, next_visit = ? WHERE no = ?"
    desk.connection.execute(change, (int(status), due, no))

    if by == "register":
        with transaction(desk.connection):
            items.register_address_row(desk.connection, "docs", URL, TRACKERS, NOW)
    else:
        order(desk)

    kept = status in (Status.INDEXED, Status.CRAWLED)
    assert item(desk).status is (status if kept else Status.PENDING)
    assert item(desk, "http://a.example/two").status is Status.INDEXED
    assert item(desk).next_visit == NOW


@pytest.mark.covers("R0-87")
def test_registering_what_failed_lets_it_wait_again(desk: Desk):
    desk.open()
    desk.write(desk.visit("http://a.example/gone", outcome=Outcome.NOT_FOUND, status=404))
    with transaction(desk.connection):
        found = items.register_address_row(
            desk.connection, "docs", "http://a.example/gone", TRACKERS, LATER
        )

    assert found.status is Status.PENDING


@pytest.mark.covers("R0-11")
def test_every_write_gives_the_row_another_etag(desk: Desk):
    etags = [item(desk).etag]
    order(desk)
    etags.append(item(desk).etag)
    desk.open()
    desk.write(desk.visit(URL, "a text", outcome=Outcome.SAME))
    etags.append(item(desk).etag)
    order(desk)
    etags.append(item(desk).etag)

    assert len(set(etags)) == len(etags)
    assert desk.rows(f'SELECT "ETag" FROM "IngestItems" WHERE "normalizedSource" = \'{URL}\'') == [
        (etags[-1],)
    ]


@pytest.mark.covers("R0-54", "R0-24")
def test_items_are_found_by_id_and_address_in_every_source(desk: Desk):
    found = item(desk)

    assert items.item_rows_by_id(desk.connection, found.id) == [found]
    assert items.item_rows_by_url(desk.connection, "HTTP://A.example:80/page/#x", TRACKERS) == [
        found
    ]
    assert items.item_rows_by_id(desk.connection, "url_" + "a" * 26) == []
    with pytest.raises(RegistryError, match="is not an id"):
        items.item_rows_by_id(desk.connection, "url_1")


@pytest.mark.covers("R0-53", "R0-68")
def test_a_whole_source_is_ordered(desk: Desk):
    held = items.stored_page_rows(desk.connection, ["docs"])
    assert [i.url for i in held] == [URL, "http://a.example/two"]
    assert items.stored_page_rows(desk.connection, ["other"]) == []
    assert [i.url for i in items.stored_page_rows(desk.connection, (), lambda u: "two" in u)] == [
        "http://a.example/two"
    ]
    order(desk, *(i.url for i in held))
    assert all(i.forced for i in items.stored_page_rows(desk.connection))


def test_a_notice_never_puts_a_visit_off(desk: Desk):
    with transaction(desk.connection):
        assert items.make_record_rows_due(desk.connection, item(desk).key, LATER) == [("docs", URL)]
        assert items.make_record_rows_due(desk.connection, item(desk).key, 2 * LATER) == [
            ("docs", URL)
        ]
        assert items.make_record_rows_due(desk.connection, item(desk).key, 0, source="x") == []

    assert item(desk).next_visit == LATER


def test_an_order_is_all_that_is_stored_of_an_item(desk: Desk):
    """Number, requested, generation, processed, revision; no lock (ADR 41)."""
    order(desk)

    assert desk.rows("SELECT * FROM item") == [(1, 1, 1, 0, 1)]

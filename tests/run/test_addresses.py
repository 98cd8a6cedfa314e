"""From a link to its number: one spelling, one number, and nothing out of scope."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from smartcrawl.model.batches import Address
from smartcrawl.model.urls import Trackers, normalize_url, url_digest
from smartcrawl.registry.pages import PageReader
from smartcrawl.run import offers
from smartcrawl.run.frontier import Frontier
from smartcrawl.run.offers import AddressBook, Found, Offers
from smartcrawl.sources.scope import Scope, SiteScope
from tests.registry.build import Desk

HOST = "http://a.example"
SCOPE = SiteScope(hosts=frozenset({"a.example"}))
WIDE = SiteScope(hosts=frozenset({"a.example", "b.example"}))


class Book:
    """An address book over a registry, as a run keeps it."""

    def __init__(self, file: Path | None = None) -> None:
        self.desk = Desk(file)
        self.run = self.desk.open()
        self.new: list[Found] = []
        self.looks = 0
        book = self

        class Reader(PageReader):
            """The real reader; it counts look-ups."""

            def addresses(self, ids):
                book.looks += bool(ids)
                return super().addresses(ids)

        self.reader = Reader(self.desk.connection, self.run.source)
        self.numbers_given = 0
        self.book = AddressBook(self.reader, self.new_number, Trackers())

    def new_number(self) -> int:
        self.numbers_given += 1
        return self.numbers_given

    def register(self, found: Found) -> None:
        self.new.append(found)
        self.book.remember(Address(*found, 3, None))

    def numbers(self, *urls: str, scope: Scope = SCOPE) -> list[int]:
        return self.book.numbers(urls, scope, self.register)

    def commit(self) -> None:
        """Write the new addresses, as the writer does."""
        written = [Address(*found, 3, None) for found in self.new]
        self.desk.write(addresses=written)
        self.book.committed(written)


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.mark.covers("R0-02", "R0-04", "R4-30")
def test_a_new_address_is_registered_once_and_has_its_number_ever_after(book: Book):
    assert book.numbers(f"{HOST}/a", f"{HOST}/b") == [1, 2]
    assert book.numbers(f"{HOST}/b", f"{HOST}/c", f"{HOST}/a") == [2, 3, 1]

    assert [found.url for found in book.new] == [f"{HOST}/a", f"{HOST}/b", f"{HOST}/c"]
    assert book.new[0] == Found(1, url_digest(f"{HOST}/a"), f"{HOST}/a", None, "a.example")


def test_numbers_are_distinct_and_in_the_order_of_the_links(book: Book):
    book.numbers(f"{HOST}/z")

    assert book.numbers(f"{HOST}/b", f"{HOST}/z", f"{HOST}/b", f"{HOST}/a") == [2, 1, 3]


@pytest.mark.covers("R0-12", "R0-14", "R0-15", "R0-16")
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_spellings_of_one_address_have_one_number(book: Book, at_once: bool, committed: bool):
    spellings = [f"{HOST}/dir/?b=2&a=1", f"{HOST}/dir?a=1&b=2", f"{HOST}/dir?a=1&b=2&utm_id=7"]
    if at_once:
        assert book.numbers(*spellings) == [1]
    for spelling in spellings:
        assert book.numbers(spelling) == [1]
        if committed and book.new:
            book.commit()
            book.new.clear()
            book.book.forget()

    assert book.numbers_given == 1
    assert book.desk.rows("SELECT count(*) FROM record") == [(int(committed),)]


def test_the_first_spelling_is_asked_and_the_identity_told_where_it_differs(book: Book):
    book.numbers(f"{HOST}/dir/?utm_source=x", f"{HOST}/plain")

    assert [(found.url, found.identity) for found in book.new] == [
        (f"{HOST}/dir/?utm_source=x", f"{HOST}/dir"),
        (f"{HOST}/plain", None),
    ]


@pytest.mark.covers("M-28", "R4-17")
def test_what_is_out_of_scope_is_never_registered(book: Book):
    outside = ("http://b.example/", f"{HOST}:8080/", f"{HOST}/x.zip", "mailto:me@a.example")

    for _ in range(2):  # the second time from the cache
        assert book.numbers(*outside, f"{HOST}/a") == [1]

    assert [found.url for found in book.new] == [f"{HOST}/a"]
    assert book.numbers_given == 1


def test_when_the_scope_moves_addresses_are_judged_anew(book: Book):
    assert book.numbers(f"{HOST}/a", "http://b.example/") == [1]

    book.book.forget()

    assert book.numbers(f"{HOST}/a", "http://b.example/", scope=WIDE) == [1, 2]
    assert book.numbers(f"{HOST}/a", scope=SiteScope(hosts=frozenset({"b.example"}))) == [1]
    book.book.forget()
    assert book.numbers(f"{HOST}/a", scope=SiteScope(hosts=frozenset({"b.example"}))) == []


def test_forgetting_the_scope_does_not_forget_what_is_not_committed(book: Book):
    book.numbers(f"{HOST}/a")

    book.book.forget()

    assert book.numbers(f"{HOST}/a") == [1]
    assert len(book.new) == 1


@pytest.mark.covers("G-22")
def test_known_addresses_are_one_look_up_a_page_and_none_the_second_time(book: Book):
    urls = [f"{HOST}/{n}" for n in range(60)]

    book.numbers(*urls)
    assert book.looks == 1
    book.numbers(*urls, "http://outside.example/")

    assert book.looks == 1


def test_an_address_is_served_from_memory_until_it_is_committed(book: Book):
    (number,) = book.numbers(f"{HOST}/a")
    assert book.book.is_new(number)
    (page,) = book.book.pages([number], 0)
    assert (page.no, page.url, page.host, page.depth) == (1, f"{HOST}/a", "a.example", 3)
    assert book.desk.rows("SELECT count(*) FROM record") == [(0,)]

    book.commit()

    assert not book.book.is_new(number)
    assert book.book.pages([number], 0) == [
        replace(page, record=page.record._replace(first_run=1))
    ]  # known from now on
    book.desk.connection.execute("UPDATE record SET etag = '\"1\"'")
    assert book.book.pages([number], 0)[0].record.etag == '"1"', "it comes from the registry now"
    book.book.forget()
    assert book.numbers(f"{HOST}/a/") == [number]
    assert len(book.new) == 1


def test_pages_keep_their_order_whether_they_are_committed_or_not(book: Book):
    first = book.numbers(f"{HOST}/a", f"{HOST}/b")
    book.commit()
    book.new.clear()
    second = book.numbers(f"{HOST}/c", f"{HOST}/d")
    order = [second[1], first[0], second[0], first[1]]

    pages = book.book.pages([*order, 99], 0)

    assert [page.no for page in pages] == order


def test_a_registry_of_an_earlier_process_is_asked(tmp_path: Path):
    file = tmp_path / "registry.db"
    before = Book(file)
    before.numbers(f"{HOST}/a")
    before.commit()
    before.desk.close()

    now = Book(file)
    now.numbers_given = 1

    assert now.numbers(f"{HOST}/b", f"{HOST}/a") == [2, 1]
    assert [found.url for found in now.new] == [f"{HOST}/b"]
    now.desk.close()


def test_what_is_remembered_of_links_is_bounded(book: Book, monkeypatch: pytest.MonkeyPatch):
    """Two generations: what was not met in the last one is looked up again."""
    monkeypatch.setattr(offers, "_CACHE", 50)
    for start in range(0, 1_000, 20):
        urls = [f"{HOST}/{n}" for n in range(start, start + 20)]
        numbers = book.numbers(*urls, f"{HOST}/home")
        book.commit()
        book.new.clear()

        assert len(book.book._young) + len(book.book._old) <= 2 * (50 + 21)
        assert book.numbers(*urls, f"{HOST}/home") == numbers
    looks = book.looks

    assert book.numbers(f"{HOST}/home") == [21]
    assert book.looks == looks, "what every page links to stays remembered"
    assert book.numbers(f"{HOST}/0") == [1]
    assert book.looks == looks + 1
    assert book.numbers_given == 1_001


def test_the_generation_before_is_still_remembered(book: Book, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offers, "_CACHE", 50)
    urls = [f"{HOST}/{n}" for n in range(51)]
    book.numbers(*urls, "http://b.example/")  # more than one generation holds
    book.commit()
    looks = book.looks

    assert book.numbers(urls[7], "http://b.example/") == [8]
    assert book.looks == looks

    book.book.forget()
    assert book.numbers(urls[9], "http://b.example/", scope=WIDE) == [10, 52]
    assert book.looks == looks + 1


def test_an_address_that_is_no_url_is_out_of_scope(book: Book):
    assert book.numbers("", "http://", "http://[", "\ud800", "//a.example/x") == []
    assert normalize_url(f"{HOST}/a") == f"{HOST}/a"


def test_what_is_given_with_a_source_is_not_in_the_cache_of_links():
    """Links of a wiki lead to no file, though a file may be given."""
    book = Book()
    batches = SimpleNamespace(batch=SimpleNamespace(addresses=[], reached={}))
    left = []
    budget = SimpleNamespace(
        refuse=lambda url, host, known: False,
        leave_unread=lambda kind, url: left.append((kind, url)),
        hit=False,
    )
    offers = Offers(Frontier(lambda numbers: []), book.book, batches, budget)

    assert len(offers.numbers(["http://b.example/"], WIDE, 0, given=True)) == 1
    assert offers.numbers(["http://b.example/"], SCOPE, 0) == []
    assert [address.url for address in batches.batch.addresses] == ["http://b.example/"]
    assert left == []

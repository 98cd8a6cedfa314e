"""The index in PostgreSQL finds and shows what FTS5 finds and shows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from threading import Thread

import pytest

from smartcrawl.index.embedded.state import index_state
from smartcrawl.model.batches import Batch
from smartcrawl.model.pages import Visit
from smartcrawl.registry.connection import WRITING, transaction
from smartcrawl.registry.database.postgres import PostgresDatabase
from tests.index.asking import search
from tests.registry.build import NOW, Desk, index_is_sound
from tests.registry.spare import Spare

URL = "http://a.example/"


@pytest.fixture
def desk(spare_registries: Spare, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A source in PostgreSQL, with a run that is open."""
    url = spare_registries.take()
    monkeypatch.setattr(Desk, "connected", staticmethod(lambda _: PostgresDatabase(url).open()))
    desk = Desk()
    desk.open()
    yield desk
    desk.close()
    spare_registries.put_back(url)


def shown(desk: Desk, query: str) -> list[str]:
    """The snippets of what a query finds."""
    return [hit.snippet for hit in search(desk.connection, query)]


@pytest.mark.parametrize(
    ("text", "query", "snippet"),
    [
        ("see /usr/share/doc/lamp.html there", "doc", "see /usr/share/[doc]/lamp.html there"),
        ("ask www.example.com/lamps today", "lamp", "ask www.example.com/[lamps] today"),
        ("write to help@lamp.example soon", "lamp", "write to help@[lamp].example soon"),
        ("a <b>bold lamp</b> & more", "lamp", "a <b>bold [lamp]</b> & more"),
        ("the lamp_name of it", "name", "the lamp_[name] of it"),
        ("version 1.25 of it", "25", "version 1.[25] of it"),
        ("a low-voltage lamp", "voltage", "a low-[voltage] lamp"),
        ("at 10:42 sharp", "42", "at 10:[42] sharp"),
        ("a café", "cafe", "a [café]"),
    ],
)
def test_postgres_words_end_where_letters_and_digits_end(
    desk: Desk, text: str, query: str, snippet: str
):
    desk.index(URL, text)

    assert shown(desk, query) == [snippet]
    assert index_is_sound(desk.connection)


@pytest.mark.parametrize("query", ['"share doc"', "share/doc", "/usr/share/doc/"])
def test_postgres_words_that_are_joined_are_a_phrase(desk: Desk, query: str):
    desk.index(URL + "a", "see /usr/share/doc there")
    desk.index(URL + "b", "doc is no share of it, usr neither")

    assert shown(desk, query)[0].startswith("see /")
    assert len(shown(desk, query)) == 1


def test_postgres_shows_headings_as_they_are(desk: Desk):
    visit = desk.visit(URL, "text")
    visit.parsed.chunks = [
        visit.parsed.chunks[0]._replace(headings=("A/B <lamps>", "C"), text="text")
    ]
    desk.write(visit)

    assert [hit.headings for hit in search(desk.connection, "lamp")] == ["A/B <[lamps]> > C"]


def test_postgres_reads_as_before_after_it_looked_for_the_words_that_were_meant(desk: Desk):
    desk.index(URL, "a lantern")

    assert shown(desk, "lantren") == ["a [lantern]"]
    assert desk.value("SHOW enable_seqscan") == "on"


def test_postgres_words_are_in_the_index_once_they_are_written(desk: Desk):
    """Words that wait in the list of new ones make each look-up of a word slower."""
    desk.index(URL, "a lantern")

    assert desk.value("SELECT gin_clean_pending_list('chunk_words')") == 0


# What is written before others are waited for


def is_whole(desk: Desk) -> bool:
    """Whether all that is searched is of a content, with the words of its text."""
    strays = "SELECT count(*) FROM chunk WHERE content NOT IN (SELECT no FROM content)"
    return desk.value(strays) == 0 and index_is_sound(desk.connection)


@contextmanager
def writing_beside(desk: Desk, visit: Visit) -> Iterator[int]:
    """Write a visit over a connection of its own while a transaction of the run is open.

    Yields the backend that waits for the run's row, once it does.
    """
    assert Desk.connected is not None
    twin = copy(desk)
    twin.connection = Desk.connected(None)
    backend = twin.value("SELECT pg_backend_pid()")
    thread = Thread(target=twin.write, args=(visit,))
    thread.start()
    until = time.monotonic() + 90
    waits = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = ?"
    while not desk.value(waits, (backend,)):
        assert time.monotonic() < until, "it does not wait"
        time.sleep(0.01)
    try:
        yield int(str(backend))
    finally:
        desk.connection.execute("COMMIT")
        thread.join()
        twin.connection.close()


def test_postgres_words_are_written_before_the_run_is_waited_for(desk: Desk):
    """Workers that share a run write one after another, and find words side by side."""
    visit = desk.visit(URL, "a lamp")
    desk.connection.execute(WRITING)
    desk.commit().begin(Batch())
    held = """
        SELECT count(*) FROM pg_locks
         WHERE pid = ? AND relation = ?::regclass AND mode = 'RowExclusiveLock'
    """

    with writing_beside(desk, visit) as backend:
        assert desk.value(held, (backend, "chunk")) == 1
        assert desk.value(held, (backend, "content")) == 0

    assert shown(desk, "lamp") == ["a [lamp]"]
    assert is_whole(desk)


def test_postgres_text_that_two_found_at_once_is_in_the_index_once(desk: Desk):
    text = "a lamp " * 50
    first, second = desk.visit(URL + "a", text), desk.visit(URL + "b", text)
    desk.connection.execute(WRITING)
    desk.commit().write(Batch(visits=[first]), NOW)

    with writing_beside(desk, second):
        pass

    assert desk.originals() == {URL + "a": None, URL + "b": URL + "a"}
    assert desk.value("SELECT count(DISTINCT content) FROM chunk") == 1
    assert is_whole(desk)


def test_postgres_text_of_a_visit_that_came_too_late_is_not_in_the_index(desk: Desk):
    first, late = desk.visit(URL, "a lamp"), desk.visit(URL, "a torch")
    desk.write(first)

    assert desk.write(late, number=1) == 1, "it is stale"

    assert shown(desk, "lamp") == ["a [lamp]"]
    assert shown(desk, "torch") == []
    assert desk.value("SELECT count(DISTINCT content) FROM chunk") == 1
    assert is_whole(desk)


def test_postgres_text_that_is_known_is_not_written_again(desk: Desk):
    """Nor twice for two pages of one batch."""
    text = "a lamp " * 50
    desk.write(*(desk.visit(URL + name, text) for name in "ab"))
    desk.index(URL + "c", text)
    desk.index(URL + "d", "a torch")

    assert desk.rows("SELECT no FROM chunk ORDER BY no") == [(1,), (2,)], "no number was left out"
    assert is_whole(desk)


def test_postgres_text_is_that_of_the_page_whose_content_it_is(desk: Desk):
    """Pages of the same bytes may have other titles, where bytes tell contents apart."""
    first, second = (desk.visit(URL + name, "a lamp", title=name) for name in ("One", "Two"))
    second.parsed.content_hash = first.parsed.content_hash
    late = desk.visit(URL + "Three", "a torch", title="Three")
    later = desk.visit(URL + "Four", "a torch", title="Four")
    later.parsed.content_hash = late.parsed.content_hash
    desk.index(URL + "Three", "a candle", title="Three")

    assert desk.write(first, second, late, later) == 1, "one is stale"
    titles = "SELECT c.title, k.title FROM content c JOIN chunk k ON k.content = c.no"
    assert set(desk.rows(titles)) == {
        ("One", "One"), ("Three", "Three"), ("Four", "Four"),
    }  # fmt: skip
    assert is_whole(desk)


def test_postgres_text_of_the_first_of_two_visits_of_a_page_is_what_it_holds(desk: Desk):
    first, second = desk.visit(URL, "a lamp"), desk.visit(URL, "a torch")

    assert desk.write(first, second) == 1, "the second is stale"

    assert shown(desk, "lamp") == ["a [lamp]"]
    assert shown(desk, "torch") == []
    assert is_whole(desk)


def test_postgres_numbers_of_the_index_are_kept_until_a_transaction_is_committed(desk: Desk):
    other = copy(desk)
    other.connection = Desk.connected(None)
    desk.index(URL, "lantern and quay")

    def is_kept() -> bool:  # unless the server itself commits something meanwhile
        return index_state(desk.connection) is index_state(desk.connection)

    assert any(is_kept() for _ in range(100))
    index_state(desk.connection).keep("lantern", 1)
    with transaction(other.connection):
        other.connection.execute("UPDATE choice SET value = value")
        assert index_state(other.connection) is not index_state(other.connection), "its own writes"
    assert index_state(desk.connection).number("lantern") is None
    for many in (1, 2):
        assert len(search(desk.connection, "lantern")) == many
        other.index(f"{URL}{many}", f"a lantern of brass {many}")
    assert len(search(desk.connection, "lantern")) == 3
    other.connection.close()

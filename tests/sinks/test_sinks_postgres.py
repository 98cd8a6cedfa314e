"""The index in PostgreSQL finds and shows what FTS5 finds and shows."""

from collections.abc import Iterator

import pytest

from smartcrawl.registry.postgres import PostgresDatabase
from smartcrawl.sinks.postgres import search
from tests.registry.build import Desk, index_is_sound
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
        ("a café", "cafe", "a café"),
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
    visit.chunks = [visit.chunks[0]._replace(headings=("A/B <lamps>", "C"), text="text")]
    desk.write(visit)

    assert [hit.headings for hit in search(desk.connection, "lamp")] == ["A/B <[lamps]> > C"]

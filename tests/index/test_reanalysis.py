"""Words of stored texts that another version made: searched meanwhile, and made anew in steps."""

from collections.abc import Iterator
from itertools import count

import pytest

from smartcrawl.index import known
from smartcrawl.index.analysis.stems import ANALYSIS_VERSION
from smartcrawl.index.choice import EMBEDDED, index_writer_of_registry
from smartcrawl.index.embedded import reanalysis
from smartcrawl.index.embedded.choice import embedded_index
from smartcrawl.index.embedded.reanalysis import (
    UNTIL,
    VERSION,
    analyze_stored_texts,
    stored_words_until,
)
from smartcrawl.index.embedded.sqlite import Fts5
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.choices import store_choice_row, stored_choices
from smartcrawl.registry.database.integrity import database_problems
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.database.sqlite import SqliteConnection, apply_migrations
from smartcrawl.terminal.command import warnings_printed
from tests.index.asking import search
from tests.registry.build import Desk, chunk, index_is_sound

BASE = "http://a.example/"
TEXTS = {
    "a": ("Alte Häuser am Fluss wurden verkauft", "de"),
    "b": ("表の行と列を入れ替える", "ja"),
    "c": ("Connections were connected again", "en"),
    "d": ("Die Tabellen und die Häuser", "de"),
}
_FORMER = """
INSERT INTO chunk_words_former (rowid, title, headings, text, pictures)
SELECT no, title, headings, text, pictures FROM chunk
"""
#: Words as the server's own analysis for English made them.
_FORMER_OF_POSTGRES = """
UPDATE chunk SET words = to_tsvector('english', replace(text, 'ä', 'a'))
"""


@pytest.fixture(params=["sqlite", "postgres"])
def old(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Pages of a former version, which made their words in another way."""
    if request.param == "postgres":
        spare = request.getfixturevalue("spare_registries")
        url = spare.take()
        opened = staticmethod(lambda _: PostgresDatabase(url).open())
        monkeypatch.setattr(Desk, "connected", opened)
    desk = Desk()
    desk.open()
    for name, (text, language) in TEXTS.items():
        desk.index(BASE + name, text, document_fields={"language": language})
    with transaction(desk.connection):
        if request.param == "postgres":
            desk.connection.execute(_FORMER_OF_POSTGRES)
        else:
            desk.connection.execute("DELETE FROM chunk_words")
            desk.connection.execute(_FORMER)
        desk.connection.execute("UPDATE chunk SET language = ''")
        store_choice_row(desk.connection, UNTIL, "0")
    monkeypatch.setattr(reanalysis, "_STEP", 2)
    yield desk
    desk.close()
    if request.param == "postgres":
        spare.put_back(url)


def found(desk: Desk, query: str) -> set[str]:
    return {hit.url.removeprefix(BASE) for hit in search(desk.connection, query)}


def test_searches_answer_by_former_words_until_there_are_new_ones(old: Desk):
    assert found(old, "connecting") == {"c"}
    assert found(old, "tabellen") == {"d"}
    assert found(old, "入れ替え") == set()

    assert analyze_stored_texts(old.connection) == len(TEXTS)

    assert found(old, "connecting") == {"c"}
    assert found(old, "Tabelle") == {"d"}
    assert found(old, "haus") == {"a", "d"}
    assert found(old, "入れ替え") == {"b"}
    assert index_is_sound(old.connection)
    assert stored_choices(old.connection)[VERSION] == ANALYSIS_VERSION
    assert stored_words_until(old.connection) is None
    assert analyze_stored_texts(old.connection) == 0
    languages = old.connection.execute("SELECT language FROM chunk ORDER BY no").fetchall()
    assert [one for (one,) in languages] == [language for _, language in TEXTS.values()]


def test_a_process_that_dies_leaves_both_halves_to_searches_and_the_rest_to_the_next(old: Desk):
    class _KilledError(Exception):
        pass

    def killed(done: int, total: int) -> None:
        assert (done, total) == (2, 4)
        raise _KilledError

    with pytest.raises(_KilledError):
        analyze_stored_texts(old.connection, killed)

    assert stored_words_until(old.connection) is not None
    assert found(old, "haus") == {"a"}
    assert found(old, "connecting") == {"c"}
    assert found(old, "入れ替え") == {"b"}
    steps: list[tuple[int, int]] = []

    assert analyze_stored_texts(old.connection, lambda *step: steps.append(step)) == 2

    assert steps[0] == (2, 2)
    assert found(old, "haus") == {"a", "d"}
    assert index_is_sound(old.connection)


def test_pages_that_are_written_and_removed_meanwhile_are_right(old: Desk):
    old.index(BASE + "e", "Neue Häuser", document_fields={"language": "de"})
    content = old.connection.execute("SELECT content FROM record WHERE url = ?", (BASE + "d",)).get
    with transaction(old.connection):
        sink = embedded_index(old.connection)
        sink.remove(content)
        sink.put(content, "", [chunk("etwas anderes")], "de")
        sink.flush()

    assert found(old, "häuser") >= {"a", "e"}
    assert found(old, "anderes") == {"d"}
    analyze_stored_texts(old.connection)

    assert found(old, "haus") == {"a", "e"}
    assert index_is_sound(old.connection)


def test_words_that_another_version_of_the_stemmer_made_are_made_anew(old: Desk):
    analyze_stored_texts(old.connection)
    with transaction(old.connection):
        store_choice_row(old.connection, VERSION, "1 2.2.0")
    assert found(old, "haus") == {"a", "d"}

    assert analyze_stored_texts(old.connection) == len(TEXTS)
    assert index_is_sound(old.connection)


@pytest.mark.parametrize(("seconds", "logged"), [(0.5, []), (3.0, ["2"])])
def test_what_takes_longer_than_two_seconds_tells_the_user_how_far_it_is(
    old: Desk,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seconds: float,
    logged: list[str],
):
    """The command's log is off; without a line it would seem to stand still."""
    clock = count(step=seconds)
    monkeypatch.setattr(reanalysis.time, "monotonic", lambda: next(clock))

    with warnings_printed("undo"):
        analyze_stored_texts(old.connection)

    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[-1] for line in lines] == [f"{done} of 4 chunks" for done in logged]
    assert all(line.startswith("undo: the words of stored texts are made anew") for line in lines)


def test_a_new_registry_has_nothing_to_make_anew(desk: Desk):
    assert analyze_stored_texts(desk.connection) == 0
    desk.index(BASE, "words")
    assert analyze_stored_texts(desk.connection) == 0
    assert stored_choices(desk.connection)[VERSION] == ANALYSIS_VERSION


def test_opening_a_registry_to_write_it_makes_its_words(old: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known, "remote_index_facts", lambda *_: None)

    assert index_writer_of_registry(None, old.connection) is EMBEDDED  # type: ignore[arg-type]
    assert found(old, "haus") == {"a", "d"}


def test_a_file_of_the_former_schema_is_searched_and_made_anew():
    connection = SqliteConnection(":memory:")
    apply_migrations(connection, until=108)
    connection.execute("INSERT INTO source (no, name, kind, created_at) VALUES (1, 's', 'site', 0)")
    connection.execute(
        "INSERT INTO chunk (no, content, position, title, headings, text)"
        " VALUES (7, 1, 0, 'T', '', 'Connections of houses')"
    )
    connection.execute(
        "INSERT INTO chunk_words (rowid, title, headings, text) VALUES (7, 'T', '', 'Connections')"
    )
    apply_migrations(connection)

    assert stored_words_until(connection) == 0
    assert database_problems(connection) == []
    assert analyze_stored_texts(connection) == 1
    assert database_problems(connection) == []
    assert index_is_sound(connection)
    assert connection.execute("SELECT rowid FROM chunk_words_former('connect')").fetchall() == []


def test_words_without_a_chunk_and_chunks_without_words_are_defects(desk: Desk):
    desk.index(BASE, "words")
    assert database_problems(desk.connection) == []

    desk.connection.execute("DELETE FROM chunk_words")
    (problem,) = database_problems(desk.connection)
    assert "1 chunks have no words" in problem
    desk.connection.execute("INSERT INTO chunk_words (rowid, text) VALUES (1, 'a'), (99, 'b')")
    (problem,) = database_problems(desk.connection)
    assert "1 of it are of no chunk" in problem


def test_chunks_that_wait_for_new_words_count_among_all():
    desk = Desk()
    desk.open()
    for name, (text, language) in TEXTS.items():
        desk.index(BASE + name, text, document_fields={"language": language})
    desk.connection.execute("DELETE FROM chunk_words WHERE rowid = 1")

    totals = [Fts5(until).total(desk.connection, '"haus"', "", {}) for until in (None, 1)]

    assert totals == [len(TEXTS) - 1, len(TEXTS)]
    desk.close()

"""Vectors of chunks: which are owed and made, what they are stored with, and when they go."""

import logging
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.index.choice import EMBEDDED
from smartcrawl.index.embedded import vectors
from smartcrawl.index.embedded.batch_vectors import SECONDS, BatchVectors
from smartcrawl.index.embedded.finding import NO_CONDITION, nearest_pages
from smartcrawl.index.embedded.vectors import (
    count_index_texts_to_embed,
    drop_index_leftovers,
    has_index_vectors,
    index_embedder_number,
    note_index_embedder,
    put_index_vectors,
    whole_index_embedders,
)
from smartcrawl.index.embedding.local import LocalEmbedder
from smartcrawl.index.embedding.ports import normed_vector
from smartcrawl.index.ranking import VectorQuery
from smartcrawl.model.batches import Batch
from smartcrawl.model.documents import Chunk, Section
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.pages import Visit
from smartcrawl.registry.chunks import RefusedChunks, refused_chunk_counts, vector_table
from smartcrawl.registry.connection import Many, transaction
from smartcrawl.registry.pack import unpack_stored_document
from smartcrawl.registry.removal.purge import (
    orphaned_page_rows,
    remove_stored_pages,
    undo_stored_removals,
)
from smartcrawl.rules.model import Action, Outcome
from tests.index.asking import search
from tests.index.meanings import (
    AWAY,
    LONG,
    OVER,
    TTL,
    Room,
    Topics,
    numbers_of,
    pay,
    stored,
    texts_with_vectors,
    topic_numbers,
    visit_of_sections,
)
from tests.registry.build import NOW, Desk, chunk, closing

BASE = "http://a.example/"


def page_of(desk: Desk, url: str, *texts: str, title: str = "") -> Visit:
    """Return a visit of a page with these chunks."""
    visit = desk.visit(url, " ".join(texts), title=title)
    visit.parsed.chunks = [chunk(text) for text in texts]
    return visit


@pytest.fixture
def embedder() -> Topics:
    return Topics()


@pytest.fixture
def room(file: Path, embedder: Topics) -> Iterator[Room]:
    room = Room(file, embedder)
    yield room
    room.close()


# Debts


@pytest.mark.covers("R1-10", "R1-13", "M-47")
def test_a_chunk_without_a_vector_is_owed_and_paying_makes_the_embedder_whole(
    desk: Desk, embedder: Topics
):
    visit = desk.visit(BASE, "x", title="Guide")
    visit.parsed.chunks = [chunk("stop it", "Runs", "Ends"), chunk("a banana")]
    desk.write(visit)
    assert count_index_texts_to_embed(desk.connection, 0) == 2
    reported: list[int] = []

    paid = pay(desk.connection, embedder, report=reported.append)

    assert (paid.embedded, paid.refused, paid.owed, paid.error) == (2, 0, 0, None)
    assert sorted(embedder.texts) == ["Guide\nRuns > Ends\nstop it", "Guide\na banana"]
    assert reported == [2]
    assert {row[1]: list(array("f", row[2])) for row in stored(desk.connection)} == {
        one.digest("Guide"): numbers_of(normed_vector(topic_numbers(text), 4))
        for one, text in zip(visit.parsed.chunks, ("stop it", "a banana"), strict=True)
    }
    assert [one.key for one in whole_index_embedders(desk.connection)] == [("local", "topics", 4)]


def test_a_paid_debt_is_not_paid_again(desk: Desk, embedder: Topics):
    desk.index(BASE, "stop it")
    pay(desk.connection, embedder)

    again = pay(desk.connection, embedder)

    assert (again.embedded, again.owed, embedder.texts) == (0, 0, ["stop it"])


@pytest.mark.covers("M-16")
def test_equal_chunks_of_two_sources_are_embedded_once_ever(embedder: Topics):
    desk = Desk(source="docs")
    for source in ("docs", "shop"):
        desk.source = source
        desk.open()
        desk.write(page_of(desk, f"http://{source}.example/", "stop it", source), now=NOW)
        desk.seal()
        pay(desk.connection, embedder, source)

    assert sorted(embedder.texts) == ["docs", "shop", "stop it"]
    assert len(stored(desk.connection)) == 3
    assert count_index_texts_to_embed(desk.connection, 1) == 0
    desk.close()


def hundred(changed: str = "") -> list[Section]:
    paragraph = "Every word of this paragraph is here to make it long enough. "
    return [
        Section(2, f"Part {n}", (changed if n == 50 and changed else f"{n} {paragraph}") * 8)
        for n in range(100)
    ]


@pytest.mark.covers("R1-07", "M-16")
def test_a_changed_paragraph_of_a_page_of_100_chunks_embeds_one_text(room: Room, embedder: Topics):
    desk = room.desk
    room.write(visit_of_sections(desk, BASE, hundred()))
    assert len(embedder.texts) == 100
    embedder.calls.clear()

    room.write(visit_of_sections(desk, BASE, hundred("The sentence is another one by now. ")))

    assert len(embedder.texts) == 1
    assert desk.value("SELECT count(*) FROM chunk") == 100
    assert count_index_texts_to_embed(desk.connection, 1) == 0
    assert pay(desk.connection, embedder).embedded == 0


@pytest.mark.covers("R1-07", "M-16")
def test_a_page_that_did_not_change_embeds_nothing(room: Room, embedder: Topics):
    room.write(room.desk.visit(BASE, "stop it", etag='"1"'))
    embedder.calls.clear()

    room.write(room.desk.visit(BASE, outcome=Outcome.NOT_MODIFIED, status=304))
    room.write(room.desk.visit(BASE, "stop it", outcome=Outcome.SAME))
    pay(room.connection, embedder)

    assert embedder.calls == []
    assert texts_with_vectors(room.connection) == ["stop it"]


@pytest.mark.parametrize("text", ["😀 🎉", "", "x" * 100_000], ids=["emoji", "nothing", "a word"])
def test_a_refused_text_is_stored_as_refused_and_is_no_debt(desk: Desk, text: str):
    embedder = LocalEmbedder()
    desk.write(page_of(desk, BASE, text))

    paid = pay(desk.connection, embedder)

    refused = not text.startswith("x")
    assert (paid.embedded, paid.refused, paid.owed) == (not refused, refused, 0)
    ((_, _, vector, why),) = stored(desk.connection)
    assert (vector is None) is refused
    assert why == ("the text has no word that the model knows" if refused else None)
    assert count_index_texts_to_embed(desk.connection, 1) == 0
    assert len(whole_index_embedders(desk.connection)) == 1


def test_a_refused_text_is_asked_for_once(room: Room, embedder: Topics):
    room.write(page_of(room.desk, BASE + "a", "😀"))
    room.write(page_of(room.desk, BASE + "b", "😀"))
    pay(room.connection, embedder)

    assert embedder.texts == ["😀"]


def test_a_wrong_answer_is_a_debt_that_is_asked_for_once_and_paid_by_a_later_call(
    desk: Desk, embedder: Topics
):
    """Of 300 texts, which are asked for in two calls."""
    texts = [f"line {n}" for n in range(299)]
    desk.write(page_of(desk, BASE, "stop it", *texts))
    embedder.wrong = {"stop it"}

    paid = pay(desk.connection, embedder)
    asked = sorted(embedder.texts)
    rows, whole = stored(desk.connection), whole_index_embedders(desk.connection)
    embedder.wrong = set()
    embedder.calls.clear()
    again = pay(desk.connection, embedder)

    assert (paid.embedded, paid.refused, paid.unanswered, paid.owed) == (299, 0, 1, 1)
    assert asked == sorted(["stop it", *texts])
    assert (len(rows), whole) == (299, [])
    assert (again.embedded, again.unanswered, again.owed) == (1, 0, 0)
    assert embedder.texts == ["stop it"]
    assert "stop it" in texts_with_vectors(desk.connection)
    assert len(whole_index_embedders(desk.connection)) == 1


def test_a_wrong_answer_is_asked_for_once_in_a_run_and_again_by_the_next(file: Path):
    embedder, unanswered = Topics(), set[bytes]()
    embedder.wrong = {"stop it"}
    room = Room(file, embedder)
    room.writer.embed_with(BatchVectors(embedder, unanswered=unanswered))
    for n in range(2):  # two batches of a run, and its end
        room.write(page_of(room.desk, f"{BASE}{n}", "stop it", f"line {n}"))
    end = pay(room.connection, embedder, unanswered=unanswered)
    asked = sorted(embedder.texts)
    embedder.wrong = set()
    room.writer.embed_with(BatchVectors(embedder))

    room.write(page_of(room.desk, f"{BASE}2", "stop it", "line 2"))

    assert asked == ["line 0", "line 1", "stop it"]
    assert (end.embedded, end.refused, end.owed, len(unanswered)) == (0, 0, 1, 1)
    assert sorted(texts_with_vectors(room.connection)) == ["line 0", "line 1", "line 2", "stop it"]
    room.close()


def test_an_error_in_the_middle_keeps_what_came_and_a_later_call_pays_the_rest(desk: Desk):
    desk.write(page_of(desk, BASE, *(f"boat {n}" for n in range(300))))
    embedder = Topics("topics", None, AWAY)

    half = pay(desk.connection, embedder)

    assert (half.embedded, half.owed, half.error) == (256, 44, AWAY)
    assert len(stored(desk.connection)) == 256
    assert whole_index_embedders(desk.connection) == []
    embedder.calls.clear()

    rest = pay(desk.connection, embedder)

    assert (rest.embedded, rest.owed, rest.error) == (44, 0, None)
    assert len(embedder.texts) == len(set(embedder.texts)) == 44
    assert len(whole_index_embedders(desk.connection)) == 1


def two_sources() -> Desk:
    desk = Desk()
    for source in ("docs", "shop"):
        desk.source = source
        desk.open()
        desk.index(f"http://{source}.example/", f"a boat of {source}")
        desk.seal()
    return desk


def test_sources_limit_the_payment_and_all_must_be_paid_before_searches_use_it(embedder: Topics):
    desk = two_sources()

    of_shop = pay(desk.connection, embedder, "shop")

    assert embedder.texts == ["a boat of shop"]
    assert (of_shop.embedded, of_shop.owed) == (1, 0)
    assert count_index_texts_to_embed(desk.connection, 1, ["docs"]) == 1
    assert whole_index_embedders(desk.connection) == []

    pay(desk.connection, embedder, "docs", now=NOW + 5)

    assert desk.value("SELECT whole_at FROM embedder") == NOW + 5
    desk.close()


def test_an_end_between_two_calls_leaves_the_rest_owed(desk: Desk, embedder: Topics):
    desk.write(page_of(desk, BASE, *(f"boat {n}" for n in range(300))))

    paid = pay(desk.connection, embedder, is_ending=lambda: bool(embedder.calls))

    assert (paid.embedded, paid.owed, paid.error) == (256, 44, None)
    assert len(embedder.calls) == 1
    assert whole_index_embedders(desk.connection) == []


def test_a_page_of_a_title_alone_gets_its_vector_with_the_page(room: Room, embedder: Topics):
    visit = room.desk.visit(BASE, "", title="Snow")
    visit.parsed.chunks = []
    room.write(visit)

    assert embedder.texts == ["Snow"]
    assert count_index_texts_to_embed(room.connection, 1) == 0


# Batches


@pytest.mark.covers("R1-07", "R1-10", "R1-36")
def test_a_batch_of_several_pages_is_embedded_in_one_call_and_stored_with_its_chunks(
    room: Room, embedder: Topics
):
    embedder.during = lambda: seen.append(room.desk.value("SELECT count(*) FROM chunk"))
    seen: list[object] = []
    visits = [page_of(room.desk, f"{BASE}{n}", f"boat {n}", "the same") for n in range(3)]

    room.write(*visits)

    (call,) = embedder.calls
    assert sorted(call) == ["boat 0", "boat 1", "boat 2", "the same"]
    assert seen == [0]
    assert texts_with_vectors(room.connection) == sorted(call)
    assert count_index_texts_to_embed(room.connection, 1) == 0


def test_only_visits_that_are_indexed_are_embedded(room: Room, embedder: Topics):
    room.write(
        room.desk.visit(BASE, "a boat", outcome=Outcome.NOT_ACCEPTABLE, status=200),
        room.desk.visit(BASE + "gone", outcome=Outcome.NOT_FOUND, status=404),
    )

    assert embedder.calls == []


@pytest.mark.covers("R1-36")
def test_a_batch_that_is_rolled_back_leaves_no_vector(room: Room, embedder: Topics):
    """A process that is killed between the two leaves as much."""
    visit = page_of(room.desk, BASE, "a boat")
    room.registry.interrupt(room.run, ("interrupted",), NOW)

    with pytest.raises(RegistryError, match="was closed by another process"):
        room.write(visit)

    assert embedder.texts == ["a boat"]
    assert stored(room.connection) == []
    assert room.desk.value("SELECT count(*) FROM chunk") == 0


#: Statements after which no vector can be stored.
REFUSAL = {
    "sqlite": [
        "CREATE TRIGGER refuse BEFORE INSERT ON vector BEGIN SELECT RAISE(ROLLBACK, 'full'); END"
    ],
    "postgres": [
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'full'; END $$",
        "CREATE TRIGGER refuse BEFORE INSERT ON chunk_vector"
        " FOR EACH ROW EXECUTE FUNCTION refuse()",
    ],
}  # fmt: skip


@pytest.mark.covers("R1-36")
def test_vectors_that_cannot_be_stored_take_their_chunks_with_them(room: Room):
    for statement in REFUSAL[room.connection.dialect]:
        room.connection.execute(statement).fetchall()

    written = room.write(page_of(room.desk, BASE, "a boat"))
    if room.connection.dialect == "postgres":  # the registry is used again
        room.connection.execute("DROP FUNCTION refuse CASCADE").fetchall()

    (error,) = [str(visit.error) for visit, _ in written.failed]
    assert error.startswith("the registry does not take it: ")
    assert error.endswith(": full")
    assert stored(room.connection) == []
    assert room.desk.value("SELECT count(*) FROM chunk") == 0


@pytest.mark.covers("R1-36")
def test_a_visit_that_is_refused_at_the_commit_leaves_no_vector_and_the_others_do(
    room: Room, embedder: Topics
):
    """The visit that is refused is found by rehearsals, whose vectors are undone with them."""
    right, wrong = (page_of(room.desk, BASE + word, f"boat {word}") for word in ("right", "wrong"))
    wrong.answer.content_type = "text/\ud800"

    written = room.write(wrong, right)

    assert [visit for visit, _ in written.failed] == [wrong]
    assert sorted(embedder.texts) == ["boat right", "boat wrong"]
    assert texts_with_vectors(room.connection) == ["boat right"]
    assert len(stored(room.connection)) == 1


def test_no_vector_is_stored_without_its_chunk(desk: Desk):
    desk.write(page_of(desk, BASE, "a boat"))
    there, absent = Chunk((), "a boat").digest(""), Chunk((), "a ship").digest("")
    vector = normed_vector([1, 0, 0, 0], 4)
    assert isinstance(vector, bytes)

    with transaction(desk.connection):
        number = note_index_embedder(desk.connection, Topics())
        put_index_vectors(desk.connection, number, [(there, vector), (absent, vector)])

    assert [row[1] for row in stored(desk.connection)] == [there]


def test_a_chunk_of_an_earlier_batch_is_not_asked_for_again(room: Room, embedder: Topics):
    room.write(page_of(room.desk, BASE + "a", "a boat", "a ship"))
    room.write(page_of(room.desk, BASE + "b", "a boat", "an apple"))

    assert embedder.calls == [["a boat", "a ship"], ["an apple"]]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_passing_error_is_tried_again_with_the_next_batch_and_logged_once(
    file: Path, caplog: pytest.LogCaptureFixture
):
    embedder = Topics("topics", AWAY, AWAY, None, AWAY)
    room = Room(file, embedder)

    for n in range(4):
        room.write(page_of(room.desk, f"{BASE}{n}", f"boat {n}"))

    message = f"pages are stored without vectors for now: {AWAY}"
    assert len(embedder.calls) == 4
    assert warnings_of(caplog) == [message, message]  # the second is of another outage
    assert texts_with_vectors(room.connection) == ["boat 2"]
    assert room.desk.value("SELECT count(*) FROM chunk") == 4  # what is away holds no text back
    assert count_index_texts_to_embed(room.connection, 1) == 3
    room.close()


def test_a_lasting_error_ends_the_calls_of_the_run(file: Path, caplog: pytest.LogCaptureFixture):
    embedder = Topics("topics", OVER)
    room = Room(file, embedder)

    for n in range(3):
        room.write(page_of(room.desk, f"{BASE}{n}", f"boat {n}"))

    assert len(embedder.calls) == 1
    assert warnings_of(caplog) == [f"pages are stored without vectors for now: {OVER}"]
    assert room.desk.value("SELECT count(*) FROM chunk") == 3
    room.close()


def test_an_embedder_with_a_fault_of_its_own_holds_no_page_back(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    embedder = Topics("topics")
    room = Room(file, embedder)
    calls: list[object] = []

    def broken(texts: object) -> None:
        calls.append(texts)
        raise ZeroDivisionError

    monkeypatch.setattr(embedder, "embed", broken)

    for n in range(2):
        room.write(page_of(room.desk, f"{BASE}{n}", f"boat {n}"))

    assert len(calls) == 1
    assert "ZeroDivisionError" in caplog.text
    assert room.desk.value("SELECT count(*) FROM chunk") == 2
    room.close()


def test_an_error_in_the_middle_of_a_batch_keeps_what_came(file: Path):
    room = Room(file, Topics("topics", None, AWAY))

    room.write(page_of(room.desk, BASE, *(f"boat {n}" for n in range(300))))

    assert len(stored(room.connection)) == 256
    assert count_index_texts_to_embed(room.connection, 1) == 44
    room.close()


def test_a_registry_without_an_embedder_has_no_vectors_and_loads_no_functions(desk: Desk):
    desk.index(BASE, "a boat")

    assert [hit.url for hit in search(desk.connection, "boat")] == [BASE]
    assert desk.rows("SELECT * FROM embedder") == stored(desk.connection) == []
    if desk.connection.dialect == "sqlite":
        assert not desk.connection.has_vectors


# Two embedders


def test_a_second_embedder_builds_beside_and_is_used_once_it_is_whole(desk: Desk):
    old, new = Topics("old"), Topics("new", AWAY)
    desk.index(BASE, "a boat")
    pay(desk.connection, old)
    before = stored(desk.connection)

    assert pay(desk.connection, new).error is AWAY
    assert [one.model for one in whole_index_embedders(desk.connection)] == ["old"]
    assert stored(desk.connection) == before

    pay(desk.connection, new, now=NOW + 1)
    assert [one.model for one in whole_index_embedders(desk.connection)] == ["new", "old"]
    assert [row[0] for row in stored(desk.connection)] == ["new", "old"]


@pytest.mark.parametrize(
    "other", [("local", "topics", 8), ("openai", "topics", 4), ("local", "other", 4)],
    ids=["dimension", "name", "model"],
)  # fmt: skip
def test_an_embedder_of_another_name_model_or_dimension_is_another_one(
    desk: Desk, embedder: Topics, other: tuple[str, str, int]
):
    desk.index(BASE, "a boat")
    pay(desk.connection, embedder)
    another = Topics()
    another.name, another.model, another.dimension = other

    assert index_embedder_number(desk.connection, another) is None
    with transaction(desk.connection):
        number = note_index_embedder(desk.connection, another)

    assert number != index_embedder_number(desk.connection, embedder)
    assert index_embedder_number(desk.connection, another) == number
    assert count_index_texts_to_embed(desk.connection, number) == 1


def test_vectors_of_the_former_embedder_go_after_the_ttl_and_not_before(desk: Desk):
    desk.index(BASE, "a boat")
    pay(desk.connection, Topics("old"))
    pay(desk.connection, Topics("new"))

    early = pay(desk.connection, Topics("new"), now=NOW + TTL - 1)
    models = [row[0] for row in stored(desk.connection)]
    late = pay(desk.connection, Topics("new"), now=NOW + TTL)

    assert (early.dropped, models) == (0, ["new", "old"])
    assert late.dropped == 1
    assert [row[0] for row in stored(desk.connection)] == ["new"]
    assert [one.model for one in whole_index_embedders(desk.connection)] == ["new"]


def test_a_payment_whose_embedder_is_dropped_meanwhile_mixes_no_models(desk: Desk):
    desk.index(BASE, "a boat")
    slow = Topics("slow")

    def meanwhile() -> None:
        pay(desk.connection, Topics("second"))
        desk.connection.execute("UPDATE embedder SET no = no + 5").fetchall()
        table = vector_table(desk.connection)
        desk.connection.execute(f"UPDATE {table} SET embedder = embedder + 5").fetchall()
        with transaction(desk.connection):
            desk.connection.execute(
                "INSERT INTO embedder (no, name, model, dimension) VALUES (1, 'local', 'third', 4)"
            )

    slow.during = meanwhile
    pay(desk.connection, slow)

    assert [row[0] for row in stored(desk.connection)] == ["second", "slow"]


def test_going_back_within_the_ttl_embeds_nothing_and_lets_the_other_go(desk: Desk):
    old, new = Topics("old"), Topics("new")
    desk.index(BASE, "a boat")
    pay(desk.connection, old)
    pay(desk.connection, new)

    assert [one.model for one in whole_index_embedders(desk.connection)] == ["new", "old"]
    back = pay(desk.connection, old, now=NOW + 10)
    assert [one.model for one in whole_index_embedders(desk.connection)] == ["old", "new"]
    pay(desk.connection, old, now=NOW + 10 + TTL)

    assert (back.embedded, len(old.texts)) == (0, 1)
    assert [row[0] for row in stored(desk.connection)] == ["old"]


def test_an_embedder_that_is_not_whole_drops_no_vector_that_is_searched(desk: Desk):
    desk.index(BASE, "a boat")
    pay(desk.connection, Topics("old"))
    pay(desk.connection, Topics("new", AWAY), ttl=0)
    paid = pay(desk.connection, Topics("new", AWAY), ttl=0, now=NOW + TTL)

    assert paid.dropped == 0
    assert [row[0] for row in stored(desk.connection)] == ["old"]


def test_a_run_whose_embedder_was_dropped_meanwhile_mixes_no_models(file: Path):
    """`embed` with another model drops an embedder without a vector; its number is free then."""
    room = Room(file, Topics("first", AWAY))
    with transaction(room.connection):
        note_index_embedder(room.connection, Topics("second"))
        note_index_embedder(room.connection, Topics("first"))
    room.write(page_of(room.desk, BASE, "😀"))
    pay(room.connection, Topics("second"))
    pay(room.connection, Topics("third"))
    models = room.desk.rows("SELECT model FROM embedder ORDER BY no")
    assert models == [("second",), ("third",)]

    room.write(page_of(room.desk, BASE + "b", "a boat"))

    boat = Chunk((), "a boat").digest("")
    assert [row[0] for row in stored(room.connection) if row[1] == boat] == ["first"]
    room.close()


# Removed pages


def removed_page(desk: Desk) -> int:
    """Remove a page to which no link leads any more; return the number of the run."""
    desk.index(BASE, "the harbour")
    desk.index(BASE + "b", "a boat")
    desk.seal()
    pay(desk.connection, Topics())
    run = desk.open()
    desk.write(desk.visit(BASE, outcome=Outcome.NOT_MODIFIED, status=304))
    desk.seal()
    remove_stored_pages(desk.connection, EMBEDDED, orphaned_page_rows(desk.connection), NOW)
    assert desk.rows("SELECT text FROM chunk") == [("the harbour",)]
    return run.no


def undo(desk: Desk, run: int) -> tuple[str, ...]:
    return undo_stored_removals(
        desk.connection, EMBEDDED, run, NOW, pin=False,
        chunked=lambda packed, _: document_chunks(unpack_stored_document(packed)),
    ).restored  # fmt: skip


def test_vectors_of_a_removed_page_go_after_the_ttl(desk: Desk, embedder: Topics):
    removed_page(desk)

    first = pay(desk.connection, embedder, now=NOW)
    early = pay(desk.connection, embedder, now=NOW + TTL - 1)
    assert (first.dropped, early.dropped, len(stored(desk.connection))) == (0, 0, 2)
    late = pay(desk.connection, embedder, now=NOW + TTL)

    assert (late.dropped, len(stored(desk.connection))) == (1, 1)
    assert texts_with_vectors(desk.connection) == ["the harbour"]
    assert embedder.calls == []


@pytest.mark.covers("R1-33")
def test_vectors_of_a_removed_page_go_after_the_ttl_while_chunks_are_owed(desk: Desk):
    removed_page(desk)
    desk.open()
    desk.index(BASE + "c", "an apple")
    away = Topics("topics", *[AWAY] * 3)

    early = [pay(desk.connection, away, now=NOW + some).dropped for some in (0, TTL - 1)]
    late = pay(desk.connection, away, now=NOW + TTL)

    assert (early, late.dropped, late.owed) == ([0, 0], 1, 1)
    assert texts_with_vectors(desk.connection) == ["the harbour"]


def test_vectors_of_a_removed_page_go_after_the_ttl_once_a_key_is_refused(desk: Desk):
    removed_page(desk)
    desk.open()
    desk.index(BASE + "c", "an apple")
    off = Topics()

    pay(desk.connection, off, is_off=True, now=NOW)
    paid = pay(desk.connection, off, is_off=True, now=NOW + TTL)

    assert (paid.dropped, paid.owed, off.calls) == (1, 1, [])


def test_vectors_of_a_removed_page_go_after_the_ttl_where_no_embedder_is_set(desk: Desk):
    removed_page(desk)

    early = [drop(desk, NOW + some) for some in (0, TTL - 1)]
    late = drop(desk, NOW + TTL)

    assert (early, late) == ([0, 0], 1)
    assert texts_with_vectors(desk.connection) == ["the harbour"]
    assert [one.model for one in whole_index_embedders(desk.connection)] == ["topics"]


def test_without_an_embedder_the_vectors_of_chunks_stay_and_those_of_a_former_one_go(desk: Desk):
    """Another process may be building: its embedder has not been whole yet."""
    desk.index(BASE, "a boat")
    desk.index(BASE + "b", "an apple")
    pay(desk.connection, Topics("old"))
    pay(desk.connection, Topics("new"))
    half = Topics("half", None, AWAY)
    half.texts_at_once = 1
    pay(desk.connection, half)

    gone = [drop(desk, NOW + some) for some in (0, TTL)]

    assert gone == [0, 2]
    assert [row[0] for row in stored(desk.connection)] == ["half", "new", "new"]


def test_an_undo_where_no_embedder_is_set_finds_the_vectors_again_and_keeps_them(
    desk: Desk, embedder: Topics
):
    run = removed_page(desk)
    drop(desk, NOW)

    undo(desk, run)
    gone = [drop(desk, NOW + some) for some in (TTL // 2, 3 * TTL)]
    pay(desk.connection, embedder, now=NOW + 3 * TTL)

    assert (gone, embedder.calls) == ([0, 0], [])


def drop(desk: Desk, now: int) -> int:
    """Drop unused vectors as a run without an embedder does."""
    assert has_index_vectors(desk.connection)
    return drop_index_leftovers(desk.connection, now=now, ttl=TTL)


@pytest.mark.sqlite
def test_the_end_of_a_run_reads_no_vector_to_find_those_without_a_use(desk: Desk):
    """Vectors are large, and few of them are unused: indexes name those."""
    values = {"used": Many([1]), "now": NOW, "before": NOW}
    plans = []
    for statement in (
        vectors._USED_AGAIN, vectors._UNUSED_NOW, vectors._DROP, vectors._DROP_EMBEDDERS,
    ):  # fmt: skip
        asked = "EXPLAIN QUERY PLAN " + statement.format(vector="vector", chunks="chunk")
        rows = desk.connection.execute(asked, values).fetchall()
        plans += [str(row[3]) for row in rows]

    assert sum("vector_unused" in line for line in plans) == 2
    scans = [line for line in plans if line.startswith(("SCAN vector", "SCAN v "))]
    assert len(scans) == 2
    assert all("COVERING INDEX" in line for line in scans)


def test_an_undo_within_the_ttl_finds_the_vectors_again_and_keeps_them(
    desk: Desk, embedder: Topics
):
    run = removed_page(desk)
    pay(desk.connection, embedder, now=NOW)

    assert undo(desk, run) == (BASE + "b",)
    pay(desk.connection, embedder, now=NOW + TTL // 2)
    pay(desk.connection, embedder, now=NOW + 3 * TTL)

    assert embedder.calls == []
    assert texts_with_vectors(desk.connection) == ["a boat", "the harbour"]


def test_a_page_that_goes_back_to_its_former_text_embeds_nothing(room: Room, embedder: Topics):
    for text in ("a boat", "an apple", "a boat"):
        room.write(page_of(room.desk, BASE, text))
        pay(room.connection, embedder, now=NOW)

    assert embedder.texts == ["a boat", "an apple"]


@pytest.mark.covers("R1-33")
def test_a_clone_that_takes_over_from_a_page_that_goes_embeds_nothing(room: Room, embedder: Topics):
    desk = room.desk
    desk.closing = closing(lost_threshold=1)
    room.write(desk.visit(BASE + "a", LONG), desk.visit(BASE + "bb", LONG))
    assert [hit.url for hit in search(room.connection, "equal")] == [BASE + "a"]
    pay(room.connection, embedder, ttl=0)
    room.begin_next_run()
    desk.reach(BASE + "a", BASE + "bb")
    asked = len(embedder.calls)

    gone = desk.visit(BASE + "a", outcome=Outcome.NOT_FOUND, status=404)
    desk.write(gone, touched=[desk.number(BASE + "bb")])
    desk.seal()
    paid = pay(room.connection, embedder, ttl=0)

    assert [hit.url for hit in search(room.connection, "equal")] == [BASE + "bb"]
    assert (len(embedder.calls), paid.owed, paid.dropped) == (asked, 0, 0)
    assert texts_with_vectors(room.connection) == [LONG]


@pytest.mark.covers("R1-33")
def test_a_forced_run_writes_its_pages_anew_and_embeds_nothing(room: Room, embedder: Topics):
    room.write(page_of(room.desk, BASE, "a boat", "an apple"))
    pay(room.connection, embedder)
    room.begin_next_run(forced=True)
    embedder.calls.clear()
    again = page_of(room.desk, BASE, "a boat", "an apple")
    assert again.action is Action.INDEX

    room.write(again)
    pay(room.connection, embedder)

    assert embedder.calls == []
    assert texts_with_vectors(room.connection) == ["a boat", "an apple"]


# Registries from before


@pytest.mark.sqlite
def test_a_batch_does_not_wait_for_a_slow_model_and_the_debt_is_paid(room: Room, embedder: Topics):
    """A model of sentences may need a minute for one long page, whose text is stored at once."""
    embedder.texts_at_once = 2
    clock = iter([0.0, SECONDS - 0.1, SECONDS])  # at the start, and before each later call
    texts = [f"fruit {n}" for n in range(7)]
    room.writer.embed_with(BatchVectors(embedder, clock=lambda: next(clock)))

    room.write(page_of(room.desk, BASE, *texts))

    assert embedder.calls == [texts[:2], texts[2:4]]
    assert texts_with_vectors(room.connection) == texts[:4]
    assert count_index_texts_to_embed(room.connection, 1) == 3
    assert pay(room.connection, embedder).embedded == 3
    assert texts_with_vectors(room.connection) == texts


def test_a_run_that_is_stopped_waits_for_no_more_vectors(room: Room, embedder: Topics):
    embedder.texts_at_once = 2
    stops = iter([False, True])
    texts = [f"fruit {n}" for n in range(7)]
    room.writer.embed_with(BatchVectors(embedder, lambda: next(stops)))

    room.write(page_of(room.desk, BASE, *texts))

    assert embedder.calls == [texts[:2]]
    assert texts_with_vectors(room.connection) == texts[:2]
    assert [hit.url for hit in search(room.connection, "fruit")] == [BASE]


def test_a_batch_without_text_asks_nothing_and_notes_no_embedder(desk: Desk, embedder: Topics):
    vectors = BatchVectors(embedder)

    vectors.embed(desk.connection, Batch())

    assert embedder.calls == []
    assert desk.rows("SELECT * FROM embedder") == []


def test_refused_texts_are_asked_for_again_when_they_are_wanted(desk: Desk):
    """Of the sources that are meant alone."""
    connection, embedder = desk.connection, Topics()
    desk.write(page_of(desk, BASE, "stop it", "?!"))
    desk.source = "other"
    desk.open()
    desk.write(page_of(desk, "http://other.example/", "…"))
    pay(connection, embedder)
    number = index_embedder_number(connection, embedder)
    assert number is not None
    before = refused_chunk_counts(connection, number)
    embedder.calls.clear()

    usual = pay(connection, embedder)
    assert (usual.refused, embedder.calls) == (0, [])
    again = pay(connection, embedder, "other", refused_too=True)

    assert before == [RefusedChunks("it has no word", 2)]
    assert refused_chunk_counts(connection, number, ["other"]) == [
        RefusedChunks("it has no word", 1)
    ]
    assert (embedder.texts, again.refused, again.owed) == (["…"], 1, 0)

    embedder.errors = [AWAY]
    away = pay(connection, embedder, refused_too=True)
    assert (away.owed, refused_chunk_counts(connection, number)) == (2, [])


def test_a_run_takes_no_vector_of_another_model_than_the_stored_ones(file: Path):
    """Its pages are stored with their text, and it is asked nothing more."""
    first, other = Served("one"), Served("two")
    room = Room(file, first)
    room.write(page_of(room.desk, f"{BASE}0", "stop it"))
    room.writer.embed_with(BatchVectors(other))

    for n in (1, 2):
        room.write(page_of(room.desk, f"{BASE}{n}", f"line {n}"))
    end = pay(room.connection, other)

    assert other.texts == ["line 1", "line 1", "line 2"]  # of the first batch, and of the end
    assert texts_with_vectors(room.connection) == ["stop it"]
    assert end.error is not None
    assert "the model 'one' at http://models.example/v1" in str(end.error)
    assert "now the model 'two' at" in str(end.error)
    room.close()


class Served(Topics):
    """Topics of a server, which answers with the name of its model."""

    destination = "models.example"
    location = "http://models.example/v1"

    def __init__(self, answered_by: str) -> None:
        super().__init__()
        self.answered_by = answered_by


@pytest.mark.parametrize(("count", "by_index"), [(10_000, False), (10_001, True)])
def test_postgres_compares_ten_thousand_vectors_one_by_one_and_more_by_their_index(
    count: int, by_index: bool
):
    asked: list[str] = []

    def execute(statement: str, values: object) -> Any:
        asked.append(statement)
        return SimpleNamespace(get=count, fetchall=list)

    connection: Any = SimpleNamespace(dialect="postgres", execute=execute)
    near = VectorQuery(1, array("f", [1.0, 0.0]).tobytes())

    assert nearest_pages(connection, near, conditions=NO_CONDITION, values={}, pool=1) == []
    assert any("hnsw" in statement for statement in asked) is by_index

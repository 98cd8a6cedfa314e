"""A visit whose data the database refuses: found by trial, and written as one that failed."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import apsw
import psycopg
import pytest

from smartcrawl.index.choice import EMBEDDED
from smartcrawl.index.embedded import sqlite
from smartcrawl.model.batches import Address, Batch
from smartcrawl.model.exceptions import RegistryError, RegistryFullError
from smartcrawl.model.pages import Visit
from smartcrawl.registry.commit import record
from smartcrawl.registry.commit.batch import RegistryCommit, first_refused_visit_row
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.database.sqlite import SqliteDatabase
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.writer import RegistryWriter
from smartcrawl.rules.model import Word
from tests.registry.build import NOW, Desk

PATHS = [f"https://docs.example/{n}" for n in range(9)]


class Trials:
    """Says which prefixes of a list of visits cannot be written."""

    def __init__(self, *bad: int, head: bool = False) -> None:
        self.bad, self.head, self.count = bad, head, 0

    def __call__(self, count: int) -> Exception | None:
        self.count += 1
        first = next((n for n in self.bad if n < count), None)
        if first is not None:
            return ValueError(str(first))
        return ValueError("head") if self.head else None


@pytest.mark.covers("R1-36")
@pytest.mark.parametrize("size", [1, 2, 3, 40])
def test_the_first_visit_that_is_refused_is_found_in_few_trials(desk: Desk, size: int):
    visits = [desk.visit(f"https://docs.example/{n}", "text") for n in range(size)]
    for bad in range(size):
        trials = Trials(bad, size - 1)
        found = first_refused_visit_row(visits, trials)
        assert found is not None
        assert found[0] is visits[bad]
        assert str(found[1]) == str(bad)
        assert trials.count <= 8


def test_no_visit_is_blamed_for_what_fails_without_it(desk: Desk):
    visits = [desk.visit(url, "text") for url in PATHS]
    assert first_refused_visit_row(visits, Trials(head=True)) is None
    assert first_refused_visit_row(visits, Trials()) is None


@pytest.fixture
def registry(file: Path) -> Iterator[Registry]:
    database = SqliteDatabase(file)
    registry = Registry(database, database.open(), EMBEDDED)
    yield registry
    registry.close()


def batch_of(desk: Desk, **fields: object) -> Batch:
    """Nine pages, three of them with fields that no database takes."""
    batch = Batch()
    for place, url in enumerate(PATHS):
        extra = fields if place % 4 == 0 else {}
        batch.visits.append(desk.visit(url, f"words{place}", **extra))
        batch.tally("docs.example")
    return batch


def test_words_and_documents_are_made_while_no_transaction_is_open(
    registry: Registry, file: Path, monkeypatch: pytest.MonkeyPatch
):
    desk = Desk(file)
    writer = RegistryWriter(registry, desk.open(), judgement=Judgement())
    desk.add(*PATHS)
    batch = batch_of(desk)
    made: list[tuple[str, bool]] = []

    def note(place: ModuleType, name: str) -> None:
        make = getattr(place, name)

        def noted(*args: object, **names: object) -> object:
            made.append((name, writer._connection.in_transaction))
            return make(*args, **names)

        monkeypatch.setattr(place, name, noted)

    note(sqlite, "chunk_words")
    note(record, "pack_stored_document")
    writer.submit(batch, NOW).result()
    writer.close()

    assert sorted(made) == sorted(
        (name, False) for name in ("chunk_words", "pack_stored_document") for _ in PATHS
    )
    assert desk.rows("SELECT count(*) FROM chunk_words WHERE chunk_words MATCH 'words3'") == [(1,)]


@pytest.mark.covers("R1-36")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"content_type": "text/\ud800"}, "UnicodeEncodeError: "),
        ({"content_length": 1 << 70}, "OverflowError: "),
        ({"etag": object()}, "TypeError: "),
    ],
    ids=["surrogate", "number", "type"],
)
def test_visits_with_values_that_no_column_takes_fail_alone(
    registry: Registry, file: Path, fields: dict[str, object], why: str
):
    desk = Desk(file)
    run = desk.open()
    writer = RegistryWriter(registry, run, judgement=Judgement())
    desk.add(*PATHS)

    written = writer.submit(batch_of(desk, **fields), NOW).result()
    writer.close()

    failed: list[Visit] = [visit for visit, _ in written.failed]
    assert [visit.page.url for visit in failed] == PATHS[::4]
    assert {word for _, word in written.failed} == {Word.NEW}
    rows = desk.rows(
        "SELECT r.url, s.outcome, s.http_status, r.error_message, r.content IS NOT NULL"
        " FROM record r JOIN state s USING (no) ORDER BY r.no"
    )
    for place, (url, outcome, status, message, held) in enumerate(rows):
        bad = place % 4 == 0
        assert (url, outcome) == (PATHS[place], Word.FAILED if bad else Word.NEW)
        assert (status, held) == ((1200, 0) if bad else (200, 1))
        assert not bad or message.startswith(f"the registry does not take it: {why}")
    assert len(rows) == len(PATHS)
    desk.close()


def test_a_batch_that_no_visit_spoils_is_an_error_of_the_registry(registry: Registry, file: Path):
    desk = Desk(file)
    writer = RegistryWriter(registry, desk.open(), judgement=Judgement())
    desk.add(*PATHS)
    batch = batch_of(desk)
    batch.addresses.append(Address(99, b"x", "https://\ud800", None, "docs.example", 0, None))

    with pytest.raises(RegistryError, match=r"cannot be written .*surrogates not allowed"):
        writer.submit(batch, NOW).result()

    writer.close()
    assert desk.value("SELECT count(*) FROM content") == 0
    desk.close()


def test_an_error_that_no_code_foresees_is_one_of_the_registry(
    registry: Registry, file: Path, monkeypatch: pytest.MonkeyPatch
):
    """The run then ends in order, as interrupted; batches that rest on this one fail with it."""
    desk = Desk(file)
    writer = RegistryWriter(registry, desk.open(), judgement=Judgement())
    desk.add(*PATHS)
    with monkeypatch.context() as patched:
        patched.setattr(RegistryCommit, "write", lambda *_: [].pop())
        with pytest.raises(RegistryError, match=r"\(IndexError: pop from empty list\).* resume=1"):
            writer.submit(batch_of(desk), NOW).result()

    with pytest.raises(RegistryError, match="IndexError: pop from empty list"):
        writer.submit(batch_of(desk), NOW).result()

    writer.close()
    assert desk.value("SELECT count(*) FROM content") == 0


def test_what_rests_on_a_batch_that_found_no_room_fails_with_its_reason(
    registry: Registry, file: Path, monkeypatch: pytest.MonkeyPatch
):
    """The addresses of its pages are in no row; looking one up was a KeyError."""
    desk = Desk(file)
    writer = RegistryWriter(registry, desk.open(), judgement=Judgement())
    first, second = Batch(), Batch()
    first.addresses.append(Address(7, b"x" * 16, "http://a.example/7", None, "a.example", 0, None))
    second.visits.append(visit := desk.visit(PATHS[0], "words"))
    visit.page.no = 7
    with monkeypatch.context() as patched:
        full = apsw.FullError("database or disk is full")
        patched.setattr(RegistryCommit, "begin", Mock(side_effect=full))
        with pytest.raises(RegistryFullError, match="no space left"):
            writer.submit(first, NOW).result()

    with pytest.raises(RegistryFullError, match="no space left"):
        writer.submit(second, NOW).result()

    writer.close()
    assert desk.value("SELECT count(*) FROM content") == 0
    desk.close()


def test_only_errors_of_data_blame_a_page(file: Path):
    sqlite, postgres = SqliteDatabase(file), PostgresDatabase("postgresql://db.example/registry")
    for error in (apsw.ConstraintError(), apsw.TooBigError(), apsw.MismatchError()):
        assert sqlite.is_of_data(error)
    for error in (apsw.FullError(), apsw.BusyError(), apsw.CorruptError(), apsw.IOError()):
        assert not sqlite.is_of_data(error)
    errors = psycopg.errors
    for refused in (
        psycopg.DataError("text fields cannot contain NUL"),
        errors.UntranslatableCharacter(),
        errors.CheckViolation(),
        errors.ProgramLimitExceeded(),
        errors.RaiseException(),
    ):
        assert postgres.is_of_data(refused)
    for failure in (
        errors.DiskFull(),
        errors.DeadlockDetected(),
        errors.AdminShutdown(),
        errors.UndefinedTable(),
        psycopg.OperationalError("the connection is lost"),
    ):
        assert not postgres.is_of_data(failure)

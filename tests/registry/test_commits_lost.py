"""A server that is an older copy of itself by now: no process goes on as if nothing were lost."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from smartcrawl.index.choice import EMBEDDED
from smartcrawl.model.batches import Address, Batch
from smartcrawl.model.exceptions import CommitsLostError
from smartcrawl.model.pages import Page, Visit
from smartcrawl.model.urls import url_digest
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.database.session import PostgresConnection
from smartcrawl.registry.pack import pack_stored_numbers
from smartcrawl.registry.registry import Registry, open_registry
from smartcrawl.registry.runs.runs import OpenRun, RunRequest
from smartcrawl.registry.runs.shared_reader import SharedReader
from smartcrawl.registry.writer import RegistryWriter
from smartcrawl.rules.model import Outcome
from smartcrawl.rules.reindex import decide
from smartcrawl.rules.run_orders import COMMITS_LOST
from tests.registry.build import NOW

LOST = "the database lost the last commits"


@pytest.fixture
def registry(postgres_url: str) -> Iterator[Registry]:
    registry = open_registry(postgres_url, EMBEDDED)
    registry.database.guard_commits()
    yield registry
    registry.close()


@pytest.fixture
def run(registry: Registry) -> OpenRun:
    return registry.open_run(RunRequest("docs", "site"), NOW)


@pytest.fixture
def writer(registry: Registry, run: OpenRun) -> Iterator[RegistryWriter]:
    writer = RegistryWriter(registry, run, judgement=Judgement())
    writer.submit(batch_of(registry.numbers.draw()), NOW).result()
    yield writer
    writer.close()


def batch_of(*numbers: int) -> Batch:
    """New addresses of these numbers."""
    urls = {number: f"http://a.example/{number}" for number in numbers}
    addresses = [
        Address(number, url_digest(url), url, None, "a.example", 0, None)
        for number, url in urls.items()
    ]
    return Batch(addresses=addresses, reached=dict.fromkeys(numbers, 0))


def elsewhere(url: str, statement: str) -> list[Any]:
    """Do what the older copy has."""
    connection = PostgresConnection(url)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "older",
    [
        "UPDATE writer SET last = last - 1 WHERE last = (SELECT min(last) FROM writer)",
        "UPDATE writer SET last = last - 1 WHERE last = (SELECT max(last) FROM writer)",
        "DELETE FROM writer",
    ],
    ids=["a batch", "a block of numbers", "everything"],
)
def test_commits_that_are_lost_end_all_writes_of_a_process(
    registry: Registry, writer: RegistryWriter, postgres_url: str, older: str
):
    """Whether the batch, the block of numbers that it takes, or both are gone."""
    number = registry.numbers.draw()
    elsewhere(postgres_url, older)

    with pytest.raises(CommitsLostError, match=LOST):
        writer.submit(batch_of(number), NOW).result()
    with pytest.raises(CommitsLostError, match=LOST):
        writer.submit(Batch(addresses=[]), NOW).result()
    with pytest.raises(CommitsLostError, match=LOST):
        registry.add_seeds(1, [1])
    with pytest.raises(CommitsLostError, match=LOST):
        registry.check_place()
    assert elsewhere(postgres_url, "SELECT count(*) FROM record") == [(1,)]


def test_commits_that_are_lost_make_a_run_incomplete(
    registry: Registry, run: OpenRun, writer: RegistryWriter, postgres_url: str
):
    elsewhere(postgres_url, "UPDATE writer SET last = last - 1")
    number = registry.numbers.draw  # of a block that was drawn before
    with pytest.raises(CommitsLostError):
        writer.submit(batch_of(number()), NOW).result()

    result = registry.abandon(run, (COMMITS_LOST,), NOW + 1)

    assert result is not None
    assert (result.complete, result.reasons) == (False, (LOST,))
    with pytest.raises(CommitsLostError):  # only the end of the run is written
        writer.submit(batch_of(number()), NOW).result()
    again = registry.open_run(RunRequest("docs", "site"), NOW + 2)
    assert not again.resumed


@pytest.mark.parametrize(
    "other",
    ["DELETE FROM run_sample; DELETE FROM run", f"UPDATE run SET started_at = {NOW + 5}"],
    ids=["no run", "a run of another process"],
)
def test_commits_that_are_lost_with_the_beginning_of_a_run_leave_other_runs_alone(
    registry: Registry, run: OpenRun, postgres_url: str, other: str
):
    elsewhere(postgres_url, f"DELETE FROM writer; {other}")

    assert registry.abandon(run, (COMMITS_LOST,), NOW) is None
    assert elsewhere(postgres_url, "SELECT 1 FROM run WHERE state <> 0") == []


def test_commits_are_not_missed_where_a_transaction_was_rolled_back(
    registry: Registry, writer: RegistryWriter
):
    for _ in range(2):
        with suppress(ZeroDivisionError), transaction(registry.connection):
            registry.connection.execute("DELETE FROM record")
            raise ZeroDivisionError

    number = registry.numbers.draw()
    assert writer.submit(batch_of(number), NOW).result().stale == 0


def test_commits_that_are_lost_are_told_once_where_no_run_rests_on_them(postgres_url: str):
    """A server goes on with the database that there is."""
    database = PostgresDatabase(postgres_url)
    one, other = database.open(), database.connect()
    for connection in (one, other):
        with transaction(connection):
            connection.execute("SELECT 1")
    elsewhere(postgres_url, "UPDATE writer SET last = 0")

    with pytest.raises(CommitsLostError), transaction(one):
        connection.execute("SELECT 1")
    for connection in (one, other):
        with transaction(connection):
            connection.execute("SELECT 1")
        connection.close()


def test_commits_of_a_connection_that_was_closed_meanwhile_are_not_missed(postgres_url: str):
    """Another thread closes its connection, whose row goes, just when this one begins."""
    database = PostgresDatabase(postgres_url)
    database.guard_commits()
    connection, other = database.open(), database.connect()
    with transaction(other):
        other.execute("SELECT 1")
    known = connection._ledger.known
    before = [known()]
    other.close()
    connection._ledger.known = lambda: before.pop() if before else known()  # type: ignore[method-assign]

    with transaction(connection):
        connection.execute("SELECT 1")
    before.append(known() | {"ids": ["closed"], "numbers": [1]})
    connection.check_commits()
    connection.close()


@pytest.mark.parametrize("asked", ["state", "visits", "cut"])
def test_a_run_that_is_not_there_any_more_is_a_loss(registry: Registry, run: OpenRun, asked: str):
    reader = SharedReader(registry.connection, run.no)
    getattr(reader, asked)()
    gone = SharedReader(registry.connection, run.no + 1)

    with pytest.raises(CommitsLostError, match=f"{LOST}: it does not know run {run.no + 1} any"):
        getattr(gone, asked)()


def test_numbers_of_addresses_are_not_taken_twice(registry: Registry, postgres_url: str):
    numbers = registry.numbers
    last = [numbers.draw() for _ in range(4096)][-1]
    elsewhere(postgres_url, "UPDATE sequence SET value = 0 WHERE name = 'address'")

    with pytest.raises(CommitsLostError, match=LOST):
        numbers.draw()
    assert last == 4096


def test_numbers_of_addresses_are_not_those_of_other_workers(registry: Registry):
    registry.numbers.met(7)  # in the registry, before it went back to where it had none

    with pytest.raises(CommitsLostError, match=LOST):
        registry.numbers.draw()


def test_numbers_that_may_be_drawn_by_others_are_not_given_back(
    registry: Registry, run: OpenRun, postgres_url: str
):
    registry.numbers.draw()
    registry.abandon(run, (COMMITS_LOST,), NOW)

    registry.numbers.give_back()

    assert elsewhere(postgres_url, "SELECT value FROM sequence WHERE name = 'address'") == [(4096,)]


def visit_of(number: int, *targets: int) -> Visit:
    page = Page(no=number, url=f"http://a.example/{number}", host="a.example", depth=0)
    visit = Visit(page, outcome=Outcome.REDIRECT, http_status=301, url=page.url)
    visit.answer.location = "http://a.example/there"
    visit.parsed.targets = pack_stored_numbers(targets)
    visit.verdict = decide(page.state.standing, visit.outcome)
    return visit


@pytest.mark.parametrize(
    ("no", "target"), [(1, 9), (9, 1)], ids=["the target of a link", "the page itself"]
)
def test_a_batch_that_leads_to_an_address_without_record_is_not_stored(
    registry: Registry, writer: RegistryWriter, postgres_url: str, no: int, target: int
):
    """Another worker registered it, in a commit that is lost."""
    batch = batch_of(registry.numbers.draw())
    batch.visits = [visit_of(no, target)]

    with pytest.raises(CommitsLostError, match="1 of the addresses that a batch leads to"):
        writer.submit(batch, NOW).result()

    assert elsewhere(postgres_url, "SELECT count(*) FROM record") == [(1,)]


def test_a_batch_may_lead_to_an_address_that_it_registers(
    registry: Registry, writer: RegistryWriter
):
    number = registry.numbers.draw()
    batch = batch_of(number)
    batch.visits = [visit_of(1, number)]

    assert writer.submit(batch, NOW).result().stale == 0

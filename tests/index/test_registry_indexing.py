"""Registry and an index elsewhere: rehearsed, written, done (ADR 29)."""

from array import array
from collections.abc import Sequence
from contextlib import nullcontext

import pytest

from smartcrawl.index.remote import index_document_chunker
from smartcrawl.index.writing import RemoteIndexing
from smartcrawl.model.batches import Batch
from smartcrawl.model.documents import DEFAULT_CHUNK_SIZE, Chunk, IndexedPage
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.pages import Visit
from smartcrawl.registry.commit.batch import RegistryCommit
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.connection import last_sequence_number
from smartcrawl.registry.index_protocols import Sink
from smartcrawl.registry.removal import purge
from smartcrawl.registry.runs import runs
from smartcrawl.reports.tables import record_table_report
from tests.registry.build import NOW, Desk, Elsewhere

A, B = "http://a.example/a", "http://a.example/b"
CHUNKED = index_document_chunker(DEFAULT_CHUNK_SIZE)


class Shelf(Elsewhere):
    """An index that keeps documents by number, and may refuse some or be away."""

    def __init__(self) -> None:
        self.held: dict[int, str] = {}
        self.groups: dict[int, str] = {}
        self.numbers: list[int] = []
        self.refuses: set[str] = set()
        self.away = False

    def write(self, pages: Sequence[IndexedPage], number: int, now: int) -> list[str | None]:
        if self.away:
            raise SinkError("it is away")
        found: list[str | None] = []
        for page in pages:
            text = " ".join(chunk.text for chunk in page.chunks)
            if page.mark is not None and text in self.refuses:
                found.append("not to its taste")
                continue
            self.numbers.append(number)
            self.held.pop(page.no, None)
            if page.mark is not None:
                self.held[page.no] = text
                self.groups[page.no] = page.content_group
            found.append(None)
        return found


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def remote(shelf: Shelf) -> RemoteIndexing:
    return RemoteIndexing(shelf, CHUNKED)


def write(desk: Desk, remote: RemoteIndexing, *texts: tuple[str, str], number: int = 0) -> int:
    """Write a batch of visits through the protocol; return how many came too late."""
    visits = [desk.visit(url, text) for url, text in texts]
    return _write(desk, remote, visits, number or desk._run.number)


def _write(desk: Desk, remote: RemoteIndexing, visits: list[Visit], number: int) -> int:
    batch = Batch(visits=visits, touched=array("q"))

    def work(sink: Sink, told: int) -> int:
        commit = RegistryCommit(
            desk.connection,
            sink,
            run=desk._run.no,
            source=desk._run.source,
            number=told,
            since=0,
            forced=False,
            judgement=Judgement(),
        )
        return commit.write(batch, NOW)

    return remote.perform(desk.connection, work, now=NOW, number=number)


class Overtaken(Shelf):
    """An index whose documents have a later version, ``newest``."""

    def __init__(self, newest: int) -> None:
        super().__init__()
        self._newest = newest

    def write(self, pages: Sequence[IndexedPage], number: int, now: int) -> list[str | None]:
        return ["" for _ in pages]

    def newest(self) -> int:
        return self._newest


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_version_that_the_registry_never_gave_out_ends_the_writes(desk: Desk, beyond: int):
    desk.open()
    index = Overtaken(last_sequence_number(desk.connection, "number") + beyond)
    expected = pytest.raises(SinkError, match="restored from a backup")

    with expected if beyond > 0 else nullcontext():
        write(desk, RemoteIndexing(index, CHUNKED), (A, "first"))


def opened(desk: Desk) -> list[object]:
    return [no for (no,) in desk.rows("SELECT no FROM state WHERE intent > 0 ORDER BY no")]


def test_pages_are_in_the_index_when_the_registry_says_so(desk, remote, shelf):
    write(desk, remote, (A, "first"), (B, "second"))

    assert sorted(shelf.held.values()) == ["first", "second"]
    assert opened(desk) == []
    assert desk.value("SELECT count(*) FROM record WHERE sunk = content") == 2


@pytest.mark.covers("R0-74")
def test_a_content_group_is_the_same_in_the_index_and_in_the_registry(desk, remote, shelf):
    """That of the canonical address, where the page names one; of all queries of a path."""
    given = {"canonical": "https://a.example/c"}
    urls = (A, f"{A}?page=2", f"{A}?page=3", "http://a.example/c")
    visits = [
        desk.visit(url, f"text {place}", document_fields=given if place == 2 else None)
        for place, url in enumerate(urls)
    ]
    _write(desk, remote, visits, desk._run.number)

    listed = {row["url"]: row["contentGroupId"] for row in record_table_report(desk.connection)}
    held = [shelf.groups[desk.number(url)] for url in urls]
    assert held == [listed[url] for url in urls]
    assert held[0] == held[1] != held[2] == held[3]


WORDS = "SELECT txt, words, totalcount, wordcount FROM urlwords ORDER BY docsize"


@pytest.mark.covers("R4-22")
def test_text_and_words_are_shown_whatever_index_has_the_chunks(desk, remote):
    write(desk, remote, (A, "one two two"), (B, "three three and four"))
    assert desk.rows(WORDS) == [
        ("one two two", "one two", 3, 2),
        ("three three and four", "and four three", 4, 3),
    ]
    assert desk.value("SELECT count(*) FROM chunk") == 0
    desk.seal()

    desk.open()
    desk.reach(A)
    write(desk, remote, (A, "five"))

    assert desk.rows(WORDS)[0] == ("five", "five", 1, 1)


def test_several_chunks_are_one_text_in_either_index(desk, remote):
    """The registry has a text of its own only where the chunks are elsewhere."""
    visit = desk.visit(A, "x")
    visit.parsed.chunks = [Chunk((), "one two"), Chunk(("a",), "two three")]
    _write(desk, remote, [visit], desk._run.number)
    assert desk.rows(WORDS) == [("one two\ntwo three", "one three two", 4, 3)]
    assert desk.rows("SELECT txt FROM content") == [("one two\ntwo three",)]

    desk.write(desk.visit(B, "embedded words"))

    assert desk.rows("SELECT txt FROM content ORDER BY no DESC LIMIT 1") == [(None,)]
    assert ("embedded words",) in desk.rows("SELECT txt FROM urlwords")


def test_what_turns_out_to_be_unwanted_keeps_to_the_number_of_a_run_that_is_alone(
    desk, remote, shelf
):
    """A higher one would win over what the run writes of that page later."""
    write(desk, remote, (A, "first"))
    number, page = desk._run.number, desk.number(A)
    tries = []

    def work(sink: Sink, _: int) -> None:
        tries.append(1)
        if len(tries) == 1:
            sink.again([page])

    remote.perform(desk.connection, work, now=NOW, number=number)

    assert set(shelf.numbers) == {number}
    assert opened(desk) == []


def test_nothing_is_written_where_nothing_changes(desk, remote, shelf):
    write(desk, remote, (A, "first"))
    before = list(shelf.numbers)

    remote.perform(desk.connection, lambda *_: None, now=NOW)

    assert shelf.numbers == before


def test_an_index_that_is_away_leaves_the_registry_as_it_was_but_for_the_mark(desk, remote, shelf):
    write(desk, remote, (A, "first"))
    desk.seal()
    desk.open()
    desk.reach(A)
    before = desk.stored()
    shelf.away = True

    with pytest.raises(SinkError):
        write(desk, remote, (A, "other"))

    after = desk.stored()
    assert opened(desk) == [desk.number(A)]
    assert {name: after[name] for name in after if name != "state"} == {
        name: before[name] for name in before if name != "state"
    }


def test_what_a_crash_left_open_is_written_from_the_registry(desk, remote, shelf):
    write(desk, remote, (A, "first"))
    no = desk.number(A)
    desk.connection.execute("UPDATE state SET intent = 99 WHERE no = ?", (no,))
    shelf.held[no] = "of the process that died"

    assert remote.mend(desk.connection, desk._run.source, number=100, now=NOW) == 1

    assert shelf.held == {no: "first"}
    assert shelf.numbers[-1] == 100
    assert opened(desk) == []


def test_what_is_refused_stays_open_and_is_a_dead_letter(desk, remote, shelf):
    write(desk, remote, (A, "first"), (B, "second"))
    no = desk.number(A)
    desk.connection.execute("UPDATE state SET intent = 99 WHERE no = ?", (no,))
    shelf.refuses = {"first"}

    assert remote.mend(desk.connection, desk._run.source, number=100, now=NOW) == 1

    assert opened(desk) == [no]
    assert desk.rows("SELECT no, reason FROM dead_letter") == [(no, "not to its taste")]
    assert remote.mend(desk.connection, desk._run.source, number=101, now=NOW) == 0


def test_what_another_worker_has_overtaken_is_written_under_a_higher_number(desk, remote, shelf):
    write(desk, remote, (A, "first"))
    no = desk.number(A)
    plain, overtaken = shelf.write, 3

    def late(pages: Sequence[IndexedPage], number: int, now: int) -> list[str | None]:
        nonlocal overtaken
        overtaken -= 1
        if overtaken < 0:
            return plain(pages, number, now)
        shelf.numbers.append(number)
        return [""] * len(pages)

    shelf.write = late
    before = len(shelf.numbers)
    remote.rewrite(desk.connection, [no], now=NOW)

    told = shelf.numbers[before:]
    assert len(told) == 4
    assert sorted(set(told)) == told
    assert opened(desk) == []


def test_a_clone_takes_the_place_of_an_original_that_goes(desk, remote, shelf):
    text = "Every word is here to make the text long enough to be believed as equal. " * 4
    write(desk, remote, (A, text), (B, text))
    first, second = desk.number(A), desk.number(B)
    assert set(shelf.held) == {first}
    targets = [no for (no,) in desk.rows("SELECT no FROM record WHERE entry = 1")]
    assert targets == [first]

    desk.connection.execute(
        "UPDATE state SET gone_count = 9, lost_count = 9 WHERE no = ?", (first,)
    )
    gone = purge.lost_page_rows(desk.connection, desk.closing.policy)
    purge.remove_stored_pages(desk.connection, remote, [t for t in gone if t.no == first], NOW)

    assert set(shelf.held) == {second}
    assert opened(desk) == []


def test_claim_numbers_of_settlement_and_sweep_are_their_own(desk, remote, shelf):
    write(desk, remote, (A, "first"))
    before = desk.value("SELECT value FROM sequence WHERE name = 'number'")
    runs.seal_run_row(desk.connection, desk._run.no, (), NOW)
    runs.settle_sealed_row(desk.connection, desk.ending(), remote)
    runs.sweep_candidate_rows(desk.connection, remote, desk.ending(), lambda _: None)

    assert desk.value("SELECT value FROM sequence WHERE name = 'number'") == before + 2

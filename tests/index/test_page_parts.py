"""Chunks and words that are made where a page is read: those of this process, or none."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_core import to_json

from smartcrawl.extract import html
from smartcrawl.extract import pool as pools
from smartcrawl.extract.chunks import MAX_PLACES, document_chunks
from smartcrawl.extract.formats import FormatFault
from smartcrawl.extract.pool import FormatPool
from smartcrawl.extract.repeated import (
    document_lines,
    document_without,
    marks_as_text,
    repeated_marks,
)
from smartcrawl.extract.wire import (
    MAX_PARTS,
    AnswerError,
    PageTask,
    ReadDocument,
    Selected,
    document_parts_from_wire,
    wire_document,
    wire_document_with_parts,
)
from smartcrawl.index.embedded.postgres import PostgresIndex
from smartcrawl.index.embedded.sqlite import EmbeddedIndex
from smartcrawl.index.made_chunks import FTS5, NO_WORDS, TSVECTOR, MadeChunks
from smartcrawl.index.page_parts import ChunkParts, made_chunk_parts
from smartcrawl.model.documents import Chunk, ChunkPlace, ChunkSize, Document, Section
from smartcrawl.registry.index_protocols import IndexedText
from smartcrawl.rules.repeated import RepeatedLines

SIZE = ChunkSize(300)
PAGE = """<!DOCTYPE html><html lang="de"><title>Lampen 'auf' Deutsch</title><main>
<h1 id="häuser">Häuser und Lampen</h1><p>Die Häuser sind \\ hell. {long}</p>
<figure><img src="a.png" alt="ein Bild"><figcaption>Der Docht</figcaption></figure>
<dl><dt id="lamp.burn" class="sig">lamp.burn(oil)<dd>Burns. 東京都</dl>
<table><tr><th>Öl<th>Preis<tr><td>Raps<td>3</table></main>"""
TASK = PageTask(PAGE.format(long="Ein Satz. " * 90).encode(), "text/html", "http://a.example/")
INDEXES = [(FTS5, EmbeddedIndex), (TSVECTOR, PostgresIndex)]


def document() -> Document:
    return html.parse_html(TASK.body, content_type=TASK.content_type, url=TASK.url)


def made(words: str) -> tuple[Document, MadeChunks]:
    return document(), made_by(ChunkParts(words, SIZE, {}), document())


def made_by(parts: ChunkParts, page: Document) -> MadeChunks:
    return parts.parse(made_chunk_parts(page, TASK, parts.order), page, TASK.url)


def plain(rows: Any) -> list[Any]:
    """Rows, whether their words are a list or a tuple."""
    return [(*row[:-1], tuple(row[-1])) for row in rows]


@pytest.mark.parametrize(("words", "index"), INDEXES)
def test_an_index_stores_what_it_would_make_itself(words, index):
    page, chunks = made(words)
    own = document_chunks(page, SIZE)
    assert chunks == own
    assert len(own) > 3
    assert any(chunk.pictures for chunk in own)
    assert any(place.defines for chunk in own for place in chunk.places)

    stored = index(None).analyzed(IndexedText(page.title, chunks, page.language))

    expected = index(None).analyzed(IndexedText(page.title, own, page.language))
    assert list(stored) == list(expected)
    assert plain(stored.rows) == plain(expected.rows)


@pytest.mark.parametrize(("words", "index"), INDEXES)
@pytest.mark.parametrize("other", [("Another title", "de"), ("Lampen 'auf' Deutsch", "en")])
def test_words_of_another_title_or_language_are_made_anew(words, index, other):
    _, chunks = made(words)
    title, language = other

    stored = index(None).analyzed(IndexedText(title, chunks, language))

    expected = index(None).analyzed(IndexedText(title, list(chunks), language))
    assert plain(stored.rows) == plain(expected.rows)


def test_an_index_elsewhere_gets_chunks_alone():
    page, chunks = made(NO_WORDS)

    assert chunks == document_chunks(page, SIZE)
    assert [(one.names, one.words) for one in chunks.made] == [("", ())] * len(chunks)


@pytest.mark.parametrize(("words", "index"), INDEXES)
def test_a_page_that_is_stored_gets_chunks_alone(words, index):
    """It keeps most of them, with their words; the index makes those of the others."""
    parts, page = ChunkParts(words, SIZE, {}), document()
    made = made_chunk_parts(page, TASK._replace(is_new=False), parts.order)

    chunks = parts.parse(made, page, TASK.url)

    assert chunks == document_chunks(page, SIZE)
    assert not any(one.words for one in chunks.made)
    stored = index(None).analyzed(IndexedText(page.title, chunks, page.language))
    expected = index(None).analyzed(IndexedText(page.title, list(chunks), page.language))
    assert plain(stored.rows) == plain(expected.rows)


def sent_parts(
    words: str = FTS5, made: tuple[str, ...] = ("a", "b", "c", "d"), **changed: Any
) -> bytes:
    chunk = Chunk((), "text", 1, places=(ChunkPlace(0, "id"),))._replace(**changed)
    return to_json((None, [(chunk, "names", made)]))


def test_an_answer_of_the_right_form_is_taken():
    assert ChunkParts(FTS5, SIZE, {}).parse(sent_parts(), Document(), TASK.url) == [
        Chunk((), "text", 1, places=(ChunkPlace(0, "id"),))
    ]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense",
        b"{}",
        b"[" * 100_000,
        sent_parts(made=("a", "b", "c")),
        to_json((None, [(Chunk((), "a"), "", tuple("abcd")), (Chunk((), "b"), "", ())])),
        sent_parts(text="a\0b"),
        sent_parts(level=7),
        sent_parts(level=-1),
        sent_parts(level="1"),
        sent_parts(repeated=-1),
        sent_parts(repeated=5),
        sent_parts(types=("code", "picture")),
        sent_parts(places=(ChunkPlace(5, "behind the text"),)),
        sent_parts(places=(ChunkPlace(-1, "id"),)),
        sent_parts(places=(ChunkPlace(0, "no id"),)),
        sent_parts(places=(ChunkPlace(0, "i" * 301),)),
        sent_parts(places=(ChunkPlace(0, "id"),) * (MAX_PLACES + 1)),
    ],
)
def test_any_other_answer_is_none(answer):
    with pytest.raises(AnswerError):
        ChunkParts(FTS5, SIZE, {}).parse(answer, Document(), TASK.url)


@pytest.mark.parametrize(
    "vector",
    ["a:1", "'a'", "'a':1C", "'a':1'b':2", "'a b':1", "'a\\b':1", "'a''b':1", "'a':1234567"],
)
def test_no_other_words_reach_postgresql(vector):
    parts = ChunkParts(TSVECTOR, SIZE, {})
    assert parts.parse(sent_parts(made=("'a':1A,5 'b':2B",)), Document(), TASK.url)

    with pytest.raises(AnswerError):
        parts.parse(sent_parts(made=(vector,)), Document(), TASK.url)


def test_vectors_are_checked_in_linear_time():
    words = " ".join(f"'w{n}':{n % 9},{n % 7}A" for n in range(50_000)) + " '"
    before = time.perf_counter()

    with pytest.raises(AnswerError):
        ChunkParts(TSVECTOR, SIZE, {}).parse(sent_parts(made=(words,)), Document(), TASK.url)

    assert time.perf_counter() - before < 2


# Lines that repeat on the host


def lines_of(page: Document, *at: int) -> RepeatedLines:
    """A list with some of the lines of a page, by their number."""
    lines = document_lines(page)
    return RepeatedLines(places=frozenset((lines[n].digest, n) for n in at))


def test_repeated_lines_are_left_out_where_the_page_is_read():
    page = document()
    lines = lines_of(page, 0, 1)
    marked = marks_as_text(repeated_marks(page, lines))
    assert marked

    chunks = made_by(ChunkParts(FTS5, SIZE, {"a.example": lines}), page)

    assert (chunks.marked, chunks.host) == (marked, "a.example")
    assert chunks == document_chunks(document_without(page, marked), SIZE)
    assert chunks != document_chunks(page, SIZE)


def test_a_page_of_another_host_is_marked_by_no_list():
    page = document()

    chunks = made_by(ChunkParts(FTS5, SIZE, {"b.example": lines_of(page, 0, 1)}), page)

    assert chunks.marked is None
    assert chunks == document_chunks(page, SIZE)


def test_very_long_lists_are_not_sent():
    many = RepeatedLines(places=frozenset((n.to_bytes(8, "big"), n) for n in range(20_000)))

    parts = ChunkParts(FTS5, SIZE, {"a.example": many})

    assert parts.order == ChunkParts(FTS5, SIZE, {}).order


@pytest.mark.parametrize(
    "marks",
    [
        [(9, 0, 1)],
        [(-1, 0, 1)],
        [(0, 0, 1_000_000)],
        [(0, 3, 2)],
        [(0, 1, -1)],
        [(1, 0, 3), (0, 0, 3)],
        [(0, 0, 3), (0, 2, 4)],
        [(0, 0)],
        [("0", 0, 3)],
    ],
)
def test_marks_are_parts_of_the_text(marks):
    page = Document(sections=(Section(1, "a", "some text"), Section(2, "b", "more text")))
    parts = ChunkParts(FTS5, SIZE, {})
    sound = to_json(([(0, 0, -1), (0, 0, 3), (0, 3, 9), (1, 2, 3)], []))
    assert parts.parse(sound, page, TASK.url).marked == "[[0,0,-1],[0,0,3],[0,3,9],[1,2,3]]"

    with pytest.raises(AnswerError):
        parts.parse(to_json((marks, [])), page, TASK.url)


# On the way


def read(task: PageTask, maker: ChunkParts | None) -> Any:
    async def once() -> Any:
        pool = FormatPool(1, pages_only=True, maker=maker)
        try:
            return (await pool.read_pages([task], Selected()))[0]
        finally:
            await pool.close()

    return asyncio.run(once())


def test_a_process_makes_the_chunks_of_the_page_that_it_reads():
    found = read(TASK, ChunkParts(FTS5, SIZE, {}))

    assert isinstance(found, ReadDocument)
    page, chunks = made(FTS5)
    assert wire_document(found).startswith(wire_document(page)[:-1])
    assert found.parts == chunks
    assert found.parts.made == chunks.made


#: A process that was taken over, and has some answers, whatever it is asked.
TAKEN_OVER = """
import sys
def frame(data): sys.stdout.buffer.write(len(data).to_bytes(4, "big") + data)
frame(b"[]")
sys.stdout.buffer.flush()
sys.stdin.buffer.read(4)
for answer in {!r}: frame(answer)
sys.stdout.buffer.flush()
sys.stdin.buffer.read()
"""


@pytest.mark.parametrize(
    "answer",
    [
        lambda good: b"P" + (1).to_bytes(4, "big") + b"[" + good,
        lambda good: b"P" + (9_999_999).to_bytes(4, "big") + b"[]" + good,
        lambda good: b"P" + (MAX_PARTS + 1).to_bytes(4, "big") + b"x" * (MAX_PARTS + 1) + good,
        lambda good: b"P",
        lambda good: b"P" + (2).to_bytes(4, "big") + b"[]" + b"P" + (2).to_bytes(4, "big") + good,
    ],
)
def test_a_process_with_other_parts_is_ended(answer: Callable[[bytes], bytes], monkeypatch):
    sent = answer(wire_document(document()))
    if len(sent) > MAX_PARTS:
        with pytest.raises(AnswerError):
            document_parts_from_wire(sent)
        return
    monkeypatch.setattr(pools, "_CHILD", ("-c", TAKEN_OVER.format([sent]), "-"))
    parts = ChunkParts(FTS5, SIZE, {})

    found = read(TASK, parts)

    assert found.kind is FormatFault.CRASHED


def test_parts_that_nothing_asked_for_end_the_process(monkeypatch):
    sent = wire_document_with_parts(document(), b"[]")
    monkeypatch.setattr(pools, "_CHILD", ("-c", TAKEN_OVER.format([sent])))

    assert read(TASK, None).kind is FormatFault.CRASHED


def test_no_answer_after_a_wrong_one_counts(monkeypatch):
    """Another process reads the page after it, though an answer for that page had come."""
    first, late = (wire_document(Document(title, content_type="text/html")) for title in "ab")
    monkeypatch.setattr(pools, "_CHILD", ("-c", TAKEN_OVER.format([first, b"D[", late])))

    async def work() -> list[Any]:
        pool = FormatPool(1, pages_only=True)
        try:
            found = await pool.read_pages([TASK] * 3, Selected())
            assert [process.alive for process in pool._idle] == [True]
            return found
        finally:
            await pool.close()

    found = asyncio.run(work())

    assert (found[0].title, found[1].kind, found[2].title) == ("a", FormatFault.CRASHED, "a")


def test_parts_that_are_too_long_stay_away():
    page = document()

    assert wire_document_with_parts(page, b"x" * (MAX_PARTS + 1)) == wire_document(page)
    assert document_parts_from_wire(wire_document_with_parts(page, b"[]")) == (
        wire_document(page),
        b"[]",
    )


@pytest.mark.long
def test_long_section_is_read_by_a_process_that_is_confined():
    """What cuts it is loaded before the process gives up its right to open files."""
    task = PageTask(b"<p>" + b"word " * 3000, "text/html", "http://a.example/")

    async def read() -> Any:
        pool = FormatPool(1, pages_only=True, maker=ChunkParts(FTS5, SIZE, {}))
        try:
            return await pool.read_pages([task], Selected())
        finally:
            await pool.close()

    [found] = asyncio.run(read())
    assert isinstance(found, ReadDocument), found

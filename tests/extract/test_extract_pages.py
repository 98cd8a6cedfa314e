"""Pages that other processes read are what they are here, and none of them takes others along."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

from smartcrawl.extract import html
from smartcrawl.extract import pool as pools
from smartcrawl.extract.formats import FormatError, FormatFault
from smartcrawl.extract.pool import PAGES, FormatPool, ParsingPortions, _fail
from smartcrawl.extract.wire import PageTask, Selected
from smartcrawl.model.documents import Document

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no signals, no /proc")

URL = "http://site.example/dir/page"
TEXT = "Der Crawler besucht jede Seite, die er kennt, und fragt, ob sie sich geändert hat. " * 3
BODIES = {
    "page": f"""<!doctype html><html lang=de><head><title>T</title><meta name=description content=d>
        <meta name=keywords content="k, l"><link rel=canonical href=/c><base href=http://other.example/></head><body><nav>menu</nav>
        <main><h1>Title</h1><p>{TEXT}</p><p class="x y">dropped <a href="/a?b=c#d">a</a></p>
        <img src=i.png alt=image width=3></main></body></html>""".encode(),
    "nothing": b"",
    "text": b"just text",
    "latin": "<p>Größe und Maß</p>".encode("latin-1"),
    "guessed": ("<p>" + "été, façon, où " * 40).encode("cp1252"),
    "wide": "<title>ä</title><p>wide".encode("utf-16"),
    "long": b"<title>" + b"t" * 20_000 + b"</title><meta name=description content=" + b"d" * 20_000,
    "nul": b"<title>a\0b</title><p>x\0y&#0;z<pre>\1\2\3</pre><img alt='p\0q' src='a\0b.png'>",
    "surrogate": b"<title>&#xD800;</title><p>x&#xDFFF;y<a href='/x&#xd800;y'>l</a>",
    "deep": b"<div class=x>" * 3_000 + b"deep <a href=/b>b</a>",
    "broken": b"<p <b>&nosuch; <a href='http://u:p@h.example:80/a b'>x</a><a href='http://[::1'>y",
}  # fmt: skip


def tasks(**options: bool) -> list[PageTask]:
    return [PageTask(body, "text/html", URL, **options) for body in BODIES.values()]


def read(
    pool: FormatPool, pages: list[PageTask], selected: Selected | None = None
) -> list[Document | FormatError]:
    return asyncio.run(pool.read_pages(pages, selected or Selected()))


@contextlib.contextmanager
def pool_of(**limits: Any) -> Iterator[FormatPool]:
    opened = FormatPool(pages_only=True, **limits)
    try:
        yield opened
    finally:
        asyncio.run(opened.close())


@pytest.fixture
def pool() -> Iterator[FormatPool]:
    with pool_of(workers=1) as opened:
        yield opened


def page(text: str) -> PageTask:
    return PageTask(f"<p>{text}</p>".encode(), "text/html", URL)


def kinds(found: list[Document | FormatError]) -> list[str]:
    return [one.text if isinstance(one, Document) else one.kind for one in found]


# What is read


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    "selected",
    [Selected(), Selected(("main",), ("p.x",)), Selected((), (".x",)), Selected((), ("p > a",))],
    ids=["all", "kept", "dropped", "dropped within"],
)
@pytest.mark.covers("M-15")
def test_pages_are_what_they_are_without_a_process(pool, selected):
    here = [
        html.parse_html(
            body, content_type="text/html", url=URL, keep=selected.keep, drop=selected.drop
        )
        for body in BODIES.values()
    ]

    assert read(pool, tasks(), selected) == here


def test_links_and_language_are_left_out_where_they_are_known(pool):
    [whole, *_], [found, *_] = read(pool, tasks()), read(pool, tasks(links=False, detect=False))

    assert (len(whole.links), found.links) == (2, ())
    assert (whole.language, found.language) == ("de", "de")
    assert found.sections == whole.sections
    english = PageTask(BODIES["page"].replace(b"lang=de", b"lang=en-GB"), "", URL, detect=False)
    assert read(pool, [english])[0].language == "en"


def test_pool_of_documents_reads_pages_too():
    pool = FormatPool(workers=1)
    table = {"media_type": "text/csv", "content_type": "", "url": URL}

    async def both() -> list[str]:
        try:
            document = await pool.read(b"a,b", **table)
            found = await pool.read_pages([page("c")], Selected())
            return [document.text, *kinds(found)]
        finally:
            await pool.close()

    assert asyncio.run(both()) == ["a\tb", "c"]


def test_process_is_replaced_after_many_pages(pool, monkeypatch):
    monkeypatch.setattr(pools, "MAX_DOCUMENTS", 2)
    some = [page(str(n)) for n in range(PAGES)]

    assert kinds(read(pool, some)) == [str(n) for n in range(PAGES)]
    assert len(pool._idle) == 1
    read(pool, some)
    assert pool._idle == []


# What goes wrong

READER = """
import ctypes, os, sys, time
sys.argv = ['-', *sys.argv[1:]]
from smartcrawl.extract import child, html
parse = html.parse_html
def reading(body, **told):
    {}
    return parse(body, **told)
child._load_pages()
child._load_pages = lambda: None
html.parse_html = reading
child.extraction_child_main()
"""


def reader(monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    """Have processes do something over the body of a page before they read it."""
    monkeypatch.setattr(pools, "_CHILD", ("-c", READER.format(action)))


def test_page_that_ends_its_process_is_the_only_one_lost(pool, monkeypatch):
    reader(monkeypatch, "b'crash' in body and ctypes.string_at(0)")
    texts = ["first", "crash", "second", "third", "crash", "crash", "last"]

    found = read(pool, [page(text) for text in texts])

    lost = FormatFault.CRASHED
    assert kinds(found) == ["first", lost, "second", "third", lost, lost, "last"]
    assert "SIGSEGV" in str(found[1])


def test_page_whose_reader_fails_costs_no_process(pool, monkeypatch):
    reader(monkeypatch, "assert b'fail' not in body, 'a bug'")

    found = read(pool, [page("first"), page("fail"), page("last")])

    assert kinds(found) == ["first", FormatFault.CRASHED, "last"]
    assert "its reader failed: AssertionError: a bug" in str(found[1])
    assert len(pool._idle) == 1


def test_page_that_takes_too_much_memory_is_the_only_one_lost(monkeypatch):
    reader(monkeypatch, "b'much' in body and bytearray(1 << 30)")
    with pool_of(workers=1) as pool:
        found = read(pool, [page("first"), page("much"), page("last")])

        assert kinds(found) == ["first", FormatFault.MEMORY, "last"]


def test_page_that_takes_too_long_is_the_only_one_lost(monkeypatch):
    reader(monkeypatch, "b'slow' in body and time.sleep(60)")
    with pool_of(workers=1, wall_seconds=2) as pool:
        found = read(pool, [page("first"), page("slow"), page("last")])

        assert kinds(found) == ["first", FormatFault.TIME_OUT, "last"]


def test_answers_of_a_process_that_was_taken_over_are_no_pages(pool, monkeypatch):
    reader(monkeypatch, "b'forge' in body and os.write(1, b'\\0\\0\\0\\4Dnot')")

    found = read(pool, [page("first"), page("forge"), page("last")])

    assert kinds(found) == ["first", FormatFault.CRASHED, "last"]


def test_where_no_process_starts_every_page_is_an_error(pool, monkeypatch):
    monkeypatch.setattr(pools, "_CHILD", ("-c", "raise SystemExit('no such module')"))

    found = read(pool, [page("a"), page("b")])

    assert kinds(found) == [FormatFault.CRASHED] * 2
    assert all("does not start: no such module" in str(error) for error in found)


# Many at once


def test_every_page_gets_its_own_document_however_many_wait():
    async def at_once() -> list[Document]:
        portions = ParsingPortions(FormatPool(workers=2, pages_only=True), Selected())
        try:
            return await asyncio.gather(*(portions.read(page(f"page {n}")) for n in range(300)))
        finally:
            await portions.close()

    assert [found.text for found in asyncio.run(at_once())] == [f"page {n}" for n in range(300)]


@pytest.mark.parametrize(("workers", "order"), [(1, ["long", "short"]), (2, ["short", "long"])])
def test_one_process_gives_pages_in_their_order(workers, order, monkeypatch):
    """Though a second thread parses its next answers; several give each page as it is ready."""

    async def in_order() -> list[str]:
        pool, found, is_short_read = FormatPool(workers, pages_only=True), [], asyncio.Event()

        async def read_pages(tasks: list[PageTask], _: Selected) -> list[Document]:
            if b"long" in tasks[0].body:
                await is_short_read.wait()
                await asyncio.sleep(0.05)
            is_short_read.set()
            return [Document() for _ in tasks]

        async def one(text: str) -> None:
            await portions.read(page(text))
            found.append(text)

        monkeypatch.setattr(pool, "read_pages", read_pages)
        portions = ParsingPortions(pool, Selected())
        try:
            await asyncio.gather(one("long"), one("short"))
        finally:
            await portions.close()
        return found

    assert asyncio.run(in_order()) == order


def test_page_that_nobody_waits_for_any_more_takes_nothing_from_others():
    async def given_up() -> list[str]:
        portions = ParsingPortions(FormatPool(workers=1, pages_only=True), Selected())
        try:
            reading = [asyncio.ensure_future(portions.read(page(str(n)))) for n in range(60)]
            await asyncio.sleep(0)
            for task in reading[::2]:
                task.cancel()
            found = await asyncio.gather(*reading, return_exceptions=True)
            return [one.text for one in found if isinstance(one, Document)]
        finally:
            await portions.close()

    assert asyncio.run(given_up()) == [str(n) for n in range(1, 60, 2)]


def test_closing_gives_up_whatever_is_being_read(monkeypatch):
    reader(monkeypatch, "time.sleep(60)")

    async def closed() -> list[object]:
        portions = ParsingPortions(FormatPool(workers=1, pages_only=True), Selected())
        reading = [asyncio.ensure_future(portions.read(page("x"))) for _ in range(40)]
        await asyncio.sleep(0.5)
        await portions.close()
        return await asyncio.gather(*reading, return_exceptions=True)

    found = asyncio.run(closed())

    assert all(isinstance(one, asyncio.CancelledError | FormatError) for one in found)


# The language


def test_language_is_told_anew_only_where_other_text_tells_it():
    body = BODIES["page"]
    whole = html.parse_html(body, content_type="", url=URL)
    read_again = html.parse_html(body, content_type="", url=URL, detect=False)
    known = html.DetectedLanguage(html.language_sample_digest(whole), "xx")

    assert html.with_detected_language(read_again, known).language == "xx"
    assert html.with_detected_language(read_again, known._replace(sample=b"")) == whole


@pytest.mark.covers("R0-76")
@pytest.mark.parametrize(
    ("body", "language"),
    [
        (b"<html lang=en><p>few words", "xx"),
        (b"<html lang=EN-us><title>Another title</title><p>few words<!-- noise -->", "xx"),
        (b"<html lang=fr><p>few words", "fr"),
        (b"<p>few words", ""),
        (b"<html lang=en><p>other words", "en"),
    ],
)
def test_language_is_kept_while_text_and_declaration_are_the_same(body: bytes, language: str):
    first = html.parse_html(b"<html lang=en><p>few words", content_type="", url=URL)
    stored = html.DetectedLanguage(html.language_sample_digest(first), "xx")
    read_again = html.parse_html(body, content_type="", url=URL, detect=False)

    assert html.with_detected_language(read_again, stored).language == language


def test_pages_of_a_portion_that_is_given_up_are_cancelled_and_those_of_a_broken_one_fail():
    async def ended(error: BaseException) -> list[asyncio.Future[Document]]:
        futures = [asyncio.get_running_loop().create_future() for _ in range(2)]
        futures[1].cancel()
        task: Any = None
        _fail([(task, future) for future in futures], error)
        return futures

    given_up = asyncio.run(ended(asyncio.CancelledError()))
    assert [future.cancelled() for future in given_up] == [True, True]
    broken, left = asyncio.run(ended(OSError("no process")))
    assert left.cancelled()
    assert str(broken.exception()) == "no process"

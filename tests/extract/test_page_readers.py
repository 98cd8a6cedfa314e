"""Downloaded pages that other processes read: which of them, and what comes of a bad one."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.extract import html
from smartcrawl.extract import pool as pools
from smartcrawl.extract.formats import FormatError, FormatFault
from smartcrawl.extract.page_readers import PageReaders
from smartcrawl.extract.pool import FormatPool
from smartcrawl.extract.wire import Selected
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import GivenUpError
from tests.extract.test_extract_pages import page, reader

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no signals, no /proc")

Work = Callable[[PageReaders], Awaitable[Any]]


def with_readers(
    work: Work,
    *,
    first: int | None = 0,
    workers: int = 1,
    is_stopping: Callable[[], bool] = lambda: False,
    **limits: Any,
) -> Any:
    """The result of `work` with readers, all of which have ended."""

    async def run() -> Any:
        pool = partial(FormatPool, workers, pages_only=True, **limits)
        readers = PageReaders(pool, Selected(), first=first, is_stopping=is_stopping)
        try:
            return await work(readers)
        finally:
            await readers.close()

    return asyncio.run(run())


def texts(*words: str) -> Work:
    """Have pages with these texts read, all at the same time: their texts, or their errors."""

    async def read(readers: PageReaders) -> list[str]:
        found = await asyncio.gather(
            *(readers.read_downloaded(page(word)) for word in words), return_exceptions=True
        )
        for one in found:
            assert isinstance(one, Document | FormatError | GivenUpError), one
        return [
            one.text if isinstance(one, Document) else getattr(one, "kind", "given up")
            for one in found
        ]

    return read


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies that this process reads itself."""
    found: list[bytes] = []
    real = html.parse_html

    def noted(body: bytes, **told: Any) -> Document:
        found.append(body)
        return real(body, **told)

    monkeypatch.setattr(html, "parse_html", noted)
    return found


def test_pages_are_read_elsewhere_from_the_first_on(here):
    assert with_readers(texts("a", "b", "c"), workers=2) == ["a", "b", "c"]
    assert here == []


def test_small_sites_start_no_process(here, monkeypatch):
    monkeypatch.setattr(pools, "_CHILD", ("-c", "raise SystemExit('started')"))

    assert with_readers(texts("a", "b"), first=3) == ["a", "b"]
    assert with_readers(texts("c"), first=None) == ["c"]
    assert len(here) == 3


def test_this_process_reads_on_while_the_others_start(here):
    async def work(readers: PageReaders) -> None:
        for word in ("a", "b", "c"):
            await readers.read_downloaded(page(word))
        assert len(here) == 3  # the processes were started by the second
        async with asyncio.timeout(60):
            while len(here) == (before := len(here)):
                await asyncio.sleep(0.01)
                await readers.read_downloaded(page("more"))
                if len(here) == before:
                    return

    with_readers(work, first=2)


# Bad pages and bad places


def test_page_whose_process_dies_is_read_once_more(monkeypatch, caplog):
    reader(monkeypatch, "b'bad' in body and ctypes.string_at(0)")
    caplog.set_level(logging.DEBUG)

    found = with_readers(texts("first", "bad", "second", "third"))

    assert found == ["first", FormatFault.CRASHED, "second", "third"]
    assert caplog.text.count("no answer of the process") == 2


def test_page_whose_process_is_killed_by_chance_is_read(monkeypatch):
    starts: list[int] = []
    real = pools.ParserProcess.ask

    def killed(self: Any, *told: Any, **more: Any) -> Any:
        starts.append(1)
        if len(starts) == 2:
            self._popen.kill()
        return real(self, *told, **more)

    monkeypatch.setattr(pools.ParserProcess, "ask", killed)

    async def work(readers: PageReaders) -> list[str]:
        return [(await readers.read_downloaded(page(word))).text for word in ("a", "b", "c")]

    assert with_readers(work) == ["a", "b", "c"]
    assert len(starts) == 4


def test_page_that_takes_too_long_fails_and_is_not_read_again(monkeypatch):
    reader(monkeypatch, "b'slow' in body and time.sleep(60)")
    began = time.monotonic()

    found = with_readers(texts("first", "slow", "last"), wall_seconds=2)

    assert found == ["first", FormatFault.TIME_OUT, "last"]
    assert time.monotonic() - began < 30


def test_page_that_answers_with_too_much_fails(monkeypatch):
    monkeypatch.setattr(pools, "MAX_ANSWER", 20_000)
    reader(monkeypatch, "body = body + b'x' * 30_000 if b'large' in body else body")

    assert with_readers(texts("first", "large", "last")) == ["first", FormatFault.CRASHED, "last"]


def test_where_the_system_starts_no_process_the_crawling_process_reads(monkeypatch, caplog, here):
    def refused(*_: Any, **__: Any) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(pools.subprocess, "Popen", refused)

    assert with_readers(texts("a", "b"), first=0) == ["a", "b"]
    assert "Resource temporarily unavailable" in caplog.text
    assert len(here) == 2


def test_neither_fork_nor_shared_memory_is_needed(monkeypatch, here):
    """As where fork is forbidden, and where there is no /dev/shm."""

    def refused(*_: Any) -> None:
        raise PermissionError("fork is forbidden")

    for name in ("fork", "forkpty"):
        monkeypatch.setattr(os, name, refused)
    maps: list[str] = []

    async def work(readers: PageReaders) -> list[str]:
        found = await texts("a", "b", "c")(readers)
        assert readers._pool is not None
        pids = [reader._popen.pid for reader in readers._pool._idle]
        maps.extend(Path(f"/proc/{pid}/maps").read_text() for pid in (*pids, os.getpid()))
        return found

    assert with_readers(work, workers=2) == ["a", "b", "c"]
    assert here == []
    assert len(maps) > 1
    assert not [line for one in maps for line in one.splitlines() if "/dev/shm" in line]


def test_where_this_process_has_no_thread_left_it_reads_itself(monkeypatch, caplog, here):
    def refused(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pools, "Thread", refused)

    assert with_readers(texts("a", "b")) == ["a", "b"]
    assert caplog.text.count("can't start new thread") == 1
    assert len(here) == 2


def test_where_no_process_starts_the_crawling_process_reads_and_says_so_once(
    monkeypatch, caplog, here
):
    monkeypatch.setattr(pools, "_CHILD", ("-c", "raise SystemExit('no such module')"))
    caplog.set_level(logging.WARNING)

    assert with_readers(texts("a", "b", "c")) == ["a", "b", "c"]
    assert len(here) == 3
    [line] = [record.getMessage() for record in caplog.records]
    assert "no such module" in line
    assert "READ_PROCESSES=0" in line


@pytest.mark.parametrize("words", [("slow",), ("a", "slow", *"bcdefgh")], ids=["one", "many"])
def test_stop_waits_a_second_at_most(monkeypatch, words):
    reader(monkeypatch, "b'slow' in body and time.sleep(60)")
    stopping = False

    async def work(readers: PageReaders) -> tuple[list[str], float]:
        nonlocal stopping
        await readers.read_downloaded(page("ready"))
        reading = asyncio.ensure_future(texts(*words)(readers))
        await asyncio.sleep(0.5)
        began, stopping = time.monotonic(), True
        return await reading, time.monotonic() - began

    found, waited = with_readers(work, is_stopping=lambda: stopping)
    assert "given up" in found
    assert set(found) <= {*words, "given up"} - {"slow"}
    assert waited < 1

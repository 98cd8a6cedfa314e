"""Files that are given to a store at the same time, against those given one after the other."""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from smartcrawl.index.vectorstore import push
from smartcrawl.index.vectorstore.ports import Pushed
from tests.index.vectorstore.pushed_place import Place, place, running, server
from tests.index.vectorstore.store_server import STORE, Asked
from tests.openai_server import Reply, error

__all__ = ["place", "running", "server"]  # fixtures

_PAGES = 12


class Crowd:
    """Counts the requests of a kind that are under way; each waits a moment for others."""

    def __init__(self, act: str) -> None:
        self.act = act
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> None:
        if asked.act == self.act:
            with self._lock:
                self._now += 1
                self.most = max(self.most, self._now)
            time.sleep(0.05)
            with self._lock:
                self._now -= 1


@pytest.fixture
def pages(place: Place) -> Place:
    """A source with twelve pages."""
    for n in range(5, _PAGES):
        place.put(f"{n}", f"text of page {n}")
    return place


@pytest.mark.long(but=2)
@pytest.mark.parametrize("act", ["upload", "attach"])
@pytest.mark.parametrize("most", [1, 3])
def test_as_many_requests_are_made_at_the_same_time_as_are_set(pages: Place, most: int, act: str):
    pages.concurrency = most
    crowd = Crowd(act)
    pages.server.before = crowd

    assert pages.push().is_whole

    assert crowd.most == most
    pages.check()


def test_requests_that_are_refused_together_wait_once(pages: Place):
    """A server that asks all of them for 7 seconds is left alone for 7 seconds, not for 28."""
    together, places, first = threading.Barrier(4), iter(range(4)), set[int]()

    def meet(asked: Asked) -> None:
        if asked.act == "upload" and next(places, None) is not None:
            first.add(id(asked))
            together.wait(timeout=30)

    def busy(asked: Asked) -> Reply | None:
        if id(asked) in first:  # a repeated upload may come before the last of them
            return error("too many requests", 429, Retry_After="7")
        return None

    pages.server.before, pages.server.answer = meet, busy

    assert pages.push().is_whole

    assert pages.clock.waits.count(7.0) == 1
    pages.check()


def test_a_busy_server_is_waited_for_until_it_takes_files(pages: Place):
    pages.server.answer = lambda asked: (
        error("too many requests", 429, Retry_After="7")
        if asked.act in ("upload", "attach") and pages.clock.now < 20
        else None
    )

    assert pages.push().is_whole

    assert pages.clock.now >= 20
    assert pages.clock.now < 60
    pages.check()


def test_what_is_uploaded_when_the_push_ends_is_noted(pages: Place):
    """The ids of uploads that were under way are known: the next push looks for none of them."""
    pages.push(is_ending=lambda: pages.server.acts.count("upload") >= 6)
    uploaded = set(pages.server.uploads)
    rows = pages.rows()
    assert {file for _, status, file in rows if file} == uploaded
    assert [status for _, status, file in rows if not file] == []
    pages.server.asked.clear()

    pushed = pages.push()

    assert pushed.is_whole
    assert pushed.uploaded == _PAGES - len(uploaded)
    assert "uploads" not in pages.server.acts
    pages.check()


def test_an_upload_that_was_not_sent_when_the_push_ends_is_not_looked_for(
    pages: Place, monkeypatch: pytest.MonkeyPatch
):
    """Three uploads have begun when the push ends; two of them wait for the only thread."""
    monkeypatch.setattr(push, "ThreadPoolExecutor", lambda most: ThreadPoolExecutor(1))
    ending = threading.Event()

    def is_ending() -> bool:
        if len(pages.rows()) == 3:
            ending.set()
        return ending.is_set()

    def wait(asked: Asked) -> None:
        if asked.act == "upload":
            ending.wait(30)
            time.sleep(0.2)  # the push withdraws the others meanwhile

    pages.server.before = wait
    pages.push(is_ending=is_ending)
    uploaded = set(pages.server.uploads)
    assert 1 <= len(uploaded) < 3
    assert {file for _, _, file in pages.rows()} == uploaded
    pages.server.before = lambda asked: None
    pages.server.asked.clear()

    assert pages.push().is_whole

    assert "uploads" not in pages.server.acts
    pages.check()


def test_a_refused_page_does_not_keep_the_others(pages: Place):
    pages.server.fails = lambda text: "no text" if "page 7" in text else ""
    refuse = iter([True])
    pages.server.answer = lambda asked: (
        error("Invalid file", 400) if asked.act == "upload" and next(refuse, False) else None
    )

    pushed = pages.push()

    assert len(pushed.failed) == 2
    assert pushed.completed == _PAGES - 2
    assert len(pages.server.uploads) == _PAGES - 2


@pytest.mark.parametrize("act", ["upload", "attach"])
def test_a_store_that_is_gone_ends_the_push(pages: Place, act: str):
    gone = threading.Semaphore(3)

    def answer(asked: Asked) -> Reply | None:
        if asked.act in (act, "store", "attach") and not gone.acquire(blocking=False):
            return error("No vector store found", 404)
        return None

    pages.server.answer = answer
    pushed = pages.push()
    assert pushed.error is not None
    assert pushed.completed < _PAGES
    pages.server.answer = lambda asked: None

    assert pages.push().is_whole
    pages.check()


def _unsteady(rng: random.Random, share: float) -> Callable[[Asked], Reply | None]:
    """Return answers of which a share fails, some of them after the request was carried out."""
    lock = threading.Lock()

    def answer(asked: Asked) -> Reply | None:
        with lock:
            if rng.random() > share:
                return None
            return rng.choice(
                [
                    Reply({}, 500, is_done=True), Reply({}, 503), Reply(b"", is_done=True),
                    Reply({}, is_done=True, breaks_off=True), Reply(b"<html>", is_done=True),
                    error("too many requests", 429, Retry_After="2"), error("odd", 400),
                ]
            )  # fmt: skip

    return answer


@pytest.mark.long(but=2)
@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_fails_the_store_ends_with_each_page_once(pages: Place, most: int, seed: int):
    """The same with any number of requests at the same time (M-47)."""
    rng = random.Random(seed)
    pages.concurrency, pages.away = most, 300
    for number in range(4):
        pages.put(f"{rng.randrange(_PAGES)}", f"text {number} of {seed}")
        pages.server.answer = _unsteady(rng, 0.3)
        pushed: Pushed = pages.push()
        there = pages.server.stores[STORE].values()
        assert {one["attributes"]["smartcrawl_url"] for one in there} <= pages.expected.keys()
        assert pushed.is_whole == (pushed.error is None and not pushed.failed)
    pages.server.answer = lambda asked: None
    pages.push()

    assert pages.push().is_whole

    pages.server.failures |= pages.server.deleted  # each was refused by chance
    pages.check()
    assert len(pages.server.stores[STORE]) == _PAGES

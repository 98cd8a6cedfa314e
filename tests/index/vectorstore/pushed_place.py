"""A source with pages, a server with a store, and pushes of one to the other."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.index.vectorstore.api import VectorStoreApi
from smartcrawl.index.vectorstore.ports import Pushed
from smartcrawl.index.vectorstore.push import Push
from smartcrawl.index.vectorstore.rows import StoreRows
from smartcrawl.model.option_groups import VectorStoreOptions
from smartcrawl.run.pushing import PushedPages
from tests.index.vectorstore.store_server import STORE, Stores, stores_server
from tests.openai_server import KEY
from tests.registry.build import Desk


class Clock:
    """Time that passes only while the push waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


class Place:
    """A source with pages, a store, and pushes of one to the other."""

    def __init__(self, folder: Path, server: Stores) -> None:
        self.desk, self.server = Desk(folder / "registry.db"), server
        self.desk.source = "docs"
        self.desk.open()
        self.expected: dict[str, str] = {}
        self._known: set[str] = set()
        self.clock = Clock()
        self.away = 100
        self.concurrency = 4

    def put(self, name: str, text: str) -> str:
        url = f"http://docs.example/{name}"
        if url in self._known:
            self.desk.open()  # a page changes once in a run
        self._known.add(url)
        self.desk.index(url, text)
        self.expected[url] = text
        return url

    def drop(self, name: str) -> None:
        url = f"http://docs.example/{name}"
        self.desk.connection.execute("UPDATE record SET entry = 0 WHERE url = ?", (url,)).fetchall()
        del self.expected[url]

    def options(self) -> VectorStoreOptions:
        return VectorStoreOptions(
            url=self.server.url, store=STORE, wait=600, away=self.away, ca_file=None,
            has_proxies=False, concurrency=self.concurrency,
        )  # fmt: skip

    def push(self, *, now: int | None = None, is_ending: Callable[[], bool] = bool) -> Pushed:
        now = self.server.clock if now is None else now
        options = self.options()
        api = VectorStoreApi(options, KEY, timeout=5.0)
        pages = PushedPages(self.desk.connection, "docs")
        rows = StoreRows(
            self.desk.connection, url=options.url, store=STORE, source=pages.source_no, now=now
        )
        try:
            return Push(
                api, rows, pages, options, now=now, clock=self.clock, sleep=self.clock.sleep,
                is_ending=is_ending,
            ).run()  # fmt: skip
        finally:
            api.close()

    def rows(self) -> list[tuple[Any, ...]]:
        statement = "SELECT url, status, file FROM store_file ORDER BY url, intended_at"
        return self.desk.connection.execute(statement).fetchall()

    def check(self) -> None:
        """The store has exactly the pages of the registry, and others of ours are known."""
        texts = self.server.texts()
        assert texts.keys() == self.expected.keys()
        for url, text in self.expected.items():
            assert text in texts[url]
        ours = {
            id_ for id_, upload in self.server.uploads.items() if "theirs" not in upload["filename"]
        }
        attached = {
            id_ for id_, entry in self.server.stores[STORE].items() if entry["attributes"]
            and "smartcrawl_url" in entry["attributes"]
        }  # fmt: skip
        assert attached <= ours
        assert self.left() & ours <= ours - attached <= self.left() | self.server.detached
        assert self.server.deleted <= self.server.failures  # the account loses no other

    def left(self) -> set[str]:
        """The uploads that the registry knows to be in the account, and in no store."""
        rows = self.desk.connection.execute("SELECT file FROM left_upload").fetchall()
        return {file for (file,) in rows}


@pytest.fixture(scope="module")
def running() -> Iterator[Stores]:
    with stores_server() as server:
        yield server


@pytest.fixture
def server(running: Stores) -> Stores:
    """The server, empty."""
    fresh = Stores(0)
    url, host, lock = running.url, running.host, running.lock
    running.__dict__ |= fresh.__dict__ | {"url": url, "host": host, "lock": lock}
    return running


@pytest.fixture
def place(tmp_path: Path, server: Stores) -> Iterator[Place]:
    place = Place(tmp_path, server)
    for n in range(5):
        place.put(f"{n}", f"text of page {n}")
    yield place
    place.desk.close()

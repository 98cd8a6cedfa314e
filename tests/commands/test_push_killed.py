"""Pushes that are killed, and what the next one makes of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.two_sources import TwoSources
from tests.crawls.commands import Scrapy
from tests.index.vectorstore.store_server import STORE, Stores, stores_server

pytestmark = pytest.mark.alone

KILLED = -9
COUNT = 50  #: places that a push of this stage passes
#: Places of the default tier, between two steps of a page on its way to the store or out of it.
SHORT = ("after intend", "after upload", "after attach", "after note_completed", "before leave")
EVERY = [pytest.param(str(number), marks=pytest.mark.long) for number in range(1, COUNT + 1)]
TEXTS = {"http://docs.example/0": "cancel a stopped job", "http://docs.example/2": "a cake"}


class Place(TwoSources):
    """A store that lacks an edit, a new page and a removal, and has files of others."""

    def __init__(self, folder: Path, ask: Scrapy, server: Stores) -> None:
        super().__init__(folder, ask, ["cancel a paused job", "bread"])
        self.server = server
        self.environment |= server.settings
        self.run("push", "--source", "docs")
        self.run("push", "--source", "shop")
        self.theirs = {server.put("theirs"), server.put("loose", store=None)}
        self.desk.source = "docs"
        self.desk.open()
        for url, text in TEXTS.items():
            self.desk.index(url, text)
        self.desk.connection.execute(
            "UPDATE record SET entry = 0 WHERE url = 'http://docs.example/1'"
        ).fetchall()
        self.desk.seal()
        server.looks = 1  # a file is in progress once

    def push(self, fate: str, expect: int) -> list[str]:
        """Push, to die at a place; return the places that were passed."""
        passed = self.folder / f"places{fate}"
        self.run(
            *("push", "--source", "docs"), expect=expect, ARRANGED_BY="tests.commands.killed_push",
            DIES_AT=fate, PLACES=str(passed), VECTOR_STORE_CONCURRENCY="1",
        )  # fmt: skip
        return passed.read_text("utf-8").splitlines()

    def check(self) -> None:
        """The store has each page once, and nothing of others was touched."""
        texts = self.server.texts()
        assert texts.keys() == {*TEXTS, "http://shop.example/0"}
        assert all(text in texts[url] for url, text in TEXTS.items())
        assert self.theirs <= self.server.uploads.keys()
        assert len(self.server.stores[STORE]) == len(texts) + 1
        kept = self.server.uploads.keys() - self.theirs - self.server.stores[STORE].keys()
        assert kept <= self.server.detached | self.left()
        assert not self.server.deleted  # none of them failed

    def left(self) -> set[str]:
        """The uploads that the registry knows to be in the account, and in no store."""
        rows = self.desk.connection.execute("SELECT file FROM left_upload").fetchall()
        return {file for (file,) in rows}


@pytest.fixture
def place(tmp_path: Path, ask: Scrapy) -> Iterator[Place]:
    with stores_server() as server:
        place = Place(tmp_path, ask, server)
        yield place
        place.desk.close()


@pytest.mark.long(but=1)
@pytest.mark.covers("M-47")
@pytest.mark.parametrize("fate", [*SHORT, *EVERY])
def test_a_push_that_is_killed_is_made_up_for_by_the_next(place: Place, fate: str):
    passed = place.push(fate, KILLED)
    assert fate in (passed[-1], str(len(passed)))

    again = place.push("0", 0)

    assert "before listed_page" in again
    place.check()
    place.server.asked.clear()
    place.run("push", "--source", "docs")
    assert {"upload", "attach", "detach", "delete"}.isdisjoint(place.server.acts)


@pytest.mark.long
def test_the_places_are_all_that_a_push_passes(place: Place):
    assert len(place.push("0", 0)) == COUNT
    place.check()

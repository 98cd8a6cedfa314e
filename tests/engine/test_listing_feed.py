"""A listing waits for the reading of files, so that a million of them fit into memory."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.engine import listing as engine
from smartcrawl.engine.listing import ListingFeed
from smartcrawl.run import listed as run_listed
from smartcrawl.run.listed import ListedFiles
from smartcrawl.sources.listing.entries import Entry

BATCHES = 5


class Folder:
    """A listing of files that are all new, a few at once."""

    def batches(self):
        for number in range(BATCHES):
            yield [Entry(f"file:///f/{number}-{n}", 1, "v", None) for n in range(10)]


def feed_of(listing: Any, *, reads: int) -> tuple[ListingFeed, list[int]]:
    """Return a feed whose files are read so slowly, and how many waited after each batch."""
    waited: list[int] = []
    looks: list[float] = []
    listed: Any = ListedFiles.__new__(ListedFiles)
    listed._waiting = {}
    listed.is_open = True

    def take(entries: list[Entry]) -> None:
        listed._waiting |= {id(entry): entry for entry in entries}
        waited.append(len(listed._waiting))

    async def read(seconds: float) -> None:
        looks.append(seconds)
        assert len(looks) < 100, "it waits for ever"
        for number in list(listed._waiting)[:reads]:
            listed.entry(number)

    engine.asyncio.sleep = read  # by monkeypatch, below
    feed: Any = ListingFeed.__new__(ListingFeed)
    feed._run = SimpleNamespace(is_ending=False, library=None)
    feed._listed, feed._root, feed._crawler = listed, "/f", None
    listed.waits = False
    listed.take = take
    feed._listing = lambda: listing

    async def nothing(*_: object) -> None:
        pass

    feed._confirm = feed._write = nothing
    feed._end = lambda listing: None
    return feed, waited


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(run_listed, "MOST_WAITING", 15)
    monkeypatch.setattr(engine, "wake_engine", lambda crawler: None)
    monkeypatch.setattr(engine, "asyncio", SimpleNamespace(**vars(asyncio)))


@pytest.mark.covers("R1-28")
def test_listing_waits_while_many_files_wait_to_be_read():
    feed, waited = feed_of(Folder(), reads=4)
    asyncio.run(feed._feed())
    assert len(waited) == BATCHES
    assert max(waited) < 15 + 10


def test_listing_of_a_repository_does_not_wait(monkeypatch):
    """The read of a pinned file may wait for its end."""
    monkeypatch.setattr(engine, "RepositoryListing", Folder)
    feed, waited = feed_of(Folder(), reads=0)
    feed._locate = lambda listing: None
    asyncio.run(feed._feed())
    assert waited == [10, 20, 30, 40, 50]


@pytest.mark.covers("R0-43", "M-07")
@pytest.mark.parametrize("lacks", [False, True])
def test_store_that_lacks_a_stored_file_is_listed_again(monkeypatch, lacks: bool):
    class Store(Folder):
        def again(self):
            nonlocal lacks
            lacks = False
            return iter([[Entry("s3://f/moved", 1, "v", None)]])

    monkeypatch.setattr(engine, "BucketListing", Store)
    expected = [10, 20, 30, 40, 50, 51] if lacks else [10, 20, 30, 40, 50]
    feed, waited = feed_of(Store(), reads=0)
    monkeypatch.setattr(run_listed, "MOST_WAITING", 1_000)
    monkeypatch.setattr(ListedFiles, "lacks_some", property(lambda listed: lacks))
    asyncio.run(feed._feed())
    assert waited == expected


def test_run_that_ends_does_not_wait():
    feed, waited = feed_of(Folder(), reads=0)

    async def ending(seconds: float) -> None:
        feed._run.is_ending = True

    engine.asyncio.sleep = ending
    asyncio.run(feed._feed())
    assert waited == [10, 20]

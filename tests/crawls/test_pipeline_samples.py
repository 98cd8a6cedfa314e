"""A run that has nothing to write brings samples of its progress, until it ends."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from smartcrawl import pipelines
from smartcrawl.model.batches import Batch
from smartcrawl.pipelines import CommitPipeline


class Batches:
    """The batches of a run that visits nothing."""

    def __init__(self) -> None:
        self.batch = Batch()
        self.is_writing = False
        self.flushed: list[bool] = []

    async def flush(self, now: int) -> None:
        self.submit(now)

    def submit(self, now: int) -> None:
        self.flushed.append(self.batch.is_sample)
        self.batch = Batch()

    def drain(self) -> None:
        """Wait for nothing."""


class IdleRun:
    """A run that is open, as far as a pipeline knows it."""

    def __init__(self) -> None:
        self.batches = Batches()
        self.failure: Exception | None = None
        self.opened = self
        self.over = False


def crawled(run: IdleRun, until: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Which batches brought a sample, up to the end of the spider, and shortly after it."""
    monkeypatch.setattr(pipelines, "SAMPLE_SECONDS", 0.001)
    nothing: Any = None
    pipeline = CommitPipeline(nothing, None)
    pipeline.run = run  # type: ignore[assignment]  # it is all that is needed of one

    async def crawl() -> None:
        await pipeline.open_spider()
        for _ in range(1_000):
            await asyncio.sleep(0.001)
            if until():
                break
        await pipeline.close_spider()
        before = len(run.batches.flushed)
        await asyncio.sleep(0.02)
        assert len(run.batches.flushed) == before  # the run may be sealed now

    asyncio.run(crawl())
    return run.batches.flushed


def test_an_idle_run_brings_samples_until_its_spider_is_closed(monkeypatch: pytest.MonkeyPatch):
    run = IdleRun()

    flushed = crawled(run, lambda: len(run.batches.flushed) > 2, monkeypatch)

    assert flushed[:3] == [True, True, True]


def test_a_run_that_writes_needs_no_batch_of_its_own(monkeypatch: pytest.MonkeyPatch):
    run = IdleRun()
    run.batches.is_writing = True
    turns = iter(range(30))

    assert crawled(run, lambda: next(turns, None) is None, monkeypatch) == [False]


@pytest.mark.parametrize("name", ["failure", "over"])
def test_a_run_that_failed_or_is_over_brings_none(monkeypatch: pytest.MonkeyPatch, name: str):
    run = IdleRun()
    setattr(run, name, RuntimeError("it failed") if name == "failure" else True)
    turns = iter(range(30))

    assert True not in crawled(run, lambda: next(turns, None) is None, monkeypatch)

"""The lane waits for its turn at a host, behind what Scrapy's engine queued there before."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.core.downloader import Downloader, Slot

from smartcrawl.engine.lane.lane import LaneTurns


@pytest.fixture
def crawler() -> Any:
    return SimpleNamespace(engine=SimpleNamespace(_slot=SimpleNamespace(closing=None)))


def turn(crawler: Any, slot: Slot, meanwhile: Any) -> bool:
    """Whether a flight still waits for its turn after `meanwhile` was called, and 500 ms."""

    async def work() -> bool:
        flight: Any = SimpleNamespace(slot=slot, meta={Downloader.DOWNLOAD_SLOT: "a.example"})
        waiting = asyncio.ensure_future(LaneTurns(crawler).wait(flight))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        meanwhile()
        done, _ = await asyncio.wait([waiting], timeout=0.5)
        waiting.cancel()
        return not done

    return asyncio.run(work())


def queueing() -> Slot:
    """A slot whose delay is over, with a request of the engine before the lane's."""
    slot = Slot(3, 0.001, 0)
    slot.queue.append((Request("http://a.example/"), None))  # type: ignore[arg-type]
    return slot


def test_what_the_engine_queued_before_goes_out_first(crawler: Any):
    slot = queueing()

    assert turn(crawler, slot, lambda: None)
    assert not turn(crawler, slot, slot.queue.clear)


def test_what_it_queues_later_does_not_hold_the_lane_up(crawler: Any):
    slot = queueing()
    later = Request("http://a.example/later"), None

    def meanwhile() -> None:
        slot.queue.clear()
        slot.queue.append(later)  # type: ignore[arg-type]

    assert not turn(crawler, slot, meanwhile)


def test_a_crawl_that_is_to_end_waits_for_no_turn(crawler: Any):
    slot = queueing()

    def meanwhile() -> None:
        crawler.engine._slot.closing = object()

    assert not turn(crawler, slot, meanwhile)

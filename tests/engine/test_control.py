"""The look for an order: it outlives a registry that is away, and disturbs nothing."""

import asyncio
import logging
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.core.downloader import Slot
from twisted.internet.defer import Deferred

from smartcrawl.engine.control import DROP_AFTER, LOOK, OrderWatch, _refuse_queue
from smartcrawl.engine.current_run import HaltedRequestError
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.runs.run_orders import order_run_row
from smartcrawl.registry.runs.runs import RunRequest, open_run_row
from smartcrawl.rules.model import RunOrder
from smartcrawl.run.orders import Halt
from tests import servers


class _Named:
    """A run, as far as the look knows it."""

    def __init__(self, place: Path | str) -> None:
        self.options: Any = SimpleNamespace(registry=place)
        self.opened: Any = self
        self.registry: Any = SimpleNamespace(database=SimpleNamespace(is_given_up=False))
        self.no = 1


def opened(place: Path | str) -> None:
    with closing(registry_database(place).open()) as connection:
        open_run_row(connection, RunRequest("docs", "site"), 1)


def pause(place: Path | str) -> None:
    with closing(registry_database(place).connect()) as connection, transaction(connection):
        assert order_run_row(connection, 1, RunOrder.PAUSE, 2)


def watch(
    place: Path | str, loop: asyncio.AbstractEventLoop, given_up: list[RegistryError] | None = None
) -> OrderWatch:
    run: Any = _Named(place)
    return OrderWatch(run, loop, [].append if given_up is None else given_up.append)


@pytest.mark.covers("RD-21")
def test_what_is_in_flight_is_given_up_within_one_and_a_half_seconds():
    assert LOOK == 0.5
    assert LOOK + DROP_AFTER <= 1.5


def test_the_order_of_a_file_is_found_by_the_thread(tmp_path: Path):
    place = tmp_path / "registry.db"
    opened(place)

    async def scene() -> RunOrder:
        looks = watch(place, asyncio.get_running_loop())
        looks.start()
        try:
            await asyncio.sleep(0)
            assert not looks.found.done()
            pause(place)
            return await asyncio.wait_for(looks.found, 60)
        finally:
            looks.stop()

    assert asyncio.run(scene()) is RunOrder.PAUSE


def test_a_look_outlives_a_registry_that_restarts(
    postgres: servers.Postgres, postgres_url: str, caplog: pytest.LogCaptureFixture
):
    opened(postgres_url)
    caplog.set_level(logging.INFO, "smartcrawl.engine.control")

    async def scene() -> None:
        looks = watch(postgres_url, asyncio.get_running_loop())
        assert looks.look() is None
        assert caplog.text == ""
        postgres.kill()
        assert looks.look() is None
        assert looks.look() is None
        assert caplog.text.count("orders to this run wait until the registry can be read") == 1
        postgres.start()
        pause(postgres_url)
        assert looks.look() is RunOrder.PAUSE
        looks._close()

    asyncio.run(scene())


def test_a_worker_with_nothing_in_hand_ends_when_its_process_waits_no_more(
    postgres: servers.Postgres, postgres_url: str
):
    opened(postgres_url)
    given_up: list[RegistryError] = []

    async def scene() -> None:
        looks = watch(postgres_url, asyncio.get_running_loop(), given_up)
        postgres.kill()
        assert looks.look() is None
        await asyncio.sleep(0)
        assert given_up == []
        looks._run.registry.database.is_given_up = True
        assert looks.look() is None
        await asyncio.sleep(0)
        assert ["check that the server runs" in str(error) for error in given_up] == [True]
        postgres.start()
        assert looks.look() is None
        await asyncio.sleep(0)
        assert len(given_up) == 1, "the registry answers"
        looks._close()

    asyncio.run(scene())


def test_what_waits_for_a_host_is_refused_and_everything_is_dropped_once():
    refused: list[Any] = []
    slot = Slot(concurrency=1, delay=30, jitter=0)
    for url in ("http://a.example/1", "http://a.example/2"):
        answer: Deferred[Any] = Deferred()
        answer.addErrback(refused.append)
        request: Any = type("Request", (), {"url": url})()
        slot.queue.append((request, answer))

    _refuse_queue(slot)

    assert not slot.queue
    assert [failure.type for failure in refused] == [HaltedRequestError] * 2
    assert "http://a.example/1 is not requested: the run is ending" in str(refused[0].value)
    halt, dropped = Halt(), []
    halt.when_dropped(lambda: dropped.append(1))
    halt.drop()
    halt.drop()
    assert dropped == [1]

"""The thread that exchanges messages with Redis: it loses none (ADR 30)."""

import time
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from smartcrawl.model.exceptions import FrontierLostError, SmartcrawlError
from smartcrawl.run.shared import frontier as module
from smartcrawl.run.shared.connection import connect_redis
from smartcrawl.run.shared.frontier import Courier
from smartcrawl.run.shared.scripts import Exchange, FrontierClaim, FrontierNumber
from tests import servers
from tests.run.stepped import Stepped


class Desk:
    """A worker that takes notes."""

    def __init__(self) -> None:
        self.claims: list[FrontierClaim] = []
        self.refills = 0
        self.looks = 0
        self.errors: list[SmartcrawlError] = []
        self.recover: Callable[[], object] = lambda: None
        self.breaks = False

    def arrived(self, exchange: Exchange) -> None:
        if self.breaks:
            raise ValueError("a fault of our own")
        self.claims += exchange.claims

    def refill(self, lost: FrontierLostError | None) -> bool:
        self.refills += 1
        self.recover()
        return True

    sealed = False

    def looked(self) -> bool:
        self.looks += 1
        return False

    def failed(self, error: SmartcrawlError) -> None:
        self.errors.append(error)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with connect_redis(redis_url) as client:
        yield client


@pytest.fixture
def frontier(client: Redis) -> Stepped:
    frontier = Stepped(client, "docs", 7, per_host=100)
    frontier.begin()
    return frontier


@pytest.fixture
def courier(frontier: Stepped, desk: Desk) -> Iterator[Courier]:
    courier = Courier(frontier, desk, lambda: 2 - len(desk.claims))
    desk.recover = frontier.recover
    courier.start()
    yield courier
    courier.stop()


def until(fact: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.01)


def waiting(*numbers: int) -> list[FrontierNumber]:
    return [FrontierNumber(number, "a.example", 0) for number in numbers]


@pytest.mark.covers("R2-42")
def test_redis_courier_brings_as_much_as_there_is_room_for(
    courier: Courier, desk: Desk, frontier: Stepped
):
    courier.send(found=waiting(1, 2, 3))
    until(lambda: len(desk.claims) == 2)

    assert sorted(claim.no for claim in desk.claims) == [1, 2]
    assert not courier.carries
    first = desk.claims.pop(0)
    courier.send(done=[first])
    until(lambda: len(desk.claims) == 2)
    assert frontier.census()[:2] == (0, 2)


def test_redis_courier_looks_when_nothing_waits(courier: Courier, desk: Desk):
    until(lambda: desk.looks > 1)
    assert desk.claims == []


def test_redis_courier_tells_hosts_to_all(courier: Courier, desk: Desk):
    courier.send(acts=[lambda hosts: hosts.pause("a.example", 60)], found=waiting(1))
    time.sleep(0.3)
    courier.send(found=waiting(2))
    time.sleep(0.3)

    assert [claim.no for claim in desk.claims] in ([], [1]), "what was claimed before stands"


def test_redis_courier_tells_again_what_redis_lost(
    courier: Courier, desk: Desk, client: Redis, frontier: Stepped
):
    until(lambda: desk.looks)
    client.flushdb()
    desk.recover = lambda: frontier.recover(settle=0.0)
    courier.send(found=waiting(5))
    until(lambda: desk.claims)

    assert desk.refills >= 1
    assert [claim.no for claim in desk.claims] == [5]


def test_redis_courier_tells_hosts_before_what_was_told_later(frontier: Stepped, desk: Desk):
    frontier.offer(waiting(1))
    [claim] = frontier.claim(1)
    courier = Courier(frontier, desk, lambda: 1)
    courier.send(acts=[lambda hosts: hosts.pause("a.example", 60)])
    courier.send(released=[claim])
    assert courier.carries
    courier.start()
    until(lambda: not courier.carries)
    courier.stop()

    assert desk.claims == []
    assert frontier.census()[:2] == (1, 0)


def test_redis_courier_tells_hosts_again_when_redis_is_back(
    courier: Courier, desk: Desk, redis: servers.Redis, client: Redis
):
    until(lambda: desk.looks)
    redis.kill()
    courier.send(acts=[lambda hosts: hosts.robots_read("a.example", 2)], found=waiting(1))
    time.sleep(0.3)
    assert courier.carries
    redis.start()
    until(lambda: not courier.carries)

    assert client.hget("domain:meta:a.example", "crawl_delay") == "2000"


@pytest.mark.covers("M-33")
def test_redis_courier_waits_for_a_redis_that_is_away(
    courier: Courier, desk: Desk, redis: servers.Redis, frontier: Stepped
):
    until(lambda: desk.looks)
    redis.kill()
    courier.send(found=waiting(1))
    time.sleep(0.3)
    # The registry has what was found.
    desk.recover = lambda: frontier.recover(settle=0.0) and frontier.refill(waiting(1))
    redis.start()
    until(lambda: desk.claims)

    assert not desk.errors


def test_redis_courier_does_not_wait_for_ever(
    courier: Courier, desk: Desk, redis: servers.Redis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    monkeypatch.setattr(module, "_PAUSE", 0.1)
    until(lambda: desk.looks)
    redis.kill()
    until(lambda: desk.errors)
    redis.start()

    assert "correct REDIS_URL" in str(desk.errors[0])


def test_redis_courier_gives_back_what_is_left_when_it_is_stopped(
    courier: Courier, desk: Desk, frontier: Stepped
):
    courier.send(found=waiting(1))
    until(lambda: desk.claims)
    courier.send(released=desk.claims)
    courier.stop()

    assert frontier.census()[:2] == (1, 0)


def test_redis_courier_that_breaks_ends_the_run(courier: Courier, desk: Desk):
    desk.breaks = True
    until(lambda: desk.errors)
    assert "ValueError: a fault of our own" in str(desk.errors[0])

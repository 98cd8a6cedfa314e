"""Losses of Redis, of a worker or of the network between them; no page is lost.

The first four are those of scrapy-redis 0.9.1 (docs/redis.md).
"""

import select
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from smartcrawl.model.exceptions import FrontierError, FrontierLostError
from smartcrawl.run.shared.connection import connect_redis
from smartcrawl.run.shared.scripts import FrontierNumber
from tests.run.stepped import Stepped
from tests.servers import redis_server

A = "a.example"


@pytest.fixture
def client(redis_url):
    with connect_redis(redis_url) as connected:
        yield connected


@pytest.fixture
def worker(client):
    def make(**options):
        made = Stepped(client, "docs", 7, per_host=100, **options)
        made.begin()
        return made

    return make


def some(numbers, depth=0):
    return [FrontierNumber(number, A, depth) for number in numbers]


def numbers(claims):
    return [claim.no for claim in claims]


class Proxy:
    """A proxy of a Redis, which loses an answer and its connection on demand."""

    def __init__(self, port):
        self._port = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.lose = False  #: whether it loses the next answer to a script
        self.away = False  #: whether it refuses connections
        self.lost = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with suppress(OSError):
            while True:
                peer, _ = self._server.accept()
                threading.Thread(target=self._forward, args=(peer,), daemon=True).start()

    def _forward(self, peer):
        with peer, socket.create_connection(("127.0.0.1", self._port)) as redis:
            asked = False
            while not self.away:
                for ready in select.select([peer, redis], [], [], 0.1)[0]:
                    data = ready.recv(1_000_000)
                    if not data:
                        return
                    asked = asked or b"EVALSHA" in data
                    if ready is redis and asked and self.lose:
                        self.lose = False
                        self.lost += 1
                        return
                    (peer if ready is redis else redis).sendall(data)

    def close(self):
        self.away = True
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # it wakes the thread that accepts
        self._server.close()


@contextmanager
def behind_proxy(redis, url):
    proxy = Proxy(redis.port)
    try:
        with connect_redis(url.replace(str(redis.port), str(proxy.port))) as client:
            yield proxy, client
    finally:
        proxy.close()


# The four losses of scrapy-redis


def test_redis_keeps_everything_when_a_worker_ends_first(redis_url):
    """Loss a: there the first one that closes deletes queue and dupefilter of all."""
    with connect_redis(redis_url) as ours, connect_redis(redis_url) as theirs:
        first = Stepped(theirs, "docs", 7, per_host=9)
        second = Stepped(ours, "docs", 7, per_host=9)
        first.begin()
        second.begin()
        first.offer(some(range(1, 11)))
        first.release(first.claim(2))
        theirs.close()

        assert second.offer(some(range(1, 12))) == ([11], [])
        assert second.pending() == 11


def test_redis_never_knows_a_number_that_does_not_wait():
    """Loss b: there an address is seen before it is queued, and a crash between loses it."""
    with redis_server(appendonly="yes", appendfsync="no") as server:
        for turn in range(4):
            with connect_redis(server.url) as client:
                frontier = Stepped(client, "docs", turn, per_host=9)
                frontier.begin()
                killer = threading.Timer(0.05, server.kill)
                killer.start()
                offered = 0
                with suppress(FrontierError):
                    while offered < 1_000_000:
                        frontier.offer(some(range(offered + 1, offered + 41)))
                        offered += 40
                killer.join()
            server.start()
            with connect_redis(server.url) as client:
                reached = sum(
                    byte != 0
                    for key in client.scan_iter(f"docs:{turn}:reached:*")
                    for byte in client.get(key).encode()
                )
                waiting = client.zcard(f"docs:{turn}:frontier:{A}")
                assert 0 < offered <= reached == waiting <= offered + 40


def test_redis_gives_back_what_a_killed_worker_held(client, worker):
    """Loss c: there it exists nowhere, and is filtered when it is found again."""
    dead, alive = worker(lease=0.2), worker()
    dead.offer(some(range(1, 6)))
    dead.claim(5)

    assert alive.offer(some(range(1, 6))) == ([], [])
    assert alive.claim(5) == []
    time.sleep(0.25)
    assert numbers(alive.claim(5)) == [1, 2, 3, 4, 5]


def test_redis_answers_again_when_an_answer_was_lost(redis, redis_url):
    """Loss d: there the pop is made again, and what was popped first is gone."""
    with behind_proxy(redis, redis_url) as (proxy, client):
        frontier = Stepped(client, "docs", 7, per_host=99)
        frontier.begin()
        frontier.offer(some(range(1, 11)))
        got = []
        for turn in range(10):
            proxy.lose = turn in (2, 5)
            got += frontier.claim(1)
        assert proxy.lost == 2
        assert numbers(got) == list(range(1, 11))
        proxy.lose = True
        result = frontier.exchange(1, done=got, found=some([7, 11], depth=1))

        assert (result.stale, result.news, numbers(result.claims)) == ([], [11], [11])
        assert frontier.census()[:2] == (0, 1)


def test_redis_answers_again_even_after_it_was_given_up(redis, redis_url):
    with behind_proxy(redis, redis_url) as (proxy, client):
        frontier = Stepped(client, "docs", 7, per_host=99)
        frontier.begin()
        frontier.offer(some(range(1, 11)))
        first = frontier.claim(2)
        proxy.lose = proxy.away = True
        with pytest.raises(FrontierError, match="start it, or correct REDIS_URL"):
            frontier.exchange(3, done=first)
        proxy.away = False

        result = frontier.exchange(4)

        assert proxy.lost == 1
        assert numbers(result.claims) == [3, 4, 5, 6]
        assert result.stale == []
        assert frontier.census()[:2] == (4, 4)


def test_redis_is_told_all_of_a_long_call_that_broke_off(redis, redis_url):
    with behind_proxy(redis, redis_url) as (proxy, client):
        frontier = Stepped(client, "docs", 7, per_host=99)
        frontier.begin()
        frontier.offer(some([1, 2]))
        first = frontier.claim(2)
        proxy.lose = proxy.away = True
        for _ in range(3):
            with pytest.raises(FrontierError):
                frontier.exchange(2, done=first, found=some(range(10, 2_510), depth=1))
            first = []
        proxy.away = False

        result = frontier.exchange(2)

        assert numbers(result.claims) == [10, 11]
        assert result.news == list(range(10, 2_510))
        assert frontier.census()[:2] == (2_498, 2)


# What Redis loses


@pytest.fixture(params=["flush", "restart"])
def lose(request, redis, client):
    """Lets Redis lose all that it holds."""
    if request.param == "flush":
        return client.flushall

    def restart():
        redis.kill()
        redis.start()

    return restart


def test_redis_that_lost_everything_is_filled_again_from_the_registry(worker, lose):
    """The registry knows what is pending; living workers know what they hold."""
    alive, filler, dead = worker(), worker(), worker()
    alive.offer(some(range(1, 11)))
    kept, visited = alive.claim(2), filler.claim(2)
    dead.claim(2)
    filler.ack(visited)
    lose()

    with pytest.raises(FrontierLostError, match="it is refilled from the registry"):
        filler.claim(1)
    assert filler.recover(settle=2)
    pending = some([1, 2, 5, 6, 7, 8, 9, 10])
    assert filler.refill(pending, visited=some([3, 4])) == 8
    assert filler.refill(pending, visited=some([3, 4])) == 0
    assert filler.claim(9) == []  # no other worker had the time to renew its claims
    assert alive.renew() == []
    time.sleep(2.1)

    claims = filler.claim(20)
    assert numbers(claims) == [5, 6, 7, 8, 9, 10]
    assert alive.ack(kept) == []
    assert alive.offer(some(range(1, 12), depth=1)) == ([11], [])
    assert filler.ack(claims) == []


def test_redis_is_refilled_by_the_first_who_notices(worker, lose):
    one, two = worker(), worker()
    one.offer(some(range(1, 4)))
    held = two.claim(1)
    lose()
    with pytest.raises(FrontierLostError):
        one.claim(1)
    with pytest.raises(FrontierLostError):
        two.renew()

    assert [one.recover(settle=0), two.recover(settle=0)] == [True, False]
    one.refill(some(range(1, 4)))
    assert numbers(one.claim(9)) == [2, 3]
    assert two.ack(held) == []
    one.recover(settle=0)
    assert one.claim(1) == []


def test_redis_learns_of_a_claim_before_or_after_the_refill(worker, lose):
    early, late, filler = worker(), worker(), worker()
    filler.offer(some([1, 2, 3]))
    first, second = early.claim(1), late.claim(1)
    lose()
    assert filler.recover(settle=0)
    early.exchange()  # notices by itself, and says what it holds
    assert early.offer(some([1, 4], depth=1)) == ([4], [])
    filler.refill(some([1, 2, 3]))
    late.exchange()

    assert numbers(filler.claim(9)) == [4, 3]
    assert early.ack(first) == late.ack(second) == []


def test_redis_takes_no_claim_for_what_another_one_holds_or_had_since(worker, lose):
    slow, slower, filler = worker(), worker(), worker()
    filler.offer(some([1, 2]))
    first, second = slow.claim(1), slower.claim(1)
    lose()
    assert filler.recover(settle=0)
    filler.refill(some([1, 2]))
    one, two = filler.claim(2)
    filler.ack([one])

    assert slow.renew() == first
    assert slower.exchange(done=second).stale == second
    assert filler.ack([two]) == []
    assert filler.idle()


@pytest.mark.parametrize("who", ["holds", "visited"])
def test_redis_waits_its_delay_at_every_host_that_it_hears_of_after_a_loss(client, lose, who):
    """The time of its last request is lost."""
    alive, filler = (Stepped(client, "docs", 7, per_host=9, delay=60) for _ in range(2))
    alive.begin()
    alive.offer(some([1]))
    alive.claim(1)
    lose()
    assert filler.recover(settle=0)
    if who == "holds":
        alive.renew()
    else:
        filler.refill([], visited=some([1]))
    filler.offer(some([2], depth=1))

    assert filler.claim(1) == []
    assert 0 < filler.exchange(1).wait <= 60


def test_redis_frees_the_place_of_a_request_that_is_over_for_the_later_of_two(client, lose):
    slept, alive, other = (
        Stepped(client, "docs", 7, per_host=1, lease=lease) for lease in (0.1, 60, 60)
    )
    for frontier in (slept, alive, other):
        frontier.begin()
    slept.offer(some([1]))
    slept.claim(1)
    time.sleep(0.15)
    alive.land(alive.claim(1))
    lose()
    slept._limits["lease"] = 60
    assert slept.recover(settle=0)
    slept.refill(some([1, 2]))
    assert other.claim(1) == []
    alive.renew()

    assert numbers(other.claim(1)) == [2]


@pytest.mark.parametrize("first", [0, 1])
def test_redis_believes_the_later_of_two_that_hold_a_number(client, worker, lose, first):
    """The earlier one was thought dead before Redis lost both claims."""
    both = slept, alive = worker(lease=0.1), worker()
    slept.offer(some([1]))
    old = slept.claim(1)
    time.sleep(0.15)
    new = alive.claim(1)
    lose()
    assert both[first].recover(settle=0)
    both[first].refill(some([1]))
    alive.renew()

    assert slept.ack(old) == old
    assert alive.ack(new) == []
    assert alive.idle()


def test_redis_keeps_requests_in_flight_and_the_delay_over_a_loss(client, lose):
    alive, filler = (Stepped(client, "docs", 7, per_host=1, delay=2) for _ in range(2))
    alive.begin()
    filler.begin()
    alive.offer(some([1, 2]))
    held = alive.claim(1)
    lose()
    assert filler.recover(settle=0)
    filler.refill(some([1, 2]))
    assert filler.claim(1) == []  # its delay
    alive.renew()
    time.sleep(2.1)
    assert filler.claim(1) == []  # full
    alive.land(held)
    assert numbers(filler.claim(1)) == [2]


def test_redis_that_is_refilled_while_all_is_well_changes_nothing(client, worker):
    frontier = worker()
    frontier.offer(some(range(1, 6)))
    first = frontier.claim(2)
    frontier.ack(first[:1])
    before = client.zrange(f"docs:7:frontier:{A}", 0, -1, withscores=True)

    assert frontier.refill(some(range(2, 6)), visited=some([1])) == 0

    assert client.zrange(f"docs:7:frontier:{A}", 0, -1, withscores=True) == before
    assert frontier.ack(first[1:]) == []


def test_redis_is_wrong_where_the_registry_says_otherwise(worker):
    """Numbers that are pending there wait here, and visited ones do not."""
    frontier = worker()
    frontier.offer(some([1, 2, 3]))
    frontier.ack(frontier.claim(1))

    assert frontier.refill(some([1]), visited=some([2])) == 1
    assert sorted(numbers(frontier.claim(9))) == [1, 3]


@pytest.mark.parametrize("part", ["waiting", "visited"])
@pytest.mark.parametrize(("given", "kept"), [(2, 2), (5, 4), (9, 4)])
def test_redis_takes_the_smaller_depth_of_what_the_registry_says(worker, part, given, kept):
    frontier = worker()
    frontier.offer(some([1], depth=4))

    frontier.refill(**({"waiting": []} | {part: some([1], depth=given)}))

    assert frontier.offer(some([1], depth=kept)) == ([], [])
    assert frontier.offer(some([1], depth=kept - 1)) == ([], [1])


def test_redis_says_for_how_long_nothing_is_handed_out_after_a_loss(worker, lose):
    frontier = worker()
    lose()
    frontier.recover(settle=5)
    frontier.refill(some([1]))

    result = frontier.exchange(1)

    assert result.claims == []
    assert 3 < result.wait <= 5


def test_redis_that_came_back_with_older_data_is_filled_again(redis_url):
    """A backup of it knows of claims that are over, and not of what was found since."""
    with redis_server() as server, connect_redis(server.url) as client:
        one, two, three = (Stepped(client, "docs", 7, per_host=99) for _ in range(3))
        for each in (one, two, three):
            each.begin()
        one.offer(some(range(1, 6)))
        old = one.claim(1)
        client.save()
        one.ack(old)
        kept = two.claim(1)
        one.offer(some([6], depth=1))
        server.kill()
        server.start()
        three.claim(0)  # has not seen what is missing
        with pytest.raises(FrontierLostError):
            one.claim(1)
        assert one.recover(settle=0.2)
        one.refill(some([2, 3, 4, 5, 6]), visited=some([1]))
        two.exchange()
        assert three.claim(9) == []
        time.sleep(0.25)

        assert sorted(numbers(three.claim(9))) == [3, 4, 5, 6]
        assert two.ack(kept) == []


def test_redis_that_came_back_from_before_a_refill_is_filled_again(redis_url):
    with redis_server() as server, connect_redis(server.url) as client:
        one, two = (Stepped(client, "docs", 7, per_host=99) for _ in range(2))
        one.begin()
        one.offer(some([1, 2]))
        client.save()
        client.flushall()
        assert two.recover(settle=0)
        two.refill(some([2, 3]), visited=some([1]))
        server.kill()
        server.start()

        with pytest.raises(FrontierLostError):
            two.claim(1)
        assert two.recover(settle=0)
        assert two.refill(some([2, 3]), visited=some([1])) == 1
        assert sorted(numbers(one.claim(9))) == [2, 3]

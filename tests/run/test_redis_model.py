"""The scripts against a small model of what a shared frontier is."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from smartcrawl.run.shared.scripts import FrontierNumber
from tests.run.stepped import Stepped
from tests.tiers import examples

HOSTS = 3
PER_HOST = 2
WORKERS = st.integers(0, 2)
HOST = st.integers(0, HOSTS - 1)

STEPS = st.one_of(
    st.tuples(
        st.just("offer"),
        WORKERS,
        st.lists(st.integers(1, 30), min_size=1, max_size=10, unique=True),
        st.integers(252, 257) | st.integers(0, 3),
        st.sampled_from([1, 5, 10]),
    ),
    st.tuples(st.just("claim"), WORKERS, st.integers(1, 7)),
    st.tuples(
        st.sampled_from(["ack", "land", "release"]), WORKERS, st.integers(0, 40), st.integers(1, 3)
    ),
    st.tuples(st.just("die"), WORKERS),
    st.tuples(st.just("renew"), WORKERS),
    st.tuples(st.sampled_from(["pause", "resume", "park", "unpark", "give_up"]), HOST),
    st.tuples(st.sampled_from(["flush", "refill"]), WORKERS),
)


def host(number):
    return f"h{number % HOSTS}.example"


@dataclass
class Held:
    worker: int
    order: tuple[int, int]
    flies: bool
    losses: int  #: of Redis, before it was claimed


@dataclass
class Model:
    """The waiting numbers, the claims, and the state of each host."""

    depths: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, tuple[int, int]] = field(default_factory=dict)  #: number -> order
    held: dict[str, tuple[int, Held]] = field(default_factory=dict)  #: token -> number
    believed: dict[str, tuple[int, Held]] = field(default_factory=dict)  #: so far as workers know
    paused: set[str] = field(default_factory=set)
    parked: set[str] = field(default_factory=set)
    down: set[str] = field(default_factory=set)
    tick: int = 0
    losses: int = 0

    def offer(self, numbers, depth, priority):
        news, shallower = [], []
        for number in numbers:
            if number not in self.depths:
                self.tick += 1
                self.depths[number] = depth
                self.waiting[number] = (priority, self.tick)
                news.append(number)
            elif depth < self.depths[number]:
                self.depths[number] = depth
                shallower.append(number)
        return news, shallower

    def allows(self, name):
        flying = sum(held.flies and host(number) == name for number, held in self.held.values())
        most = 1 if name in self.parked else PER_HOST
        return name in self.down or (name not in self.paused and flying < most)

    def allowed(self):
        return {host(number) for number in self.waiting if self.allows(host(number))}

    def claim(self, worker, claim):
        """Check one claim and make it."""
        assert claim.host == host(claim.no)
        assert claim.host in self.allowed()
        assert claim.token not in self.held
        assert claim.depth == self.depths[claim.no]
        assert claim.down == (claim.host in self.down)
        first = min(
            (order, number)
            for number, order in self.waiting.items()
            if host(number) == claim.host
        )  # fmt: skip
        assert first[1] == claim.no
        held = Held(worker, self.waiting.pop(claim.no), not claim.down, self.losses)
        self.held[claim.token] = self.believed[claim.token] = claim.no, held

    def end(self, how, token):
        """Whether a claim was still held; it is no more, unless it only landed."""
        known = self.believed.pop(token, None)
        if token not in self.held:
            return False
        number, held = self.held[token]
        if how == "land":
            held.flies = False
            self.believed[token] = known
        else:
            del self.held[token]
        if how == "release":
            self.waiting[number] = held.order
        return True

    def die(self, worker):
        for token, (number, held) in list(self.held.items()):
            if held.worker == worker:
                del self.held[token]
                self.waiting[number] = held.order

    def gone(self, worker):
        """Return the tokens that a worker lost, as ``renew`` answers them."""
        gone = {
            token
            for token, (_, held) in self.believed.items()
            if held.worker == worker and token not in self.held
        }
        for token in gone:
            del self.believed[token]
        return gone

    def pending(self):
        orders = self.waiting | {number: held.order for number, held in self.held.values()}
        return sorted(orders, key=orders.__getitem__)

    def flush(self):
        """Remove the data that only Redis had: places, and the state of hosts."""
        self.losses += 1
        self.held.clear()
        self.waiting.clear()
        self.paused.clear()
        self.parked.clear()
        self.down.clear()

    def refill(self, pending):
        """Let pending numbers without a claim wait; return their count."""
        held = {number for number, _ in self.held.values()}
        missing = [number for number in pending if number not in held | self.waiting.keys()]
        for number in missing:
            self.tick += 1
            self.waiting[number] = (5, self.tick)
        return len(missing)

    def restore(self, worker, known):
        """Restore a worker's claims after a loss; ``known``: numbers in Redis."""
        for token, (number, held) in self.believed.items():
            if held.worker != worker or token in self.held or held.losses == self.losses:
                continue
            other = next((t for t, (no, _) in self.held.items() if no == number), None)
            if other is not None:
                if token > other:
                    del self.held[other]
                    self.held[token] = number, held
            elif number in self.waiting or number not in known:
                self.waiting.pop(number, None)
                self.held[token] = number, held


class Crew:
    """Three workers of one run, and the model beside them."""

    def __init__(self, client):
        self.client = client
        self.workers = [
            Stepped(client, "docs", 1, per_host=PER_HOST, worker=f"w{no}") for no in range(3)
        ]
        self.model = Model()
        self.claims = [[] for _ in self.workers]  #: all that each worker ever got
        for worker in self.workers:
            worker.begin()

    def offer(self, worker, numbers, depth, priority):
        found = [FrontierNumber(number, host(number), depth, priority) for number in numbers]
        assert self.workers[worker].offer(found) == self.model.offer(numbers, depth, priority)

    def claim(self, worker, want):
        claims = self.workers[worker].claim(want)
        for claim in claims:
            self.model.claim(worker, claim)
        assert len(claims) <= want
        assert len(claims) == want or not self.model.allowed()
        self.claims[worker] += claims

    def end(self, how, worker, first, count):
        claims = self.claims[worker][first : first + count]
        stale = [claim for claim in claims if not self.model.end(how, claim.token)]
        assert getattr(self.workers[worker], how)(claims) == stale

    def die(self, worker):
        """Let its leases be over."""
        held = [
            claim for claim in self.claims[worker] if claim.token in self.model.held
        ]  # fmt: skip
        for claim in held:
            member = f"{claim.no:010d}"
            self.client.zadd("docs:1:leases", {member: 1}, xx=True)
            self.client.zadd(f"domain:flying:{claim.host}", {f"docs:1:{member}": 1}, xx=True)
        self.model.die(worker)
        assert self.workers[worker - 1].reap() == len(held)

    def renew(self, worker):
        self.model.restore(worker, known=set(self.model.depths))
        gone = self.model.gone(worker)
        assert {claim.token for claim in self.workers[worker].renew()} == gone

    def act(self, what, number):
        name, hosts, model = host(number), self.workers[0].hosts, self.model
        if what == "pause":
            hosts.pause(name, 1_000)
            model.paused.add(name)
        elif what == "resume":
            self.client.hdel(f"domain:meta:{name}", "paused_until")
            hosts.set_delay(name, 0)
            model.paused.discard(name)
        elif what == "park":
            hosts.park(name, 0)
            model.parked.add(name)
        elif what == "unpark":
            hosts.unpark(name)
            model.parked.discard(name)
        else:
            hosts.give_up(name)
            model.down.add(name)

    def refill(self, worker, *, lost):
        model, frontier = self.model, self.workers[worker]
        pending, depths = model.pending(), model.depths
        if lost:
            self.client.flushdb()
            model.flush()
            model.restore(worker, known=set())
            model.gone(worker)
            assert frontier.recover(settle=0)
        added = frontier.refill(
            [FrontierNumber(number, host(number), depths[number]) for number in pending],
            [
                FrontierNumber(no, host(no), depth)
                for no, depth in depths.items()
                if no not in pending
            ],
        )
        assert added == model.refill(pending)
        for each in range(3):
            self.renew(each)

    def check(self):
        census = self.workers[0].census()
        assert (census.waiting, census.claimed) == (len(self.model.waiting), len(self.model.held))
        depths = {number for number, _ in self.model.held.values()} | set(self.model.waiting)
        assert depths <= set(self.model.depths)
        assert max(Counter(no for no, _ in self.model.held.values()).values(), default=1) == 1


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url, decode_responses=True, protocol=2) as connected:
        yield connected


@settings(
    deadline=None,
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEPS, max_size=40))
def test_redis_does_what_the_model_does(client, steps):
    client.flushdb()
    crew = Crew(client)
    for what, *values in steps:
        match what:
            case "offer" | "claim" | "die" | "renew":
                getattr(crew, what)(*values)
            case "ack" | "land" | "release":
                crew.end(what, *values)
            case "flush" | "refill":
                crew.refill(*values, lost=what == "flush")
            case _:
                crew.act(what, *values)
        crew.check()

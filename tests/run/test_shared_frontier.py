"""The frontier of one worker in a shared run (ADR 30)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from smartcrawl.model.batches import Batch
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.pages import Page
from smartcrawl.registry.runs.shared_reader import Reached
from smartcrawl.registry.writer import Written
from smartcrawl.rules.model import RunState
from smartcrawl.run.shared.connection import connect_redis
from smartcrawl.run.shared.frontier import SharedFrontier
from smartcrawl.run.shared.scripts import FrontierNumber
from tests.run.stepped import Stepped


def test_a_worker_that_ends_a_run_knows_that_others_took_the_last_it_may_ask_for(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    """R2-21: else the run would be cut, and not by max_pages."""
    with connect_redis(redis_url) as client:
        ours, other = (
            Stepped(client, "docs", 7, per_host=100, most=2, worker=name) for name in "ab"
        )
        ours.begin()
        ours.offer(FrontierNumber(number, "h.example", 1) for number in (1, 2, 3))
        absent = cast("Any", None)
        shared = SharedFrontier(
            ours, absent, readers=(absent, absent), retried=absent, limited=True, capacity=1
        )
        monkeypatch.setattr(shared.desk, "_look", lambda moves: True)
        shared.desk.arrived(ours.exchange())
        assert not shared.spent
        other.begin()
        other.ack(other.claim(2))

        assert shared.desk.looked()
        assert shared.spent


def test_claims_that_cannot_be_taken_are_given_back(redis_url: str):
    """As where the registry is away; else this worker would renew them for ever."""
    with connect_redis(redis_url) as client:
        redis = Stepped(client, "docs", 7, per_host=100, worker="a")
        redis.begin()
        redis.offer(FrontierNumber(number, "h.example", 1) for number in (1, 2))
        absent = cast("Any", None)
        member = SimpleNamespace(run=7)
        shared = SharedFrontier(
            redis,
            cast("Any", member),
            readers=(absent, absent),
            retried=absent,
            limited=False,
            capacity=9,
        )

        def load(numbers: object) -> list[Page]:
            raise RegistryError("it is away")

        shared.grow(2)
        shared.claims.attach(load, lambda claim: None)
        exchange = redis.exchange(2)
        assert len(exchange.claims) == 2
        with pytest.raises(RegistryError):
            shared.desk.arrived(exchange)

        assert shared.claims.asked == 0
        assert len(shared._courier._post.released) == 2


def test_a_worker_looks_again_after_something_was_found_under_no_claim(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    """The links of a collapsed page are found without a claim: Redis does not show it before."""
    with connect_redis(redis_url) as client:
        redis = Stepped(client, "docs", 7, per_host=100, worker="a")
        redis.begin()
        absent = cast("Any", None)
        shared = SharedFrontier(
            redis, absent, readers=(absent, absent), retried=absent, limited=False, capacity=1
        )
        looks: list[int] = []
        monkeypatch.setattr(shared.desk, "_look", lambda moves: looks.append(moves) or True)
        monkeypatch.setattr(shared.desk, "_lacks_pages", lambda: False)
        shared.offer([5], 1)
        assert shared.desk.looked()
        shared.rest(looks[-1], cast("Any", "ours"), sealed=False)
        assert not shared.pending

        shared.written(Written(Batch(), 0, reached=[Reached(4, "h.example", 1, 0, True)]))
        assert not shared.pending, "that is visited"
        shared.written(Written(Batch(), 0, reached=[Reached(5, "h.example", 1, 0, False)]))
        assert shared.pending


def test_a_worker_that_cannot_write_gives_its_claims_back_until_a_batch_is_written(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    with connect_redis(redis_url) as client:
        ours, other = (Stepped(client, "docs", 7, per_host=100, worker=name) for name in "ab")
        ours.begin()
        ours.offer(FrontierNumber(number, "h.example", 1) for number in (1, 2))
        absent = cast("Any", None)
        reader = cast("Any", SimpleNamespace(state=lambda: RunState.OPEN))
        shared = SharedFrontier(
            ours, absent, readers=(absent, reader), retried=absent, limited=False, capacity=5
        )
        claims = ours.claim(2)
        for claim in claims:
            shared.claims._claims[claim.no] = claim
        assert shared._room() == 5

        shared.cut()
        shared.cut()

        post = shared._courier._taken()
        assert [claim.no for claim in post.released] == [1, 2]
        assert shared._room() == 0
        assert not shared.desk.looked(), "it cannot end the run either"
        ours.exchange(released=post.released)
        other.begin()
        assert sorted(claim.no for claim in other.claim(5)) == [1, 2]

        shared.take(claims)
        assert [claim.no for claim in shared._courier._taken().released] == [1, 2]
        moves = shared.moves
        shared.written(Written(Batch(), 0))
        assert shared._room() == 5
        assert shared.moves > moves


@pytest.mark.covers("R2-35", "R2-42")
def test_numbers_go_to_redis_with_the_priorities_of_their_pins(redis_url: str):
    """Also those that another worker registered first under another number."""
    with connect_redis(redis_url) as client:
        redis = Stepped(client, "docs", 7, per_host=100, worker="a")
        redis.begin()
        absent = cast("Any", None)
        shared = SharedFrontier(
            redis, absent, readers=(absent, absent), retried=absent, limited=False, capacity=1
        )
        shared.priorities.update({4: 1, 6: 9})
        shared.offer([4], 0)
        shared.rename({4: 8})
        reached = [Reached(no, "h.example:81", 2, 0, False) for no in (8, 5, 6)]

        found = [shared.desk.waiting(one) for one in reached]

        assert found == [
            FrontierNumber(8, "h.example", 2, 1),
            FrontierNumber(5, "h.example", 2, 5),
            FrontierNumber(6, "h.example", 2, 9),
        ]
        redis.offer(found)
        assert [claim.no for claim in redis.claim(3)] == [8, 5, 6]


@pytest.mark.parametrize(
    ("joined", "visits", "made", "calls"),
    [
        (False, 0, True, ["retire", "remove_older", "begin"]),
        (False, 3, True, ["retire", "remove_older", "begin", "fill"]),
        (True, 0, True, ["begin"]),
        (True, 3, True, ["recover", "fill"]),
        (True, 3, False, ["recover"]),
    ],
)
def test_only_the_worker_that_made_a_runs_part_of_redis_fills_it(
    joined: bool, visits: int, made: bool, calls: list[str], monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []

    def noting(name: str) -> Callable[..., bool]:
        return lambda *_, **given: asked.append(name) or made

    names = ("retire", "remove_older", "begin", "recover")
    redis, absent = SimpleNamespace(**{name: noting(name) for name in names}), cast("Any", None)
    reader = cast("Any", SimpleNamespace(visits=lambda: visits))
    shared = SharedFrontier(
        cast("Any", redis),
        absent,
        readers=(reader, absent),
        retried=absent,
        limited=False,
        capacity=1,
    )
    monkeypatch.setattr(shared.desk, "fill", noting("fill"))

    shared.begin(joined=joined)

    assert asked == calls

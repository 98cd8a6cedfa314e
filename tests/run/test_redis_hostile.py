"""Data that other programs write into Redis is never run, and stops no worker (ATT-55)."""

import json
import os
import pickle
from base64 import b64encode
from pathlib import Path

import pytest
from redis import Redis

from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.exceptions import FrontierError, FrontierLostError
from smartcrawl.registry.runs.shared_reader import SharedReader
from smartcrawl.run.shared.connection import connect_redis
from smartcrawl.run.shared.frontier import SharedFrontier
from smartcrawl.run.shared.redis_frontier import SharedRobots
from smartcrawl.run.shared.scripts import FrontierNumber
from tests.registry.build import Desk
from tests.run.stepped import Stepped

HOST = "a.example"
ORIGIN = f"https://{HOST}"
RUN = "docs:7:"


class Planted:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._marker),)


@pytest.fixture
def client(redis_url):
    with connect_redis(redis_url) as connected:
        yield connected


@pytest.fixture
def others(redis_url):
    """Another program's connection, which writes any bytes."""
    with Redis.from_url(redis_url) as connected:
        yield connected


@pytest.fixture
def frontier(client):
    made = Stepped(client, "docs", 7, per_host=100)
    made.begin()
    made.offer([FrontierNumber(number, HOST, 0) for number in (1, 2, 3)])
    return made


def test_redis_entries_that_no_worker_wrote_are_counted_and_not_claimed(
    frontier, others, tmp_path, caplog
):
    """ATT-55: pickles, code, addresses, and numbers that no registry has room for."""
    marker = tmp_path / "marker"
    members = [
        pickle.dumps(Planted(marker)), b"__import__('os')", b"http://127.0.0.1/", b"", b"1",
        b"-000000001", b"0000000001\n", b"4294967296", b"00000000000000000009", b"1e00000009",
    ]  # fmt: skip
    others.zadd(f"{RUN}frontier:{HOST}", dict.fromkeys(members, 0))

    result = frontier.exchange(3)
    rest = frontier.exchange(9)

    assert [claim.no for claim in (*result.claims, *rest.claims)] == [1, 2, 3]
    assert result.malformed + rest.malformed == len(members)
    assert f"of docs that are not numbers were removed: {len(members)}." in caplog.text
    assert not marker.exists()
    assert frontier.census()[:2] == (0, 3)
    assert frontier.ack([*result.claims, *rest.claims]) == []
    assert frontier.idle()


@pytest.mark.parametrize(
    "claim",
    [
        b"\x80\x04K\x01.",
        b"[]",
        b'"text"',
        b"null",
        b'{"host": 7, "token": "t", "worker": "w", "score": "1"}',
        b'{"host": "a.example", "token": "t", "worker": "w"}',
        b"[" * 2_000,
    ],
)
def test_redis_claims_that_no_worker_wrote_are_none(frontier, others, claim):
    """ATT-55."""
    others.hset(f"{RUN}claims", "0000000009", claim)
    others.zadd(f"{RUN}leases", {"0000000009": 1})

    assert [each.no for each in frontier.claim(9)] == [1, 2, 3]
    assert not others.hexists(f"{RUN}claims", "0000000009")
    assert frontier.census()[:2] == (0, 3)


@pytest.mark.parametrize("reply", [b"\x80\x04K\x01.", b"[]", b'{"call": 1}', b"{}"])
def test_redis_replies_that_no_worker_wrote_are_a_loss(frontier, others, reply):
    """ATT-55: the registry fills the frontier again."""
    others.hset(f"{RUN}replies", frontier.worker, reply)

    with pytest.raises(FrontierLostError):
        frontier.claim(1)
    frontier.recover(settle=0)
    frontier.refill([FrontierNumber(number, HOST, 0) for number in (1, 2, 3)])

    assert [claim.no for claim in frontier.claim(9)] == [1, 2, 3]


@pytest.mark.parametrize(
    "answer",
    ["no JSON", "7", "{}", '{"claims": [["os.system", 1]]}', '{"claims": 7, "malformed": 0}'],
)
def test_redis_answers_that_no_script_gave_are_an_error_with_a_remedy(frontier, others, answer):
    """ATT-55: an answer is kept for the worker whose connection broke."""
    call = frontier._calls + 1
    others.hset(f"{RUN}replies", frontier.worker, json.dumps({"call": call, "answer": answer}))

    with pytest.raises(FrontierError, match="has data that no worker wrote: find the other"):
        frontier.claim(1)


def test_redis_hosts_that_no_worker_wrote_are_an_error_with_a_remedy(frontier, others):
    """ATT-55."""
    frontier.ack(frontier.claim(9))
    others.zadd(f"{RUN}frontier:".encode() + b"\xff\x80", {b"0000000004": 0})
    others.sadd(f"{RUN}ready_domains", b"\xff\x80")

    with pytest.raises(FrontierError, match="has data that no worker wrote"):
        frontier.claim(1)


def test_redis_dates_of_hosts_that_are_none_hold_nothing_up(frontier, others):
    """ATT-55."""
    others.hset("domain:last_crawl", HOST, b"\x80")
    names = ("crawl_delay", "pace", "paused_until")
    others.hset(f"domain:meta:{HOST}", mapping=dict.fromkeys(names, b"soon"))
    others.sadd(f"{RUN}lowered", b"\x80", b"os.system", b"0000000002")

    assert [claim.no for claim in frontier.claim(9)] == [1, 2, 3]
    assert frontier.lowered() == [2]
    frontier.hosts.pause(HOST, 1)


GOOD = {"fetched_at": 9, "status": 200, "etag": None, "last_modified": None, "run": "docs:7:"}
BODY = b64encode(b"User-agent: *\n").decode()


@pytest.mark.parametrize(
    "kept",
    [
        b"\x80\x04K\x01.",
        b"no JSON",
        b"[]",
        b"7",
        json.dumps(GOOD),
        json.dumps(GOOD | {"body": 7}),
        json.dumps(GOOD | {"body": "=?"}),
        json.dumps(GOOD | {"body": BODY, "callback": "os.system"}),
        json.dumps(GOOD | {"body": BODY, "fetched_at": "soon"}),
        json.dumps(GOOD | {"body": BODY, "status": True}),
        json.dumps(GOOD | {"body": BODY, "etag": [1]}),
    ],
)
def test_redis_rules_that_no_worker_wrote_are_asked_for(client, others, caplog, kept):
    """ATT-55."""
    robots = SharedRobots(client, 60, source="docs", run=7)
    others.set(f"robots:{ORIGIN}", kept)

    assert robots.get(ORIGIN) is None
    assert f"the robots.txt of {ORIGIN} in Redis was written by another program" in caplog.text

    others.set(f"robots:{ORIGIN}", json.dumps(GOOD | {"body": BODY}))
    assert robots.get(ORIGIN) == StoredRobots(9, 200, None, None, b"User-agent: *\n")


def test_redis_numbers_that_the_registry_does_not_have_take_no_memory(client, others, caplog):
    """ATT-55: a byte is kept for each number up to the highest one."""
    desk = Desk()
    desk.open()
    desk.add("http://a.example/")
    reader = SharedReader(desk.connection, desk.run.no)
    redis = Stepped(client, "docs", 7, per_host=100)
    redis.begin()
    others.zadd(f"{RUN}frontier:{HOST}", {b"4294967295": 0})
    others.sadd(f"{RUN}ready_domains", HOST)
    frontier = SharedFrontier(
        redis, None, readers=(reader, reader), retried=None, limited=False, capacity=1
    )
    claims = redis.claim(1)
    assert [claim.no for claim in claims] == [4_294_967_295]

    frontier.take(claims)

    assert len(frontier.reached) < 100_000
    assert frontier._courier._post.done == claims
    assert "numbers in Redis that the registry does not know were skipped: 1." in caplog.text

"""Values in Redis beside the frontier, and the manual of all keys."""

import asyncio
import re
from pathlib import Path

import pytest

from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.exceptions import FrontierError
from smartcrawl.run.received import Answer
from smartcrawl.run.shared.connection import connect_redis
from smartcrawl.run.shared.data_answers import SharedDataAnswers
from smartcrawl.run.shared.redis_frontier import SharedRobots
from smartcrawl.run.shared.scripts import FrontierNumber
from tests.run.stepped import Stepped
from tests.servers import redis_server

ORIGIN = "https://a.example"
ROBOTS = StoredRobots(1_795_219_200, 200, '"e1"', None, b"User-agent: *\nDisallow: /\xff\n")


@pytest.fixture
def client(redis_url):
    with connect_redis(redis_url) as connected:
        yield connected


# robots.txt


def test_redis_keeps_robots_for_the_workers_of_all_sources(client, redis_url):
    SharedRobots(client, 60, source="blog", run=3).put(ORIGIN, ROBOTS)

    with connect_redis(redis_url) as other:
        docs = SharedRobots(other, 60, source="docs", run=4, began=ROBOTS.fetched_at - 1)
        assert docs.get(ORIGIN) == ROBOTS
        assert docs.get("http://a.example") is None
    assert 55 < client.ttl("robots:https://a.example") <= 60


@pytest.mark.parametrize(
    ("source", "run", "read_at", "counts"),
    [
        ("docs", 7, -1, True),  # by a worker whose clock is behind
        ("docs", 7, 0, True),  # workers that start together read it in the second of the start
        ("docs", 6, 0, False),  # the run before ended in that second
        ("blog", 7, 0, False),
        ("docs", 6, -1, False),
        ("blog", 7, 1, True),
    ],
)
def test_redis_robots_that_this_run_has_not_read_are_asked_for(
    client, source, run, read_at, counts
):
    SharedRobots(client, 60, source=source, run=run).put(ORIGIN, ROBOTS)
    began = ROBOTS.fetched_at - read_at

    found = SharedRobots(client, 60, source="docs", run=7, began=began).get(ORIGIN)

    assert found == (ROBOTS if counts else None)


def test_redis_keeps_no_robots_that_is_fetched_each_time(client):
    SharedRobots(client, 0).put(ORIGIN, ROBOTS)

    assert list(client.scan_iter()) == []


def test_redis_keeps_text_and_never_a_pickle(client):
    """ATT-55."""
    SharedRobots(client, 60).put(ORIGIN, ROBOTS)

    assert client.get("robots:https://a.example").startswith('{"fetched_at": 1795219200, ')


@pytest.mark.parametrize(
    "use",
    [
        lambda client: SharedRobots(client, 60).get(ORIGIN),
        lambda client: SharedRobots(client, 60).put(ORIGIN, ROBOTS),
    ],
    ids=["get", "put"],
)
def test_redis_that_does_not_answer_is_told_with_the_remedy(use):
    with redis_server() as server, connect_redis(server.url) as client:
        server.kill()
        with pytest.raises(FrontierError, match="start it, or correct REDIS_URL"):
            use(client)


# The manual


async def answered():
    return Answer(f"{ORIGIN}/menu.json", 200, [], b"{}")


@pytest.mark.covers("R2-42", "R2-43", "R2-44", "R2-45", "M-36")
def test_redis_holds_what_the_manual_says_and_nothing_else(client):
    text = (Path(__file__).parents[2] / "docs/redis.md").read_text("utf-8")
    documented = dict(re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \|", text, re.MULTILINE))
    names = {"source": "docs", "run": "7", "host": "a.example", "origin": ORIGIN, "chunk": "0"}
    names |= {"registry": "8c1f09aa5e2b7d34", "request": "3", "version": "1"}
    frontier = Stepped(client, "docs", 7, registry=names["registry"], per_host=2, robots=True)
    frontier.begin()
    frontier.offer([FrontierNumber(no, "a.example", 300) for no in (1, 2, 3, 4)])
    frontier.offer([FrontierNumber(5, "b.example", 0), FrontierNumber(4, "a.example", 299)])
    frontier.claim(3)
    frontier.hosts.pause("a.example", 9)
    frontier.hosts.give_up("c.example")
    frontier.offer([FrontierNumber(6, "c.example", 0)])
    SharedRobots(client, 60).put(ORIGIN, ROBOTS)
    answers = SharedDataAnswers(client, source="docs", run=7, registry=names["registry"])
    asyncio.run(answers.asked_once("3:1", answered))

    found = {key: client.type(key).replace("zset", "sorted set") for key in client.scan_iter()}

    expected = {key.format(**names): kind for key, kind in documented.items()}
    assert {
        key: kind for key, kind in found.items() if "b.ex" not in key and "c.ex" not in key
    } == (expected)
    assert "1,000,000 seconds, which is 11.6 days" in text

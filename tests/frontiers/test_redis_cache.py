"""What is kept in Redis beside the frontier, and the manual of all that lies there."""

import hashlib
import re
from pathlib import Path

import pytest

from smartcrawl.exceptions import FrontierError
from smartcrawl.frontiers.bloom import UrlFilter
from smartcrawl.frontiers.connection import connect
from smartcrawl.frontiers.robots import SharedRobots
from smartcrawl.frontiers.shared import RedisFrontier, Waiting
from smartcrawl.items import StoredRobots
from tests.servers import redis_server

ORIGIN = "https://a.example"
ROBOTS = StoredRobots(1_795_219_200, 200, '"e1"', None, b"User-agent: *\nDisallow: /\xff\n")


@pytest.fixture
def client(redis_url):
    with connect(redis_url) as connected:
        yield connected


def ids(first, last):
    return [hashlib.sha256(str(number).encode()).digest() for number in range(first, last)]


# robots.txt


def test_redis_keeps_robots_for_the_workers_of_all_sources(client, redis_url):
    SharedRobots(client, 60, source="blog", run=3).put(ORIGIN, ROBOTS)

    with connect(redis_url) as other:
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
    SharedRobots(client, 60).put(ORIGIN, ROBOTS)

    assert client.get("robots:https://a.example").startswith('{"fetched_at": 1795219200, ')


# Addresses


@pytest.mark.covers("M-34", "G-22")
def test_redis_filter_knows_what_was_registered_and_hardly_anything_else(client):
    urls = UrlFilter(client, "docs", capacity=20_000, error_rate=0.001)
    assert urls.fill(ids(0, 20_000))

    assert all(urls.known(ids(0, 20_000)))
    wrong = sum(urls.known(ids(20_000, 40_000)))
    assert 1 <= wrong <= 60
    assert client.strlen(next(client.scan_iter("docs:bloom:urls:*[0-9]"))) <= 36_000


def test_redis_filter_of_a_million_addresses_is_two_megabytes(client):
    UrlFilter(client, "docs").fill(ids(0, 1_000))

    [bits] = [key for key in client.scan_iter("docs:bloom:*") if not key.endswith(":whole")]
    assert 1_700_000 < client.strlen(bits) < 1_800_000


def test_redis_filter_says_yes_to_everything_until_it_is_whole(client):
    urls = UrlFilter(client, "docs", capacity=1_000)
    assert not urls.add(ids(0, 10))
    assert urls.known(ids(0, 2_500)) == [True] * 2_500

    assert urls.fill(ids(10, 20))

    assert urls.known(ids(0, 30)) == [True] * 20 + [False] * 10
    assert urls.add(ids(20, 30))
    assert all(urls.known(ids(0, 30)))
    assert urls.known([]) == []


def test_redis_filter_that_was_lost_says_yes_to_everything(client):
    urls = UrlFilter(client, "docs", capacity=1_000)
    urls.fill(ids(0, 10))
    client.flushall()

    assert urls.known(ids(0, 30)) == [True] * 30
    urls.fill(ids(0, 10))
    assert urls.known(ids(0, 30)) == [True] * 10 + [False] * 20
    urls.spoil()
    assert urls.known(ids(0, 30)) == [True] * 30


def test_redis_filter_that_is_lost_while_it_is_filled_is_not_whole(client):
    urls = UrlFilter(client, "docs", capacity=10_000)

    def registered():
        yield from ids(0, 1_500)
        client.flushall()
        yield from ids(1_500, 3_000)

    assert not urls.fill(registered())
    assert urls.known(ids(0, 10) + ids(5_000, 5_010)) == [True] * 20


def test_redis_filters_of_sources_and_sizes_are_told_apart(client):
    for source, capacity in (("docs", 1_000), ("docs", 2_000), ("blog", 1_000)):
        UrlFilter(client, source, capacity=capacity).fill(ids(0, 1))
    UrlFilter(client, "docs", capacity=1_000).add(ids(1, 2))

    known = [
        UrlFilter(client, source, capacity=capacity).known(ids(1, 2))
        for source, capacity in (("docs", 1_000), ("docs", 2_000), ("blog", 1_000))
    ]
    assert known == [[True], [False], [False]]


@pytest.mark.parametrize(
    "use",
    [
        lambda client: SharedRobots(client, 60).get(ORIGIN),
        lambda client: SharedRobots(client, 60).put(ORIGIN, ROBOTS),
        lambda client: UrlFilter(client, "docs").known(ids(0, 1)),
        lambda client: UrlFilter(client, "docs").add(ids(0, 1)),
        lambda client: UrlFilter(client, "docs").fill(ids(0, 1)),
        lambda client: UrlFilter(client, "docs").spoil(),
    ],
    ids=["get", "put", "known", "add", "fill", "spoil"],
)
def test_redis_that_does_not_answer_is_told_with_the_remedy(use):
    with redis_server() as server, connect(server.url) as client:
        server.kill()
        with pytest.raises(FrontierError, match="start it, or correct REDIS_URL"):
            use(client)


# The manual


@pytest.mark.covers("R2-42", "R2-43", "R2-44", "R2-45", "M-36")
def test_redis_holds_what_the_manual_says_and_nothing_else(client):
    text = (Path(__file__).parents[2] / "docs/redis.md").read_text("utf-8")
    told = dict(re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \|", text, re.MULTILINE))
    names = {"source": "docs", "run": "7", "host": "a.example", "origin": ORIGIN, "chunk": "0"}
    frontier = RedisFrontier(client, "docs", 7, per_host=2, robots=True)
    frontier.begin()
    frontier.offer([Waiting(no, "a.example", 300) for no in (1, 2, 3, 4)])
    frontier.offer([Waiting(5, "b.example", 0), Waiting(4, "a.example", 299)])
    frontier.claim(3)
    frontier.hosts.pause("a.example", 9)
    frontier.hosts.give_up("c.example")
    frontier.offer([Waiting(6, "c.example", 0)])
    urls = UrlFilter(client, "docs")
    urls.fill(ids(0, 1))
    SharedRobots(client, 60).put(ORIGIN, ROBOTS)

    found = {key: client.type(key).replace("zset", "sorted set") for key in client.scan_iter()}

    names["bits"] = next(re.findall(r"[0-9]+", key)[0] for key in found if "bloom" in key)
    expected = {key.format(**names): kind for key, kind in told.items()}
    assert {
        key: kind for key, kind in found.items() if "b.ex" not in key and "c.ex" not in key
    } == (expected)
    assert "1,000,000 seconds, which is 11.6 days" in text

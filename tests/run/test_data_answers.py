"""The answers of data requests in Redis: one worker of a run asks for all."""

import asyncio
from dataclasses import dataclass

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from smartcrawl.run.received import Answer
from smartcrawl.run.shared import data_answers
from smartcrawl.run.shared.connection import connect_redis
from smartcrawl.run.shared.data_answers import MOST_SHARED, SharedDataAnswers

MENU = Answer("https://a.example/menu", 200, [(b"etag", b'"e1"')], b'{"a": 1}')
SAME = Answer("https://a.example/menu", 304, [], b"")


@pytest.fixture
def client(redis_url):
    with connect_redis(redis_url) as connected:
        yield connected


@dataclass
class Server:
    """Answers, and counts how often it is asked."""

    answer: object = MENU
    takes: float = 0.0
    asked: int = 0

    async def ask(self):
        self.asked += 1
        await asyncio.sleep(self.takes)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def worker(client, run=7):
    return SharedDataAnswers(client, source="app", run=run, registry="r")


def ask(worker, server, key="1:1"):
    return asyncio.run(worker.asked_once(key, server.ask))


@pytest.mark.parametrize("answer", [MENU, SAME, MENU._replace(body=b"\x00\xff", status=301)])
def test_an_answer_is_asked_once_for_all_workers(client, answer):
    server = Server(answer)
    assert [ask(worker(client), server) for _ in range(3)] == [answer] * 3
    assert server.asked == 1
    [key] = client.scan_iter()
    assert key == "r:app:7:data:1:1"
    assert 3_590 < client.ttl(key) <= 3_600


def test_workers_wait_for_one_that_asks(client):
    server = Server(takes=0.3)

    async def both():
        return await asyncio.gather(*(worker(client).asked_once("k", server.ask) for _ in "123"))

    assert (asyncio.run(both()), server.asked) == ([MENU] * 3, 1)


@pytest.mark.parametrize("more", [{"run": 8}, {"key": "1:2"}])
def test_another_run_or_another_version_is_asked_anew(client, more):
    server = Server()
    ask(worker(client), server)
    ask(worker(client, more.get("run", 7)), server, more.get("key", "1:1"))
    assert server.asked == 2


@pytest.mark.parametrize(
    "answer",
    [
        "robots.txt forbids it",
        MENU._replace(status=500),
        MENU._replace(body=b"x" * MOST_SHARED * 2),
    ],
    ids=["refused", "error", "long"],
)
def test_each_worker_asks_for_what_another_may_get_otherwise(client, answer):
    server = Server(answer)
    assert [ask(worker(client), server) for _ in range(2)] == [answer] * 2
    assert (server.asked, list(client.scan_iter())) == (2, [])


def test_a_worker_that_fails_gives_its_turn_up(client):
    with pytest.raises(OSError, match="gone"):
        ask(worker(client), Server(OSError("gone")))
    server = Server()
    assert (ask(worker(client), server), server.asked) == (MENU, 1)


def test_a_worker_that_died_is_waited_for_no_longer_than_its_claim(client, monkeypatch):
    monkeypatch.setattr(data_answers, "_CLAIM", 1)
    client.set("r:app:7:data:1:1", "?dead", ex=60)
    server = Server()
    assert (ask(worker(client), server), server.asked) == (MENU, 1)
    assert client.get("r:app:7:data:1:1") == "?dead"  # it is not its own


@pytest.mark.parametrize(
    "kept",
    ["no JSON", "[]", '{"url": 1, "status": 200, "headers": {}, "body": ""}',
     '{"url": "u", "status": "200", "headers": {}, "body": ""}',
     '{"url": "u", "status": 200, "headers": {"etag": 5}, "body": ""}',
     '{"url": "u", "status": 200, "headers": {}, "body": "*"}'],
)  # fmt: skip
def test_what_no_worker_wrote_is_ignored(client, caplog, kept):
    client.set("r:app:7:data:1:1", kept)
    server = Server()
    assert (ask(worker(client), server), server.asked) == (MENU, 1)
    assert "written by another program" in caplog.text


class Away:
    """A Redis that does not answer."""

    def _fails(self, *_, **__):
        raise RedisConnectionError("away")

    get = set = eval = _fails


def test_without_redis_each_worker_asks():
    server = Server()
    assert (ask(worker(Away()), server), server.asked) == (MENU, 1)

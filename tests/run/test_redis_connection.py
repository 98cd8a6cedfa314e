"""A Redis that cannot carry a frontier is refused before a run begins, with the remedy."""

import socket
import threading
import time

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from smartcrawl.model.exceptions import FrontierError, SettingError
from smartcrawl.model.options import Options
from smartcrawl.run.shared.connection import connect_redis, redis_refusal
from smartcrawl.run.shared.scripts import FrontierNumber, redis_failure
from tests.model.test_options import SETTINGS
from tests.run.stepped import Stepped
from tests.servers import redis_server

SOUND = {"redis_version": "7.0.15", "role": "master", "maxmemory_policy": "noeviction"}


def refused(url):
    with pytest.raises(FrontierError) as caught:
        connect_redis(url)
    message = str(caught.value)
    assert "8c1f" not in message
    return message


@pytest.fixture
def guarded():
    with redis_server(requirepass="8c1f") as running:
        yield running


@pytest.mark.parametrize(("text", "why"), [("", "ConnectionError"), ("it is shut", "it is shut")])
def test_a_failure_without_a_text_is_told_by_its_name(text, why):
    told = f"cannot write ({why}); start it, or correct REDIS_URL"
    assert str(redis_failure(RedisConnectionError(text), "write")) == told


# Wrong URLs


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("http://redis.example/", "is no URL of a Redis"),
        ("redis.example:6379", "is no URL of a Redis"),
        ("redis:///0", "names no host"),
        ("redis://:6379/0", "names no host"),
        ("unix://", "names no socket"),
        ("redis://redis.example:0/", "is no URL of a Redis"),
        ("redis://redis.example:66000/", "is no URL of a Redis"),
        ("redis://redis.example:x/", "is no URL of a Redis"),
        ("redis://[::1/", "is no URL of a Redis"),
        ("redis://redis.example/docs", "names a database that is no number"),
        ("redis://redis.example/0/1", "names a database that is no number"),
        ("redis://redis.example/0?retry_on_timeout=1", "has the option retry_on_timeout"),
        ("redis://redis.example/0?db=2", "has the option db"),
        ("unix:///run/redis.sock?protocol=3", "has the option protocol"),
        ("redis://me:8c1f@redis.example/docs", "names a database that is no number"),
        ("redis://me:8c1f/x@redis.example/0", "names"),
    ],
)
def test_redis_url_that_is_wrong_is_refused_without_its_password(url, wrong):
    with pytest.raises(SettingError) as caught:
        Options.of(SETTINGS | {"REDIS_URL": url})

    assert str(caught.value).startswith("REDIS_URL is ")
    assert wrong in str(caught.value)
    assert "redis://HOST:PORT/DB" in str(caught.value)
    assert "8c1f" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://redis.example",
        "redis://redis.example:6380/3",
        "redis://[::1]:6380/3",
        "rediss://me:8c1f@redis.example/0?ssl_ca_certs=ca.pem&ssl_check_hostname=0",
        "unix:///run/redis.sock",
        "unix:///run/redis.sock?db=3",
    ],
)
def test_redis_url_that_is_right_is_taken(url):
    assert Options.of(SETTINGS | {"REDIS_URL": f" {url} "}).redis == url


def test_redis_is_not_used_unless_it_is_named():
    assert Options.of(SETTINGS | {"REDIS_URL": ""}).redis is None


@pytest.mark.parametrize("option", ["ssl_cert_reqs=often", "ssl_nothing=1", "ssl_min_version=x"])
def test_redis_options_that_it_does_not_take_are_refused(option):
    with pytest.raises(SettingError, match=r"REDIS_URL is 'rediss://redis\.example/0', with"):
        connect_redis(f"rediss://redis.example/0?{option}")


# Who answers


def test_redis_that_is_sound_is_taken_and_no_probe_is_left(redis_url):
    with connect_redis(redis_url) as client:
        assert list(client.scan_iter()) == []


def test_redis_that_does_not_answer_is_refused(redis_url):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    message = refused(f"redis://me:8c1f@127.0.0.1:{port}/1")

    assert message.startswith(f"cannot use redis://127.0.0.1:{port}/1 (")
    assert message.endswith("start it, or correct REDIS_URL")


def test_redis_that_is_another_server_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            peer, _ = server.accept()
            with peer:
                peer.recv(1_000)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        message = refused(f"redis://127.0.0.1:{server.getsockname()[1]}/0")

    assert "Protocol Error" in message


def test_redis_of_another_password_is_refused(guarded):
    address = f"127.0.0.1:{guarded.port}"

    assert "a valid user and password" in refused(f"redis://{address}/0")
    assert "a valid user and password" in refused(f"redis://:wrong-8c1f@{address}/0")
    assert "a valid user and password" in refused(f"redis://nobody:8c1f@{address}/0")
    connect_redis(f"redis://:8c1f@{address}/0").close()


def test_redis_user_without_rights_is_refused(guarded):
    with Redis.from_url(guarded.url) as client:
        client.execute_command("ACL", "SETUSER", "reader", "on", ">8c1f", "~*", "+@read", "+info")
        client.execute_command("ACL", "SETUSER", "part", "on", ">8c1f", "~docs:*", "+@all")

    for user in ("reader", "part"):
        message = refused(f"redis://{user}:8c1f@127.0.0.1:{guarded.port}/0")
        assert message.endswith("give the user of REDIS_URL all commands on all keys (ACL SETUSER)")


def test_redis_without_such_a_database_is_refused(redis):
    message = refused(f"redis://127.0.0.1:{redis.port}/99999")

    assert "has no such database" in message
    assert "DB index is out of range" in message


# What it is like


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
def test_redis_that_evicts_is_refused(policy):
    with redis_server(maxmemory="50mb", maxmemory_policy=policy) as server:
        message = refused(server.url)
        with Redis.from_url(server.url) as client:
            client.config_set("maxmemory-policy", "noeviction")
        connect_redis(server.url).close()

    assert f"(maxmemory-policy {policy})" in message
    assert message.endswith("redis-cli CONFIG SET maxmemory-policy noeviction")


def test_redis_that_is_a_replica_is_refused(redis):
    with redis_server(replicaof=f"127.0.0.1 {redis.port}") as server:
        message = refused(server.url)

    assert message.endswith(f"give its primary, 127.0.0.1:{redis.port}")


def test_redis_cluster_is_refused():
    with redis_server(cluster_enabled="yes", databases=1) as server:
        assert "is a Redis Cluster" in refused(server.url)


def test_redis_that_is_full_is_refused():
    with redis_server(maxmemory="1") as server:
        assert refused(server.url).endswith("or give it more room")


@pytest.mark.parametrize(
    ("version", "taken"),
    [("7.0.15", True), ("6.2.0", True), ("10.0", True), ("6.0.20", False), ("5.0.7", False)],
)
def test_redis_of_another_version_is_refused(version, taken):
    """An older server cannot run here."""
    why = redis_refusal(SOUND | {"redis_version": version})

    assert why is None if taken else why == f"is Redis {version}, but 6.2 or newer is needed"


# While a run uses it


def test_redis_that_becomes_full_refuses_a_call_as_a_whole():
    with redis_server() as server, connect_redis(server.url) as client:
        frontier = Stepped(client, "docs", 7, per_host=9, place="redis://here")
        frontier.begin()
        frontier.offer([FrontierNumber(1, "a.example", 0)])
        claims = frontier.claim(1)
        client.config_set("maxmemory", "1")
        assert frontier.ack(claims) == []  # what makes room is done
        with pytest.raises(FrontierError, match=r"redis://here .* raise maxmemory of this Redis"):
            frontier.offer([FrontierNumber(2, "a.example", 1)])
        assert list(client.scan_iter("docs:7:frontier:*")) == []
        client.config_set("maxmemory", "0")

        assert [claim.no for claim in frontier.claim(1)] == [2]


def test_redis_that_is_away_for_a_while_is_told_later_what_it_was_to_be_told():
    keeps = {"appendonly": "yes", "appendfsync": "always"}
    with redis_server(**keeps) as server, connect_redis(server.url) as client:
        frontier = Stepped(client, "docs", 7, per_host=9)
        frontier.begin()
        frontier.offer([FrontierNumber(no, "a.example", 0) for no in (1, 2, 3)])
        claims = frontier.claim(1)
        server.kill()
        with pytest.raises(FrontierError, match="start it, or correct REDIS_URL"):
            frontier.exchange(1, done=claims)
        server.start()

        assert [claim.no for claim in frontier.claim(1)] == [2]
        assert frontier.ack(claims) == claims
        assert frontier.census()[:2] == (1, 1)


def test_redis_that_forgot_a_script_is_sent_it_again(redis_url):
    with connect_redis(redis_url) as client:
        frontier = Stepped(client, "docs", 7, per_host=9)
        frontier.begin()
        client.script_flush()

        assert frontier.offer([FrontierNumber(1, "a.example", 0)]) == ([1], [])


def test_redis_calls_are_short(redis_url):
    """All other workers wait meanwhile."""
    with connect_redis(redis_url) as client:
        frontier = Stepped(client, "docs", 7, per_host=99)
        frontier.begin()
        frontier.offer([FrontierNumber(no, f"h{no % 500}.example", 0) for no in range(1, 1_001)])
        client.config_resetstat()
        began = time.monotonic()
        for turn in range(200):
            claims = frontier.claim(1)
            found = [FrontierNumber(2_000 + turn * 60 + no, "a.example", 1) for no in range(60)]
            frontier.exchange(done=claims, found=found)
        stats = client.info("commandstats")["cmdstat_evalsha"]

    assert stats["calls"] == 400
    assert stats["usec"] / 400 < 5_000
    assert time.monotonic() - began < 10

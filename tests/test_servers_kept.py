"""PostgreSQL, Redis and Elasticsearch as the tests start them.

They answer their real clients, can be killed and started again, and are gone afterwards.
"""

import socket
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import psycopg
import pytest
from elasticsearch import AuthenticationException, Elasticsearch, NotFoundError
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError
from redis.retry import Retry

from tests import servers
from tests.servers.processes import alive

pytestmark = pytest.mark.long

# PostgreSQL


def test_postgres_keeps_what_was_committed_when_it_is_killed(server_memory):
    with servers.postgres(fsync="on") as server:
        assert server.execute("SHOW fsync") == [("on",)]
        with server.database() as url:
            with psycopg.connect(url) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 'ä' AS word")
            open_ = psycopg.connect(url)
            open_.execute("INSERT INTO kept VALUES ('not committed')")
            processes, port = server.processes(), server.port

            server.kill()

            assert not any(map(alive, processes))
            assert len(processes) > 3
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(url)
            server.start()
            assert server.port == port
            with psycopg.connect(url) as connection:
                assert connection.execute("SELECT word FROM kept").fetchall() == [("ä",)]
        processes = server.processes()
    assert not any(map(alive, processes))
    assert not list(server_memory.iterdir())
    assert not server.running


def test_postgres_url_is_an_empty_database_each_time(postgres, postgres_url):
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_stat_user_tables").fetchone() == (0,)
        connection.execute("CREATE TABLE mine (a int)")
    with postgres.database() as other, psycopg.connect(other) as connection:
        assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)
    assert other != postgres_url
    assert other.rpartition("/")[2] not in databases(postgres)
    assert postgres_url.rpartition("/")[2] in databases(postgres)


def databases(server: servers.Postgres) -> list[str]:
    return [name for (name,) in server.execute("SELECT datname FROM pg_database")]


def test_postgres_database_is_dropped_though_its_server_was_killed_and_clients_stay(postgres):
    with postgres.database() as url:
        postgres.kill()
        postgres.start()
        client = psycopg.connect(url)
        postgres.kill()
    assert postgres.running
    with postgres.database() as other:
        client = psycopg.connect(other)
    with pytest.raises(psycopg.OperationalError):
        client.execute("SELECT 1")
    left = {url.rpartition("/")[2], other.rpartition("/")[2]} & set(databases(postgres))
    assert not left


@pytest.mark.parametrize("turn", range(2))
def test_postgres_fixture_runs_again_after_a_test_that_killed_it(postgres_url, postgres, turn):
    psycopg.connect(postgres_url).close()
    postgres.kill()
    postgres.kill()  # nothing is left to do


def test_postgres_asks_guests_only_for_their_password(postgres):
    postgres.execute(f"DROP ROLE IF EXISTS {servers.GUEST}")
    postgres.execute(f"CREATE ROLE {servers.GUEST} LOGIN PASSWORD 'right'")
    url = postgres.url(user=servers.GUEST)
    psycopg.connect(url, password="right").close()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url, password="wrong")
    psycopg.connect(postgres.url(), password="any").close()


def test_postgres_that_does_not_start_says_why_and_leaves_nothing(server_memory):
    with pytest.raises(RuntimeError, match="unrecognized configuration parameter"):
        servers.postgres(nonsense=1).__enter__()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(servers.PortTakenError, match="in use"):
            servers.postgres(port=port).__enter__()
    assert not list(server_memory.iterdir())


def test_postgres_leaves_no_shared_memory_when_it_was_killed():
    def segments() -> list[str]:
        table = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        return [row.split()[1] for row in table]

    with servers.postgres() as server:
        (mine,) = [n.split()[1] for n in server._notes() if n.startswith(" ") and n.split()[1:]]
        assert mine in segments()
        server.kill()
    assert mine not in segments()


# Redis


def test_redis_answers_and_starts_empty_unless_it_writes_a_log(server_memory):
    with servers.redis_server() as server, Redis.from_url(server.url) as client:
        for start_again in (server.restart, lambda: (server.kill(), server.start())):
            client.set("word", "a")
            start_again()
            assert client.get("word") is None
    options = {"appendonly": "yes", "appendfsync": "always", "maxmemory_policy": "allkeys-lru"}
    with servers.redis_server(**options) as server, Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "allkeys-lru"}
        client.set("word", "a")
        processes = server.processes()
        server.kill()
        assert not any(map(alive, processes))
        server.start()
        assert client.get("word") == b"a"
        processes = server.processes()
    assert not any(map(alive, processes))
    assert not list(server_memory.iterdir())


def test_redis_asks_for_the_password_that_it_was_given():
    with servers.redis_server(requirepass="secret") as server:
        assert Redis.from_url(server.url).ping()
        with pytest.raises(AuthenticationError):
            Redis(port=server.port, retry=Retry(NoBackoff(), 0)).ping()


def test_redis_that_does_not_start_says_why():
    with pytest.raises(RuntimeError, match="nonsense"):
        servers.redis_server(nonsense="1").__enter__()
    with servers.redis_server() as first:
        with pytest.raises(servers.PortTakenError, match="in use"):
            servers.redis_server(port=first.port).__enter__()
        assert Redis.from_url(first.url).ping()


@pytest.mark.parametrize("turn", range(2))
def test_redis_url_is_an_empty_database_each_time(redis, redis_url, turn):
    with Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("mine", turn)
    redis.kill()


def test_redis_databases_do_not_share_keys(redis):
    redis.start()
    with Redis.from_url(redis.database(1)) as one, Redis.from_url(redis.database(1_023)) as last:
        one.set("mine", "1")
        assert last.get("mine") is None
        one.flushdb()


# Elasticsearch


@pytest.mark.long
def test_elasticsearch_keeps_what_was_written_when_it_is_killed(
    own_elasticsearch, own_elasticsearch_prefix
):
    client = Elasticsearch(own_elasticsearch.url)
    assert client.info()["version"]["number"] == own_elasticsearch.version
    client.index(index=f"{own_elasticsearch_prefix}-pages", id="1", document={"word": "kept"})
    processes, port = own_elasticsearch.processes(), own_elasticsearch.port

    own_elasticsearch.kill()

    assert len(processes) > 1
    assert not any(map(alive, processes))
    own_elasticsearch.start()
    assert own_elasticsearch.port == port
    found = client.get(index=f"{own_elasticsearch_prefix}-pages", id="1")
    assert found["_source"] == {"word": "kept"}


def test_elasticsearch_prefix_takes_away_what_is_called_by_it_and_nothing_else(elasticsearch):
    client = Elasticsearch(elasticsearch.url)
    with elasticsearch.prefix() as other:
        client.indices.create(index=other)
        with elasticsearch.prefix() as mine:
            client.cluster.put_component_template(name=f"{mine}-part", template={})
            client.indices.put_index_template(
                name=f"{mine}-all", index_patterns=[f"{mine}*"], composed_of=[f"{mine}-part"]
            )
            client.ingest.put_pipeline(id=f"{mine}-pipe", processors=[])
            client.indices.create(index=f"{mine}-1", aliases={f"{mine}-now": {}})
            client.indices.create(index=f"{mine}-2", settings={"hidden": True})
        assert client.indices.exists(index=other)
        everything = client.indices.get(index="*", expand_wildcards="all")
        assert not [name for name in everything if name.startswith(mine)]
        assert not client.indices.exists_index_template(name=f"{mine}-all")
        assert not client.cluster.exists_component_template(name=f"{mine}-part")
        with pytest.raises(NotFoundError):
            client.ingest.get_pipeline(id=f"{mine}-pipe")
    assert not client.indices.exists(index=other)


class Pretended:
    """As much of a server as one that is shared needs."""

    def __init__(self) -> None:
        self.port, self.version, self.running = 9_200, "8.19.8", True


def test_elasticsearch_is_shared_and_ends_when_nobody_uses_it(tmp_path):
    started = []

    @contextmanager
    def starting():
        started.append(Pretended())
        yield started[-1]
        started[-1].running = False

    with servers.shared_elasticsearch(tmp_path, starting) as first:
        assert first.url == "http://127.0.0.1:9200"
        other = servers.shared_elasticsearch(tmp_path, starting)
        other.__enter__()
        with pytest.raises(RuntimeError, match="own_elasticsearch"):
            first.kill()
        first.start()  # nothing happens
        ending = Timer(0.2, other.__exit__, (None, None, None))
        ending.start()
        began = time.monotonic()
    assert time.monotonic() - began > 0.1, "it waits for the other user"
    assert [server.running for server in started] == [False]
    with servers.shared_elasticsearch(tmp_path, starting):
        assert [server.running for server in started] == [False, True]


def test_elasticsearch_of_an_unknown_version_is_an_error():
    with pytest.raises(ValueError, match=r"no Elasticsearch '7': there are 8\.19, 9\.4"):
        servers.elasticsearch("7").__enter__()


@pytest.mark.long
@pytest.mark.parametrize("version", servers.EDITIONS)
def test_elasticsearch_of_each_version_asks_for_the_password_that_it_was_given(
    version, server_memory
):
    with servers.elasticsearch(version, password="secret") as server:
        processes = server.processes()
        assert Elasticsearch(server.url).info()["version"]["number"] == server.version
        assert server.version.startswith(version)
        with pytest.raises(AuthenticationException):
            Elasticsearch(f"http://127.0.0.1:{server.port}").info()
        with server.prefix() as prefix:
            Elasticsearch(server.url).indices.create(index=prefix)
            server.restart()
            assert Elasticsearch(server.url).indices.exists(index=prefix)
        assert not Elasticsearch(server.url).indices.exists(index=prefix)
    assert not any(map(alive, processes))
    assert not list(server_memory.iterdir())

"""PostgreSQL, Redis and Elasticsearch as the tests start them: answering their real clients, killed
and started again, and gone afterwards."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from elasticsearch import Elasticsearch, NotFoundError
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError
from redis.retry import Retry

from tests import servers
from tests.servers import Server, folders
from tests.servers.processes import Relative, alive, descendants, free_port

ROOT = Path(__file__).resolve().parent.parent
_END_SECONDS = 20

#: Starts a server for ever, in a thread that ends at once.
OWNER = """\
import sys, threading
from pathlib import Path
from tests import servers
from tests.servers import folders

folders._MEMORY = Path(sys.argv[2])
context = getattr(servers, sys.argv[1])()
thread = threading.Thread(target=lambda: print(context.__enter__().pid, flush=True))
thread.start()
thread.join()
sys.stdin.read()
"""


def family(server: Server) -> list[Relative]:
    """All processes of a server."""
    below = descendants(server.pid)
    return [each for each in descendants(os.getpid()) if each.pid == server.pid] + below


def all_end(processes: list[Relative]) -> bool:
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        if not any(map(alive, processes)):
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def memory(tmp_path: Path, monkeypatch) -> Path:
    """Where servers keep their data, empty at first."""
    monkeypatch.setattr(folders, "_MEMORY", tmp_path)
    return tmp_path


# PostgreSQL


def test_postgres_keeps_what_was_committed_when_it_is_killed(memory):
    with servers.postgres(fsync="on") as server:
        assert server.execute("SHOW fsync") == [("on",)]
        with server.database() as url:
            with psycopg.connect(url) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 'ä' AS word")
            open_ = psycopg.connect(url)
            open_.execute("INSERT INTO kept VALUES ('not committed')")
            processes, port = family(server), server.port

            server.kill()

            assert not any(map(alive, processes))
            assert len(processes) > 3
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(url)
            server.start()
            assert server.port == port
            with psycopg.connect(url) as connection:
                assert connection.execute("SELECT word FROM kept").fetchall() == [("ä",)]
        processes = family(server)
    assert not any(map(alive, processes))
    assert not list(memory.iterdir())
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


def test_postgres_that_does_not_start_says_why_and_leaves_nothing(memory):
    with pytest.raises(RuntimeError, match="unrecognized configuration parameter"):
        servers.postgres(nonsense=1).__enter__()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(servers.PortTakenError, match="in use"):
            servers.postgres(port=port).__enter__()
    assert not list(memory.iterdir())


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


def test_redis_answers_and_starts_empty_unless_it_writes_a_log(memory):
    with servers.redis_server() as server, Redis.from_url(server.url) as client:
        client.set("word", "a")
        server.kill()
        server.start()
        assert client.get("word") is None
    options = {"appendonly": "yes", "appendfsync": "always", "maxmemory_policy": "allkeys-lru"}
    with servers.redis_server(**options) as server, Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "allkeys-lru"}
        client.set("word", "a")
        processes = family(server)
        server.kill()
        assert not any(map(alive, processes))
        server.start()
        assert client.get("word") == b"a"
        processes = family(server)
    assert not any(map(alive, processes))
    assert not list(memory.iterdir())


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


def test_elasticsearch_keeps_what_was_written_when_it_is_killed(
    elasticsearch, elasticsearch_prefix
):
    client = Elasticsearch(elasticsearch.url)
    assert client.info()["version"]["number"] == elasticsearch.version
    client.index(index=f"{elasticsearch_prefix}-pages", id="1", document={"word": "kept"})
    processes, port = family(elasticsearch), elasticsearch.port

    elasticsearch.kill()

    assert len(processes) > 1
    assert not any(map(alive, processes))
    elasticsearch.start()
    assert elasticsearch.port == port
    found = client.get(index=f"{elasticsearch_prefix}-pages", id="1")
    assert found["_source"] == {"word": "kept"}


def test_elasticsearch_prefix_takes_away_what_is_called_by_it_and_nothing_else(elasticsearch):
    elasticsearch.start()
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


def test_elasticsearch_of_an_unknown_version_is_an_error():
    with pytest.raises(ValueError, match=r"no Elasticsearch '7': there are 8\.19, 9\.4"):
        servers.elasticsearch("7").__enter__()


# All of them


@contextmanager
def owner(name: str) -> Iterator[subprocess.Popen[str]]:
    """A process that starts a server, then waits to be killed; it prints the server's number."""
    with folders.data_folder() as memory:  # what the killed one leaves behind
        process = subprocess.Popen(
            [sys.executable, "-c", OWNER, name, memory],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"SMARTCRAWL_REQUIRE_SERVERS": "1"},
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(("fixture", "name"), [("postgres", "postgres"), ("redis", "redis_server")])
def test_server_ends_when_the_tests_are_killed_and_not_before(fixture, name, request):
    request.getfixturevalue(fixture)  # or a skip
    with owner(name) as tests:
        assert tests.stdout is not None
        pid = int(tests.stdout.readline())
        processes = descendants(tests.pid)
        assert pid in [each.pid for each in processes]
        assert all(map(alive, processes))  # though the thread that asked for them is gone
        tests.kill()
        assert all_end(processes)


def test_elasticsearch_ends_when_the_tests_are_killed_while_it_starts(elasticsearch):
    def commands(pid: int) -> str:
        lines = [Path(f"/proc/{each.pid}/cmdline") for each in descendants(pid)]
        return " ".join(line.read_text() for line in lines if line.exists())

    with owner("elasticsearch") as tests:
        deadline = time.monotonic() + _END_SECONDS
        while "org.elasticsearch.bootstrap" not in commands(tests.pid):
            assert time.monotonic() < deadline
            assert tests.poll() is None
            time.sleep(0.05)
        processes = descendants(tests.pid)
        assert len(processes) > 1
        tests.kill()
        assert all_end(processes)


@pytest.mark.parametrize("start", [servers.postgres, servers.redis_server])
def test_halted_server_is_stopped_in_order(start: Callable):
    with start() as server:
        os.kill(server.pid, signal.SIGSTOP)
        began = time.monotonic()
    assert time.monotonic() - began < 10
    assert server._process.returncode == 0  # not killed


@pytest.mark.parametrize("start", [servers.postgres, servers.redis_server])
def test_server_is_gone_after_a_failing_test(start: Callable, memory):
    started = start()
    server = started.__enter__()
    processes = family(server)
    failure = AssertionError("a test that fails")
    assert not started.__exit__(AssertionError, failure, None)  # nor is the failure hidden
    assert not any(map(alive, processes))
    assert not list(memory.iterdir())
    with pytest.raises(RuntimeError, match="does not run"):
        _ = server.pid


def test_ports_are_those_that_no_connection_starts_from():
    outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    first, last = map(int, outgoing)
    with ThreadPoolExecutor(4) as workers:
        ports = set(workers.map(lambda _: free_port(), range(200)))
    assert len(ports) > 150
    assert not [port for port in ports if first <= port <= last or port < 1_024]


def test_folders_of_killed_tests_are_removed_and_those_in_use_are_not(memory, monkeypatch):
    monkeypatch.setattr(folders, "_GRACE_SECONDS", 0)
    left = memory / "smartcrawl-server-left"
    other = memory / "other"
    other.mkdir()
    with folders.data_folder() as used:
        (left / "data").mkdir(parents=True)
        with folders.data_folder() as second:
            assert not left.exists()
            assert used.exists()
            assert used != second
    assert list(memory.iterdir()) == [other]


def test_folder_that_was_just_made_is_left_alone(memory):
    young = memory / "smartcrawl-server-young"
    young.mkdir()
    with folders.data_folder():
        assert young.exists()

"""What tests share: a site to crawl, the real command to crawl it with, and real servers.

Servers start when the first test of a worker asks for them, and end with the worker.
"""

import logging
import os
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from redis import Redis as RedisClient

from smartcrawl.logs import Logs
from tests import servers
from tests.crawls.commands import Crawl, Scrapy, scrapy
from tests.registry.build import Desk
from tests.servers import folders
from tests.site_server import Site


def pytest_configure() -> None:
    """Draw the seed of tests/crawls/test_kill.py once, for all workers."""
    os.environ.setdefault("KILL_SEED", str(random.randrange(1_000_000)))


def pytest_report_header() -> str:
    return f"kill places: KILL_SEED={os.environ['KILL_SEED']}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave long forms out unless -m names them."""
    if "slow" in config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Take away what a crawler of this process did to the root logger (smartcrawl.logs)."""
    level = logging.root.level
    yield
    Logs.uninstall()
    logging.root.setLevel(level)


@pytest.fixture
def site() -> Iterator[Site]:
    """A web site on loopback, without pages."""
    with Site() as running:
        yield running


@pytest.fixture(scope="session")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scrapy]:
    """Runs commands of scrapy."""
    with scrapy(tmp_path_factory.mktemp("scrapy")) as running:
        yield running


@pytest.fixture
def crawl(tmp_path: Path, ask: Scrapy) -> Crawl:
    """The real command, with an empty registry of its own."""
    return Crawl(tmp_path, ask)


@pytest.fixture
def desk() -> Iterator[Desk]:
    """One source of a registry in memory, with a run that is open."""
    desk = Desk()
    desk.open()
    yield desk
    desk.close()


@pytest.fixture
def server_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where servers that a test starts itself keep their data, empty at first."""
    monkeypatch.setattr(folders, "_MEMORY", tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def postgres() -> Iterator[servers.Postgres]:
    """The PostgreSQL of this worker; a test that kills it need not start it again."""
    with servers.postgres() as running:
        yield running


@pytest.fixture
def postgres_url(postgres: servers.Postgres) -> Iterator[str]:
    """An empty database, dropped afterwards."""
    postgres.start()  # where an earlier test has killed it
    with postgres.database() as url:
        yield url


@pytest.fixture(scope="session")
def redis() -> Iterator[servers.Redis]:
    """The Redis of this worker; a test that kills it need not start it again."""
    with servers.redis_server() as running:
        yield running


@pytest.fixture(scope="session")
def redis_numbers() -> Iterator[int]:
    """The databases of Redis, in turn: what an earlier test left running does not disturb."""
    return (number % servers.Redis.databases for number in count())


@pytest.fixture
def redis_url(redis: servers.Redis, redis_numbers: Iterator[int]) -> Iterator[str]:
    """An empty database of Redis, emptied afterwards."""
    redis.start()  # where an earlier test has killed it
    url = redis.database(next(redis_numbers))
    with RedisClient.from_url(url) as client:
        client.flushdb()
    yield url
    redis.start()
    with RedisClient.from_url(url) as client:
        client.flushdb()


@pytest.fixture(scope="session")
def elasticsearch() -> Iterator[servers.Elasticsearch]:
    """The Elasticsearch of this worker; a test that kills it need not start it again."""
    with servers.elasticsearch() as running:
        yield running


@pytest.fixture
def elasticsearch_prefix(elasticsearch: servers.Elasticsearch) -> Iterator[str]:
    """A prefix for names of indices, templates and pipelines, deleted afterwards."""
    elasticsearch.start()  # where an earlier test has killed it
    with elasticsearch.prefix() as prefix:
        yield prefix

"""What tests share: a site to crawl, the real command to crawl it with, and real servers.

Servers start when the first test of a worker asks for them, and end with the worker.
"""

import gc
import logging
import os
import random
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from redis import Redis as RedisClient

from smartcrawl.engine.logs import Logs
from tests import beside, forks, servers, tiers
from tests.crawls.commands import Crawl, CrawlIn, Scrapy
from tests.crawls.crew import Crew, crew_of
from tests.crawls.ready import end_zygote, zygote
from tests.forks import common_folder
from tests.registry.build import Desk, empty_registry
from tests.registry.spare import Spare
from tests.servers import folders
from tests.servers.sharepoint import SharepointServer
from tests.site_server import Site
from tests.stores import ObjectStore, azurite, fake_gcs_server, moto_server, shared_store
from tests.tiers import leave_out, pytest_terminal_summary, pytest_testnodedown

__all__ = ["pytest_terminal_summary", "pytest_testnodedown"]  #: hooks

#: Of kill places and of chaos; set one to repeat a run.
SEEDS = ("KILL_SEED", "CHAOS_SEED")


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers.pytest_addoption(parser)
    forks.pytest_addoption(parser)
    beside.pytest_addoption(parser)


pytest_sessionstart = beside.pytest_sessionstart


def pytest_sessionfinish(session: pytest.Session) -> None:
    beside.pytest_sessionfinish(session)
    end_zygote()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    beside.settle(session)
    if session.config.option.forks:
        zygote()  # one for all forks
        empty_registry()
    return forks.pytest_runtestloop(session)


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seeds of tests/crawls/test_kill.py and test_chaos.py once, for all workers.

    No crawl starts a browser because one is installed (RENDER). COLUMNS, which pytest-xdist gives
    its workers, would wrap what the commands print. A shell
    starts background jobs with SIGINT ignored, and nohup does so with SIGHUP. Programs that tests
    interrupt would inherit that; a handler, which does nothing here, is not inherited.
    """
    os.environ.pop("COLUMNS", None)
    os.environ["RENDER"] = "no"  # but for the tests that are about it
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    for name in SEEDS:
        os.environ.setdefault(name, str(random.randrange(1_000_000)))
    tiers.choose_examples(config)


def pytest_report_header() -> str:
    return "seeds: " + " ".join(f"{name}={os.environ[name]}" for name in SEEDS)


#: Modules whose tests look at one stage, which takes long to set.
STAGES = ("test_files_kill", "test_hostile", "test_kill", "test_workers_losses")
#: Modules that read the trees of all modules (tests/modules.py).
READERS = (
    "test_deploy", "test_figures", "test_imports", "test_install", "test_kinds", "test_language",
    "test_options", "test_patterns", "test_sharepoint_hardcoded_config", "test_unused",
)  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave long tests to --all; what shares a stage or the trees of all modules comes first.

    A fork that has nothing left takes tests from the end of what others still have: from the midst
    of a module it would set the same stage once more.
    """
    first = (*STAGES, *READERS)
    items.sort(
        key=lambda item: first.index(item.path.stem) if item.path.stem in first else len(first)
    )
    leave_out(config, items)


def pytest_collectstart() -> None:
    """Rest the garbage collector until all tests are collected: none of them is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Let the garbage collector forget the tests: a look at all of them takes a second.

    It looks at the rest seldom: by its usual thresholds it takes an eighth of the time of a story.
    """
    gc.freeze()
    gc.set_threshold(50_000)  # as in tests/crawls/zygote.py
    gc.enable()


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Take away what a crawler of this process did to the root logger (smartcrawl.engine.logs)."""
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
def program() -> Iterator[str]:
    """The path of a Chromium."""
    with servers.chromium() as path:
        yield path


@pytest.fixture(scope="session")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Scrapy:
    """Runs commands of scrapy."""
    return Scrapy(tmp_path_factory.mktemp("scrapy"))


@pytest.fixture(scope="session")
def crawl_in(ask: Scrapy) -> CrawlIn:
    """Make crawls of other folders than a test's own."""
    return lambda folder, url: Crawl(folder, ask, url)


@pytest.fixture(scope="session")
def other_workers(tmp_path_factory: pytest.TempPathFactory) -> list[Scrapy]:
    """Run commands of scrapy beside `ask`."""
    return [Scrapy(tmp_path_factory.mktemp("scrapy")) for _ in range(WORKERS - 1)]


#: Modules of whole runs whose PostgreSQL has the extension vector.
OF_VECTORS = ("test_crawl_vectors", "test_vectors_kill")
#: Modules of whole runs that are run with PostgreSQL, too.
ALSO_POSTGRES = (
    "test_crawl_collapse_killed", "test_crawl_control", "test_crawl_first", "test_crawl_lane_raw",
    "test_crawl_push", "test_crawl_refused", "test_crawl_retold", "test_crawl_roads",
    *OF_VECTORS,
)  # fmt: skip
EVERYTHING = os.environ.get("SMARTCRAWL_TEST_REGISTRY", "")  #: the database of all other runs
INDEX = os.environ.get("SMARTCRAWL_TEST_INDEX", "")  #: elasticsearch, or empty: beside the registry
WORKERS = int(os.environ.get("SMARTCRAWL_TEST_WORKERS", "0"))  #: that share each run; 0: no Redis


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run some crawls with both databases; the name of the database is in the test's id."""
    name = metafunc.module.__name__.rpartition(".")[2]
    only = metafunc.definition.get_closest_marker("sqlite") is not None
    if metafunc.definition.path.parent.name == "lab":
        return  # its own conftest.py does so for every story
    if "crawl" in metafunc.fixturenames and name in ALSO_POSTGRES and not (only or EVERYTHING):
        metafunc.parametrize("stack", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def stack(request: pytest.FixtureRequest) -> str:
    """The database that the registry of a crawl lies in."""
    only = request.node.get_closest_marker("sqlite") is not None
    return getattr(request, "param", "sqlite" if only else EVERYTHING or "sqlite")


@pytest.fixture
def crawl(
    tmp_path: Path, ask: Scrapy, stack: str, request: pytest.FixtureRequest
) -> Iterator[Crawl]:
    """The real command, with an empty registry of its own."""
    environment = {}
    if INDEX and request.node.get_closest_marker("embedded") is None:
        server = request.getfixturevalue("elasticsearch")
        environment["ELASTICSEARCH_URL"] = server.url
        environment["ELASTICSEARCH_INDEX_PREFIX"] = request.getfixturevalue("elasticsearch_prefix")
    if stack == "sqlite":
        alone = Crawl(tmp_path, ask)
        alone.environment |= environment
        yield alone
        return
    of_vectors = request.node.path.stem in OF_VECTORS
    spares = "spare_vector_registries" if of_vectors else "spare_registries"
    spare: Spare = request.getfixturevalue(spares)
    url = spare.take()
    if WORKERS and request.node.get_closest_marker("alone") is None:
        redis_url = request.getfixturevalue("redis_url")
        others = request.getfixturevalue("other_workers")[: WORKERS - 1]
        crawl = Crawl(tmp_path, ask, url, redis=redis_url, others=others)
    else:
        crawl = Crawl(tmp_path, ask, url)
    crawl.environment |= environment
    yield crawl
    spare.put_back(url)


@pytest.fixture
def crew(
    tmp_path: Path, ask: Scrapy, redis_url: str, postgres: servers.Postgres, spare_registries: Spare
) -> Iterator[Crew]:
    """Workers that share their runs, with an empty registry of their own."""
    postgres.start()  # where an earlier test has killed it
    url = spare_registries.take()
    with crew_of(Crawl(tmp_path, ask, url, redis=redis_url), redis_url) as crew:
        yield crew
    postgres.start()
    spare_registries.put_back(url)


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


@pytest.fixture(scope="session")
def spare_registries(postgres: servers.Postgres) -> Iterator[Spare]:
    """Registries in the PostgreSQL of this worker."""
    made = []

    def make() -> str:
        within = postgres.database()
        made.append(within)
        return within.__enter__()

    yield Spare(make)
    for within in made:
        within.__exit__(None, None, None)


@pytest.fixture(scope="session")
def vector_postgres() -> Iterator[servers.Postgres]:
    """The PostgreSQL of this worker that has the extension vector."""
    with servers.postgres(vectors=True) as running:
        yield running


@pytest.fixture(scope="session")
def spare_vector_registries(vector_postgres: servers.Postgres) -> Iterator[Spare]:
    """Registries in the PostgreSQL of this worker that has the extension vector."""
    made = []

    def make() -> str:
        within = vector_postgres.database()
        made.append(within)
        return within.__enter__()

    yield Spare(make)
    for within in made:
        within.__exit__(None, None, None)


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
def elasticsearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Elasticsearch]:
    """The Elasticsearch of all workers; no test may kill it."""
    with servers.shared_elasticsearch(common_folder(tmp_path_factory)) as running:
        yield running


@pytest.fixture(scope="session")
def own_elasticsearch() -> Iterator[servers.Elasticsearch]:
    """An Elasticsearch of this worker, which a test may kill; long tests alone have one."""
    with servers.elasticsearch() as running:
        yield running


@pytest.fixture
def elasticsearch_prefix(elasticsearch: servers.Elasticsearch) -> Iterator[str]:
    """A prefix for names of indices, templates and pipelines, deleted afterwards."""
    with elasticsearch.prefix() as prefix:
        yield prefix


@pytest.fixture
def own_elasticsearch_prefix(own_elasticsearch: servers.Elasticsearch) -> Iterator[str]:
    """The same in the Elasticsearch of this worker."""
    own_elasticsearch.start()  # where an earlier test has killed it
    with own_elasticsearch.prefix() as prefix:
        yield prefix


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """The S3 of all workers; each test makes a bucket of its own."""
    with shared_store(common_folder(tmp_path_factory), moto_server) as server:
        yield server


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """The Azure Blob Storage of all workers; each test makes a container of its own."""
    with shared_store(common_folder(tmp_path_factory), azurite) as server:
        yield server


@pytest.fixture(scope="session")
def google_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """The Cloud Storage of all workers; each test makes a bucket of its own."""
    with shared_store(common_folder(tmp_path_factory), fake_gcs_server) as server:
        yield server


@pytest.fixture(scope="session")
def sharepoint_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharepointServer]:
    """The SharePoint of this worker."""
    with SharepointServer(tmp_path_factory.mktemp("sharepoint")) as server:
        yield server


@pytest.fixture
def sharepoint(sharepoint_server: SharepointServer) -> SharepointServer:
    """SharePoint, Graph and their sign-in, with an empty tenant, no faults and no log."""
    sharepoint_server.begin()
    return sharepoint_server

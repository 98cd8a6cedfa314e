"""Real servers for tests and benchmarks, installed or fetched without root at first use.

Nothing on the system changes: what is missing is fetched with a state of its own, unpacked below
`$SMARTCRAWL_TEST_CACHE` (default `${XDG_CACHE_HOME:-~/.cache}/smartcrawl-tests`) and kept there.
A server that cannot be had is a skip with its reason; SMARTCRAWL_REQUIRE_SERVERS=1 makes it a
failure.
"""

from tests.servers.browser import browser_lookup, chromium
from tests.servers.cache import UnavailableError, absent, cache_folder, release
from tests.servers.clock import moved_clock
from tests.servers.debian import debian_docs
from tests.servers.elastic import (
    EDITIONS,
    Elasticsearch,
    elasticsearch,
    elasticsearch_lookup,
)
from tests.servers.go import go_program
from tests.servers.postgresql import GUEST, Postgres, postgres, postgres_lookup
from tests.servers.processes import PortTakenError, Server, stop
from tests.servers.redis import Redis, redis_lookup, redis_server
from tests.servers.shared import shared_elasticsearch, shared_server
from tests.servers.vectors import POISON, Ogx, ogx_server
from tests.servers.web import Answered, Nginx, nginx, nginx_lookup

__all__ = [
    "EDITIONS",
    "GUEST",
    "POISON",
    "Answered",
    "Elasticsearch",
    "Nginx",
    "Ogx",
    "PortTakenError",
    "Postgres",
    "Redis",
    "Server",
    "UnavailableError",
    "absent",
    "browser_lookup",
    "cache_folder",
    "chromium",
    "debian_docs",
    "elasticsearch",
    "elasticsearch_lookup",
    "go_program",
    "moved_clock",
    "nginx",
    "nginx_lookup",
    "ogx_server",
    "postgres",
    "postgres_lookup",
    "redis_lookup",
    "redis_server",
    "release",
    "shared_elasticsearch",
    "shared_server",
    "stop",
]

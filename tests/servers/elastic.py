"""Elasticsearch, as `elasticsearch/get` fetches it and `elasticsearch/start` runs it."""

import json
import os
import re
import secrets
import shutil
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.servers.cache import UnavailableError, absent, cache_base, locked
from tests.servers.folders import data_folder
from tests.servers.processes import Server, hand_over, reachable, run_whole

_TOOLS = Path(__file__).parent / "elasticsearch"
_JVMS = Path("/usr/lib/jvm")
_FETCH_SECONDS = 1_200
_ANSWER_SECONDS = 60
_HEAP = "512m"


class Edition(NamedTuple):
    """A version of the server, the bundle that carries it, and the Java that it needs."""

    version: str
    bundle: str
    java: int


EDITIONS = {
    "8.19": Edition("8.19.8", "26.1.0.118079", 17),
    "9.4": Edition("9.4.3", "26.9.0.129388", 21),
}


class Elasticsearch(Server):
    """An Elasticsearch on loopback, with one node; its data outlive `kill()` and `start()`."""

    name = "Elasticsearch"
    _start_seconds = 180

    def __init__(self, folder: Path, home: Path, java: Path, version: str, password: str) -> None:
        super().__init__(folder)
        self.version = version
        self._home = home
        self._java = java
        self._password = password

    @property
    def url(self) -> str:
        user = f"elastic:{self._password}@" if self._password else ""
        return f"http://{user}127.0.0.1:{self.port}"

    def ask(self, method: str, path: str) -> Any:
        """The JSON of an answer; raises urllib's HTTPError where the status is an error."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        if self._password:
            credentials = b64encode(f"elastic:{self._password}".encode()).decode()
            request.add_header("Authorization", f"Basic {credentials}")
        with _DIRECT.open(request, timeout=_ANSWER_SECONDS) as answer:
            return json.load(answer)

    @contextmanager
    def prefix(self) -> Iterator[str]:
        """A prefix of names; indices, templates and pipelines with it are deleted at the end."""
        prefix = f"test{secrets.token_hex(6)}"
        try:
            yield prefix
        finally:
            self.start()  # or what a test killed would keep them
            self._clear(prefix)

    def _clear(self, prefix: str) -> None:
        # Indices are named one by one: by default the server refuses to delete by a pattern.
        for index in self.ask("GET", f"/{prefix}*?expand_wildcards=all"):
            self.ask("DELETE", f"/{index}")
        # Component templates come last: one that is used cannot be deleted.
        for kind in ("_index_template", "_component_template", "_ingest/pipeline"):
            with suppress(urllib.error.HTTPError):  # 404: there is none
                self.ask("DELETE", f"/{kind}/{prefix}*")

    def _command(self) -> Sequence[str | Path]:
        return [_TOOLS / "start", str(self.port), self._data]

    def _environment(self) -> Mapping[str, str]:
        return {
            "ES_HOME": str(self._home),
            "ES_JAVA_HOME": str(self._java),
            "ES_HEAP": _HEAP,
            "ES_PASSWORD": self._password,
            "ES_DIE_WITH_PARENT": "1",
        }

    def _answers(self) -> bool:
        # The file is in its own folder, and another server on the port would not write it.
        if not self.running or not (self._data / "logs/http.ports").is_file():
            return False
        try:
            health = self.ask("GET", "/_cluster/health?wait_for_status=yellow&timeout=30s")
        except OSError:
            return False
        return health["status"] in ("yellow", "green")

    @property
    def _data(self) -> Path:
        return self._folder / "elasticsearch"


#: Without the proxy that the environment may name.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextmanager
def elasticsearch(
    version: str | None = None, *, port: int | None = None, password: str = ""
) -> Iterator[Elasticsearch]:
    """Run Elasticsearch; without `port`, a free one is taken.

    `version` is one of EDITIONS, by default what SMARTCRAWL_TEST_ELASTICSEARCH names, else "8.19".
    With a `password` of 6 characters or more, security is on and the user is elastic.
    """
    found = elasticsearch_lookup(version or default_version())
    if isinstance(found, UnavailableError):
        absent(f"Elasticsearch is not available: {found}")
    with data_folder() as folder:
        hand_over(folder)
        server = Elasticsearch(folder, *found, password)
        try:
            server.begin(port)
            yield server
        finally:
            server.stop()


def default_version() -> str:
    """The edition that tests run when they name none."""
    return os.environ.get("SMARTCRAWL_TEST_ELASTICSEARCH") or "8.19"


# What is not there is fetched


@cache
def elasticsearch_lookup(version: str) -> tuple[Path, Path, str] | UnavailableError:
    """The server's folder, the Java for it and its full version; asked once per process.

    Raises:
        ValueError: `version` is none of EDITIONS.
    """
    edition = EDITIONS.get(version)
    if edition is None:
        raise ValueError(f"no Elasticsearch {version!r}: there are {', '.join(EDITIONS)}")
    try:
        java = _java(edition.java)
        home = _fetched(edition)
        reachable(home / "lib")
    except UnavailableError as error:
        return error
    except (OSError, subprocess.SubprocessError) as error:
        return UnavailableError(str(error))
    return home, java, edition.version


def _fetched(edition: Edition) -> Path:
    """The folder of a server, filled at first use by one process and complete or absent."""
    base = cache_base()
    home = base / f"elasticsearch-{edition.version}"
    with locked(base / f"{home.name}.lock"):
        if not (home / ".complete").is_file() and shutil.which("mvn") is None:
            raise UnavailableError("there is no mvn to fetch it with: install Maven")
        run_whole([_TOOLS / "get", home, edition.bundle], _FETCH_SECONDS)
    return home


def _java(minimum: int) -> Path:
    """The home of a Java that is new enough and lets a program load an agent into itself."""
    on_path = shutil.which("java")
    homes = [Path(os.environ[name]) for name in ("ES_JAVA_HOME", "JAVA_HOME") if name in os.environ]
    homes += [Path(on_path).resolve().parent.parent] if on_path else []
    homes += sorted(_JVMS.glob("*"))
    for home in homes:
        about = _about(home)
        version = re.search(r'^JAVA_VERSION="(\d+)', about, re.MULTILINE)
        if version and int(version[1]) >= minimum and "jdk.attach" in about:
            return home
    raise UnavailableError(
        f"there is no Java {minimum} or later with the module jdk.attach: install a JDK, "
        "or name one by ES_JAVA_HOME"
    )


def _about(home: Path) -> str:
    """What a Java says of itself, "" where there is none."""
    with suppress(OSError):
        if (home / "bin/java").is_file():
            return (home / "release").read_text(errors="replace")
    return ""

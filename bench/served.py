"""Servers that benchmarks ask: their processes, their clients, and the CPU that answers take."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from bench.measure import BENCH, Figures
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.keys import Scope, make_api_key

CONNECTIONS = 8
ROOM = 1_000_000_000  #: requests a minute
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A process that answers."""

    def __init__(self, process: subprocess.Popen[str], port: int, headers: dict[str, str]) -> None:
        self._process = process
        self._port = port
        self._headers = headers

    def asked(self, paths: Sequence[str], more: Mapping[str, str] | None = None) -> Figures:
        """Let a client ask; return its figures, and the CPU seconds of the server.

        ``more``: further headers.
        """
        before = self.cpu()
        asked = json.dumps({"paths": paths, "headers": {**self._headers, **(more or {})}})
        command = [sys.executable, BENCH / "answering.py", "ask", str(self._port), str(CONNECTIONS)]
        done = subprocess.run(
            [*map(str, command)], input=asked, capture_output=True, text=True, check=False,
            preexec_fn=lambda: pin(-1),
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"the client failed: {done.stderr}")
        figures: Figures = json.loads(done.stdout)
        figures["cpu"] = self.cpu() - before
        figures["ms"] = 1000 * figures["cpu"] / figures["pages"]
        figures["rss"] = peak(self._process.pid)
        return figures

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._port}"

    def read(self, path: str) -> dict:
        """Return one answer."""
        answer = httpx.get(f"{self.url}{path}", headers=self._headers, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def cpu(self) -> float:
        """Return the CPU seconds of all threads of the process."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def peak(pid: int) -> float:
    """Return the peak of the resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def pin(place: int) -> None:
    """Leave this process one core: the first, or the last one."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[place]})


@contextmanager
def running(command: Sequence[str | Path]) -> Iterator[subprocess.Popen[str]]:
    """Run a server on the first core, until the block ends."""
    process = subprocess.Popen(
        [*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: pin(0),  # noqa: PLW1509  # one thread starts it
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def served(folder: Path, *, keyed: bool = True) -> Iterator[Server]:
    """Run ``smartcrawl serve`` over a registry, with raised limits; ``keyed``: with a key."""
    raised = [f"API_{kind}_PER_MINUTE={ROOM}" for kind in ("JOBS", "DATA", "MONITORING", "PAGES")]
    settings = [word for value in raised for word in ("-s", value)]
    command = [sys.executable, "-m", "smartcrawl", "serve", "--data-dir", folder, "--port", "0"]
    with running([*command, "--format", "json", "-s", "LOG_LEVEL=WARNING", *settings]) as process:
        assert process.stdout is not None
        printed = ""
        while "}" not in printed:
            line = process.stdout.readline()
            if not line:
                raise SystemExit("the API did not start")
            printed += line
        port = int(json.loads(printed)["url"].rpartition(":")[2])
        yield Server(process, port, {"X-API-Key": key_of(folder)} if keyed else {})


def key_of(folder: Path) -> str:
    """Make a key."""
    connection = registry_database(folder / "registry.db").open()
    try:
        with transaction(connection):
            return make_api_key(connection, "bench", Scope.READ, int(time.time()))[0]
    finally:
        connection.close()

"""Processes that are pretended: they start, live and end within the process of a test.

They are under the real ``LocalCrawls``: it starts them, asks them for their exit status, and finds
those of a dead server again by their numbers.
"""

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from smartcrawl.model import processes
from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.server.jobs.runner import QUIET, CrawlProgram, Kind, LocalCrawls, Runner
from smartcrawl.server.jobs.scheduler import CrawlRuns

#: What a process does: it yields while it waits, and returns its exit status.
Life = Callable[["FakeProcess"], Generator[None, None, int]]
_FIRST_PID = 5_000_000  # no machine has it


class FakeProcess:
    """One process, with what its server needs of ``subprocess.Popen``."""

    def __init__(self, system: "FakeSystem", words: Sequence[str], log: Path, life: Life) -> None:
        self.pid = _FIRST_PID + len(system.processes)
        self.words = list(words)
        self.status: int | None = None
        self._system = system
        self._log = log
        self._life = life(self)

    def poll(self) -> int | None:
        return self.status

    def print(self, line: str) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a") as log:
            log.write(f"{line}\n")

    def step(self) -> None:
        """Go on until it waits or ends."""
        if self.status is None:
            with self._system.in_process(self):
                try:
                    next(self._life)
                except StopIteration as end:
                    self.status = end.value

    def kill(self) -> None:
        if self.status is None:
            self._life.close()
            self.status = -9

    def wait(self) -> None:
        for _ in range(1_000):
            self.step()
            if self.status is not None:
                return
        raise AssertionError("the process does not end")


class FakeSystem:
    """The processes of a machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.processes: dict[int, FakeProcess] = {}
        self._now = threading.local()
        start_of, this = processes._start_of, Process.this

        def fake_start_of(pid: int) -> str | None:
            process = self.processes.get(pid)
            if process is None:
                return start_of(pid)
            return f"fake-{pid}" if process.status is None else None

        def fake_this(_: type[Process]) -> Process:
            process = getattr(self._now, "process", None)
            return this() if process is None else Process.of(process.pid)

        monkeypatch.setattr(processes, "_start_of", fake_start_of)
        monkeypatch.setattr(Process, "this", classmethod(fake_this))

    @contextmanager
    def in_process(self, process: FakeProcess) -> Generator[None, None, None]:
        """Let this thread be a process."""
        self._now.process = process
        try:
            yield
        finally:
            self._now.process = None

    def start(self, words: Sequence[str], log: Path, life: Life) -> FakeProcess:
        process = FakeProcess(self, words, log, life)
        self.processes[process.pid] = process
        return process

    def step(self) -> None:
        """Let each process go on until it waits or ends."""
        for process in list(self.processes.values()):
            process.step()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()


class FakeProgram(CrawlProgram):
    """The commands of a server, whose processes are pretended."""

    system: FakeSystem
    life: Life

    def start(self, words: Sequence[str], log: Path, quiet: Sequence[str] = QUIET) -> FakeProcess:
        return self.system.start([*words, *quiet], log, self.life)


def fake_program(system: FakeSystem, logs: Path, life: Life, **more: object) -> FakeProgram:
    """Return a program whose processes live a life; ``more``: fields of CrawlProgram."""
    given: Mapping[str, object] = {"words": (), "environment": {}, "logs": logs, **more}
    program = FakeProgram(**given)
    object.__setattr__(program, "system", system)
    object.__setattr__(program, "life", life)
    return program


def dead_server(host: str | None = None) -> Process:
    """Return the mark of a server that is no more; ``host``: of another machine."""
    this = Process.this()
    return Process(host or this.host, this.pid, f"{this.start}0")


class NoCrawls(LocalCrawls):
    """Stands in for a place where nothing may begin."""

    def __init__(self) -> None:
        self.children = {}

    def start(self, *_: object) -> Process:
        raise AssertionError("a process was started")


def claim(kind: Kind, database: Database, most: int, now: int) -> str | None:
    """Let this server claim what is first in line, and start nothing."""
    return Runner(database, kind, NoCrawls(), most)._claimed(now)


def claim_run(database: Database, connection: Connection, now: int, most: int = 99) -> str | None:
    """Let this server claim the run of a job that is first in line."""
    return claim(CrawlRuns(database, connection), database, most, now)

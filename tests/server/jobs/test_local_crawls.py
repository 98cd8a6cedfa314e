"""Processes of this machine: what only real ones show. The rest is shown with pretended ones."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from smartcrawl.model.processes import Process
from smartcrawl.registry.processes import Started
from smartcrawl.server.items import DueRun
from smartcrawl.server.jobs.library_store import LibraryChoices, LibraryJob
from smartcrawl.server.jobs.runner import CrawlProgram, Exited, LocalCrawls, Sight, StartError, Work
from smartcrawl.server.jobs.scheduler import BegunRun
from smartcrawl.server.jobs.store import RunStage
from tests.server.jobs.conftest import NOW, Office

SCRIPT = """
import json, os, sys, time
print(json.dumps({"words": sys.argv[1:], "session": os.getsid(0), "pid": os.getpid(),
                  "secret": os.environ.get("SECRET")}), flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
sys.exit(int(open("go").read()))
"""
CRAWL = BegunRun(
    "jb_1", "docs", Started(), stage=RunStage.WAITING, run=None, may_run=True, state=None,
    complete=False, reasons=(), order=None, resumes=False,
)  # fmt: skip
LIBRARY = LibraryJob(
    "jb_2", "D1", Started(), action="crawl", choices=LibraryChoices(), stage=RunStage.WAITING,
    requested=None, run=None, result=None, reasons=(), exit_status=None, created_at=1,
    ended_at=None,
)  # fmt: skip
STEP = "crawl D1 --mode incremental --scope all --retry-batches 2 -a _job=jb_2"
WORKS = {
    "crawl": (CRAWL, ["-a", "source=docs", "-a", "_job=jb_1"], "jb_1.log"),
    "library": (LIBRARY, STEP.split(), "jb_2.log"),
    "due": (DueRun("docs", "docs", Started()), ["--source=docs"], "due-docs.log"),
}


@dataclass
class Machine:
    """Servers of this machine, and the script that they start."""

    office: Office
    folder: Path
    crawls: LocalCrawls

    def server(self) -> LocalCrawls:
        program = (sys.executable, "-c", SCRIPT)
        environment = os.environ | {"SECRET": "sc_hidden"}
        return LocalCrawls(
            self.office.database,
            CrawlProgram(program, environment, self.folder / "logs", program, program),
        )

    def ended(self, crawls: LocalCrawls, work: Work) -> Sight | Exited:
        until = time.monotonic() + 60
        while (sight := crawls.sight(work, NOW)) is Sight.RUNNING:
            assert time.monotonic() < until
            time.sleep(0.02)
        return sight


@pytest.fixture
def machine(office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.chdir(tmp_path)
    machine = Machine(office, tmp_path, None)
    machine.crawls = machine.server()
    children = machine.crawls.children
    yield machine
    for child in children.values():
        child.kill()
        child.wait()


@pytest.mark.long
@pytest.mark.parametrize("kind", WORKS)
def test_a_process_gets_its_words_and_a_session_of_its_own(machine: Machine, kind: str):
    work, words, name = WORKS[kind]
    process = machine.crawls.start(work)
    assert process.is_alive()
    assert machine.crawls.still_has(work.id)
    assert machine.crawls.sight(work, NOW) is Sight.RUNNING
    (machine.folder / "go").write_text("3")
    assert machine.ended(machine.crawls, work) == Exited(3, process.pid)

    log = machine.folder / "logs" / name
    said = json.loads(log.read_text())
    assert said["words"] == [*words, "--progress", "none"]
    assert said["session"] == said["pid"] == process.pid != os.getsid(0)
    assert said["secret"] == "sc_hidden"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    assert not machine.crawls.still_has(work.id)


@pytest.mark.long
@pytest.mark.parametrize("kind", WORKS)
def test_a_process_that_is_killed_has_its_signal(machine: Machine, kind: str):
    work = WORKS[kind][0]
    process = machine.crawls.start(work)
    os.kill(process.pid, signal.SIGKILL)
    assert machine.ended(machine.crawls, work) == Exited(-9, process.pid)


@pytest.mark.long
@pytest.mark.parametrize("kind", WORKS)
def test_the_next_server_sees_a_process_by_its_number(machine: Machine, kind: str):
    work = WORKS[kind][0]
    process = machine.crawls.start(work)
    other = machine.server()
    found = replace(work, started=Started(process=process))
    assert other.sight(found, NOW) is Sight.RUNNING
    os.kill(process.pid, signal.SIGKILL)
    assert machine.ended(other, found) is Sight.GONE


def test_a_command_that_is_missing_cannot_be_started(machine: Machine):
    program = CrawlProgram((str(machine.folder / "missing"),), {}, machine.folder / "logs")
    crawls = LocalCrawls(machine.office.database, program)
    with pytest.raises(StartError, match=r"cannot start its process \(No such file or directory\)"):
        crawls.start(CRAWL)


def test_a_process_is_not_its_number_alone():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    process = Process.of(child.pid)
    assert process.is_here
    assert process.is_alive()
    assert not Process(process.host, process.pid, f"{process.start}0").is_alive()
    assert Process.parsed(str(process)) == process
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive()  # not reaped yet
    child.wait()
    assert not process.is_alive()

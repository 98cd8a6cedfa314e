"""The processes of jobs' runs: their order, their ends, and what a dead server leaves behind.

The program is a script that does what its words say: open a run, wait, end.
"""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from smartcrawl.model.processes import Process
from smartcrawl.rules.jobs import JobStatus
from smartcrawl.server.jobs.job import RunStage
from smartcrawl.server.jobs.launcher import SILENCE, JobLauncher
from smartcrawl.server.jobs.local import CrawlProgram, LocalCrawls
from smartcrawl.server.jobs.processes import BegunRun, JobProcesses
from tests.server.jobs.conftest import NOW, Office

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import json, os, sys, time
from pathlib import Path
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.runs.run_orders import (
    order_run_row, run_order_row, withdraw_run_order_row,
)
from smartcrawl.registry.runs.runs import (
    RunRequest, interrupt_run_row, last_run_row, open_run_row, seal_run_row,
)
from smartcrawl.rules.model import RunOrder, RunState

given = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
print(json.dumps({"words": sys.argv[1:], "session": os.getsid(0), "pid": os.getpid(),
                  "secret": os.environ.get("SECRET")}), flush=True)
place, does = os.environ["PLACE"], json.loads(os.environ["DOES"])
if "open" in does:
    database = registry_database(place if place.startswith("postgres") else Path(place))
    connection = database.open()
    lease = database.take(given["source"], "today")
    last = last_run_row(connection, given["source"])
    if "resume" in given and last is not None:
        withdraw_run_order_row(connection, last[0])
    request = RunRequest(given["source"], "site", resume="resume" in given, job_run=given["_job"])
    run = open_run_row(connection, request, int(time.time()))
    print("opened", flush=True)
folder = Path(os.environ["FOLDER"])
while "wait" in does and not (folder / f"go-{given['source']}").exists():
    order = run_order_row(connection, run.no) if "obey" in does else None
    if order is not None:
        interrupt_run_row(connection, run.no, int(time.time()), ["paused"])
        if order is RunOrder.CANCEL:
            order_run_row(connection, run.no, order, int(time.time()))
        break
    time.sleep(0.02)
while "linger" in does and not (folder / f"end-{given['source']}").exists():
    lease.release()
    time.sleep(0.02)
if "seal" in does:
    seal_run_row(connection, run.no, tuple(does["seal"]), int(time.time()))
    connection.execute("UPDATE run SET state = ? WHERE no = ?", (RunState.SWEPT, run.no))
if "open" in does:
    lease.release()
    connection.close()
sys.exit(does.get("exit", 0))
"""


class Bureau:
    """Launchers of one registry, and the script that they start."""

    def __init__(self, office: Office, folder: Path) -> None:
        self.office = office
        self.folder = folder
        self.script = folder / "script.py"
        self.script.write_text(SCRIPT)
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.started: set[int] = set()

    def program(self, **does: object) -> CrawlProgram:
        environment = os.environ | {
            "PLACE": str(self.office.place),
            "FOLDER": str(self.folder),
            "DOES": json.dumps(does),
            "SECRET": "sc_hidden",
            "PYTHONPATH": str(ROOT),
        }
        return CrawlProgram((sys.executable, str(self.script)), environment, self.folder / "logs")

    def launcher(self, most: int = 2, **does: object) -> JobLauncher:
        return self.launcher_of(self.program(**does), most)

    def launcher_of(self, program: CrawlProgram, most: int = 2) -> JobLauncher:
        database = self.office.database
        crawls = LocalCrawls(database, program, self.children)
        return JobLauncher(database, self.office.connect(), crawls, most)

    def begun(self) -> list[BegunRun]:
        office = self.office
        return JobProcesses(office.database, office.connection, Process.this()).begun()

    def go(self, name: str = "docs") -> None:
        (self.folder / f"go-{name}").touch()

    def logged(self, id_: str) -> list[str]:
        log = self.folder / "logs" / f"{id_}.log"
        return log.read_text().splitlines() if log.exists() else []

    def watched(self, launcher: JobLauncher, done: Callable[[], bool], now: int = NOW) -> None:
        """Watch until something is true."""
        until = time.monotonic() + 30
        while not done():
            assert time.monotonic() < until, (self.begun(), self.children)
            launcher.watch(now)
            time.sleep(0.02)

    def lose_server(self, *, host: str | None = None) -> None:
        """Let the server that started everything be a dead one."""
        dead = subprocess.Popen([sys.executable, "-c", ""])
        mark = Process.of(dead.pid)
        dead.wait()
        mark = Process(host or mark.host, mark.pid, mark.start)
        self.office.connection.execute("UPDATE job_run SET server = ?", (str(mark),))
        self.lost = dict(self.children)
        self.children.clear()

    def close(self) -> None:
        for child in (*self.children.values(), *getattr(self, "lost", {}).values()):
            child.kill()
            child.wait()
        for one in self.begun():
            if one.process is not None and one.process.is_alive():
                os.kill(one.process.pid, signal.SIGKILL)


@pytest.fixture
def bureau(office: Office, tmp_path: Path) -> Iterator[Bureau]:
    bureau = Bureau(office, tmp_path)
    yield bureau
    bureau.close()


def start(bureau: Bureau, launcher: JobLauncher, now: int = NOW) -> list[str]:
    """Fire what is due and start it; return the ids of all runs that wait or run."""
    bureau.office.clock.fire(now)
    launcher.start_waiting(now)
    return [one.id for one in bureau.begun()]


def stage(bureau: Bureau, id_: str) -> RunStage:
    return bureau.office.clock.get(id_).stage


def test_a_crawl_gets_names_only_and_a_session_of_its_own(bureau: Bureau):
    bureau.office.create()
    launcher = bureau.launcher()
    (id_,) = start(bureau, launcher)
    bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.ENDED)

    said = json.loads(bureau.logged(id_)[0])
    assert said["words"] == ["-a", "source=docs", "-a", f"_job={id_}", "--progress", "none"]
    assert said["session"] == said["pid"] != os.getsid(0)
    assert said["secret"] == "sc_hidden"
    log = bureau.folder / "logs" / f"{id_}.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize(
    ("does", "status", "complete", "reason"),
    [
        ({"open": 1, "seal": [], "exit": 0}, JobStatus.COMPLETED, True, None),
        ({"open": 1, "seal": ["pages_left"], "exit": 3}, JobStatus.COMPLETED, False, "pages_left"),
        ({"open": 1, "exit": 1}, JobStatus.FAILED, None, "its process failed (exit status 1)"),
        ({"exit": 1}, JobStatus.FAILED, None, "its process failed (exit status 1)"),
        ({"exit": 4}, JobStatus.CREATED, None, "its source is being crawled"),
    ],
)
def test_the_end_of_a_process_is_that_of_its_job(
    bureau: Bureau, does: dict, status: JobStatus, complete: bool | None, reason: str | None
):
    job = bureau.office.create()
    launcher = bureau.launcher(**does)
    (id_,) = start(bureau, launcher)
    bureau.watched(launcher, lambda: not bureau.begun())

    after = bureau.office.store.get(job.id)
    assert (after.status, after.complete) == (status, complete)
    assert [one.partition(":")[0] for one in after.reasons] == ([] if reason is None else [reason])
    ended = RunStage.SKIPPED if does.get("exit") == 4 else RunStage.ENDED
    assert stage(bureau, id_) is ended
    assert bureau.children == {}


def test_a_job_runs_once_its_run_is_open(bureau: Bureau):
    job = bureau.office.create()
    launcher = bureau.launcher(open=1, wait=1, seal=[])
    (id_,) = start(bureau, launcher)
    assert bureau.office.store.get(job.id).status is JobStatus.CREATED
    bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.RUNNING, NOW + 5)

    running = bureau.office.store.get(job.id)
    assert (running.status, running.started_at) == (JobStatus.RUNNING, NOW + 5)
    (one,) = bureau.begun()
    assert one.process == Process.of(bureau.children[id_].pid)
    assert one.run == bureau.office.rows("SELECT max(no) FROM run")[0][0]
    bureau.go()
    bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.ENDED)


def test_a_process_that_is_killed_fails_its_job(bureau: Bureau):
    job = bureau.office.create()
    launcher = bureau.launcher(open=1, wait=1)
    (id_,) = start(bureau, launcher)
    bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.RUNNING)
    bureau.children[id_].kill()
    bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.ENDED)

    after = bureau.office.store.get(job.id)
    assert (after.status, after.reasons) == (
        JobStatus.FAILED,
        ("its process was ended by SIGKILL",),
    )


def test_only_some_crawl_at_once_and_the_others_wait_in_order(bureau: Bureau):
    names = ["a", "b", "c", "d"]
    for place, name in enumerate(names):
        bureau.office.create(name, now=NOW + place)
    one, other = bureau.launcher(wait=1), bureau.launcher(wait=1)
    now = NOW + 10
    bureau.office.clock.fire(now)
    one.start_waiting(now)
    other.start_waiting(now)  # of a second server: all count together
    assert [begun.name for begun in bureau.begun()] == ["a", "b"]
    assert len(bureau.children) == 2

    bureau.go("b")
    bureau.watched(one, lambda: len(bureau.begun()) == 1)
    one.start_waiting(now)
    assert [begun.name for begun in bureau.begun()] == ["a", "c"]
    for name in ("a", "c", "d"):
        bureau.go(name)
    bureau.watched(one, lambda: not bureau.begun())
    one.start_waiting(now)
    bureau.watched(one, lambda: not bureau.begun())
    assert bureau.office.rows("SELECT count(*) FROM job_run WHERE state = 'ended'") == [(4,)]


def test_the_last_place_is_given_once(bureau: Bureau):
    """Both servers have seen it free."""
    for name in ("a", "b"):
        bureau.office.create(name)
    bureau.office.clock.fire(NOW)
    office, this = bureau.office, Process.this()
    servers = [JobProcesses(office.database, office.connect(), this) for _ in range(2)]
    assert [len(server.claimable(1)) for server in servers] == [2, 2]

    assert [server.claim(1, NOW) is None for server in servers] == [False, True]
    assert servers[1].claimable(1) == []


def test_the_command_of_a_crawl_has_the_spider_of_its_source(bureau: Bureau):
    bureau.office.create("docs")
    asked: list[str] = []

    def spider_of(source: str) -> str:
        asked.append(source)
        return "files"

    launcher = bureau.launcher_of(replace(bureau.program(), spider_of=spider_of))
    (id_,) = start(bureau, launcher)
    bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.ENDED)

    said = json.loads(bureau.logged(id_)[0])
    assert said["words"][:3] == ["files", "-a", "source=docs"]
    assert asked == ["docs"]


def test_what_cannot_be_started_fails(bureau: Bureau):
    job = bureau.office.create()
    program = CrawlProgram((str(bureau.folder / "missing"),), {}, bureau.folder / "logs")
    start(bureau, bureau.launcher_of(program))

    after = bureau.office.store.get(job.id)
    assert after.status is JobStatus.FAILED
    assert after.reasons == ("cannot start its process (No such file or directory)",)


def test_a_paused_job_is_not_started(bureau: Bureau):
    bureau.office.create()
    bureau.office.clock.fire(NOW)
    bureau.office.connection.execute("UPDATE job SET status = 'paused'")
    bureau.launcher().start_waiting(NOW)
    assert bureau.begun() == []

    bureau.office.connection.execute("UPDATE job SET status = 'created'")
    bureau.launcher(most=1).start_waiting(NOW)
    assert len(bureau.begun()) == 1


def test_the_next_server_finds_a_crawl_again_and_records_its_end(bureau: Bureau):
    job = bureau.office.create()
    first = bureau.launcher(open=1, wait=1, seal=["pages_left"], exit=3)
    (id_,) = start(bureau, first)
    bureau.watched(first, lambda: stage(bureau, id_) is RunStage.RUNNING)
    bureau.lose_server()

    second = bureau.launcher(exit=1)
    for _ in range(3):
        second.watch(NOW + 20)
    (one,) = bureau.begun()
    assert (one.server, one.starts) == (Process.this(), 1)
    assert bureau.children == {}  # it was found, not started again
    bureau.go()
    bureau.watched(second, lambda: stage(bureau, id_) is RunStage.ENDED, NOW + 30)
    after = bureau.office.store.get(job.id)
    assert (after.status, after.complete, after.reasons) == (
        JobStatus.COMPLETED,
        False,
        ("pages_left",),
    )


def test_what_died_with_its_server_is_resumed_once_under_its_id(bureau: Bureau):
    job = bureau.office.create()
    launcher = bureau.launcher(open=1, wait=1, seal=[])
    (id_,) = start(bureau, launcher)
    for death in (1, 2):
        bureau.watched(launcher, lambda: bureau.logged(id_).count("opened") == death)  # noqa: B023
        bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.RUNNING)
        child = bureau.children[id_]
        bureau.lose_server()
        child.kill()
        child.wait()
        bureau.office.connection.execute(*_no_lease(bureau))
        launcher = bureau.launcher(open=1, wait=1, seal=[])
        launcher.watch(NOW + 20 * death)  # takes over
        launcher.watch(NOW + 20 * death)
        if death == 1:
            (one,) = bureau.begun()
            assert (one.id, one.starts, stage(bureau, id_)) == (id_, 2, RunStage.RUNNING)

    words = [json.loads(line)["words"] for line in bureau.logged(id_) if line.startswith("{")]
    assert ["resume=1" in one for one in words] == [False, True]
    assert bureau.begun() == []
    assert bureau.office.rows("SELECT count(*) FROM run") == [(1,)]
    after = bureau.office.store.get(job.id)
    assert (after.status, after.reasons) == (JobStatus.FAILED, ("its process died",))


def test_a_run_is_resumed_when_the_lease_of_the_dead_process_has_expired(bureau: Bureau):
    bureau.office.create()
    launcher = bureau.launcher(open=1, wait=1)
    (id_,) = start(bureau, launcher)
    bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.RUNNING)
    child = bureau.children[id_]
    bureau.lose_server()
    child.kill()
    child.wait()
    lease = None
    if bureau.office.connection.dialect == "sqlite":  # it ends with its process there
        lease = bureau.office.database.take("docs", "today")

    second = bureau.launcher(exit=0)
    for _ in range(3):
        second.watch(NOW + 20)
    assert [(one.id, one.starts) for one in bureau.begun()] == [(id_, 1)]
    assert bureau.children == {}
    if lease is not None:
        lease.release()
    bureau.office.connection.execute(*_no_lease(bureau))
    second.watch(NOW + 80)
    assert [(one.id, one.starts) for one in bureau.begun()] == [(id_, 2)]


def test_of_two_processes_of_a_run_the_first_one_counts(bureau: Bureau):
    job = bureau.office.create()
    launcher = bureau.launcher(wait=1, exit=4)
    (id_,) = start(bureau, launcher)
    this = Process.this()
    bureau.office.connection.execute(
        "UPDATE job_run SET host = ?, pid = ?, process_start = ?", (this.host, this.pid, this.start)
    )
    bureau.go()
    bureau.watched(launcher, lambda: not bureau.children)

    assert stage(bureau, id_) is RunStage.WAITING  # for the first one to open its run
    assert bureau.office.store.get(job.id).status is JobStatus.CREATED
    bureau.office.connection.execute("UPDATE job_run SET process_start = 'dead'")
    bureau.watched(launcher, lambda: not bureau.begun() or bool(bureau.children))


def test_a_run_that_cannot_be_resumed_because_its_source_is_busy_fails(bureau: Bureau):
    job = bureau.office.create()
    launcher = bureau.launcher(open=1, wait=1, exit=4)
    (id_,) = start(bureau, launcher)
    bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.RUNNING)
    bureau.go()
    bureau.watched(launcher, lambda: not bureau.begun())

    after = bureau.office.store.get(job.id)
    assert after.status is JobStatus.FAILED
    assert after.reasons == ("its source is being crawled by another process",)


def test_only_a_job_that_may_run_is_resumed(bureau: Bureau):
    job = bureau.office.create()
    launcher = bureau.launcher(open=1, wait=1)
    (id_,) = start(bureau, launcher)
    bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.RUNNING)
    child = bureau.children[id_]
    bureau.lose_server()
    child.kill()
    child.wait()
    bureau.office.connection.execute("UPDATE job SET status = 'paused'")
    second = bureau.launcher()
    for _ in range(2):
        second.watch(NOW + 20)

    assert bureau.begun() == []
    assert bureau.office.store.get(job.id).status is JobStatus.PAUSED


def _no_lease(bureau: Bureau) -> tuple[str, tuple]:
    """Return the statement that lets the lease of a killed process expire, in PostgreSQL."""
    if bureau.office.connection.dialect == "sqlite":
        return "SELECT 1", ()
    return "DELETE FROM lease", ()


def test_a_server_of_another_machine_is_believed_for_a_minute(bureau: Bureau):
    bureau.office.create()
    launcher = bureau.launcher(open=1, wait=1)
    (id_,) = start(bureau, launcher)
    bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.RUNNING)
    bureau.lose_server(host="elsewhere.example")
    bureau.office.connection.execute("UPDATE job_run SET host = 'elsewhere.example'")

    other = bureau.launcher()
    other.watch(NOW + SILENCE)
    assert bureau.begun()[0].server.host == "elsewhere.example"
    for _ in range(2):
        other.watch(NOW + SILENCE + 1)
    assert bureau.begun()[0].server == Process.this()
    assert bureau.children == {}  # the lease shows that it crawls
    assert stage(bureau, id_) is RunStage.RUNNING


def test_a_server_that_died_while_it_started_a_crawl_gets_some_seconds(bureau: Bureau):
    bureau.office.create()
    bureau.office.clock.fire(NOW)
    processes = JobProcesses(bureau.office.database, bureau.office.connection, Process.this())
    id_ = processes.claim(2, NOW)
    assert id_ is not None
    bureau.lose_server()
    launcher = bureau.launcher(exit=0)
    launcher.watch(NOW + 9)
    assert bureau.begun()[0].server != Process.this()
    launcher.watch(NOW + 10)
    launcher.watch(NOW + 10)
    bureau.watched(launcher, lambda: stage(bureau, id_) is RunStage.ENDED)

    (line,) = bureau.logged(id_)
    assert "resume=1" not in json.loads(line)["words"]  # it has no run yet


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

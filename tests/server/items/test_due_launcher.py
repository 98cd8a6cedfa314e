"""The processes of ordered runs: one of a source at a time, in order, found again (E-13)."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from smartcrawl.model.processes import Process
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.server.items.due_launcher import BUSY_AGAIN, DueLauncher
from smartcrawl.server.items.due_runs import DueRuns, post_due_run
from smartcrawl.server.jobs.launcher import SILENCE
from smartcrawl.server.jobs.local import CrawlProgram
from tests.server.data.library import NOW
from tests.server.items.conftest import ADD, Desk

SCRIPT = """
import json, os, sys, time
from pathlib import Path
print(json.dumps(sys.argv[1:]), flush=True)
name = next(word for word in sys.argv if word.startswith("--source=")).partition("=")[2]
while not (Path(os.environ["FOLDER"]) / f"go-{name}").exists():
    time.sleep(0.02)
sys.exit(int((Path(os.environ["FOLDER"]) / f"go-{name}").read_text()))
"""


class Yard:
    """A launcher, and the processes that it starts."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk = desk
        self.folder = folder
        (folder / "script.py").write_text(SCRIPT)
        environment = os.environ | {"FOLDER": str(folder)}
        due = (sys.executable, str(folder / "script.py"))
        self.program = CrawlProgram(("false",), environment, folder / "logs", due)
        self.children: dict[int, subprocess.Popen[bytes]] = {}
        self.lost: list[subprocess.Popen[bytes]] = []

    def launcher(self, most: int = 2) -> DueLauncher:
        return DueLauncher(
            self.desk.database, self.desk.connection, self.program, most, self.children
        )

    def order(self, *sources: str, at: int = NOW) -> None:
        with transaction(self.desk.connection):
            for source in sources:
                post_due_run(self.desk.connection, source, at)

    def running(self) -> list[str]:
        return [s for (s,) in self.desk.rows(
            "SELECT source FROM due_run WHERE server IS NOT NULL ORDER BY source"
        )]  # fmt: skip

    def go(self, source: str, status: int = 0) -> None:
        (self.folder / f"go-{source}.new").write_text(str(status))
        (self.folder / f"go-{source}.new").rename(self.folder / f"go-{source}")

    def begun(self, source: str) -> list[list[str]]:
        """The words of the processes that were started for a source."""
        log = self.folder / "logs" / f"due-{source}.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def watched(self, launcher: DueLauncher, done: Callable[[], object], now: int = NOW) -> None:
        until = time.monotonic() + 30
        while not done():
            assert time.monotonic() < until, self.desk.rows("SELECT * FROM due_run")
            launcher.watch(now)
            time.sleep(0.02)

    def lose_server(self, *, host: str | None = None) -> None:
        """Let the server that started everything be a dead one."""
        dead = subprocess.Popen([sys.executable, "-c", ""])
        mark = Process.of(dead.pid)
        dead.wait()
        mark = Process(host or mark.host, mark.pid, mark.start)
        self.desk.rows("UPDATE due_run SET server = ? WHERE server IS NOT NULL", str(mark))
        self.lost += self.children.values()
        self.children.clear()


@pytest.fixture
def yard(desk: Desk, tmp_path: Path) -> Iterator[Yard]:
    yard = Yard(desk, tmp_path)
    yield yard
    for child in (*yard.children.values(), *yard.lost):
        child.kill()
        child.wait()


def test_a_run_is_the_command_of_its_source_and_is_forgotten_when_it_ends(yard: Yard):
    launcher = yard.launcher()
    yard.order("one")
    launcher.start_waiting(NOW)
    yard.watched(launcher, lambda: yard.begun("one"))
    assert yard.running() == ["one"]
    assert yard.begun("one") == [["--source=one", "--progress", "none"]]
    (child,) = yard.children.values()
    assert os.getsid(child.pid) == child.pid

    yard.go("one", 3)
    yard.watched(launcher, lambda: not yard.running())

    assert yard.desk.rows("SELECT * FROM due_run") == []
    assert yard.children == {}


def test_one_run_of_a_source_waits_while_another_is_under_way(yard: Yard):
    launcher = yard.launcher()
    yard.order("one", "one")
    assert yard.desk.waiting() == ["one"]
    launcher.start_waiting(NOW)
    yard.order("one", "one")
    launcher.start_waiting(NOW)
    assert (yard.running(), yard.desk.waiting()) == (["one"], ["one"])

    yard.watched(launcher, lambda: yard.begun("one"))
    yard.go("one")
    yard.watched(launcher, lambda: not yard.running())
    launcher.start_waiting(NOW)
    assert (yard.running(), yard.desk.waiting()) == (["one"], [])


def test_crawls_of_jobs_and_ordered_runs_share_the_places(yard: Yard):
    launcher = yard.launcher(most=2)
    yard.desk.add_job("job", "https://job.example/")
    yard.desk.rows(
        "INSERT INTO job_run (id, job, due_at, fired_at, state, server)"
        " VALUES ('jb_1', (SELECT no FROM job), 1, 1, 'waiting', 'x')"
    )
    yard.order("a", "b", "c")

    launcher.start_waiting(NOW)
    assert yard.running() == ["a"]
    yard.desk.rows("UPDATE job_run SET state = 'ended'")
    launcher.start_waiting(NOW)
    assert yard.running() == ["a", "b"]


@pytest.mark.parametrize(
    "obstacle",
    [
        "INSERT INTO rebuild (no, forced, place, last) VALUES (1, FALSE, 0, 1)",
        "UPDATE job SET status = 'paused'",
        "UPDATE due_run SET at = at + 1",
        "INSERT INTO job_run (id, job, due_at, fired_at, state, server)"
        " VALUES ('jb_1', (SELECT no FROM job), 1, 9000000000, 'waiting', 'x')",
        "INSERT INTO job_run (id, job, due_at, fired_at, state)"
        " VALUES ('jb_1', (SELECT no FROM job), 1, 1, 'waiting')",
    ],
    ids=["rebuild", "paused", "later", "its job begins", "older job"],
)
def test_a_run_waits(yard: Yard, obstacle: str):
    launcher = yard.launcher()
    yard.desk.add_job("docs", "https://docs.example.com/")
    yard.order("docs")
    yard.desk.rows(obstacle)
    launcher.start_waiting(NOW)
    assert yard.running() == []

    for undo in (
        "DELETE FROM rebuild",
        "UPDATE job SET status = 'created'",
        "UPDATE due_run SET at = 1",
        "DELETE FROM job_run",
    ):
        yard.desk.rows(undo)
    launcher.start_waiting(NOW)
    assert yard.running() == ["docs"]


def test_a_source_that_is_crawled_waits_and_others_go_on(yard: Yard):
    launcher = yard.launcher()
    yard.order("one", "two")
    lease = yard.desk.database.take("one", "today")
    launcher.start_waiting(NOW)
    assert (yard.running(), yard.desk.waiting()) == (["two"], ["one"])
    lease.release()
    launcher.start_waiting(NOW)
    assert yard.running() == ["one", "two"]


def test_a_run_that_finds_its_source_busy_tries_again(yard: Yard):
    launcher = yard.launcher()
    yard.order("one")
    launcher.start_waiting(NOW)
    yard.order("one")  # one with the one that comes back
    yard.go("one", 4)
    yard.watched(launcher, lambda: not yard.running())

    assert yard.desk.rows("SELECT source, at, starts FROM due_run") == [("one", NOW, 0)]
    yard.desk.rows("DELETE FROM due_run")
    yard.order("one")
    launcher.start_waiting(NOW)
    yard.watched(launcher, lambda: not yard.running())
    assert yard.desk.rows("SELECT at FROM due_run") == [(NOW + BUSY_AGAIN,)]
    launcher.start_waiting(NOW + BUSY_AGAIN - 1)
    assert yard.running() == []
    launcher.start_waiting(NOW + BUSY_AGAIN)
    assert yard.running() == ["one"]


def test_a_run_that_is_killed_begins_again_once(yard: Yard):
    launcher = yard.launcher()
    yard.order("one")
    for left in (["one"], []):
        launcher.start_waiting(NOW)
        (child,) = yard.children.values()
        child.kill()
        yard.watched(launcher, lambda: not yard.running())
        assert yard.desk.waiting() == left


def test_a_run_that_fails_is_not_repeated(yard: Yard, caplog: pytest.LogCaptureFixture):
    launcher = yard.launcher()
    yard.order("one")
    launcher.start_waiting(NOW)
    yard.go("one", 1)
    yard.watched(launcher, lambda: not yard.running())

    assert yard.desk.waiting() == []
    assert "due-one.log" in caplog.text


def test_a_command_that_cannot_be_started_is_an_error_of_that_run(yard: Yard):
    yard.program = CrawlProgram((), {}, yard.folder / "logs", ("/does/not/exist",))
    yard.order("one", "two")

    yard.launcher().start_waiting(NOW)

    assert yard.desk.rows("SELECT * FROM due_run") == []


def test_the_next_server_finds_a_run_that_goes_on(yard: Yard):
    launcher = yard.launcher()
    yard.order("one")
    launcher.start_waiting(NOW)
    yard.watched(launcher, lambda: yard.begun("one"))
    yard.lose_server()

    other = yard.launcher()
    other.watch(NOW)
    other.watch(NOW)
    assert yard.running() == ["one"]
    assert yard.desk.rows("SELECT server FROM due_run") == [(str(Process.this()),)]
    yard.lost[0].kill()
    yard.lost[0].wait()
    yard.watched(other, lambda: not yard.running())
    assert yard.desk.waiting() == ["one"]  # nothing says how it ended, and its pages may be due


def test_a_run_that_died_before_it_was_started_begins_again(yard: Yard):
    yard.order("one")
    runs = DueRuns(yard.desk.database, yard.desk.connection, Process.this())
    assert runs.claim(2, NOW) is not None
    yard.lose_server()
    launcher = yard.launcher()
    launcher.watch(NOW)
    launcher.watch(NOW)
    assert yard.desk.waiting() == ["one"]


def test_a_server_of_another_machine_is_believed_for_a_minute(yard: Yard):
    launcher = yard.launcher()
    yard.order("one")
    launcher.start_waiting(NOW)
    yard.lose_server(host="elsewhere.example")
    yard.desk.rows("UPDATE due_run SET host = 'elsewhere.example'")

    other = yard.launcher()
    other.watch(NOW + SILENCE)
    assert "elsewhere" in yard.desk.rows("SELECT server FROM due_run")[0][0]
    lease = yard.desk.database.take("one", "today")
    other.watch(NOW + SILENCE + 1)
    other.watch(NOW + SILENCE + 1)
    assert yard.desk.rows("SELECT server FROM due_run") == [(str(Process.this()),)]
    lease.release()
    yard.watched(other, lambda: not yard.running())


@pytest.mark.covers("E-13")
def test_a_run_that_is_claimed_sees_all_that_its_order_wrote(yard: Yard):
    """An order whose transaction is open holds the run back, or gets one after it."""
    yard.order("one")
    other = yard.desk.database.open()
    claimed: list[str] = []

    def claim() -> None:
        own = yard.desk.database.open()
        run = DueRuns(yard.desk.database, own, Process.this()).claim(2, NOW)
        assert run is not None
        seen = own.execute("SELECT count(*) FROM ordered_address").get
        claimed.append(f"{run.source} {seen}")
        own.close()

    thread = Thread(target=claim)
    with transaction(other):
        post_due_run(other, "one", NOW)
        thread.start()
        thread.join(0.5)
        assert claimed == []
        other.execute(
            "INSERT INTO ordered_address (source, id, url, forced, at)"
            " VALUES ('one', ?, 'u', 0, 1)",
            (b"x",),
        )
    thread.join()
    other.close()

    assert claimed == ["one 1"]
    assert yard.desk.order(ADD, url="https://docs.example.com/later")["status"] == "Pending"
    assert yard.desk.waiting() == ["one"]

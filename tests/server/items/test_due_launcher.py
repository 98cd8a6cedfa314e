"""Ordered runs: one of a source at a time, in order, found again (E-13).

Their processes are pretended; tests/server/jobs/test_local_crawls.py has real ones.
"""

import json
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from threading import Thread

import pytest

from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import transaction
from smartcrawl.server.items import BUSY_AGAIN, DueRuns, post_due_run
from smartcrawl.server.jobs.runner import SILENCE, CrawlProgram, LocalCrawls, Runner
from tests.server.data.library import NOW
from tests.server.fake_crawls import FakeProcess, FakeSystem, claim, dead_server, fake_program
from tests.server.items.conftest import ADD, Desk


class Yard:
    """A runner, and the processes that it starts."""

    def __init__(self, desk: Desk, folder: Path, system: FakeSystem) -> None:
        self.desk = desk
        self.folder = folder
        self.system = system
        self.program: CrawlProgram = fake_program(system, folder / "logs", self.life, due=("due",))
        self.children: dict[str, FakeProcess] = {}
        self.lost: list[FakeProcess] = []
        self.gone: dict[str, int] = {}  #: exit statuses of the sources whose runs wait no more

    def life(self, process: FakeProcess) -> Generator[None, None, int]:
        process.print(json.dumps(process.words))
        source = process.words[1].removeprefix("--source=")
        while source not in self.gone:
            yield
        return self.gone[source]

    def runner(self, most: int = 2) -> Runner:
        crawls = LocalCrawls(self.desk.database, self.program)
        crawls.children = self.children
        return Runner(self.desk.database, self.runs(), crawls, most)

    def runs(self) -> DueRuns:
        return DueRuns(self.desk.database, self.desk.connection)

    def order(self, *sources: str, at: int = NOW) -> None:
        with transaction(self.desk.connection):
            for source in sources:
                post_due_run(self.desk.connection, source, at)

    def running(self) -> list[str]:
        return [run.name for run in self.runs().begun()]

    def go(self, source: str, status: int = 0) -> None:
        self.gone[source] = status

    def begun(self, source: str) -> list[list[str]]:
        """The words of the processes that were started for a source."""
        log = self.folder / "logs" / f"due-{source}.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def watched(self, runner: Runner, done: Callable[[], object], now: int = NOW) -> None:
        for _ in range(100):
            if done():
                return
            self.system.step()
            runner.watch(now)
        raise AssertionError(self.desk.rows("SELECT * FROM process"))

    def lose_server(self, *, host: str | None = None) -> None:
        """Let the server that started everything be a dead one."""
        mark = str(dead_server(host))
        self.desk.rows("UPDATE process SET server = ? WHERE server IS NOT NULL", mark)
        self.lost += self.children.values()
        self.children.clear()


@pytest.fixture
def yard(desk: Desk, tmp_path: Path, system: FakeSystem) -> Iterator[Yard]:
    yield Yard(desk, tmp_path, system)
    system.close()


def test_a_run_is_the_command_of_its_source_and_is_forgotten_when_it_ends(yard: Yard):
    runner = yard.runner()
    yard.order("one")
    runner.start_waiting(NOW)
    yard.watched(runner, lambda: yard.begun("one"))
    assert yard.running() == ["one"]
    assert yard.begun("one") == [["due", "--source=one", "--progress", "none"]]

    yard.go("one", 3)
    yard.watched(runner, lambda: not yard.running())

    assert yard.desk.rows("SELECT * FROM due_run") == yard.desk.rows("SELECT * FROM process") == []
    assert yard.children == {}


def test_one_run_of_a_source_waits_while_another_is_under_way(yard: Yard):
    runner = yard.runner()
    yard.order("one", "one")
    assert yard.desk.waiting() == ["one"]
    runner.start_waiting(NOW)
    yard.order("one", "one")
    runner.start_waiting(NOW)
    assert (yard.running(), yard.desk.waiting()) == (["one"], ["one"])

    yard.watched(runner, lambda: yard.begun("one"))
    yard.go("one")
    yard.watched(runner, lambda: not yard.running())
    runner.start_waiting(NOW)
    assert (yard.running(), yard.desk.waiting()) == (["one"], [])


def test_crawls_of_jobs_and_ordered_runs_share_the_places(yard: Yard):
    runner = yard.runner(most=2)
    yard.desk.add_job("job", "https://job.example/")
    yard.desk.rows(
        "INSERT INTO job_run (id, job, due_at, fired_at, state)"
        " VALUES ('jb_1', (SELECT no FROM job), 1, 1, 'waiting')"
    )
    yard.desk.rows("INSERT INTO process (kind, id, server) VALUES ('crawl', 'jb_1', '1 x y')")
    yard.order("a", "b", "c")

    runner.start_waiting(NOW)
    assert yard.running() == ["a"]
    yard.desk.rows("UPDATE job_run SET state = 'ended'")
    runner.start_waiting(NOW)
    assert yard.running() == ["a", "b"]


@pytest.mark.parametrize(
    "obstacles",
    [
        ["INSERT INTO rebuild (no, forced, place, last) VALUES (1, FALSE, 0, 1)"],
        ["UPDATE job SET status = 'paused'"],
        ["UPDATE due_run SET at = at + 1"],
        [
            "INSERT INTO job_run (id, job, due_at, fired_at, state)"
            " VALUES ('jb_1', (SELECT no FROM job), 1, 9000000000, 'waiting')",
            "INSERT INTO process (kind, id, server) VALUES ('crawl', 'jb_1', '1 x y')",
        ],
        [
            "INSERT INTO job_run (id, job, due_at, fired_at, state)"
            " VALUES ('jb_1', (SELECT no FROM job), 1, 1, 'waiting')"
        ],
    ],
    ids=["rebuild", "paused", "later", "its job begins", "older job"],
)
def test_a_run_waits(yard: Yard, obstacles: list[str]):
    runner = yard.runner()
    yard.desk.add_job("docs", "https://docs.example.com/")
    yard.order("docs")
    for obstacle in obstacles:
        yard.desk.rows(obstacle)
    runner.start_waiting(NOW)
    assert yard.running() == []

    for undo in (
        "DELETE FROM rebuild",
        "UPDATE job SET status = 'created'",
        "UPDATE due_run SET at = 1",
        "DELETE FROM job_run",
    ):
        yard.desk.rows(undo)
    runner.start_waiting(NOW)
    assert yard.running() == ["docs"]


def test_a_source_that_is_crawled_waits_and_others_go_on(yard: Yard):
    runner = yard.runner()
    yard.order("one", "two")
    lease = yard.desk.database.take("one", "today")
    runner.start_waiting(NOW)
    assert (yard.running(), yard.desk.waiting()) == (["two"], ["one"])
    lease.release()
    runner.start_waiting(NOW)
    assert yard.running() == ["one", "two"]


def test_a_run_that_finds_its_source_busy_tries_again(yard: Yard):
    runner = yard.runner()
    yard.order("one")
    runner.start_waiting(NOW)
    yard.order("one")  # one with the one that comes back
    yard.go("one", 4)
    yard.watched(runner, lambda: not yard.running())

    assert yard.desk.rows("SELECT source, at FROM due_run") == [("one", NOW)]
    assert yard.desk.rows("SELECT starts FROM process") == []
    yard.desk.rows("DELETE FROM due_run")
    yard.order("one")
    runner.start_waiting(NOW)
    yard.watched(runner, lambda: not yard.running())
    assert yard.desk.rows("SELECT at FROM due_run") == [(NOW + BUSY_AGAIN,)]
    runner.start_waiting(NOW + BUSY_AGAIN - 1)
    assert yard.running() == []
    runner.start_waiting(NOW + BUSY_AGAIN)
    assert yard.running() == ["one"]


def test_a_run_that_is_killed_begins_again_once(yard: Yard):
    runner = yard.runner()
    yard.order("one")
    for left in (["one"], []):
        runner.start_waiting(NOW)
        (child,) = yard.children.values()
        child.kill()
        yard.watched(runner, lambda: not yard.running())
        assert yard.desk.waiting() == left


def test_a_run_that_fails_is_not_repeated(yard: Yard, caplog: pytest.LogCaptureFixture):
    runner = yard.runner()
    yard.order("one")
    runner.start_waiting(NOW)
    yard.go("one", 1)
    yard.watched(runner, lambda: not yard.running())

    assert yard.desk.waiting() == []
    assert "due-one.log" in caplog.text


def test_a_command_that_cannot_be_started_is_an_error_of_that_run(yard: Yard):
    yard.program = CrawlProgram((), {}, yard.folder / "logs", ("/does/not/exist",))
    yard.order("one", "two")

    yard.runner().start_waiting(NOW)

    assert yard.desk.rows("SELECT * FROM due_run") == yard.desk.rows("SELECT * FROM process") == []


def test_the_next_server_finds_a_run_that_goes_on(yard: Yard):
    runner = yard.runner()
    yard.order("one")
    runner.start_waiting(NOW)
    yard.watched(runner, lambda: yard.begun("one"))
    yard.lose_server()

    other = yard.runner()
    other.watch(NOW)
    other.watch(NOW)
    assert yard.running() == ["one"]
    assert yard.desk.rows("SELECT server FROM process") == [(str(Process.this()),)]
    yard.lost[0].kill()
    yard.lost[0].wait()
    yard.watched(other, lambda: not yard.running())
    assert yard.desk.waiting() == ["one"]  # nothing says how it ended, and its pages may be due


def test_a_run_that_died_before_it_was_started_begins_again(yard: Yard):
    yard.order("one")
    assert claim(yard.runs(), yard.desk.database, 2, NOW) is not None
    yard.lose_server()
    runner = yard.runner()
    runner.watch(NOW + 9)
    assert yard.running() == ["one"]  # it may be about to record itself
    runner.watch(NOW + 10)
    runner.watch(NOW + 10)
    assert yard.desk.waiting() == ["one"]


def test_a_server_of_another_machine_is_believed_for_a_minute(yard: Yard):
    runner = yard.runner()
    yard.order("one")
    runner.start_waiting(NOW)
    yard.lose_server(host="elsewhere.example")
    yard.desk.rows("UPDATE process SET host = 'elsewhere.example'")

    other = yard.runner()
    other.watch(NOW + SILENCE)
    assert "elsewhere" in yard.desk.rows("SELECT server FROM process")[0][0]
    lease = yard.desk.database.take("one", "today")
    other.watch(NOW + SILENCE + 1)
    other.watch(NOW + SILENCE + 1)
    assert yard.desk.rows("SELECT server FROM process") == [(str(Process.this()),)]
    lease.release()
    yard.watched(other, lambda: not yard.running())


@pytest.mark.covers("E-13")
def test_a_run_that_is_claimed_sees_all_that_its_order_wrote(yard: Yard):
    """An order whose transaction is open holds the run back, or gets one after it."""
    yard.order("one")
    other = yard.desk.database.open()
    claimed: list[str] = []

    def claim_it() -> None:
        own = yard.desk.database.open()
        run = claim(DueRuns(yard.desk.database, own), yard.desk.database, 2, NOW)
        seen = own.execute("SELECT count(*) FROM ordered_address").get
        claimed.append(f"{run} {seen}")
        own.close()

    thread = Thread(target=claim_it)
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


@pytest.mark.parametrize("is_busy", [True, False])
def test_a_new_order_has_its_starts_anew(yard: Yard, is_busy: bool):
    runner = yard.runner()
    yard.order("one")
    now = NOW
    for time in range(3 if is_busy else 2):
        runner.start_waiting(now)
        (child,) = yard.children.values()
        if is_busy:
            yard.go("one", 4)
            yard.watched(runner, lambda: not yard.running(), now)
            yard.gone.clear()
            now += BUSY_AGAIN
            runner.start_waiting(now)
            (child,) = yard.children.values()
        elif time == 0:
            yard.order("one")
        child.kill()
        yard.watched(runner, lambda: not yard.running(), now)
        assert yard.desk.waiting() == ["one"]

"""Crawls of jobs: their order, their ends, and what a dead server leaves behind.

Their processes are pretended; tests/server/jobs/test_local_crawls.py has real ones.
"""

import json
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from smartcrawl.model.processes import Process
from smartcrawl.registry.runs.run_orders import (
    order_run_row,
    run_order_row,
    withdraw_run_order_row,
)
from smartcrawl.registry.runs.runs import (
    RunRequest,
    interrupt_run_row,
    last_run_row,
    open_run_row,
    seal_run_row,
)
from smartcrawl.rules.model import RunOrder, RunState
from smartcrawl.rules.run_orders import JobStatus
from smartcrawl.server.jobs.runner import SILENCE, CrawlProgram, LocalCrawls, Runner, Waiting
from smartcrawl.server.jobs.scheduler import BegunRun, CrawlRuns
from smartcrawl.server.jobs.store import RunStage
from tests.server.fake_crawls import (
    FakeProcess,
    FakeSystem,
    claim,
    claim_run,
    dead_server,
    fake_program,
)
from tests.server.jobs.conftest import NOW, Office


class Bureau:
    """Runners of one registry, and the crawls that they start."""

    def __init__(self, office: Office, folder: Path, system: FakeSystem) -> None:
        self.office = office
        self.folder = folder
        self.system = system
        self.children: dict[str, FakeProcess] = {}
        self.gone: set[str] = set()  #: sources whose crawls wait no more
        self.may_end: set[str] = set()  #: sources whose crawls linger no more

    def program(self, **does: object) -> CrawlProgram:
        """Return a command that does what words say: open a run, wait, end."""

        def life(process: FakeProcess) -> Generator[None, None, int]:
            given = dict(word.split("=", 1) for word in process.words if "=" in word)
            process.print(json.dumps({"words": process.words}))
            if "open" not in does:
                while "wait" in does and given["source"] not in self.gone:
                    yield
                return int(does.get("exit", 0))
            lease = self.office.database.take(given["source"], "today")
            try:
                yield from self._crawl(process, given, does, lease.release)
            finally:
                lease.release()
            return int(does.get("exit", 0))

        return fake_program(self.system, self.folder / "logs", life, words=("crawl",))

    def _crawl(
        self, process: FakeProcess, given: dict, does: dict, free: Callable[[], None]
    ) -> Generator[None, None, None]:
        """Crawl the source whose lease is held."""
        connection, source = self.office.connection, given["source"]
        last = last_run_row(connection, source)
        if "resume" in given and last is not None:
            withdraw_run_order_row(connection, last[0])
        request = RunRequest(source, "site", resume="resume" in given, job_run=given["_job"])
        run = open_run_row(connection, request, NOW).no
        process.print("opened")
        while "wait" in does and source not in self.gone:
            order = run_order_row(connection, run) if "obey" in does else None
            if order is not None:
                interrupt_run_row(connection, run, NOW, ["paused"])
                if order is RunOrder.CANCEL:
                    order_run_row(connection, run, order, NOW)
                break
            yield
        while "linger" in does and source not in self.may_end:
            free()
            yield
        if "seal" in does:
            seal_run_row(connection, run, tuple(does["seal"]), NOW)
            connection.execute("UPDATE run SET state = ? WHERE no = ?", (RunState.SWEPT, run))

    def runner(self, most: int = 2, **does: object) -> Runner:
        return self.runner_of(self.program(**does), most)

    def runner_of(self, program: CrawlProgram, most: int = 2) -> Runner:
        crawls = LocalCrawls(self.office.database, program)
        crawls.children = self.children
        return self.runner_over(crawls, most)

    def runner_over(self, crawls: LocalCrawls, most: int = 2) -> Runner:
        database = self.office.database
        return Runner(database, CrawlRuns(database, self.office.connect()), crawls, most)

    def begun(self) -> list[BegunRun]:
        return CrawlRuns(self.office.database, self.office.connection).begun()

    def go(self, name: str = "docs") -> None:
        self.gone.add(name)

    def logged(self, id_: str) -> list[str]:
        log = self.folder / "logs" / f"{id_}.log"
        return log.read_text().splitlines() if log.exists() else []

    def watched(self, runner: Runner, done: Callable[[], bool], now: int = NOW) -> None:
        """Watch until something is true."""
        for _ in range(100):
            if done():
                return
            self.system.step()
            runner.watch(now)
        raise AssertionError((self.begun(), self.children))

    def lose_server(self, *, host: str | None = None) -> None:
        """Let the server that started everything be a dead one."""
        self.office.connection.execute("UPDATE process SET server = ?", (str(dead_server(host)),))
        self.children.clear()


@pytest.fixture
def bureau(office: Office, tmp_path: Path, system: FakeSystem) -> Iterator[Bureau]:
    yield Bureau(office, tmp_path, system)
    system.close()


def start(bureau: Bureau, runner: Runner, now: int = NOW) -> list[str]:
    """Fire what is due and start it; return the ids of all runs that wait or run."""
    bureau.office.clock.fire(now)
    runner.start_waiting(now)
    return [one.id for one in bureau.begun()]


def stage(bureau: Bureau, id_: str) -> RunStage:
    return bureau.office.clock.get(id_).stage


def test_a_crawl_gets_names_only(bureau: Bureau):
    bureau.office.create()
    runner = bureau.runner()
    (id_,) = start(bureau, runner)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.ENDED)

    said = json.loads(bureau.logged(id_)[0])
    assert said["words"] == [
        "crawl",
        "-a",
        "source=docs",
        "-a",
        f"_job={id_}",
        "--progress",
        "none",
    ]


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
    runner = bureau.runner(**does)
    (id_,) = start(bureau, runner)
    bureau.watched(runner, lambda: not bureau.begun())

    after = bureau.office.store.get(job.id)
    assert (after.status, after.complete) == (status, complete)
    assert [one.partition(":")[0] for one in after.reasons] == ([] if reason is None else [reason])
    ended = RunStage.SKIPPED if does.get("exit") == 4 else RunStage.ENDED
    assert stage(bureau, id_) is ended
    assert bureau.children == {}


def test_a_job_runs_once_its_run_is_open(bureau: Bureau):
    job = bureau.office.create()
    runner = bureau.runner(open=1, wait=1, seal=[])
    (id_,) = start(bureau, runner)
    assert bureau.office.store.get(job.id).status is JobStatus.CREATED
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.RUNNING, NOW + 5)

    running = bureau.office.store.get(job.id)
    assert (running.status, running.started_at) == (JobStatus.RUNNING, NOW + 5)
    (one,) = bureau.begun()
    assert one.started.process == Process.of(bureau.children[id_].pid)
    assert one.run == bureau.office.rows("SELECT max(no) FROM run")[0][0]
    bureau.go()
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.ENDED)


def test_a_process_that_is_killed_fails_its_job(bureau: Bureau):
    job = bureau.office.create()
    runner = bureau.runner(open=1, wait=1)
    (id_,) = start(bureau, runner)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.RUNNING)
    bureau.children[id_].kill()
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.ENDED)

    after = bureau.office.store.get(job.id)
    assert (after.status, after.reasons) == (
        JobStatus.FAILED,
        ("its process was ended by SIGKILL",),
    )


def test_only_some_crawl_at_once_and_the_others_wait_in_order(bureau: Bureau):
    names = ["a", "b", "c", "d"]
    for place, name in enumerate(names):
        bureau.office.create(name, now=NOW + place)
    one, other = bureau.runner(wait=1), bureau.runner(wait=1)
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
    office = bureau.office
    one, other = (CrawlRuns(office.database, office.connect()) for _ in range(2))
    claimed: list[str | None] = []

    def waiting(now: int) -> list[Waiting]:
        if not claimed:  # between the look of one server and its claim
            claimed.append(claim(other, office.database, 1, now))
        return CrawlRuns.waiting(one, now)

    one.waiting = waiting  # type: ignore[method-assign]
    assert claim(one, office.database, 1, NOW) is None
    assert claimed[0] is not None
    assert len(bureau.begun()) == 1
    assert claim(other, office.database, 1, NOW) is None


def test_the_command_of_a_crawl_has_the_spider_of_its_source(bureau: Bureau):
    bureau.office.create("docs")
    asked: list[str] = []

    def spider_of(source: str) -> str:
        asked.append(source)
        return "files"

    program = bureau.program()
    object.__setattr__(program, "spider_of", spider_of)
    runner = bureau.runner_of(program)
    (id_,) = start(bureau, runner)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.ENDED)

    said = json.loads(bureau.logged(id_)[0])
    assert said["words"][:4] == ["crawl", "files", "-a", "source=docs"]
    assert asked == ["docs"]


def test_what_cannot_be_started_fails(bureau: Bureau):
    job = bureau.office.create()
    program = CrawlProgram((str(bureau.folder / "missing"),), {}, bureau.folder / "logs")
    start(bureau, bureau.runner_of(program))

    after = bureau.office.store.get(job.id)
    assert after.status is JobStatus.FAILED
    assert after.reasons == ("cannot start its process (No such file or directory)",)


def test_a_paused_job_is_not_started(bureau: Bureau):
    bureau.office.create()
    bureau.office.clock.fire(NOW)
    bureau.office.connection.execute("UPDATE job SET status = 'paused'")
    bureau.runner().start_waiting(NOW)
    assert bureau.begun() == []

    bureau.office.connection.execute("UPDATE job SET status = 'created'")
    bureau.runner(most=1).start_waiting(NOW)
    assert len(bureau.begun()) == 1


def test_the_next_server_finds_a_crawl_again_and_records_its_end(bureau: Bureau):
    job = bureau.office.create()
    first = bureau.runner(open=1, wait=1, seal=["pages_left"], exit=3)
    (id_,) = start(bureau, first)
    bureau.watched(first, lambda: stage(bureau, id_) is RunStage.RUNNING)
    bureau.lose_server()

    second = bureau.runner(exit=1)
    for _ in range(3):
        second.watch(NOW + 20)
    (one,) = bureau.begun()
    assert (one.started.server, one.started.starts) == (Process.this(), 1)
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
    runner = bureau.runner(open=1, wait=1, seal=[])
    (id_,) = start(bureau, runner)
    for death in (1, 2):
        bureau.watched(runner, lambda: bureau.logged(id_).count("opened") == death)  # noqa: B023
        bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.RUNNING)
        child = bureau.children[id_]
        bureau.lose_server()
        child.kill()
        child.wait()
        runner = bureau.runner(open=1, wait=1, seal=[])
        runner.watch(NOW + 20 * death)  # takes over
        runner.watch(NOW + 20 * death)
        if death == 1:
            (one,) = bureau.begun()
            assert (one.id, one.started.starts, stage(bureau, id_)) == (id_, 2, RunStage.RUNNING)

    words = [json.loads(line)["words"] for line in bureau.logged(id_) if line.startswith("{")]
    assert ["resume=1" in one for one in words] == [False, True]
    assert bureau.begun() == []
    assert bureau.office.rows("SELECT count(*) FROM run") == [(1,)]
    after = bureau.office.store.get(job.id)
    assert (after.status, after.reasons) == (JobStatus.FAILED, ("its process died",))


def test_a_run_is_resumed_when_the_lease_of_the_dead_process_has_expired(bureau: Bureau):
    bureau.office.create()
    runner = bureau.runner(open=1, wait=1)
    (id_,) = start(bureau, runner)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.RUNNING)
    child = bureau.children[id_]
    bureau.lose_server()
    child.kill()
    child.wait()
    lease = bureau.office.database.take("docs", "today")  # it lasts longer than its process

    second = bureau.runner(exit=0)
    for _ in range(3):
        second.watch(NOW + 20)
    assert [(one.id, one.started.starts) for one in bureau.begun()] == [(id_, 1)]
    assert bureau.children == {}
    lease.release()
    second.watch(NOW + 80)
    assert [(one.id, one.started.starts) for one in bureau.begun()] == [(id_, 2)]


def test_of_two_processes_of_a_run_the_first_one_counts(bureau: Bureau):
    job = bureau.office.create()
    runner = bureau.runner(wait=1, exit=4)
    (id_,) = start(bureau, runner)
    this = Process.this()
    bureau.office.connection.execute(
        "UPDATE process SET host = ?, pid = ?, process_start = ?", (this.host, this.pid, this.start)
    )
    bureau.go()
    bureau.watched(runner, lambda: not bureau.children)

    assert stage(bureau, id_) is RunStage.WAITING  # for the first one to open its run
    assert bureau.office.store.get(job.id).status is JobStatus.CREATED
    bureau.office.connection.execute("UPDATE process SET process_start = 'dead'")
    bureau.watched(runner, lambda: not bureau.begun() or bool(bureau.children))


def test_a_run_that_cannot_be_resumed_because_its_source_is_busy_fails(bureau: Bureau):
    job = bureau.office.create()
    runner = bureau.runner(open=1, wait=1, exit=4)
    (id_,) = start(bureau, runner)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.RUNNING)
    bureau.go()
    bureau.watched(runner, lambda: not bureau.begun())

    after = bureau.office.store.get(job.id)
    assert after.status is JobStatus.FAILED
    assert after.reasons == ("its source is being crawled by another process",)


def test_only_a_job_that_may_run_is_resumed(bureau: Bureau):
    job = bureau.office.create()
    runner = bureau.runner(open=1, wait=1)
    (id_,) = start(bureau, runner)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.RUNNING)
    child = bureau.children[id_]
    bureau.lose_server()
    child.kill()
    child.wait()
    bureau.office.connection.execute("UPDATE job SET status = 'paused'")
    second = bureau.runner()
    for _ in range(2):
        second.watch(NOW + 20)

    assert bureau.begun() == []
    assert bureau.office.store.get(job.id).status is JobStatus.PAUSED


def test_a_server_of_another_machine_is_believed_for_a_minute(bureau: Bureau):
    bureau.office.create()
    runner = bureau.runner(open=1, wait=1)
    (id_,) = start(bureau, runner)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.RUNNING)
    bureau.lose_server(host="elsewhere.example")
    bureau.office.connection.execute("UPDATE process SET host = 'elsewhere.example'")

    other = bureau.runner()
    other.watch(NOW + SILENCE)
    assert bureau.begun()[0].started.server.host == "elsewhere.example"
    for _ in range(2):
        other.watch(NOW + SILENCE + 1)
    assert bureau.begun()[0].started.server == Process.this()
    assert bureau.children == {}  # the lease shows that it crawls
    assert stage(bureau, id_) is RunStage.RUNNING


def test_a_server_of_this_machine_that_lives_keeps_its_crawls(bureau: Bureau):
    bureau.office.create()
    start(bureau, bureau.runner(wait=1))
    living = Process.of(os.getppid())
    bureau.office.connection.execute("UPDATE process SET server = ?", (str(living),))
    bureau.runner().watch(NOW + 99_999)
    assert bureau.begun()[0].started.server == living


def test_what_a_process_records_just_before_its_end_counts(bureau: Bureau):
    """It opens its run and ends between two looks of its server."""
    job = bureau.office.create()
    program = bureau.program(open=1, seal=["pages_left"], exit=3)
    crawls = LocalCrawls(bureau.office.database, program)
    crawls.look = lambda begun, now: bureau.system.step()  # type: ignore[method-assign]
    runner = bureau.runner_over(crawls)
    start(bureau, runner)
    runner.watch(NOW)

    after = bureau.office.store.get(job.id)
    assert (after.status, after.reasons) == (JobStatus.COMPLETED, ("pages_left",))
    assert bureau.begun() == []


def test_a_server_shows_every_ten_seconds_that_it_lives(bureau: Bureau):
    bureau.office.create()
    runner = bureau.runner(wait=1)
    start(bureau, runner)
    shown = []
    for seconds in (0, 1, 9, 10, 19, 20, -99):  # at last the clock was put back
        runner.watch(NOW + seconds)
        (one,) = bureau.begun()
        shown.append(one.started.watched_at - NOW)
    assert shown == [0, 0, 0, 10, 10, 20, -99]


def test_a_server_that_died_while_it_started_a_crawl_gets_some_seconds(bureau: Bureau):
    bureau.office.create()
    bureau.office.clock.fire(NOW)
    id_ = claim_run(bureau.office.database, bureau.office.connection, NOW)
    assert id_ is not None
    bureau.lose_server()
    runner = bureau.runner(exit=0)
    runner.watch(NOW + 9)
    assert bureau.begun()[0].started.server != Process.this()
    runner.watch(NOW + 10)
    runner.watch(NOW + 10)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.ENDED)

    (line,) = bureau.logged(id_)
    assert "resume=1" not in json.loads(line)["words"]  # it has no run yet

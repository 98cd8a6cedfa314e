"""Processes of jobs that are paused, resumed and cancelled, by one server or another."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.rules.run_orders import JobAction, JobStatus
from smartcrawl.server.jobs.orders import JobOrders, api_job_standing
from smartcrawl.server.jobs.runner import LocalCrawls, Runner
from smartcrawl.server.jobs.store import RunStage
from tests.server.fake_crawls import FakeSystem
from tests.server.jobs.conftest import NOW, Office
from tests.server.jobs.test_job_launcher import Bureau, stage, start

PAUSE, RESUME, CANCEL = JobAction.PAUSE, JobAction.RESUME, JobAction.CANCEL


@pytest.fixture
def bureau(office: Office, tmp_path: Path, system: FakeSystem) -> Iterator[Bureau]:
    yield Bureau(office, tmp_path, system)
    system.close()


def order(bureau: Bureau, job: str, action: JobAction) -> None:
    """Give an order as another server does, whose connection is its own."""
    JobOrders(bureau.office.database, bureau.office.connect()).give(job, action, NOW)


def status(bureau: Bureau, job: str) -> JobStatus:
    return bureau.office.store.get(job).status


def running(bureau: Bureau, runner: Runner) -> tuple[str, str]:
    job = bureau.office.create().id
    (id_,) = start(bureau, runner)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.RUNNING)
    return job, id_


def arguments(bureau: Bureau, id_: str) -> list[list[str]]:
    return [json.loads(line)["words"] for line in bureau.logged(id_) if line.startswith("{")]


@pytest.mark.covers("R2-27", "R2-32")
@pytest.mark.parametrize("exit_status", [0, 3, 4])
def test_a_paused_crawl_goes_on_under_its_id(bureau: Bureau, exit_status: int):
    runner = bureau.runner(1, open=1, wait=1, obey=1, exit=exit_status)
    job, id_ = running(bureau, runner)
    order(bureau, job, PAUSE)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.PAUSED)
    bureau.watched(runner, lambda: not bureau.children)
    assert status(bureau, job) is JobStatus.PAUSED

    bureau.office.create("other")  # the place is free
    runner = bureau.runner(1, open=1, seal=[])
    start(bureau, runner)
    bureau.watched(runner, lambda: not bureau.begun() and not bureau.children)
    order(bureau, job, RESUME)
    assert api_job_standing(bureau.office.connection, job).requested is RESUME
    runner.start_waiting(NOW)
    bureau.watched(runner, lambda: not bureau.begun())
    after = bureau.office.store.get(job)
    assert (after.status, after.complete) == (JobStatus.COMPLETED, True)
    assert ["resume=1" in words for words in arguments(bureau, id_)] == [False, True]
    assert bureau.office.rows(
        "SELECT count(*) FROM run r JOIN source s ON s.no = r.source WHERE s.name = 'docs'"
    ) == [(1,)]


@pytest.mark.covers("R2-32")
def test_a_cancelled_crawl_is_over(bureau: Bureau):
    runner = bureau.runner(open=1, wait=1, obey=1, exit=3)
    job, id_ = running(bureau, runner)
    order(bureau, job, CANCEL)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.CANCELLED)
    bureau.watched(runner, lambda: not bureau.children)

    after = bureau.office.store.get(job)
    assert (after.status, after.complete) == (JobStatus.CANCELLED, False)


@pytest.mark.parametrize(
    ("action", "word"), [(PAUSE, RunStage.PAUSED), (CANCEL, RunStage.CANCELLED)]
)
def test_an_order_to_a_process_that_is_killed_counts(
    bureau: Bureau, action: JobAction, word: RunStage
):
    runner = bureau.runner(open=1, wait=1)
    job, id_ = running(bureau, runner)
    order(bureau, job, action)
    bureau.children[id_].kill()
    bureau.watched(runner, lambda: not bureau.begun())

    assert stage(bureau, id_) is word
    assert status(bureau, job) is JobStatus(word)


@pytest.mark.parametrize(
    ("action", "word"), [(PAUSE, RunStage.PAUSED), (CANCEL, RunStage.CANCELLED)]
)
def test_the_next_server_records_what_was_ordered(
    bureau: Bureau, action: JobAction, word: RunStage
):
    """Server and crawl died after the order: nothing is resumed."""
    runner = bureau.runner(open=1, wait=1)
    job, id_ = running(bureau, runner)
    order(bureau, job, action)
    child = bureau.children[id_]
    bureau.lose_server()
    child.kill()
    child.wait()
    second = bureau.runner()
    for _ in range(2):
        second.watch(NOW + 20)

    assert stage(bureau, id_) is word
    assert bureau.children == {}
    assert status(bureau, job) is JobStatus(word)


def test_the_order_of_one_server_reaches_the_crawl_of_another_one(bureau: Bureau):
    runner = bureau.runner(open=1, wait=1, obey=1, exit=3)
    job, id_ = running(bureau, runner)
    bureau.lose_server()
    other = bureau.runner(open=1, seal=[])
    other.watch(NOW)
    order(bureau, job, PAUSE)
    bureau.watched(other, lambda: stage(bureau, id_) is RunStage.PAUSED)

    order(bureau, job, RESUME)
    other.start_waiting(NOW)
    bureau.watched(other, lambda: status(bureau, job) is JobStatus.COMPLETED)


def test_a_paused_job_stays_so_under_the_next_server(bureau: Bureau):
    runner = bureau.runner(open=1, wait=1, obey=1, exit=3)
    job, id_ = running(bureau, runner)
    order(bureau, job, PAUSE)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.PAUSED)
    bureau.watched(runner, lambda: not bureau.children)
    before = bureau.office.rows("SELECT * FROM job_run NATURAL JOIN process")
    later = NOW + 99_999
    second = bureau.runner(open=1, seal=[])
    for _ in range(3):
        bureau.office.clock.fire(later)
        second.watch(later)
        second.start_waiting(later)

    assert bureau.office.rows("SELECT * FROM job_run NATURAL JOIN process") == before
    assert bureau.children == {}
    assert status(bureau, job) is JobStatus.PAUSED


def test_a_run_goes_on_when_its_former_process_has_ended(bureau: Bureau):
    """It has released its source, and takes its time to end."""
    runner = bureau.runner(open=1, wait=1, obey=1, linger=1, exit=3)
    job, id_ = running(bureau, runner)
    former = bureau.children[id_]
    order(bureau, job, PAUSE)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.PAUSED)
    assert former.poll() is None  # recorded before its end
    order(bureau, job, RESUME)
    other = bureau.office.create("other").id
    runner = bureau.runner(open=1, seal=[])
    assert start(bureau, runner) != [id_]  # the other one does not wait for it
    bureau.watched(runner, lambda: status(bureau, other) is JobStatus.COMPLETED)
    assert len(arguments(bureau, id_)) == 1

    bureau.may_end.add("docs")
    bureau.watched(runner, lambda: not bureau.children)
    runner.start_waiting(NOW)
    bureau.watched(runner, lambda: status(bureau, job) is JobStatus.COMPLETED)


def test_a_resumed_run_waits_for_its_source(bureau: Bureau):
    runner = bureau.runner(open=1, wait=1, obey=1, exit=3)
    job, id_ = running(bureau, runner)
    order(bureau, job, PAUSE)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.PAUSED)
    bureau.watched(runner, lambda: not bureau.children)
    order(bureau, job, RESUME)
    lease = bureau.office.database.take("docs", "today")
    runner = bureau.runner(open=1, seal=[])
    runner.start_waiting(NOW)
    assert bureau.children == {}
    lease.release()

    busy = bureau.runner(exit=4)  # another process was faster
    busy.start_waiting(NOW)
    bureau.watched(busy, lambda: not bureau.children)
    assert bureau.begun() == []
    found = api_job_standing(bureau.office.connection, job)
    assert (found.status, found.requested) == (JobStatus.PAUSED, RESUME)
    runner.start_waiting(NOW)
    bureau.watched(runner, lambda: status(bureau, job) is JobStatus.COMPLETED)


def test_a_resumed_process_that_dies_with_its_server_is_resumed_once(bureau: Bureau):
    runner = bureau.runner(open=1, wait=1, obey=1, exit=3)
    job, id_ = running(bureau, runner)
    order(bureau, job, PAUSE)
    bureau.watched(runner, lambda: stage(bureau, id_) is RunStage.PAUSED)
    bureau.watched(runner, lambda: not bureau.children)
    order(bureau, job, RESUME)
    runner = bureau.runner(wait=1)
    runner.start_waiting(NOW)
    runner.watch(NOW)
    assert status(bureau, job) is JobStatus.PAUSED  # its run is not open yet
    child = bureau.children[id_]
    bureau.lose_server()
    child.kill()
    child.wait()
    second = bureau.runner(open=1, seal=[])
    for _ in range(2):
        second.watch(NOW + 20)
    bureau.watched(second, lambda: status(bureau, job) is JobStatus.COMPLETED)

    assert "resume=1" in arguments(bureau, id_)[-1]
    assert bureau.office.rows("SELECT starts - starts_before FROM process") == [(2,)]


def test_a_process_of_before_is_not_taken_for_the_present_one(bureau: Bureau):
    """It was paused here and resumed by another server, which died with its crawl."""
    runner = bureau.runner(open=1, wait=1, obey=1, exit=3)
    job, id_ = running(bureau, runner)
    former = bureau.children[id_]
    order(bureau, job, PAUSE)
    former.wait()
    bureau.office.clock.obeyed(id_, NOW)  # as the other server found
    order(bureau, job, RESUME)
    crawls = LocalCrawls(bureau.office.database, bureau.program(wait=1))
    bureau.runner_over(crawls).start_waiting(NOW)
    bureau.lose_server()
    crawls.children[id_].kill()
    crawls.children[id_].wait()
    bureau.children[id_] = former
    runner = bureau.runner(open=1, seal=[])
    bureau.watched(runner, lambda: not bureau.begun(), NOW + 20)

    assert status(bureau, job) is JobStatus.COMPLETED
    assert bureau.office.store.get(job).complete is True

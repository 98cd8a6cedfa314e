"""The processes of libraries' jobs: in order, at most some at once, controlled, found again."""

import pytest

from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.jobs import begin_library_job_row
from smartcrawl.rules.run_orders import JobAction
from smartcrawl.server.jobs.library_store import LibraryChoices, LibraryJobs, LibraryWork
from smartcrawl.server.jobs.runner import SILENCE, CrawlProgram
from smartcrawl.server.jobs.store import RunStage
from smartcrawl.sources.jobs import JobError
from tests.server.data.library import NOW
from tests.server.fake_crawls import claim
from tests.server.library.conftest import Quay

ALL = LibraryChoices()


def order(quay: Quay, domain: str = "D1", action: str = "crawl", choices: LibraryChoices = ALL):
    with transaction(quay.desk.connection):
        return LibraryJobs(quay.desk.connection).create(domain, action, choices, NOW).id


def give(quay: Quay, id_: str, action: JobAction):
    with transaction(quay.desk.connection):
        return LibraryJobs(quay.desk.connection).give(id_, action, NOW)


def begin(quay: Quay, id_: str):
    runner = quay.runner()
    quay.watched(runner, lambda: quay.begun(id_), NOW)
    return runner


@pytest.mark.covers("R3-12", "R3-59")
def test_a_job_is_the_command_with_its_options_and_has_its_result(quay: Quay):
    choices = LibraryChoices("full", "files", "source01", dry_run=True, retry_batches=3)
    id_ = order(quay, action="download", choices=choices)
    runner = begin(quay, id_)
    assert quay.begun(id_) == [[
        ["download", "D1", "--mode", "full", "--scope", "files", "--retry-batches", "3",
         "--source", "source01", "--dry-run"],
        {},
    ]]  # fmt: skip
    assert quay.job(id_).stage is RunStage.RUNNING
    (child,) = quay.children.values()
    assert quay.job(id_).started.process == Process.of(child.pid)

    quay.go(id_, 3)
    quay.watched(runner, lambda: not quay.children, NOW)
    job = quay.job(id_)
    assert (job.stage, job.exit_status, job.final()) == (RunStage.ENDED, 3, {"complete": False})
    assert job.ended_at == 1


def test_jobs_wait_in_their_order_for_a_place(quay: Quay):
    ids = [order(quay, domain) for domain in ("a", "b", "c")]
    runner = quay.runner(most=2)
    runner.start_waiting(NOW)
    assert [quay.job(id_).started.server is not None for id_ in ids] == [True, True, False]
    quay.go(ids[1])
    quay.watched(runner, lambda: quay.begun(ids[2]), NOW)
    assert quay.job(ids[1]).stage is RunStage.ENDED


def test_crawls_of_jobs_take_places_as_well(quay: Quay):
    quay.desk.add_job("job", "https://job.example/")
    quay.desk.rows(
        "INSERT INTO job_run (id, job, due_at, fired_at, state)"
        " VALUES ('jb_1', (SELECT no FROM job), 1, 1, 'waiting')"
    )
    quay.desk.rows("INSERT INTO process (kind, id, server) VALUES ('crawl', 'jb_1', '1 x y')")
    ids = [order(quay, domain) for domain in ("a", "b")]
    quay.runner(most=2).start_waiting(NOW)
    assert [quay.job(id_).started.server is not None for id_ in ids] == [True, False]


@pytest.mark.covers("R3-12")
def test_a_job_is_paused_and_resumed_under_its_id(quay: Quay):
    id_ = order(quay)
    runner = begin(quay, id_)
    standing = give(quay, id_, JobAction.PAUSE)
    assert (standing.status, standing.requested) == (RunStage.RUNNING, JobAction.PAUSE)
    quay.watched(runner, lambda: quay.job(id_).stage is RunStage.PAUSED, NOW)
    assert (quay.job(id_).requested, quay.job(id_).ended_at) == (None, None)
    runner.start_waiting(NOW)
    assert len(quay.begun(id_)) == 1

    assert give(quay, id_, JobAction.RESUME).status is RunStage.WAITING
    quay.watched(runner, lambda: len(quay.begun(id_)) == 2, NOW)
    assert quay.begun(id_)[1][1] == {"done": ["a"]}
    quay.go(id_)
    quay.watched(runner, lambda: quay.job(id_).is_over, NOW)
    assert quay.job(id_).final() == {"complete": True}


@pytest.mark.covers("R3-12", "R3-23")
def test_a_job_is_cancelled_in_each_stage(quay: Quay):
    ids = [order(quay, domain) for domain in ("a", "b", "c")]
    assert give(quay, ids[0], JobAction.CANCEL).status is RunStage.CANCELLED
    runner = begin(quay, ids[1])
    give(quay, ids[1], JobAction.CANCEL)
    with pytest.raises(JobError, match="is being cancelled"):
        give(quay, ids[1], JobAction.PAUSE)
    quay.watched(runner, lambda: quay.job(ids[1]).stage is RunStage.CANCELLED, NOW)
    begin(quay, ids[2])
    give(quay, ids[2], JobAction.PAUSE)
    quay.watched(runner, lambda: quay.job(ids[2]).stage is RunStage.PAUSED, NOW)
    assert give(quay, ids[2], JobAction.CANCEL).status is RunStage.CANCELLED

    assert quay.begun(ids[0]) == []
    for id_ in ids:
        for action in JobAction:
            with pytest.raises(JobError, match="final"):
                give(quay, id_, action)


def test_a_waiting_job_is_paused_at_once_and_waits_again(quay: Quay):
    id_ = order(quay)
    assert give(quay, id_, JobAction.PAUSE).status is RunStage.PAUSED
    quay.runner().start_waiting(NOW)
    assert quay.job(id_).started.server is None
    with pytest.raises(JobError, match="is paused"):
        give(quay, id_, JobAction.PAUSE)
    give(quay, id_, JobAction.RESUME)
    begin(quay, id_)


@pytest.mark.parametrize(
    ("action", "choices", "is_refused"),
    [
        ("crawl", LibraryChoices(), True),
        ("download", LibraryChoices(), True),
        ("download", LibraryChoices(scope="files"), True),
        ("download", LibraryChoices(scope="files", source="one"), True),
        ("download", LibraryChoices(scope="lists"), False),
        ("download", LibraryChoices(scope="files", source="two"), False),
        ("process", LibraryChoices(), False),
        ("crawl", LibraryChoices(dry_run=True), False),
    ],
)
def test_one_step_at_a_source_at_a_time(quay: Quay, action: str, choices, is_refused: bool):
    first = order(quay, action="download", choices=LibraryChoices(scope="files", source="one"))
    order(quay, "other", action="download")
    if is_refused:
        with pytest.raises(JobError, match=f"the job {first} .* is waiting"):
            order(quay, action=action, choices=choices)
    else:
        order(quay, action=action, choices=choices)
    give(quay, first, JobAction.CANCEL)
    if is_refused:
        order(quay, action=action, choices=choices)


def test_a_process_that_dies_is_started_once_more(quay: Quay):
    id_ = order(quay)
    runner = begin(quay, id_)
    quay.children[id_].kill()
    quay.watched(runner, lambda: len(quay.begun(id_)) == 2, NOW)
    quay.children[id_].kill()
    quay.watched(runner, lambda: quay.job(id_).is_over, NOW)
    assert quay.job(id_).stage is RunStage.ENDED
    assert quay.job(id_).final()["reason"] == "its process was ended by SIGKILL"
    assert quay.job(id_).final()["complete"] is False


@pytest.mark.parametrize(
    ("action", "stage"),
    [(JobAction.PAUSE, RunStage.PAUSED), (JobAction.CANCEL, RunStage.CANCELLED)],
)
def test_an_order_to_a_process_that_dies_counts(quay: Quay, action: JobAction, stage: RunStage):
    id_ = order(quay)
    begin(quay, id_)
    quay.children[id_].kill()
    quay.children[id_].wait()
    give(quay, id_, action)
    runner = quay.runner()
    quay.watched(runner, lambda: quay.job(id_).stage is stage, NOW)
    assert len(quay.begun(id_)) == 1


def test_a_process_that_fails_is_not_repeated(quay: Quay):
    id_ = order(quay)
    runner = begin(quay, id_)
    quay.go(id_, 2)
    quay.watched(runner, lambda: quay.job(id_).is_over, NOW)
    assert quay.job(id_).reasons == (f"its process failed (exit status 2): see {id_}.log",)


def test_a_command_that_cannot_be_started_fails_its_job(quay: Quay):
    quay.program = CrawlProgram((), {}, quay.logs, library=("/does/not/exist",))
    id_ = order(quay)
    quay.runner().start_waiting(NOW)
    assert quay.job(id_).stage is RunStage.ENDED
    assert "cannot start its process" in quay.job(id_).final()["reason"]


def test_the_next_server_finds_a_job_that_goes_on(quay: Quay):
    id_ = order(quay)
    begin(quay, id_)
    quay.lose_server()
    other = quay.runner()
    for _ in range(3):
        other.watch(NOW)
    assert (quay.job(id_).started.server, len(quay.begun(id_))) == (Process.this(), 1)

    quay.go(id_)
    quay.watched(other, lambda: quay.job(id_).is_over, NOW)
    assert quay.job(id_).final() == {"complete": True}


def test_the_next_server_starts_a_job_that_died_with_its_server(quay: Quay):
    id_ = order(quay)
    begin(quay, id_)
    quay.children[id_].kill()
    quay.children[id_].wait()
    quay.lose_server()
    quay.watched(quay.runner(), lambda: len(quay.begun(id_)) == 2, NOW)


def test_a_process_whose_server_died_at_its_start_gets_some_seconds(quay: Quay):
    id_ = order(quay)
    assert claim(LibraryWork(quay.desk.database, quay.desk.connection), quay.desk.database, 2, NOW)
    quay.lose_server()
    runner = quay.runner()
    runner.watch(NOW + 9)
    assert (quay.job(id_).started.server == Process.this(), quay.begun(id_)) == (False, [])
    quay.watched(runner, lambda: quay.begun(id_), NOW + 10)
    assert quay.job(id_).started.starts == 2


def test_a_server_of_another_machine_is_believed_for_a_minute(quay: Quay):
    id_ = order(quay)
    begin(quay, id_)
    quay.lose_server(host="elsewhere.example")
    other = quay.runner()
    quay.desk.rows("UPDATE process SET watched_at = ?", NOW)
    other.watch(NOW + SILENCE)
    assert quay.job(id_).started.server != Process.this()
    other.watch(NOW + SILENCE + 1)
    assert quay.job(id_).started.server == Process.this()


def test_of_two_processes_of_a_job_the_first_counts(quay: Quay):
    id_ = order(quay)
    begin(quay, id_)
    assert quay.job(id_).stage is RunStage.RUNNING
    with transaction(quay.desk.connection):
        assert begin_library_job_row(quay.desk.connection, id_) is None
    assert quay.job(id_).started.process == Process.of(quay.children[id_].pid)


def test_a_resumed_job_has_its_starts_anew(quay: Quay):
    id_ = order(quay)
    runner = begin(quay, id_)
    give(quay, id_, JobAction.PAUSE)
    quay.watched(runner, lambda: quay.job(id_).stage is RunStage.PAUSED, NOW)
    give(quay, id_, JobAction.RESUME)
    started = quay.job(id_).started
    assert (started.server, started.starts, started.starts_before) == (None, 1, 1)


def test_a_job_that_died_after_a_pause_keeps_its_run_and_its_progress(quay: Quay):
    id_ = order(quay)
    runner = begin(quay, id_)
    quay.desk.rows("UPDATE library_job SET run = 7, progress = ?", '{"done": ["b"]}')
    quay.children[id_].kill()
    give(quay, id_, JobAction.PAUSE)
    quay.watched(runner, lambda: quay.job(id_).stage is RunStage.PAUSED, NOW)
    assert quay.job(id_).run == 7
    give(quay, id_, JobAction.RESUME)
    quay.watched(runner, lambda: len(quay.begun(id_)) == 2, NOW)
    assert quay.begun(id_)[1][1] == {"done": ["b"]}

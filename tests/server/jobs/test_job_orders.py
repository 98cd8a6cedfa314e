"""Orders to jobs in every state of their life, on both databases."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from smartcrawl.registry.runs.run_orders import order_run_row, run_order_row
from smartcrawl.registry.runs.runs import (
    RunRequest,
    interrupt_run_row,
    open_run_row,
    seal_run_row,
)
from smartcrawl.rules.model import RESUMABLE, RunOrder, RunState
from smartcrawl.rules.run_orders import JobAction, JobStatus
from smartcrawl.server.jobs.orders import JobOrders, api_job_standing
from smartcrawl.server.jobs.scheduler import CrawlRuns
from smartcrawl.server.jobs.store import RunStage
from smartcrawl.sources.jobs import JobError
from tests.server.fake_crawls import claim_run
from tests.server.jobs.conftest import NOW, Office, defined

HOUR = 3_600
DAILY = "0 0 * * *"
PAUSE, RESUME, CANCEL = JobAction.PAUSE, JobAction.RESUME, JobAction.CANCEL


def order(office: Office, id_: str, action: JobAction, now: int = NOW) -> tuple:
    """Give an order; return status, and the order under way."""
    found = JobOrders(office.database, office.connection).give(id_, action, now)
    assert found.id == id_
    assert found == api_job_standing(office.connection, id_)
    return found.status, found.requested


def refused(office: Office, id_: str, action: JobAction) -> JobError:
    with pytest.raises(JobError) as caught:
        order(office, id_, action)
    return caught.value


def claimed(office: Office, now: int = NOW) -> str:
    """Let this server start the next run; its process is the test."""
    id_ = claim_run(office.database, office.connection, now)
    assert id_ is not None
    return id_


def opened(office: Office, id_: str, now: int = NOW, *, resume: bool = False) -> int:
    """Open the run as its crawl does, and record that; a crawl withdraws a pause before."""
    run = office.clock.get(id_)
    if resume:
        office.connection.execute("UPDATE run SET requested = NULL WHERE requested = 'pause'")
    no = open_run_row(
        office.connection, RunRequest(run.name, "site", job_run=id_, resume=resume), now
    ).no
    office.clock.began(id_, no, now)
    return no


def running(office: Office, *, cron: str | None = None) -> tuple[str, str, int]:
    """A running job; return its id, that of its run, and run.no."""
    job = office.create(cron=cron)
    now = NOW if cron is None else job.due_at
    office.clock.fire(now)
    id_ = claimed(office, now)
    return job.id, id_, opened(office, id_, now)


def obeyed(office: Office, run: int, now: int = NOW) -> None:
    """Let the crawl carry out its order."""
    interrupt_run_row(office.connection, run, now, ["paused"])
    if run_order_row(office.connection, run) is RunOrder.CANCEL:
        order_run_row(office.connection, run, RunOrder.CANCEL, now)


def paused(office: Office, *, cron: str | None = None) -> tuple[str, str, int]:
    job, id_, run = running(office, cron=cron)
    order(office, job, PAUSE)
    obeyed(office, run)
    office.clock.ended(id_, 3, NOW + 5)
    assert office.store.get(job).status is JobStatus.PAUSED
    return job, id_, run


def run_of(office: Office, run: int) -> tuple:
    return office.rows("SELECT state, requested FROM run WHERE no = ?", run)[0]


def stage(office: Office, id_: str) -> RunStage:
    return office.clock.get(id_).stage


@pytest.mark.long(but=7)
@pytest.mark.parametrize(("state", "resume"), list(product(RunState, [True, False])))
def test_only_a_run_that_was_swept_leaves_nothing_to_a_process_that_goes_on_with_it(
    office: Office, state: RunState, resume: bool
):
    _, id_, run = running(office)
    office.connection.execute("UPDATE run SET state = ? WHERE no = ?", (state, run))
    asked = RunRequest("docs", "site", job_run=id_, resume=resume)

    again = open_run_row(office.connection, asked, NOW)

    assert again.over is (resume and state is RunState.SWEPT)
    assert (again.no == run) is (resume and (state is RunState.SWEPT or state in RESUMABLE))


@pytest.mark.covers("E-06", "R2-32")
@pytest.mark.parametrize("status", JobStatus)
@pytest.mark.parametrize("action", JobAction)
def test_a_state_that_takes_no_order_names_what_is_possible(
    office: Office, status: JobStatus, action: JobAction
):
    job = office.create(cron=DAILY)
    office.connection.execute("UPDATE job SET status = ?", (str(status),))
    possible = {
        JobStatus.CREATED: "cancelled",
        JobStatus.SCHEDULED: "paused or cancelled",
        JobStatus.RUNNING: "paused or cancelled",
        JobStatus.PAUSED: "resumed or cancelled",
    }.get(status)
    words = {PAUSE: "paused", RESUME: "resumed", CANCEL: "cancelled", JobAction.START: "started"}
    if possible is not None and words[action] in possible.split(" or "):
        order(office, job.id, action)
        return
    error = refused(office, job.id, action)
    assert (error.code, error.field) == ("CONFLICT", "status")
    ends = ", which is final" if possible is None else f": it can be {possible}"
    assert error.reason == f"the job is {status}{ends}"
    assert office.store.get(job.id).status is status


@pytest.mark.covers("E-06", "R2-27")
@pytest.mark.parametrize("action", JobAction)
def test_an_unknown_job_is_not_found(office: Office, action: JobAction):
    deleted = office.create()
    office.clock.fire(NOW)
    ((run,),) = office.rows("SELECT id FROM job_run")
    office.store.delete(deleted.id, NOW)
    for id_ in ("job_unknown", "jb_unknown", deleted.id, run):
        assert refused(office, id_, action).code == "NOT_FOUND"


@pytest.mark.covers("R2-32")
def test_a_scheduled_job_is_paused_at_once_and_its_missed_times_are_one(office: Office):
    job = office.create(cron="0 * * * *")

    assert order(office, job.id, PAUSE) == (JobStatus.PAUSED, None)
    assert office.clock.fire(NOW + 5 * HOUR) == []
    assert order(office, job.id, RESUME) == (JobStatus.SCHEDULED, None)
    assert [run.due_at for run in office.clock.fire(NOW + 5 * HOUR)] == [NOW + HOUR]


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize("cron", [None, DAILY])
def test_a_job_without_a_run_is_cancelled_for_good(office: Office, cron: str | None):
    job = office.create(cron=cron)

    assert order(office, job.id, CANCEL) == (JobStatus.CANCELLED, None)
    assert office.clock.fire(NOW + 99 * HOUR) == []
    after = office.store.get(job.id)
    assert (after.due_at, after.complete, after.reasons) == (None, None, ("cancelled",))
    for action in JobAction:
        assert refused(office, job.id, action).reason == "the job is cancelled, which is final"
    office.store.replace(job.id, defined(cron="0 * * * *"), (), NOW)
    assert office.clock.fire(NOW + 99 * HOUR) == []


def test_a_run_that_waits_for_a_place_is_paused_and_waits_again(office: Office):
    job = office.create(cron=DAILY)
    now = job.due_at
    (run,) = office.clock.fire(now)

    assert order(office, job.id, PAUSE, now) == (JobStatus.PAUSED, None)
    assert stage(office, run.id) is RunStage.PAUSED
    assert claim_run(office.database, office.connection, now) is None
    assert order(office, job.id, RESUME, now) == (JobStatus.SCHEDULED, None)
    assert claimed(office, now) == run.id
    opened(office, run.id, now)
    assert office.store.get(job.id).status is JobStatus.RUNNING


@pytest.mark.parametrize("cron", [None, DAILY])
def test_a_run_that_waits_for_a_place_is_cancelled(office: Office, cron: str | None):
    job = office.create(cron=cron)
    now = job.due_at
    (run,) = office.clock.fire(now)

    assert order(office, run.id, CANCEL, now) == (RunStage.CANCELLED, None)
    assert office.store.get(job.id).status is JobStatus.CANCELLED
    assert claim_run(office.database, office.connection, now) is None


@pytest.mark.covers("E-06", "R2-32", "M-39")
@pytest.mark.parametrize("of_run", [False, True])
def test_a_running_job_is_paused_and_goes_on_under_its_id(office: Office, of_run: bool):
    job, id_, run = running(office, cron=DAILY)
    asked = id_ if of_run else job
    state = RunStage if of_run else JobStatus

    assert order(office, asked, PAUSE) == (state.RUNNING, PAUSE)
    assert order(office, asked, PAUSE) == (state.RUNNING, PAUSE)  # once more
    assert run_of(office, run) == (RunState.OPEN, "pause")
    obeyed(office, run)
    office.clock.ended(id_, 3, NOW + 9, ["paused"])
    after = office.store.get(job)
    assert (after.status, after.complete, after.reasons) == (JobStatus.PAUSED, None, ("paused",))
    assert stage(office, id_) is RunStage.PAUSED
    assert office.clock.fire(NOW + 99 * HOUR) == []
    assert CrawlRuns(office.database, office.connection).begun() == []  # it takes no place

    assert order(office, asked, RESUME)[1] is RESUME
    assert order(office, asked, RESUME)[1] is RESUME
    assert office.store.get(job).status is JobStatus.PAUSED
    assert claimed(office) == id_
    begun = CrawlRuns(office.database, office.connection).begun()[0]
    assert begun.started.starts - begun.started.starts_before == 1
    assert not begun.has_opened
    assert opened(office, id_, NOW + 60, resume=True) == run
    assert api_job_standing(office.connection, asked).requested is None
    assert order(office, asked, PAUSE) == (state.RUNNING, PAUSE)
    began = office.store.get(job)
    assert (began.started_at, began.status) == (after.started_at, JobStatus.RUNNING)


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize("exit_status", [0, 3, 4, 1, None])
@pytest.mark.parametrize("action", [PAUSE, CANCEL])
def test_the_state_of_the_run_decides_not_the_exit(
    office: Office, action: JobAction, exit_status: int | None
):
    job, id_, run = running(office, cron=DAILY)
    order(office, job, action)
    obeyed(office, run)
    office.clock.ended(id_, exit_status, NOW + 9, ["something else"])

    word = {PAUSE: "paused", CANCEL: "cancelled"}[action]
    after = office.store.get(job)
    assert (after.status, after.reasons) == (JobStatus(word), (word,))
    found = office.clock.get(id_)
    assert (found.stage, found.reasons, found.requested) == (RunStage(word), (word,), None)
    if action is CANCEL:
        assert (after.complete, after.completed_at, after.due_at) == (False, NOW + 9, None)
        assert office.clock.fire(NOW + 99 * HOUR) == []


@pytest.mark.parametrize("action", [PAUSE, CANCEL])
@pytest.mark.parametrize("state", [RunState.OPEN, RunState.VERIFYING])
def test_the_run_of_a_process_that_died_is_closed_as_ordered(
    office: Office, action: JobAction, state: RunState
):
    job, id_, run = running(office)
    office.connection.execute("UPDATE run SET state = ? WHERE no = ?", (state, run))
    order(office, job, action)
    office.clock.ended(id_, None, NOW + 9, ["its process was ended by SIGKILL"])

    closed = {PAUSE: RunState.INTERRUPTED, CANCEL: RunState.CANCELLED}[action]
    assert run_of(office, run) == (closed, str(action))
    assert office.rows("SELECT finished_at FROM run") == [(NOW + 9,)]


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize("cron", [None, DAILY])
@pytest.mark.parametrize("action", [PAUSE, CANCEL])
def test_an_order_during_settle_and_sweep_lets_the_run_end(
    office: Office, action: JobAction, cron: str | None
):
    job, id_, run = running(office, cron=cron)
    seal_run_row(office.connection, run, (), NOW)
    assert order(office, job, action) == (JobStatus.RUNNING, action)
    assert run_of(office, run) == (RunState.SEALED, None)
    office.connection.execute("UPDATE run SET state = ?", (RunState.SWEPT,))
    office.clock.ended(id_, 0, NOW + 9)

    after = office.store.get(job)
    assert (after.complete, stage(office, id_)) == (True, RunStage.ENDED)
    word = JobStatus.COMPLETED
    if cron is not None:
        word = {PAUSE: JobStatus.PAUSED, CANCEL: JobStatus.CANCELLED}[action]
    assert after.status is word
    assert (after.due_at is None) is (word is not JobStatus.PAUSED)
    assert office.clock.fire(NOW + 99 * HOUR) == []
    if after.status is JobStatus.PAUSED:
        assert order(office, job, RESUME) == (JobStatus.SCHEDULED, None)
        assert len(office.clock.fire(NOW + 99 * HOUR)) == 1


@pytest.mark.parametrize("action", [PAUSE, CANCEL])
def test_an_order_before_the_run_is_open_is_passed_on_as_it_opens(
    office: Office, action: JobAction
):
    job = office.create(cron=DAILY)
    office.clock.fire(job.due_at)
    id_ = claimed(office)

    assert order(office, job.id, action) == (JobStatus.SCHEDULED, action)
    run = opened(office, id_)
    assert run_of(office, run) == (RunState.OPEN, str(action))
    assert api_job_standing(office.connection, job.id).requested is action


@pytest.mark.parametrize(("action", "word"), [(PAUSE, "paused"), (CANCEL, "cancelled")])
def test_an_order_before_the_run_is_open_counts_if_it_never_opens(
    office: Office, action: JobAction, word: str
):
    job = office.create(cron=DAILY)
    office.clock.fire(job.due_at)
    id_ = claimed(office)
    order(office, job.id, action)
    office.clock.ended(id_, 1, NOW)

    after = office.store.get(job.id)
    assert (after.status, after.complete, after.started_at) == (JobStatus(word), None, None)
    if action is PAUSE:
        assert order(office, job.id, RESUME) == (JobStatus.SCHEDULED, None)
        assert claimed(office) == id_


def test_a_run_that_opens_and_pauses_at_once_has_begun(office: Office):
    """No server has looked in between."""
    job = office.create()
    office.clock.fire(NOW)
    id_ = claimed(office)
    run = open_run_row(office.connection, RunRequest("docs", "site", job_run=id_), NOW).no
    office.connection.execute("UPDATE job SET status = 'scheduled'")
    order(office, job.id, PAUSE)
    obeyed(office, run)
    office.clock.ended(id_, 3, NOW + 7)

    after = office.store.get(job.id)
    assert (after.status, after.started_at) == (JobStatus.PAUSED, NOW + 7)


@pytest.mark.covers("R2-32")
def test_a_paused_run_is_cancelled_at_once(office: Office):
    job, id_, run = paused(office, cron=DAILY)

    assert order(office, job, CANCEL, NOW + 60) == (JobStatus.CANCELLED, None)
    assert run_of(office, run) == (RunState.CANCELLED, "cancel")
    assert stage(office, id_) is RunStage.CANCELLED
    after = office.store.get(job)
    assert (after.complete, after.completed_at) == (False, NOW + 60)


def test_a_resume_that_has_not_begun_is_taken_back(office: Office):
    job, id_, run = paused(office)
    order(office, job, RESUME)

    assert order(office, job, PAUSE) == (JobStatus.PAUSED, None)
    assert stage(office, id_) is RunStage.PAUSED
    assert claim_run(office.database, office.connection, NOW) is None
    order(office, job, RESUME)
    assert order(office, job, CANCEL) == (JobStatus.CANCELLED, None)
    assert run_of(office, run) == (RunState.CANCELLED, "cancel")


@pytest.mark.parametrize("action", [PAUSE, CANCEL])
def test_an_order_while_the_resumed_process_starts_reaches_its_run(
    office: Office, action: JobAction
):
    job, id_, run = paused(office)
    order(office, job, RESUME)
    assert claimed(office) == id_

    assert order(office, job, action) == (JobStatus.PAUSED, action)
    assert run_of(office, run) == (RunState.INTERRUPTED, "pause")
    assert not JobOrders(office.database, office.connection).is_obeyed(job)  # it starts
    office.clock.obeyed(id_, NOW)
    assert stage(office, id_) is RunStage.WAITING
    assert opened(office, id_, resume=True) == run
    assert run_of(office, run) == (RunState.OPEN, str(action))
    assert api_job_standing(office.connection, job).status is JobStatus.RUNNING
    obeyed(office, run)
    office.clock.ended(id_, 3, NOW)
    assert office.store.get(job).status is JobStatus({PAUSE: "paused", CANCEL: "cancelled"}[action])


@pytest.mark.parametrize(
    ("exit_status", "status"), [(0, JobStatus.COMPLETED), (1, JobStatus.FAILED)]
)
def test_a_resumed_run_that_was_not_seen_open_ends_as_any_other(
    office: Office, exit_status: int, status: JobStatus
):
    job, id_, run = paused(office)
    order(office, job, RESUME)
    claimed(office)
    if exit_status == 0:
        office.connection.execute("UPDATE run SET state = 4, requested = NULL WHERE no = ?", (run,))
    office.clock.ended(id_, exit_status, NOW)

    assert office.store.get(job).status is status
    assert stage(office, id_) is RunStage.ENDED


def test_what_is_being_cancelled_takes_no_other_order(office: Office):
    job, _, run = running(office)
    assert order(office, job, PAUSE)[1] is PAUSE
    assert "is being paused" in refused(office, job, RESUME).reason
    assert order(office, job, CANCEL) == (JobStatus.RUNNING, CANCEL)
    assert run_of(office, run)[1] == "cancel"
    for action in (PAUSE, RESUME):
        assert "is being cancelled" in refused(office, job, action).reason
    assert order(office, job, CANCEL) == (JobStatus.RUNNING, CANCEL)


@pytest.mark.covers("M-39")
def test_a_run_that_is_over_takes_no_order(office: Office):
    job, id_, _ = running(office, cron=DAILY)
    office.clock.ended(id_, 0, NOW)

    error = refused(office, id_, PAUSE)
    assert error.reason == "the run is ended, which is final: give the order to its job"
    assert order(office, job, PAUSE) == (JobStatus.PAUSED, None)


def test_a_run_that_obeyed_is_recorded_before_its_process_ends(office: Office):
    job, id_, run = running(office)
    lease = office.database.take("docs", "today")
    orders = JobOrders(office.database, office.connection)
    order(office, job, PAUSE)
    assert not orders.is_obeyed(job)
    obeyed(office, run)
    assert not orders.is_obeyed(job)  # its source is not free yet
    orders.settle(job, NOW)
    assert stage(office, id_) is RunStage.RUNNING
    lease.release()
    for _ in range(2):
        orders.settle(id_, NOW + 1)

    assert stage(office, id_) is RunStage.PAUSED
    assert office.store.get(job).status is JobStatus.PAUSED
    office.clock.ended(id_, 3, NOW + 2)  # the process itself, later
    assert office.store.get(job).status is JobStatus.PAUSED


def test_a_run_that_goes_on_is_not_taken_for_one_that_obeyed(office: Office):
    """A second server looked before the run was resumed, and records it after."""
    job, id_, _ = paused(office)
    order(office, job, RESUME)
    office.clock.obeyed(id_, NOW)
    assert api_job_standing(office.connection, job).requested is RESUME
    claimed(office)
    opened(office, id_, resume=True)
    order(office, job, PAUSE)
    office.clock.obeyed(id_, NOW)
    assert stage(office, id_) is RunStage.RUNNING


def test_an_interruption_without_an_order_is_none(office: Office):
    job, id_, run = running(office)
    interrupt_run_row(office.connection, run, NOW, ["interrupted"])
    assert not JobOrders(office.database, office.connection).is_obeyed(job)
    office.clock.obeyed(id_, NOW)
    assert stage(office, id_) is RunStage.RUNNING
    office.clock.ended(id_, 3, NOW, ["interrupted"])
    assert office.store.get(job).status is JobStatus.COMPLETED


def test_of_many_servers_that_order_and_start_a_run_one_is_first(office: Office):
    """Either the run was paused before a server claimed it, or its process gets the order."""
    for place in range(12):
        office.create(f"docs-{place}", cron=DAILY)
    jobs = office.store.page()[0]
    office.clock.fire(jobs[0].due_at)
    starting = office.connect()
    ordering = JobOrders(office.database, office.connect())

    def claim_all() -> set[str]:
        return {id_ for _ in jobs if (id_ := claim_run(office.database, starting, NOW)) is not None}

    with ThreadPoolExecutor(2) as pool:
        claims = pool.submit(claim_all)
        for job in jobs:
            ordering.give(job.id, PAUSE, NOW)
        begun = claims.result()

    rows = office.rows(
        "SELECT k.id, state, requested, server IS NULL FROM job_run k"
        " LEFT JOIN process p ON p.id = k.id"
    )
    for id_, state, requested, is_free in rows:
        if id_ in begun:
            assert (state, requested, bool(is_free)) == ("waiting", "pause", False)
        else:
            assert (state, requested, bool(is_free)) == ("paused", None, True)

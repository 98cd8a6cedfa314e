"""Due times of jobs, and the runs that they give."""

import json
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from smartcrawl.registry.runs.runs import RunRequest, open_run_row
from smartcrawl.rules.run_orders import JobAction, JobStatus
from smartcrawl.server.jobs import clock as clock_module
from smartcrawl.server.jobs.clock import JobClock, free_job_due_time
from smartcrawl.server.jobs.orders import JobOrders
from smartcrawl.server.jobs.store import JobRun, RunStage
from smartcrawl.sources.jobs import JobError
from tests.server.jobs.conftest import NOW, Office, defined

HOUR = 3_600
DAY = 24 * HOUR


def begin(office: Office, run: JobRun, now: int = NOW) -> None:
    no = open_run_row(office.connection, RunRequest(run.name, "site"), now).no
    office.clock.began(run.id, no, now)


def test_a_job_that_runs_once_is_fired_once(office: Office):
    job = office.create()
    (run,) = office.clock.fire(NOW)

    assert run.id.startswith("jb_")
    assert (run.job, run.name, run.due_at, run.stage) == (job.id, "docs", NOW, RunStage.WAITING)
    assert office.clock.fire(NOW + DAY) == []
    assert office.clock.waiting() == [run]


@pytest.mark.covers("R2-32", "G-13")
def test_a_recurring_job_waits_for_its_next_time_after_each_run(office: Office):
    job = office.create(cron="0 0 * * *")
    midnight = NOW + 14 * HOUR
    assert office.clock.fire(midnight - 1) == []
    (run,) = office.clock.fire(midnight)
    assert office.store.get(job.id).status is JobStatus.SCHEDULED

    begin(office, run, midnight + 2)
    assert office.store.get(job.id).status is JobStatus.RUNNING
    office.clock.ended(run.id, 0, midnight + 900)
    after = office.store.get(job.id)
    assert (after.status, after.complete, after.next_run) == (
        JobStatus.SCHEDULED,
        True,
        midnight + DAY,
    )
    assert (after.started_at, after.completed_at) == (midnight + 2, midnight + 900)


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize(
    ("exit_status", "status", "complete", "reasons"),
    [
        (0, JobStatus.COMPLETED, True, ()),
        (3, JobStatus.COMPLETED, False, ("max_pages",)),
        (1, JobStatus.FAILED, None, ("max_pages",)),
        (None, JobStatus.FAILED, None, ("max_pages",)),
    ],
)
@pytest.mark.parametrize("open_run", [True, False])
def test_the_exit_of_a_crawl_is_the_state_of_its_job(
    office: Office, exit_status, status, complete, reasons, open_run
):
    job = office.create()
    (run,) = office.clock.fire(NOW)
    if open_run:
        begin(office, run)
    office.clock.ended(run.id, exit_status, NOW + 60, ["max_pages"])
    office.clock.ended(run.id, 0 if exit_status else 1, NOW + 99)  # reported by a second server

    after = office.store.get(job.id)
    assert (after.status, after.complete, after.reasons) == (status, complete, reasons)
    assert after.completed_at == NOW + 60
    assert office.clock.get(run.id).stage is RunStage.ENDED


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize("cron", [None, "0 * * * *"])
def test_a_job_whose_run_fetched_nothing_failed_with_the_reason(office: Office, cron: str | None):
    job = office.create(cron=cron)
    now = NOW + HOUR
    (run,) = office.clock.fire(now)
    begin(office, run, now)
    office.connection.execute(
        "UPDATE run SET visits = 1, words = '{\"lost\": 1}', reasons = '[\"unreachable: 1 of 1\"]'"
    )
    office.clock.ended(run.id, 3, now + 60, ["unreachable: 1 of 1"])

    after = office.store.get(job.id)
    assert after.status is (JobStatus.SCHEDULED if cron else JobStatus.FAILED)
    assert (after.complete, after.reasons) == (False, ("unreachable: 1 of 1",))


@pytest.mark.parametrize("failed", [1, 2])
def test_a_job_failed_whose_seeds_all_did(office: Office, failed: int):
    job = office.create()
    (run,) = office.clock.fire(NOW)
    begin(office, run)
    seeds = [f"http://{name}.example/" for name in "ab"]
    for no, url in enumerate(seeds, 1):
        office.connection.execute(
            "INSERT INTO record (no, id, source, url, host, first_run, first_seen)"
            " VALUES (?, ?, 1, ?, 1, 1, 1)",
            (no, url.encode(), url),
        )
        office.connection.execute("INSERT INTO seed (run, no) VALUES (1, ?)", (no,))
    reasons = [f"seed_failed: {url} (404)" for url in seeds[:failed]]
    office.connection.execute(
        "UPDATE run SET visits = 9, words = '{\"unchanged\": 9}', reasons = ?",
        (json.dumps(reasons),),
    )
    office.clock.ended(run.id, 3, NOW + 60, reasons)

    after = office.store.get(job.id)
    assert after.status is (JobStatus.FAILED if failed == 2 else JobStatus.COMPLETED)
    assert after.reasons == tuple(reasons)


def test_a_busy_source_leaves_its_job_as_it_was(office: Office):
    job = office.create()
    (run,) = office.clock.fire(NOW)
    office.clock.ended(run.id, 4, NOW + 1, ["docs is being crawled"])

    after = office.store.get(job.id)
    assert (after.status, after.reasons) == (JobStatus.CREATED, ("docs is being crawled",))
    assert office.clock.get(run.id).stage is RunStage.SKIPPED
    assert office.clock.fire(NOW + 60) == []
    assert len(office.clock.fire(NOW + 61)) == 1


@pytest.mark.parametrize("how", ["lease", "running", "waiting"])
def test_a_time_at_which_the_source_is_crawled_is_skipped(office: Office, how: str):
    job = office.create(cron="0 * * * *")
    lease = office.database.take("docs", "today") if how == "lease" else None
    if how != "lease":
        (before,) = office.clock.fire(NOW + HOUR)
        if how == "running":
            begin(office, before)
    now = NOW + 2 * HOUR
    (run,) = office.clock.fire(now)

    assert run.stage is RunStage.SKIPPED
    assert run.reasons == ("its source was being crawled",)
    assert office.clock.get(run.id) == run
    assert run not in office.clock.waiting()
    assert office.store.get(job.id).next_run == now + HOUR
    if lease:
        lease.release()
        assert office.clock.fire(now + HOUR)[0].stage is RunStage.WAITING


def test_a_job_that_runs_once_waits_for_its_source(office: Office):
    office.create()
    lease = office.database.take("docs", "today")
    assert office.clock.fire(NOW) == []
    lease.release()

    assert [run.stage for run in office.clock.fire(NOW + 1)] == [RunStage.WAITING]


def test_times_that_were_missed_are_one_run(office: Office):
    job = office.create(cron="0 * * * *")
    (run,) = office.clock.fire(NOW + 3 * DAY + 60)

    assert run.due_at == NOW + HOUR
    assert office.store.get(job.id).next_run == NOW + 3 * DAY + HOUR
    assert office.clock.fire(NOW + 3 * DAY + 61) == []


def test_neither_a_paused_nor_a_cancelled_job_is_due(office: Office):
    office.create(cron="0 * * * *")
    for status in (JobStatus.PAUSED, JobStatus.CANCELLED):
        office.connection.execute("UPDATE job SET status = ?", (str(status),))
        assert office.clock.fire(NOW + DAY) == []
    office.connection.execute("UPDATE job SET status = 'scheduled'")
    assert len(office.clock.fire(NOW + DAY)) == 1


def test_an_order_decides_over_the_run_that_waits(office: Office):
    job = office.create()
    (run,) = office.clock.fire(NOW)
    office.connection.execute("UPDATE job SET status = 'cancelled'")

    with pytest.raises(JobError, match="the job is cancelled") as caught:
        begin(office, run)
    assert caught.value.field == "status"
    office.clock.ended(run.id, 0, NOW)
    assert office.store.get(job.id).status is JobStatus.CANCELLED


def test_an_unknown_run_is_an_error_of_its_own(office: Office):
    for work in (
        lambda: office.clock.get("jb_unknown"),
        lambda: office.clock.began("jb_unknown", 1, NOW),
        lambda: office.clock.ended("jb_unknown", 0, NOW),
    ):
        with pytest.raises(JobError) as caught:
            work()
        assert caught.value.code == "NOT_FOUND"


def test_a_clock_put_back_fires_no_time_again(office: Office):
    job = office.create(cron="0 * * * *")
    (run,) = office.clock.fire(NOW + 5 * HOUR)
    office.clock.ended(run.id, 0, NOW + 5 * HOUR)
    assert office.clock.fire(NOW + 2 * HOUR) == []

    office.store.replace(job.id, defined(cron="0 * * * *"), (), NOW)  # due at the same time again
    assert office.store.get(job.id).next_run == NOW + HOUR == run.due_at
    assert office.clock.fire(NOW + HOUR) == []
    assert office.store.get(job.id).next_run == NOW + 2 * HOUR
    assert len(office.clock.fire(NOW + 2 * HOUR)) == 1


@pytest.mark.covers("R2-32", "G-13")
@pytest.mark.parametrize("who", ["the same server", "another one", "one that begins"])
def test_a_recurring_job_goes_on_after_a_clock_that_leapt_a_year_ahead(office: Office, who: str):
    job = office.create(cron="0 * * * *")
    others = office.other_clock()
    assert others.fire(NOW) == []
    (run,) = office.clock.fire(NOW + 365 * DAY)
    office.clock.ended(run.id, 0, NOW + 365 * DAY)
    (late,) = office.clock.fire(NOW + 365 * DAY + HOUR)
    office.clock.ended(late.id, 0, NOW + 365 * DAY)
    begins = office.other_clock()
    clock = {"the same server": office.clock, "another one": others}.get(who, begins)

    assert clock.fire(NOW + 60) == []

    assert run.due_at == NOW + HOUR  # which was fired early
    assert office.store.get(job.id).next_run == NOW + 2 * HOUR
    assert clock.fire(NOW + 2 * HOUR - 1) == []
    assert [run.due_at for run in clock.fire(NOW + 2 * HOUR)] == [NOW + 2 * HOUR]


def test_the_clocks_of_two_servers_may_differ_by_a_day(office: Office):
    job = office.create(cron="0 * * * *", now=NOW + DAY)
    late = office.other_clock()
    for now, due_at in ((NOW, NOW + DAY + HOUR), (NOW - HOUR, NOW)):
        assert late.fire(now) == []
        assert office.store.get(job.id).next_run == due_at


def test_a_resumed_job_does_not_wait_for_the_time_of_a_wrong_clock(office: Office):
    job = office.create(cron="0 * * * *", now=NOW + 365 * DAY)
    office.connection.execute("UPDATE job SET status = 'paused'")
    assert office.clock.fire(NOW) == []
    assert office.store.get(job.id).next_run == NOW + 365 * DAY + HOUR
    office.connection.execute("UPDATE job SET status = 'scheduled'")
    assert office.clock.fire(NOW + 1) == []
    assert office.store.get(job.id).next_run == NOW + HOUR


def test_a_job_that_runs_once_was_created_by_a_wrong_clock(office: Office):
    office.create(now=NOW + 61)
    office.create("more", now=NOW + 60)

    assert [(run.name, run.due_at) for run in office.clock.fire(NOW)] == [("docs", NOW)]
    assert [run.name for run in office.clock.fire(NOW + 60)] == ["more"]


def test_a_time_that_is_right_is_looked_at_once(office: Office, monkeypatch: pytest.MonkeyPatch):
    """A look costs little, as there is one every half second."""
    looks: list[int] = []

    def counted(connection, job, cron, now):
        looks.append(now)
        return free_job_due_time(connection, job, cron, now)

    monkeypatch.setattr(clock_module, "free_job_due_time", counted)
    office.create(cron="0 * * * *")
    for now in (NOW, NOW + 1, NOW + 60):
        office.clock.fire(now)
    assert looks == [NOW]
    office.clock.fire(NOW + 59)  # the clock was put back
    assert looks == [NOW, NOW + 59]


def test_of_many_servers_that_fire_one_time_one_does(office: Office):
    clocks = [office.other_clock() for _ in range(6)]
    names = [f"docs-{n}" for n in range(10)]
    for name in names:
        office.create(name)

    with ThreadPoolExecutor(len(clocks)) as pool:
        fired = [run for runs in pool.map(lambda clock: clock.fire(NOW), clocks) for run in runs]

    assert sorted(run.name for run in fired) == names
    assert office.rows("SELECT count(*) FROM job_run") == [(10,)]


@pytest.mark.long
def test_two_schedulers_fire_each_time_of_a_month_once(office: Office):
    """They tick at their own times; each clock is put back now and then, and each restarts."""
    places = random.Random(23)
    job = office.create(cron="15 */4 * * *")
    month = 30 * DAY
    clocks: list[JobClock] = [office.other_clock(), office.other_clock()]
    fired: list[JobRun] = []
    for tick in range(0, month, 2 * HOUR):
        for place in places.sample([0, 1], 2):
            if places.random() < 0.005:
                clocks[place] = office.other_clock()
            back = places.choice([0, 0, 0, 0, 600, 2 * HOUR]) if place else 0
            for run in clocks[place].fire(NOW + tick + places.randrange(2 * HOUR) - back):
                fired.append(run)
                clocks[1 - place].ended(run.id, 0, NOW + tick)
    first = NOW + 2 * HOUR + 900  # 12:15

    assert [run.due_at for run in fired] == list(range(first, NOW + month, 4 * HOUR))
    assert all(run.stage is RunStage.WAITING for run in fired)
    assert office.rows("SELECT count(*) FROM job_run") == [(len(fired),)]
    assert office.store.get(job.id).status is JobStatus.SCHEDULED


@pytest.mark.parametrize("change", ["replaced", "deleted", "fired"])
def test_a_job_that_changes_while_a_server_fires_is_not_fired_for_its_old_time(
    office: Office, change: str, monkeypatch: pytest.MonkeyPatch
):
    """The change happens after the server read which jobs are due."""
    job = office.create(cron="0 * * * *")
    now = NOW + HOUR
    other = office.other_clock()
    is_held = office.database.is_held

    def meanwhile(source: str) -> bool:
        monkeypatch.setattr(office.database, "is_held", is_held)
        if change == "replaced":
            office.store.replace(job.id, defined(cron="30 * * * *"), (), now)
        elif change == "deleted":
            office.store.delete(job.id, now)
        else:
            office.clock.fire(now)
        return is_held(source)

    monkeypatch.setattr(office.database, "is_held", meanwhile)
    assert other.fire(now) == []
    due = {"replaced": now + HOUR // 2, "deleted": None, "fired": now + HOUR}[change]
    assert office.rows("SELECT due_at FROM job") == [(due,)]
    assert office.rows("SELECT count(*) FROM job_run") == [(change == "fired",)]


@pytest.mark.covers("R2-29")
@pytest.mark.parametrize("exit_status", [0, 1])
@pytest.mark.parametrize("later", [0, 10])
def test_a_job_that_is_to_run_once_more_runs_after_its_open_run(
    office: Office, exit_status: int, later: int
):
    job = office.create(cron="0 0 * * *")
    midnight = NOW + 14 * HOUR
    (run,) = office.clock.fire(midnight)
    if later:
        begin(office, run, midnight)
    office.store.replace(job.id, defined(), (), midnight + later)
    assert office.clock.fire(midnight + later + 1) == []

    office.clock.ended(run.id, exit_status, midnight + 100)
    (once,) = office.clock.fire(midnight + 101)
    office.clock.ended(once.id, 0, midnight + 200)

    assert office.store.get(job.id).status is JobStatus.COMPLETED
    assert office.clock.fire(midnight + DAY) == []


def test_a_job_that_a_wrong_clock_fired_starts_at_once(office: Office):
    job = office.create()
    (run,) = office.clock.fire(NOW + 365 * DAY)
    office.connection.execute("UPDATE job_run SET due_at = ?", (NOW + 365 * DAY,))
    begin(office, run)
    office.clock.ended(run.id, 0, NOW + 60)

    JobOrders(office.database, office.connection).give(job.id, JobAction.START, NOW + 99)

    assert [run.due_at for run in office.clock.fire(NOW + 99)] == [NOW + 99]

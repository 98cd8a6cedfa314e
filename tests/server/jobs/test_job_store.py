"""Jobs in the registry: created, read, replaced, deleted."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from smartcrawl.registry.runs.runs import RunRequest, open_run_row
from smartcrawl.rules.run_orders import JobStatus
from smartcrawl.server.jobs.store import RunStage
from smartcrawl.sources.jobs import JobError
from tests.registry.build import with_iso_times
from tests.server.jobs.conftest import NOW, Office, defined
from tests.sources.test_job_definition import EXAMPLE

DAY = 86_400  #: seconds


def refused(work, *values, **names) -> JobError:
    with pytest.raises(JobError) as caught:
        work(*values, **names)
    return caught.value


def crawl(office: Office, name: str) -> int:
    """Open a run of a source, which registers it; return run.no."""
    return open_run_row(office.connection, RunRequest(name, "site"), NOW).no


@pytest.mark.covers("R2-24")
def test_a_recurring_job_is_scheduled_for_its_next_time(office: Office):
    job = office.create("daily-news-crawl", cron="0 0 * * *")

    assert job.id.startswith("job_")
    assert (job.name, job.status, job.version) == ("daily-news-crawl", JobStatus.SCHEDULED, 1)
    assert (job.created_at, job.next_run) == (NOW, NOW + 14 * 3_600)
    assert office.store.get(job.id) == job


def test_a_job_without_schedule_is_created_and_due_at_once(office: Office):
    job = office.create()

    assert (job.status, job.next_run, job.due_at) == (JobStatus.CREATED, None, NOW)


@pytest.mark.covers("R2-12")
@pytest.mark.parametrize("kind", ["job", "declared", "crawled"])
def test_the_name_of_any_known_source_is_in_use(office: Office, kind: str):
    if kind == "job":
        office.create("daily-news-crawl")
    if kind == "crawled":
        crawl(office, "daily-news-crawl")
    declared = ["daily-news-crawl"] if kind == "declared" else []
    error = refused(office.store.create, defined("daily-news-crawl"), declared, NOW)

    assert (error.code, error.field) == ("CONFLICT", "name")
    assert error.message == "Crawl job with this name already exists"
    assert error.reason == "Job 'daily-news-crawl' already exists"
    assert office.store.page()[1] == (kind == "job")


@pytest.mark.covers("R2-12")
def test_of_many_servers_that_create_one_name_one_does(office: Office):
    stores = [office.other_store() for _ in range(6)]

    def create(store) -> str:
        try:
            return store.create(defined("docs"), (), NOW).id
        except JobError as error:
            return error.code

    with ThreadPoolExecutor(len(stores)) as pool:
        results = list(pool.map(create, stores))

    assert results.count("CONFLICT") == 5
    assert office.rows("SELECT count(*) FROM job") == [(1,)]


@pytest.mark.covers("R2-26")
def test_unknown_and_deleted_jobs_are_equal(office: Office):
    job = office.create()
    office.store.delete(job.id, NOW)
    unknown = refused(office.store.get, "job_unknown")
    deleted = refused(office.store.get, job.id)

    assert unknown.code == "NOT_FOUND"
    assert vars(deleted) == vars(unknown)
    for id_ in (job.id, "job_unknown"):
        assert refused(office.store.replace, id_, defined(), (), NOW).code == "NOT_FOUND"


@pytest.mark.covers("E-02")
def test_jobs_are_listed_in_the_order_of_their_creation(office: Office):
    jobs = [office.create(f"docs-{n}", cron="0 0 * * *" if n % 2 else None) for n in range(5)]
    office.store.delete(jobs[4].id, NOW)

    assert office.store.page() == (jobs[:4], 4)
    assert office.store.page(limit=2, offset=1) == (jobs[1:3], 4)
    assert office.store.page(status=JobStatus.SCHEDULED) == ([jobs[1], jobs[3]], 2)
    assert office.store.page(status=JobStatus.FAILED) == ([], 0)


@pytest.mark.covers("R2-29", "G-11")
def test_a_stale_version_is_refused_and_none_is_the_last_writer(office: Office):
    job = office.create()
    second = office.store.replace(job.id, defined(config={"max_depth": 2}), (), NOW, version=1)
    error = refused(office.store.replace, job.id, defined(), (), NOW, version=1)

    assert (second.version, second.definition.config.max_depth) == (2, 2)
    assert (error.code, error.field) == ("CONFLICT", "version")
    assert office.store.get(job.id) == second
    assert office.store.replace(job.id, defined(), (), NOW).version == 3


@pytest.mark.covers("R2-29")
def test_of_many_servers_that_replace_one_version_one_does(office: Office):
    job = office.create()
    stores = [office.other_store() for _ in range(6)]

    def replace(store) -> str:
        try:
            return str(store.replace(job.id, defined(), (), NOW, version=1).version)
        except JobError as error:
            return error.code

    with ThreadPoolExecutor(len(stores)) as pool:
        assert sorted(pool.map(replace, stores)) == ["2", *["CONFLICT"] * 5]
    assert office.store.get(job.id).version == 2


@pytest.mark.covers("R2-29")
def test_a_new_schedule_gives_a_new_time(office: Office):
    job = office.create(cron="0 0 * * *")
    hourly = office.store.replace(job.id, defined(cron="30 * * * *"), (), NOW)
    once = office.store.replace(job.id, defined(), (), NOW + 60)
    daily = office.store.replace(job.id, defined(cron="0 0 * * *"), (), NOW)

    assert (hourly.next_run, hourly.status) == (NOW + 1_800, JobStatus.SCHEDULED)
    assert (once.next_run, once.due_at, once.status) == (None, NOW + 61, JobStatus.SCHEDULED)
    assert daily.next_run == NOW + 14 * 3_600


@pytest.mark.covers("R2-29")
def test_a_job_is_renamed_only_before_its_source_has_pages(office: Office):
    other = office.create("other")
    job = office.create("first")
    assert refused(office.store.replace, job.id, defined("other"), (), NOW).field == "name"
    assert refused(office.store.replace, job.id, defined("toml"), ["toml"], NOW).field == "name"
    assert office.store.replace(job.id, defined("second"), (), NOW).name == "second"

    crawl(office, "second")
    error = refused(office.store.replace, job.id, defined("third"), (), NOW)
    assert (error.code, error.field) == ("CONFLICT", "name")
    assert office.store.replace(job.id, defined("second"), (), NOW).name == "second"
    assert office.store.get(other.id) == other


@pytest.mark.covers("R2-30", "G-12")
def test_a_deleted_job_keeps_its_row_and_its_pages(office: Office):
    job = office.create(cron="0 0 * * *")
    run = crawl(office, "docs")
    office.store.delete(job.id, NOW + 5)
    office.store.delete(job.id, NOW + 9)

    assert office.rows("SELECT deleted_at, due_at FROM job") == [(NOW + 5, None)]
    assert office.rows("SELECT no FROM run") == [(run,)]
    assert office.clock.fire(NOW + 9 * DAY) == []
    assert refused(office.store.delete, "job_unknown", NOW).code == "NOT_FOUND"
    assert office.store.create(defined(), (), NOW).id != job.id  # of the same pages


@pytest.mark.covers("R2-30", "G-12")
def test_a_running_job_is_not_deleted(office: Office):
    job = office.create()
    (run,) = office.clock.fire(NOW)
    lease = office.database.take("docs", "today")
    assert refused(office.store.delete, job.id, NOW).code == "CONFLICT"
    lease.release()

    office.clock.began(run.id, crawl(office, "docs"), NOW)
    error = refused(office.store.delete, job.id, NOW)
    assert (error.code, error.reason) == ("CONFLICT", "Job 'docs' is running: cancel it first")
    office.clock.ended(run.id, 0, NOW)
    office.store.delete(job.id, NOW)


def test_the_waiting_run_of_a_deleted_job_does_not_begin(office: Office):
    job = office.create()
    (run,) = office.clock.fire(NOW)
    office.store.delete(job.id, NOW)

    assert office.clock.waiting() == []
    assert office.clock.get(run.id).stage is RunStage.SKIPPED
    office.create()  # a name without pages is free again


@pytest.mark.covers("R2-58")
def test_crawl_jobs_has_the_columns_of_the_specification(office: Office):
    recurring = EXAMPLE["schedule"]
    job = office.create(
        "daily-news-crawl",
        cron=recurring["cron"],
        **{name: EXAMPLE[name] for name in ("seed_urls", "config", "filters")},
    )
    rows = office.connection.execute("SELECT * FROM crawl_jobs")
    columns = [column[0] for column in rows.get_description()]
    found = dict(zip(columns, *with_iso_times([rows.fetchone()]), strict=True))

    def read(value):
        return json.loads(value) if isinstance(value, str) else value

    assert read(found.pop("config")) == EXAMPLE["config"]
    assert read(found.pop("filters")) == EXAMPLE["filters"]
    assert read(found.pop("seed_urls")) == [f"{url}/" for url in EXAMPLE["seed_urls"]]
    assert found == {
        "job_id": job.id,
        "name": "daily-news-crawl",
        "schedule_type": "recurring",
        "cron_expression": "0 0 * * *",
        "status": "scheduled",
        "pages_crawled": 0,
        "pages_queued": 0,
        "pages_failed": 0,
        "bytes_downloaded": 0,
        "created_at": "2024-01-20T10:00:00Z",
        "started_at": None,
        "completed_at": None,
    }


@pytest.mark.covers("R2-58")
def test_crawl_jobs_counts_the_pages_of_the_last_run(office: Office):
    office.create()
    (due,) = office.clock.fire(NOW)
    run = crawl(office, "docs")
    office.clock.began(due.id, run, NOW + 60)
    office.connection.execute(
        "UPDATE run SET visits = 7, bytes_downloaded = 5000000000, queued = 1, words = ?"
        " WHERE no = ?",
        (json.dumps({"failed": 1, "lost": 1, "gone": 1, "new": 1}), run),
    )

    rows = office.rows(
        "SELECT status, pages_crawled, pages_queued, pages_failed, bytes_downloaded, started_at"
        " FROM crawl_jobs"
    )
    assert with_iso_times(rows) == [("running", 7, 1, 3, 5_000_000_000, "2024-01-20T10:01:00Z")]


@pytest.mark.covers("R2-59")
def test_the_table_takes_the_seven_states_alone(office: Office):
    office.create()
    for status in JobStatus:
        office.connection.execute("UPDATE job SET status = ?", (str(status),))
    with pytest.raises(Exception, match="valid_job_status"):
        office.connection.execute("UPDATE job SET status = 'done'")

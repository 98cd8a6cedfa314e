"""Jobs that another version stored with a definition that the rules of this one refuse."""

import json
import logging

import pytest

from smartcrawl.registry.jobs import load_stored_jobs_and_sources, stored_job_rows
from smartcrawl.rules.run_orders import JobStatus
from smartcrawl.server.jobs.store import Job
from tests.choices import options
from tests.server.jobs.conftest import NOW, Office, defined

DAY = 86_400
REFUSED = [
    {"seed_urls": ["ftp://old.example/"]},
    {"config": {"max_depth": 0}},
    {"config": {"colour": "red"}},
    {"filters": {"url_patterns": ["("]}},
    {"schedule": {"type": "recurring", "cron": "0 0 * * *", "zone": "UTC"}},
    {"schedule": []},
    {"later": True},
]


def stored(office: Office, name: str = "old", **parts: object) -> Job:
    """A job whose parts of the definition were written by another version."""
    job = office.create(name, cron="0 0 * * *")
    text = json.dumps(json.loads(office.rows("SELECT definition FROM job")[-1][0]) | parts)
    office.connection.execute("UPDATE job SET definition = ? WHERE id = ?", (text, job.id))
    return job


@pytest.mark.long(but=3)
@pytest.mark.covers("R2-25")
@pytest.mark.parametrize("parts", REFUSED)
def test_a_job_that_is_refused_today_is_listed_replaced_and_deleted(office: Office, parts: dict):
    job = stored(office, **parts)
    other = office.create("new")

    assert [found.id for found in office.store.page()[0]] == [job.id, other.id]
    assert office.store.get(job.id).name == "old"
    replaced = office.store.replace(job.id, defined("old", cron="0 1 * * *"), (), NOW)
    assert (replaced.version, replaced.next_run) == (2, NOW + 15 * 3_600)
    stored(office, "older", **parts)
    office.store.delete(office.store.page()[0][-1].id, NOW)
    assert office.store.page()[1] == 2


@pytest.mark.long(but=3)
@pytest.mark.covers("R2-23")
@pytest.mark.parametrize("parts", REFUSED)
def test_a_job_that_is_refused_today_keeps_no_other_one_from_its_time(office: Office, parts: dict):
    stored(office, **parts)
    office.create("new", cron="0 0 * * *")

    fired = office.clock.fire(NOW + DAY)

    assert [run.name for run in fired] == ["old", "new"]
    for run in fired:
        office.clock.ended(run.id, 1, NOW + DAY + 9, ["its process failed"])
    assert office.rows("SELECT DISTINCT state FROM job_run") == [("ended",)]


@pytest.mark.covers("R2-23")
@pytest.mark.parametrize("cron", ["0 0 30 2 *", "@weekly", 5])
def test_a_job_whose_schedule_has_no_next_time_fails_once_with_the_reason(
    office: Office, cron: object, caplog: pytest.LogCaptureFixture
):
    job = stored(office, schedule={"type": "recurring", "cron": cron})
    office.create("new", cron="0 0 * * *")

    with caplog.at_level(logging.ERROR):
        fired = [run.name for now in (NOW + DAY, NOW + DAY + 1) for run in office.clock.fire(now)]

    assert fired == ["new"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    after = office.store.get(job.id)
    assert (after.status, after.due_at, after.complete) == (JobStatus.FAILED, None, None)
    assert after.completed_at == NOW + DAY
    assert "cron must have five fields" in after.reasons[0]
    again = office.store.replace(job.id, defined("old", cron="0 1 * * *"), (), NOW)
    assert (again.status, again.next_run) == (JobStatus.SCHEDULED, NOW + 15 * 3_600)


@pytest.mark.long(but=3)
@pytest.mark.parametrize("parts", REFUSED)
def test_a_job_that_is_refused_today_keeps_no_other_source_from_its_crawl(
    office: Office, parts: dict, tmp_path, caplog: pytest.LogCaptureFixture
):
    stored(office, **parts)
    office.create("new")

    assert list(stored_job_rows(office.connection)) == ["new"]
    assert list(load_stored_jobs_and_sources(options(tmp_path), office.connection)) == ["new"]
    assert "job old is left out" in caplog.text

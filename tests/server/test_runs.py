"""Runs, sources and hosts over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.model.run_logs import run_log_file
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.model import Outcome
from smartcrawl.server.explained.answers import (
    Hosts,
    RunLogEnd,
    RunPages,
    Runs,
    RunSamples,
    RunStory,
    Sources,
)
from tests.registry.build import LATER, Desk
from tests.registry.build import closing as choices
from tests.server.api_client import application, ask, error_of
from tests.server.two_runs import BASE, GUIDE, HOME, NEW, OLD, two_runs


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Run 2 found a page new, one modified, and one lost, and was cut short."""
    desk = two_runs(tmp_path, "max_pages")
    yield desk
    desk.close()


def read(folder: Path, path: str, **query: Any) -> dict[str, Any]:
    app = application(folder, clock=lambda: float(LATER + 60))
    answer = ask(app, "GET", f"/api/v1/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_runs_are_listed_newest_first_with_their_total(desk: Desk, tmp_path: Path):
    found = read(tmp_path, "runs")
    rest = read(tmp_path, "runs", source="docs", limit=1, offset=1)

    Runs.model_validate(found)
    assert [run["run"] for run in found["runs"]] == [2, 1]
    assert [run["run"] for run in rest["runs"]] == [1]
    assert rest["pagination"] == {"total": 2, "offset": 1, "limit": 1}


def test_a_run_says_why_it_was_not_complete_and_what_helps(desk: Desk, tmp_path: Path):
    found = read(tmp_path, "runs/2")

    RunStory.model_validate(found)
    assert found["why"] == [
        {
            "reason": "max_pages",
            "text": "max_pages (raise or leave out max_pages to crawl everything)",
        }
    ]
    assert (found["new"], found["modified"], found["lost"]) == (1, 1, 1)
    assert (found["before"]["run"], found["after"], found["log"]) == (1, None, None)
    progress = found["progress"]
    assert (progress["visited"], progress["waiting"], progress["estimatedEnd"]) == (4, 0, None)


def test_an_open_run_tells_its_progress_and_its_hosts(desk: Desk, tmp_path: Path):
    desk.open(now=LATER + 10)
    desk.write(desk.visit(HOME, outcome=Outcome.NOT_MODIFIED, status=304), now=LATER + 10)
    with transaction(desk.connection):
        desk.connection.execute(
            "INSERT INTO host_now (host, run, at, delay_ms, in_flight)"
            " SELECT no, 3, ?, 500, 2 FROM host",
            (LATER,),
        )
    with registry_database(tmp_path / "registry.db").take("docs", "now"):
        found = read(tmp_path, "runs/3")
    died = read(tmp_path, "runs/3")

    RunStory.model_validate(found)
    assert found["isRunning"]
    assert not died["isRunning"]
    assert found["progress"]["visited"] == 1
    assert found["progress"]["words"] == {"unchanged": 1}
    (host,) = found["progress"]["hostsNow"]
    assert (host["host"], host["delayMs"], host["inFlight"]) == ("docs.example.com", 500, 2)


def test_a_run_has_samples_of_its_progress(desk: Desk, tmp_path: Path):
    found = read(tmp_path, "runs/2/progress")

    RunSamples.model_validate(found)
    assert (found["run"], found["everySeconds"]) == (2, 10)
    desk.open(now=LATER + 10)
    desk.write(desk.visit(HOME, outcome=Outcome.NOT_MODIFIED, status=304), now=LATER + 30)
    first, last = read(tmp_path, "runs/3/progress")["samples"]
    assert (first["seconds"], first["visited"], first["requests"]) == (0, 0, 0)
    assert last == {
        "at": "2025-06-15T16:07:10Z",
        "seconds": 20,
        "visited": 1,
        "waiting": 0,
        "requests": 1,
        "notModified": 0,
        "failed": 0,
        "bytesDownloaded": 0,
    }


def test_the_end_of_the_log_of_a_run_is_read_by_its_level(desk: Desk, tmp_path: Path):
    log = run_log_file(tmp_path, 2)
    log.parent.mkdir()
    log.write_text("t [smartcrawl] INFO: begun\nt [smartcrawl] WARNING: \x1b slow\n  as ever\n")
    found = read(tmp_path, "runs/2/log")

    RunLogEnd.model_validate(found)
    assert found["lines"] == log.read_text().splitlines()
    assert (found["isHere"], found["isRunning"], found["sentence"]) == (True, False, None)
    above = read(tmp_path, "runs/2/log", level="WARNING")
    assert (above["level"], above["lines"]) == ("WARNING", found["lines"][1:])
    assert read(tmp_path, "runs/2/log", lines=1)["lines"] == ["  as ever"]
    assert read(tmp_path, "runs/2/log", level="ERROR")["lines"] == []
    missing = read(tmp_path, "runs/1/log")
    assert (missing["isHere"], missing["lines"]) == (False, [])
    assert "it ran elsewhere" in missing["sentence"]


@pytest.mark.parametrize(
    ("query", "field"), [({"level": "loud"}, "level"), ({"lines": "0"}, "lines"), ({"a": 1}, "a")]
)
def test_a_log_is_not_read_by_what_is_no_level(
    desk: Desk, tmp_path: Path, query: dict[str, Any], field: str
):
    answer = ask(application(tmp_path), "GET", "/api/v1/runs/2/log", params=query)

    assert answer.status_code == 400
    assert error_of(answer)["details"]["field"] == field


def test_the_end_of_an_open_run_is_estimated_with_what_is_known(desk: Desk, tmp_path: Path):
    def estimate() -> tuple[str | None, str]:
        progress = read(tmp_path, "runs/3")["progress"]  # as of LATER + 60
        return progress["likelyEnd"], progress["endText"]

    desk.open(now=LATER)
    assert estimate() == (None, "soon: each page that is known is done")
    desk.add(*(f"{BASE}{number}" for number in range(8)), now=LATER + 20)
    assert estimate() == (None, "not known: too few pages are done")
    desk.write(desk.visit(HOME, outcome=Outcome.NOT_MODIFIED, status=304), now=LATER + 30)
    assert estimate() == (None, "not before 8 min: pages are found as fast as they are done")
    with transaction(desk.connection):
        desk.connection.execute("UPDATE run_sample SET queued = 16 WHERE run = 3")
    # 8 pages fewer wait than a minute ago, and one was done since
    assert estimate() == ("2025-06-15T16:15:40Z", "in about 8 min")
    with transaction(desk.connection):
        desk.connection.execute("UPDATE run SET visits = 4 WHERE no = 3")
    text = "in 2 min if no further page is found, in about 3 min if as many are found as before"
    with transaction(desk.connection):
        desk.connection.execute("UPDATE run_sample SET queued = 11 WHERE run = 3")
    assert estimate() == ("2025-06-15T16:10:20Z", text)


def test_the_counts_of_an_open_run_are_those_that_it_keeps(desk: Desk, tmp_path: Path):
    """A scan of all pages, once a second, would cost as much as the crawl."""
    desk.open(now=LATER + 10)
    with transaction(desk.connection):
        desk.connection.execute("UPDATE run SET words = '{\"unchanged\": 7}' WHERE no = 3")

    assert read(tmp_path, "runs/3")["unchanged"] == 7
    assert read(tmp_path, "runs")["runs"][0]["unchanged"] == 7


@pytest.mark.parametrize(
    ("which", "urls", "why"),
    [
        ("new", [NEW], None),
        ("modified", [GUIDE], None),
        ("lost", [OLD], "answered 404"),
        ("removed", [], None),
    ],
)
def test_pages_of_a_run_are_listed_with_their_records(
    desk: Desk, tmp_path: Path, which: str, urls: list[str], why: str | None
):
    found = read(tmp_path, "runs/2/pages", list=which)

    RunPages.model_validate(found)
    assert [page["url"] for page in found["pages"]] == urls
    assert [page["no"] for page in found["pages"]] == list(map(desk.number, urls))
    assert [page["why"] for page in found["pages"]] == [why] * len(urls)


def test_a_page_that_failed_before_is_new_in_the_run_that_stores_it(desk: Desk, tmp_path: Path):
    late = f"{HOME}late"
    desk.open(now=LATER)
    desk.write(desk.visit(late, outcome=Outcome.NOT_FOUND, status=404), now=LATER)
    desk.seal(now=LATER)
    desk.open(now=LATER + 60)
    desk.write(desk.visit(late, "at last"), reached={desk.number(late): 1}, now=LATER + 60)
    desk.seal(now=LATER + 60)

    urls = [
        [page["url"] for page in read(tmp_path, f"runs/{run}/pages?list=new")["pages"]]
        for run in (3, 4)
    ]

    assert urls == [[], [late]]


def test_new_pages_are_those_of_the_run_alone_and_are_paged(desk: Desk, tmp_path: Path):
    first = read(tmp_path, "runs/1/pages", limit=2)
    second = read(tmp_path, "runs/1/pages", limit=2, offset=2)

    assert [page["url"] for page in first["pages"] + second["pages"]] == [HOME, GUIDE, OLD]
    assert (first["pagination"]["more"], second["pagination"]["more"]) == (True, False)


def test_failed_pages_are_those_that_the_run_counts_until_a_later_one_visits_them(
    desk: Desk, tmp_path: Path
):
    def failed(run: int) -> list[tuple[str, str]]:
        found = read(tmp_path, f"runs/{run}/pages", list="failed")
        RunPages.model_validate(found)
        assert len(found["pages"]) == read(tmp_path, f"runs/{run}")["failed"]
        return [(page["url"], page["why"]) for page in found["pages"]]

    dead = f"{BASE}dead"
    desk.open(now=LATER + 60)
    broken = desk.visit(dead, outcome=Outcome.NOT_FOUND, status=404)
    desk.write(broken, now=LATER + 60)
    desk.seal(now=LATER + 60)
    assert failed(3) == [(dead, "answered 404")]
    assert read(tmp_path, "runs/2/pages", list="failed")["pages"] == []

    desk.open(now=LATER + 90)
    desk.seal("max_pages", now=LATER + 90)
    assert failed(4) == failed(3)  # no run visited it since
    desk.source = "other"
    desk.open(now=LATER + 95)
    desk.seal(now=LATER + 95)
    assert failed(5) == []

    desk.source = "docs"
    desk.open(now=LATER + 99)
    desk.write(desk.visit(dead, "a lantern again"), now=LATER + 99)
    desk.seal(now=LATER + 99)
    assert failed(6) == []
    assert read(tmp_path, "runs/3/pages", list="failed")["pages"] == []


def test_removed_pages_have_the_rule_in_words(desk: Desk, tmp_path: Path):
    desk.closing = choices(max_ratio=1, lost_threshold=1)
    desk.open(now=LATER + 60)
    desk.write(
        desk.visit(OLD, outcome=Outcome.NOT_FOUND, status=404),
        reached={desk.number(url): 0 for url in (HOME, GUIDE, OLD, NEW)},
        now=LATER + 60,
    )
    desk.seal("max_pages", now=LATER + 60)

    (page,) = read(tmp_path, "runs/3/pages", list="removed")["pages"]

    assert (page["url"], page["why"]) == (OLD, "the server answers that the page is gone")


def test_a_source_has_its_verdict_what_deserves_a_look_and_its_last_runs(
    desk: Desk, tmp_path: Path
):
    found = read(tmp_path, "sources")

    Sources.model_validate(found)
    (source,) = found["sources"]
    assert source["source"] == "docs"
    assert not source["isWell"]
    assert "max_pages" in source["verdict"]
    looks = {one["text"]: one["command"] for one in source["look"]}
    lost = "1 lost: now returns an error; the last good copy is still searchable"
    assert looks[lost].endswith("deltamerge --source docs")
    assert [run["run"] for run in source["runs"]] == [1, 2]
    assert (source["runs"][1]["new"], source["runs"][1]["lost"]) == (1, 1)


def test_hosts_are_listed_by_name(desk: Desk, tmp_path: Path):
    found = read(tmp_path, "hosts", source="docs")

    Hosts.model_validate(found)
    assert [(host["host"], host["pages"]) for host in found["hosts"]] == [("docs.example.com", 4)]
    assert found["pagination"]["total"] == 1


@pytest.mark.long(but=6)
@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("runs/9", 404, None),
        ("runs/9/pages", 404, None),
        ("runs/9/progress", 404, None),
        ("runs/2/progress?limit=1", 400, "limit"),
        ("runs/x", 400, "run"),
        ("runs/2?list=new", 400, "list"),
        ("runs/2/pages?list=all", 400, "list"),
        ("runs?source=nowhere", 400, "source"),
        ("hosts?source=nowhere", 400, "source"),
        ("hosts?limit=0", 400, "limit"),
        ("sources?source=docs", 400, "source"),
    ],
)
def test_what_is_no_run_or_source_is_refused(
    desk: Desk, tmp_path: Path, path: str, status: int, field: str | None
):
    answer = ask(application(tmp_path), "GET", f"/api/v1/{path}")

    assert answer.status_code == status, answer.text
    assert error_of(answer)["details"].get("field") == field

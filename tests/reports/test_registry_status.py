"""How sources are doing: each number is that of the records and runs which it counts."""

from collections.abc import Iterator
from math import ceil
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smartcrawl.registry import items
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.removal import purge
from smartcrawl.reports.status import (
    RUN_KEYS,
    STATUS_KEYS,
    Ages,
    Bytes,
    Cost,
    SourceStatus,
    StatusReportChanges,
    StatusReportCounts,
    status_report,
    status_report_data,
)
from smartcrawl.reports.status_text import status_report_lines
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.model import Outcome, RunState
from smartcrawl.sources.kinds import KINDS
from tests.registry.build import LATER, LONG, NOW, Desk, closing

BASE = "http://a.example/"
DAY = 86_400
_ERRORS = {404: Outcome.NOT_FOUND, 410: Outcome.NOT_FOUND, 403: Outcome.HTTP_ERROR}


def visit(desk: Desk, path: str, answer: object, *, now: int = NOW) -> None:
    """One visit: a text is new content, True the same as before, a number a status, None robots."""
    url = BASE + path
    desk.write(reached={desk.page(url).no: 0}, now=now)
    match answer:
        case str():
            found = desk.visit(url, answer)
        case True:
            found = desk.visit(url, outcome=Outcome.SAME)
            found.parsed.document = None
        case int():
            found = desk.visit(url, outcome=_ERRORS.get(answer, Outcome.TRANSIENT), status=answer)
        case _:
            found = desk.visit(url, outcome=Outcome.EXCLUDED, status=None, error="disallowed")
    desk.write(found, now=now)


def crawl(desk: Desk, *reasons: str, now: int = NOW, **answers: object) -> int:
    """One run over paths, complete unless there are reasons; return its number."""
    run = desk.open(now=now)
    for path, answer in answers.items():
        visit(desk, path, answer, now=now)
    desk.seal(*reasons, now=now)
    return run.no


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A registry in memory in which nothing happened yet."""
    desk = Desk()
    yield desk
    desk.close()


def status(desk: Desk, now: int = NOW) -> SourceStatus:
    one, total = status_report(desk.connection, now)
    assert (one.source, total.source) == (desk.source, None)
    assert (one.counts, one.ages, one.changes, one.bytes) == (
        total.counts, total.ages, total.changes, total.bytes,
    )  # fmt: skip
    return one


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_source_of_files_is_listed(desk: Desk, kind: str):
    crawl(desk, a=LONG)
    desk.connection.execute("UPDATE source SET kind = ?", (kind,))
    assert status(desk).is_listed is (kind in ("files", "github", "sharepoint"))


def counts(desk: Desk, now: int = NOW) -> StatusReportCounts:
    return status(desk, now).counts


# Shape


@pytest.mark.covers("R0-78")
def test_a_status_has_these_keys_in_this_order(desk: Desk):
    keys = (
        "source pages pending crawled indexed error outOfScope gone sitemaps held lost orphans due"
        " clones withoutText withheld pinned ordered errorRate changeRate changeRuns pagesCompared"
        " pagesModified pagesNew medianAgeSeconds age95Seconds checkedWithinDay checkedWithinWeek"
        " bytesDownloaded bytesSaved lastRun lastCompleteRun lastCompleteAt"
        " vectors pushed visibility requests notModified seconds"
    )
    run_keys = (
        "run state complete reasons startedAt finishedAt bytesDownloaded bytesSaved embedded owed"
    )
    crawl(desk, a="words")

    one, total = status_report(desk.connection, LATER)

    assert (
        list(status_report_data(one))
        == list(status_report_data(total))
        == list(STATUS_KEYS)
        == keys.split()
    )
    assert list(status_report_data(one)["lastRun"]) == list(RUN_KEYS) == run_keys.split()
    assert status_report_data(total)["lastRun"] is None


def test_nothing_at_all_is_all_zeros():
    desk = Desk()

    (total,) = status_report(desk.connection, NOW)

    assert total == SourceStatus(None, StatusReportCounts(), Ages(), StatusReportChanges(), Bytes())
    assert set(total.counts) == {0}
    assert total.counts.error_rate is None
    assert total.changes.rate is None
    desk.close()


def test_pages_are_told_by_their_statuses():
    counts = StatusReportCounts(pages=21, indexed=1, crawled=2, pending=3, error=4, out_of_scope=5)
    told = SourceStatus("docs", counts._replace(gone=6), Ages(), StatusReportChanges(), Bytes())

    assert dict(status_report_lines(told))["pages"] == (
        "21: 1 indexed, 2 crawled, 3 pending, 4 error, 5 out of scope, 6 gone"
    )


# Counts


@pytest.mark.covers("R0-78")
def test_every_status_is_counted(desk: Desk):
    desk.closing = closing(lost_threshold=2)
    first = {"a": LONG, "b": LONG + " b", "c": "", "broken": 404, "secret": None, "down": 503}
    crawl(desk, **first)
    crawl(desk, **(first | {"a": True, "b": 404, "c": True}))
    run = desk.open()
    desk.write(desk.visit(BASE + "moved", outcome=Outcome.REDIRECT, status=301))
    desk.add(BASE + "waits", BASE + "too")

    found = counts(desk)

    assert run.no == 3
    assert (found.pages, found.pending, found.crawled) == (9, 2, 1)
    assert (found.indexed, found.error, found.out_of_scope) == (2, 2, 1)
    assert found.gone == 1, "404 twice, and never held"
    assert found.pages == sum(found[1:7])
    assert (found.held, found.lost, found.without_text) == (3, 1, 1)
    assert found.error_rate == round(2 / 5, 4), "of what was asked and is there"


def test_sitemaps_are_counted_apart(desk: Desk):
    desk.open()
    desk.index(BASE + "a", "words")
    desk.index(BASE + "map.xml", "x", outcome=Outcome.NOT_ACCEPTABLE, kind=1)
    desk.seal()

    found = counts(desk)

    assert (found.pages, found.sitemaps, found.crawled, found.held) == (1, 1, 0, 1)


@pytest.mark.covers("R0-78", "R4-13")
def test_clones_are_counted_while_they_are_held(desk: Desk):
    crawl(desk, a=LONG, b=LONG, c=LONG, d="other")
    assert counts(desk).clones == 2

    crawl(desk, a=True, b=True, d=True)

    assert counts(desk).clones == 2, "an orphan is still held"
    crawl(desk, a="its own", b=True, d=True)
    assert counts(desk).clones == 1


def alike(desk: Desk) -> None:
    """The counts are those of the lists that commands print."""
    found = counts(desk)
    assert found.orphans == len(purge.orphaned_page_rows(desk.connection))
    assert found.withheld == len(purge.withheld_candidate_rows(desk.connection))
    assert found.lost == len(purge.lost_page_rows(desk.connection, Policy()))


@pytest.mark.covers("R0-78")
def test_orphans_and_withheld_removals_are_those_that_are_listed(desk: Desk):
    pages = {f"p{n}": f"text {n}" for n in range(15)}
    crawl(desk, home="home", broken=404, **pages)
    assert (counts(desk).orphans, counts(desk).withheld) == (0, 0)
    crawl(desk, home=True, p0=True, p1=None, p2=404)
    assert counts(desk).orphans == 13, "what robots.txt forbids is one"
    alike(desk)
    desk.rows(
        "INSERT INTO pin (no, source, at) SELECT no, source, 0 FROM record WHERE url LIKE '%/p3'"
    )
    assert (counts(desk).orphans, counts(desk).pinned) == (12, 1)
    alike(desk)

    crawl(desk, home=True, p0=True, p4=True)
    crawl(desk, home=True, p0=True, p4=True)
    assert counts(desk).withheld > 0
    alike(desk)
    desk.rows("UPDATE candidate SET withheld = FALSE WHERE no = (SELECT max(no) FROM candidate)")
    alike(desk)
    desk.rows(
        "UPDATE state SET seen_run = 4 WHERE no = (SELECT max(no) FROM state)"
    )  # as undo does
    alike(desk)
    crawl(desk, "max_pages", home=True, p5=True)  # reached since, though the run is incomplete
    alike(desk)


def test_what_was_removed_is_not_lost_any_more(desk: Desk):
    desk.closing = closing(lost_threshold=1)
    crawl(desk, a="words", b="words of b")
    crawl(desk, a=True, b=404)

    assert (counts(desk).held, counts(desk).lost, counts(desk).gone) == (1, 0, 1)
    alike(desk)
    desk.rows("UPDATE state SET lost_count = 1 WHERE standing = 0")
    alike(desk)


def test_without_a_complete_run_nothing_is_an_orphan(desk: Desk):
    crawl(desk, "max_pages", a="words", b="words of b")
    crawl(desk, "max_pages", a=True)

    assert counts(desk).orphans == 0
    alike(desk)


@pytest.mark.covers("R0-78", "R0-71")
def test_due_is_what_a_due_crawl_would_ask(desk: Desk):
    desk.closing = closing(lost_threshold=1)
    crawl(desk, a="words", b="words of b", c="words of c", dead=404)
    assert counts(desk).gone == 1
    assert counts(desk, NOW + DAY - 1).due == 0
    assert counts(desk, NOW + DAY).due == 3, "a tombstone aside"

    crawl(desk, a=True, b=True, now=NOW + DAY)
    assert counts(desk, NOW + 9 * DAY).due == 2, "nothing leads to c any more"
    desk.open(now=NOW + DAY)
    desk.add(BASE + "new", now=NOW + DAY)
    assert counts(desk, NOW + DAY).due == 1, "what was never visited"
    assert counts(desk, NOW + DAY + DAY).due == 3


@pytest.mark.covers("R0-78", "R0-55")
def test_what_was_ordered_is_counted_until_it_was_done(desk: Desk):
    crawl(desk, a="words", b="words of b")
    with transaction(desk.connection):
        items.store_order_rows(desk.connection, [desk.number(BASE + "a")], NOW)
    assert (counts(desk).ordered, counts(desk).due) == (1, 1)

    crawl(desk, a=True, b=True)

    assert counts(desk).ordered == 0
    desk.rows("UPDATE item SET requested = TRUE")
    assert counts(desk).ordered == 1
    desk.rows("UPDATE item SET requested = FALSE, generation = processed + 1")
    assert counts(desk).ordered == 1


# Rates


@pytest.mark.covers("R0-78")
def test_the_change_rate_is_that_of_pages_that_could_have_changed(desk: Desk):
    crawl(desk, a="one", b="two", c="three", d="four")
    assert status(desk).changes == StatusReportChanges(), "nothing was asked again"
    crawl(desk, a="changed", b=True, c=404, d=503, e="a new page")

    assert status(desk).changes == StatusReportChanges(runs=1, compared=2, modified=1, new=1)
    assert status(desk).changes.rate == 0.5
    crawl(desk, a=True, b=True, c=404, d=True, e=True)
    assert status(desk).changes.rate == round(1 / 6, 4)


@pytest.mark.covers("R0-78")
def test_the_change_rate_looks_back_on_the_last_runs_that_asked_again(desk: Desk):
    crawl(desk, a="one", b="two")
    crawl(desk, a="changed", b=True)
    for _ in range(9):
        crawl(desk, a=True, b=True)
    assert status(desk).changes == StatusReportChanges(runs=10, compared=20, modified=1)
    crawl(desk)  # nothing was due
    desk.open()
    visit(desk, "a", "changed again")  # its run was interrupted
    desk.open()
    assert status(desk).changes == StatusReportChanges(runs=10, compared=20, modified=1)

    crawl(desk, a=True, b=True)

    assert status(desk).changes == StatusReportChanges(runs=10, compared=20, modified=0)


def test_new_clones_are_no_changes(desk: Desk):
    crawl(desk, a=LONG, b="other")
    crawl(desk, a=True, b=True, c=LONG)

    assert status(desk).changes == StatusReportChanges(runs=1, compared=2)


# Freshness


def aged(desk: Desk, ages: list[int]) -> Ages:
    """The ages of a source whose pages were visited so many seconds ago."""
    desk.open()
    for place in range(len(ages)):
        desk.index(f"{BASE}{place}", f"text {place}")
    desk.seal()
    desk.connection.executemany(
        "UPDATE state SET last_checked = ? WHERE no = ?",
        [(NOW - age, desk.number(f"{BASE}{place}")) for place, age in enumerate(ages)],
    )
    return status(desk).ages


@pytest.mark.covers("R0-78")
def test_ages_are_those_of_what_is_held(desk: Desk):
    ages = aged(desk, [0, 60, DAY - 1, DAY, 7 * DAY])
    assert ages == Ages(median=DAY - 1, most=7 * DAY, within_day=0.6, within_week=0.8)

    desk.open()
    desk.index(BASE + "bare", outcome=Outcome.NOT_FOUND, status=404)

    assert status(desk).ages == ages


@pytest.mark.sqlite
@given(st.lists(st.integers(0, 30), min_size=1, max_size=25))
@example(list(range(20)))
@example(list(range(21)))
@settings(deadline=None)
def test_median_and_95th_percentile_are_ages_of_pages(ages: list[int]):
    """The nearest rank: so large a share of the pages was visited no longer ago."""
    desk = Desk()
    found = aged(desk, ages)
    desk.close()
    ordered = sorted(ages)

    assert found.median == ordered[ceil(len(ages) / 2) - 1]
    assert found.most == ordered[ceil(len(ages) * 19 / 20) - 1]
    assert (found.within_day, found.within_week) == (1, 1)


def test_a_clock_that_was_set_back_makes_nothing_younger_than_now(desk: Desk):
    crawl(desk, a="words")

    assert status(desk, NOW - 5).ages.median == 0


# Bytes and runs


@pytest.mark.covers("R0-78")
def test_bytes_are_those_of_all_runs_and_of_the_last(desk: Desk):
    crawl(desk, a="words")
    crawl(desk, a=True)
    desk.rows("UPDATE run SET bytes_downloaded = 100 * no, bytes_saved = 1000 * no")

    found = status(desk)

    assert found.bytes == Bytes(300, 3000)
    assert found.last_run is not None
    assert found.last_run.bytes == Bytes(200, 2000)


def test_the_cost_is_that_of_all_runs(desk: Desk):
    crawl(desk, a="words")
    crawl(desk, a=True, now=LATER)
    desk.rows("UPDATE run SET requests = 100 * no, not_modified = 10 * no, finished_at = 60 * no")
    desk.rows("UPDATE run SET started_at = 0")
    desk.open(now=LATER)
    desk.rows("UPDATE run SET requests = 1 WHERE no = 3")

    one, total = status_report(desk.connection, LATER)

    assert one.cost == total.cost == Cost(301, 30, 180)
    assert dict(status_report_lines(one))["cost"] == (
        "301 requests, 30 of them answered 304; runs of 3 min"
    )


@pytest.mark.covers("R0-78", "RD-07")
def test_the_last_run_and_the_last_complete_one(desk: Desk):
    crawl(desk, a="words")
    crawl(desk, "max_pages", "pending: 3", a=True, now=LATER)
    found = status(desk, LATER)
    run = found.last_run
    assert run is not None
    assert (run.no, run.state, run.complete) == (2, RunState.SWEPT, False)
    assert run.reasons == ("max_pages", "pending: 3")
    assert (run.started_at, run.finished_at) == (LATER, LATER)
    assert (found.complete_run, found.completed_at) == (1, NOW)

    desk.open(now=LATER)
    assert status_report_data(status(desk, LATER))["lastRun"] | {"bytesDownloaded": 0} == {
        "run": 3,
        "state": "open",
        "complete": False,
        "reasons": [],
        "startedAt": "2025-06-15T16:06:40Z",
        "finishedAt": None,
        "bytesDownloaded": 0,
        "bytesSaved": 0,
        "embedded": None,
        "owed": None,
    }
    desk.open(now=LATER)
    assert desk.rows("SELECT state FROM run WHERE no = 3") == [(RunState.INTERRUPTED,)]
    assert status(desk, LATER).complete_run == 1


# Several sources


@pytest.mark.covers("R0-78")
def test_each_source_has_its_own_numbers_and_the_last_are_all_together(file: Path):
    file.parent.mkdir()
    docs, shop = Desk(file, source="docs"), Desk(file, source="shop")
    crawl(docs, a="words", b="words of b")
    crawl(shop, a=LONG, b=LONG, c="", broken=404)
    crawl(docs, a="changed")
    crawl(shop, a=True, b=True, c=True, broken=404, now=NOW + 60)
    connection = docs.connection

    one, two, total = status_report(connection, NOW + 60)

    assert (one.source, two.source) == ("docs", "shop")
    assert (one.counts.pages, two.counts.pages, total.counts.pages) == (2, 4, 6)
    assert (one.counts.orphans, two.counts.orphans, total.counts.orphans) == (1, 0, 1)
    assert (two.counts.clones, two.counts.without_text, two.counts.error) == (1, 1, 1)
    assert total.counts == StatusReportCounts(
        *(a + b for a, b in zip(one.counts, two.counts, strict=True))
    )
    assert (one.ages.median, two.ages.median, total.ages.median) == (60, 0, 0)
    assert (one.ages.most, two.ages.most, total.ages.most) == (60, 0, 60)
    assert one.changes == StatusReportChanges(1, 1, 1)
    assert two.changes == StatusReportChanges(1, 3, 0)
    assert total.changes == StatusReportChanges(2, 4, 1)
    assert total.bytes == Bytes(*(a + b for a, b in zip(one.bytes, two.bytes, strict=True)))
    assert (one.complete_run, two.complete_run) == (3, 4)

    (only, all_of_it) = status_report(connection, NOW + 60, sources=["shop"])
    assert only == two
    assert (all_of_it.counts, all_of_it.ages) == (two.counts, two.ages)
    docs.close()
    shop.close()

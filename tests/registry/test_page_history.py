"""The history of pages by which a budget orders visits, read from the registry."""

import pytest

from smartcrawl.registry.freshness import due_run_rows, plan_next_visit_rows, source_history
from smartcrawl.registry.items import make_record_rows_due, store_order_rows
from smartcrawl.rules.freshness import Freshness, Terms
from smartcrawl.rules.schedule import Schedule
from tests.registry.build import LONG, NOW, Desk

DAY = 86_400
SCHEDULE = Schedule()
TERMS = Terms(within=DAY, pace=DAY, longest=14 * DAY)
URLS = ["http://a.example/x/1", "http://a.example/x/2", "http://a.example/y/1"]
LATER = NOW + 10 * DAY
_CHANGE = """
INSERT INTO change (record, run, at, visit_gap) SELECT no, first_run + ?, ?, ? FROM record
 WHERE no = ?
"""
_RUN = """
INSERT INTO run (source, state, number, complete, due, started_at, finished_at, requests)
VALUES (1, 4, 1, FALSE, ?, ?, ?, ?)
"""


@pytest.fixture
def docs(desk: Desk) -> Desk:
    """Three pages in two folders, stored ten days ago and visited since."""
    desk.open()
    desk.add(*URLS)
    for number, url in enumerate(URLS):
        desk.write(desk.visit(url, f"{LONG} {number}"))
    desk.seal()
    desk.rows(f"UPDATE state SET last_checked = {LATER}, next_visit = {LATER + DAY}")
    desk.rows(f"UPDATE state SET interval = {DAY}, attempts = 11")
    return desk


def rates(desk: Desk) -> dict[str, float]:
    """The changes a day of each page."""
    found = source_history(desk.connection, 1, TERMS, SCHEDULE, LATER)
    by_number = dict(zip(found.numbers, found.rates, strict=True))
    return {url: by_number[desk.number(url)] * DAY for url in URLS}


def test_a_page_without_a_change_changes_less_than_its_folder_and_the_folder_less_than_a_busy_one(
    docs: Desk,
):
    for day in range(1, 9):
        docs.rows(_CHANGE, (1, NOW + day * DAY, DAY, docs.number(URLS[0])))
    found = rates(docs)

    assert found[URLS[0]] > 1 > found[URLS[1]] > found[URLS[2]] > 0


def test_changes_of_the_first_run_and_of_long_ago_do_not_count(docs: Desk):
    before = rates(docs)
    docs.rows(_CHANGE, (0, NOW + DAY, DAY, docs.number(URLS[0])))
    docs.rows(_CHANGE, (1, LATER - 181 * DAY, DAY, docs.number(URLS[0])))
    assert rates(docs) == before
    docs.rows(_CHANGE, (1, LATER - 9 * DAY, DAY, docs.number(URLS[0])))
    assert rates(docs)[URLS[0]] > before[URLS[0]]


def test_a_change_without_a_gap_counts_with_the_usual_one(docs: Desk):
    docs.rows(_CHANGE, (1, LATER - DAY, None, docs.number(URLS[0])))
    without = rates(docs)
    docs.rows(f"UPDATE change SET visit_gap = {DAY}")
    assert rates(docs) == pytest.approx(without)


def test_what_failed_is_lost_or_was_called_for_is_not_for_the_budget(docs: Desk):
    one, two, three = map(docs.number, URLS)
    docs.rows("UPDATE state SET lost_count = 1, next_visit = ? WHERE no = ?", (LATER, one))
    docs.rows("UPDATE state SET error_count = 1, next_visit = ? WHERE no = ?", (LATER + 9, two))
    found = source_history(docs.connection, 1, TERMS, SCHEDULE, LATER)
    assert (list(found.numbers), found.called) == ([three], 1)

    noticed = "UPDATE state SET lost_count = 0, error_count = 0, next_visit = ? WHERE no = ?"
    docs.rows(noticed, (LATER, one))
    docs.rows(noticed, (LATER + DAY, two))
    found = source_history(docs.connection, 1, TERMS, SCHEDULE, LATER)
    assert (list(found.numbers), found.called) == ([two, three], 1)
    assert found.chosen(2, 0, LATER + 3 * DAY) | {one, two, three} == {one, two, three}
    assert len(found.chosen(2, 0, LATER + 3 * DAY)) == 1, "the page that was called for counts"


@pytest.mark.parametrize("proof", ["error_count", "lost_count", "gone_count"])
def test_a_page_that_may_be_removed_keeps_the_time_of_its_next_visit(docs: Desk, proof: str):
    docs.rows(f"UPDATE state SET {proof} = 1 WHERE no = ?", (docs.number(URLS[0]),))
    found = source_history(docs.connection, 1, TERMS, SCHEDULE, LATER)
    assert set(found.numbers) == set(map(docs.number, URLS[1:]))
    assert found.called == 0, "it is not due yet"


def test_a_page_that_no_run_reaches_any_more_is_left_out(docs: Desk):
    docs.rows("UPDATE state SET reached_run = 0 WHERE no = ?", (docs.number(URLS[0]),))
    found = source_history(docs.connection, 1, TERMS, SCHEDULE, LATER)
    assert set(found.numbers) == set(map(docs.number, URLS[1:]))


def test_due_runs_alone_count_for_the_budget(docs: Desk):
    for due, at, requests in ((True, 50, 5), (False, 60, 999), (True, 70, 7)):
        docs.rows(_RUN, (due, at, at, requests))
    assert due_run_rows(docs.connection, 1) == [(50, 5), (70, 7)]
    docs.rows("UPDATE run SET data_requests = 30 WHERE started_at = 70")
    assert due_run_rows(docs.connection, 1) == [(50, 5), (70, 37)], "data of rendered pages"


def test_next_visits_are_planned_of_visited_pages_and_of_those_whose_turn_did_not_come(docs: Desk):
    one, two, three = map(docs.number, URLS)
    docs.rows("UPDATE state SET last_checked = ? WHERE no IN (?, ?)", (NOW, two, three))
    docs.rows("UPDATE state SET next_visit = ?, interval = ? WHERE no = ?",
              (LATER, 10 * DAY, two))  # fmt: skip
    found = source_history(docs.connection, 1, TERMS, SCHEDULE, LATER)
    plan_next_visit_rows(docs.connection, found, 1e12, since=LATER, now=LATER)
    rows = dict(docs.rows("SELECT no, next_visit - last_checked - interval FROM state"))
    times = dict(docs.rows("SELECT no, next_visit FROM state"))

    assert times == {one: LATER + 13.5 * DAY, two: NOW + 13.5 * DAY, three: LATER + DAY}
    assert (rows[one], rows[two]) == (0, 0)
    assert found.budget_for_pages(Freshness(1, DAY, 9), SCHEDULE) == 9


@pytest.mark.parametrize("next_visit", [LATER + DAY, LATER - 9])
def test_a_notice_during_the_plan_stays(docs: Desk, next_visit: int):
    """Also where the time of the next visit has come already."""
    one = docs.number(URLS[0])
    docs.rows("UPDATE state SET last_checked = ?, next_visit = ?, interval = ? WHERE no = ?",
              (NOW, next_visit, next_visit - NOW, one))  # fmt: skip
    found = source_history(docs.connection, 1, TERMS, SCHEDULE, LATER)
    assert one in found.numbers
    ((key,),) = docs.rows("SELECT id FROM record WHERE no = ?", (one,))
    make_record_rows_due(docs.connection, bytes(key), LATER)
    plan_next_visit_rows(docs.connection, found, 1e12, since=NOW, now=LATER)

    expected = min(next_visit, LATER)
    assert docs.rows("SELECT next_visit FROM state WHERE no = ?", (one,)) == [(expected,)]
    found = source_history(docs.connection, 1, TERMS, SCHEDULE, LATER)
    assert one not in found.numbers
    assert found.called == 1


def test_no_budget_puts_off_an_order(docs: Desk):
    """Also of a page whose time had come; its interval is as it was (R0-34)."""
    one = docs.number(URLS[0])
    columns = "SELECT next_visit, interval FROM state WHERE no = ?"
    docs.rows("UPDATE state SET last_checked = ?, next_visit = ?, interval = ? WHERE no = ?",
              (NOW, LATER - 9, LATER - 9 - NOW, one))  # fmt: skip
    found = source_history(docs.connection, 1, TERMS, SCHEDULE, LATER)
    assert one in found.numbers
    store_order_rows(docs.connection, [one], LATER)
    plan_next_visit_rows(docs.connection, found, 1e12, since=NOW, now=LATER)

    found = source_history(docs.connection, 1, TERMS, SCHEDULE, LATER)
    assert one not in found.numbers
    assert docs.rows(columns, (one,)) == [(LATER, LATER - 9 - NOW)]

"""Runs are opened, resumed, interrupted, or sealed, settled and swept; claims fence visits."""

import contextlib
import json
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.index.choice import EMBEDDED
from smartcrawl.model.exceptions import CommitsLostError, RegistryError
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.registry import open_registry
from smartcrawl.registry.removal.tombstones import delete_empty_source_rows
from smartcrawl.registry.runs import runs
from smartcrawl.registry.runs.run_results import stored_run_result
from smartcrawl.rules.http import outcome_of_http_status
from smartcrawl.rules.model import Fault, Outcome, RunState, Word
from tests.registry.build import LATER, NOW, Desk, closing

ROOT = Path(__file__).resolve().parents[2]


def state(desk: Desk, run: int) -> tuple[object, ...]:
    row = desk.rows("SELECT state, complete, reasons, finished_at FROM run WHERE no = ?", (run,))
    return row[0]


# Opening


def test_the_number_of_a_deleted_run_is_not_given_again():
    desk = Desk()
    given = []
    for name in ("docs", "docs", "shop"):
        desk.source = name
        given.append(desk.open(now=NOW).no)
        with transaction(desk.connection):
            assert delete_empty_source_rows(desk.connection, name)

    assert given == [1, 2, 3]
    assert desk.rows("SELECT count(*) FROM run") == [(0,)]


@pytest.mark.sqlite
def test_the_number_of_a_run_that_found_a_host_unreliable_is_not_given_again():
    """A run that an earlier version deleted left no other trace."""
    desk = Desk()
    desk.connection.execute("INSERT INTO host (no, name) VALUES (1, 'a.example')")
    columns = [row[1] for row in desk.rows("PRAGMA table_info(trust)")]
    values = ", ".join(str({"host": 1, "run": 7}.get(str(name), 0)) for name in columns)
    desk.connection.execute(f"INSERT INTO trust VALUES ({values})")

    assert desk.open(now=NOW).no == 8


def test_the_first_run_of_a_source_is_new_and_open():
    desk = Desk()

    run = desk.open(now=NOW)

    assert (run.no, run.source, run.number, run.started_at) == (1, 1, 1, NOW)
    assert (run.forced, run.resumed, run.interrupted, run.last_complete) == (False, False, None, 0)
    assert state(desk, 1) == (RunState.OPEN, 0, "[]", None)


def test_an_open_run_that_is_found_is_interrupted_and_never_complete(desk: Desk):
    desk.index("http://a.example/", "words")

    run = desk.open(now=LATER)

    assert (run.no, run.resumed, run.interrupted, run.last_complete) == (2, False, 1, 0)
    assert state(desk, 1) == (RunState.INTERRUPTED, 0, '["interrupted"]', LATER)
    assert state(desk, 2)[0] == RunState.OPEN


@pytest.mark.covers("M-33")
def test_a_resumed_run_keeps_its_number_and_draws_a_higher_claim_number(desk: Desk):
    first = desk.run

    resumed = desk.open(resume=True, now=LATER)

    assert (resumed.no, resumed.resumed, resumed.interrupted) == (first.no, True, None)
    assert resumed.number > first.number
    assert resumed.started_at == first.started_at
    assert desk.rows("SELECT no, number, state FROM run") == [(1, resumed.number, RunState.OPEN)]


def test_an_interrupted_run_is_resumed_and_open_again(desk: Desk):
    runs.interrupt_run_row(desk.connection, 1, NOW, ["interrupted"])
    assert state(desk, 1) == (RunState.INTERRUPTED, 0, '["interrupted"]', NOW)

    resumed = desk.open(resume=True)

    assert (resumed.no, resumed.resumed) == (1, True)
    assert state(desk, 1) == (RunState.OPEN, 0, "[]", None)
    desk.index("http://a.example/", "words")  # it takes batches again


@pytest.mark.parametrize("seal", [True, False], ids=["after-a-settled-run", "without-any-run"])
def test_with_nothing_to_resume_a_new_run_opens(seal: bool):
    desk = Desk()
    if seal:
        desk.open()
        desk.seal()

    run = desk.open(resume=True)

    assert (run.no, run.resumed, run.interrupted) == (1 + seal, False, None)


def test_only_the_last_run_is_resumed(desk: Desk):
    desk.open()  # interrupts run 1
    desk.seal()

    assert desk.open(resume=True).no == 3


def test_a_forced_run_stays_forced_when_it_is_resumed(desk: Desk):
    desk.open(forced=True)

    assert desk.open(resume=True, forced=False).forced
    assert not desk.open(forced=False).forced


def test_sources_have_runs_of_their_own(file: Path):
    file.parent.mkdir()
    docs, shop = Desk(file, source="docs"), Desk(file, source="shop")
    first = docs.open()

    second = shop.open()
    again = shop.open(resume=True)

    assert (first.no, second.no, again.no) == (1, 2, 2)
    assert first.source != second.source
    assert first.number < second.number < again.number
    assert second.interrupted is None
    assert state(docs, first.no)[0] == RunState.OPEN
    docs.close()
    shop.close()


def test_the_last_complete_run_is_told_and_incomplete_ones_are_not(desk: Desk):
    desk.index("http://a.example/", "words")
    desk.seal()
    desk.open()
    desk.seal("max_pages")

    assert desk.open().last_complete == 1


@pytest.mark.sqlite
def test_a_process_that_is_killed_leaves_an_open_run_with_what_it_committed(file: Path):
    code = """
import os, signal, sys
from pathlib import Path
from smartcrawl.model.batches import Batch
from tests.registry.build import Desk
desk = Desk(Path(sys.argv[1]))
desk.open()
desk.index("http://a.example/", "committed")
desk.connection.execute("BEGIN IMMEDIATE")
desk.commit().write(Batch(reached={1: 5}), 0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    file.parent.mkdir()
    subprocess.run([sys.executable, "-c", code, str(file)], cwd=ROOT, check=False, timeout=60)
    desk = Desk(file)

    run = desk.open(resume=True)

    assert (run.no, run.resumed) == (1, True)
    assert desk.rows("SELECT text FROM chunk") == [("committed",)]
    assert desk.value("SELECT depth FROM state") == 0
    desk.close()


# Fencing


@pytest.mark.covers("R0-11", "M-33")
def test_the_same_visit_written_twice_is_stale_and_changes_nothing(desk: Desk):
    desk.index("http://a.example/", "before")
    desk.seal()
    desk.open()
    desk.reach("http://a.example/")
    visit = desk.visit("http://a.example/", "after", etag='"2"')

    assert desk.write(visit, now=LATER) == 0
    stored = desk.stored()
    assert desk.write(visit, now=LATER + 9) == 1

    assert desk.stored() == stored


@pytest.mark.covers("R0-73", "R0-90")
def test_a_visit_of_an_older_claim_is_stale(desk: Desk):
    """A resumed run must not be undone by the process that it was taken from."""
    desk.add("http://a.example/")
    late = desk.visit("http://a.example/", "of the first process")
    old = desk.run.number
    desk.open(resume=True)
    desk.index("http://a.example/", "of the second process")
    stored = desk.stored()

    assert desk.write(late, number=old) == 1
    assert desk.write(touched=[1], number=old) == 1

    assert desk.stored() == stored


def test_a_stale_visit_does_not_keep_others_of_its_batch_from_being_written(desk: Desk):
    desk.add("http://a.example/", "http://a.example/new")
    again = desk.visit("http://a.example/", "one")
    desk.write(again)

    stale = desk.write(again, desk.visit("http://a.example/new", "two"))

    assert stale == 1
    assert desk.rows("SELECT text FROM chunk ORDER BY no") == [("one",), ("two",)]


def test_touches_are_stale_for_what_was_written_meanwhile_and_for_bare_pages(desk: Desk):
    held = desk.index("http://a.example/", "one")
    (bare,) = desk.add("http://a.example/bare")
    desk.open(resume=True)
    other = desk.index("http://a.example/other", "two")

    assert desk.write(touched=[held, bare, other]) == 2

    assert desk.rows("SELECT no, http_status FROM state ORDER BY no") == [
        (held, 304),
        (bare, None),
        (other, 200),
    ]


@pytest.mark.parametrize("end", ["seal", "interrupt"])
def test_a_closed_run_takes_no_batch(desk: Desk, end: str):
    visit = desk.visit("http://a.example/", "too late")
    if end == "seal":
        desk.seal()
    else:
        runs.interrupt_run_row(desk.connection, 1, NOW, ["interrupted"])
    stored, row = desk.stored(), desk.rows("SELECT * FROM run")

    with pytest.raises(
        RegistryError, match=r"run 1 was closed by another process .* start the crawl"
    ):
        desk.write(visit, addresses=[desk.address("http://a.example/new")])

    assert desk.stored() == stored
    assert desk.rows("SELECT * FROM run") == row


# Sealing, settling and sweeping


def test_a_run_is_sealed_once(desk: Desk):
    assert runs.seal_run_row(desk.connection, 1, (), NOW)
    assert not runs.seal_run_row(desk.connection, 1, ("max_pages",), LATER)

    assert state(desk, 1) == (RunState.SEALED, 1, "[]", NOW)


def test_a_run_that_was_interrupted_is_not_sealed(desk: Desk):
    desk.open()

    assert not runs.seal_run_row(desk.connection, 1, (), LATER)
    assert state(desk, 1)[:2] == (RunState.INTERRUPTED, 0)


def end_partly(desk: Desk, last: RunState) -> None:
    """Take the steps at the end of a run up to one of them, as a process that dies there."""
    desk.verify()
    if last >= RunState.SEALED:
        runs.seal_run_row(desk.connection, desk.run.no, (), NOW)
    if last >= RunState.SETTLED:
        runs.settle_sealed_row(desk.connection, desk.ending(), EMBEDDED)
    if last >= RunState.SWEPT:
        desk.end(desk.ending())
    assert state(desk, desk.run.no)[0] == last


@pytest.mark.parametrize("last", [RunState.SEALED, RunState.SETTLED, RunState.SWEPT])
def test_a_sealed_run_is_not_interrupted_any_more(desk: Desk, last: RunState):
    end_partly(desk, last)

    runs.interrupt_run_row(desk.connection, 1, LATER, ["interrupted"])

    assert state(desk, 1) == (last, 1, "[]", NOW)
    assert desk.open().interrupted is None
    assert state(desk, 1) == (RunState.SWEPT, 1, "[]", NOW)


def test_a_run_that_was_looking_at_what_it_did_not_reach_is_interrupted_like_any_open_one(
    desk: Desk,
):
    desk.index("http://a.example/", "words")
    desk.verify()
    assert state(desk, 1)[0] == RunState.VERIFYING

    run = desk.open(now=LATER)

    assert (run.no, run.interrupted, run.last_complete) == (2, 1, 0)
    assert state(desk, 1) == (RunState.INTERRUPTED, 0, '["interrupted"]', LATER)


def test_a_run_that_was_looking_at_what_it_did_not_reach_goes_on_when_it_is_resumed(desk: Desk):
    """What it looked at is looked at again: it may be reached, or answer otherwise, by now."""
    desk.closing = closing(orphan_threshold=1)
    desk.index("http://a.example/", "words")
    stays = [f"http://a.example/stays{n}" for n in range(3)]  # more than go
    for n, url in enumerate(stays):
        desk.index(url, f"other words {n}")
    desk.seal()
    desk.open()
    for url in stays:
        desk.reach(url)
    desk.write(touched=[2, 3, 4])
    assert desk.verify() == ["http://a.example/"]

    resumed = desk.open(resume=True)

    assert (resumed.no, resumed.resumed, state(desk, 2)[0]) == (2, True, RunState.OPEN)
    assert desk.verify() == ["http://a.example/"]
    desk.seal(look=False)
    assert [page.url for page in desk.removed] == ["http://a.example/"]


@pytest.mark.parametrize("last", [RunState.SEALED, RunState.SETTLED])
def test_a_run_whose_process_died_before_its_sweep_is_ended_by_the_next(desk: Desk, last: RunState):
    """It was judged already: it ends complete, with its words, removals and counts."""
    desk.closing = closing(lost_threshold=1)
    desk.index("http://a.example/held", "words")
    desk.index("http://a.example/gone", "no more words")
    desk.seal()
    desk.open()
    desk.index("http://a.example/new", "other words")
    desk.reach("http://a.example/gone")
    gone = desk.visit("http://a.example/gone", outcome=Outcome.NOT_FOUND, status=404)
    desk.write(gone)
    end_partly(desk, last)

    run = desk.open(now=LATER)

    assert (run.no, run.interrupted, run.last_complete) == (3, None, 2)
    assert state(desk, 2) == (RunState.SWEPT, 1, "[]", NOW)
    result = stored_run_result(desk.connection, 2)
    assert result.counts == {"orphaned": 1, "new": 1, "gone": 1}
    assert (result.removed, result.withheld) == (1, 0)
    assert words(desk) == {"held": "orphaned", "new": "new", "gone": "gone"}
    assert desk.rows("SELECT run, at FROM evidence") == [(2, LATER)]


def test_a_run_tells_its_own_records_from_those_of_earlier_runs(desk: Desk):
    desk.closing = closing(lost_threshold=1, orphan_threshold=1)
    desk.index("http://a.example/held", "words")
    desk.index("http://a.example/gone", "no more words")
    desk.index("http://a.example/orphan", "words without a link")
    desk.write(desk.visit("http://a.example/typo", outcome=Outcome.NOT_FOUND, status=404))
    desk.seal()
    gone = ("http://a.example/gone", "http://a.example/held")
    desk.open()
    desk.reach(*gone)
    desk.write(desk.visit(gone[0], outcome=Outcome.NOT_FOUND, status=404))
    desk.write(desk.visit(gone[1], outcome=Outcome.NOT_MODIFIED, status=304))
    removal = desk.seal()

    assert removal.counts == {"unchanged": 1, "failed": 1, "gone": 1, "deleted": 1}
    assert removal.own_counts == {"unchanged": 1, "gone": 1, "deleted": 1}
    assert removal.still_gone == 0

    desk.open()
    desk.reach(*gone)
    desk.write(desk.visit(gone[0], outcome=Outcome.NOT_FOUND, status=404))
    asked = stored_run_result(desk.connection, 3)  # it is open, and counts what it visited
    desk.write(desk.visit(gone[1], outcome=Outcome.NOT_MODIFIED, status=304))
    after = desk.seal()

    assert (asked.counts, asked.own_counts, asked.still_gone) == ({"gone": 1}, {}, 1)
    assert after.counts == removal.counts
    assert (after.own_counts, after.still_gone) == ({"unchanged": 1}, 1)


def test_removed_pages_that_a_run_did_not_ask_for_are_none_of_its_own(desk: Desk):
    desk.closing = closing(lost_threshold=1, orphan_threshold=1)
    desk.index("http://a.example/held", "words")
    desk.index("http://a.example/gone", "no more words")
    desk.index("http://a.example/orphan", "words without a link")
    desk.seal()
    gone = ("http://a.example/gone", "http://a.example/held")
    desk.open()
    desk.reach(*gone)
    desk.write(desk.visit(gone[0], outcome=Outcome.NOT_FOUND, status=404))
    desk.write(desk.visit(gone[1], outcome=Outcome.NOT_MODIFIED, status=304))
    assert desk.seal().removed == 2

    desk.open()
    desk.reach(gone[1])
    desk.write(desk.visit(gone[1], outcome=Outcome.NOT_MODIFIED, status=304))
    result = desk.seal()

    assert result.counts == {"unchanged": 1, "gone": 1, "deleted": 1}
    assert (result.own_counts, result.still_gone) == ({"unchanged": 1}, 0)


def test_a_run_that_has_not_ended_has_all_that_it_found(desk: Desk):
    """Its counts are those of its visits: no record of an earlier run is among them."""
    desk.write(desk.visit("http://a.example/typo", outcome=Outcome.NOT_FOUND, status=404))
    desk.seal()
    desk.open()
    desk.write(desk.visit("http://a.example/mistake", outcome=Outcome.NOT_FOUND, status=404))

    assert stored_run_result(desk.connection, 2).own_counts == {"failed": 1}


def test_a_source_is_empty_until_a_page_is_stored_that_undo_may_bring_back(desk: Desk):
    desk.closing = closing(lost_threshold=1)
    page = "http://a.example/page"
    desk.write(desk.visit(page, outcome=Outcome.TRANSIENT, status=503))
    failed = desk.seal("unreachable: 1 of 1 visits")
    desk.open()
    desk.index(page, "words")
    stored = desk.seal()
    desk.open()
    desk.reach(page)
    desk.write(desk.visit(page, outcome=Outcome.NOT_FOUND, status=404))
    removed = desk.seal()

    results = (failed, stored, removed)
    assert [result.is_one_stored for result in results] == [False, True, False]
    assert [result.is_empty for result in results] == [True, False, False]


def test_reasons_make_a_run_incomplete_and_are_reported(desk: Desk):
    result = desk.seal("max_pages", "pending: 3")

    assert not result.complete
    assert result.reasons == ("max_pages", "pending: 3")


def words(desk: Desk, *, clones: bool = False) -> dict[str, str | None]:
    """The word of each record, with `clones` as reports tell it."""
    rows = desk.rows(
        "SELECT r.url, s.outcome, r.duplicate_of FROM record r JOIN state s USING (no)"
    )
    return {
        url.rpartition("/")[2]: "clone"
        if clones and original and code in (Word.NEW, Word.MODIFIED)
        else code and Word(code).word
        for url, code, original in rows
    }


@pytest.mark.covers("R4-08", "R4-09")
def test_each_record_gets_its_word_when_the_run_is_settled(desk: Desk):
    """Only what is held becomes an orphan; what was reached and not asked is skipped."""
    base = "http://a.example/"
    desk.index(base + "held", "one")
    desk.index(base + "lists", outcome=Outcome.NOT_ACCEPTABLE, status=406)
    desk.index(base + "bare", outcome=Outcome.NOT_FOUND, status=404)
    desk.index(base + "stays", "two")
    desk.index(base + "waits", "three")
    desk.seal()
    desk.open()
    desk.reach(base + "stays", base + "waits")
    desk.write(touched=[desk.number(base + "stays")])
    desk.add(base + "new")

    result = desk.seal("pending: 2")

    assert words(desk) == {
        "held": "orphaned",
        "lists": "orphaned",
        "bare": "failed",
        "stays": "unchanged",
        "waits": "skipped",
        "new": "skipped",
    }
    assert result.counts == Counter(words(desk).values())
    assert desk.rows("SELECT count(*) FROM content") == [(3,)], "nothing is removed"


def test_an_orphan_that_is_reached_again_is_none(desk: Desk):
    desk.index("http://a.example/held", "one")
    for reached in (False, True):
        desk.seal()
        desk.open()
        if reached:
            desk.reach("http://a.example/held")
            desk.write(touched=[1])
    desk.seal()

    assert words(desk) == {"held": "unchanged"}


def test_settling_one_source_leaves_the_words_of_another_alone(file: Path):
    file.parent.mkdir()
    docs, shop = Desk(file, source="docs"), Desk(file, source="shop")
    docs.open()
    docs.index("http://a.example/held", "one")
    docs.seal()
    shop.open()
    shop.index("http://b.example/held", "two")

    result = shop.seal()

    assert words(docs) == {"held": "new"}
    assert docs.rows("SELECT outcome FROM state") == [(Word.NEW,), (Word.NEW,)]
    assert result.counts == {"new": 1}
    docs.close()
    shop.close()


def test_counts_add_up_to_the_number_of_records(desk: Desk):
    desk.closing = closing(max_ratio=1.0)  # half of the pages may go in one run
    base = "http://a.example/"
    outcomes = [o for o in Outcome if o not in (Outcome.NOT_MODIFIED, Outcome.SAME)]
    seen: set[str] = set()
    for run in range(6):
        for place in range(2 * len(outcomes)):
            url, outcome = f"{base}{place}", outcomes[(place + run) % len(outcomes)]
            if place % 3 or run < 3:
                desk.page(url)
                desk.reach(url)
                desk.write(desk.visit(url, f"text {place // 2} {run}", outcome=outcome))
        desk.add(f"{base}waiting{run}")
        result = desk.seal()

        assert sum(result.counts.values()) == desk.value("SELECT count(*) FROM record")
        assert result.counts == Counter(words(desk, clones=True).values())
        stored = desk.value("SELECT counts FROM run WHERE no = ?", (run + 1,))
        assert json.loads(stored) == result.counts
        seen |= result.counts.keys()
        desk.open()
    assert seen >= {"orphaned", "lost", "failed", "redirected", "excluded", "skipped", "deleted"}


def test_counts_add_up_after_an_interrupted_run_too(desk: Desk):
    """What only that run reached has no word of its own, and still is a record."""
    desk.index("http://a.example/", "one")
    desk.add("http://a.example/waiting")
    desk.open()  # a new run instead of the interrupted one
    desk.reach("http://a.example/")
    desk.write(touched=[1])

    result = desk.seal()

    assert sum(result.counts.values()) == 2


def test_the_result_is_what_the_batches_counted(desk: Desk):
    desk.index("http://a.example/a", "one")
    desk.index("http://a.example/b", "two")

    result = desk.seal(now=LATER)

    assert (result.visits, result.requests, result.complete) == (2, 2, True)
    assert (result.started_at, result.finished_at) == (NOW, LATER)
    assert result.counts == {"new": 2}


def test_pending_is_what_was_reached_and_not_visited(desk: Desk):
    desk.index("http://a.example/a", "one")
    desk.add("http://a.example/deep", depth=2)
    desk.add("http://a.example/b", depth=1)

    assert list(desk.readers.progress.pending(1)) == [(3, 1), (2, 2)]
    assert list(desk.readers.progress.visited(1)) == [(1, 0)]
    assert runs.count_run_rows(desk.connection, 1) == (1, 0, 2)


# Seeds


def seed_with_redirects(desk: Desk, hops: int, status: int) -> list[str]:
    """A seed that redirects so often: the addresses, of which the last one is not visited."""
    urls = [f"http://a.example/{hop}" for hop in range(hops + 1)]
    numbers = desk.add(*urls)
    runs.add_seed_rows(desk.connection, 1, numbers[:1])
    for hop in range(hops):
        to = desk.visit(urls[hop], outcome=Outcome.REDIRECT, status=status, location=urls[hop + 1])
        to.parsed.targets = numbers[hop + 1].to_bytes(4, "little")
        desk.write(to)
    return urls


@pytest.mark.parametrize(
    ("hops", "end", "failed"),
    [
        (0, 200, False),
        (0, 304, False),
        (0, 404, True),
        (0, 406, True),
        (0, None, True),
        (1, 200, False),
        (5, 200, False),
        (6, 200, True),
        (1, 500, True),
    ],
)
def test_a_seed_answers_when_its_redirects_end_in_200_or_304(
    desk: Desk, hops: int, end: int | None, failed: bool
):
    urls = seed_with_redirects(desk, hops, 301)
    if end is not None:
        outcome = Outcome.CHANGED if end == 304 else outcome_of_http_status(end, conditional=True)
        desk.write(desk.visit(urls[-1], "words", outcome=outcome, status=end))

    told = f"{urls[0]} (redirected to {urls[1]})" if hops else urls[0]
    assert runs.failed_seed_rows(desk.connection, 1) == ((told,) if failed else ())


REFUSED = "its address is not public: permit its network with ALLOW_NETWORKS"


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (1109, REFUSED, f"1109: {REFUSED}"),
        (1102, "connection refused", "1102: connection refused"),
        (1000, "the response is not HTTP", "1000: the response is not HTTP"),
        (999, "HTTP status 999", "HTTP status 999"),
        (404, "HTTP status 404", "HTTP status 404"),
    ],
)
@pytest.mark.parametrize("hops", [0, 1, 3])
def test_a_failed_seed_has_the_number_and_the_reason_of_its_end(
    desk: Desk, hops: int, status: int, error: str, words: str
):
    urls = seed_with_redirects(desk, hops, 302)
    outcome = Outcome.NOT_FOUND if status == 404 else Outcome.UNREACHABLE
    desk.write(desk.visit(urls[-1], outcome=outcome, status=status, error=error))

    way = f"redirected to {urls[1]}: " if hops else ""
    assert runs.failed_seed_rows(desk.connection, 1) == (f"{urls[0]} ({way}{words})",)


def test_an_excluded_seed_has_no_number_of_an_earlier_failure(desk: Desk):
    url = "http://a.example/"
    [number] = desk.add(url)
    desk.write(desk.visit(url, outcome=Outcome.UNREACHABLE, status=1102, error="refused"))
    desk.seal()
    run = desk.open()
    desk.reach(url)
    desk.write(desk.visit(url, outcome=Outcome.EXCLUDED, status=None, error="disallowed"))
    runs.add_seed_rows(desk.connection, run.no, [number])

    assert runs.failed_seed_rows(desk.connection, run.no) == (f"{url} (disallowed)",)


def test_the_reason_of_a_failed_seed_is_none_of_an_earlier_run(desk: Desk):
    seed, end = "http://a.example/", "http://a.example/end"
    number, target = desk.add(seed, end)
    desk.write(desk.visit(end, outcome=Outcome.UNREACHABLE, status=1109, error=REFUSED))
    desk.seal()
    run = desk.open()
    desk.reach(seed)
    visit = desk.visit(seed, outcome=Outcome.REDIRECT, status=302, location=end)
    visit.parsed.targets = target.to_bytes(4, "little")
    desk.write(visit)
    runs.add_seed_rows(desk.connection, run.no, [number])

    assert runs.failed_seed_rows(desk.connection, run.no) == (f"{seed} (redirected to {end})",)


def test_a_seed_that_redirects_out_of_scope_or_in_a_circle_has_failed(desk: Desk):
    a, b, out = desk.add("http://a.example/a", "http://a.example/b", "http://a.example/out")
    for url, target in (("a", b), ("b", a)):
        visit = desk.visit(f"http://a.example/{url}", outcome=Outcome.REDIRECT, status=302)
        visit.parsed.targets = target.to_bytes(4, "little")
        desk.write(visit)
    desk.write(desk.visit("http://a.example/out", outcome=Outcome.REDIRECT, status=302))
    runs.add_seed_rows(desk.connection, 1, [a, out, a])

    assert runs.failed_seed_rows(desk.connection, 1) == (
        "http://a.example/a",
        "http://a.example/out",
    )


def test_a_seed_that_answered_in_an_earlier_run_only_has_failed(desk: Desk):
    number = desk.index("http://a.example/", "words")
    desk.seal()
    run = desk.open()
    runs.add_seed_rows(desk.connection, run.no, [number])

    assert runs.failed_seed_rows(desk.connection, run.no) == ("http://a.example/",)


def moved(status: int, name: str) -> dict[str, Any]:
    location = f"http://a.example/{name}"
    return {"outcome": Outcome.REDIRECT, "status": status, "location": location}


@pytest.mark.parametrize(
    ("visit", "failed"),
    [
        ({"outcome": Outcome.NOT_FOUND, "status": 404}, False),
        ({"outcome": Outcome.HTTP_ERROR, "status": 410}, False),
        ({"outcome": Outcome.HTTP_ERROR, "status": 403}, True),
        ({"outcome": Outcome.TRANSIENT, "status": 503}, True),
        ({"outcome": Outcome.UNREACHABLE, "status": 1103}, True),
        (
            {"outcome": Outcome.REDIRECT, "status": 302, "location": "http://a.example/Front/"},
            False,
        ),
        (moved(301, "front"), False),
        (moved(302, "login"), True),
        ({"outcome": Outcome.EXCLUDED, "error": "disallowed"}, False),
    ],
)
def test_an_optional_seed_may_answer_that_there_is_none(
    desk: Desk, visit: dict[str, Any], failed: bool
):
    url, front = "http://a.example/wiki", "http://a.example/front"
    [number] = desk.add(url)
    runs.add_seed_rows(desk.connection, 1, [number])
    desk.write(desk.visit(url, **visit))

    assert len(runs.failed_seed_rows(desk.connection, 1)) == 1
    found = runs.failed_seed_rows(desk.connection, 1, optional={url: front})
    assert bool(found) is failed
    other = runs.failed_seed_rows(desk.connection, 1, optional={front: front})
    assert len(other) == 1


def test_an_optional_seed_that_was_not_asked_or_is_newly_forbidden_has_failed(desk: Desk):
    url, optional = "http://a.example/wiki", {"http://a.example/wiki": "http://a.example/front"}
    number = desk.index(url, "words")
    desk.seal()
    desk.open()
    desk.reach(url)
    desk.write(desk.visit(url, outcome=Outcome.NOT_FOUND, status=404))
    desk.seal()
    run = desk.open()
    runs.add_seed_rows(desk.connection, run.no, [number])
    assert len(runs.failed_seed_rows(desk.connection, run.no, optional=optional)) == 1
    desk.reach(url)
    desk.write(desk.visit(url, outcome=Outcome.EXCLUDED, error="disallowed"))
    assert len(runs.failed_seed_rows(desk.connection, run.no, optional=optional)) == 1


# Numbers of addresses


@pytest.mark.covers("M-17")
def test_two_registries_on_one_file_never_give_one_number_twice(file: Path):
    first, second = open_registry(file, EMBEDDED), open_registry(file, EMBEDDED)
    given = [first.numbers.draw(), second.numbers.draw(), first.numbers.draw()]
    given += [second.numbers.draw() for _ in range(5_000)]
    first.numbers.give_back()
    given += [first.numbers.draw() for _ in range(5_000)]
    second.numbers.give_back()
    first.numbers.give_back()
    given += [first.numbers.draw(), second.numbers.draw()]

    assert len(set(given)) == len(given)
    assert min(given) == 1
    first.close()
    second.close()


def test_numbers_that_were_not_used_are_given_back(file: Path):
    registry = open_registry(file, EMBEDDED)
    assert [registry.numbers.draw() for _ in range(3)] == [1, 2, 3]

    registry.numbers.give_back()

    assert registry.readers(1).pages.last_number() == 3
    assert registry.numbers.draw() == 4
    registry.close()


def test_a_number_that_was_used_is_not_drawn_again_after_the_others_were_given_back(file: Path):
    registry = open_registry(file, EMBEDDED)
    assert [registry.numbers.draw() for _ in range(3)] == [1, 2, 3]
    registry.numbers.give_back()
    with contextlib.closing(sqlite3.connect(file)) as other, other:
        other.execute("UPDATE sequence SET value = 2 WHERE name = 'address'")

    with pytest.raises(CommitsLostError, match="the database lost the last commits"):
        registry.numbers.draw()

    registry.close()


def test_nothing_is_given_back_when_somebody_drew_meanwhile(file: Path):
    first, second = open_registry(file, EMBEDDED), open_registry(file, EMBEDDED)
    first.numbers.draw()
    number = second.numbers.draw()

    first.numbers.give_back()

    assert second.readers(1).pages.last_number() >= number
    assert first.numbers.draw() > number
    first.close()
    second.close()


def test_giving_back_without_having_drawn_changes_nothing(file: Path):
    registry = open_registry(file, EMBEDDED)

    registry.numbers.give_back()

    assert registry.numbers.draw() == 1
    registry.close()


def test_fingerprints_have_one_number_each(file: Path):
    registry = open_registry(file, EMBEDDED)

    numbers = [registry.fingerprint(value) for value in (b"a", b"b", b"a")]

    assert numbers[0] == numbers[2] != numbers[1]
    assert 0 not in numbers, "0 stands for none"
    registry.close()


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault >= Fault.SNAPSHOT])
def test_answers_that_were_not_taken_for_the_page_are_noted(desk: Desk, fault: Fault):
    """One note a fault, with the number of pages and the first of them; SNAPSHOT is no answer."""
    places = [f"https://contoso.com/{n}" for n in range(3)]
    desk.add(*places)
    desk.write(*(desk.visit(url, outcome=fault.outcome, status=fault) for url in places[:2]))
    desk.write(desk.visit(places[2], outcome=Outcome.HTTP_ERROR, status=403))

    desk.seal()

    (notes,) = desk.rows("SELECT notes FROM run")[0]
    wanted = [f"{fault.name.lower()}: 2 pages, such as {places[0]}"]
    assert json.loads(notes) == ([] if fault is Fault.SNAPSHOT else wanted)

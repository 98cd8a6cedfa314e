"""A run that is paused or cancelled by order while a server hangs: it ends, and nothing is lost."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from smartcrawl.rules.model import RunOrder, RunState
from tests.crawls.commands import Crawl, Result, Running, readers_of, wait_until
from tests.crawls.orders import (
    CANCEL,
    HANGING,
    MOST_SECONDS,
    PAUSE,
    SLOW,
    ages,
    asked,
    hang,
    held_leases,
    order,
    state,
    visited,
    wait_until_it_hangs,
)
from tests.extract.made_documents import pdf
from tests.index.embedding.embeddings_server import Asked, EmbeddingsServer, embeddings_server
from tests.openai_server import KEY, Reply, error
from tests.raw_site import RawSite, whole

pytestmark = [pytest.mark.long(but=3), pytest.mark.alone]


@pytest.fixture
def raw() -> Iterator[RawSite]:
    with RawSite() as site:
        yield site


def ended(running: Running, since: float) -> Result:
    """Wait for the end of a crawl that was ordered to end."""
    result = running.end()
    assert time.monotonic() - since < MOST_SECONDS, "it waited for the server that hangs"
    assert result.status == 3, result
    assert "Traceback" not in result.err, result
    return result


def paused(crawl: Crawl, site: RawSite, **settings: object) -> Result:
    """Start a crawl, and pause it while it waits for the pages that hang."""
    hang(site)
    with crawl.start(site.url(), settings={**SLOW, **settings}) as running:
        wait_until_it_hangs(site, running)
        before = len(site.log)
        run = max(no for (no,) in crawl.rows("SELECT no FROM run"))
        since = time.monotonic()
        assert order(crawl, PAUSE, run)
        result = ended(running, since)
    assert len(site.log) == before, "something was asked after the order"
    assert held_leases(crawl) == []
    return result


def check_pages(crawl: Crawl, site: RawSite, run: int, *, lane: bool = False) -> None:
    """What was answered is visited; the rest is pending, and no failure was counted.

    In the lane an answer counts when its connection proves clean: not on one that hangs.
    """
    answered = set(asked(site)) - set(HANGING)
    found = visited(crawl, run)
    assert found < answered if lane else found == answered
    assert len(answered) == 9, "'/', and what comes before the second page that hangs"
    failures = crawl.rows("SELECT count(*) FROM state WHERE error_count > 0 OR http_status > 999")
    assert failures == [(0,)]
    assert crawl.rows(f"SELECT visits FROM run WHERE no = {run}") == [(len(found),)]


def check_resumed(crawl: Crawl, site: RawSite, run: int) -> None:
    """The resumed run asks what is left, each page once, and sees everything."""
    before = visited(crawl, run)
    site.restore()

    crawl(site.url(), resume=1)

    assert asked(site) == dict.fromkeys(set(site.paths) - before, 1)
    assert state(crawl, run) == (RunState.SWEPT, "[]", True, None)
    assert visited(crawl, run) == {"/", *site.paths}
    assert crawl.rows("SELECT removed FROM run ORDER BY no DESC LIMIT 1") == [(0,)]
    assert crawl.counts_add_up()


@pytest.mark.covers("RD-21")
def test_a_run_is_paused_while_the_server_hangs_and_resumed_where_it_was(
    crawl: Crawl, raw: RawSite
):
    result = paused(crawl, raw)

    assert state(crawl) == (RunState.INTERRUPTED, '["paused"]', False, "pause")
    assert "resume=1" in result.out
    check_pages(crawl, raw, 1)
    check_resumed(crawl, raw, 1)
    assert len(crawl.runs()) == 1


@pytest.mark.covers("RD-21")
def test_a_run_that_is_paused_while_it_is_set_up_asks_nothing(crawl: Crawl, raw: RawSite):
    crawl.environment["ARRANGED_BY"] = "tests.crawls.ordered_at_start"
    result = crawl(raw.url(), expect=3)
    del crawl.environment["ARRANGED_BY"]

    assert raw.log == [], result
    assert "Spider closed (paused)" in result.err
    assert state(crawl) == (RunState.INTERRUPTED, '["paused"]', False, "pause")
    assert held_leases(crawl) == []
    crawl(raw.url(), resume=1)
    assert asked(raw) == dict.fromkeys(["/", *raw.paths], 1)
    assert state(crawl) == (RunState.SWEPT, "[]", True, None)


@pytest.mark.parametrize("lane", ["auto", "off"])
def test_a_refresh_is_paused_in_the_lane_and_in_the_engine(crawl: Crawl, raw: RawSite, lane: str):
    crawl(raw.url())
    before = ages(crawl)
    raw.restore()

    paused(crawl, raw, REVALIDATION_LANE=lane)

    assert state(crawl, 2) == (RunState.INTERRUPTED, '["paused"]', False, "pause")
    check_pages(crawl, raw, 2, lane=lane == "auto")
    assert ages(crawl) == before
    check_resumed(crawl, raw, 2)
    assert ages(crawl) == before


def test_requests_that_wait_for_their_host_are_not_sent_after_the_order(crawl: Crawl, raw: RawSite):
    with crawl.start(raw.url(), settings={"DOWNLOAD_DELAY": "2"}) as running:
        wait_until(lambda: raw.count("/0"), "the second page is asked")
        before = len(raw.log)
        since = time.monotonic()
        assert order(crawl, PAUSE)
        ended(running, since)
    assert len(raw.log) - before <= 1, "at most one between the order and the look"
    assert visited(crawl) == set(asked(raw))


@pytest.mark.parametrize("path", ["/robots.txt", "/"])
def test_a_robots_txt_or_seed_that_hangs_says_nothing_about_its_host(
    crawl: Crawl, raw: RawSite, path: str
):
    hang(raw, path)
    with crawl.start(raw.url(), settings=SLOW) as running:
        wait_until(lambda: raw.count(path), "it is asked")
        since = time.monotonic()
        assert order(crawl, PAUSE)
        ended(running, since)

    assert visited(crawl) == set()
    assert crawl.rows("SELECT cut FROM run") == [("{}",)], "no reason against a later seal"
    raw.restore()
    crawl(raw.url(), resume=1)
    assert state(crawl) == (RunState.SWEPT, "[]", True, None)


def test_a_document_that_is_being_read_does_not_hold_the_end(
    crawl: Crawl, raw: RawSite, tmp_path: Path
):
    """The process that reads it stands still; its page stays pending."""
    raw.paths = ["/0", "/1"]
    raw.scripts["/1"] = lambda _: (whole(pdf("words"), "Content-Type: application/pdf"),)
    crawl.environment["EXTRACT_CPU_SECONDS"] = "60"
    with crawl.start(raw.url(), settings=SLOW) as running:
        child = wait_for_reader(running.pid)
        os.kill(child, signal.SIGSTOP)
        wait_until(lambda: raw.count("/1"), "the document is asked")
        since = time.monotonic()
        assert order(crawl, PAUSE)
        ended(running, since)
    assert "/1" not in visited(crawl)
    crawl(raw.url(), resume=1)
    assert visited(crawl) == {"/", "/0", "/1"}


@pytest.fixture
def embedder(crawl: Crawl) -> Iterator[EmbeddingsServer]:
    """The embedder of the crawls of a test; a call that waited for it would take a minute."""
    with embeddings_server() as server:
        crawl.environment |= server.settings | {"OPENAI_API_KEY": KEY}
        yield server


@pytest.mark.covers("RD-21")
@pytest.mark.sqlite
def test_an_embedder_that_hangs_does_not_hold_the_end(
    crawl: Crawl, raw: RawSite, embedder: EmbeddingsServer
):
    """The batch that waits for it is stored without vectors."""
    goes_on = Event()

    def hung(asked: Asked) -> Reply | None:
        goes_on.wait(60)
        return None

    embedder.answer = hung
    hang(raw)
    settings = {**SLOW, "EMBEDDING_TIMEOUT_SECONDS": "60"}
    with crawl.start(raw.url(), settings=settings) as running:
        wait_until_it_hangs(raw, running)
        wait_until(lambda: embedder.asked, "the embedder is asked")
        since = time.monotonic()
        assert order(crawl, PAUSE)
        result = ended(running, since)
    goes_on.set()

    assert len(embedder.asked) == 1, "something was asked after the order"
    assert held_leases(crawl) == []
    assert state(crawl) == (RunState.INTERRUPTED, '["paused"]', False, "pause"), result
    check_pages(crawl, raw, 1)
    check_resumed(crawl, raw, 1)
    assert crawl.runs()[0]["owed"] == 0


@pytest.mark.covers("RD-21")
@pytest.mark.sqlite
@pytest.mark.parametrize("what", [PAUSE, CANCEL])
def test_a_run_that_is_ordered_to_end_pays_no_debts(
    crawl: Crawl, raw: RawSite, embedder: EmbeddingsServer, what: RunOrder
):
    embedder.answer = lambda asked: error("busy", 503)
    settings = {"DOWNLOAD_DELAY": "0.5", "EMBEDDING_WAIT_SECONDS": "1"}  # nothing is dropped
    with crawl.start(raw.url(), settings=settings) as running:
        running.until_it_says("pages are stored without vectors for now")
        embedder.answer = lambda asked: None
        embedder.asked.clear()
        since = time.monotonic()
        assert order(crawl, what)
        ended(running, since)

    assert embedder.asked == []
    assert held_leases(crawl) == []


def wait_for_reader(pid: int) -> int:
    """Return the process that reads documents, as soon as it runs its own program."""
    wait_until(lambda: readers_of(pid), "a process reads the document")
    return readers_of(pid)[0]


@pytest.mark.covers("RD-21", "RD-07")
def test_a_cancelled_run_is_not_resumed_and_nothing_is_removed_or_lost(crawl: Crawl, raw: RawSite):
    crawl.environment |= {"LOST_THRESHOLD": "1", "ORPHAN_THRESHOLD": "1"}
    crawl(raw.url())
    before, stored = ages(crawl), crawl.stored()
    raw.restore()
    hang(raw)
    with crawl.start(raw.url(), settings={**SLOW, "REVALIDATION_LANE": "auto"}) as running:
        wait_until_it_hangs(raw, running)
        since = time.monotonic()
        assert order(crawl, CANCEL, 2)
        result = ended(running, since)

    assert "cancelled" in result.out
    assert state(crawl, 2) == (RunState.CANCELLED, '["cancelled"]', False, "cancel")
    check_pages(crawl, raw, 2, lane=True)
    assert (ages(crawl), crawl.stored()) == (before, stored)
    raw.restore()

    crawl(raw.url(), resume=1)

    assert asked(raw) == dict.fromkeys(["/", *raw.paths], 1), "a new run"
    assert state(crawl, 2)[0] == RunState.CANCELLED
    assert state(crawl, 3) == (RunState.SWEPT, "[]", True, None)
    assert (ages(crawl), crawl.stored()) == (before, stored)


def test_a_paused_run_can_be_cancelled_for_good(crawl: Crawl, raw: RawSite):
    paused(crawl, raw)

    assert not order(crawl, PAUSE), "it is paused already"
    assert order(crawl, CANCEL)

    assert state(crawl) == (RunState.CANCELLED, '["cancelled"]', False, "cancel")
    raw.restore()
    crawl(raw.url())
    assert state(crawl, 2) == (RunState.SWEPT, "[]", True, None)


def test_a_paused_source_is_refused_without_resume_and_the_others_go_on(crawl: Crawl, raw: RawSite):
    with RawSite(2) as other:
        crawl.declare(
            f'[sources.one]\nseeds = ["{raw.url()}"]\n[sources.two]\nseeds = ["{other.url()}"]\n'
        )
        hang(raw)
        with crawl.start(source="one", settings=SLOW) as running:
            wait_until_it_hangs(raw, running)
            assert order(crawl, PAUSE)
            running.end()
        raw.restore()

        result = crawl(expect=4)

        assert "run 1 of one is paused since 20" in result.err
        assert "-a resume=1 goes on with it" in result.err
        assert asked(raw) == {}
        assert set(asked(other)) == {"/", *other.paths}
        due = crawl.run("due", "--source", "one", expect=4)
        assert "run 1 of one is paused" in due.err
        assert crawl.rows("SELECT count(*) FROM run") == [(2,)], "nothing was opened"
        assert state(crawl)[3] == "pause"


def test_a_process_killed_after_the_order_leaves_a_paused_run(crawl: Crawl, raw: RawSite):
    hang(raw)
    with crawl.start(raw.url(), settings=SLOW) as running:
        wait_until_it_hangs(raw, running)
        assert order(crawl, PAUSE)
        os.kill(running.pid, signal.SIGKILL)
        running.end()
    crawl.bury()
    assert state(crawl)[3] == "pause"
    raw.restore()

    refused = crawl(raw.url(), expect=4)

    assert "is paused since" in refused.err
    assert asked(raw) == {}
    before = visited(crawl)
    crawl(raw.url(), resume=1)
    assert not before & set(asked(raw))
    assert set(asked(raw).values()) == {1}
    assert state(crawl) == (RunState.SWEPT, "[]", True, None)
    assert crawl.rows("SELECT count(*) FROM run") == [(1,)]


@pytest.mark.parametrize("what", [PAUSE, CANCEL])
def test_a_restarted_process_of_the_same_job_does_nothing(crawl: Crawl, raw: RawSite, what: object):
    hang(raw)
    with crawl.start(raw.url(), settings=SLOW, job="nightly") as running:
        wait_until_it_hangs(raw, running)
        assert order(crawl, PAUSE if what is PAUSE else CANCEL)
        running.end()
    raw.restore()
    before = state(crawl)

    result = crawl(raw.url(), job="nightly")

    words = "is paused; continue with -a resume=1" if what is PAUSE else "was cancelled"
    assert words in result.err
    assert asked(raw) == {}
    assert state(crawl) == before
    assert crawl.rows("SELECT count(*) FROM run") == [(1,)]


@pytest.mark.parametrize(
    ("place", "taken"),
    [("propose_unreached_rows", True), ("seal_run_row", True), ("settle_sealed_row", False),
     ("sweep_candidate_rows", False)],
)  # fmt: skip
def test_an_order_at_the_end_counts_until_the_seal(
    crawl: Crawl, raw: RawSite, tmp_path: Path, place: str, taken: bool
):
    """The process stands still at a step when the order comes."""
    crawl.environment["LOST_THRESHOLD"] = "1"
    crawl(raw.url())
    gone = raw.paths.pop()
    before = ages(crawl)
    folder = tmp_path / "halted"
    folder.mkdir()
    environment = {"ARRANGED_BY": "tests.crawls.arranged", "HALTS_AT": f"{place} {folder / 'm'}"}
    pid = crawl.begin(raw.url(), folder=folder, environment=environment)
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "T", "it stands still")

    assert order(crawl, PAUSE, 2) is taken

    os.kill(pid, signal.SIGCONT)
    wait_until((folder / "status").is_file, "it ends")
    assert "Traceback" not in (folder / "err").read_text()
    removed = crawl.rows("SELECT removed FROM run WHERE no = 2")
    if taken:
        assert state(crawl, 2) == (RunState.INTERRUPTED, '["paused"]', False, "pause")
        found = [row for row in ages(crawl) if not str(row[0]).endswith(gone)]
        assert found == [row for row in before if not str(row[0]).endswith(gone)]
        assert removed == [(0,)]
        crawl(raw.url(), resume=1)
    assert state(crawl, 2) == (RunState.SWEPT, "[]", True, None)
    assert crawl.rows("SELECT removed FROM run WHERE no = 2") == [(1,)]
    assert json.loads(str(state(crawl, 2)[1])) == []

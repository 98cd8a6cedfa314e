"""The context of a run, apart from Scrapy: moved seeds, the next page, the end."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from smartcrawl import settings
from smartcrawl.engine.vectors import close_embedder_at_crawler_end
from smartcrawl.index.choice import EMBEDDED
from smartcrawl.model.documents import Document, Link, Section
from smartcrawl.model.exceptions import RegistryError, RunHeldError
from smartcrawl.model.library import SourceType
from smartcrawl.model.notify_targets import notify_targets
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, Visit, VisitAttempt
from smartcrawl.registry.registry import open_registry
from smartcrawl.registry.runs import runs
from smartcrawl.registry.runs.run_results import stored_run_result
from smartcrawl.rules.alarms import Limits
from smartcrawl.rules.model import Action, Outcome, RunState, Standing, Status, Word
from smartcrawl.rules.reindex import decide
from smartcrawl.run import opening
from smartcrawl.run.configuration import run_configuration
from smartcrawl.run.frontier import FrontierQueue, RankedFrontierQueue
from smartcrawl.run.orders import Orders
from smartcrawl.run.run import Run
from smartcrawl.run.source_hosts import known_source_hosts
from smartcrawl.sources.declared import ad_hoc_site_source
from smartcrawl.sources.files import ad_hoc_files_source
from smartcrawl.sources.sharepoint.source import SharepointSource
from smartcrawl.sources.site import SiteSource
from tests.index.meanings import Topics

NOW = 1_700_000_000
SEED, MOVED = "http://example.com/", "http://www.example.com/"


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options.of(vars(settings) | {"DATA_DIR": str(tmp_path)})


@pytest.fixture
def run(options: Options) -> Iterator[Run]:
    opened = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(), NOW)
    yield opened
    opened.close()


def asked(run: Run) -> Page:
    page = run.next_page(lambda _: True)
    assert page is not None
    return page


def redirected(run: Run, page: Page, target: str) -> None:
    """Let the answer to a page be a redirect."""
    visit = VisitAttempt(page).visit(page.url)
    visit.outcome, visit.http_status = Outcome.REDIRECT, 301
    run.seeds.move(page.no, target)
    run.links.follow_redirect(visit, target)
    visit.verdict = decide(page.state.standing, visit.outcome)
    run.batches.record(visit)


def test_the_scope_moves_with_a_seed_that_moved_to_www(run: Run):
    redirected(run, asked(run), MOVED)

    assert run.scope.hosts == {"www.example.com"}
    assert asked(run).url == MOVED
    assert run.seeds.endpoints() == [("example.com", 80)], "the server's word permits nothing"


def test_a_resumed_run_finds_the_scope_where_its_seed_moved_it(run: Run, options: Options):
    """The seed was asked before the crash and is not asked again."""
    redirected(run, asked(run), MOVED)
    run.batches.submit(NOW)
    run.close()

    again = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(resume=True), NOW + 9)

    assert again.opened.resumed
    assert again.scope.hosts == {"www.example.com"}
    assert asked(again).url == MOVED
    again.close()


def test_a_resumed_run_returns_the_memory_that_its_look_at_the_registry_took(
    run: Run, options: Options, monkeypatch: pytest.MonkeyPatch
):
    """Of a million known pages that was 33 MB, which stayed for the whole run."""
    returned: list[bool] = []
    called = "smartcrawl.run.run.return_freed_memory"
    monkeypatch.setattr(called, lambda: returned.append(True))
    run.close()

    Run.open(ad_hoc_site_source("http://other.example/", {}), options, Orders(), NOW).close()
    assert not returned
    Run.open(ad_hoc_site_source(SEED, {}), options, Orders(resume=True), NOW + 9).close()

    assert returned == [True]


@pytest.mark.parametrize(
    "target", ["http://other.example/", "https://docs.example.com/", "http://www.example.com:8000/"]
)
def test_a_seed_that_moved_elsewhere_moves_no_scope(run: Run, target: str):
    redirected(run, asked(run), target)

    assert run.scope.hosts == {"example.com"}
    assert run.next_page(lambda _: True) is None


def test_a_page_that_is_no_seed_moves_no_scope(run: Run):
    seed = asked(run)

    assert not run.seeds.move(seed.no + 1, MOVED)
    assert run.seeds.move(seed.no, MOVED)


def test_of_what_waits_in_a_limited_run_the_oldest_visit_is_asked_first():
    """The next run begins with the pages that a limited run did not reach (ADR 135)."""
    visits = {1: NOW - 10, 3: NOW - 20}
    queue = RankedFrontierQueue(lambda asked: {n: visits[n] for n in asked if n in visits})
    for number in (1, 2, 3, 4):
        queue.put(number)

    assert list(queue.take(3)) == [2, 4, 3]
    assert len(queue) == 1
    assert list(queue.take(3)) == [1]


def test_closing_twice_is_closing_once(options: Options):
    run = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(), NOW)

    run.close()
    run.close()

    Run.open(ad_hoc_site_source(SEED, {}), options, Orders(), NOW).close()


def test_a_closed_run_leaves_one_file_that_holds_everything(options: Options):
    """A copy of registry.db that is made while nothing runs is a whole backup."""
    Run.open(ad_hoc_site_source(SEED, {}), options, Orders(), NOW).close()

    assert [path.name for path in options.registry.parent.glob("registry.db*")] == ["registry.db"]


def test_a_resumed_run_follows_a_seed_that_moved_by_two_hops(options: Options):
    """http to https to www is how most sites answer."""
    first = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(), NOW)
    redirected(first, asked(first), "https://example.com/")
    redirected(first, asked(first), "https://www.example.com/")
    first.batches.submit(NOW)
    first.close()

    again = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(resume=True), NOW + 9)

    assert again.scope.hosts == {"www.example.com"}
    assert again.seeds.is_seed(asked(again).no)
    again.close()


def test_a_resumed_run_asks_no_more_pages_than_were_left(options: Options):
    first = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(max_pages=1), NOW)
    redirected(first, asked(first), "https://example.com/")
    first.batches.submit(NOW)
    first.close()

    again = Run.open(
        ad_hoc_site_source(SEED, {}), options, Orders(resume=True, max_pages=1), NOW + 9
    )

    assert again.next_page(lambda _: True) is None
    again.close()


def test_what_a_sitemap_named_before_the_seed_moved_is_asked_after_it(options: Options):
    """The two race: entries on the new host were out of scope when the sitemap was read."""
    maps = [f"{SEED}s.xml"]
    run = Run.open(ad_hoc_site_source(SEED, {}, sitemaps=maps), options, Orders(), NOW)
    seed, page = asked(run), asked(run)
    assert (page.url, page.kind) == (maps[0], 1)
    run.sitemaps_named("http://www.example.com", ["http://www.example.com/other.xml"])
    visit = VisitAttempt(page).visit(page.url)
    visit.outcome = Outcome.NOT_ACCEPTABLE
    visit.http_status = 200
    visit.parsed.document = Document()
    run.links.follow(visit, [Link(f"{MOVED}a", "", "entry", False)], same_depth=True)
    visit.verdict = decide(page.state.standing, visit.outcome)
    run.batches.record(visit)
    assert run.next_page(lambda _: True) is None
    redirected(run, seed, MOVED)

    run.ending.relax(NOW)

    left = [asked(run) for _ in range(3)]
    assert {(page.url, page.kind) for page in left} == {
        (MOVED, 0), ("http://www.example.com/other.xml", 1), (f"{MOVED}a", 0),
    }  # fmt: skip
    run.close()


def test_sitemaps_that_robots_names_are_within_the_budget(options: Options):
    """A robots.txt must not make us ask thousands of other hosts."""
    run = Run.open(ad_hoc_site_source(SEED, {}), replace(options, max_hosts=2), Orders(), NOW)

    run.sitemaps_named("http://example.com", [f"http://h{n}.example/s.xml" for n in range(9)])

    assert len(run.frontier) == 2, "the seed and one more host"
    assert run.shortcomings.as_reasons() == (
        "too_many_hosts: 8 addresses, such as http://h1.example/s.xml",
    )
    run.close()


def test_a_resumed_run_hands_on_depths_that_the_interrupted_one_could_not(options: Options):
    first = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(), NOW)
    assert first.depths.relaxed
    redirected(first, asked(first), "https://example.com/")
    first.batches.submit(NOW)
    first.close()

    again = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(resume=True), NOW + 9)

    assert not again.depths.relaxed
    again.depths.relax()
    assert again.depths.relaxed
    assert asked(again).depth == 0, "the target of a redirect lies as deep as what redirects"
    again.close()


# Visits of known pages, and removal at the end


ONE, TWO = "http://a.example/1", "http://a.example/2"
SOURCE = SiteSource(name="docs", seeds=(ONE, TWO))


def answered(
    run: Run, url: str, outcome: Outcome, status: int | None, text: str = "", *links: str
) -> Visit:
    """Let the next page, which is this one, give this answer."""
    page = asked(run)
    assert page.url == url
    visit = VisitAttempt(page).visit(page.url)
    visit.outcome, visit.http_status, visit.answer.etag = outcome, status, '"1"'
    visit.traffic.conditional = status == 304
    if outcome is Outcome.CHANGED:
        visit.parsed.document = Document(sections=(Section(0, "", text),))
        visit.parsed.body_hash = visit.parsed.text_hash = visit.parsed.content_hash = text.encode()
        run.links.follow(visit, [Link(link, "", "hyperlink", False) for link in links])
    if status == 404:
        visit.error = "HTTP status 404"
    visit.verdict = decide(page.state.standing, outcome)
    run.batches.record(visit)
    return visit


def standing(run: Run, url: str) -> tuple[object, ...]:
    """Status, standing, word, lostCount and goneCount of a page."""
    statement = """
    SELECT s.status, s.standing, s.outcome, s.lost_count, s.gone_count
      FROM state s JOIN record r USING (no) WHERE r.url = ?
    """
    return run.registry.connection.execute(statement, (url,)).fetchone()


def flushed(run: Run) -> None:
    run.batches.submit(NOW)
    run.batches.drain()


@pytest.fixture
def held(options: Options) -> Options:
    """Options of a registry in which both pages are stored."""
    run = Run.open(SOURCE, options, Orders(), NOW)
    answered(run, ONE, Outcome.CHANGED, 200, "one")
    answered(run, TWO, Outcome.CHANGED, 200, "two")
    assert run.finish("finished", NOW).complete
    return options


def test_a_304_of_a_page_that_was_lost_ends_that_and_is_no_touch_in_bulk(held: Options):
    """U-19: lost and gone counts, status and marks are cleared, and an event is recorded."""
    run = Run.open(SOURCE, held, Orders(), NOW)
    answered(run, ONE, Outcome.NOT_FOUND, 404)
    answered(run, TWO, Outcome.NOT_MODIFIED, 304)
    assert len(run.batches.batch.touched) == 1
    flushed(run)
    assert standing(run, ONE) == (Status.ERROR, Standing.HELD, Word.LOST, 1, 1)
    run.finish("finished", NOW)
    run = Run.open(SOURCE, held, Orders(), NOW + 9)

    found = answered(run, ONE, Outcome.NOT_MODIFIED, 304)

    assert found.action is Action.TOUCH
    assert not run.batches.batch.touched
    flushed(run)
    assert standing(run, ONE) == (Status.INDEXED, Standing.HELD, Word.UNCHANGED, 0, 0)
    events = run.registry.connection.execute("SELECT run, status FROM event").fetchall()
    assert events == [(2, Status.ERROR), (3, Status.INDEXED)]
    run.close()


def test_an_order_may_ask_for_removal_after_one_run_and_the_settings_keep_theirs(held: Options):
    """`-a lost_threshold=1` is the hard delete of R1-45 by the end of the same run."""
    for orders, gone in ((Orders(), 0), (Orders(lost_threshold=1), 1)):
        run = Run.open(SOURCE, held, orders, NOW)
        answered(run, ONE, Outcome.NOT_FOUND, 404)
        answered(run, TWO, Outcome.NOT_MODIFIED, 304)

        result = run.finish("finished", NOW)

        assert (result.removed, result.withheld, result.notes) == (gone, 0, ())
        assert result.counts == {"unchanged": 1, "gone" if gone else "lost": 1}
    assert held.policy.lost_threshold == 3


@pytest.mark.covers("R1-08")
def test_who_watches_is_told_what_the_sweep_removes(held: Options):
    run = Run.open(SOURCE, held, Orders(lost_threshold=1), NOW)
    number = answered(run, ONE, Outcome.NOT_FOUND, 404).page.no
    events: list[dict[str, object]] = []
    run.watcher = events.append

    run.finish("finished", NOW)

    assert events == [
        {
            "url": ONE,
            "pageId": number,
            "depth": 0,
            "status": 404,
            "outcome": "gone",
            "deleted": True,
        }
    ]


@pytest.mark.parametrize("reason", ["shutdown", "commit_failed"])
def test_a_run_that_did_not_end_by_itself_removes_nothing(held: Options, reason: str):
    """ADR 131: not even pages with direct evidence against them."""
    run = Run.open(SOURCE, held, Orders(lost_threshold=1), NOW)
    answered(run, ONE, Outcome.NOT_FOUND, 404)
    flushed(run)
    if reason == "commit_failed":
        run.failure = RegistryError("no space left")

    result = run.finish(reason, NOW)

    assert (result.complete, result.removed) == (False, 0)
    registry = open_registry(held.registry, EMBEDDED)
    states = registry.connection.execute("SELECT state FROM run ORDER BY no").fetchall()
    assert states == [(RunState.SWEPT,), (RunState.INTERRUPTED,)]
    assert registry.connection.execute("SELECT count(*) FROM evidence").get == 0
    assert registry.connection.execute("SELECT count(*) FROM candidate").get == 0
    registry.close()


def test_the_next_start_sweeps_what_a_dead_process_left_sealed(held: Options):
    run = Run.open(SOURCE, held, Orders(lost_threshold=1), NOW)
    answered(run, ONE, Outcome.NOT_FOUND, 404)
    answered(run, TWO, Outcome.NOT_MODIFIED, 304)
    flushed(run)
    runs.seal_run_row(run.registry.connection, run.opened.no, (), NOW)
    run.close()

    again = Run.open(SOURCE, held, Orders(lost_threshold=1, resume=True), NOW + 9)

    assert (again.opened.no, again.opened.resumed) == (3, False)
    assert stored_run_result(again.registry.connection, 2).counts == {
        "unchanged": 1,
        "gone": 1,
    }
    assert standing(again, ONE) == (Status.GONE, Standing.BARE, Word.GONE, 0, 0)
    again.close()


# Resumed runs


@pytest.mark.covers("U-15")
def test_a_resumed_run_does_not_follow_the_links_of_what_it_may_not_ask(options: Options):
    """ADR 131: an excluded page has no links in force."""
    child = "http://a.example/child"
    run = Run.open(SOURCE, options, Orders(), NOW)
    answered(run, ONE, Outcome.CHANGED, 200, "one", child)
    answered(run, TWO, Outcome.CHANGED, 200, "two")
    answered(run, child, Outcome.CHANGED, 200, "child")
    assert run.finish("finished", NOW).complete
    run = Run.open(SOURCE, options, Orders(), NOW)
    answered(run, ONE, Outcome.EXCLUDED, None)  # by robots.txt, and then the process dies
    flushed(run)
    run.close()

    run = Run.open(SOURCE, options, Orders(resume=True), NOW)
    answered(run, TWO, Outcome.NOT_MODIFIED, 304)
    run.depths.relax()

    assert run.next_page(lambda _: True) is None
    run.close()


@pytest.fixture
def moved(options: Options) -> Options:
    """Options of a registry in which a seed moved its scope to www, where two pages are stored."""
    run = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(), NOW)
    redirected(run, asked(run), MOVED)
    answered(run, MOVED, Outcome.CHANGED, 200, "home", f"{MOVED}a")
    answered(run, f"{MOVED}a", Outcome.CHANGED, 200, "a")
    result = run.finish("finished", NOW)
    assert (result.complete, result.counts) == (True, {"redirected": 1, "new": 2})
    return options


@pytest.mark.parametrize("policy", ["orphan", "remove"])
def test_a_seed_that_moved_before_and_fails_now_excludes_nobody(moved: Options, policy: str):
    options = replace(moved, out_of_scope_policy=policy, sweep_max_ratio=1)
    run = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(), NOW)
    answered(run, SEED, Outcome.TRANSIENT, 503)

    result = run.finish("finished", NOW)

    assert (result.complete, result.removed) == (False, 0)
    assert result.counts == {"failed": 1, "orphaned": 2}


@pytest.mark.parametrize("policy", ["orphan", "remove"])
def test_a_run_that_moved_and_died_sealed_is_settled_where_it_moved_to(moved: Options, policy: str):
    options = replace(moved, out_of_scope_policy=policy, sweep_max_ratio=1)
    run = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(), NOW)
    redirected(run, asked(run), MOVED)
    answered(run, MOVED, Outcome.CHANGED, 200, "home without a link")
    flushed(run)
    runs.seal_run_row(run.registry.connection, run.opened.no, (), NOW)
    run.close()

    again = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(), NOW)

    result = stored_run_result(again.registry.connection, 2)
    assert (result.removed, result.counts) == (0, {"redirected": 1, "modified": 1, "orphaned": 1})
    again.close()


def test_what_is_given_up_with_its_store_is_counted(run: Run, caplog: pytest.LogCaptureFixture):
    queue = FrontierQueue()
    for number in range(7):
        queue.put(number)
    run.extractions.again = queue
    run.stored_pages._unread = 3

    run.extractions.unread("it is not there")
    run.extractions.unread("it is not there")

    assert run.batches.progress.unread == 2 + 7
    assert len(run.extractions.again) == 0
    assert caplog.text.count("or downloads the page if the snapshots are still away") == 1


def test_a_run_is_not_over_while_pages_wait_to_be_extracted_again_or_are(run: Run):
    assert not run.extractions.pending

    run.extractions.again.put(1)
    assert run.extractions.pending

    run.extractions.under_way = True
    run.extractions.again = FrontierQueue()
    assert run.extractions.pending


def test_the_embedder_of_a_run_is_open_until_the_run_closes_it(
    options: Options, monkeypatch: pytest.MonkeyPatch
):
    embedder = Topics()
    monkeypatch.setattr(opening, "open_embedder", lambda given: embedder)
    run = opening.open_run(ad_hoc_site_source(SEED, {}), options, Orders(), NOW)
    run.close()
    assert run.batches.embedder is embedder
    assert not embedder.closed  # its end pays debts

    close_embedder_at_crawler_end(run)

    assert embedder.closed


def test_a_run_that_is_not_opened_leaves_no_embedder_open(
    options: Options, monkeypatch: pytest.MonkeyPatch
):
    embedder = Topics()
    monkeypatch.setattr(opening, "open_embedder", lambda given: embedder)
    first = Run.open(ad_hoc_site_source(SEED, {}), options, Orders(), NOW)

    with pytest.raises(RunHeldError):
        opening.open_run(ad_hoc_site_source(SEED, {}), options, Orders(), NOW)

    first.close()
    assert embedder.closed


@pytest.mark.parametrize(
    ("resumed", "joined", "measured"),
    [(False, False, True), (True, False, False), (False, True, False), (True, True, False)],
)
def test_the_seconds_of_a_run_are_measured_where_this_process_has_all_of_it(
    resumed: bool, joined: bool, measured: bool
):
    closed: list[bool] = []
    run: Any = SimpleNamespace(
        _flush=lambda now: None, _ended=lambda reason, now: None, library=None, seconds=None,
        opened=SimpleNamespace(resumed=resumed, joined=joined), _began=time.monotonic() - 5,
        close=lambda: closed.append(True),
    )  # fmt: skip

    Run.finish(run, "finished", 1_700_000_000)

    assert run.seconds == (5 if measured else None)
    assert closed == [True]


def test_a_run_is_notified_of_once_by_the_process_that_closes_it(run: Run):
    """A process may find its run closed, and close it again."""
    notified: list[int] = []
    run.registry.notify = lambda _, number, now: notified.append(number)
    for _ in range(2):
        run.registry.interrupt(run.opened, ("interrupted",), NOW)

    assert notified == [run.opened.no]


def test_the_hosts_of_a_source_are_those_of_its_starts_its_scope_and_its_stored_pages(
    run: Run, options: Options
):
    source = ad_hoc_site_source("http://docs.example.com:8080/", {})
    assert known_source_hosts(source, options, None) == {"docs.example.com:8080"}
    renamed = source.model_copy(update={"name": run.source.name})
    stored = known_source_hosts(renamed, options, run.registry.connection)
    assert stored == {"docs.example.com:8080", "example.com"}


@pytest.mark.parametrize("api", ["rest", "graph"])
def test_libraries_share_the_host_of_their_site_and_of_the_api(
    options: Options, tmp_path: Path, api: Literal["rest", "graph"]
):
    sharepoint = replace(options.sharepoint, api=api)
    source = SharepointSource(
        name="d.docs",
        domain="d",
        source_id="docs",
        source_type=SourceType.FILES,
        site_url="https://contoso.sharepoint.com/sites/a",
        url_part="/Shared Documents",
        storage=tmp_path,
    )

    hosts = known_source_hosts(source, replace(options, sharepoint=sharepoint), None)

    graph = {"graph.microsoft.com"} if api == "graph" else set()
    assert hosts == {"contoso.sharepoint.com"} | graph


def test_folders_never_wait_for_each_other(run: Run, options: Options):
    """Stored files have ``file`` in place of a host, in all folders."""
    folder = ad_hoc_files_source("/srv/docs").model_copy(update={"name": run.source.name})

    assert known_source_hosts(folder, options, run.registry.connection) == frozenset()


def test_alarms_and_notices_are_no_part_of_the_configuration(options: Options):
    """Patterns are compiled, and each process has functions of its own."""
    source = ad_hoc_site_source(SEED, {})
    before = run_configuration(source, options)
    table = {"ops": {"apprise": "OPS_APPRISE", "patterns": ["/guide/"]}}
    [target], _ = notify_targets(table, options.data_dir)
    others = replace(options, notify=(target,), limits=Limits(max_age=9, max_failed=0.5))
    watched = source.model_copy(update={"max_age": 9, "max_failed": 0.5})

    assert run_configuration(watched, others) == before
    assert run_configuration(source, replace(options, host_probes=99)) != before


@pytest.mark.parametrize("redis", [None, "redis://127.0.0.1:1/0"])
def test_a_listed_source_says_that_redis_is_not_used_only_where_it_is_set(
    redis: str | None, options: Options, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", "smartcrawl")
    source = ad_hoc_site_source(SEED, {})

    opening._open_alone(source, replace(options, redis=redis), Orders(), NOW).close()

    said = "only this process lists it; REDIS_URL is not used" in caplog.text
    assert said is (redis is not None)

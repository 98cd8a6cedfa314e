"""The context of a run, apart from Scrapy: where a seed moved, and who is asked next."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl import settings
from smartcrawl.frontier import RankedQueue
from smartcrawl.items import Attempt, Page
from smartcrawl.options import Options
from smartcrawl.rules.model import Outcome
from smartcrawl.rules.reindex import decide
from smartcrawl.run import Orders, Run
from smartcrawl.sources import ad_hoc

NOW = 1_700_000_000
SEED, MOVED = "http://example.com/", "http://www.example.com/"


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options.of(vars(settings) | {"DATA_DIR": str(tmp_path)})


@pytest.fixture
def run(options: Options) -> Iterator[Run]:
    opened = Run.open(ad_hoc(SEED, {}), options, Orders(), NOW)
    yield opened
    opened.close()


def asked(run: Run) -> Page:
    page = run.next_page(lambda _: True)
    assert page is not None
    return page


def redirected(run: Run, page: Page, target: str) -> None:
    """Let the answer to a page be a redirect."""
    visit = Attempt(page).visit(page.url)
    visit.outcome, visit.http_status = Outcome.REDIRECT, 301
    run.seed_moved(page.no, target)
    run.follow_redirect(visit, target)
    visit.verdict = decide(page.standing, visit.outcome)
    run.ledger.record(visit)


def test_the_scope_moves_with_a_seed_that_moved_to_www(run: Run):
    redirected(run, asked(run), MOVED)

    assert run.scope.hosts == {"www.example.com"}
    assert asked(run).url == MOVED
    assert ("www.example.com", 80) in run.endpoints()


def test_a_resumed_run_finds_the_scope_where_its_seed_moved_it(run: Run, options: Options):
    """The seed was asked before the crash and is not asked again."""
    redirected(run, asked(run), MOVED)
    run.ledger.submit(NOW)
    run.close()

    again = Run.open(ad_hoc(SEED, {}), options, Orders(resume=True), NOW + 9)

    assert again.opened.resumed
    assert again.scope.hosts == {"www.example.com"}
    assert asked(again).url == MOVED
    again.close()


@pytest.mark.parametrize(
    "target", ["http://other.example/", "https://docs.example.com/", "http://www.example.com:8000/"]
)
def test_a_seed_that_moved_elsewhere_moves_no_scope(run: Run, target: str):
    redirected(run, asked(run), target)

    assert run.scope.hosts == {"example.com"}
    assert run.next_page(lambda _: True) is None


def test_a_page_that_is_no_seed_moves_no_scope(run: Run):
    seed = asked(run)

    assert not run.seed_moved(seed.no + 1, MOVED)
    assert run.seed_moved(seed.no, MOVED)


def test_of_what_waits_in_a_limited_run_the_oldest_visit_is_asked_first():
    """What one run did not reach is where the next one begins (design.md 12)."""
    visits = {1: NOW - 10, 3: NOW - 20}
    queue = RankedQueue(lambda asked: {n: visits[n] for n in asked if n in visits})
    for number in (1, 2, 3, 4):
        queue.put(number)

    assert list(queue.take(3)) == [2, 4, 3]
    assert len(queue) == 1
    assert list(queue.take(3)) == [1]


def test_closing_twice_is_closing_once(options: Options):
    run = Run.open(ad_hoc(SEED, {}), options, Orders(), NOW)

    run.close()
    run.close()

    Run.open(ad_hoc(SEED, {}), options, Orders(), NOW).close()


def test_a_closed_run_leaves_one_file_that_holds_everything(options: Options):
    """Whoever copies registry.db while nothing runs has a whole backup."""
    Run.open(ad_hoc(SEED, {}), options, Orders(), NOW).close()

    assert [path.name for path in options.registry.parent.glob("registry.db*")] == ["registry.db"]


def test_a_resumed_run_follows_a_seed_that_moved_by_two_hops(options: Options):
    """http to https to www is how most sites answer."""
    first = Run.open(ad_hoc(SEED, {}), options, Orders(), NOW)
    redirected(first, asked(first), "https://example.com/")
    redirected(first, asked(first), "https://www.example.com/")
    first.ledger.submit(NOW)
    first.close()

    again = Run.open(ad_hoc(SEED, {}), options, Orders(resume=True), NOW + 9)

    assert again.scope.hosts == {"www.example.com"}
    assert again.is_seed(asked(again).no)
    again.close()


def test_a_resumed_run_asks_no_more_pages_than_were_left(options: Options):
    first = Run.open(ad_hoc(SEED, {}), options, Orders(max_pages=1), NOW)
    redirected(first, asked(first), "https://example.com/")
    first.ledger.submit(NOW)
    first.close()

    again = Run.open(ad_hoc(SEED, {}), options, Orders(resume=True, max_pages=1), NOW + 9)

    assert again.next_page(lambda _: True) is None
    again.close()


def test_a_resumed_run_hands_on_depths_that_the_interrupted_one_could_not(options: Options):
    first = Run.open(ad_hoc(SEED, {}), options, Orders(), NOW)
    assert first.relaxed
    redirected(first, asked(first), "https://example.com/")
    first.ledger.submit(NOW)
    first.close()

    again = Run.open(ad_hoc(SEED, {}), options, Orders(resume=True), NOW + 9)

    assert not again.relaxed
    again.relax()
    assert again.relaxed
    assert asked(again).depth == 0, "the target of a redirect lies as deep as what redirects"
    again.close()

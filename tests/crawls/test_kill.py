"""kill -9 at any place, resume, and nothing tells the registry from one that was never killed.

Places are before and after each begin and each commit. They are drawn with KILL_SEED (printed in
pytest's header; set it to repeat a run): on SQLite six by default, twenty more with `--all`. The
end of a run, where it looks at what it did not reach, seals, settles and sweeps, is visited step by
step: before the commit of each transaction by default, after its begin and after its commit with
`--all`. All of it is done on PostgreSQL, too, most of it with `--all`.
"""

import os
import random
import re
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from smartcrawl.rules.model import RemovalRule
from tests import servers
from tests.crawls.commands import WORDS as OUTCOMES
from tests.crawls.commands import Crawl, Scrapy, path_of
from tests.crawls.edited_site import WORDS, before, edit
from tests.crawls.killing import (
    LAST_STEPS,
    Stage,
    Undisturbed,
    Which,
    dies,
    dies_and_ends_as_if_it_never_had,
    dies_and_goes_on_in_its_job,
    dies_and_is_made_up_for_by_later_runs,
    ends_as_if_it_had_not_died_in,
    name_of,
    run,
    shape,
    state_of,
)
from tests.crawls.runner import SWEPT_AT_ONCE
from tests.site_server import Site

#: One process, whose index lies beside the registry, unless a test says otherwise.
pytestmark = [pytest.mark.alone, pytest.mark.embedded]

SEED = int(os.environ["KILL_SEED"])
_RANDOM = random.Random(SEED)
#: What, and where in it, as a share of all places it passes.
PLACES: list[tuple[Which, float]] = [
    ("refresh" if n % 2 else "first", round(_RANDOM.random(), 4)) for n in range(26)
]
#: Where a run dies that nobody resumes.
NOT_RESUMED = [round(_RANDOM.random(), 4) for _ in range(12)]
#: Where a worker dies whose run others could join.
SHARED = [round(_RANDOM.random(), 4) for _ in range(8)]
#: Steps that are taken on PostgreSQL without being asked: of the seal, the index and the sweep.
ALSO_POSTGRES = ("seal_run_row 1", "settle_sealed_row 1", "sweep_candidate_rows 2")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, ask: Scrapy) -> Iterator[Stage]:
    with Site() as site:
        before(site)
        refreshed = Crawl(tmp_path_factory.mktemp("refreshed"), ask)
        status, out = run(refreshed, site, 0)
        assert status == 0, out
        known = tmp_path_factory.mktemp("known") / "data"
        shutil.copytree(refreshed.data_dir, known)
        edit(site)
        first = Crawl(tmp_path_factory.mktemp("first"), ask)
        undisturbed = {}
        for which, crawl in (("first", first), ("refresh", refreshed)):
            status, out = run(crawl, site, 0)
            assert status == 0, out
            told = re.search(r"places: (\d+)", out)
            assert told is not None, out
            shaped = shape(crawl)
            status, out = run(crawl, site, 0)
            assert status == 0, out
            undisturbed[which] = Undisturbed(int(told[1]), shaped, shape(crawl))
        yield Stage(site, known, undisturbed)


@pytest.fixture(scope="module")
def remote(
    stage: Stage,
    postgres: servers.Postgres,
    tmp_path_factory: pytest.TempPathFactory,
    ask: Scrapy,
) -> Iterator[None]:
    """What the stage knows, in PostgreSQL: crawled from the site as it was before the edit."""
    postgres.start()  # where an earlier test has killed it
    with postgres.database() as url:
        edited, stage.site.pages = stage.site.pages, {}
        before(stage.site)
        status, out = run(Crawl(tmp_path_factory.mktemp("remote"), ask, url), stage.site, 0)
        stage.site.pages = edited
        assert status == 0, out
        stage.remote = postgres, name_of(url)
        yield


@pytest.fixture(autouse=True)
def known(stack: str, request: pytest.FixtureRequest) -> None:
    """Let the stage have what is known where the crawl of a test lies."""
    if stack == "postgres":
        request.getfixturevalue("remote")


def place_at(stage: Stage, which: Which, share: float) -> int:
    return 1 + int(share * stage.undisturbed[which].places)


def chosen(stack: str, places: Iterable[tuple[Which, float]]) -> list[Any]:
    return [
        pytest.param(
            stack, which, share, id=f"{stack}-{which} at {100 * share:.2f} % of seed {SEED}"
        )
        for which, share in places
    ]


def refreshes(stack: str, shares: list[float], by_default: int) -> list[Any]:
    return [
        pytest.param(
            stack,
            share,
            id=f"{stack}-refresh at {100 * share:.2f} % of seed {SEED}",
            marks=[] if place < by_default else [pytest.mark.long],
        )
        for place, share in enumerate(shares)
    ]


def test_the_stage_is_what_these_tests_need(stage: Stage):
    first, refresh = (stage.undisturbed[which] for which in ("first", "refresh"))
    assert first.places > 80
    assert refresh.places > 40
    assert len(first.shape["records"]) > 140
    assert all(first.shape["hits"][word] for word in WORDS)
    missing = [word for word in OUTCOMES if not refresh.shape["counts"][word]]
    assert missing == ["skipped"], "whatever can become of a page"
    assert sorted({removed[0][0] for removed in refresh.shape["evidence"].values()}) == [
        RemovalRule.GONE, RemovalRule.REDIRECT, RemovalRule.NOT_ACCEPTABLE, RemovalRule.CANONICAL,
        RemovalRule.EXCLUDED, RemovalRule.ORPHAN,
    ]  # fmt: skip
    [(removed, withheld, _)] = refresh.shape["ends"]
    counting = f"sweep_candidate_rows {removed // SWEPT_AT_ONCE + 2}"
    assert counting in LAST_STEPS, "three sweeps, and one that counts"
    assert (list(LAST_STEPS)[-2], withheld) == (counting, 0)
    assert [(url.rpartition("/")[2], *more) for url, *more in refresh.shape["candidates"]] == [
        ("child", RemovalRule.ORPHAN, 503, 0)  # its server does not speak of it
    ]
    pages = {path_of(url): record for url, record in refresh.shape["records"].items()}
    assert (pages["/shark"]["lastOutcome"], pages["/shark/copy"]["duplicateOf"]) == ("gone", None)
    assert pages["/shark/copy/2"]["duplicateOf"].endswith("/shark/copy")
    assert first.shape["evidence"], "a first crawl removes what stands aside"


@pytest.mark.covers("R1-36", "RD-01", "RD-22")
@pytest.mark.parametrize(
    ("stack", "which", "share"),
    [*chosen("sqlite", PLACES[:6]), *chosen("postgres", PLACES[:2])],
    indirect=["stack"],
)
def test_a_run_killed_anywhere_ends_as_if_it_had_not_been(
    stage: Stage, crawl: Crawl, which: Which, share: float
):
    dies_and_ends_as_if_it_never_had(stage, crawl, which, place_at(stage, which, share))


@pytest.mark.long
@pytest.mark.parametrize(
    ("stack", "which", "share"),
    [*chosen("sqlite", PLACES[6:]), *chosen("postgres", PLACES[2:])],
    indirect=["stack"],
)
def test_a_run_killed_at_many_more_places_ends_as_if_it_had_not_been(
    stage: Stage, crawl: Crawl, which: Which, share: float
):
    dies_and_ends_as_if_it_never_had(stage, crawl, which, place_at(stage, which, share))


@pytest.mark.parametrize(
    ("stack", "step", "state"),
    [
        pytest.param(
            stack,
            step,
            state,
            id=f"{stack}-{step}-{state}",
            marks=[] if stack == "sqlite" or step in ALSO_POSTGRES else [pytest.mark.long],
        )
        for stack in ("sqlite", "postgres")
        for step, state in LAST_STEPS.items()
    ],
    indirect=["stack"],
)
def test_a_run_killed_in_a_step_of_its_end_takes_each_of_them_once(
    stage: Stage, crawl: Crawl, step: str, state: str
):
    """Before the commit: the step is taken by the next start, with all that comes after it."""
    dies(stage, crawl, "refresh", 0, step=f"before the commit of {step}")
    assert state_of(crawl, 2) == state

    ends_as_if_it_had_not_died_in(stage, crawl, step)


@pytest.mark.long
@pytest.mark.parametrize("where", ["after the begin of", "after the commit of"])
@pytest.mark.parametrize("step", LAST_STEPS)
@pytest.mark.parametrize("stack", ["sqlite", "postgres"], indirect=True)
def test_a_run_killed_around_a_step_of_its_end_takes_each_of_them_once(
    stage: Stage, crawl: Crawl, step: str, where: str
):
    dies(stage, crawl, "refresh", 0, step=f"{where} {step}")

    ends_as_if_it_had_not_died_in(stage, crawl, step)


@pytest.mark.long
@pytest.mark.covers("RD-22")
@pytest.mark.parametrize(
    ("stack", "share"),
    [*refreshes("sqlite", NOT_RESUMED, 2), *refreshes("postgres", NOT_RESUMED, 0)],
    indirect=["stack"],
)
def test_a_run_killed_anywhere_is_made_up_for_by_later_runs(
    stage: Stage, crawl: Crawl, share: float
):
    place = place_at(stage, "refresh", share)
    dies_and_is_made_up_for_by_later_runs(stage, crawl, place)


@pytest.mark.parametrize(("stack", "share"), refreshes("postgres", SHARED, 1), indirect=["stack"])
def test_redis_worker_killed_anywhere_goes_on_with_the_run_of_its_job(
    stage: Stage, crawl: Crawl, redis_url: str, share: float
):
    crawl.environment["REDIS_URL"] = redis_url
    dies_and_goes_on_in_its_job(stage, crawl, place_at(stage, "refresh", share))

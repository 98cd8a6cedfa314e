"""kill -9 at any place, resume, and nothing tells the registry from one that was never killed.

Places are before and after each begin and each commit. They are drawn with KILL_SEED (printed in
pytest's header; set it to repeat a run): six by default, twenty more with `-m slow`. The end of a
run, where it looks at what it did not reach, seals, settles and sweeps, is visited step by step:
before the commit of each transaction by default, after its begin and after its commit with
`-m slow`.
"""

import json
import os
import random
import re
import shutil
import signal
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from smartcrawl.registry.pack import unpack_links
from smartcrawl.rules.model import Rule
from tests.crawls.commands import WORDS as OUTCOMES
from tests.crawls.commands import Crawl, Scrapy, differences, path_of
from tests.site_server import Page, Site, html

SEED = int(os.environ["KILL_SEED"])
_RANDOM = random.Random(SEED)
Which = Literal["first", "refresh"]
#: What, and where in it, as a share of all places it passes.
PLACES: list[tuple[Which, float]] = [
    ("refresh" if n % 2 else "first", round(_RANDOM.random(), 4)) for n in range(26)
]
#: Where a run dies that nobody resumes.
NOT_RESUMED = [round(_RANDOM.random(), 4) for _ in range(12)]
WORDS = ("page", "whale", "shark", "edited", "directory", "section 7", "deep", "fresh", "treasure")
#: What is gone, or not linked, goes in its first run.
AT_ONCE = {"LOST_THRESHOLD": "1", "ORPHAN_THRESHOLD": "1", "RETRY_TIMES": "0"}
#: Removals of one transaction: more of them than there are would leave no place to die in between.
_SWEPT_AT_ONCE = 4
#: The transactions at the end of a run by the function that makes them, each with the state in
#: which a process that dies before its commit leaves the run. The last sweep counts.
LAST_STEPS = {
    "begin_verify 1": "open", "look 1": "verifying", "seal 1": "verifying",
    "settle_sealed 1": "sealed", "sweep 1": "settled", "sweep 2": "settled", "sweep 3": "settled",
    "sweep 4": "settled", "give_back 1": "swept",
}  # fmt: skip
#: Runs before every process of a crawl: sweeps in several transactions, and death in a step of
#: the end, which no number of transactions before it moves.
_SITE = f"""
import os, signal, sys
from collections import Counter
from contextlib import contextmanager
from smartcrawl.registry import indexing, registry, runs

assert runs.BATCH > 100
runs.BATCH = {_SWEPT_AT_ONCE}
step, passed, real = os.environ.get("DIE_IN"), Counter(), runs.transaction

def die(where, name):
    if step == f"{{where}} {{name}} {{passed[name]}}":
        os.kill(os.getpid(), signal.SIGKILL)

@contextmanager
def transaction(connection):
    caller = sys._getframe(2)  # of contextlib's __enter__
    name, work = caller.f_code.co_name, caller.f_locals.get("work")
    if work is not None:  # who asked for it
        name = work.__qualname__.partition(".<locals>")[0].rpartition(".")[2]
    batch = caller.f_back.f_locals.get("batch")
    if batch is not None and batch.probes:
        name = "look"
    passed[name] += 1
    with real(connection):
        die("after the begin of", name)
        yield
        die("before the commit of", name)
    die("after the commit of", name)

if step:
    runs.transaction = registry.transaction = indexing.transaction = transaction
"""
#: Differ between a run and the same run in two parts: times.
_TIMES = {"firstSeen", "lastChecked", "lastChanged", "lastIndexed", "nextCrawlAt"}
#: Likewise in the evidence of a removal: times, and numbers of runs and pages.
_FOUND = {"since", "lastReachedRun", "canonicalNo"}
_WAS = {"last_changed", "last_indexed", "changed_run", "canonical_no", "redirect_no"}
#: Numbers of runs: a run that was resumed keeps its number, one killed at its birth may not.
_RUNS = {"reachedRun", "visitedRun"}


def before(site: Site) -> None:
    """About 150 pages with all that can happen to them."""
    clone = html("Clone", "/", text="the same whale swims by on every page of this kind " * 6)
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /forbidden\n")
    sections = [f"/s{n}/" for n in range(10)]
    site.pages["/"] = html(
        "Home", *sections, "/dir", "/moved", "/forbidden", "/deep/0", "/noindex", "/gone",
        "/shark", "/shark/copy", "/shark/copy/2", "/print", "/hides", "/private",
    )  # fmt: skip
    for n, section in enumerate(sections):
        pages = [f"{section}{k}" for k in range(10)]
        site.pages[section] = html(f"Section {n}", *pages, f"{section}missing", "/s0/0")
        for k, path in enumerate(pages):
            links = [f"/s{(n + 1) % 10}/{k}", f"{section}{(k + 3) % 10}", f"{path}/leaf"]
            site.pages[path] = clone if k == 4 else html(f"Page {n}.{k}", *links, text=f"page {k}")
        site.pages[f"{section}2/leaf"] = html(f"Leaf {n}", text=f"leaf of section {n}")
    for n in range(12):
        site.pages[f"/deep/{n}"] = html(f"Deep {n}", f"/deep/{n + 1}", text=f"deep down {n}")
    site.pages["/dir"] = Page(redirect="/dir/")
    site.pages["/dir/"] = html("Directory", "child", "/lost", text="a directory")
    site.pages["/dir/child"] = html("Child")
    site.pages["/lost"] = html("Lost", "/lost/child", text="soon forgotten page")
    site.pages["/lost/child"] = html("Lost child")
    site.pages["/moved"] = Page(redirect="/dir/child", status=302)
    site.pages["/noindex"] = html(
        "No", "/behind", head='<meta name="robots" content="noindex">', text="hidden page"
    )
    site.pages["/behind"] = html("Behind", text="page behind")
    site.pages["/gone"] = html("Gone soon", "/gone/child", text="page that goes")
    site.pages["/gone/child"] = html("Child of the gone page")
    shark = html(
        "Shark", text="one shark in every page of this group, and its fin above water " * 6
    )
    site.pages["/shark"] = site.pages["/shark/copy"] = site.pages["/shark/copy/2"] = shark
    site.pages["/print"] = alias("/s4/4")
    site.pages["/hides"] = html("Hides soon", "/hides/child", text="treasure in sight")
    site.pages["/hides/child"] = html("Child of what hides", text="treasure below")
    site.pages["/private"] = html("Private soon", "/private/child", text="treasure of everybody")
    site.pages["/private/child"] = html("Child of what is private", text="treasure behind")


def alias(canonical: str) -> str:
    """A page that stands aside for another one."""
    head = f'<link rel="canonical" href="{canonical}">'
    return html(f"Aside of {canonical}", "/print/child", text="a page to be printed", head=head)


def edit(site: Site) -> None:
    """What happens between two runs."""
    for n in range(0, 10, 2):
        site.pages[f"/s{n}/1"] = html(f"Page {n}.1", f"/fresh/{n}", text=f"edited text {n}")
        site.pages[f"/fresh/{n}"] = html(f"Fresh {n}", f"/fresh/{n}/more", text="fresh page")
        site.pages[f"/fresh/{n}/more"] = html(f"More {n}")
    site.pages["/s0/4"] = html("No clone any more", text="edited away from the whale")
    site.pages["/s3/5"] = site.pages["/s1/4"]
    site.pages["/gone"] = Page("gone", status=410)
    site.pages["/dir/"] = html("Directory", "child", text="an edited directory")
    site.pages["/lost/child"] = Page("later", status=503)  # so it is not let go
    site.pages["/noindex"] = html("Yes", "/behind", text="no longer hidden page")
    site.pages["/s5/1"] = Page(redirect="/dir/child")
    site.pages["/s7/1"] = alias("/s7/2")
    site.pages["/s7/5"] = Page("no entry", status=403)
    site.pages["/shark"] = Page("gone", status=404)
    site.pages["/hides"] = html(
        "Hides", "/hides/child", head='<meta name="robots" content="noindex">'
    )
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /forbidden\nDisallow: /private\n")
    del site.pages["/s9/9"]


@dataclass(frozen=True)
class Undisturbed:
    """A crawl that nobody killed: how many places it has, and what came of it."""

    places: int
    shape: dict[str, Any]
    again: dict[str, Any]  #: after one more run of the same site


@dataclass
class Stage:
    """The edited site, the registry before the edit, and how it should end."""

    site: Site
    known: Path
    undisturbed: dict[str, Undisturbed]


def run(crawl: Crawl, site: Site, place: int, *more: str, step: str = "") -> tuple[int, str]:
    """Crawl, to die at a place (0: nowhere) or in a step; return exit status and output."""
    crawl._told.clear()
    code = crawl.folder / "code"
    code.mkdir(exist_ok=True)
    (code / "sitecustomize.py").write_text(_SITE)
    crawl.environment |= AT_ONCE | {"PYTHONPATH": f"{code}:.", "DIE_IN": step}
    command = ["scrapy"] if step else ["tests.crawls.runner", "kill", str(place)]
    result = crawl.python(
        "-m", *command, "crawl", "site", "-a", f"url={site.url('/')}", *more, expect=None
    )
    return result.status, result.out + result.err


def shape(crawl: Crawl) -> dict[str, Any]:
    """Everything that is known, without times and numbers that may differ."""
    urls = dict(crawl.rows("SELECT no, url FROM record"))
    links = {}
    for number, raw, targets in crawl.rows("SELECT no, raw, targets FROM links"):
        reached = sorted(urls[target] for target in array("I", targets))
        links[urls[number]] = [list(link) for link in unpack_links(raw)], reached
    records = {}
    for record in crawl.records():
        kept = {key: value for key, value in record.items() if key not in _TIMES | _RUNS}
        kept["ran"] = record["reachedRun"] == record["visitedRun"] == crawl.runs()[0]["run"]
        records[record["url"]] = kept
    moving = {"lastChecked", "lastChanged"}
    hits = {
        word: sorted(
            json.dumps({k: v for k, v in hit.items() if k not in moving}, sort_keys=True)
            for hit in crawl.search(word, "--limit", "1000")
        )
        for word in WORDS
    }
    contents = sorted(crawl.rows("SELECT content_hash, text_hash, title, document FROM content"))
    chunks = crawl.rows(
        "SELECT c.content_hash, k.position, k.title, k.headings, k.text"
        "  FROM chunk k LEFT JOIN content c ON c.no = k.content"
    )
    return {
        "records": records,
        "links": links,
        "hits": hits,
        "contents": contents,
        "chunks": sorted(chunks),
        "counts": counts(crawl, 0),
        "evidence": evidence(crawl),
        "candidates": sorted(crawl.rows(_CANDIDATES)),
        "events": crawl.rows(_EVENTS),
        "ends": crawl.rows(_ENDS)[-1:],
    }


_ENDS = "SELECT removed, withheld, notes FROM run WHERE state = 4 ORDER BY no"
_EVIDENCE = """
SELECT r.url, e.rule, e.detail, hex(c.content_hash), e.restore, e.links, e.undone
  FROM evidence e JOIN record r ON r.no = e.record LEFT JOIN content c ON c.no = e.content
"""
_CANDIDATES = """
SELECT r.url, c.rule, c.probe, c.withheld FROM candidate c JOIN record r USING (no)
"""
_EVENTS = """
SELECT r.url, e.status, e.standing, e.outcome, e.http_status, e.detail
  FROM event e JOIN record r ON r.no = e.record
 ORDER BY 1, 2, 3, 4, 5, 6
"""


def evidence(crawl: Crawl) -> dict[str, list[Any]]:
    """What was removed from each page and why, and what would bring it back."""
    found: dict[str, list[Any]] = {}
    for url, rule, detail, content, restore, links, undone in crawl.rows(_EVIDENCE):
        told = {key: value for key, value in json.loads(detail).items() if key not in _FOUND}
        was = json.loads(restore)
        kept = {key: value for key, value in was.items() if key not in _WAS}
        raw = [list(link) for link in unpack_links(links)] if links else None
        found.setdefault(url, []).append([rule, told, content, kept, raw, undone])
    return found


def is_over(crawl: Crawl, run: int) -> bool:
    """Whether a run is the newest and has said whether it saw everything."""
    return state_of(crawl, run) in ("sealed", "settled", "swept")


def state_of(crawl: Crawl, run: int) -> str | None:
    """The state of a run, None when it was not begun."""
    if not crawl.registry.exists() or not crawl.rows("SELECT 1 FROM sqlite_schema"):
        return None
    return next((found["state"] for found in crawl.runs() if found["run"] == run), None)


def counts(crawl: Crawl, back: int) -> dict[str, Any]:
    """How the run before `back` other ones ended."""
    ended = crawl.runs()[back]
    return {key: ended[key] for key in ("state", "complete", "reasons", *OUTCOMES)}


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


def dies(stage: Stage, crawl: Crawl, which: Which, place: int, step: str = "") -> None:
    """Crawl, and die at a place or in a step.

    How many places there are depends a little on how fast the machine is, so the last ones may
    not be reached; then there is nothing to make up for.
    """
    if which == "refresh":
        shutil.copytree(stage.known, crawl.data_dir)

    status, out = run(crawl, stage.site, place, step=step)

    last = place > 0.9 * stage.undisturbed[which].places
    assert status == -signal.SIGKILL or (last and status == 0), out


def ends(crawl: Crawl, site: Site, *more: str) -> None:
    """Crawl until it is done, which may take some starts where a lease is still held."""
    for _ in range(5):
        status, out = run(crawl, site, 0, *more)
        if status == 0:
            return
    raise AssertionError(out)


def is_sound(crawl: Crawl) -> bool:
    """Whether the file, the index and what points to contents are in order."""
    assert crawl.rows("PRAGMA integrity_check") == [("ok",)]
    crawl.rows("INSERT INTO chunk_words (chunk_words, rank) VALUES ('integrity-check', 1)")
    strays = """
    SELECT c.no FROM content c
     WHERE c.no NOT IN (SELECT content FROM record WHERE content IS NOT NULL)
       AND c.no NOT IN (SELECT content FROM evidence WHERE content IS NOT NULL)
    UNION ALL
    SELECT k.no FROM chunk k
     WHERE k.content NOT IN (SELECT content FROM record WHERE content IS NOT NULL AND entry > 0)
    """
    return crawl.rows(strays) == []


def dies_and_ends_as_if_it_never_had(stage: Stage, crawl: Crawl, which: Which, place: int) -> None:
    dies(stage, crawl, which, place)
    expected, over = stage.undisturbed[which].shape, is_over(crawl, 2 if which == "refresh" else 1)

    ends(crawl, stage.site, "-a", "resume=1")

    if over:  # there was nothing left to resume, so that was one more run
        assert counts(crawl, 1) == expected["counts"]
        expected = stage.undisturbed[which].again
    assert list(differences(shape(crawl), expected)) == [], f"{which}, killed at place {place}"
    assert is_sound(crawl)


def dies_and_is_made_up_for_by_later_runs(stage: Stage, crawl: Crawl, place: int) -> None:
    """Without a resume it is closed; two later runs leave what the undisturbed and one more do."""
    dies(stage, crawl, "refresh", place)
    over = is_over(crawl, 2)

    ends(crawl, stage.site)
    if not over:
        ends(crawl, stage.site)

    found, expected = shape(crawl), stage.undisturbed["refresh"].again
    wrong = list(differences(but_for_counts(found), but_for_counts(expected)))
    assert wrong == [], f"killed at place {place}"
    assert is_sound(crawl)


def but_for_counts(shaped: dict[str, Any]) -> dict[str, Any]:
    """A shape without what tells whether an interrupted run met a page before a later one did.

    It counted what it found lost or gone, and what it found modified is unchanged since.
    """
    counted = {"lostCount", "goneCount"}
    return shaped | {
        "records": {
            url: {key: value for key, value in record.items() if key not in counted}
            for url, record in shaped["records"].items()
        },
        "evidence": {
            url: [(rule, content, raw, undone) for rule, _, content, _, raw, undone in removals]
            for url, removals in shaped["evidence"].items()
        },
        "events": [event[:3] for event in shaped["events"]],
    }


def chosen(places: list[tuple[Which, float]]) -> list[Any]:
    return [
        pytest.param(which, share, id=f"{which} at {100 * share:.2f} % of seed {SEED}")
        for which, share in places
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
        Rule.GONE, Rule.REDIRECT, Rule.NOT_ACCEPTABLE, Rule.CANONICAL, Rule.EXCLUDED, Rule.ORPHAN,
    ]  # fmt: skip
    [(removed, withheld, _)] = refresh.shape["ends"]
    counting = f"sweep {removed // _SWEPT_AT_ONCE + 2}"
    assert counting in LAST_STEPS, "three sweeps, and one that counts"
    assert (list(LAST_STEPS)[-2], withheld) == (counting, 0)
    assert [(url.rpartition("/")[2], *more) for url, *more in refresh.shape["candidates"]] == [
        ("child", Rule.ORPHAN, 503, 0)  # its server does not speak of it
    ]
    pages = {path_of(url): record for url, record in refresh.shape["records"].items()}
    assert (pages["/shark"]["lastOutcome"], pages["/shark/copy"]["duplicateOf"]) == ("gone", None)
    assert pages["/shark/copy/2"]["duplicateOf"].endswith("/shark/copy")
    assert first.shape["evidence"], "a first crawl removes what stands aside"


@pytest.mark.covers("R1-36", "RD-01", "RD-22")
@pytest.mark.parametrize(("which", "share"), chosen(PLACES[:6]))
def test_a_run_killed_anywhere_ends_as_if_it_had_not_been(
    stage: Stage, crawl: Crawl, which: Which, share: float
):
    place = 1 + int(share * stage.undisturbed[which].places)
    dies_and_ends_as_if_it_never_had(stage, crawl, which, place)


@pytest.mark.slow
@pytest.mark.parametrize(("which", "share"), chosen(PLACES[6:]))
def test_a_run_killed_at_many_more_places_ends_as_if_it_had_not_been(
    stage: Stage, crawl: Crawl, which: Which, share: float
):
    place = 1 + int(share * stage.undisturbed[which].places)
    dies_and_ends_as_if_it_never_had(stage, crawl, which, place)


def ends_as_if_it_had_not_died_in(stage: Stage, crawl: Crawl, step: str) -> None:
    over = is_over(crawl, 2)
    expected = stage.undisturbed["refresh"].again if over else stage.undisturbed["refresh"].shape

    ends(crawl, stage.site, "-a", "resume=1")

    assert crawl.rows("SELECT count(*) FROM run") == [(3 if over else 2,)]
    assert list(differences(shape(crawl), expected)) == [], f"died {step}"
    assert is_sound(crawl)


@pytest.mark.parametrize(("step", "state"), LAST_STEPS.items())
def test_a_run_killed_in_a_step_of_its_end_takes_each_of_them_once(
    stage: Stage, crawl: Crawl, step: str, state: str
):
    """Before the commit: the step is taken by the next start, with all that comes after it."""
    dies(stage, crawl, "refresh", 0, f"before the commit of {step}")
    assert state_of(crawl, 2) == state

    ends_as_if_it_had_not_died_in(stage, crawl, step)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["after the begin of", "after the commit of"])
@pytest.mark.parametrize("step", LAST_STEPS)
def test_a_run_killed_around_a_step_of_its_end_takes_each_of_them_once(
    stage: Stage, crawl: Crawl, step: str, where: str
):
    dies(stage, crawl, "refresh", 0, f"{where} {step}")

    ends_as_if_it_had_not_died_in(stage, crawl, step)


@pytest.mark.covers("RD-22")
@pytest.mark.parametrize(
    "share",
    [
        pytest.param(
            share,
            id=f"refresh at {100 * share:.2f} % of seed {SEED}",
            marks=[pytest.mark.slow] if place > 1 else [],
        )
        for place, share in enumerate(NOT_RESUMED)
    ],
)
def test_a_run_killed_anywhere_is_made_up_for_by_later_runs(
    stage: Stage, crawl: Crawl, share: float
):
    place = 1 + int(share * stage.undisturbed["refresh"].places)
    dies_and_is_made_up_for_by_later_runs(stage, crawl, place)

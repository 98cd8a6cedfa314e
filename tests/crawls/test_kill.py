"""kill -9 at any place, resume, and nothing tells the registry from one that was never killed.

Places are before and after each begin and each commit. They are drawn with KILL_SEED (printed in
pytest's header; set it to repeat a run); six by default, twenty with `-m slow`.
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
from tests.crawls.commands import WORDS as OUTCOMES
from tests.crawls.commands import Crawl, Reader
from tests.site_server import Page, Site, html

SEED = int(os.environ["KILL_SEED"])
_RANDOM = random.Random(SEED)
Which = Literal["first", "refresh"]
#: What, and where in it, as a share of all places it passes.
PLACES: list[tuple[Which, float]] = [
    ("refresh" if n % 2 else "first", round(_RANDOM.random(), 4)) for n in range(26)
]
WORDS = ("page", "whale", "edited", "directory", "section 7", "deep", "fresh")
#: Differ between a run and the same run in two parts: times.
_TIMES = {"firstSeen", "lastChecked", "lastChanged", "lastIndexed"}
#: Numbers of runs: a run that was resumed keeps its number, one killed at its birth may not.
_RUNS = {"reachedRun", "visitedRun"}


def before(site: Site) -> None:
    """About 150 pages with all that can happen to them."""
    clone = html("Clone", "/", text="the same whale swims by on every page of this kind " * 6)
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /forbidden\n")
    sections = [f"/s{n}/" for n in range(10)]
    site.pages["/"] = html(
        "Home", *sections, "/dir", "/moved", "/forbidden", "/deep/0", "/noindex", "/gone"
    )
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
    site.pages["/noindex"] = html("Yes", "/behind", text="no longer hidden page")
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


def run(crawl: Crawl, site: Site, place: int, *more: str) -> tuple[int, str]:
    """Crawl with the runner; return exit status and output."""
    crawl._told.clear()
    result = crawl.python(
        "-m", "tests.crawls.runner", "kill", str(place),
        "crawl", "site", "-a", f"url={site.url('/')}", *more, expect=None,
    )  # fmt: skip
    return result.status, result.out + result.err


def shape(crawl: Crawl) -> dict[str, Any]:
    """Records, links and hits, without times and numbers that may differ."""
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
    }


def is_over(crawl: Crawl, run: int) -> bool:
    """Whether a run is the newest and has said whether it saw everything."""
    if not crawl.registry.exists() or not crawl.rows("SELECT 1 FROM sqlite_schema"):
        return False
    runs = crawl.runs()
    return bool(runs) and runs[0]["run"] == run and runs[0]["state"] == "settled"


def counts(crawl: Crawl, back: int) -> dict[str, Any]:
    """How the run before `back` other ones ended."""
    ended = crawl.runs()[back]
    return {key: ended[key] for key in ("state", "complete", "reasons", *OUTCOMES)}


def differences(found: Any, expected: Any, where: str = "") -> Iterator[str]:
    """Name what differs, as far down as dicts go."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in {**expected, **found}:
            yield from differences(found.get(key), expected.get(key), f"{where}/{key}")
    elif found != expected:
        yield f"{where}: {found!r} instead of {expected!r}"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, ask: Reader) -> Iterator[Stage]:
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


def dies_and_ends_as_if_it_never_had(stage: Stage, crawl: Crawl, which: Which, place: int) -> None:
    if which == "refresh":
        shutil.copytree(stage.known, crawl.data_dir)

    status, out = run(crawl, stage.site, place)
    assert status == -signal.SIGKILL, out
    expected, over = stage.undisturbed[which].shape, is_over(crawl, 2 if which == "refresh" else 1)
    for _ in range(5):
        status, out = run(crawl, stage.site, 0, "-a", "resume=1")
        if status == 0:
            break
    assert status == 0, out

    if over:  # there was nothing left to resume, so that was one more run
        assert counts(crawl, 1) == expected["counts"]
        expected = stage.undisturbed[which].again
    assert list(differences(shape(crawl), expected)) == [], f"{which}, killed at place {place}"
    assert crawl.rows("PRAGMA integrity_check") == [("ok",)]
    crawl.rows("INSERT INTO chunk_words (chunk_words, rank) VALUES ('integrity-check', 1)")


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
    words = set(refresh.shape["counts"])
    assert words >= {"new", "modified", "unchanged", "clone", "failed", "excluded", "orphaned"}
    assert all(
        refresh.shape["counts"][word]
        for word in ("new", "modified", "unchanged", "redirected", "failed", "orphaned")
    )
    assert all(first.shape["hits"][word] for word in WORDS)


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


@pytest.mark.parametrize("last", [2, 6, 8, 10])
def test_a_run_killed_at_its_very_end_is_sealed_and_settled_once(
    stage: Stage, crawl: Crawl, last: int
):
    """Sealing, settling and giving numbers back are transactions of their own."""
    place = stage.undisturbed["refresh"].places + 1 - last
    dies_and_ends_as_if_it_never_had(stage, crawl, "refresh", place)

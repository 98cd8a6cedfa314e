"""kill -9 during the crawl of a folder, then resume: its registry is that of an undisturbed one."""

import os
import random
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl, Scrapy, differences
from tests.crawls.files import FilesStory, Folder
from tests.crawls.killing import counts, is_over, is_sound, shape

pytestmark = [pytest.mark.alone, pytest.mark.embedded]

_RANDOM = random.Random(int(os.environ["KILL_SEED"]))
PLACES = [round(_RANDOM.random(), 4) for _ in range(12)]
#: Steps of the end, in which files that are absent or were renamed are removed and published.
STEPS = ("seal_run_row 1", "settle_sealed_row 1", "sweep 1")


@dataclass
class Stage:
    """A folder that was edited, the registry before, and how the next crawl should end."""

    root: Path
    known: Path
    places: int
    shape: dict[str, Any]
    again: dict[str, Any]  #: after one more run


def begin(folder: Folder) -> None:
    for n in range(24):
        folder.write(f"{'guide' if n % 2 else 'notes'}/{n}.md", f"# Page {n}\n\nwhale {n}")


def edit(folder: Folder) -> None:
    """All that can become of a file."""
    folder.rename("guide", "manual")
    folder.swap("notes/0.md", "notes/2.md")
    folder.remove("notes/4.md")
    folder.remove("notes/6.md")
    folder.stamp("notes/8.md")
    folder.write("notes/10.md", "# Page 10\n\nedited shark")
    folder.write("notes/fresh.md", "# Fresh\n\nfresh treasure")


def run(crawl: Crawl, root: Path, fate: tuple[str, str], *more: str) -> tuple[int, str]:
    result = crawl.run("runner", *fate, "crawl", "files", "-a", f"root={root}", *more, expect=None)
    return result.status, result.out + result.err


NEVER = ("kill", "0")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, ask: Scrapy) -> Stage:
    base = tmp_path_factory.mktemp("killed")
    folder = Folder(base / "tree")
    begin(folder)
    crawl = Crawl(base, ask)
    FilesStory(folder, crawl).run()
    shutil.copytree(crawl.data_dir, base / "known")
    edit(folder)
    status, out = run(crawl, folder.path, NEVER)
    assert status == 0, out
    found = re.search(r"places: (\d+)", out)
    assert found is not None, out
    expected = shape(crawl)
    status, out = run(crawl, folder.path, NEVER)
    assert status == 0, out
    return Stage(folder.path, base / "known", int(found[1]), expected, shape(crawl))


def test_the_stage_has_all_that_can_become_of_a_file(stage: Stage):
    found = stage.shape["counts"]
    assert {word: count for word, count in found.items() if count and word != "state"} == {
        "complete": True, "new": 1, "modified": 3, "unchanged": 7, "redirected": 12, "deleted": 2,
    }  # fmt: skip
    assert stage.places > 20


def dies_and_ends_as_if_it_never_had(stage: Stage, crawl: Crawl, fate: tuple[str, str]) -> None:
    shutil.copytree(stage.known, crawl.data_dir)
    status, out = run(crawl, stage.root, fate)
    assert status == -signal.SIGKILL, out
    over = is_over(crawl, 2)

    status, out = run(crawl, stage.root, NEVER, "-a", "resume=1")

    assert status == 0, out
    if over:  # nothing was left to resume, so that was one more run
        assert counts(crawl, 1) == stage.shape["counts"]
    expected = stage.again if over else stage.shape
    assert list(differences(shape(crawl), expected)) == [], f"killed at {fate}"
    assert is_sound(crawl)


def by_default(shares: list[float], count: int) -> list[Any]:
    return [
        pytest.param(share, marks=[] if place < count else [pytest.mark.slow])
        for place, share in enumerate(shares)
    ]


@pytest.mark.covers("R1-36", "RD-22", "R1-29")
@pytest.mark.parametrize("share", by_default(PLACES, 2))
def test_a_crawl_of_files_killed_anywhere_ends_as_if_it_had_not_been(
    stage: Stage, crawl: Crawl, share: float
):
    place = 1 + int(share * 0.9 * stage.places)
    dies_and_ends_as_if_it_never_had(stage, crawl, ("kill", str(place)))


@pytest.mark.covers("R1-36", "R1-29")
@pytest.mark.parametrize("step", STEPS)
def test_a_crawl_of_files_killed_in_its_end_takes_each_step_once(
    stage: Stage, crawl: Crawl, step: str
):
    dies_and_ends_as_if_it_never_had(stage, crawl, ("step", f"before the commit of {step}"))

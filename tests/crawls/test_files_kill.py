"""kill -9 during a crawl of files, then resume: the registry is that of an undisturbed crawl.

A folder, a bucket, a container, a repository, and a folder whose registry is in PostgreSQL. Most of
it is done for the folder; `--all` does all of it for each of them.
"""

import os
import random
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.crawls.commands import Crawl, Remote, Scrapy, differences
from tests.crawls.files import FilesStory, Place
from tests.crawls.killing import copy_database, counts, is_over, is_sound, name_of, shape
from tests.crawls.places import opened_place

pytestmark = [pytest.mark.alone, pytest.mark.embedded, pytest.mark.long]

_RANDOM = random.Random(int(os.environ["KILL_SEED"]))
PLACES = [round(_RANDOM.random(), 4) for _ in range(12)]
#: Steps of the end, in which files that are absent or were renamed are removed and published.
STEPS = ("seal_run_row 1", "settle_sealed_row 1", "sweep_candidate_rows 1")
FOLDER, POSTGRES = ("folder", "sqlite"), ("folder", "postgres")
BUCKET, CONTAINER, REPOSITORY = ("s3", "sqlite"), ("azure", "sqlite"), ("github", "sqlite")
#: So many of PLACES, and these of STEPS, are taken without being asked for.
BY_DEFAULT: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {
    FOLDER: (2, STEPS), POSTGRES: (1, STEPS[:2]), BUCKET: (1, ()),
    CONTAINER: (0, ()), REPOSITORY: (1, ()),
}  # fmt: skip


@dataclass
class Stage:
    """A place that was edited, the registry before, and how the next crawl should end."""

    place: Place
    known: Path  #: the state folder before the edit
    remote: tuple[servers.Postgres, str] | None  #: likewise the database in a server
    places: int
    shape: dict[str, Any]
    again: dict[str, Any]  #: after one more run

    def know(self, crawl: Crawl) -> None:
        """Let a crawl begin with what was stored before the edit."""
        shutil.copytree(self.known, crawl.data_dir)
        if isinstance(crawl.registry, Remote):
            assert self.remote is not None
            copy_database(crawl.registry, *self.remote)
        FilesStory(self.place, crawl)  # its environment


def begin(place: Place) -> None:
    for n in range(24):
        place.write(f"{'guide' if n % 2 else 'notes'}/{n}.md", f"# Page {n}\n\nwhale {n}")


def edit(place: Place) -> None:
    """All that can become of a file."""
    place.rename("guide", "manual")
    place.swap("notes/0.md", "notes/2.md")
    place.remove("notes/4.md")
    place.remove("notes/6.md")
    place.stamp("notes/8.md")
    place.write("notes/10.md", "# Page 10\n\nedited shark")
    place.write("notes/fresh.md", "# Fresh\n\nfresh treasure")


def run(crawl: Crawl, place: Place, fate: tuple[str, str], *more: str) -> tuple[int, str]:
    argument = f"{place.argument}={place.root}"
    result = crawl.run("runner", *fate, "crawl", place.spider, "-a", argument, *more, expect=None)
    return result.status, result.out + result.err


NEVER = ("kill", "0")


class Stages:
    """The stages of a worker, each set when a test asks for it first."""

    def __init__(self, ask: Scrapy, base: Path) -> None:
        self._ask = ask
        self._base = base
        self._found: dict[tuple[str, str], Stage] = {}
        self._open = ExitStack()

    def of(self, where: tuple[str, str], request: pytest.FixtureRequest) -> Stage:
        """Return the stage of a kind of place and of a database."""
        if where not in self._found:
            base = self._base / "-".join(where)
            base.mkdir()
            place = self._open.enter_context(opened_place(where[0], request, base))
            server = request.getfixturevalue("postgres") if where[1] == "postgres" else None
            self._found[where] = self._set(place, base, server)
        return self._found[where]

    def _set(self, place: Place, base: Path, server: servers.Postgres | None) -> Stage:
        begin(place)
        crawl, remote = Crawl(base, self._ask), None
        if server is not None:
            server.start()  # where an earlier test has killed it
            before, url = (self._open.enter_context(server.database()) for _ in range(2))
            FilesStory(place, Crawl(base, self._ask, before)).run()
            crawl, remote = Crawl(base, self._ask, url), (server, name_of(before))
            copy_database(crawl.registry, *remote)
            FilesStory(place, crawl)  # its environment
        else:
            FilesStory(place, crawl).run()
        shutil.copytree(crawl.data_dir, base / "known")
        edit(place)
        status, out = run(crawl, place, NEVER)
        assert status == 0, out
        found = re.search(r"places: (\d+)", out)
        assert found is not None, out
        expected = shape(crawl)
        status, out = run(crawl, place, NEVER)
        assert status == 0, out
        return Stage(place, base / "known", remote, int(found[1]), expected, shape(crawl))

    def close(self) -> None:
        """Drop the databases, and end the servers of the places."""
        self._open.close()


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory, ask: Scrapy) -> Iterator[Stages]:
    found = Stages(ask, tmp_path_factory.mktemp("killed"))
    yield found
    found.close()


@pytest.fixture(params=[FOLDER])
def stage(stages: Stages, request: pytest.FixtureRequest) -> Stage:
    return stages.of(request.param, request)


def test_the_stage_has_all_that_can_become_of_a_file(stage: Stage):
    found = stage.shape["counts"]
    assert {word: count for word, count in found.items() if count and word != "state"} == {
        "complete": True, "new": 1, "modified": 3, "unchanged": 7, "redirected": 12, "deleted": 2,
    }  # fmt: skip
    assert stage.places > 20


def dies_and_ends_as_if_it_never_had(stage: Stage, crawl: Crawl, fate: tuple[str, str]) -> None:
    stage.know(crawl)
    status, out = run(crawl, stage.place, fate)
    assert status == -signal.SIGKILL, out
    over = is_over(crawl, 2)
    crawl.bury()

    status, out = run(crawl, stage.place, NEVER, "-a", "resume=1")

    assert status == 0, out
    if over:  # nothing was left to resume, so that was one more run
        assert counts(crawl, 1) == stage.shape["counts"]
    expected = stage.again if over else stage.shape
    assert list(differences(shape(crawl), expected)) == [], f"killed at {fate}"
    assert is_sound(crawl)


def chosen(values: Sequence[Any], part: int) -> list[Any]:
    """Return each value with each stage; `part` of BY_DEFAULT says which are no long form."""
    found = []
    for where, by_default in BY_DEFAULT.items():
        wanted = by_default[part]
        taken = values[:wanted] if isinstance(wanted, int) else wanted
        for value in values:
            marks = [] if value in taken else [pytest.mark.long]
            name = f"{'-'.join(where)} {value}"
            found.append(pytest.param(where, where[1], value, marks=marks, id=name))
    return found


@pytest.mark.covers("R1-36", "RD-22", "R1-29")
@pytest.mark.parametrize(
    ("stage", "stack", "share"), chosen(PLACES, 0), indirect=["stage", "stack"]
)
def test_a_crawl_of_files_killed_anywhere_ends_as_if_it_had_not_been(
    stage: Stage, crawl: Crawl, share: float
):
    place = 1 + int(share * 0.9 * stage.places)
    dies_and_ends_as_if_it_never_had(stage, crawl, ("kill", str(place)))


@pytest.mark.long
@pytest.mark.covers("R1-36", "R1-29")
@pytest.mark.parametrize(("stage", "stack", "step"), chosen(STEPS, 1), indirect=["stage", "stack"])
def test_a_crawl_of_files_killed_in_its_end_takes_each_step_once(
    stage: Stage, crawl: Crawl, step: str
):
    dies_and_ends_as_if_it_never_had(stage, crawl, ("step", f"before the commit of {step}"))

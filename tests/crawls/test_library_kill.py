"""kill -9 during a download of a library, then again: as if it had run to its end (R3-119, RD-12).

Places to die in are before and after each step of the disk (write, rename, remove) and of each
transaction. `--all` has many more of them.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl, differences
from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.crawls.library_stage import LibraryStage, staged
from tests.servers.sharepoint import Library, SharepointServer
from tests.servers.sharepoint.graph_items import item_id

pytestmark = [pytest.mark.long(but=1), pytest.mark.alone]

_RANDOM = random.Random(int(os.environ["KILL_SEED"]))
#: Of all places that a download passes: at random, and evenly.
SHARES = [round(_RANDOM.random(), 4) for _ in range(30)]
SHARES += [round((number + 0.5) / 36, 4) for number in range(36)]
#: The last steps: maps, and by Graph the token with the items at it.
ENDS = [round(1 - back / 1_000, 4) for back in (1, 12, 24, 36, 48)]
#: In the default tier: at random, within the renamings, and at the end.
SHORT = {"rest": {*SHARES[:2], *SHARES[46:58:4]}, "graph": {SHARES[0], SHARES[52], ENDS[0]}}
SHARES += ENDS
#: Of the places that the processing of a list passes.
PROCESSED = [round((number + 0.5) / 20, 4) for number in range(20)]
FILES = {
    f"{folder}/{number}.txt": f"whale {folder} {number}".encode()
    for folder in ("guide", "notes") for number in range(8)
}  # fmt: skip
#: Not compared: times of downloads, which differ from run to run.
_TIMES = {"downloaded_utc", "downloaded_timestamp"}
_COMMITTED = "SELECT unique_id, file_size, last_modified FROM library_item WHERE path IS NOT NULL"


def change(library: Library) -> None:
    """All that can become of a file: its folder renamed, names swapped, in a circle, and more."""
    library.rename("guide", "manual")
    library.swap("notes/0.txt", "notes/1.txt")
    library.relocate("notes/2.txt", "notes/2.tmp")
    library.relocate("notes/3.txt", "notes/2.txt")
    library.relocate("notes/4.txt", "notes/3.txt")
    library.relocate("notes/2.tmp", "notes/4.txt")
    library.delete("notes/5.txt")
    library.replace("notes/6.txt", "a shark of another id")
    library.update("notes/7.txt", "a shark")
    library.rename("notes/7.txt", "seven.txt")
    library.update("manual/0.txt", "a warm shark")
    library.delete("manual/1.txt")
    library.add("fresh/deep/new.txt", "fresh treasure")
    library.add("guide/0.txt", "a new file in an old place")


@dataclass
class Undisturbed:
    """State after a download that is not killed."""

    stage: LibraryStage
    places: int
    shape: dict[str, Any]
    wanted: dict[str, tuple[int, int]]  #: size and time by id of what is downloaded


def shape(libraries: LibraryCrawl, kind: str = "file_sources") -> dict[str, Any]:
    """Disk, maps, records and index, without times that differ."""
    crawl = libraries.crawl
    return {
        "disk": {path: repr(facts) for path, facts in libraries.facts(kind).items()},
        "maps": {
            name: {
                url: {key: value for key, value in row.items() if key not in _TIMES}
                for url, row in libraries.rows(name, kind).items()
            }
            for name in ("files_map.csv", "sharepoint_map.csv")
        },
        "records": {
            record["url"]: [record["status"], record["contentHash"]] for record in crawl.records()
        },
        "hits": {
            words: sorted(hit["url"] for hit in crawl.search(words, "--limit", "100"))
            for words in ("whale", "shark", "treasure", "place")
        },
    }


def begin(stage: LibraryStage, crawl: Crawl) -> tuple[LibraryCrawl, Library]:
    """Begin with a library that has changed."""
    return stage.begin(crawl, change)


def run(libraries: LibraryCrawl, place: int, action: str = "download") -> tuple[int, str]:
    """Download, or process, and die at a place (0: nowhere)."""
    libraries.server.log.clear()
    words = ("runner", "kill", str(place), "library", action, DOMAIN, "--format", "json")
    result = libraries.crawl.run(*words, expect=None)
    return result.status, result.out + result.err


def asked(libraries: LibraryCrawl, library: Library) -> list[str]:
    """The ids of the files whose bytes were asked for, each time."""
    by_item = {item_id(entry): entry.unique_id for entry in library.files().values()}
    found = []
    for each in libraries.server.asked(pattern=r"GetFileById|/content\b"):
        match = re.search(r"GetFileById\('([^']*)'|/items/([^/]*)/content", each.target)
        assert match is not None, each.target
        found.append(match[1] or by_item[match[2]])
    return found


def committed(crawl: Crawl) -> dict[str, tuple[int, int]]:
    """Size and time of each file that the registry has, by its id."""
    return {unique_id: (size, at) for unique_id, size, at in crawl.rows(_COMMITTED)}


def _undisturbed(folder: Path, ask: Any, server: SharepointServer, api: str) -> Undisturbed:
    stage = staged(FILES, folder / "staged", ask, server, api)
    crawl = Crawl(folder / "whole", ask)
    libraries, library = begin(stage, crawl)
    before = committed(crawl)
    status, out = run(libraries, 0)
    assert status == 0, out
    found = re.search(r"places: (\d+)", out)
    assert found is not None, out
    assert libraries.disk() == {path: entry.content for path, entry in library.files().items()}
    after = committed(crawl)
    wanted = {key: facts for key, facts in after.items() if before.get(key) != facts}
    assert sorted(asked(libraries, library)) == sorted(wanted)
    return Undisturbed(stage, int(found[1]), shape(libraries), wanted)


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, ask: Any, sharepoint_server: SharepointServer
) -> Callable[[str], Undisturbed]:
    """Return the state after an unkilled download by an API, made when it is asked for first."""

    @cache
    def by(api: str) -> Undisturbed:
        folder = tmp_path_factory.mktemp(api)
        for name in ("staged", "whole"):
            (folder / name).mkdir()
        return _undisturbed(folder, ask, sharepoint_server, api)

    return by


@pytest.mark.parametrize("api", ["rest", "graph"])
def test_the_stage_has_all_that_can_become_of_a_file(
    api: str, undisturbed: Callable[[str], Undisturbed]
) -> None:
    assert len(undisturbed(api).wanted) == 5
    assert undisturbed(api).places > 100


@pytest.mark.covers("R3-118", "R3-119", "RD-12")
@pytest.mark.parametrize(
    ("api", "share"),
    [
        pytest.param(api, share, marks=[] if share in SHORT[api] else [pytest.mark.long])
        for api in ("rest", "graph") for share in SHARES
    ],
)  # fmt: skip
def test_a_download_killed_anywhere_ends_as_if_it_had_not_been(
    api: str, share: float, undisturbed: Callable[[str], Undisturbed], crawl: Crawl
) -> None:
    wanted = undisturbed(api)
    libraries, library = begin(wanted.stage, crawl)
    status, out = run(libraries, 1 + int(share * wanted.places))
    assert status in (-signal.SIGKILL, 0), out
    crawl.bury()
    done = committed(crawl)

    status, out = run(libraries, 0)

    assert status == 0, out
    came = asked(libraries, library)
    twice = [key for key in came if done.get(key) == wanted.wanted.get(key)]
    assert twice == [], f"committed, and downloaded again: {out}"
    needless = [key for key in came if key not in wanted.wanted]
    assert needless == [], f"only moved, and downloaded: {out}"
    assert list(differences(shape(libraries), wanted.shape)) == []
    left = [path for path in libraries.facts() if not path.startswith("02_embedded/")]
    assert left == [], "nothing waits beside the tree"
    again = libraries.download()
    assert (libraries.downloads(), again["unchanged"]) == (0, len(libraries.disk()))


def test_a_first_download_that_is_killed_is_not_begun_anew(
    undisturbed: Callable[[str], Undisturbed], crawl: Crawl
) -> None:
    """Its map is missing then, as if a person had deleted it (D3, R3-109)."""
    libraries, library = begin(undisturbed("rest").stage, crawl)
    shutil.rmtree(libraries.storage / "crawler")
    for file in crawl.data_dir.glob("registry.db*"):
        file.unlink()
    done: dict[str, tuple[int, int]] = {}
    for place in range(80, 180, 20):
        status, out = run(libraries, place)
        assert status == -signal.SIGKILL, out
        done = committed(crawl)
        if done:
            break
    assert 0 < len(done) < len(library.files())

    status, out = run(libraries, 0)

    assert status == 0, out
    assert done.keys() & set(asked(libraries, library)) == set(), out
    assert libraries.disk() == {path: entry.content for path, entry in library.files().items()}
    libraries.check_maps()


def _processed(crawl: Crawl) -> int:
    """The number of items whose second step is committed."""
    statement = "SELECT count(*) FROM library_item WHERE path LIKE '02_embedded/%'"
    ((count,),) = crawl.rows(statement)
    return int(count)


@pytest.fixture(scope="module")
def tasks(
    tmp_path_factory: pytest.TempPathFactory, ask: Any, sharepoint_server: SharepointServer
) -> Callable[[Crawl], LibraryCrawl]:
    """Return what lets a crawl begin with a list of twelve items that is downloaded."""
    crawl = Crawl(tmp_path_factory.mktemp("tasks"), ask)
    sharepoint_server.begin()
    site = sharepoint_server.tenant.site("/sites/demo")
    listed = site.list("Open tasks", "Tasks")
    for number in range(12):
        listed.add(Title=f"whale {number}")
    libraries = LibraryCrawl(crawl, sharepoint_server)
    libraries.declare(site, "list_sources", list_name="Open tasks")
    assert libraries.download()["added"] == 12
    known = crawl.data_dir.rename(crawl.folder / "known")

    def begin(other: Crawl) -> LibraryCrawl:
        shutil.copytree(known, other.data_dir)
        return LibraryCrawl(other, sharepoint_server)

    return begin


@pytest.fixture(scope="module")
def processed(
    tasks: Callable[[Crawl], LibraryCrawl], tmp_path_factory: pytest.TempPathFactory, ask: Any
) -> tuple[int, dict[str, Any]]:
    """The places of an unkilled process, and what it leaves."""
    libraries = tasks(Crawl(tmp_path_factory.mktemp("processed"), ask))
    status, out = run(libraries, 0, "process")
    assert status == 0, out
    found = re.search(r"places: (\d+)", out)
    assert found is not None, out
    assert _processed(libraries.crawl) == 12
    return int(found[1]), shape(libraries, "list_sources")


@pytest.mark.covers("R3-79", "R3-119")
@pytest.mark.parametrize(
    "share",
    [
        pytest.param(share, marks=[] if share in PROCESSED[5:16:5] else [pytest.mark.long])
        for share in PROCESSED
    ],
)
def test_a_process_killed_anywhere_ends_as_if_it_had_not_been(
    share: float,
    tasks: Callable[[Crawl], LibraryCrawl],
    processed: tuple[int, dict[str, Any]],
    crawl: Crawl,
) -> None:
    places, wanted = processed
    libraries = tasks(crawl)
    status, out = run(libraries, 1 + int(share * places), "process")
    assert status in (-signal.SIGKILL, 0), out
    crawl.bury()
    done = _processed(crawl)

    again = libraries.process()

    assert again["processed"] == 12 - done
    assert list(differences(shape(libraries, "list_sources"), wanted)) == []
    assert libraries.process()["processed"] == 0

"""kill -9 during a download of a library, then again: as if it had run to its end (R3-119, RD-12).

Places to die in are before and after each step of the disk (write, rename, remove) and of each
transaction. `-m slow` has many more of them.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
from dataclasses import dataclass
from typing import Any

import pytest

from tests.crawls.commands import Crawl, differences
from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.crawls.library_stage import LibraryStage, staged
from tests.servers.sharepoint import Library, SharepointServer
from tests.servers.sharepoint.graph_items import item_id

pytestmark = [pytest.mark.alone]

_RANDOM = random.Random(int(os.environ["KILL_SEED"]))
#: Of all places that a download passes: at random, and evenly.
SHARES = [round(_RANDOM.random(), 4) for _ in range(30)]
SHARES += [round((number + 0.5) / 36, 4) for number in range(36)]
#: The last steps: maps, and by Graph the token with the items at it.
ENDS = [round(1 - back / 1_000, 4) for back in (1, 12, 24, 36, 48)]
SHARES += ENDS
#: In the short form: at random, within the renamings, and at the end.
SHORT = {*SHARES[:2], *SHARES[46:58:4], *ENDS[:2]}
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


def shape(libraries: LibraryCrawl) -> dict[str, Any]:
    """Disk, maps, records and index, without times that differ."""
    crawl = libraries.crawl
    return {
        "disk": {path: repr(facts) for path, facts in libraries.facts().items()},
        "maps": {
            name: {
                url: {key: value for key, value in row.items() if key not in _TIMES}
                for url, row in libraries.rows(name).items()
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


def run(libraries: LibraryCrawl, place: int) -> tuple[int, str]:
    """Download, and die at a place (0: nowhere)."""
    libraries.server.log.clear()
    words = ("runner", "kill", str(place), "library", "download", DOMAIN, "--format", "json")
    result = libraries.crawl.run(*words, expect=None)
    return result.status, result.out + result.err


def asked(libraries: LibraryCrawl) -> list[str]:
    """The ids of the files whose bytes were asked for, each time."""
    library = libraries.server.tenant.sites[0].lists[0]
    known = {item_id(entry): entry.unique_id for entry in library.entries.values()}
    by_id = re.compile(r"GetFileById\('([^']*)'\)|/items/([^/]*)/content")
    found = [by_id.search(each.target) for each in libraries.server.asked()]
    return [match[1] or known[match[2]] for match in found if match]


def committed(crawl: Crawl) -> dict[str, tuple[int, int]]:
    """Size and time of each file that the registry has, by its id."""
    return {unique_id: (size, at) for unique_id, size, at in crawl.rows(_COMMITTED)}


@pytest.fixture(scope="module", params=["rest", "graph"])
def undisturbed(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    ask: Any,
    sharepoint_server: SharepointServer,
) -> Undisturbed:
    """By Graph, the download has a token."""
    folder = tmp_path_factory.mktemp("staged")
    stage = staged(FILES, folder, ask, sharepoint_server, api=request.param)
    crawl = Crawl(tmp_path_factory.mktemp("whole"), ask)
    libraries, library = begin(stage, crawl)
    before = committed(crawl)
    status, out = run(libraries, 0)
    assert status == 0, out
    found = re.search(r"places: (\d+)", out)
    assert found is not None, out
    assert libraries.disk() == {path: entry.content for path, entry in library.files().items()}
    after = committed(crawl)
    wanted = {key: facts for key, facts in after.items() if before.get(key) != facts}
    assert sorted(asked(libraries)) == sorted(wanted)
    return Undisturbed(stage, int(found[1]), shape(libraries), wanted)


def test_the_stage_has_all_that_can_become_of_a_file(undisturbed: Undisturbed) -> None:
    assert len(undisturbed.wanted) == 5
    assert undisturbed.places > 100


@pytest.mark.parametrize(
    "share",
    [pytest.param(it, marks=[] if it in SHORT else [pytest.mark.slow]) for it in SHARES],
)
def test_a_download_killed_anywhere_ends_as_if_it_had_not_been(
    share: float, undisturbed: Undisturbed, crawl: Crawl
) -> None:
    libraries, _ = begin(undisturbed.stage, crawl)
    status, out = run(libraries, 1 + int(share * undisturbed.places))
    assert status in (-signal.SIGKILL, 0), out
    crawl.bury()
    done = committed(crawl)

    status, out = run(libraries, 0)

    assert status == 0, out
    twice = [key for key in asked(libraries) if done.get(key) == undisturbed.wanted.get(key)]
    assert twice == [], f"committed, and downloaded again: {out}"
    needless = [key for key in asked(libraries) if key not in undisturbed.wanted]
    assert needless == [], f"only moved, and downloaded: {out}"
    assert list(differences(shape(libraries), undisturbed.shape)) == []
    left = [path for path in libraries.facts() if not path.startswith("02_embedded/")]
    assert left == [], "nothing waits beside the tree"
    again = libraries.download()
    assert (libraries.downloads(), again["unchanged"]) == (0, len(libraries.disk()))


def test_a_first_download_that_is_killed_is_not_begun_anew(
    undisturbed: Undisturbed, crawl: Crawl
) -> None:
    """Its map is missing then, as if a person had deleted it (D3, R3-109)."""
    libraries, library = begin(undisturbed.stage, crawl)
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
    assert done.keys() & set(asked(libraries)) == set(), out
    assert libraries.disk() == {path: entry.content for path, entry in library.files().items()}
    libraries.check_maps()

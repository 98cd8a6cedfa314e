"""`--mode full` builds beside, and swaps only after a complete listing (R3-76)."""

from __future__ import annotations

import os
import random
import re
import signal
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import DOMAIN, LibraryCrawl, libraries
from tests.servers.sharepoint import Library, SharepointServer
from tests.servers.sharepoint.graph_items import item_id
from tests.servers.sharepoint.pages import Text

pytestmark = pytest.mark.long

__all__ = ["libraries"]  # a fixture

_RANDOM = random.Random(int(os.environ["KILL_SEED"]))
SHARES = sorted(round(_RANDOM.random(), 4) for _ in range(12))
_ITEMS = "SELECT * FROM library_item ORDER BY no"
_CONTENT = "SELECT no, body_hash, etag, configuration FROM record ORDER BY no"
FILES = {f"{number}.txt": f"whale {number}".encode() for number in range(6)}


def filled(libraries: LibraryCrawl, kind: str = "file_sources") -> Any:
    """Declare a source of six items in answers of two, and crawl it; return its library."""
    libraries.crawl.environment |= {"SHAREPOINT_PAGE_SIZE": "2", "RETRY_TIMES": "0"}
    site = libraries.server.tenant.site("/sites/demo")
    listed: Any
    if kind == "list_sources":
        listed = site.list("Open tasks", "Tasks")
        for number in range(6):
            listed.add(Title=f"whale {number}")
        libraries.declare(site, kind, list_name="Open tasks")
    elif kind == "sitepage_sources":
        listed = site.pages()
        for number in range(6):
            listed.page(f"P{number}.aspx", f"whale {number}", [[Text("<p>words</p>")]])
        libraries.declare(site, kind, sharepoint_url_part="/SitePages")
    else:
        listed = site.library("Documents", "Shared Documents")
        for path, content in FILES.items():
            listed.add(path, content)
        libraries.declare(site, kind, sharepoint_url_part="/Shared Documents")
    assert libraries.download()["added"] == 6
    return listed


def state(libraries: LibraryCrawl, kind: str) -> dict[str, Any]:
    """Disk, maps, items, content of the records, and index."""
    crawl = libraries.crawl
    names = ("files_map.csv", "sharepoint_map.csv")
    return {
        "disk": libraries.facts(kind),
        "maps": [(libraries.folder(kind) / name).read_bytes() for name in names],
        "items": crawl.rows(_ITEMS),
        "records": crawl.rows(_CONTENT),
        "hits": {word: libraries.hits(word) for word in ("whale", "shark")},
    }


def rewritten(library: Library) -> dict[str, bytes]:
    """Give each file other bytes of the same size and date; return them."""
    for entry in library.files().values():
        entry.content = entry.content.replace(b"whale", b"shark")
    return {path: entry.content for path, entry in library.files().items()}


@pytest.mark.covers("R3-17", "R3-69")
@pytest.mark.parametrize("fault", ["403", "html", "half"])
@pytest.mark.parametrize("kind", ["file_sources", "list_sources", "sitepage_sources"])
def test_a_listing_that_was_cut_swaps_nothing(
    libraries: LibraryCrawl, kind: str, fault: str
) -> None:
    listed = filled(libraries, kind)
    before = state(libraries, kind)
    listed.delete_entry(list(listed.entries.values())[1])
    if kind == "file_sources":
        rewritten(listed)
        listed.add("new.txt", b"a new whale")
    pattern = r"skiptoken|[?&(]token="  # the second answer
    if kind == "sitepage_sources":
        pattern = r"/pages|/items"
    struck = libraries.server.fail(fault, pattern, times=None)

    tried = libraries.download("--mode", "full", "--dry-run", expect=3)
    found = libraries.download("--mode", "full", expect=3)

    assert struck.hit > 0
    assert found["complete"] is False
    assert state(libraries, kind) == before, found["log"]
    assert libraries.downloads() == 0
    names = ("added", "changed", "removed", "downloaded", "failed", "withheld", "unchanged")
    assert {n: found[n] for n in names} == {n: tried[n] for n in names}
    assert (found["added"], found["downloaded"]) == (0, 0)
    assert "its listing is not complete, so nothing is replaced" in found["log"]
    libraries.server.faults.clear()

    whole = libraries.download("--mode", "full")

    assert (whole["complete"], whole["removed"]) == (True, 1)
    assert "nothing is replaced" not in whole["log"]
    if kind == "file_sources":
        assert libraries.disk() == {path: e.content for path, e in listed.files().items()}
        libraries.check_maps()


@pytest.mark.covers("R3-69")
def test_an_incremental_download_takes_what_was_listed(
    crawl: Crawl, sharepoint: SharepointServer
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint)
    library = filled(libraries)
    library.update("0.txt", b"a shark")
    libraries.server.fail("403", "skiptoken", nth=2, times=None)

    found = libraries.download(expect=3)

    assert (found["complete"], found["changed"]) == (False, 1)
    assert libraries.disk()["0.txt"] == b"a shark"
    assert "nothing is replaced" not in found["log"]


@pytest.mark.covers("R3-75", "R3-76")
def test_failed_items_keep_what_they_had(libraries: LibraryCrawl) -> None:
    library = filled(libraries)
    new = rewritten(library)
    library.find("1.txt").locked = True
    gone = library.find("2.txt")
    struck = rf"GetFileById\('{gone.unique_id}'|/items/{item_id(gone)}/content"
    libraries.server.fail("404", struck, times=None)
    before, facts = libraries.rows("files_map.csv"), libraries.facts()

    found = libraries.download("--mode", "full", expect=3)

    kept = ("1.txt", "2.txt")
    assert libraries.disk() == new | {path: FILES[path] for path in kept}, found["log"]
    after = libraries.rows("files_map.csv")
    for path in kept:
        url, place = f"/sites/demo/Shared Documents/{path}", f"02_embedded/{path}"
        error = after[url].pop("sharepoint_error")
        assert ("423" if path == "1.txt" else "404") in error
        assert before[url].pop("sharepoint_error") == ""
        assert after[url] == before[url]
        assert libraries.facts()[place] == facts[place]
    assert (found["complete"], found["failed"], found["downloaded"]) == (False, 2, 4)
    assert libraries.hits("whale") == [f"/sites/demo/Shared Documents/{path}" for path in kept]
    library.find("1.txt").locked = False
    libraries.server.faults.clear()
    libraries.download("--mode", "full")
    assert libraries.disk() == new
    libraries.check_maps()


@pytest.mark.alone
@pytest.mark.covers("R3-118", "R3-119")
@pytest.mark.parametrize(
    "share",
    [pytest.param(s, marks=[] if n % 4 == 1 else [pytest.mark.long]) for n, s in enumerate(SHARES)],
)
@pytest.mark.parametrize("then", ["incremental", "full"])
def test_a_full_download_that_is_killed_leaves_whole_files(
    libraries: LibraryCrawl, share: float, then: str
) -> None:
    library = filled(libraries)
    words = ("library", "download", DOMAIN, "--mode", "full", "--format", "json")
    first = libraries.crawl.run("runner", "kill", "0", *words, expect=None)
    places = re.search(r"places: (\d+)", first.out + first.err)
    assert places is not None, first
    new = rewritten(library)
    place = str(1 + int(share * int(places[1])))

    result = libraries.crawl.run("runner", "kill", place, *words, expect=None)

    assert result.status in (-signal.SIGKILL, 0), result
    libraries.crawl.bury()
    whole = {path: body for path, body in libraries.disk().items() if body != new[path]}
    assert {path: FILES[path] for path in whole} == whole
    # While a batch is renamed, a file may be beside the tree: the next run puts it back.
    assert libraries.download()["complete"]
    assert all(body in (FILES[path], new[path]) for path, body in libraries.disk().items())
    assert libraries.disk().keys() == FILES.keys()
    libraries.check_maps()
    libraries.download("--mode", then)
    if then == "full":
        assert libraries.disk() == new
        assert libraries.hits("whale") == []
    libraries.check_maps()
    left = [path for path in libraries.facts() if not path.startswith("02_embedded/")]
    assert left == []

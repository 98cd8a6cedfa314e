"""Faults of a library's answers: a listing that is not whole removes nothing (ADR 83).

Each request of a listing goes wrong in each way, while a file was removed and others changed.
`--all` does all of them, by REST and by Graph.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import LibraryCrawl
from tests.crawls.library_stage import LibraryStage
from tests.servers.sharepoint import Library, SharepointServer
from tests.servers.sharepoint.graph import download_path
from tests.servers.sharepoint.graph_items import item_id

pytestmark = pytest.mark.long(but=1)

_ROOT = "/sites/demo/Shared Documents"
FILES = {f"f{number}.txt": f"whale number {number}".encode() for number in range(6)}
#: As the library is after the change, and as the disk is then, too.
AFTER = {name: body for name, body in FILES.items() if name not in ("f1.txt", "f4.txt")}
AFTER |= {"f3.txt": b"a shark instead", "g4.txt": FILES["f4.txt"]}


class Place(NamedTuple):
    """One request of a listing."""

    name: str
    api: str
    pattern: str
    nth: int = 1
    is_page: bool = True
    has_next: bool = True
    has_token: bool = False  #: by Graph: whether only the changes are listed


_ITEMS, _DELTA = r"/items\?", r"root/delta"
PLACES = (
    Place("count", "rest", r"GetList\('[^']*'\)\?\$select=Id,ItemCount", is_page=False),
    Place("page 1", "rest", _ITEMS, 1),
    Place("page 2", "rest", _ITEMS, 2),
    Place("page 3", "rest", _ITEMS, 3, has_next=False),
    Place("site", "graph", r"/sites/[^/]*/sites/demo\?", is_page=False),
    Place("drives", "graph", r"/drives\?", is_page=False),
    Place("delta 1", "graph", _DELTA, 1),
    Place("delta 2", "graph", _DELTA, 2),
    Place("delta 3", "graph", _DELTA, 3, has_next=False),
    Place("drive", "graph", r"/drives/[^/?]*\?", is_page=False, has_token=True),
    Place("changes 1", "graph", _DELTA, 1, has_token=True),
    Place("changes 2", "graph", _DELTA, 2, has_next=False, has_token=True),
)


class Wrong(NamedTuple):
    """One way in which an answer goes wrong for good, and what the reason says of it."""

    name: str
    kind: str
    said: str
    needs: str = ""  #: page: only an answer with items; next: only one with a next link
    facts: dict[str, Any] = {}
    settings: dict[str, str] = {}


def _no_list(payload: dict[str, Any]) -> None:
    payload["value"] = {"0": "no list"}


def _no_items(payload: dict[str, Any]) -> None:
    payload.pop("value")
    payload["error"] = "none"


def _other_list(payload: dict[str, Any]) -> None:
    for name in ("odata.nextLink", "@odata.nextLink"):
        if name in payload:
            for word in ("Shared", "/root/", "Open", "SitePages"):
                payload[name] = payload[name].replace(word, "/other/" if "/" in word else "Other")
            payload[name] = re.sub(r"/lists/[^/]+/", "/lists/other/", payload[name])


#: Words that each reason has for whoever reads it.
REMEDY = "crawl again|check |correct |grant |give it|give the app|index the column"
WRONG = (
    Wrong("401", "expired", "401"),
    Wrong("403", "403", "403"),
    Wrong("404", "404", "404"),
    Wrong("429", "429", "429"),
    Wrong("429 and Retry-After", "429", "429", facts={"retry_after": 1}),
    Wrong("500", "500", "500"),
    Wrong("503", "503", "503"),
    Wrong("html", "html", "JSON"),
    Wrong("cut", "cut", ""),
    Wrong("half", "half", "JSON"),
    Wrong("empty", "empty", "JSON"),
    Wrong("closed", "closed", ""),
    Wrong("redirect", "redirect", "302"),
    Wrong("foreign", "foreign", "evil.example.com", "next"),
    Wrong("circle", "circle", "", "next"),
    Wrong("other list", "edit", "", "next", {"edit": _other_list}),
    Wrong("broken", "broken", "", "page"),
    Wrong("drop", "drop", "trimmed", "page", {"times": 1}),
    Wrong("no list", "edit", "", "page", {"edit": _no_list}),
    Wrong("no items", "edit", "", "page", {"edit": _no_items}),
    Wrong("timeout", "slow", "", "", {"seconds": 1.5}, {"DOWNLOAD_TIMEOUT": "0.5"}),
)
#: Pass by themselves: a retry or a new token heals them.
PASSING = ("expired", "503", "429", "closed", "cut")
_RANDOM = random.Random(26)


def cells() -> Iterator[Any]:
    """Yield each place with each fault; all but a dozen are of the long form."""
    all_cells = [
        (place, wrong)
        for place in PLACES
        for wrong in WRONG
        if (wrong.needs != "page" or place.is_page)
        and (wrong.needs != "next" or (place.is_page and place.has_next))
        and not (wrong.kind == "drop" and place.api == "graph")  # a delta may leave out anything
        and (place.name, wrong.name) != ("drive", "404")  # the library may be another one
    ]
    by_rest = [cell for cell in all_cells if cell[0].api == "rest"]
    by_graph = [cell for cell in all_cells if cell[0].api == "graph"]
    shown = _RANDOM.sample(by_rest, 4) + _RANDOM.sample(by_graph, 4)
    chosen = {(place.name, wrong.name) for place, wrong in shown}
    chosen |= {("page 2", name) for name in ("drop", "foreign", "html")} | {("delta 2", "cut")}
    chosen |= {
        ("drive", "403"),
        ("changes 1", "404"),
        ("changes 1", "broken"),
        ("changes 2", "html"),
    }
    for place, wrong in all_cells:
        marks = [] if (place.name, wrong.name) in chosen else [pytest.mark.long]
        yield pytest.param(place.api, place, wrong, marks=marks, id=f"{place.name} {wrong.name}")


class Stages:
    """A stage for each API, made when it is asked for first."""

    def __init__(self, base: Any, ask: Any, server: SharepointServer) -> None:
        self._base, self._ask, self._server = base, ask, server
        self._found: dict[str, LibraryStage] = {}

    def begin(
        self, api: str, crawl: Crawl, *, has_token: bool = True
    ) -> tuple[LibraryCrawl, Library]:
        """Begin with FILES, of which one was removed, one changed and one renamed."""
        if api not in self._found:
            folder = self._base / api
            folder.mkdir()
            first = Crawl(folder, self._ask)
            first.environment["SHAREPOINT_PAGE_SIZE"] = "2"  # a token has the size of its pages
            self._found[api] = LibraryStage(first, self._server, FILES, api=api)
        libraries, library = self._found[api].begin(crawl)
        crawl.environment |= {"SHAREPOINT_PAGE_SIZE": "2", "RETRY_TIMES": "0"}
        if not has_token:
            crawl.rows("DELETE FROM library_drive")
        library.delete("f1.txt")
        library.update("f3.txt", AFTER["f3.txt"])
        library.rename("f4.txt", "g4.txt")
        return libraries, library


@pytest.fixture(scope="module")
def stages(
    tmp_path_factory: pytest.TempPathFactory, ask: Any, sharepoint_server: SharepointServer
) -> Stages:
    return Stages(tmp_path_factory.mktemp("stages"), ask, sharepoint_server)


@pytest.mark.covers("R3-04", "R3-120", "M-07")
@pytest.mark.parametrize(("api", "place", "wrong"), list(cells()))
def test_a_listing_that_is_not_whole_removes_nothing(
    api: str, place: Place, wrong: Wrong, stages: Stages, crawl: Crawl
) -> None:
    libraries, _ = stages.begin(api, crawl, has_token=place.has_token)
    before, rows = libraries.facts(), libraries.rows("files_map.csv")
    fault = libraries.server.fail(
        wrong.kind, place.pattern, **{"nth": place.nth, "times": None} | wrong.facts
    )

    crawl.environment |= wrong.settings

    found = libraries.download("--retry-batches", "1", expect=3)

    assert fault.hit > 0
    message = " ".join([found["reason"], *found["reasons"]])
    assert wrong.said in message
    assert "/sites/demo/Shared" in message or wrong.kind == "drop", message
    assert re.search(REMEDY, message) or wrong.kind == "drop", message
    # A page that is whole and lacks an item is believed; the removals of its run wait.
    assert (found["removed"], found["complete"]) == (0, wrong.kind == "drop"), message
    assert (found["withheld"] > 0) is (wrong.kind == "drop")
    now, stored = libraries.facts(), libraries.rows("files_map.csv")
    for name in ("f0.txt", "f1.txt", "f2.txt", "f5.txt"):
        assert now[f"02_embedded/{name}"] == before[f"02_embedded/{name}"]
        assert stored[f"{_ROOT}/{name}"] == rows[f"{_ROOT}/{name}"]
    assert len(now) == len(stored) == 6
    assert len(crawl.hits("whale")) >= 5
    libraries.server.faults.clear()
    crawl.environment.pop("DOWNLOAD_TIMEOUT", None)
    libraries.download()
    assert libraries.disk() == AFTER
    libraries.check_maps()


@pytest.mark.parametrize(
    ("api", "place", "kind"),
    [
        pytest.param(
            place.api, place, kind, id=f"{place.name} {kind} once",
            marks=[] if (place.name, kind) in {("page 2", "expired"), ("page 3", "503")}
            else [pytest.mark.long],
        )
        for place in PLACES for kind in PASSING
    ],
)  # fmt: skip
def test_a_fault_that_passes_is_not_noticed(
    api: str, place: Place, kind: str, stages: Stages, crawl: Crawl
) -> None:
    libraries, _ = stages.begin(api, crawl, has_token=place.has_token)
    crawl.environment["RETRY_TIMES"] = "2"
    fault = libraries.server.fail(kind, place.pattern, nth=place.nth, times=1)

    found = libraries.download()

    assert fault.hit == 1
    assert (found["removed"], found["changed"], found["complete"]) == (1, 2, True)
    assert libraries.disk() == AFTER
    libraries.check_maps()


#: Ways in which the bytes of one file cannot be had, and what its row says.
REFUSED = {
    "404": ("404", "404"), "423": ("423", "423"), "401": ("expired", "401"),
    "403": ("403", "403"), "cut": ("cut", ""), "half": ("half", "received"),
    "html": ("html", "received"), "429": ("429", "429"), "500": ("500", "500"),
    "closed": ("closed", ""),
}  # fmt: skip


@pytest.mark.covers("R3-75", "R3-151")
@pytest.mark.parametrize(
    ("api", "name"),
    [
        pytest.param(
            api, name, id=f"{api} {name}",
            marks=[] if (api, name) in {("rest", "423"), ("rest", "half"), ("graph", "404")}
            else [pytest.mark.long],
        )
        for api in ("rest", "graph") for name in REFUSED
    ],
)  # fmt: skip
def test_bytes_that_cannot_be_had_leave_the_old_ones(
    api: str, name: str, stages: Stages, crawl: Crawl
) -> None:
    libraries, library = stages.begin(api, crawl)
    fresh = library.add("fresh.txt", b"fresh words")
    library.add("other.txt", b"other words")
    before, rows = libraries.facts(), libraries.rows("files_map.csv")
    kind, said = REFUSED[name]
    for entry in (library.find("f3.txt"), fresh):
        by_graph = f"/items/{item_id(entry)}/content"
        if kind in ("cut", "half"):  # that answer only has the address of the bytes
            by_graph = download_path(libraries.server.tenant.id, entry.unique_id)
        pattern = f"GetFileById\\('{entry.unique_id}'|{by_graph}"
        libraries.server.fail(kind, pattern, times=None)

    found = libraries.download(expect=3)

    assert (found["failed"], found["removed"]) == (2, 1), str(found)
    stored = libraries.rows("files_map.csv")
    old, new = stored[f"{_ROOT}/f3.txt"], stored[f"{_ROOT}/fresh.txt"]
    assert said in old["sharepoint_error"]
    assert old["sharepoint_error"]
    assert old | {"sharepoint_error": ""} == rows[f"{_ROOT}/f3.txt"]
    assert (new["file_relative_path"], new["downloaded_utc"]) == ("", "")
    assert said in new["sharepoint_error"]
    now = libraries.facts()
    assert now["02_embedded/f3.txt"] == before["02_embedded/f3.txt"]
    assert libraries.disk() == AFTER | {"f3.txt": FILES["f3.txt"], "other.txt": b"other words"}
    assert len(crawl.hits("whale")) == 5
    libraries.server.faults.clear()

    libraries.download()

    assert libraries.downloads() >= 2
    assert libraries.disk() == AFTER | {"fresh.txt": b"fresh words", "other.txt": b"other words"}
    libraries.check_maps()
    assert len(crawl.hits("whale")) == 4

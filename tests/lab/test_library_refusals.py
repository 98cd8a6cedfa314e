"""Faults of the listings of filters, lists and site pages, and refusals of whole sources.

Each request of a listing goes wrong in each way, while an item was deleted: nothing is removed,
and files and rows are as before. `--all` does all of them.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.crawls.library_stage import LibraryStages, library_stages
from tests.crawls.test_library_faults import REMEDY, WRONG, Place, Wrong
from tests.servers.sharepoint import Library, SharepointServer, Text
from tests.servers.sharepoint.lists import SharepointList

pytestmark = pytest.mark.long(but=1)

__all__ = ["library_stages"]  # a fixture

_ITEMS = r"/items\?"
_COUNT = Place("count", "rest", r"\?\$select=Id,ItemCount", is_page=False)
_FIELDS = Place("fields", "rest", r"/fields", is_page=False)
_SITE = Place("site", "graph", r"/sites/[^/]*/sites/demo\?", is_page=False)
_LISTS = Place("lists", "graph", r"/lists\?", is_page=False)


def _pages(api: str) -> tuple[Place, ...]:
    return tuple(Place(f"page {n}", api, _ITEMS, n, has_next=n < 3) for n in (1, 2, 3))


#: The requests of each listing, by the key of its source in domain.json and the API.
LISTINGS = {
    ("filter", "rest"): _pages("rest"),
    ("filter", "graph"): (_SITE, _LISTS, *_pages("graph")),
    ("list", "rest"): (_COUNT, _FIELDS, *_pages("rest")),
    ("list", "graph"): (
        _SITE, Place("list", "graph", r"/lists/Open tasks\?", is_page=False),
        Place("columns", "graph", r"/columns", is_page=False), *_pages("graph"),
    ),
    ("pages", "rest"): (_COUNT, _FIELDS, *_pages("rest")),
    ("pages", "graph"): (_SITE, _LISTS, *_pages("graph")),
}  # fmt: skip
KINDS = {"filter": "file_sources", "list": "list_sources", "pages": "sitepage_sources"}
_RANDOM = random.Random(26)


def cells() -> Iterator[Any]:
    """Yield each request of each listing with each fault; a few are not long."""
    found = [
        (kind, place, wrong)
        for (kind, api), places in LISTINGS.items()
        for place in places
        for wrong in WRONG
        if (wrong.needs != "page" or place.is_page)
        and (wrong.needs != "next" or (place.is_page and place.has_next))
        # Only REST counts the items of a list, and none those of a filter.
        and not (wrong.kind == "drop" and (kind == "filter" or api == "graph"))
    ]
    short = _RANDOM.sample(range(len(found)), 8)
    for number, (kind, place, wrong) in enumerate(found):
        marks = [] if number in short else [pytest.mark.long]
        name = f"{kind} {place.api} {place.name} {wrong.name}"
        yield pytest.param(kind, place, wrong, marks=marks, id=name)


def filled(libraries: LibraryCrawl, kind: str, api: str) -> SharepointList:
    """Declare a source of six items, in pages of two; return its list."""
    libraries.crawl.environment |= {"SHAREPOINT_PAGE_SIZE": "2", "RETRY_TIMES": "0"}
    site = libraries.server.tenant.site("/sites/demo")
    if kind == "list":
        tasks = site.list("Open tasks", "Tasks")
        for number in range(6):
            tasks.add(Title=f"whale {number}")
        libraries.declare(site, KINDS[kind], list_name="Open tasks")
        return tasks
    if kind == "pages":
        pages = site.pages()
        for number in range(6):
            pages.page(f"P{number}.aspx", f"whale {number}", [[Text("<p>words</p>")]])
        libraries.declare(site, KINDS[kind], sharepoint_url_part="/SitePages")
        return pages
    library = site.library()
    library.column("State")
    for number in range(6):
        library.add(f"f{number}.txt", f"whale {number}", State="open")
    column = "fields/State" if api == "graph" else "State"
    libraries.declare(
        site, KINDS[kind], sharepoint_url_part="/Shared Documents", filter=f"{column} eq 'open'"
    )
    return library


@pytest.mark.parametrize(("kind", "place", "wrong"), list(cells()))
def test_no_listing_that_is_not_whole_removes_anything(
    kind: str, place: Place, wrong: Wrong, crawl: Crawl, sharepoint: SharepointServer
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint, place.api)
    listed = filled(libraries, kind, place.api)
    assert libraries.download()["added"] == 6
    before = libraries.facts(KINDS[kind]), libraries.rows("files_map.csv", KINDS[kind])
    listed.delete_entry(list(listed.entries.values())[1])
    fault = sharepoint.fail(
        wrong.kind, place.pattern, **{"nth": place.nth, "times": None} | wrong.facts
    )
    crawl.environment |= wrong.settings

    found = libraries.download("--retry-batches", "1", expect=3)

    assert fault.hit > 0
    message = " ".join([found["reason"], *found["reasons"]])
    assert wrong.said in message
    is_trimmed = wrong.kind == "drop"  # read to its end: the log has the remedy
    warned = found["log"] if is_trimmed else message
    assert "/sites/demo" in warned
    assert re.search(REMEDY, warned), warned
    assert (found["removed"], found["complete"]) == (0, is_trimmed), message
    assert (found["withheld"] > 0) is is_trimmed
    now = libraries.facts(KINDS[kind]), libraries.rows("files_map.csv", KINDS[kind])
    assert now == before
    assert len(crawl.search("whale", "--limit", "100")) == 6
    sharepoint.faults.clear()
    crawl.environment.pop("DOWNLOAD_TIMEOUT", None)
    assert libraries.download()["removed"] == 1
    assert len(libraries.rows("files_map.csv", KINDS[kind])) == 5


@pytest.mark.parametrize("api", ["rest", "graph"])
def test_a_filter_over_the_threshold_has_its_remedy(
    api: str, crawl: Crawl, sharepoint: SharepointServer
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint, api)
    listed = filled(libraries, "filter", api)
    libraries.download()
    before = libraries.facts(), libraries.rows("files_map.csv")
    sharepoint.tenant.threshold = 5

    found = libraries.download(expect=3)

    assert "index the column that the filter names" in " ".join(found["reasons"])
    assert (libraries.facts(), libraries.rows("files_map.csv")) == before
    listed.index("State")
    assert libraries.download()["complete"]


def _tenant(libraries: LibraryCrawl, _: Library) -> None:
    libraries.crawl.environment["SHAREPOINT_TENANT"] = "00000000-0000-0000-0000-000000000000"


def _credentials(libraries: LibraryCrawl, _: Library) -> None:
    """Let the secret and the certificate of the app end."""
    issuer = copy.copy(libraries.server.issuer)
    issuer.secrets = dict.fromkeys(issuer.secrets, False)
    issuer.certificates = []
    libraries.server.issuer = issuer


def _secret_with_rest(libraries: LibraryCrawl, _: Library) -> None:
    environment = libraries.crawl.environment
    environment |= libraries.server.graph_settings | {"SHAREPOINT_API": "rest"}
    environment.pop("SHAREPOINT_CERTIFICATE", None)


def _no_right(_: LibraryCrawl, library: Library) -> None:
    library.site.allowed = False


def _site_renamed(_: LibraryCrawl, library: Library) -> None:
    library.site.path = "/sites/elsewhere"


def _library_renamed(_: LibraryCrawl, library: Library) -> None:
    library.url_name = "Elsewhere"


#: How a source is refused as a whole, and words of the remedy.
REFUSALS: dict[str, tuple[Callable[[LibraryCrawl, Library], None], str]] = {
    "wrong tenant": (_tenant, "SHAREPOINT_TENANT"),
    "expired credentials": (_credentials, r"SHAREPOINT_CLIENT_SECRET|SHAREPOINT_CERTIFICATE"),
    "secret with REST": (_secret_with_rest, "set SHAREPOINT_CERTIFICATE, or SHAREPOINT_API=graph"),
    "no right": (_no_right, "grant it Sites.Selected"),
    "site renamed": (_site_renamed, "correct site_url"),
    "library renamed": (_library_renamed, "sharepoint_url_part"),
}


@pytest.mark.alone
@pytest.mark.sqlite
@pytest.mark.covers("R3-68", "R3-151", "RD-14")
@pytest.mark.parametrize("mode", ["incremental", pytest.param("full", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("name", "api"),
    [
        pytest.param(name, api, id=f"{name} by {api}")
        for name in REFUSALS for api in ("rest", "graph")
        if (name, api) != ("secret with REST", "graph")
    ],
)  # fmt: skip
def test_a_source_that_is_refused_is_left_as_it_is(
    name: str, mode: str, api: str, crawl: Crawl, library_stages: LibraryStages
) -> None:
    libraries, library = library_stages.of(api, "sqlite").begin(crawl)
    before = libraries.facts(), libraries.rows("files_map.csv")
    refuse, remedy = REFUSALS[name]
    refuse(libraries, library)

    found = libraries.download("--mode", mode, expect=3)

    message = " ".join([found["reason"], *found["reasons"]])
    assert f"{DOMAIN}.source01" in message or "/sites/demo" in message
    assert re.search(remedy, message), message
    assert (found["complete"], found["removed"], found["withheld"]) == (False, 0, 0)
    assert (libraries.facts(), libraries.rows("files_map.csv")) == before
    assert len(libraries.hits("quarter")) == 2


def test_a_library_that_is_named_by_its_title_is_answered_with_the_paths_of_the_site(
    crawl: Crawl, sharepoint: SharepointServer
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint, "graph")
    site = sharepoint.tenant.site("/sites/demo")
    site.library("Documents", "Shared Documents")
    site.library("Contracts", "Verträge")
    libraries.declare(site, "file_sources", sharepoint_url_part="/Documents")

    (reason, _) = libraries.download(expect=3)["reasons"]

    assert reason.endswith(
        "correct sharepoint_url_part in domain.json; the site has /Shared Documents, /Verträge)"
    )

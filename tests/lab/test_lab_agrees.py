"""Stories told twice, by the lab and by real crawls: afterwards every row is the same.

Real crawls ask one page at a time here, so that numbers are given in the same order.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import pytest

from smartcrawl.registry.database.session import PostgresConnection
from tests.crawls.commands import Crawl, Remote, Scrapy
from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.crawls.stories import LONG, down
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite, Web
from tests.registry.spare import Spare
from tests.servers.sharepoint.server import SharepointServer
from tests.site_server import Page, Site, html

Told = Iterator[None]  #: stops after each run, when both are compared
Tale = Callable[[Site, "Teller"], Told]

ONE_BY_ONE = {"CONCURRENT_REQUESTS": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}

# What differs between two tellings of one story, and why:

#: Times are those of the clock, and latencies those of the machine: only whether there is one.
TIMES = {
    "at", "created_at", "crawl_delay_ms", "downloaded", "ended_at", "fetched_at", "finished_at",
    "first_crawled_at",
    "first_indexed", "first_seen", "fresh_at", "gone_since", "last_answered", "last_changed",
    "last_checked",
    "last_crawled_at", "last_indexed", "lost_since", "next_visit", "released", "response_ms",
    "robots_failed_at", "robots_fetched_at", "retry_after_at", "sampled_at", "since", "started_at",
    "tried_at", "verified_at", "visit_gap", "whole_at",
}  # fmt: skip
#: Events that one statement wrote are in the order in which the database had their pages.
UNORDERED = {("event", "no")}
#: Digests of all settings, of which the two tellings have some of their own, and ids that are
#: drawn: whether there is one.
DIGESTS = {("source", "configuration"), ("removal_order", "id")}
#: Of [moment, visits, bytes], the progress of a run, the moment is not compared.
MARKS = "marks"
#: The client of the real crawl words what a message of a failure has in brackets.
MESSAGES = {"detail", "error_message", "robots_error"}
#: Tables about this place or this moment: folders and tokens, the delay of a host, leases,
#: samples of seconds; and the
#: insides of the full-text index, which is compared by what it finds.
NOT_COMPARED = {
    "choice", "host_now", "lease", "run_sample", "smartcrawl_schema", "store", "writer",
    "chunk_words_config", "chunk_words_data", "chunk_words_docsize", "chunk_words_idx",
}  # fmt: skip

_PROBE = re.compile(r"[0-9a-f]{12}$")  #: of the address that cannot exist


def same(name: str, value: Any) -> Any:
    """A value of a column without what differs between two tellings."""
    if name in TIMES:
        return value is not None
    if name == MARKS and value:
        return json.loads(value)[-1][1:]
    if isinstance(value, str) and value[:2] == '{"':  # facts of a removal
        return {key: same(key, inner) for key, inner in json.loads(value).items()}
    return value.partition(" (")[0] if name in MESSAGES and isinstance(value, str) else value


_COLUMNS = {
    "sqlite": "SELECT m.name, i.name FROM sqlite_master m JOIN pragma_table_info(m.name) i"
    " WHERE m.type = 'table' ORDER BY m.name, i.cid",
    "postgres": "SELECT c.table_name, c.column_name FROM information_schema.columns c"
    " JOIN information_schema.tables t USING (table_schema, table_name)"
    " WHERE t.table_schema = current_schema() AND t.table_type = 'BASE TABLE'"
    " ORDER BY c.table_name, c.ordinal_position",
}


def tables(crawl: Crawl) -> dict[str, list[Any]]:
    """Every row of a registry by its table, without what differs between two tellings."""
    found, place = {}, crawl.registry
    connection: Any = (
        PostgresConnection(place.url) if isinstance(place, Remote) else apsw.Connection(str(place))
    )
    with closing(connection):
        columns: dict[str, list[str]] = defaultdict(list)
        of_all = _COLUMNS["postgres" if isinstance(place, Remote) else "sqlite"]
        for table, name in connection.execute(of_all).fetchall():
            columns[table].append(name)
        for table in columns.keys() - NOT_COMPARED:
            told = [
                {
                    name: value is not None if (table, name) in DIGESTS else same(name, value)
                    for name, value in zip(columns[table], row, strict=True)
                    if (table, name) not in UNORDERED
                }
                for row in connection.execute(f'SELECT * FROM "{table}"').fetchall()
            ]
            found[table] = sorted(told, key=repr)
    return found


def differences(expected: dict[str, Any], found: dict[str, Any]) -> Iterator[Any]:
    """What differs between two registries, row by row: expected, found, and of which address."""
    for name in {**expected, **found}:
        for one, other in zip_longest(expected.get(name, ()), found.get(name, ())):
            if not (isinstance(one, dict) and isinstance(other, dict)):
                yield from [(name, one, other)] if one != other else []
            elif one != other:
                columns = {key: (one[key], other[key]) for key in one if one[key] != other[key]}
                yield name, columns, one.get("url", one.get("no"))


class Teller:
    """Runs a story with one of the two, with settings that both have."""

    def __init__(self, crawl: Crawl, site: Site) -> None:
        self.crawl = crawl
        self._site = site
        self.asked: list[tuple[str, str, bool, int]] = []

    def __call__(self, *, settings: dict[str, object] | None = None, **arguments: object) -> None:
        """Crawl, with any exit status."""
        chosen = ONE_BY_ONE | {"RETRY_TIMES": 0}
        given = None if arguments.keys() & {"source", "sitemap"} else self._site.url("/")
        self._site.clear()
        result = self.crawl(given, expect=None, settings=chosen | (settings or {}), **arguments)
        self.status, self.said = result.status, result.err
        names = {"if-none-match", "if-modified-since"}
        self.asked = sorted(
            (r.method, _PROBE.sub("…", r.path), bool(names & r.headers.keys()), r.status)
            for r in self._site.log
            if r.path != "/robots.txt"
        )

    def facts(self, words: str) -> dict[str, Any]:
        """All that a run left behind: rows, requests, exit status, and what a search finds."""
        place = self.crawl.registry
        url = place.url if isinstance(place, Remote) else None
        reader = LabCrawl(self.crawl.folder, Web(), url)
        return {
            "status": [self.status],
            "asked": self.asked,
            "hits": [reader.hits(word) for word in words.split()],
            **tables(self.crawl),
        }


# The stories


def lost(site: Site, tell: Teller) -> Told:
    """A page is lost, removed, and comes back; another one fails in between."""
    treasure = html("A", "/a/b", text="treasure in the attic")
    site.pages |= {
        "/": html("Home", "/a", "/c"),
        "/a": treasure,
        "/a/b": html("B"),
        "/c": html("C"),
    }
    tell()
    yield
    del site.pages["/a"]
    site.pages["/c"] = Page("later", status=503)
    for _ in range(3):
        tell()
        yield
    site.pages["/a"] = treasure
    tell()
    yield


def orphan(site: Site, tell: Teller) -> Told:
    """Pages lose their links and are removed; one of them is gone by then."""
    site.pages |= {path: html(path, text=f"whale {path}") for path in ("/a", "/b", "/c")}
    site.pages["/"] = html("Home", "/a", "/b", "/c")
    tell()
    yield
    site.pages["/"] = html("Home", "/c")
    for _ in range(2):
        tell(settings={"ORPHAN_THRESHOLD": 2})
        yield
        site.pages["/b"] = Page("gone", status=410)
    site.pages["/"] = html("Home", "/a", "/c")
    tell()
    yield


def clones(site: Site, tell: Teller) -> Told:
    """Three clones, of which the original is edited, and then removed."""
    alike = html("Whales", text=LONG)
    site.pages |= dict.fromkeys(("/a", "/bb", "/ccc"), alike)
    site.pages["/"] = html("Home", "/a", "/bb", "/ccc")
    tell()
    yield
    site.pages["/a"] = html("Elephants", text=LONG.replace("whales", "elephants"))
    tell()
    yield
    site.pages["/bb"] = Page("gone", status=410)
    tell(lost_threshold=1)
    yield


def collapse(site: Site, tell: Teller) -> Told:
    """Few pages shrink, which is an edit; then all of them, which is a wall."""
    paths = [f"/p{n}" for n in range(12)]
    site.pages["/"] = html("Home", *paths)
    site.pages |= {path: html(path, text=f"{path} treasure " * 100) for path in paths}
    tell()
    yield
    site.pages["/p1"] = html("/p1", text="closed now, whale")
    tell()
    yield
    site.pages |= {path: html("Wall", text="please wait") for path in paths[2:]}
    for _ in range(3):
        tell()
        yield


def moved(site: Site, tell: Teller) -> Told:
    """A page redirects to a new one, another to the home page, and one in a circle."""
    paths = ("/old", "/away", "/round", "/cookie")
    site.pages |= {path: html(path, text=f"treasure of {path}") for path in paths}
    site.pages["/"] = html("Home", *paths)
    tell()
    yield
    site.pages["/new"] = html("New", text="whale")
    site.pages["/old"] = Page(redirect="/new")
    site.pages["/away"] = Page(redirect="/", status=302)
    site.pages["/round"] = Page(redirect="/around")
    site.pages["/around"] = Page(redirect="/round")
    site.pages["/cookie"] = Page(redirect="/set?to=/cookie", status=302)
    site.pages["/set"] = Page(redirect="/cookie", status=302, headers={"Set-Cookie": "a=b; Path=/"})
    for _ in range(3):
        tell()
        yield


def refreshed(site: Site, tell: Teller) -> Told:
    """Nothing changes, a validator is renewed, one page changes, and one date goes back."""
    site.pages["/"] = html("Home", "/a", "/b", "/c")
    site.pages["/a"] = Page(html("A", text="whale"), gzip=True)
    date = "Tue, 06 Jan 2026 10:00:00 GMT"
    site.pages["/b"] = Page(html("B", "/d"), etag=None, last_modified=date)
    site.pages["/c"] = Page(html("C"), etag=None)
    tell()
    yield
    tell()
    yield
    site.pages["/a"] = Page(html("A", "/e", text="treasure"), gzip=True)
    site.pages["/b"] = Page(
        html("B", "/d"), etag=None, last_modified="Mon, 05 Jan 2026 10:00:00 GMT"
    )
    tell()
    yield


def sitemaps(site: Site, tell: Teller) -> Told:
    """Pages that only a sitemap names, which loses one of them and then fails."""
    head = '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'

    def named(*paths: str) -> Page:
        urls = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in paths)
        return Page(f"{head}{urls}</urlset>", content_type="application/xml")

    site.pages["/robots.txt"] = Page(
        f"User-agent: *\nDisallow: /private\nSitemap: {site.url('/map.xml')}\n",
        content_type="text/plain",
    )
    site.pages["/map.xml"] = named("/a", "/b", "/private")
    site.pages |= {path: html(path, text="whale") for path in ("/", "/a", "/b", "/private")}
    tell()
    yield
    site.pages["/map.xml"] = named("/a")
    tell()
    yield
    site.pages["/map.xml"] = Page("later", status=503)
    tell()
    yield


def spelled(site: Site, tell: Teller) -> Told:
    """One address under several spellings, of which one answers."""
    site.pages["/"] = html("Home", "/A?utm_source=x", "/dir", "/dir/", "/x?b=1&a=2", "/x?a=2&b=1")
    site.pages["/A"] = html("A", text="whale")
    site.pages["/dir"] = Page(redirect="/dir/")
    site.pages["/dir/"] = html("Directory", text="treasure")
    site.pages["/x?a=2&b=1"] = html("X")
    site.pages["/x"] = Page("no such page", status=404)
    for _ in range(2):
        tell()
        yield


def forced(site: Site, tell: Teller) -> Told:
    """A forced run reads every page again."""
    site.pages |= {"/": html("Home", "/a"), "/a": html("A", text="whale")}
    tell()
    yield
    tell(force=1)
    yield


def narrowed(site: Site, tell: Teller) -> Told:
    """A declared scope leaves pages out, and takes them back."""

    def declare(*lines: str) -> None:
        tell.crawl.declare("\n".join(["[sources.docs]", f'seeds = ["{site.url("/")}"]', *lines]))

    site.pages["/"] = html("Home", "/docs/a", "/shop/b")
    site.pages |= {"/docs/a": html("A", text="whale"), "/shop/b": html("B", text="treasure")}
    declare()
    tell(source="docs")
    yield
    declare("excluded_patterns = ['/shop/']")
    for _ in range(2):
        tell(source="docs")
        yield
    declare()
    tell(source="docs")
    yield


def walled(site: Site, tell: Teller) -> Told:
    """A soft 404, a login form, and a bot wall, each in the place of a page."""
    missing = html("Nothing here", text="This page does not exist any more. " * 10)
    paths = ("/a", "/b", "/c", "/d")
    site.pages |= {path: html(path, text=f"{path} is a whale. " * 60) for path in paths}
    site.pages["/"] = html("Home", *paths)
    tell()
    yield
    form = '<form action="/in"><input name="u"><input type="password" name="p"></form>'
    site.pages["/a"] = html("Sign in", text="Please sign in.").replace("</main>", f"{form}</main>")
    site.pages["/b"] = Page("Just a moment…", status=403, headers={"CF-Mitigated": "challenge"})
    site.pages["/c"] = missing
    tell()
    yield


def away(site: Site, tell: Teller) -> Told:
    """The server fails in several ways, and then altogether."""
    paths = ("/a", "/b", "/c")
    site.pages |= {path: html(path, text=f"whale {path}") for path in paths}
    site.pages["/"] = html("Home", *paths)
    tell()
    yield
    site.pages["/a"] = Page("later", status=500)
    site.pages["/b"] = Page(html("B", text="cut " * 50), fault="truncate")
    site.pages["/c"] = Page("later", status=503, headers={"Retry-After": "0"})
    engine = {"REVALIDATION_LANE": "off"}  # the lane leaves its failures to the engine, which asks
    tell(settings=engine)
    yield
    with down(site):
        tell(settings=engine)
    yield


def due(site: Site, tell: Teller) -> Told:
    """A crawl of the pages that are due, of which one is."""
    site.pages |= {path: html(path, text=f"whale {path}") for path in ("/a", "/b")}
    site.pages["/"] = html("Home", "/a", "/b")
    tell()
    yield
    tell.crawl.rows(
        "UPDATE state SET next_visit = 0 WHERE no IN (SELECT no FROM record WHERE url LIKE '%/a')"
    )
    site.pages["/a"] = html("/a", "/new", text="treasure")
    site.pages["/new"] = html("New")
    tell(settings={"DUE_ONLY": 1})
    yield


def extracted(site: Site, tell: Teller) -> Told:
    """Another size of chunks reads the stored bodies again."""
    site.pages |= {"/": html("Home", "/a"), "/a": html("A", text="whale treasure " * 100)}
    tell()
    yield
    tell(settings={"CHUNK_SIZE": 400})
    yield


def noted(site: Site, tell: Teller) -> Told:
    """Refreshes, canonical addresses, noindex and nofollow."""
    site.pages["/"] = html("Home", "/at-once", "/print", "/hidden", "/header")
    site.pages["/at-once"] = html("On", head='<meta http-equiv="refresh" content="0; url=/on">')
    site.pages["/on"] = html("On", text="whale")
    site.pages["/print"] = html("P", head='<link rel="canonical" href="/on">', text="whale")
    site.pages["/hidden"] = html("H", "/behind", head='<meta name="robots" content="noindex">')
    site.pages["/behind"] = html("Behind", text="treasure")
    site.pages["/header"] = Page(html("N", "/never"), headers={"X-Robots-Tag": "nofollow"})
    for _ in range(2):
        tell()
        yield
        site.pages["/hidden"] = html("H", text="treasure")


def cut(site: Site, tell: Teller) -> Told:
    """A run is limited, and the next ones go on where it ended."""
    paths = [f"/p{n}" for n in range(6)]
    site.pages |= {path: html(path, f"{path}/deep", text=f"whale {path}") for path in paths}
    site.pages |= {f"{path}/deep": html(path, text=f"treasure {path}") for path in paths}
    site.pages["/"] = html("Home", *paths)
    tell(max_pages=4)
    yield
    tell(max_pages=4)
    yield
    tell(settings={"DEPTH_LIMIT": 1})
    yield


def retried(site: Site, tell: Teller) -> Told:
    """Passing failures are tried again, a HEAD comes first, and a server ignores validators."""
    site.pages |= {path: html(path, text=f"whale {path}") for path in ("/a", "/b")}
    site.pages["/"] = html("Home", "/a", "/b")
    tell()
    yield
    site.pages["/a"] = Page(html("/a", text="treasure"), flaky=1)
    site.pages["/b"] = Page("later", status=500)
    tell(settings={"RETRY_TIMES": 1, "REVALIDATION_LANE": "off"})
    yield
    site.pages["/b"] = html("/b", text="whale /b")
    site.ignores_conditions = True
    tell(settings={"HEAD_POLICY": "always"})
    yield


def ordered(site: Site, tell: Teller) -> Told:
    """Orders between runs: a page is indexed again, a host is blocked, pages are forgotten."""
    site.pages |= {path: html(path, text=f"whale {path}") for path in ("/a", "/b")}
    site.pages["/"] = html("Home", "/a", "/b")
    tell()
    yield
    tell.crawl.run("reindex", "--url", site.url("/a"))
    tell()
    yield
    tell.crawl.run("forget", site.url("/b"))
    tell()
    yield
    tell.crawl.run("hosts", "--block", site.url("").partition("://")[2])
    tell()
    yield


TALES: tuple[Tale, ...] = (
    lost, orphan, clones, collapse, moved, refreshed, sitemaps, spelled, forced, narrowed, walled,
    away, due, extracted, noted, cut, retried, ordered,
)  # fmt: skip


def lap(real: Crawl, lab: LabCrawl, words: str) -> None:
    """Compare the registries of two crawls, and what a search finds in them."""
    expected, found = tables(real), tables(lab)
    assert not list(differences(expected, found))
    reader = LabCrawl(real.folder, Web(), real.registry.url if is_remote(real) else None)
    for word in words.split():
        assert sorted(hit["url"] for hit in lab.search(word)) == sorted(
            hit["url"] for hit in reader.search(word)
        )


def is_remote(crawl: Crawl) -> bool:
    return isinstance(crawl.registry, Remote)


@contextmanager
def both(
    tmp_path: Path, ask: Scrapy, stack: str, request: pytest.FixtureRequest
) -> Iterator[tuple[Crawl, LabCrawl]]:
    """A real crawl and one of the lab, each with a registry of its own."""
    with place(stack, request) as one, place(stack, request) as other:
        for name in ("real", "lab"):
            (tmp_path / name).mkdir()
        yield Crawl(tmp_path / "real", ask, one), LabCrawl(tmp_path / "lab", Web(), other)


def test_the_lab_leaves_the_rows_of_a_real_crawl_of_a_folder(
    tmp_path: Path, ask: Scrapy, stack: str, request: pytest.FixtureRequest
):
    tree, old = tmp_path / "tree", iter(range(1_600_000_000, 1_700_000_000, 1_000))
    tree.mkdir()

    def write(name: str, text: str) -> None:
        file = tree / name
        file.write_text(text)
        moment = next(old)
        os.utime(file, (moment, moment))

    with both(tmp_path, ask, stack, request) as (real, lab):
        changes = (  # of one file each, because files are read side by side
            lambda: write("a.md", "# A\n\na whale of a page"),
            lambda: write("b.csv", "name,price\ntreasure,1\n"),
            lambda: write("a.md", "# A\n\ntreasure in the attic"),
            lambda: write("a.md", ""),
            (tree / "b.csv").unlink,
        )
        for change in changes:
            change()
            for crawl in (real, lab):
                crawl(spider="files", root=tree, expect=None)
            lap(real, lab, "whale treasure")


@pytest.mark.parametrize("api", ["rest", "graph"])
def test_the_lab_leaves_the_rows_of_a_real_download_of_a_library(
    api: str,
    tmp_path: Path,
    ask: Scrapy,
    stack: str,
    sharepoint: SharepointServer,
    request: pytest.FixtureRequest,
):
    site = sharepoint.tenant.site("/sites/demo")
    library = site.library("Documents", "Shared Documents")
    with both(tmp_path, ask, stack, request) as (real, lab):
        lab.sharepoint = sharepoint
        crawls = [LibraryCrawl(crawl, sharepoint, api=api) for crawl in (real, lab)]
        for crawl in crawls:
            crawl.declare(site, "file_sources", sharepoint_url_part="/Shared Documents")
            crawl.crawl.environment |= {name: str(value) for name, value in ONE_BY_ONE.items()}
        for step in range(4):
            match step:
                case 0:
                    for path in ("Reports/Q1.txt", "Reports/Q2.txt", "readme.md"):
                        library.add(path, f"a whale of {path}".encode())
                case 1:
                    library.update("readme.md", "treasure in the attic")
                    library.rename("Reports/Q1.txt", "first.txt")
                case 2:
                    library.delete("Reports/Q2.txt")
            told = []
            for crawl in crawls:
                if step == 1:
                    sharepoint.fail("503", r"/items", retry_after=0)
                told.append(crawl.library("download", DOMAIN, expect=None)["sources"])
            for one in (source for sources in told for source in sources):
                one.pop("seconds", None)
            assert told[1] == told[0]
            assert crawls[1].disk() == crawls[0].disk()
            lap(real, lab, "whale treasure")


@contextmanager
def place(stack: str, request: pytest.FixtureRequest) -> Iterator[str | None]:
    """An empty registry in PostgreSQL, or None for one in a file."""
    if stack == "sqlite":
        yield None
        return
    spare: Spare = request.getfixturevalue("spare_registries")
    url = spare.take()
    yield url
    spare.put_back(url)


@pytest.mark.parametrize("tale", TALES, ids=lambda tale: tale.__name__)
def test_the_lab_leaves_the_rows_of_a_real_crawl(
    tale: Tale, tmp_path: Path, ask: Scrapy, stack: str, request: pytest.FixtureRequest
):
    probes = {"SOFT_404_DETECTION": "1"} if tale is walled else {}
    with Site() as site, place(stack, request) as one, place(stack, request) as other:
        copy = LabSite(urlsplit(site.url()).netloc)
        real = Teller(Crawl(tmp_path / "real", ask, one), site)
        lab = Teller(LabCrawl(tmp_path / "lab", Web(copy), other), copy)
        for teller in (real, lab):
            teller.crawl.folder.mkdir()
            teller.crawl.environment |= probes
        ended = object()
        for ends in zip_longest(tale(site, real), tale(copy, lab), fillvalue=ended):
            assert ended not in ends
            expected, found = real.facts("whale treasure"), lab.facts("whale treasure")
            assert not list(differences(expected, found))

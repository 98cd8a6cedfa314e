"""The seeds' own shapes, column for column, over the one truth (R0.6, R1.4, R2.10-13, R4.5)."""

import json
import re
import sqlite3
from collections import Counter
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import apsw
import psycopg
import pytest

from smartcrawl.model.batches import HostTally
from smartcrawl.model.documents import Chunk, ChunkPlace, Link
from smartcrawl.model.urls import Trackers, normalize_url, url_digest, url_digest_text, url_hash
from smartcrawl.registry.pack import pack_stored_links, pack_stored_numbers, unpack_stored_links
from smartcrawl.rules.model import Outcome
from tests.http_dates import DATES_OF_MONTHS
from tests.registry.build import LATER, LONG, NOW, Desk, closing, reports, with_iso_times

POST = "https://contoso.com/blog/post-1"  #: the vector of the requirements
POST_HASH = "262d41e646dd2485a1cc80851323c5f2951a12bbd7cf96f2ae65195ee0660fd9"
POST_KEY = "eywudzsg3usiliomqccrgi6f6k"
BASE = "https://contoso.com/"
HASH_OF_POST = "SELECT lower(hex(content_hash)) FROM content WHERE title = 'Post'"
FIRST, SECOND = "2025-06-15T15:06:40Z", "2025-06-15T16:06:40Z"  #: NOW and LATER

COLUMNS = {
    "IngestItems": """
        PartitionKey RowKey ETag id type normalizedSource displaySource sourceHost parentPageId
        status reindexRequested reindexGeneration httpEtag httpLastModified httpContentLength
        httpStatusCode httpRedirectChain httpRobotsAllowed httpCanonicalUrl fileEtag
        fileLastModified fileLength fileContentType contentHash textHash language mimeType
        lastIndexedDocId imageCount firstSeen lastChecked lastChanged lastIndexed crawlAttempts
        errorMessage nextCrawlAt crawlIntervalSeconds
    """,
    "url_frontier": """
        url_hash url domain priority depth discovered_at discovered_from status
        last_crawl_attempt crawl_count last_status_code next_crawl_after
    """,
    "crawled_documents": """
        url_hash url domain http_status content_type content_length content_encoding etag
        last_modified content_hash storage_path crawled_at title outlinks_count is_duplicate
        duplicate_of
    """,
    "outlinks": """
        id source_url_hash target_url target_url_hash anchor_text link_type discovered_at
    """,
    "domain_stats": """
        domain pages_crawled pages_failed bytes_downloaded first_crawled_at last_crawled_at
        avg_response_time_ms robots_txt_fetched_at robots_txt_hash crawl_delay_ms error_rate
        is_blocked block_reason
    """,
    "versions": "id name created_at",
    "pages": """
        id version_id url title etag last_modified content_type depth created_at updated_at
    """,
    "documents": "id page_id content metadata sort_order embedding created_at",
    "urlword": """
        url site status last_index_time next_index_time crc last_modified etag hops redir origin
        url_id
    """,
    "urlwords": """
        wordcount totalcount content_type charset title txt docsize keywords description lang
        words hrefs url_id
    """,
}
PLAIN = [name for name in COLUMNS if name != "outlinks"]  #: views that any SQLite can read
LINKS = [
    Link(BASE + "clone", "Clone", "hyperlink", False),
    Link(BASE + "frame", "", "frame", True),
    Link(BASE + "c", "", "canonical", False),
]


@pytest.fixture
def shelf(file: Path) -> "Shelf":
    """A small registry of every kind of page, in a file."""
    file.parent.mkdir()
    desk = Desk(file)
    desk.open()
    post = desk.index(
        POST, LONG, title="Post", etag='W/"a1b2"', last_modified="Wed, 20 Aug 2025 12:00:00 GMT",
        content_encoding="gzip", links=LINKS,
        document_fields={"description": "On posts", "keywords": "posts, letters"},
    )  # fmt: skip
    desk.write(
        addresses=[
            desk.address(f"{BASE}{name}", 1, origin=post)
            for name in ("clone", "lost", "moved", "noindex", "bare", "waits", "robots")
        ]
    )
    desk.index(BASE + "clone", LONG, title="Post", document_fields={"description": "On posts"})
    desk.index(BASE + "lost", "short text", title="Lost", etag='"l"')
    moved = desk.visit(BASE + "moved", outcome=Outcome.REDIRECT, status=301, location=POST)
    moved.parsed.links = pack_stored_links([Link(POST, "", "redirect", False)])
    moved.parsed.links_count = 1
    moved.parsed.targets = pack_stored_numbers([post])
    noindex = desk.visit(
        BASE + "noindex", "hidden", outcome=Outcome.NOT_ACCEPTABLE, links=LINKS, targets=[post]
    )
    desk.write(
        moved,
        noindex,
        desk.visit(BASE + "bare", outcome=Outcome.NOT_FOUND, status=404, error="not found"),
        desk.visit(BASE + "robots", outcome=Outcome.EXCLUDED, status=None, error=DISALLOWED),
        hosts={"contoso.com": HostTally(crawled=6, failed=2, downloaded=700, response_ms=90)},
    )
    desk.seal()
    desk.open(now=LATER)
    desk.reach(BASE + "lost", depth=1)
    lost = desk.visit(BASE + "lost", outcome=Outcome.NOT_FOUND, status=404, error="gone")
    desk.write(lost, now=LATER)
    desk.close()
    return Shelf(file)


DISALLOWED = "disallowed by https://contoso.com/robots.txt"


class Shelf:
    """Reads views as dicts by the last part of the URL."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.connection = reports(file)

    def rows(self, view: str) -> list[dict[str, object]]:
        cursor = self.connection.execute(f'SELECT * FROM "{view}"')
        rows = with_iso_times(cursor.fetchall())
        return [dict(zip(COLUMNS[view].split(), row, strict=True)) for row in rows]

    def pages(self, view: str, key: str = "url") -> dict[str, dict[str, object]]:
        return {str(row[key]).rpartition("/")[2]: row for row in self.rows(view)}


@pytest.mark.long(but=20)
@pytest.mark.parametrize("view", COLUMNS)
def test_columns_are_named_and_ordered_as_specified(shelf: Shelf, view: str):
    described = shelf.connection.execute(f'SELECT * FROM "{view}"').get_description()

    assert [column[0] for column in described] == COLUMNS[view].split()


@pytest.mark.parametrize("statement", ["INSERT INTO", "UPDATE", "DELETE FROM"])
def test_views_cannot_be_written(shelf: Shelf, statement: str):
    """Neither by reports nor over a connection that may write."""
    desk = Desk(shelf.file)

    for view, columns in COLUMNS.items():
        column = columns.split()[0]
        sql = {
            "INSERT INTO": f'INSERT INTO "{view}" ("{column}") SELECT "{column}" FROM "{view}"',
            "UPDATE": f'UPDATE "{view}" SET "{column}" = "{column}"',
            "DELETE FROM": f'DELETE FROM "{view}"',
        }[statement]
        for connection in (shelf.connection, desk.connection):
            with pytest.raises((apsw.Error, psycopg.Error)):
                print(view, connection.execute(sql).fetchall())

    desk.close()


@pytest.mark.sqlite
def test_every_view_but_outlinks_is_read_by_the_standard_library_too(shelf: Shelf):
    if sqlite3.sqlite_version_info < (3, 38):
        pytest.skip(f"SQLite {sqlite3.sqlite_version} has no JSON functions built in")
    plain = sqlite3.connect(f"file:{shelf.file}?mode=ro", uri=True)
    try:
        for view in PLAIN:
            rows = plain.execute(f'SELECT * FROM "{view}"').fetchall()

            assert rows == shelf.connection.execute(f'SELECT * FROM "{view}"').fetchall()
            assert rows
    finally:
        plain.close()


# IngestItems


@pytest.mark.covers(
    "R0-07", "R0-08", "R0-10", "R0-24", "R0-27", "R0-35", "R0-36", "R0-95", "G-20", "M-17", "M-44"
)
def test_an_indexed_page_reads_back_as_the_entity(shelf: Shelf):
    found = shelf.pages("IngestItems", "normalizedSource")["post-1"]

    hashes = {name: found.pop(name) for name in ("contentHash", "textHash")}
    assert found == {
        "PartitionKey": "contoso.com",
        "RowKey": POST_KEY,
        "ETag": "1.0",
        "id": f"url_{POST_KEY}",
        "type": "url",
        "normalizedSource": POST,
        "displaySource": POST,
        "sourceHost": "contoso.com",
        "parentPageId": None,
        "status": "Indexed",
        "reindexRequested": 0,
        "reindexGeneration": 0,
        "httpEtag": 'W/"a1b2"',
        "httpLastModified": "2025-08-20T12:00:00Z",
        "httpContentLength": len(f"<title>Post</title>{LONG}"),
        "httpStatusCode": 200,
        "httpRedirectChain": None,
        "httpRobotsAllowed": 1,
        "httpCanonicalUrl": None,
        "fileEtag": None,
        "fileLastModified": None,
        "fileLength": None,
        "fileContentType": None,
        "language": "en",
        "mimeType": "text/html",
        "lastIndexedDocId": f"page_{POST_HASH}",
        "imageCount": 0,
        "firstSeen": FIRST,
        "lastChecked": FIRST,
        "lastChanged": FIRST,
        "lastIndexed": FIRST,
        "crawlAttempts": 0,
        "errorMessage": None,
        "nextCrawlAt": "2025-06-16T15:06:40Z",
        "crawlIntervalSeconds": 86_400,
    }
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", value) for value in hashes.values())


@pytest.mark.covers("R0-05", "R0-28", "R0-42", "R0-94")
def test_each_kind_of_page_has_its_status_and_last_error(shelf: Shelf):
    found = shelf.pages("IngestItems", "normalizedSource")

    assert {name: (row["status"], row["errorMessage"]) for name, row in found.items()} == {
        "post-1": ("Indexed", None),
        "clone": ("Indexed", None),
        "lost": ("Error", "gone"),
        "moved": ("Crawled", None),
        "noindex": ("Crawled", None),
        "bare": ("Error", "not found"),
        "waits": ("Pending", None),
        "robots": ("OutOfScope", DISALLOWED),
    }
    assert [name for name, row in found.items() if not row["httpRobotsAllowed"]] == ["robots"]


@pytest.mark.covers("R0-41")
def test_a_redirect_has_its_chain_as_json(shelf: Shelf):
    found = shelf.pages("IngestItems", "normalizedSource")

    assert json.loads(str(found["moved"]["httpRedirectChain"])) == [BASE + "moved", POST]


def redirects(desk: Desk, *hops: str) -> None:
    """Let each of these pages redirect to the next."""
    for origin, target in pairwise(hops):
        desk.page(target)
        visit = desk.visit(origin, outcome=Outcome.REDIRECT, status=301, location=target)
        visit.parsed.links = pack_stored_links([Link(target, "", "redirect", False)])
        visit.parsed.links_count = 1
        visit.parsed.targets = pack_stored_numbers([desk.number(target)])
        desk.write(visit)


CHAIN = """
SELECT "httpRedirectChain" FROM "IngestItems" WHERE "httpRedirectChain" IS NOT NULL
 ORDER BY "normalizedSource"
"""


@pytest.mark.covers("R0-41", "M-21")
def test_a_chain_of_redirects_has_every_address_to_its_end(desk: Desk):
    hops = [f"{BASE}{n}" for n in range(5)]

    redirects(desk, *hops)
    desk.index(hops[-1], "arrived")

    chains = [json.loads(str(chain)) for (chain,) in desk.rows(CHAIN)]
    assert chains == [hops[n:] for n in range(4)]


def test_a_circle_of_redirects_has_a_chain_that_ends(desk: Desk):
    redirects(desk, BASE + "x", BASE + "y", BASE + "x")

    chain, _ = (json.loads(str(chain)) for (chain,) in desk.rows(CHAIN))

    assert chain[:3] == [BASE + "x", BASE + "y", BASE + "x"]
    assert len(chain) <= 1 + 6, "itself, and one hop more than are followed"


@pytest.mark.covers("R0-28", "R2-48", "R2-50", "R4-21", "R4-23", "RD-02", "M-22")
def test_what_was_removed_reads_back_without_content(desk: Desk):
    """Its record stays, with what the server said last; no entry, validator or hash does."""
    desk.closing = closing(lost_threshold=1, orphan_threshold=1, max_ratio=1)
    stays = BASE + "stays"
    links = [Link(stays, "", "hyperlink", False)]
    names = ("gone", "moved", "hidden", "orphan", "stays")
    for name in names:
        fields = {"etag": f'"{name}"', "links": links, "targets": [desk.page(stays).no]}
        desk.index(BASE + name, f"text of {name}", **fields)
    desk.seal()
    desk.open(now=LATER)
    desk.reach(*(BASE + name for name in names if name != "orphan"))
    redirects(desk, BASE + "moved", stays)
    desk.write(
        desk.visit(BASE + "gone", outcome=Outcome.NOT_FOUND, status=410, error="gone"),
        desk.visit(BASE + "hidden", outcome=Outcome.NOT_ACCEPTABLE, error="noindex", links=links),
        desk.visit(stays, outcome=Outcome.NOT_MODIFIED, status=304, etag='"stays"'),
        now=LATER,
    )
    assert desk.seal(now=LATER).removed == 4

    def view(name: str, columns: str, key: str = "url") -> dict[str, tuple[object, ...]]:
        rows = desk.rows(f'SELECT {key}, {columns} FROM "{name}"')
        return {str(url).rpartition("/")[2]: tuple(values) for url, *values in rows}

    items = '"status", "httpStatusCode", "httpEtag", "contentHash", "textHash", "lastIndexedDocId"'
    none = (None,) * 4
    found = view("IngestItems", items, '"normalizedSource"')
    assert found.pop("stays")[:3] == ("Indexed", 200, '"stays"')
    assert found == {
        "gone": ("Gone", 410, *none),
        "moved": ("Crawled", 301, *none),
        "hidden": ("Crawled", 200, *none),
        "orphan": ("OutOfScope", 200, *none),
    }
    assert view("url_frontier", "status") == {
        "gone": ("failed",), "moved": ("completed",), "hidden": ("completed",),
        "orphan": ("blocked",), "stays": ("completed",),
    }  # fmt: skip
    assert view("crawled_documents", "http_status, outlinks_count, content_hash IS NULL") == {
        "moved": (301, 1, 1), "hidden": (406, 1, 1), "stays": (200, 1, 0)
    }  # fmt: skip
    words = view("urlword", "status, crc IS NULL, redir")
    assert words.pop("orphan")[1:] == (1, None)
    assert words == {
        "gone": (410, 1, None), "moved": (301, 1, stays), "hidden": (406, 1, None),
        "stays": (200, 0, None),
    }  # fmt: skip
    assert list(view("pages", "title")) == ["stays"]
    assert desk.rows("SELECT page_id FROM documents") == [(desk.number(stays),)]
    assert desk.rows("SELECT title, totalcount, hrefs FROM urlwords ORDER BY 2") == [
        (None, 0, 1), ("", 3, 1)
    ]  # fmt: skip


def test_a_clone_names_the_document_of_its_original(shelf: Shelf):
    found = shelf.pages("IngestItems", "normalizedSource")

    assert found["clone"]["lastIndexedDocId"] == found["post-1"]["lastIndexedDocId"]
    assert found["noindex"]["lastIndexedDocId"] is None


def test_hashes_are_null_where_nothing_is_held(shelf: Shelf):
    found = shelf.pages("IngestItems", "normalizedSource")

    for name in ("bare", "waits", "moved", "robots"):
        assert (found[name]["contentHash"], found[name]["textHash"]) == (None, None)


def test_the_row_s_etag_moves_with_every_write_of_a_later_claim(shelf: Shelf):
    found = shelf.pages("IngestItems", "normalizedSource")
    first, second = shelf.connection.execute("SELECT number FROM run ORDER BY no").fetchall()

    assert first < second
    assert (found["post-1"]["ETag"], found["lost"]["ETag"], found["waits"]["ETag"]) == (
        f"{first[0]}.0", f"{second[0]}.0", "0.0",
    )  # fmt: skip


@pytest.mark.covers("R0-19")
def test_a_host_is_displayed_in_unicode_and_stored_in_ascii(desk: Desk):
    desk.add("https://xn--bcher-kva.example/a")

    names = desk.rows('SELECT "normalizedSource", "sourceHost", "displaySource" FROM "IngestItems"')

    assert names == [
        (
            "https://xn--bcher-kva.example/a",
            "xn--bcher-kva.example",
            "https://bücher.example/a",
        )
    ]


@pytest.mark.long(but=28)
@pytest.mark.covers("R0-30", "R0-41", "M-44")
@pytest.mark.parametrize(
    ("received", "iso"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"),
        *DATES_OF_MONTHS,
        ("Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"),
        ("Wednesday, 31-Dec-25 23:59:60 GMT", "2025-12-31T23:59:60Z"),
        ("Thursday, 01-Jan-70 00:00:00 GMT", "1970-01-01T00:00:00Z"),
        ("Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37Z"),
        ("Sat Nov 16 08:49:37 2024", "2024-11-16T08:49:37Z"),
        ("Someday, 06-Nov-94 08:49:37 GMT", None),
        ("Sunday, 06-Foo-94 08:49:37 GMT", None),
        ("Sun Foo  6 08:49:37 1994", None),
        ("Sun, 06 Nov 1994 08:49:37 +0100", None),
        ("2026-01-06 10:00:00", None),
        ("0", None),
        ("", None),
        (None, None),
        pytest.param("Thursday, the 5th of November", None, id="29-characters"),
        pytest.param("Sun, 06 Foo 1994 08:49:37 GMT", None, id="no-such-month"),
    ],
)
def test_last_modified_is_iso_and_null_when_it_is_no_http_date(
    desk: Desk, received: str | None, iso: str | None
):
    desk.index(POST, "words", last_modified=received)

    assert desk.rows('SELECT "httpLastModified" FROM "IngestItems"') == [(iso,)]
    shown = desk.rows("SELECT last_modified FROM crawled_documents")
    if iso == "2025-12-31T23:59:60Z" and isinstance(shown[0][0], datetime):
        iso = "2026-01-01T00:00:00Z"  # the times of PostgreSQL have no leap seconds
    assert with_iso_times(shown) == [(iso,)]
    assert desk.rows("SELECT last_modified FROM pages") == [(received,)]


def test_row_keys_are_those_of_the_ids(desk: Desk):
    """The view computes base32 in SQL; urls.url_digest_text does it in Python."""
    urls = [f"https://contoso.com/{n}" for n in range(200)]
    desk.write(addresses=[desk.address(url) for url in urls])

    found = dict(desk.rows('SELECT "normalizedSource", "RowKey" FROM "IngestItems"'))

    assert found == {url: url_digest_text(url_digest(url)) for url in urls}


# url_frontier, crawled_documents


@pytest.mark.covers("R2-47", "R2-48", "M-55")
def test_the_frontier_tells_status_depth_and_last_attempt(shelf: Shelf):
    found = shelf.pages("url_frontier")

    assert {name: row["status"] for name, row in found.items()} == {
        "post-1": "completed",
        "clone": "completed",
        "lost": "failed",
        "moved": "completed",
        "noindex": "completed",
        "bare": "failed",
        "waits": "pending",
        "robots": "blocked",
    }
    assert found["lost"] == {
        "url_hash": url_hash(BASE + "lost"),
        "url": BASE + "lost",
        "domain": "contoso.com",
        "priority": 5,
        "depth": 1,
        "discovered_at": FIRST,
        "discovered_from": POST_HASH,
        "status": "failed",
        "last_crawl_attempt": SECOND,
        "crawl_count": 2,
        "last_status_code": 404,
        "next_crawl_after": "2025-06-15T16:16:40Z",  # ten minutes after its first error
    }
    assert found["post-1"]["next_crawl_after"] == "2025-06-16T15:06:40Z"
    assert found["waits"]["next_crawl_after"] == FIRST


def test_a_seed_was_discovered_from_nowhere(shelf: Shelf):
    assert shelf.pages("url_frontier")["post-1"]["discovered_from"] is None


@pytest.mark.covers("R2-50", "R2-52", "R4-38", "M-55")
def test_documents_are_what_their_stored_content_came_with(shelf: Shelf):
    """A lost page keeps 200 here; what was never answered has no row."""
    found = shelf.pages("crawled_documents")

    assert {name: row["http_status"] for name, row in found.items()} == {
        "post-1": 200,
        "clone": 200,
        "lost": 200,
        "moved": 301,
        "noindex": 406,
    }
    body = sha256(f"<title>Post</title>{LONG}".encode()).hexdigest()
    assert found["clone"] == {
        "url_hash": url_hash(BASE + "clone"),
        "url": BASE + "clone",
        "domain": "contoso.com",
        "http_status": 200,
        "content_type": "text/html",
        "content_length": len(f"<title>Post</title>{LONG}"),
        "content_encoding": None,
        "etag": None,
        "last_modified": None,
        "content_hash": body,
        "storage_path": None,
        "crawled_at": FIRST,
        "title": "Post",
        "outlinks_count": 0,
        "is_duplicate": 1,
        "duplicate_of": POST_HASH,
    }
    assert found["post-1"]["is_duplicate"] == 0
    assert found["post-1"]["outlinks_count"] == 3
    assert found["post-1"]["content_encoding"] == "gzip"
    assert len(str(found["noindex"]["content_hash"])) == 64


def test_what_a_document_has_not_is_null(shelf: Shelf):
    found = shelf.pages("crawled_documents")

    assert (found["post-1"]["duplicate_of"], found["moved"]["content_hash"]) == (None, None)
    assert shelf.pages("urlword")["waits"]["crc"] is None


# outlinks


@pytest.mark.covers("R2-53")
def test_every_raw_link_is_a_row_with_its_type(shelf: Shelf):
    rows = shelf.rows("outlinks")

    assert len({row.pop("id") for row in rows}) == len(rows)
    of_post = [row for row in rows if row["source_url_hash"] == POST_HASH]
    assert of_post == [
        {
            "source_url_hash": POST_HASH,
            "target_url": link.url,
            "target_url_hash": url_hash(link.url),
            "anchor_text": link.anchor,
            "link_type": kind,
            "discovered_at": FIRST,
        }
        for link, kind in zip(LINKS, ("hyperlink", "hyperlink", "canonical"), strict=True)
    ]
    types = {(row["source_url_hash"], row["link_type"]) for row in rows}
    assert (url_hash(BASE + "moved"), "redirect") in types
    assert {row["link_type"] for row in rows} == {"hyperlink", "canonical", "redirect"}


def test_outlinks_join_what_they_lead_to(shelf: Shelf):
    query = """
    SELECT f.url FROM outlinks l JOIN url_frontier f ON f.url_hash = l.target_url_hash
     WHERE l.source_url_hash = ?
    """

    rows = shelf.connection.execute(query, (POST_HASH,)).fetchall()

    assert rows == [(BASE + "clone",)]


def test_targets_have_the_ids_of_their_records_whatever_trackers_are_set(file: Path):
    file.parent.mkdir()
    desk = Desk(file)
    desk.open()
    desk.trackers = Trackers(names=frozenset({"ref"}))
    target = desk.address(BASE + "a?ref=x", trackers=desk.trackers)
    desk.write(addresses=[target])
    desk.index(POST, "words", links=[Link(target.url, "", "hyperlink", False)])
    desk.close()

    rows = reports(file, desk.trackers).execute("SELECT target_url_hash FROM outlinks").fetchall()

    assert rows == [(target.id.hex(),)]


def test_links_are_shown_as_written_with_the_hash_of_what_they_lead_to(file: Path):
    """Spellings that are not normalized, and text that PostgreSQL has no bytes for."""
    links = [
        Link("https://contoso.com/A/?utm_source=x&b=2&a=1", 'a "quoted" \\ anchor', "next", True),
        Link("https://contoso.com/é", "é\u2028\U0001f600", "hyperlink", False),
        Link("https://contoso.com/n", "nul \0 and \\u0000", "hyperlink", False),
    ]
    file.parent.mkdir()
    desk = Desk(file)
    desk.open()
    post = desk.index(POST, "words", links=links)

    assert unpack_stored_links(desk.readers.pages.raw_links([post])[post])[:2] == links[:2]
    rows = reports(file).execute("SELECT * FROM outlinks ORDER BY id").fetchall()
    desk.close()

    assert [row[2] for row in rows] == [link.url for link in links]
    assert [row[3] for row in rows] == [url_hash(normalize_url(link.url)) for link in links]
    assert rows[0][3] != url_hash(links[0].url)
    assert [row[4] for row in rows[:2]] == [link.anchor for link in links[:2]]
    assert rows[2][4].startswith("nul ")
    assert rows[2][4].endswith(" and \\u0000")


# domain_stats, versions, pages, documents


@pytest.mark.covers("R2-55")
def test_domains_have_their_statistics(shelf: Shelf):
    (found,) = shelf.rows("domain_stats")

    found.pop("robots_txt_hash")
    assert found == {
        "domain": "contoso.com",
        "pages_crawled": 6,
        "pages_failed": 2,
        "bytes_downloaded": 700,
        "first_crawled_at": FIRST,
        "last_crawled_at": FIRST,
        "avg_response_time_ms": 15,
        "robots_txt_fetched_at": None,
        "crawl_delay_ms": 1000,
        "error_rate": 0.25,
        "is_blocked": 0,
        "block_reason": None,
    }


def test_a_host_whose_robots_txt_was_not_read_has_no_hash_of_it(shelf: Shelf):
    assert shelf.rows("domain_stats")[0]["robots_txt_hash"] is None


@pytest.mark.covers("R1-11", "R1-12")
def test_pages_are_those_with_content(shelf: Shelf):
    found = shelf.pages("pages")

    assert sorted(found) == ["clone", "lost", "post-1"]  # the view has no order
    assert found["lost"] == {
        "id": 3,
        "version_id": 1,
        "url": BASE + "lost",
        "title": "Lost",
        "etag": '"l"',
        "last_modified": None,
        "content_type": "text/html",
        "depth": 1,
        "created_at": FIRST,
        "updated_at": FIRST,
    }
    assert [found[name]["depth"] for name in ("post-1", "clone")] == [0, 1]
    assert shelf.rows("versions") == [{"id": 1, "name": "docs", "created_at": FIRST}]


@pytest.mark.covers("R1-13", "R1-14")
def test_documents_are_the_chunks_of_their_page_in_order(desk: Desk):
    visit = desk.visit(POST, LONG)
    visit.parsed.chunks = [
        Chunk(("One",), "first", 1, places=(ChunkPlace(0, "one"), ChunkPlace(2, "name"))),
        Chunk(("One", "Two"), "second", 2, ("text", "code"), places=(ChunkPlace(2, "two"),)),
        Chunk(("One", "Two", "3"), "cond x", 4, ("table",), 5),
    ]
    desk.write(visit)
    desk.index(BASE + "clone", LONG)

    rows = desk.rows("SELECT * FROM documents ORDER BY page_id, sort_order")

    assert [(page, text, order, vector) for _, page, text, _, order, vector, _ in rows] == [
        (1, "first", 0, None), (1, "second", 1, None), (1, "cond x", 2, None),
    ]  # fmt: skip
    assert [json.loads(str(row[3])) for row in rows] == [
        {
            "level": chunk.level,
            "path": " > ".join(chunk.headings),
            "types": list(chunk.types),
            "repeated": chunk.repeated,
            "hash": chunk.digest(visit.parsed.document.title).hex(),
            "section": chunk.section or None,
        }
        for chunk in visit.parsed.chunks
    ]
    if desk.connection.dialect == "sqlite":  # only there are vectors
        desk.connection.execute(
            "INSERT INTO embedder (no, name, model, dimension, whole_at)"
            " VALUES (1, 'e', 'm', 1, 5), (2, 'e', 'n', 1, NULL)"
        )
        chunk = visit.parsed.chunks[1].digest(visit.parsed.document.title)
        vectors = [(chunk, 1, b"used"), (chunk, 2, b"not yet")]
        statement = "INSERT INTO vector (hash, embedder, vector) VALUES (?, ?, ?)"
        desk.connection.executemany(statement, vectors)
        found = desk.rows("SELECT embedding FROM documents ORDER BY sort_order")
        assert found == [(None,), (b"used",), (None,)]
    text = desk.rows("SELECT txt FROM content_text WHERE content = 1")
    assert text == [("first\nsecond\nx",)]  # without what is repeated
    assert {row[6] for row in with_iso_times(rows)} == {FIRST}


@pytest.mark.covers("R1-13")
def test_the_id_of_a_document_is_a_key(desk: Desk):
    desk.index(POST, "short", body="1")
    desk.index(BASE + "other", "short", body="2")

    rows = desk.rows("SELECT id, page_id FROM documents")

    assert len({page for _, page in rows}) == 2
    assert len({number for number, _ in rows}) == len(rows)


# urlword, urlwords


@pytest.mark.covers("R4-21", "R4-42", "R4-45")
@pytest.mark.parametrize(
    ("outcome", "answer", "packed"),
    [
        (Outcome.NOT_MODIFIED, 304, 200),
        (Outcome.NOT_FOUND, 404, (404 << 16) | 200),
        (Outcome.HTTP_ERROR, 403, (403 << 16) | 200),
        (Outcome.TRANSIENT, 503, (503 << 16) | 200),
        (Outcome.UNREACHABLE, 1103, (1103 << 16) | 200),
        (Outcome.REDIRECT, 301, (301 << 16) | 200),
        (Outcome.EXCLUDED, None, 200),
    ],
)
def test_a_page_that_is_held_keeps_200_below_its_last_status(
    desk: Desk, outcome: Outcome, answer: int | None, packed: int
):
    desk.index(POST, "words")
    desk.seal()
    desk.open()
    desk.reach(POST)

    desk.write(desk.visit(POST, outcome=outcome, status=answer))

    assert desk.rows("SELECT status FROM urlword") == [(packed,)]


@pytest.mark.covers("R4-21")
def test_the_word_table_tells_where_and_when(shelf: Shelf):
    found = shelf.pages("urlword")

    assert {name: row["status"] for name, row in found.items()} == {
        "post-1": 200,
        "clone": 200,
        "lost": (404 << 16) | 200,
        "moved": 301,
        "noindex": 406,
        "bare": 404,
        "waits": 0,
        "robots": 0,
    }
    content = shelf.connection.execute(HASH_OF_POST).get
    assert found["clone"] == {
        "url": BASE + "clone",
        "site": "contoso.com",
        "status": 200,
        "last_index_time": NOW,
        "next_index_time": NOW + 86_400,
        "crc": content,
        "last_modified": None,
        "etag": None,
        "hops": 1,
        "redir": None,
        "origin": 1,
        "url_id": 2,
    }
    assert found["moved"]["redir"] == POST
    assert found["post-1"]["origin"] is None


@pytest.mark.covers("R4-22", "R4-23")
def test_content_entries_are_originals_and_pages_of_links(shelf: Shelf):
    rows = shelf.rows("urlwords")

    assert {(row["title"], row["totalcount"], row["hrefs"]) for row in rows} == {
        ("Post", len(LONG.split()), 3), ("Lost", 2, 0), (None, 0, 3),
    }  # fmt: skip
    assert len(rows) == 3
    (post,) = (row for row in rows if row["title"] == "Post")
    assert post["wordcount"] == len(set(LONG.split()))
    assert sorted(str(post["words"]).split(" ")) == sorted(set(LONG.split()))
    assert str(post["txt"]).strip() == LONG.strip()
    assert (post["content_type"], post["charset"], post["lang"]) == ("text/html", "utf-8", "en")
    assert post["docsize"] == len(f"<title>Post</title>{LONG}")
    assert (post["description"], post["keywords"]) == ("On posts", "posts, letters")
    assert {row["keywords"] for row in rows if row is not post} == {None}
    joined = "SELECT u.url, w.title FROM urlword u JOIN urlwords w USING (url_id) ORDER BY 1"
    assert shelf.connection.execute(joined).fetchall() == [
        (POST, "Post"), (BASE + "lost", "Lost"), (BASE + "noindex", None),
    ]  # fmt: skip


@pytest.mark.covers("R4-22")
@pytest.mark.parametrize(
    ("text", "total", "distinct"),
    [
        ("one two two three", 4, 3),
        ("", 0, 0),
        ('say "hello" "hello"', 3, 2),
        (r"C:\dir\n C:\dir\n \\", 3, 2),
        ("tab\tbetween\ttab", 3, 2),
        ("line\nbreak\n\nbreak", 3, 2),
        ("  spaces   all over  ", 3, 3),
        ("ünï cødé ünï", 3, 2),
        ("a,b [c] {d} 'e' a,b", 5, 4),
        ("control \x01 \x1f", 3, 3),
        ("line\r\nbreak", 2, 2),
    ],
)
def test_words_are_counted_whatever_the_text(desk: Desk, text: str, total: int, distinct: int):
    visit = desk.visit(POST, text or "x")
    visit.parsed.chunks = [Chunk((), text)]
    desk.write(visit)

    assert desk.rows("SELECT totalcount, wordcount, txt FROM urlwords") == [(total, distinct, text)]


@pytest.mark.covers("R4-22")
def test_keywords_are_those_of_the_body_that_is_stored(desk: Desk):
    keywords = "SELECT keywords FROM urlwords"
    desk.index(POST, "words", document_fields={"keywords": "a, b"})
    assert desk.rows(keywords) == [("a, b",)]
    desk.seal()
    visited(desk, "other words", keywords="c")
    assert desk.rows(keywords) == [("c",)]
    visited(desk, "other words", forced=True, keywords="d")
    assert desk.rows(keywords) == [("d",)]
    visited(desk, "words without keywords")
    assert desk.rows(keywords) == [(None,)]


def test_date_and_author_are_those_of_the_body_that_is_stored(desk: Desk):
    said = "SELECT published, author FROM content"
    desk.index(POST, "words", document_fields={"published": 7, "author": "Ada"})
    assert desk.rows(said) == [(7, "Ada")]
    desk.seal()
    visited(desk, "other words", published=8)
    assert desk.rows(said) == [(8, "")]
    visited(desk, "other words", forced=True, author="Bo")
    assert desk.rows(said) == [(None, "Bo")]


def visited(desk: Desk, text: str, *, forced: bool = False, **document_fields: object) -> None:
    """Visit POST in a run of its own."""
    desk.open(now=LATER, forced=forced)
    desk.reach(POST)
    desk.write(desk.visit(POST, text, document_fields=document_fields), now=LATER)
    desk.seal(now=LATER)


def test_words_of_several_chunks_are_counted_together(desk: Desk):
    visit = desk.visit(POST, "x")
    visit.parsed.chunks = [Chunk((), "one two"), Chunk((), "two three")]
    desk.write(visit)

    assert desk.rows("SELECT totalcount, wordcount, txt FROM urlwords") == [
        (4, 3, "one two\ntwo three")
    ]


@pytest.mark.covers("R2-60")
def test_a_document_has_the_key_of_its_address_and_any_number_of_links(shelf: Shelf):
    addresses = {row["url_hash"] for row in shelf.rows("url_frontier")}
    documents = [row["url_hash"] for row in shelf.rows("crawled_documents")]
    links = Counter(row["source_url_hash"] for row in shelf.rows("outlinks"))

    assert len(documents) == len(set(documents))
    assert set(documents) <= addresses
    assert set(links) <= set(documents)
    assert links[POST_HASH] == len(LINKS)

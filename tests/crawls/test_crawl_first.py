"""A first crawl: every page that can be reached is found, asked once, recorded and searchable."""

import base64
import csv
import hashlib
import io
import json
import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from tests.crawls.commands import ROOT, Crawl, Record
from tests.site_server import Page, Site, html

#: Issue 3, item 11.
KEYS = [
    "id", "url", "source", "status", "httpStatusCode", "effectiveStatus", "httpEtag",
    "httpLastModified", "contentHash", "textHash", "bodyHash", "lostCount", "goneCount",
    "orphanAge", "depth", "duplicateOf", "canonicalUrl", "lastOutcome", "reachedRun",
    "visitedRun", "firstSeen", "lastChecked", "lastChanged", "lastIndexed", "nextCrawlAt",
    "errorMessage", "contentGroupId", "PartitionKey", "RowKey", "ETag", "type",
    "normalizedSource", "displaySource", "sourceHost", "parentPageId", "reindexRequested",
    "reindexGeneration", "httpContentLength", "httpRedirectChain", "httpRobotsAllowed",
    "httpCanonicalUrl", "fileEtag", "fileLastModified", "fileLength", "fileContentType",
    "language", "mimeType", "lastIndexedDocId", "imageCount", "crawlAttempts",
    "crawlIntervalSeconds", "lastStatusCode", "lastModifiedReceived", "movedFrom",
]  # fmt: skip
RUN_KEYS = [
    "run", "source", "state", "complete", "reasons", "startedAt", "finishedAt", "requests",
    "conditionalRequests", "notModified", "bytesDownloaded", "bytesSaved", "removed", "withheld",
    "notes", "due", "reextracted", "embedded", "owed", "new", "modified", "unchanged", "clone",
    "redirected", "skipped", "failed", "lost", "gone", "excluded", "orphaned", "deleted", "moved",
    "restored", "dataRequests", "renderings", "held",
]  # fmt: skip
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").fullmatch


def sha256(body: str | bytes) -> str:
    data = body.encode() if isinstance(body, str) else body
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def wait(record: Record) -> timedelta:
    """How long after a visit the next one is due."""
    next_visit, last = (datetime.fromisoformat(record[k]) for k in ("nextCrawlAt", "lastChecked"))
    return next_visit - last


def item_id(normalized: str) -> str:
    """M-17: 26 characters of lower-case base32 of the normalized source's SHA-256."""
    digest = hashlib.sha256(normalized.encode()).digest()
    return "url_" + base64.b32encode(digest).decode().lower()[:26]


@pytest.mark.covers("R0-01", "R1-04", "R1-10", "R1-23", "R1-37", "R1-38", "R4-30", "R4-34", "U-01")
def test_every_page_that_a_link_leads_to_is_found_and_asked_once(site: Site, crawl: Crawl):
    site.pages["/"] = html(
        "Home",
        "/a",
        "/a#part",
        "/a/?utm_source=letter",
        "sub/",
        "mailto:me@example.com",
        "javascript:void(0)",
        head='<link rel="next" href="/next"><link rel="prev" href="/prev">'
        '<link rel="alternate" href="/alternate"><link rel="stylesheet" href="/style">'
        '<link rel="canonical" href="/canonical">'
        '<meta http-equiv="refresh" content="5; url=/refresh">',
    )
    site.pages["/a"] = html("A", "/", "/deep/1", text="alpha")
    site.pages["/sub/"] = (
        '<html><head><base href="/based/"></head><body><p>sub</p><map>'
        '<area href="area"></map><iframe src="/frame"></iframe><a href="caf%C3%A9 1">x</a></body>'
    )
    found = {"/next", "/prev", "/alternate", "/refresh", "/based/area", "/frame"}
    for path in found:
        site.pages[path] = html(path, text=f"text of {path}")
    site.pages["/based/caf%C3%A9%201"] = html("café", "/a", text="coffee")
    site.pages["/deep/1"] = html("deep", "2")
    site.pages["/deep/2"] = html("deeper", "3", "/")
    site.pages["/deep/3"] = html("deepest", text="the bottom")
    site.pages["/unlinked"] = html("nobody links here")

    result = crawl(site.url("/"))

    expected = found | {
        "/", "/a", "/sub/", "/based/caf%C3%A9%201", "/deep/1", "/deep/2", "/deep/3"
    }  # fmt: skip
    pages = crawl.pages()
    missing = pages.pop("/canonical")  # asked as any link is; the home page does not yield to it
    assert (missing["lastOutcome"], missing["httpStatusCode"]) == ("failed", 404)
    assert set(pages) == expected
    assert {page["status"] for page in pages.values()} == {"Indexed"}
    assert {page["lastOutcome"] for page in pages.values()} == {"new"}
    assert sorted(request.path for request in site.log) == sorted(
        [*expected, "/canonical", "/robots.txt"]
    )
    assert site.log[0].path == "/robots.txt"
    assert not any({"if-none-match", "if-modified-since"} & r.headers.keys() for r in site.log)
    depths = {path: page["depth"] for path, page in pages.items()}
    assert depths["/"] == 0
    assert [depths[f"/deep/{n}"] for n in (1, 2, 3)] == [2, 3, 4]
    assert depths["/based/area"] == 2
    assert crawl.hits("bottom") == ["/deep/3"]
    assert crawl.hits("coffee") == ["/based/caf%C3%A9%201"]
    assert "complete" in result.out
    assert "search" in result.out
    assert crawl.counts_add_up()


@pytest.mark.covers(
    "R0-10", "R0-24", "R0-32", "R0-36", "R0-46", "R0-48", "R0-63", "M-17", "RD-04", "RD-19"
)  # fmt: skip
def test_a_record_has_its_keys_in_order_and_what_was_received_byte_for_byte(
    site: Site, crawl: Crawl
):
    zipped, plain = html("Zipped", text="packed"), html("Plain", text="not packed")
    site.pages["/"] = html("Home", "/zip/?b=2&utm_source=x&a=1", "/plain", "/none", "/missing")
    site.pages["/zip/"] = Page(
        zipped, gzip=True, etag='W/"a,b"', last_modified="Mon, 05 Jan 2026 10:00:00 GMT"
    )
    site.pages["/plain"] = Page(
        html("Plain", text="not packed", head='<link rel="canonical" href="/other">'),
        last_modified=datetime(2026, 1, 1, tzinfo=UTC),
    )
    site.pages["/none"] = Page(plain, etag=None)

    crawl(site.url("/"))

    assert all(list(record) == KEYS for record in crawl.records())
    pages = crawl.pages()
    packed = pages["/zip/?b=2&utm_source=x&a=1"]
    assert packed["id"] == item_id(site.url("/zip?a=1&b=2"))
    assert packed["url"] == site.url("/zip/?b=2&utm_source=x&a=1")  # never changed by the id
    assert packed["source"] == site.url("").removeprefix("http://")
    assert (packed["httpStatusCode"], packed["effectiveStatus"]) == (200, 200)
    assert packed["httpEtag"] == 'W/"a,b"'
    assert packed["lastModifiedReceived"] == "Mon, 05 Jan 2026 10:00:00 GMT"
    assert packed["bodyHash"] == sha256(zipped)
    assert pages["/none"]["bodyHash"] == sha256(plain)
    assert (pages["/none"]["httpEtag"], pages["/none"]["httpLastModified"]) == (None, None)
    assert pages["/plain"]["canonicalUrl"] == site.url("/other")
    assert all(
        re.fullmatch(r"sha256:[0-9a-f]{64}", packed[key]) for key in ("contentHash", "textHash")
    )
    assert packed["contentHash"] != packed["textHash"] != packed["bodyHash"]
    times = ("firstSeen", "lastChecked", "lastChanged", "lastIndexed", "nextCrawlAt")
    assert all(TIME(packed[key]) for key in times)
    assert 0.9 <= wait(packed) / timedelta(days=1) <= 0.95  # R0-48, and spread
    counts = ("lostCount", "goneCount", "orphanAge")
    assert [packed[key] for key in counts] == [0, 0, 0]
    assert (packed["reachedRun"], packed["visitedRun"]) == (1, 1)
    assert packed["errorMessage"] is None
    assert packed["duplicateOf"] is None

    missing = pages["/missing"]
    assert (missing["status"], missing["lastOutcome"]) == ("Error", "failed")
    assert missing["httpStatusCode"] == 404
    held = ("httpEtag", "httpLastModified", "contentHash", "textHash", "bodyHash", "lastIndexed")
    assert [missing[key] for key in held] == [None] * 6
    assert missing["errorMessage"]
    assert 1 <= wait(missing) / timedelta(minutes=10) <= 1.1  # R0-63, and spread
    assert [missing[key] for key in ("lostCount", "goneCount")] == [0, 1]


@pytest.mark.covers("R0-05")
def test_the_commands_print_what_was_crawled_for_people_and_machines(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a", "/b", "/missing", text="welcome stranger")
    site.pages["/a"] = html("Alpha <b>", text="the quick brown fox, jumping over fences")
    site.pages["/b"] = html("Beta", text="the slow brown bear")
    name = site.url("").removeprefix("http://")
    crawl(site.url("/"))

    [run] = crawl.runs()
    assert list(run) == RUN_KEYS
    assert (run["run"], run["source"], run["complete"], run["reasons"]) == (1, name, True, [])
    assert (run["requests"], run["conditionalRequests"], run["notModified"]) == (4, 0, 0)
    assert (run["new"], run["failed"]) == (3, 1)
    assert (run["removed"], run["withheld"], run["notes"]) == (0, 0, [])
    assert run["bytesDownloaded"] > 0
    assert TIME(run["startedAt"])
    assert TIME(run["finishedAt"])

    [hit] = crawl.search("jumped fence")  # stemmed, and both words in one page
    assert hit["url"] == site.url("/a")
    assert (hit["source"], hit["title"]) == (name, "Alpha <b>")
    assert "<em>jumping</em>" in hit["snippet"]
    assert {"headings", "score", "language", "lost", "lastChecked", "lastChanged"} <= hit.keys()
    assert not hit["lost"]
    assert len(crawl.search("brown", "--limit", "1")) == 1
    assert crawl.hits('"brown bear"') == ["/b"]
    assert crawl.search("nowhere") == []
    table = crawl.run("search", "--source", name, "brown", "fox").out
    assert site.url("/a") in table
    assert "Alpha <b>" in table

    assert [record["url"] for record in crawl.records(status="Error")] == [site.url("/missing")]
    rows = list(csv.DictReader(io.StringIO(crawl.run("registry", "--format", "csv").out)))
    assert list(rows[0]) == KEYS
    assert [row["url"] for row in rows] == [record["url"] for record in crawl.records()]
    file = crawl.folder / "out.jsonl"
    crawl.run("registry", "--format", "jsonl", "--source", name, "--output", str(file))
    assert [json.loads(line) for line in file.read_text().splitlines()] == crawl.records()
    assert name in crawl.run("runs").out
    assert site.url("/b") in crawl.run("registry").out


@pytest.mark.alone  # what others have waiting is not known
def test_a_terminal_shows_a_live_line_and_elsewhere_there_are_log_lines(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(9)))
    for n in range(9):
        site.pages[f"/{n}"] = Page(html(f"Page {n}"), delay=0.4)
    ours, theirs = pty.openpty()
    environment = {**os.environ, **crawl.own(), "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "scrapy", "crawl", "site", "-a", f"url={site.url('/')}"],
        cwd=ROOT, env=environment | {"COLUMNS": "200"}, stdin=theirs, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    text = shown.decode()

    assert process.returncode == 0
    assert re.search(r"\d+ done, \d+ queued, [\d.]+ pages/s, \d+ % 304, \d+ new", text), text
    assert "INFO" not in text
    assert "complete" in text

    logged = crawl(site.url("/"))
    assert "INFO" in logged.err
    assert "\x1b" not in logged.err + logged.out

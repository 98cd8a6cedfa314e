"""What `scrapy registry` and `scrapy runs` print, key for key."""

import re

import pytest

from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import url_content_group, url_hash
from smartcrawl.registry.names import stored_sources_named
from smartcrawl.reports.tables import RECORD_KEYS, RUN_KEYS, record_table_report, run_table_report
from smartcrawl.rules.model import Outcome, Status
from tests.registry.build import LATER, LONG, NOW, Desk

BASE = "https://contoso.com/"
POST = BASE + "blog/post-1"
FIRST, SECOND = "2025-06-15T15:06:40Z", "2025-06-15T16:06:40Z"  #: NOW and LATER


def by_url(desk: Desk) -> dict[str, dict[str, object]]:
    return {row["url"]: row for row in record_table_report(desk.connection)}


def test_records_have_these_keys_in_this_order(desk: Desk):
    desk.index(POST, "words")
    keys = (
        "id url source status httpStatusCode effectiveStatus httpEtag httpLastModified contentHash"
        " textHash bodyHash lostCount goneCount orphanAge depth duplicateOf canonicalUrl"
        " lastOutcome reachedRun visitedRun firstSeen lastChecked lastChanged lastIndexed"
        " nextCrawlAt errorMessage contentGroupId PartitionKey RowKey ETag type normalizedSource"
        " displaySource sourceHost parentPageId reindexRequested reindexGeneration"
        " httpContentLength httpRedirectChain httpRobotsAllowed httpCanonicalUrl fileEtag"
        " fileLastModified fileLength fileContentType language mimeType lastIndexedDocId imageCount"
        " crawlAttempts crawlIntervalSeconds lastStatusCode lastModifiedReceived movedFrom"
    )

    (row,) = record_table_report(desk.connection)

    assert list(row) == list(RECORD_KEYS) == keys.split()


def test_runs_have_these_keys_in_this_order_and_a_count_for_each_word(desk: Desk):
    keys = (
        "run source state complete reasons startedAt finishedAt requests conditionalRequests"
        " notModified bytesDownloaded bytesSaved removed withheld notes due reextracted"
        " embedded owed"
        " new modified unchanged clone redirected skipped"
        " failed lost gone excluded orphaned deleted moved restored dataRequests renderings held"
    )

    (row,) = run_table_report(desk.connection)

    assert list(row) == list(RUN_KEYS) == keys.split()


@pytest.mark.covers("R0-05", "R0-36", "M-17", "M-44")
def test_an_indexed_page_is_told_whole(desk: Desk):
    desk.index(
        POST, "words", etag='W/"a"', last_modified="Mon, 05 Jan 2026 10:00:00 GMT",
        document_fields={"canonical": BASE + "c"},
    )  # fmt: skip

    row = by_url(desk)[POST]

    hashes = [row.pop(name) for name in ("contentHash", "textHash", "bodyHash")]
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", str(value)) for value in hashes)
    assert len(set(hashes)) == 3
    assert row == {
        "id": "url_eywudzsg3usiliomqccrgi6f6k",
        "url": POST,
        "source": "docs",
        "status": "Indexed",
        "httpStatusCode": 200,
        "effectiveStatus": 200,
        "httpEtag": 'W/"a"',
        "httpLastModified": "2026-01-05T10:00:00Z",
        "lostCount": 0,
        "goneCount": 0,
        "orphanAge": 0,
        "depth": 0,
        "duplicateOf": None,
        "canonicalUrl": BASE + "c",
        "lastOutcome": "new",
        "reachedRun": 1,
        "visitedRun": 1,
        "firstSeen": FIRST,
        "lastChecked": FIRST,
        "lastChanged": FIRST,
        "lastIndexed": FIRST,
        "nextCrawlAt": "2025-06-16T15:06:40Z",
        "errorMessage": None,
        "contentGroupId": url_content_group(row["canonicalUrl"]),
        "PartitionKey": "contoso.com",
        "RowKey": "eywudzsg3usiliomqccrgi6f6k",
        "ETag": "1.0",
        "type": "url",
        "normalizedSource": POST,
        "displaySource": POST,
        "sourceHost": "contoso.com",
        "parentPageId": None,
        "reindexRequested": False,
        "reindexGeneration": 0,
        "httpContentLength": len("<title></title>words"),
        "httpRedirectChain": None,
        "httpRobotsAllowed": True,
        "httpCanonicalUrl": BASE + "c",
        "fileEtag": None,
        "fileLastModified": None,
        "fileLength": None,
        "fileContentType": None,
        "language": "en",
        "mimeType": "text/html",
        "lastIndexedDocId": f"page_{url_hash(POST)}",
        "imageCount": 0,
        "crawlAttempts": 0,
        "crawlIntervalSeconds": 86_400,
        "lastStatusCode": 200,
        "lastModifiedReceived": "Mon, 05 Jan 2026 10:00:00 GMT",
        "movedFrom": None,
    }


def test_what_holds_nothing_has_neither_hashes_nor_validators(desk: Desk):
    """Null exactly when nothing is held: a page of links only has them."""
    desk.add(BASE + "waits")
    desk.index(BASE + "bare", outcome=Outcome.NOT_FOUND, status=404, etag='"404"', error="why")
    desk.index(BASE + "moved", outcome=Outcome.REDIRECT, status=301, etag='"301"')
    desk.index(BASE + "links", "hidden", outcome=Outcome.NOT_ACCEPTABLE, etag='"n"')
    names = ("httpEtag", "httpLastModified", "contentHash", "textHash", "bodyHash")

    found = by_url(desk)

    for name in ("waits", "bare", "moved"):
        assert [found[BASE + name][key] for key in names] == [None] * 5
    held = found[BASE + "links"]
    assert held["httpEtag"] == '"n"'
    assert None not in (held["contentHash"], held["textHash"], held["bodyHash"])
    assert (found[BASE + "waits"]["visitedRun"], found[BASE + "waits"]["lastOutcome"]) == (
        None, None,
    )  # fmt: skip


@pytest.mark.covers("R4-13", "R2-52")
def test_new_and_modified_are_called_clone_beside_an_original(desk: Desk):
    desk.index(BASE + "a", LONG)
    desk.index(BASE + "bb", LONG)
    desk.index(BASE + "ccc", "other")
    result = desk.seal()
    assert by_url(desk)[BASE + "bb"]["lastOutcome"] == "clone"
    assert by_url(desk)[BASE + "bb"]["duplicateOf"] == BASE + "a"
    assert by_url(desk)[BASE + "a"]["lastOutcome"] == "new"
    assert result.counts == {"new": 2, "clone": 1}
    desk.open()
    desk.reach(BASE + "bb", BASE + "ccc")
    desk.index(BASE + "ccc", LONG)
    desk.write(touched=[desk.number(BASE + "bb")])

    found = by_url(desk)

    assert found[BASE + "ccc"]["lastOutcome"] == "clone", "it was modified"
    assert found[BASE + "bb"]["lastOutcome"] == "unchanged", "nothing new was learnt"
    assert next(run_table_report(desk.connection))["clone"] == 1, (
        "counted before the run is settled, too"
    )


def test_a_clone_that_becomes_the_original_has_its_word_back(desk: Desk):
    desk.index(BASE + "a", LONG)
    desk.index(BASE + "bb", LONG)

    desk.open(resume=True)
    desk.write(desk.visit(BASE + "a", "other"))

    found = by_url(desk)
    assert (found[BASE + "bb"]["lastOutcome"], found[BASE + "bb"]["duplicateOf"]) == ("new", None)


@pytest.mark.covers("RD-07", "R4-08", "M-05")
def test_the_age_of_an_orphan_counts_complete_runs_only(desk: Desk):
    """The third of them ends it: the run being sealed counts (docs/decisions.md)."""
    desk.index(BASE + "held", "words")
    desk.index(BASE + "bare", outcome=Outcome.NOT_FOUND, status=404)
    told = []
    endings = [(), (), ("max_pages",), (), None, ()]
    for reasons in endings:
        if reasons is None:
            desk.open()  # the run before was interrupted, and so is this one
        else:
            desk.seal(*reasons)
        held = by_url(desk)[BASE + "held"]
        told.append((held["orphanAge"], held["lastOutcome"], held["status"]))
        assert by_url(desk)[BASE + "bare"]["orphanAge"] == 0, "nothing is held, nothing ages"
        desk.open()

    assert told == [
        (0, "new", "Indexed"),
        (1, "orphaned", "Indexed"),
        (1, "orphaned", "Indexed"),
        (2, "orphaned", "Indexed"),
        (2, "orphaned", "Indexed"),
        (0, "deleted", "OutOfScope"),
    ]


def test_an_orphan_that_is_seen_again_is_young_again(desk: Desk):
    desk.index(BASE + "held", "words")
    for _ in range(3):
        desk.seal()
        desk.open()
    assert by_url(desk)[BASE + "held"]["orphanAge"] == 2
    desk.reach(BASE + "held")
    desk.write(touched=[1])

    desk.seal()

    assert by_url(desk)[BASE + "held"]["orphanAge"] == 0


def test_runs_of_other_sources_age_nobody(file):
    file.parent.mkdir()
    docs, shop = Desk(file, source="docs"), Desk(file, source="shop")
    docs.open()
    docs.index(BASE + "held", "words")
    docs.seal()
    for _ in range(3):
        shop.open()
        shop.seal()

    assert by_url(docs)[BASE + "held"]["orphanAge"] == 0
    docs.close()
    shop.close()


def test_an_excluded_page_ages_though_it_is_reached(desk: Desk):
    """Robots forbid it: no complete run sees it, until it goes as an orphan would (ADR 131)."""
    desk.index(BASE + "held", "words")
    desk.seal()
    told = []
    for _ in range(3):
        desk.open()
        desk.reach(BASE + "held")
        desk.write(desk.visit(BASE + "held", outcome=Outcome.EXCLUDED, status=None))
        desk.seal()
        held = by_url(desk)[BASE + "held"]
        told.append((held["orphanAge"], held["lastOutcome"], held["status"]))

    assert told == [
        (1, "excluded", "OutOfScope"), (2, "excluded", "OutOfScope"), (0, "deleted", "OutOfScope")
    ]  # fmt: skip


@pytest.fixture
def two(file) -> Desk:
    """Two sources, one of them on two ports."""
    file.parent.mkdir()
    for source in ("docs", "127.0.0.1:8801", "127.0.0.1:8802"):
        desk = Desk(file, source=source)
        desk.open()
        desk.index(f"http://{source}/", "words")
        desk.index(f"http://{source}/404", outcome=Outcome.NOT_FOUND, status=404)
    return desk


def test_records_are_filtered_by_source_and_status(two: Desk):
    docs = [row["url"] for row in record_table_report(two.connection, sources=["docs"])]
    errors = [row["url"] for row in record_table_report(two.connection, status=Status.ERROR)]
    both = list(record_table_report(two.connection, sources=["docs"], status=Status.ERROR))
    every = [row["url"] for row in record_table_report(two.connection)]

    assert docs == ["http://docs/", "http://docs/404"]
    assert len(errors) == 3
    assert [row["url"] for row in both] == ["http://docs/404"]
    assert len(every) == 6
    assert every[:2] == docs, "in order of discovery"


def test_runs_are_listed_newest_first_and_filtered_by_source(two: Desk):
    assert [row["run"] for row in run_table_report(two.connection)] == [3, 2, 1]
    assert [row["source"] for row in run_table_report(two.connection, sources=["docs"])] == ["docs"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (None, []),
        ("docs", ["docs"]),
        ("127.0.0.1:8801", ["127.0.0.1:8801"]),
        ("127.0.0.1", ["127.0.0.1:8801", "127.0.0.1:8802"]),
        ("127.0.0", None),
        ("doc", None),
        ("", None),
    ],
)
def test_a_bare_host_means_the_sources_of_its_ports(two: Desk, name, found):
    assert stored_sources_named(two.connection, name) == found


def test_a_run_tells_its_life(desk: Desk):
    desk.index(BASE + "a", "words")
    (row,) = run_table_report(desk.connection)
    assert (row["state"], row["complete"], row["finishedAt"]) == ("open", False, None)
    assert row["new"] == 1, "what is committed so far"

    desk.seal(now=LATER)
    desk.open()
    desk.open()

    newest, middle, first = run_table_report(desk.connection)
    assert (newest["state"], middle["state"], first["state"]) == ("open", "interrupted", "swept")
    assert (first["complete"], first["reasons"], middle["reasons"]) == (True, [], ["interrupted"])
    assert (first["startedAt"], first["finishedAt"]) == (FIRST, SECOND)
    assert first["requests"] == 1


def test_times_are_iso_in_utc_with_z():
    assert iso_time(NOW) == FIRST
    assert iso_time(NOW + 0.9) == FIRST
    assert iso_time(0) == "1970-01-01T00:00:00Z"
    assert iso_time(None) is None

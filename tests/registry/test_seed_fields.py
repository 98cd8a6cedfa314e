"""Fields of the seeds' shapes by their values: each test changes one and looks at it (ADR 42)."""

import json
from dataclasses import replace

import pytest

from smartcrawl.model.documents import Image, Link
from smartcrawl.registry import items
from smartcrawl.registry.connection import transaction
from smartcrawl.reports.tables import RECORD_KEYS, record_table_report
from smartcrawl.rules.model import Outcome
from tests.registry.build import LATER, LONG, NOW, Desk, with_iso_times
from tests.registry.test_registry_views import BASE, COLUMNS, POST, redirects

DAY = 86_400
FIRST, SECOND = "2025-06-15T15:06:40Z", "2025-06-15T16:06:40Z"  #: NOW and LATER
ENTITY = COLUMNS["IngestItems"].split()


def entity(desk: Desk, url: str = POST) -> dict[str, object]:
    """The row of "IngestItems" of an address."""
    columns = ", ".join(f'"{name}"' for name in ENTITY)
    (row,) = desk.rows(f'SELECT {columns} FROM "IngestItems" WHERE "normalizedSource" = ?', (url,))
    found = dict(zip(ENTITY, row, strict=True))
    if found.get("httpRedirectChain") is not None:  # databases differ in their spaces
        chain = json.loads(str(found["httpRedirectChain"]))
        found["httpRedirectChain"] = json.dumps(chain, separators=(",", ":"))
    return found


def visited(desk: Desk, outcome: Outcome, status: int | None, now: int, text: str = "") -> None:
    """Visit POST in a run of its own."""
    desk.open(now=now)
    desk.reach(POST)
    desk.write(desk.visit(POST, text, outcome=outcome, status=status), now=now)
    desk.seal(now=now)


@pytest.mark.covers("R0-27")
def test_a_page_is_identified_by_its_normalized_source_and_has_no_parent(desk: Desk):
    """The page that links to it first is in url_frontier.discovered_from."""
    origin = desk.index(BASE, "home")
    asked = BASE + "a/?utm_source=x&b=1"
    desk.write(addresses=[desk.address(asked, 1, origin=origin)])
    desk.write(desk.visit(asked, "words"))

    found = entity(desk, BASE + "a?b=1")

    names = ("type", "displaySource", "sourceHost", "PartitionKey", "parentPageId")
    assert [found[name] for name in names] == ["url", asked, "contoso.com", "contoso.com", None]
    assert found["id"] == f"url_{found['RowKey']}"
    discovered = "SELECT discovered_from IS NULL FROM url_frontier WHERE url = ?"
    assert [bool(desk.value(discovered, (url,))) for url in (BASE, asked)] == [True, False]


@pytest.mark.covers("R0-31")
def test_a_page_of_the_web_has_no_field_of_a_file(desk: Desk):
    """Also where its fields of HTTP have values."""
    given = {"etag": '"1"', "last_modified": "Mon, 05 Jan 2026 10:00:00 GMT"}
    desk.index(POST, "words", **given)
    found = entity(desk)

    of_http = ("httpEtag", "httpLastModified", "httpContentLength", "mimeType")
    of_file = ("fileEtag", "fileLastModified", "fileLength", "fileContentType")
    assert None not in [found[name] for name in of_http]
    assert [found[name] for name in of_file] == [None] * 4


@pytest.mark.covers("R0-05", "R0-34", "R0-63", "R0-94")
def test_attempts_are_the_failed_ones_and_are_never_reset(desk: Desk):
    """The seed counts in its error branch alone; url_frontier counts every visit (R2-47)."""
    answers = [
        (Outcome.CHANGED, 200, 0), (Outcome.TRANSIENT, 503, 1), (Outcome.UNREACHABLE, 1103, 2),
        (Outcome.NOT_MODIFIED, 304, 2), (Outcome.NOT_FOUND, 404, 3), (Outcome.CHANGED, 200, 3),
    ]  # fmt: skip
    desk.add(POST)
    for place, (outcome, status, wanted) in enumerate(answers, 1):
        visited(desk, outcome, status, NOW + place, "words")

        assert entity(desk)["crawlAttempts"] == wanted, (place, outcome)
        assert desk.rows("SELECT crawl_count FROM url_frontier") == [(place,)]


@pytest.mark.covers("R0-63", "R0-94")
def test_a_redirect_that_leads_nowhere_is_a_failed_attempt(desk: Desk):
    desk.index(POST, "words")
    desk.seal()
    desk.open(now=LATER)
    desk.reach(POST)
    redirects(desk, POST, BASE + "x", POST)

    desk.seal(now=LATER)

    assert entity(desk)["crawlAttempts"] == 1


@pytest.mark.covers("R0-39", "R0-91", "R1-32")
@pytest.mark.parametrize("in_bulk", [True, False])
def test_a_304_writes_when_it_was_checked_and_when_it_is_next(desk: Desk, in_bulk: bool):
    """Beside the row's own ETag; what httpStatusCode says is the answer that was confirmed."""
    desk.index(POST, "words", etag='"1"', last_modified="Mon, 05 Jan 2026 10:00:00 GMT")
    desk.seal()
    before = entity(desk)
    desk.open(now=LATER)
    desk.reach(POST)
    if in_bulk:
        desk.write(touched=[desk.number(POST)], now=LATER)
    else:
        given = {"etag": '"1"', "last_modified": "Mon, 05 Jan 2026 10:00:00 GMT"}
        visit = desk.visit(POST, outcome=Outcome.NOT_MODIFIED, status=304, **given)
        desk.write(visit, now=LATER)

    after = entity(desk)

    changed = {name: after[name] for name in ENTITY if after[name] != before[name]}
    assert changed.pop("ETag") != before["ETag"]
    assert changed == {"lastChecked": SECOND, "nextCrawlAt": "2025-06-16T16:06:40Z"}
    assert after["httpStatusCode"] == 200
    assert desk.rows("SELECT last_status_code FROM url_frontier") == [(304,)]


@pytest.mark.covers("R0-30")
def test_the_status_after_a_304_is_that_of_what_is_held(desk: Desk):
    """Also of a page whose links alone are; an error is shown as it is."""
    desk.index(POST, "hidden", outcome=Outcome.NOT_ACCEPTABLE)
    desk.seal()
    visited(desk, Outcome.NOT_MODIFIED, 304, LATER)
    assert entity(desk)["httpStatusCode"] == 200

    visited(desk, Outcome.NOT_FOUND, 410, LATER + 1)
    assert entity(desk)["httpStatusCode"] == 410


@pytest.mark.covers("R0-32", "R0-36", "R1-11", "R4-22")
@pytest.mark.parametrize(
    ("received", "mime"),
    [
        ("text/html; charset=utf-8", "text/html"),
        ("Text/HTML;charset=utf-8", "text/html"),
        ("application/pdf", "application/pdf"),
        (" text/plain ", "text/plain"),
        ("; charset=utf-8", None),
        ("", None),
    ],
)
def test_a_mime_type_has_no_parameters(desk: Desk, received: str, mime: str | None):
    desk.index(POST, "words", content_type=received)

    assert entity(desk)["mimeType"] == mime
    assert desk.rows("SELECT content_type FROM pages") == [(mime,)]
    assert desk.rows("SELECT content_type FROM urlwords") == [(mime,)]
    assert desk.rows("SELECT content_type FROM crawled_documents") == [(received or None,)]


@pytest.mark.covers("R0-30", "R0-41", "R1-26", "R1-27", "M-21")
def test_a_redirect_has_the_end_of_its_chain_as_canonical_url(desk: Desk):
    hops = [f"{BASE}{n}" for n in range(4)]
    redirects(desk, *hops)
    desk.index(hops[-1], "arrived")

    assert [entity(desk, url)["httpCanonicalUrl"] for url in hops] == [*[hops[-1]] * 3, None]


@pytest.mark.covers("R0-30", "R0-41")
def test_the_canonical_url_is_that_of_the_last_answer(desk: Desk):
    """What the page names; where it redirects to; and what it names again."""
    given = {"canonical": BASE + "c"}
    desk.index(POST, "words", document_fields=given)
    assert entity(desk)["httpCanonicalUrl"] == BASE + "c"

    desk.open()
    redirects(desk, POST, BASE + "target")
    assert entity(desk)["httpCanonicalUrl"] == BASE + "target"

    desk.open()
    desk.write(desk.visit(POST, "other words", document_fields=given))
    assert entity(desk)["httpCanonicalUrl"] == BASE + "c"
    assert entity(desk)["httpRedirectChain"] is None


@pytest.mark.covers("R0-41")
def test_a_circle_of_redirects_has_no_canonical_url(desk: Desk):
    redirects(desk, BASE + "x", BASE + "y", BASE + "x")

    assert entity(desk, BASE + "x")["httpCanonicalUrl"] is None


@pytest.mark.covers("R0-30", "M-45")
def test_validators_and_lengths_are_kept_whole(desk: Desk):
    etag = f'"{"e" * 1000}"'
    desk.index(POST, "words", etag=etag, content_length=5_000_000_000)

    found = entity(desk)

    assert (found["httpEtag"], found["httpContentLength"]) == (etag, 5_000_000_000)
    row = "SELECT etag, content_length FROM crawled_documents"
    assert desk.rows(row) == [(etag, 5_000_000_000)]


@pytest.mark.covers("R0-32", "R4-22")
def test_language_and_charset_are_those_of_the_document(desk: Desk):
    visit = desk.visit(POST, "einige Worte")
    assert visit.parsed.document is not None
    visit.parsed.document = replace(visit.parsed.document, language="de", charset="iso-8859-1")
    desk.write(visit)

    assert entity(desk)["language"] == "de"
    assert desk.rows("SELECT lang, charset FROM urlwords") == [("de", "iso-8859-1")]


@pytest.mark.covers("R0-32")
def test_a_page_of_links_has_hashes_of_its_own(desk: Desk):
    """Only its links are stored, and its content is compared by these."""
    for name in ("one", "other"):
        desk.index(BASE + name, f"hidden {name}", outcome=Outcome.NOT_ACCEPTABLE)

    found = [entity(desk, BASE + name) for name in ("one", "other")]

    hashes = {str(row[name]) for row in found for name in ("contentHash", "textHash")}
    assert len(hashes) == 4
    assert all(one.startswith("sha256:") and len(one) == 71 for one in hashes)


@pytest.mark.covers("R0-32", "R0-92")
def test_hashes_follow_what_is_indexed(desk: Desk):
    """A new title changes contentHash alone, new text both."""
    found = []
    for title, text in (("One", "words"), ("Two", "words"), ("Two", "other words")):
        desk.open()
        desk.write(desk.visit(POST, text, title=title))
        row = entity(desk)
        found.append((row["contentHash"], row["textHash"]))

    contents, texts = zip(*found, strict=True)
    assert len(set(contents)) == 3
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.covers("R0-33", "R0-61", "R0-92")
def test_the_document_in_the_index_is_one_that_is_there(desk: Desk):
    """The page's own, its original's while it is a clone, none where nothing is indexed."""
    desk.index(POST, LONG)
    desk.index(BASE + "blog/clone-of-1", LONG)
    desk.index(BASE + "hidden", "hidden", outcome=Outcome.NOT_ACCEPTABLE)
    desk.seal()
    of = {url: f"page_{row}" for url, row in desk.rows("SELECT url, url_hash FROM url_frontier")}

    assert entity(desk)["lastIndexedDocId"] == of[POST]
    assert entity(desk, BASE + "blog/clone-of-1")["lastIndexedDocId"] == of[POST]
    assert entity(desk, BASE + "hidden")["lastIndexedDocId"] is None

    desk.open(now=LATER)
    desk.reach(POST, BASE + "blog/clone-of-1")
    desk.write(desk.visit(POST, "other words"), now=LATER)
    desk.write(touched=[desk.number(BASE + "blog/clone-of-1")], now=LATER)
    desk.seal(now=LATER)
    assert entity(desk)["lastIndexedDocId"] == of[POST]
    assert (
        entity(desk, BASE + "blog/clone-of-1")["lastIndexedDocId"] == of[BASE + "blog/clone-of-1"]
    )


@pytest.mark.covers("R0-33")
def test_images_are_counted_where_they_are_indexed(desk: Desk):
    """A clone has none: they are children of its original."""
    images = (Image("a.png", "A"), Image("b.png", "B"))
    clone = BASE + "blog/clone-of-1"
    desk.index(POST, LONG, document_fields={"images": images})
    desk.index(clone, LONG, document_fields={"images": images})
    desk.index(BASE + "bare", outcome=Outcome.NOT_FOUND, status=404)
    desk.seal()

    urls = (POST, clone, BASE + "bare")
    assert [entity(desk, url)["imageCount"] for url in urls] == [2, None, None]


@pytest.mark.covers("R0-34")
def test_a_forced_visit_indexes_equal_content_again_and_changes_nothing(desk: Desk):
    desk.index(POST, "words")
    desk.seal()
    desk.open(now=LATER, forced=True)
    desk.reach(POST)
    desk.write(desk.visit(POST, "words", outcome=Outcome.SAME), now=LATER)

    names = ("firstSeen", "lastChanged", "lastChecked", "lastIndexed")
    assert [entity(desk)[name] for name in names] == [FIRST, FIRST, SECOND, SECOND]


@pytest.mark.covers("R0-34")
def test_the_interval_is_that_of_the_schedule(desk: Desk):
    """Ten minutes after a first error; an order brings the next visit forward, and it alone."""
    desk.index(POST, "words")
    desk.index(BASE + "bare", outcome=Outcome.UNREACHABLE, status=1103, error="time out")
    with transaction(desk.connection):
        items.store_order_rows(desk.connection, [desk.number(POST)], LATER)

    names = ("lastChecked", "nextCrawlAt", "crawlIntervalSeconds", "errorMessage")
    assert [entity(desk)[name] for name in names] == [FIRST, SECOND, DAY, None]
    assert [entity(desk, BASE + "bare")[name] for name in names] == [
        FIRST, "2025-06-15T15:16:40Z", 600, "time out",
    ]  # fmt: skip


@pytest.mark.covers("R4-21")
def test_the_last_answer_of_a_page_is_when_its_server_answered(desk: Desk):
    given = {"etag": 'W/"1"', "last_modified": "Mon, 05 Jan 2026 10:00:00 GMT"}
    desk.index(POST, "words", **given)
    desk.seal()
    visited(desk, Outcome.UNREACHABLE, 1103, LATER)

    assert desk.rows("SELECT etag, last_modified, last_index_time, hops FROM urlword") == [
        (*given.values(), NOW, 0)
    ]
    assert entity(desk)["lastChecked"] == SECOND


@pytest.mark.covers("R0-34", "R0-62", "R0-93", "R1-11", "R1-13")
def test_a_page_was_created_when_it_was_indexed_first(desk: Desk):
    """Not when its address was found; and its chunks are as old as its content."""
    desk.index(POST, outcome=Outcome.TRANSIENT, status=503)
    for later, text in ((DAY, "words"), (2 * DAY, "other words"), (3 * DAY, "other words")):
        outcome = Outcome.SAME if later > 2 * DAY else Outcome.CHANGED
        visited(desk, outcome, 200, NOW + later, text)

    assert with_iso_times(desk.rows("SELECT created_at, updated_at FROM pages")) == [
        ("2025-06-16T15:06:40Z", "2025-06-17T15:06:40Z")
    ]
    assert with_iso_times(desk.rows("SELECT content, created_at FROM documents")) == [
        ("other words", "2025-06-17T15:06:40Z")
    ]
    names = ("firstSeen", "lastChanged", "lastChecked")
    assert [entity(desk)[name] for name in names] == [
        FIRST, "2025-06-17T15:06:40Z", "2025-06-18T15:06:40Z",
    ]  # fmt: skip


@pytest.mark.covers("R4-23", "M-22")
def test_a_page_of_links_has_an_entry_when_one_leads_into_the_source(desk: Desk):
    out = [Link("https://elsewhere.example/", "", "hyperlink", False)]
    within = [*out, Link(POST, "", "hyperlink", False)]
    post = desk.index(POST, "words")
    given = {"outcome": Outcome.NOT_ACCEPTABLE}
    desk.write(
        desk.visit(BASE + "out", "hidden", links=out, **given),
        desk.visit(BASE + "within", "hidden", links=within, targets=[post], **given),
        desk.visit(BASE + "map.xml", "map", links=within, targets=[post], kind=1, **given),
    )

    assert desk.rows("SELECT hrefs FROM urlwords WHERE title IS NULL") == [(2,)]


@pytest.mark.covers("R0-05", "R0-34", "R0-35", "R0-36")
def test_records_show_every_field_of_the_entity(desk: Desk):
    """With the values of the view, for every kind of page."""
    desk.index(POST, LONG, title="Post", etag='W/"a"', last_modified="Sun Nov  6 08:49:37 1994")
    desk.index("https://xn--bcher-kva.example/", LONG, content_type="text/html; charset=utf-8")
    desk.write(desk.visit(BASE + "robots", outcome=Outcome.EXCLUDED, status=None,
                          error="disallowed by robots.txt"))  # fmt: skip
    desk.write(desk.visit(BASE + "bare", outcome=Outcome.NOT_FOUND, status=404, error="gone"))
    redirects(desk, BASE + "moved", POST)
    desk.add(BASE + "waits")

    given = {row["normalizedSource"]: row for row in record_table_report(desk.connection)}

    assert set(ENTITY) <= set(RECORD_KEYS)
    assert len(given) == 6
    for url, row in given.items():
        assert {name: row[name] for name in ENTITY} == entity(desk, url)
    assert given[POST]["httpLastModified"] == "1994-11-06T08:49:37Z"
    assert given[POST]["lastModifiedReceived"] == "Sun Nov  6 08:49:37 1994"
    assert json.loads(str(given[BASE + "moved"]["httpRedirectChain"])) == [BASE + "moved", POST]
    assert given[BASE + "robots"]["httpRobotsAllowed"] is False
    assert given["https://xn--bcher-kva.example/"]["displaySource"] == "https://bücher.example/"

"""What was extracted from a body is found by its hash (ADR 69)."""

import json

import pytest

from smartcrawl.extract.hashes import body_hash
from smartcrawl.model.documents import CUT, Image, Link
from smartcrawl.model.pages import NAMES_SIGNED
from smartcrawl.model.urls import url_hash
from smartcrawl.registry import pages
from smartcrawl.registry.pack import links_for_database, pack_stored_links, unpack_stored_links
from smartcrawl.registry.pages import StoredExtraction, find_stored_extraction
from smartcrawl.rules.model import Outcome
from tests.registry.build import LATER, Desk, document

A, B = "http://a.example/a.html", "http://a.example/b.html"
BODY = "the bytes"
MEDIA = "text/html; charset=latin-1"
TEXT = "words of the page"
FIELDS = {
    "description": "About",
    "images": (Image("near.png", "Near", 3, 4, "seen"),),
    "canonical": "http://b.example/",
    "content_type": "text/html",
    "keywords": "one, two",
}
LINK = Link("http://b.example/", "there", "hyperlink", True)


def store(desk: Desk, url: str = A, **more: object) -> None:
    """Index a page."""
    given = {
        "title": "Page",
        "body": BODY,
        "links": (LINK,),
        "document_fields": FIELDS,
        "media": MEDIA,
    } | more
    visit = desk.visit(url, TEXT, **given)
    visit.parsed.sample = b"a sample"
    visit.page.plan.wanted = 7
    desk.write(visit)


def found(desk: Desk, **other: object) -> StoredExtraction | None:
    key = {"source": 1, "body_hash": body_hash(BODY.encode()), "media": MEDIA, "configuration": 7}
    return find_stored_extraction(desk.connection, **(key | other))


def test_all_that_was_extracted_is_found(desk: Desk):
    store(desk)

    stored = found(desk)

    assert stored is not None
    expected = document(TEXT, "Page", **FIELDS, links=(LINK,))
    assert stored.document == expected
    visit = desk.visit(A, TEXT, title="Page", document_fields=FIELDS)
    assert (stored.content_hash, stored.text_hash) == (
        visit.parsed.content_hash, visit.parsed.text_hash,
    )  # fmt: skip
    assert (stored.sample, stored.signs) == (b"a sample", 0)


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "other",
    [
        {"source": 2},
        {"body_hash": body_hash(b"other bytes")},
        {"media": "text/html"},
        {"configuration": 8},
    ],
)
def test_what_was_read_otherwise_is_not_found(desk: Desk, other: dict[str, object]):
    store(desk)

    assert found(desk, **other) is None


@pytest.mark.sqlite
def test_a_page_of_the_web_is_not_found(desk: Desk):
    """Its type is not stored, so that it is in no index."""
    store(desk, media=None)

    assert found(desk) is None
    assert desk.value("SELECT count(*) FROM record WHERE media IS NOT NULL") == 0


def test_signed_and_cut_links_stay_what_they_are(desk: Desk):
    store(desk, links=(LINK, Link(A, "", CUT, False)), names_signed=True)

    stored = found(desk)

    assert stored is not None
    assert stored.document.links == (LINK,)
    assert stored.document.links_cut
    assert stored.signs == NAMES_SIGNED


@pytest.mark.sqlite
def test_a_page_without_stored_links_has_none(desk: Desk):
    store(desk)
    desk.connection.execute("DELETE FROM links")

    stored = found(desk)

    assert stored is not None
    assert stored.document.links == ()


@pytest.mark.sqlite
def test_the_type_is_that_of_the_last_body_that_was_read(desk: Desk):
    store(desk)
    desk.open(now=LATER)
    unread = desk.visit(
        A, TEXT, outcome=Outcome.SAME, title="Page", body=BODY, document_fields=FIELDS
    )
    unread.parsed.document = None
    desk.write(unread, now=LATER)
    assert desk.value("SELECT media FROM record") == MEDIA

    desk.open(now=LATER)
    same = {"outcome": Outcome.SAME, "title": "Page", "document_fields": FIELDS}
    desk.write(desk.visit(A, TEXT, body="b", media="text/plain", **same), now=LATER)

    assert found(desk) is None
    assert found(desk, body_hash=body_hash(b"b"), media="text/plain", configuration=1) is not None


def test_the_look_up_uses_its_index(desk: Desk):
    """However many pages there are, and no page of a web site is in it."""
    for number in range(30):
        store(desk, f"http://a.example/{number}.html", body=f"the bytes of {number}")
    values = (1, body_hash(b"the bytes of 7"), MEDIA, 7)
    if desk.connection.dialect == "postgres":
        desk.connection.execute("SET enable_seqscan = off")
        rows = desk.connection.execute(f"EXPLAIN {pages._FIND}", values).fetchall()
    else:
        rows = desk.connection.execute(f"EXPLAIN QUERY PLAN {pages._FIND}", values).fetchall()

    assert "record_body" in str(rows)
    assert "SCAN" not in str(rows)


def test_links_for_postgresql_have_no_nul_and_the_hash_of_an_address_that_is_not_normalized():
    plain = Link("http://b.example/", "to\0b", "hyperlink", True)
    spelled = Link("http://b.example:80/", "b", "canonical", False)
    packed = pack_stored_links([plain, spelled])

    stored = links_for_database(packed, "postgres")

    assert json.loads(stored) == [
        ["http://b.example/", "to\ufffdb", "hyperlink", True],
        ["http://b.example:80/", "b", "canonical", False, url_hash("http://b.example/")],
    ]
    assert unpack_stored_links(stored) == [plain._replace(anchor="to\ufffdb"), spelled]
    assert links_for_database(packed, "sqlite") is packed

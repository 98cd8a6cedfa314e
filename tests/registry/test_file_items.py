"""Records of files: their type, ids and fields in every shape that the registry has."""

import pytest

from smartcrawl.index.elasticsearch.documents import PageDocument
from smartcrawl.index.images import images_to_index
from smartcrawl.model.documents import Image
from smartcrawl.model.file_urls import url_item_kind, url_of_folder
from smartcrawl.model.urls import (
    DEFAULT_TRACKERS,
    normalize_url,
    url_digest,
    url_digest_text,
    url_host_key,
    url_item_id,
    url_partition_key,
)
from smartcrawl.registry import items
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.choices import store_view_choices
from smartcrawl.reports.tables import record_table_report
from smartcrawl.rules.model import Outcome
from tests.registry.build import LONG, Desk, with_iso_times
from tests.registry.test_seed_fields import entity

covers = pytest.mark.covers

GUIDE = "file:///srv/docs/a.md"
CHANGED = "2025-06-01T10:00:00.123456789Z"  #: as the listing of a folder has it
OBJECTS = ["s3://bucket/a//b", "s3://bucket/a/b", "s3://bucket/A/b", "s3://bucket/a/b/"]
BLOB = "https://acc.blob.core.windows.net/docs/a.pdf"
#: Addresses of every kind, with odd parts.
EVERY = [
    GUIDE,
    "file:///",
    "file:///srv/%C3%A4%FF%20b",
    "file:///c:/docs/a",
    "file://nas/share/a",
    *OBJECTS,
    "s3:///a",
    "gs://b/../x",
    "az://docs/a",
    "abfs://docs/a",
    "abfss://docs@acc.dfs.core.windows.net/a@b",
    "wasbs://docs@acc.blob.core.windows.net/a",
    "sftp://host.example:2222/a",
    BLOB,
    "https://acc.blob.core.windows.net/",
    "https://acc.blob.core.windows.net/docs?snapshot=1",
    "https://acc.blob.core.windows.net/%64%6Fcs/b",
    "http://acc.file.core.windows.net/share/a/",
    "https://acc.file.core.windows.net:8443/share/a",
    "https://acc.blob.core.windows.net./docs/a",
    "https://a.b.blob.core.windows.net/docs/a",
    "https://blob.core.windows.net/a",
    "https://github.com/o/r/blob/main/a.md",
    "https://a.example/?u=s3://b/a",
    "http://localhost:8000/a?b",
    "http://[::1]/",
]


@pytest.fixture
def desk():
    desk = Desk()
    desk.open()
    yield desk
    desk.close()


def store(desk: Desk, url: str, text: str = LONG, **fields: object) -> int:
    """Index a file as its listing and its reader have it; return its number."""
    given = {"etag": CHANGED, "last_modified": CHANGED, "content_type": "text/markdown"}
    return desk.index(url, text, **(given | {"content_length": 1_234} | fields))


@covers("R0-09", "R0-20", "R0-24", "R0-25", "R0-27", "R0-31", "R0-95")
def test_a_file_reads_back_as_the_entity(desk: Desk):
    store(desk, GUIDE)
    moved = "UPDATE record SET canonical_url = ?, redirect_target = ? WHERE url = ?"
    desk.connection.execute(moved, ("file:///srv/b.md", "file:///srv/c.md", GUIDE))

    found = entity(desk, GUIDE)

    of_file = {name: value for name, value in found.items() if name.startswith("file")}
    assert of_file == {
        "fileEtag": CHANGED,
        "fileLastModified": CHANGED,
        "fileLength": 1_234,
        "fileContentType": "text/markdown",
    }
    of_http = {name: value for name, value in found.items() if name.startswith("http")}
    assert of_http == dict.fromkeys(of_http)
    assert len(of_http) == 7
    row_key = url_digest_text(url_digest(GUIDE))
    names = ("type", "id", "RowKey", "PartitionKey", "sourceHost", "status", "mimeType")
    assert [found[name] for name in names] == [
        "file", f"file_{row_key}", row_key, "file", None, "Indexed", "text/markdown",
    ]  # fmt: skip


@covers("R0-25", "R0-31")
def test_a_page_has_no_field_of_a_file(desk: Desk):
    modified = "Wed, 20 Aug 2025 12:00:00 GMT"
    store(desk, "https://a.example/a.md", etag='"1"', last_modified=modified)

    found = entity(desk, "https://a.example/a.md")

    of_file = {name: value for name, value in found.items() if name.startswith("file")}
    assert of_file == dict.fromkeys(
        ["fileEtag", "fileLastModified", "fileLength", "fileContentType"]
    )
    names = ("httpEtag", "httpLastModified", "httpContentLength", "httpStatusCode")
    assert [found[name] for name in names] == ['"1"', "2025-08-20T12:00:00Z", 1_234, 200]


@covers("R0-08", "R0-09", "R0-22", "R0-24", "R0-25", "R0-81")
@pytest.mark.parametrize("strategy", ["host", "scheme"])
def test_the_view_agrees_with_the_rules_on_type_id_and_partition(desk: Desk, strategy: str):
    """The rules are in Python, and once more in the SQL of each database."""
    store_view_choices(desk.connection, partition=strategy, table="IngestItems")
    desk.add(*EVERY)

    found = desk.rows(
        'SELECT "normalizedSource", "type", "id", "PartitionKey", "sourceHost" FROM "IngestItems"'
    )

    wanted = []
    for url in EVERY:
        source = normalize_url(url)
        kind = url_item_kind(source)
        host = url_host_key(url) if kind == "url" else None
        wanted.append((
            source, kind, url_item_id(kind, url_digest(source)),
            url_partition_key(source, strategy), host,
        ))  # fmt: skip
    assert sorted(found) == sorted(wanted)
    assert {row[1] for row in found} == {"url", "file"}


@covers("R0-22", "R0-23")
def test_keys_that_differ_in_slashes_or_case_are_records_of_their_own(desk: Desk):
    for place, url in enumerate(OBJECTS):
        store(desk, url, f"{LONG} {place}")

    found = desk.rows('SELECT "normalizedSource" FROM "IngestItems" ORDER BY "normalizedSource"')

    assert [source for (source,) in found] == sorted(OBJECTS)
    assert len({record["contentHash"] for record in record_table_report(desk.connection)}) == len(
        OBJECTS
    )


@covers("R0-20", "R0-22")
def test_a_name_that_is_no_text_is_a_record(desk: Desk):
    url = url_of_folder(b"/srv/\xff\xe4\n.md")
    store(desk, url)

    assert desk.rows("SELECT url FROM crawled_documents") == [("file:///srv/%FF%E4%0A.md",)]
    assert entity(desk, url)["type"] == "file"


@covers("R0-22", "R0-31")
def test_a_blob_read_over_the_web_is_a_file_too(desk: Desk):
    """Its date is that of HTTP."""
    store(
        desk, f"{BLOB}?sv=1&se=2&sig=secret", etag='"0x8D"',
        last_modified="Wed, 20 Aug 2025 12:00:00 GMT",
    )  # fmt: skip

    found = entity(desk, BLOB)

    names = ("type", "PartitionKey", "fileEtag", "fileLastModified", "httpEtag", "httpStatusCode")
    assert [found[name] for name in names] == [
        "file", "acc/docs", '"0x8D"', "2025-08-20T12:00:00Z", None, None,
    ]  # fmt: skip


@covers("R0-31")
@pytest.mark.parametrize(
    ("url", "given", "shown"),
    [
        (GUIDE, CHANGED, CHANGED),
        ("s3://bucket/a", "1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
        ("s3://bucket/a", "Wed, 20 Aug 2025 12:00:00 GMT", "2025-08-20T12:00:00Z"),
        ("s3://bucket/a", "yesterday", None),
        ("s3://bucket/a", None, None),
        ("https://a.example/", CHANGED, None),  # no date of HTTP
    ],
)
def test_the_date_of_a_file_is_iso_already(
    desk: Desk, url: str, given: str | None, shown: str | None
):
    store(desk, url, last_modified=given)

    viewed = with_iso_times(desk.rows("SELECT last_modified FROM crawled_documents"))
    digits = "23456789Z" if desk.connection.dialect == "sqlite" else "23457Z"
    assert viewed == [(shown and shown.replace("23456789Z", digits),)]
    found = entity(desk, url)
    assert (found["fileLastModified"] or found["httpLastModified"]) == shown


@covers("R0-08", "R0-09")
def test_places_of_files_are_counted_like_hosts(desk: Desk):
    for url in (GUIDE, "s3://bucket/a", "abfss://docs@acc.dfs.core.windows.net/a"):
        store(desk, url)

    domains = "SELECT DISTINCT domain FROM {} ORDER BY domain"
    for view in ("crawled_documents", "url_frontier", "domain_stats"):
        assert desk.rows(domains.format(view)) == [("acc/docs",), ("bucket",), ("file",)], view


@covers("R0-24", "R0-25", "R0-31")
def test_the_table_of_records_has_the_fields_of_the_view(desk: Desk):
    store(desk, GUIDE)
    desk.write(
        desk.visit("https://a.example/", outcome=Outcome.EXCLUDED, error="disallowed by robots")
    )

    file, page = record_table_report(desk.connection)

    for url, record in ((GUIDE, file), ("https://a.example/", page)):
        shown = entity(desk, url)
        assert {name: record[name] for name in shown} == shown
    assert (file["id"][:5], file["type"], file["httpRobotsAllowed"]) == ("file_", "file", None)
    assert (page["id"][:4], page["type"], page["httpRobotsAllowed"]) == ("url_", "url", False)


@covers("R0-24", "R0-26", "R0-64")
def test_images_name_the_file_that_shows_them(desk: Desk):
    """An image that is a file itself is no document: nothing asks for it over the web."""
    images = (Image("http://a.example/lamp.png", "A lamp"), Image("local.png", "Another"))
    number = store(desk, GUIDE, document_fields={"images": images})

    found = images_to_index(desk.connection, [number])[number]

    assert [(image.src, image.parent_page_id) for image in found] == [
        ("http://a.example/lamp.png", url_item_id("file", url_digest(GUIDE)))
    ]


@covers("R0-24", "R0-25", "R0-52", "R0-89")
@pytest.mark.parametrize("url", [GUIDE, "s3://bucket/a//b", BLOB])
def test_an_item_of_a_file_is_found_and_ordered_by_its_id(desk: Desk, url: str):
    number = store(desk, url)
    word = url_item_id("file", url_digest(url))

    (found,) = items.item_rows_by_id(desk.connection, word)
    with transaction(desk.connection):
        items.store_order_rows(desk.connection, [found.no], 0)
    (after,) = items.item_rows_by_url(desk.connection, url, DEFAULT_TRACKERS)

    assert (found.no, found.id, found.url) == (number, word, url)
    assert (after.requested, after.generation, after.id) == (True, 1, word)


@covers("R0-02", "R0-24")
@pytest.mark.parametrize("url", [GUIDE, BLOB, "https://a.example/"])
def test_documents_of_elasticsearch_have_the_ids_of_the_registry(desk: Desk, url: str):
    store(desk, url)

    document = PageDocument("docs", url_digest(url), url, b"")

    assert document.as_json()["id"] == entity(desk, url)["id"]

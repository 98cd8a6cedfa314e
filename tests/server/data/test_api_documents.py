"""Documents by their id, and lists of them, newest visit first (E-10, E-11)."""

import calendar
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from smartcrawl.server.answers import Document, Documents
from tests.registry.build import with_iso_times
from tests.server.api_client import application, ask, error_of
from tests.server.data.library import NOW, Library

BASE = "https://example.com/"


def listed(library: Library, query: str = "") -> list[str]:
    """The last parts of the addresses of a page."""
    found = library.read(f"/api/v1/documents?{query}")["documents"]
    return [row["url"].rpartition("/")[2] for row in found]


def pages(library: Library, query: str, meanwhile=lambda: None) -> list[list[str]]:
    """The parts of all pages of a list; `meanwhile` happens between two of them."""
    found, cursor = [], ""
    while True:
        page = library.read(f"/api/v1/documents?{query}{cursor}")
        found.append([row["url"].rpartition("/")[2] for row in page["documents"]])
        following = page["pagination"]["next_cursor"]
        if following is None:
            return found
        cursor = f"&cursor={following}"
        meanwhile()


def joined(parts: list[list[str]]) -> list[str]:
    return [name for part in parts for name in part]


@pytest.mark.covers("E-10", "R2-37")
def test_a_document_has_the_keys_of_the_specification(library: Library):
    key = library.put(
        f"{BASE}article/123",
        record={
            "etag": '"abc123"',
            "last_modified": "Fri, 19 Jan 2024 15:00:00 GMT",
            "content_type": "text/html",
            "content_length": 45_678,
            "content_encoding": "gzip",
            "body_hash": bytes(range(32)),
            "snapshot": 7,
        },
    )
    library.execute("INSERT INTO store (no, url) VALUES (3, 's3://crawler-data')")
    library.execute(
        "INSERT INTO snapshot (no, store, path, body_hash, at) VALUES (7, 3, 'ab/c.gz', ?, 1)",
        (b"x" * 32,),
    )

    assert library.read(f"/api/v1/documents/{key}") == {
        "url": f"{BASE}article/123",
        "url_hash": key,
        "crawled_at": "2025-06-15T15:06:40Z",
        "http_status": 200,
        "content_type": "text/html",
        "content_length": 45_678,
        "headers": {
            "last-modified": "2024-01-19T15:00:00Z",
            "etag": '"abc123"',
            "content-encoding": "gzip",
        },
        "content_hash": f"sha256:{bytes(range(32)).hex()}",
        "storage_path": "s3://crawler-data/ab/c.gz",
    }
    same = library.read(f"/api/v1/documents/{key.upper()}")
    assert same["url_hash"] == key
    Document.model_validate(same)


@pytest.mark.long(but=9)
@pytest.mark.covers("E-10", "R2-37")
@pytest.mark.parametrize(
    "received",
    [
        *(f"Fri, 19 {month} 2024 15:00:00 GMT" for month in calendar.month_abbr[1:]),
        "Fri, 39 Foo 2024 15:00:00 GMT",
        "Friday, 19-Jan-24 15:00:00 GMT",
        "Fri Jan 19 15:00:00 2024",
        "Fri, 19 Jan 2024 15:00:00 +0100",
        "yesterday",
        "",
    ],
)
def test_last_modified_is_that_of_the_views(library: Library, received: str):
    key = library.put(f"{BASE}a", record={"last_modified": received})

    viewed = with_iso_times(library.execute("SELECT last_modified FROM crawled_documents"))
    found = library.read(f"/api/v1/documents/{key}")["headers"]["last-modified"]
    assert viewed == [(found,)]
    assert (found is None) is (received[:3] != "Fri" or "Foo" in received or "+" in received)


@pytest.mark.covers("E-10", "R2-37")
def test_what_is_no_document_is_not_found(library: Library):
    pending = library.put(f"{BASE}pending", None, status=0, standing=0, effective_status=None)
    failed = library.put(f"{BASE}failed", NOW, status=3, standing=0, effective_status=500)
    alias = library.put(f"{BASE}alias", NOW, standing=0, effective_status=301)

    for key in (pending, failed, "0" * 64):
        answer = library.get(f"/api/v1/documents/{key}")
        assert (answer.status_code, error_of(answer)["code"]) == (404, "NOT_FOUND")
    assert library.read(f"/api/v1/documents/{alias}")["http_status"] == 301


def test_redirects_are_documents_where_the_view_has_them(library: Library):
    hashes = {
        status: library.put(f"{BASE}{status}", NOW, standing=0, effective_status=status)
        for status in range(299, 310)
    }

    viewed = {status for (status,) in library.execute("SELECT http_status FROM crawled_documents")}
    found = {
        status
        for status, key in hashes.items()
        if library.get(f"/api/v1/documents/{key}").status_code == 200
    }
    assert found == viewed == {301, 302, 303, 307, 308}


@pytest.mark.covers("E-10", "E-11")
def test_answers_are_the_bytes_of_json_in_ascii(library: Library):
    odd = [f'{BASE}"a"\\b', f"{BASE}ü\x7f\U0001f600", f"{BASE}{{}}\n"]
    keys = [library.put(url, record={"content_length": None, "etag": '"ü"'}) for url in odd]
    library.put(f"{BASE}plain", record={"content_length": 5})

    for path in (f"/api/v1/documents/{keys[0]}", "/api/v1/documents"):
        answer = library.get(path)
        text = json.dumps(answer.json(), separators=(",", ":"))
        assert answer.content == text.encode("ascii")
        assert answer.headers["Content-Type"] == "application/json"
    listed = answer.json()["documents"]
    assert {row["url"] for row in listed} == {*odd, f"{BASE}plain"}
    assert {row["content_length"] for row in listed} == {None, 5}


@pytest.mark.covers("E-10")
@pytest.mark.parametrize("key", ["0", "0" * 63, "0" * 65, "g" * 64, "٣" * 64, "0" * 63 + "%20"])
def test_an_id_has_64_hexadecimal_digits(tmp_path: Path, key: str):
    answer = ask(application(tmp_path), "GET", f"/api/v1/documents/{key}")

    assert answer.status_code == 400
    error = error_of(answer)
    assert (error["code"], error["details"]["field"]) == ("INVALID_INPUT", "url_hash")


def test_of_several_sources_the_latest_visit_counts(library: Library):
    key = library.put(f"{BASE}a", NOW, record={"etag": '"one"'})
    library.put(f"{BASE}a", NOW - 5, record={"source": 2, "etag": '"two"'})
    etags = [
        library.read(f"/api/v1/documents/{key}{query}")["headers"]["etag"]
        for query in ("", "?source=one", "?source=two")
    ]

    assert etags == ['"one"', '"one"', '"two"']
    assert library.get(f"/api/v1/documents/{key}?source=three").status_code == 404


@pytest.mark.covers("E-11", "R2-38", "R2-39")
def test_a_list_has_the_keys_of_the_specification_newest_first(library: Library):
    library.put(f"{BASE}old", NOW - 1, record={"content_length": 5})
    key = library.put(f"{BASE}new", NOW, record={"content_length": 6})

    assert library.read("/api/v1/documents") == {
        "documents": [
            {
                "url": f"{BASE}new",
                "url_hash": key,
                "crawled_at": "2025-06-15T15:06:40Z",
                "content_length": 6,
            },
            library.read("/api/v1/documents?offset=1")["documents"][0],
        ],
        "pagination": {"total": 2, "offset": 0, "limit": 100, "next_cursor": None},
    }
    assert listed(library) == ["new", "old"]
    Documents.model_validate(library.read("/api/v1/documents?limit=1"))


@pytest.mark.covers("E-11", "R2-38")
def test_lists_have_the_documents_of_the_view(library: Library):
    for number, (standing, effective) in enumerate(
        [(2, 200), (1, 200), (0, 301), (0, 308), (0, 404), (0, 500), (0, 304), (2, 404)]
    ):
        library.put(f"{BASE}{number}", NOW - number, standing=standing, effective_status=effective)
    rows = library.execute("SELECT url FROM crawled_documents ORDER BY crawled_at DESC")

    assert listed(library) == [url.rpartition("/")[2] for (url,) in rows]
    assert len(rows) == 5


@pytest.mark.covers("E-11", "R2-38")
def test_filters_select_by_host_and_day(library: Library):
    day = 86_400
    for name, at in (("a", NOW), ("b", NOW - day), ("c", NOW - 2 * day)):
        library.put(f"{BASE}{name}", at)
        library.put(f"https://bücher.example/{name}2", at)
    library.put("https://example.com:8443/port", NOW)
    queries = {
        "domain=example.com": ["a", "b", "c"],
        "domain=EXAMPLE.com:443": ["a", "b", "c"],
        "domain=example.com:8443": ["port"],
        f"domain={quote('bücher.example')}": ["a2", "b2", "c2"],
        "domain=nowhere.example": [],
        "domain=example.com&from=2025-06-14": ["a", "b"],
        "domain=example.com&to=2025-06-14": ["b", "c"],
        "domain=example.com&from=2025-06-14&to=2025-06-14": ["b"],
        "domain=example.com&from=2025-06-15T15:06:40Z": ["a"],
        "domain=example.com&from=2025-06-15T17:06:41%2B02:00": [],
        "domain=example.com&to=2025-06-15T15:06:39Z": ["b", "c"],
    }

    assert {query: listed(library, query) for query in queries} == queries
    totals = {
        query: library.read(f"/api/v1/documents?{query}&limit=1")["pagination"]["total"]
        for query in queries
    }
    assert totals == {query: len(names) for query, names in queries.items()}


@pytest.mark.long(but=12)
@pytest.mark.covers("E-11", "R2-39")
@pytest.mark.parametrize(
    ("query", "field"),
    [
        *((f"limit={bad}", "limit") for bad in ("0", "1001", "-1", "1.0", "1_0", "%201", "", "x")),
        *((f"limit={bad}", "limit") for bad in ("9" * 40, "null", "true", "NaN", "%D9%A3")),
        *((f"offset={bad}", "offset") for bad in ("-1", "x", "", "1000000001", "9" * 30)),
        *((f"from={bad}", "from") for bad in ("", "x", "2024", "2024-13-01", "2024-02-30")),
        *((f"from={bad}", "from") for bad in ("1705708800", "2024-01-01T00:00:00", "0000-01-01")),
        ("from=2024-01-01T25:00:00Z", "from"),
        ("from=2024-01-01T00:00:00%2B99:00", "from"),
        ("to=yesterday", "to"),
        ("from=2024-01-02&to=2024-01-01", "to"),
        *((f"domain={bad}", "domain") for bad in ("", "a/b", "a?b", "a%23b", "u@a.example")),
        *((f"domain={bad}", "domain") for bad in ("a%20b", "%5B", "a:99999", "x" * 301)),
        ("domain=https://a.example", "domain"),
        *((f"cursor={bad}", "cursor") for bad in ("", "x", "A" * 43, "%00A", "%F0%9F%8D%95")),
        ("cursor=" + "A" * 9_999, "cursor"),
        ("cursor=x&offset=1", "offset"),
        ("limit=1&limit=2", "limit"),
        ("limits=1", "limits"),
        ("from_=2024-01-01", "from_"),
        ("Limit=1", "Limit"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_named(tmp_path: Path, query: str, field: str):
    answer = ask(application(tmp_path), "GET", f"/api/v1/documents?{query}")

    assert answer.status_code == 400, answer.text
    error = error_of(answer)
    assert error["code"] == "INVALID_INPUT"
    if "%00" not in query:  # refused before any parameter is read
        assert error["details"]["field"] == field
        assert field in error["details"]["reason"]


@pytest.mark.covers("E-11", "R2-39")
@pytest.mark.parametrize("domain", ["", "domain=example.com&"])
def test_pages_join_to_the_whole_list(library: Library, domain: str):
    library.put_all([(f"{BASE}{number}", NOW - number // 3) for number in range(10)])
    whole = listed(library, domain)
    found = pages(library, f"{domain}limit=3")

    assert [len(page) for page in found] == [3, 3, 3, 1]
    assert joined(found) == whole
    assert [listed(library, f"{domain}limit=3&offset={at}") for at in (0, 3, 6, 9, 12)] == [
        *found,
        [],
    ]


@pytest.mark.covers("E-11", "R2-39")
def test_a_list_that_ends_with_its_page_has_no_cursor(library: Library):
    library.put_all([(f"{BASE}{number}", NOW) for number in range(4)])

    assert [len(page) for page in pages(library, "limit=2")] == [2, 2]


@pytest.mark.covers("E-11", "R2-39")
def test_paging_during_visits_repeats_and_skips_only_what_was_visited(library: Library):
    """Each visit moves a document to the front, behind the reader."""
    library.put_all([(f"{BASE}{number}", NOW - 100) for number in range(40)])
    visited: list[str] = []

    def visit() -> None:
        library.now += 1
        for number in (len(visited) + 1, 40 - len(visited)):
            visited.append(str(number - 1))
            statement = "UPDATE state SET last_checked = ? WHERE no = ?"
            library.execute(statement, (int(library.now), number))
        library.put(f"{BASE}new{len(visited)}", int(library.now))

    found = joined(pages(library, "limit=7", visit))

    assert len(visited) > 8
    assert len(found) == len(set(found))
    missing = {str(number) for number in range(40)} - set(found)
    assert missing
    assert missing <= set(visited)


@pytest.mark.covers("R2-39")
def test_a_cursor_belongs_to_its_filters(library: Library):
    """ATT-25."""
    library.put_all([(f"{BASE}{number}", NOW) for number in range(4)])
    asked = "domain=example.com&from=2025-01-01&limit=1"
    cursor = library.read(f"/api/v1/documents?{asked}")["pagination"]["next_cursor"]
    forged = ("A" if cursor[0] != "A" else "B") + cursor[1:]

    assert listed(library, f"{asked}&cursor={cursor}") == ["2"]
    assert listed(library, f"{asked.replace('limit=1', 'limit=3')}&cursor={cursor}") == [
        "2",
        "1",
        "0",
    ]
    for query in (
        f"limit=1&cursor={cursor}",
        f"domain=example.com&limit=1&cursor={cursor}",
        f"{asked.replace('2025-01-01', '2025-01-02')}&cursor={cursor}",
        f"{asked}&to=2026-01-01&cursor={cursor}",
        f"{asked}&cursor={forged}",
    ):
        answer = library.get(f"/api/v1/documents?{query}")
        assert error_of(answer)["details"]["field"] == "cursor", query


@pytest.mark.covers("R2-39")
def test_a_cursor_counts_at_another_server(library: Library):
    library.put_all([(f"{BASE}{number}", NOW) for number in range(3)])
    path = "/api/v1/documents?limit=2"
    cursor = library.read(path)["pagination"]["next_cursor"]
    answer = ask(library.server(), "GET", f"{path}&cursor={cursor}")

    assert [row["url"] for row in answer.json()["documents"]] == [f"{BASE}0"]


def test_a_total_is_at_most_ten_seconds_old(library: Library):
    totals = []
    for seconds in (0, 9, 1):
        library.now += seconds
        library.put(f"{BASE}{library.now}")
        totals.append(library.read("/api/v1/documents")["pagination"]["total"])

    assert totals == [1, 1, 3]
    assert library.read("/api/v1/documents?domain=example.com")["pagination"]["total"] == 3


@pytest.mark.covers("E-10", "E-11", "R0-08", "R0-09", "R0-31")
def test_files_are_documents_by_their_places(library: Library):
    urls = {
        "file": "file:///srv/docs/a.md",
        "bucket": "s3://bucket/a//b",
        "acc/docs": "abfss://docs@acc.dfs.core.windows.net/a",
    }
    changed = "2025-06-01T10:00:00.123456789Z"
    record = {"etag": changed, "last_modified": changed, "content_length": 7}
    keys = {domain: library.put(url, record=record) for domain, url in urls.items()}

    for domain, url in urls.items():
        (row,) = library.read(f"/api/v1/documents?domain={quote(domain)}")["documents"]
        assert (row["url"], row["content_length"]) == (url, 7)
        found = library.read(f"/api/v1/documents/{keys[domain]}")
        assert (found["url"], found["url_hash"]) == (url, keys[domain])
        assert found["headers"] == {
            "last-modified": changed, "etag": changed, "content-encoding": None
        }  # fmt: skip
        Document.model_validate(found)

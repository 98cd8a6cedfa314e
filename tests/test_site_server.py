"""The test site does what its manual says, seen by a client that hides nothing."""

import gzip
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from tests.site_server import Page, Site, html

DAY = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DAY_SENT = "Fri, 02 Jan 2026 03:04:05 GMT"


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


class Client:
    """One keep-alive connection."""

    def __init__(self, site: Site) -> None:
        host = site.url().removeprefix("http://").rstrip("/")
        self.connection = http.client.HTTPConnection(host, timeout=10)

    def get(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, body=body, headers=named)
        response = self.connection.getresponse()
        response.data = response.read()
        return response


@pytest.fixture
def client(site: Site) -> Iterator[Client]:
    running = Client(site)
    yield running
    running.connection.close()


def test_page_is_a_body_or_a_page(site, client):
    site.pages |= {"/a": "grün", "/b": b"\xff", "/c": Page("c", content_type="text/plain")}

    assert client.get("/a").data == "grün".encode()
    assert client.get("/a").headers["Content-Type"] == "text/html; charset=utf-8"
    assert client.get("/b").data == b"\xff"
    assert client.get("/c").headers["Content-Type"] == "text/plain"


def test_missing_and_deleted_pages_are_404(site, client):
    site.pages["/a"] = "a"
    assert client.get("/a").status == 200
    del site.pages["/a"]

    assert client.get("/a").status == 404
    assert client.get("/robots.txt").status == 404


def test_robots_txt_is_a_page_like_any_other(site, client):
    site.pages["/robots.txt"] = Page("User-agent: *\n", content_type="text/plain")

    assert client.get("/robots.txt").data == b"User-agent: *\n"


def test_query_is_looked_up_whole_then_without(site, client):
    site.pages |= {"/a": "plain", "/a?x=1": "one"}

    assert client.get("/a?x=1").data == b"one"
    assert client.get("/a?x=2").data == b"plain"
    assert [request.path for request in site.log] == ["/a?x=1", "/a?x=2"]


def test_double_slash_is_kept(site, client):
    site.pages["//a"] = "double"

    assert client.get("//a").data == b"double"
    assert client.get("/a").status == 404


def test_own_status_and_headers(site, client):
    site.pages["/"] = Page("no", status=410, headers={"content-TYPE": "a/b", "X-Robots-Tag": "é"})

    got = client.get("/")

    assert got.status == 410
    assert got.headers.get_all("Content-Type") == ["a/b"]
    assert got.headers["X-Robots-Tag"] == "é".encode().decode("latin-1")
    assert "ETag" not in got.headers


def test_etag_is_strong_and_follows_the_body(site, client):
    site.pages["/"] = "one"
    first = client.get("/").headers["ETag"]
    assert first.startswith('"')
    assert client.get("/").headers["ETag"] == first

    site.pages["/"] = "two"

    assert client.get("/").headers["ETag"] != first


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ('"v1"', 304),
        ('W/"v1"', 304),
        ('"v0", "v1"', 304),
        ("*", 304),
        ('"v2"', 200),
        ("v1", 200),
    ],
)
def test_if_none_match(site, client, asked, status):
    site.pages["/"] = Page("body", etag='"v1"', headers={"Cache-Control": "max-age=5"})

    got = client.get("/", If_None_Match=asked)

    assert got.status == status
    assert got.data == (b"" if status == 304 else b"body")
    assert got.headers["ETag"] == '"v1"'
    assert got.headers["Cache-Control"] == "max-age=5"
    assert client.get("/").data == b"body"  # the connection is still in step
    assert [request.status for request in site.log] == [status, 200]


def test_changed_page_does_not_match_its_old_etag(site, client):
    site.pages["/"] = "one"
    etag = client.get("/").headers["ETag"]
    assert client.get("/", If_None_Match=etag).status == 304

    site.pages["/"] = "two"

    assert client.get("/", If_None_Match=etag).status == 200


def test_weak_etag_is_sent_as_written(site, client):
    site.pages["/"] = Page("body", etag='W/"v1"')

    assert client.get("/").headers["ETag"] == 'W/"v1"'
    assert client.get("/", If_None_Match='W/"v1"').status == 304


def test_no_etag_matches_only_any(site, client):
    site.pages["/"] = Page("body", etag=None)

    assert "ETag" not in client.get("/").headers
    assert client.get("/", If_None_Match='"v1"').status == 200
    assert client.get("/", If_None_Match="*").status == 304


@pytest.mark.parametrize(
    ("since", "status"),
    [
        (DAY_SENT, 304),
        ("Fri, 02 Jan 2026 03:04:06 GMT", 304),
        ("Fri, 02 Jan 2026 03:04:04 GMT", 200),
        ("yesterday", 200),
    ],
)
def test_if_modified_since(site, client, since, status):
    site.pages["/"] = Page("body", last_modified=DAY)

    got = client.get("/", If_Modified_Since=since)

    assert got.status == status
    assert got.headers["Last-Modified"] == DAY_SENT


def test_if_none_match_overrules_if_modified_since(site, client):
    site.pages["/"] = Page("body", last_modified=DAY)

    assert client.get("/", If_None_Match='"x"', If_Modified_Since=DAY_SENT).status == 200


def test_last_modified_that_is_no_date_is_sent_and_never_matches(site, client):
    site.pages["/"] = Page("body", last_modified="soon")

    assert client.get("/").headers["Last-Modified"] == "soon"
    assert client.get("/", If_Modified_Since="soon").status == 200


def test_errors_are_not_conditional(site, client):
    site.pages["/"] = Page("no", status=500, etag='"v1"')

    assert client.get("/", If_None_Match='"v1"').status == 500


@pytest.mark.parametrize(
    ("accept", "packed"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("gzip;q=0, *", False), ("br", False)],
)
def test_gzip_when_accepted(site, client, accept, packed):
    site.pages["/"] = Page("body " * 1000, gzip=True)

    got = client.get("/", Accept_Encoding=accept)

    assert (got.headers["Content-Encoding"] == "gzip") is packed
    assert (gzip.decompress(got.data) if packed else got.data) == b"body " * 1000
    assert int(got.headers["Content-Length"]) == len(got.data)
    assert got.headers["Vary"] == "Accept-Encoding"


def test_gzip_is_another_representation(site, client):
    site.pages["/"] = Page("body", gzip=True)
    packed = client.get("/", Accept_Encoding="gzip").headers["ETag"]

    assert client.get("/", Accept_Encoding="identity").headers["ETag"] != packed
    assert client.get("/", Accept_Encoding="identity", If_None_Match=packed).status == 200
    got = client.get("/", Accept_Encoding="gzip", If_None_Match=packed)
    assert (got.status, got.headers["Content-Encoding"]) == (304, None)


def test_no_gzip_unless_ordered(site, client):
    site.pages["/"] = "body"

    got = client.get("/", Accept_Encoding="gzip")

    assert (got.data, got.headers["Content-Encoding"], got.headers["Vary"]) == (b"body", None, None)


def test_redirects(site, client):
    site.pages |= {"/a": Page(redirect="/ü"), "/b": Page(redirect="/c", status=307)}

    assert client.get("/a").status == 301
    assert client.get("/a").headers["Location"] == "/ü".encode().decode("latin-1")
    assert client.get("/b").status == 307
    assert "ETag" not in client.get("/b").headers


def test_reset_sends_no_byte(site, client):
    site.pages["/"] = Page("body", fault="reset")

    with pytest.raises(ConnectionResetError) as caught:
        client.get("/")
    assert caught.type is ConnectionResetError  # and not the orderly end, RemoteDisconnected
    assert [request.status for request in site.log] == [0]


def test_truncated_body_is_shorter_than_announced(site, client):
    site.pages |= {"/": Page("0123456789", fault="truncate"), "/empty": Page(fault="truncate")}

    with pytest.raises(http.client.IncompleteRead) as caught:
        client.get("/")
    assert (caught.value.partial, caught.value.expected) == (b"01234", 5)
    client.connection.close()
    with pytest.raises(http.client.IncompleteRead):
        client.get("/empty")


def test_drip_sends_the_body_byte_by_byte(site, client):
    site.pages["/"] = Page("0123456789", fault="drip", delay=0.02)
    started = time.monotonic()
    client.connection.request("GET", "/")

    response = client.connection.getresponse()

    assert response.read1(100) != b"0123456789"
    assert response.read().endswith(b"9")
    assert time.monotonic() - started >= 0.2


def test_delay_comes_before_the_first_byte(site, client):
    site.pages["/"] = Page("body", delay=0.2)
    started = time.monotonic()

    assert client.get("/").data == b"body"
    assert time.monotonic() - started >= 0.2


def test_an_answer_waits_for_what_it_is_said_to_wait_for(site, client):
    said = threading.Event()
    site.pages["/"] = Page("body", until=said.is_set)
    client.connection.request("GET", "/")
    client.connection.sock.settimeout(0.1)
    with pytest.raises(TimeoutError):
        client.connection.sock.recv(1)

    said.set()

    client.connection.sock.settimeout(60)
    assert client.connection.getresponse().read() == b"body"


def test_request_is_logged_when_it_arrives(site, client):
    site.pages["/"] = Page(fault="hang")
    client.connection.request("GET", "/")
    client.connection.sock.settimeout(0.1)

    with pytest.raises(TimeoutError):
        client.connection.getresponse()
    assert [(request.path, request.status) for request in site.log] == [("/", 0)]


def test_flaky_page_answers_503_first_and_starts_again_when_replaced(site, client):
    site.pages["/"] = Page("body", flaky=2)
    assert [client.get("/").status for _ in range(4)] == [503, 503, 200, 200]

    site.pages["/"] = Page("other", flaky=1)

    assert [client.get("/").status for _ in range(2)] == [503, 200]
    assert [request.status for request in site.log] == [503, 503, 200, 200, 503, 200]


def test_log_counts_and_clears(site, client):
    site.pages["/a"] = "a"
    client.get("/a", X_One="1")
    client.get("/a", method="HEAD")
    client.get("/b")

    assert [request[:2] for request in site.log] == [("GET", "/a"), ("HEAD", "/a"), ("GET", "/b")]
    assert [request.status for request in site.log] == [200, 200, 404]
    assert site.log[0].headers["x-one"] == "1"
    assert (site.count("/a"), site.count("/b"), site.count("/")) == (2, 1, 0)
    site.clear()
    assert (site.log, site.count("/a"), site.pages) == ([], 0, {"/a": "a"})


def test_head_has_the_length_and_no_body(site, client):
    site.pages["/"] = "body"

    got = client.get("/", method="HEAD")

    assert (got.headers["Content-Length"], got.data) == ("4", b"")
    assert client.get("/").data == b"body"


def test_request_body_is_read(site, client):
    site.pages["/"] = "body"

    assert client.get("/", method="POST", body=b"GET /evil HTTP/1.1\r\n\r\n").data == b"body"
    assert client.get("/").data == b"body"
    assert [request.method for request in site.log] == ["POST", "GET"]


def test_connection_is_kept(site, client):
    site.pages["/"] = "body"
    client.get("/")
    kept = client.connection.sock

    assert client.get("/").status == 200
    assert client.get("/missing").status == 404
    assert kept is not None
    assert client.connection.sock is kept


def test_many_clients_and_an_editor(site):
    site.pages["/"] = "0"
    seen: list[list[int]] = []

    def read() -> None:
        one = Client(site)
        seen.append([int(one.get("/").data) for _ in range(50)])
        one.connection.close()

    readers = [threading.Thread(target=read) for _ in range(16)]
    for reader in readers:
        reader.start()
    for number in range(500):
        site.pages["/"] = str(number)
        site.pages[f"/{number}"] = "more"
    for reader in readers:
        reader.join()

    assert len(seen) == 16
    assert all(numbers == sorted(numbers) for numbers in seen)
    assert site.count("/") == 16 * 50


@pytest.mark.parametrize(
    "page",
    [
        Page("body"),
        Page(fault="hang"),
        Page(until=bool),
        Page("b", delay=60),
        Page("body", fault="drip", delay=9),
    ],
)
def test_stops_at_once_and_releases_every_connection(page):
    with Site() as site:
        site.pages["/"] = page
        client = Client(site)
        client.connection.request("GET", "/")
        while not site.log:
            time.sleep(0.001)
        threads = threading.active_count()
        started = time.monotonic()

    assert time.monotonic() - started < 1
    assert threading.active_count() < threads
    client.connection.sock.settimeout(1)
    with suppress(ConnectionError):
        while client.connection.sock.recv(1000):  # ends, and does not time out
            pass
    client.connection.close()
    with pytest.raises(ConnectionRefusedError):
        Client(site).get("/")


def test_starts_again_on_its_port():
    with Site() as site:
        url = site.url("/a")
    with site:
        site.pages["/a"] = "again"
        assert site.url("/a") == url
        client = Client(site)
        assert client.get("/a").data == b"again"
        client.connection.close()


def test_broken_page_fails_the_test():
    def run() -> None:
        with Site() as site:
            site.pages["/"] = 5  # type: ignore[assignment] # not a page
            with pytest.raises(http.client.RemoteDisconnected):
                Client(site).get("/")

    with pytest.raises(ExceptionGroup, match="handlers failed"):
        run()


def test_client_that_leaves_is_no_failure(site):
    site.pages["/"] = Page("x" * 10_000_000)
    host, port = site.url().removeprefix("http://").rstrip("/").split(":")

    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        client.recv(10)


def test_html_is_text_but_for_the_head():
    page = html("a<b", "/x?a=1&b=2", "/y", text="<p>", head='<link rel="canonical" href="/z">')

    assert "<title>a&lt;b</title>" in page
    assert '<a href="/x?a=1&amp;b=2">' in page
    assert '<a href="/y">' in page
    assert "&lt;p&gt;" in page
    assert '<link rel="canonical" href="/z"></head>' in page

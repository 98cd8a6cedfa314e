"""nginx as the tests start it."""

import gzip
import http.client
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.servers import Answered, nginx

pytestmark = pytest.mark.long


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A site in a directory that no other user may enter."""
    site = tmp_path / "a site; {with} $strange 'name'"
    (site / "sub").mkdir(parents=True)
    (site / "index.html").write_text("<p>home")
    (site / "sub/index.html").write_text("<p>sub")
    (site / "note.txt").write_text("x" * 100_000)
    tmp_path.chmod(0o700)
    return site


def get(port: int, path: str, method: str = "GET", **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers={n.replace("_", "-"): v for n, v in headers.items()})
    response = connection.getresponse()
    response.data = response.read()
    connection.close()
    return response


def test_serves_files_with_their_types(root):
    with nginx(root) as server:
        assert urllib.request.urlopen(server.url).read() == b"<p>home"
        assert get(server.port, "/").headers["Content-Type"] == "text/html"
        assert get(server.port, "/note.txt").headers["Content-Type"] == "text/plain"
        assert get(server.port, "/note.txt").headers["Server"].startswith("nginx")
        assert get(server.port, "/missing").status == 404


def test_validators_are_honoured_and_follow_the_file(root):
    with nginx(root) as server:
        first = get(server.port, "/")
        etag, modified = first.headers["ETag"], first.headers["Last-Modified"]
        assert get(server.port, "/", If_None_Match=etag).status == 304
        assert get(server.port, "/", If_Modified_Since=modified).status == 304
        assert get(server.port, "/", If_None_Match='"other"').status == 200

        (root / "index.html").write_text("<p>changed")

        assert get(server.port, "/", If_None_Match=etag).data == b"<p>changed"


def test_directory_redirect_works_and_keeps_the_port(root):
    with nginx(root) as server:
        got = get(server.port, "/sub")
        assert (got.status, got.headers["Location"]) == (301, f"{server.url}sub/")
        assert urllib.request.urlopen(f"{server.url}sub").read() == b"<p>sub"


def test_requests_are_all_that_was_answered_in_order(root):
    with nginx(root) as server:
        etag = get(server.port, "/").headers["ETag"]
        get(server.port, "/", If_None_Match=etag)
        get(server.port, "/missing?q=%22", method="HEAD")
        get(server.port, "/sub")

        log = server.requests()

        assert [line[:3] for line in log] == [
            ("GET", "/", 200),
            ("GET", "/", 304),
            ("HEAD", "/missing?q=%22", 404),
            ("GET", "/sub", 301),
        ]
        assert [line.if_none_match for line in log] == ["-", etag, "-", "-"]
        assert server.requests() == log  # asking leaves no trace


def test_large_answer_is_logged_when_it_was_received(root):
    with nginx(root) as server:
        for number in range(1, 51):
            assert len(get(server.port, "/note.txt").data) == 100_000
            log = server.requests()
            assert len(log) == number
            assert 100_000 < log[-1].sent < 101_000


def test_log_holds_any_path(root):
    with nginx(root) as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        path = '/"\\\u2028\x85ü'
        client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        while client.recv(1000):
            pass

        assert server.requests() == [Answered("GET", path, 404, server.requests()[0].sent, "-")]


def test_no_log_when_none_is_wanted(root):
    with nginx(root, access_log=False) as server:
        assert get(server.port, "/").status == 200
        with pytest.raises(RuntimeError, match="access_log"):
            server.requests()


def test_extra_directives(root):
    extra = "gzip on; gzip_types text/plain; location = /teapot { return 418; }"
    with nginx(root, extra=extra) as server:
        assert get(server.port, "/teapot").status == 418
        packed = get(server.port, "/note.txt", Accept_Encoding="gzip")
        assert gzip.decompress(packed.data) == b"x" * 100_000


def test_port_can_be_chosen_and_is_free_again(root):
    with nginx(root) as first:
        port = first.port
    for _ in range(2):
        with nginx(root, port=port) as server:
            assert server.port == port
            assert get(port, "/").status == 200


def test_occupied_port_is_an_error_and_not_another_server(root):
    with nginx(root) as first, pytest.raises(RuntimeError, match="in use"):
        nginx(root, port=first.port).__enter__()


def test_wrong_directive_is_an_error_with_its_reason(root):
    with pytest.raises(RuntimeError, match="unknown directive"):
        nginx(root, extra="nonsense;").__enter__()


def test_nothing_is_left(root):
    with nginx(root) as server:
        pass
    assert server.process.poll() is not None
    assert not server.prefix.exists()
    with pytest.raises(ConnectionRefusedError):
        get(server.port, "/")

"""Requests that never reach a layer: no HTTP, and heads without an end."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.server.bodies import LIMIT
from smartcrawl.server.wire import HEAD
from tests.server.test_serve import Server, serving

HOST = b"Host: localhost\r\n"
LAST = HOST + b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("wire")
    with serving(folder) as server:
        yield server


def sent(server: Server, *parts: bytes) -> bytes:
    """Send parts until the server closes the connection; return what it answered."""
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        try:
            for part in parts:
                client.sendall(part)
            while block := client.recv(65_536):
                answer += block
        except ConnectionError:  # closed before all was sent; the answer may have come
            pass
    return answer


def error_in(answer: bytes, status: bytes) -> dict[str, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    headers = dict(line.lower().split(b": ", 1) for line in head.splitlines()[1:])
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"content-length"] == str(len(body)).encode()
    assert headers[b"connection"] == b"close"
    error = json.loads(body)["error"]
    assert error["request_id"].encode() == headers[b"x-request-id"]
    return error


@pytest.mark.covers("R2-09")
@pytest.mark.parametrize(
    "raw",
    [
        b"hello\r\n\r\n",
        b"get /health HTTP/1.1\r\n" + LAST,
        b"GET /\xff HTTP/1.1\r\n" + LAST,
        b"GET /health HTTP/1.1\r\nX-A: \x01\r\n" + LAST,
        b"POST /health HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n" + LAST + b"{}",
        b"POST /health HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + LAST + b"ZZ\r\n\r\n",
    ],
)
def test_what_is_no_request_gets_the_envelope(server: Server, raw: bytes):
    error = error_in(sent(server, raw), b"400")

    assert error["code"] == "INVALID_INPUT"
    assert error["details"] == {"reason": "this is no request of HTTP/1.1"}


@pytest.mark.covers("R2-10")
@pytest.mark.parametrize(
    "raw",
    [
        b"GET /" + b"a" * HEAD + b" HTTP/1.1\r\n" + LAST,
        b"GET /health HTTP/1.1\r\nX-A: " + b"a" * HEAD + b"\r\n" + LAST,
        b"GET /health HTTP/1.1\r\n" + b"X-A: a\r\n" * (HEAD // 8) + LAST,
    ],
)
def test_a_head_is_refused_above_its_limit(server: Server, raw: bytes):
    error = error_in(sent(server, raw), b"413")

    assert error["code"] == "PAYLOAD_TOO_LARGE"
    assert error["details"] == {"reason": f"request line and headers have at most {HEAD} bytes"}


@pytest.mark.parametrize("begin", [b"GET /", b"GET /health HTTP/1.1\r\nX-A: "])
def test_a_head_without_an_end_is_cut_off(server: Server, begin: bytes):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(begin)
        with pytest.raises(ConnectionError):  # it would take any number of bytes
            client.sendall(b"a" * 1_000 * HEAD)

    assert sent(server, b"GET /health HTTP/1.1\r\n" + LAST).startswith(b"HTTP/1.1 200 ")


def test_heads_below_the_limit_and_those_behind_a_body_are_read(server: Server):
    long = b"GET /health HTTP/1.1\r\nX-A: " + b"a" * (HEAD - 200) + b"\r\n"
    body = b" " * (LIMIT - 2) + b"{}"
    kind = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % LIMIT
    post = b"POST /health HTTP/1.1\r\n" + kind + HOST + b"\r\n" + body

    answer = sent(server, long + HOST + b"\r\n", post + post + long + LAST)

    assert answer.count(b"HTTP/1.1 200 ") == 2
    assert answer.count(b"HTTP/1.1 405 ") == 2

"""Requests that never reach a layer: no HTTP, and heads without an end."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from smartcrawl.server import running
from smartcrawl.server.bodies import LIMIT
from smartcrawl.server.running import HEAD, Wire
from tests.server.api_client import server_options
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
    assert headers[b"x-ratelimit-limit"] == b"%d" % server_options().monitoring_limit
    assert int(headers[b"x-ratelimit-remaining"]) < server_options().monitoring_limit
    assert int(headers[b"x-ratelimit-reset"]) % 60 == 0
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
    assert error["details"] == {"reason": "this is not an HTTP/1.1 request"}


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


SHORT = 0.2  #: seconds for a head and for a body, where tests wait for their end
SOON = SHORT / 4
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def read_and_answered(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer when the body was read, and some time has passed that is longer than the limits."""
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] != "http.disconnect":
        await asyncio.sleep(3 * SHORT)
        await PlainTextResponse("ok")(scope, receive, send)


def dripped(begin: bytes, drop: bytes, limit: float) -> tuple[float, bytes]:
    """Send ``begin``, then ``drop`` again and again; return the seconds to the end, and what came.

    ``limit``: seconds until the client gives up.
    """

    async def client() -> tuple[float, bytes]:
        config = uvicorn.Config(read_and_answered, log_config=None, access_log=False)
        loop = asyncio.get_running_loop()
        made = lambda: Wire(config, ServerState(), {})  # noqa: E731
        server = await loop.create_server(made, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        begun, answer = time.monotonic(), b""
        writer.write(begin)
        while time.monotonic() - begun < limit:
            try:
                async with asyncio.timeout(SOON):
                    block = await reader.read(65_536)
            except TimeoutError:
                writer.write(drop)
                continue
            except ConnectionError:
                break
            if not block:
                break
            answer += block
        spent = time.monotonic() - begun
        writer.close()
        server.close()
        return spent, answer

    return asyncio.run(client())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "HEAD_SECONDS", SHORT)
    monkeypatch.setattr(running, "BODY_SECONDS", SHORT)


@pytest.mark.parametrize(
    ("begin", "drop", "answers"),
    [
        (b"", b"", 0),
        (b"GET / HT", b"", 0),
        (b"GET / HTTP/1.1\r\n", b"X-A: a\r\n", 0),
        (b"", b"\r\n", 0),
        (POST.replace(b"8", b"800"), b"a", 0),
        (POST + b"12345678", b"\r\n", 1),
        (GET, b"\r\n", 1),
        (GET + GET + b"GET /", b"a", 2),
    ],
    ids=["nothing", "no head", "slow head", "lines", "slow body", "idle", "idle get", "pipelined"],
)
def test_a_request_that_does_not_come_in_time_ends_its_connection(
    short: None, begin: bytes, drop: bytes, answers: int
):
    """Clients that send a byte now and then could otherwise take all connections."""
    spent, answer = dripped(begin, drop, limit=30 * SHORT)

    assert spent < 20 * SHORT
    assert answer.count(b"HTTP/1.1 200 ") == answers


def test_a_connection_stays_open_for_the_next_request(short: None):
    """The limits are those of a request; an idle connection has one of its own."""
    spent, answer = dripped(GET, b"", limit=12 * SHORT)

    assert answer.count(b"HTTP/1.1 200 ") == 1
    assert spent >= 12 * SHORT


def test_neither_a_slow_answer_nor_a_request_behind_it_is_cut_off(short: None):
    """The limits count the time of the client, not that of the server."""
    last = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

    _, answer = dripped(POST + b"12345678" + POST + b"12345678" + last, b"", limit=60 * SHORT)

    assert answer.count(b"HTTP/1.1 200 ") == 3

"""Requests beside those of the crawl: what is sent, tried again, refused and given up."""

import asyncio
import socket
import time
from ipaddress import ip_network

import pytest

from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.sources import web_client
from smartcrawl.sources.web_client import (
    RefusedHostError,
    SlowError,
    TooLargeError,
    UnconnectedError,
    UnknownHostError,
    WebClient,
    WebError,
)
from tests.server.data.origins import Origin, plain
from tests.servers.processes import free_port


@pytest.fixture
def origin():
    with Origin() as origin:
        yield origin


def asked(origin, path="/a", headers=None, guard=None, **more):
    limits = {"most": 100, "seconds": 5} | more
    return WebClient(guard).ask_now(f"http://{origin.host}{path}", headers or {}, **limits)


def test_an_answer_has_its_status_its_first_headers_and_its_body(origin):
    origin.answers["/a?b=1"] = plain(b"text", "X-One: 1", "x-one: 2", status="418 Teapot")
    answer = asked(origin, "/a?b=1#c")
    assert (answer.status, answer.headers["x-one"], answer.body) == (418, "1", b"text")
    assert origin.asked == ["GET /a?b=1 HTTP/1.1"]
    assert f"Host: {origin.host}\r\n" in origin.requests[0]
    assert "Accept-Encoding: identity\r\nConnection: close\r\n" in origin.requests[0]


def test_an_interim_answer_is_followed_by_the_real_one(origin):
    def steps():
        yield b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
        time.sleep(0.1)
        yield plain(b"text")

    origin.answers["/a"] = steps
    answer = asked(origin)
    assert (answer.status, answer.body) == (200, b"text")
    assert "link" not in answer.headers


def test_no_header_begins_another_line(origin):
    origin.answers["/a"] = plain(b"")
    asked(origin, headers={"User-Agent": "a\r\nCookie: b\n c"})
    assert "\r\nUser-Agent: a Cookie: b c\r\n" in origin.requests[0]


@pytest.mark.parametrize(
    ("answer", "retries", "tries"),
    [
        (plain(b"", status="503 Away"), 2, 3),
        (plain(b"", status="404 Not Found"), 2, 1),
        (plain(b"", status="500 Oops"), 0, 1),
    ],
)
def test_a_status_of_the_server_is_tried_again(origin, answer, retries, tries):
    origin.answers["/a"] = answer
    assert str(asked(origin, retries=retries).status).encode() in answer
    assert len(origin.asked) == tries


@pytest.mark.parametrize(
    ("answer", "kind", "why", "tries"),
    [
        (b"", WebError, "cut off", 2),
        (plain(b"x" * 9)[:-1], WebError, "cut off", 2),
        (b"SSH-2.0\r\n", WebError, "a broken answer", 2),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, WebError, "headers are too large", 2),
        (plain(b"x" * 101), TooLargeError, "more than 100 bytes", 1),
        (
            lambda: iter([b"HTTP/1.1 200 OK\r\n", b""] * 2 + [b"X: 1\r\n\r\n"]),
            WebError,
            "broken",
            2,
        ),
    ],
)
def test_a_failure_is_tried_again_unless_it_would_last(origin, answer, kind, why, tries):
    origin.answers["/a"] = answer
    with pytest.raises(kind, match=why):
        asked(origin, retries=1)
    assert len(origin.asked) == tries


@pytest.mark.parametrize(
    ("answer", "most"),
    [
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, 10**6),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"y" * 70_000, 100),
    ],
)
def test_what_surrounds_a_body_has_a_limit_of_its_own(origin, answer, most):
    origin.answers["/a"] = answer
    with pytest.raises(WebError, match="headers are too large"):
        asked(origin, most=most)


def test_a_body_as_long_as_permitted_is_whole(origin):
    origin.answers["/a"] = plain(b"x" * 100)
    assert len(asked(origin).body) == 100


def test_a_host_that_stalls_is_given_up_after_each_try():
    with socket.create_server(("127.0.0.1", 0)) as stalling:
        url = f"http://127.0.0.1:{stalling.getsockname()[1]}/"
        with pytest.raises(SlowError, match=r"no whole answer within 0\.1 s"):
            WebClient(None).ask_now(url, {}, most=9, seconds=0.1, retries=1)
        stalling.settimeout(5)
        assert [stalling.accept()[1][0] for _ in range(2)] == ["127.0.0.1"] * 2


def test_a_body_is_posted(origin):
    origin.answers["/a"] = plain(b"")
    asked(origin, body=b"k=v")
    assert origin.asked == ["POST /a HTTP/1.1"]
    assert "Content-Length: 3\r\n" in origin.requests[0]


def test_what_listens_nowhere_is_not_connected():
    url = f"http://127.0.0.1:{free_port()}/"
    with pytest.raises(UnconnectedError, match=r"^no connection \(Connection refused\)$"):
        WebClient(None).ask_now(url, {}, most=9, seconds=5)
    with pytest.raises(UnknownHostError, match=r"^nothing\.invalid cannot be resolved \(.+\)$"):
        WebClient(None).ask_now("http://nothing.invalid/", {}, most=9, seconds=5)


class Names:
    """A resolver whose every name has some addresses."""

    def __init__(self, monkeypatch, *addresses):
        self.looked_up = []

        async def getaddrinfo(loop, host, port, **_):
            self.looked_up.append(host)
            return [(socket.AF_INET, 1, 6, "", (address, port)) for address in addresses]

        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)


def test_the_next_address_of_a_name_is_tried(origin, monkeypatch):
    names = Names(monkeypatch, *["127.0.0.9"] * 4, "127.0.0.1")
    origin.answers["/a"] = plain(b"here")
    url = f"http://many.example:{origin.port}/a"
    answer = WebClient(None).ask_now(url, {}, most=9, seconds=5)
    assert (answer.body, names.looked_up) == (b"here", ["many.example"])
    assert f"Host: many.example:{origin.port}\r\n" in origin.requests[0]


def test_one_address_that_is_not_permitted_refuses_a_name(origin, monkeypatch):
    """Nor is a name of a metadata service looked up."""
    names = Names(monkeypatch, "127.0.0.1", "10.0.0.1")
    guard = ConnectionGuard([ip_network("127.0.0.0/8")], [origin.port])
    client = WebClient(guard)
    for host, why in (("many.example", "private"), ("metadata.google.internal", "metadata")):
        with pytest.raises(RefusedHostError, match=f"address not allowed: {why}"):
            client.ask_now(f"http://{host}:{origin.port}/a", {}, most=9, seconds=5, retries=2)
    assert origin.asked == []
    assert names.looked_up == ["many.example"]


def test_more_addresses_than_four_are_not_tried(monkeypatch):
    Names(monkeypatch, *(f"127.0.0.{number}" for number in range(1, 9)))
    tried = []

    async def open_connection(address, port, **_):
        tried.append(address)
        raise ConnectionRefusedError(111, "no")

    monkeypatch.setattr(web_client.asyncio, "open_connection", open_connection)
    with pytest.raises(UnconnectedError):
        WebClient(None).ask_now("http://many.example/", {}, most=9, seconds=5)
    assert tried == ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"]


def test_a_connection_has_seconds_of_its_own(monkeypatch):
    async def open_connection(*_, **__):
        await asyncio.sleep(10)

    monkeypatch.setattr(web_client.asyncio, "open_connection", open_connection)
    client = WebClient(None, connect_seconds=0.05)
    with pytest.raises(UnconnectedError, match=r"no connection \(timed out\)"):
        client.ask_now("http://127.0.0.1/", {}, most=9, seconds=5)


def test_a_certificate_has_the_name_of_a_host_without_its_last_point(monkeypatch):
    Names(monkeypatch, "127.0.0.1")
    names = []

    async def open_connection(*_, server_hostname, **__):
        names.append(server_hostname)
        raise ConnectionRefusedError(111, "no")

    monkeypatch.setattr(web_client.asyncio, "open_connection", open_connection)
    for url in ("https://one.example./", "http://one.example./"):
        with pytest.raises(UnconnectedError):
            WebClient(None).ask_now(url, {}, most=9, seconds=5)
    assert names == ["one.example", None]

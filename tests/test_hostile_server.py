"""The misbehaving server sends what its kinds say, byte by byte, and counts who asks."""

import gzip
import socket
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import brotli
import pytest
from backports import zstd

from tests.crawls.commands import WORDS
from tests.hostile import codings
from tests.hostile.kinds import Ask, End, Kind
from tests.hostile_server import GOOD, KINDS, HostileServer

_BY_PATH = {kind.path: kind for kind in KINDS}
_OVER = 16 * 1024 * 1024  #: bytes, more than any crawl takes


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    with HostileServer() as running:
        yield running


class Client:
    """A connection that hides nothing."""

    def __init__(self, origin: str) -> None:
        host, port = origin.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)

    def ask(self, path: str, *lines: str) -> None:
        head = "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *lines])
        self.socket.sendall(f"{head}\r\n\r\n".encode())

    def all(self) -> bytes:
        """Everything until the server closes."""
        data = b""
        while more := self.socket.recv(65_536):
            data += more
        return data

    def answer(self) -> bytes:
        """One answer that says its length."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.socket.recv(1)
        length = next(
            (line.split()[1] for line in data.split(b"\r\n") if line.startswith(b"Content-Length")),
            b"0",
        )
        body = b""
        while len(body) < int(length):
            body += self.socket.recv(int(length) - len(body))
        return data + body


@pytest.fixture
def client(server: HostileServer) -> Iterator[Client]:
    running = Client(server.origin)
    yield running
    running.socket.close()


def ask_of(kind: Kind, *, rest: str = "", turn: int = 1) -> Ask:
    head = f"GET {kind.path}{rest} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    return Ask(
        kind.name, kind.path, rest, head, {"host": "x"}, turn, "http://o:1", "http://v:2"
    )  # fmt: skip


def test_there_are_many_kinds_each_with_a_name_and_a_path_of_its_own():
    assert len(KINDS) >= 75
    assert len(_BY_PATH) == len(KINDS)
    assert Counter(kind.group for kind in KINDS).keys() == {
        "connection", "status", "header", "length", "coding", "validator", "type", "markup",
        "redirect", "maze",
    }  # fmt: skip
    for kind in KINDS:
        assert kind.what
        assert "\n" not in kind.what
        assert {kind.first.word, kind.then.word} <= set(WORDS)
        assert kind.path.isascii()
        assert kind.path == kind.path.lower()


def faults(kind: Kind, turn: int) -> Iterator[str]:
    """Yield what is wrong with the script of a kind."""
    steps, again = (list(islice(kind.answer(ask_of(kind, turn=turn)), 40)) for _ in "ab")
    if steps != again:
        yield "it is another one each time"
    if not all(isinstance(step, bytes | float | End) for step in steps):
        yield "it has more than bytes, pauses and an end"
    if any(isinstance(step, End) for step in steps[:-1]):
        yield "it goes on after its end"
    if b"{here}" in b"".join(step for step in steps if isinstance(step, bytes)):
        yield "it sends {here} as it stands"


def test_each_script_is_bytes_pauses_and_an_end_and_always_the_same():
    found = [
        f"{kind.path}, {turn}: {fault}"
        for kind in KINDS
        for turn in (1, 2)
        for fault in faults(kind, turn)
    ]

    assert not found, "\n".join(found)


def test_the_index_leads_to_every_kind_its_twin_and_the_pages_in_order(client):
    client.ask("/")
    index = client.answer().decode()
    for path in (*GOOD, *_BY_PATH, *(kind.twin for kind in KINDS if kind.twin)):
        assert f'"{path}"' in index


def test_pages_in_order_honour_their_validators_on_one_connection(client):
    for path in GOOD:
        client.ask(path)
        page = client.answer()
        client.ask(path, 'If-None-Match: "healthy"')
        assert page.startswith(b"HTTP/1.1 200 OK\r\n")
        assert client.answer() == b'HTTP/1.1 304 Not Modified\r\nETag: "healthy"\r\n\r\n'
    client.ask("/nowhere")
    assert client.answer().startswith(b"HTTP/1.1 404 ")


def test_a_twin_is_healthy_in_the_first_round_only(server, client):
    client.ask("/held/status/s404")
    assert client.answer().startswith(b"HTTP/1.1 200 ")
    server.round = 2
    try:
        client.ask("/held/status/s404")
        assert client.answer().startswith(b"HTTP/1.1 404 ")
    finally:
        server.round = 1


def test_each_request_is_recorded_with_its_round(server, client):
    before = server.count("/good/1?x=%20")
    client.ask("/good/1?x=%20", "X-One: 1", "X-one: 2")
    client.answer()

    request = server.log[-1]
    assert (request.round, request.method, request.path) == (1, "GET", "/good/1?x=%20")
    assert request.headers == {"host": "x", "x-one": "1, 2"}
    assert server.count("/good/1?x=%20", round=1) == before + 1
    assert server.count("/good/1?x=%20", round=2) == 0


def test_paths_below_a_kind_belong_to_it(client):
    client.ask("/redirect/chain_3/2")
    assert b"Location: /redirect/chain_3/3\r\n" in client.answer()
    client.ask("/maze/session_path/;jsessionid=5e550003ab")
    assert b"jsessionid=5e550004" in client.answer()


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/connection/close_at_once", b""),
        ("/connection/close_in_status_line", b"HTTP/1.1 20"),
        ("/connection/ssh", b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"),
        ("/connection/tls_alert", b"\x15\x03\x01\x00\x02\x02\x46"),
        ("/length/announced_alone", b"HTTP/1.1 200 OK\r\n" + b"Content-Type: text/html; "
         b"charset=utf-8\r\nContent-Length: 10\r\n\r\n"),
    ],
)  # fmt: skip
def test_bytes_are_sent_exactly_and_the_connection_is_closed(client, path, data):
    client.ask(path)
    assert client.all() == data


def test_the_request_comes_back_as_it_was(client):
    client.ask("/connection/echo", "X-Odd:\t1")
    assert client.all() == b"GET /connection/echo HTTP/1.1\r\nHost: x\r\nX-Odd:\t1\r\n\r\n"


@pytest.mark.parametrize("path", ["/connection/reset_at_once", "/connection/reset_in_body"])
def test_a_reset_is_a_reset(client, path):
    client.ask(path)
    with pytest.raises(ConnectionResetError):
        client.all()


@pytest.mark.parametrize("path", ["/connection/silence", "/length/chunks_silence"])
def test_silence_lasts(client, path):
    client.ask(path)
    client.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.all()


def test_half_a_close_leaves_the_other_half_open(client):
    client.ask("/connection/half_close_at_once")
    assert client.all() == b""
    client.socket.sendall(b"still there?")


def test_an_early_answer_does_not_wait_for_the_end_of_the_request(client):
    client.socket.sendall(b"GET /connection/early HTTP/1.1\r\n")
    assert client.answer().startswith(b"HTTP/1.1 200 ")


def test_an_idle_connection_is_told_so_and_a_busy_one_is_not(client):
    for _ in range(2):
        client.ask("/connection/error_when_idle")
        assert client.answer().startswith(b"HTTP/1.1 200 ")
    assert client.all().startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("path", ["/length/endless", "/header/endless", "/length/drip"])
def test_what_is_endless_goes_on(client, path):
    client.ask(path)
    begun = client.socket.recv(65_536)
    for _ in range(20):
        assert client.socket.recv(65_536)
    assert begun.startswith(b"HTTP/1.1 200 ")


def test_tls_is_answered_in_the_clear(client):
    client.socket.sendall(bytes.fromhex("1603010200"))
    assert client.all().startswith(b"HTTP/1.1 400 ")


def test_the_victim_counts_whoever_comes():
    with HostileServer() as server:
        silent, asking = Client(server.victim), Client(server.victim)
        silent.socket.close()
        asking.ask("/anything")
        assert b"You should not be here" in asking.all()
        end = time.monotonic() + 60
        while len(server.victim_hits) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert sorted(server.victim_hits) == [b"", b"GET /anything HTTP/1.1\r\nHost: x\r\n\r\n"]
        assert server.log == []


def test_it_stops_whatever_goes_on():
    with HostileServer() as server:
        clients = [Client(server.origin) for _ in range(4)]
        for client, path in zip(
            clients,
            ("/connection/silence", "/length/endless", "/length/drip", "/good/1"),
            strict=True,
        ):
            client.ask(path)
            client.socket.recv(1) if path != "/connection/silence" else None
    for client in clients:
        client.socket.close()


def test_a_script_that_fails_fails_the_test():
    broken = Kind("group", "broken", "", lambda ask: [None], KINDS[0].first)
    server = HostileServer((broken,)).__enter__()
    client = Client(server.origin)
    client.ask("/group/broken")
    assert client.all() == b""
    with pytest.raises(ExceptionGroup, match="scripts failed"):
        server.__exit__(None, None, None)


def test_bombs_are_bombs():
    """Small to send, and more than anybody takes; the first of it is looked at only."""

    def inflated(packed: bytes, wbits: int) -> int:
        return len(zlib.decompressobj(wbits).decompress(packed, _OVER))

    nested = zlib.decompressobj(31).decompress(codings.nested_bomb())
    unpacked = brotli.Decompressor().process(codings.brotli_bomb(), output_buffer_limit=_OVER)
    frame = zstd.ZstdDecompressor().decompress(codings.zstd_bomb(), _OVER)

    assert inflated(codings.deflate_bomb(31), 31) == _OVER
    assert inflated(codings.deflate_bomb(15), 15) == _OVER
    assert inflated(nested, 31) == _OVER
    assert len(gzip.decompress(codings.gzip_members_bomb()[: 1051 * 16])) == _OVER
    assert len(unpacked) >= _OVER
    assert len(frame) == _OVER
    for bomb in (codings.deflate_bomb(31), codings.gzip_members_bomb(), codings.brotli_bomb()):
        assert len(bomb) < 2_000_000
    assert len(codings.zstd_bomb()) < 40_000
    assert len(codings.nested_bomb()) < 3_000

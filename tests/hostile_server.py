"""A web server that misbehaves, byte by byte as tests/hostile says, and a victim nobody may ask.

with HostileServer() as server:
    crawl(server.url())          # the index links to every kind of misbehaviour
    server.round = 2             # twins of what was indexed misbehave from now on
    crawl(server.url())
    assert server.victim_hits == []
"""

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from tests.hostile import (
    codings,
    connections,
    header_lines,
    lengths,
    markup,
    mazes,
    media_types,
    redirects,
    status_lines,
    validators,
)
from tests.hostile.kinds import (
    CLOSE,
    IDLE,
    KEEP,
    RESET,
    Ask,
    End,
    Kind,
    Script,
    head,
    whole,
)
from tests.site_server import html

#: Every misbehaviour, by group and name.
KINDS: tuple[Kind, ...] = (
    *connections.KINDS,
    *status_lines.KINDS,
    *header_lines.KINDS,
    *lengths.KINDS,
    *codings.KINDS,
    *validators.KINDS,
    *media_types.KINDS,
    *markup.KINDS,
    *redirects.KINDS,
    *mazes.KINDS,
)
#: Pages in order.
GOOD = ("/good/1", "/good/2", "/good/3")
ROBOTS = b"User-agent: *\nDisallow: /forbidden/\n"
_ETAG = '"healthy"'
_DAY = "Fri, 02 Jan 2026 03:04:05 GMT"
_RECEIVED = 65_536
_STOP_SECONDS = 5
_IDLE_SECONDS = 0.5


class Request(NamedTuple):
    """A request as it arrived."""

    round: int
    method: str
    path: str  #: with the query, as sent
    headers: dict[str, str]  #: names in lower case


class HostileServer:
    """Serves every kind on loopback while it is entered. Its log may be read at any time."""

    def __init__(self, kinds: tuple[Kind, ...] = KINDS) -> None:
        self.round = 1  #: set by the test, before each run
        self.log: list[Request] = []
        self.victim_hits: list[bytes] = []  #: what was sent to the victim; b"": only a connection
        self._kinds = {kind.path: kind for kind in kinds}
        self._index = _index(kinds)
        self._stopping = threading.Event()
        self._errors: list[Exception] = []
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._listeners = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(2)]
        self.origin, self.victim = (
            f"http://127.0.0.1:{listener.getsockname()[1]}" for listener in self._listeners
        )
        for listener, serve in zip(self._listeners, (self._serve, self._be_victim), strict=True):
            self._start(self._accept, listener, serve)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        with self._lock:
            for connection in (*self._listeners, *self._open):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(_STOP_SECONDS)
            assert not thread.is_alive(), "a connection did not end"
        for listener in self._listeners:
            listener.close()
        if self._errors and error is None:
            raise ExceptionGroup("the server's scripts failed", self._errors)

    def url(self, path: str = "/") -> str:
        return self.origin + path

    def count(self, path: str, *, round: int | None = None) -> int:  # noqa: A002 - it is one
        """Requests for exactly this path and query, in one round or in all."""
        return sum(
            request.path == path and round in (None, request.round) for request in list(self.log)
        )

    # Connections

    def _start(self, target, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket, serve) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                if self._stopping.is_set():
                    connection.close()
                    return
                self._open.add(connection)
            self._start(self._guarded, connection, serve)

    def _guarded(self, connection: socket.socket, serve) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            serve(connection)
        except OSError:
            pass  # a client may leave when it likes
        except Exception as error:  # noqa: BLE001 - raised when the server stops
            self._errors.append(error)
        finally:
            with self._lock:
                self._open.discard(connection)
                connection.close()

    def _be_victim(self, connection: socket.socket) -> None:
        connection.settimeout(1)
        data = b""
        with suppress(TimeoutError):
            data = connection.recv(_RECEIVED)
        self.victim_hits.append(data)
        connection.sendall(whole(html("You should not be here").encode()))

    def _serve(self, connection: socket.socket) -> None:
        while line := _line(connection):
            if not line[:1].isalpha():  # TLS, say
                connection.recv(_RECEIVED)
                connection.sendall(whole(b"", status="HTTP/1.1 400 Bad Request"))
                return
            method, path = (*line.decode("latin-1").split(), "", "")[:2]
            kind, here, rest = self._found(path)
            early = kind is not None and kind.early
            data = line if early else _rest_of_head(connection, line)
            request = Request(self.round, method, path, _headers(data))
            self.log.append(request)
            script = self._script(kind, here, rest, request, data)
            end = self._play(connection, script)
            if end is IDLE and _speaks_up(connection):
                return
            if end not in (KEEP, IDLE):
                _finish(connection, end)
                return

    def _found(self, path: str) -> tuple[Kind | None, str, str]:
        """Return the kind that a path belongs to, its own path as it was asked, and the rest."""
        held = "/held" if path.startswith("/held/") else ""
        bare = path.partition("?")[0].removeprefix(held)
        own = "/".join(bare.split("/")[:3]).partition(";")[0]
        return self._kinds.get(own), held + own, path.removeprefix(held + own)

    def _script(
        self, kind: Kind | None, here: str, rest: str, request: Request, data: bytes
    ) -> Script:
        if kind is None:
            return self._ordinary(request)
        if here.startswith("/held/") and request.round == 1:
            return _page(f"healthy {kind.name}", f"what {here}{rest} holds", request)
        ask = Ask(
            kind.name, here, rest, data, request.headers, request.round, self.origin, self.victim
        )
        return kind.answer(ask)

    def _ordinary(self, request: Request) -> Script:
        path = request.path
        if path == "/":
            return whole(self._index), KEEP
        if path == "/robots.txt":
            return whole(ROBOTS, "Content-Type: text/plain"), KEEP
        if path.startswith(("/good/", "/never/", "/forbidden/")):
            return _page(f"Page {path}", f"All is well at {path}.", request)
        return whole(b"not found", status="HTTP/1.1 404 Not Found"), KEEP

    def _play(self, connection: socket.socket, script: Script) -> End:
        for step in script:
            if isinstance(step, End):
                return step
            if isinstance(step, float):
                self._stopping.wait(step)
            else:
                connection.sendall(step)
            if self._stopping.is_set():
                return RESET
        return CLOSE


def _index(kinds: tuple[Kind, ...]) -> bytes:
    paths = [path for kind in kinds for path in (kind.path, kind.twin) if path is not None]
    return html("Every misbehaviour", *GOOD, *paths, text="None of these is nice.").encode()


def _page(title: str, text: str, request: Request) -> Script:
    """A page in order, with validators that are honoured."""
    if request.headers.get("if-none-match") == _ETAG:
        return head(f"ETag: {_ETAG}", status="HTTP/1.1 304 Not Modified"), KEEP
    body = html(title, text=text).encode()
    return whole(body, f"ETag: {_ETAG}", f"Last-Modified: {_DAY}"), KEEP


# Bytes of a request


def _line(connection: socket.socket) -> bytes:
    """Return the request line and not a byte more; b"" when the client is gone."""
    line = b""
    while not line.endswith(b"\n") and (byte := connection.recv(1)):
        line += byte
        if not line[:1].isalpha():
            break
    return line


def _rest_of_head(connection: socket.socket, data: bytes) -> bytes:
    while b"\r\n\r\n" not in data and (more := connection.recv(_RECEIVED)):
        data += more
    return data


def _headers(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in data.decode("latin-1").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            known = found.get(name.lower())
            found[name.lower()] = value.strip() if known is None else f"{known}, {value.strip()}"
    return found


def _finish(connection: socket.socket, end: End) -> None:
    match end:
        case End.RESET:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        case End.SILENCE:
            connection.recv(1)  # until the client leaves, or the server stops
        case End.HALF_CLOSE:
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
        case End.CLOSE | End.KEEP | End.IDLE:
            pass


def _speaks_up(connection: socket.socket) -> bool:
    """Send a 408 unless the next request comes first; return whether it was sent."""
    connection.settimeout(_IDLE_SECONDS)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        connection.sendall(whole(b"", status="HTTP/1.1 408 Request Timeout"))
        return True
    connection.settimeout(None)
    return False

"""A site of a few pages whose answers are sent byte by byte as a test says.

with RawSite() as site:
    crawl(site.url())
    site.edit("/7")
    site.scripts["/3"] = lambda good: (good, 0.005, site.answer_of("/4"))
    crawl(site.url())            # the answer to /3, and one that no request asked for
"""

import math
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum, auto
from types import TracebackType
from typing import Self

from tests.site_server import html

_DAY = "Fri, 02 Jan 2026 03:04:05 GMT"
_LATER = "Sat, 03 Jan 2026 03:04:05 GMT"
_RECEIVED = 65_536
#: Linux: the kernel says of received bytes when they came, by the clock of `time.time_ns`.
_SO_TIMESTAMPNS = 35
_TIMESTAMP = struct.Struct("qq")
_STOP_SECONDS = 5


class End(Enum):
    """How a connection ends after an answer; without one it is kept."""

    CLOSE = auto()
    RESET = auto()


#: Bytes that are sent, seconds without any, or the end.
Steps = Iterable[bytes | float | End]
#: Makes the steps for a path out of the right answer.
Script = Callable[[bytes], Steps]


class RawSite:
    """`/`, which links to `/0` … `/N`, and those, each with validators that are honoured."""

    def __init__(
        self, pages: int = 30, *, etags: bool = True, tls: ssl.SSLContext | None = None
    ) -> None:
        """Without `etags` all pages share one Last-Modified, until they are edited."""
        self.paths = [f"/{number}" for number in range(pages)]
        self.etags = etags
        self.scripts: dict[str, Script] = {}  #: by path, for each request
        self.once: dict[str, Script] = {}  #: by path, for the next request
        self.sent = 0  #: bytes
        self.slowest = 0.0  #: most seconds by which the machine delayed a step, or an answer
        self.log: list[tuple[str, dict[str, str]]] = []
        self.used: Counter[int] = Counter()  #: requests by connection
        self._edited: Counter[str] = Counter()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        if tls is not None:
            self._listener = tls.wrap_socket(self._listener, server_side=True)
        self._stopping = threading.Event()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()
        self._errors: list[Exception] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        with self._lock:
            left = dict(self._open)
            for connection in (self._listener, *left):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in left.values():
            thread.join(_STOP_SECONDS)
            assert not thread.is_alive(), "a connection did not end"
        self._listener.close()
        if self._errors and error is None:
            raise ExceptionGroup("the scripts failed", self._errors)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def edit(self, *paths: str) -> None:
        """Give pages another text and other validators."""
        self._edited.update(paths)

    def restore(self) -> None:
        """Take back what was edited, scripted and counted."""
        for known in (self._edited, self.scripts, self.once, self.log, self.used):
            known.clear()
        self.sent = 0
        self.slowest = 0.0

    def count(self, path: str) -> int:
        return sum(asked == path for asked, _ in list(self.log))

    def words(self, path: str) -> str:
        """A text that no other page has, now or at another time."""
        return f"page{path[1:] or 'home'}version{self._edited[path]}"

    def etag(self, path: str) -> str:
        return f'"{self.words(path)}"'

    def answer_of(self, path: str, headers: dict[str, str] | None = None) -> bytes:
        """The right answer; without `headers` 304."""
        if path == "/robots.txt":
            return whole(b"", "Content-Type: text/plain")
        if path != "/" and path not in self.paths:
            return whole(b"not found", status="404 Not Found")
        date = _LATER if self._edited[path] else _DAY
        lines = (f"ETag: {self.etag(path)}",) if self.etags else (f"Last-Modified: {date}",)
        known = {"if-none-match": self.etag(path), "if-modified-since": date}
        if headers is None or any(headers.get(name) == value for name, value in known.items()):
            return head(*lines, status="304 Not Modified")
        links = self.paths if path == "/" else ["/"]
        text = html(f"Page {path}", *links, text=self.words(path))
        return whole(text.encode(), "Content-Type: text/html", *lines)

    # Connections

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._stopping.is_set():
                    connection.close()
                    return
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._open[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        number = len(self.used)
        self.used[number] = 0
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not isinstance(connection, ssl.SSLSocket):
                connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            rest = b""
            while asked := self._asked(connection, rest):
                path, headers, since, rest = asked
                self.used[number] += 1
                self.log.append((path, headers))
                script = self.once.pop(path, None) or self.scripts.get(path)
                good = self.answer_of(path, headers)
                steps = (good,) if script is None else script(good)
                if not self._play(connection, steps, since):
                    return
        except OSError:
            pass  # a client may leave when it likes
        except Exception as error:  # noqa: BLE001 - raised when the site stops
            self._errors.append(error)
        finally:
            connection.close()

    def _play(self, connection: socket.socket, steps: Steps, due: float) -> bool:
        """Send, the first step at `due`; return whether the connection is kept."""
        for step in steps:
            if isinstance(step, bytes):
                connection.sendall(step)
                self.sent += len(step)
                self.slowest = max(self.slowest, time.monotonic() - due)
                due = time.monotonic()
            elif isinstance(step, float):
                self._stopping.wait(step)
                due += step
            else:
                if step is End.RESET:
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return False
            if self._stopping.is_set():
                return False
        return True

    def _asked(
        self, connection: socket.socket, data: bytes
    ) -> tuple[str, dict[str, str], float, bytes] | None:
        """Return path, headers and time of the next request, and the bytes after it; None: none.

        ``data``: bytes that were received before. No client here sends a request before it has an
        answer to the last one: with two at once, the machine let the first of them wait.
        """
        since = time.monotonic()
        if data:
            self.slowest = math.inf
        while b"\r\n\r\n" not in data:
            more, late = _received(connection)
            if not more:
                return None
            data += more
            since = max(since, time.monotonic() - late)
        head, _, rest = data.partition(b"\r\n\r\n")
        if rest:
            self.slowest = math.inf
        lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:])
        headers = {name.lower(): value for name, _, value in pairs}
        return lines[0].split()[1], headers, since, rest


def _received(connection: socket.socket) -> tuple[bytes, float]:
    """Return bytes, and how many seconds ago they came; over TLS that is unknown: 0."""
    if isinstance(connection, ssl.SSLSocket):
        return connection.recv(_RECEIVED), 0.0
    data, notes, _, _ = connection.recvmsg(_RECEIVED, socket.CMSG_SPACE(_TIMESTAMP.size))
    for level, kind, note in notes:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, rest = _TIMESTAMP.unpack(note)
            return data, max(0.0, (time.time_ns() - seconds * 10**9 - rest) / 1e9)
    return data, 0.0


def head(*lines: str, status: str = "200 OK", version: str = "HTTP/1.1") -> bytes:
    """A status line, header lines and the blank line, as Latin-1."""
    return "".join(f"{line}\r\n" for line in (f"{version} {status}", *lines, "")).encode("latin-1")


def whole(body: bytes, *lines: str, status: str = "200 OK") -> bytes:
    """An answer with its length."""
    return head(*lines, f"Content-Length: {len(body)}", status=status) + body

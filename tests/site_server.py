"""A web site for tests: pages that can be edited, faults that can be ordered, a log to assert on.

with Site() as site:
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = Page("hello", last_modified=datetime(2026, 1, 1, tzinfo=UTC), gzip=True)
    site.pages["/old"] = Page(redirect="/a")
    crawl(site.url("/"))
    assert site.count("/a") == 1
"""

import gzip
import hashlib
import os
import socket
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from enum import StrEnum, auto
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal, NamedTuple, Self

_STOP_SECONDS = 5
_POLL_SECONDS = 0.02
_DRIP_SECONDS = 0.05

Fault = Literal["reset", "truncate", "hang", "drip"]


class Default(StrEnum):
    """A value that the server works out."""

    FROM_BODY = auto()  #: a strong ETag of the bytes that are sent


@dataclass(frozen=True, slots=True)
class Page:
    """One answer. To edit a page, assign another one (`dataclasses.replace`)."""

    body: str | bytes = ""
    status: int | None = None  #: 200, or 301 with `redirect`
    content_type: str | None = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)  #: replace the server's own
    etag: str | Default | None = Default.FROM_BODY  #: as sent, quotes included; None: no ETag
    last_modified: datetime | str | None = None  #: a string is sent as it is
    gzip: bool = False  #: compressed for clients that accept it
    redirect: str | None = None  #: Location
    delay: float = 0  #: seconds before the first byte; with "drip", between two bytes of the body
    #: reset: the connection is reset before any byte. hang: no byte until the server stops.
    #: truncate: half of the announced body, then the end. drip: the body byte by byte.
    fault: Fault | None = None
    until: Callable[[], object] | None = None  #: what must be true before the first byte is sent
    flaky: int = 0  #: the first requests that get 503; the next ones get the page


class Request(NamedTuple):
    """A request as it arrived, and what was decided about it."""

    method: str
    path: str  #: with the query
    headers: dict[str, str]  #: names in lower case
    status: int  #: 0 when no status line is sent (reset, hang)


class Site:
    """Serves `pages` on loopback while it is entered; afterwards every connection is closed.

    `pages` maps a path to a `Page` or its body. A path with a query is looked up whole, then
    without the query. Pages may be added, replaced and deleted by any thread while it runs; an
    answer is decided and logged when its request arrives.
    """

    def __init__(self, *, port: int = 0) -> None:
        self.pages: dict[str, Page | str | bytes] = {}
        self.log: list[Request] = []
        self.stopping = threading.Event()
        self.ignores_conditions = False  #: sends the body whatever is asked
        self.refuses_head = False
        self.posted = b""  #: the last body that a request had
        self._port = port
        self._refused: dict[str, tuple[Page, int]] = {}
        self._lock = threading.Lock()
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        self.stopping.clear()
        self._server = _Server(self, self._port)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.release()
        errors, self._server = self._server.errors, None
        if errors and error is None:
            raise ExceptionGroup("the site's handlers failed", errors)

    def url(self, path: str = "/") -> str:
        if not self._port:
            raise RuntimeError("the site has no port before it is entered")
        return f"http://127.0.0.1:{self._port}{path}"

    def count(self, path: str) -> int:
        """Requests for exactly this path and query."""
        return sum(request.path == path for request in list(self.log))

    def clear(self) -> None:
        """Forget the requests, keep the pages."""
        self.log.clear()

    def answer(self, method: str, path: str, headers: dict[str, str]) -> "_Answer":
        if self.ignores_conditions:
            headers = {name: value for name, value in headers.items() if name[:3] != "if-"}
        with self._lock:
            page = self._page(path)
            if method == "HEAD" and self.refuses_head:
                answer = _Answer(405, {"Content-Type": "text/plain"}, b"")
            elif page is None:
                answer = _Answer(404, {"Content-Type": "text/plain"}, b"not found\n")
            elif self._refuses(path, page):
                answer = _Answer(503, {"Content-Type": "text/plain"}, b"try again\n")
            else:
                answer = _answer(page, headers)
            silent = answer.fault in {"reset", "hang"}
            self.log.append(Request(method, path, headers, 0 if silent else answer.status))
        return answer

    def _page(self, path: str) -> Page | None:
        page = self.pages.get(path)
        if page is None:
            page = self.pages.get(path.partition("?")[0])
        return Page(page) if isinstance(page, str | bytes) else page

    def _refuses(self, path: str, page: Page) -> bool:
        if not page.flaky:
            return False
        known, refused = self._refused.get(path, (page, 0))
        refused = refused + 1 if known is page else 1  # another page counts from the start
        self._refused[path] = page, refused
        return refused <= page.flaky


class TimedSite(Site):
    """Tells when each request arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: list[tuple[float, str]] = []  #: monotonic seconds, path

    def answer(self, method: str, path: str, headers: dict[str, str]) -> "_Answer":
        self.arrived.append((time.monotonic(), path))
        return super().answer(method, path, headers)

    def took(self) -> float:
        """Seconds from the first request to the last: a busy machine can only add to them."""
        return self.arrived[-1][0] - self.arrived[0][0]


def html(title: str, *links: str, text: str = "", head: str = "") -> str:
    """A small page; `head` is markup, everything else is text."""
    items = "".join(f'<li><a href="{escape(link)}">{escape(link)}</a></li>' for link in links)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>{head}</head>\n"
        f"<body><main><h1>{escape(title)}</h1><p>{escape(text)}</p><ul>{items}</ul></main></body>"
        "</html>\n"
    )


# What is answered


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    delay: float = 0
    fault: Fault | None = None
    until: Callable[[], object] | None = None


def _answer(page: Page, request: Mapping[str, str]) -> _Answer:
    status = page.status or (301 if page.redirect is not None else 200)
    body = page.body.encode() if isinstance(page.body, str) else page.body
    headers: dict[str, str] = {}
    if page.content_type is not None:
        headers["Content-Type"] = page.content_type
    if page.redirect is not None:
        headers["Location"] = page.redirect
    if page.gzip:
        headers["Vary"] = "Accept-Encoding"
        if _accepts_gzip(request.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body, mtime=0)
    if page.etag is not Default.FROM_BODY:
        if page.etag is not None:
            headers["ETag"] = page.etag
    elif status == 200:
        headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if page.last_modified is not None:
        headers["Last-Modified"] = _http_date(page.last_modified)
    own = {name.lower() for name in page.headers}
    headers = {name: value for name, value in headers.items() if name.lower() not in own}
    headers |= page.headers
    if status == 200 and _not_modified(headers, request):
        status, body = 304, b""
        headers.pop("Content-Type", None)
        headers.pop("Content-Encoding", None)
    return _Answer(status, headers, body, page.delay, page.fault, page.until)


def _http_date(value: datetime | str) -> str:
    if isinstance(value, str):
        return value
    return format_datetime(value.astimezone(UTC).replace(microsecond=0), usegmt=True)


def _accepts_gzip(accept: str) -> bool:
    """RFC 9110, 12.5.3, for gzip alone."""
    quality = {}
    for part in accept.lower().split(","):
        coding, _, parameter = part.partition(";")
        name, _, number = parameter.strip().partition("=")
        quality[coding.strip()] = float(number) if name == "q" else 1.0
    return quality.get("gzip", quality.get("*", 0)) > 0


def _not_modified(headers: Mapping[str, str], request: Mapping[str, str]) -> bool:
    """RFC 9110, 13.1.2, 13.1.3 and 13.2.2: If-Modified-Since counts only without If-None-Match."""
    sent = {name.lower(): value for name, value in headers.items()}
    asked = request.get("if-none-match")
    if asked is not None:
        tags = {tag.strip().removeprefix("W/") for tag in asked.split(",")}
        etag = sent.get("etag")
        return "*" in tags or (etag is not None and etag.removeprefix("W/") in tags)
    since, modified = request.get("if-modified-since"), sent.get("last-modified")
    if since is None or modified is None:
        return False
    try:
        return parsedate_to_datetime(modified) <= parsedate_to_datetime(since)
    except (ValueError, TypeError):  # not a date, or only one of the two with a zone
        return False


# How it is sent


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            known = headers.get(name.lower())
            headers[name.lower()] = value if known is None else f"{known}, {value}"
        target = self.requestline.split()[1]  # self.path has leading slashes collapsed
        site = self.server.site
        if body:
            site.posted = body
        answer = site.answer(self.command, target, headers)
        if answer.fault == "hang":
            site.stopping.wait()
        elif answer.delay and answer.fault != "drip":
            site.stopping.wait(answer.delay)
        while answer.until is not None and not answer.until():
            if site.stopping.wait(_POLL_SECONDS):
                break
        if answer.fault == "reset" or site.stopping.is_set():
            self._reset()
        else:
            self._send(answer)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """The base looks for do_GET, do_HEAD and so on; every method is served alike."""
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def _send(self, answer: _Answer) -> None:
        body = answer.body
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            # http.server sends Latin-1; non-ASCII values go out as UTF-8, as real servers do.
            self.send_header(name, value.encode().decode("latin-1"))
        if answer.status not in {204, 304} and "content-length" not in map(
            str.lower, answer.headers
        ):
            announced = max(1, len(body)) if answer.fault == "truncate" else len(body)
            self.send_header("Content-Length", str(announced))
        self.end_headers()
        if self.command == "HEAD" or answer.status in {204, 304}:
            return
        match answer.fault:
            case "truncate":
                self.wfile.write(body[: len(body) // 2])
                self.close_connection = True
            case "drip":
                self._drip(body, answer.delay or _DRIP_SECONDS)
            case _:
                self.wfile.write(body)

    def _drip(self, body: bytes, seconds: float) -> None:
        for at in range(len(body)):
            self.wfile.flush()
            if self.server.site.stopping.wait(seconds):
                self.close_connection = True
                return
            self.wfile.write(body[at : at + 1])

    def _reset(self) -> None:
        """Close with a TCP reset; the stream objects would hold the socket open."""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        os.close(self.connection.detach())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # 64 connections may be opened at once
    server_bind = socketserver.TCPServer.server_bind  # HTTPServer's asks DNS for a name

    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        self.errors: list[Exception] = []
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request, client_address) -> None:
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request, client_address) -> None:
        error = sys.exception()
        if not isinstance(error, ConnectionError):  # a client may leave when it likes
            self.errors.append(error)

    def release(self) -> None:
        """End every connection and wait for its thread."""
        with self._changed:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            if not self._changed.wait_for(lambda: not self._open, _STOP_SECONDS):
                raise RuntimeError(f"{len(self._open)} connections did not end")

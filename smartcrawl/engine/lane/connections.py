"""Connections of the lane: one request at a time; answers count when the connection is clean.

After one answer too many, each page of a connection gets the answer of the page before it. So
answers are unsettled until their connection was clean: idle for one round trip, without bytes to
read. Bytes that are received while no request is in flight close the connection.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Final, NamedTuple, Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from smartcrawl.engine.download.decoding import downloader_is_slow
from smartcrawl.engine.download.headers import MAX_HEADERS
from smartcrawl.model.exceptions import LaneError

_HEAD_END: Final = b"\r\n\r\n"
_LAST_BYTES: Final = 5  #: bytes of a chunked body that end it: a line break, and a blank line
_NO_BODY: Final = frozenset({204, 304})
_FIRST_BYTE: Final = ord("H")
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_TAB: Final = ord("\t")
_OWS: Final = b" \t"  #: optional white space around a field value, which is no part of it


class LaneAnswerParser:
    """Reads one answer after another; llhttp rejects everything that is not strict HTTP/1.x.

    ``begin`` prepares for an answer, ``feed`` takes its bytes. An answer ends at an exact byte.
    The bytes after it are ``excess`` and belong to no request. 1xx answers are skipped. Their heads
    count against MAX_HEADERS together with the head of the answer, as in the engine.

    Source: RFC 9112 sections 4 to 8; RD-04 for header values byte for byte.
    """

    def __init__(self, max_size: int) -> None:
        """Limit bodies to ``max_size`` bytes; 0: no limit."""
        self._max_size = max_size
        self._llhttp = HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Prepare for an answer."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.begun = False  #: at least one byte was received
        self.headed = False  #: status and headers are complete
        self.whole = False
        self.keeps = True  #: the server keeps the connection open
        self.excess = False  #: bytes came after the end
        self.size = 0  #: bytes of the body
        self._parts: list[bytes] = []
        self._heads = 0  #: bytes of all heads
        self._tail = b""  #: the last bytes, which may begin an end
        self._length: int | None = None  #: Content-Length
        self._chunked = False
        self._skipped = False  #: a 1xx answer ended
        self._fault = ""  #: an error in an event of llhttp

    @property
    def protocol(self) -> str:
        """The protocol of the answer."""
        return f"HTTP/{self._llhttp.get_http_version()}"

    @property
    def body(self) -> bytes:
        """The body, still encoded."""
        return b"".join(self._parts)

    @property
    def ends_with_connection(self) -> bool:
        """Whether the end of the connection is the end of the body."""
        return self.headed and not self.whole and self._length is None and not self._chunked

    def feed(self, data: bytes) -> bool:
        """Take bytes; return whether the answer is whole.

        Raises:
            LaneError: the bytes are not HTTP/1.x, or more than allowed.
        """
        self.begun = True
        try:
            while data and not self.whole:
                data = self._feed_body(data) if self.headed else self._feed_head(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self.whole:
                raise LaneError(f"{type(error).__name__}: {error}") from error
            self.excess = True  # the error is behind the last chunk
        if data:
            self.excess = True
        return self.whole

    def _feed_head(self, data: bytes) -> bytes:
        """Read a head up to its end; return the bytes after it."""
        kept = len(self._tail)
        if not kept and data[0] != _FIRST_BYTE:  # llhttp would skip blank lines
            raise LaneError("the answer does not begin as HTTP does")
        joined = self._tail + data
        at = joined.find(_HEAD_END)
        end = at + len(_HEAD_END) - kept if at >= 0 else len(data)
        self._heads += end
        if self._heads > MAX_HEADERS:
            raise LaneError("the headers are too large")
        self._tail = joined[-3:] if at < 0 else b""
        self._read(data[:end])
        if self._skipped:
            self._skipped = False
            self.headers.clear()
        elif self.headed != (at >= 0):
            raise LaneError("the end of the headers is not clear")
        return data[end:]

    def _feed_body(self, data: bytes) -> bytes:
        """Read bytes of a body; return the bytes after it."""
        if self._chunked:
            self._read(data)
            self._tail = (self._tail + data[-_LAST_BYTES:])[-_LAST_BYTES:]
            # llhttp skips line breaks before the next message without an event.
            if self.whole and (self._tail[0] in _HEAD_END or self._tail[1:] != _HEAD_END):
                self.excess = True
            return b""
        rest = len(data) if self._length is None else self._length - self.size
        self._read(data[:rest])
        return data[rest:]

    def _read(self, data: bytes) -> None:
        self._llhttp.feed_data(data)
        if self._fault:
            raise LaneError(self._fault)

    # Events of llhttp

    def on_message_begin(self) -> None:
        """Mark a message after the answer as excess."""
        self.excess = self.whole

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header without the white space around its value; trailers are dropped.

        The engine does the same. llhttp knows no ``chunked`` before a tab: that answer goes to the
        engine. Source: RFC 9110 section 5.5.
        """
        if not self.headed:
            if _TAB in value and name.lower() == b"transfer-encoding":
                self._fault = "the transfer encoding has a tab"
            if value and (value[0] in _OWS or value[-1] in _OWS):
                value = value.strip(_OWS)  # few have any: this is a step for each header
            self.headers.append((name, value))
        elif not self.whole:
            self._heads += len(name) + len(value) + 4
            if self._heads > MAX_HEADERS:
                self._fault = "the trailers are too large"

    def on_headers_complete(self) -> None:
        """Read the status, and how the end of the body is marked."""
        status = self._llhttp.get_status_code()
        if self.whole or 100 <= status < 200:
            return
        self.status, self.headed = status, True
        if status < 200 or self._llhttp.get_http_version() not in _VERSIONS:
            self._fault = "status or version is not one of HTTP/1"
        elif status not in _NO_BODY:
            self._find_length()

    def _find_length(self) -> None:
        for name, value in self.headers:
            lower = name.lower()
            if lower == b"content-length":
                self._length = int(value)  # llhttp accepts one, of digits
                if self._max_size and self._length > self._max_size:
                    self._fault = "the body is too large"
            elif lower == b"transfer-encoding":
                self._chunked = True
                if value.lower() != b"chunked":
                    self._fault = "the transfer encoding is not chunked"

    def on_body(self, part: bytes) -> None:
        """Take a part of the body."""
        if self.whole:
            return
        self._parts.append(part)
        self.size += len(part)
        if self._max_size and self.size > self._max_size:
            self._fault = "the body is too large"

    def on_message_complete(self) -> None:
        """Mark the answer as whole, or skip a 1xx answer."""
        if not self.headed:
            self._skipped = True
        elif not self.whole:
            self.keeps = self._llhttp.should_keep_alive()
            self.whole = True


MOST_UNSETTLED: Final = 16  #: most unsettled answers of a connection
_STEP: Final = 5  #: see Connection.__init__
_SHORTEST, _LONGEST = 0.01, 2.0  #: least and most seconds of a round trip
_FIRST: Final = 0.05  #: least seconds until the first answers of a connection count
_IDLE: Final = 15  #: seconds after which an unused connection is closed


class LaneAnswer(NamedTuple):
    """The answer of a server, as it was received."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    latency: float  #: seconds until the headers were received
    protocol: str
    #: Whether the answer counts: True when its connection is clean, False when it never will be.
    clean: asyncio.Future[bool]

    @property
    def size(self) -> int:
        """Bytes of the headers."""
        return sum(len(name) + len(value) + 4 for name, value in self.headers)


class ClosedError(LaneError):
    """A kept connection ended before a byte of the answer: the request may be sent again."""


class LaneConnectionOwner(Protocol):
    """The owner of a connection, which receives its reports."""

    @property
    def one_request_each(self) -> bool:
        """Whether no connection is used twice."""

    def usable(self, connection: LaneConnection) -> None:
        """Add a connection to those that may be used again."""

    def strayed(self) -> None:
        """Count a connection that received bytes without a request."""

    def lost(self, connection: LaneConnection) -> None:
        """Remove a connection that ended."""


class LaneConnection(asyncio.Protocol):
    """One connection to a server.

    Source: ADR 32; RFC 9112 section 9.
    """

    def __init__(
        self,
        owner: LaneConnectionOwner,
        sock: socket.socket,
        *,
        tls: bool,
        max_size: int,
        rate: int,
        serial: int,
    ) -> None:
        """``rate``: MIN_DOWNLOAD_RATE; ``serial``: count of connections that were opened before."""
        self.last = time.monotonic()  #: when the last bytes were received or sent
        self._owner = owner
        self._sock = sock
        self._tls = tls
        self._rate = rate
        self._loop = asyncio.get_running_loop()
        self._parser = LaneAnswerParser(max_size)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[LaneAnswer] | None = None  #: the request in flight
        self._sent = self._deadline = self.last
        self._latency: float | None = None
        self._slowest = 0.0  #: longest round trip, in seconds
        self._clean: asyncio.Future[bool] | None = None  #: shared by the unsettled answers
        self._unsettled = 0  #: count of answers
        self._rests = False  #: whether an unsettled answer is no 304, and stays in memory
        # Connections that were opened together do not all settle together.
        self._most = MOST_UNSETTLED - serial * _STEP % MOST_UNSETTLED
        self._timer: asyncio.TimerHandle | None = None
        self._ends = False  #: whether it gets no more requests
        self._used = False
        self._proved = False  #: whether it was clean once

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent."""
        return (
            self._waiter is None
            and not self._ends
            and not (self._used and self._owner.one_request_each)
            and self._unsettled < self._most
            and not self._rests
            and self._transport is not None
            and not self._transport.is_closing()
        )

    @property
    def is_spare(self) -> bool:
        """Whether it is idle, and has no unsettled answer."""
        return self._waiter is None and self._clean is None

    def opened(self, seconds: float) -> None:
        """Set the first round trip: the seconds that opening the connection took."""
        self._slowest = seconds

    def send(self, request: bytes, deadline: float) -> asyncio.Future[LaneAnswer]:
        """Send a request; the future gets the whole answer, or a LaneError."""
        assert self._transport is not None
        if not self.is_usable:
            raise LaneError("bytes came before the request")
        self._parser.begin()
        self._latency, self._deadline = None, deadline
        self._waiter = self._loop.create_future()
        self._sent = self.last = time.monotonic()
        self._transport.write(request)
        return self._waiter

    def check(self, now: float) -> None:
        """End a request that is over its deadline, or a connection that is idle for too long."""
        if self._waiter is not None:
            if now >= self._deadline:
                self._fail(LaneError("TimeoutError: no complete response within DOWNLOAD_TIMEOUT"))
        elif self.is_spare and now - self.last > _IDLE:
            self.close()

    def close(self) -> None:
        """Close the connection in order; its unsettled answers never count."""
        self._ends = True
        self._settle(clean=False)
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Abort the connection at once; its unsettled answers never count."""
        self._ends = True
        self._settle(clean=False)
        if self._transport is not None:
            self._transport.abort()

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, which must belong to the request in flight."""
        now = self.last = time.monotonic()
        waiter, parser = self._waiter, self._parser
        if waiter is None:
            if not self._ends or self._clean is not None:
                self._stray()
            return
        try:
            whole = parser.feed(data)
        except LaneError as error:
            self._fail(error)
            return
        if self._latency is None and parser.headed:
            self._latency = now - self._sent
        if whole:
            self._answer(waiter)
        elif self._is_slow(now):
            self._fail(LaneError("the body is too slow"))

    def _is_slow(self, now: float) -> bool:
        """Whether a body is received at less than MIN_DOWNLOAD_RATE."""
        if self._latency is None or not self._rate:
            return False
        return downloader_is_slow(self._parser.size, now - self._sent - self._latency, self._rate)

    def connection_lost(self, error: Exception | None) -> None:
        """Settle the unsettled answers: they count if the end was orderly."""
        self._ends = True
        waiter, parser = self._waiter, self._parser
        if waiter is None:
            self._settle(clean=error is None)
        elif error is None and parser.ends_with_connection and not self._tls:
            self._answer(waiter)
            self._settle(clean=True)
        elif self._used and not parser.begun:
            self._settle(clean=error is None)
            self._fail(ClosedError("the connection ended before the answer"))
        else:
            name = type(error).__name__ if error is not None else "ConnectionError"
            self._fail(LaneError(f"{name}: the connection ended within the answer"))
        if self._timer is not None:
            self._timer.cancel()
        self._owner.lost(self)

    # Settling

    def _answer(self, waiter: asyncio.Future[LaneAnswer]) -> None:
        """Return an unsettled answer to its request, and watch the connection from now on."""
        parser, latency = self._parser, self._latency or 0.0
        if self._clean is None:
            self._clean = self._loop.create_future()
        answer = LaneAnswer(
            parser.status, tuple(parser.headers), parser.body, latency, parser.protocol, self._clean
        )
        self._waiter, self._used = None, True
        self._unsettled += 1
        self._rests = self._rests or parser.status != 304
        self._slowest = max(self._slowest, latency)
        self._ends = self._ends or not parser.keeps
        if not waiter.done():
            waiter.set_result(answer)
        if parser.excess:
            self._stray()
        elif self._transport is not None and not self._transport.is_closing():
            if self._timer is None:
                self._timer = self._loop.call_later(self._round_trip, self._look)
            if self.is_usable:
                self._owner.usable(self)

    @property
    def _round_trip(self) -> float:
        """The seconds for which the connection is watched.

        A server that sends too much does so from the beginning, and may be slow in between. So a
        new connection is watched longer, unless no other request would follow on it.
        """
        is_short = self._proved or self._owner.one_request_each
        return min(max(self._slowest, _SHORTEST if is_short else _FIRST), _LONGEST)

    def _look(self) -> None:
        """Settle all answers if the connection was idle for a round trip, without bytes to read."""
        self._timer = None
        if self._waiter is not None or self._clean is None:
            return  # the next answer comes back here
        rest = self._round_trip - (time.monotonic() - self.last)
        try:
            waiting = rest <= 0 and self._sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            waiting = False
        except OSError:
            self.abort()
            return
        if rest > 0 or waiting:  # unread bytes, which may be TLS's own
            self._timer = self._loop.call_later(max(rest, _SHORTEST), self._look)
            return
        self._proved = True
        self._settle(clean=True)
        if self._ends or self._owner.one_request_each:
            self.close()
        else:
            self._owner.usable(self)

    def _settle(self, *, clean: bool) -> None:
        """Settle all unsettled answers: they count, or never will."""
        future, self._clean = self._clean, None
        self._unsettled, self._rests = 0, False
        self._most = MOST_UNSETTLED
        self._slowest /= 2  # the effect of one slow page fades
        if future is not None and not future.done():
            future.set_result(clean)

    def _stray(self) -> None:
        """Abort a connection that received bytes without a request."""
        self._owner.strayed()
        self.abort()

    def _fail(self, error: LaneError) -> None:
        """Abort the connection and fail its request; its unsettled answers do not count, either."""
        waiter, self._waiter = self._waiter, None
        self.abort()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

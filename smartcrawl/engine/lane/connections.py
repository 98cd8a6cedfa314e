"""Connections of the lane: one request at a time, and answers that count when they are clean.

After one answer too many, each page of a connection gets the answer of the page before it. So
answers are unsettled until their connection was clean: idle for one round trip, with nothing to
read. Bytes that come while no request is under way close the connection.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Final, NamedTuple, Protocol

from smartcrawl.engine.download.decoding import is_slow
from smartcrawl.engine.lane.answers import AnswerParser
from smartcrawl.model.exceptions import LaneError

MOST_UNSETTLED: Final = 16  #: answers of a connection
_STEP: Final = 5  #: see Connection.__init__
_SHORTEST, _LONGEST = 0.01, 2.0  #: seconds of a round trip, as waited for
_IDLE: Final = 15  #: seconds after which an unused connection is closed


class Answer(NamedTuple):
    """What a server answered, as it came over the wire."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    latency: float  #: seconds until the headers were there
    protocol: str
    #: Whether the answer counts: True when its connection is clean, False when it never will be.
    clean: asyncio.Future[bool]

    @property
    def size(self) -> int:
        """Bytes of the headers."""
        return sum(len(name) + len(value) + 4 for name, value in self.headers)


class ClosedError(LaneError):
    """A kept connection ended before a byte of the answer: the request may be sent again."""


class Owner(Protocol):
    """What a connection reports to."""

    @property
    def one_request_each(self) -> bool:
        """Whether no connection is used twice."""

    def usable(self, connection: Connection) -> None:
        """Take a connection that may be used again."""

    def strayed(self) -> None:
        """Count a connection on which bytes came without a request."""

    def lost(self, connection: Connection) -> None:
        """Forget a connection that ended."""


class Connection(asyncio.Protocol):
    """One connection to a server.

    Source: docs/adr/0032; RFC 9112 section 9.
    """

    def __init__(
        self, owner: Owner, sock: socket.socket, *, tls: bool, max_size: int, rate: int, serial: int
    ) -> None:
        """``rate``: MIN_DOWNLOAD_RATE; ``serial``: how many the owner opened before."""
        self.last = time.monotonic()  #: when the last byte came or went
        self._owner = owner
        self._sock = sock
        self._tls = tls
        self._rate = rate
        self._loop = asyncio.get_running_loop()
        self._parser = AnswerParser(max_size)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None  #: of the request under way
        self._sent = self._deadline = self.last
        self._latency: float | None = None
        self._slowest = 0.0  #: round trip, in seconds
        self._clean: asyncio.Future[bool] | None = None  #: of the unsettled answers
        self._unsettled = 0  #: answers
        self._rests = False  #: one of them is no 304, and waits in memory
        # Connections that were opened together do not all rest together.
        self._most = MOST_UNSETTLED - serial * _STEP % MOST_UNSETTLED
        self._timer: asyncio.TimerHandle | None = None
        self._ends = False  #: no request is sent on it any more
        self._used = False

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
        """Whether it is idle, and nothing waits for it to be clean."""
        return self._waiter is None and self._clean is None

    def opened(self, seconds: float) -> None:
        """Note how long a round trip took when the connection was opened."""
        self._slowest = seconds

    def send(self, request: bytes, deadline: float) -> asyncio.Future[Answer]:
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
        """End what takes too long, and a connection that was not used for long."""
        if self._waiter is not None:
            if now >= self._deadline:
                self._fail(LaneError("TimeoutError: no whole answer within DOWNLOAD_TIMEOUT"))
        elif self.is_spare and now - self.last > _IDLE:
            self.close()

    def close(self) -> None:
        """End the connection in order; what is unsettled never counts."""
        self._ends = True
        self._settle(clean=False)
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once; what is unsettled never counts."""
        self._ends = True
        self._settle(clean=False)
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take bytes, which must belong to the request under way."""
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
        """Whether a body comes more slowly than MIN_DOWNLOAD_RATE."""
        if self._latency is None or not self._rate:
            return False
        return is_slow(self._parser.size, now - self._sent - self._latency, self._rate)

    def connection_lost(self, error: Exception | None) -> None:
        """Settle what is unsettled if the end was orderly."""
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

    # How answers count

    def _answer(self, waiter: asyncio.Future[Answer]) -> None:
        """Hand on an answer, unsettled, and watch the connection from now on."""
        parser, latency = self._parser, self._latency or 0.0
        if self._clean is None:
            self._clean = self._loop.create_future()
        answer = Answer(
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
        return min(max(self._slowest, _SHORTEST), _LONGEST)

    def _look(self) -> None:
        """Settle all answers if the connection was idle for a round trip and is empty."""
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
        if rest > 0 or waiting:  # the loop has not read it yet, or it is TLS's own
            self._timer = self._loop.call_later(max(rest, _SHORTEST), self._look)
            return
        self._settle(clean=True)
        if self._ends or self._owner.one_request_each:
            self.close()
        else:
            self._owner.usable(self)

    def _settle(self, *, clean: bool) -> None:
        """Decide about all unsettled answers."""
        future, self._clean = self._clean, None
        self._unsettled, self._rests = 0, False
        self._most = MOST_UNSETTLED
        self._slowest /= 2  # a page that was slow once is forgotten
        if future is not None and not future.done():
            future.set_result(clean)

    def _stray(self) -> None:
        """End a connection on which bytes came that belong to no request."""
        self._owner.strayed()
        self.abort()

    def _fail(self, error: LaneError) -> None:
        """End the connection and its request; its other answers cannot be trusted either."""
        waiter, self._waiter = self._waiter, None
        self.abort()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

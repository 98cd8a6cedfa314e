"""A server process: its socket, the wire below the layers, its log, and its end in order.

The wire below the layers: what is no request, or has an endless head, gets the envelope too.

uvicorn bounds neither the request line nor the headers, and needs no key to read them: a single
client could fill the memory, and stop all others meanwhile. It also waits for the rest of a request
without an end: clients that send a byte now and then could take all connections of the process.
"""

from __future__ import annotations

import errno
import secrets
import signal
import socket
from asyncio import TimerHandle, Transport
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from ipaddress import ip_address
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.garbage import freeze_loaded_objects
from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.server.errors import ApiError, WithRequestId, api_invalid_input, error_response
from smartcrawl.server.jobs.scheduler import SchedulerThread
from smartcrawl.server.limits import RequestCounts
from smartcrawl.terminal.log_lines import print_log_lines_to_stderr

HEAD: Final = 65_536  #: bytes of a request line with all headers
HEAD_SECONDS: Final = 20.0  #: for request line and headers
BODY_SECONDS: Final = 60.0  #: for the body after them
#: From the address and port of a client to the headers that report its limit.
Unread = Callable[[tuple[str, int] | None], Sequence[tuple[bytes, bytes]]]
_NO_REQUEST: Final = "this is not an HTTP/1.1 request"
_TOO_LONG: Final = f"request line and headers have at most {HEAD} bytes"


class Wire(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(self, *given: Any, unread: Unread | None = None, **named: Any) -> None:
        """``unread``: counts what is no request, and returns headers; without it none are added."""
        super().__init__(*given, **named)
        self._unread = unread
        self._begun = 0  #: heads so far
        self._ended = 0
        self._size = 0  #: of the open head, without the block in which it began
        self._is_too_long = False
        self._unanswered = 0  #: requests that have come whole
        self._timer: TimerHandle | None = None  #: ends the connection; None: no request is awaited

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin a connection; its first request has to come."""
        super().connection_made(transport)
        self._await(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        self._await(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a block; refuse a head that has no end."""
        begun = self._begun
        super().data_received(data)
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._await(HEAD_SECONDS)  # it was idle, and this was not yet a request: an empty line
        self._size = self._size + len(data) if begun == self._begun else 0
        if self._ended < self._begun and self._size > HEAD and not self.transport.is_closing():
            self._is_too_long = True
            self.send_400_response(_TOO_LONG)

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._begun += 1
        if self._timer is None:
            self._await(HEAD_SECONDS)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End a head, and start its request.

        Raises:
            ValueError: it is too long; the parser reports it to ``send_400_response``.
        """
        self._ended += 1
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD:
            self._is_too_long = True
            raise ValueError(_TOO_LONG)
        self._await(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request: its answer may take any time."""
        self._unanswered += 1
        self._await(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """End an answer."""
        self._unanswered -= 1
        super().on_response_complete()

    def _await(self, seconds: float | None) -> None:
        """Close the connection in some seconds; None: do not."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self._expire, seconds)

    def _expire(self, seconds: float) -> None:
        """Close a connection whose request did not come in time, unless it waits for an answer."""
        if self._unanswered > 0:
            self._await(seconds)
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, unless another answer has begun, and close."""
        error = api_invalid_input(None, _NO_REQUEST)
        if self._is_too_long:
            error = ApiError("PAYLOAD_TOO_LARGE", reason=_TOO_LONG)
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            headers = self._unread(self.client) if self._unread else ()
            self.transport.write(_refusal(error, headers))
        self.transport.close()


def _refusal(error: ApiError, more: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a whole answer with some more headers."""
    request_id = f"req_{secrets.token_hex(8)}"
    answer = error_response(error, request_id)
    headers = [
        *answer.raw_headers,
        *more,
        (b"x-request-id", request_id.encode()),
        (b"connection", b"close"),
    ]
    lines = [name + b": " + value + b"\r\n" for name, value in headers]
    return b"".join([STATUS_LINE[error.status], *lines, b"\r\n", bytes(answer.body)])


_GRACE = 10  #: seconds in which requests may end after SIGTERM
_BACKLOG = 2_048
_REMEDIES: Mapping[int, str] = {
    errno.EADDRINUSE: "another program listens there: end it, or choose another port with --port",
    errno.EACCES: "this user may not listen there: choose a port from 1024 on with --port",
    errno.EADDRNOTAVAIL: "this machine has no such address: name one of its own with --host",
}


class ListenError(SmartcrawlError):
    """The server cannot listen at its address."""


def listening_server_socket(server: ServerOptions) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ListenError: another program has the port, or the address is not of this machine.
    """
    family = socket.AF_INET6 if ip_address(server.host).version == 6 else socket.AF_INET
    try:
        listening = socket.create_server(
            (server.host, server.port), family=family, backlog=_BACKLOG
        )
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "choose another address with --host or --port")
        place = f"{server.host} port {server.port}"
        raise ListenError(f"cannot listen at {place} ({error.strerror}); {remedy}") from error
    # Accepted sockets inherit it. asyncio sets it only where the protocol is given by its number;
    # without, each answer of a connection that stays open but the first waits 40 ms for an ACK.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def server_url(listening: socket.socket) -> str:
    """Return the address that clients ask."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """A server that ends its scheduler with the signal, before the last requests."""

    def __init__(self, config: uvicorn.Config, scheduler: SchedulerThread | None) -> None:
        super().__init__(config)
        self._scheduler = scheduler

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; a crawl that gets the same signal is not taken for one that ended by itself."""
        if self._scheduler is not None:
            self._scheduler.end()
        super().handle_exit(sig, frame)


def serve_api(
    app: ASGIApp,
    listening: socket.socket,
    server: ServerOptions,
    counts: RequestCounts,
    scheduler: SchedulerThread | None = None,
) -> None:
    """Answer requests, and with a scheduler start jobs, until SIGTERM or SIGINT.

    Requests under way may end before; crawls go on. ``counts``: those of ``app``.
    """
    config = uvicorn.Config(
        app,
        http=partial(Wire, unread=counts.unread),  # type: ignore[arg-type]
        log_config=None,
        access_log=False,  # its lines have queries, and no ids
        server_header=False,
        # By default uvicorn believes the X-Forwarded-For of any process of this machine.
        proxy_headers=bool(server.trusted_proxies),
        forwarded_allow_ips=[str(network) for network in server.trusted_proxies],
        timeout_graceful_shutdown=_GRACE,
        ws="none",
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ended)  # uvicorn raises it again when all is done
    freeze_loaded_objects()
    with nullcontext() if scheduler is None else scheduler.running():
        _Server(config, scheduler).run(sockets=[listening])


def _ended(_number: int, _frame: object) -> None:
    """End in order: the process has nothing left to do."""


def log_server_to_stderr(settings: Mapping[str, Any]) -> None:
    """Log to standard error, with the id of the request in each line of one."""
    print_log_lines_to_stderr(settings, WithRequestId())

"""The wire below the layers: what is no request, or has an endless head, gets the envelope too.

uvicorn bounds neither the request line nor the headers, and needs no key to read them: a single
client could fill the memory, and stop all others meanwhile. It also waits for the rest of a request
without an end: clients that send a byte now and then could take all connections of the process.
"""

from __future__ import annotations

import secrets
from asyncio import TimerHandle, Transport
from collections.abc import Callable, Sequence
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from smartcrawl.server.errors import ApiError, api_invalid_input, error_response

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

"""The wire below the layers: what is no request, or has an endless head, gets the envelope too.

uvicorn bounds neither the request line nor the headers, and needs no key to read them: a single
client could fill the memory, and stop all others meanwhile.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from smartcrawl.server.errors import ApiError, api_invalid_input, error_response

HEAD: Final = 65_536  #: bytes of a request line with all headers
_NO_REQUEST: Final = "this is no request of HTTP/1.1"
_TOO_LONG: Final = f"request line and headers have at most {HEAD} bytes"


class Wire(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._begun = 0  #: heads so far
        self._ended = 0
        self._size = 0  #: of the open head, without the block in which it began
        self._is_too_long = False

    def data_received(self, data: bytes) -> None:
        """Read a block; refuse a head that has no end."""
        begun = self._begun
        super().data_received(data)
        self._size = self._size + len(data) if begun == self._begun else 0
        if self._ended < self._begun and self._size > HEAD and not self.transport.is_closing():
            self._is_too_long = True
            self.send_400_response(_TOO_LONG)

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._begun += 1
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
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, unless another answer has begun, and close."""
        error = api_invalid_input(None, _NO_REQUEST)
        if self._is_too_long:
            error = ApiError("PAYLOAD_TOO_LARGE", reason=_TOO_LONG)
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(_refusal(error))
        self.transport.close()


def _refusal(error: ApiError) -> bytes:
    """Return a whole answer."""
    request_id = f"req_{secrets.token_hex(8)}"
    answer = error_response(error, request_id)
    headers = [
        *answer.raw_headers,
        (b"x-request-id", request_id.encode()),
        (b"connection", b"close"),
    ]
    lines = [name + b": " + value + b"\r\n" for name, value in headers]
    return b"".join([STATUS_LINE[error.status], *lines, b"\r\n", bytes(answer.body)])

"""Answers of HTTP/1.x, read strictly from the bytes of a connection."""

from __future__ import annotations

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

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

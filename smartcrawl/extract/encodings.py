"""Decoding of Content-Encoding, within bounds."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Final, Literal

import brotli  # type: ignore[import-untyped]  # ships no types
from backports import zstd

from smartcrawl.model.exceptions import SmartcrawlError

Kind = Literal["too_large", "truncated", "corrupt", "unknown"]

ACCEPTED: Final = b"gzip, deflate, br, zstd"  #: value of Accept-Encoding
MAX_CODINGS: Final = 3  #: of one body
MAX_MEMBERS: Final = 10_000  #: of one gzip or zstd body; an empty one costs more than its bytes
_WINDOW_LOG: Final = 23  #: of zstd: a frame that wants more than 8 MiB to look back is refused
_TRAILER: Final = 8  #: bytes that may follow bare deflate: the checksums of zlib or gzip
_TAKEN: Final = 16_384  #: bytes given to a decoder at once
_GIVEN: Final = 65_536  #: bytes asked of a decoder at once
_GZIP: Final = b"\x1f\x8b"

#: Content codings that are registered with IANA and not in Accept-Encoding.
_FOREIGN: Final = frozenset(
    {"aes128gcm", "compress", "dcb", "dcz", "exi", "pack200-gzip", "x-compress"}
)
# Octets that text does not contain, and the marks that begin a text that may (MIME Sniffing, 7.2).
_BINARY: Final = bytes({*range(0x20)} - {*b"\t\n\f\r\x1b"})
_MARKS: Final = (b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf")
_SNIFFED: Final = 1445  #: bytes (MIME Sniffing, 7.2)
_LETTERS: Final = bytes([*b"\t\n\f\r", *range(0x20, 0x7F)])
_LETTERS_IN_A_ROW: Final = 16  #: no packed body begins with so many


class EncodingError(SmartcrawlError):
    """A body that does not fit its Content-Encoding, or exceeds its limit."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Final = kind


def decode_encodings(body: bytes, encodings: Sequence[str], *, limit: int) -> bytes:
    """Return ``body`` without its content codings, at most ``limit`` bytes (0: any number).

    ``encodings`` are the words of Content-Encoding in their order: the last was applied last,
    and is undone first. Case does not matter. ``identity`` is skipped. So are words that are no
    coding but that servers write for "none" (``none``, ``utf-8``, ``text/html``), if the result has
    no binary bytes. An empty body is empty in any coding.

    All codings are undone together, piece by piece, so that memory never contains more than the
    limit and some buffers. A body that is packed twice must obey the limit after each step.

    Another gzip member or zstd frame after the end of a stream is part of the body. Other data
    there is skipped, as in browsers, where a checksum has shown the body to be complete (gzip,
    deflate in zlib's wrapping). Elsewhere it makes the body corrupt, except for 8 bytes after bare
    deflate.

    >>> import gzip
    >>> decode_encodings(gzip.compress(b"a page"), ["GZIP"], limit=6)
    b'a page'
    >>> decode_encodings(b"a page", ["utf-8"], limit=0)
    b'a page'

    Raises:
        EncodingError: with its ``kind``: ``too_large``; ``truncated``, the data ends early;
            ``corrupt``, it is damaged, or not in this coding at all, or in more than 3;
            ``unknown``, it is in a coding that is not in Accept-Encoding.

    Source: RFC 9110 section 8.4; RFC 9659 section 3 (8 MiB); ATT-28.
    """
    if not body:
        return body
    codings, odd = _codings(encodings)
    if limit and not codings and len(body) > limit:
        raise EncodingError("too_large", f"the body is larger than {limit} bytes")
    pieces: Iterator[bytes] = iter((body,))
    for coding in reversed(codings):
        pieces = _bounded(pieces, coding, limit)
    try:
        whole = _joined(pieces) if codings else body
    except EncodingError as error:
        if error.kind != "too_large" and _is_plain(body):
            raise _fault("corrupt", codings[-1], "is plain text") from error
        raise
    if odd and _is_binary(whole):
        raise _fault("unknown", odd, "is in no coding that smartcrawl knows")
    return whole


def _codings(encodings: Sequence[str]) -> tuple[list[str], str]:
    """Return the codings to undo, and the first word that is no coding."""
    codings, odd = [], ""
    for word in encodings:
        coding = word.strip().lower()
        coding = "gzip" if coding == "x-gzip" else coding
        if coding in _FOREIGN:
            raise _fault(
                "unknown", coding, "has a content encoding that smartcrawl did not request"
            )
        if coding in _DECODERS:
            codings.append(coding)
        elif coding != "identity":
            odd = odd or coding
    if len(codings) > MAX_CODINGS:
        raise _fault("corrupt", codings[0], f"is packed {len(codings)} times")
    return codings, odd


def _fault(kind: Kind, coding: str, reason: str) -> EncodingError:
    return EncodingError(kind, f"the body, with Content-Encoding {coding[:40]!r}, {reason}")


def _is_binary(body: bytes) -> bool:
    """Whether a body is no text, by the rule of browsers (MIME Sniffing, section 7.2)."""
    head = body[:_SNIFFED]
    return not head.startswith(_MARKS) and len(head) != len(head.translate(None, _BINARY))


def _is_plain(body: bytes) -> bool:
    """Whether a body begins with letters, unlike any packed body."""
    head = body[:_LETTERS_IN_A_ROW]
    return len(head) == _LETTERS_IN_A_ROW and not head.translate(None, _LETTERS)


def _joined(pieces: Iterator[bytes]) -> bytes:
    with BytesIO() as whole:  # never two copies of all; closed, no traceback keeps it
        for piece in pieces:
            whole.write(piece)
        return whole.getvalue()


def _bounded(pieces: Iterator[bytes], coding: str, limit: int) -> Iterator[bytes]:
    """Yield the decoded ``pieces`` of a coding; errors become EncodingErrors."""
    source = _Source(pieces)
    size = 0
    try:
        if not source.ahead(1):
            return
        for piece in _DECODERS[coding](source):
            size += len(piece)
            if limit and size > limit:
                raise _fault("too_large", coding, f"is larger than {limit} bytes")
            yield piece
    except EOFError as error:
        raise _fault("truncated", coding, "ends early") from error
    except (ValueError, zlib.error, brotli.error, zstd.ZstdError) as error:
        raise _fault("corrupt", coding, f"cannot be unpacked: {error}") from error


class _Source:
    """The input that is still packed. No piece of it is empty."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""
        self._at = 0

    def take(self) -> memoryview:
        """Return the next bytes, at most ``_TAKEN``; none at the end."""
        if self._at == len(self._held):
            self._held, self._at = next(self._pieces, b""), 0
        taken = memoryview(self._held)[self._at : self._at + _TAKEN]
        self._at += len(taken)
        return taken

    def put_back(self, count: int) -> None:
        """Put back the last ``count`` of the bytes just taken."""
        self._at -= count

    def ahead(self, count: int) -> bytes:
        """Return the next ``count`` bytes, or fewer at the end, without taking them."""
        while len(self._held) - self._at < count and (piece := next(self._pieces, b"")):
            self._held, self._at = self._held[self._at :] + piece, 0
        return self._held[self._at : self._at + count]

    def skip_zeros(self) -> None:
        while self.ahead(1) == b"\0":
            self.put_back(len(bytes(self.take()).lstrip(b"\0")))

    def left(self) -> int:
        """Take the rest, and return its size in bytes."""
        return sum(len(taken) for taken in iter(self.take, b""))


def _gzip(source: _Source) -> Iterator[bytes]:
    """Yield the contents of the members; there may be zeros between them."""
    for _ in range(MAX_MEMBERS):
        yield from _inflated(source, 16 + zlib.MAX_WBITS)
        source.skip_zeros()
        head = source.ahead(len(_GZIP))
        if not head or not _GZIP.startswith(head):
            source.left()
            return
    raise ValueError(f"it has more than {MAX_MEMBERS} members")


def _deflate(source: _Source) -> Iterator[bytes]:
    """Yield the content of zlib's wrapping, or of bare deflate, which some servers send."""
    head = source.ahead(2)
    if head[0] & 0x8F == 0x08 and int.from_bytes(head, "big") % 31 == 0:  # RFC 1950, 2.2
        yield from _inflated(source, zlib.MAX_WBITS)
        source.left()
        return
    yield from _inflated(source, -zlib.MAX_WBITS)
    if source.left() > _TRAILER:
        raise ValueError("other data follows")


def _inflated(source: _Source, wbits: int) -> Iterator[bytes]:
    stream = zlib.decompressobj(wbits)
    while not stream.eof:
        taken = source.take()
        given = stream.decompress(taken, _GIVEN)
        # At the end the tail is unchanged, or the same as the unused data.
        source.put_back(len(stream.unused_data if stream.eof else stream.unconsumed_tail))
        if given:
            yield given
        elif not taken:
            raise EOFError


def _brotli(source: _Source) -> Iterator[bytes]:
    stream = brotli.Decompressor()
    while not stream.is_finished():
        wanting = stream.can_accept_more_data()
        taken = source.take() if wanting else b""
        given = stream.process(taken, output_buffer_limit=_GIVEN)
        if given:
            yield given
        elif wanting and not taken:
            raise EOFError
    if source.ahead(1):  # within a piece the library itself refuses other data
        raise ValueError("other data follows")


def _zstd(source: _Source) -> Iterator[bytes]:
    """Yield the contents of the frames."""
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
    for _ in range(MAX_MEMBERS):
        frame = zstd.ZstdDecompressor(options=options)
        while not frame.eof:
            wanting = frame.needs_input
            taken = source.take() if wanting else b""
            given = frame.decompress(taken, _GIVEN)
            if given:
                yield given
            elif wanting and not taken:
                raise EOFError
        source.put_back(len(frame.unused_data))
        if not source.ahead(1):
            return
    raise ValueError(f"it has more than {MAX_MEMBERS} frames")


_DECODERS: Final[dict[str, Callable[[_Source], Iterator[bytes]]]] = {
    "gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}

"""Bodies that are longer, shorter, slower or more than was said."""

from functools import partial
from itertools import chain

from tests.hostile.kinds import (
    CHUNKED,
    CUT,
    HTML,
    KEEP,
    NEW,
    RESET,
    SILENCE,
    TIME_OUT,
    TIMES,
    TOO_LARGE,
    TOO_SLOW,
    Answer,
    Ask,
    Kind,
    Script,
    chunk,
    endless,
    head,
    page,
    sends,
    trap,
    whole,
)

kind = partial(Kind, "length")

_OPEN = head(HTML)
_IN_CHUNKS = head(HTML, CHUNKED)
_LAST = b"0\r\n\r\n"
_FILLER = b"<p>more and more of the same</p>\n" * (TIMES // 33)
_MANY = 20_000_000  #: bytes, more than DOWNLOAD_MAXSIZE


def _announced(bytes_more: int) -> Answer:
    def answer(ask: Ask) -> Script:
        body = trap(ask)
        return (head(HTML, f"Content-Length: {len(body) + bytes_more}") + body,)

    return answer


def _shorter(ask: Ask) -> Script:
    """What lies beyond the length belongs to nobody."""
    body = page(ask)
    return (head(HTML, f"Content-Length: {len(body)}") + body + trap(ask),)


def _nothing(ask: Ask) -> Script:
    return (head(HTML, "Content-Length: 0") + trap(ask),)


def _drip(start: bytes, letter: bytes) -> Answer:
    return endless(start, letter, 0.05)


def _late_end(ask: Ask) -> Script:
    """A whole page, byte by byte but for its first half, in less than the time-out."""
    answer = whole(page(ask))
    yield answer[:-10]
    for byte in answer[-10:]:
        yield bytes([byte])
        yield 0.02
    yield KEEP


def _chunks(*parts: bytes) -> Answer:
    """A page in chunks that are followed by these bytes, in place of the last chunk."""
    return lambda ask: (_IN_CHUNKS + chunk(page(ask)), *parts)


def _lying_chunks(*parts: bytes) -> Answer:
    return lambda ask: (_IN_CHUNKS + chunk(trap(ask)), *parts)


def _small_chunks(ask: Ask) -> Script:
    body = page(ask)
    return _IN_CHUNKS, b"".join(chunk(body[at : at + 1]) for at in range(len(body))), _LAST, KEEP


def _sized(size: bytes) -> Answer:
    """One chunk under a size as it is written here; {} is the true one."""

    def answer(ask: Ask) -> Script:
        body = page(ask)
        line = size.replace(b"{}", b"%x" % len(body))
        return _IN_CHUNKS, line + b"\r\n" + body + b"\r\n", _LAST

    return answer


def _lf_only(ask: Ask) -> Script:
    return _IN_CHUNKS, (chunk(trap(ask)) + _LAST).replace(b"\r\n", b"\n")


def _no_end(ask: Ask) -> Script:
    """The line end behind a chunk is missing."""
    return _IN_CHUNKS, chunk(trap(ask))[:-2], _LAST


def _http10_chunked(ask: Ask) -> Script:
    """An old server that chunks all the same; to its reader the sizes are text."""
    return (head(HTML, CHUNKED, status="HTTP/1.0 200 OK") + chunk(page(ask)) + _LAST,)


def _much(ask: Ask) -> Script:
    """20 MB and an end, without any length."""
    return chain((_OPEN,), (_FILLER for _ in range(_MANY // len(_FILLER))))


KINDS = (
    kind("announced_1_more", "one byte of the body is missing", _announced(1), CUT),
    kind("announced_5000_more", "5,000 bytes of the body are missing", _announced(5000), CUT),
    kind("announced_alone", "a length, and no body", sends(head(HTML, "Content-Length: 10")), CUT),
    kind("shorter", "more bytes than announced", _shorter, NEW),
    kind("zero", "a length of 0, and a body", _nothing, NEW),
    kind("until_close", "no length; the end of the connection is the end",
         lambda ask: (_OPEN + page(ask),), NEW),
    kind("until_reset", "no length, and a reset at the end",
         lambda ask: (_OPEN + trap(ask), RESET), CUT),
    kind("endless", "a body without length or end", endless(_OPEN, _FILLER), TOO_LARGE),
    kind("endless_chunks", "chunks for ever", endless(_IN_CHUNKS, chunk(_FILLER)), TOO_LARGE),
    kind("endless_spaces", "white space for ever", endless(_OPEN, b" " * TIMES), TOO_LARGE),
    kind("m20", "20 MB without a length", _much, TOO_LARGE),
    kind("m20_announced", "20 MB are announced, and a little comes",
         sends(head(HTML, f"Content-Length: {_MANY}") + b"<p>so far", SILENCE), TOO_LARGE),
    kind("exabyte_announced", "10**18 bytes are announced",
         sends(head(HTML, f"Content-Length: {10**18}"), SILENCE), TOO_LARGE),
    kind("drip", "a byte of the body every while", _drip(head(HTML, "Content-Length: 90000"), b"x"),
         TOO_SLOW),
    kind("drip_no_length", "likewise, without a length", _drip(_OPEN, b"x"), TOO_SLOW),
    kind("drip_chunks", "a chunk of one byte every while", _drip(_IN_CHUNKS, chunk(b"x")),
         TOO_SLOW),
    kind("slow_end", "the last bytes of a page take their time", _late_end, NEW),
    # Chunks
    kind("chunks_of_1", "each byte is a chunk", _small_chunks, NEW),
    kind("chunks_cut", "the connection ends within a chunk",
         lambda ask: (_IN_CHUNKS + chunk(trap(ask))[:-40],), CUT),
    kind("chunks_no_last", "the last chunk is missing", _lying_chunks(), CUT),
    kind("chunks_reset", "a reset in place of the last chunk", _lying_chunks(RESET), CUT),
    kind("chunks_none", "not one chunk", sends(_IN_CHUNKS), CUT),
    kind("chunks_silence", "the last chunk never comes", _lying_chunks(SILENCE),
         TIME_OUT),
    kind("chunk_size_letters", "a size of zz", _lying_chunks(b"zz\r\n", _LAST), CUT),
    kind("chunk_size_empty", "a size of nothing", _lying_chunks(b"\r\n", _LAST), CUT),
    kind("chunk_size_negative", "a size below zero", _lying_chunks(b"-5\r\nhello\r\n", _LAST), CUT),
    kind("chunk_size_plus", "a size with a sign", _lying_chunks(b"+5\r\nhello\r\n", _LAST), CUT),
    kind("chunk_size_0x", "a size of 0x5", _lying_chunks(b"0x5\r\nhello\r\n", _LAST), CUT),
    kind("chunk_size_underscore", "a size of 0_5",
         _lying_chunks(b"0_5\r\nhello\r\n", _LAST), CUT),
    kind("chunk_size_huge", "a size of 16 EB", _lying_chunks(b"F" * 16 + b"\r\nhello"), CUT),
    kind("chunk_size_digits", "a size of 5,000 digits",
         _lying_chunks(b"F" * 5000 + b"\r\nhello"), CUT),
    kind("chunk_size_zeros", "a size with 8 zeros before it", _sized(b"00000000{}"), NEW),
    kind("chunk_size_space", "a size with white space behind it", _sized(b"{}   "), CUT),
    kind("chunk_extension", "a size with extensions", _sized(b'{};a=1;b="2;3"'), NEW),
    kind("chunk_extension_endless", "an extension that never ends",
         endless(_IN_CHUNKS + b"5;", b"e" * 1000, 0.005), CUT),
    kind("chunk_lf", "chunks with LF alone", _lf_only, CUT),
    kind("chunk_no_end", "no line end behind a chunk", _no_end, CUT),
    kind("trailers", "headers behind the last chunk",
         _chunks(b"0\r\nX-Checksum: 1\r\nContent-Length: 3\r\nETag: \"t\"\r\n\r\n"), NEW),
    kind("trailers_endless", "headers behind the last chunk, for ever",
         lambda ask: chain((_IN_CHUNKS + chunk(trap(ask)) + b"0\r\n",),
                           endless(b"", b"X-More: 1\r\n" * 100, 0.005)(ask)), CUT),
    kind("http10_chunked", "chunks under HTTP/1.0", _http10_chunked, NEW),
)  # fmt: skip

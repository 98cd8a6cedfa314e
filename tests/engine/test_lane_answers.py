"""Answers read from bytes: the same in whatever pieces they come, and to an exact end."""

import pytest

from smartcrawl.engine.lane.connections import LaneAnswerParser
from smartcrawl.model.exceptions import LaneError

_304 = b'HTTP/1.1 304 Not Modified\r\nETag: "caf\xe9"\r\n\r\n'
_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
_BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe\r\n\r"
_CHUNKS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nX-Trailer: 1\r\n\r\n"
)
_EMPTY = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
_CLOSE = b"HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n"
WHOLE = {
    "304": (_304, 304, b""),
    "304_with_a_length": (b"HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n", 304, b""),
    "304_with_chunks": (b"HTTP/1.1 304 x\r\nTransfer-Encoding: chunked\r\n\r\n", 304, b""),
    "204": (b"HTTP/1.0 204 No Content\r\n\r\n", 204, b""),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "length": (_BODY, 200, b"he\r\n\r"),
    "chunks": (_CHUNKS, 200, b"hello"),
    "no_chunks": (_EMPTY, 200, b""),
    "after_1xx": (_HINTS + b"HTTP/1.1 100 Continue\r\n\r\n" + _304, 304, b""),
    "closes": (_CLOSE, 304, b""),
}
#: Bytes after an answer.
MORE = (b"\r\n", b"\n", b"\r", b"x", b"H", b"\0", _304, _HINTS, _BODY)


def parsed(*pieces: bytes, max_size: int = 0) -> LaneAnswerParser:
    parser = LaneAnswerParser(max_size)
    for number, piece in enumerate(pieces, 1):
        assert not parser.whole, pieces[number:]
        parser.feed(piece)
    return parser


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(name: str):
    data, status, body = WHOLE[name]
    pieces = [(data[:at], data[at:]) for at in range(1, len(data))]
    for parts in ((data,), tuple(data[at : at + 1] for at in range(len(data))), *pieces):
        parser = parsed(*parts)

        assert (parser.whole, parser.status, parser.body) == (True, status, body), parts
        assert not parser.excess
        assert parser.keeps == (name not in ("closes", "204"))
        assert not any(name == b"X-Trailer" for name, _ in parser.headers)


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("name", WHOLE)
def test_every_byte_after_an_answer_is_excess(name: str, more: bytes):
    data, status, body = WHOLE[name]
    for at in range(len(data)):
        parser = parsed(*filter(None, (data[:at], data[at:] + more)))

        assert parser.whole
        assert parser.excess, at
        assert (parser.status, parser.body) == (status, body)


def test_headers_are_what_was_sent():
    """RD-04."""
    parser = parsed(_HINTS + _304)

    assert parser.headers == [(b"ETag", b'"caf\xe9"')]
    assert parser.protocol == "HTTP/1.1"


@pytest.mark.parametrize("spaced", [b"%b", b" %b ", b"\t%b\t", b"  %b\t "])
def test_white_space_around_a_value_is_no_part_of_it(spaced: bytes):
    """RFC 9110 section 5.5."""
    lines = [b"ETag:" + spaced % b'"a b"', b"Content-Length:" + spaced % b"2"]
    parser = parsed(b"HTTP/1.1 200 OK\r\n" + b"\r\n".join(lines) + b"\r\n\r\nhe")

    assert parser.headers == [(b"ETag", b'"a b"'), (b"Content-Length", b"2")]
    assert (parser.whole, parser.body) == (True, b"he")


def test_chunks_may_be_named_with_blanks_around_and_not_with_tabs():
    """llhttp takes the word before a tab for another coding, whose body would have no end."""
    head, body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding:", b"2\r\nhe\r\n0\r\n\r\n"
    parser = parsed(head + b"  chunked  \r\n\r\n" + body)

    assert (parser.whole, parser.body) == (True, b"he")
    with pytest.raises(LaneError, match="tab"):
        parsed(head + b" chunked\t\r\n\r\n" + body)


def test_one_answer_leaves_nothing_to_the_next():
    parser = LaneAnswerParser(0)
    for data, status, body in (WHOLE[name] for name in ("chunks", "304", "length", "after_1xx")):
        parser.begin()
        parser.feed(data)
        assert (parser.whole, parser.status, parser.body) == (True, status, body)
        assert len(parser.headers) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"<html>",
        b"\r\n" + _304,
        b"ICE/1.0 200 OK\r\n\r\n",
        b"HTTP/2.0 304 x\r\n\r\n",
        b"HTTP/0.9 304 x\r\n\r\n",
        b"HTTP/1.1 099 x\r\n\r\n",
        b"HTTP/1.1 304 x\n\n",
        b"HTTP/1.1 304 x\r\nETag\r\n\r\n",
        b"HTTP/1.1 304 x\r\nETag : 1\r\n\r\n",
        b"HTTP/1.1 304 x\r\nETag: 1\r\n 2\r\n\r\n",
        b"HTTP/1.1 304 x\r\nETag: 1\0\r\n\r\n",
        b"HTTP/1.1 200 x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 200 x\r\nContent-Length: 1, 1\r\n\r\na",
        b"HTTP/1.1 200 x\r\nContent-Length: -1\r\n\r\na",
        b"HTTP/1.1 200 x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 x\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 101 x\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n" + _304,
        b"HTTP/1.1 100 x\r\n\r\n" + b"\r\n" + _304,
        bytes(100),
    ],
)
def test_what_is_not_strict_is_no_answer(data: bytes):
    for pieces in ((data,), [data[at : at + 1] for at in range(len(data))]):
        with pytest.raises(LaneError):
            parsed(*pieces)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/1.1 200 x\r\nContent-Length: 11\r\n\r\n", "body is too large"),
        (b"HTTP/1.1 200 x\r\n\r\n" + b"a" * 11, "body is too large"),
        (b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n" + b"a" * 11, "too large"),
        (b"HTTP/1.1 304 x\r\nX: " + b"a" * 70_000, "headers are too large"),
        (700 * (b"HTTP/1.1 103 x\r\nX: " + b"a" * 100 + b"\r\n\r\n"), "headers are too large"),
        (_EMPTY[:-2] + b"X: a\r\n" * 20_000, "trailers are too large"),
    ],
)
def test_what_is_larger_than_allowed_is_no_answer(data: bytes, why: str):
    with pytest.raises(LaneError, match=why):
        parsed(data, max_size=10)


def test_only_a_body_without_a_length_ends_with_its_connection():
    assert parsed(b"HTTP/1.1 200 x\r\n\r\nabc").ends_with_connection
    for data in (_BODY[:-1], _CHUNKS[:-1], b"HTTP/1.1 200 x\r\n", _304, b"H"):
        assert not parsed(data).ends_with_connection

"""What goes wrong below HTTP, and what is no HTTP at all."""

import random
from functools import partial

from tests.hostile.kinds import (
    BROKEN,
    CLOSE,
    CUT,
    HALF_CLOSE,
    HEAD_TOO_LARGE,
    HTML,
    IDLE,
    KEEP,
    NEW,
    NOT_HTTP,
    RESET,
    SILENCE,
    TIME_OUT,
    TIMES,
    Ask,
    Kind,
    Script,
    endless,
    head,
    page,
    sends,
    trap,
    whole,
)

kind = partial(Kind, "connection")

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
_SETTINGS = bytes.fromhex("000006040000000000000300000064")
_GOAWAY = bytes.fromhex("0000080700000000000000000000000001")


def _half(ask: Ask) -> bytes:
    answer = whole(trap(ask))
    return answer[: -len(trap(ask)) // 2]


def _then(end: object):
    return lambda ask: (_half(ask), end)


def _byte_by_byte(ask: Ask) -> Script:
    yield from (bytes([byte]) for byte in whole(page(ask)))
    yield KEEP


def _until_close(ask: Ask, end: object, version: str) -> Script:
    return head(HTML, status=f"{version} 200 OK") + page(ask), end


KINDS = (
    kind("reset_at_once", "reset before any byte", sends(RESET), BROKEN),
    kind("reset_in_status_line", "reset after HTTP/1.1 20", sends(b"HTTP/1.1 20", RESET), BROKEN),
    kind("reset_in_headers", "reset within a header", sends(_HEAD + b"X-Ha", RESET), BROKEN),
    kind("reset_after_headers", "the announced body does not come, but a reset",
         sends(_HEAD + b"Content-Length: 99\r\n\r\n", RESET), CUT),
    kind("reset_in_body", "reset after half of the body", _then(RESET), CUT),
    kind("close_at_once", "closed before any byte", sends(), BROKEN),
    kind("close_in_status_line", "closed after HTTP/1.1 20", sends(b"HTTP/1.1 20"), BROKEN),
    kind("close_in_headers", "closed within a header", sends(_HEAD + b"X-Ha"), BROKEN),
    kind("silence", "no byte ever comes", sends(SILENCE), TIME_OUT),
    kind("silence_in_headers", "a header that does not go on", sends(_HEAD, SILENCE), TIME_OUT),
    kind("silence_after_headers", "the announced body does not begin",
         sends(_HEAD + b"Content-Length: 99\r\n\r\n", SILENCE), TIME_OUT),
    kind("silence_in_body", "half of the body, and then nothing", _then(SILENCE), TIME_OUT),
    kind("half_close_at_once", "no byte, but the sending side is closed",
         sends(HALF_CLOSE), BROKEN),
    kind("half_close_after_page", "a page that ends with the sending side",
         lambda ask: _until_close(ask, HALF_CLOSE, "HTTP/1.1"), NEW),
    kind("tls_hello", "a TLS handshake in answer to plain HTTP",
         sends(bytes.fromhex("160303007a0200007603") + bytes(range(112))), NOT_HTTP),
    kind("tls_alert", "a TLS alert", sends(bytes.fromhex("15030100020246")), BROKEN),
    kind("ssh", "an SSH banner", sends(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), NOT_HTTP),
    kind("smtp", "an SMTP banner", sends(b"220 mail.example ESMTP Postfix\r\n"), NOT_HTTP),
    kind("ftp", "an FTP banner of two lines", sends(b"220-Welcome\r\n220 ready\r\n"), NOT_HTTP),
    kind("redis", "an error of Redis", sends(b"-ERR unknown command 'GET'\r\n"), NOT_HTTP),
    kind("mysql", "a greeting of MySQL", sends(b"J\0\0\0\n8.0.36\0\x08\0\0\0abc"), NOT_HTTP),
    kind("icy", "a status line of SHOUTcast", sends(b"ICY 200 OK\r\nicy-a: x\r\n\r\n"), NOT_HTTP),
    kind("rtsp", "a status line of RTSP", sends(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n"), NOT_HTTP),
    kind("http09", "a page without any header (HTTP/0.9)", lambda ask: (trap(ask),), NOT_HTTP),
    kind("http2", "frames of HTTP/2", sends(_SETTINGS + _GOAWAY), BROKEN),
    kind("echo", "the request comes back", lambda ask: (ask.head,), NOT_HTTP),
    kind("nuls", "1,000 NUL bytes", sends(bytes(1000)), BROKEN),
    kind("noise", "random bytes", sends(random.Random(1).randbytes(4096)), NOT_HTTP),
    kind("blank_lines_first", "blank lines before the status line",
         lambda ask: (b"\r\n\r\n" + whole(page(ask)), KEEP), NOT_HTTP),
    kind("endless_line", "one line that never ends", endless(b"", b"A" * TIMES), HEAD_TOO_LARGE),
    kind("http10_until_close", "HTTP/1.0 without a length",
         lambda ask: _until_close(ask, CLOSE, "HTTP/1.0"), NEW),
    kind("http10_keep_alive", "HTTP/1.0 with a length that keeps the connection",
         lambda ask: (whole(page(ask), "Connection: keep-alive", status="HTTP/1.0 200 OK"), KEEP),
         NEW),
    kind("early", "the answer comes upon the request line, the rest is not read",
         lambda ask: (whole(page(ask)),), NEW, early=True),
    kind("byte_by_byte", "each byte in a packet of its own", _byte_by_byte, NEW),
    kind("late", "half a second without a byte", lambda ask: (0.5, whole(page(ask)), KEEP), NEW),
    kind("two_answers", "a second answer follows unasked",
         lambda ask: (whole(page(ask)) + whole(trap(ask)), KEEP), NEW),
    kind("second_answer_later", "a second answer follows when the first is over",
         lambda ask: (whole(page(ask), "Connection: close"), 0.1, whole(trap(ask))), NEW),
    kind("error_when_idle", "a 408 follows unasked when no request does",
         lambda ask: (whole(page(ask)), IDLE), NEW),
    kind("garbage_after_answer", "bytes that nobody announced follow",
         lambda ask: (whole(page(ask)) + b"\r\n\0garbage\r\n", KEEP), NEW),
    kind("closes_though_kept", "closes each connection without having said so",
         lambda ask: (whole(page(ask), "Connection: keep-alive"),), NEW),
)  # fmt: skip

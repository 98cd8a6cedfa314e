"""Odd status lines, and statuses that nobody asked for."""

from functools import partial
from http import HTTPStatus

from tests.hostile.kinds import (
    HEAD_TOO_LARGE,
    HTML,
    KEEP,
    NEW,
    NOT_HTTP,
    NOT_MODIFIED,
    Answer,
    Kind,
    Told,
    endless,
    good,
    head,
    page,
    raw,
    refuses,
    trap,
    whole,
)

kind = partial(Kind, "status")

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
_UNSOLICITED = Told("failed", 1001, "a request without validators")
_NO_LOCATION = Told("failed", 1003, "Location")
_WEEK = 604_800


def _status(code: int) -> Told:
    return Told("failed", code, f"HTTP status {code}")


def _line(line: str) -> Answer:
    """A status line that must not be believed."""
    return lambda ask: (whole(trap(ask), status=line),)


def _bare_lf(ask):
    return (
        whole(page(ask)).partition(b"\r\n\r\n")[0].replace(b"\r\n", b"\n") + b"\n\n" + page(ask),
    )


def _plain(code: int) -> Kind:
    try:
        phrase = HTTPStatus(code).phrase
    except ValueError:
        phrase = "Odd"
    return kind(f"s{code}", phrase.lower(), refuses(f"{code} {phrase}"), _status(code))


#: Statuses that say what they say, with a body that is none of the page's.
_PLAIN = tuple(map(_plain, (
    201, 202, 207, 306, 400, 402, 403, 404, 405, 408, 409, 410, 411, 412, 413, 414, 416,
    417, 418, 421, 422, 423, 425, 426, 428, 431, 444, 451, 499, 500, 501, 502, 503, 504, 505, 507,
    508, 511, 520, 525, 530, 599, 600, 999,
)))  # fmt: skip

KINDS = (
    kind("extended", "HTTP/1.1 1106, which is a number of ours", _line("HTTP/1.1 1106 Cut"),
         NOT_HTTP),
    kind("two_digits", "HTTP/1.1 42", _line("HTTP/1.1 42 Odd"), NOT_HTTP),
    kind("four_digits", "HTTP/1.1 2000", _line("HTTP/1.1 2000 OK"), NOT_HTTP),
    kind("zero", "HTTP/1.1 0", _line("HTTP/1.1 0 OK"), NOT_HTTP),
    kind("negative", "HTTP/1.1 -200", _line("HTTP/1.1 -200 OK"), NOT_HTTP),
    kind("letters", "HTTP/1.1 abc", _line("HTTP/1.1 abc OK"), NOT_HTTP),
    kind("decimal", "HTTP/1.1 200.0", _line("HTTP/1.1 200.0 OK"), NOT_HTTP),
    kind("no_status", "HTTP/1.1 and nothing else", _line("HTTP/1.1"), NOT_HTTP),
    kind("no_version", "200 OK", _line("200 OK"), NOT_HTTP),
    kind("version_letters", "HTTP/x.y", _line("HTTP/x.y 200 OK"), NOT_HTTP),
    kind("version_9", "HTTP/9.9, which nobody speaks", good(status="HTTP/9.9 200 OK"), NEW),
    kind("lower_case", "http/1.1 200 ok", good(status="http/1.1 200 ok"), NEW),
    kind("no_reason", "HTTP/1.1 200 without a reason", good(status="HTTP/1.1 200"), NEW),
    kind("s203", "203, from a transforming proxy", good(status="HTTP/1.1 203 OK"), NEW),
    kind("s226", "226, which is a page, too", good(status="HTTP/1.1 226 IM Used"), NEW),
    kind("s299", "299, which is read as 200", good(status="HTTP/1.1 299 OK"), NEW),
    kind("odd_reason", "a reason with markup and 8-bit bytes",
         good(status="HTTP/1.1 200 <b>\xff\xfe</b>"), NEW),
    kind("wrong_reason", "200 Not Found", good(status="HTTP/1.1 200 Not Found"), NEW),
    kind("two_spaces", "more white space than asked", refuses(" 200 OK"), NOT_HTTP),
    kind("bare_lf", "no CR at any line's end", _bare_lf, NEW),
    kind("long_reason", "a reason of 100 KB", _line("HTTP/1.1 200 " + "O" * 100_000),
         HEAD_TOO_LARGE),
    kind("continue_50", "50 times 100 Continue before the 200",
         lambda ask: (_CONTINUE * 50 + whole(page(ask)), KEEP), NEW),
    kind("early_hints", "103 before the 200",
         lambda ask: (_HINTS + whole(page(ask)), KEEP), NEW),
    kind("continue_endless", "100 Continue for ever",
         endless(b"", _CONTINUE * 100, 0.005), HEAD_TOO_LARGE),
    kind("continue_only", "100 Continue and the end", lambda ask: (_CONTINUE,),
         Told("failed", 1104, "broke")),
    kind("switching", "101, and frames of a WebSocket",
         lambda ask: (head("Upgrade: websocket", "Connection: Upgrade",
                           status="HTTP/1.1 101 Switching Protocols") + b"\x81\x05hello",),
         Told("failed", 1104, "broke")),
    kind("s204_with_body", "204 with a body", refuses("204 No Content"), _status(204)),
    kind("s205", "205 with a body", refuses("205 Reset Content"), _status(205)),
    kind("s206", "206 that was not asked for",
         refuses("206 Partial Content", "Content-Range: bytes 0-9/4000"), _status(206)),
    kind("s300", "300 with a list of choices", refuses("300 Multiple Choices"), _status(300)),
    kind("s305", "305 that names a proxy",
         refuses("305 Use Proxy", "Location: {victim}/proxy"), _status(305)),
    kind("s304", "304 to a request that did not ask",
         lambda ask: (head("ETag: \"healthy\"", status="HTTP/1.1 304 Not Modified"), KEEP),
         _UNSOLICITED, held=NOT_MODIFIED),
    kind("s304_with_body", "304 with a body",
         refuses("304 Not Modified"), _UNSOLICITED, held=NOT_MODIFIED),
    kind("s401", "asks for a password",
         refuses("401 Unauthorized", 'WWW-Authenticate: Basic realm="\xe4"'), _status(401)),
    kind("s401_ntlm", "asks for three passwords, badly",
         refuses("401 Unauthorized", "WWW-Authenticate: NTLM", "WWW-Authenticate: ,=,"),
         _status(401)),
    kind("s407", "a proxy that nobody asked wants a password",
         refuses("407 Proxy Authentication Required", "Proxy-Authenticate: Basic"), _status(407)),
    kind("s406", "406: not acceptable", good(status="HTTP/1.1 406 Not Acceptable"),
         Told("excluded", 406)),
    *(
        kind(f"{name}_{code}", f"{code} with Retry-After: {value}",
             refuses(f"{code} Odd", f"Retry-After: {value}"), _status(code))
        for code in (429, 503)
        for name, value in (
            ("retry_never", 10**12),
            ("retry_week", _WEEK),
            ("retry_past", "Fri, 02 Jan 1998 03:04:05 GMT"),
            ("retry_year_9999", "Fri, 31 Dec 9999 23:59:59 GMT"),
            ("retry_garbage", "soon"),
            ("retry_negative", -5),
            ("retry_decimal", "0.5"),
            ("retry_digits", "9" * 400),
            ("retry_superscript", "\xb2"),
        )
    ),
    kind("s301_no_location", "301 to nowhere", refuses("301 Moved"), _NO_LOCATION),
    kind("s302_no_location", "302 to nowhere", refuses("302 Found"), _NO_LOCATION),
    kind("s500_as_page", "an error page with the title of a page",
         lambda ask: (whole(trap(ask), HTML, status=raw("HTTP/1.1 500 OK")), KEEP), _status(500)),
    *_PLAIN,
)  # fmt: skip

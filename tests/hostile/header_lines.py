"""Headers that are too many, too long, malformed, contradictory, or a trap."""

from functools import partial

from tests.hostile.kinds import (
    BROKEN,
    CHUNKED,
    HEAD_TOO_LARGE,
    HTML,
    KEEP,
    NEW,
    NOINDEX,
    NOT_HTTP,
    TIME_OUT,
    Answer,
    Ask,
    Kind,
    Script,
    Told,
    chunk,
    endless,
    good,
    head,
    page,
    trap,
    whole,
)

kind = partial(Kind, "header")

_START = b"HTTP/1.1 200 OK\r\n"
_NEVER_READ = "{victim}/from-header"


def _bare(*lines: str | bytes) -> Answer:
    """A page with exactly these header lines, that ends with the connection."""
    return lambda ask: (head(*lines) + page(ask),)


def _lying(*lines: str | bytes) -> Answer:
    """A body that must not be believed, under exactly these header lines."""
    return lambda ask: (head(HTML, *lines) + trap(ask),)


def _lengths(*lengths: str) -> Answer:
    """A page under these Content-Length lines, of which {} is the true one."""

    def answer(ask: Ask) -> Script:
        body = page(ask)
        lines = [f"Content-Length: {length.format(len(body))}" for length in lengths]
        return (head(HTML, *lines) + body,)

    return answer


def _both(ask: Ask) -> Script:
    """A request smuggler's answer: the length covers the chunks, which say otherwise."""
    body = chunk(page(ask)) + b"0\r\n\r\n"
    return (head(HTML, CHUNKED, f"Content-Length: {len(body)}") + body,)


def _chunked(*codings: str) -> Answer:
    def answer(ask: Ask) -> Script:
        lines = [f"Transfer-Encoding: {coding}" for coding in codings]
        return (head(HTML, *lines) + chunk(page(ask)) + b"0\r\n\r\n",)

    return answer


def _drip(ask: Ask) -> Script:
    yield _START
    while True:
        yield from (b"X", b"-", b"A", b":", b"1", b"\r\n")
        yield 0.05


KINDS = (
    # How much
    kind("one_of_70k", "one header of 70 KB", good(b"X-Long: " + b"x" * 70_000), HEAD_TOO_LARGE),
    kind("one_of_40k", "one header of 40 KB", good(b"X-Long: " + b"x" * 40_000), NEW),
    kind("h5000", "5,000 headers", good(*(f"X-{n}: {'v' * 20}" for n in range(5000))),
         HEAD_TOO_LARGE),
    kind("h500", "500 headers", good(*(f"X-{n}: {'v' * 20}" for n in range(500))), NEW),
    kind("endless", "headers for ever", endless(_START, b"X-More: of the same\r\n" * 500, 0.005),
         HEAD_TOO_LARGE),
    kind("endless_one", "one header for ever", endless(_START + b"X-Long: ", b"x" * 10_000, 0.005),
         HEAD_TOO_LARGE),
    kind("drip", "a header every while, for ever", _drip, TIME_OUT),
    kind("etag_2m", "an ETag of 2 MB", good(b'ETag: "' + b"e" * 2_000_000 + b'"'),
         HEAD_TOO_LARGE),
    kind("location_70k", "a Location of 70 KB",
         lambda ask: (whole(b"", b"Location: /" + b"l" * 70_000, status="HTTP/1.1 302 Found"),),
         HEAD_TOO_LARGE),
    # Malformed
    kind("no_colon", "a line without a colon", good("this is no header"), NEW),
    kind("only_colon", "a line that begins with its colon", good(": nothing"), NOT_HTTP),
    kind("space_before_colon", "white space before the colon", good("X-Odd : 1"), NOT_HTTP),
    kind("folded", "a header in two lines", good("X-Folded: one\r\n two"), NEW),
    kind("folded_first", "the first line is folded", _bare(" folded", HTML), NOT_HTTP),
    kind("nul_in_value", "NUL in a value", good("X-Nul: a\0b"), NEW),
    kind("nul_in_name", "NUL in a name", good("X-N\0l: a"), NOT_HTTP),
    kind("cr_in_value", "CR alone in a value", good("X-Cr: a\rb"), NEW),
    kind("control_in_value", "every control character in a value",
         good(b"X-C: " + bytes({*range(1, 32)} - {*b"\r\n"})), NEW),
    kind("non_ascii", "bytes of no charset in a value", good(b"X-E: \xff\xfe\x80"), NEW),
    kind("non_ascii_name", "a byte of no charset in a name", good(b"X-\xe9: 1"), NOT_HTTP),
    kind("no_space", "no space after the colons", _bare("Content-Type:text/html"), NEW),
    kind("upper_case", "names in upper case", _bare(HTML.upper()), NEW),
    kind("none", "no header at all", _bare(), NEW),
    # Lengths that contradict each other
    kind("length_twice", "the same Content-Length twice", _lengths("{}", "{}"), NEW),
    kind("length_list", "the same Content-Length twice in a line", _lengths("{0}, {0}"), NEW),
    kind("length_differs", "two Content-Lengths that differ", _lengths("{}", "9"), NOT_HTTP),
    kind("length_negative", "a Content-Length below zero", _lengths("-1"), NOT_HTTP),
    kind("length_plus", "a Content-Length with a sign", _lengths("+{}"), NOT_HTTP),
    kind("length_decimal", "a Content-Length of 10.0", _lengths("10.0"), NOT_HTTP),
    kind("length_underscore", "a Content-Length of 1_0", _lengths("1_0"), NOT_HTTP),
    kind("length_letters", "a Content-Length of abc", _lengths("abc"), NOT_HTTP),
    kind("length_empty", "a Content-Length of nothing", _lengths(""), NOT_HTTP),
    kind("length_huge", "a Content-Length of 30 digits", _lengths("9" * 30),
         Told("failed", 1107, "larger than")),
    kind("length_5000_digits", "a Content-Length of 5,000 digits", _lengths("9" * 5000), NOT_HTTP),
    kind("length_and_chunked", "Content-Length and chunked", _both, NEW),
    kind("chunked_twice", "chunked, said twice", _chunked("chunked", "chunked"), NEW),
    kind("chunked_upper", "CHUNKED", _chunked("CHUNKED"), NEW),
    kind("te_gzip", "Transfer-Encoding: gzip", _lying("Transfer-Encoding: gzip"), NOT_HTTP),
    kind("te_garbage", "Transfer-Encoding: xchunked",
         _lying("Transfer-Encoding: xchunked"), NOT_HTTP),
    kind("te_identity", "Transfer-Encoding: identity",
         _bare(HTML, "Transfer-Encoding: identity"), NOT_HTTP),
    kind("te_identity_chunked", "identity, chunked", _chunked("identity, chunked"), NOT_HTTP),
    # The same header twice
    kind("type_twice", "two Content-Types that differ",
         good(HTML, "Content-Type: application/json"),
         NEW),
    kind("etag_twice", "two ETags", good('ETag: "a"', 'ETag: "b"'), NEW),
    kind("modified_twice", "two Last-Modifieds",
         good("Last-Modified: Fri, 02 Jan 2026 03:04:05 GMT",
              "Last-Modified: Fri, 02 Jan 1998 03:04:05 GMT"), NEW),
    # What must lead nowhere, or do nothing
    kind("cookies", "cookies, one of them of 4 KB",
         good("Set-Cookie: a=1; Domain=.0.1", f"Set-Cookie: b={'b' * 4000}; Path=/",
              "Set-Cookie: =;;;"), NEW),
    kind("refresh_victim", "Refresh to the victim",
         good(f"Refresh: 0; url={_NEVER_READ}"),
         Told("redirected", 302, "by a refresh to"), held=Told("lost", 302, "temporary redirect")),
    kind("link_canonical_victim", "a canonical Link to the victim",
         good(f'Link: <{_NEVER_READ}>; rel="canonical"'), NEW),
    kind("link_odd", "Link lines that nobody can parse",
         good("Link: <", 'Link: <>; rel="', "Link: " + "<a>;rel=next," * 500), NEW),
    kind("content_location_victim", "Content-Location at the victim",
         good(f"Content-Location: {_NEVER_READ}"), NEW),
    kind("alt_svc_victim", "another service for the same page",
         good('Alt-Svc: h2="127.0.0.1:1"; ma=86400', f"SourceMap: {_NEVER_READ}"), NEW),
    kind("hsts", "HTTPS from now on, and upgrades",
         good("Strict-Transport-Security: max-age=31536000; includeSubDomains; preload",
              "Upgrade: h2c", "Content-Security-Policy: upgrade-insecure-requests"), NEW),
    kind("referrer_policy", "a policy that names a Python function",
         good("Referrer-Policy: os.abort"), NEW),
    kind("disposition", "a download with a path for a name",
         good('Content-Disposition: attachment; filename="../../../../tmp/hostile"'), NEW),
    kind("report_to", "reports that are to be sent to the victim",
         good(f'Report-To: {{"endpoints":[{{"url":"{_NEVER_READ}"}}]}}',
              'NEL: {"report_to":"default","max_age":9}'), NEW),
    kind("range", "Content-Range in a 200", good("Content-Range: bytes 0-1/99999"), NEW),
    kind("connection_odd", "Connection and Keep-Alive with nonsense",
         good("Connection: keep-alive, close, ,;", "Keep-Alive: timeout=-1, max=abc"), NEW),
    kind("cache_odd", "Cache-Control, Age, Expires and Vary with nonsense",
         good(f"Cache-Control: max-age={10**30}, =, private=\"", "Age: -1", "Expires: 0",
              "Vary: *, ,\xff"), NEW),
    kind("robots_odd", "X-Robots-Tag that says nothing",
         good("X-Robots-Tag: : ,;,", "X-Robots-Tag: otherbot: noindex",
              "X-Robots-Tag: unavailable_after: never", b"X-Robots-Tag: \xff"), NEW),
    kind("robots_noindex", "X-Robots-Tag: noindex in its third line",
         good("X-Robots-Tag: max-snippet:5", "X-Robots-Tag: nofollow",
              "X-Robots-Tag: otherbot: all, NOINDEX"), NEW),
    kind("robots_none", "X-Robots-Tag: NONE, and links that are not to be followed",
         lambda ask: (whole(trap(ask), "X-Robots-Tag: NONE"), KEEP), NOINDEX),
    kind("trailer_announced", "a Trailer that does not come",
         good("Trailer: X-Checksum, Content-Length"), NEW),
    kind("cut_by_nothing", "headers that end with the connection",
         lambda ask: (_START + HTML.encode() + b"\r\n",), BROKEN),
)  # fmt: skip

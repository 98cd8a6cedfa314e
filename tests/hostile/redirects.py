"""Redirects that go round, go on, or go where nobody should."""

from functools import partial

from tests.hostile.kinds import (
    KEEP,
    NEW,
    NOT_HTTP,
    Answer,
    Ask,
    Kind,
    Script,
    Told,
    filled,
    page,
    raw,
    trap,
    whole,
)

kind = partial(Kind, "redirect")

_FOUND = Told("redirected", 302)
#: What is held of a page that leads where nothing is indexed.
_NOWHERE = Told("lost", 302, "temporary redirect")
_LOOP = Told("failed", 1002, "circle")
_NO_LOCATION = Told("failed", 1003, "Location")
_TOO_MANY = Told("failed", 1004, "redirects")
_TOO_OFTEN = Told("failed", 1004, "redirected too often")
_LOST_TOO_OFTEN = Told("lost", 1004, "redirected too often")


def _to(*locations: str | bytes, status: str = "302 Found", lines: tuple[str, ...] = ()) -> Answer:
    """A redirect with these Locations; what lies below its path are ordinary pages."""

    def answer(ask: Ask) -> Script:
        if ask.rest:
            return whole(page(ask)), KEEP
        named = [b"Location: " + filled(ask, raw(location)) for location in locations]
        return whole(trap(ask), *named, *lines, status=f"HTTP/1.1 {status}"), KEEP

    return answer


def _loop(length: int, status: str = "302 Found") -> Answer:
    """Round in a circle of so many addresses, the first of which is the path itself."""

    def answer(ask: Ask) -> Script:
        place = int(ask.rest.strip("/") or 0)
        following = (place + 1) % length
        target = f"{ask.here}/{following}" if following else ask.here
        return whole(b"", f"Location: {target}", status=f"HTTP/1.1 {status}"), KEEP

    return answer


def _chain(length: int, status: str = "302 Found") -> Answer:
    """So many hops over distinct addresses to a page."""

    def answer(ask: Ask) -> Script:
        place = int(ask.rest.strip("/") or 0)
        if place == length:
            return whole(page(ask)), KEEP
        line = f"Location: {ask.here}/{place + 1}"
        return whole(b"", line, status=f"HTTP/1.1 {status}"), KEEP

    return answer


def _growing(ask: Ask) -> Script:
    """To itself, with one more parameter each time."""
    mark = "&" if "?" in ask.rest else "?"
    line = f"Location: {ask.here}{ask.rest}{mark}again=1"
    return whole(b"", line, status="HTTP/1.1 302 Found"), KEEP


def _slash(ask: Ask) -> Script:
    """Another spelling of the same address, and back."""
    target = ask.here if ask.rest == "/" else f"{ask.here}/"
    return whole(b"", f"Location: {target}", status="HTTP/1.1 301 Moved Permanently"), KEEP


def _slash_once(ask: Ask) -> Script:
    if ask.rest == "/":
        return whole(page(ask)), KEEP
    return whole(b"", f"Location: {ask.here}/", status="HTTP/1.1 301 Moved Permanently"), KEEP


def _cookie_wall(ask: Ask) -> Script:
    """To itself until a cookie comes back."""
    if "cookie" in ask.headers:
        return whole(page(ask)), KEEP
    return _cookie_loop(ask)


def _cookie_loop(ask: Ask) -> Script:
    """To itself, with a cookie and without."""
    lines = ("Set-Cookie: seen=1", f"Location: {ask.here}")
    return whole(b"", *lines, status="HTTP/1.1 302 Found"), KEEP


KINDS = (
    kind("loop_1", "to itself", _loop(1), _LOOP),
    kind("loop_2", "a circle of two", _loop(2), _LOOP),
    kind("loop_5", "a circle of five", _loop(5), _LOOP),
    kind("loop_2_permanent", "a permanent circle of two", _loop(2, "301 Moved"), _LOOP),
    kind("loop_slash", "a circle of two spellings", _slash, _LOOP),
    kind("slash", "another spelling with the page", _slash_once, NEW),
    kind("cookie_wall", "to itself until a cookie comes", _cookie_wall, NEW),
    kind("cookie_loop", "to itself, whatever cookie comes", _cookie_loop, _LOOP),
    kind("chain_3", "three hops to a page", _chain(3), _FOUND),
    kind("chain_10", "ten hops to a page", _chain(10), _TOO_OFTEN, held=_LOST_TOO_OFTEN),
    kind("chain_10_permanent", "ten permanent hops", _chain(10, "308 Permanent"),
         _TOO_OFTEN, held=_LOST_TOO_OFTEN),
    kind("chain_1000", "1,000 hops", _chain(1000), _TOO_OFTEN, held=_LOST_TOO_OFTEN),
    kind("growing", "to itself with one more parameter, for ever", _growing, _FOUND,
         held=_NOWHERE),
    *(
        kind(f"s{status[:3]}", f"{status} to a page", _to("{here}/target", status=status),
             Told("redirected", int(status[:3])))
        for status in ("301 Moved", "303 See Other", "307 Temporary", "308 Permanent")
    ),
    kind("empty", "an empty Location", _to(""), _NO_LOCATION),
    kind("spaces", "a Location of white space", _to("  \t "), _NO_LOCATION),
    kind("relative", "a relative Location", _to("relative/target"), _FOUND),
    kind("dots", "a Location that climbs out of the root", _to("/../../..{here}/t"), _FOUND),
    kind("fragment", "a Location of a fragment only", _to("#top"), _LOOP),
    kind("query", "a Location of a query only", _to("?to=1"), _FOUND),
    kind("white_space", "tabs and spaces around a Location", _to(" \t{here}/target \t"), _FOUND),
    kind("inner_space", "a space within a Location", _to("{here}/tar get"), _FOUND),
    kind("encoded_split", "a Location that looks like headers",
         _to("{here}/x%0d%0aSet-Cookie:%20a=b"), _FOUND),
    kind("split", "a Location behind which a header and a body begin",
         _to("{here}/t\r\nX-Split: 1\r\nContent-Length: 5"), NOT_HTTP),
    kind("utf_8", "a Location in UTF-8", _to("{here}/grün".encode()), _FOUND),
    kind("latin_1", "a Location in Latin-1", _to("{here}/gr\xfcn"), _FOUND),
    kind("not_utf_8", "a Location of bytes of no charset", _to(b"{here}/\xff\xfe\x80"), _FOUND),
    kind("k3", "a Location of 3,000 characters", _to("{here}/" + "l" * 3_000), _NO_LOCATION),
    kind("twice", "two Locations", _to("{here}/first", "{here}/second"), _FOUND),
    kind("with_refresh", "a Location, and Refresh to the victim",
         _to("{here}/target", lines=("Refresh: 0; url=/never/refresh",)), _FOUND),
    # Where nobody should go
    kind("victim", "to the victim", _to("{victim}/redirect"), _FOUND, held=_NOWHERE),
    kind("victim_no_scheme", "to //victim",
         lambda ask: _to(ask.victim.removeprefix("http:") + "/r")(ask), _FOUND, held=_NOWHERE),
    kind("victim_backslash", "to /\\victim",
         lambda ask: _to(ask.victim.replace("http://", "/\\") + "/r")(ask), _FOUND, held=_NOWHERE),
    kind("victim_userinfo", "to a name and a password at the victim",
         lambda ask: _to(ask.victim.replace("://", "://user:secret@") + "/r")(ask), _FOUND,
         held=_NOWHERE),
    kind("userinfo", "to a page here, with a name and a password",
         lambda ask: _to(ask.origin.replace("://", "://user:secret@") + f"{ask.here}/t")(ask),
         _FOUND),
    kind("number", "to a page here, with its host as a number",
         lambda ask: _to(ask.origin.replace("127.0.0.1", "2130706433") + f"{ask.here}/t")(ask),
         _FOUND),
    kind("localhost", "to localhost",
         lambda ask: _to(ask.origin.replace("127.0.0.1", "localhost") + ask.never)(ask), _FOUND,
         held=_NOWHERE),
    kind("loopback_2", "to another address of this machine",
         lambda ask: _to(ask.origin.replace("127.0.0.1", "127.0.0.2") + ask.never)(ask), _FOUND,
         held=_NOWHERE),
    kind("metadata", "to where clouds keep their keys",
         _to("http://169.254.169.254/latest/meta-data/"), _FOUND, held=_NOWHERE),
    kind("https", "to the same port over TLS",
         lambda ask: _to(ask.origin.replace("http:", "https:") + ask.never)(ask), _FOUND,
         held=_NOWHERE, reason="robots_unknown"),
    kind("ipv6", "to an IPv6 address", _to("http://[::ffff:127.0.0.1]:{port}/"), _FOUND,
         held=_NOWHERE),
    kind("port_0", "to port 0", _to("http://127.0.0.1:0/"), _FOUND, held=_NOWHERE),
    kind("forbidden", "to what robots.txt forbids", _to("/forbidden/redirect"), _FOUND,
         held=_NOWHERE),
    *(
        kind(name, f"to {target.partition(':')[0]}:", _to(target), _NO_LOCATION)
        for name, target in (
            ("javascript", "javascript:alert(1)"),
            ("file", "file:///etc/passwd"),
            ("ftp", "ftp://127.0.0.1/file"),
            ("data", "data:text/html,<p>x</p>"),
            ("s3", "s3://bucket/key"),
            ("gopher", "gopher://127.0.0.1:6379/_FLUSHALL"),
            ("bad_port", "http://127.0.0.1:99999/"),
            ("bad_host", "http://[::1/"),
            ("no_host", "http://"),
        )
    ),
)  # fmt: skip

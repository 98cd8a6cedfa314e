"""Cookies of one visit: what a server set, and what goes back to it (RFC 6265)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

MAX_COOKIE: Final = 4096  #: characters of name and value, as in browsers
MAX_COOKIES: Final = 50  #: of one visit; the oldest are dropped first
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BLANK: Final = " \t"


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int


class Cookie(NamedTuple):
    """A name and value that a server set, and where they may be sent."""

    name: str
    value: str
    origin: _Origin  #: of the address that set it: no other one gets it
    path: str  #: beginning of the paths that get it
    domain: str  #: as the server named it; only a part of the cookie's identity here

    @property
    def identity(self) -> tuple[_Origin, tuple[str, str, str]]:
        """The parts by which a later cookie replaces it."""
        return self.origin, (self.name, self.path, self.domain)


def cookies_after_answer(
    cookies: Sequence[Cookie], lines: Iterable[str], url: str, now: int
) -> tuple[Cookie, ...]:
    """Return the cookies of a visit after an answer from ``url`` with these Set-Cookie lines.

    A line that a browser would ignore changes nothing; an expired cookie removes the one that it
    replaces. ``now`` is Unix seconds.

    >>> [kept] = cookies_after_answer((), ["a=1; Path=/; HttpOnly"], "http://a.example/x/y", 0)
    >>> kept.name, kept.value, kept.path
    ('a', '1', '/')
    >>> cookies_after_answer([kept], ["a=; Path=/; Max-Age=0"], "http://a.example/", 0)
    ()

    Source: RFC 6265 sections 5.2 and 5.3.
    """
    kept = {cookie.identity: cookie for cookie in cookies}
    for line in lines:
        found = _set_cookie(line, url, now)
        if found is None:
            continue
        cookie, expired = found
        if expired:
            kept.pop(cookie.identity, None)
        else:
            kept[cookie.identity] = cookie  # a replaced one keeps its place
    return tuple(kept.values())[-MAX_COOKIES:]


def names_way_back(target: str, url: str) -> bool:
    """Whether a redirect's target says in its query that it leads back to the page at ``url``.

    >>> names_way_back("http://a.example/check?back=%2Fx%2Fy", "http://a.example/x/y")
    True
    >>> names_way_back("http://a.example/check?to=http://a.example/x?n=1", "http://a.example/x?n=1")
    True
    >>> names_way_back("http://a.example/new", "http://a.example/x")
    False
    """
    parts = urlsplit(url)
    place = f"{parts.path}?{parts.query}" if parts.query else parts.path
    query = urlsplit(target).query
    values = [query.partition("=")[2], *(value for _, value in parse_qsl(query))]
    return any(value in (url, place) for value in values)


def cookie_header(cookies: Iterable[Cookie], url: str) -> str:
    """Return the value of the header Cookie for ``url``; "" if no cookie may be sent there.

    >>> found = cookies_after_answer((), ["a=1", "b=2; Path=/x"], "http://a.example/", 0)
    >>> cookie_header(found, "http://a.example/x/y"), cookie_header(found, "http://b.example/x")
    ('b=2; a=1', '')

    Source: RFC 6265 section 5.4.
    """
    origin, path = _place(url)
    sent = [
        cookie for cookie in cookies if cookie.origin == origin and _has_path(path, cookie.path)
    ]
    sent.sort(key=lambda cookie: -len(cookie.path))
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in sent)


def session_cookie_header(cookies: Iterable[Cookie], url: str) -> str:
    """Return the value of the header Cookie for ``url``, of a session that knows its origins.

    Beside the cookies of this origin there are those that another one set for the whole domain.

    >>> set_there = ["a=1; Domain=a.example", "b=2"]
    >>> found = cookies_after_answer((), set_there, "https://login.a.example/", 0)
    >>> session_cookie_header(found, "https://docs.a.example/x")
    'a=1'
    >>> session_cookie_header(found, "http://docs.a.example/x")
    ''
    """
    origin, _ = _place(url)
    shared = [
        cookie._replace(origin=origin)
        if cookie.domain
        and cookie.origin.scheme == origin.scheme
        and _has_domain(origin.host, cookie.domain)
        else cookie
        for cookie in cookies
    ]
    return cookie_header(shared, url)


def joined_cookies(given: str, later: str) -> str:
    """Return a header with the cookies of two headers; where both have a name, the later one's.

    >>> joined_cookies("a=1; b=2", "b=3")
    'a=1; b=3'
    """
    pairs: dict[str, str] = {}
    for header in (given, later):
        for pair in header.split(";"):
            if pair := pair.strip(_BLANK):
                pairs[pair.partition("=")[0].strip(_BLANK)] = pair
    return "; ".join(pairs.values())


def merged_cookie_header(given: str, own: Iterable[Cookie], url: str) -> str:
    """Return a header with the operator's own cookies, less those that the server set anew.

    >>> found = cookies_after_answer((), ["a=1"], "http://a.example/", 0)
    >>> merged_cookie_header("a=0; key=k", found, "http://a.example/")
    'key=k; a=1'
    """
    own = list(own)
    names = {cookie.name for cookie in own}
    pairs = [pair.strip(_BLANK) for pair in given.split(";")]
    kept = [pair for pair in pairs if pair and pair.partition("=")[0].strip(_BLANK) not in names]
    return "; ".join([*kept, *filter(None, [cookie_header(own, url)])])


def is_same_origin(url: str, other: str) -> bool:
    """Whether two addresses have the same scheme, host and port.

    >>> is_same_origin("http://a.example/x", "http://A.example:80/y")
    True
    >>> is_same_origin("http://a.example/", "https://a.example/")
    False
    """
    return _place(url)[0] == _place(other)[0]


def _set_cookie(line: str, url: str, now: int) -> tuple[Cookie, bool] | None:
    """Return the cookie of a line, and whether it is expired; None: the line is ignored."""
    pair, *attributes = line.split(";")
    name, equals, value = pair.partition("=")
    name, value = name.strip(_BLANK), value.strip(_BLANK)
    if not (equals and name) or len(name) + len(value) > MAX_COOKIE or _CONTROL.search(line):
        return None
    given = defaultdict[str, str](str)
    for attribute in attributes:
        key, _, text = attribute.partition("=")
        given[key.strip(_BLANK).lower()] = text.strip(_BLANK)  # the last one counts
    origin, path = _place(url)
    if "secure" in given and origin.scheme != "https":  # otherwise its origin is enough
        return None
    domain = given["domain"].removeprefix(".").lower()
    if domain and not _has_domain(origin.host, domain):
        return None
    place = given["path"]
    if not place.startswith("/"):
        place = path.rpartition("/")[0] or "/"
    return Cookie(name, value, origin, place, domain), _is_expired(given, now)


def _is_expired(given: defaultdict[str, str], now: int) -> bool:
    age = given["max-age"]
    if age.removeprefix("-").isdecimal():  # it counts before Expires
        return float(age) <= 0
    try:
        moment = parsedate_to_datetime(given["expires"])
    except (ValueError, TypeError, IndexError, OverflowError):
        return False
    return moment.replace(tzinfo=UTC).timestamp() <= now  # whatever zone it names


def _has_domain(host: str, domain: str) -> bool:
    """Whether a host is ``domain`` or below it; an IP address is below none."""
    if host == domain:
        return True
    return host.endswith(f".{domain}") and not host.rpartition(".")[2].isdecimal()


def _has_path(path: str, beginning: str) -> bool:
    """Whether a path is ``beginning`` or below it (RFC 6265 section 5.1.4)."""
    if path == beginning:
        return True
    return path.startswith(beginning if beginning.endswith("/") else f"{beginning}/")


def _place(url: str) -> tuple[_Origin, str]:
    """Return the origin and the path of an address."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return _Origin(parts.scheme, str(parts.hostname), port), parts.path or "/"

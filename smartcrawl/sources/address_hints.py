"""The probable intention behind an address that cannot be crawled, for the end of a message."""

from __future__ import annotations

import re
from typing import Final

from smartcrawl.model.meant import nearest_word
from smartcrawl.model.urls import request_url

_WEB: Final = ("http", "https")
_SCHEME: Final = re.compile(r"([A-Za-z]{3,7})(?::/*|;/*|//+)(?=[^/])")
_LIKE_WEB: Final = 0.75  #: least similarity of a mistyped scheme; ftp has .57, httpd .89
_FILE: Final = re.compile(r"file:|[A-Za-z]:\\|\.{0,2}/(?!/)")
_BARE_IPV6: Final = re.compile(r"https?://[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:[/?#]|\Z)")
_PORT: Final = re.compile(r"https?://[^/?#]*:(\d+)(?:[/?#]|\Z)")
_LAST_PORT: Final = 65_535
_ASCII_QUOTES: Final = '"<>`'  #: a URL has none of them; ' may be in one
_QUOTES: Final = _ASCII_QUOTES + "'“”„‘’«»"
_HOST_ALONE: Final = re.compile(r"(?:https?://)?[^/?#]*")


def declared_address_hint(text: str) -> str:
    """Return the probable correction of an invalid address, or an empty string.

    >>> declared_address_hint("htps://docs.example.com/")
    '; did you mean https://docs.example.com/?'
    >>> declared_address_hint("http://::1:8000/")
    '; an IPv6 address goes in brackets, as in http://[::1]:8000/'
    >>> declared_address_hint("mailto:me@example.com")
    ''
    """
    found = _SCHEME.match(text)
    if found and (found[1].lower() not in _WEB or "://" not in found[0]):
        scheme = nearest_word(found[1].lower(), _WEB, least=_LIKE_WEB)
        url = request_url(f"{scheme}://{text[found.end() :]}") if scheme else None
        if url is not None:
            return f"; did you mean {url}?"
    if _FILE.match(text):
        return "; to crawl files, serve their folder, as with python3 -m http.server"
    if _BARE_IPV6.match(text):
        return "; an IPv6 address goes in brackets, as in http://[::1]:8000/"
    port = _PORT.match(text)
    if port and int(port[1]) > _LAST_PORT:
        return f"; a port is a number up to {_LAST_PORT}"
    return ""


def declared_address_unquoted(text: str) -> str | None:
    """Return an address without the quotes that were pasted with it; None where there are none.

    A single or typographic quotation mark at the end may be part of the address, unless one is
    before it, or it would be one of the host.

    >>> declared_address_unquoted('https://a.example/"'), declared_address_unquoted("https://a.example/o'")
    ('https://a.example/', None)
    >>> declared_address_unquoted("https://de.example.org/„Foo“"), declared_address_unquoted("„https://a.example/“")
    (None, 'https://a.example/')
    >>> declared_address_unquoted("'a.example'"), declared_address_unquoted("a.example'")
    ('a.example', 'a.example')
    """
    given = text.strip()
    bare = given.lstrip(_QUOTES)
    of_host = _HOST_ALONE.fullmatch(given)
    bare = bare.rstrip(_QUOTES if bare != given or of_host else _ASCII_QUOTES)
    return bare if bare != given else None

"""Links of a page: from hrefs to absolute addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

import can_ada

from smartcrawl.model.documents import Document, Link
from smartcrawl.model.file_urls import join_file_url
from smartcrawl.model.urls import MAX_URL_LENGTH, hash_route, join_url, unsigned_url
from smartcrawl.rules.http import is_refresh_at_once

MAX_LINKS: Final = 50_000  #: distinct links kept of one page
MAX_OVERLONG: Final = 1_000  #: links that are reported as too long
_DIGITS: Final = 9  #: of a delay; more are a longer one anyway
_LONGEST_STUB: Final = 64 * 1024  #: bytes of a page that is asked only for where it leads
_SHOWN: Final = 200  #: characters of a link that is too long

_HTTP: Final = ("http://", "https://")
_IN_FRAGMENT: Final = "%!$&'()*+,;=:@/?"
_REFRESH: Final = re.compile(
    r"(\d*+)[\d.]*+\s*(?:[;,]|\s|\Z)\s*(?:url\s*=\s*)?(?:'([^']*)|\"([^\"]*)|(.*))",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(slots=True)
class Reference:
    """A link as written. ``nofollow`` is true while all its occurrences have it."""

    href: str
    type: str
    nofollow: bool
    anchor: str = ""


def document_base_url(url: str, href: str | None = None) -> can_ada.URL:
    """Return the base URL for the links of the page at ``url``; of a web page without credentials.

    ``href`` is that of ``<base>``; it is ignored where it is invalid or has another scheme than
    http(s).

    Raises:
        ValueError: ``url`` is not absolute.

    Source: R0-17, R1-25; HTML Standard, section 4.2.3.
    """
    base = can_ada.parse(url)
    if href:
        try:
            inner = base + href
        except ValueError:
            pass
        else:
            base = inner if str(inner).startswith(_HTTP) else base
    base.hash = ""
    if str(base).startswith(_HTTP):  # the "user" of Azure's addresses is a container
        base.username = base.password = ""
    return base


def document_page_url(url: str) -> can_ada.URL:
    """Return the URL of a page as its links name it: its base URL with its hash route."""
    page = document_base_url(url)
    page.hash = hash_route(url)
    return page


class Resolved(NamedTuple):
    """The links of a page."""

    links: tuple[Link, ...]  #: distinct, in document order
    more: bool  #: whether there are more than are kept
    overlong: tuple[str, ...]  #: beginnings of http(s) addresses that are too long to be requested


def resolve_html_links(
    references: Iterable[Reference],
    *,
    base: can_ada.URL,
    page: can_ada.URL,
    routes: bool = False,
) -> Resolved:
    """Return the distinct links of a page.

    At most ``MAX_LINKS`` are kept: distinct addresses, without fragment. With ``routes`` hash
    routes are kept; ``page`` is then the document with its own one.

    The first occurrence counts, but ``nofollow`` applies only when all occurrences have it. Links
    to ``page`` itself are left out. A file links to web pages, and to files of its own place.

    Source: M-02, R0-17, RD-15.
    """
    itself, room = str(page), MAX_URL_LENGTH - len(str(base))
    of_file = not str(base).startswith(_HTTP)
    overlong: list[str] = []
    links: dict[str, Link] = {}
    more = False
    for found in references:
        url = join_url(base, found.href, routes=routes)
        if url is None and of_file:
            url = join_file_url(base, found.href)
        if url is None:
            if len(found.href) > room and len(overlong) < MAX_OVERLONG:
                overlong += _overlong(base, found.href)
            continue
        if url == itself:
            continue
        known = links.get(url)
        if known is None:
            if len(links) < MAX_LINKS:
                links[url] = Link(url, found.anchor, found.type, found.nofollow)
            else:
                more = True
        elif known.nofollow and not found.nofollow:
            links[url] = known._replace(nofollow=False)
    return Resolved(tuple(links.values()), more, tuple(overlong))


def _overlong(base: can_ada.URL, href: str) -> list[str]:
    """Return the beginning of an http(s) address if it is too long, else an empty list."""
    try:
        url = base + href
    except (ValueError, TypeError):
        return []
    url.username = url.password = ""
    text = str(url)
    return [text[:_SHOWN]] if text.startswith(_HTTP) and len(text) > MAX_URL_LENGTH else []


def document_file_name(url: str) -> str:
    """Return the last name in the path of an address, as people write it.

    >>> document_file_name("file:///srv/Prices%202026.xlsx"), document_file_name("http://a.example/")
    ('Prices 2026.xlsx', '')
    """
    path = url.partition("#")[0].partition("?")[0].partition("://")[2].partition("/")[2]
    return " ".join(unquote(path.rstrip("/").rpartition("/")[2]).split())[:_SHOWN]


def document_file_stem(url: str) -> str:
    """Return the last name in the path of an address without its ending, as a title.

    >>> document_file_stem("https://a.example/b/annual%20report.v2.pdf?x=1")
    'annual report.v2'
    """
    name = document_file_name(url)
    stem, dot, _ = name.rpartition(".")
    return stem if dot and stem else name


def document_links_depend_on_url(document: Document, url: str, other: str) -> bool:
    """Whether a document that was read at ``url`` may differ at another address.

    Its title may be the name of its file.

    A relative link leads to the place of its page: the origin of a web page, the bucket or the
    machine of a file. In the same folder it leads to the same address, unless that is ``other``.

    >>> page = Document(links=(Link("s3://docs/a/b.md", "", "hyperlink", False),))
    >>> document_links_depend_on_url(page, "s3://docs/a/c.md", "s3://docs/a/d.md")
    False
    >>> document_links_depend_on_url(page, "s3://docs/a/c.md", "s3://docs/d/c.md")
    True
    """
    names = {document_file_name(url), document_file_stem(url)}
    if document.title in names.difference({document_file_name(other), document_file_stem(other)}):
        return True  # it has no other title
    named = [link.url for link in document.links] + [image.src for image in document.images]
    named.append(document.canonical or "")
    if url.rpartition("/")[0] == other.rpartition("/")[0]:
        return other in named
    place = "/".join(url.split("/", 3)[:3]) + "/"
    return any(name.startswith(place) for name in named)


def absolute_target(base: can_ada.URL, href: str) -> str:
    """Return ``href``, found on the page ``base``, as an absolute address to show.

    It keeps its fragment, and loses credentials, session ids and access tokens. Empty: it leads to
    no page.

    >>> absolute_target(can_ada.parse("https://a.example/b/c"), "../d?api_key=8c1f#e")
    'https://a.example/d#e'
    >>> absolute_target(can_ada.parse("file:///srv/a.md"), "b.md#c")
    'file:///srv/b.md#c'
    >>> absolute_target(can_ada.parse("file:///srv/a.md"), "javascript:f()")
    ''
    """
    if not href:
        return ""
    address, sharp, fragment = href.partition("#")
    found = join_url(base, address) or ""
    found = unsigned_url(found) if found else join_file_url(base, address) or ""
    if not found:
        return ""
    quoted = quote(fragment, safe=_IN_FRAGMENT, errors="replace")
    return f"{found}{sharp}{quoted}"


def html_refresh_target(content: str) -> str:
    """Return the address in ``<meta http-equiv=refresh content=...>``, or an empty string.

    Source: HTML Standard, section 4.2.5.3 ("shared declarative refresh steps").
    """
    match = _REFRESH.match(content.strip())
    return _refresh_address(match) if match else ""


def refresh_target_at_once(
    content: str, base: can_ada.URL, page: can_ada.URL, *, routes: bool = False
) -> str | None:
    """Return the absolute address to which a refresh leads at once; None: it does not.

    ``content`` is that of ``<meta http-equiv=refresh>``, or the value of the header ``Refresh``.
    One that names no address, or ``page`` itself, reloads the page. ``routes``: as in
    ``resolve_html_links``.

    >>> page = can_ada.parse("http://a.example/x")
    >>> refresh_target_at_once("0; url=y", page, page)
    'http://a.example/y'
    >>> refresh_target_at_once("0", page, page)
    'http://a.example/x'
    >>> refresh_target_at_once("5; url=y", page, page)

    Source: HTML Standard, section 4.2.5.3; RFC 9110 has no such header, all browsers do.
    """
    match = _REFRESH.match(content.strip())
    if match is None or not (match[1] or content.strip().startswith(".")):
        return None
    seconds = int(match[1].lstrip("0")[:_DIGITS] or 0)
    address = _refresh_address(match)
    if not is_refresh_at_once(seconds):
        return None
    return join_url(base, address, routes=routes) if address else str(page)


def may_lead_on(header: str | None, body: bytes) -> bool:
    """Whether a page may have a refresh: in the header ``Refresh``, or in its short ``body``.

    >>> may_lead_on(None, b"<META HTTP-EQUIV=Refresh CONTENT='0; url=y'>"), may_lead_on(None, b"")
    (True, False)
    """
    return header is not None or (len(body) <= _LONGEST_STUB and b"refresh" in body.lower())


def _refresh_address(match: re.Match[str]) -> str:
    return next(filter(None, match.groups()[1:]), "").strip()

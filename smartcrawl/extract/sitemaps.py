"""Reading of sitemaps and feeds: five formats, as a stream and within bounds."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Final

import can_ada
from w3lib.encoding import http_content_type_encoding, resolve_encoding

from smartcrawl.extract.charset import CODECS
from smartcrawl.extract.links import document_base_url
from smartcrawl.extract.sitemap_entries import (
    MAX_ELEMENTS,
    MAX_ENTRIES,
    MAX_LASTMOD,
    MAX_TEXT,
    WEB,
    Entry,
    Sitemap,
    SitemapAddresses,
    SitemapError,
    SitemapFault,
    SitemapKind,
    sitemap_too_large,
)
from smartcrawl.extract.sitemap_xml import MAX_DEPTH, MAX_TAG, RSS_1, XmlReader
from smartcrawl.model.urls import join_url

__all__ = [
    "MAX_DEPTH",
    "MAX_ELEMENTS",
    "MAX_ENTRIES",
    "MAX_LASTMOD",
    "MAX_MEMBERS",
    "MAX_SITEMAP",
    "MAX_TAG",
    "MAX_TEXT",
    "Entry",
    "Sitemap",
    "SitemapError",
    "SitemapFault",
    "SitemapKind",
    "looks_like_html_page",
    "looks_like_sitemap",
    "read_sitemap",
]

MAX_SITEMAP: Final = 50 * 1024 * 1024  #: bytes of a sitemap, unpacked
MAX_MEMBERS: Final = 10_000  #: of a gzip file; 50 MiB in blocks of 64 KiB need 800

_PORTION: Final = 65_536  #: bytes
_SNIFFED: Final = 4_096  #: bytes
_PACKED: Final = 4_096  #: bytes unpacked at once; 4 MiB at most come out
_GZIP: Final = b"\x1f\x8b"
_GZIP_ONLY: Final = 31  #: zlib's ``wbits``

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Without UTF-16: a declaration that was read as ASCII, without a BOM, is wrong about it (.NET
# writes it into UTF-8).
_CODECS: Final = CODECS - {"utf-16-be", "utf-16-le"}
_DECLARED: Final = re.compile(
    rb"\s*<\?xml\s[^>]{0,200}?\sencoding\s*=\s*[\"']([\w.:-]{1,40})[\"']"
).match

# Atomic: a comment ends at its first "-->", else the time would be 2 to the number of comments.
_PROLOG: Final = r"(?>\s+|<!--.*?-->|<\?.*?\?>)*"
_ROOT: Final = re.compile(
    rf"{_PROLOG}<(?:[^\s<>/:]+:)?"
    rf"(?:(?:urlset|sitemapindex|rss|feed)(?=[\s/>])|RDF\s[^<>]*(?:{RSS_1}))",
    re.DOTALL,
).match
_HTML: Final = re.compile(
    rf"{_PROLOG}<(?:!doctype\s+html|(?:html|head|title|meta|script|style|body|div|table|iframe"
    r"|h1|font|p|a|b|br)(?=[\s/>]))",
    re.DOTALL | re.IGNORECASE,
).match


def looks_like_sitemap(body: bytes) -> bool:
    """Whether a body begins like an XML sitemap or a feed, whatever its Content-Type.

    Only the root counts, after BOM, white space, XML declaration, comments and processing
    instructions, within the first 4,096 bytes. RDF is a feed only in a namespace of RSS.
    A body behind a document type declaration, text sitemaps and gzip are not recognized.
    """
    return _ROOT(_start(body[:_SNIFFED])) is not None


def looks_like_html_page(body: bytes) -> bool:
    """Whether a body begins like an HTML page."""
    return _HTML(_start(body[:_SNIFFED])) is not None


def read_sitemap(body: bytes, *, content_type: str, url: str) -> Sitemap:
    """Return the addresses that a sitemap (XML, text, either in gzip) or a feed names.

    ``content_type`` is the header as received, possibly empty: only its charset counts, for XML
    without a declared one. Relative addresses are joined with ``url``, or with ``xml:base`` of the
    root or entry. Names of elements decide, not their namespaces; but an element with another
    prefix (``image:loc``) does not count. Alternates of a page in other languages are entries too.

    All or nothing: a body that does not parse to its end has no entries.

    Raises:
        SitemapError: see ``SitemapFault``; the message is for the operator and names the place.
        ValueError: ``url`` is not absolute.

    Source: ADR 17; sitemaps.org/protocol.html; RSS 2.0; RSS 1.0, section 5; RFC 4287;
    RFC 7303, section 3; docs/attacks.md, ATT-28, ATT-30 and ATT-31.
    """
    base = document_base_url(url)
    name = str(base)
    stream = _unpacked(body, name)
    head = stream.read(_PORTION)
    stream.seek(0)
    start = _start(head)
    if head.startswith(_GZIP):
        raise _stranger(f"{name} is gzip within gzip: pack the sitemap once")
    if _HTML(start):
        raise _stranger(
            f"{name} is an HTML page, not a sitemap: give the address of the sitemap itself, and"
            " check whether the server answers with an error page instead"
        )
    if start.lstrip().startswith("<"):
        return XmlReader(base).read(_texts(stream, _charset(head, content_type)))
    return _read_text(_texts(stream, _bom_charset(head) or "utf-8"), base)


def _start(head: bytes) -> str:
    """Return the beginning of a body, in which only the ASCII characters are certain."""
    charset = _bom_charset(head)
    return head.decode(charset, "replace") if charset else head.decode("latin-1")


def _bom_charset(head: bytes) -> str | None:
    return next((charset for bom, charset in _BOMS if head.startswith(bom)), None)


def _charset(head: bytes, content_type: str) -> str:
    """Return the codec of XML: BOM, declaration, Content-Type, UTF-8.

    The declaration comes before the header, unlike in RFC 7303: it was written for the file, while
    the header is a server's default.
    """
    bom = _bom_charset(head)
    if bom:
        return bom
    declared = _DECLARED(head)
    if declared:
        codec = resolve_encoding(declared[1].decode("ascii"))
    else:
        codec = http_content_type_encoding(content_type)
    return codec if codec in _CODECS else "utf-8"


def _texts(stream: BytesIO, charset: str) -> Iterator[str]:
    """Decode a stream in portions. Raises UnicodeError at the first byte that does not fit."""
    decoder = codecs.getincrementaldecoder(charset)()
    while portion := stream.read(_PORTION):
        yield decoder.decode(portion)
    yield decoder.decode(b"", True)


def _stranger(message: str) -> SitemapError:
    return SitemapError(message, SitemapFault.NOT_A_SITEMAP)


def _unpacked(body: bytes, name: str) -> BytesIO:
    """Return a body, unpacked if it is gzip: at most ``MAX_SITEMAP`` bytes, checked."""
    if not body.startswith(_GZIP):
        return _bounded(BytesIO(body), len(body), name)
    packed, unpacked = BytesIO(body), BytesIO()
    member, members = zlib.decompressobj(_GZIP_ONLY), 1
    data = packed.read(_PACKED)
    try:
        while data:
            if member.eof:
                member, members = zlib.decompressobj(_GZIP_ONLY), members + 1
            if members > MAX_MEMBERS:
                raise _bad_gzip(name, f"more than {MAX_MEMBERS:,} members")
            unpacked.write(member.decompress(data))
            _bounded(unpacked, unpacked.tell(), name)
            data = member.unused_data or packed.read(_PACKED)
    except zlib.error as error:
        raise _bad_gzip(name, str(error)) from error
    if not member.eof:
        raise _bad_gzip(name, "it is cut")
    unpacked.seek(0)
    return unpacked


def _bad_gzip(name: str, why: str) -> SitemapError:
    return SitemapError(
        f"{name} is gzip that cannot be unpacked to its end ({why}), so nothing was read from it:"
        " pack it again, and publish it when it is complete",
        SitemapFault.BROKEN,
    )


def _bounded(stream: BytesIO, size: int, name: str) -> BytesIO:
    if size > MAX_SITEMAP:
        raise sitemap_too_large(name, f"{MAX_SITEMAP:,} bytes, unpacked")
    return stream


def _read_text(texts: Iterable[str], base: can_ada.URL) -> Sitemap:
    """Read a text sitemap: only addresses, one a line. Blank lines and comments (#) are allowed.

    Source: sitemaps.org/protocol.html, "Other Sitemap formats".
    """
    addresses = SitemapAddresses()
    empty = True
    try:
        for number, line in enumerate(_lines(texts), start=1):
            if number > MAX_ELEMENTS:
                raise sitemap_too_large(str(base), f"{MAX_ELEMENTS:,} lines")
            if not line or line.startswith("#"):
                continue
            if not WEB(line):
                raise _stranger(
                    f"{base} is neither XML nor a list of addresses: line {number} is no http(s)"
                    " address. Write one a line and nothing else, or give the address of the"
                    " sitemap itself"
                )
            empty = False
            addresses.add(join_url(base, line))
    except UnicodeError as error:
        raise _stranger(
            f"{base} is neither XML nor UTF-8 text: give the address of the sitemap itself"
        ) from error
    if empty:
        raise _stranger(f"{base} names no address at all: check whether the server wrote it")
    return addresses.sitemap(SitemapKind.TEXT)


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield lines without white space around them; a long one is cut beyond an address's limit."""
    rest = ""
    for text in texts:
        *lines, rest = (rest + text).split("\n")
        yield from map(str.strip, lines)
        rest = rest.lstrip()[: MAX_TEXT + 1]
    yield rest.strip()

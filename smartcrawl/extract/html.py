"""What a body says: text, headings, links, images and metadata."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from smartcrawl.extract.charset import decode
from smartcrawl.extract.language import SAMPLE, language
from smartcrawl.extract.links import MAX_LINKS, base_url, resolve
from smartcrawl.extract.reader import Seen, read
from smartcrawl.extract.robots import robots_directives
from smartcrawl.extract.sections import Span, line, sections
from smartcrawl.items import Document, Section
from smartcrawl.urls import join

__all__ = [
    "HTML_TYPES",
    "MAX_LINKS",
    "TEXT_TYPES",
    "media_type",
    "parse",
    "parse_text",
    "robots_directives",
]

HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
TEXT_TYPES: Final = frozenset({"text/plain"})

MAX_TITLE: Final = 200  #: characters of a title taken from plain text
_ENOUGH: Final = 200  #: characters of text that make ``<main>`` or ``<article>`` the text
_SHARE: Final = 4  #: or one part in so many of all text

_TYPE: Final = re.compile(r"\s*([\w.+-]+/[\w.+-]+)\s*(?:[;,]|$)")
_UNKNOWN: Final = frozenset(
    {"application/octet-stream", "application/unknown", "unknown/unknown", "binary/octet-stream"}
)
_SNIFFED: Final = 4_096  #: bytes
_HTML_START: Final = re.compile(
    rb"(?>\s+|<!--.*?-->|<\?xml[^>]*>)*+"
    rb"<(?:!doctype\s+html|(?:html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)"
    rb"(?=[\s/>]))",
    re.IGNORECASE | re.DOTALL,
)
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
#: How files begin that no page begins like (MIME Sniffing Standard, section 6).
_SIGNATURES: Final = (
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x7fELF", "application/x-executable"),
    (b"\x00asm", "application/wasm"),
)
_FIRST_BYTES: Final = frozenset(mark[:1] for mark, _ in _SIGNATURES)
_WIDE_BOMS: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def parse(body: bytes, *, content_type: str, url: str) -> Document:
    """Return what an HTML or XHTML page says.

    ``content_type`` is the header as received, possibly empty; ``url`` is the one that answered.
    The body is parsed once, broken markup repaired, and nothing in it makes this fail. The text is
    that of ``<main>`` or the only ``<article>`` if that holds enough, without navigation, page
    headers and the like; a page of nothing else keeps all its text. Links are those of the whole
    page, absolute, http(s), distinct, unfiltered.

    Raises:
        ValueError: ``url`` is not absolute.

    Source: R0-17, R0-18, R0-59, R1-25, RD-15, G-02; design.md 11.
    """
    page = base_url(url)
    mime = media_type(content_type, body)
    if not body:
        return Document(content_type=mime)
    charset, markup = decode(body, content_type, markup=True)
    seen = read(markup.encode())
    base = base_url(url, seen.base)
    text = _main_text(seen)
    found = resolve(seen.references.values(), base=base, page=page)
    return Document(
        title=_title(seen),
        description=seen.descriptions.get("description")
        or seen.descriptions.get("og:description", ""),
        language=language(_sample(text), seen.language),
        sections=text,
        images=tuple(seen.images.values()),
        links=found.links,
        links_cut=found.more or seen.cut,
        overlong=found.overlong,
        canonical=join(base, seen.canonical) if seen.canonical else None,
        noindex=seen.noindex,
        nofollow=seen.nofollow,
        charset=charset,
        content_type=mime,
    )


def parse_text(body: bytes, *, content_type: str, url: str) -> Document:
    """Return what a plain text says: one section, as it is laid out, and no links.

    The title is the first line that is not blank, up to 200 characters. ``url`` does not matter.

    Source: R0-59, R0-46.
    """
    mime = media_type(content_type, body)
    charset, text = decode(body, content_type, markup=False)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    kept = "\n".join(row.rstrip() for row in text.split("\n")).strip("\n")
    if not kept:
        return Document(content_type=mime)
    return Document(
        title=line(kept.partition("\n")[0])[:MAX_TITLE].rstrip(),
        language=language(kept[:SAMPLE]),
        sections=(Section(0, "", kept),),
        charset=charset,
        content_type=mime,
    )


def media_type(content_type: str, body: bytes) -> str:
    """Return the MIME type of a body, without parameters and in lower case.

    The header is believed, unless it is missing, says "unknown" (``application/octet-stream`` is
    what servers say of files they do not know), calls bytes ``text/plain`` that are none, or
    calls HTML what begins like a file of another type. Then the first 4,096 bytes tell: HTML,
    XML, PDF, text, another signature, or else ``application/octet-stream``.

    Source: MIME Sniffing Standard, sections 7.1 and 7.2; libraries.md 5 (XHTML begins as XML).
    """
    match = _TYPE.match(content_type)
    named = match[1].lower() if match else ""
    if named in _UNKNOWN:
        named = ""
    start = body[:_SNIFFED]
    if named in HTML_TYPES:
        return _signed(start) or named
    if named and named != "text/plain":
        return named
    wide = _WIDE_BOMS.get(start[:2])
    if wide is not None:
        start = start[2:].decode(wide, "replace").encode()
    start = start.removeprefix(b"\xef\xbb\xbf")
    if signed := _signed(start):
        return signed
    if _BINARY.search(start):
        return "application/octet-stream"
    return named or _sniff(start)


def _signed(start: bytes) -> str:
    """Return the type that the first bytes of a file can only mean, or an empty string."""
    if start[:1] not in _FIRST_BYTES:
        return ""
    return next((mime for mark, mime in _SIGNATURES if start.startswith(mark)), "")


def _sniff(start: bytes) -> str:
    if _HTML_START.match(start):
        return "text/html"
    if start.lstrip().startswith(b"<?xml"):
        return "text/html" if b"//www.w3.org/1999/xhtml" in start else "application/xml"
    return "text/plain" if start.strip() else "application/octet-stream"


def _title(seen: Seen) -> str:
    title = seen.titles.get("title") or seen.titles.get("og:title", "")
    if title:
        return title
    first = (
        line("".join(seen.tokens[start:end])) for start, end, level in seen.headings if level == 1
    )
    return next(filter(None, first), "")


def _main_text(seen: Seen) -> tuple[Section, ...]:
    """Return the text of the main region, else all without boilerplate, else all."""
    tokens, headings, boilerplate = seen.tokens, seen.headings, seen.boilerplate
    regions = seen.mains or (seen.articles if len(seen.articles) == 1 else [])
    region: tuple[Section, ...] = ()
    if regions:
        region = sections(tokens, headings, boilerplate + _around(regions, len(tokens)))
        if _size(region) >= _ENOUGH:
            return region
    text = sections(tokens, headings, boilerplate)
    if region and _SHARE * _size(region) >= _size(text):
        return region
    return text or sections(tokens, headings, ())


def _around(spans: list[Span], end: int) -> list[Span]:
    edges = [0, *(edge for span in sorted(spans) for edge in span), end]
    return list(pairwise(edges))[::2]


def _size(text: tuple[Section, ...]) -> int:
    return sum(len(section.heading) + len(section.text) for section in text)


def _sample(text: tuple[Section, ...]) -> str:
    """Return enough of the text to tell its language."""
    parts: list[str] = []
    size = 0
    for section in text:
        parts += (section.heading, section.text[:SAMPLE])
        size += len(section.heading) + len(section.text)
        if size >= SAMPLE:
            break
    return "\n".join(parts)

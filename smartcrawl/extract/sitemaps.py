"""Sitemaps, feeds and llms.txt, read as streams and within bounds."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum, auto
from io import BytesIO
from itertools import chain
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from xml.parsers import expat

import can_ada
from w3lib.encoding import http_content_type_encoding, resolve_encoding

from smartcrawl.extract.links import document_base_url
from smartcrawl.extract.sniff import CODECS
from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.urls import join_url

MAX_ENTRIES: Final = 50_000  #: addresses read from one sitemap
WEB: Final = re.compile(r"https?://\S+", re.IGNORECASE).fullmatch  #: the form of an address
MAX_LASTMOD: Final = 64  #: characters
MAX_TEXT: Final = 4_096  #: characters of one element, or of one line
MAX_ELEMENTS: Final = 2_000_000  #: or lines of text; a genuine element has 40 bytes or more


class SitemapKind(StrEnum):
    """The format of a sitemap."""

    URLSET = auto()  #: sitemaps.org, of pages
    INDEX = auto()  #: sitemaps.org, of other sitemaps
    TEXT = auto()  #: one address a line
    LLMS_TXT = auto()  #: Markdown with links
    RSS = auto()  #: 0.9 to 2.0
    ATOM = auto()

    @property
    def is_feed(self) -> bool:
        """Whether it names new pages only, not all pages."""
        return self in (SitemapKind.RSS, SitemapKind.ATOM)


class SitemapFault(StrEnum):
    """Reasons to take nothing from a body."""

    XML_FORBIDDEN = auto()  #: it has a document type declaration
    TOO_LARGE = auto()  #: more than ``MAX_SITEMAP`` bytes, unpacked, or ``MAX_ELEMENTS``
    BROKEN = auto()  #: XML that is not well-formed or has another root, or truncated gzip
    NOT_A_SITEMAP = auto()  #: HTML, other text, other bytes, nothing


class SitemapError(SmartcrawlError):
    """A body that is no sitemap, or cannot be read to its end; nothing of it counts."""

    def __init__(self, message: str, kind: SitemapFault) -> None:
        super().__init__(message)
        self.kind = kind


class Entry(NamedTuple):
    """One address of a sitemap.

    ``url`` is one to request (see ``urls.request_url``). ``lastmod`` is as written, at most 64
    characters, empty when there is none; it need not be a date.
    """

    url: str
    lastmod: str


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The entries of a sitemap or a feed, and whether they are complete."""

    kind: SitemapKind
    entries: tuple[Entry, ...]  #: distinct by address, in document order; of an index: sitemaps
    cut: bool  #: whether there are more than ``MAX_ENTRIES``
    dropped: int  #: entries without an http(s) address of at most 2,083 characters


@dataclass(slots=True)
class SitemapAddresses:
    """The addresses found so far, in document order, each with its first date."""

    lastmods: dict[str, str] = field(default_factory=dict)  #: by address
    cut: bool = False
    dropped: int = 0

    def add(self, url: str | None, lastmod: str = "") -> None:
        """Add an entry; None stands for one without an address."""
        if url is None:
            self.dropped += 1
        elif not (known := self.lastmods.get(url)):
            if known is None and len(self.lastmods) >= MAX_ENTRIES:
                self.cut = True
            else:
                self.lastmods[url] = lastmod

    def sitemap(self, kind: SitemapKind) -> Sitemap:
        """Return the sitemap of these addresses."""
        entries = tuple(Entry(url, lastmod) for url, lastmod in self.lastmods.items())
        return Sitemap(kind, entries, self.cut, self.dropped)


def join_sitemap_link(base: can_ada.URL, href: str) -> str | None:
    """Return ``href`` as a URL to request; None for an empty one, not the sitemap itself."""
    return join_url(base, href) if href else None


def sitemap_too_large(name: str, bound: str) -> SitemapError:
    """Return the error of a sitemap beyond a limit."""
    return SitemapError(
        f"{name} has more than {bound}: split it, and name its parts in a sitemap index",
        SitemapFault.TOO_LARGE,
    )


MAX_DEPTH: Final = 100  #: open elements
MAX_TAG: Final = 1024 * 1024  #: bytes of one tag or comment; expat's time grows with its square

_SHOWN: Final = 64  #: characters of a name in a message
_DECLARATION: Final = re.compile(r"\s*<\?xml\s[^>]*\?>").match
RSS_1: Final = r"purl\.org/rss/1\.|netscape\.com/rdf/simple/"  #: in the namespace of RSS 1.0
#: The ends of a CDATA section, and each ampersand that begins no reference.
_BARE: Final = re.compile(r"<!\[CDATA\[|\]\]>|&(?!#?\w{1,32};)", re.ASCII)
_AHEAD: Final = 40  #: characters that decide whether a match is one
_RSS_1_NAMESPACE: Final = re.compile(RSS_1).search


class _Format(NamedTuple):
    """Places of addresses and dates in one format, by local names; "@" stands for attributes."""

    kind: SitemapKind
    path: tuple[str, ...]  #: elements from the root to an entry
    address: tuple[str, ...]  #: best first
    lastmod: tuple[str, ...]  #: best first


# fmt: off
_FORMATS: Final = {
    row.path[0]: row
    for row in (
        _Format(SitemapKind.URLSET, ("urlset", "url"),           ("loc",),            ("lastmod",)),
        _Format(SitemapKind.INDEX,  ("sitemapindex", "sitemap"), ("loc",),            ("lastmod",)),
        _Format(SitemapKind.RSS,    ("rss", "channel", "item"),  ("link", "guid"),    ("pubDate", "date")),  # noqa: E501  # a table
        _Format(SitemapKind.RSS,    ("RDF", "item"),             ("link", "@about"),  ("pubDate", "date")),  # noqa: E501
        _Format(SitemapKind.ATOM,   ("feed", "entry"),           ("@href",),          ("updated", "published")),  # noqa: E501
    )
}
# fmt: on


@dataclass(slots=True)
class _Draft:
    """An open entry, with the contents of its children so far."""

    base: can_ada.URL
    prefix: str
    texts: dict[str, str] = field(default_factory=dict)  #: by local name
    alternates: dict[str, None] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Add the text of a child; the first of a name counts, unless it is empty."""
        self.texts[name] = self.texts.get(name) or text.strip()


class XmlReader:
    """One walk over an XML sitemap, without a tree.

    Expat resolves no namespaces here, so that undeclared prefixes are no error, and reads UTF-8
    only, because it supports few charsets. It has no handler for external entities and reads none.
    """

    def __init__(self, base: can_ada.URL) -> None:
        self._name = str(base)
        self._base = base
        self._format: _Format | None = None
        self._wanted: frozenset[str] = frozenset()  # children of an entry whose text is read
        self._addresses = SitemapAddresses()
        self._path: list[str] = []  # local names of open elements
        self._elements = 0
        self._draft: _Draft | None = None
        self._field = ""  # the child of the draft whose text is read
        self._text: list[str] = []
        self._length = 0  # characters of it, those beyond MAX_TEXT included
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True  # one call for each text, not for each line
        parser.StartDoctypeDeclHandler = self._doctype  # no entity is declared outside of it
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end

    def read(self, texts: Iterable[str]) -> Sitemap:
        """Return the sitemap, if the document is well-formed to its end."""
        try:
            self._feed(texts)
        except expat.ExpatError as error:
            what = f"it is not well-formed XML ({expat.ErrorString(error.code)})"
            raise self._broken(what) from error
        except UnicodeError as error:
            what = "what follows is not in the charset that it names, or not in UTF-8"
            raise self._broken(what) from error
        finally:
            del self._parser  # its handlers refer to this object
        assert self._format is not None, "a well-formed document has a root"
        return self._addresses.sitemap(self._format.kind)

    def _feed(self, texts: Iterable[str]) -> None:
        parser, fed = self._parser, 0
        rest = iter(texts)
        declared = chain([_without_declaration(next(rest, ""))], rest)
        for text in escaped_ampersands(declared):
            portion = text.encode()
            parser.Parse(portion, False)
            fed += len(portion)
            if fed - parser.CurrentByteIndex > MAX_TAG:  # expat scans it again each time
                raise self._broken("it has a tag or a comment of more than 1 MiB")
        parser.Parse(b"", True)

    def _doctype(self, *_: object) -> None:
        raise self._error(
            "it has a document type declaration, which is never read, because it can fill the"
            " memory or name files of this machine: remove <!DOCTYPE ...>",
            SitemapFault.XML_FORBIDDEN,
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        prefix, _, local = name.rpartition(":")
        path = self._path
        path.append(local)
        self._elements += 1
        self._parser.CharacterDataHandler = None
        if self._format is None:
            self._root(local, attributes)
        elif len(path) > MAX_DEPTH:
            raise self._broken(f"more than {MAX_DEPTH} elements are open")
        elif self._elements > MAX_ELEMENTS:
            raise sitemap_too_large(self._name, f"{MAX_ELEMENTS:,} elements")
        elif self._draft is None:
            if tuple(path) == self._format.path:
                self._draft = self._opened(prefix, attributes)
        elif len(path) == len(self._format.path) + 1:
            self._child(self._format, self._draft, prefix, local, attributes)

    def _root(self, local: str, attributes: dict[str, str]) -> None:
        rdf = local == "RDF" and not any(map(_RSS_1_NAMESPACE, attributes.values()))
        self._format = None if rdf else _FORMATS.get(local)
        if self._format is None:
            raise self._error(
                f"its root is <{local[:_SHOWN]}>, which is neither a sitemap nor a feed: give"
                " the address of the sitemap itself",
                SitemapFault.NOT_A_SITEMAP if local == "html" else SitemapFault.BROKEN,
            )
        self._wanted = frozenset(self._format.address + self._format.lastmod)
        self._base = document_base_url(self._name, attributes.get("xml:base"))

    def _opened(self, prefix: str, attributes: dict[str, str]) -> _Draft:
        base = self._base
        if "xml:base" in attributes:
            base = document_base_url(str(base), attributes["xml:base"])
        draft = _Draft(base, prefix)
        for name, value in attributes.items():
            if name.rpartition(":")[2] == "about":
                draft.add("@about", value)
        return draft

    def _child(
        self, form: _Format, draft: _Draft, prefix: str, local: str, attributes: dict[str, str]
    ) -> None:
        """Take the link in a child of an entry, or begin to read its text."""
        own = prefix in ("", draft.prefix) or local == "date"  # image:loc is no loc; dc:date is
        if local == "link" and form.kind is SitemapKind.URLSET:  # xhtml:link
            if _alternate(attributes, ""):
                self._alternate(draft, attributes.get("href", ""))
        elif local == "link" and form.kind is SitemapKind.ATOM:
            if own and _alternate(attributes, "alternate"):
                draft.add("@href", attributes.get("href", ""))
        elif local == "guid" and attributes.get("isPermaLink", "").strip().lower() == "false":
            pass
        elif own and local in self._wanted:
            self._field, self._text, self._length = local, [], 0
            self._parser.CharacterDataHandler = self._characters

    def _alternate(self, draft: _Draft, href: str) -> None:
        url = join_sitemap_link(draft.base, href)
        if url is None:
            self._addresses.add(None)
        elif len(draft.alternates) <= MAX_ENTRIES:  # one more than the limit, as a sign of the cut
            draft.alternates[url] = None

    def _characters(self, text: str) -> None:
        self._length += len(text)
        if self._length <= MAX_TEXT:
            self._text.append(text)

    def _end(self, _: str) -> None:
        form, draft = self._format, self._draft
        depth = len(self._path)
        self._path.pop()
        if form is None or draft is None:
            return
        below = depth - len(form.path)
        if below == 0:
            self._close(form, draft)
        elif below == 1 and self._field:
            self._parser.CharacterDataHandler = None
            text = "".join(self._text) if self._length <= MAX_TEXT else ""
            if self._field != "guid" or WEB(text.strip()):
                draft.add(self._field, text)
            self._field = ""
        elif below == 2 and self._field:  # an element within a text, which is not part of it
            self._parser.CharacterDataHandler = self._characters

    def _close(self, form: _Format, draft: _Draft) -> None:
        """Take the entry that ends here."""
        self._draft = None
        texts = draft.texts
        address = next(filter(None, map(texts.get, form.address)), "")
        lastmod = next(filter(None, map(texts.get, form.lastmod)), "")
        self._addresses.add(join_sitemap_link(draft.base, address), lastmod[:MAX_LASTMOD])
        for url in draft.alternates:
            self._addresses.add(url)

    def _broken(self, what: str) -> SitemapError:
        return self._error(
            f"{what}. Nothing was read from it: have it written again, and published when it is"
            " complete",
            SitemapFault.BROKEN,
        )

    def _error(self, what: str, kind: SitemapFault) -> SitemapError:
        line, column = self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1
        return SitemapError(f"{self._name}, line {line}, column {column}: {what}", kind)


def escaped_ampersands(texts: Iterable[str]) -> Iterator[str]:
    """Yield XML in which each ampersand that begins no reference is written as ``&amp;``.

    Shops and forums write addresses into sitemaps as they are. Nothing else is repaired: what
    looks like a reference stays one, and CDATA sections stay as they are.

    >>> "".join(escaped_ampersands(["<loc>/?a=1&", "b=2&amp;c&d;</loc><![CDATA[&]]>"]))
    '<loc>/?a=1&amp;b=2&amp;c&d;</loc><![CDATA[&]]>'
    """
    rest, literal = "", False
    for text, is_last in _with_last(texts):
        rest += text
        end = len(rest) if is_last else max(0, len(rest) - _AHEAD)
        parts, done = [], 0
        for found in _BARE.finditer(rest):
            if found.start() >= end:
                break
            bare = found[0] == "&" and not literal
            literal = literal if found[0] == "&" else found[0] != "]]>"
            parts += [rest[done : found.start()], "&amp;" if bare else found[0]]
            done = found.end()
        end = max(done, end)
        yield "".join((*parts, rest[done:end]))
        rest = rest[end:]


def _with_last(texts: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each text, and an empty one at the end, with whether it is that."""
    for text in texts:
        yield text, False
    yield "", True


def _without_declaration(text: str) -> str:
    """Return XML with blanks for its declaration, which may then follow white space."""
    declaration = _DECLARATION(text)
    if declaration is None:
        return text
    return re.sub(r"\S", " ", declaration[0]) + text[declaration.end() :]


def _alternate(attributes: dict[str, str], default: str) -> bool:
    return "alternate" in attributes.get("rel", default).lower().split()


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
                    f"{base} is neither XML nor a list of addresses: line {number} is not "
                    "an http(s) address. Write one address a line and nothing else, or "
                    "give the address of the sitemap itself"
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


LLMS_TXT: Final = "/llms.txt"  #: its path
MAX_LLMS_TXT: Final = 2 * 1024 * 1024  #: bytes

#: Media types that servers give text files without a type of their own, and Markdown.
_TYPES: Final = frozenset(
    {"", "text/plain", "text/markdown", "text/x-markdown", "application/octet-stream"}
)
_FENCE: Final = re.compile(r" {0,3}(```|~~~)").match
#: What counts in a line, without backtracking: escapes, brackets, addresses in angle brackets.
_TOKENS: Final = re.compile(r"\\.|`+|!\[|\[|\]\(|\]|<(https?://[^\s<>]{1,4096})>", re.IGNORECASE)
#: The target of a link, behind its bracket: in angle brackets, or with balanced parentheses.
_TARGET: Final = re.compile(
    rf"[ \t]{{0,8}}(?:<([^<>]{{1,{MAX_TEXT}}})>"
    rf"|((?:[^\s()<>\\]|\\.|\([^\s()<>]{{0,200}}\)){{1,{MAX_TEXT}}}+))(?=[\s)])"
).match
_DEFINITION: Final = re.compile(rf" {{0,3}}\[[^\[\]]{{1,200}}\]:[ \t]{{1,8}}<?(\S{{1,{MAX_TEXT}}})")
_ESCAPE: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_BINARY: Final = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f]")


def is_llms_txt(url: str) -> bool:
    """Whether an address is that of an llms.txt.

    >>> is_llms_txt("https://a.example/docs/llms.txt?v=1"), is_llms_txt("https://a.example/llms")
    (True, False)
    """
    return urlsplit(url).path.endswith(LLMS_TXT)


def parsed_llms_txt_url(url: str) -> str:
    """Return the address of the llms.txt of a site, by one of its pages.

    >>> parsed_llms_txt_url("https://a.example:8443/docs/?q=1")
    'https://a.example:8443/llms.txt'
    """
    return urlsplit(url)._replace(path=LLMS_TXT, query="", fragment="").geturl()


def read_llms_txt(body: bytes, *, content_type: str, url: str) -> Sitemap:
    """Return the addresses to which the links of a Markdown text lead, without those of images.

    Links in code do not count. Relative addresses are joined with ``url``; those of other schemes
    than http and https are dropped.

    Raises:
        SitemapError: TOO_LARGE beyond ``MAX_LLMS_TXT``; NOT_A_SITEMAP for HTML, another media type,
            bytes that are no UTF-8 text, and a text without links.
        ValueError: ``url`` is not absolute.

    Source: https://llmstxt.org/, "Format"; CommonMark 0.31, sections 6.3 and 6.5.
    """
    base = document_base_url(url)
    if len(body) > MAX_LLMS_TXT:
        message = f"{base} has more than {MAX_LLMS_TXT:,} bytes: give the pages in a sitemap"
        raise SitemapError(message, SitemapFault.TOO_LARGE)
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in _TYPES or looks_like_html_page(body):
        raise _stranger(f"{base} is {media_type or 'HTML'}, not Markdown or plain text")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _stranger(f"{base} is not UTF-8 text") from error
    if _BINARY.search(text):
        raise _stranger(f"{base} has control characters, so it is not text")
    addresses = SitemapAddresses()
    for href in _hrefs(text):
        found = join_url(base, href)
        if found != str(base):
            addresses.add(found)
    if not addresses.lastmods:
        raise _stranger(f"{base} has no link to a page: check whether the server wrote it")
    return addresses.sitemap(SitemapKind.LLMS_TXT)


def _hrefs(text: str) -> Iterator[str]:
    """Yield the targets of the links in a text, line by line; fenced code has none."""
    fence = ""
    for line in text.splitlines():
        if found := _FENCE(line):
            fence = "" if found[1] == fence else fence or found[1]
        elif not fence:
            if defined := _DEFINITION.match(line):
                yield defined[1].removesuffix(">")
            else:
                yield from _links(line)


def _links(line: str) -> Iterator[str]:
    """Yield the targets of inline links and of addresses in angle brackets, in order."""
    images: list[bool] = []  #: of each open bracket, whether it is that of an image
    code = ""  #: the ticks that end inline code
    for token in _TOKENS.finditer(line):
        word = token[0]
        if word.startswith("`"):
            code = "" if word == code else code or word
        elif code or word.startswith("\\"):
            continue
        elif token[1]:
            yield token[1]
        elif word.endswith("["):
            images.append(word == "![")
        elif word.startswith("]") and images:
            is_image = images.pop()
            target = _TARGET(line, token.end()) if word == "](" else None
            if target is not None and not is_image:
                yield _ESCAPE.sub(r"\1", target[1] or target[2])

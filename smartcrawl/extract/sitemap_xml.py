"""XML sitemaps and feeds, read as a stream and within bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple
from xml.parsers import expat

import can_ada

from smartcrawl.extract.links import document_base_url
from smartcrawl.extract.sitemap_entries import (
    MAX_ELEMENTS,
    MAX_ENTRIES,
    MAX_LASTMOD,
    MAX_TEXT,
    WEB,
    Sitemap,
    SitemapAddresses,
    SitemapError,
    SitemapFault,
    SitemapKind,
    join_sitemap_link,
    sitemap_too_large,
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

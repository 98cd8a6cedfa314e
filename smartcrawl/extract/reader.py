"""One walk over the markup of a page, while it is parsed and without a tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Final, assert_never

from lxml import etree

from smartcrawl.extract import elements
from smartcrawl.extract.links import MAX_LINKS, Reference, refresh_target
from smartcrawl.extract.robots import robots_directives
from smartcrawl.extract.sections import BREAK, CELL, ROW, Heading, Span, keep_layout, line
from smartcrawl.items import Image

MAX_IMAGES: Final = 200
MAX_ANCHOR: Final = 200  #: characters
MAX_DEPTH: Final = 512  #: open elements, as in Blink; the parser's time grows with them

_PORTION: Final = 32_768  #: bytes; the parser heeds an exception only between portions

#: Attributes of an element, names in lower case.
Attributes = Mapping[str, str]

_RELATIONS: Final = ("canonical", "next", "prev", "alternate")

# Every start and end tag but those that hold text raw, links and images: what is left of a page
# whose elements are nested beyond MAX_DEPTH.
_STRUCTURE: Final = re.compile(
    rb"</?(?!(?:a|area|base|frame|html|iframe|img|link|meta|script|style|textarea|title)"
    rb"(?![\w:.-]))[a-z][^<>]*>?",
    re.IGNORECASE,
)


class _Region(Enum):
    """What a span of tokens is for."""

    BOILERPLATE = auto()
    MAIN = auto()
    ARTICLE = auto()
    LAYOUT = auto()  #: white space counts
    MUTED = auto()  #: no text of the page
    TITLE = auto()


class _TooDeepError(Exception):
    """More than ``MAX_DEPTH`` elements are open."""


def read(markup: bytes) -> Reader:
    """Parse ``markup`` (UTF-8) once and return what was seen in it.

    Broken markup is repaired as libxml2 does it, without limits on size. Where more than
    ``MAX_DEPTH`` elements are open at once, all structure but lines, links and images is dropped
    and the rest is read again, so that neither text nor links are lost.
    """
    reader = Reader()
    try:
        _feed(markup, reader)
    except _TooDeepError:
        reader = Reader()
        _feed(_STRUCTURE.sub(b"<br>", markup), reader)
    return reader


def _feed(markup: bytes, reader: Reader) -> None:
    target: Any = reader  # stubs, where installed, know an older protocol
    parser = etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True, no_network=True)
    with suppress(etree.XMLSyntaxError):  # nothing in it: "no element found"
        for start in range(0, len(markup), _PORTION):
            parser.feed(markup[start : start + _PORTION])
        parser.close()


class Reader:
    """Target of lxml's parser: links, images, metadata, and the text as tokens.

    Text becomes a list of tokens with marks for lines, cells and rows. What lies in boilerplate,
    ``<main>`` or ``<article>`` is remembered as spans of tokens; which of them count is decided
    when all has been seen.
    """

    __slots__ = (
        "_anchor", "_closing", "_depth", "_heading", "_images", "_muted", "_open", "_words",
        "articles", "base", "boilerplate", "canonical", "data", "descriptions", "headings",
        "language", "mains", "nofollow", "noindex", "references", "titles", "tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.headings: list[Heading] = []
        self.boilerplate: list[Span] = []
        self.mains: list[Span] = []
        self.articles: list[Span] = []
        self.references: dict[str, Reference] = {}
        self.titles: dict[str, str] = {}  #: by source: "title", "og:title"
        self.descriptions: dict[str, str] = {}  #: by source: "description", "og:description"
        self.base: str | None = None
        self.canonical: str | None = None
        self.language = ""
        self.noindex = False
        self.nofollow = False
        self.data = self.tokens.append  # called by the parser for each text
        self._depth = 0
        self._open: list[tuple[int, _Region, int]] = []  # depth, region, first token
        self._closing = 0  # depth of the innermost open region
        self._muted = False
        self._heading: tuple[int, int] | None = None  # first token, level
        self._anchor: tuple[Reference | None, bool, int, str] | None = None
        self._images: dict[str, Image] = {}
        self._words: dict[str, bool] = {}

    @property
    def images(self) -> tuple[Image, ...]:
        """The distinct images in document order."""
        return tuple(self._images.values())

    def start(self, tag: str, attributes: Attributes) -> None:
        """Take a start tag; called by the parser."""
        self._depth = depth = self._depth + 1
        if depth > MAX_DEPTH:
            raise _TooDeepError
        opened = _START.get(tag)
        if opened is not None:
            opened(self, tag, attributes)

    def end(self, tag: str) -> None:
        """Take an end tag, written or implied; called by the parser."""
        closed = _END.get(tag)
        if closed is not None:
            closed(self)
        if self._depth == self._closing:
            self._close_region()
        self._depth -= 1

    def close(self) -> None:
        """Take the end of the page; called by the parser."""

    # regions

    def _open_region(self, region: _Region) -> None:
        if self._muted or self._is_open(region):
            return
        self._open.append((self._depth, region, len(self.tokens)))
        self._closing = self._depth

    def _is_open(self, region: _Region) -> bool:
        return any(region is other for _, other, _ in self._open)

    def _close_region(self) -> None:
        tokens = self.tokens
        while self._open and self._open[-1][0] == self._depth:
            _, region, start = self._open.pop()
            span = (start, len(tokens))
            match region:
                case _Region.BOILERPLATE:
                    self.boilerplate.append(span)
                case _Region.MAIN:
                    self.mains.append(span)
                case _Region.ARTICLE:
                    self.articles.append(span)
                case _Region.LAYOUT:
                    tokens[start:] = map(keep_layout, tokens[start:])
                case _Region.MUTED | _Region.TITLE:
                    if region is _Region.TITLE:
                        self.titles.setdefault("title", line("".join(tokens[start:])))
                    del tokens[start:]
                    self._muted = False
                case _:
                    assert_never(region)
        self._closing = self._open[-1][0] if self._open else 0

    def _mute(self, tag: str, attributes: Attributes) -> None:
        if tag == "iframe":
            self._refer(attributes.get("src"), "frame")
        if self._muted or (tag == "template" and "shadowrootmode" in attributes):
            return  # a declarative shadow root is shown
        self._open_region(_Region.TITLE if tag == "title" else _Region.MUTED)
        self._muted = True

    # text

    def _break(self) -> None:
        self.tokens.append(BREAK)

    def _open_block(self, tag: str, attributes: Attributes) -> None:
        self.tokens.append(BREAK)
        if attributes:
            role = attributes.get("role")
            if (
                "hidden" in attributes
                or (role is not None and role.lower() in elements.ROLES)
                or attributes.get("aria-hidden") == "true"
            ):
                self._open_region(_Region.BOILERPLATE)
            elif role == "main":
                self._open_content(_Region.MAIN)

    def _open_content(self, region: _Region) -> None:
        if not self._is_open(_Region.BOILERPLATE):
            self._open_region(region)

    def _open_main(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self._open_content(_Region.MAIN)

    def _open_article(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self._open_content(_Region.ARTICLE)

    def _open_container(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        if attributes:
            classes = attributes.get("class")
            name = attributes.get("id")
            if (classes and self._tells(classes)) or (
                # sections take their id from their heading, which may well be "Related"
                name and tag != "section" and not _is_section(classes) and self._tells(name)
            ):
                self._open_region(_Region.BOILERPLATE)

    def _tells(self, words: str) -> bool:
        known = self._words.get(words)
        if known is None:
            known = self._words[words] = not elements.WORDS.isdisjoint(words.lower().split())
        return known

    def _open_control(self, tag: str, attributes: Attributes) -> None:
        self._open_region(_Region.BOILERPLATE)

    def _open_aside(self, tag: str, attributes: Attributes) -> None:
        self.tokens.append(BREAK)
        self._open_region(_Region.BOILERPLATE)

    def _open_edge(self, tag: str, attributes: Attributes) -> None:
        """Header and footer belong to the site, or to the article around them."""
        self._open_container(tag, attributes)
        if not (self._is_open(_Region.MAIN) or self._is_open(_Region.ARTICLE)):
            self._open_region(_Region.BOILERPLATE)

    def _open_laid_out(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self._open_region(_Region.LAYOUT)

    def _open_heading(self, tag: str, attributes: Attributes) -> None:
        if self._muted:
            return
        self._close_heading()
        self._open_block(tag, attributes)
        self._heading = (len(self.tokens), elements.HEADINGS[tag])

    def _close_heading(self) -> None:
        if self._heading is not None and not self._muted:
            start, level = self._heading
            self.headings.append(Heading(start, len(self.tokens), level))
            self._heading = None
        self.tokens.append(BREAK)

    def _open_row(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self.tokens.append(ROW)

    def _close_row(self) -> None:
        self.tokens.append(ROW)

    def _close_cell(self) -> None:
        self.tokens.append(CELL)

    def _open_cell(self, tag: str, attributes: Attributes) -> None:
        if attributes:
            self._open_block(tag, attributes)

    # links and images

    def _refer(
        self, href: str | None, kind: str, rel: str = "", anchor: str = ""
    ) -> Reference | None:
        if href is None:
            return None
        href = href.partition("#")[0]
        if not href or href.isspace():
            return None
        nofollow = bool(rel) and "nofollow" in rel.lower().split()
        known = self.references.get(href)
        if known is None:
            if len(self.references) < 2 * MAX_LINKS:
                known = self.references[href] = Reference(href, kind, nofollow, anchor)
                return known
        elif not nofollow:
            known.nofollow = False
        return None

    def _open_anchor(self, tag: str, attributes: Attributes) -> None:
        self._close_anchor()
        href = attributes.get("href")
        if href is None:
            return
        rel = attributes.get("rel")
        reference = self._refer(href, "hyperlink", rel or "")
        if reference is not None:
            self._anchor = (reference, False, len(self.tokens), "")
        elif href[:1] == "#":
            marked = "headerlink" in attributes.get("class", "")
            self._anchor = (None, marked, len(self.tokens), "")

    def _close_anchor(self) -> None:
        if self._anchor is None:
            return
        reference, marked, start, alt = self._anchor
        self._anchor = None
        text = line("".join(self.tokens[start:]))
        if reference is not None:
            reference.anchor = (text or alt)[:MAX_ANCHOR].rstrip()
        elif marked or text in elements.PERMALINKS:
            self.tokens[start:] = [""] * (len(self.tokens) - start)

    def _open_area(self, tag: str, attributes: Attributes) -> None:
        alt = line(attributes.get("alt", ""))[:MAX_ANCHOR].rstrip()
        self._refer(attributes.get("href"), "hyperlink", attributes.get("rel", ""), alt)

    def _open_frame(self, tag: str, attributes: Attributes) -> None:
        self._refer(attributes.get("src"), "frame")

    def _open_image(self, tag: str, attributes: Attributes) -> None:
        alt = line(attributes.get("alt", ""))
        if self._anchor is not None and alt and not self._anchor[3]:
            self._anchor = (*self._anchor[:3], alt)
        if len(self._images) < MAX_IMAGES:
            source = _source(attributes)
            if source and source not in self._images:
                self._images[source] = Image(source, alt)

    # metadata

    def _open_base(self, tag: str, attributes: Attributes) -> None:
        if self.base is None and "href" in attributes and not self._muted:
            self.base = attributes["href"]

    def _open_document(self, tag: str, attributes: Attributes) -> None:
        self.language = (
            self.language or attributes.get("lang", "") or attributes.get("xml:lang", "")
        )

    def _open_relation(self, tag: str, attributes: Attributes) -> None:
        href = attributes.get("href")
        rel = attributes.get("rel", "").lower()
        relations = rel.split()
        if href is None or "stylesheet" in relations:
            return
        for kind in _RELATIONS:
            if kind in relations:
                self._refer(href, kind, rel, line(attributes.get("title", ""))[:MAX_ANCHOR])
                if kind == "canonical" and self.canonical is None:
                    self.canonical = href
                return

    def _open_meta(self, tag: str, attributes: Attributes) -> None:
        content = attributes.get("content")
        if content is None:
            return
        match (
            attributes.get("name")
            or attributes.get("property")
            or attributes.get("http-equiv")
            or ""
        ).lower():
            case "robots" | "smartcrawl":
                noindex, nofollow = robots_directives(content)
                self.noindex |= noindex
                self.nofollow |= nofollow
            case "description" | "og:description" as name:
                self.descriptions.setdefault(name, line(content))
            case "og:title":
                self.titles.setdefault("og:title", line(content))
            case "content-language":
                self.language = self.language or content.partition(",")[0].strip()
            case "refresh":
                self._refer(refresh_target(content), "refresh")


def _is_section(classes: str | None) -> bool:
    return classes is not None and "section" in classes.split()


def _source(attributes: Attributes) -> str:
    """Return the first address of an image that is not ``data:``, or an empty string."""
    candidates = [attributes.get("src", ""), attributes.get("data-src", "")]
    for name in ("srcset", "data-srcset"):
        candidates += attributes.get(name, "").split(None, 1)[:1]
    sources = (candidate.strip().rstrip(",") for candidate in candidates)
    return next((s for s in sources if s and s[:5].lower() != "data:"), "")


_START: Final[Mapping[str, Callable[[Reader, str, Attributes], None]]] = {
    **dict.fromkeys(elements.BLOCKS, Reader._open_block),
    **dict.fromkeys(elements.CONTAINERS, Reader._open_container),
    **dict.fromkeys(elements.ASIDES, Reader._open_aside),
    **dict.fromkeys(elements.EDGES, Reader._open_edge),
    **dict.fromkeys(elements.CONTROLS, Reader._open_control),
    **dict.fromkeys(elements.MUTED, Reader._mute),
    **dict.fromkeys(elements.LAID_OUT, Reader._open_laid_out),
    **dict.fromkeys(elements.HEADINGS, Reader._open_heading),
    **dict.fromkeys(elements.CELLS, Reader._open_cell),
    "main": Reader._open_main,
    "article": Reader._open_article,
    "tr": Reader._open_row,
    "a": Reader._open_anchor,
    "area": Reader._open_area,
    "frame": Reader._open_frame,
    "img": Reader._open_image,
    "base": Reader._open_base,
    "html": Reader._open_document,
    "link": Reader._open_relation,
    "meta": Reader._open_meta,
}
_END: Final[Mapping[str, Callable[[Reader], None]]] = {
    **dict.fromkeys(elements.BLOCKS | elements.CONTAINERS, Reader._break),
    **dict.fromkeys(elements.ASIDES | elements.EDGES | elements.LAID_OUT, Reader._break),
    **dict.fromkeys(elements.HEADINGS, Reader._close_heading),
    **dict.fromkeys(elements.CELLS, Reader._close_cell),
    "main": Reader._break,
    "article": Reader._break,
    "tr": Reader._close_row,
    "a": Reader._close_anchor,
}

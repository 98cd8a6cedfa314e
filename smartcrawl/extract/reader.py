"""The walk over the markup of a page: its text, regions, links and metadata, without a tree."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from functools import cache
from typing import Any, Final, NamedTuple, assert_never

import cssselect
from cssselect import parser as css
from lxml import etree

from smartcrawl.extract.class_words import class_words_mean
from smartcrawl.extract.images import MAX_ALT, ParsedImages
from smartcrawl.extract.links import MAX_LINKS, Reference, html_refresh_target
from smartcrawl.extract.sections import (
    BREAK,
    CELL,
    ROW,
    Heading,
    Span,
    TokenBlock,
    keep_text_layout,
    markup_line,
)
from smartcrawl.extract.spans import MAX_ID, MAX_SPANS, TokenSpan, span_target
from smartcrawl.model.documents import (
    CODE,
    DEFINITION,
    INLINE_CODE,
    LINK,
    LIST,
    PICTURE,
    PLACE,
    TABLE,
    Image,
)

# fmt: off

#: Elements without text of the page, or without visible text.
MUTED: Final = frozenset({
    "annotation", "annotation-xml", "iframe", "noembed", "noframes", "noscript", "script", "style",
    "svg", "template", "title",
})
#: Boilerplate, within a line.
CONTROLS: Final = frozenset({"button", "datalist", "option", "select", "textarea"})
#: Boilerplate, as a block.
ASIDES: Final = frozenset({"nav", "search"})
#: Boilerplate unless they belong to ``<main>`` or an ``<article>``.
EDGES: Final = frozenset({"aside", "footer", "header"})
#: Blocks that are boilerplate by their class or id.
CONTAINERS: Final = frozenset({
    "center", "details", "div", "dl", "form", "ol", "section", "table", "ul",
})
BLOCKS: Final = frozenset({
    "address", "blockquote", "body", "br", "caption", "dd", "dialog", "dir", "dt", "fieldset",
    "figcaption", "figure", "frameset", "hgroup", "hr", "legend", "li", "menu", "optgroup", "p",
    "summary", "tbody", "tfoot", "thead",
})
CELLS: Final = frozenset({"td", "th"})
#: Elements in which white space counts.
LAID_OUT: Final = frozenset({"listing", "pre", "xmp"})
#: Inline code.
LITERALS: Final = frozenset({"code", "kbd", "samp", "tt"})
#: Level of a heading by its tag.
HEADINGS: Final = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}

#: ARIA roles of boilerplate.
ROLES: Final = frozenset({"banner", "complementary", "contentinfo", "navigation", "search"})
#: Words in class and id of containers that are boilerplate on any site.
WORDS: Final = frozenset({
    "breadcrumb", "breadcrumbs", "cookie-banner", "cookie-consent", "copyright-footer", "footer",
    "menu", "nav", "navbar", "navfooter", "navheader", "navigation", "prev-next-area", "related",
    "sidebar", "sphinxsidebar", "toc",
    # of MediaWiki: languages, menus, categories, the address in print
    "catlinks", "mw-portlet-lang", "printfooter", "vector-dropdown",
})
#: Text of links from a heading to itself.
PERMALINKS: Final = frozenset({"#", "¶", "§", "\u200b", "\uf0c1", "🔗"})


NAME: Final = "smartcrawl"  #: our name in directives

_AGENT: Final = re.compile(r"\s*([a-z][\w.-]*)\s*:(.*)", re.DOTALL)
_VALUED: Final = frozenset(
    {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
)


_EXPIRY: Final = "unavailable_after:"
_DATE_PARTS: Final = 2  #: between commas: "Wed, 25 Jun 2025 15:00:00 GMT" has two


def robots_meta_directives(value: str, now: float = 0) -> tuple[bool, bool]:
    """Return ``(noindex, nofollow)`` of one robots meta or ``X-Robots-Tag`` value.

    ``now`` is Unix seconds: an ``unavailable_after`` in the past is noindex. A date that cannot be
    read is none.

    A robot's name and a colon address the directives up to the next name to that robot. Directives
    for smartcrawl and without a name count, others are ignored. ``none`` is both. Call it for each
    header line, because a name applies to its line only.

    Source: RFC 9309 leaves these out; developers.google.com "Robots meta tag, data-nosnippet and
    X-Robots-Tag specifications".
    """
    noindex = nofollow = False
    ours = True
    parts = value.lower().split(",")
    for at, part in enumerate(parts):
        words = part
        if (named := _AGENT.match(part)) and named[1] not in _VALUED:
            ours = named[1] == NAME
            words = named[2]
        if ours and ":" not in words:
            said = words.split()
            noindex |= "noindex" in said or "none" in said
            nofollow |= "nofollow" in said or "none" in said
        elif ours and words.strip().startswith(_EXPIRY):
            date = words.strip().removeprefix(_EXPIRY)
            noindex |= _is_past([date, *parts[at + 1 : at + _DATE_PARTS]], now)
    return noindex, nofollow


def _is_past(parts: list[str], now: float) -> bool:
    """Whether the date that begins with the first of these parts, cut at commas, is over.

    >>> _is_past([" wed", " 25 jun 2025 15:00:00 gmt"], 2e9), _is_past([" 2025-06-25"], 1e9)
    (True, False)
    """
    texts = [",".join(parts[:count]).strip() for count in range(1, len(parts) + 1)]
    moment = next(filter(None, map(_moment, texts)), None)
    return moment is not None and moment.timestamp() <= now


def _moment(text: str) -> datetime | None:
    """Return a date of RFC 822, RFC 850 or ISO 8601; without a zone it is UTC."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text.upper())
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


#: A container: its first token, its element, its class, its id, and whether it is not displayed.
OpenedBox = tuple[int, str, str | None, str | None, bool]


@dataclass(slots=True)
class Signs:
    """Signs that a page is an article, or that a generator of documentation wrote it."""

    shared: bool = False  #: it is described for feeds or for those who share it
    around: bool = False  #: a container has a word of ``class_words.AROUND``
    definitions: bool = False  #: it has a ``<dl>``
    wiki: bool = False  #: MediaWiki wrote it
    permalinks: bool = False  #: a heading has a link to itself
    generator: str = ""  #: content of ``<meta name=generator>``


@dataclass(slots=True)
class SeenMarkup:
    """The parts of a page's markup, before the choice of the text that counts.

    The text is a list of tokens with marks for lines, cells and rows. Boilerplate, ``<main>`` and
    ``<article>`` are spans of these tokens.
    """

    tokens: list[str] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    blocks: list[TokenBlock] = field(default_factory=list)  #: code, tables and lists
    spans: list[TokenSpan] = field(default_factory=list)  #: links, pictures, inline code and ids
    boilerplate: list[Span] = field(default_factory=list)
    mains: list[Span] = field(default_factory=list)
    articles: list[Span] = field(default_factory=list)
    kept: list[Span] = field(default_factory=list)
    dropped: list[Span] = field(default_factory=list)
    #: Containers in the order of their tags: an opened one, and for an end the token after it.
    boxes: list[OpenedBox | int] = field(default_factory=list)
    signs: Signs = field(default_factory=Signs)
    #: By href, without a fragment that is a place in the page.
    references: dict[str, Reference] = field(default_factory=dict)
    cut: bool = False  #: whether there are more references than are kept
    images: dict[str, Image] = field(default_factory=dict)  #: by source
    titles: dict[str, str] = field(default_factory=dict)  #: "title", "og:title"
    descriptions: dict[str, str] = field(default_factory=dict)  #: "description", "og:description"
    noscript: list[str] = field(default_factory=list)  #: texts that are shown without scripts
    keywords: str = ""
    tags: list[str] = field(default_factory=list)  #: keywords that have an element each
    base: str | None = None
    canonical: str | None = None
    #: Date and author: values of meta elements by name, ``<time>`` by its kind.
    said: dict[str, str] = field(default_factory=dict)
    data: list[str] = field(default_factory=list)  #: JSON of ``<script type=application/ld+json>``
    refresh: str | None = None  #: content of the first ``<meta http-equiv=refresh>``
    language: str = ""
    noindex: bool = False
    nofollow: bool = False

    @property
    def named_keywords(self) -> str:
        """The keywords of the page; where it has none, its tags (microdata, ``article:tag``)."""
        return self.keywords or ", ".join(dict.fromkeys(filter(None, self.tags)))

    @property
    def description(self) -> str:
        """The description of the page, else that for previews of it."""
        return self.descriptions.get("description") or self.descriptions.get("og:description", "")

    def clip(self, end: int) -> None:
        """Drop headings, blocks, spans and regions from a token on; links are all kept."""
        self.headings = [
            heading._replace(end=min(heading.end, end))
            for heading in self.headings
            if heading.start < end
        ]
        self.blocks = [
            block._replace(end=min(block.end, end)) for block in self.blocks if block.start < end
        ]
        self.spans = [
            (start, max(stop, -end), kind, target, text, link)
            for start, stop, kind, target, text, link in self.spans
            if start < end
        ]
        for spans in (self.boilerplate, self.mains, self.articles, self.kept, self.dropped):
            spans[:] = [(start, min(stop, end)) for start, stop in spans if start < end]


KEEP: Final = "data-smartcrawl-keep"
DROP: Final = "data-smartcrawl-drop"

_SPACES: Final = str.maketrans("\t\n\r", "   ")

#: Whether an element is selected, by its name and its attributes.
Picks = Callable[[str, Mapping[str, str]], bool]


@cache
def css_element_check(selectors: tuple[str, ...]) -> Picks | None:
    """Return a check of start tags: whether one of ``selectors`` selects the element.

    None: one of them depends on the surroundings of an element. Such pages are read twice
    (``mark_css_selected``), which takes half as long again.
    """
    parsed = [one for selector in selectors for one in cssselect.parse(selector)]
    simple = [_simple(one) for one in parsed]
    known = [picks for picks in simple if picks is not None]
    if len(known) < len(simple):
        return None
    if len(known) == 1:
        return known[0]
    return lambda tag, attributes: any(picks(tag, attributes) for picks in known)


def _simple(selector: css.Selector) -> Picks | None:
    """Return the check of a selector such as ``div.banner[role=alert]``; None: of other kinds."""
    classes: list[str] = []
    values: list[tuple[str, str | None]] = []  # None: any
    tree = selector.parsed_tree
    while not isinstance(tree, css.Element):
        match tree:
            case css.Class():
                classes.append(tree.class_name)
            case css.Hash():
                values.append(("id", tree.id))
            case css.Attrib(namespace=None, operator="exists", flag=None):
                values.append((tree.attrib.lower(), None))
            case css.Attrib(namespace=None, operator="=", flag=None) if tree.value is not None:
                values.append((tree.attrib.lower(), tree.value.value))
            case _:
                return None
        tree = tree.selector
    if tree.namespace is not None or selector.pseudo_element is not None:
        return None
    name = tree.element.lower() if tree.element is not None else None
    return _picks(name, classes, values)


def _picks(name: str | None, classes: list[str], values: list[tuple[str, str | None]]) -> Picks:
    def picks(tag: str, attributes: Mapping[str, str]) -> bool:
        if name is not None and name != tag:
            return False
        for attribute, value in values:
            found = attributes.get(attribute)
            if found is None or (found != value and value is not None):
                return False
        if classes:
            words = attributes.get("class", "")
            for word in classes:
                if word not in words or word not in words.translate(_SPACES).split(" "):
                    return False
        return True

    return picks


def mark_css_selected(markup: str, keep: Sequence[str], drop: Sequence[str]) -> tuple[str, bool]:
    """Return ``markup`` with an attribute on every selected element, and whether any is to be kept.

    Broken markup is returned as libxml2 repairs it. Markup without a tree is returned as it is, and
    nothing of it is selected. The same applies where elements are nested too deep, because the tree
    would lack the deepest ones.
    """
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, no_network=True)
    try:
        root: Any = etree.fromstring(markup.encode(), parser)
    except (etree.XMLSyntaxError, ValueError):
        return markup, False
    if root is None or any(e.type_name == "ERR_RESOURCE_LIMIT" for e in parser.error_log):
        return markup, False
    kept = False
    for name, selectors in ((KEEP, keep), (DROP, drop)):
        for selector in selectors:
            for element in _path(selector)(root):
                element.set(name, "")
                kept = kept or name == KEEP
    text: str = etree.tostring(root, encoding="unicode", method="html", doctype="<!DOCTYPE html>")
    return text, kept


@cache
def _path(selector: str) -> Any:
    return etree.XPath(cssselect.HTMLTranslator().css_to_xpath(selector))


_MAX_TABLES: Final = 4  #: tables in each other; deeper ones are part of theirs


class Region(Enum):
    """Kinds of spans of tokens."""

    BOILERPLATE = auto()
    MAIN = auto()
    ARTICLE = auto()
    LAYOUT = auto()  #: code: white space counts
    TABLE = auto()
    LIST = auto()
    MUTED = auto()  #: no text of the page
    INERT = auto()  #: neither text nor links: an empty template
    KEPT = auto()  #: selected by the operator
    DROPPED = auto()  #: selected by the operator as no text of the page
    NOSCRIPT = auto()
    TITLE = auto()
    DATA = auto()  #: JSON about the page


class Regions:
    """The tokens of a page and its open regions; a region ends with the element that opened it."""

    __slots__ = (
        *("_closing", "_depth", "_head_cells", "_head_rows", "_muted"),
        *("_open", "_seen", "_tokens"),
    )

    def __init__(self) -> None:
        self._seen = SeenMarkup()
        self._tokens: list[str] = []
        self._depth = 0
        self._open: list[tuple[int, Region, int]] = []  # depth, region, first token
        self._closing = 0  # depth of the innermost open region
        self._muted = False
        self._head_cells: list[int] = []  # tokens after a <th>, of open tables
        self._head_rows: list[Span] = []  # of each <thead> of open tables

    def _open_region(self, region: Region) -> None:
        if self._muted or self._is_open(region):
            return
        self._open.append((self._depth, region, len(self._tokens)))
        self._closing = self._depth

    def _is_open(self, region: Region) -> bool:
        for _, other, _ in self._open:  # noqa: SIM110  # a generator takes twice as long
            if other is region:
                return True
        return False

    def _close_region(self) -> None:
        tokens = self._tokens
        while self._open and self._open[-1][0] == self._depth:
            _, region, start = self._open.pop()
            span = (start, len(tokens))
            match region:  # the frequent ones first
                case Region.LIST:
                    self._seen.blocks.append(TokenBlock(LIST, start, len(tokens)))
                case (
                    Region.MUTED | Region.INERT | Region.NOSCRIPT | Region.TITLE | Region.DATA
                ):
                    self._note_muted(region, start)
                    del tokens[start:]
                    self._muted = False
                case Region.BOILERPLATE:
                    self._seen.boilerplate.append(span)
                case Region.MAIN:
                    self._seen.mains.append(span)
                case Region.ARTICLE:
                    self._seen.articles.append(span)
                case Region.KEPT:
                    self._seen.kept.append(span)
                case Region.DROPPED:
                    self._seen.dropped.append(span)
                case Region.LAYOUT:
                    tokens[start:] = keep_text_layout(tokens[start:])
                    self._forget_spans(start)
                    self._seen.blocks.append(TokenBlock(CODE, start, len(tokens)))
                case Region.TABLE:
                    self._close_table(start)
                case _:
                    assert_never(region)
        self._closing = self._open[-1][0] if self._open else 0

    def _forget_spans(self, start: int) -> None:
        """Forget the spans in code."""
        spans = self._seen.spans
        while spans and spans[-1][0] >= start:
            spans.pop()

    def _note_muted(self, region: Region, start: int) -> None:
        """Note the title and data of a page, which are no text of it."""
        if region is Region.TITLE:
            self._seen.titles.setdefault("title", markup_line("".join(self._tokens[start:])))
        elif region is Region.DATA and len(self._seen.data) < _MAX_DATA:
            self._seen.data.append("".join(self._tokens[start:]))
        elif region is Region.NOSCRIPT and len(self._seen.noscript) < _MAX_NOSCRIPT:
            self._seen.noscript.append("".join(self._tokens[start:]))

    def _open_table(self) -> None:
        tables = sum(region is Region.TABLE for _, region, _ in self._open)
        if not self._muted and tables < _MAX_TABLES:
            self._open.append((self._depth, Region.TABLE, len(self._tokens)))
            self._closing = self._depth

    def _close_row(self) -> None:
        self._tokens.append(ROW)

    def _close_cell(self) -> None:
        self._tokens.append(CELL)

    def _close_head_cell(self) -> None:
        self._tokens.append(CELL)
        if not self._muted:
            self._head_cells.append(len(self._tokens))

    def _start_head_rows(self) -> None:
        if not self._muted:
            self._head_rows.append((len(self._tokens), 0))

    def _close_head_rows(self) -> None:
        if self._head_rows and not self._muted:
            self._head_rows[-1] = (self._head_rows[-1][0], len(self._tokens))
        self._tokens.append(BREAK)

    def _close_table(self, start: int) -> None:
        """Note a table with its lists; one with headings, code or tables only lays out a page."""
        headings, blocks, tokens = self._seen.headings, self._seen.blocks, self._tokens
        head = self._taken_head(start)
        first = _index(tokens, CELL, start)
        lists = 0
        while lists < len(blocks) and blocks[-1 - lists].start >= start:
            lists += 1
            if blocks[-lists].kind != LIST:
                return
        if first == len(tokens) or (headings and headings[-1].start >= start):
            return
        del blocks[len(blocks) - lists :]
        row = first
        while row > start and tokens[row - 1] != ROW:
            row -= 1
        has_caption = bool(markup_line("".join(tokens[start:row])))
        after = _after_head(tokens, row, head)
        blocks.append(TokenBlock(TABLE, start, len(tokens), after, row if has_caption else 0))

    def _taken_head(self, start: int) -> _Head:
        """Return the heads since a token, which belong to the table that ends, and forget them."""
        cells: set[int] = set()
        while self._head_cells and self._head_cells[-1] > start:
            cells.add(self._head_cells.pop())
        rows: list[Span] = []
        while self._head_rows and self._head_rows[-1][0] > start:
            rows.append(self._head_rows.pop())
        return _Head(cells, rows)


class _Head(NamedTuple):
    """The heads in a table."""

    cells: set[int]  #: the token after each ``<th>``
    rows: list[Span]  #: the tokens of each ``<thead>``


def _after_head(tokens: list[str], row: int, head: _Head) -> int:
    """Return the token after the rows that name the columns; 0 if none do.

    These are the rows of a ``<thead>`` that the first row is in, or the first row, if each of its
    cells that has text is a ``<th>``. ``row``: the first token of the first row.
    """
    for start, end in head.rows:
        if start <= row < end:
            return end
    if not head.cells:
        return 0
    end, cell = _index(tokens, ROW, row), row
    for at in range(row, end):
        if tokens[at] == CELL:
            if at + 1 not in head.cells and markup_line("".join(tokens[cell:at])):
                return 0
            cell = at + 1
    return end + 1 if head.cells.intersection(range(row, end + 1)) else 0


def _index(tokens: list[str], token: str, start: int) -> int:
    """Return the place of a token from ``start`` on; the number of all tokens if there is none."""
    try:
        return tokens.index(token, start)
    except ValueError:
        return len(tokens)


_MAX_DATA: Final = 8  #: scripts with data about a page
_MAX_NOSCRIPT: Final = 100  #: elements
_MOST_TAGS: Final = 50  #: keywords of one page that have an element each
_LONGEST_TAG: Final = 100  #: characters of one
_MAX_BOXES: Final = 50_000  #: containers; a page of more is no article
MAX_ANCHOR: Final = 200  #: characters
MAX_TOKENS: Final = 2_000_000  #: texts and breaks; later ones are dropped, links are not
MAX_HEADINGS: Final = 50_000  #: later headings become plain text
MAX_DEPTH: Final = 512  #: open elements, as in Blink; deeper nesting slows the parser

_MAX_REFERENCES: Final = 2 * MAX_LINKS  # hrefs, of which some are duplicates or no URLs

#: Attributes of an element; their names are in lower case.
Attributes = Mapping[str, str]

_WIKI: Final = "mw-parser-output"  # class of the text of MediaWiki
_HIDDEN: Final = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_FEED_TYPES: Final = frozenset({"application/atom+xml", "application/rss+xml"})
_RELATIONS: Final = ("canonical", "next", "prev", "alternate")


#: An open ``<a>``: its link, None if it is not new, the first token of its text, whether it is a
#: link of a heading by its class, whether it leads to a part of its page, and its address as
#: written, empty where it has no text of the page. A plain tuple: pages have thousands.
_Anchor = tuple[Reference | None, int, bool, bool, str]


class TooDeepError(Exception):
    """More than ``MAX_DEPTH`` elements are open."""


class MarkupReader(Regions):
    """Target of lxml's parser, which calls it for each tag and text."""

    __slots__ = (
        *("_album", "_alt", "_anchor", "_boxes", "_heading", "_links", "_literals", "_routes"),
        *("_spans", "_terms", "_words", "data"),
    )

    def __init__(self, links: bool, routes: bool = False, boxes: bool = False) -> None:
        super().__init__()
        self._links, self._routes = links, routes
        self.data = self._tokens.append  # called by the parser for each text
        self._heading: tuple[int, int, str | None] | None = None  # its first token, level and id
        self._anchor: _Anchor | None = None
        self._alt = ""  # of the first picture in it that has one
        self._spans = self._seen.spans
        self._album = ParsedImages()
        self._boxes: list[OpenedBox | int] | None = [] if boxes else None
        self._words: dict[str, bool] = {}
        self._literals: list[int] = []  # first tokens of open elements of inline code
        self._terms: list[tuple[int, str]] = []  # first token and id of each open ``<dt>``

    def hand_over(self) -> SeenMarkup:
        """Return the parts of the page, and drop all references to them.

        lxml's parser and its context refer to each other, so only the garbage collector frees them
        and this target. Until then they must not keep a whole page in memory.
        """
        seen = self._seen
        seen.images = self._album.images(self._tokens, seen.headings)
        seen.tokens = self._tokens[:MAX_TOKENS]
        if len(self._tokens) > MAX_TOKENS:
            seen.clip(MAX_TOKENS)
        if self._boxes is not None and len(self._boxes) <= 2 * _MAX_BOXES:
            seen.boxes = self._boxes
        self._tokens.clear()
        self._words.clear()
        self._anchor = None
        del self._seen, self._spans, self._album, self._boxes
        return seen

    def start(self, tag: str, attributes: Attributes) -> None:
        """Process a start tag; called by the parser.

        Raises:
            TooDeepError: more than ``MAX_DEPTH`` elements are open.
        """
        self._depth = depth = self._depth + 1
        if depth > MAX_DEPTH:
            raise TooDeepError
        opened = _opener(tag)
        if opened is not None:
            opened(self, tag, attributes)

    def end(self, tag: str) -> None:
        """Process an explicit or implied end tag; called by the parser."""
        closed = _closer(tag)
        if closed is not None:
            closed(self)
        if self._depth == self._closing:
            self._close_region()
        self._depth -= 1

    def close(self) -> None:
        """Do nothing at the end of the page; called by the parser."""

    def _mute(self, tag: str, attributes: Attributes) -> None:
        if tag == "iframe":
            self._refer(attributes.get("src"), "frame")
        if self._muted or (tag == "template" and "shadowrootmode" in attributes):
            return  # browsers show a declarative shadow root
        match tag:
            case "title":
                self._open_region(Region.TITLE)
            case "template":
                self._open_region(Region.INERT)
            case "noscript":
                self._open_region(Region.NOSCRIPT)
            case "script" if attributes.get("type") == "application/ld+json":
                self._open_region(Region.DATA)
            case _:
                self._open_region(Region.MUTED)
        self._muted = True

    def _open_math(self, tag: str, attributes: Attributes) -> None:
        """Open a formula: MediaWiki hides one without a class beside its picture, with its TeX."""
        if self._seen.signs.wiki and "class" not in attributes and not self._muted:
            self._open_region(Region.MUTED)
            self._muted = True

    def _break(self) -> None:
        self._tokens.append(BREAK)

    def _open_block(self, tag: str, attributes: Attributes) -> None:
        self._tokens.append(BREAK)
        if attributes:
            if "role" in attributes or "hidden" in attributes or "aria-hidden" in attributes:
                self._open_role(attributes)
            classes = attributes.get("class")
            if classes and "sig" in classes and tag != "dt" and "sig" in classes.split():
                self._note_place(attributes, DEFINITION)

    def _open_role(self, attributes: Attributes) -> None:
        role = attributes.get("role")
        if (
            "hidden" in attributes
            or (role is not None and role.lower() in ROLES)
            or attributes.get("aria-hidden") == "true"
        ):
            self._open_region(Region.BOILERPLATE)
        elif role == "main":
            self._open_content(Region.MAIN)

    def _open_content(self, region: Region) -> None:
        if not self._is_open(Region.BOILERPLATE):
            self._open_region(region)

    def _open_main(self, tag: str, attributes: Attributes) -> None:
        self._open_box(tag, attributes)
        self._open_block(tag, attributes)
        self._open_content(Region.MAIN)

    def _open_article(self, tag: str, attributes: Attributes) -> None:
        self._open_box(tag, attributes)
        self._open_block(tag, attributes)
        self._open_content(Region.ARTICLE)

    def _open_box(self, tag: str, attributes: Attributes) -> None:
        """Note where a container begins, if the page may be an article."""
        if self._boxes is not None:
            style = attributes.get("style")
            hidden = style is not None and _HIDDEN.search(style) is not None
            classes, name = attributes.get("class"), attributes.get("id")
            self._boxes.append((len(self._tokens), tag, classes, name, hidden))

    def _close_box(self) -> None:
        self._tokens.append(BREAK)
        if self._boxes is not None:
            self._boxes.append(len(self._tokens))

    def _open_container(self, tag: str, attributes: Attributes) -> None:
        if self._boxes is not None:
            self._open_box(tag, attributes)
        self._open_block(tag, attributes)
        if attributes:
            classes = attributes.get("class")
            name = attributes.get("id")
            if name and (tag == "section" or _is_section(classes)):
                self._note_place(attributes)
                name = None  # generated from its heading, such as "Related"
            if (classes and self._is_boilerplate(classes)) or (name and self._is_boilerplate(name)):
                self._open_region(Region.BOILERPLATE)

    def _open_definitions(self, tag: str, attributes: Attributes) -> None:
        self._seen.signs.definitions = True
        self._open_container(tag, attributes)

    def _open_table_or_list(self, tag: str, attributes: Attributes) -> None:
        self._open_container(tag, attributes)
        if tag == "table":
            self._open_table()
        else:
            self._open_region(Region.LIST)

    def _is_boilerplate(self, words: str) -> bool:
        known = self._words.get(words)
        if known is None:
            known = self._words[words] = not WORDS.isdisjoint(words.lower().split())
            if not known and class_words_mean(words)[0]:
                self._seen.signs.around = True
            if _WIKI in words:
                self._seen.signs.wiki = True
        return known

    def _open_control(self, tag: str, attributes: Attributes) -> None:
        self._open_region(Region.BOILERPLATE)

    def _open_aside(self, tag: str, attributes: Attributes) -> None:
        self._tokens.append(BREAK)
        self._open_region(Region.BOILERPLATE)

    def _open_note(self, tag: str, attributes: Attributes) -> None:
        """Open an ``<aside>``: in main parts and articles a footnote, topic or box of the text."""
        self._open_block(tag, attributes)
        if not (self._is_open(Region.MAIN) or self._is_open(Region.ARTICLE)):
            self._open_region(Region.BOILERPLATE)

    def _open_edge(self, tag: str, attributes: Attributes) -> None:
        """Open a header or footer, which is boilerplate outside of main parts and articles."""
        self._open_container(tag, attributes)
        if not (self._is_open(Region.MAIN) or self._is_open(Region.ARTICLE)):
            self._open_region(Region.BOILERPLATE)

    def _open_laid_out(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self._open_region(Region.LAYOUT)

    def _open_heading(self, tag: str, attributes: Attributes) -> None:
        if self._muted:
            return
        self._close_heading()
        self._open_block(tag, attributes)
        self._heading = (len(self._tokens), HEADINGS[tag], attributes.get("id"))
        if attributes:
            self._note_place(attributes)

    def _close_heading(self) -> None:
        if self._heading is not None and not self._muted:
            start, level, _ = self._heading
            if len(self._seen.headings) < MAX_HEADINGS:
                self._seen.headings.append(Heading(start, len(self._tokens), level))
            self._heading = None
        self._tokens.append(BREAK)

    def _note_span(self, span: TokenSpan) -> None:
        if len(self._spans) < MAX_SPANS and not self._muted:
            self._spans.append(span)

    def _note_place(self, attributes: Attributes, kind: str = PLACE) -> None:
        """Note the id of a heading, a section or an anchor, to which the text behind it belongs."""
        name = attributes.get("id") or attributes.get("name")
        if name and len(name) <= MAX_ID:
            at = len(self._tokens)
            self._note_span((at, -at, kind, name, "", ""))

    def _open_term(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self._terms.append((len(self._tokens), attributes.get("id", "")))

    def _close_term(self) -> None:
        start, name = self._terms.pop() if self._terms else (0, "")
        if 0 < len(name) <= MAX_ID:
            self._note_span((start, -len(self._tokens), DEFINITION, name, "", ""))
        self._tokens.append(BREAK)

    def _open_literal(self, tag: str, attributes: Attributes) -> None:
        self._literals.append(len(self._tokens))

    def _close_literal(self) -> None:
        literals = self._literals
        if literals:
            start, end = literals.pop(), len(self._tokens)
            if start < end and not literals:
                self._note_span((start, -end, INLINE_CODE, "", "", ""))

    def _open_row(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self._tokens.append(ROW)

    def _open_head_rows(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self._start_head_rows()

    def _open_cell(self, tag: str, attributes: Attributes) -> None:
        if attributes:
            self._open_block(tag, attributes)

    def _is_inert(self) -> bool:
        return self._muted and self._is_open(Region.INERT)

    def _refer(
        self, href: str | None, kind: str, rel: str = "", anchor: str = ""
    ) -> Reference | None:
        """Record a link; return it, or None if it is no new link."""
        if href is None or not self._links or (self._muted and self._is_inert()):
            return None
        href, _, fragment = href.partition("#")
        if self._routes and fragment[:1] in ("/", "!"):
            href = f"{href}#{fragment}"
        if not href or href.isspace():
            return None
        nofollow = bool(rel) and "nofollow" in rel.lower().split()
        known = self._seen.references.get(href)
        if known is None:
            if len(self._seen.references) < _MAX_REFERENCES:
                known = self._seen.references[href] = Reference(href, kind, nofollow, anchor)
                return known
            self._seen.cut = True
        elif not nofollow:
            known.nofollow = False
        return None

    def _open_anchor(self, tag: str, attributes: Attributes) -> None:
        if self._anchor is not None:
            self._close_anchor()
        href = attributes.get("href")
        if href is None and self._muted:  # within <svg>, by the name that SVG 1.1 gives it
            href = attributes.get("xlink:href")
        if "id" in attributes or "name" in attributes:
            self._note_place(attributes)
        if href is None:
            return
        target = "" if self._muted else span_target(href)
        if href[:1] == "#" and not (self._routes and href[1:2] in ("/", "!")):
            if self._heading is not None and href[1:] == self._heading[2] != "":
                self._seen.signs.permalinks = True
            marked = "headerlink" in attributes.get("class", "")
            if target:
                self._anchor = (None, len(self._tokens), marked, True, target)
                self._alt = ""
            return
        new = self._refer(href, "hyperlink", attributes.get("rel", ""))
        if new is not None or target:
            self._anchor = (new, len(self._tokens), False, False, target)
            self._alt = ""

    def _close_anchor(self) -> None:
        if self._anchor is None:
            return
        reference, start, marked, to_itself, target = self._anchor
        self._anchor = None
        if reference is not None:
            text = markup_line("".join(self._tokens[start:]))
            reference.anchor = (text or self._alt)[:MAX_ANCHOR].rstrip()
        elif to_itself and (
            marked or markup_line("".join(self._tokens[start:])) in PERMALINKS
        ):
            self._tokens[start:] = [""] * (len(self._tokens) - start)
            self._seen.signs.permalinks = True
            return
        end = len(self._tokens)
        if target and start < end:
            self._note_span((start, -end, LINK, target, "", ""))

    def _open_area(self, tag: str, attributes: Attributes) -> None:
        alt = markup_line(attributes.get("alt", ""))[:MAX_ANCHOR].rstrip()
        self._refer(attributes.get("href"), "hyperlink", attributes.get("rel", ""), alt)

    def _open_frame(self, tag: str, attributes: Attributes) -> None:
        self._refer(attributes.get("src"), "frame")

    def _open_image(self, tag: str, attributes: Attributes) -> None:
        alt = markup_line(attributes.get("alt", ""))
        self._alt = self._alt or alt  # of no account outside of links
        if not self._is_inert() and self._counts():
            heading = len(self._seen.headings) - (self._heading is None)
            src = self._album.add(attributes, alt, heading)
            if src and (alt or "alt" not in attributes):  # an empty one is of a decoration
                self._note_picture(src, alt)

    def _note_picture(self, src: str, alt: str) -> None:
        link = self._anchor[-1] if self._anchor is not None else ""
        at = len(self._tokens)
        self._note_span((at, -at - 1, PICTURE, src, alt[:MAX_ALT].rstrip(), link))
        self._tokens.append("")  # which goes where its surroundings are no text of the page

    def _counts(self) -> bool:
        """Whether an image at this place belongs to the page."""
        return True

    def _open_picture(self, tag: str, attributes: Attributes) -> None:
        self._album.open_picture()

    def _close_picture(self) -> None:
        self._album.close_picture()

    def _open_source(self, tag: str, attributes: Attributes) -> None:
        self._album.offer(attributes)

    def _open_figure(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self._album.open_figure()

    def _close_figure(self) -> None:
        self._break()
        self._album.close_figure()

    def _open_caption(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self._album.open_caption(len(self._tokens))

    def _close_caption(self) -> None:
        self._album.close_caption(self._tokens)
        self._break()

    def _open_time(self, tag: str, attributes: Attributes) -> None:
        """Note the first date of an article, and the first that is that of its publication."""
        date = attributes.get("datetime")
        if date is None or self._is_open(Region.BOILERPLATE):
            return
        if "pubdate" in attributes or attributes.get("itemprop") == "datePublished":
            self._seen.said.setdefault("time published", date)
        elif self._is_open(Region.ARTICLE):
            self._seen.said.setdefault("time", date)

    def _open_base(self, tag: str, attributes: Attributes) -> None:
        if self._seen.base is None and "href" in attributes and not self._muted:
            self._seen.base = attributes["href"]

    def _open_document(self, tag: str, attributes: Attributes) -> None:
        self._seen.language = (
            self._seen.language or attributes.get("lang", "") or attributes.get("xml:lang", "")
        )

    def _open_relation(self, tag: str, attributes: Attributes) -> None:
        href = attributes.get("href")
        rel = attributes.get("rel", "").lower()
        relations = rel.split()
        if href is None or "stylesheet" in relations:
            return
        if "alternate" in relations and attributes.get("type", "").lower() in _FEED_TYPES:
            self._share()
        for kind in _RELATIONS:
            if kind in relations:
                self._refer(href, kind, rel, markup_line(attributes.get("title", ""))[:MAX_ANCHOR])
                if kind == "canonical" and self._seen.canonical is None:
                    self._seen.canonical = href
                return

    def _open_meta(self, tag: str, attributes: Attributes) -> None:
        content = attributes.get("content")
        if content is None:
            return
        for key in ("name", "property", "http-equiv"):
            if key in attributes:
                self._describe(attributes[key].lower(), content)
        if attributes.get("itemprop") == "keywords":
            self._tag(content)

    def _tag(self, content: str) -> None:
        if len(self._seen.tags) < _MOST_TAGS and len(content) <= _LONGEST_TAG:
            self._seen.tags.append(markup_line(content))

    def _share(self) -> None:
        """Note that the page may be an article; its boxes count from here on."""
        self._seen.signs.shared = True
        if self._boxes is None:
            self._boxes = []

    def _describe(self, name: str, content: str) -> None:
        if name.startswith(("og:", "article:")):
            self._share()
        match name:
            case "article:published_time" | "article:author" | "author" | "date":
                self._seen.said.setdefault(name, markup_line(content))
            case "generator":
                self._seen.signs.generator = self._seen.signs.generator or content
            case "robots" | "smartcrawl":
                noindex, nofollow = robots_meta_directives(content, time.time())
                self._seen.noindex |= noindex
                self._seen.nofollow |= nofollow
            case "description" | "og:description":
                self._seen.descriptions.setdefault(name, markup_line(content))
            case "keywords":
                self._seen.keywords = self._seen.keywords or markup_line(content)
            case "article:tag":
                self._tag(content)
            case "og:title":
                self._seen.titles.setdefault(name, markup_line(content))
            case "content-language":
                self._seen.language = self._seen.language or content.partition(",")[0]
            case "refresh":
                if self._seen.refresh is None and not self._muted:  # scripts run, as in browsers
                    self._seen.refresh = content
                self._refer(html_refresh_target(content), "refresh")
            case _ if name.startswith("og:image"):
                self._album.announce(name, content)


def _is_section(classes: str | None) -> bool:
    return classes is not None and "section" in classes and "section" in classes.split()


_START: Final[Mapping[str, Callable[[MarkupReader, str, Attributes], None]]] = {
    **dict.fromkeys(BLOCKS, MarkupReader._open_block),
    **dict.fromkeys(CONTAINERS, MarkupReader._open_container),
    **dict.fromkeys(("ol", "table", "ul"), MarkupReader._open_table_or_list),
    **dict.fromkeys(ASIDES, MarkupReader._open_aside),
    **dict.fromkeys(EDGES, MarkupReader._open_edge),
    **dict.fromkeys(CONTROLS, MarkupReader._open_control),
    **dict.fromkeys(MUTED, MarkupReader._mute),
    **dict.fromkeys(LAID_OUT, MarkupReader._open_laid_out),
    **dict.fromkeys(HEADINGS, MarkupReader._open_heading),
    **dict.fromkeys(CELLS, MarkupReader._open_cell),
    "dl": MarkupReader._open_definitions,
    "aside": MarkupReader._open_note,
    "main": MarkupReader._open_main,
    "article": MarkupReader._open_article,
    "thead": MarkupReader._open_head_rows,
    "tr": MarkupReader._open_row,
    **dict.fromkeys(LITERALS, MarkupReader._open_literal),
    "dt": MarkupReader._open_term,
    "a": MarkupReader._open_anchor,
    "area": MarkupReader._open_area,
    "frame": MarkupReader._open_frame,
    "img": MarkupReader._open_image,
    "picture": MarkupReader._open_picture,
    "source": MarkupReader._open_source,
    "figure": MarkupReader._open_figure,
    "figcaption": MarkupReader._open_caption,
    "time": MarkupReader._open_time,
    "math": MarkupReader._open_math,
    "base": MarkupReader._open_base,
    "html": MarkupReader._open_document,
    "link": MarkupReader._open_relation,
    "meta": MarkupReader._open_meta,
}
_END: Final[Mapping[str, Callable[[MarkupReader], None]]] = {
    **dict.fromkeys(BLOCKS | ASIDES | LAID_OUT, MarkupReader._break),
    **dict.fromkeys(CONTAINERS | EDGES, MarkupReader._close_box),
    **dict.fromkeys(HEADINGS, MarkupReader._close_heading),
    "td": MarkupReader._close_cell,
    "th": MarkupReader._close_head_cell,
    "main": MarkupReader._close_box,
    "article": MarkupReader._close_box,
    "thead": MarkupReader._close_head_rows,
    "tr": MarkupReader._close_row,
    **dict.fromkeys(LITERALS, MarkupReader._close_literal),
    "dt": MarkupReader._close_term,
    "a": MarkupReader._close_anchor,
    "picture": MarkupReader._close_picture,
    "figure": MarkupReader._close_figure,
    "figcaption": MarkupReader._close_caption,
}
_opener, _closer = _START.get, _END.get  # each tag calls one


class SelectingReader(MarkupReader):
    """Reader of markup of which the operator selected parts."""

    __slots__ = ("_drops", "_only_kept")

    def __init__(
        self,
        links: bool,
        routes: bool,
        only_kept: bool,
        drops: Picks | None,
        *,
        boxes: bool = False,
    ) -> None:
        super().__init__(links, routes, boxes)
        self._only_kept = only_kept
        self._drops = drops

    def start(self, tag: str, attributes: Attributes) -> None:
        """Take a start tag; open the region of a selected element first."""
        drops = self._drops
        if DROP in attributes if drops is None else drops(tag, attributes):
            self._select(Region.DROPPED)
        elif drops is None and KEEP in attributes:
            self._select(Region.KEPT)
        MarkupReader.start(self, tag, attributes)

    def _select(self, region: Region) -> None:
        self._depth += 1
        self._open_region(region)
        self._depth -= 1

    def _counts(self) -> bool:
        kept = not self._only_kept or self._is_open(Region.KEPT)
        return kept and not self._is_open(Region.DROPPED)


_PIECE: Final = 1_048_576  #: bytes; a tag of more than that is cut
_PORTION: Final = 32_768  #: bytes; the parser obeys an exception only between portions

# Every start and end tag, except those of raw text, links and images: they are dropped from a page
# whose elements are nested beyond reader.MAX_DEPTH.
_STRUCTURE: Final = re.compile(
    rb"</?(?!(?:a|area|base|frame|html|iframe|img|link|meta|script|style|textarea|title)"
    rb"(?![\w:.-]))[a-z][^<>]*>?",
    re.IGNORECASE,
)


def parse_markup(
    markup: bytes,
    *,
    links: bool = True,
    marked: bool = False,
    only_kept: bool = False,
    drops: Picks | None = None,
    routes: bool = False,
    boxes: bool = False,
) -> SeenMarkup:
    """Parse ``markup`` (UTF-8) once and return its parts.

    Broken markup is repaired by libxml2, without limits on size. Where more than
    ``reader.MAX_DEPTH`` elements are open at once, all structure but lines, links and images is
    dropped and the rest is read again, so that neither text nor links are lost.

    ``links``: whether to read links. ``marked``: whether selected elements have a mark
    (extract.selection). ``only_kept``: whether some are marked to be kept, so that images elsewhere
    do not count. ``drops`` decides by the start tag which elements are dropped without a mark.
    ``routes``: whether links keep their hash routes.
    ``boxes``: whether to note containers and links of a page that does not say what it is.
    """
    plain = not marked and drops is None
    try:
        return _seen(
            markup,
            MarkupReader(links, routes, boxes)
            if plain
            else SelectingReader(links, routes, only_kept, drops, boxes=boxes),
        )
    except TooDeepError:
        seen = _seen(flattened_markup(markup), MarkupReader(links, routes))
        seen.refresh = None  # it may have been within <noscript>
        return seen


def flattened_markup(markup: bytes) -> bytes:
    """Return markup without structure, piece by piece, because each substitution is an object."""
    flat, start = bytearray(), 0
    while start < len(markup):
        end = start + _PIECE
        if end < len(markup):
            before = markup.rfind(b"<", start + 1, end)
            end = before if before > 0 else end
        flat += _STRUCTURE.sub(b"<br>", markup[start:end])
        start = end
    return bytes(flat)


def feed_markup(markup: bytes, target: Any) -> None:
    """Have a parser that repairs broken markup (UTF-8) call ``target`` for its tags and texts.

    An exception of the target ends the reading.
    """
    parser = etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True, no_network=True)
    with suppress(etree.XMLSyntaxError):  # an empty page: "no element found"
        for start in range(0, len(markup), _PORTION):
            parser.feed(markup[start : start + _PORTION])
        parser.close()


def _seen(markup: bytes, reader: MarkupReader) -> SeenMarkup:
    try:
        feed_markup(markup, reader)
    finally:
        seen = reader.hand_over()
    return seen

"""Extraction of text, links and metadata from markup while it is parsed, without a tree."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from smartcrawl.extract import elements
from smartcrawl.extract.images import ParsedImages
from smartcrawl.extract.links import MAX_LINKS, Reference, html_refresh_target
from smartcrawl.extract.regions import Region, Regions
from smartcrawl.extract.robots_meta import robots_meta_directives
from smartcrawl.extract.sections import BREAK, ROW, Heading, markup_line
from smartcrawl.extract.seen import SeenMarkup

MAX_ANCHOR: Final = 200  #: characters
MAX_TOKENS: Final = 2_000_000  #: texts and breaks; later ones are dropped, links are not
MAX_HEADINGS: Final = 50_000  #: later headings become plain text
MAX_DEPTH: Final = 512  #: open elements, as in Blink; deeper nesting slows the parser

_MAX_REFERENCES: Final = 2 * MAX_LINKS  # hrefs, of which some are duplicates or no URLs

#: Attributes of an element; their names are in lower case.
Attributes = Mapping[str, str]

_RELATIONS: Final = ("canonical", "next", "prev", "alternate")


@dataclass(slots=True)
class _Anchor:
    """An open ``<a>``: its link, None if it is not new, and the first token of its text."""

    reference: Reference | None
    start: int
    headerlink: bool
    alt: str = ""


class TooDeepError(Exception):
    """More than ``MAX_DEPTH`` elements are open."""


class MarkupReader(Regions):
    """Target of lxml's parser, which calls it for each tag and text."""

    __slots__ = ("_album", "_anchor", "_heading", "_links", "_words", "data")

    def __init__(self, links: bool) -> None:
        super().__init__()
        self._links = links
        self.data = self._tokens.append  # called by the parser for each text
        self._heading: tuple[int, int] | None = None  # its first token, and its level
        self._anchor: _Anchor | None = None
        self._album = ParsedImages()
        self._words: dict[str, bool] = {}

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
        self._tokens.clear()
        self._words.clear()
        self._anchor = None
        del self._seen, self._album
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
            case _:
                self._open_region(Region.MUTED)
        self._muted = True

    def _break(self) -> None:
        self._tokens.append(BREAK)

    def _open_block(self, tag: str, attributes: Attributes) -> None:
        self._tokens.append(BREAK)
        if attributes:
            role = attributes.get("role")
            if (
                "hidden" in attributes
                or (role is not None and role.lower() in elements.ROLES)
                or attributes.get("aria-hidden") == "true"
            ):
                self._open_region(Region.BOILERPLATE)
            elif role == "main":
                self._open_content(Region.MAIN)

    def _open_content(self, region: Region) -> None:
        if not self._is_open(Region.BOILERPLATE):
            self._open_region(region)

    def _open_main(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self._open_content(Region.MAIN)

    def _open_article(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        self._open_content(Region.ARTICLE)

    def _open_container(self, tag: str, attributes: Attributes) -> None:
        self._open_block(tag, attributes)
        if attributes:
            classes = attributes.get("class")
            name = attributes.get("id")
            if name and (tag == "section" or _is_section(classes)):
                name = None  # generated from its heading, such as "Related"
            if (classes and self._is_boilerplate(classes)) or (name and self._is_boilerplate(name)):
                self._open_region(Region.BOILERPLATE)

    def _open_table_or_list(self, tag: str, attributes: Attributes) -> None:
        self._open_container(tag, attributes)
        if tag == "table":
            self._open_table()
        else:
            self._open_region(Region.LIST)

    def _is_boilerplate(self, words: str) -> bool:
        known = self._words.get(words)
        if known is None:
            known = self._words[words] = not elements.WORDS.isdisjoint(words.lower().split())
        return known

    def _open_control(self, tag: str, attributes: Attributes) -> None:
        self._open_region(Region.BOILERPLATE)

    def _open_aside(self, tag: str, attributes: Attributes) -> None:
        self._tokens.append(BREAK)
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
        self._heading = (len(self._tokens), elements.HEADINGS[tag])

    def _close_heading(self) -> None:
        if self._heading is not None and not self._muted:
            start, level = self._heading
            if len(self._seen.headings) < MAX_HEADINGS:
                self._seen.headings.append(Heading(start, len(self._tokens), level))
            self._heading = None
        self._tokens.append(BREAK)

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
        href = href.partition("#")[0]
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
        if href is None:
            return
        to_itself = href[:1] == "#"
        new = None if to_itself else self._refer(href, "hyperlink", attributes.get("rel", ""))
        if new is not None or to_itself:
            marked = to_itself and "headerlink" in attributes.get("class", "")
            self._anchor = _Anchor(new, len(self._tokens), marked)

    def _close_anchor(self) -> None:
        anchor = self._anchor
        if anchor is None:
            return
        self._anchor = None
        text = markup_line("".join(self._tokens[anchor.start :]))
        if anchor.reference is not None:
            anchor.reference.anchor = (text or anchor.alt)[:MAX_ANCHOR].rstrip()
        elif anchor.headerlink or text in elements.PERMALINKS:
            self._tokens[anchor.start :] = [""] * (len(self._tokens) - anchor.start)

    def _open_area(self, tag: str, attributes: Attributes) -> None:
        alt = markup_line(attributes.get("alt", ""))[:MAX_ANCHOR].rstrip()
        self._refer(attributes.get("href"), "hyperlink", attributes.get("rel", ""), alt)

    def _open_frame(self, tag: str, attributes: Attributes) -> None:
        self._refer(attributes.get("src"), "frame")

    def _open_image(self, tag: str, attributes: Attributes) -> None:
        alt = markup_line(attributes.get("alt", ""))
        if self._anchor is not None and alt and not self._anchor.alt:
            self._anchor.alt = alt
        if not self._is_inert() and self._counts():
            heading = len(self._seen.headings) - (self._heading is None)
            self._album.add(attributes, alt, heading)

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

    def _describe(self, name: str, content: str) -> None:
        match name:
            case "robots" | "smartcrawl":
                noindex, nofollow = robots_meta_directives(content, time.time())
                self._seen.noindex |= noindex
                self._seen.nofollow |= nofollow
            case "description" | "og:description":
                self._seen.descriptions.setdefault(name, markup_line(content))
            case "keywords":
                self._seen.keywords = self._seen.keywords or markup_line(content)
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
    return classes is not None and "section" in classes.split()


_START: Final[Mapping[str, Callable[[MarkupReader, str, Attributes], None]]] = {
    **dict.fromkeys(elements.BLOCKS, MarkupReader._open_block),
    **dict.fromkeys(elements.CONTAINERS, MarkupReader._open_container),
    **dict.fromkeys(("ol", "table", "ul"), MarkupReader._open_table_or_list),
    **dict.fromkeys(elements.ASIDES, MarkupReader._open_aside),
    **dict.fromkeys(elements.EDGES, MarkupReader._open_edge),
    **dict.fromkeys(elements.CONTROLS, MarkupReader._open_control),
    **dict.fromkeys(elements.MUTED, MarkupReader._mute),
    **dict.fromkeys(elements.LAID_OUT, MarkupReader._open_laid_out),
    **dict.fromkeys(elements.HEADINGS, MarkupReader._open_heading),
    **dict.fromkeys(elements.CELLS, MarkupReader._open_cell),
    "main": MarkupReader._open_main,
    "article": MarkupReader._open_article,
    "thead": MarkupReader._open_head_rows,
    "tr": MarkupReader._open_row,
    "a": MarkupReader._open_anchor,
    "area": MarkupReader._open_area,
    "frame": MarkupReader._open_frame,
    "img": MarkupReader._open_image,
    "picture": MarkupReader._open_picture,
    "source": MarkupReader._open_source,
    "figure": MarkupReader._open_figure,
    "figcaption": MarkupReader._open_caption,
    "base": MarkupReader._open_base,
    "html": MarkupReader._open_document,
    "link": MarkupReader._open_relation,
    "meta": MarkupReader._open_meta,
}
_END: Final[Mapping[str, Callable[[MarkupReader], None]]] = {
    **dict.fromkeys(elements.BLOCKS | elements.CONTAINERS, MarkupReader._break),
    **dict.fromkeys(elements.ASIDES | elements.EDGES | elements.LAID_OUT, MarkupReader._break),
    **dict.fromkeys(elements.HEADINGS, MarkupReader._close_heading),
    "td": MarkupReader._close_cell,
    "th": MarkupReader._close_head_cell,
    "main": MarkupReader._break,
    "article": MarkupReader._break,
    "thead": MarkupReader._close_head_rows,
    "tr": MarkupReader._close_row,
    "a": MarkupReader._close_anchor,
    "picture": MarkupReader._close_picture,
    "figure": MarkupReader._close_figure,
    "figcaption": MarkupReader._close_caption,
}
_opener, _closer = _START.get, _END.get  # each tag calls one

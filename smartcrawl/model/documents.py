"""Nouns of content: links, images, sections, chunks, documents, and pages of an index."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import quote

from smartcrawl.model.urls import hash_route

#: Type of the mark that links were not stored: a link to the page itself, or, with the name of a
#: trap as its anchor, to the beginning of an address.
CUT: Final = "cut"

CODE: Final = "code"
TABLE: Final = "table"
LIST: Final = "list"
BLOCK_KINDS: Final = (CODE, TABLE, LIST)
CHUNK_TYPES: Final = ("text", *BLOCK_KINDS)

INLINE_CODE: Final = "code"
LINK: Final = "link"
PICTURE: Final = "picture"
PLACE: Final = "place"
DEFINITION: Final = "name"
PAGE_PLACE: Final = "page="  #: before the number of a page in the id of its place (RFC 8118)
SPAN_KINDS: Final = (INLINE_CODE, LINK, PICTURE, PLACE, DEFINITION)
ID_KINDS: Final = frozenset({PLACE, DEFINITION})  #: those whose target is an id


class Link(NamedTuple):
    """One outgoing link of a page, before any filter (M-02).

    ``url`` is absolute, without credentials, and without a fragment unless that is a hash route
    (``model.urls.hash_route``). ``type`` is ``hyperlink``, ``frame``,
    ``refresh``, ``next``, ``prev``, ``alternate``, ``canonical`` or ``redirect``; those of a
    sitemap or feed are ``entry`` and ``sitemap``, and ``anchor`` is their lastmod. ``nofollow`` is
    true for ``rel=nofollow`` on the link itself; a page's own nofollow is on the document. The type
    ``cut`` is a link to the page itself: the page has more links than are kept.
    """

    url: str
    anchor: str
    type: str
    nofollow: bool


class Image(NamedTuple):
    """One image of a page.

    ``src`` is as written, without fragment, so that equal bodies have equal hashes; it is absolute
    on a page with ``<base href>``. Width and height are CSS pixels, from its attributes.
    ``context`` is its caption, title or heading, at most 300 characters. Beside a caption
    ``title`` is its title: searched, and not part of any hash.
    """

    src: str
    alt: str
    width: int | None = None
    height: int | None = None
    context: str = ""
    title: str = ""


class Block(NamedTuple):
    """A part of a section's text that is code, a table or a list: whole lines of it.

    ``start`` is its first character in the text, ``end`` the one after the last. Code and tables do
    not overlap each other; a list may contain code.
    """

    kind: str  #: a word of BLOCK_KINDS
    start: int
    end: int
    head: int = 0  #: of a table: how many rows, from the first on, name the columns
    #: Of a table: for each row, the end of each cell in the text. Empty: the cells of a line are
    #: separated by tabs.
    rows: tuple[tuple[int, ...], ...] = ()
    caption: int = 0  #: of a table: where its caption ends and its first row begins; 0: no caption


def moved_block(block: Block, by: int) -> Block:
    """Return a block whose text is so many characters later in another text."""
    rows = tuple(tuple(cell + by for cell in row) for row in block.rows)
    caption = block.caption and block.caption + by
    return block._replace(start=block.start + by, end=block.end + by, rows=rows, caption=caption)


class Span(NamedTuple):
    """A part of a line that is a link, a picture or code, or the place of an id.

    It is beside the text: no hash, no index and no vector knows it. Pictures and ids have no
    characters of the text; ``start`` is where they are. A span of the kind ``name`` defines a name
    (``dt`` with an id, a signature), and ``place`` is another id: all that follows, up to the next
    id, belongs to it.
    """

    kind: str  #: a word of SPAN_KINDS
    start: int
    end: int
    #: Of a link or picture its address: as written, or absolute where the page has a ``<base>``. Of
    #: a place or name its id.
    target: str = ""
    text: str = ""  #: of a picture: its alternative text
    link: str = ""  #: of a picture: the address to which it leads by itself


def moved_span(span: Span, by: int) -> Span:
    """Return a span whose text is so many characters later in another text."""
    return span._replace(start=span.start + by, end=span.end + by)


class CountedPicture(NamedTuple):
    """What else is known of a picture among counted spans."""

    text: str  #: its alternative text
    link: str  #: the address to which it leads by itself
    begins_line: bool
    in_heading: bool


class CountedSpans(NamedTuple):
    """The spans of a document as they are read, before their places in its texts are known.

    ``starts`` and ``ends`` count the characters before a place that are no white space, in all
    headings and texts in their order. Each field but the first and the last has a value for each
    span, by start, outer ones first.
    """

    total: int  #: of such characters in the document
    kinds: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    targets: tuple[str, ...]
    pictures: tuple[CountedPicture, ...] = ()  #: one for each picture, in their order


class Section(NamedTuple):
    """One heading (``level`` 1 to 6, or 0 before the first) and the text below it."""

    level: int
    heading: str
    text: str
    blocks: tuple[Block, ...] = ()  #: by their start
    spans: tuple[Span, ...] = ()  #: of the text, by their start
    head: tuple[Span, ...] = ()  #: of the heading, by their start


def section_pages(section: Section) -> list[tuple[int, int]]:
    """Return where in a section's text each of its pages begins, and the number of the page.

    >>> head = (Span(PLACE, 0, 0, "page=7"),)
    >>> section_pages(Section(1, "Lamps", "a\\nb", (), (Span(PLACE, 2, 2, "page=8"),), head))
    [(0, 7), (2, 8)]
    """
    places = [
        *((0, span) for span in section.head),
        *((span.start, span) for span in section.spans),
    ]
    return [
        (at, page)
        for at, span in places
        if span.kind == PLACE and (page := page_of_place(span.target)) is not None
    ]


_LINKABLE: Final = re.compile(r"[^\s\x00-\x20\x7f-\x9f\ud800-\udfff]+")
#: Signs of a fragment beside -._~ (RFC 3986, section 3.5), without that of entities in Markdown.
_FRAGMENT: Final = "!$'()*+,;=:@/?"


def is_linkable_id(name: str) -> bool:
    """Whether an address can lead to an id: HTML permits none with white space.

    >>> is_linkable_id("str.split"), is_linkable_id("how to"), is_linkable_id("")
    (True, False, False)
    """
    return _LINKABLE.fullmatch(name) is not None


def place_link(url: str, name: str) -> str:
    """Return the address of the place of an id in a page.

    That of the page where the id is empty, or where the page is itself a hash route.

    Source: RFC 3986, section 3.5; of a PDF RFC 8118, section 3.

    >>> place_link("https://a.example/lamps.pdf#top", "page=214"), place_link("file:///a", "")
    ('https://a.example/lamps.pdf#page=214', 'file:///a')
    >>> place_link("https://a.example/b", "List<T>.größe"), place_link("https://a.example/#/b", "c")
    ('https://a.example/b#List%3CT%3E.gr%C3%B6%C3%9Fe', 'https://a.example/#/b')
    """
    if not name or hash_route(url):
        return url
    return f"{url.partition('#')[0]}#{quote(name, safe=_FRAGMENT)}"


def page_of_place(name: str) -> int | None:
    """Return the page of a document that an id means; None: it means another place.

    >>> page_of_place("page=214"), page_of_place("page=two")
    (214, None)
    """
    number = name.removeprefix(PAGE_PLACE)
    return int(number) if number != name and number.isdecimal() else None


class ChunkPlace(NamedTuple):
    """A place in a chunk to which an address can lead: a section, a name, a page of a PDF."""

    start: int  #: characters of the chunk's text before it
    id: str
    defines: bool = False  #: whether it defines a name


class Chunk(NamedTuple):
    """A searchable part of a section, with the headings above it, outermost first.

    ``types`` has the words of BLOCK_KINDS and ``text``, in the order of CHUNK_TYPES. The first
    ``repeated`` characters of the text are in an earlier chunk, too.
    """

    headings: tuple[str, ...]
    text: str
    level: int = 0  #: of its section
    types: tuple[str, ...] = ("text",)
    repeated: int = 0
    #: Descriptions of its pictures, a line each, and before them, in the first chunk, the keywords
    #: of the page: searched, not embedded.
    pictures: str = ""
    places: tuple[ChunkPlace, ...] = ()  #: by their start; no hash and no vector knows them

    def digest(self, title: str) -> bytes:
        """Return a digest (16 bytes) of what is embedded: title of the page, headings, text."""
        parts = [title, *self.headings, self.text]
        head = ",".join(map(str, map(len, parts)))
        data = "\0".join((head, *parts)).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=16).digest()

    @property
    def section(self) -> str:
        """The id of the place in which it begins; empty: it has none."""
        return self.places[0].id if self.places and self.places[0].start == 0 else ""

    @property
    def page(self) -> int | None:
        """Of a PDF: the number of the page on which it begins."""
        return page_of_place(self.section)

    @property
    def path(self) -> str:
        """The headings as one text."""
        return " > ".join(self.headings)

    @property
    def own_text(self) -> str:
        """The text without the characters that an earlier chunk has."""
        return self.text[self.repeated :]


class ChunkSize(NamedTuple):
    """The longest chunk of text, and how much of the chunk before it one repeats: characters."""

    most: int = 1_500
    overlap: int = 0


DEFAULT_CHUNK_SIZE: Final = ChunkSize()


@dataclass(frozen=True, slots=True)
class Document:
    """The contents of one body. Nothing in it depends on the configuration of the crawl."""

    title: str = ""
    description: str = ""
    language: str = ""  #: ISO 639-1, empty when unsure
    sections: tuple[Section, ...] = ()
    images: tuple[Image, ...] = ()
    links: tuple[Link, ...] = ()  #: unfiltered, distinct by URL, in document order
    canonical: str | None = None  #: absolute URL
    refresh: str | None = None  #: absolute URL of another page to which it leads at once
    noindex: bool = False  #: meta robots
    nofollow: bool = False  #: meta robots
    links_cut: bool = False  #: whether there are more than are kept
    overlong: tuple[str, ...] = ()  #: beginnings of links that are too long to be requested
    charset: str = ""  #: as used for decoding
    content_type: str = ""  #: MIME type without parameters
    declared: str = ""  #: ISO 639-1, the language that it declares
    keywords: str = ""  #: of ``<meta name="keywords">`` as written, else its tags
    published: int | None = None  #: Unix seconds, where the page says it
    author: str = ""  #: where the page says it; several are separated by commas
    #: Those of a page; ``model.placed_spans`` puts them into ``sections``, for those who need them.
    counted: CountedSpans | None = None
    faulty: int = 0  #: blocks, links and pictures that its reader gave wrongly, and that it lacks

    @property
    def text(self) -> str:
        """Headings and text in reading order, one block a line."""
        return "\n".join(part for s in self.sections for part in (s.heading, s.text) if part)

    @property
    def text_length(self) -> int:
        """Characters of ``text``."""
        sizes = [len(part) for s in self.sections for part in (s.heading, s.text) if part]
        return sum(sizes) + max(0, len(sizes) - 1)


class EmbedderKey(NamedTuple):
    """Name, model and dimension of an embedder; vectors of different keys are never compared."""

    name: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class IndexedImage:
    """One image of a page, in the form of an external index."""

    id: str
    src: str  #: absolute
    alt: str
    context: str
    width: int | None  #: CSS pixels
    height: int | None  #: CSS pixels


@dataclass(frozen=True, slots=True)
class IndexedPage:
    """One page of an external index; a page without a ``mark`` is deleted from it."""

    no: int
    source: str
    id: bytes  #: SHA-256 of the normalized source
    mark: bytes | None = None  #: hash of the content
    url: str = ""
    canonical_url: str | None = None
    content_group: str = ""
    last_changed: int | None = None  #: Unix seconds
    published: int | None = None  #: Unix seconds, where the page says it
    author: str = ""  #: where the page says it
    mime_type: str = ""
    depth: int = 0
    title: str = ""
    description: str = ""
    language: str = ""
    chunks: tuple[Chunk, ...] = ()
    images: tuple[IndexedImage, ...] = ()
    vectors: Mapping[bytes, bytes] = field(default_factory=dict)  #: by the digests of chunks

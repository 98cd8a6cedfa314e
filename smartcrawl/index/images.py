"""The images of pages as documents of their own, children of the page that shows them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import can_ada

from smartcrawl.index.analysis.stems import KeyFinder, index_keys
from smartcrawl.index.queries import parsed_search_query
from smartcrawl.model.documents import PICTURE, Image, Section
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.urls import join_url, url_digest, url_digest_text, url_item_id
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import (
    numbers_for_sql,
    unpack_stored_document,
    unpack_stored_images,
)

_PAGES = """
SELECT r.no, r.id, r.url, coalesce(r.identity, r.url), c.document, c.language
  FROM record r JOIN content c ON c.no = r.content
 WHERE r.no IN carray(?)
"""


@dataclass(frozen=True, slots=True)
class ImageDocument:
    """One image as a child of one page."""

    id: str
    parent_page_id: str  #: the registry's id of the page
    parent_page_url: str
    source: str  #: address of the page that it was found on
    src: str  #: absolute
    alt: str
    width: int | None  #: CSS pixels
    height: int | None  #: CSS pixels
    context: str
    title: str = ""  #: its title, where the context is another text
    matched: bool | None = None  #: whether it has words of a query; None: there is none

    def as_json(self) -> dict[str, object]:
        """Return it under the names of the JSON output."""
        found: dict[str, object] = {
            "id": self.id,
            "parentPageId": self.parent_page_id,
            "parentPageUrl": self.parent_page_url,
            "source": self.source,
            "src": self.src,
            "alt": self.alt,
            "width": self.width,
            "height": self.height,
            "context": self.context,
        }
        return found if self.matched is None else found | {"matched": self.matched}


def images_to_index(
    connection: Connection, records: Iterable[int]
) -> dict[int, list[ImageDocument]]:
    """Return the images of some pages, by the numbers of their records, in document order.

    Images are part of a page's stored content. Clones have the same images, each as its own
    children, and a page without content has none. An image is one document a page, however often
    and in whichever spelling its address occurs there.

    Source: R0-26, R0-64, R0-65, R0-66, R0-101.
    """
    found: dict[int, list[ImageDocument]] = {number: [] for number in records}
    row: Any
    for row in connection.execute(_PAGES, (numbers_for_sql(found),)):
        no, key, url, identity, packed, _ = row
        images = unpack_stored_images(packed)
        found[no] = [child for child, _ in _children(key, url, identity, images)]
    return found


def images_of_hits(
    connection: Connection, records: Iterable[int], query: str
) -> dict[int, list[ImageDocument]]:
    """Return the images of found pages in document order, and which have words of the query.

    The words of an image are its alternative text, its title, its caption, and the line of the text
    in which it stands. The heading before it, which is its context where it has neither caption nor
    title, is none: a logo beside the text would have the words of the last heading of each page.

    Source: R0-61.
    """
    terms = parsed_search_query(query).terms
    found: dict[int, list[ImageDocument]] = {number: [] for number in records}
    row: Any
    for row in connection.execute(_PAGES, (numbers_for_sql(found),)):
        no, key, url, identity, packed, language = row
        finder = KeyFinder([term.keys(language) for term in terms])
        document = unpack_stored_document(packed)
        lines = dict(_lines_of_pictures(document.sections))
        headings = {_one_line(section.heading) for section in document.sections}
        found[no] = [
            replace(
                child,
                matched=any(
                    finder.places(index_keys(text, language))
                    for text in (*_words(image, headings), lines.get(image.src, ""))
                ),
            )
            for child, image in _children(key, url, identity, document.images)
        ]
    return found


def _lines_of_pictures(sections: Iterable[Section]) -> Iterator[tuple[str, str]]:
    """Yield the address of each picture in the text, and the line in which it stands."""
    for section in sections:
        text = section.text
        yield from ((span.target, section.heading) for span in section.head if span.kind == PICTURE)
        for span in section.spans:
            if span.kind == PICTURE:
                start, end = text.rfind("\n", 0, span.start) + 1, text.find("\n", span.start)
                yield span.target, text[start : end if end >= 0 else len(text)]


def _words(image: Image, headings: Container[str]) -> tuple[str, ...]:
    is_heading = _one_line(image.context) in headings
    return image.alt, image.title, "" if is_heading else image.context


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _children(
    page: bytes, url: str, identity: str, images: Iterable[Image]
) -> list[tuple[ImageDocument, Image]]:
    parent, base = url_item_id(url_item_kind(identity), page), can_ada.parse(url)
    children: dict[str, tuple[ImageDocument, Image]] = {}
    for image in images:
        src = join_url(base, image.src)
        if src is not None and src not in children:
            name = "image_" + url_digest_text(url_digest(f"{identity}\n{src}"))
            size = image.width, image.height
            child = ImageDocument(
                name, parent, url, url, src, image.alt, *size, image.context, image.title
            )
            children[src] = child, image
    return list(children.values())

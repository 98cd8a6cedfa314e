"""The images of pages as documents of their own, children of the page that shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import can_ada

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.urls import join_url, url_digest, url_digest_text, url_item_id
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_images

_PAGES = """
SELECT r.no, r.id, r.url, coalesce(r.identity, r.url), c.document
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

    def as_json(self) -> dict[str, object]:
        """Return it under the names of the JSON output."""
        return {
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
        found[row[0]] = _children(*row[1:])
    return found


def _children(page: bytes, url: str, identity: str, document: bytes) -> list[ImageDocument]:
    parent, base = url_item_id(url_item_kind(identity), page), can_ada.parse(url)
    children: dict[str, ImageDocument] = {}
    for image in unpack_stored_images(document):
        src = join_url(base, image.src)
        if src is not None and src not in children:
            name = "image_" + url_digest_text(url_digest(f"{identity}\n{src}"))
            children[src] = ImageDocument(
                name, parent, url, url, src, image.alt, image.width, image.height, image.context
            )
    return list(children.values())

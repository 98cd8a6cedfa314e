"""How links and documents lie in the registry: zstd over compact JSON, packed numbers.

PostgreSQL has links as JSON, for it unpacks no zstd, and a view of it is to show them.
"""

from __future__ import annotations

import json
import threading
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from backports import zstd
from pydantic import TypeAdapter

from smartcrawl.model.documents import Document, Image, Link, Section
from smartcrawl.model.ports import Many
from smartcrawl.model.urls import DEFAULT_TRACKERS, Trackers, normalize, url_hash

_LEVEL = 1  #: a third faster than 3, and 3 % larger


@dataclass(frozen=True, slots=True)
class _Fields:
    """What of a document is packed."""

    sections: tuple[Section, ...]
    images: tuple[Image, ...]


_LINKS: Final = TypeAdapter(list[Link])
_FIELDS: Final = TypeAdapter(_Fields)


class _Own(threading.local):
    """What each thread compresses with: a new context for every call costs as much as the call."""

    def __init__(self) -> None:
        self.zstd = zstd.ZstdCompressor(_LEVEL)


_OWN: Final = _Own()


def _packed(adapter: TypeAdapter[Any], value: Any) -> bytes:
    """Pack a value as zstd of JSON; the encoder of ``json`` takes ten times longer."""
    try:
        text = adapter.dump_json(value, warnings=False)
    except ValueError:  # half of a surrogate pair, which UTF-8 has no bytes for
        rows = adapter.dump_python(value, mode="python", warnings=False)
        told = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        text = told.encode("utf-8", "replace")
    return _OWN.zstd.compress(text, zstd.ZstdCompressor.FLUSH_FRAME)


def pack_links(links: Iterable[Link]) -> bytes:
    """Pack raw links as zstd of JSON ``[[url, anchor, type, nofollow], …]``."""
    return _packed(_LINKS, list(links))


def unpack_links(packed: bytes) -> list[Link]:
    """Return the links that ``pack_links`` packed, or those of ``shown_links``."""
    text = packed if packed[:1] == b"[" else zstd.decompress(packed)
    return [Link(row[0], row[1], row[2], bool(row[3])) for row in json.loads(text)]


def shown_links(packed: bytes, dialect: str, trackers: Trackers = DEFAULT_TRACKERS) -> bytes:
    """Return packed links as a database keeps them: for PostgreSQL as JSON that its view reads.

    The rows of that have the hash of the address's normalized source as a fifth column, where
    the address is not normalized.
    """
    if dialect != "postgres":
        return packed
    rows: list[list[Any]] = [list(link) for link in unpack_links(packed)]
    for row in rows:
        row[1] = row[1].replace("\0", "\ufffd")  # NUL is in no text of PostgreSQL
        if (told := _hash_told(row[0], trackers)) is not None:
            row.append(told)
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()


@lru_cache(65_536)  # a site's pages have the same menu
def _hash_told(url: str, trackers: Trackers) -> str | None:
    """Return the hash of an address; None where it is that of the address as it is."""
    identity = normalize(url, trackers)
    return None if identity == url else url_hash(identity)


def pack_numbers(numbers: Iterable[int]) -> bytes:
    """Pack numbers as uint32, in the machine's order: a cache, never carried elsewhere."""
    return array("I", numbers).tobytes()


def unpack_numbers(packed: bytes) -> array[int]:
    """Return the numbers that ``pack_numbers`` packed."""
    numbers = array("I")
    numbers.frombytes(packed)
    return numbers


def numbers(values: Iterable[int]) -> Many:
    """Return numbers as a value for ``IN carray(?)``, in order."""
    return Many(array("q", sorted(values)))


def pack_document(document: Document) -> bytes:
    """Pack what a content row keeps beside its columns: sections and images."""
    return _packed(_FIELDS, _Fields(document.sections, document.images))


def unpack_document(packed: bytes) -> Document:
    """Return the document that ``pack_document`` packed; its columns are left empty."""
    fields = json.loads(zstd.decompress(packed))
    return Document(
        sections=tuple(Section(*section) for section in fields["sections"]),
        images=_images(fields),
    )


def unpack_images(packed: bytes) -> tuple[Image, ...]:
    """Return the images of the document that ``pack_document`` packed."""
    return _images(json.loads(zstd.decompress(packed)))


def _images(fields: dict[str, Any]) -> tuple[Image, ...]:
    # Schema 5 and before had source and text of an image, nothing else.
    return tuple(Image(*image) for image in fields["images"])

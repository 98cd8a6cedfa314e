"""Stored forms of links and documents: zstd over compact JSON, and packed numbers.

PostgreSQL stores links as plain JSON, because a view shows them and it cannot unpack zstd.
"""

from __future__ import annotations

import json
import threading
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from backports import zstd

from smartcrawl.model.documents import (
    Block,
    CountedPicture,
    CountedSpans,
    Document,
    Image,
    Link,
    Section,
    Span,
)
from smartcrawl.model.placed_spans import placed_spans
from smartcrawl.model.urls import DEFAULT_TRACKERS, Trackers, normalize_url, url_hash
from smartcrawl.registry.connection import Many

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_LEVEL = 1  #: a third faster than 3, and 3 % larger


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a document that are packed."""

    sections: tuple[Section, ...]
    images: tuple[Image, ...]
    counted: CountedSpans | None
    keywords: str


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the writer of a type; only what packs something waits for pydantic's import."""
    from pydantic import TypeAdapter  # noqa: PLC0415

    return TypeAdapter(kind)


class _Own(threading.local):
    """One compressor for each thread: a new context would cost as much as the compression."""

    def __init__(self) -> None:
        self.zstd = zstd.ZstdCompressor(_LEVEL)


_OWN: Final = _Own()


def _packed(adapter: TypeAdapter[Any], value: Any) -> bytes:
    """Pack a value as zstd of JSON; the ``json`` module would take ten times longer."""
    try:
        text = adapter.dump_json(value, warnings=False)
    except ValueError:  # half of a surrogate pair, which UTF-8 cannot encode
        rows = adapter.dump_python(value, mode="python", warnings=False)
        compact = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        text = compact.encode("utf-8", "replace")
    return _OWN.zstd.compress(text, zstd.ZstdCompressor.FLUSH_FRAME)


def pack_stored_links(links: Iterable[Link]) -> bytes:
    """Pack raw links as zstd of JSON ``[[url, anchor, type, nofollow], …]``."""
    return _packed(_adapter(list[Link]), list(links))


def unpack_stored_links(packed: bytes) -> list[Link]:
    """Return the links that ``pack_stored_links`` or ``links_for_database`` packed."""
    text = packed if packed[:1] == b"[" else zstd.decompress(packed)
    return [Link(row[0], row[1], row[2], bool(row[3])) for row in json.loads(text)]


def links_for_database(packed: bytes, dialect: str, trackers: Trackers = DEFAULT_TRACKERS) -> bytes:
    """Return packed links in the form that a database stores: JSON for PostgreSQL's view.

    Where an address is not normalized, its row in the JSON has a fifth column: the hash of the
    normalized address.
    """
    if dialect != "postgres":
        return packed
    rows: list[list[Any]] = [list(link) for link in unpack_stored_links(packed)]
    for row in rows:
        row[1] = row[1].replace("\0", "\ufffd")  # PostgreSQL stores no NUL
        if (hashed := _own_hash(row[0], trackers)) is not None:
            row.append(hashed)
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()


@lru_cache(65_536)  # a site's pages have the same menu
def _own_hash(url: str, trackers: Trackers) -> str | None:
    """Return the hash of the normalized address; None if the address is normalized already."""
    identity = normalize_url(url, trackers)
    return None if identity == url else url_hash(identity)


def pack_stored_numbers(numbers: Iterable[int]) -> bytes:
    """Pack numbers as uint32 in the machine's byte order; not portable to other machines."""
    return array("I", numbers).tobytes()


def unpack_stored_numbers(packed: bytes) -> array[int]:
    """Return the numbers that ``pack_stored_numbers`` packed."""
    numbers = array("I")
    numbers.frombytes(packed)
    return numbers


def numbers_for_sql(values: Iterable[int]) -> Many:
    """Return numbers, sorted, as a value for ``IN carray(?)``."""
    return Many(array("q", sorted(values)))


def pack_stored_document(document: Document) -> bytes:
    """Pack the parts of a document that its chunks are made of: they have no column of their own.

    Keywords have one, too, but a document that is cut into chunks again comes without it.
    """
    fields = _Fields(document.sections, document.images, document.counted, document.keywords)
    return _packed(_adapter(_Fields), fields)


def unpack_stored_document(packed: bytes, *, placed: bool = True) -> Document:
    """Return the document that ``pack_stored_document`` packed, without other fields of columns.

    Its spans are ``placed`` in its texts, which takes half of the time, or counted.
    """
    fields = json.loads(zstd.decompress(packed))
    sections = tuple(map(_section, fields["sections"]))
    counted = fields.get("counted")  # those of pages, since version 9 of the extraction
    found = _counted(counted) if counted else None
    if found is not None and placed:
        sections, found = placed_spans(sections, found), None
    return Document(
        sections=sections,
        images=_images(fields),
        keywords=fields.get("keywords", ""),
        counted=found,
    )


def _counted(fields: list[Any]) -> CountedSpans:
    total, kinds, starts, ends, targets, pictures = fields
    shown = tuple(CountedPicture(*picture) for picture in pictures)
    return CountedSpans(total, kinds, starts, ends, targets, shown)


def _section(fields: list[Any]) -> Section:
    # Before schema 30 (SQLite) and 31 (PostgreSQL) a section had no blocks, up to version 8 of the
    # extraction no spans.
    level, heading, text = fields[:3]
    blocks, spans, head = (fields[at] if len(fields) > at else () for at in (3, 4, 5))
    return Section(
        level,
        heading,
        text,
        tuple(map(_block, blocks)),
        tuple(Span(*span) for span in spans),
        tuple(Span(*span) for span in head),
    )


def _block(fields: list[Any]) -> Block:
    # Up to version 5 of the extraction ``head`` was a bool, and a caption in the first row.
    kind, start, end, head, rows, *caption = fields
    return Block(kind, start, end, int(head), tuple(map(tuple, rows)), *caption)


def unpack_stored_images(packed: bytes) -> tuple[Image, ...]:
    """Return the images of the document that ``pack_stored_document`` packed."""
    return _images(json.loads(zstd.decompress(packed)))


def _images(fields: dict[str, Any]) -> tuple[Image, ...]:
    # Up to schema 5 an image had only its source and its text.
    return tuple(Image(*image) for image in fields["images"])

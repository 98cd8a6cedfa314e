"""The places in pages to which hits lead: sections, names, pages of PDFs (ADR 162)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import is_
from typing import Any, Final

from smartcrawl.extract.chunks import places_between, section_places
from smartcrawl.index.searching import Hit, HitChunk
from smartcrawl.model.documents import ChunkPlace, Section, page_of_place
from smartcrawl.registry.chunks import chunk_places_of_text
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_document

_ENOUGH: Final = 300  #: characters of a chunk by which it is found in its document
_PLACES = """
SELECT r.no, k.position, k.places
  FROM record r JOIN chunk k ON k.content = r.content
 WHERE r.no IN carray(?) AND k.position IN carray(?)
"""
_DOCUMENTS = """
SELECT r.no, c.document
  FROM record r JOIN content c ON c.no = r.content
 WHERE r.no IN carray(?)
"""


def hits_with_places(connection: Connection, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits whose chunks know the place that answers best.

    An index of an older version has no places: they are looked up in the stored documents.
    """
    is_known = all(chunk.places is not None for hit in hits for chunk in hit.chunks)
    known = {} if is_known else _stored_places(connection, hits)
    lacking = {
        hit.no
        for hit in hits
        for chunk in hit.chunks
        if chunk.places is None and (hit.no, chunk.number) not in known
    }
    rows: Any = ()
    if lacking:
        rows = connection.execute(_DOCUMENTS, (numbers_for_sql(lacking),)).fetchall()
    documents = {no: unpack_stored_document(packed).sections for no, packed in rows}

    def placed(no: int, chunk: HitChunk) -> HitChunk:
        places = chunk.places
        if places is None:
            places = known.get((no, chunk.number))
        if places is None:
            places = places_in_document(chunk, documents.get(no, ()))
        return chunk_with_best_place(chunk, places)

    found = []
    for hit in hits:
        chunks = tuple([placed(hit.no, chunk) for chunk in hit.chunks])
        is_same = all(map(is_, chunks, hit.chunks))
        found.append(hit if is_same else replace(hit, chunks=chunks))
    return found


def _stored_places(
    connection: Connection, hits: Sequence[Hit]
) -> dict[tuple[int, int], tuple[ChunkPlace, ...]]:
    """Return the places of chunks of hits in the embedded index, by record and position."""
    wanted = {
        (hit.no, chunk.number) for hit in hits for chunk in hit.chunks if chunk.places is None
    }
    if not wanted:
        return {}
    numbers = numbers_for_sql({no for no, _ in wanted})
    positions = numbers_for_sql({position for _, position in wanted})
    rows: Any = connection.execute(_PLACES, (numbers, positions)).fetchall()
    return {
        (no, position): chunk_places_of_text(places)
        for no, position, places in rows
        if places is not None and (no, position) in wanted
    }


def chunk_with_best_place(chunk: HitChunk, places: Sequence[ChunkPlace]) -> HitChunk:
    """Return a chunk of a hit with the place in it that answers best."""
    if not places:
        return chunk
    best = best_chunk_place(places, chunk.found, chunk.text)
    page = None if best is None else page_of_place(best.id)
    section = "" if best is None or page is not None else best.id
    if page is None and not section:
        return chunk
    return replace(chunk, page=page, section=section)


def best_chunk_place(
    places: Sequence[ChunkPlace], found: Sequence[tuple[int, int]], text: str
) -> ChunkPlace | None:
    """Return the place whose part of a chunk has most of the words of a query; None: it has none.

    A word counts twice where it is in a name that is defined there; of names that are as good the
    shorter one is taken, of other places the first. ``found``: the first character and the number
    of each word found in the ``text``.

    >>> places = [ChunkPlace(0, "functions"), ChunkPlace(0, "oct", True)]
    >>> places.append(ChunkPlace(21, "open", True))
    >>> text = "oct(x)\\nopen question\\nopen(file)"
    >>> best_chunk_place(places, [(7, 0), (21, 0)], text).id, best_chunk_place(places, [], text).id
    ('open', 'functions')
    """
    if not places:
        return None
    ends = [one.start for one in places[1:]] + [len(text) + 1]
    best, most = places[0], (0, 0)
    for place, end in zip(places, ends, strict=True):
        there = {word for at, word in found if place.start <= at < end}
        rating = len(there), 0
        if place.defines:
            line = text.find("\n", place.start)
            last = min(end, line if line >= 0 else len(text))
            named = {word for at, word in found if place.start <= at < last}
            rating = len(there) + len(named), -len(place.id) if named else -len(text)
        if rating[0] > most[0] or (place.defines and best.defines and rating > most):
            best, most = place, rating
    return best


def places_in_document(chunk: HitChunk, sections: Iterable[Section]) -> tuple[ChunkPlace, ...]:
    """Return the places of a chunk that is looked up in its document."""
    for section in sections:
        heading = section.heading
        if heading and chunk.path != heading and not chunk.path.endswith(f" > {heading}"):
            continue
        for part in (chunk.text[:_ENOUGH], chunk.text[-_ENOUGH:]):
            at = section.text.find(part)
            if at >= 0:
                return places_between(section_places(section), at, at + len(chunk.text))
    return ()

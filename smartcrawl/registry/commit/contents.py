"""The rows of contents: one for each hash, shared by all pages with that content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from smartcrawl.model.documents import Chunk
from smartcrawl.model.pages import Visit
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.index_protocols import Sink
from smartcrawl.registry.pack import pack_stored_document
from smartcrawl.rules.model import Action

#: A content of this page alone, needed for no undo, is overwritten with the page's next content.
_REPLACE = """
UPDATE content
   SET content_hash = ?2, text_hash = ?3, text_length = ?4, title = ?5, description = ?6,
       language = ?7, sample = ?8, charset = ?9, image_count = ?10, document = ?11,
       keywords = ?12, txt = ?13
 WHERE no = ?14 AND source = ?1 AND content_hash <> ?2
   AND NOT EXISTS (SELECT 1 FROM content WHERE source = ?1 AND content_hash = ?2)
   AND NOT EXISTS (SELECT 1 FROM record WHERE content = ?14 AND no <> ?15)
   AND NOT EXISTS (SELECT 1 FROM evidence WHERE content = ?14)
"""
_COLUMNS = """source, content_hash, text_hash, text_length, title, description, language, sample,
    charset, image_count, document, keywords, txt"""
_PUT = f"""
INSERT INTO content ({_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (source, content_hash) DO NOTHING RETURNING no
"""
_PUT_AS = f"""
INSERT INTO content (no, {_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (source, content_hash) DO NOTHING
"""
_HASHES = "SELECT content_hash FROM content WHERE source = ? AND content_hash IN carray(?)"
_NO = "SELECT no FROM content WHERE source = ? AND content_hash = ?"
_AGAIN = """
UPDATE content
   SET text_hash = ?, text_length = ?, title = ?, description = ?, language = ?, sample = ?,
       charset = ?, image_count = ?, document = ?, keywords = ?, txt = ?
 WHERE no = ?
"""
_HELD_BY = "SELECT 1 FROM record WHERE content = ? LIMIT 1"
_KEPT_FOR_UNDO = "SELECT 1 FROM evidence WHERE content = ? LIMIT 1"
_DROP = "DELETE FROM content WHERE no = ?"


class Holding(NamedTuple):
    """The content of a page after a visit."""

    content: int  #: content.no
    same: bool  #: the page had this content before
    alone: bool  #: certainly no other page has it


def prepare_content_rows(
    connection: Connection, sink: Sink, source: int, visits: Iterable[Visit]
) -> dict[int, int]:
    """Write first contents of pages to the index, before the transaction waits for other workers.

    Return content numbers by record number; these contents are indexed and have no row yet.
    """
    fresh: dict[bytes, Visit] = {}
    for visit in visits:
        new = visit.action is Action.INDEX and visit.page.record.content is None
        if new and visit.parsed.content_hash is not None:
            fresh.setdefault(visit.parsed.content_hash, visit)
    if not fresh:
        return {}
    held: Any = connection.execute(_HASHES, (source, Many(list(fresh)))).fetchall()
    for (known,) in held:
        del fresh[bytes(known)]
    texts: dict[int, tuple[str, Sequence[Chunk]]] = {}
    for visit in fresh.values():
        assert visit.parsed.document is not None, "INDEX needs a document"
        texts.setdefault(visit.page.no, (visit.parsed.document.title, visit.parsed.chunks))
    return dict(zip(texts, sink.prepare(list(texts.values())), strict=False)) if texts else {}


def hold_content_row(
    connection: Connection, sink: Sink, source: int, visit: Visit, prepared: dict[int, int]
) -> Holding:
    """Return the content row of a visit's document; write it if its hash is new.

    A number that is used is removed from ``prepared``.
    """
    parsed = visit.parsed
    page, document = visit.page, parsed.document
    assert document is not None, "INDEX needs a document"
    row = (
        source,
        parsed.content_hash,
        parsed.text_hash,
        document.text_length,
        document.title,
        document.description,
        document.language,
        parsed.sample,
        document.charset,
        len(document.images),
        pack_stored_document(document),
        document.keywords,
        "\n".join(chunk.own_text for chunk in parsed.chunks) if sink.is_elsewhere else None,
    )
    number = page.record.content
    if number is not None:
        connection.execute(_REPLACE, (*row, number, page.no))
        if connection.changes():
            sink.remove(number)
            sink.put(number, document.title, parsed.chunks)
            return Holding(number, same=False, alone=True)
    number = prepared.get(page.no)
    if number is not None:
        connection.execute(_PUT_AS, (number, *row))
        if connection.changes():
            del prepared[page.no]
            return Holding(number, same=False, alone=True)
    number = connection.execute(_PUT, row).get
    if number is not None:
        sink.put(number, document.title, parsed.chunks)
        return Holding(number, same=False, alone=True)
    number = int(connection.execute(_NO, row[:2]).get)
    same = number == page.record.content  # again: forced, or by another extraction
    if same:
        sink.remove(number)
    elif connection.execute(_HELD_BY, (number,)).get:
        return Holding(number, same=False, alone=False)  # a clone needs no index entry
    connection.execute(_AGAIN, (*row[2:], number))
    sink.put(number, document.title, parsed.chunks)
    return Holding(number, same=same, alone=not same)


def drop_content_row(connection: Connection, sink: Sink, content: int) -> bool:
    """Remove an orphaned content from the index; return False if a page still has it.

    Its row is deleted, too, unless the undo of a removal needs it.
    """
    if connection.execute(_HELD_BY, (content,)).get:
        return False
    sink.remove(content)
    if not connection.execute(_KEPT_FOR_UNDO, (content,)).get:
        connection.execute(_DROP, (content,))
    return True

"""The rows of contents: one for each hash, whoever holds it."""

from __future__ import annotations

from typing import NamedTuple

from smartcrawl.items import Visit
from smartcrawl.ports import Connection, Sink
from smartcrawl.registry.pack import pack_document

#: What one page held alone, and no removal needs to be undone, gives its row to what follows it.
_REPLACE = """
UPDATE content
   SET content_hash = ?2, text_hash = ?3, text_length = ?4, title = ?5, description = ?6,
       language = ?7, sample = ?8, charset = ?9, image_count = ?10, document = ?11
 WHERE no = ?12 AND source = ?1 AND content_hash <> ?2
   AND NOT EXISTS (SELECT 1 FROM content WHERE source = ?1 AND content_hash = ?2)
   AND NOT EXISTS (SELECT 1 FROM record WHERE content = ?12 AND no <> ?13)
   AND NOT EXISTS (SELECT 1 FROM evidence WHERE content = ?12)
"""
_PUT = """
INSERT INTO content (source, content_hash, text_hash, text_length, title, description,
                     language, sample, charset, image_count, document)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (source, content_hash) DO NOTHING RETURNING no
"""
_NO = "SELECT no FROM content WHERE source = ? AND content_hash = ?"
_AGAIN = """
UPDATE content
   SET text_hash = ?, text_length = ?, title = ?, description = ?, language = ?, sample = ?,
       charset = ?, image_count = ?, document = ?
 WHERE no = ?
"""
_HELD_BY = "SELECT 1 FROM record WHERE content = ? LIMIT 1"
_KEPT_FOR_UNDO = "SELECT 1 FROM evidence WHERE content = ? LIMIT 1"
_DROP = "DELETE FROM content WHERE no = ?"


class Holding(NamedTuple):
    """What a page holds after a visit."""

    content: int  #: content.no
    same: bool  #: whether the page held this content before
    alone: bool  #: whether it is certain that no other page does


def hold(connection: Connection, sink: Sink, source: int, visit: Visit) -> Holding:
    """Return the content row of what a visit found, written now if its hash is new."""
    page, document = visit.page, visit.document
    assert document is not None, "INDEX needs a document"
    row = (
        source,
        visit.content_hash,
        visit.text_hash,
        document.text_length,
        document.title,
        document.description,
        document.language,
        visit.sample,
        document.charset,
        len(document.images),
        pack_document(document),
    )
    number = page.content
    if number is not None:
        connection.execute(_REPLACE, (*row, number, page.no))
        if connection.changes():
            sink.remove(number)
            sink.put(number, document.title, visit.chunks)
            return Holding(number, same=False, alone=True)
    number = connection.execute(_PUT, row).get
    if number is not None:
        sink.put(number, document.title, visit.chunks)
        return Holding(number, same=False, alone=True)
    number = int(connection.execute(_NO, row[:2]).get)
    same = number == page.content  # again: by force, or by another extraction
    if same:
        sink.remove(number)
    elif connection.execute(_HELD_BY, (number,)).get:
        return Holding(number, same=False, alone=False)  # a clone needs no entry of its own
    connection.execute(_AGAIN, (*row[2:], number))
    sink.put(number, document.title, visit.chunks)
    return Holding(number, same=same, alone=not same)


def drop_content(connection: Connection, sink: Sink, content: int) -> bool:
    """Take a content that nobody holds any more out of the index; False while somebody does.

    Its row goes, too, unless a removal that can be undone needs it.
    """
    if connection.execute(_HELD_BY, (content,)).get:
        return False
    sink.remove(content)
    if not connection.execute(_KEPT_FOR_UNDO, (content,)).get:
        connection.execute(_DROP, (content,))
    return True

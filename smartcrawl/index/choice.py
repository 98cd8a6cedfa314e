"""Which index a registry is searched by: the one beside it, or an Elasticsearch (design.md 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smartcrawl.extract.chunks import chunks
from smartcrawl.index import known
from smartcrawl.index.elasticsearch.meta import Known
from smartcrawl.index.elasticsearch.pages import ElasticsearchPages
from smartcrawl.index.elasticsearch.patience import Patience
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink, Opening
from smartcrawl.index.elasticsearch.versions import epoch_of, version
from smartcrawl.index.embedded.choice import embedded_index
from smartcrawl.index.waiting import Waiting
from smartcrawl.index.writing import EmbeddedIndexing, RemoteIndexing
from smartcrawl.model.documents import Chunk
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.options import Options
from smartcrawl.model.ports import Connection, Indexing
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.pack import unpack_document

EMBEDDED: Final = EmbeddedIndexing(embedded_index)
_SWITCHED: Final = (
    "the pages of this registry lie in an index elsewhere, and ELASTICSEARCH_URL is empty: set it"
    " as it was, or begin a registry of its own (DATA_DIR, REGISTRY_URL)"
)
_BESIDE: Final = (
    "the pages of this registry lie in the index beside it, which an Elasticsearch does not take"
    " over by itself: begin a registry of its own (DATA_DIR, REGISTRY_URL), and crawl once"
)
_UNWRITTEN: Final = (
    "this registry has not written to an Elasticsearch so far, so nothing can be compared: crawl"
    " first"
)
_ALL_OPEN = """
UPDATE state SET intent = number + 1
 WHERE no IN (SELECT no FROM record WHERE entry > 0 AND content IS NOT NULL)
"""
_HOLDS = "SELECT 1 FROM chunk LIMIT 1"


def indexing_of(options: Options, connection: Connection) -> Indexing:
    """Return how the index of a registry is written.

    Raises:
        SinkError: it cannot be opened, or is not the one that the registry wrote so far.
    """
    told = known.known_of(connection)
    if options.elasticsearch is None:
        if told:
            raise SinkError(_SWITCHED)
        return EMBEDDED
    if not told and connection.execute(_HOLDS).get:
        raise SinkError(_BESIDE)
    waiting = Waiting()
    sink = opened(options, connection, on_wait=waiting)
    if told.get(known.IDENTITY) != sink.identity():
        with transaction(connection):
            if known.known_of(connection).get(known.IDENTITY) != sink.identity():  # by another one
                known.note(connection, identity=sink.identity(), epoch="1", sealed="0")
    return RemoteIndexing(ElasticsearchPages(sink), chunked, waiting)


def opened(
    options: Options,
    connection: Connection,
    how: Opening = Opening.KNOWN,
    on_wait: Callable[[str], None] | None = None,
) -> ElasticsearchSink:
    """Open the Elasticsearch that a registry writes.

    Another process may write both meanwhile, so that the index is ahead of what was read of the
    registry: then it is read again.

    Raises:
        SinkError: likewise.
    """
    facts = known_to(connection)
    while True:
        try:
            return opened_as(options, facts, how, on_wait)
        except SinkError:
            before, facts = facts, known_to(connection)
            if facts == before:
                raise


def opened_as(
    options: Options,
    facts: Known,
    how: Opening,
    on_wait: Callable[[str], None] | None = None,
) -> ElasticsearchSink:
    """Open an Elasticsearch as one of which something is known.

    Raises:
        SinkError: likewise.
    """
    assert options.elasticsearch is not None, "the caller asks"
    patience = Patience(options.sink_wait, on_wait or Waiting())
    return ElasticsearchSink.open(options.elasticsearch, facts, patience=patience, how=how)


def known_to(connection: Connection) -> Known:
    """Return what a registry knows of the index elsewhere that it wrote."""
    told = known.known_of(connection)
    sealing = told.get(known.SEALING)
    return Known(
        identity=told.get(known.IDENTITY),
        epoch=int(told.get(known.EPOCH, "1")),
        sealed=int(told.get(known.SEALED, "0")),
        sealing=None if sealing is None else int(sealing),
    )


def begin_epoch(options: Options, connection: Connection) -> tuple[int, int]:
    """Let what a registry writes from now on win over all that its index holds (design.md 6).

    For a registry that was restored from a backup: the index remembers higher numbers. Every page
    that is held is marked to be written anew. Returns the epoch, and how many pages.

    Raises:
        SinkError: the index cannot be opened.
    """
    with opened(options, connection, Opening.ANY) as sink:
        epoch = epoch_of(sink.highest()) + 1
        identity = sink.identity()
    with transaction(connection):
        known.note(connection, identity=identity, epoch=str(epoch), sealed=str(version(epoch, 0)))
        connection.execute(_ALL_OPEN)
        pages = connection.changes()
    with opened(options, connection, Opening.ANY) as sink:
        sink.sealed(0)
    return epoch, pages


def rebuild(options: Options, connection: Connection, now: int, told: Callable[[int], None]) -> int:
    """Write an index anew out of the registry, without one download; return how many pages.

    It is searched when it is whole, instead of what was before. ``told`` is called with the number
    of pages written so far.

    Raises:
        SinkError: the index cannot be opened or written.
    """
    sink = opened(options, connection, Opening.ANEW)
    indexing = RemoteIndexing(ElasticsearchPages(sink), chunked)
    if known.EPOCH not in known.known_of(connection):
        with transaction(connection):
            known.note(connection, epoch="1", sealed="0")
    try:
        count = indexing.write_all(connection, now, told)
        sink.refresh()
        identity = sink.publish()
        with transaction(connection):
            known.note(connection, identity=identity)
        indexing.seal(connection)
    finally:
        indexing.close()
    return count


def comparable(options: Options, connection: Connection) -> bool:
    """Return whether the index lies elsewhere, so that it can differ from the registry.

    Raises:
        SinkError: the registry has not written to the index that is named.
    """
    told = known.known_of(connection)
    if options.elasticsearch is None:
        if told:
            raise SinkError(_SWITCHED)
        return False
    if not told:
        raise SinkError(_BESIDE if connection.execute(_HOLDS).get else _UNWRITTEN)
    return True


def chunked(packed: bytes) -> list[Chunk]:
    """Return the chunks of a stored document."""
    return chunks(unpack_document(packed))

"""The index of a registry: the embedded one, or an Elasticsearch (design.md 7)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final

from smartcrawl.extract.chunks import chunks
from smartcrawl.index import known
from smartcrawl.index.elasticsearch.meta import Known
from smartcrawl.index.elasticsearch.opening import check_server, connect
from smartcrawl.index.elasticsearch.pages import ElasticsearchPages
from smartcrawl.index.elasticsearch.patience import Patience
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink, Opening
from smartcrawl.index.elasticsearch.versions import epoch_of, version
from smartcrawl.index.embedded.choice import embedded_index
from smartcrawl.index.waiting import Waiting
from smartcrawl.index.writing import EmbeddedIndexing, RemoteIndexing
from smartcrawl.model.documents import Chunk
from smartcrawl.model.elasticsearch_target import Target
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.options import Options
from smartcrawl.model.ports import Connection, Indexing
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.pack import unpack_document

EMBEDDED: Final = EmbeddedIndexing(embedded_index)
_SWITCHED: Final = (
    "the pages of this registry are indexed in an Elasticsearch, but ELASTICSEARCH_URL is empty:"
    " set it as it was, or begin a registry of its own (DATA_DIR, REGISTRY_URL)"
)
_BESIDE: Final = (
    "the pages of this registry are in its embedded index, which an Elasticsearch does not take"
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
_FIRST_ANSWER: Final = 30.0  #: seconds
_HOLDS = "SELECT 1 FROM chunk LIMIT 1"


def indexing_of(options: Options, connection: Connection) -> Indexing:
    """Return the writer of a registry's index.

    Raises:
        SinkError: the index cannot be opened, or is not the one that the registry wrote so far.
    """
    facts = known.known_of(connection)
    if options.elasticsearch is None:
        if facts:
            raise SinkError(_SWITCHED)
        return EMBEDDED
    if not facts and connection.execute(_HOLDS).get:
        raise SinkError(_BESIDE)
    waiting = Waiting()
    sink = opened(options, connection, on_wait=waiting)
    if facts.get(known.IDENTITY) != sink.identity():
        with transaction(connection):
            if (
                known.known_of(connection).get(known.IDENTITY) != sink.identity()
            ):  # another process did not
                known.note(connection, identity=sink.identity(), epoch="1", sealed="0")
    return RemoteIndexing(ElasticsearchPages(sink), chunked, waiting)


def check_server_of(target: Target) -> None:
    """Check the Elasticsearch of a registry that is not there yet, so that none is created for it.

    Raises:
        SinkError: it does not answer, is no Elasticsearch, or does not permit the user enough.
    """
    with closing(connect(target, _FIRST_ANSWER)) as client:
        check_server(client, target)


def opened(
    options: Options,
    connection: Connection,
    how: Opening = Opening.KNOWN,
    on_wait: Callable[[str], None] | None = None,
) -> ElasticsearchSink:
    """Open the Elasticsearch that a registry writes.

    Another process may write both in the meantime, so that the index is ahead of the facts that
    were read from the registry. Then they are read again.

    Raises:
        SinkError: the index cannot be opened, or is not the one that the registry wrote so far.
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
    """Open an Elasticsearch, to be compared with known facts.

    Raises:
        SinkError: the index cannot be opened, or the facts do not fit it.
    """
    assert options.elasticsearch is not None, "the caller asks"
    patience = Patience(options.sink_wait, on_wait or Waiting())
    return ElasticsearchSink.open(options.elasticsearch, facts, patience=patience, how=how)


def known_to(connection: Connection) -> Known:
    """Return the facts that a registry has recorded about its remote index."""
    facts = known.known_of(connection)
    sealing = facts.get(known.SEALING)
    return Known(
        identity=facts.get(known.IDENTITY),
        epoch=int(facts.get(known.EPOCH, "1")),
        sealed=int(facts.get(known.SEALED, "0")),
        sealing=None if sealing is None else int(sealing),
    )


def begin_epoch(options: Options, connection: Connection) -> tuple[int, int]:
    """Begin an epoch, in which a registry overwrites every document of its index (design.md 6).

    For a registry that was restored from a backup: its index has higher numbers. Every stored page
    is marked to be written anew. Returns the epoch, and the number of these pages.

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


def rebuild(
    options: Options, connection: Connection, now: int, report: Callable[[int], None]
) -> int:
    """Write an index anew out of the registry, without any download; return the number of pages.

    Searches use the new index when it is complete. ``report`` is called with the number of pages
    written so far.

    Raises:
        SinkError: the index cannot be opened or written.
    """
    sink = opened(options, connection, Opening.ANEW)
    indexing = RemoteIndexing(ElasticsearchPages(sink), chunked)
    if known.EPOCH not in known.known_of(connection):
        with transaction(connection):
            known.note(connection, epoch="1", sealed="0")
    try:
        count = indexing.write_all(connection, now, report)
        sink.refresh()
        identity = sink.publish()
        with transaction(connection):
            known.note(connection, identity=identity)
        indexing.seal(connection)
    finally:
        indexing.close()
    return count


def comparable(options: Options, connection: Connection) -> bool:
    """Return whether the index is remote, so that it can differ from the registry.

    Raises:
        SinkError: the registry has not written to the configured index.
    """
    facts = known.known_of(connection)
    if options.elasticsearch is None:
        if facts:
            raise SinkError(_SWITCHED)
        return False
    if not facts:
        raise SinkError(_BESIDE if connection.execute(_HOLDS).get else _UNWRITTEN)
    return True


def chunked(packed: bytes) -> list[Chunk]:
    """Return the chunks of a stored document."""
    return chunks(unpack_document(packed))

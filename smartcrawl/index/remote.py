"""The Elasticsearch of a registry: opened, compared and written anew (docs/elasticsearch.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.extract.repeated import document_without
from smartcrawl.index import known
from smartcrawl.index.elasticsearch.documents import epoch_of_index_version, index_version
from smartcrawl.index.elasticsearch.faults import index_patience
from smartcrawl.index.elasticsearch.meta import Known
from smartcrawl.index.elasticsearch.opening import check_elasticsearch, connect_elasticsearch
from smartcrawl.index.elasticsearch.sink import (
    READING,
    ElasticsearchPages,
    ElasticsearchSink,
    Opening,
)
from smartcrawl.index.embedding.choice import embedder_key
from smartcrawl.index.writing import Chunked, PageVectors, RemoteIndexing
from smartcrawl.model.documents import Chunk, ChunkSize, EmbedderKey
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.option_groups import ElasticsearchTarget
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.choices import (
    REGISTRY_ID,
    stored_choices,
    stored_registry_id,
)
from smartcrawl.registry.pack import unpack_stored_document

_UNWRITTEN: Final = (
    "this registry has not written to Elasticsearch yet, so there is nothing to compare: "
    "crawl first"
)
_ALL_OPEN = """
UPDATE state SET intent = number + 1
 WHERE no IN (SELECT no FROM record WHERE entry > 0 AND content IS NOT NULL)
"""
_FIRST_ANSWER: Final = 30.0  #: seconds
_NO_VECTORS = "UPDATE record SET sunk_vectors = 0 WHERE sunk_vectors <> 0"


def open_remote_index_writer(
    options: Options, connection: Connection, facts: Mapping[str, str]
) -> RemoteIndexing:
    """Return the writer of a registry's remote index; ``facts``: what the registry knows of it.

    Raises:
        SinkError: the index cannot be opened, or is not the one that the registry wrote so far.
    """
    sink = open_remote_index(options, connection)
    if facts.get(known.IDENTITY) != sink.identity():
        with transaction(connection):
            if (
                known.read_index_facts(connection).get(known.IDENTITY) != sink.identity()
            ):  # another process did not
                known.note_index_facts(connection, identity=sink.identity(), epoch="1", sealed="0")
    about = _facts_of_sink(options, sink)
    facts = known.read_index_facts(connection)
    if any(facts.get(f"index {word}", "") != fact for word, fact in about.items()):
        with transaction(connection):
            known.note_index_facts(connection, **about)
    sink.begin(known.count_index_opening(connection))
    return remote_indexing_of_sink(sink, options)


def remote_indexing_of_sink(sink: ElasticsearchSink, options: Options) -> RemoteIndexing:
    """Return the writer of an Elasticsearch that is open."""
    has_vectors = options.embedder is not None or sink.embedder is not None
    return RemoteIndexing(
        ElasticsearchPages(sink),
        index_document_chunker(options.chunks),
        sink.patience,
        PageVectors(sink.embedder) if has_vectors else None,
    )


def _facts_of_sink(options: Options, sink: ElasticsearchSink) -> dict[str, str]:
    """Return the facts about an index that messages and searches name, by their last words."""
    assert options.elasticsearch is not None, "it is open"
    return {"embedder": _embedder_fact(sink), "place": known.index_place(options.elasticsearch)}


def _embedder_fact(sink: ElasticsearchSink) -> str:
    """Return the embedder of an index as a fact of the registry; empty: it has none."""
    return "" if sink.embedder is None else json.dumps(sink.embedder)


def check_index_server(target: ElasticsearchTarget) -> None:
    """Check the Elasticsearch of a registry that is not there yet, so that none is created for it.

    Raises:
        SinkError: it does not answer, is no Elasticsearch, or does not permit the user enough.
    """
    with closing(connect_elasticsearch(target, _FIRST_ANSWER)) as client:
        check_elasticsearch(client, target)


def open_remote_index(
    options: Options,
    connection: Connection,
    how: Opening = Opening.KNOWN,
) -> ElasticsearchSink:
    """Open the Elasticsearch that a registry writes.

    Another process may write both in the meantime, so that the index is ahead of the facts that
    were read from the registry. Then they are read again. The registry gets its id, which the
    indices that it makes have in their mapping.

    Raises:
        SinkError: the index cannot be opened, or is not the one that the registry wrote so far.
    """
    facts = index_facts_of_registry(connection)
    if not facts.registry and how not in READING:
        with transaction(connection):
            facts = replace(facts, registry=stored_registry_id(connection))
    while True:
        try:
            return open_index_to_compare(options, facts, how)
        except SinkError as error:
            before, facts = facts, index_facts_of_registry(connection)
            if facts == before:
                assert options.elasticsearch is not None, "it was opened"
                opened = known.index_place(options.elasticsearch)
                words = known.index_place_words(known.read_index_facts(connection), opened)
                raise (SinkError(f"{error}{words}") if words else error) from error.__cause__


def open_searched_index(options: Options, connection: Connection) -> ElasticsearchSink:
    """Open the Elasticsearch that a registry writes, for searches alone.

    Raises:
        SinkError: the index cannot be opened, or is not the one that the registry wrote so far.
    """
    return open_remote_index(options, connection, Opening.SEARCHED)


def open_index_to_compare(
    options: Options,
    facts: Known,
    how: Opening,
) -> ElasticsearchSink:
    """Open an Elasticsearch, to be compared with known facts.

    Raises:
        SinkError: the index cannot be opened, or the facts do not fit it.
    """
    assert options.elasticsearch is not None, "the caller asks"
    patience = index_patience(options.sink_wait, options.elasticsearch.url)
    return ElasticsearchSink.open(
        options.elasticsearch,
        facts,
        patience=patience,
        how=how,
        embedder=partial(_embedder_of_new_index, options),
    )


def _embedder_of_new_index(options: Options) -> EmbedderKey | None:
    """Return the embedder whose vectors a new index gets.

    Raises:
        SettingError: the local one cannot be loaded.
    """
    return None if options.embedder is None else embedder_key(options.embedder)


def index_facts_of_registry(connection: Connection) -> Known:
    """Return the facts that a registry has recorded about its remote index."""
    facts = stored_choices(connection)
    sealing = facts.get(known.SEALING)
    return Known(
        identity=facts.get(known.IDENTITY),
        epoch=int(facts.get(known.EPOCH, "1")),
        sealed=int(facts.get(known.SEALED, "0")),
        sealing=None if sealing is None else int(sealing),
        registry=facts.get(REGISTRY_ID, ""),
        openings=int(facts.get(known.OPENINGS, "0")),
    )


def begin_index_epoch(options: Options, connection: Connection) -> tuple[int, int]:
    """Begin an epoch, in which a registry overwrites every document of its index (ADR 130).

    For a registry that was restored from a backup: its index has higher numbers. Every stored page
    is marked to be written anew. Returns the epoch, and the number of these pages.

    Raises:
        SinkError: the index cannot be opened.
    """
    with open_remote_index(options, connection, Opening.ANY) as sink:
        epoch = epoch_of_index_version(sink.highest()) + 1
        identity, openings = sink.identity(), sink.openings()
    with transaction(connection):
        known.note_index_facts(
            connection,
            identity=identity,
            epoch=str(epoch),
            sealed=str(index_version(epoch, 0)),
            openings=str(openings),
        )
        connection.execute(_ALL_OPEN)
        pages = connection.changes()
    with open_remote_index(options, connection, Opening.ANY) as sink:
        sink.sealed(0)
    return epoch, pages


class WrittenAnew(NamedTuple):
    """Result of an index that was written anew."""

    pages: int
    left: list[str]  #: indices with a name of our own form that another registry or program made


def write_index_anew(
    options: Options, connection: Connection, now: int, report: Callable[[int], None]
) -> WrittenAnew:
    """Write an index anew out of the registry, without any download.

    Searches use the new index when it is complete. ``report`` is called with the number of pages
    written so far.

    Raises:
        SinkError: the index cannot be opened or written.
    """
    sink = open_remote_index(options, connection, Opening.ANEW)
    indexing = remote_indexing_of_sink(sink, options)
    if known.EPOCH not in known.read_index_facts(connection):
        with transaction(connection):
            known.note_index_facts(connection, epoch="1", sealed="0")
    try:
        if indexing.vectors is None:
            with transaction(connection):
                connection.execute(_NO_VECTORS)
        count = indexing.write_all(connection, now, report)
        sink.refresh()
        identity, left = sink.publish()
        openings = str(sink.openings())
        with transaction(connection):
            known.note_index_facts(
                connection, identity=identity, openings=openings, **_facts_of_sink(options, sink)
            )
        indexing.seal(connection)
    finally:
        indexing.close()
    return WrittenAnew(count, left)


def has_remote_index(options: Options, connection: Connection) -> bool:
    """Return whether the index is remote, so that it can differ from the registry.

    Raises:
        SinkError: the registry has not written to the configured index.
    """
    facts = known.remote_index_facts(connection, options)
    if facts is None:
        return False
    if not facts:
        raise SinkError(_UNWRITTEN)
    return True


def index_document_chunker(size: ChunkSize) -> Chunked:
    """Return the function that cuts a stored document into chunks."""

    def chunked(packed: bytes, marked: str) -> list[Chunk]:
        return document_chunks(document_without(unpack_stored_document(packed), marked), size)

    return chunked

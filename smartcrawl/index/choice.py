"""The index of a registry: the embedded one, or an Elasticsearch (docs/elasticsearch.md)."""

from __future__ import annotations

from typing import Final

from smartcrawl.index import known
from smartcrawl.index.embedded.choice import embedded_index
from smartcrawl.index.embedded.reanalysis import analyze_stored_texts
from smartcrawl.index.writing import EmbeddedIndexing
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.index_protocols import Indexing

EMBEDDED: Final = EmbeddedIndexing(embedded_index)


def index_writer_of_registry(options: Options, connection: Connection) -> Indexing:
    """Return the writer of a registry's index; first the words of stored texts are made anew.

    Nothing is made where this version has made them already, nor in a dry run.

    Raises:
        SinkError: the index cannot be opened, or is not the one that the registry wrote so far.
    """
    facts = known.remote_index_facts(connection, options)
    if facts is None:
        if not connection.is_read_only:
            analyze_stored_texts(connection)
        return EMBEDDED
    from smartcrawl.index.remote import open_remote_index_writer  # noqa: PLC0415  # the embedded index needs none of it

    return open_remote_index_writer(options, connection, facts)

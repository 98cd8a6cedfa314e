"""Facts that a registry has recorded about its remote index (ADR 130)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.option_groups import ElasticsearchTarget
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.chunks import INDEXED_EMBEDDER
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database import choices
from smartcrawl.registry.visibility import PRIVATE_SOURCES, Readable, readable_sources
from smartcrawl.rules.visibility import Reader

IDENTITY: Final = "index identity"
EPOCH: Final = "index epoch"
SEALED: Final = "index sealed"
SEALING: Final = "index sealing"
OPENINGS: Final = "index openings"
PLACE: Final = "index place"  #: name and server, for messages
EMBEDDER: Final = INDEXED_EMBEDDER  #: empty: the index has no field for vectors

_NAMES: Final = (IDENTITY, EPOCH, SEALED, SEALING, OPENINGS, PLACE, EMBEDDER)
#: All choices, and the names of private sources.
_SEARCHED: Final = (
    f"SELECT name, value FROM choice UNION ALL SELECT NULL, name FROM ({PRIVATE_SOURCES}) AS p"
)
_HOLDS: Final = "SELECT 1 FROM chunk LIMIT 1"
_SWITCHED: Final = (
    "the pages of this registry are indexed in an Elasticsearch, but ELASTICSEARCH_URL is empty:"
    " set it as it was, or begin a registry of its own (DATA_DIR, REGISTRY_URL)"
)
_BESIDE: Final = (
    "the pages of this registry are in its embedded index, and not in the Elasticsearch of"
    " ELASTICSEARCH_URL yet; to write them there, without a download:"
    f" {program_name()} reindex --from-registry"
)


def read_index_facts(connection: Connection) -> dict[str, str]:
    """Return the facts by the names above; empty if the registry has no remote index."""
    return _facts(choices.stored_choices(connection))


def _facts(stored: Mapping[str, str]) -> dict[str, str]:
    return {name: stored[name] for name in _NAMES if name in stored}


def searched_index_facts(
    connection: Connection, options: Options, reader: Reader
) -> tuple[dict[str, str] | None, Readable]:
    """Return what ``remote_index_facts`` does, and the sources that a reader may search.

    Both by one statement, so that a search costs nothing more where no source is private.

    Raises:
        SinkError: the registry has its index elsewhere than the settings say.
    """
    if reader.sees_all:
        return remote_index_facts(connection, options), None
    rows = connection.execute(_SEARCHED).fetchall()
    private = [value for name, value in rows if name is None]
    facts = _facts({name: value for name, value in rows if name is not None})
    return (
        _checked_facts(connection, options, facts),
        readable_sources(connection, reader, private),
    )


def remote_index_facts(connection: Connection, options: Options) -> dict[str, str] | None:
    """Return the facts about the remote index of the settings; None: they mean the embedded one.

    Empty: the registry has written to none so far.

    Raises:
        SinkError: the registry has its index elsewhere than the settings say.
    """
    return _checked_facts(connection, options, read_index_facts(connection))


def _checked_facts(
    connection: Connection, options: Options, facts: dict[str, str]
) -> dict[str, str] | None:
    if options.elasticsearch is None:
        if facts:
            raise SinkError(f"{_SWITCHED}{index_place_words(facts, None)}")
        return None
    if not facts and connection.execute(_HOLDS).get:
        raise SinkError(_BESIDE)
    return facts


def index_place(target: ElasticsearchTarget) -> str:
    """Return name and server of an index, for messages: a URL without credentials.

    >>> index_place(ElasticsearchTarget("http://localhost:9200", "docs"))
    'docs-pages at http://localhost:9200'
    """
    return f"{target.prefix}-pages at {target.url}"


def index_place_words(facts: Mapping[str, str], opened: str | None) -> str:
    """Return the end of a message that says which index a registry has, unless it is the opened."""
    place = facts.get(PLACE)
    return "" if place in (None, opened) else f"; the index of this registry is {place}"


def count_index_opening(connection: Connection) -> int:
    """Count an opening of the index to write it, and return the count, in a transaction."""
    with transaction(connection):
        count = int(choices.stored_choices(connection).get(OPENINGS, "0")) + 1
        choices.store_choice_row(connection, OPENINGS, str(count))
        return count


def note_index_facts(connection: Connection, **facts: str) -> None:
    """Record facts by the last words of their names; the caller opens the transaction."""
    for word, value in facts.items():
        choices.store_choice_row(connection, f"index {word}", value)

"""Facts that a registry has recorded about its remote index (design.md 6)."""

from __future__ import annotations

from typing import Final

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database import choices
from smartcrawl.registry.remote_chunks import INDEXED_EMBEDDER

IDENTITY: Final = "index identity"
EPOCH: Final = "index epoch"
SEALED: Final = "index sealed"
SEALING: Final = "index sealing"
EMBEDDER: Final = INDEXED_EMBEDDER  #: empty: the index has no field for vectors

_NAMES: Final = (IDENTITY, EPOCH, SEALED, SEALING, EMBEDDER)


def read_index_facts(connection: Connection) -> dict[str, str]:
    """Return the facts by the names above; empty if the registry has no remote index."""
    stored = choices.stored_choices(connection)
    return {name: stored[name] for name in _NAMES if name in stored}


def note_index_facts(connection: Connection, **facts: str) -> None:
    """Record facts by the last words of their names; the caller opens the transaction."""
    for word, value in facts.items():
        choices.store_choice_row(connection, f"index {word}", value)

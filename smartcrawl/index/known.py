"""Facts that a registry has recorded about its remote index (design.md 6)."""

from __future__ import annotations

from typing import Final

from smartcrawl.model.ports import Connection
from smartcrawl.registry.database import choices

IDENTITY: Final = "index identity"
EPOCH: Final = "index epoch"
SEALED: Final = "index sealed"
SEALING: Final = "index sealing"

_NAMES: Final = (IDENTITY, EPOCH, SEALED, SEALING)


def known_of(connection: Connection) -> dict[str, str]:
    """Return the facts by the names above; empty if the registry has no remote index."""
    stored = choices.stored(connection)
    return {name: stored[name] for name in _NAMES if name in stored}


def note(connection: Connection, **facts: str) -> None:
    """Record facts by the last words of their names; the caller opens the transaction."""
    for word, value in facts.items():
        choices.store(connection, f"index {word}", value)

"""What a registry knows of the index that it writes elsewhere (design.md 6)."""

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
    """Return what is known, by the names above; empty where no index was written elsewhere."""
    stored = choices.stored(connection)
    return {name: stored[name] for name in _NAMES if name in stored}


def note(connection: Connection, **told: str) -> None:
    """Note facts, by the last word of their names; the caller opens the transaction."""
    for word, value in told.items():
        choices.store(connection, f"index {word}", value)

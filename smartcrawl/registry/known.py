"""What a registry knows of the index that it writes elsewhere (design.md 6)."""

from __future__ import annotations

from typing import Final

from smartcrawl.ports import Connection

IDENTITY: Final = "index identity"
EPOCH: Final = "index epoch"
SEALED: Final = "index sealed"
SEALING: Final = "index sealing"

_READ = "SELECT name, value FROM choice WHERE name IN ('index identity', 'index epoch',"
_READ += " 'index sealed', 'index sealing')"
_WRITE = """
INSERT INTO choice (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


def known_of(connection: Connection) -> dict[str, str]:
    """Return what is known, by the names above; empty where no index was written elsewhere."""
    return dict(connection.execute(_READ).fetchall())


def note(connection: Connection, **told: str) -> None:
    """Note facts, by the last word of their names; the caller opens the transaction."""
    for word, value in told.items():
        connection.execute(_WRITE, (f"index {word}", value))

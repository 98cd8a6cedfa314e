"""Choices of the operator that views depend on."""

from __future__ import annotations

from secrets import token_hex
from typing import Final

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.connection import Connection

ITEMS: Final = "IngestItems"
REGISTRY_ID: Final = "registry id"
_CHOSEN = "SELECT name, value FROM choice"
_CHOOSE = """
INSERT INTO choice (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
#: If several processes start at once, one chooses, and the others read its choice.
_CHOSEN_NAME = """
INSERT INTO choice (name, value) VALUES ('table', ?)
ON CONFLICT (name) DO UPDATE SET value = choice.value RETURNING value
"""
#: If several processes begin at once, one draws the id, and the others read it.
_OWN_ID = f"""
INSERT INTO choice (name, value) VALUES ('{REGISTRY_ID}', ?)
ON CONFLICT (name) DO UPDATE SET value = choice.value RETURNING value
"""
_TAKEN = "SELECT name FROM relation WHERE lower(name) = lower(?)"


def stored_choices(connection: Connection) -> dict[str, str]:
    """Return all choices, by name."""
    return dict(connection.execute(_CHOSEN).fetchall())


def store_choice_row(connection: Connection, name: str, value: str) -> None:
    """Store a choice; the caller opens the transaction."""
    connection.execute(_CHOOSE, (name, value))


def store_view_choices(connection: Connection, *, partition: str, table: str) -> None:
    """Store the kind of PartitionKey and the name of the registry's view, if they differ.

    The view "IngestItems" always exists; ``table`` is a second name of it. The caller opens the
    transaction.

    Raises:
        RegistryError: another relation of the registry has that name.
    """
    chosen = stored_choices(connection)
    if chosen.get("partition", "host") != partition:
        store_choice_row(connection, "partition", partition)
    if chosen.get("table", ITEMS) == table:
        return
    before = connection.execute(_CHOSEN_NAME, (ITEMS,)).get
    if before == table:
        return
    if table != ITEMS and connection.execute(_TAKEN, (table,)).get:
        raise RegistryError(
            f"REGISTRY_TABLE_NAME is {table!r}, which the registry needs for itself:"
            " choose another name"
        )
    if before != ITEMS:
        connection.execute(f'DROP VIEW "{before}"')
    if table != ITEMS:
        connection.execute(f'CREATE VIEW "{table}" AS SELECT * FROM "{ITEMS}"')
    store_choice_row(connection, "table", table)


def stored_registry_id(connection: Connection) -> str:
    """Return the random id of a registry, 16 hexadecimal digits; draw it if there is none yet.

    It distinguishes the registry from others that share a Redis or an Elasticsearch. A copy has
    the same id. The caller opens the transaction.
    """
    return str(connection.execute(_OWN_ID, (token_hex(8),)).get)

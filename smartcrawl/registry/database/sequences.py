"""Sequences of unique numbers: of claims, and of addresses."""

from __future__ import annotations

from smartcrawl.registry.connection import Connection

_NEXT = "UPDATE sequence SET value = value + ? WHERE name = ? RETURNING value"
_LAST = "SELECT value FROM sequence WHERE name = ?"


def draw_sequence_numbers(connection: Connection, name: str, count: int = 1) -> int:
    """Draw ``count`` numbers of a sequence and return the last."""
    return int(connection.execute(_NEXT, (count, name)).get)


def last_sequence_number(connection: Connection, name: str) -> int:
    """Return the last drawn number of a sequence."""
    return int(connection.execute(_LAST, (name,)).get)

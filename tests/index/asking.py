"""Searches of the embedded index, in either database."""

from typing import Any

from smartcrawl.index.embedded.choice import search_embedded_index
from smartcrawl.index.searching import Hit
from smartcrawl.registry.connection import Connection


def search(connection: Connection, query: str, **options: Any) -> list[Hit]:
    """The pages that answer a query."""
    return search_embedded_index(connection, query, **options).hits

"""The client library of Elasticsearch, loaded at its first use.

Scrapy imports all commands to run one of them, and most runs have no Elasticsearch. The library
would take a third of their start-up time, and 16 MiB.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elasticsearch import (
        ApiError,
        ConnectionTimeout,
        Elasticsearch,
        SSLError,
        TransportError,
        UnsupportedProductError,
    )

__all__ = [
    "ApiError",
    "ConnectionTimeout",
    "Elasticsearch",
    "SSLError",
    "TransportError",
    "UnsupportedProductError",
]


def __getattr__(name: str) -> Any:
    """Return the object with this name from the library."""
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module("elasticsearch"), name)

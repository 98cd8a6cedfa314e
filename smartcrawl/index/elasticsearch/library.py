"""The client library of Elasticsearch, loaded when something of it is used for the first time.

Scrapy imports all commands to run one of them, and most runs have no Elasticsearch: the library
would be a third of their start, and 16 MiB.
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
    """Return what has this name in the library."""
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module("elasticsearch"), name)

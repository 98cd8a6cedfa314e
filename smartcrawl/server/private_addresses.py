"""Addresses that came over the API, and which no crawl may connect to."""

from __future__ import annotations

from smartcrawl.model.urls import url_endpoint
from smartcrawl.rules.connections import (
    METADATA_NAMES,
    ConnectionGuard,
    bare_connection_host,
    literal_connection_address,
)


def names_private_job_address(url: str, guard: ConnectionGuard) -> bool:
    """Whether a request URL names a private address that is not allowed.

    Other names are checked when they are resolved. The port counts as permitted: the scope of a
    source has it.
    """
    host, port = url_endpoint(url)
    name = bare_connection_host(host)
    if literal_connection_address(name) is None and name.rstrip(".") not in METADATA_NAMES:
        return False
    guard.permit_port(host, port)
    return guard.refusal(name, host=host, port=port) is not None

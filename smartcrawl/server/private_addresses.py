"""Addresses that came over the API and that no crawl may connect to."""

from __future__ import annotations

from smartcrawl.model.options import Options
from smartcrawl.model.urls import url_endpoint
from smartcrawl.rules.connections import METADATA_NAMES, ConnectionGuard, bare_host, literal_address


def is_private_address(url: str, options: Options) -> bool:
    """Whether ALLOW_NETWORKS does not open the address of a URL.

    A name is checked when the crawl resolves it, but for those of clouds.
    """
    host, port = url_endpoint(url)
    if literal_address(bare_host(host)) is None and bare_host(host) not in METADATA_NAMES:
        return False
    guard = ConnectionGuard(options.allow_networks, options.allow_ports)
    guard.permit_port(host, port)
    return guard.refusal(bare_host(host), host=host, port=port) is not None

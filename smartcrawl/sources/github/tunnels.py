"""Tunnels through a proxy, to hosts that may be addresses of IPv6."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPSConnection


class TunnelConnection(HTTPSConnection):
    """A connection over TLS that asks a proxy for a host in the form that RFC 9110, 9.3.6, has.

    An address of IPv6 has brackets there, which Python 3.11 leaves out. For TLS it has none.
    """

    def set_tunnel(
        self, host: str, port: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Lead to ``host``, an address without brackets; ``headers``: for the proxy alone."""
        own = {"Host": f"{_bracketed(host)}:{port or self.default_port}"}
        super().set_tunnel(host, port, own | dict(headers or {}))

    def _tunnel(self) -> None:
        host: str = self._tunnel_host  # type: ignore[has-type]
        self._tunnel_host = _bracketed(host)
        super()._tunnel()  # type: ignore[misc]
        self._tunnel_host = host


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

"""Which addresses may be connected to: public ones, and private ones by permission only.

A page can name any host, and any host can resolve to this machine or its network. The guard
therefore sits in the resolver, which every connection passes, address literals included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any, Self

import can_ada
from scrapy.crawler import Crawler
from scrapy.resolver import CachingHostnameResolver
from twisted.internet.base import ReactorBase
from twisted.internet.interfaces import IAddress, IResolutionReceiver
from zope.interface import implementer

from smartcrawl.options import Options

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: Blocks that are not reachable on the public internet (IANA special-purpose registries).
SPECIAL: tuple[Network, ...] = tuple(
    ip_network(block)
    for block in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/128",
        "::1/128",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)
_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")


def unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address carries, or the address itself.

    >>> unwrapped(ip_address("::ffff:127.0.0.1")), unwrapped(ip_address("2002:7f00:1::"))
    (IPv4Address('127.0.0.1'), IPv4Address('127.0.0.1'))
    """
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


class Guard:
    """Says which addresses may be connected to."""

    def __init__(self, networks: Sequence[Network] = ()) -> None:
        self._networks = tuple(networks)
        self._endpoints: set[tuple[str, int]] = set()

    def permit(self, host: str, port: int) -> None:
        """Allow one host and port, whatever it resolves to: it was given by hand as a seed."""
        self._endpoints.add((host.lower().strip("[]"), port))

    def allows(self, address: str, *, host: str, port: int) -> bool:
        """Whether ``address``, which ``host`` resolved to, may be connected to at ``port``.

        >>> guard = Guard([ip_network("10.1.0.0/16")])
        >>> guard.permit("localhost", 8000)
        >>> asked = ("10.1.2.3", "10.2.0.1", "8.8.8.8")
        >>> [guard.allows(address, host="x.example", port=80) for address in asked]
        [True, False, True]
        >>> [guard.allows("127.0.0.1", host="localhost", port=port) for port in (8000, 9200)]
        [True, False]
        """
        if (host.lower().strip("[]"), port) in self._endpoints:
            return True
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        plain = unwrapped(found)
        if any(a in network for network in self._networks for a in (found, plain)):
            return True
        return not any(a in network for network in SPECIAL for a in (found, plain))


class GuardedResolver(CachingHostnameResolver):
    """Twisted's name resolver, giving allowed addresses only (TWISTED_DNS_RESOLVER).

    It is installed once per process and guards from the moment that a run asks it to with
    ``protect``; a plain spider of the user's own connects where it likes. ``refused`` keeps
    the address that a host name was refused for, to tell a refusal from a failed look-up.
    """

    def __init__(self, reactor: ReactorBase, cache_size: int) -> None:
        super().__init__(reactor, cache_size)
        self.guard = Guard()
        self.guarding = False
        self.refused: dict[str, str] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler, reactor: ReactorBase) -> Self:
        """Read ALLOW_NETWORKS, once."""
        resolver = super().from_crawler(crawler, reactor)
        resolver.guard = Guard(Options.of(crawler.settings).allow_networks)
        return resolver

    def protect(self, endpoints: Iterable[tuple[str, int]]) -> None:
        """Guard from now on, and permit these (host, port) pairs: seeds given by hand."""
        self.guarding = True
        for host, port in endpoints:
            self.guard.permit(host, port)

    def resolveHostName(
        self,
        resolutionReceiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type[IAddress]] | None = None,
        transportSemantics: str = "TCP",
    ) -> Any:
        """Resolve a name, or pass a literal on, and leave out what may not be connected to."""
        receiver: Any = resolutionReceiver
        if self.guarding:
            receiver = _Filter(resolutionReceiver, self, hostName, portNumber)
        return super().resolveHostName(
            receiver, hostName, portNumber, addressTypes, transportSemantics
        )


@implementer(IResolutionReceiver)
class _Filter:
    def __init__(self, receiver: Any, resolver: GuardedResolver, host: str, port: int) -> None:
        self._receiver = receiver
        self._resolver = resolver
        self._host = host
        self._port = port

    def resolutionBegan(self, resolutionInProgress: Any) -> None:
        self._receiver.resolutionBegan(resolutionInProgress)

    def addressResolved(self, address: Any) -> None:
        if self._resolver.guard.allows(address.host, host=self._host, port=self._port):
            self._receiver.addressResolved(address)
        else:
            self._resolver.refused[self._host.lower().strip("[]")] = address.host

    def resolutionComplete(self) -> None:
        self._receiver.resolutionComplete()


def refused_address(url: str) -> str | None:
    """Return the address that the host of ``url`` resolved to and that the guard refused."""
    resolver = installed_resolver()
    host = can_ada.parse(url).hostname.strip("[]")
    return resolver.refused.get(host) if resolver is not None else None


def installed_resolver() -> GuardedResolver | None:
    """Return the resolver of this process, or None where another one was configured."""
    from twisted.internet import reactor  # noqa: PLC0415  # importing it installs one

    resolver = getattr(reactor, "nameResolver", None)
    return resolver if isinstance(resolver, GuardedResolver) else None

"""The guard of connections: to public addresses, and to private ones by permission only.

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
from urllib.request import getproxies

from scrapy.crawler import Crawler
from scrapy.resolver import CachingHostnameResolver
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IResolutionReceiver
from zope.interface import implementer

from smartcrawl.model.options import Options
from smartcrawl.model.urls import url_endpoint

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: Blocks that are not reachable on the public internet, and their purposes: the IANA
#: special-purpose registries, multicast, and addresses at which clouds give credentials to
#: their machines. The first block that contains an address names it.
SPECIAL: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(block), purpose)
    for block, purpose in (
        ("169.254.169.254/32", "metadata"),  # AWS, Azure, Google, DigitalOcean …
        ("169.254.170.0/24", "metadata"),  # AWS containers
        ("100.100.100.200/32", "metadata"),  # Alibaba
        ("192.0.0.192/32", "metadata"),  # Oracle
        ("168.63.129.16/32", "metadata"),  # Azure's wire server
        ("fd00:ec2::/32", "metadata"),  # AWS
        ("fd20:ce::254/128", "metadata"),  # Google
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("64:ff9b:1::/48", "translation"),
        ("100::/64", "discard"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
#: Names under which clouds answer to their own machines, whatever they resolve to.
METADATA_NAMES = frozenset(
    {"metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
PORTS = frozenset({80, 443})  #: default ports allowed on public hosts
METADATA = "metadata"
_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")


def unwrapped_ipv4(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address carries, or the address itself.

    >>> unwrapped_ipv4(ip_address("::ffff:127.0.0.1")), unwrapped_ipv4(ip_address("2002:7f00:1::"))
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


class ConnectionGuard:
    """Decides which addresses may be connected to."""

    def __init__(self, networks: Sequence[Network] = (), ports: Iterable[int] = ()) -> None:
        self._networks = tuple(networks)
        self._ports = PORTS.union(ports)
        self._endpoints: set[tuple[str, int]] = set()
        self._named: set[tuple[str, int]] = set()

    def permit(self, host: str, port: int) -> None:
        """Allow one host and port, whatever it resolves to: the operator named it as a seed."""
        self._endpoints.add((_bare(host), port))

    def permit_port(self, host: str, port: int) -> None:
        """Allow a port of a public host, because the source names them together."""
        self._named.add((_bare(host), port))

    def refusal(self, address: str, *, host: str, port: int) -> str | None:
        """Return why ``address``, which ``host`` resolved to, may not be connected to.

        >>> guard = ConnectionGuard([ip_network("10.1.0.0/16")])
        >>> guard.permit("localhost", 8000)
        >>> asked = ("10.1.2.3", "10.2.0.1", "8.8.8.8")
        >>> [guard.refusal(address, host="x.example", port=80) for address in asked]
        [None, 'address not allowed: private (10.2.0.1)', None]
        >>> [guard.refusal("127.0.0.1", host="localhost", port=port) for port in (8000, 9200)]
        [None, 'address not allowed: loopback (127.0.0.1)']
        >>> guard.refusal("8.8.8.8", host="x.example", port=25)
        'port not allowed: 25'

        Source: ATT-1 to ATT-9; INV-22.
        """
        host = _bare(host)
        given = (host, port) in self._endpoints
        if given and _parsed(host) is not None:
            return None
        if host.rstrip(".") in METADATA_NAMES:
            return f"address not allowed: metadata ({host})"
        found = _parsed(address)
        if found is None:
            return f"address not allowed: it is none ({address})"
        forms = {found, unwrapped_ipv4(found)}
        if any(form in network for network in self._networks for form in forms):
            return None
        for block, purpose in SPECIAL:
            if any(form in block for form in forms):
                # A seed's name may be private; the owner of the name may not lead it to metadata.
                if given and purpose != METADATA:
                    return None
                return f"address not allowed: {purpose} ({found})"
        if given:
            return None
        if port not in self._ports and (host, port) not in self._named:
            return f"port not allowed: {port}"
        return None


def _parsed(text: str) -> Address | None:
    """Return a literal address without its zone; None when the text is no address."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _bare(host: str) -> str:
    return host.lower().strip("[]")


class GuardedResolver(CachingHostnameResolver):
    """Twisted's name resolver, giving allowed addresses only (TWISTED_DNS_RESOLVER).

    It is installed once per process and guards from the first ``protect`` of a run; a plain
    spider of the user's own may connect to any address. Connections go to the addresses that it
    gives, without another look-up. ``refused`` has the reason by host and port, which
    distinguishes a refusal from a failed look-up.
    """

    def __init__(self, reactor: ReactorBase, cache_size: int) -> None:
        super().__init__(reactor, cache_size)
        self.guard = ConnectionGuard()
        self.guarding = False
        self.refused: dict[tuple[str, int], str] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler, reactor: ReactorBase) -> Self:
        """Read ALLOW_NETWORKS and ALLOW_PORTS, once."""
        resolver = super().from_crawler(crawler, reactor)
        options = Options.of(crawler.settings)
        resolver.guard = ConnectionGuard(options.allow_networks, options.allow_ports)
        return resolver

    def protect(
        self, endpoints: Iterable[tuple[str, int]], ports: Iterable[tuple[str, int]] = ()
    ) -> None:
        """Guard from now on, and permit these (host, port) pairs.

        ``endpoints`` were named by the operator, such as seeds, and may resolve to anything;
        ``ports`` belong to hosts that the source names with them.
        """
        self.guarding = True
        for host, port in endpoints:
            self.guard.permit(host, port)
        for host, port in ports:
            self.guard.permit_port(host, port)

    def refusal(self, host: str, port: int) -> str | None:
        """Return why a host is refused by its spelling, without a look-up: literals and names."""
        if not self.guarding:
            return None
        bare = _bare(host)
        if bare.rstrip(".") in METADATA_NAMES or _parsed(bare) is not None:
            return self.guard.refusal(bare, host=bare, port=port)
        return None  # judged when it is resolved

    def resolveHostName(
        self,
        resolutionReceiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type[IAddress]] | None = None,
        transportSemantics: str = "TCP",
    ) -> Any:
        """Resolve a name or pass a literal on, without the addresses that the guard refuses."""
        receiver: Any = resolutionReceiver
        if self.guarding:
            receiver = _Filter(resolutionReceiver, self, hostName, portNumber)
        return super().resolveHostName(
            receiver, hostName, portNumber, addressTypes, transportSemantics
        )


@implementer(IResolutionReceiver)
class _Filter:
    """Passes the addresses of a host on if all of them are allowed, otherwise none.

    A mixture of allowed and forbidden addresses is the sign of an attack, not of a network.
    """

    def __init__(self, receiver: Any, resolver: GuardedResolver, host: str, port: int) -> None:
        self._receiver = receiver
        self._resolver = resolver
        self._host = host
        self._port = port
        self._found: list[Any] = []
        self._refusal: str | None = None

    def resolutionBegan(self, resolutionInProgress: Any) -> None:
        self._receiver.resolutionBegan(resolutionInProgress)

    def addressResolved(self, address: Any) -> None:
        guard = self._resolver.guard
        refusal = guard.refusal(address.host, host=self._host, port=self._port)
        self._refusal = self._refusal or refusal
        self._found.append(address)

    def resolutionComplete(self) -> None:
        key = _bare(self._host), self._port
        if self._refusal is None:
            self._resolver.refused.pop(key, None)
            for address in self._found:
                self._receiver.addressResolved(address)
        else:
            self._resolver.refused[key] = self._refusal
        self._receiver.resolutionComplete()


@implementer(IResolutionReceiver)
class _Found:
    """Gathers the addresses of a host until the look-up is complete."""

    def __init__(self, done: Deferred[list[str]]) -> None:
        self._done = done
        self._addresses: list[str] = []

    def resolutionBegan(self, resolutionInProgress: Any) -> None:
        pass

    def addressResolved(self, address: Any) -> None:
        self._addresses.append(address.host)

    def resolutionComplete(self) -> None:
        self._done.callback(self._addresses)


async def resolve_allowed_addresses(resolver: GuardedResolver, host: str, port: int) -> list[str]:
    """Look a host up; return the addresses that may be connected to, none if it is refused."""
    done: Deferred[list[str]] = Deferred()
    resolver.resolveHostName(_Found(done), host, port)
    return await maybe_deferred_to_future(done)


async def resolve_for_proxy(resolver: GuardedResolver, host: str, port: int) -> str | None:
    """Look a host up that a proxy will connect to; return why it is refused, None if it is not.

    A name that cannot be resolved here is not refused: the proxy may know it.
    """
    await resolve_allowed_addresses(resolver, host, port)
    return resolver.refused.get((_bare(host), port))


class AddressCheck:
    """Judges the address of each request, before it is sent."""

    def __init__(self, resolver: GuardedResolver | None, *, proxied: bool = False) -> None:
        self._resolver = resolver
        self._proxied = proxied  #: whether proxies of the environment make the connections
        self._looked_up: dict[tuple[str, int], str | None] = {}  #: refusals of proxied hosts

    async def refusal(self, url: str, *, proxied: bool) -> str | None:
        """Return why a request may not be sent, None when it may.

        ``proxied``: whether the request names a proxy. The hosts of such requests are looked up
        once, because the resolver does not see them.
        """
        if not url.startswith(("http://", "https://")):
            scheme = url.partition(":")[0]
            return f"scheme not allowed: {scheme}"
        resolver = self._resolver
        if resolver is None:
            return None
        host, port = url_endpoint(url)
        refusal = resolver.refusal(host, port)
        if refusal is not None or not (self._proxied or proxied):
            return refusal
        if (host, port) not in self._looked_up:
            self._looked_up[host, port] = await resolve_for_proxy(resolver, host, port)
        return self._looked_up[host, port]


def environment_has_proxies() -> bool:
    """Whether the environment names proxies."""
    return bool(getproxies())


def resolver_refusal(url: str) -> str | None:
    """Return why the host of ``url`` was refused when it was resolved."""
    resolver = installed_resolver()
    return resolver.refused.get(url_endpoint(url)) if resolver is not None else None


def installed_resolver() -> GuardedResolver | None:
    """Return the resolver of this process, or None where another one was configured."""
    from twisted.internet import reactor  # noqa: PLC0415  # importing it installs one

    resolver = getattr(reactor, "nameResolver", None)
    return resolver if isinstance(resolver, GuardedResolver) else None

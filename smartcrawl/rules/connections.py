"""The guard of connections: to public addresses, and to private ones by permission only.

A page can name any host, and any host can resolve to this machine or its network. So each address
that a host resolved to is judged, literals included, and connections go to no other one. The
crawler asks the guard in its resolver (``engine.download.network``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import IntEnum
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: Blocks that are not reachable on the public internet, and their purposes: the IANA
#: special-purpose registries, multicast, and addresses at which clouds give credentials to
#: their machines. The first block that contains an address names it.
SPECIAL: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(block), purpose)
    for block, purpose in (
        ("169.254.169.254/32", "metadata"),  # AWS, Azure, Google, DigitalOcean …
        ("169.254.169.252/32", "metadata"),  # Google's clusters
        ("169.254.170.0/24", "metadata"),  # AWS containers
        ("169.254.0.23/32", "metadata"),  # Tencent
        ("169.254.42.42/32", "metadata"),  # Scaleway
        ("100.100.100.200/32", "metadata"),  # Alibaba
        ("192.0.0.192/32", "metadata"),  # Oracle
        ("168.63.129.16/32", "metadata"),  # Azure's wire server
        ("fd00:ec2::/32", "metadata"),  # AWS
        ("fd00:42::42/128", "metadata"),  # Scaleway
        ("fd00:c1::a9fe:a9fe/128", "metadata"),  # Oracle
        ("fd20:ce::254/128", "metadata"),  # Google
        ("fe80::a9fe:a9fe/128", "metadata"),  # OpenStack
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
RESERVED = "reserved"
_NOT_ALLOWED = "address not allowed: "
_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")
_TRANSLATED = ip_network("::ffff:0:0:0/96")  #: of RFC 2765
_MAPPED = ip_network("::ffff:0:0/96")
_GLOBAL = ip_network("2000::/3")  #: all that is assigned for the public internet
_ISATAP = frozenset({0x5EFE, 0x2005EFE})  #: the middle of an address of RFC 5214


def carried_ipv4_addresses(address: Address) -> set[IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address carries; a packet may end at any of them.

    >>> [str(*carried_ipv4_addresses(ip_address(x))) for x in ("::ffff:127.0.0.1", "2002:7f00:1::")]
    ['127.0.0.1', '127.0.0.1']
    >>> str(*carried_ipv4_addresses(ip_address("2400:cb00::5efe:10.0.0.1")))
    '10.0.0.1'
    """
    if isinstance(address, IPv4Address):
        return set()
    number = int(address)
    carries = (number >> 32) & 0xFFFFFFFF in _ISATAP or (address in _COMPATIBLE and number > 1)
    found = set()
    if carries or _are_within({address}, [_NAT64, _TRANSLATED, _MAPPED]):
        found.add(IPv4Address(number & 0xFFFFFFFF))
    if address.sixtofour is not None:
        found.add(address.sixtofour)
    return found


class SeedReach(IntEnum):
    """The addresses to which the name of a seed may lead: of the kind that it had at first."""

    PUBLIC = 0
    PRIVATE = 1  #: to special blocks alone
    ANY = 2  #: the operator said so


class ConnectionGuard:
    """Decides which addresses may be connected to."""

    def __init__(self, networks: Sequence[Network] = (), ports: Iterable[int] = ()) -> None:
        self._networks = tuple(networks)
        self._metadata = tuple(network for network in networks if _is_within_metadata(network))
        self._ports = PORTS.union(ports)
        self._endpoints: set[tuple[str, int]] = set()
        self._named: set[tuple[str, int]] = set()
        self._reaches: dict[str, SeedReach | None] = {}

    def permit(self, host: str, port: int) -> None:
        """Allow one host and port, whatever it resolves to: the operator named it as a seed."""
        self._endpoints.add((bare_connection_host(host), port))

    def permit_port(self, host: str, port: int) -> None:
        """Allow a port of a public host, because the source names them together."""
        self._named.add((bare_connection_host(host), port))

    def hold(self, host: str, reach: SeedReach | None) -> None:
        """Hold a permitted name to its reach; None: it keeps what its first answer shows."""
        name = bare_connection_host(host)
        if reach is not None or name not in self._reaches:
            self._reaches[name] = reach

    def reach_refusal(self, addresses: Sequence[str], *, host: str, port: int) -> str | None:
        """Return why a permitted name may not lead to these addresses, by what it was at first.

        A public name may not turn to special addresses, and no name may have both. ALLOW_NETWORKS
        permits either.

        >>> guard = ConnectionGuard()
        >>> guard.permit("docs.example", 443)
        >>> guard.hold("docs.example", SeedReach.PUBLIC)
        >>> guard.reach_refusal(["10.0.0.1"], host="docs.example", port=443)
        'address not allowed: private (10.0.0.1), but docs.example was public at its first crawl'

        Source: ATT-6, ATT-65; ADR 123.
        """
        name = bare_connection_host(host)
        reach = self._reaches.get(name, SeedReach.ANY)
        if reach is SeedReach.ANY or (name, port) not in self._endpoints:
            return None
        purposes = {address: _purpose(_forms(address)) for address in addresses}
        for address, purpose in purposes.items():
            if purpose is None or _are_within(_forms(address), self._networks):
                continue
            if reach is SeedReach.PUBLIC:
                return f"{_refused(purpose, address)}, but {name} was public at its first crawl"
            if None in purposes.values():
                return f"{_refused(purpose, address)}, but {name} has a public address, too"
        return None

    def learn(self, addresses: Sequence[str], *, host: str) -> SeedReach | None:
        """Return the reach that a name shows by its first answer; None: nothing is to be learnt.

        A name that has public addresses as well is a public one.
        """
        name = bare_connection_host(host)
        if not addresses or self._reaches.get(name, SeedReach.ANY) is not None:
            return None
        is_private = all(_purpose(_forms(address)) is not None for address in addresses)
        reach = SeedReach.PRIVATE if is_private else SeedReach.PUBLIC
        self._reaches[name] = reach
        return reach

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
        >>> guard = ConnectionGuard([ip_network("fd00::/8")])
        >>> guard.refusal("fd00:ec2::254", host="x.example", port=80)
        'address not allowed: metadata (fd00:ec2::254)'

        Source: ATT-1 to ATT-9; INV-22.
        """
        host = bare_connection_host(host)
        given = (host, port) in self._endpoints
        if given and literal_connection_address(host) is not None:
            return None
        if host.rstrip(".") in METADATA_NAMES:
            return f"{_NOT_ALLOWED}metadata ({host})"
        found = literal_connection_address(address)
        if found is None:
            return f"{_NOT_ALLOWED}it is none ({address})"
        forms = _forms(address)
        purpose = _purpose(forms)
        if purpose is not None and not self._opens(forms, host, given=given, purpose=purpose):
            return _refused(purpose, str(found))
        if given or _are_within(forms, self._networks):
            return None
        if port not in self._ports and (host, port) not in self._named:
            return f"port not allowed: {port}"
        return None

    def _opens(self, forms: AbstractSet[Address], host: str, *, given: bool, purpose: str) -> bool:
        """Whether an operator's permission reaches an address of a special block.

        A link-local address belongs to the machine that asks, so no name may lead to one. Metadata
        services answer with credentials: a network around them was named for its other hosts.
        """
        if any(form.is_link_local for form in forms) and literal_connection_address(host) is None:
            return False
        if purpose == METADATA:
            return _are_within(forms, self._metadata)
        return given or _are_within(forms, self._networks)


def _refused(purpose: str, address: str) -> str:
    return f"{_NOT_ALLOWED}{purpose} ({address})"


def _forms(address: str) -> set[Address]:
    """Return an address and the IPv4 addresses that it carries."""
    found = literal_connection_address(address)
    return set() if found is None else {found, *carried_ipv4_addresses(found)}


def connection_remedy(refusal: str, host: str) -> str | None:
    """Return the remedy for a ``ConnectionGuard.refusal``; that may be that there is none.

    ``host``: the host that was asked. None: the refusal says all, as of a scheme.

    >>> connection_remedy("port not allowed: 25", "x.example")
    'permit it with ALLOW_PORTS'
    >>> connection_remedy("address not allowed: private (10.2.0.1)", "x.example")
    'permit its network with ALLOW_NETWORKS'
    >>> connection_remedy("address not allowed: link-local (169.254.1.1)", "x.example")
    'no host name may lead to a link-local address'
    """
    if refusal.startswith("port "):
        return "permit it with ALLOW_PORTS"
    if not refusal.startswith(_NOT_ALLOWED):
        return None
    purpose, _, rest = refusal.removeprefix(_NOT_ALLOWED).partition(" (")
    forms = _forms(rest.partition(")")[0])
    if not forms:
        return "metadata services are never requested by name" if purpose == METADATA else None
    is_literal = literal_connection_address(bare_connection_host(host)) is not None
    if any(form.is_link_local for form in forms) and not is_literal:
        return "no host name may lead to a link-local address"
    if purpose == METADATA:
        entry = next(str(n) for n in map(ip_network, forms) if _is_within_metadata(n))
        return f"a metadata service hands out credentials; only ALLOW_NETWORKS={entry} permits it"
    return "permit its network with ALLOW_NETWORKS"


def _are_within(forms: AbstractSet[Address], networks: Iterable[Network]) -> bool:
    return any(form in network for network in networks for form in forms)


def _purpose(forms: AbstractSet[Address]) -> str | None:
    """Return the purpose of the first special block that contains one of the forms.

    IPv6 beyond the assigned part of the internet is reserved, unless it stands for IPv4.
    """
    for block, purpose in SPECIAL:
        if _are_within(forms, [block]):
            return purpose
    known = all(
        isinstance(form, IPv4Address) or _are_within({form}, [_GLOBAL, _NAT64, _MAPPED])
        for form in forms
    )
    return None if known else RESERVED


def _is_within_metadata(network: Network) -> bool:
    """Whether a network is a metadata block or a part of one."""
    return any(
        purpose == METADATA and network[0] in block and network[-1] in block
        for block, purpose in SPECIAL
    )


def literal_connection_address(text: str) -> Address | None:
    """Return a literal address without its zone; None when the text is no address."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def bare_connection_host(host: str) -> str:
    """Return a host in lower case, an IPv6 address without its brackets."""
    return host.lower().strip("[]")

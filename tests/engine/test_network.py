"""The guard of connections: to public addresses, and to others by permission only."""

from collections.abc import Iterator
from ipaddress import ip_network
from types import SimpleNamespace

import pytest
from scrapy.resolver import dnscache
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IHostnameResolver, IResolutionReceiver
from zope.interface import implementer

from smartcrawl.engine.download.network import GuardedResolver
from smartcrawl.rules.connections import METADATA_NAMES, SPECIAL, ConnectionGuard
from tests.crawls.commands import Crawl
from tests.site_server import Site, html

PUBLIC = [
    "8.8.8.8", "1.1.1.1", "93.184.216.34", "9.255.255.255", "11.0.0.0", "100.63.255.255",
    "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0",
    "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
    "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::200e", "2400:cb00::1",
    "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1",
]  # fmt: skip
PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.1", "100.127.255.255",
    "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8",
    "192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255", "198.18.0.1", "198.19.255.255",
    "198.51.100.1", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "3fff::1", "5f00::1",
    "fc00::1", "fdff::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.169.254", "::127.0.0.1",
    "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::", "64:ff9b::7f00:1", "64:ff9b::a01:203",
]  # fmt: skip


def allows(guard: ConnectionGuard, address: str, host: str = "x.example", port: int = 80) -> bool:
    return guard.refusal(address, host=host, port=port) is None


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str):
    assert allows(ConnectionGuard(), address)


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public_are_refused(address: str):
    """Also where an IPv6 address carries the IPv4 one: mapped, compatible, 6to4, NAT64."""
    assert not allows(ConnectionGuard(), address)


@pytest.mark.parametrize(("block", "purpose"), SPECIAL, ids=str)
def test_a_special_block_is_refused_from_its_first_to_its_last_address(block, purpose: str):
    for address in (block[0], block[-1]):
        refusal = ConnectionGuard().refusal(str(address), host="x.example", port=80)
        assert refusal is not None
        assert refusal.startswith("address not allowed: ")
    last = ConnectionGuard().refusal(str(block[-1]), host="x.example", port=80)
    assert last == f"address not allowed: {purpose} ({block[-1]})"


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16",
     "fd00:ec2::254", "fd20:ce::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
     "2002:a9fe:a9fe::1", "::169.254.169.254"],
)  # fmt: skip
def test_metadata_services_are_told_as_such(address: str):
    """ATT-3, ATT-4."""
    refusal = ConnectionGuard().refusal(address, host="x.example", port=80)
    assert refusal is not None
    assert refusal.startswith("address not allowed: metadata (")


@pytest.mark.parametrize("name", sorted(METADATA_NAMES))
def test_a_metadata_service_is_refused_by_name_wherever_it_resolves_to(name: str):
    for host in (name, name.upper(), name + "."):
        assert ConnectionGuard().refusal("8.8.8.8", host=host, port=80) == (
            f"address not allowed: metadata ({host.lower()})"
        )


@pytest.mark.parametrize("port", [22, 25, 5432, 6379, 6800, 9200, 81, 8080])
def test_a_public_host_is_asked_at_web_ports_only(port: int):
    """ATT-9."""
    guard = ConnectionGuard(ports=[8443])
    assert guard.refusal("8.8.8.8", host="x.example", port=port) == f"port not allowed: {port}"
    assert allows(guard, "8.8.8.8", port=80)
    assert allows(guard, "8.8.8.8", port=443)
    assert allows(guard, "8.8.8.8", port=8443)


def test_a_port_that_the_source_names_with_its_host_is_allowed_there_and_for_public_addresses():
    guard = ConnectionGuard()
    guard.permit_port("X.example", 8080)

    assert allows(guard, "8.8.8.8", "x.example", 8080)
    assert not allows(guard, "8.8.8.8", "y.example", 8080)
    assert not allows(guard, "10.0.0.1", "x.example", 8080)


@pytest.mark.parametrize("address", ["", "localhost", "1.2.3", "999.1.1.1", "::g", "2130706433"])
def test_what_is_no_address_is_refused(address: str):
    assert not allows(ConnectionGuard(), address)


def test_a_permission_is_for_one_host_and_one_port():
    guard = ConnectionGuard()
    guard.permit("LocalHost", 8000)
    guard.permit("[::1]", 8001)

    assert allows(guard, "127.0.0.1", "localhost", 8000)
    assert allows(guard, "::1", "::1", 8001)
    assert not allows(guard, "127.0.0.1", "localhost", 9200)
    assert not allows(guard, "127.0.0.1", "127.0.0.1", 8000)
    assert not allows(guard, "127.0.0.1", "evil.example", 8000)
    assert not allows(guard, "::1", "::1", 8000)


def test_the_owner_of_a_given_name_cannot_lead_it_to_a_metadata_service():
    guard = ConnectionGuard()
    guard.permit("intra.example", 80)
    guard.permit("169.254.169.254", 80)

    assert allows(guard, "10.0.0.1", "intra.example", 80)
    assert not allows(guard, "169.254.169.254", "intra.example", 80)
    assert allows(guard, "169.254.169.254", "169.254.169.254", 80), "it was given as such"


def test_networks_are_allowed_as_named_and_no_others():
    guard = ConnectionGuard([ip_network("10.1.0.0/16"), ip_network("fd00::/8")])

    assert allows(guard, "10.1.255.1")
    assert allows(guard, "::ffff:10.1.0.1"), "the address that it carries counts"
    assert allows(guard, "fd12::1")
    assert not allows(guard, "10.2.0.1")
    assert not allows(guard, "127.0.0.1")
    assert allows(guard, "8.8.8.8")


# The resolver


@implementer(IHostnameResolver)
class Names:
    """A name server with prepared addresses."""

    def __init__(self, **addresses: list[str]) -> None:
        self.addresses = addresses
        self.asked: list[str] = []

    def resolveHostName(self, receiver, name: str, port: int = 0, *_: object) -> object:
        self.asked.append(name)
        receiver.resolutionBegan(self)
        for address in self.addresses.get(name.partition(".")[0], [name]):
            receiver.addressResolved(IPv4Address("TCP", address, port))
        receiver.resolutionComplete()
        return self


@implementer(IResolutionReceiver)
class Receiver:
    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.complete = False

    def resolutionBegan(self, resolution: object) -> None: ...

    def addressResolved(self, address: IPv4Address) -> None:
        self.addresses.append(address.host)

    def resolutionComplete(self) -> None:
        self.complete = True


@pytest.fixture
def names() -> Names:
    return Names(mixed=["10.0.0.1", "8.8.8.8"], inside=["10.0.0.1"], outside=["8.8.8.8"])


@pytest.fixture
def resolver(names: Names) -> Iterator[GuardedResolver]:
    guarded = GuardedResolver(SimpleNamespace(nameResolver=names), 100)
    guarded.protect([])
    yield guarded
    dnscache.clear()


def resolve(resolver: GuardedResolver, host: str, port: int = 80) -> list[str]:
    receiver = Receiver()
    resolver.resolveHostName(receiver, host, port)
    assert receiver.complete
    return receiver.addresses


def test_the_resolver_leaves_out_what_may_not_be_connected_to(resolver: GuardedResolver):
    assert resolve(resolver, "mixed.example") == [], "one forbidden address refuses all: ATT-6"
    assert resolve(resolver, "outside.example") == ["8.8.8.8"]
    assert resolve(resolver, "inside.example") == []
    assert resolve(resolver, "127.0.0.1") == []
    refused = resolver.refused
    assert refused["inside.example", 80] == "address not allowed: private (10.0.0.1)"
    assert refused["127.0.0.1", 80] == "address not allowed: loopback (127.0.0.1)"
    assert ("outside.example", 80) not in refused


def test_a_name_that_turns_inside_later_is_not_looked_up_again(
    resolver: GuardedResolver, names: Names
):
    """ATT-6: connections go to the checked addresses."""
    assert resolve(resolver, "outside.example") == ["8.8.8.8"]
    names.addresses["outside"] = ["127.0.0.1"]
    assert resolve(resolver, "outside.example") == ["8.8.8.8"]


def test_a_literal_and_a_metadata_name_are_refused_before_anybody_resolves_them(
    resolver: GuardedResolver, names: Names
):
    assert resolver.refusal("127.0.0.1", 80) == "address not allowed: loopback (127.0.0.1)"
    assert resolver.refusal("[::1]", 80) == "address not allowed: loopback (::1)"
    assert resolver.refusal("metadata.google.internal", 80) is not None
    assert resolver.refusal("inside.example", 80) is None, "that takes a look-up"
    assert names.asked == []


def test_a_resolver_that_does_not_guard_refuses_nothing(names: Names):
    plain = GuardedResolver(SimpleNamespace(nameResolver=names), 100)
    assert plain.refusal("127.0.0.1", 80) is None


def test_a_spider_without_a_run_connects_where_it_likes(names: Names):
    """A plain Scrapy spider beside those of this project runs in plain Scrapy."""
    plain = GuardedResolver(SimpleNamespace(nameResolver=names), 100)

    assert resolve(plain, "inside.example") == ["10.0.0.1"]


def test_an_answer_from_the_cache_is_filtered_by_port_all_the_same(
    resolver: GuardedResolver, names: Names
):
    """Permission for the seed's port must not open the others of its host, nor the reverse."""
    resolver.guard.permit("inside.example", 8000)

    for _ in range(2):
        assert resolve(resolver, "inside.example", 8000) == ["10.0.0.1"]
        assert resolve(resolver, "inside.example", 9200) == []
    assert len(names.asked) < 4, "the cache was asked"


# The whole way


@pytest.fixture
def other(site: Site, crawl: Crawl) -> Iterator[Site]:
    """A site on another port of this machine, to which the crawled one leads."""
    with Site() as other:
        other.pages["/"] = html("Inside", text="secret of the machine")
        site.pages["/"] = html("Home", "/hub", other.url("/"), other.url("/b"))
        site.pages["/hub"] = html("Hub", *(f"/{n}" for n in range(20)))
        for n in range(20):
            site.pages[f"/{n}"] = html(f"Page {n}")
        crawl.declare(
            f"""
            [sources.one]
            seeds = ["{site.url("/")}"]
            allowed_domains = ["127.0.0.1"]
            """
        )
        yield other


def inside(crawl: Crawl, other: Site) -> list[dict[str, object]]:
    return [record for record in crawl.records() if record["url"].startswith(other.url(""))]


@pytest.mark.covers("R4-42")
def test_a_page_cannot_lead_the_crawl_to_another_port_of_this_machine(other: Site, crawl: Crawl):
    crawl(source="one", settings={"ROBOTSTXT_OBEY": 0})

    refused = inside(crawl, other)
    assert {record["url"] for record in refused} == {other.url("/"), other.url("/b")}
    for record in refused:
        assert (record["httpStatusCode"], record["lastOutcome"]) == (1109, "failed")
        assert record["status"] == "Error"
        assert "127.0.0.1" in record["errorMessage"]
        assert "ALLOW_NETWORKS" in record["errorMessage"]
    assert other.log == []
    assert crawl.search("secret") == []


def test_a_network_that_is_allowed_is_crawled(other: Site, crawl: Crawl):
    crawl(source="one")
    assert other.log == []
    assert {record["lastOutcome"] for record in inside(crawl, other)} == {"failed"}

    crawl(source="one", settings={"ALLOW_NETWORKS": "127.0.0.0/8"})

    found = {record["url"]: record for record in inside(crawl, other)}[other.url("/")]
    assert (found["httpStatusCode"], found["lastOutcome"]) == (200, "new")
    assert other.count("/") == 1
    assert [hit["url"] for hit in crawl.search("secret")] == [other.url("/")]


def test_a_refused_address_is_told_as_such_where_robots_are_obeyed(other: Site, crawl: Crawl):
    crawl(source="one")

    for record in inside(crawl, other):
        assert record["httpStatusCode"] == 1109
        assert "ALLOW_NETWORKS" in record["errorMessage"]

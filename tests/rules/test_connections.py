"""The guard of connections: to public addresses, and to others by permission only."""

from ipaddress import ip_address, ip_network

import pytest

from smartcrawl.rules.connections import (
    SPECIAL,
    ConnectionGuard,
    SeedReach,
    bare_connection_host,
    carried_ipv4_addresses,
    connection_remedy,
    literal_connection_address,
)

#: Each special block with its purpose, as the registries of the IANA and the clouds' manuals say.
BLOCKS = [
    ("169.254.169.254/32", "metadata"),
    ("169.254.169.252/32", "metadata"),
    ("169.254.170.0/24", "metadata"),
    ("169.254.0.23/32", "metadata"),
    ("169.254.42.42/32", "metadata"),
    ("100.100.100.200/32", "metadata"),
    ("192.0.0.192/32", "metadata"),
    ("168.63.129.16/32", "metadata"),
    ("fd00:ec2::/32", "metadata"),
    ("fd00:42::42/128", "metadata"),
    ("fd00:c1::a9fe:a9fe/128", "metadata"),
    ("fd20:ce::254/128", "metadata"),
    ("fe80::a9fe:a9fe/128", "metadata"),
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
]
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


@pytest.mark.parametrize(("text", "purpose"), BLOCKS)
def test_a_special_block_is_refused_from_its_first_to_its_last_address(text: str, purpose: str):
    """ATT-1, ATT-3."""
    block = ip_network(text)
    refusals = [
        ConnectionGuard().refusal(str(address), host="x.example", port=80)
        for address in (block[0], block[-1])
    ]
    assert str(refusals[0]).startswith("address not allowed: ")
    assert refusals[1] == f"address not allowed: {purpose} ({block[-1]})"


def test_the_special_blocks_are_these_in_this_order():
    """The first block that contains an address names it, so metadata stands before private."""
    assert [(str(block), purpose) for block, purpose in SPECIAL] == BLOCKS


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16",
     "169.254.169.252", "169.254.0.23", "169.254.42.42", "fd00:42::42", "fd00:c1::a9fe:a9fe",
     "fe80::a9fe:a9fe%eth0", "fd00:ec2::254", "fd20:ce::254", "::ffff:169.254.169.254",
     "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254"],
)  # fmt: skip
def test_metadata_services_are_told_as_such(address: str):
    """ATT-3, ATT-4."""
    refusal = ConnectionGuard().refusal(address, host="x.example", port=80)
    assert refusal is not None
    assert refusal.startswith("address not allowed: metadata (")


@pytest.mark.parametrize(
    "name",
    ["metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"],
)
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
    refusal = ConnectionGuard().refusal(address, host="x.example", port=80)
    assert refusal == f"address not allowed: it is none ({address})"


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


#: Networks around metadata services, as operators name them for the other hosts in them.
WIDE = ["0.0.0.0/0", "100.64.0.0/10", "168.63.0.0/16", "169.254.0.0/16", "169.254.0.16/29",
        "169.254.169.0/24", "192.0.0.0/24", "2002::/16", "::/0", "::ffff:0:0/96", "64:ff9b::/96",
        "fc00::/7", "fd00::/8", "fd00:ec2::/31", "fd20:ce::/32", "fe80::/10"]  # fmt: skip


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.169.252", "169.254.170.2", "169.254.0.23", "169.254.42.42",
     "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd00:ec2::23",
     "fd00:42::42", "fd00:c1::a9fe:a9fe", "fd20:ce::254", "fe80::a9fe:a9fe",
     "::ffff:169.254.169.254", "::ffff:100.100.100.200", "64:ff9b::6464:64c8",
     "2002:6464:64c8::1"],
)  # fmt: skip
def test_a_network_around_a_metadata_service_does_not_open_it(address: str):
    """ATT-61: by literal and by name, given or not."""
    guard = ConnectionGuard([ip_network(network) for network in WIDE])
    guard.permit("seed.example", 80)

    for host in ("x.example", "seed.example", address):
        refusal = guard.refusal(address, host=host, port=80)
        assert str(refusal).startswith("address not allowed: metadata ("), host
    assert allows(guard, "100.100.100.201")
    assert allows(guard, "fd00:ec3::254")


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [("100.100.100.200/32", "100.100.100.200", "192.0.0.192"),
     ("100.100.100.200/32", "64:ff9b::6464:64c8", "100.100.100.201"),
     ("fd00:ec2::/32", "fd00:ec2::254", "fd20:ce::254"),
     ("fd00:ec2::254/128", "fd00:ec2::254", "fd00:ec2::23")],
)  # fmt: skip
def test_an_entry_within_a_metadata_block_opens_what_it_names(
    network: str, inside: str, outside: str
):
    guard = ConnectionGuard([ip_network(network)])

    assert allows(guard, inside)
    assert not allows(guard, outside)


@pytest.mark.parametrize("address", ["169.254.1.1", "169.254.169.254", "fe80::1", "fe80::a9fe:a9fe",
                                     "::ffff:169.254.1.1", "64:ff9b::a9fe:101"])  # fmt: skip
def test_no_name_may_lead_to_a_link_local_address(address: str):
    """ATT-61: a literal may be permitted, and a seed that is one needs no permission."""
    named = ["169.254.0.0/16", "fe80::/10", "169.254.169.254/32", "fe80::a9fe:a9fe/128"]
    guard = ConnectionGuard([ip_network(network) for network in named])
    guard.permit("seed.example", 80)

    assert not allows(guard, address)
    assert not allows(guard, address, "seed.example")
    assert allows(guard, address, address)
    assert not allows(ConnectionGuard(), address, address)


@pytest.mark.parametrize("host", ["x.example", ""], ids=["by name", "literal"])
@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "::1", "fd00::1", "169.254.1.1", "fe80::1", "169.254.169.254", "169.254.170.2",
     "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "64:ff9b::a9fe:a9fe",
     "::ffff:100.100.100.200"],
)  # fmt: skip
def test_the_remedy_of_a_refusal_opens_the_address_or_says_that_nothing_does(
    address: str, host: str
):
    asked = host or address
    refusal = ConnectionGuard().refusal(address, host=asked, port=80)
    assert refusal is not None

    remedy = connection_remedy(refusal, asked)

    assert remedy is not None
    if remedy == "no host name may lead to a link-local address":
        own = (address, *map(str, carried_ipv4_addresses(ip_address(address))))
        everything = ConnectionGuard([ip_network(n) for n in ("0.0.0.0/0", "::/0", *own)])
        assert not allows(everything, address, asked)
        return
    entry = address
    if "metadata" in refusal:
        entry = remedy.partition("only ALLOW_NETWORKS=")[2].removesuffix(" permits it")
    else:
        assert remedy == "permit its network with ALLOW_NETWORKS"
    assert allows(ConnectionGuard([ip_network(entry)]), address, asked)


def test_the_remedy_of_a_name_a_port_and_a_scheme():
    by_name = "address not allowed: metadata (metadata.goog)"
    assert (
        connection_remedy(by_name, "metadata.goog")
        == "metadata services are never requested by name"
    )
    assert connection_remedy("port not allowed: 25", "x.example") == "permit it with ALLOW_PORTS"
    turned = "address not allowed: private (10.0.0.1), but docs.example was public at its first"
    assert connection_remedy(turned, "docs.example") == "permit its network with ALLOW_NETWORKS"
    assert connection_remedy("scheme not allowed: ftp", "") is None
    assert connection_remedy("address not allowed: it is none (x)", "x") is None


def test_what_the_operator_named_is_asked_at_every_port():
    guard = ConnectionGuard([ip_network("10.1.0.0/16"), ip_network("8.8.8.0/24")])
    guard.permit("seed.example", 8080)

    assert allows(guard, "10.1.0.1", port=9200)
    assert allows(guard, "8.8.8.8", port=9200)
    assert allows(guard, "1.1.1.1", "seed.example", 8080)
    assert not allows(guard, "1.1.1.1", port=9200)
    assert not allows(guard, "1.1.1.1", "seed.example", 9200)


_TURNED = "{} but seed.example was public at its first crawl"
_MIXED = "{} but seed.example has a public address, too"


def held_guard(reach: SeedReach | None, *networks: str) -> ConnectionGuard:
    guard = ConnectionGuard([ip_network(network) for network in networks])
    guard.permit("Seed.example", 80)
    guard.hold("SEED.example", reach)
    return guard


@pytest.mark.parametrize(
    ("reach", "addresses", "networks", "refusal"),
    [
        (SeedReach.PUBLIC, ["8.8.8.8", "1.1.1.1"], [], None),
        (SeedReach.PUBLIC, ["10.0.0.1"], [], _TURNED.format("private (10.0.0.1),")),
        (SeedReach.PUBLIC, ["8.8.8.8", "::1"], [], _TURNED.format("loopback (::1),")),
        (SeedReach.PUBLIC, ["::ffff:10.0.0.1"], [], _TURNED.format("private (::ffff:10.0.0.1),")),
        (SeedReach.PUBLIC, ["10.0.0.1"], ["10.0.0.0/8"], None),
        (SeedReach.PUBLIC, ["10.0.0.1", "172.16.0.1"], ["10.0.0.0/8"],
         _TURNED.format("private (172.16.0.1),")),
        (SeedReach.PRIVATE, ["10.0.0.1", "127.0.0.1"], [], None),
        (SeedReach.PRIVATE, ["8.8.8.8"], [], None),
        (SeedReach.PRIVATE, ["8.8.8.8", "10.0.0.1"], [], _MIXED.format("private (10.0.0.1),")),
        (SeedReach.PRIVATE, ["8.8.8.8", "10.0.0.1"], ["10.0.0.0/8"], None),
        (None, ["8.8.8.8"], [], None),
        (None, ["10.0.0.1"], [], None),
        (None, ["100.64.0.1", "2606:4700::1111"], [], _MIXED.format("shared (100.64.0.1),")),
        (None, ["10.0.0.1", "172.16.0.1"], ["10.0.0.0/8"], None),
        (None, [], [], None),
        (SeedReach.ANY, ["8.8.8.8", "10.0.0.1"], [], None),
        (SeedReach.ANY, ["127.0.0.1"], [], None),
    ],
)  # fmt: skip
def test_the_name_of_a_seed_stays_what_it_was_at_first(
    reach: SeedReach | None, addresses: list[str], networks: list[str], refusal: str | None
):
    """ATT-65."""
    guard = held_guard(reach, *networks)

    told = guard.reach_refusal(addresses, host="seed.EXAMPLE", port=80)
    assert told == (None if refusal is None else f"address not allowed: {refusal}")
    assert guard.reach_refusal(["10.0.0.1"], host="seed.example", port=81) is None, "not permitted"
    assert guard.reach_refusal(["10.0.0.1"], host="other.example", port=80) is None


def test_a_permitted_name_that_is_not_held_may_lead_anywhere():
    """Such as a proxy of the environment."""
    guard = ConnectionGuard()
    guard.permit("proxy.example", 3128)

    assert guard.reach_refusal(["10.0.0.1", "8.8.8.8"], host="proxy.example", port=3128) is None
    assert guard.learn(["10.0.0.1"], host="proxy.example") is None


@pytest.mark.parametrize(
    ("addresses", "reach"),
    [
        (["8.8.8.8"], SeedReach.PUBLIC),
        (["10.0.0.1"], SeedReach.PRIVATE),
        (["10.0.0.1", "::1", "64:ff9b::a00:1"], SeedReach.PRIVATE),
        (["10.0.0.1", "8.8.8.8"], SeedReach.PUBLIC),
        ([], None),
    ],
)
def test_the_first_answer_shows_what_a_name_is(addresses: list[str], reach: SeedReach | None):
    guard = held_guard(None)

    assert guard.learn(addresses, host="seed.example") == reach
    if reach is not None:
        assert guard.learn(["8.8.8.8"], host="SEED.example") is None, "the first answer counts"
        turned = guard.reach_refusal(["10.0.0.1"], host="seed.example", port=80)
        assert (turned is None) == (reach is SeedReach.PRIVATE)


def test_reaches_are_stored_by_these_numbers():
    assert {reach.name: int(reach) for reach in SeedReach} == {"PUBLIC": 0, "PRIVATE": 1, "ANY": 2}


def test_what_a_name_is_known_for_is_not_forgotten_and_a_word_of_the_operator_counts():
    guard = held_guard(SeedReach.PUBLIC)

    guard.hold("seed.example", None)
    assert guard.reach_refusal(["10.0.0.1"], host="seed.example", port=80) is not None
    guard.hold("seed.example", SeedReach.ANY)
    assert guard.reach_refusal(["10.0.0.1"], host="seed.example", port=80) is None


@pytest.mark.parametrize(
    ("address", "carried"),
    [
        ("1.2.3.4", []),
        ("::ffff:1.2.3.4", ["1.2.3.4"]),
        ("2002:102:304::", ["1.2.3.4"]),
        ("64:ff9b::1.2.3.4", ["1.2.3.4"]),
        ("64:ff9b::255.254.253.255", ["255.254.253.255"]),
        ("64:ff9b::", ["0.0.0.0"]),
        ("64:ff9c::1.2.3.4", []),
        ("::ffff:0:1.2.3.4", ["1.2.3.4"]),
        ("::ffff:1:1.2.3.4", []),
        ("2400:cb00::5efe:1.2.3.4", ["1.2.3.4"]),
        ("2400:cb00::200:5efe:1.2.3.4", ["1.2.3.4"]),
        ("2400:cb00::100:5efe:1.2.3.4", []),
        ("2400:cb00::5eff:1.2.3.4", []),
        ("2002:506:708::5efe:1.2.3.4", ["1.2.3.4", "5.6.7.8"]),
        ("::1.2.3.4", ["1.2.3.4"]),
        ("::2", ["0.0.0.2"]),
        ("::1", []),
        ("::", []),
        ("2606:4700::1111", []),
    ],
)
def test_an_ipv6_address_is_judged_by_the_ipv4_addresses_that_it_carries(
    address: str, carried: list[str]
):
    """ATT-4: mapped, translated, 6to4, ISATAP, NAT64 and compatible ones."""
    assert sorted(map(str, carried_ipv4_addresses(ip_address(address)))) == carried


@pytest.mark.parametrize(
    ("address", "purpose"),
    [
        ("::ffff:0:7f00:1", "loopback"),
        ("::ffff:0:808:808", "reserved"),
        ("::8.8.8.8", "reserved"),
        ("2400:cb00::5efe:10.0.0.1", "private"),
        ("2400:cb00::200:5efe:127.0.0.1", "loopback"),
        ("2002:808:808::5efe:10.0.0.1", "private"),
        ("64:ff9b::a9fe:a9fe", "metadata"),
        ("64:ff9c::808:808", "reserved"),
        ("1::1", "reserved"),
        ("1fff:ffff::1", "reserved"),
        ("4000::1", "reserved"),
        ("8000::1", "reserved"),
        ("fbff::1", "reserved"),
        ("200::1", "reserved"),
        ("400::1", "reserved"),
    ],
)
def test_ipv6_beyond_the_assigned_internet_is_refused(address: str, purpose: str):
    """ATT-4: also where it is a translation that this machine may make."""
    refusal = ConnectionGuard().refusal(address, host="x.example", port=80)

    assert refusal == f"address not allowed: {purpose} ({ip_address(address)})"
    network = [ip_network(f"{address}/128")]
    assert (purpose == "metadata") or allows(ConnectionGuard(network), address)


@pytest.mark.parametrize("address", ["2000::1", "3ffe::1", "2400:cb00::5efe:8.8.8.8"])
def test_the_assigned_internet_is_asked(address: str):
    assert allows(ConnectionGuard(), address)


def test_a_zone_and_brackets_belong_to_no_address():
    assert literal_connection_address("fe80::1%eth0") == ip_address("fe80::1")
    assert literal_connection_address("x.example") is None
    assert bare_connection_host("[2001:DB8::1]") == "2001:db8::1"
    assert bare_connection_host("X.example") == "x.example"

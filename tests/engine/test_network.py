"""The resolver: it leaves out the addresses to which the guard allows no connection."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from scrapy.resolver import dnscache
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IHostnameResolver, IResolutionReceiver
from zope.interface import implementer

from smartcrawl.engine.download.network import GuardedResolver
from smartcrawl.rules.connections import SeedReach
from tests.crawls.commands import Crawl
from tests.site_server import Site, html

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


def test_a_seed_that_turns_inside_is_refused_with_the_remedy(
    resolver: GuardedResolver, names: Names
):
    """ATT-65: also in a mixed answer, and what is refused teaches nothing."""
    learnt: list[tuple[str, SeedReach]] = []
    resolver.hold({"inside.example": SeedReach.PUBLIC, "mixed.example": None}, record(learnt))
    resolver.protect([("inside.example", 443), ("mixed.example", 443)])

    assert resolve(resolver, "inside.example", 443) == []
    assert resolver.refused["inside.example", 443] == (
        "address not allowed: private (10.0.0.1), but inside.example was public at its "
        "first crawl; to permit that name: -a allow_private=inside.example"
    )
    assert resolve(resolver, "mixed.example", 443) == []
    assert "mixed.example has a public address, too; to" in resolver.refused["mixed.example", 443]
    assert learnt == []

    resolver.hold({"inside.example": SeedReach.ANY, "mixed.example": SeedReach.ANY}, None)
    assert resolve(resolver, "inside.example", 443) == ["10.0.0.1"]
    assert resolve(resolver, "mixed.example", 443) == ["10.0.0.1", "8.8.8.8"]
    assert resolver.refused == {}


def test_the_first_answer_of_a_seed_is_learnt_once(resolver: GuardedResolver, names: Names):
    learnt: list[tuple[str, SeedReach]] = []
    seeds = ("inside.example", "outside.example", "8.8.8.8")
    resolver.hold({"Inside.example": None, "outside.example": None}, record(learnt))
    resolver.protect([(seed, 80) for seed in seeds])

    for _ in range(2):
        for seed in seeds:
            assert resolve(resolver, seed) != []
    assert learnt == [("inside.example", SeedReach.PRIVATE), ("outside.example", SeedReach.PUBLIC)]
    names.addresses["outside"] = ["127.0.0.1"]
    dnscache.clear()
    assert resolve(resolver, "outside.example") == []


def record(learnt: list[tuple[str, SeedReach]]) -> Callable[[str, SeedReach], None]:
    return lambda name, reach: learnt.append((name, reach))


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

"""Two processes never ask one host for two sources: a run claims its hosts as it is opened."""

import pytest

from smartcrawl.model.exceptions import HostsBusyError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.hosts import stored_source_hosts
from smartcrawl.registry.runs.run_hosts import CrawledHosts, crawled_host_rows
from smartcrawl.registry.runs.runs import (
    OpenRun,
    RunRequest,
    interrupt_run_row,
    open_run_row,
    seal_run_row,
)
from tests.registry.build import Desk

NOW = 1_705_744_800
Place = tuple[Database, Connection]


def opened(
    connection: Connection, name: str, *hosts: str, held: tuple[str, ...] = (), resume: bool = False
) -> OpenRun:
    """Open a run of a source; ``held``: those whose leases processes have."""
    request = RunRequest(name, "site", hosts=frozenset(hosts), resume=resume)
    return open_run_row(connection, request, NOW, is_held=held.__contains__)


def test_a_source_waits_for_one_that_is_crawled_on_its_host(begun: Place):
    connection = begun[1]
    opened(connection, "docs", "a.example", "b.example")

    with pytest.raises(HostsBusyError) as why:
        opened(connection, "wiki", "b.example", "c.example", held=("docs",))
    assert str(why.value) == (
        "wiki waits until another process has crawled docs: both request b.example"
    )
    assert connection.execute("SELECT count(*) FROM source").get == 1, "it is no source yet"
    opened(connection, "shop", "c.example", held=("docs",))
    opened(connection, "folder", held=("docs",))
    assert crawled_host_rows(connection, {"docs", "shop", "wiki"}.__contains__, ("shop",)) == [
        CrawledHosts("docs", frozenset({"a.example", "b.example"}))
    ]


def test_a_claim_looks_only_at_leases_of_sources_that_share_a_host(begun: Place):
    connection = begun[1]
    opened(connection, "docs", "a.example")
    opened(connection, "shop", "c.example")
    looked: list[str] = []

    def is_held(name: str) -> bool:
        looked.append(name)
        return False

    request = RunRequest("wiki", "site", hosts=frozenset({"c.example"}))
    open_run_row(connection, request, NOW, is_held=is_held)

    assert looked == ["shop"]


@pytest.mark.parametrize("end", ["dead", "sealed", "interrupted"])
def test_a_run_that_asks_no_more_holds_up_none(begun: Place, end: str):
    connection = begun[1]
    run = opened(connection, "docs", "a.example")
    held = () if end == "dead" else ("docs",)
    if end == "sealed":
        seal_run_row(connection, run.no, (), NOW)
    if end == "interrupted":
        interrupt_run_row(connection, run.no, NOW, ["why"])

    opened(connection, "wiki", "a.example", held=held)


def test_a_resumed_run_waits_and_claims_like_a_new_one(begun: Place):
    connection = begun[1]
    opened(connection, "docs", "a.example")  # its process died
    run = opened(connection, "wiki", "a.example")

    with pytest.raises(HostsBusyError):
        opened(connection, "docs", "a.example", held=("wiki",), resume=True)
    interrupt_run_row(connection, run.no, NOW, ["why"])
    assert opened(connection, "docs", "a.example", "b.example", held=("wiki",), resume=True).resumed
    with pytest.raises(HostsBusyError, match=r"b\.example"):
        opened(connection, "wiki", "b.example", held=("docs",))


@pytest.mark.parametrize("few", [1, 3, 4, 5, 20_000])
def test_the_hosts_of_a_source_are_found_by_its_index_and_by_a_scan(
    desk: Desk, few: int, monkeypatch: pytest.MonkeyPatch
):
    """Of a million addresses the index would take a fourteenfold of the time."""
    monkeypatch.setattr("smartcrawl.registry.hosts._FEW_ADDRESSES", few)
    desk.add(*(f"http://{host}.example/{page}" for host in "ab" for page in (1, 2)))

    assert sorted(stored_source_hosts(desk.connection, "docs")) == ["a.example", "b.example"]
    assert stored_source_hosts(desk.connection, "other") == []


@pytest.mark.parametrize("few", [0, 20_000])
def test_both_look_ups_of_hosts_are_statements_of_each_database(
    begun: Place, few: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("smartcrawl.registry.hosts._FEW_ADDRESSES", few)
    opened(begun[1], "docs", "a.example")

    assert stored_source_hosts(begun[1], "docs") == []

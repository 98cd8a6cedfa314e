"""What the documents of a host may take: seconds of reading, in a run."""

import asyncio
from math import inf

import pytest

from smartcrawl.extract import pool as pools
from smartcrawl.extract.documents import FORMAT_FAULTS
from smartcrawl.extract.formats import FormatError, FormatFault
from smartcrawl.extract.pool import FREE, FormatPool, HostParsingBudget, ParsingBudget
from smartcrawl.extract.sniff import CSV, JSON


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_seconds_of_a_host_are_those_in_which_its_documents_are_read():
    clock = Clock()
    budget = ParsingBudget(30, clock)
    assert budget.left("a") == 30
    with budget.reading("a"):
        clock.now += 4 + FREE
        assert budget.left("a") == 26
        with budget.reading("a"):
            clock.now += 3 + FREE
            assert budget.left("a") == 20 - FREE  # two are being read
    assert (budget.left("a"), budget.left("b")) == (20 - FREE, 30)
    for _ in range(1_000):  # ordinary documents
        with budget.reading("a"):
            clock.now += FREE
            assert budget.left("a") == 20 - FREE
    budget = ParsingBudget(20, clock)
    clock.now += 100  # nothing is read
    assert budget.left("a") == 20
    with budget.reading("a"):
        clock.now += 21 + FREE
        assert budget.left("a") < 0
    assert budget.left("a") == -1


def test_without_a_limit_nothing_is_over_it():
    clock = Clock()
    budget = ParsingBudget(0, clock)
    with budget.reading("a"):
        clock.now += 1e6
        assert budget.left("a") == inf


def read(pool: FormatPool, body: bytes, mime: str, share: HostParsingBudget) -> str:
    coroutine = pool.read(
        body, media_type=mime, content_type="", url="http://site.example/", share=share
    )
    return asyncio.run(coroutine).text


def test_no_document_begins_when_the_seconds_of_its_host_are_spent(monkeypatch):
    monkeypatch.setattr(pools, "FREE", 0)  # else one of a quarter of a second has to be read
    long = b"[" + b"1," * 20_000 + b"1]"
    pool = FormatPool(workers=1)
    budget = ParsingBudget(1000)
    try:
        assert read(pool, b"a,b\n", CSV, HostParsingBudget(budget, "a")) == "a\tb"
        account = budget._accounts["a"]
        assert account.spent < 1000
        account.spent = 999.99999
        share = HostParsingBudget(budget, "a")
        assert len(read(pool, long, JSON, share)) > len(long) / 2  # it had begun
        assert account.spent > 1000
        with pytest.raises(FormatError, match="all the time") as error:
            read(pool, b"a,b\n", CSV, HostParsingBudget(budget, "a"))
        assert (error.value.kind, error.value.lasting) == (FormatFault.BUDGET, False)
        assert read(pool, b"a,b\n", CSV, HostParsingBudget(budget, "b")) == "a\tb"
    finally:
        asyncio.run(pool.close())


def test_each_reason_why_a_document_is_unread_has_a_status_of_its_own():
    assert set(FORMAT_FAULTS) == set(FormatFault)
    assert len(set(FORMAT_FAULTS.values())) == len(FormatFault)

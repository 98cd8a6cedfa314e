"""Lists and calendars without end are left, and nothing else is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules import traps
from smartcrawl.rules.traps import MOST_ALIKE, Chains, chain_of_url, chain_pattern
from tests.rules.manual import table

LIST = "https://a.example/list?page=0"


@pytest.mark.parametrize(
    ("url", "chain"),
    [
        ("https://a.example/list?page=12", LIST),
        ("https://a.example/list?page=000", LIST),
        ("https://a.example/page/7/", "https://a.example/page/0/"),
        ("https://a.example/e?month=2026-07&v=2", "https://a.example/e?month=0-0&v=0"),
        ("https://a1.example:8080/x", None),
        ("https://a1.example:8080/x1", "https://a1.example:8080/x0"),
        ("https://a.example/", None),
        ("https://a.example", None),
        ("https://a1.example", None),
        ("https://a.example1", None),
        ("http://a/1", "http://a/0"),
        ("s3://a/", None),
    ],
)
def test_addresses_that_differ_by_their_numbers_alone_are_one_chain(url, chain):
    assert chain_of_url(url) == chain


@given(st.integers(1, 99_999), st.integers(0, 99_999))
def test_the_pattern_leaves_out_this_page_and_those_after_it(first, other):
    pattern = chain_pattern(f"https://a.example/l.php?page={first}&x=a+b")

    found = re.search(pattern, f"https://a.example/l.php?page={other}&x=a+b")

    assert (found is not None) is (other >= first)
    assert re.search(pattern, f"https://a.example/lxphp?page={first}&x=a+b") is None
    assert re.search(pattern, f"https://a.example/l.php?page={first}&x=a+b&c") is None


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        (
            "https://a.example/l.php?p=1234",
            "/l[.]php[?]p=(1234|123[5-9]|12[4-9][0-9]|1[3-9][0-9]{2}|[2-9][0-9]{3}|[0-9]{5,})$",
        ),
        ("https://a.example/p9/", "/p(9|[0-9]{2,})/$"),
        ("https://a.example/e-1989-12", "/e-[0-9]+-[0-9]+$"),
        ("http://a/1", "/(1|[2-9]|[0-9]{2,})$"),
    ],
)
def test_a_pattern_can_be_read(url, pattern):
    assert chain_pattern(url) == pattern
    assert traps.ENDLESS == "endless"


@pytest.mark.parametrize("path", ["/e?month=1989-12", "/a/1/2/", "/page/007", "/page/0"])
def test_a_pattern_with_several_numbers_leaves_out_the_chain(path):
    pattern = chain_pattern(f"https://a.example{path}")

    assert re.search(pattern, f"https://a.example{path}")
    assert re.search(pattern, f"https://a.example{path.replace('1', '35').replace('0', '7')}")
    assert "[0-9]+" in pattern


def run_of(contents: list[bytes], news: int | None = None, *, led: bool = True) -> Chains:
    """Return the chains of a run after pages with these contents; one may have news."""
    found = Chains()
    for number, content in enumerate(contents, 1):
        if led:
            found.leads(number)
        found.brought(number, LIST, content, news=number == news)
    return found


def test_the_table_of_the_manual():
    cells = table("Where a list without end is left")
    assert len(cells) == 4
    for count, alike, news, further in cells:
        contents = [b"same"] * int(count)
        if alike == "all but the last":
            contents[-1] = b"other"
        found = run_of(contents, news=int(count) if news == "on the last" else None)
        assert found.has_ended(LIST) is (further == "are not requested")
    assert MOST_ALIKE == 20


def test_a_row_begins_again_with_another_content_or_with_news():
    assert not run_of([b"a", *[b"b"] * 19]).has_ended(LIST)
    assert run_of([b"a", *[b"b"] * 20]).has_ended(LIST)
    assert not run_of([b"a"] * 20, news=1).has_ended(LIST)
    assert run_of([b"a"] * 21, news=1).has_ended(LIST)
    assert not run_of([b"a", b"b"] * 30).has_ended(LIST)


@pytest.mark.parametrize("content", [b"a", b"b"])
@pytest.mark.parametrize("led", [True, False])
@pytest.mark.parametrize("before", [0, 18, 19])
def test_the_last_page_of_a_chain_is_known_before_its_links_are_followed(before, led, content):
    found = run_of([b"a"] * before)
    if led:
        found.leads(99)
    is_last = found.is_last(99, LIST, content)
    found.brought(99, LIST, content, news=False)

    assert is_last is found.has_ended(LIST) is (before == 19 and led and content == b"a")


def test_only_pages_to_which_their_chain_led_first_count():
    assert not run_of([b"a"] * 40, led=False).has_ended(LIST)
    found = Chains()
    found.leads(1)
    for _ in range(40):
        found.brought(1, LIST, b"a", news=False)  # each once
    assert not found.has_ended(LIST)


def test_chains_do_not_mix_and_what_is_no_chain_has_no_end():
    found = run_of([b"a"] * 20)
    assert not found.has_ended(LIST + "0")
    assert not found.has_ended(None)


def test_the_oldest_of_many_chains_are_forgotten():
    assert traps.MAX_CHAINS == 65_536
    found = Chains(most=2)
    number = 0
    for chain, times in (("x", 19), ("y", 19), ("z", 1), ("y", 1), ("x", 1)):
        for _ in range(times):
            number += 1
            found.leads(number)
            found.brought(number, chain, b"a", news=False)

    assert found.has_ended("y")
    assert not found.has_ended("x")

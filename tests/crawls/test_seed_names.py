"""The names of seeds, in whole crawls: they stay outside if that is where they were at first."""

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Site, html

_REACHES = "SELECT name, reach FROM seed_name"


@pytest.fixture
def named(site: Site) -> str:
    """The address of a site, by a name that leads to this machine."""
    site.pages["/"] = html("Home", "/a", text="home")
    site.pages["/a"] = html("A", text="about")
    return site.url("/").replace("127.0.0.1", "localhost")


def test_a_public_seed_that_turned_inside_is_not_asked_until_the_operator_says_so(
    site: Site, crawl: Crawl, named: str
):
    """ATT-65: its pages keep their content."""
    crawl(named)
    assert crawl.rows(_REACHES) == [("localhost", 1)], "a name that is private at its first crawl"
    crawl(named)
    assert crawl.outcomes() == {"/": "unchanged", "/a": "unchanged"}
    crawl.rows("UPDATE seed_name SET reach = 0")
    site.clear()

    refused = crawl(named, expect=3)

    assert site.log == []
    assert "localhost was public at its first crawl" in refused.out
    assert "-a allow_private=localhost" in refused.out
    assert sorted(crawl.hits("home")) == ["/"]
    assert crawl.rows(_REACHES) == [("localhost", 0)], "what is refused changes nothing"

    crawl(named, settings={"ALLOW_NETWORKS": "127.0.0.0/8,::1/128"})
    assert crawl.rows(_REACHES) == [("localhost", 0)]
    crawl(named, allow_private="LocalHost")
    crawl(named)
    assert crawl.rows(_REACHES) == [("localhost", 2)]
    assert crawl.outcomes() == {"/": "unchanged", "/a": "unchanged"}


def test_a_literal_address_is_not_held_to_anything(site: Site, crawl: Crawl, named: str):
    crawl(site.url("/"))
    assert crawl.rows(_REACHES) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("other.example", "-a allow_private=other.example: 127.0.0.1"),
        ("localhost:8000", "allow_private is 'localhost:8000': expected names of hosts"),
        ("http://localhost/", "allow_private is 'http://localhost/': expected names of hosts"),
    ],
)
def test_a_name_that_is_no_seeds_is_refused(site: Site, crawl: Crawl, name: str, said: str):
    site.pages["/"] = html("Home")
    refused = crawl(site.url("/"), allow_private=name, expect=1)

    assert said in refused.err
    assert site.log == []

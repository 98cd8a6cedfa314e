"""The part of a host that a new address stands for (docs/decisions.md, ADR 144)."""

import pytest

from smartcrawl.rules.extent import (
    EXTENTS,
    Extent,
    default_extent,
    is_below_folder,
    is_extent_open,
    seed_folder,
)
from tests.rules.manual import table

TITLE = "The part of a host that an address stands for"
ROWS = table(TITLE)


def code(cell):
    """The text of a cell that is code."""
    return cell.strip("`")


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_manual_has_each_kind_of_address(row):
    path, linked, extent, folder = (code(cell) for cell in row)
    paths = () if linked == "none" else [code(one) for one in linked.split(", ")]
    found = seed_folder(path, paths)
    assert default_extent(path, found, lists=False).value == extent
    assert extent == "host" or found == folder


@pytest.mark.parametrize(
    ("given", "folder", "lists", "extent"),
    [
        ("/docs/", "/docs/", False, Extent.BELOW),
        ("/docs/", "/docs/", True, Extent.HOST),
        ("/", "/en/", False, Extent.HOST),
        ("/old", "/", False, Extent.HOST),
        ("/", "/", True, Extent.HOST),
    ],
)
def test_the_default_looks_at_the_address_as_given_and_as_it_redirects(
    given, folder, lists, extent
):
    assert default_extent(given, folder, lists=lists) is extent


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/docs/", True),
        ("/docs", True),
        ("/docs/a/b", True),
        ("/docs2", False),
        ("/doc", False),
        ("/", False),
        ("/a/docs/", False),
    ],
)
def test_a_folder_has_itself_and_all_below(path, below):
    assert is_below_folder("/docs/", path) is below


def test_the_whole_host_is_below_its_root():
    assert is_below_folder("/", "/")
    assert is_below_folder("/", "/a")


def test_a_link_to_the_page_itself_makes_no_folder():
    assert seed_folder("/guide/intro", ["/guide/intro", "/guide/introduction"]) == "/guide/"
    assert seed_folder("/guide/intro", ["/guide/intro/"]) == "/guide/intro/"


def test_the_words_are_those_of_the_command():
    assert EXTENTS == ("pages", "host", "domain", "below")
    assert seed_folder("/") == "/"


def test_an_ending_at_the_root_is_a_file_of_the_host():
    assert seed_folder("/index.html") == "/"
    assert seed_folder("/v2.1", ["/v2.1/a"]) == "/v2.1/"
    assert seed_folder("/guide.d/intro") == "/guide.d/"


@pytest.mark.parametrize(
    ("extent", "is_open"),
    [
        (None, True),
        (Extent.PAGES, True),
        (Extent.BELOW, True),
        (Extent.HOST, False),
        (Extent.DOMAIN, False),
    ],
)
def test_an_extent_below_a_host_is_open_until_it_has_a_start(extent, is_open):
    assert is_extent_open(extent, None) is is_open
    assert not is_extent_open(extent, "https://docs.example.com/a")

"""What every command prints on 80 columns, and where there is nothing to tell."""

import json
import re
from collections import Counter

import pytest

from tests.crawls.commands import Crawl, Result
from tests.crawls.test_command_output import COMMANDS, arguments, shop
from tests.site_server import Site, html

__all__ = ["shop"]  #: a fixture


def is_copied(line: str) -> bool:
    """Whether a line has a command, or an address for which there is no room."""
    return "scrapy " in line or max(map(len, line.split())) > 66


@pytest.mark.sqlite
def test_on_80_columns_only_what_is_copied_is_longer_and_no_number_is_broken(
    shop: Site, crawl: Crawl
):
    for args, status in COMMANDS:
        words = arguments(args, shop)
        wide = crawl.run(*words, expect=status) if args[0] not in ("crawl", "due") else None
        crawl.environment["COLUMNS"] = "80"
        narrow = crawl.run(*words, expect=status)
        del crawl.environment["COLUMNS"]

        lines = (narrow.out + narrow.err).splitlines()
        long = [line for line in lines if len(line) > 80 and not is_copied(line)]
        assert not long or args[0] == "search", (args, long)  # snippets are left to the terminal
        assert lines, args
        if wide is not None:
            assert numbers(wide) == numbers(narrow), args


def numbers(result: Result) -> Counter[str]:
    """The numbers of an output, without the ages, which grow."""
    return Counter(re.findall(r"\d+", re.sub(r"\b\d+ (?:s|min|h)\b", "", result.out + result.err)))


@pytest.mark.sqlite
def test_an_empty_list_says_so(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home")
    crawl(site.url("/"))

    assert crawl.run("deltamerge").out == "no stored page is lost\n"
    assert crawl.run("orphans").out == "no orphans, and no removal waits for approval\n"
    assert crawl.run("registry", "--status", "gone").out == (
        "no record matches; to list all: scrapy registry\n"
    )
    assert json.loads(crawl.run("deltamerge", "--format", "json").out) == []
    assert crawl.run("registry", "--dead", "--format", "jsonl").out == ""
    crawl.rows("DELETE FROM run")
    assert crawl.run("runs").out.startswith("no runs yet; crawl something first: scrapy crawl")


def test_a_search_is_offered_where_a_page_is_stored(site: Site, crawl: Crawl):
    assert "Search it" not in crawl(site.url("/none"), expect=3).out

    site.pages["/none"] = html("There")
    assert "Search it" in crawl(site.url("/none")).out
    site.pages.clear()
    assert "Search it" in crawl(site.url("/none"), expect=3).out  # it is kept


@pytest.mark.sqlite
def test_nothing_changed_is_only_said_where_nothing_did(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a", "/none")
    site.pages["/a"] = html("A", text="text of a")
    crawl(site.url("/"))
    assert "Nothing changed: 2 of 3 pages" in crawl(site.url("/")).out

    lost = site.pages.pop("/a")
    assert "Nothing changed" not in crawl(site.url("/")).out, "a page was lost"
    assert "Nothing changed" not in crawl(site.url("/")).out, "it is lost, as before"

    site.pages["/a"] = lost
    found = crawl(site.url("/")).out
    assert "Nothing changed" not in found, "it was found again"
    assert "Nothing changed" in crawl(site.url("/")).out

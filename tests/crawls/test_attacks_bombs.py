"""Attacks that would fill the memory or keep a processor busy for ever."""

import re
import time

import pytest

from smartcrawl.sources.scope import SiteScope
from tests.crawls.commands import Crawl, Result
from tests.hostile.codings import deflate_bomb
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=1)

_MEMORY = 300 * 1024  #: KiB that a crawl may take at most
_CPU_SECONDS = 15  #: what must be bounded would take minutes
#: `scrapy`, which tells the most memory and the time that it had; see test_hostile.py.
_SCRAPY = """
import atexit, re, sys, time

def tell():
    print("peak", re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
    print("cpu", time.process_time())

atexit.register(tell)
from scrapy.cmdline import execute
execute(["scrapy", *sys.argv[1:]])
"""


def bounded(
    crawl: Crawl, url: str, /, *, expect: int = 0, pages: int = 1, **settings: object
) -> Result:
    """Crawl so many pages (0: all) within the bounds of memory and processor."""
    quiet = {"LOG_LEVEL": "WARNING", "RETRY_TIMES": 0} | settings
    args = crawl._crawl_arguments(url, "site", quiet, {"max_pages": pages})
    result = crawl.python("-c", _SCRAPY, *args, expect=expect)
    told = dict(re.findall(r"(?m)^(peak|cpu) ([\d.]+)$", result.out))
    assert float(told["cpu"]) <= _CPU_SECONDS, result
    assert int(told["peak"]) <= _MEMORY, result
    return result


def words(count: int) -> str:
    return " ".join(f"word{n % 5_000}" for n in range(count))


@pytest.mark.long
def test_a_page_of_20_megabytes_is_read_where_it_is_allowed(site: Site, crawl: Crawl):
    """ATT-34: one text node."""
    site.pages["/"] = html("Home", text=words(2_400_000) + " needle")
    assert len(str(site.pages["/"])) > 20_000_000

    bounded(crawl, site.url("/"), DOWNLOAD_MAXSIZE=32 * 1024 * 1024)

    assert crawl.outcomes() == {"/": "new"}
    assert crawl.hits("needle") == ["/"]


@pytest.mark.long
def test_elements_within_each_other_are_read(site: Site, crawl: Crawl):
    """ATT-34: 200,000 of them; neither the words nor the links within are lost."""
    home = html("Home", "/a", text="needle")
    site.pages["/"] = home + "<div>" * 200_000 + "<a href=/deep>treasure"

    bounded(crawl, site.url("/"), expect=3)

    pages = crawl.pages()
    assert pages["/"]["lastOutcome"] == "new"
    assert {pages[path]["status"] for path in ("/a", "/deep")} == {"Pending"}
    assert crawl.hits("needle") == crawl.hits("treasure") == ["/"]


def test_every_link_of_a_long_page_is_registered(site: Site, crawl: Crawl):
    """ATT-34: 16,000 links."""
    links = [f"/page/{n}" for n in range(16_000)]
    site.pages["/"] = html("Home", *links)

    bounded(crawl, site.url("/"), expect=3)

    assert set(crawl.pages()) == {"/", *links}
    assert crawl.runs()[0]["reasons"] == ["max_pages: 1, by order", "pending: 16000"]
    assert len(site.log) == 2  # robots.txt is the other


def test_an_attribute_of_a_megabyte_is_passed_over(site: Site, crawl: Crawl):
    """ATT-34: in one element, and as an address."""
    long = "t" * 1_000_000
    markup = (
        f'<div title="{long}" {"a=b " * 100_000}>x</div><a href="/{long}">x</a><a href=/a>y</a>'
    )
    site.pages["/"] = html("Home", text="needle") + markup

    bounded(crawl, site.url("/"), expect=3)

    assert set(crawl.pages()) == {"/", "/a"}
    assert crawl.hits("needle") == ["/"]
    reasons = crawl.runs()[0]["reasons"]
    assert f"url_too_long: 1 address, {site.url('/')}{'t' * 100}" in "\n".join(reasons)


def test_headings_without_end_take_little_memory(site: Site, crawl: Crawl):
    """ATT-34: 8 MB of them, which is less than DOWNLOAD_MAXSIZE."""
    site.pages["/"] = html("Home") + "<h1>x" * 1_600_000

    bounded(crawl, site.url("/"))


# robots.txt

_NO = b"User-agent: *\nDisallow: /no\n"
_RULES = {
    "nul": _NO + b"\0" * 200_000 + b"\n" + b"".join(b"Disallow: /%d\n" % n for n in range(400_000)),
    "wildcards": _NO
    + b"Disallow: /"
    + b"*a" * 50_000
    + b"b\n"
    + b"Disallow: /*a*a*a*a*b\n" * 250_000,
}


@pytest.mark.parametrize("rules", _RULES.values(), ids=_RULES)
def test_rules_without_end_are_read_to_a_bound(site: Site, crawl: Crawl, rules: bytes):
    """ATT-36: those within 500 KiB count, against addresses of which patterns want the worst."""
    site.pages["/robots.txt"] = Page(rules, content_type="text/plain")
    site.pages["/"] = html("Home", "/no", *(f"/{'a' * 2_000}{n}" for n in range(20)))

    bounded(crawl, site.url("/"), pages=0)

    assert crawl.outcomes()["/no"] == "excluded"
    assert list(crawl.outcomes().values()).count("failed") == 20  # 404: they were asked


_LARGE = {
    "100-mb": Page(b"User-agent: *\nDisallow: /no\n".ljust(100_000_000, b"#")),
    "gzip": Page(deflate_bomb(31), headers={"Content-Encoding": "gzip"}),
}


@pytest.mark.parametrize("page", _LARGE.values(), ids=_LARGE)
def test_rules_that_are_a_bomb_are_unknown_and_the_host_is_left_alone(
    site: Site, crawl: Crawl, page: Page
):
    """ATT-28, ATT-36: nobody knows what they forbid."""
    site.pages |= {"/robots.txt": page, "/": html("Home")}

    bounded(crawl, site.url("/"), expect=3)

    assert site.count("/") == 0
    [home] = crawl.records()
    assert (home["lastOutcome"], home["httpStatusCode"]) == ("failed", 1108)
    assert "robots.txt could not be read: " in home["errorMessage"]
    assert "larger than" in home["errorMessage"]
    assert crawl.runs()[0]["reasons"][0].startswith("robots_unknown: ")


# Patterns of a source


def cost(length: int) -> float:
    """Return the seconds that it takes to see that an address does not match."""
    scope = SiteScope(hosts=frozenset({"a.example"}), excluded_patterns=("(a+)+$",))
    times = []
    for _ in range(3):
        began = time.process_time()
        assert scope.allows(f"http://a.example/{'a' * length}!")
        times.append(time.process_time() - began)
    return min(times)


def test_no_pattern_takes_longer_than_its_address_is_long():
    """ATT-35: a page that knows the patterns, or guesses them, would stop the crawl for years."""
    assert cost(22) < 20 * cost(12)

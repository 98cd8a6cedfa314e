"""A shop whose pages shrink to a line, each to another one."""

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Site, html

LONG = "These are the words of a page that has a lot to say about lamps and fuses. " * 10
PAGES = [f"/p{n}" for n in range(8)]
SHOPS = ("bakery", "chemist", "florist", "grocer", "butcher", "optician", "tailor", "cobbler")


def short(number: int, *links: str) -> str:
    return html(f"P{number}", *links, text=f"closed {SHOPS[number % len(SHOPS)]}")


def long(number: int, *links: str) -> str:
    return html(f"P{number}", *links, text=f"Number {number}. {LONG}")


def build(site: Site) -> None:
    site.pages["/"] = html("Home", *PAGES, *(f"/more{n}" for n in range(30)))
    for n, path in enumerate(PAGES):
        site.pages[path] = long(n, f"/old{n}")
        site.pages[f"/old{n}"] = html(f"Old {n}", text=f"ancient {n}")
        site.pages[f"/fresh{n}"] = html(f"Fresh {n}", text=f"recent {n}")
    for n in range(30):
        site.pages[f"/more{n}"] = html(f"More {n}", text=f"plain {n}")


@pytest.fixture
def shop(site: Site, crawl: Crawl) -> Site:
    build(site)
    crawl(site.url("/"))
    site.clear()
    return site


def shrink(site: Site, count: int) -> None:
    """Let so many pages be edited to a line, each with another link."""
    for n in range(count):
        site.pages[PAGES[n]] = short(n, f"/fresh{n}")

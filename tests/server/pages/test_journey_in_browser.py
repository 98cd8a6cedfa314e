"""The whole journey in a browser: from one address to an undo, by keyboard alone.

On a phone and on a desktop, each in light and in dark, and without a script.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.pages.chrome import Tab
from tests.server.test_serve import Server, serving
from tests.site_server import Site, html

WORD = "quillwort"
LEAVES = 11  #: one more than a sweep may remove without approval
SERVED = {
    "ALLOW_NETWORKS": "127.0.0.0/8", "API_PAGES_PER_MINUTE": "100000", "SOFT_404_DETECTION": "0",
    "LOST_THRESHOLD": "1",
}  # fmt: skip


def asked(site: Site) -> int:
    """The requests for pages so far."""
    return sum(request.path != "/robots.txt" for request in site.log)


def until(happened: Callable[[], bool]) -> None:
    """Wait for something elsewhere."""
    for _ in range(900):
        if happened():
            return
        time.sleep(0.1)
    raise AssertionError("it never happened")


def said(tab: Tab, text: str) -> None:
    """Wait until a page says something; its parts come by themselves, or with a reload."""

    def is_said() -> bool:
        if not tab.has_scripts:
            tab.go(tab.ask("location.href"))
        return bool(tab.ask(f"document.querySelector('main').innerText.includes({text!r})"))

    try:
        until(is_said)
    except AssertionError:
        shown = tab.ask("location.href + document.querySelector('main').innerText")
        raise AssertionError(f"no {text!r} in {shown}") from None


def link(tab: Tab, text: str) -> None:
    """Follow a link, or press a button; look at the page to which it leads."""
    tab.follow(text)
    if tab.has_scripts:
        assert tab.defects() == [], tab.ask("location.href")
    assert tab.ask("document.documentElement.scrollWidth") <= tab.width


def filled(site: Site) -> None:
    site.pages["/"] = html("Home", *(f"/{number}" for number in range(LEAVES)))
    for number in range(LEAVES):
        site.pages[f"/{number}"] = html(f"Leaf {number}", text=f"{WORD} number {number}")


def journey(site: Site, server: Server, tab: Tab) -> None:
    """Crawl, search, fetch a page anew, approve removals of a broken deployment, and undo them."""
    tab.go(f"{server.url}/")
    tab.reach("#url")
    tab.type(site.url("/"))
    tab.enter()
    said(tab, "The crawl is done: 12 pages.")
    job = tab.ask("location.href")
    link(tab, "Search them")
    tab.reach("#q")
    tab.type(WORD)
    tab.enter()
    tab.wait("document.querySelectorAll('.hits > li').length > 5")
    link(tab, "Record")
    said(tab, "What happened")
    before = asked(site)
    link(tab, "Fetch anew")
    said(tab, "anew")
    until(lambda: asked(site) > before)
    for number in range(LEAVES):  # a deployment that went wrong
        del site.pages[f"/{number}"]
    tab.go(job)
    link(tab, "Crawl it again")
    said(tab, "The crawl is done")
    link(tab, "Removals")
    said(tab, "11 removals of 12 stored pages wait for approval")
    tab.reach("input[name=max]")
    tab.type("10")
    tab.enter()
    said(tab, "10 pages removed, 1 more wait")
    link(tab, "All removals")
    link(tab, "Restore 10 pages")
    said(tab, "10 pages restored")
    assert tab.complaints == []
    assert all(url.startswith((server.url, "about:")) for url in tab.requested)


@pytest.mark.long
@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_from_one_address_to_a_removal_and_back(
    site: Site, tmp_path: Path, tab: Tab, width: int, is_dark: bool
):
    filled(site)
    tab.resize(width, 800, dark=is_dark)
    with serving(tmp_path, **SERVED) as server:
        journey(site, server, tab)


@pytest.mark.long
def test_the_journey_without_a_script(site: Site, tmp_path: Path, tab: Tab):
    filled(site)
    tab.resize(360, 800, dark=True)
    tab.stop_scripts()
    with serving(tmp_path, **SERVED) as server:
        journey(site, server, tab)

"""The whole journey in a browser: from one address to an undo, by keyboard alone.

On a phone and on a desktop, in light and in dark, with and without scripts: each in a tab of its
own, with a site and a server of its own. While the crawl of one waits, the others go on.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from tests.server.pages.chrome import SEEN, Browser, Tab
from tests.server.test_serve import Server, serving
from tests.site_server import Site, html

WORD = "quillwort"
LEAVES = 11  #: one more than a sweep may remove without approval
SERVED = {
    "ALLOW_NETWORKS": "127.0.0.0/8", "API_PAGES_PER_MINUTE": "100000", "SOFT_404_DETECTION": "0",
    "LOST_THRESHOLD": "1",
}  # fmt: skip
_PATIENCE = 240.0  #: seconds until a page has to show its next state, on a busy machine, too
Happened = Callable[[], bool]


def asked(site: Site) -> int:
    """The requests for pages so far."""
    return sum(request.path != "/robots.txt" for request in site.log)


def said(tab: Tab, text: str) -> Happened:
    """Whether a page says something; its parts come by themselves, or with a reload."""
    loaded = time.monotonic()

    def is_said() -> bool:
        nonlocal loaded
        if tab.ask(f"document.querySelector('main').innerText.includes({text!r})"):
            return True
        if not tab.has_scripts and time.monotonic() - loaded > 1:
            tab.go(tab.ask("location.href"))
            loaded = time.monotonic()
        return False

    return is_said


def link(tab: Tab, text: str) -> Iterator[Happened]:
    """Follow a link, or press a button; look at the page to which it leads."""
    tab.follow(text)
    yield from whole(tab)


def whole(tab: Tab) -> Iterator[Happened]:
    """Look at a page: it fits onto the screen, and axe finds nothing."""
    assert tab.ask("document.documentElement.scrollWidth") <= tab.width
    if tab.has_scripts:
        tab.look()
        yield lambda: bool(tab.ask(SEEN))
        assert tab.seen() == [], tab.ask("location.href")


def filled(site: Site) -> None:
    site.pages["/"] = html("Home", *(f"/{number}" for number in range(LEAVES)))
    for number in range(LEAVES):
        site.pages[f"/{number}"] = html(f"Leaf {number}", text=f"{WORD} number {number}")


def journey(site: Site, server: Server, tab: Tab) -> Iterator[Happened]:
    """Crawl, search, fetch a page anew, approve removals of a broken deployment, and undo them.

    It yields what it waits for, and goes on once that has happened.
    """
    tab.go(f"{server.url}/")
    tab.reach("#url")
    tab.type(site.url("/"))
    tab.enter()
    yield said(tab, "The crawl is done: 12 pages.")
    yield from link(tab, "Search them")
    tab.reach("#q")
    tab.type(WORD)
    tab.enter()
    tab.wait("document.querySelectorAll('.hits > li').length > 5")
    yield from link(tab, "Record")
    yield said(tab, "What happened")
    before = asked(site)
    yield from link(tab, "Fetch anew")
    yield said(tab, "anew")
    yield lambda: asked(site) > before
    for number in range(LEAVES):  # a deployment that went wrong
        del site.pages[f"/{number}"]
    yield from link(tab, "Sources")
    yield from link(tab, "Settings")
    tab.reach("#crawl_delay_ms")
    tab.type("0")  # over the second that was there: Tab has chosen it
    tab.enter()
    yield said(tab, "It is saved")
    yield from link(tab, "Crawl it again")
    yield said(tab, "The crawl is done")
    yield from link(tab, "Removals")
    yield said(tab, "11 removals of 12 stored pages wait for approval")
    tab.reach("input[name=max]")
    tab.type("10")
    tab.enter()
    yield said(tab, "10 pages removed, 1 more wait")
    yield from link(tab, "All removals")
    yield from link(tab, "Restore 10 pages")
    yield said(tab, "10 pages restored")
    assert tab.complaints == []
    assert all(url.startswith((server.url, "about:")) for url in tab.requested)


def make(journeys: Mapping[str, tuple[Tab, Iterator[Happened]]]) -> None:
    """Go on with each journey as soon as what it waits for has happened."""
    waiting: dict[str, tuple[Happened, float]] = dict.fromkeys(journeys, (lambda: True, 0.0))
    while waiting:
        for name, (has_happened, since) in list(waiting.items()):
            tab, going = journeys[name]
            if has_happened():
                following = next(going, None)
                del waiting[name]
                if following is not None:
                    waiting[name] = following, time.monotonic()
            elif time.monotonic() - since > _PATIENCE:
                shown = tab.ask("location.href + document.querySelector('main').innerText")
                raise AssertionError(f"{name}: it goes no further than {shown}")
        time.sleep(0.05)


@pytest.mark.long
def test_from_one_address_to_a_removal_and_back(tmp_path: Path, browser: Browser):
    with ExitStack() as opened:
        journeys = {}
        for width, is_dark, has_scripts in product((360, 1280), (False, True), (False, True)):
            name = f"{width} {'dark' if is_dark else 'light'}{'' if has_scripts else ' plain'}"
            site = opened.enter_context(Site())
            filled(site)
            tab = opened.enter_context(browser.tab())
            tab.resize(width, 800, dark=is_dark)
            if not has_scripts:
                tab.stop_scripts()
            server = opened.enter_context(serving(tmp_path / name, **SERVED))
            journeys[name] = tab, journey(site, server, tab)
        make(journeys)

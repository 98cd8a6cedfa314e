"""Pages in a real browser: keys and results while typing, sizes, colours, and hostile texts."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.pages.chrome import Tab, browsing
from tests.server.pages.test_pages_search import fill
from tests.server.test_serve import Server, serving
from tests.site_server import Site, html


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    fill(folder / "registry.db")
    with serving(folder, API_PAGES_PER_MINUTE="100000") as running:
        yield running


@pytest.fixture(scope="module")
def tab(program: str, server: Server) -> Iterator[Tab]:
    with browsing(program) as opened:
        yield opened


def titles(tab: Tab) -> list[str]:
    return tab.ask("[...document.querySelectorAll('.hits h2')].map(one => one.innerText)")


def test_a_search_by_keys_alone_on_a_phone(server: Server, tab: Tab):
    tab.resize(360, 740)
    tab.go(f"{server.url}/")
    tab.type("lanter")
    tab.type("n oil")
    tab.wait("document.querySelectorAll('.hits > li').length === 3")

    assert titles(tab)[0] == "All about lanterns"
    assert tab.ask("location.search") == "?q=lantern%20oil"
    assert tab.ask("document.title") == "lantern oil – Search – smartcrawl"
    assert tab.ask("document.activeElement.id") == "q"  # it kept the focus
    tab.press("ArrowDown")
    assert tab.ask("document.activeElement.innerText") == "All about lanterns"
    tab.press("/")
    assert tab.ask("document.activeElement.id") == "q"
    assert tab.ask("document.documentElement.scrollWidth") == 360  # nothing to scroll sideways
    assert tab.ask("[...document.images].every(one => one.naturalWidth > 0)")
    assert tab.defects() == []
    assert tab.complaints == []
    assert all(url.startswith(server.url) for url in tab.requested)
    tab.ask("document.querySelector('main').append(new Image())")
    assert "image-alt" in "".join(tab.defects())  # axe does look


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize(
    "path", ["/", "/?q=lantern+quay&language=de", "/?q=zzzxq", "/crawl", "/docs", "/login", "/none"]
)
def test_axe_finds_nothing(server: Server, tab: Tab, path: str, width: int, dark: bool):
    tab.resize(width, 800, dark=dark)
    tab.go(f"{server.url}{path}")

    assert tab.defects() == []
    assert tab.ask("document.documentElement.scrollWidth") <= width


WORD = "quillwort"
LEAVES = 11  #: one more than a sweep may remove without approval


def link(tab: Tab, text: str) -> None:
    """Follow a link, or press a button, by its text; it gets the focus and Enter."""
    found = f"[...document.querySelectorAll('a, button')].find(one => one.innerText === '{text}')"
    tab.wait(f"!!{found}")
    tab.ask(f"window.leaving = true; {found}.focus()")
    tab.press("Enter")
    tab.wait("!window.leaving && document.readyState === 'complete'")
    assert tab.defects() == []


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
    """Wait until a page says something; parts of it come by themselves."""
    try:
        tab.wait(f"document.querySelector('main').innerText.includes({text!r})")
    except AssertionError:
        shown = tab.ask("location.href + document.querySelector('main').innerText")
        raise AssertionError(f"no {text!r} in {shown}") from None


@pytest.mark.long
@pytest.mark.parametrize("width", [360, 1280])
def test_from_one_address_to_a_removal_and_back(
    site: Site, tmp_path: Path, program: str, width: int
):
    site.pages["/"] = html("Home", *(f"/{number}" for number in range(LEAVES)))
    for number in range(LEAVES):
        site.pages[f"/{number}"] = html(f"Leaf {number}", text=f"{WORD} number {number}")
    given = {"ALLOW_NETWORKS": "127.0.0.0/8", "API_PAGES_PER_MINUTE": "100000"}
    given |= {"SOFT_404_DETECTION": "0", "LOST_THRESHOLD": "1"}
    with serving(tmp_path, **given) as server, browsing(program) as tab:
        tab.resize(width, 800)
        tab.go(f"{server.url}/")
        tab.ask("document.getElementById('url').focus()")
        tab.type(site.url("/"))
        tab.press("Enter")
        said(tab, "The crawl is done: 12 pages.")
        job = tab.ask("location.href")
        link(tab, "Search them")
        tab.ask("document.getElementById('q').focus()")
        tab.type(WORD)
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
        tab.ask("document.querySelector('input[name=max]').focus()")
        tab.type("10")
        tab.press("Enter")
        said(tab, "10 pages removed, 1 more wait")
        link(tab, "All removals")
        link(tab, "Restore 10 pages")
        said(tab, "10 pages restored")
        assert tab.complaints == []
        assert all(url.startswith(server.url) for url in tab.requested)

"""Pages in a real browser: keys and results while typing, sizes, colours, and hostile texts."""

from collections.abc import Iterator

import pytest

from tests.server.pages.chrome import Tab
from tests.server.pages.test_pages_search import fill
from tests.server.test_serve import Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    fill(folder / "registry.db")
    with serving(folder, API_PAGES_PER_MINUTE="100000") as running:
        yield running


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

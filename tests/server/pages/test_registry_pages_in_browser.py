"""Pages over the registry in a real browser: hostile texts, sizes, colours, and a live run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.model.batches import Batch
from smartcrawl.model.run_logs import run_log_file
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.model import Outcome
from tests.registry.build import LATER
from tests.server.pages.chrome import SEEN, Browser, Tab
from tests.server.pages.shop import HOME, PAGES, Shop, path_of, site_map
from tests.server.test_serve import Server, serving


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    shop = Shop(tmp_path_factory.mktemp("shop"))
    yield shop
    shop.desk.close()


@pytest.fixture(scope="module")
def server(shop: Shop) -> Iterator[Server]:
    with serving(shop.folder, API_PAGES_PER_MINUTE="100000") as running:
        yield running


@pytest.fixture
def logged_in(shop: Shop, server: Server, tab: Tab) -> Tab:
    """A tab of an administrator, who sees each form."""
    log_in(tab, server, shop.key)
    return tab


def log_in(tab: Tab, server: Server, key: str) -> None:
    """Log in by keyboard."""
    tab.go(f"{server.url}/login")
    tab.reach("#key")
    tab.type(key)
    tab.enter()
    tab.requested.clear()


@pytest.mark.long
@pytest.mark.parametrize("guarded", [True, False])
def test_hostile_texts_run_and_request_nothing(
    shop: Shop, server: Server, logged_in: Tab, tmp_path: Path, guarded: bool
):
    tab = logged_in
    if not guarded:
        tab.ignore_policies()
    shown = {path_of(shop, page) for page in PAGES} - {"/runs/3"}  # live: it has counts alone
    for page in site_map(shop, tmp_path):
        tab.go(f"{server.url}{page}")
        seen = tab.ask(
            "document.body.innerText"
            " + [...document.querySelectorAll('input')].map(one => one.value)"
        )
        assert "alert(1)" in seen or page not in shown, page
        found = tab.ask(
            "[...document.querySelectorAll('main b, main img, main script, main *')].filter("
            "one => one.matches('b, img, script') || [...one.attributes].some("
            "a => a.name.startsWith('on'))).map(one => one.outerHTML)"
        )
        assert found == [], page
        assert tab.ask("[...document.links].every(one => /^https?:$/.test(one.protocol))"), page
    assert [one for one in tab.complaints if "status of 40" not in one] == []
    assert all(url.startswith((server.url, "about:")) for url in tab.requested)


@pytest.mark.long
def test_axe_finds_nothing_on_any_page(
    shop: Shop, server: Server, browser: Browser, tmp_path: Path
):
    found = dict[str, list[str]]()
    with browser.tab() as phone, browser.tab() as desktop:
        phone.resize(360, 800)
        desktop.resize(1280, 800, dark=True)
        for tab in (phone, desktop):
            log_in(tab, server, shop.key)
        for page in site_map(shop, tmp_path):
            for tab in (phone, desktop):
                tab.go(f"{server.url}{page}")
                tab.look()
            for tab in (phone, desktop):  # at which axe looks at the same time
                tab.wait(SEEN)
                found[f"{page} at {tab.width}"] = tab.seen()
                assert tab.ask("document.documentElement.scrollWidth") <= tab.width, page
    assert {page: defects for page, defects in found.items() if defects} == {}


#: Notes how far what is seen moves by itself.
_SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => shifts.push(...list.getEntries().map(
  one => [one.value, one.sources.map(s => s.node && (s.node.id || s.node.nodeName))])))
  .observe({type: 'layout-shift', buffered: true})
"""
_AT_END = "(e => e.scrollTop + e.clientHeight >= e.scrollHeight - 1)"
_ASKED = "performance.getEntriesByType('resource').length"
_HIDDEN = (
    "Object.defineProperty(document, 'hidden', {{get: () => {}, configurable: true}});"
    " document.dispatchEvent(new Event('visibilitychange'))"
)
_LOG = "document.querySelector('#log-lines')"


def logged(shop: Shop, *lines: str) -> None:
    """Let the open run write lines into its log."""
    log = run_log_file(shop.folder, 3)
    log.parent.mkdir(exist_ok=True)
    with log.open("a") as file:
        file.writelines(f"2025-06-15 10:00:00,000 [smartcrawl] INFO: {line}\n" for line in lines)


@pytest.mark.long
def test_a_run_is_watched_without_a_reload_and_ends(shop: Shop, server: Server, tab: Tab):
    database = registry_database(shop.folder / "registry.db")
    shop.desk.committed(Batch(is_sample=True), None, LATER + 10)
    logged(shop, *(f"line {number}" for number in range(100)))
    with database.take("docs", "now"):
        tab.resize(1280, 800)
        tab.hurry(10)
        tab.go(f"{server.url}/runs/3")
        tab.ask(_SHIFTS)
        assert "2 pages done" in tab.ask("document.querySelector('#progress').innerText")
        assert "none" in tab.ask("document.querySelector('#live-hosts').innerText")
        with transaction(shop.desk.connection):
            shop.desk.connection.execute(
                "INSERT INTO host_now (host, run, at, delay_ms, in_flight)"
                " SELECT max(no), 3, 0, 500, 2 FROM host"
            ).fetchall()
        tab.wait("document.querySelector('#live-hosts').innerText.includes('500 ms')")
        tab.ask("document.querySelector('#live-chart details').open = true")
        tab.ask("document.querySelector('#live-chart svg').id = 'former'")
        tab.wait("!document.getElementById('former')")
        assert tab.ask("document.querySelector('#live-chart details').open")
        # Its log follows its end, until it is scrolled up.
        assert tab.ask(f"{_AT_END}({_LOG})")
        logged(shop, "the next line")
        tab.wait(f"{_LOG}.innerText.includes('the next line')")
        assert tab.ask(f"{_AT_END}({_LOG})")
        tab.ask(f"{_LOG}.scrollTop = 40")
        logged(shop, "a later line")
        tab.wait(f"{_LOG}.innerText.includes('a later line')")
        assert tab.ask(f"{_LOG}.scrollTop") == 40
        shop.desk.write(shop.desk.visit(HOME, outcome=Outcome.NOT_MODIFIED, status=304))
        tab.wait("document.querySelector('#progress').innerText.includes('3 pages done')")
        assert tab.ask("shifts") == []
        # A tab that is not seen asks for nothing, and catches up when it is seen again.
        tab.ask(_HIDDEN.format("true"))
        tab.ask("new Promise(done => setTimeout(done, 300))")  # what was under way
        before = tab.ask(_ASKED)
        tab.ask("new Promise(done => setTimeout(done, 2500))")
        assert tab.ask(_ASKED) == before
        tab.ask(_HIDDEN.format("false"))
        tab.wait(f"{_ASKED} > {before}")
        # While the server is away the page says so, and goes on when it is there again.
        tab.lose(connection=True)
        tab.wait("!document.querySelector('#away').hidden")
        assert "3 pages done" in tab.ask("document.querySelector('#progress').innerText")
        tab.lose(connection=False)
        tab.wait("document.querySelector('#away').hidden")
        lost = [one for one in tab.complaints if "ERR_INTERNET_DISCONNECTED" in one]
        assert lost == tab.complaints
        tab.complaints.clear()
        # What a screen reader is told: not each of these swaps.
        assert "It runs: " in tab.wait("document.querySelector('#said').textContent")
    shop.desk.seal("interrupted", now=LATER)
    tab.wait("document.querySelector('#progress').innerText.includes('It ended.')")
    assert tab.ask("document.querySelector('#said').textContent").startswith("It ended.")
    tab.ask(_HIDDEN.format("false"))  # the parts that ask less often learn it, too
    tab.ask("new Promise(done => setTimeout(done, 500))")
    before = tab.ask(_ASKED)
    tab.ask("new Promise(done => setTimeout(done, 2500))")
    assert tab.ask(_ASKED) == before  # it asks no more
    assert tab.complaints == []


@pytest.mark.long
def test_a_page_that_polls_says_that_its_server_restarts_and_goes_on(tmp_path: Path, tab: Tab):
    shop = Shop(tmp_path / "shop")
    database = registry_database(shop.folder / "registry.db")
    progress = "document.querySelector('#progress').innerText"
    away = "!document.querySelector('#away').hidden"
    with database.take("docs", "now"):
        with serving(shop.folder) as first:
            log_in(tab, first, shop.key)
            tab.hurry(10)
            tab.go(f"{first.url}/runs/3")
            assert "2 pages done" in tab.ask(progress)
            status, _ = first.end()
        assert status == 0
        tab.wait(away)
        assert "does not answer" in tab.ask("document.querySelector('#away').innerText")
        assert "2 pages done" in tab.ask(progress)
        shop.desk.write(shop.desk.visit(HOME, outcome=Outcome.NOT_MODIFIED, status=304))
        with serving(shop.folder, "--port", str(first.port)) as second:
            assert second.url == first.url
            tab.wait(f"!({away})")
            tab.wait(f"{progress}.includes('3 pages done')")
            assert tab.ask("document.querySelector('header').innerText.includes('Log out')")
            shop.desk.seal("interrupted", now=LATER)
            tab.wait(f"{progress}.includes('It ended.')")
    shop.desk.close()
    refused = [one for one in tab.complaints if "net::ERR_" in one]
    assert refused
    assert refused == tab.complaints

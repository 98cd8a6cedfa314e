"""Pages over the registry in a real browser: hostile texts, sizes, colours, and a live run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.model import Outcome
from tests.registry.build import LATER, NOW, Desk
from tests.server.pages.chrome import Tab, browsing
from tests.server.test_serve import Server, serving

SCRIPT = "<img src=x onerror=alert(1)><b hx-get=/docs hx-trigger=load>"
ODD = f"https://docs.example.com/'\">{SCRIPT}"
SCRIPTED = "javascript:alert(1)//https://docs.example.com/"
HOME = "https://docs.example.com/"


class Shop:
    """A registry whose texts are hostile, with an open run, and its server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.desk = Desk(folder / "registry.db")
        self.desk.source = "other"
        self.desk.open(now=NOW)
        self.desk.index(f"https://other.example/{SCRIPT}", SCRIPT, title=SCRIPT)
        self.desk.seal(f"seed_failed: {ODD}", now=NOW)
        self.desk.source = "docs"
        self.desk.open(now=NOW)
        self.desk.index(HOME, SCRIPT, title=SCRIPT)
        self.number = self.desk.index(ODD, SCRIPT, title=SCRIPT, etag=f'"{SCRIPT}"')
        self.desk.seal(f"seed_failed: {ODD}", now=NOW)
        self.desk.open(now=LATER)
        lost = self.desk.visit(ODD, outcome=Outcome.NOT_FOUND, status=404, error=SCRIPT)
        self.desk.write(lost, reached={self.number: 0}, now=LATER)
        with transaction(self.desk.connection):
            for statement, value in (
                ("UPDATE record SET redirect_target = ?", SCRIPTED),
                ("UPDATE record SET canonical_url = ?", SCRIPTED),
                ("UPDATE host SET is_blocked = TRUE, block_reason = ?", SCRIPT),
                ("INSERT INTO candidate (no, source, run, renewed, rule, detail, withheld)"
                 " SELECT no, source, 1, 3, 1, json_object('why', ?), TRUE FROM record", SCRIPT),
            ):  # fmt: skip
                self.desk.connection.execute(statement, (value,)).fetchall()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    shop = Shop(tmp_path_factory.mktemp("shop"))
    yield shop
    shop.desk.close()


@pytest.fixture(scope="module")
def server(shop: Shop) -> Iterator[Server]:
    with serving(shop.folder, API_PAGES_PER_MINUTE="100000") as running:
        yield running


@pytest.fixture(scope="module")
def tab(program: str, server: Server) -> Iterator[Tab]:
    with browsing(program) as opened:
        yield opened


PAGES = [
    "/records/{no}?text=true&links_in=true", "/records/{no}/forget", "/records?url={odd}",
    "/removals", "/runs", "/runs/1", "/runs/2?list=new", "/runs/3", "/sources", "/status", "/hosts",
]  # fmt: skip


def path_of(shop: Shop, page: str) -> str:
    odd = "https%3A%2F%2Fdocs.example.com%2F%3Cimg%20src=x%20onerror=alert(1)%3E"
    return page.format(no=shop.number, odd=odd)


@pytest.mark.long
@pytest.mark.parametrize("guarded", [True, False])
def test_hostile_texts_run_and_request_nothing(
    shop: Shop, server: Server, program: str, guarded: bool
):
    with browsing(program) as tab:
        if not guarded:
            tab.ignore_policies()
        for page in PAGES:
            tab.go(f"{server.url}{path_of(shop, page)}")
            tab.wait("document.readyState === 'complete'")
            seen = tab.ask(
                "document.body.innerText"
                " + [...document.querySelectorAll('input')].map(one => one.value)"
            )
            assert "alert(1)" in seen or page == "/runs/3", page  # live: it has counts alone
            found = tab.ask(
                "[...document.querySelectorAll('main b, main img, main script, main *')].filter("
                "one => one.matches('b, img, script') || [...one.attributes].some("
                "a => a.name.startsWith('on'))).map(one => one.outerHTML)"
            )
            assert found == [], page
            assert tab.ask("[...document.links].every(one => /^https?:$/.test(one.protocol))"), page
        assert tab.complaints == []
        assert all(url.startswith((server.url, "about:")) for url in tab.requested)


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_nothing(shop: Shop, server: Server, tab: Tab, width: int, dark: bool):
    tab.resize(width, 800, dark=dark)
    for page in PAGES:
        tab.go(f"{server.url}{path_of(shop, page)}")
        assert tab.defects() == [], page
        assert tab.ask("document.documentElement.scrollWidth") <= width, page


@pytest.mark.long
def test_a_run_is_watched_without_a_reload_and_ends(shop: Shop, server: Server, tab: Tab):
    database = registry_database(shop.folder / "registry.db")
    with database.take("docs", "now"):
        tab.resize(1280, 800)
        tab.go(f"{server.url}/runs/3")
        assert "1 page done" in tab.ask("document.querySelector('#progress').innerText")
        shop.desk.write(shop.desk.visit(HOME, outcome=Outcome.NOT_MODIFIED, status=304))
        tab.wait("document.querySelector('#progress').innerText.includes('2 pages done')")
    shop.desk.seal("interrupted", now=LATER)
    tab.wait("document.querySelector('#progress').innerText.includes('It ended.')")
    before = tab.ask("performance.getEntriesByType('resource').length")
    tab.ask("new Promise(done => setTimeout(done, 2500))")
    assert tab.ask("performance.getEntriesByType('resource').length") == before  # it asks no more
    assert tab.complaints == []

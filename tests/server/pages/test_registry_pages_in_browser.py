"""Pages over the registry in a real browser: hostile texts, sizes, colours, and a live run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.model.batches import Batch
from smartcrawl.model.urls import normalize_url, url_digest
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.model import Outcome
from smartcrawl.server.jobs.store import JobStore
from smartcrawl.server.keys import Scope
from tests.registry.build import LATER, NOW, Desk
from tests.server.api_client import application
from tests.server.jobs.conftest import defined
from tests.server.pages.browsing import Visitor, made_key, parsed
from tests.server.pages.chrome import Tab
from tests.server.pages.site_map import page_paths, page_routes
from tests.server.test_serve import Server, serving

SCRIPT = "<img src=x onerror=alert(1)><b hx-get=/docs hx-trigger=load>"
ODD = f"https://docs.example.com/'\">{SCRIPT}"
SCRIPTED = "javascript:alert(1)//https://docs.example.com/"
HOME = "https://docs.example.com/"
ORDER = "ro_00000000000000aa"


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
        changed = self.desk.visit(HOME, f"{SCRIPT} {SCRIPT}")
        reached = {self.number: 0, self.desk.number(HOME): 0}
        self.desk.write(lost, changed, reached=reached, now=LATER)
        with transaction(self.desk.connection):
            for statement, value in (
                ("UPDATE record SET redirect_target = ?", SCRIPTED),
                ("UPDATE record SET canonical_url = ?", SCRIPTED),
                ("UPDATE host SET is_blocked = TRUE, block_reason = ?", SCRIPT),
                ("INSERT INTO candidate (no, source, run, renewed, rule, detail, withheld)"
                 " SELECT no, source, 1, 3, 1, json_object('why', ?), TRUE FROM record", SCRIPT),
            ):  # fmt: skip
                self.desk.connection.execute(statement, (value,)).fetchall()
            self.desk.connection.execute(
                "INSERT INTO removal_order (id, source, action, run, most, orderer, state, reasons,"
                " created_at, ended_at, url) VALUES (?, 'docs', 'forget', 2, 1, ?, 'ended',"
                " json_array(?), 5, 6, ?)",
                (ORDER, SCRIPT, SCRIPT, ODD),
            ).fetchall()
        database = registry_database(folder / "registry.db")
        jobs = JobStore(database, self.desk.connection)
        self.job = jobs.create(defined("nightly", cron="0 3 * * 1"), (), NOW).id
        self.desk.rows("UPDATE job SET status = 'paused'")  # so that none of its runs begins
        self.key = made_key(folder, Scope.ADMIN)
        ((self.key_id,),) = self.desk.rows("SELECT id FROM api_key")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    shop = Shop(tmp_path_factory.mktemp("shop"))
    yield shop
    shop.desk.close()


@pytest.fixture(scope="module")
def server(shop: Shop) -> Iterator[Server]:
    with serving(shop.folder, API_PAGES_PER_MINUTE="100000") as running:
        yield running


#: Pages that show what is hostile.
PAGES = [
    "/records/{no}?text=true&links_in=true", "/records/{no}/forget", "/records?url={odd}",
    "/changes", "/changes?since=2", "/removals", "/runs", "/runs/1", "/runs/2?list=new", "/runs/3",
    "/sources", "/status", "/hosts",
]  # fmt: skip


#: States of pages that no route shows by itself, and what is no page.
STATES = ["/?q=alert", "/?q=zzzxq&source=docs", "/frontier?hosts=all", "/none", "/records/999"]


def path_of(shop: Shop, page: str) -> str:
    odd = "https%3A%2F%2Fdocs.example.com%2F%3Cimg%20src=x%20onerror=alert(1)%3E"
    return page.format(no=shop.number, odd=odd)


def site_map(shop: Shop, folder: Path) -> list[str]:
    """A path of each page, and of its states."""
    key = url_digest(normalize_url(ODD)).hex()
    values = {
        "no": shop.number,
        "url_hash": key,
        "run": 3,
        "order": ORDER,
        "job": shop.job,
        "key_id": shop.key_id,
    }
    shown = [path_of(shop, page) for page in PAGES]
    return list(dict.fromkeys([*page_paths(folder, values), *shown, *STATES]))


@pytest.fixture
def logged_in(shop: Shop, server: Server, tab: Tab) -> Tab:
    """A tab of an administrator, who sees each form."""
    tab.go(f"{server.url}/login")
    tab.reach("#key")
    tab.type(shop.key)
    tab.enter()
    tab.requested.clear()
    return tab


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
def test_axe_finds_nothing_on_any_page(shop: Shop, server: Server, logged_in: Tab, tmp_path: Path):
    tab = logged_in
    for page in site_map(shop, tmp_path):
        tab.go(f"{server.url}{page}")
        for width, is_dark in ((360, False), (1280, True)):
            tab.resize(width, 800, dark=is_dark)
            assert tab.defects() == [], page
            assert tab.ask("document.documentElement.scrollWidth") <= width, page


def test_the_site_map_is_whole_and_each_page_is_there(shop: Shop, tmp_path: Path):
    run = {"registry": shop.folder / "registry.db"}
    visitor = Visitor(application(shop.folder, run=run, pages_limit=10**9))
    assert visitor.submit("/login", "/login", key=shop.key).status_code == 303

    found = {page: visitor.get(page) for page in site_map(shop, tmp_path)}

    assert {page for page, answer in found.items() if answer.status_code != 200} == {
        "/none", "/records/999"
    }  # fmt: skip
    titles = {parsed(answer).findtext(".//title") for answer in found.values()}
    routes = page_routes(tmp_path)
    assert len(titles) >= len(routes), "each page has a title of its own"
    links = parsed(found["/"]).xpath("//nav//a/@href")
    assert {route for route in routes if "{" not in route} - {"/login", "/jobs/new"} == set(links)


@pytest.mark.long
def test_a_run_is_watched_without_a_reload_and_ends(shop: Shop, server: Server, tab: Tab):
    database = registry_database(shop.folder / "registry.db")
    shop.desk.committed(Batch(is_sample=True), None, LATER + 10)
    with database.take("docs", "now"):
        tab.resize(1280, 800)
        tab.go(f"{server.url}/runs/3")
        assert "1 page done" in tab.ask("document.querySelector('#progress').innerText")
        assert tab.ask("document.querySelector('#live-hosts').innerText").strip() == ""
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
        shop.desk.write(shop.desk.visit(HOME, outcome=Outcome.NOT_MODIFIED, status=304))
        tab.wait("document.querySelector('#progress').innerText.includes('2 pages done')")
    shop.desk.seal("interrupted", now=LATER)
    tab.wait("document.querySelector('#progress').innerText.includes('It ended.')")
    before = tab.ask("performance.getEntriesByType('resource').length")
    tab.ask("new Promise(done => setTimeout(done, 2500))")
    assert tab.ask("performance.getEntriesByType('resource').length") == before  # it asks no more
    assert tab.complaints == []
